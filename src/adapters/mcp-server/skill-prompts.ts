import {
  type CompleteResult,
  type GetPromptResult,
  type McpServer,
  type Prompt,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import type { Session } from "../../agent/session/session.ts";
import {
  CLIENT_LISTINGS,
  findClientByMcpName,
  type ListingClient,
  type McpTextLimits,
  UNKNOWN_CLIENT_LIMITS,
} from "../../catalog/client-listings.ts";
import { isOfferedByDefault } from "../../catalog/listing.ts";
import { formatProblem } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { omitUndefined } from "../../util/objects.ts";
import { findNearest, formatCount, quoteShellArgument } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { completeSkillPaths } from "./skill-resources.ts";
import { CATEGORY_KEY } from "./tool-envelope.ts";

/** The prompt that takes a skill's name, for clients with a long list. A skill of this name replaces it. */
const GENERIC_PROMPT_NAME = "skill";
/** As registered by the Skills extension. */
const RESOURCE_TEMPLATE = "skill://{+path}";
const MAX_COMPLETIONS = 100;

type PromptArguments = Readonly<Record<string, string>>;

/** Serves each skill that a user may call as a prompt. Getting a prompt loads the skill: its text is then in the conversation. */
export function serveSkillPrompts(mcp: McpServer, session: Session, onLoaded: () => void): void {
  const { server } = mcp;
  server.setRequestHandler("prompts/list", async () => {
    await session.reload();
    const skills = session.listVisible("user");
    return { prompts: [...skills.map(createPrompt), ...(skills.some(hasGenericName) ? [] : [GENERIC_PROMPT])] };
  });
  server.setRequestHandler("prompts/get", async ({ params }, { mcpReq: { signal } }) => {
    const { skill, args } = await resolvePrompt(session, params.name, params.arguments ?? {});
    const result = await renderPrompt(session, skill, { args, signal });
    onLoaded();
    return result;
  });
  server.setRequestHandler("completion/complete", async ({ params: { ref, argument } }) => {
    const { name = "", value = "" } = argument;
    if (ref.type === "ref/resource") {
      if (ref.uri === RESOURCE_TEMPLATE) return completeValue(await completeSkillPaths(session, value), value);
      throw createInvalidParamsError(
        `Unknown resource template ${sanitizeLine(ref.uri, 200)}. Use ${RESOURCE_TEMPLATE}`,
      );
    }
    const isOurs = ref.name === GENERIC_PROMPT_NAME && !session.listVisible("user").some(hasGenericName);
    if (isOurs) return completeValue(name === "name" ? listPromptNames(session) : [], value);
    await resolvePrompt(session, ref.name, {});
    return completeValue([], value);
  });
}

const GENERIC_PROMPT: Prompt = {
  name: GENERIC_PROMPT_NAME,
  title: "Load a skill",
  description: "Loads a skill by its name",
  arguments: [
    { name: "name", description: "the skill's name", required: true },
    { name: "arguments", description: "input for the skill" },
  ],
};

function hasGenericName({ name }: Skill): boolean {
  return name === GENERIC_PROMPT_NAME;
}

function createPrompt(skill: Skill): Prompt {
  const { title, argumentHint, briefDescription, arguments: names } = skill.manifest;
  const hint = argumentHint === undefined ? "input for the skill" : sanitizeLine(argumentHint, 200);
  const whole = { name: "arguments", description: hint, required: false };
  return {
    name: skill.name,
    title: sanitizeLine(title ?? skill.name, 128),
    description: sanitizeLine(briefDescription),
    arguments: names.length === 0 ? [whole] : names.map((name) => ({ name: sanitizeLine(name, 64), required: false })),
    _meta: { [CATEGORY_KEY]: "skills" },
  };
}

async function resolvePrompt(
  session: Session,
  name: string,
  args: PromptArguments,
): Promise<{ skill: Skill; args: PromptArguments }> {
  const called = await findPromptSkill(session, name);
  if (called) return { skill: called, args };
  if (name !== GENERIC_PROMPT_NAME) throw createUnknownNameError(session, "prompt", name);
  const { name: requested, ...rest } = args;
  if (requested === undefined || requested === "")
    throw createInvalidParamsError('"name" is missing. Pass the name of the skill to load');
  const skill = await findPromptSkill(session, requested);
  if (!skill) throw createUnknownNameError(session, "skill", requested);
  return { skill, args: rest };
}

/** Finds a skill, also one that was just created. */
async function findPromptSkill(session: Session, name: string): Promise<Skill | undefined> {
  const among = () => session.listVisible("user").find((skill) => skill.name === name);
  const known = among();
  if (known) return known;
  await session.reload();
  return among();
}

async function renderPrompt(
  session: Session,
  skill: Skill,
  { args, signal }: { args: PromptArguments; signal: AbortSignal },
): Promise<GetPromptResult> {
  const written = formatPromptArguments(skill, args);
  const description = sanitizeLine(skill.manifest.briefDescription);
  const result = await session.load(skill.name, {
    by: "user",
    again: true,
    signal,
    ...omitUndefined({ arguments: written }),
  });
  if (result.isError) throw createInvalidParamsError(result.text);
  return { description, messages: [createUserMessage(result.text)] };
}

/** Formats the arguments as a user would write them after the skill's name: named ones in their order. */
function formatPromptArguments(skill: Skill, args: PromptArguments): string | undefined {
  const names = skill.manifest.arguments;
  const unknown = Object.keys(args).find((name) => name !== "arguments" && !names.includes(name));
  if (unknown !== undefined) {
    const takes = names.length === 0 ? "arguments" : names.map((name) => sanitizeLine(name, 64)).join(", ");
    throw createInvalidParamsError(
      `Skill '${sanitizeLine(skill.name, 64)}' has no argument "${sanitizeLine(unknown, 64)}". Arguments: ${takes}`,
    );
  }
  const values = names.map((name) => args[name]);
  const last = values.findLastIndex((value) => value !== undefined && value !== "");
  const named = values
    .slice(0, last + 1)
    .map((value = "") => (/^[\w@%+=:,./-]+$/.test(value) ? value : quoteShellArgument(value)));
  const rest = names.includes("arguments") ? undefined : args["arguments"];
  const written = [...named, ...(rest ? [rest] : [])].join(" ");
  return written === "" ? undefined : written;
}

function createUserMessage(text: string): GetPromptResult["messages"][number] {
  return { role: "user", content: { type: "text", text } };
}

function listPromptNames(session: Session): string[] {
  return session.listVisible("user").map(({ name }) => name);
}

/** Completes by prefix, else by substring. */
function completeValue(all: readonly string[], value: string): CompleteResult {
  const lower = value.toLowerCase();
  const beginning = all.filter((name) => name.toLowerCase().startsWith(lower));
  const values = beginning.length > 0 ? beginning : all.filter((name) => name.toLowerCase().includes(lower));
  return {
    completion: {
      values: values.slice(0, MAX_COMPLETIONS),
      total: values.length,
      hasMore: values.length > MAX_COMPLETIONS,
    },
  };
}

function createUnknownNameError(session: Session, what: "prompt" | "skill", name: string): ProtocolError {
  const why = session.catalog.explainExclusion?.(name);
  if (why) return createInvalidParamsError(formatProblem(why));
  const near = findNearest(name, listPromptNames(session));
  return createInvalidParamsError(
    `Unknown ${what} "${sanitizeLine(name, 64)}"${near === undefined ? "" : `: did you mean "${sanitizeLine(near, 64)}"?`}`,
  );
}

function createInvalidParamsError(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

/** The texts that list the served skills for a client's model. */
export interface ServedListing {
  instructions: string;
  /** The description of `load_skill`. */
  loadDescription: string;
}

export interface ServedListingOptions {
  /** Comes before the text about skills. */
  before?: string | undefined;
  /** Comes after the list. */
  after?: string | undefined;
  /** The description of `load_skill` without the list. */
  loadDescription: string;
  /** Names of skills to omit, because the client lists them itself. */
  omitted?: ReadonlySet<string>;
}

/** Returns a sentence for the model about the skills that the client lists itself; undefined for an empty set. */
export function formatOmittedNote(session: Session, names: ReadonlySet<string>): string | undefined {
  const { length } = session.listVisible().filter((skill) => names.has(skill.name) && isOfferedByDefault(skill));
  if (length === 0) return undefined;
  return `${formatCount(length, "more skill")} ${length === 1 ? "is" : "are"} not repeated here: see your own list of skills`;
}

/** Finds the client of the table with this name. */
export function findListingClient(clientName: string | undefined): ListingClient | undefined {
  return clientName === undefined ? undefined : findClientByMcpName(clientName);
}

/** Returns how much of a server's texts the client with this name passes to its model. */
export function getListingRoom(clientName: string | undefined): McpTextLimits {
  const client = findListingClient(clientName);
  return client === undefined ? UNKNOWN_CLIENT_LIMITS : CLIENT_LISTINGS[client].mcp;
}

const NO_NAMES: ReadonlySet<string> = new Set();
const HEADING =
  "Skills contain instructions for certain tasks. When one fits the request, load it with load_skill before you answer, and follow it.";
const TOOLS_NOTE =
  " A loaded skill may provide tools, named skill__tool. If your list of tools does not show them, call them with call_skill_tool.";
const CONTINUES_NOTE = "\n(the list continues in the description of load_skill)";
const CONTINUED_HEADING = "The list of skills, continued:\n";
const LISTED_ELSEWHERE_NOTE = "The description of load_skill lists the skills.";

/**
 * Lists the skills where a client's model sees them: in the instructions, continued in the description of `load_skill`; only there if the
 * client drops instructions. An unknown client may drop them, so it gets the list in both, each within a safe length.
 */
export async function formatServedListing(
  session: Session,
  room: McpTextLimits,
  options: ServedListingOptions,
): Promise<ServedListing> {
  const { before, loadDescription, omitted = NO_NAMES } = options;
  const note = formatOmittedNote(session, omitted);
  const after = [note === undefined ? "" : `(${note})`, options.after ?? ""].filter(isNonEmpty).join("\n\n");
  const isLeftOut = ({ name }: Skill) => omitted.has(name);
  const list = (max: number) => session.formatListing({ room: max, isOmitted: isLeftOut });
  // The static list has its own sentences on when to invoke a skill.
  const heading = session.disclosureMode === "static" ? "" : session.isReadOnly ? HEADING : HEADING + TOOLS_NOTE;
  const inInstructions = (...list: string[]) =>
    [before ?? [], heading, list, after].flat().filter(isNonEmpty).join("\n\n");
  const inDescription = (list: string) => [loadDescription, list].filter(isNonEmpty).join("\n\n");
  const roomAbove = Math.max(0, room.instructions - inInstructions("").length - 2);
  const roomBelow = Math.max(0, room.toolDescription - inDescription("").length - 2);
  if (room === UNKNOWN_CLIENT_LIMITS) {
    const [above, below] = await Promise.all([roomAbove, roomBelow].map(list));
    return { instructions: inInstructions(above ?? ""), loadDescription: inDescription(below ?? "") };
  }
  if (room.instructions === 0) {
    const text = await list(roomBelow - after.length - 2);
    const below = [text, after].filter(isNonEmpty).join("\n\n");
    return {
      instructions: inInstructions(text === "" ? "" : LISTED_ELSEWHERE_NOTE),
      loadDescription: inDescription(below),
    };
  }
  const { above, below } = await splitServedList(list, roomAbove, roomBelow);
  return { instructions: inInstructions(above), loadDescription: inDescription(below) };
}

/** Splits one list over two texts. Lines are not divided, so the room shrinks until the second part fits. */
async function splitServedList(
  list: (room: number) => Promise<string>,
  roomAbove: number,
  roomBelow: number,
): Promise<{ above: string; below: string }> {
  const whole = await list(roomAbove);
  // If there is room for everything, the list has the whole budget.
  let room = roomAbove + roomBelow - CONTINUES_NOTE.length - CONTINUED_HEADING.length;
  let text = await list(room);
  if (text.length <= roomAbove) return { above: text, below: "" };
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const [above, below] = divideList(text, roomAbove - CONTINUES_NOTE.length);
    const excess = below.length + CONTINUED_HEADING.length - roomBelow;
    if (above !== "" && excess <= 0) return { above: above + CONTINUES_NOTE, below: CONTINUED_HEADING + below };
    room -= Math.max(excess, 1);
    if (room <= roomAbove) break;
    text = await list(room);
  }
  return { above: whole, below: "" };
}

const MAX_TRIES = 8;

/** Divides a list at the end of a line, or of a name in a list of names. */
function divideList(text: string, max: number): [string, string] {
  for (const end of ["\n", ", "]) {
    const at = text.lastIndexOf(end, max);
    if (at > 0) return [text.slice(0, at), text.slice(at + end.length)];
  }
  return ["", text];
}

function isNonEmpty(text: string): boolean {
  return text !== "";
}
