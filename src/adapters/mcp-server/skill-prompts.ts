import {
  type CompleteResult,
  type GetPromptResult,
  type McpServer,
  type Prompt,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import type { Session } from "../../agent/session/session.ts";
import type { Skill } from "../../skill/skill.ts";
import { omitUndefined } from "../../util/objects.ts";
import { quoteShellArgument } from "../../util/shell-quote.ts";
import { findNearest } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { completeSkillPaths } from "./skill-resources.ts";
import { CATEGORY_KEY } from "./tool-envelope.ts";

/** The prompt that takes a skill's name, for clients with a long list; a skill of this name is its own prompt. */
const GENERIC_PROMPT_NAME = "skill";
/** As the Skills extension registers it. */
const RESOURCE_TEMPLATE = "skill://{+path}";
const MAX_COMPLETIONS = 100;

type PromptArguments = Readonly<Record<string, string>>;

/** Serves each skill that a person may call as a prompt. What is got is loaded: it stands in the conversation then. */
export function serveSkillPrompts(mcp: McpServer, session: Session, onLoaded: () => void): void {
  const { server } = mcp;
  server.setRequestHandler("prompts/list", async () => {
    await session.reload();
    const skills = session.visible("user");
    return { prompts: [...skills.map(createPrompt), ...(skills.some(hasGenericName) ? [] : [GENERIC_PROMPT])] };
  });
  server.setRequestHandler("prompts/get", async ({ params }, { mcpReq: { signal } }) => {
    const { skill, given } = await resolvePrompt(session, params.name, params.arguments ?? {});
    const result = await renderPrompt(session, skill, { given, signal });
    onLoaded();
    return result;
  });
  server.setRequestHandler("completion/complete", async ({ params: { ref, argument } }) => {
    const { name = "", value = "" } = argument;
    if (ref.type === "ref/resource") {
      if (ref.uri === RESOURCE_TEMPLATE) return completeValue(await completeSkillPaths(session, value), value);
      throw createInvalidParamsError(
        `There is no resource template ${sanitizeLine(ref.uri, 200)}: there is ${RESOURCE_TEMPLATE}`,
      );
    }
    const isOurs = ref.name === GENERIC_PROMPT_NAME && !session.visible("user").some(hasGenericName);
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
    { name: "arguments", description: "what it is to work on" },
  ],
};

function hasGenericName({ name }: Skill): boolean {
  return name === GENERIC_PROMPT_NAME;
}

function createPrompt(skill: Skill): Prompt {
  const { title, argumentHint, briefDescription, arguments: names } = skill.manifest;
  const hint = argumentHint === undefined ? "what it is to work on" : sanitizeLine(argumentHint, 200);
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
  given: PromptArguments,
): Promise<{ skill: Skill; given: PromptArguments }> {
  const called = await findPromptSkill(session, name);
  if (called) return { skill: called, given };
  if (name !== GENERIC_PROMPT_NAME) throw createUnknownNameError(session, "prompt", name);
  const { name: wanted, ...rest } = given;
  if (wanted === undefined || wanted === "") throw createInvalidParamsError('"name" is missing: the skill to load');
  const skill = await findPromptSkill(session, wanted);
  if (!skill) throw createUnknownNameError(session, "skill", wanted);
  return { skill, given: rest };
}

/** What was just made is found too. */
async function findPromptSkill(session: Session, name: string): Promise<Skill | undefined> {
  const among = () => session.visible("user").find((skill) => skill.name === name);
  const known = among();
  if (known) return known;
  await session.reload();
  return among();
}

async function renderPrompt(
  session: Session,
  skill: Skill,
  { given, signal }: { given: PromptArguments; signal: AbortSignal },
): Promise<GetPromptResult> {
  const written = formatPromptArguments(skill, given);
  const description = sanitizeLine(skill.manifest.briefDescription);
  const result = await session.load(skill.name, {
    by: "user",
    again: true,
    signal,
    ...omitUndefined({ arguments: written }),
  });
  if (result.isError) throw createInvalidParamsError(result.content);
  return { description, messages: [createUserMessage(result.content)] };
}

/** As a person would have written it behind the skill's name: the named ones in their order. */
function formatPromptArguments(skill: Skill, given: PromptArguments): string | undefined {
  const names = skill.manifest.arguments;
  const unknown = Object.keys(given).find((name) => name !== "arguments" && !names.includes(name));
  if (unknown !== undefined) {
    const takes = names.length === 0 ? "arguments" : names.map((name) => sanitizeLine(name, 64)).join(", ");
    throw createInvalidParamsError(
      `Skill '${sanitizeLine(skill.name, 64)}' takes no "${sanitizeLine(unknown, 64)}"; it takes ${takes}`,
    );
  }
  const values = names.map((name) => given[name]);
  const last = values.findLastIndex((value) => value !== undefined && value !== "");
  const named = values
    .slice(0, last + 1)
    .map((value = "") => (/^[\w@%+=:,./-]+$/.test(value) ? value : quoteShellArgument(value)));
  const rest = names.includes("arguments") ? undefined : given["arguments"];
  const written = [...named, ...(rest ? [rest] : [])].join(" ");
  return written === "" ? undefined : written;
}

function createUserMessage(text: string): GetPromptResult["messages"][number] {
  return { role: "user", content: { type: "text", text } };
}

function listPromptNames(session: Session): string[] {
  return session.visible("user").map(({ name }) => name);
}

/** What begins so, else what has it in it. */
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
  const why = session.catalog.leftOut?.(name);
  if (why) return createInvalidParamsError(`${why.message}: ${why.fix}`);
  const near = findNearest(name, listPromptNames(session));
  return createInvalidParamsError(
    `There is no ${what} "${sanitizeLine(name, 64)}"${near === undefined ? "" : `: did you mean "${sanitizeLine(near, 64)}"?`}`,
  );
}

function createInvalidParamsError(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}
