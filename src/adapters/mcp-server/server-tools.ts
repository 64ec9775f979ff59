import { isJSONRPCResultResponse, type JSONRPCMessage, type McpServer } from "@modelcontextprotocol/server";
import { createRefusalResult } from "../../agent/run/run-result.ts";
import type { Session } from "../../agent/session/session.ts";
import { createSkillListResult, type SkillList } from "../../agent/session/session-disclosure.ts";
import { createListTool, createSkillTool as tool } from "../../agent/tools/skill-tools.ts";
import { formatProblem, type Problem } from "../../errors/problem.ts";
import {
  createHookAnswer,
  HOOK_FORMATS,
  type HookFormat,
  readHookInput,
} from "../../remote/clients/prompt-hook-config.ts";
import type { Skill } from "../../skill/skill.ts";
import type { CallOptions, Tool, ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import type { ServerScope } from "../../store/server-tokens.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import { findNearest } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { CHANGE_HINTS, READ_HINTS, RUN_HINTS, type ToolHints } from "./tool-envelope.ts";

/** The listing of an own tool. A tool with an output schema has the data of its result as structured content. */
export interface ServerToolRow {
  title: string;
  annotations: ToolHints;
  /** The scope that a caller needs. */
  scope: ServerScope;
  output?: {
    schema: JsonObject;
    /** The note for an empty list. */
    ifEmpty?: string;
  };
  /** Only for authors of skills. */
  isForAuthors?: true;
  /** Only for prompt hooks: listed to clients that call tools from hooks, and callable by all. */
  isForHooks?: true;
  /** Always loaded: a model needs it before the other tools. */
  alwaysLoad?: true;
  /** An input parameter without meaning here. */
  omitParam?: string;
}

const TEXT_SCHEMA = { type: "string" };
const SKILL_PARAMETER = {
  skill: { type: "string", description: "the skill's name", isRequired: true, aliases: ["skill_name"] },
} as const;

/** All own tools, in the order of the list. */
export const SERVER_TOOLS: Readonly<Record<string, ServerToolRow>> = {
  list_skills: {
    title: "List skills",
    annotations: READ_HINTS,
    scope: "list",
    alwaysLoad: true,
    output: createListOutput(
      {
        name: TEXT_SCHEMA,
        description: TEXT_SCHEMA,
        version: TEXT_SCHEMA,
        tags: { type: "array", items: TEXT_SCHEMA },
      },
      "no skills found",
    ),
  },
  search_skills: {
    title: "Search skills",
    annotations: READ_HINTS,
    scope: "list",
    alwaysLoad: true,
    output: createListOutput(
      { name: TEXT_SCHEMA, description: TEXT_SCHEMA, reason: TEXT_SCHEMA },
      "no skill matches; call list_skills to see all skills",
    ),
  },
  // A server does not know whether earlier instructions are still in the conversation, so it returns them each time.
  load_skill: { title: "Load a skill", annotations: READ_HINTS, scope: "load", alwaysLoad: true, omitParam: "again" },
  activate_skills_for: { title: "Load the skills for a topic", annotations: READ_HINTS, scope: "load" },
  unload_skill: { title: "Unload a skill", annotations: READ_HINTS, scope: "load" },
  read_skill_resource: { title: "Read a file of a skill", annotations: READ_HINTS, scope: "load" },
  run_skill_script: { title: "Run a script of a skill", annotations: RUN_HINTS, scope: "run" },
  use_skill: { title: "Hand a task to a skill", annotations: CHANGE_HINTS, scope: "use" },
  call_skill_tool: {
    title: "Call a tool of a loaded skill",
    annotations: CHANGE_HINTS,
    scope: "run",
    alwaysLoad: true,
  },
  validate_skill: {
    title: "Check a skill's structure",
    annotations: READ_HINTS,
    scope: "load",
    isForAuthors: true,
    output: createCheckOutput(),
  },
  lint_skill: {
    title: "Check a skill's style",
    annotations: READ_HINTS,
    scope: "load",
    isForAuthors: true,
    output: createCheckOutput(),
  },
  advise: { title: "Answer a prompt hook", annotations: READ_HINTS, scope: "load", isForHooks: true },
};

/** Returns the scope that a tool needs. A tool of a skill runs its code, or hands a task to it. */
export function getToolScope(name: string, tool?: Pick<Tool, "starts">): ServerScope {
  const row = Object.hasOwn(SERVER_TOOLS, name) ? SERVER_TOOLS[name] : undefined;
  return row?.scope ?? (tool?.starts === "use" ? "use" : "run");
}

/** Returns the problem of a caller without the scope; undefined if it has it. Without scopes, everything is allowed. */
export function findScopeProblem(
  scopes: ReadonlySet<ServerScope> | undefined,
  needed: ServerScope,
  tool: string,
): Problem | undefined {
  if (!scopes || scopes.has(needed)) return undefined;
  return {
    code: "token-scope",
    message: `The token of this client may not call ${sanitizeLine(tool, 128)}: it needs the scope ${needed}`,
    fix: "ask the operator of the server for a token with this scope",
  };
}

/** Creates the schema of a list of skills, with a note and the number of omitted skills. */
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
  };
}

/** Creates the schema of findings in one skill, or in those of a folder. */
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
  };
}

/** Adds a note to a listing. */
export function addListNote(result: ToolResult, ifEmpty: string, note: string | undefined): ToolResult {
  if (result.isError) return result;
  const list = (result.data ?? { skills: [] }) as SkillList;
  const notes = [list.note ?? [], list.skills.length === 0 ? ifEmpty : [], note ?? []].flat();
  return notes.length === 0 ? result : createSkillListResult({ ...list, note: notes.join(". ") });
}

/** Returns a schema without one of its properties. */
export function omitSchemaProperty(schema: JsonObject, lacking: string | undefined): JsonObject {
  const { properties } = schema;
  if (lacking === undefined || !isJsonObject(properties)) return schema;
  const { [lacking]: _, ...rest } = properties;
  return { ...schema, properties: rest };
}

export type AdmitCall = (signal: AbortSignal) => Promise<(() => void) | Problem>;

export interface ClientToolOptions {
  /** True if loaded skills are forgotten after each response: a call then names the skill of the tool. */
  isStateless?: boolean | undefined;
  /** The scopes of the caller. Defaults to all. */
  scopes?: ReadonlySet<ServerScope> | undefined;
  /** Waits until the caller may run code or a sub-agent. Returns the function to call afterwards, or the problem. */
  admit?: AdmitCall | undefined;
  /** Returns the name of the client. */
  clientName?(): string | undefined;
  /** Lists the skills within the client's limits. Defaults to the session's list. */
  list?(): Promise<ToolResult>;
}

/** Creates the tools that only clients need. A conversation of this program does the same by itself. */
export function createClientTools(session: Session, options: ClientToolOptions): readonly Tool[] {
  const { isStateless = false, clientName = () => undefined, list = () => session.listSkills() } = options;
  return [
    createListTool(list),
    createAdviseTool(session, clientName),
    tool(
      "activate_skills_for",
      "Loads the skills for a topic: returns their full instructions and the lists of their files. Follow them.",
      { topic: { type: "string", description: "the task, in a few words", isRequired: true } },
      async ({ topic }, { signal }) =>
        (await session.activate(topic, { again: true, ...omitUndefined({ signal }) })).result,
    ),
    ...(isStateless ? [] : [createUnloadTool(session)]),
    ...(session.isReadOnly ? [] : [createCallTool(session, isStateless, options.scopes)]),
  ];
}

function createUnloadTool(session: Session): Tool {
  const description = "Unloads a skill that is no longer needed, and removes its tools from the list.";
  return tool("unload_skill", description, SKILL_PARAMETER, async ({ skill }) => unloadSkillByName(session, skill));
}

function unloadSkillByName(session: Session, name: string): ToolResult {
  const shown = sanitizeLine(name, 64);
  if (session.unload(name)) return { text: `Skill '${shown}' is unloaded.`, isError: false };
  const loaded = session.active.map((skill) => sanitizeLine(skill.name, 64)).join(", ");
  const content = `Skill '${shown}' is not loaded${loaded === "" ? "" : `. Loaded skills: ${loaded}`}.`;
  return { text: content, isError: false, code: "not-loaded" };
}

/** Creates the tool that calls tools of skills, for clients whose list does not show them. */
function createCallTool(session: Session, isStateless: boolean, scopes: ClientToolOptions["scopes"]): Tool {
  return tool(
    "call_skill_tool",
    isStateless
      ? "Calls a tool of a skill. load_skill names these tools."
      : "Calls a tool of a loaded skill that is not in your list of tools. load_skill names these tools.",
    {
      skill: {
        type: "string",
        description: "the skill of the tool; not needed with the name shown by load_skill",
        aliases: ["skill_name"],
      },
      tool: { type: "string", description: "the tool's name, as shown by load_skill", isRequired: true },
      input: { type: "object", description: "the tool's input" },
    },
    ({ tool, skill, input = {} }, options) =>
      callSkillTool(
        session,
        { tool, input, skill: skill ?? findOwningSkill(session, tool), isStateless, scopes },
        options,
      ),
  );
}

interface RequestedCall {
  tool: string;
  input: JsonObject;
  skill: string;
  isStateless: boolean;
  scopes: ClientToolOptions["scopes"];
}

async function callSkillTool(
  session: Session,
  { tool, input, skill, isStateless, scopes }: RequestedCall,
  options: CallOptions,
): Promise<ToolResult> {
  const isLoaded = session.active.some(({ name }) => name === skill);
  if (isStateless && !isLoaded) {
    // Nothing is loaded in a session that lasts for one call, so the skill is loaded first.
    const loaded = await session.load(skill, omitUndefined({ signal: options.signal }));
    if (loaded.isError) return loaded;
  }
  await session.ready();
  const contributed = session.tools.filter(({ owner }) => owner !== undefined);
  const called =
    contributed.find((one) => hasName(one, tool)) ?? contributed.find(({ name }) => name === `${skill}.${tool}`);
  const unscoped = called && findScopeProblem(scopes, getToolScope(called.name, called), called.name);
  if (unscoped) return createRefusalResult([unscoped]);
  if (called) return session.call(called.name, input, options);
  const revoked = session.findRevocation(tool) ?? session.findRevocation(`${skill}.${tool}`);
  if (revoked) return createRefusalResult([revoked]);
  const problems = session.findToolProblems(skill);
  if (problems.length > 0) return createRefusalResult(problems);
  const then = suggestNextStep(session, contributed, { tool, skill });
  return {
    text: `No loaded skill has a tool "${sanitizeLine(tool, 128)}": ${then}`,
    isError: true,
    code: "tool-unknown",
  };
}

/** Suggests what to do instead of calling an unknown tool. */
function suggestNextStep(
  session: Session,
  contributed: readonly Tool[],
  { tool, skill }: Pick<RequestedCall, "tool" | "skill">,
): string {
  if (session.tools.some(({ name }) => name === tool)) return "call it directly, if it is in your list of tools";
  const why = session.catalog.explainExclusion?.(skill);
  if (why) return formatProblem(why);
  const isLoaded = session.active.some(({ name }) => name === skill);
  if (!isLoaded && session.listVisible().some(({ name }) => name === skill))
    return `call load_skill with ${sanitizeLine(skill, 64)} first`;
  const names = contributed.map(({ name }) => formatWireName(name));
  const near = findNearest(tool, names);
  if (near !== undefined) return `did you mean ${near}?`;
  return names.length === 0 ? "no loaded skill provides tools" : `available tools: ${names.join(", ")}`;
}

function hasName({ name }: Tool, written: string): boolean {
  return name === written || formatWireName(name) === written;
}

/** Finds the skill at the start of a tool's name: of `a` and `a.b`, the longer one. */
function findOwningSkill(session: Session, tool: string): string {
  const isBefore = ({ name }: Skill) => tool.startsWith(`${name}.`) || tool.startsWith(`${formatWireName(name)}__`);
  const [longest] = session
    .listVisible()
    .filter(isBefore)
    .sort((a, b) => b.name.length - a.name.length);
  return longest?.name ?? tool.split(/__|\./)[0] ?? "";
}

/** The clients whose hooks call tools of MCP servers, by client name. */
const HOOK_CLIENTS: readonly { name: RegExp; format: HookFormat }[] = [
  { name: /^claude/i, format: HOOK_FORMATS.claude },
  { name: /^codex/i, format: HOOK_FORMATS.codex },
];

/** Answers a client's prompt hook in the client's format. After a problem the answer adds nothing: a failing hook may block the prompt. */
function createAdviseTool(session: Session, clientName: () => string | undefined): Tool {
  return tool(
    "advise",
    "For prompt hooks only: the client calls it with each prompt. Do not call it.",
    {
      prompt: { type: "string", description: "the user's prompt" },
      session_id: { type: "string", description: "the conversation" },
      source: { type: "string", description: "who wrote the prompt" },
      hook_event_name: { type: "string", description: "the event" },
    },
    async (sent) => {
      const format = findHookFormat(clientName()) ?? HOOK_FORMATS.claude;
      const { limit, counts, gives } = format;
      try {
        const { prompt = "", conversation, isSummarized } = readHookInput(format, sent) ?? {};
        const more = omitUndefined({ conversation, isSummarized });
        const advice = await session.advise(prompt, { limit, counts, gives, ...more });
        return { text: JSON.stringify(createHookAnswer(format, advice.text)), isError: false };
      } catch {
        return { text: JSON.stringify(format.neutral), isError: false };
      }
    },
  );
}

function findHookFormat(client = ""): HookFormat | undefined {
  return HOOK_CLIENTS.find(({ name }) => name.test(client))?.format;
}

/** Omits tools for hooks from the lists of other clients: they would only cost tokens. They stay callable. */
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

function filterListedTools(message: JSONRPCMessage, isOmitted: (tool: unknown) => boolean): JSONRPCMessage {
  if (!isJSONRPCResultResponse(message) || !Array.isArray(message.result["tools"])) return message;
  const tools = message.result["tools"].filter(({ name }) => !isOmitted(name));
  return { ...message, result: { ...message.result, tools } };
}
