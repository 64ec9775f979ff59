import { hasFolder, type Skill } from "./skill.ts";

/** Where a skill's folder is for the code in a sandbox. */
export const SKILL_FOLDER = "/skill";

/** The skill's folder as its code sees it: for prompts of a model that works where the code does. Nothing for a skill without one. */
export function sandboxPathOf({ origin }: Skill): string | undefined {
  return hasFolder(origin) ? SKILL_FOLDER : undefined;
}

/** A file of a skill that can be run. */
export interface SkillScript {
  /** Relative to the skill's folder. */
  path: string;
  name: string;
  description?: string;
}

/** What a skill's scripts are: those it declares, then what else stands in its `scripts` folder and looks like one. */
export function scriptsOf(skill: Skill): SkillScript[] {
  const { files } = skill.files();
  const declared = skill.manifest.scripts.flatMap(({ path, name, description }) => {
    const file = files.find((candidate) => candidate.path === plainPath(path));
    if (!file) return [];
    return [
      { path: file.path, name: name ?? stemOf(file.path), ...(description === undefined ? {} : { description }) },
    ];
  });
  const seen = new Set(declared.map(({ path }) => path));
  const found = files
    .filter(({ path, executable }) => path.startsWith("scripts/") && !seen.has(path) && looksRunnable(path, executable))
    .map(({ path }) => ({ path, name: stemOf(path) }));
  return [...declared, ...found];
}

/** The script that is meant: by its path, with or without `scripts/`, by its name, or by its file's. */
export function findScript(scripts: readonly SkillScript[], wanted: string): SkillScript | undefined {
  const path = plainPath(wanted);
  const ways: ((script: SkillScript) => boolean)[] = [
    (script) => script.path === path,
    (script) => script.name === wanted,
    (script) => script.path === `scripts/${path}`,
    (script) => fileOf(script.path) === path,
  ];
  for (const isMeant of ways) {
    const [script, another] = scripts.filter(isMeant);
    if (script && !another) return script;
  }
  return undefined;
}

export interface Interpreter {
  /** Looked for in the sandbox's own PATH; nothing when the file is a program itself. */
  program?: string;
  args: readonly string[];
}

/** What runs a file: what its first line says, else what its name says. Nothing when neither does. */
export function interpreterOf(path: string, bytes: Uint8Array): Interpreter | undefined {
  const start = String.fromCharCode(...bytes.subarray(0, 512));
  if (start.startsWith("\x7fELF")) return { args: [] };
  const [, line] = /^(?:\xef\xbb\xbf)?#! *([^\r\n]+)/.exec(start) ?? [];
  const words = line?.trim().split(/\s+/) ?? [];
  if (fileOf(words[0] ?? "") === "env") {
    words.shift();
    while (/^(?:-S|--split-string|-i|-u|[A-Z_]+=.*)$/.test(words[0] ?? "")) words.shift();
  }
  const [first, ...args] = words;
  if (first !== undefined && first !== "") return { program: fileOf(first), args };
  const program = BY_EXTENSION.get(extensionOf(path));
  return program === undefined ? undefined : { program, args: [] };
}

/** The packages that a Python script declares in its own comments (PEP 723), when it declares any. */
export function inlineDependencies(text: string): readonly string[] | undefined {
  const [, block] = /^# \/\/\/ script *\r?\n((?:#(?: [^\r\n]*)?\r?\n)+?)# \/\/\/ *$/m.exec(text) ?? [];
  const [, list] = /^# dependencies *= *\[((?:"[^"\n]*"|'[^'\n]*'|[^\]"'])*)\]/m.exec(block ?? "") ?? [];
  const found = [...(list ?? "").matchAll(/"([^"\n]+)"|'([^'\n]+)'/g)].map(
    ([, double, single]) => double ?? single ?? "",
  );
  return found.length === 0 ? undefined : found;
}

/** What else does the work of a program that is not there. */
export const STAND_INS: ReadonlyMap<string, string> = new Map([
  ["python", "python3"],
  ["bun", "node"],
  ["tsx", "node"],
  ["ts-node", "node"],
  ["dash", "sh"],
]);

const BY_EXTENSION = new Map([
  ["sh", "sh"],
  ["bash", "bash"],
  ["py", "python3"],
  ["js", "node"],
  ["mjs", "node"],
  ["cjs", "node"],
  ["ts", "node"],
  ["mts", "node"],
  ["cts", "node"],
  ["rb", "ruby"],
  ["pl", "perl"],
]);

function looksRunnable(path: string, executable: boolean): boolean {
  const file = fileOf(path);
  if (/^[._]/.test(file) || /\.d\.[cm]?ts$/.test(file)) return false;
  const extension = extensionOf(path);
  return BY_EXTENSION.has(extension) || (executable && extension === "");
}

/** `./scripts/x` is `scripts/x`. */
export function plainPath(path: string): string {
  return path.replace(/^(?:\.\/)+/, "");
}

function fileOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function stemOf(path: string): string {
  return fileOf(path).replace(/\.[^.]+$/, "");
}

function extensionOf(path: string): string {
  return /\.([^.]+)$/.exec(fileOf(path))?.[1]?.toLowerCase() ?? "";
}
