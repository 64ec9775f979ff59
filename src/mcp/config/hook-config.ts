import { join } from "node:path";
import { quoted } from "../../policy/trust.ts";
import { HOOK_FORMATS } from "../../session/prompt-hooks.ts";
import { clientFolder } from "../../source/client-folders.ts";
import type { Entry, Place, Scope } from "./clients.ts";
import { opencodePlugin } from "./opencode-plugin.ts";

/** The program that a hook starts: Node and the path of skillet. */
export interface HookProgram {
  command: string;
  args: readonly string[];
}

/** How the client gets the advice: from the running server, or from a process per prompt. */
export type HookKind = "mcp_tool" | "command";

export interface HookTarget {
  /** Name of the server in the client's configuration. */
  server: string;
  program: HookProgram;
  kind: HookKind;
}

/** A handler in a JSON file. */
export interface JsonHook {
  file(scope: Scope, place: Place): string;
  event: string;
  /** Handlers are in groups: `[{ "hooks": [handler] }]`. */
  isGrouped?: true;
  /** The file begins with this version. */
  version?: number;
  /** Nothing else is in the file: it is deleted when the handler is removed. */
  isOwnFile?: true;
  /** The client can call a tool of the server instead of starting a process. */
  callsTools?: true;
  handler(target: HookTarget): Entry;
  /** The event before the client summarizes a conversation: then the hook forgets what the conversation received. */
  summary?: { event: string; handler(target: HookTarget): Entry };
}

/** A plugin in its own file. */
export interface PluginHook {
  file(scope: Scope, place: Place): string;
  plugin(target: HookTarget): string;
}

export type PromptHook = JsonHook | PluginHook;

/** The MCP tool whose text is the hook's output. */
export const ADVISE_TOOL = "advise";

/** How long a client waits for the advice. It goes on without. */
const TIMEOUT_SECONDS = 10;

/**
 * The prompt hook of each client, one row each. VS Code has none that is known. Codex asks for trust again whenever a handler changes, so
 * a handler holds nothing that changes between two calls of `connect`.
 */
export const PROMPT_HOOKS: Readonly<Record<string, PromptHook>> = {
  claude: {
    file: (scope, place) => join(clientFolder("claude", scope, place), "settings.json"),
    event: HOOK_FORMATS.claude.event,
    isGrouped: true,
    callsTools: true,
    // The source tells the user's prompts from texts that Claude Code adds; it leaves an unknown placeholder empty.
    handler: (target) => ({
      ...toolOrCommand("claude", target, { prompt: `\${prompt}`, source: `\${source}` }),
      timeout: TIMEOUT_SECONDS,
    }),
    summary: {
      event: "PreCompact",
      handler: (target) => ({
        ...toolOrCommand("claude", target, { hook_event_name: "PreCompact" }),
        timeout: TIMEOUT_SECONDS,
      }),
    },
  },
  codex: {
    file: (scope, place) => join(clientFolder("codex", scope, place), "hooks.json"),
    event: HOOK_FORMATS.codex.event,
    isGrouped: true,
    callsTools: true,
    // Without it, Codex cuts at about 2,500 tokens.
    handler: (target) => ({
      ...toolOrCommand("codex", target),
      timeout: TIMEOUT_SECONDS,
      additionalContextLimit: 10_000,
    }),
  },
  gemini: {
    file: (scope, place) => join(clientFolder("gemini", scope, place), "settings.json"),
    event: HOOK_FORMATS.gemini.event,
    isGrouped: true,
    handler: geminiHandler,
    summary: { event: "PreCompress", handler: geminiHandler },
  },
  copilot: {
    file: (scope, place) => join(clientFolder("copilot", scope, place), "hooks", "skillet.json"),
    event: HOOK_FORMATS.copilot.event,
    version: 1,
    isOwnFile: true,
    handler: (target) => ({ type: "command", bash: commandLine("copilot", target), timeoutSec: TIMEOUT_SECONDS }),
  },
  cursor: {
    file: (scope, place) => join(clientFolder("cursor", scope, place), "hooks.json"),
    event: HOOK_FORMATS.cursor.event,
    version: 1,
    handler: (target) => ({ command: commandLine("cursor", target) }),
  },
  opencode: {
    file: (scope, place) => join(clientFolder("opencode", scope, place), "plugins", "skillet.js"),
    plugin: (target) => opencodePlugin(hookCommand("opencode", target), TIMEOUT_SECONDS),
  },
};

/** Keys of a handler that name the program or tool. The others are settings, which the user may change. */
export const CALL_KEYS = ["type", "server", "tool", "input", "command", "bash"];

/** Whether a handler gets the advice of skillet: by the server of this name, or by a command. */
export function isOurHandler(handler: Entry, client: string, server: string): boolean {
  if (handler["type"] === "mcp_tool") return handler["server"] === server && handler["tool"] === ADVISE_TOOL;
  const line = handler["command"] ?? handler["bash"];
  return (
    typeof line === "string" && new RegExp(`(?:^|[\\s/\\\\])skillet(?:\\.cjs|\\.cmd)?['"]? hook ${client}$`).test(line)
  );
}

/** Returns the words of the command that prints the advice for a client. */
export function hookCommand(client: string, { program }: Pick<HookTarget, "program">): string[] {
  return [program.command, ...program.args, "hook", client];
}

/** Returns the command as a line for a shell. */
export function commandLine(client: string, target: Pick<HookTarget, "program">): string {
  return hookCommand(client, target).map(quoted).join(" ");
}

/** `input` is for the tool, besides the conversation. A command reads the client's own input. */
function toolOrCommand(client: string, target: HookTarget, input: Entry = { prompt: `\${prompt}` }): Entry {
  if (target.kind === "command") return { type: "command", command: commandLine(client, target) };
  return {
    type: "mcp_tool",
    server: target.server,
    tool: ADVISE_TOOL,
    input: { ...input, session_id: `\${session_id}` },
  };
}

function geminiHandler(target: HookTarget): Entry {
  return {
    name: "skillet",
    type: "command",
    command: commandLine("gemini", target),
    timeout: TIMEOUT_SECONDS * 1000,
  };
}
