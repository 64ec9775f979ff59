import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { onTestFinished } from "vitest";
import { temporaryFolder, writeFiles } from "./folder.ts";
import { type CodeBlock, codeBlocks, ROOT } from "./markdown-code.ts";

/** The headings of docs/README.md whose pages are guides: a reader follows them, so they lead with code. */
const GUIDE_HEADINGS = ["Get started", "Use skills", "Write skills", "Build agents", "Run skills for others", "Help"];

/** Lists the pages below the guide headings of docs/README.md, except those that answer questions without commands. */
export function listGuides(): string[] {
  const index = readFileSync(join(ROOT, "docs/README.md"), "utf8");
  const sections = index.split(/^## /m).filter((section) => GUIDE_HEADINGS.includes(section.split("\n")[0] ?? ""));
  const pages = sections.flatMap((section) =>
    Array.from(section.matchAll(/^\|.*?\]\(([a-z-]+\.md)\)/gm), ([, page = ""]) => `docs/${page}`),
  );
  return [...new Set(pages)];
}

const FENCED = /^```[\s\S]*?^```[ \t]*$/gm;

/** Counts the words of a page's prose (without code blocks, tables and comments) and its code blocks. */
export function measurePage(page: string): {
  words: number;
  blocks: number;
  longParagraphs: number;
  paragraphs: number;
} {
  const text = readFileSync(join(ROOT, page), "utf8").replace(/<!--[\s\S]*?-->/g, "");
  const prose = text.replace(FENCED, "").replace(/^\|.*$/gm, "");
  const paragraphs = prose
    .split(/\n\s*\n|\n(?=\s*(?:-|\d+\.) )/)
    .map(countWords)
    .filter((words) => words > 0);
  return {
    words: countWords(prose),
    blocks: text.match(FENCED)?.length ?? 0,
    paragraphs: paragraphs.length,
    longParagraphs: paragraphs.filter((words) => words > 60).length,
  };
}

function countWords(text: string): number {
  return text.match(/\S*[\p{L}\p{N}]\S*/gu)?.length ?? 0;
}

/** Returns what a page needs in addition to skillet: `<!-- needs: model, notes -->` in its first lines. */
export function listNeeds(page: string): string[] {
  const [, needs = ""] = /^<!-- needs: (.*) -->$/m.exec(readFileSync(join(ROOT, page), "utf8")) ?? [];
  return needs.split(", ").filter(Boolean);
}

/** A command of a guide, as it was run: what the page shows, and what the terminal showed. */
export interface GuideStep {
  line: number;
  command: string;
  /** The lines that the page shows. `…` stands for any text, and alone on a line for any lines. */
  shown: readonly string[];
  exit: number;
  expectedExit: number;
  output: string;
}

/** The machine that a guide is followed on. */
export interface GuideScene {
  home: string;
  cwd: string;
  env: Record<string, string>;
  /** Returns the command that runs a command there. Defaults to this machine. */
  wrap?(argv: readonly string[]): [string, ...string[]];
}

/** A new home and a new folder, with `skillet` in the `PATH`. */
export function createGuideScene(env: Record<string, string> = {}): GuideScene {
  const home = temporaryFolder({
    "bin/skillet": `#!/bin/sh\nexec "${process.execPath}" "${join(ROOT, "bin/skillet.cjs")}" "$@"\n`,
  });
  const cwd = join(home, "project");
  mkdirSync(cwd);
  for (const path of [home, join(home, "bin"), join(home, "bin/skillet")]) chmodSync(path, 0o755);
  chmodSync(cwd, 0o777); // Where root runs the tests, code of skills is another user.
  const path = [join(home, "bin"), dirname(process.execPath), process.env["PATH"]].join(delimiter);
  return { home, cwd, env: { PATH: path, HOME: home, NO_COLOR: "1", ...env } };
}

/**
 * Runs the commands of a page from top to bottom, with the files that the page shows. Marks of a block:
 *
 * - `file=PATH` writes it, `exit=N` expects that exit code, `skip` runs nothing,
 * - `answer=TEXT` runs it at a terminal and gives this answer to each question,
 * - `background` keeps its command running until the page ends.
 */
export async function followGuide(page: string, scene: GuideScene): Promise<GuideStep[]> {
  const steps: GuideStep[] = [];
  const children: ChildProcess[] = [];
  for (const block of codeBlocks(page)) {
    const file = readMark(block, "file");
    if (file !== undefined) writeShownFile(file, block.code, scene);
    else if (["sh", "console"].includes(block.language) && !block.marks.includes("skip"))
      for (const step of listSteps(block)) {
        const [answer, isBackground] = [readMark(block, "answer"), block.marks.includes("background")];
        steps.push({ ...step, ...(await runStep(step, { scene, children, answer, isBackground })) });
      }
  }
  for (const child of children) if (child.pid !== undefined) killGroup(child.pid);
  return steps;
}

function writeShownFile(path: string, code: string, { home, cwd }: GuideScene): void {
  const text = code.replaceAll(/^~~~/gm, "```");
  const [folder, name] = path.startsWith("~/") ? [home, path.slice(2)] : [cwd, path];
  writeFiles(folder, { [name]: text });
  chmodSync(join(folder, name), name.endsWith(".sh") ? 0o755 : name.includes("config.toml") ? 0o600 : 0o644);
}

function readMark({ marks }: CodeBlock, name: string): string | undefined {
  return marks.find((mark) => mark.startsWith(`${name}=`))?.slice(name.length + 1);
}

type ShownStep = Omit<GuideStep, "output" | "exit">;

/** Lists the commands of a block, with what the page shows after each. */
export function listSteps(block: CodeBlock): ShownStep[] {
  const expectedExit = Number(readMark(block, "exit") ?? 0);
  const steps: (Omit<ShownStep, "shown"> & { shown: string[] })[] = [];
  for (const [index, text] of block.code.replace(/\n$/, "").split("\n").entries()) {
    if (block.language === "sh") {
      if (text !== "" && !text.startsWith("#"))
        steps.push({ line: block.line + index, command: text, shown: ["…"], expectedExit });
    } else if (text.startsWith("$ "))
      steps.push({ line: block.line + index, command: text.slice(2), shown: [], expectedExit });
    else steps.at(-1)?.shown.push(text);
  }
  return steps;
}

interface LineOptions {
  scene: GuideScene;
  children: ChildProcess[];
  answer: string | undefined;
  isBackground: boolean;
}

async function runStep(step: ShownStep, options: LineOptions): Promise<Pick<GuideStep, "output" | "exit">> {
  const { scene, children, answer, isBackground } = options;
  const line = `exec 2>&1; ${step.command}`;
  const argv =
    answer === undefined ? ["bash", "-c", line] : ["script", "-qfec", `stty cols 120 -echo; ${line}`, "/dev/null"];
  const [program = "", ...args] = scene.wrap?.(argv) ?? argv;
  const child = spawn(program, args, {
    cwd: scene.cwd,
    env: { ...scene.env, ...(answer === undefined ? {} : { TERM: "xterm", SHELL: "/bin/bash" }) },
    stdio: [answer === undefined ? "ignore" : "pipe", "pipe", "ignore"],
    detached: true,
  });
  onTestFinished(() => {
    if (child.pid !== undefined) killGroup(child.pid);
  });
  let output = "";
  const ended = new Promise<number>((resolve) => child.on("close", (code) => resolve(code ?? -1)));
  const isShown = new Promise<number>((resolve) => {
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      if (answer !== undefined && QUESTION.test(stripVTControlCharacters(output))) child.stdin?.write(`${answer}\n`);
      if (isBackground && findMissingLine({ shown: step.shown, output }) === undefined) resolve(0);
    });
  });
  if (isBackground) children.push(child);
  const exit = await (isBackground ? Promise.race([isShown, ended]) : ended);
  // A page shows the reader's home as `~`.
  return { output: stripVTControlCharacters(output).replaceAll("\r", "").replaceAll(scene.home, "~"), exit };
}

/** Runs a command of a page. `wrap` returns the program and the arguments that run it on another machine. */
export async function runLine(
  command: string,
  cwd: string,
  env: Record<string, string>,
  wrap = (line: string, _folder: string): [string, string[]] => ["bash", ["-c", line]],
): Promise<Pick<GuideStep, "output" | "exit">> {
  const child = spawn(...wrap(`exec 2>&1; ${command}`, cwd), { cwd, env, stdio: ["ignore", "pipe", "ignore"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const exit = await new Promise<number>((resolve) => child.on("close", (code) => resolve(code ?? -1)));
  return { output, exit };
}

/** A question at a terminal ends its line without a line feed. */
const QUESTION = /(?:\[[^\]\n]+\][^\n]*|\?) ?$/;

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/** Returns the first shown line that the output does not have, or undefined. */
export function findMissingLine({ shown, output }: Pick<GuideStep, "shown" | "output">): string | undefined {
  const lines = output.replace(/\n$/, "").split("\n");
  let at = 0;
  let maySkip = false;
  for (const line of shown) {
    if (line === "…") {
      maySkip = true;
      continue;
    }
    const pattern = new RegExp(`^${line.split("…").map(escapePattern).join(".*")}\\s*$`);
    while (at < lines.length && !pattern.test(lines[at] ?? "") && maySkip) at += 1;
    if (!pattern.test(lines[at] ?? "")) return line;
    at += 1;
    maySkip = false;
  }
  if (maySkip || at >= lines.length) return undefined;
  return lines[at] === "" && at === lines.length - 1 ? undefined : `(the page ends before: ${lines[at]})`;
}

function escapePattern(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
