import { openShellValues } from "../skill/shell-values.ts";
import { type Substitutes, substitute } from "../skill/substitute.ts";

/** What `bash` says first of a command that could only read the workspace and tried to change it. */
export const NEEDS_WRITES =
  "[The workspace could only be read: for a command that changes it set writes to true; the user may be asked first.]";

/** The commands that instructions spell out, in order, with the arguments in them. */
export function commandsIn(body: string, given: Omit<Substitutes, "put" | "addsUnused">): string[] {
  const values = openShellValues();
  const commands = find(body).map(({ start, end }) => ({
    end,
    put: values.putInto(body.slice(start, end), start),
    start,
  }));
  let next = 0;
  const filled = substitute(body, {
    ...given,
    addsUnused: false,
    // Placeholders come in order. What stands in no command is left to whoever reads.
    put(value, placeholder) {
      while ((commands[next]?.end ?? body.length + 1) <= placeholder.at) next++;
      const command = commands[next];
      return command && command.start <= placeholder.at ? command.put(value, placeholder) : placeholder.written;
    },
  });
  return find(filled).map(({ text }) => values.set(text));
}

interface Found {
  start: number;
  end: number;
  text: string;
}

const FENCE = /^[ \t]*(`{3,}|~{3,})[ \t]*([^\s`{]*)/;
const SHELLS = new Set(["sh", "bash", "shell", "zsh"]);
const SESSIONS = new Set(["console", "shell-session", "shellsession", "terminal"]);
const RUN_LINE = /^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\*\*|__)?Run:(?:\*\*|__)?[ \t]+(.*\S)[ \t]*$/;

/** Fenced blocks of a shell, and `Run:` lines outside of all blocks. */
function find(body: string): Found[] {
  const found: Found[] = [];
  let block: { fence: string; language: string; start: number; lines: string[] } | undefined;
  let isComment = false;
  let start = 0;
  for (const whole of body.split("\n")) {
    const line = whole.replace(/\r$/, "");
    const end = start + whole.length;
    const [, fence = "", language = ""] = isComment ? [] : (FENCE.exec(line) ?? []);
    if (block) {
      if (fence.startsWith(block.fence) && language === "") {
        addBlock(found, block, start);
        block = undefined;
      } else block.lines.push(line);
    } else if (fence !== "") block = { fence, language: language.toLowerCase(), start: end + 1, lines: [] };
    else {
      isComment = line.lastIndexOf("<!--") > line.lastIndexOf("-->") || (isComment && !line.includes("-->"));
      const [, run = ""] = isComment ? [] : (RUN_LINE.exec(line) ?? []);
      const text = /^(`{1,3}) ?(.+?) ?\1(?!`)/.exec(run)?.[2] ?? run;
      if (text !== "") found.push({ start: start + line.lastIndexOf(text), end, text });
    }
    start = end + 1;
  }
  if (block) addBlock(found, block, body.length);
  return found;
}

function addBlock(found: Found[], block: { language: string; start: number; lines: string[] }, end: number): void {
  const isSession = SESSIONS.has(block.language);
  if (!isSession && !SHELLS.has(block.language)) return;
  const lines = withoutIndent(block.lines);
  const hasPrompts = lines.some((line) => PROMPT.test(line));
  const text = (hasPrompts ? typed(lines) : isSession ? [] : lines).join("\n").trim();
  if (text.split("\n").some((line) => line.trim() !== "" && !/^\s*#/.test(line))) {
    found.push({ start: block.start, end, text });
  }
}

const PROMPT = /^\s*\$ /;

/** What somebody typed: the lines after a prompt, and those that go on with one. What was printed is left out. */
function typed(lines: readonly string[]): string[] {
  const kept: string[] = [];
  let goesOn = false;
  for (const line of lines) {
    if (!goesOn && !PROMPT.test(line)) continue;
    kept.push(line.replace(goesOn ? /^> ?/ : PROMPT, ""));
    goesOn = line.endsWith("\\");
  }
  return kept;
}

/** A block in a list stands as far in as the list does. */
function withoutIndent(lines: readonly string[]): string[] {
  const depths = lines.filter((line) => line.trim() !== "").map((line) => /^[ \t]*/.exec(line)?.[0].length ?? 0);
  const depth = depths.length === 0 ? 0 : Math.min(...depths);
  return lines.map((line) => line.slice(depth));
}
