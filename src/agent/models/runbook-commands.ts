import {
  type ArgumentSubstitutions,
  createShellValues,
  substituteArguments,
} from "../../skill/substitute-arguments.ts";

/** Returns the commands in instructions, in order, with the arguments filled in. */
export function findInstructionCommands(
  body: string,
  given: Omit<ArgumentSubstitutions, "replace" | "addsUnused">,
): string[] {
  const values = createShellValues();
  const commands = findCommandBlocks(body).map(({ start, end }) => ({
    end,
    put: values.createReplacer(body.slice(start, end), start),
    start,
  }));
  let next = 0;
  const filled = substituteArguments(body, {
    ...given,
    addsUnused: false,
    // Placeholders come in order. Placeholders outside commands stay as they are.
    replace(value, placeholder) {
      while ((commands[next]?.end ?? body.length + 1) <= placeholder.at) next++;
      const command = commands[next];
      return command && command.start <= placeholder.at ? command.put(value, placeholder) : placeholder.written;
    },
  });
  return findCommandBlocks(filled).map(({ text }) => values.prependVariables(text));
}

interface FoundCommand {
  start: number;
  end: number;
  text: string;
}

const FENCE = /^[ \t]*(`{3,}|~{3,})[ \t]*([^\s`{]*)/;
const SHELL_LANGUAGES = new Set(["sh", "bash", "shell", "zsh"]);
const SESSION_LANGUAGES = new Set(["console", "shell-session", "shellsession", "terminal"]);
const RUN_LINE = /^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\*\*|__)?Run:(?:\*\*|__)?[ \t]+(.*\S)[ \t]*$/;

/** Finds fenced shell blocks, and `Run:` lines outside all blocks. */
function findCommandBlocks(body: string): FoundCommand[] {
  const found: FoundCommand[] = [];
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

function addBlock(
  found: FoundCommand[],
  block: { language: string; start: number; lines: string[] },
  end: number,
): void {
  const isSession = SESSION_LANGUAGES.has(block.language);
  if (!isSession && !SHELL_LANGUAGES.has(block.language)) return;
  const lines = removeIndent(block.lines);
  const hasPrompts = lines.some((line) => SHELL_PROMPT.test(line));
  const text = (hasPrompts ? selectTypedLines(lines) : isSession ? [] : lines).join("\n").trim();
  if (text.split("\n").some((line) => line.trim() !== "" && !/^\s*#/.test(line))) {
    found.push({ start: block.start, end, text });
  }
}

const SHELL_PROMPT = /^\s*\$ /;

/** Selects the typed lines of a session: those after a prompt, and their continuations. Output is dropped. */
function selectTypedLines(lines: readonly string[]): string[] {
  const kept: string[] = [];
  let goesOn = false;
  for (const line of lines) {
    if (!goesOn && !SHELL_PROMPT.test(line)) continue;
    kept.push(line.replace(goesOn ? /^> ?/ : SHELL_PROMPT, ""));
    goesOn = line.endsWith("\\");
  }
  return kept;
}

/** Removes the indentation of a block inside a list. */
function removeIndent(lines: readonly string[]): string[] {
  const depths = lines.filter((line) => line.trim() !== "").map((line) => /^[ \t]*/.exec(line)?.[0].length ?? 0);
  const depth = depths.length === 0 ? 0 : Math.min(...depths);
  return lines.map((line) => line.slice(depth));
}
