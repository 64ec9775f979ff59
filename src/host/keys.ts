import { nearest } from "../shared/text.ts";
import type { DisclosureSettings } from "./settings.ts";

export type Owner = "user" | "workspace";

export interface Values {
  skills: Map<string, OneSkill>;
  defaults?: readonly string[];
  sources: Map<string, { path?: string; recursive?: boolean }>;
  disclosure: DisclosureSettings;
}
export interface OneSkill {
  enabled?: boolean;
  model?: string;
  allowChatIds?: readonly string[];
  variables: Map<string, string>;
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

export const TYPES = {
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
export const KEYS: readonly Key[] = [
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

export function fits(path: string, parts: readonly string[]): boolean {
  const wanted = path.split(".");
  return wanted.length === parts.length && wanted.every((part, index) => fitsPart(part, parts[index] ?? ""));
}

function fitsPart(wanted: string, part: string): boolean {
  if (wanted === "*") return true;
  return wanted === "UPPER_CASE" ? /^[A-Z_][A-Z0-9_]*$/.test(part) : wanted === part;
}

/** The known key that differs from this one in one part only, and there only a little. */
export function nearestKey(parts: readonly string[]): string | undefined {
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
