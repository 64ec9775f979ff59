import { matchesGlob } from "../util/glob.ts";
import { isJsonObject } from "../util/objects.ts";
import { parseEntryTool, resolveToolName } from "./tool-names.ts";

/** One entry of `allowed_tools`, `allowed-tools` or `disallowed-tools`: a tool, and what of it. */
interface ToolGrant {
  /** As it is called here; may hold stars. */
  tool: string;
  /** What stands in its parentheses; all of the tool when left out. */
  pattern?: string;
}

/** `Bash(git log:*)` → `bash` and `git log:*`. */
export function parseToolGrant(entry: string): ToolGrant {
  const name = parseEntryTool(entry).trim();
  const tool = resolveToolName(name);
  const [, inner] = /^[^(]*\(([\s\S]*)\)\s*$/.exec(entry) ?? [];
  if (inner === undefined) return entry.includes("(") ? { tool, pattern: "" } : { tool };
  const pattern = inner.trim();
  return /^(?:\*+|:\*)$/.test(pattern) ? { tool } : { tool, pattern };
}

/** Whether some entry concerns the tool at all. */
export function hasGrantFor(grants: readonly string[], tool: string): boolean {
  return findToolGrants(grants, tool).length > 0;
}

/** Whether a call is covered. What cannot be judged is covered only by an entry for all of the tool. */
export function isToolCallGranted(grants: readonly string[], tool: string, input: unknown): boolean {
  const concerned = findToolGrants(grants, tool);
  if (concerned.some(({ pattern }) => pattern === undefined)) return true;
  const patterns = concerned.flatMap(({ pattern }) => pattern ?? []);
  return patterns.length > 0 && findMatcher(tool).covers(patterns, getMatchedValue(tool, input));
}

/** Whether a call is forbidden; when in doubt it is. Without input: whether every call is. */
export function isToolCallForbidden(entries: readonly string[], tool: string, input: unknown): boolean {
  const concerned = findToolGrants(entries, tool);
  if (concerned.some(({ pattern }) => pattern === undefined || pattern === "")) return true;
  const patterns = concerned.flatMap(({ pattern }) => pattern ?? []);
  return (
    input !== undefined && patterns.length > 0 && findMatcher(tool).touches(patterns, getMatchedValue(tool, input))
  );
}

function findToolGrants(entries: readonly string[], tool: string): ToolGrant[] {
  const ours = resolveToolName(tool);
  return entries.map(parseToolGrant).filter((grant) => matchesToolName(grant.tool, ours));
}

/** A star stands for any text, and a server of MCP for all of its tools. */
function matchesToolName(written: string, tool: string): boolean {
  if (written === tool || written === "*") return true;
  if (/^mcp__[^_]+(?:_[^_]+)*$/.test(written)) return tool.startsWith(`${written}__`);
  return written.includes("*") && matchesWord(written.toLowerCase(), tool.toLowerCase());
}

/** Judges the patterns of some tools. What it cannot judge is not covered, and touched. */
interface GrantMatcher {
  covers(patterns: readonly string[], value: string | undefined): boolean;
  touches(patterns: readonly string[], value: string | undefined): boolean;
}

const COMMAND_MATCHER: GrantMatcher = {
  covers(patterns, line) {
    if (line === undefined) return false;
    if (patterns.includes(line.trim())) return true;
    const commands = parseSimpleCommands(line) ?? [];
    const words = patterns.map(splitPatternWords);
    return commands.length > 0 && commands.every((command) => words.some((pattern) => matchesWords(pattern, command)));
  },
  touches(patterns, line) {
    const commands = line === undefined ? undefined : parseSimpleCommands(line);
    if (!commands) return true;
    return patterns.some((pattern) => commands.some((command) => containsWords(command, splitPatternWords(pattern))));
  },
};

/** One file. */
const FILE_MATCHER: GrantMatcher = {
  covers(patterns, value) {
    const path = normalizeWorkspacePath(value);
    return path !== undefined && patterns.some((pattern) => matchesGlob(normalizeGlob(pattern), path));
  },
  touches(patterns, value) {
    const path = normalizeWorkspacePath(value)?.toLowerCase();
    if (path === undefined) return true;
    // Where nothing is mounted, a whole path may lead into the workspace.
    const anywhere = path.startsWith("/") ? "**/" : "";
    return patterns.some((pattern) => matchesGlob(anywhere + normalizeGlob(pattern).toLowerCase(), path));
  },
};

/** A folder with all that is in it. */
const FOLDER_MATCHER: GrantMatcher = {
  covers(patterns, value) {
    const path = normalizeWorkspacePath(value ?? ".");
    if (path === undefined) return false;
    const inside = path === "." ? DEEP_PATH : `${path}/${DEEP_PATH}`;
    return patterns.map(normalizeGlob).some((glob) => glob === path || matchesGlob(glob, inside));
  },
  touches(patterns, value) {
    const path = normalizeWorkspacePath(value ?? ".")?.toLowerCase();
    if (path === undefined || path === "." || /^\/(?!skill\/)/.test(path)) return true;
    return patterns.some((pattern) => {
      const [fixed = ""] = /^[^*?[{]*/.exec(normalizeGlob(pattern).toLowerCase()) ?? [];
      return fixed.startsWith(path) || path.startsWith(fixed);
    });
  },
};

/** Stands for anything below a folder: only a pattern for all of it fits. */
const DEEP_PATH = "\u0001/".repeat(32);

const NAME_MATCHER: GrantMatcher = {
  covers: (patterns, value) =>
    value !== undefined && patterns.some((pattern) => matchesWord(getPatternName(pattern), value)),
  touches: (patterns, value) =>
    value === undefined ||
    patterns.some((pattern) =>
      matchesWord(getPatternName(pattern).toLowerCase(), value.toLowerCase().replace(/@.*$/s, "")),
    ),
};

const ADDRESS_MATCHER: GrantMatcher = {
  covers(patterns, value) {
    const host = parseHost(value);
    return host !== undefined && patterns.some((pattern) => parseDomain(pattern) === host);
  },
  touches(patterns, value) {
    const host = parseHost(value);
    if (host === undefined) return true;
    return patterns.some((pattern) => {
      const domain = parseDomain(pattern);
      return domain === undefined || host === domain || host.endsWith(`.${domain}`);
    });
  },
};

const UNKNOWN_MATCHER: GrantMatcher = { covers: () => false, touches: () => true };

/** These run what their arguments say. */
const RUNNER_PROGRAMS = new Set(
  ". ash bash builtin busybox command dash doas env eval exec find ksh nice nohup parallel script setsid sh source stdbuf su sudo timeout watch xargs zsh".split(
    " ",
  ),
);

/** What of a tool's input its patterns are about. */
const MATCHERS_BY_TOOL = new Map<string, { judge: GrantMatcher; key: string }>([
  ["bash", { judge: COMMAND_MATCHER, key: "command" }],
  ["read_file", { judge: FILE_MATCHER, key: "path" }],
  ["write_file", { judge: FILE_MATCHER, key: "path" }],
  ["edit_file", { judge: FILE_MATCHER, key: "path" }],
  ["list_files", { judge: FOLDER_MATCHER, key: "path" }],
  ["grep", { judge: FOLDER_MATCHER, key: "path" }],
  ["web_fetch", { judge: ADDRESS_MATCHER, key: "url" }],
  ["use_skill", { judge: NAME_MATCHER, key: "skill" }],
  ["load_skill", { judge: NAME_MATCHER, key: "skill" }],
  ["run_skill_script", { judge: NAME_MATCHER, key: "script" }],
]);

function findMatcher(tool: string): GrantMatcher {
  return MATCHERS_BY_TOOL.get(resolveToolName(tool))?.judge ?? UNKNOWN_MATCHER;
}

function getMatchedValue(tool: string, input: unknown): string | undefined {
  const value = isJsonObject(input) ? input[MATCHERS_BY_TOOL.get(resolveToolName(tool))?.key ?? ""] : undefined;
  return typeof value === "string" ? value : undefined;
}

/** `git log:*` and `git log *` are `git`, `log` and whatever follows. */
function splitPatternWords(pattern: string): string[] {
  const spaced = pattern.replace(/:\*$/, " *");
  const [words, another] = parseSimpleCommands(spaced) ?? [];
  return words && !another ? words : spaced.split(/[ \t]+/).filter((word) => word !== "");
}

/** A star that stands alone is any number of words; within a word it is any part of that word. */
function matchesWords(pattern: readonly string[], words: readonly string[]): boolean {
  return matchesStars(pattern, words, (part, word) => matchesWord(part, word));
}

function matchesWord(pattern: string, word: string): boolean {
  return matchesStars([...pattern], [...word], (part, character) => part === character);
}

/** Goes back only to the last star, which is enough, and quick. */
function matchesStars(
  pattern: readonly string[],
  items: readonly string[],
  fits: (part: string, item: string) => boolean,
): boolean {
  let [at, place, star, taken] = [0, 0, -1, 0];
  while (at < items.length) {
    const part = pattern[place];
    if (part === "*") [star, taken, place] = [place, at, place + 1];
    else if (part !== undefined && fits(part, items[at] ?? "")) [at, place] = [at + 1, place + 1];
    else if (star === -1) return false;
    else [taken, at, place] = [taken + 1, taken + 1, star + 1];
  }
  return pattern.slice(place).every((part) => part === "*");
}

/** Whether its words stand somewhere in a command, in their order: also behind `env`, `xargs`, `/usr/bin/` and `sh -c`. */
function containsWords(command: readonly string[], pattern: readonly string[]): boolean {
  const [name = "", ...rest] = command;
  if (RUNNER_PROGRAMS.has(name.slice(name.lastIndexOf("/") + 1)) && rest.some((word) => /[$\\"'*?[{~]/.test(word)))
    return true;
  const said = command.flatMap((word) => word.toLowerCase().split(/[^a-z0-9_.+-]+/));
  let next = 0;
  const wanted = pattern.filter((word) => word !== "*").map((word) => word.toLowerCase());
  for (const word of said) if (next < wanted.length && matchesWord(wanted[next] ?? "", word)) next++;
  return next === wanted.length;
}

/** As the workspace names it, however a model does: `./a`, `/workspace/a`. Nothing for one that leaves its folder. */
function normalizeWorkspacePath(value: string | undefined): string | undefined {
  if (value === undefined || value === "" || value.includes("\0")) return undefined;
  const path = value.replace(/^\/workspace(?=\/|$)\/*/, "./");
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (/(?:^|[/\\])\.\.(?:[/\\]|$)/.test(path) || path.startsWith("~")) return undefined;
  if (path.startsWith("/")) return `/${parts.join("/")}`;
  return parts.length === 0 ? "." : parts.join("/");
}

function normalizeGlob(pattern: string): string {
  return pattern.replace(/^\/workspace\//, "").replace(/^(?:\.\/)+/, "");
}

/** `name:*` and `name *` mean its arguments too. */
function getPatternName(pattern: string): string {
  return pattern.replace(/(?::| )\*$/, "");
}

function parseHost(value: string | undefined): string | undefined {
  const url = URL.parse(value ?? "");
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") return undefined;
  return url.hostname.toLowerCase();
}

/** `domain:example.com` → `example.com`. */
function parseDomain(pattern: string): string | undefined {
  return /^domain:([a-z0-9.-]+)$/i.exec(pattern)?.[1]?.toLowerCase();
}

/**
 * The simple commands of a command line, each as its words without quotes. Nothing when that cannot be judged, which is wherever a
 * command could hide: it is small so that nobody has to wonder what it misses.
 */
export function parseSimpleCommands(line: string): string[][] | undefined {
  if (line.length > MAX_COMMAND_LENGTH || UNPARSABLE_SYNTAX.test(line) || !line.isWellFormed()) return undefined;
  const state: CommandState = { commands: [[]], word: undefined, isOdd: false, depth: 0 };
  for (let at = 0; at < line.length; ) {
    const found = COMMAND_TOKENS.find(({ pattern }) => {
      pattern.lastIndex = at;
      return pattern.test(line);
    });
    const end = found?.pattern.lastIndex ?? 0;
    if (!found?.take(state, line.slice(at, end))) return undefined;
    at = end;
  }
  endWord(state);
  const commands = state.commands.filter((words) => words.length > 0);
  return state.depth === 0 && !state.isOdd && commands.every(isPlainCommand) ? commands : undefined;
}

const MAX_COMMAND_LENGTH = 32 * 1024;

// Also within quotes: builtins such as `printf -v` and `test -v` look into their arguments for substitutions once more.
// A backslash at the end of a line joins what stands around it. Other control characters mean something of their own to some shells.
const UNPARSABLE_SYNTAX = /[`\u0000-\u0008\u000b-\u001f\u007f]|\$[([]|\$\{(?![A-Za-z_]\w*\})|[<>]\(|\\\n/;

/** Words that begin something else than a simple command. */
const RESERVED_WORDS = new Set(
  "! [[ ]] { } case coproc do done elif else esac fi for function if in select then time until while".split(" "),
);

/** No variable, no pattern, no assignment. */
const COMMAND_NAME = /^(?:\[|[A-Za-z0-9_./+@%:,-]+)$/;

function isPlainCommand([name = ""]: readonly string[]): boolean {
  return COMMAND_NAME.test(name) && !RESERVED_WORDS.has(name);
}

interface CommandState {
  commands: string[][];
  /** The word that is being read. */
  word: string | undefined;
  /** Whether a command's name was spelled with quotes or backslashes: such a one is no alias, and nobody writes it so. */
  isOdd: boolean;
  /** Of parentheses. */
  depth: number;
}

/** The first that fits decides. Contract of `take`: false when it cannot be judged. */
const COMMAND_TOKENS: readonly { pattern: RegExp; take(state: CommandState, text: string): boolean }[] = [
  {
    // To nowhere, or from one descriptor to another.
    pattern: /(?:(?:\d*(?:>>?|<)|&>>?)[ \t]*\/dev\/null|\d*[<>]&(?:\d+|-))(?![^\s;&|)])/y,
    take: (state, text) => (/^\d/.test(text) && state.word !== undefined ? false : endWord(state)),
  },
  { pattern: /&&|\|\||\|&|[;&|\n]/y, take: endCommand },
  { pattern: /[ \t]+/y, take: endWord },
  { pattern: /'[^']*'/y, take: (state, text) => takeQuoted(state, text.slice(1, -1)) },
  {
    pattern: /"(?:[^"\\]|\\[\s\S])*"/y,
    take: (state, text) => takeQuoted(state, text.slice(1, -1).replace(/\\(["\\$])/g, "$1")),
  },
  { pattern: /\\[\s\S]/y, take: (state, text) => takeQuoted(state, text.slice(1)) },
  { pattern: /\((?!\()/y, take: openParenthesis },
  { pattern: /\)/y, take: closeParenthesis },
  // What follows a `#` is no code, and its quotes are none; within a word it is a character.
  { pattern: /#/y, take: (state, text) => state.word !== undefined && takePlain(state, text) },
  { pattern: /\$(?!['"])/y, take: takePlain },
  { pattern: /[^\s;&|<>()'"\\#$]+/y, take: takePlain },
];

function takePlain(state: CommandState, text: string): boolean {
  state.word = (state.word ?? "") + text;
  return true;
}

function takeQuoted(state: CommandState, text: string): boolean {
  state.isOdd ||= state.commands.at(-1)?.length === 0;
  return takePlain(state, text);
}

function endWord(state: CommandState): boolean {
  if (state.word !== undefined) state.commands.at(-1)?.push(state.word);
  state.word = undefined;
  return true;
}

function endCommand(state: CommandState): boolean {
  endWord(state);
  return state.commands.push([]) > 0;
}

/** Only where a command begins: else it is a function, a list of values or a pattern. */
function openParenthesis(state: CommandState): boolean {
  state.depth++;
  return state.word === undefined && state.commands.at(-1)?.length === 0;
}

function closeParenthesis(state: CommandState): boolean {
  state.depth--;
  return endCommand(state) && state.depth >= 0;
}
