import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { CommanderError, type Command as Program } from "commander";
import { findFormerSpelling } from "../../src/cli/main.ts";
import { buildProgram, expandAlias, failUnknownCommand } from "../../src/cli/program.ts";
import { temporaryFolder } from "./folder.ts";

export const ROOT = join(import.meta.dirname, "..", "..");

/** Code between fences. What stands after the language are marks, which no reader sees: ```` ```ts alone ````. */
export interface CodeBlock {
  page: string;
  language: string;
  marks: readonly string[];
  /** The line of the page that its first line is. */
  line: number;
  code: string;
}

const FENCED = /^```(\S*)[ \t]*(.*)\n([\s\S]*?)^```[ \t]*$/gm;

/** All code of a page, which is named from the top of the project. */
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
 * The TypeScript of a page as modules: the blocks of a page are one, in their order, and one that is marked `alone` is one of its own.
 * Each line stands where it stands in the page, so that what is said of a module's line is true of the page's.
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

/** A folder that this package, as it is built, its optional packages and zod are installed in. */
export function installedFolder(files: Record<string, string> = {}): string {
  const { peerDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const folder = temporaryFolder({ "package.json": '{ "type": "module" }', ...files });
  const link = (name: string, to: string) => {
    mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
    symlinkSync(to, join(folder, "node_modules", name));
  };
  for (const name of [...Object.keys(peerDependencies), "zod", "@types"]) link(name, join(ROOT, "node_modules", name));
  link("skillet", ROOT);
  link("@agent/tools", ROOT); // What toolsets call it.
  return folder;
}

/** What the compiler has against these modules, with the types that the package has for others: `docs/use.ts(12,3): error …`. */
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

/** A call of the program that a page shows. */
export interface ShownCall {
  line: number;
  argv: readonly string[];
  /** It stands in a sentence, where what it is called with may be left out. */
  isInline: boolean;
}

const SHELLS = ["sh", "bash", "console"];
const INLINE = /`((?:npx )?skillet [^`]+)`/g;

/** Every call of `skillet` in a page: in blocks for shells, after the `$ ` of what is shown of a terminal, and in sentences. */
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

/** What the program has against being called so, by its own table of commands; nothing is run. */
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
