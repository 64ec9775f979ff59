import type { FindingCode } from "../errors/finding-codes.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { truncateLine } from "../util/text.ts";
import { type ClientKeys, listClientFacts } from "./clients.ts";
import { findVariableProblem, isSystemPackageName } from "./skill.ts";

/** Contract: the message continues after `"key"`, as in `must be text`. */
export type ReportFieldProblem = (code: FindingCode, message: string) => void;
/** Reads one value leniently: an understandable value is used and reported; any other is ignored and reported. */
export type FieldReader<T> = (value: unknown, problem: ReportFieldProblem) => T | undefined;

export interface DeclaredScript {
  path: string;
  name?: string;
  description?: string;
}

export interface Triggers {
  keywords: readonly string[];
  verbs: readonly string[];
  patterns: readonly string[];
  /** Queries that the skill is for. */
  examples: readonly string[];
  /** Words that count against the skill. */
  negative: readonly string[];
}

export const text: FieldReader<string> = (value, problem) => {
  if (typeof value === "string") return value.trim() === "" ? undefined : value;
  if (value === null) return undefined;
  if (typeof value === "number" || typeof value === "boolean") {
    problem("field-type", `must be text: quote it, "${value}"`);
    return String(value);
  }
  problem("field-type", "must be text");
  return undefined;
};

/** People write a hint as `[file]`, which is a list in YAML. */
export const hint: FieldReader<string> = (value, problem) => {
  if (Array.isArray(value) && value.every((item) => typeof item !== "object")) return `[${value.join(", ")}]`;
  return text(value, problem);
};

export const anything: FieldReader<unknown> = (value) => value;

/** YAML reads an unquoted version such as 1.0 as a number. This spelling is common. */
export const version: FieldReader<string> = (value, problem) => {
  const written = typeof value === "number" ? String(value) : text(value, problem);
  if (written !== undefined && !SEMVER.test(written)) problem("version-format", `is "${truncateLine(written, 40)}"`);
  return written;
};

export const description: FieldReader<string> = (value, problem) => {
  const written = readDescriptionText(value, problem);
  if (written === undefined) return undefined;
  const { length } = written;
  if (length > 1024) problem("description-too-long", `has ${length} characters, more than 1024`);
  else if (length > 500) problem("description-long", `has ${length} characters`);
  if (/[<>]/.test(written)) problem("description-markup", "contains angle brackets");
  return written;
};

export const compatibility: FieldReader<string> = (value, problem) => {
  const written = text(value, problem);
  if (written && written.length > 500)
    problem("compatibility-too-long", `has ${written.length} characters, more than 500`);
  return written;
};

export const flag: FieldReader<boolean> = (value, problem) => {
  if (typeof value === "boolean") return value;
  if (value === null) return undefined;
  const word = typeof value === "string" ? BOOLEAN_WORDS.get(value.toLowerCase()) : undefined;
  problem("field-type", "must be true or false");
  return word;
};

export const steps: FieldReader<number> = (value, problem) => {
  if (value === null) return undefined;
  let number = value;
  if (typeof value === "string" && /^\d{1,6}$/.test(value.trim())) {
    problem("field-type", "must be a number without quotes");
    number = Number(value);
  }
  if (typeof number === "number" && Number.isInteger(number) && number >= 1 && number <= 1000) return number;
  problem("field-value", "must be a whole number from 1 to 1000");
  return undefined;
};

/** A list, or a single text with commas between its items. */
export const list: FieldReader<readonly string[]> = (value, problem) => readItems(value, problem, /,/);

/** Like `list`, but spaces also separate: names of variables, packages and capabilities contain none. */
export const names: FieldReader<readonly string[]> = (value, problem) => readItems(value, problem, /[,\s]+/);

/** A list, or a single text with commas or spaces between tools. Text in parentheses belongs to its tool. */
export const tools: FieldReader<readonly string[]> = (value, problem) => {
  if (typeof value === "string") return splitToolList(value);
  return readItems(value, problem, NO_SEPARATOR);
};

/** Parentheses belong to the tool even after a space or without a closing one: the bare name would grant the whole tool. */
function splitToolList(written: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let isNew = true;
  for (const [part = ""] of written.matchAll(/[\s,]+|[()]|[^\s,()]+/g)) {
    if (depth === 0 && /^[\s,]/.test(part)) {
      isNew = true;
      continue;
    }
    if (found.length === 0 || (isNew && part !== "(")) found.push(part);
    else found.push(found.pop() + part);
    isNew = false;
    if (part === "(") depth++;
    if (part === ")") depth = Math.max(0, depth - 1);
  }
  return found;
}

export const capabilities: FieldReader<readonly string[]> = (value, problem) => {
  const ids = names(value, problem);
  const bare = (ids ?? []).filter((id) => !CAPABILITY_ID.test(id));
  if (bare.length > 0) {
    const shown = bare.map((id) => `"${truncateLine(id, 64)}"`).join(", ");
    problem(
      "capability-format",
      `lists ${shown}, which ${bare.length === 1 ? "is" : "are"} not of the form namespace.name`,
    );
  }
  return ids;
};

export const variables: FieldReader<readonly string[]> = (value, problem) => {
  const found = names(value, problem);
  const wrong = (found ?? []).filter((name) => findVariableProblem(name) !== undefined);
  if (wrong.length > 0) {
    const shown = wrong
      .slice(0, MAX_NAMED)
      .map((name) => `"${truncateLine(name, 64)}", which ${findVariableProblem(name)}`);
    problem("variable-name", `lists ${shown.join("; ")}${formatMore(wrong)}`);
  }
  return found;
};

export const packages: FieldReader<readonly string[]> = (value, problem) => {
  const found = names(value, problem);
  const wrong = (found ?? []).filter((name) => !isSystemPackageName(name));
  if (wrong.length > 0) {
    const shown = wrong.slice(0, MAX_NAMED).map((name) => `"${truncateLine(name, 64)}"`);
    problem(
      "package-name",
      `lists ${shown.join(", ")}${formatMore(wrong)}, which cannot be the name of a system package`,
    );
  }
  return found;
};

export const toolsets: FieldReader<readonly string[]> = (value, problem) => {
  const found = list(value, problem);
  for (const written of found ?? []) {
    const ref = parseToolsetRef(written);
    if ("problem" in ref) problem("toolset-ref", `lists "${truncateLine(written, 80)}", which ${ref.problem}`);
  }
  return found;
};

export const mapping: FieldReader<JsonObject> = (value, problem) => {
  if (isJsonObject(value)) return value;
  if (value !== null) problem("field-type", "must contain key: value lines");
  return undefined;
};

export const access: FieldReader<{ chatTypes?: readonly string[] }> = (value, problem) => {
  const data = mapping(value, problem);
  const chatTypes = data?.["chat_types"] === undefined ? undefined : names(data["chat_types"], problem);
  return chatTypes ? { chatTypes } : undefined;
};

/** A mapping of kinds to lists; a plain list contains keywords. */
export const triggers: FieldReader<Triggers> = (value, problem) => {
  if (Array.isArray(value)) {
    const keywords = readItems(value, problem, NO_SEPARATOR) ?? [];
    return { keywords, verbs: [], patterns: [], examples: [], negative: [] };
  }
  const data = mapping(value, problem);
  if (!data) return undefined;
  const read = (key: string) =>
    data[key] === undefined
      ? []
      : (readItems(data[key], (code, message) => problem(code, `${key}: ${message}`), NO_SEPARATOR) ?? []);
  return {
    keywords: read("keywords"),
    verbs: read("verbs"),
    patterns: read("patterns"),
    examples: read("examples"),
    negative: read("negative"),
  };
};

export const scripts: FieldReader<readonly DeclaredScript[]> = (value, problem) => {
  if (value === null) return undefined;
  const found: DeclaredScript[] = [];
  for (const item of Array.isArray(value) ? value : [value]) {
    const entry: JsonObject = isJsonObject(item) ? item : { path: item };
    const { path, name, description } = entry;
    if (typeof path !== "string" || path === "") {
      problem("field-type", "must list paths, or entries with a path");
      continue;
    }
    found.push({
      path,
      ...(typeof name === "string" ? { name } : {}),
      ...(typeof description === "string" ? { description } : {}),
    });
  }
  return found;
};

export const schema: FieldReader<JsonObject> = (value, problem) => {
  const data = mapping(value, problem);
  if (data && hasExternalReference(data)) {
    problem("schema-reference", "refers to an external schema");
    return undefined;
  }
  return data;
};

const MAX_NAMED = 10;

function formatMore(names: readonly string[]): string {
  return names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : "";
}

const NO_SEPARATOR = /(?!)/;
const SEMVER = /^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$/;
export const CAPABILITY_ID = /^[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)+$/;
const BOOLEAN_WORDS = new Map([
  ["true", true],
  ["yes", true],
  ["on", true],
  ["false", false],
  ["no", false],
  ["off", false],
]);

function readDescriptionText(value: unknown, problem: ReportFieldProblem): string | undefined {
  if (typeof value === "string") return value.trim() === "" ? undefined : value.trim();
  if (value === null || value === undefined) return undefined;
  if (Array.isArray(value) && value.every((item) => typeof item !== "object")) {
    problem("description-type", "is a list; its items are joined");
    return value.join(", ") || undefined;
  }
  problem("description-type", "is not text");
  return typeof value === "object" ? undefined : String(value);
}

function readItems(value: unknown, problem: ReportFieldProblem, separator: RegExp): readonly string[] | undefined {
  if (value === null) return undefined;
  const items = typeof value === "string" ? value.split(separator) : value;
  if (!Array.isArray(items)) {
    if (typeof value === "number" || typeof value === "boolean") return [String(value)];
    problem("field-type", "must be a list");
    return undefined;
  }
  const found: string[] = [];
  for (const item of items) {
    if (item === null || typeof item === "object") problem("field-type", "must be a list of texts");
    else if (String(item).trim() !== "") found.push(String(item).trim());
  }
  return found;
}

function hasExternalReference(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasExternalReference);
  if (!isJsonObject(value)) return false;
  for (const key in value) {
    const item = value[key];
    if ((key === "$ref" || key === "$dynamicRef") && typeof item === "string" && !item.startsWith("#")) return true;
    if (hasExternalReference(item)) return true;
  }
  return false;
}

/** The keys that clients without a row in `CLIENTS` document. A key of a client is never reported as a misspelling. */
const OTHER_CLIENT_KEYS: Readonly<Record<string, ClientKeys>> = {
  openclaw: {
    skill: [
      ...["homepage", "user-invocable", "disable-model-invocation"],
      ...["command-dispatch", "command-tool", "command-arg-mode"],
    ],
    other: ["emoji", "os", "always", "requires", "install", "primaryEnv", "skillKey"],
  },
  hermes: { skill: ["version", "author", "platforms", "prerequisites", "required_environment_variables"] },
  roo: { skill: ["mode", "modeSlugs"], other: ["whenToUse", "customInstructions", "groups", "slug"] },
  windsurf: { skill: [], other: ["trigger", "glob", "globs"] },
  kiro: { skill: [], other: ["inclusion", "fileMatchPattern"] },
  continue: { skill: [], other: ["globs", "regex", "alwaysApply", "invokable", "rules", "models", "prompts"] },
  droid: { skill: [], other: ["tools", "model", "reasoningEffort"] },
};

/** A key of a skill that has no effect in a client that does not read it. */
export interface UnsupportedKey {
  /** The consequence for the client's users. */
  effect: string;
  /** Returns true if this value changes the default behavior. Without this function, any value does. */
  isSet?(value: unknown): boolean;
}

/** One row for each key that some client of `skillet export` reads, except `when_to_use`: exports write that into the description. */
export const UNSUPPORTED_KEYS: Readonly<Record<string, UnsupportedKey>> = {
  "argument-hint": { effect: "users see no hint for its arguments" },
  arguments: { effect: "named arguments stay placeholders" },
  "disable-model-invocation": {
    effect: "a model may choose it there by itself",
    isSet: (value) => value === true || value === "true",
  },
  "user-invocable": {
    effect: "users can call it by its name",
    isSet: (value) => value === false || value === "false",
  },
  "disallowed-tools": { effect: "these tools stay available" },
  effort: { effect: "the model's effort does not change" },
  context: { effect: "it runs in the conversation itself" },
  agent: { effect: "that agent does not run it" },
  background: { effect: "it does not run in the background" },
  hooks: { effect: "its hooks do not run" },
  paths: { effect: "it is offered for all files" },
  shell: { effect: "commands run in the client's own shell" },
};

type ClientKeyUse = "skill" | "other";

/** Returns where clients read this key: in a skill, only in their other files, or undefined for nowhere. */
export function findClientUse(key: string): ClientKeyUse | undefined {
  useByKey ??= createKeyIndex();
  return useByKey.get(key);
}

/** Created by the first unknown key: most skills have none. */
let useByKey: ReadonlyMap<string, ClientKeyUse> | undefined;

function createKeyIndex(): ReadonlyMap<string, ClientKeyUse> {
  const rows = [...listClientFacts("keys").map(([, keys]) => keys), ...Object.values(OTHER_CLIENT_KEYS)];
  return new Map([
    ...rows.flatMap(({ other = [] }) => other.map((key) => [key, "other"] as const)),
    ...rows.flatMap(({ skill }) => skill.map((key) => [key, "skill"] as const)),
  ]);
}

/** A reference under `toolsets`: a file of the skill, and an export of the file. */
export interface ToolsetRef {
  /** The reference as written. */
  written: string;
  /** Relative to the skill's folder; the extension is optional. */
  path: string;
  export: string;
}

/** Parses a reference such as `toolsets/index:MyToolset`, or returns the problem. Every module is a file of the skill. */
export function parseToolsetRef(written: string): ToolsetRef | { problem: string } {
  const colon = written.lastIndexOf(":");
  if (colon === -1) return { problem: "names no export" };
  const path = trimRefPath(written.slice(0, colon));
  const exported = written.slice(colon + 1).trim();
  const problem = TOOLSET_REF_RULES.find(([, isBroken]) => isBroken(path, exported))?.[0];
  return problem === undefined ? { written, path, export: exported } : { problem };
}

const TOOLSET_REF_RULES: readonly [problem: string, isBroken: (path: string, exported: string) => boolean][] = [
  ["names no file", (path) => path === ""],
  ["names no export", (_, exported) => exported === ""],
  ["names something other than a file of the skill", (path) => path.includes(":")],
  ["names its file by an absolute path", (path) => /^[/~]/.test(path)],
  ["names its file with `\\`", (path) => path.includes("\\")],
  ["leaves the skill's folder", (path) => path.split("/").includes("..")],
  ["names an invalid export", (_, exported) => !/^[^\s\p{C}"'`<>\\/(){}[\];,.]{1,128}$/u.test(exported)],
];

function trimRefPath(path: string): string {
  return path.trim().replace(/^(?:\.\/+)+/, "");
}
