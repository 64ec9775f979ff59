import type { ToolsetRef } from "./manifest-fields.ts";
import { hasFolder, type Skill, type SkillFile } from "./skill.ts";

/** The path of a skill's folder in a sandbox. */
export const SANDBOX_SKILL_FOLDER = "/skill";

/**
 * Returns the path of the skill's folder in the sandbox, for prompts of a model that works there. Undefined for a skill without a
 * folder.
 */
export function getSandboxPath({ origin }: Skill): string | undefined {
  return hasFolder(origin) ? SANDBOX_SKILL_FOLDER : undefined;
}

/** An executable file of a skill. */
export interface SkillScript {
  /** Relative to the skill's folder. */
  path: string;
  name: string;
  description?: string;
}

/** Lists a skill's scripts: those it declares, then other files in its `scripts` folder that look like scripts. */
export async function listSkillScripts(skill: Skill): Promise<SkillScript[]> {
  return selectScripts(skill, (await skill.files()).files);
}

/** Selects a skill's scripts from its files. */
export function selectScripts(
  { manifest }: Pick<Skill, "manifest">,
  files: readonly Pick<SkillFile, "path" | "executable">[],
): SkillScript[] {
  const declared = manifest.scripts.flatMap(({ path, name, description }) => {
    const file = files.find((candidate) => candidate.path === stripDotSlash(path));
    if (!file) return [];
    return [
      { path: file.path, name: name ?? getFileStem(file.path), ...(description === undefined ? {} : { description }) },
    ];
  });
  const seen = new Set(declared.map(({ path }) => path));
  const found = files
    .filter(
      ({ path, executable }) => path.startsWith("scripts/") && !seen.has(path) && isRunnableFile(path, executable),
    )
    .map(({ path }) => ({ path, name: getFileStem(path) }));
  return [...declared, ...found];
}

/** Finds a script by its path, with or without `scripts/`, by its name, or by its file name. */
export function findScript(scripts: readonly SkillScript[], wanted: string): SkillScript | undefined {
  const path = stripDotSlash(wanted);
  const ways: ((script: SkillScript) => boolean)[] = [
    (script) => script.path === path,
    (script) => script.name === wanted,
    (script) => script.path === `scripts/${path}`,
    (script) => getFileName(script.path) === path,
  ];
  for (const isMeant of ways) {
    const [script, another] = scripts.filter(isMeant);
    if (script && !another) return script;
  }
  return undefined;
}

interface Interpreter {
  /** Searched in the sandbox's PATH; undefined if the file is a program itself. */
  program?: string;
  args: readonly string[];
}

/** Detects the interpreter of a file, from its first line or else its name. Undefined if neither is known. */
export function detectInterpreter(path: string, bytes: Uint8Array): Interpreter | undefined {
  const start = String.fromCharCode(...bytes.subarray(0, 512));
  if (start.startsWith("\x7fELF")) return { args: [] };
  const [, line] = /^(?:\xef\xbb\xbf)?#! *([^\r\n]+)/.exec(start) ?? [];
  const words = line?.trim().split(/\s+/) ?? [];
  if (getFileName(words[0] ?? "") === "env") {
    words.shift();
    while (/^(?:-S|--split-string|-i|-u|[A-Z_]+=.*)$/.test(words[0] ?? "")) words.shift();
  }
  const [first, ...args] = words;
  if (first !== undefined && first !== "") return { program: getFileName(first), args };
  const program = INTERPRETER_BY_EXTENSION.get(getFileExtension(path));
  return program === undefined ? undefined : { program, args: [] };
}

/** Returns the packages that a Python script declares in its comments (PEP 723), if any. */
export function parseInlineDependencies(text: string): readonly string[] | undefined {
  const [, block] = /^# \/\/\/ script *\r?\n((?:#(?: [^\r\n]*)?\r?\n)+?)# \/\/\/ *$/m.exec(text) ?? [];
  const [, list] = /^# dependencies *= *\[((?:"[^"\n]*"|'[^'\n]*'|[^\]"'])*)\]/m.exec(block ?? "") ?? [];
  const found = [...(list ?? "").matchAll(/"([^"\n]+)"|'([^'\n]+)'/g)].map(
    ([, double, single]) => double ?? single ?? "",
  );
  return found.length === 0 ? undefined : found;
}

/** Substitutes for missing programs. */
export const FALLBACK_PROGRAMS: ReadonlyMap<string, string> = new Map([
  ["python", "python3"],
  ["bun", "node"],
  ["tsx", "node"],
  ["ts-node", "node"],
  ["dash", "sh"],
]);

const INTERPRETER_BY_EXTENSION = new Map([
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

function isRunnableFile(path: string, executable: boolean): boolean {
  const file = getFileName(path);
  if (/^[._]/.test(file) || /\.d\.[cm]?ts$/.test(file)) return false;
  const extension = getFileExtension(path);
  return INTERPRETER_BY_EXTENSION.has(extension) || (executable && extension === "");
}

/** Turns `./scripts/x` into `scripts/x`. */
export function stripDotSlash(path: string): string {
  return path.replace(/^(?:\.\/)+/, "");
}

function getFileName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function getFileStem(path: string): string {
  return getFileName(path).replace(/\.[^.]+$/, "");
}

function getFileExtension(path: string): string {
  return /\.([^.]+)$/.exec(getFileName(path))?.[1]?.toLowerCase() ?? "";
}

/**
 * Returns true if a skill only contains instructions and files to read: it runs no code and requests nothing for running code.
 */
export async function isTextOnly(skill: Skill): Promise<boolean> {
  const { toolsets, scripts, capabilities, env, packages, context } = skill.manifest;
  const declared = [toolsets, scripts, capabilities, env, packages];
  return (
    context !== "fork" && declared.every(({ length }) => length === 0) && (await listSkillScripts(skill)).length === 0
  );
}

/** The endings that are tried, in this order, for a file without an extension. */
export const MODULE_ENDINGS = ["", ".ts", ".mts", ".js", ".mjs", ".cjs", "/index.ts", "/index.js"] as const;

/** Returns the file that a reference names, from the existing ones. */
export function findToolsetFile(
  { path }: Pick<ToolsetRef, "path">,
  isThere: (path: string) => boolean,
): string | undefined {
  return MODULE_ENDINGS.map((ending) => path + ending).find((file) => MODULE_FILE.test(file) && isThere(file));
}

const MODULE_FILE = /\.[mc]?[jt]s$/;
