import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { CommanderError, type Command as Program } from "commander";
import { findFormerSpelling } from "../../src/cli/main.ts";
import { buildProgram, expandAlias, failUnknownCommand } from "../../src/cli/program.ts";
import { temporaryFolder } from "./folder.ts";

export const ROOT = join(import.meta.dirname, "..", "..");

/** Code between fences. The text after the language has marks, which no reader sees: ```` ```ts alone ````. */
export interface CodeBlock {
  page: string;
  language: string;
  marks: readonly string[];
  /** The line number of its first line in the page. */
  line: number;
  code: string;
}

const FENCED = /^```(\S*)[ \t]*(.*)\n([\s\S]*?)^```[ \t]*$/gm;

/** Returns all code of a page; its path is relative to the project root. */
export function codeBlocks(page: string): CodeBlock[] {
  const text = readFileSync(join(ROOT, page), "utf8");
  return [...text.matchAll(FENCED)].map(({ 1: language = "", 2: marks = "", 3: code = "", index }) => ({
    page,
    language,
    marks: marks.split(/\s+/).filter(Boolean),
    line: text.slice(0, index).split("\n").length + 1,
    code,
  }));
}

/**
 * Returns the TypeScript of a page as modules. All blocks form one module, in their order; a block marked `alone` is a separate module.
 * Each line keeps its line number, so that compiler messages refer to lines of the page.
 */
export function modulesOf(page: string): Record<string, string> {
  const stem = page.replace(/\.md$/, "");
  const blocks = codeBlocks(page).filter(({ language }) => language === "ts");
  const modules = Map.groupBy(blocks, ({ marks, line }) =>
    marks.includes("alone") ? `${stem}.${line}.ts` : `${stem}.ts`,
  );
  return Object.fromEntries([...modules].map(([name, parts]) => [name, moduleOf(parts)]));
}

export function moduleOf(blocks: readonly CodeBlock[]): string {
  const lines: string[] = [];
  for (const { line, code } of blocks) {
    for (const [index, text] of code.split("\n").entries()) lines[line - 1 + index] = text;
  }
  return `${Array.from(lines, (line) => line ?? "").join("\n")}\nexport {};\n`;
}

/** Creates a folder with the built package, its optional packages and zod installed. */
export function installedFolder(files: Record<string, string> = {}): string {
  const { peerDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const folder = temporaryFolder({ "package.json": '{ "type": "module" }', ...files });
  const link = (name: string, to: string) => {
    mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
    symlinkSync(to, join(folder, "node_modules", name));
  };
  for (const name of [...Object.keys(peerDependencies), "zod", "@types"]) link(name, join(ROOT, "node_modules", name));
  link("skillet", ROOT);
  link("@agent/tools", ROOT); // The name that toolsets use.
  return folder;
}

/** Returns the compiler errors of these modules, with the package's published types: `docs/use.ts(12,3): error …`. */
export function typeErrors(modules: Record<string, string>): string[] {
  const { compilerOptions } = JSON.parse(readFileSync(join(ROOT, "tsconfig.json"), "utf8"));
  const include = Object.keys(modules);
  const folder = installedFolder({ ...modules, "tsconfig.json": JSON.stringify({ compilerOptions, include }) });
  const compiler = join(ROOT, "node_modules/.bin/tsc");
  const { status, stdout } = spawnSync(compiler, ["-p", folder, "--pretty", "false"], {
    encoding: "utf8",
    cwd: folder,
  });
  return status === 0 ? [] : [...stdout.split("\n").filter(Boolean), `tsc ended with ${status}`];
}

/** A command of the program in a page. */
export interface ShownCall {
  line: number;
  argv: readonly string[];
  /** True if it is inside a sentence, where arguments may be omitted. */
  isInline: boolean;
}

const SHELLS = ["sh", "bash", "console"];
const INLINE = /`((?:npx )?skillet [^`]+)`/g;

/** Returns every call of `skillet` in a page: in shell blocks, after the `$ ` of terminal output, and in sentences. */
export function callsOf(page: string): ShownCall[] {
  const blocks = codeBlocks(page);
  const lines = readFileSync(join(ROOT, page), "utf8").split("\n");
  const isCode = new Set(blocks.flatMap(({ line, code }) => code.split("\n").map((_, index) => line + index)));
  const ofBlocks = blocks
    .filter(({ language }) => SHELLS.includes(language))
    .flatMap(({ language, line, code }) =>
      code.split("\n").flatMap((text, index) => {
        if (language === "console" && !text.startsWith("$ ")) return [];
        const command = language === "console" ? text.slice(2) : text;
        return callsIn(command).map((argv) => ({ line: line + index, argv, isInline: false }));
      }),
    );
  const ofSentences = lines.flatMap((text, index) =>
    isCode.has(index + 1)
      ? []
      : [...text.matchAll(INLINE)].flatMap(([, command = ""]) =>
          // Brackets say what may be left out.
          callsIn(command.replace(/[[\]]/g, "")).map((argv) => ({ line: index + 1, argv, isInline: true })),
        ),
  );
  return [...ofBlocks, ...ofSentences];
}

const WORD = /(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'|;&<>])+|[|;&<>]+/g;

/** The arguments of each `skillet` in a line for a shell. */
function callsIn(line: string): string[][] {
  const commands: string[][] = [[]];
  let isTarget = false;
  for (const [word] of line.matchAll(WORD)) {
    if (word.startsWith("#")) break;
    if (/^[<>]/.test(word)) isTarget = true;
    else if (/^[|;&]/.test(word)) commands.push([]);
    else if (isTarget) isTarget = false;
    else commands.at(-1)?.push(word.replace(/"((?:[^"\\]|\\.)*)"|'([^']*)'/g, (_, a = "", b = "") => a + b));
  }
  return commands.flatMap((words) => {
    const at = words.findIndex((word) => !/^(?:npx|sudo|\w+=.*)$/.test(word));
    return words[at] === "skillet" ? [words.slice(at + 1)] : [];
  });
}

/** Returns the usage error of the command, from the program's table of commands, without running it. */
export async function usageError({
  argv: shown,
  isInline,
}: Pick<ShownCall, "argv" | "isInline">): Promise<string | undefined> {
  if (isInline && findFormerSpelling(shown)) return undefined;
  const argv = expandAlias(shown);
  let said = "";
  const stream = { write: (text: string) => (said += text), columns: 100 };
  const program = await buildProgram({ stdout: stream, stderr: stream, env: {}, cwd: ROOT }, argv, () => {});
  const commands = (command: Program): Program[] => [command, ...command.commands.flatMap(commands)];
  for (const command of commands(program)) {
    command.action(() => {
      const [unknown] = command.commands.length > 0 ? command.args.slice(command.registeredArguments.length) : [];
      if (unknown !== undefined) failUnknownCommand(command, unknown);
    });
  }
  try {
    await program.parseAsync([...argv], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError) || error.exitCode === 0) return undefined;
    if (isInline && LEFT_OUT.includes(error.code)) return undefined;
    return said.trim().split("\n")[0] ?? error.message;
  }
  return undefined;
}

const LEFT_OUT = ["commander.missingArgument", "commander.optionMissingArgument", "commander.help"];
