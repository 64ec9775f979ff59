import { isData } from "./data.ts";
import { matchesGlob } from "./glob-match.ts";
import { simpleCommands } from "./shell-words.ts";
import { ourTool, toolNameOf } from "./tool-names.ts";

/** One entry of `allowed_tools`, `allowed-tools` or `disallowed-tools`: a tool, and what of it. */
export interface Grant {
  /** As it is called here; may hold stars. */
  tool: string;
  /** What stands in its parentheses; all of the tool when left out. */
  pattern?: string;
}

/** `Bash(git log:*)` → `bash` and `git log:*`. */
export function readGrant(entry: string): Grant {
  const name = toolNameOf(entry).trim();
  const tool = ourTool(name);
  const [, inner] = /^[^(]*\(([\s\S]*)\)\s*$/.exec(entry) ?? [];
  if (inner === undefined) return entry.includes("(") ? { tool, pattern: "" } : { tool };
  const pattern = inner.trim();
  return /^(?:\*+|:\*)$/.test(pattern) ? { tool } : { tool, pattern };
}

/** Whether some entry concerns the tool at all. */
export function mayOffer(grants: readonly string[], tool: string): boolean {
  return grantsFor(grants, tool).length > 0;
}

/** Whether a call is covered. What cannot be judged is covered only by an entry for all of the tool. */
export function isGranted(grants: readonly string[], tool: string, input: unknown): boolean {
  const concerned = grantsFor(grants, tool);
  if (concerned.some(({ pattern }) => pattern === undefined)) return true;
  const patterns = concerned.flatMap(({ pattern }) => pattern ?? []);
  return patterns.length > 0 && judgeOf(tool).covers(patterns, valuesIn(tool, input));
}

/** Whether a call is forbidden; when in doubt it is. Without input: whether every call is. */
export function isForbidden(entries: readonly string[], tool: string, input: unknown): boolean {
  const concerned = grantsFor(entries, tool);
  if (concerned.some(({ pattern }) => pattern === undefined || pattern === "")) return true;
  const patterns = concerned.flatMap(({ pattern }) => pattern ?? []);
  return input !== undefined && patterns.length > 0 && judgeOf(tool).touches(patterns, valuesIn(tool, input));
}

function grantsFor(entries: readonly string[], tool: string): Grant[] {
  const ours = ourTool(tool);
  return entries.map(readGrant).filter((grant) => names(grant.tool, ours));
}

/** A star stands for any text, and a server of MCP for all of its tools. */
function names(written: string, tool: string): boolean {
  if (written === tool || written === "*") return true;
  if (/^mcp__[^_]+(?:_[^_]+)*$/.test(written)) return tool.startsWith(`${written}__`);
  return written.includes("*") && matchesWord(written.toLowerCase(), tool.toLowerCase());
}

/** Judges the patterns of some tools. What it cannot judge is not covered, and touched. */
interface Judge {
  covers(patterns: readonly string[], value: string | undefined): boolean;
  touches(patterns: readonly string[], value: string | undefined): boolean;
}

const COMMAND: Judge = {
  covers(patterns, line) {
    if (line === undefined) return false;
    if (patterns.includes(line.trim())) return true;
    const commands = simpleCommands(line) ?? [];
    const words = patterns.map(wordsOf);
    return commands.length > 0 && commands.every((command) => words.some((pattern) => matchesWords(pattern, command)));
  },
  touches(patterns, line) {
    const commands = line === undefined ? undefined : simpleCommands(line);
    if (!commands) return true;
    return patterns.some((pattern) => commands.some((command) => mentions(command, wordsOf(pattern))));
  },
};

/** One file. */
const FILE: Judge = {
  covers(patterns, value) {
    const path = pathOf(value);
    return path !== undefined && patterns.some((pattern) => matchesGlob(plainGlob(pattern), path));
  },
  touches(patterns, value) {
    const path = pathOf(value)?.toLowerCase();
    if (path === undefined) return true;
    // Where nothing is mounted, a whole path may lead into the workspace.
    const anywhere = path.startsWith("/") ? "**/" : "";
    return patterns.some((pattern) => matchesGlob(anywhere + plainGlob(pattern).toLowerCase(), path));
  },
};

/** A folder with all that is in it. */
const FOLDER: Judge = {
  covers(patterns, value) {
    const path = pathOf(value ?? ".");
    if (path === undefined) return false;
    const inside = path === "." ? DEEP : `${path}/${DEEP}`;
    return patterns.map(plainGlob).some((glob) => glob === path || matchesGlob(glob, inside));
  },
  touches(patterns, value) {
    const path = pathOf(value ?? ".")?.toLowerCase();
    if (path === undefined || path === "." || /^\/(?!skill\/)/.test(path)) return true;
    return patterns.some((pattern) => {
      const [fixed = ""] = /^[^*?[{]*/.exec(plainGlob(pattern).toLowerCase()) ?? [];
      return fixed.startsWith(path) || path.startsWith(fixed);
    });
  },
};

/** Stands for anything below a folder: only a pattern for all of it fits. */
const DEEP = "\u0001/".repeat(32);

const NAMED: Judge = {
  covers: (patterns, value) => value !== undefined && patterns.some((pattern) => matchesWord(nameIn(pattern), value)),
  touches: (patterns, value) =>
    value === undefined ||
    patterns.some((pattern) => matchesWord(nameIn(pattern).toLowerCase(), value.toLowerCase().replace(/@.*$/s, ""))),
};

const ADDRESS: Judge = {
  covers(patterns, value) {
    const host = hostOf(value);
    return host !== undefined && patterns.some((pattern) => domainOf(pattern) === host);
  },
  touches(patterns, value) {
    const host = hostOf(value);
    if (host === undefined) return true;
    return patterns.some((pattern) => {
      const domain = domainOf(pattern);
      return domain === undefined || host === domain || host.endsWith(`.${domain}`);
    });
  },
};

const NOBODY_KNOWS: Judge = { covers: () => false, touches: () => true };

/** What of a tool's input its patterns are about. */
const JUDGES = new Map<string, { judge: Judge; key: string }>([
  ["bash", { judge: COMMAND, key: "command" }],
  ["read_file", { judge: FILE, key: "path" }],
  ["write_file", { judge: FILE, key: "path" }],
  ["edit_file", { judge: FILE, key: "path" }],
  ["list_files", { judge: FOLDER, key: "path" }],
  ["grep", { judge: FOLDER, key: "path" }],
  ["web_fetch", { judge: ADDRESS, key: "url" }],
  ["use_skill", { judge: NAMED, key: "skill" }],
  ["load_skill", { judge: NAMED, key: "skill" }],
  ["run_skill_script", { judge: NAMED, key: "script" }],
]);

function judgeOf(tool: string): Judge {
  return JUDGES.get(ourTool(tool))?.judge ?? NOBODY_KNOWS;
}

function valuesIn(tool: string, input: unknown): string | undefined {
  const value = isData(input) ? input[JUDGES.get(ourTool(tool))?.key ?? ""] : undefined;
  return typeof value === "string" ? value : undefined;
}

/** `git log:*` and `git log *` are `git`, `log` and whatever follows. */
function wordsOf(pattern: string): string[] {
  const spaced = pattern.replace(/:\*$/, " *");
  const [words, another] = simpleCommands(spaced) ?? [];
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

/** These run what their arguments say. */
const RUNNERS = new Set(
  ". ash bash builtin busybox command dash doas env eval exec find ksh nice nohup parallel script setsid sh source stdbuf su sudo timeout watch xargs zsh".split(
    " ",
  ),
);

/** Whether its words stand somewhere in a command, in their order: also behind `env`, `xargs`, `/usr/bin/` and `sh -c`. */
function mentions(command: readonly string[], pattern: readonly string[]): boolean {
  const [name = "", ...rest] = command;
  if (RUNNERS.has(name.slice(name.lastIndexOf("/") + 1)) && rest.some((word) => /[$\\"'*?[{~]/.test(word))) return true;
  const said = command.flatMap((word) => word.toLowerCase().split(/[^a-z0-9_.+-]+/));
  let next = 0;
  const wanted = pattern.filter((word) => word !== "*").map((word) => word.toLowerCase());
  for (const word of said) if (next < wanted.length && matchesWord(wanted[next] ?? "", word)) next++;
  return next === wanted.length;
}

/** As the workspace names it, however a model does: `./a`, `/workspace/a`. Nothing for one that leaves its folder. */
function pathOf(value: string | undefined): string | undefined {
  if (value === undefined || value === "" || value.includes("\0")) return undefined;
  const path = value.replace(/^\/workspace(?=\/|$)\/*/, "./");
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (/(?:^|[/\\])\.\.(?:[/\\]|$)/.test(path) || path.startsWith("~")) return undefined;
  if (path.startsWith("/")) return `/${parts.join("/")}`;
  return parts.length === 0 ? "." : parts.join("/");
}

function plainGlob(pattern: string): string {
  return pattern.replace(/^\/workspace\//, "").replace(/^(?:\.\/)+/, "");
}

/** `name:*` and `name *` mean its arguments too. */
function nameIn(pattern: string): string {
  return pattern.replace(/(?::| )\*$/, "");
}

function hostOf(value: string | undefined): string | undefined {
  const url = URL.parse(value ?? "");
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") return undefined;
  return url.hostname.toLowerCase();
}

/** `domain:example.com` → `example.com`. */
function domainOf(pattern: string): string | undefined {
  return /^domain:([a-z0-9.-]+)$/i.exec(pattern)?.[1]?.toLowerCase();
}
