import { matchesGlob } from "../util/glob.ts";
import { isJsonObject } from "../util/objects.ts";
import { parseEntryTool, resolveToolName } from "./tool-names.ts";

/** An entry of `allowed_tools`, `allowed-tools` or `disallowed-tools`: a tool, and a pattern for its calls. */
interface ToolGrant {
  /** The name of the tool in skillet; may contain stars. */
  tool: string;
  /** The text in parentheses. Defaults to all calls of the tool. */
  pattern?: string;
}

/** Parses `Bash(git log:*)` into `bash` and `git log:*`. */
export function parseToolGrant(entry: string): ToolGrant {
  const name = parseEntryTool(entry).trim();
  const tool = resolveToolName(name);
  const [, inner] = /^[^(]*\(([\s\S]*)\)\s*$/.exec(entry) ?? [];
  if (inner === undefined) return entry.includes("(") ? { tool, pattern: "" } : { tool };
  const pattern = inner.trim();
  return /^(?:\*+|:\*)$/.test(pattern) ? { tool } : { tool, pattern };
}

/** Returns true if an entry concerns the tool at all. */
export function hasGrantFor(grants: readonly string[], tool: string): boolean {
  return findToolGrants(grants, tool).length > 0;
}

/** Returns true if a call is covered. A call that cannot be parsed is covered only by an entry for the whole tool. */
export function isToolCallGranted(grants: readonly string[], tool: string, input: unknown): boolean {
  const concerned = findToolGrants(grants, tool);
  if (concerned.some(({ pattern }) => pattern === undefined)) return true;
  const patterns = concerned.flatMap(({ pattern }) => pattern ?? []);
  return patterns.length > 0 && findMatcher(tool).covers(patterns, getMatchedValue(tool, input));
}

/** Returns true if a call is forbidden, or if in doubt. Without input: true if every call is forbidden. */
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

/** A star matches any text, and an MCP server matches all its tools. */
function matchesToolName(written: string, tool: string): boolean {
  if (written === tool || written === "*") return true;
  if (/^mcp__[^_]+(?:_[^_]+)*$/.test(written)) return tool.startsWith(`${written}__`);
  return written.includes("*") && matchesWord(written.toLowerCase(), tool.toLowerCase());
}

/** Matches calls with the patterns of a tool. A call that cannot be parsed is not covered, but is touched. */
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

/** Matches a single file. */
const FILE_MATCHER: GrantMatcher = {
  covers(patterns, value) {
    const path = normalizeWorkspacePath(value);
    return path !== undefined && patterns.some((pattern) => matchesGlob(normalizeGlob(pattern), path));
  },
  touches(patterns, value) {
    const path = normalizeWorkspacePath(value)?.toLowerCase();
    if (path === undefined) return true;
    // If nothing is mounted, an absolute path may lead into the workspace.
    const anywhere = path.startsWith("/") ? "**/" : "";
    return patterns.some((pattern) => matchesGlob(anywhere + normalizeGlob(pattern).toLowerCase(), path));
  },
};

/** Matches a folder with all its content. */
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

/** Represents any path below a folder: only a pattern for the whole folder matches it. */
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

/** Programs that run their arguments as a command. */
const RUNNER_PROGRAMS = new Set(
  ". ash bash builtin busybox command dash doas env eval exec find ksh nice nohup parallel script setsid sh source stdbuf su sudo timeout watch xargs zsh".split(
    " ",
  ),
);

/** The input key that the patterns of a tool apply to. */
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

/** Splits `git log:*` and `git log *` into `git`, `log` and a star. */
function splitPatternWords(pattern: string): string[] {
  const spaced = pattern.replace(/:\*$/, " *");
  const [words, another] = parseSimpleCommands(spaced) ?? [];
  return words && !another ? words : spaced.split(/[ \t]+/).filter((word) => word !== "");
}

/** A separate star matches any number of words; within a word it matches any part of the word. */
function matchesWords(pattern: readonly string[], words: readonly string[]): boolean {
  return matchesStars(pattern, words, (part, word) => matchesWord(part, word));
}

function matchesWord(pattern: string, word: string): boolean {
  return matchesStars([...pattern], [...word], (part, character) => part === character);
}

/** Backtracks only to the last star, which is sufficient and fast. */
function matchesStars(
  pattern: readonly string[],
  items: readonly string[],
  fits: (part: string, item: string) => boolean,
): boolean {
  let [at, index, star, taken] = [0, 0, -1, 0];
  while (at < items.length) {
    const part = pattern[index];
    if (part === "*") [star, taken, index] = [index, at, index + 1];
    else if (part !== undefined && fits(part, items[at] ?? "")) [at, index] = [at + 1, index + 1];
    else if (star === -1) return false;
    else [taken, at, index] = [taken + 1, taken + 1, star + 1];
  }
  return pattern.slice(index).every((part) => part === "*");
}

/** Returns true if the words occur in a command in this order, also after `env`, `xargs`, `/usr/bin/` and `sh -c`. */
function containsWords(command: readonly string[], pattern: readonly string[]): boolean {
  const [name = "", ...rest] = command;
  if (RUNNER_PROGRAMS.has(name.slice(name.lastIndexOf("/") + 1)) && rest.some((word) => /[$\\"'*?[{~]/.test(word)))
    return true;
  const words = command.flatMap((word) => word.toLowerCase().split(/[^a-z0-9_.+-]+/));
  let next = 0;
  const wanted = pattern.filter((word) => word !== "*").map((word) => word.toLowerCase());
  for (const word of words) if (next < wanted.length && matchesWord(wanted[next] ?? "", word)) next++;
  return next === wanted.length;
}

/**
 * Returns the path relative to the workspace, from spellings such as `./a` and `/workspace/a`. Undefined for a path that leaves
 * the workspace.
 */
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

/** Removes the argument part of `name:*` and `name *`. */
function getPatternName(pattern: string): string {
  return pattern.replace(/(?::| )\*$/, "");
}

function parseHost(value: string | undefined): string | undefined {
  const url = URL.parse(value ?? "");
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") return undefined;
  return url.hostname.toLowerCase();
}

/** Parses `domain:example.com` into `example.com`. */
function parseDomain(pattern: string): string | undefined {
  return /^domain:([a-z0-9.-]+)$/i.exec(pattern)?.[1]?.toLowerCase();
}

/**
 * Splits a command line into simple commands, each as a list of words without quotes. Returns undefined if it contains syntax
 * that could hide a command. The parser is small so that a review can cover all of it.
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

// Also within quotes: builtins such as `printf -v` and `test -v` expand substitutions in their arguments. A backslash at the end of a
// line joins two lines. Other control characters have a special meaning in some shells.
const UNPARSABLE_SYNTAX = /[`\u0000-\u0008\u000b-\u001f\u007f]|\$[([]|\$\{(?![A-Za-z_]\w*\})|[<>]\(|\\\n/;

/** Words that begin something other than a simple command. */
const RESERVED_WORDS = new Set(
  "! [[ ]] { } case coproc do done elif else esac fi for function if in select then time until while".split(" "),
);

/** A literal name: no variable, pattern or assignment. */
const COMMAND_NAME = /^(?:\[|[A-Za-z0-9_./+@%:,-]+)$/;

function isPlainCommand([name = ""]: readonly string[]): boolean {
  return COMMAND_NAME.test(name) && !RESERVED_WORDS.has(name);
}

interface CommandState {
  commands: string[][];
  /** The current word. */
  word: string | undefined;
  /** True if the name of a command contains quotes or backslashes: they bypass aliases, and are unusual. */
  isOdd: boolean;
  /** The nesting depth of parentheses. */
  depth: number;
}

/** The first matching pattern is used. Contract of `take`: returns false if the syntax cannot be parsed. */
const COMMAND_TOKENS: readonly { pattern: RegExp; take(state: CommandState, text: string): boolean }[] = [
  {
    // A redirection to /dev/null, or from one descriptor to another.
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
  // Text after `#` is a comment, including its quotes; within a word `#` is a plain character.
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

/** Only at the beginning of a command: elsewhere it is a function, an array or a pattern. */
function openParenthesis(state: CommandState): boolean {
  state.depth++;
  return state.word === undefined && state.commands.at(-1)?.length === 0;
}

function closeParenthesis(state: CommandState): boolean {
  state.depth--;
  return endCommand(state) && state.depth >= 0;
}
