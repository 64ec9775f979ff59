import { isJSONRPCResultResponse, type JSONRPCMessage, type McpServer } from "@modelcontextprotocol/server";
import { createRefusalResult } from "../../agent/run/run-result.ts";
import type { Session } from "../../agent/session/session.ts";
import { createListTool, createSkillTool as tool } from "../../agent/tools/skill-tools.ts";
import { createHookAnswer, HOOK_FORMATS, type HookFormat, readHookInput } from "../../clients/prompt-hooks.ts";
import type { Skill } from "../../skill/skill.ts";
import type { CallOptions, Tool, ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import { findNearest } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { CHANGE_HINTS, READ_HINTS, RUN_HINTS, type ToolHints } from "./tool-envelope.ts";

/** How a tool of ours is listed, and what its result is for programs. */
export interface ServerToolRow {
  title: string;
  annotations: ToolHints;
  output?: {
    schema: JsonObject;
    of(result: ToolResult): JsonObject | undefined;
    /** What a list says that is empty. */
    ifEmpty?: string;
  };
  /** Only for people who write skills. */
  isForAuthors?: true;
  /** Only for prompt hooks: listed to clients that call tools from hooks, and callable by all. */
  isForHooks?: true;
  /** What a model needs before it can think of the rest. */
  isAtHand?: true;
  /** What of its input means nothing here. */
  lacks?: string;
}

const TEXT_SCHEMA = { type: "string" };
const SKILL_PARAMETER = {
  skill: { type: "string", says: "the skill's name", isRequired: true, also: ["skill_name"] },
} as const;

/** Every tool of ours, in the order in which it is listed. */
export const SERVER_TOOLS: Readonly<Record<string, ServerToolRow>> = {
  list_skills: {
    title: "List skills",
    annotations: READ_HINTS,
    isAtHand: true,
    output: createListOutput(
      {
        name: TEXT_SCHEMA,
        description: TEXT_SCHEMA,
        version: TEXT_SCHEMA,
        tags: { type: "array", items: TEXT_SCHEMA },
      },
      "there are no skills",
    ),
  },
  search_skills: {
    title: "Search skills",
    annotations: READ_HINTS,
    isAtHand: true,
    output: createListOutput(
      { name: TEXT_SCHEMA, description: TEXT_SCHEMA, why: TEXT_SCHEMA },
      "nothing fits; list_skills shows what there is",
    ),
  },
  // A server does not see what is in sight in a conversation, or whether it is the same one: so the instructions are given each time.
  load_skill: { title: "Load a skill", annotations: READ_HINTS, isAtHand: true, lacks: "again" },
  activate_skills_for: { title: "Load the skills for a topic", annotations: READ_HINTS },
  unload_skill: { title: "Unload a skill", annotations: READ_HINTS },
  read_skill_resource: { title: "Read a file of a skill", annotations: READ_HINTS },
  run_skill_script: { title: "Run a script of a skill", annotations: RUN_HINTS },
  use_skill: { title: "Hand a task to a skill", annotations: CHANGE_HINTS },
  call_skill_tool: { title: "Call a tool of a loaded skill", annotations: CHANGE_HINTS, isAtHand: true },
  validate_skill: {
    title: "Check a skill's structure",
    annotations: READ_HINTS,
    isForAuthors: true,
    output: createCheckOutput(),
  },
  lint_skill: {
    title: "Check a skill's style",
    annotations: READ_HINTS,
    isForAuthors: true,
    output: createCheckOutput(),
  },
  advise: { title: "Answer a prompt hook", annotations: READ_HINTS, isForHooks: true },
};

/** The skills of a listing that is a JSON array; what stands in it without a name says how many more there are, or what was not looked at. */
function createListOutput(properties: JsonObject, ifEmpty: string): NonNullable<ServerToolRow["output"]> {
  const item = { type: "object", properties, required: ["name", "description"] };
  const skills = { type: "array", items: item };
  return {
    ifEmpty,
    schema: {
      type: "object",
      properties: { skills, note: TEXT_SCHEMA, more: { type: "number" } },
      required: ["skills"],
    },
    of({ content }) {
      const entries = JSON.parse(content) as JsonObject[];
      const rest = entries.filter((entry) => entry["name"] === undefined);
      const skills = entries.filter((entry) => entry["name"] !== undefined);
      return Object.assign({ skills }, ...rest);
    },
  };
}

/** What was found in one skill, or in those of a folder. */
function createCheckOutput(): NonNullable<ServerToolRow["output"]> {
  const finding = {
    rule: TEXT_SCHEMA,
    severity: TEXT_SCHEMA,
    line: { type: "number" },
    message: TEXT_SCHEMA,
    fix: TEXT_SCHEMA,
  };
  const findings = { type: "array", items: { type: "object", properties: finding, required: ["rule", "severity"] } };
  const one = { skill: TEXT_SCHEMA, file: TEXT_SCHEMA, profile: TEXT_SCHEMA, isValid: { type: "boolean" }, findings };
  const skills = { type: "array", items: { type: "object", properties: one, required: ["skill", "findings"] } };
  return {
    schema: { type: "object", properties: { ...one, skills, more: { type: "number" } } },
    of: ({ content }) => JSON.parse(content),
  };
}

/** A listing with what is to be known besides. */
export function addListNote(result: ToolResult, ifEmpty: string, note: string | undefined): ToolResult {
  if (result.isError) return result;
  const entries = JSON.parse(result.content) as JsonObject[];
  const notes = [entries.length === 0 ? ifEmpty : [], note ?? []].flat();
  if (notes.length === 0) return result;
  // A skill may have a note of its own.
  const isNote = (entry: JsonObject) => entry["name"] === undefined && entry["note"] !== undefined;
  const [before] = entries.filter(isNote).map((entry) => entry["note"]);
  const rest = entries.filter((entry) => !isNote(entry));
  return { ...result, content: JSON.stringify([...rest, { note: [before ?? [], notes].flat().join(". ") }]) };
}

/** A schema without one of its properties. */
export function omitSchemaProperty(schema: JsonObject, lacking: string | undefined): JsonObject {
  const { properties } = schema;
  if (lacking === undefined || !isJsonObject(properties)) return schema;
  const { [lacking]: _, ...rest } = properties;
  return { ...schema, properties: rest };
}

export interface ClientToolOptions {
  /** Whether what is loaded is forgotten with the answer: then a call says which skill the tool is of. */
  isStateless?: boolean | undefined;
  /** Returns the name that the client gives itself. */
  clientName?(): string | undefined;
  /** Lists the skills within what the client takes. Defaults to the session's list. */
  list?(): Promise<ToolResult>;
}

/** The tools that only make sense to a client: what a conversation of ours does by itself. */
export function createClientTools(session: Session, options: ClientToolOptions): readonly Tool[] {
  const { isStateless = false, clientName = () => undefined, list = () => session.list() } = options;
  return [
    createListTool(list),
    createAdviseTool(session, clientName),
    tool(
      "activate_skills_for",
      "Loads the skills that a topic is about: gives their full instructions and the lists of their files. Follow them.",
      { topic: { type: "string", says: "what is to be done, in a few words", isRequired: true } },
      async ({ topic }, { signal }) =>
        (await session.activate(topic, { again: true, ...omitUndefined({ signal }) })).result,
    ),
    ...(isStateless ? [] : [createUnloadTool(session)]),
    ...(session.isReadOnly ? [] : [createCallTool(session, isStateless)]),
  ];
}

function createUnloadTool(session: Session): Tool {
  const says = "Unloads a skill that is not needed any more: its tools are taken from the list.";
  return tool("unload_skill", says, SKILL_PARAMETER, async ({ skill }) => unloadSkillByName(session, skill));
}

function unloadSkillByName(session: Session, name: string): ToolResult {
  const shown = sanitizeLine(name, 64);
  if (session.unload(name)) return { content: `Skill '${shown}' is unloaded.`, isError: false };
  const loaded = session.active.map((skill) => sanitizeLine(skill.name, 64)).join(", ");
  const content = `Skill '${shown}' is not loaded${loaded === "" ? "" : `; these are: ${loaded}`}.`;
  return { content, isError: false, code: "not-loaded" };
}

/** How a client reaches what a skill brings, where its list does not show it. */
function createCallTool(session: Session, isStateless: boolean): Tool {
  return tool(
    "call_skill_tool",
    isStateless
      ? "Calls a tool that a skill brings: one of those that load_skill named."
      : "Calls a tool that a loaded skill brought and that is not among your tools: one of those that load_skill named.",
    {
      skill: {
        type: "string",
        says: "the skill that brings it; not needed with the name that load_skill gave",
        also: ["skill_name"],
      },
      tool: { type: "string", says: "the tool's name, as load_skill gave it", isRequired: true },
      input: { type: "object", says: "the tool's input" },
    },
    ({ tool, skill, input = {} }, options) =>
      callSkillTool(session, { tool, input, skill: skill ?? findOwningSkill(session, tool), isStateless }, options),
  );
}

interface RequestedCall {
  tool: string;
  input: JsonObject;
  skill: string;
  isStateless: boolean;
}

async function callSkillTool(
  session: Session,
  { tool, input, skill, isStateless }: RequestedCall,
  options: CallOptions,
): Promise<ToolResult> {
  const isLoaded = session.active.some(({ name }) => name === skill);
  if (isStateless && !isLoaded) {
    // Nothing is loaded in a conversation that ends with this call: so the skill is, first.
    const loaded = await session.load(skill, omitUndefined({ signal: options.signal }));
    if (loaded.isError) return loaded;
  }
  await session.ready();
  const brought = session.tools.filter(({ owner }) => owner !== undefined);
  const called = brought.find((one) => hasName(one, tool)) ?? brought.find(({ name }) => name === `${skill}.${tool}`);
  if (called) return session.call(called.name, input, options);
  const revoked = session.revocationOf(tool) ?? session.revocationOf(`${skill}.${tool}`);
  if (revoked) return createRefusalResult([revoked]);
  const problems = session.toolProblems(skill);
  if (problems.length > 0) return createRefusalResult(problems);
  const then = suggestNextStep(session, brought, { tool, skill });
  return {
    content: `There is no tool "${sanitizeLine(tool, 128)}" that a skill brought: ${then}`,
    isError: true,
    code: "tool-unknown",
  };
}

/** What to do in place of calling what is not there. */
function suggestNextStep(
  session: Session,
  brought: readonly Tool[],
  { tool, skill }: Pick<RequestedCall, "tool" | "skill">,
): string {
  if (session.tools.some(({ name }) => name === tool)) return "call it by itself, where it is among your tools";
  const why = session.catalog.leftOut?.(skill);
  if (why) return `${why.message}: ${why.fix}`;
  const isLoaded = session.active.some(({ name }) => name === skill);
  if (!isLoaded && session.visible().some(({ name }) => name === skill))
    return `load_skill ${sanitizeLine(skill, 64)} first`;
  const names = brought.map(({ name }) => formatWireName(name));
  const near = findNearest(tool, names);
  if (near !== undefined) return `did you mean ${near}?`;
  return names.length === 0 ? "no skill is loaded that brings tools" : `there are ${names.join(", ")}`;
}

function hasName({ name }: Tool, written: string): boolean {
  return name === written || formatWireName(name) === written;
}

/** The skill that a tool's name begins with: of `a` and `a.b`, the longer one. */
function findOwningSkill(session: Session, tool: string): string {
  const isBefore = ({ name }: Skill) => tool.startsWith(`${name}.`) || tool.startsWith(`${formatWireName(name)}__`);
  const [longest] = session
    .visible()
    .filter(isBefore)
    .sort((a, b) => b.name.length - a.name.length);
  return longest?.name ?? tool.split(/__|\./)[0] ?? "";
}

/** The clients whose hooks call tools of MCP servers, by the names that they give themselves. */
const HOOK_CLIENTS: readonly { name: RegExp; format: HookFormat }[] = [
  { name: /^claude/i, format: HOOK_FORMATS.claude },
  { name: /^codex/i, format: HOOK_FORMATS.codex },
];

/** Answers a client's prompt hook in the client's own format. A problem gives the answer that adds nothing: a hook that fails may block the prompt. */
function createAdviseTool(session: Session, clientName: () => string | undefined): Tool {
  return tool(
    "advise",
    "For prompt hooks only: the client calls it with each prompt. Do not call it.",
    {
      prompt: { type: "string", says: "the user's prompt" },
      session_id: { type: "string", says: "the conversation" },
      source: { type: "string", says: "who wrote the prompt" },
      hook_event_name: { type: "string", says: "the event" },
    },
    async (sent) => {
      const format = findHookFormat(clientName()) ?? HOOK_FORMATS.claude;
      const { limit, counts, gives } = format;
      try {
        const { prompt = "", conversation, isSummarized } = readHookInput(format, sent) ?? {};
        const more = omitUndefined({ conversation, isSummarized });
        const advice = await session.advise(prompt, { limit, counts, gives, ...more });
        return { content: JSON.stringify(createHookAnswer(format, advice.text)), isError: false };
      } catch {
        return { content: JSON.stringify(format.neutral), isError: false };
      }
    },
  );
}

function findHookFormat(client = ""): HookFormat | undefined {
  return HOOK_CLIENTS.find(({ name }) => name.test(client))?.format;
}

/** Leaves tools for hooks out of the lists that other clients receive: their models would only pay for them. They can call them all the same. */
export function hideHookTools(
  mcp: McpServer,
  clientName: () => string | undefined,
  isForHooks: (tool: unknown) => boolean,
): void {
  const connect = mcp.connect.bind(mcp);
  mcp.connect = (transport) => {
    const send = transport.send.bind(transport);
    transport.send = (message, options) =>
      send(findHookFormat(clientName()) ? message : filterListedTools(message, isForHooks), options);
    return connect(transport);
  };
}

function filterListedTools(message: JSONRPCMessage, isLeftOut: (tool: unknown) => boolean): JSONRPCMessage {
  if (!isJSONRPCResultResponse(message) || !Array.isArray(message.result["tools"])) return message;
  const tools = message.result["tools"].filter(({ name }) => !isLeftOut(name));
  return { ...message, result: { ...message.result, tools } };
}
