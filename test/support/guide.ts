import { spawn } from "node:child_process";
import { chmodSync, mkdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { temporaryFolder, writeFiles } from "./folder.ts";
import { type CodeBlock, codeBlocks, ROOT } from "./markdown-code.ts";

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

type PageStep = Omit<GuideStep, "output" | "exit">;

/** Runs the commands of a page from top to bottom, in a new home and a new folder, with the files that the page shows. */
export async function followGuide(page: string, env: Record<string, string> = {}): Promise<GuideStep[]> {
  const home = temporaryFolder({
    "bin/skillet": `#!/bin/sh\nexec "${process.execPath}" "${join(ROOT, "bin/skillet.cjs")}" "$@"\n`,
  });
  const cwd = join(home, "project");
  mkdirSync(cwd);
  for (const path of [home, join(home, "bin"), join(home, "bin/skillet")]) chmodSync(path, 0o755);
  const path = [join(home, "bin"), process.env["PATH"]].join(delimiter);
  const steps: GuideStep[] = [];
  for (const block of codeBlocks(page)) {
    const file = block.marks.find((mark) => mark.startsWith("file="))?.slice("file=".length);
    if (file !== undefined) writeFiles(cwd, { [file]: block.code.replaceAll(/^~~~/gm, "```") });
    else if (["sh", "console"].includes(block.language) && !block.marks.includes("skip"))
      for (const step of listSteps(block))
        steps.push({ ...step, ...(await runLine(step.command, cwd, { PATH: path, HOME: home, ...env })) });
  }
  return steps;
}

/** Lists the commands of a block, with what the page shows after each. */
export function listSteps({ language, marks, line, code }: CodeBlock): PageStep[] {
  const expectedExit = Number(marks.find((mark) => mark.startsWith("exit="))?.slice("exit=".length) ?? 0);
  const steps: (Omit<GuideStep, "shown" | "output" | "exit"> & { shown: string[] })[] = [];
  for (const [index, text] of code.replace(/\n$/, "").split("\n").entries()) {
    if (language === "sh") {
      if (text !== "" && !text.startsWith("#"))
        steps.push({ line: line + index, command: text, shown: ["…"], expectedExit });
    } else if (text.startsWith("$ "))
      steps.push({ line: line + index, command: text.slice(2), shown: [], expectedExit });
    else steps.at(-1)?.shown.push(text);
  }
  return steps;
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
  return maySkip || at >= lines.length ? undefined : `(the page ends before: ${lines[at]})`;
}

function escapePattern(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
