import { isAbsolute } from "node:path";
import { nearest } from "../shared/text.ts";
import { LEVELS } from "./sandbox.ts";
import {
  ENGINES,
  type SandboxSettings,
  type ScriptLimits,
  WORKSPACE_ACCESS,
  type WorkspaceAccess,
} from "./sandbox-settings.ts";
import type { DisclosureSettings } from "./settings.ts";

export type Owner = "user" | "workspace";

export interface Values {
  skills: Map<string, OneSkill>;
  defaults?: readonly string[];
  sources: Map<string, { path?: string; recursive?: boolean }>;
  disclosure: DisclosureSettings;
  sandbox: Partial<SandboxSettings>;
  scripts: Partial<ScriptLimits>;
}
export interface OneSkill {
  enabled?: boolean;
  network?: readonly string[];
  workspace?: WorkspaceAccess;
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

// What is exactly a host is judged where it is opened: that takes more than a start should load.
const ENDPOINT = /^(?:[^\s:/@[\]]+|\[[\da-f:.]+\]):\d{1,5}$/i;

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
  size: {
    is: (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 1,
    say: "a whole number above 0",
  },
  endpoints: {
    is: (value: unknown) => Array.isArray(value) && value.every((item) => ENDPOINT.test(item)),
    say: 'a list of hosts with their ports, ["api.example.com:443"]',
  },
  path: {
    is: (value: unknown) => typeof value === "string" && isAbsolute(value),
    say: 'a whole path in quotes, "/…"',
  },
  access: oneOf(WORKSPACE_ACCESS),
  engine: oneOf(ENGINES),
  level: oneOf(LEVELS),
};

function oneOf(choices: readonly string[]) {
  return {
    is: (value: unknown) => choices.includes(value as string),
    say: choices.map((choice) => `"${choice}"`).join(", "),
  };
}

const MIB = 1024 * 1024;

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
    "skills.*.network",
    "endpoints",
    "what its sandbox may reach besides, as `host:port`",
    "user",
    (values, name, network) => Object.assign(skillOf(values, name), { network }),
  ),
  key("skills.*.workspace", "access", "whether its sandbox sees the workspace", "user", (values, name, workspace) =>
    Object.assign(skillOf(values, name), { workspace }),
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
  sandboxKey(
    "level",
    "level",
    "the isolation that code runs with; `strong`, and `partial` on macOS; `none` switches it off",
  ),
  sandboxKey("engine", "engine", "what keeps code apart; `bubblewrap`, and `seatbelt` on macOS"),
  sandboxKey("image", "text", "what a container of docker or podman is made from"),
  sandboxKey("program", "path", "the program that is called as docker or podman; the system's own"),
  sandboxKey("network", "endpoints", "what every sandbox may reach, as `host:port`; nothing"),
  sandboxKey(
    "python_index",
    "endpoints",
    "where the Python packages of scripts are fetched from; `pypi.org:443` and `files.pythonhosted.org:443`",
    (pythonIndex: string[]) => ({ pythonIndex }),
  ),
  sandboxKey("workspace", "access", "whether every sandbox sees the workspace; `none`"),
  sandboxKey("memory_mib", "size", "how much memory a run may use; 512", (mib: number) => ({ memory: mib * MIB })),
  sandboxKey("processes", "size", "how many processes a run may have; 128"),
  sandboxKey("disk_mib", "size", "how much a run may write to each folder of its own; 64", (mib) => ({
    disk: mib * MIB,
  })),
  scriptKey("timeout_seconds", "how long a script may run; 60", "seconds"),
  scriptKey("output_bytes", "how much it may print; 1048576", "output"),
  scriptKey("arguments", "how many arguments it may be given; 100", "arguments"),
  scriptKey("argument_bytes", "how many bytes they may be together; 4096", "argumentBytes"),
];

/** The keys for people to read. */
export function settingsTable(): { path: string; type: string; means: string; isForWorkspace: boolean }[] {
  return KEYS.map(({ path, type, means, isForWorkspace }) => ({ path, type: TYPES[type].say, means, isForWorkspace }));
}

function key(path: string, type: Key["type"], means: string, owner: Owner, set: SetKey): Key {
  return { path, type, means, set, isForWorkspace: owner === "workspace" };
}

function sandboxKey(
  name: string,
  type: Key["type"],
  means: string,
  read: (value: never) => Partial<SandboxSettings> = (value) => ({ [name]: value }),
): Key {
  return key(`sandbox.${name}`, type, means, "user", (values, _, value) =>
    Object.assign(values.sandbox, read(value as never)),
  );
}

/** A workspace may set them too: what it sets can only be lower. */
function scriptKey(name: string, means: string, limit: keyof ScriptLimits): Key {
  return key(`scripts.${name}`, "size", means, "workspace", (values, _, value) =>
    Object.assign(values.scripts, { [limit]: value }),
  );
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
