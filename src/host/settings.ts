import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { codeOf, reason } from "../shared/inside.ts";
import { nearest, oneLine } from "../shared/text.ts";
import { type Diagnostic, diagnose, type Finding } from "../skill/diagnostic.ts";
import { expandPath, type Surroundings } from "../source/locations.ts";
import { lineOfKey } from "./toml-lines.ts";

export interface SkillSettings {
  enabled?: boolean;
  model?: string;
  allowChatIds?: readonly string[];
  /** UPPER_CASE keys, with their exact names: values for the variables that the skill declares. */
  variables: ReadonlyMap<string, string>;
}

export interface ExtraSource {
  name: string;
  path: string;
  recursive?: boolean;
}

/** What the user and, within narrow bounds, the workspace decided. */
export interface Settings {
  skills: ReadonlyMap<string, SkillSettings>;
  defaults: { allowChatIds: readonly string[] };
  sources: readonly ExtraSource[];
  disclosure: DisclosureSettings;
}

/** How much a model is told; what is left out has its default. */
export interface DisclosureSettings {
  maxSkills?: number;
  budget?: number;
  asks?: readonly string[];
  shortlist?: boolean;
}

/** What holds where nothing is configured. */
export const NO_SETTINGS: Settings = {
  skills: new Map(),
  defaults: { allowChatIds: [] },
  sources: [],
  disclosure: {},
};

export interface LoadedSettings {
  settings: Settings;
  diagnostics: readonly Diagnostic[];
  /** The files that were looked for, user's first. */
  files: readonly { path: string; exists: boolean }[];
  /** True when a file could not be read, so that defaults stand in its place. */
  isBroken: boolean;
}

/** Reads the user's configuration, then the few keys that a workspace may set. Never throws: what is wrong is a diagnostic. */
export async function loadSettings(around: Surroundings): Promise<LoadedSettings> {
  const user = await readConfig(join(around.skilletHome, "config.toml"), "user");
  const workspacePath = join(around.workspace, ".skillet", "config.toml");
  const isSame = workspacePath === user.path;
  const workspace = isSame ? undefined : await readConfig(workspacePath, "workspace");
  const files = workspace ? [user, workspace] : [user];
  const sources = extraSources(user.values, around);
  return {
    settings: {
      skills: mergeSkills(user.values, workspace?.values),
      defaults: { allowChatIds: user.values.defaults ?? [] },
      sources,
      disclosure: { ...user.values.disclosure, ...workspace?.values.disclosure },
    },
    diagnostics: [
      ...files.flatMap(({ path, findings }) => diagnose(findings, path)),
      ...missingSources(sources, user.path),
    ],
    files: files.map(({ path, exists }) => ({ path, exists })),
    isBroken: files.some(({ findings }) => findings.some(({ code }) => code === "config-syntax")),
  };
}

function missingSources(sources: readonly ExtraSource[], file: string): Diagnostic[] {
  const missing = sources.filter(({ path }) => !existsSync(path));
  const findings = missing.map(({ name, path }) => ({
    code: "config-source" as const,
    message: `[sources.${name}] names ${path}, which is not there`,
  }));
  return diagnose(findings, file);
}

function extraSources(values: Values, around: Surroundings): ExtraSource[] {
  return [...values.sources].flatMap(([name, { path, recursive }]) => {
    if (path === undefined) return [];
    return [
      { name, path: expandPath(path, around, around.skilletHome), ...(recursive === undefined ? {} : { recursive }) },
    ];
  });
}

type Owner = "user" | "workspace";

interface Values {
  skills: Map<string, OneSkill>;
  defaults?: readonly string[];
  sources: Map<string, { path?: string; recursive?: boolean }>;
  disclosure: DisclosureSettings;
}
interface OneSkill {
  enabled?: boolean;
  model?: string;
  allowChatIds?: readonly string[];
  variables: Map<string, string>;
}
interface Config {
  path: string;
  exists: boolean;
  values: Values;
  findings: Finding[];
}

interface Key {
  /** `*` stands for any name, `UPPER_CASE` for a variable. */
  path: string;
  type: keyof typeof TYPES;
  means: string;
  set: SetKey;
  /** A workspace may set it too. */
  isForWorkspace: boolean;
}
/** Contract: `value` is of the row's type, `name` the key's second part, `last` its last. */
type SetKey = (values: Values, name: string, value: unknown, last: string) => unknown;

const TYPES = {
  text: { is: (value: unknown) => typeof value === "string", say: 'text in quotes, "…"' },
  flag: { is: (value: unknown) => typeof value === "boolean", say: "true or false" },
  number: {
    is: (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0,
    say: "a whole number",
  },
  texts: {
    is: (value: unknown) => Array.isArray(value) && value.every((item) => typeof item === "string"),
    say: 'a list of texts, ["…"]',
  },
};

/** Every key of the configuration, one row each. */
const KEYS: readonly Key[] = [
  key("skills.*.enabled", "flag", "whether the skill is there at all", "workspace", (values, name, enabled) =>
    Object.assign(skillOf(values, name), { enabled }),
  ),
  key(
    "skills.*.model",
    "text",
    "the model for it, in place of the skill's own choice",
    "workspace",
    (values, name, model) => Object.assign(skillOf(values, name), { model }),
  ),
  key("skills.*.allow_chat_ids", "texts", "the only chats that may use it", "user", (values, name, ids) =>
    Object.assign(skillOf(values, name), { allowChatIds: ids }),
  ),
  key(
    "skills.*.UPPER_CASE",
    "text",
    "the value of a variable that the skill declares under `env`",
    "user",
    (values, name, value, last) => skillOf(values, name).variables.set(last, String(value)),
  ),
  key(
    "skills.defaults.allow_chat_ids",
    "texts",
    "the same for every skill that has none of its own",
    "user",
    (values, _, ids) => Object.assign(values, { defaults: ids }),
  ),
  key("sources.*.path", "text", "a further folder of skills; `~` is your home folder", "user", (values, name, path) =>
    Object.assign(sourceOf(values, name), { path }),
  ),
  key(
    "sources.*.recursive",
    "flag",
    "whether to look below folders that are no skills",
    "user",
    (values, name, recursive) => Object.assign(sourceOf(values, name), { recursive }),
  ),
  key(
    "disclosure.max_skills",
    "number",
    "how many skills' full instructions a query brings at most; 3",
    "workspace",
    (values, _, maxSkills) => Object.assign(values.disclosure, { maxSkills }),
  ),
  key(
    "disclosure.budget",
    "number",
    "how many tokens a model is told of skills at most; 20000",
    "workspace",
    (values, _, budget) => Object.assign(values.disclosure, { budget }),
  ),
  key("disclosure.asks", "texts", "further queries that ask what there is", "workspace", (values, _, asks) =>
    Object.assign(values.disclosure, { asks }),
  ),
  key(
    "disclosure.shortlist",
    "flag",
    "whether up to five skills that fit by their words are named when none is triggered",
    "workspace",
    (values, _, shortlist) => Object.assign(values.disclosure, { shortlist }),
  ),
];

/** The keys for people to read. */
export function settingsTable(): { path: string; type: string; means: string; isForWorkspace: boolean }[] {
  return KEYS.map(({ path, type, means, isForWorkspace }) => ({ path, type: TYPES[type].say, means, isForWorkspace }));
}

function key(path: string, type: Key["type"], means: string, owner: Owner, set: SetKey): Key {
  return { path, type, means, set, isForWorkspace: owner === "workspace" };
}

const LARGEST_CONFIG = 1024 * 1024;

async function readConfig(path: string, owner: Owner): Promise<Config> {
  const config: Config = {
    path,
    exists: false,
    values: { skills: new Map(), sources: new Map(), disclosure: {} },
    findings: [],
  };
  const { findings, values } = config;
  let text: string;
  try {
    const stats = statSync(path);
    config.exists = true;
    if (!stats.isFile() || stats.size > LARGEST_CONFIG) {
      findings.push({ code: "config-syntax", message: "is not a regular file of at most 1 MiB" });
      return config;
    }
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (codeOf(error) !== "ENOENT" && codeOf(error) !== "ENOTDIR") {
      config.exists = true;
      findings.push({ code: "config-syntax", message: `cannot be read: ${reason(error)}` });
    }
    return config;
  }
  const { parse, TomlError } = await import("smol-toml");
  try {
    const say = (parts: readonly string[], finding: Finding) =>
      findings.push({ ...finding, line: lineOfKey(text, parts), column: 1 });
    for (const [parts, value] of leaves(parse(text))) readKey(parts, value, { owner, values, say });
  } catch (error) {
    const where = error instanceof TomlError ? { line: error.line, column: error.column } : {};
    const why = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
    findings.push({
      code: "config-syntax",
      message: `is not valid TOML: ${why.replace(/^Invalid TOML document: /, "")}`,
      ...where,
    });
  }
  for (const [name, { path: folder }] of values.sources) {
    if (folder !== undefined) continue;
    findings.push({
      code: "config-source",
      message: `[sources.${oneLine(name, 64)}] has no path`,
      line: lineOfKey(text, ["sources", name]),
    });
  }
  if ([...values.skills.values()].some((skill) => skill.variables.size > 0) && isReadableByOthers(path)) {
    findings.push({
      code: "config-readable",
      message: "holds values of skills and can be read by other users",
      fix: `chmod 600 ${path}`,
    });
  }
  return config;
}

interface Reading {
  owner: Owner;
  values: Values;
  say(parts: readonly string[], finding: Finding): void;
}

function readKey(parts: readonly string[], value: unknown, { owner, values, say }: Reading): void {
  const shown = `"${oneLine(parts.join("."), 120)}"`;
  const row = KEYS.findLast(({ path }) => fits(path, parts));
  const meant = row ? undefined : nearestKey(parts);
  const isMeantForWorkspace =
    meant !== undefined && KEYS.some(({ path, isForWorkspace }) => isForWorkspace && fits(path, meant.split(".")));
  if (owner === "workspace" && !row?.isForWorkspace && !isMeantForWorkspace) {
    say(parts, { code: "config-refused", message: `${shown} may not be set by a workspace` });
    return;
  }
  if (!row) {
    say(parts, {
      code: "config-unknown",
      message: `${shown} is not a known key`,
      ...(meant ? { meant, fix: `did you mean "${meant}"?` } : {}),
    });
    return;
  }
  const type = TYPES[row.type];
  if (!type.is(value)) say(parts, { code: "config-type", message: `${shown} must be ${type.say}` });
  else row.set(values, parts[1] ?? "", value, parts.at(-1) ?? "");
}

function fits(path: string, parts: readonly string[]): boolean {
  const wanted = path.split(".");
  return wanted.length === parts.length && wanted.every((part, index) => fitsPart(part, parts[index] ?? ""));
}

function fitsPart(wanted: string, part: string): boolean {
  if (wanted === "*") return true;
  return wanted === "UPPER_CASE" ? /^[A-Z_][A-Z0-9_]*$/.test(part) : wanted === part;
}

/** The known key that differs from this one in one part only, and there only a little. */
function nearestKey(parts: readonly string[]): string | undefined {
  for (const [index, part] of parts.entries()) {
    const candidates = KEYS.map(({ path }) => path.split("."))
      .filter((wanted) => wanted.every((other, at) => at >= index || fitsPart(other, parts[at] ?? "")))
      .map((wanted) => wanted[index] ?? "");
    if (candidates.some((wanted) => fitsPart(wanted, part))) continue;
    const meant = nearest(part, new Set(candidates));
    return meant && [...parts.slice(0, index), meant, ...parts.slice(index + 1)].join(".");
  }
  return undefined;
}

/** Every value with the names that lead to it. An empty table leads to none. */
function* leaves(table: object, above: readonly string[] = []): Generator<[string[], unknown]> {
  for (const [key, value] of Object.entries(table)) {
    const parts = [...above, key];
    if (isTable(value)) yield* leaves(value, parts);
    else yield [parts, value];
  }
}

function isTable(value: unknown): value is object {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Date);
}

function skillOf(values: Values, name: string): OneSkill {
  const skill = values.skills.get(name) ?? { variables: new Map() };
  values.skills.set(name, skill);
  return skill;
}

function sourceOf(values: Values, name: string): { path?: string; recursive?: boolean } {
  const source = values.sources.get(name) ?? {};
  values.sources.set(name, source);
  return source;
}

/** The workspace's word counts, but it cannot switch on what the user switched off. */
function mergeSkills(user: Values, workspace: Values | undefined): Map<string, SkillSettings> {
  const merged = new Map<string, OneSkill>(user.skills);
  for (const [name, theirs] of workspace?.skills ?? []) {
    const ours = user.skills.get(name);
    const skill: OneSkill = { variables: new Map(), ...ours };
    if (theirs.enabled !== undefined && ours?.enabled !== false) skill.enabled = theirs.enabled;
    if (theirs.model !== undefined) skill.model = theirs.model;
    merged.set(name, skill);
  }
  return merged;
}

function isReadableByOthers(path: string): boolean {
  return process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0;
}
