import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { ADVICE_LIMIT, type Advice, type AdviseContext, advise } from "../../agent/session/advise.ts";
import { SkillError } from "../../errors/problem.ts";
import { type ClientWith, getProgramTitle, type HookRules, listClientFacts } from "../../skill/clients.ts";
import { resolveClientFolder } from "../../skill/source/locations.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import { quoteIfNeeded } from "../../util/text.ts";
import { type JsonPath, removeJsoncValue, setJsoncValue } from "./jsonc.ts";
import { type ClientConfigEntry, type ConfigScope, isTable, type McpClientEnvironment } from "./mcp-clients.ts";
import { createBlockedPathError, ensureJsonObject, JSON_LANGUAGE } from "./mcp-config.ts";

/** The input and output format of a client's prompt hook. */
export interface HookFormat extends HookRules, Required<Pick<AdviseContext, "limit" | "counts" | "gives">> {
  title: string;
  counts: AdviseContext["counts"] & string;
  gives: AdviseContext["gives"] & string;
  /** The answer that adds nothing. */
  neutral: JsonObject;
}

/** The parts of a hook's input that are used. */
export interface HookInput {
  /** Empty for a prompt that no user wrote. */
  prompt: string;
  conversation?: string;
  cwd?: string;
  /** True if the client has summarized the conversation: the input is not about a prompt. */
  isSummarized?: true;
}

const HOOK_DEFAULTS = { limit: ADVICE_LIMIT, counts: "characters", gives: "instructions", neutral: {} } as const;

type HookClient = ClientWith<"hook">;

/** Every client with a prompt hook, from THE table of clients. */
export const HOOK_FORMATS = Object.fromEntries(
  listClientFacts("hook").map(([name, rules]): [HookClient, HookFormat] => [
    name,
    { title: getProgramTitle(name), ...HOOK_DEFAULTS, ...rules },
  ]),
) as Readonly<Record<HookClient, HookFormat>>;

export function findHookFormat(client: string): HookFormat | undefined {
  return Object.hasOwn(HOOK_FORMATS, client) ? HOOK_FORMATS[client as HookClient] : undefined;
}

/**
 * Reads the input of a hook. Undefined without a prompt. A placeholder that the client left in place, such as
 * `${session_id}`, counts as absent.
 */
export function readHookInput(format: HookFormat, sent: unknown): HookInput | undefined {
  if (!isJsonObject(sent)) return undefined;
  const { input, summaries = [], nonUserSources: otherSources = [], quotesPrompt: quotes } = format;
  const textAt = (keys: readonly string[]) => {
    const values = keys.map((key) => (Object.hasOwn(sent, key) ? sent[key] : undefined));
    const texts = values.map((value) => (Array.isArray(value) ? value[0] : value));
    return texts.find((text): text is string => typeof text === "string" && text !== "" && !PLACEHOLDER.test(text));
  };
  const place = omitUndefined({ conversation: textAt(input.conversation), cwd: textAt(input.cwd) });
  if (summaries.includes(String(sent["hook_event_name"]))) return { prompt: "", isSummarized: true, ...place };
  const written = textAt(input.prompt);
  if (written === undefined) return undefined;
  const isFromUser = !otherSources.includes(String(sent["source"]));
  return { prompt: !isFromUser ? "" : quotes ? written.replace(QUOTED_PROMPT, "$1") : written, ...place };
}

const QUOTED_PROMPT = /^"([\s\S]*)"$/;
const PLACEHOLDER = /^\$\{\w+\}$/;

/** Returns the answer for the client; the neutral one for an empty text. */
export function createHookAnswer(format: HookFormat, text: string): JsonObject {
  const { neutral, answerKey, event, escapesAnswer: escapes } = format;
  if (text === "") return neutral;
  const shown = escapes ? text.replaceAll("&lt;", "\u2039") : text;
  if (answerKey === undefined)
    return { ...neutral, hookSpecificOutput: { hookEventName: event, additionalContext: shown } };
  return { ...neutral, [answerKey]: shown };
}

/** The advice on a client's prompt, and the answer that delivers it. */
export interface HookAdvice {
  advice: Advice;
  answer: JsonObject;
}

/** Advises on a prompt within a client's limits. */
export async function adviseClient(
  format: HookFormat,
  prompt: string,
  context: Omit<AdviseContext, "limit" | "counts" | "gives">,
): Promise<HookAdvice> {
  const { limit, counts, gives } = format;
  const advice = await advise(prompt, { ...context, limit, counts, gives });
  return { advice, answer: createHookAnswer(format, advice.text) };
}

/** The program that a hook starts: Node and the path of skillet. */
export interface HookProgram {
  command: string;
  args: readonly string[];
}

/** The way the client gets the advice: from the running server, or from a process per prompt. */
export type HookKind = "mcp_tool" | "command";

interface HookTarget {
  /** Name of the server in the client's configuration. */
  server: string;
  program: HookProgram;
  kind: HookKind;
}

/** A handler in a JSON file. */
export interface JsonHook {
  file(scope: ConfigScope, environment: McpClientEnvironment): string;
  event: string;
  /** Handlers are in groups: `[{ "hooks": [handler] }]`. */
  isGrouped?: true;
  /** The version at the start of the file. */
  version?: number;
  /** True if the file has no other content: it is deleted with the handler. */
  isOwnFile?: true;
  /** True if the client can call a tool of the server instead of starting a process. */
  callsTools?: true;
  handler(target: HookTarget): ClientConfigEntry;
  /** The event before the client summarizes a conversation: then the hook forgets what the conversation received. */
  summary?: { event: string; handler(target: HookTarget): ClientConfigEntry };
}

/** A plugin in its own file. */
export interface PluginHook {
  file(scope: ConfigScope, environment: McpClientEnvironment): string;
  plugin(target: HookTarget): string;
}

type PromptHookConfig = JsonHook | PluginHook;

/** The MCP tool whose text is the hook's output. */
export const ADVISE_TOOL_NAME = "advise";

/** The time that a client waits for the advice. It continues without it. */
const HOOK_TIMEOUT_SECONDS = 10;

/**
 * The prompt hook of each client, one row each. VS Code has no known one. Codex asks for trust again whenever a handler
 * changes, so a handler contains nothing that changes between two calls of `connect`.
 */
export const PROMPT_HOOKS: Readonly<Record<string, PromptHookConfig>> = {
  claude: {
    ...createHookPlace("claude"),
    isGrouped: true,
    callsTools: true,
    // The source distinguishes the user's prompts from texts that Claude Code adds; an unknown placeholder stays empty.
    handler: (target) => ({
      ...createHandler("claude", target, { prompt: `\${prompt}`, source: `\${source}` }),
      timeout: HOOK_TIMEOUT_SECONDS,
    }),
    summary: {
      event: "PreCompact",
      handler: (target) => ({
        ...createHandler("claude", target, { hook_event_name: "PreCompact" }),
        timeout: HOOK_TIMEOUT_SECONDS,
      }),
    },
  },
  codex: {
    ...createHookPlace("codex"),
    isGrouped: true,
    callsTools: true,
    // Without it, Codex truncates at about 2,500 tokens.
    handler: (target) => ({
      ...createHandler("codex", target),
      timeout: HOOK_TIMEOUT_SECONDS,
      additionalContextLimit: 10_000,
    }),
  },
  gemini: {
    ...createHookPlace("gemini"),
    isGrouped: true,
    handler: createGeminiHandler,
    summary: { event: "PreCompress", handler: createGeminiHandler },
  },
  copilot: {
    ...createHookPlace("copilot"),
    version: 1,
    isOwnFile: true,
    handler: (target) => ({
      type: "command",
      bash: formatHookCommand("copilot", target),
      timeoutSec: HOOK_TIMEOUT_SECONDS,
    }),
  },
  cursor: {
    ...createHookPlace("cursor"),
    version: 1,
    handler: (target) => ({ command: formatHookCommand("cursor", target) }),
  },
  opencode: {
    ...createHookPlace("opencode"),
    plugin: (target) => formatOpencodePlugin(createHookCommand("opencode", target), HOOK_TIMEOUT_SECONDS),
  },
};

/** Returns the file and the event of a client's hook. */
function createHookPlace(client: HookClient): Pick<JsonHook, "file" | "event"> {
  const { file, event } = HOOK_FORMATS[client];
  return { file: (scope, environment) => join(resolveClientFolder(client, scope, environment), ...file), event };
}

/** Keys of a handler that name the program or tool. The others are settings, which the user may change. */
const HANDLER_CALL_KEYS = ["type", "server", "tool", "input", "command", "bash"];

/** Returns true if a handler gets the advice of skillet: from the server of this name, or from a command. */
export function isSkilletHandler(handler: ClientConfigEntry, client: string, server: string): boolean {
  if (handler["type"] === "mcp_tool") return handler["server"] === server && handler["tool"] === ADVISE_TOOL_NAME;
  const line = handler["command"] ?? handler["bash"];
  return (
    typeof line === "string" && new RegExp(`(?:^|[\\s/\\\\])skillet(?:\\.cjs|\\.cmd)?['"]? hook ${client}$`).test(line)
  );
}

/** Returns the words of the command that prints the advice for a client. */
export function createHookCommand(client: string, { program }: Pick<HookTarget, "program">): string[] {
  return [program.command, ...program.args, "hook", client];
}

/** Returns the command as a line for a shell. */
export function formatHookCommand(client: string, target: Pick<HookTarget, "program">): string {
  return createHookCommand(client, target).map(quoteIfNeeded).join(" ");
}

/**
 * Creates a handler. `input` is for the tool, in addition to the conversation. A command reads the client's own input.
 */
function createHandler(
  client: string,
  target: HookTarget,
  input: ClientConfigEntry = { prompt: `\${prompt}` },
): ClientConfigEntry {
  if (target.kind === "command") return { type: "command", command: formatHookCommand(client, target) };
  return {
    type: "mcp_tool",
    server: target.server,
    tool: ADVISE_TOOL_NAME,
    input: { ...input, session_id: `\${session_id}` },
  };
}

function createGeminiHandler(target: HookTarget): ClientConfigEntry {
  return {
    name: "skillet",
    type: "command",
    command: formatHookCommand("gemini", target),
    timeout: HOOK_TIMEOUT_SECONDS * 1000,
  };
}

/** A hook of a client, and a check for handlers of skillet. */
export interface HookLocation {
  hook: JsonHook;
  isOurs(handler: ClientConfigEntry): boolean;
}

/**
 * Puts a handler into a text and keeps the rest: other hooks, comments, formatting, and settings that the user changed
 * in the handler. Contract: returns the same text if it was already there. Throws a SkillError when the text does not
 * parse, or another value is in its place.
 */
export function mergePromptHook(text: string, handler: ClientConfigEntry, environment: HookLocation): string {
  const { event, version, isGrouped } = environment.hook;
  const [known] = findSkilletHandlers(text, environment);
  if (known) return setHandler(text, known, handler);
  const document = JSON_LANGUAGE.parse(text);
  const start = ensureJsonObject(text);
  const isVersioned = version === undefined || Object.hasOwn(document, "version");
  const versioned = isVersioned ? start : setJsoncValue(start, ["version"], version);
  const { length } = getHookEntries(document, event);
  const next = setJsoncValue(versioned, ["hooks", event, length], isGrouped ? { hooks: [handler] } : handler);
  const added = findSkilletHandlers(next, environment);
  if (added.length !== 1 || !isDeepStrictEqual(added[0]?.handler, handler)) throw createHookFormatError();
  return next;
}

/** Removes only skillet's handlers from a text; a group is removed with its last handler. */
export function removePromptHook(text: string, environment: HookLocation): string {
  let next = text;
  for (let [known] = findSkilletHandlers(next, environment); known; [known] = findSkilletHandlers(next, environment)) {
    const before = next;
    next = removeJsoncValue(before, known.isAlone ? known.path.slice(0, 3) : known.path);
    if (next === before) throw createHookFormatError();
  }
  return next;
}

/**
 * Returns skillet's handlers in a text. Throws a SkillError when the text does not parse, or another value is in their
 * place.
 */
export function findSkilletHandlers(text: string, { hook, isOurs }: HookLocation): SkilletHandler[] {
  const { event, isGrouped } = hook;
  return getHookEntries(JSON_LANGUAGE.parse(text), event).flatMap((entry, index): SkilletHandler[] => {
    const path = ["hooks", event, index];
    if (!isTable(entry)) return [];
    if (!isGrouped) return isOurs(entry) ? [{ path, handler: entry, isAlone: true }] : [];
    const handlers: unknown = entry["hooks"];
    if (!Array.isArray(handlers)) return [];
    const isBare = Object.keys(entry).every((key) => key === "hooks" || key === "matcher");
    return handlers.flatMap((handler, at) =>
      isTable(handler) && isOurs(handler)
        ? [{ path: [...path, "hooks", at], handler, isAlone: isBare && handlers.length === 1 }]
        : [],
    );
  });
}

interface SkilletHandler {
  path: JsonPath;
  handler: ClientConfigEntry;
  /** True if its group has no other handler. */
  isAlone: boolean;
}

function getHookEntries(document: Record<string, unknown>, event: string): unknown[] {
  const hooks = Object.hasOwn(document, "hooks") ? document["hooks"] : {};
  if (!isTable(hooks)) throw createBlockedPathError(["hooks"]);
  const entries = Object.hasOwn(hooks, event) ? hooks[event] : [];
  if (!Array.isArray(entries)) {
    throw new SkillError("config-edit", {
      message: `has hooks.${event}, which is not a list`,
      fix: "correct it by hand: nothing was written",
    });
  }
  return entries;
}

/** Sets keys one by one, so that keys of the user keep their place. */
function setHandler(text: string, { path, handler: there }: SkilletHandler, handler: ClientConfigEntry): string {
  const changed = Object.entries(handler).filter(
    ([key, value]) =>
      (HANDLER_CALL_KEYS.includes(key) || !Object.hasOwn(there, key)) && !isDeepStrictEqual(there[key], value),
  );
  const gone = HANDLER_CALL_KEYS.filter((key) => Object.hasOwn(there, key) && !Object.hasOwn(handler, key));
  const set = changed.reduce((written, [key, value]) => setJsoncValue(written, [...path, key], value), text);
  return gone.reduce((written, key) => removeJsoncValue(written, [...path, key]), set);
}

function createHookFormatError(): SkillError {
  return new SkillError("config-edit", {
    message: "has its hooks in a form that can only be edited by hand",
    fix: "change them by hand: nothing was written",
  });
}

/** The first line of the plugin: a file without it was not written by skillet. */
export const PLUGIN_MARK = "// Written by `skillet connect opencode`. To delete it: skillet connect opencode --remove";

/**
 * Formats the plugin, since OpenCode has no configuration for hooks. It adds the text as a part of the message:
 * `experimental.chat.system.transform` would add it to the request for a title too. Parts are ordered by id.
 */
export function formatOpencodePlugin(command: readonly string[], timeoutSeconds: number): string {
  return `${PLUGIN_MARK}
import { spawn } from "node:child_process";

const [PROGRAM, ...ARGUMENTS] = ${JSON.stringify(command)};
const TIMEOUT_MS = ${timeoutSeconds * 1000};

export const SkilletAdvice = async ({ directory }) => ({
  "chat.message": async (input, output) => {
    const texts = output.parts.filter((part) => part.type === "text" && !part.synthetic);
    const prompt = texts.map((part) => part.text).join("\\n");
    if (prompt.trim() === "") return;
    const { sessionID } = input;
    const text = await advise({ sessionID, cwd: directory, prompt });
    if (text === undefined) return;
    const id = \`\${output.parts.at(-1).id}_skillet\`;
    output.parts.push({ id, sessionID, messageID: output.message.id, type: "text", text, synthetic: true });
  },
});

/** Returns the advice for a prompt, or undefined. Never throws: a prompt does not fail over it. */
function advise(request) {
  return new Promise((resolve) => {
    const chunks = [];
    const child = spawn(PROGRAM, ARGUMENTS, { stdio: ["pipe", "pipe", "ignore"] });
    const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT_MS);
    child.on("error", () => resolve(undefined));
    child.stdin.on("error", () => {});
    child.stdout.on("data", (chunk) => chunks.push(chunk));
    child.on("close", () => {
      clearTimeout(timer);
      try {
        resolve(JSON.parse(Buffer.concat(chunks).toString("utf8")).additionalContext || undefined);
      } catch {
        resolve(undefined);
      }
    });
    child.stdin.end(JSON.stringify(request));
  });
}
`;
}
