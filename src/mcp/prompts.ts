import {
  type CompleteResult,
  type GetPromptResult,
  type McpServer,
  type Prompt,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import type { Session } from "../session/session.ts";
import { defined } from "../shared/defined.ts";
import { inLine } from "../shared/prompt.ts";
import { nearest } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { shellQuoted } from "../skill/substitute.ts";
import { pathsFor } from "./skills.ts";
import { CATEGORY_KEY } from "./transform.ts";

/** The prompt that takes a skill's name, for clients with a long list; a skill of this name is its own prompt. */
const ANY = "skill";
/** As the Skills extension registers it. */
const TEMPLATE = "skill://{+path}";
const MOST = 100;

type Given = Readonly<Record<string, string>>;

/** Serves each skill that a person may call as a prompt. What is got is loaded: it stands in the conversation then. */
export function servePrompts(mcp: McpServer, session: Session, onLoaded: () => void): void {
  const { server } = mcp;
  server.setRequestHandler("prompts/list", async () => {
    await session.reload();
    const skills = session.visible("user");
    return { prompts: [...skills.map(promptOf), ...(skills.some(isAny) ? [] : [ANY_PROMPT])] };
  });
  server.setRequestHandler("prompts/get", async ({ params }, { mcpReq: { signal } }) => {
    const { skill, given } = await meant(session, params.name, params.arguments ?? {});
    const result = await promptFor(session, skill, { given, signal });
    onLoaded();
    return result;
  });
  server.setRequestHandler("completion/complete", async ({ params: { ref, argument } }) => {
    const { name = "", value = "" } = argument;
    if (ref.type === "ref/resource") {
      if (ref.uri === TEMPLATE) return completed(await pathsFor(session, value), value);
      throw invalid(`There is no resource template ${inLine(ref.uri, 200)}: there is ${TEMPLATE}`);
    }
    const isOurs = ref.name === ANY && !session.visible("user").some(isAny);
    if (isOurs) return completed(name === "name" ? namesOf(session) : [], value);
    await meant(session, ref.name, {});
    return completed([], value);
  });
}

const ANY_PROMPT: Prompt = {
  name: ANY,
  title: "Load a skill",
  description: "Loads a skill by its name",
  arguments: [
    { name: "name", description: "the skill's name", required: true },
    { name: "arguments", description: "what it is to work on" },
  ],
};

function isAny({ name }: Skill): boolean {
  return name === ANY;
}

function promptOf(skill: Skill): Prompt {
  const { title, argumentHint, briefDescription, arguments: names } = skill.manifest;
  const hint = argumentHint === undefined ? "what it is to work on" : inLine(argumentHint, 200);
  const whole = { name: "arguments", description: hint, required: false };
  return {
    name: skill.name,
    title: inLine(title ?? skill.name, 128),
    description: inLine(briefDescription),
    arguments: names.length === 0 ? [whole] : names.map((name) => ({ name: inLine(name, 64), required: false })),
    _meta: { [CATEGORY_KEY]: "skills" },
  };
}

async function meant(session: Session, name: string, given: Given): Promise<{ skill: Skill; given: Given }> {
  const called = await find(session, name);
  if (called) return { skill: called, given };
  if (name !== ANY) throw unknown(session, "prompt", name);
  const { name: wanted, ...rest } = given;
  if (wanted === undefined || wanted === "") throw invalid('"name" is missing: the skill to load');
  const skill = await find(session, wanted);
  if (!skill) throw unknown(session, "skill", wanted);
  return { skill, given: rest };
}

/** What was just made is found too. */
async function find(session: Session, name: string): Promise<Skill | undefined> {
  const among = () => session.visible("user").find((skill) => skill.name === name);
  const known = among();
  if (known) return known;
  await session.reload();
  return among();
}

async function promptFor(
  session: Session,
  skill: Skill,
  { given, signal }: { given: Given; signal: AbortSignal },
): Promise<GetPromptResult> {
  const written = asWritten(skill, given);
  const description = inLine(skill.manifest.briefDescription);
  const result = await session.load(skill.name, {
    by: "user",
    again: true,
    signal,
    ...defined({ arguments: written }),
  });
  if (result.isError) throw invalid(result.content);
  return { description, messages: [said(result.content)] };
}

/** As a person would have written it behind the skill's name: the named ones in their order. */
function asWritten(skill: Skill, given: Given): string | undefined {
  const names = skill.manifest.arguments;
  const unknown = Object.keys(given).find((name) => name !== "arguments" && !names.includes(name));
  if (unknown !== undefined) {
    const takes = names.length === 0 ? "arguments" : names.map((name) => inLine(name, 64)).join(", ");
    throw invalid(`Skill '${inLine(skill.name, 64)}' takes no "${inLine(unknown, 64)}"; it takes ${takes}`);
  }
  const values = names.map((name) => given[name]);
  const last = values.findLastIndex((value) => value !== undefined && value !== "");
  const named = values
    .slice(0, last + 1)
    .map((value = "") => (/^[\w@%+=:,./-]+$/.test(value) ? value : shellQuoted(value)));
  const rest = names.includes("arguments") ? undefined : given["arguments"];
  const written = [...named, ...(rest ? [rest] : [])].join(" ");
  return written === "" ? undefined : written;
}

function said(text: string): GetPromptResult["messages"][number] {
  return { role: "user", content: { type: "text", text } };
}

function namesOf(session: Session): string[] {
  return session.visible("user").map(({ name }) => name);
}

/** What begins so, else what has it in it. */
function completed(all: readonly string[], value: string): CompleteResult {
  const lower = value.toLowerCase();
  const beginning = all.filter((name) => name.toLowerCase().startsWith(lower));
  const values = beginning.length > 0 ? beginning : all.filter((name) => name.toLowerCase().includes(lower));
  return { completion: { values: values.slice(0, MOST), total: values.length, hasMore: values.length > MOST } };
}

function unknown(session: Session, what: "prompt" | "skill", name: string): ProtocolError {
  const why = session.catalog.leftOut?.(name);
  if (why) return invalid(`${why.message}: ${why.fix}`);
  const near = nearest(name, namesOf(session));
  return invalid(
    `There is no ${what} "${inLine(name, 64)}"${near === undefined ? "" : `: did you mean "${inLine(near, 64)}"?`}`,
  );
}

function invalid(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}
