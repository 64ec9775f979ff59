import { fitDescription, shortenDescription, splitDescription } from "../../catalog/describe-skill.ts";
import { findDynamicCommands } from "../../catalog/skill-content.ts";
import { SkillError } from "../../errors/problem.ts";
import { readYaml, renderDocument, writeYaml } from "../../skill/frontmatter.ts";
import { STANDARD_KEYS } from "../../skill/manifest.ts";
import { UNSUPPORTED_KEYS } from "../../skill/manifest-fields.ts";
import {
  isPrivateFile,
  isWindowsDeviceName,
  listDeclaredVariables,
  MAX_NAME_LENGTH,
  SIGNATURE_FILE,
  type Skill,
  STANDARD_NAME,
} from "../../skill/skill.ts";
import { createJsonObject, isJsonObject, type JsonObject } from "../../util/objects.ts";
import { truncateLine } from "../../util/text.ts";
import type { NativeClient } from "./native-clients.ts";

/** The properties of a client that decide how a skill is written for it. */
export type ClientFormat = Pick<
  NativeClient,
  | "title"
  | "keys"
  | "reserved"
  | "builtInNames"
  | "skillDir"
  | "refusesAngleBrackets"
  | "description"
  | "listsName"
  | "policyFile"
>;

/** A skill in the format of a client. */
export interface AdaptedSkill {
  /** The SKILL.md for the client. */
  skillMd: string;
  /** Other files that are written for the client, by path: they replace those of the skill. */
  files: Readonly<Record<string, string>>;
  /** Differences in behavior between the client and skillet, a sentence each, for people. */
  notes: readonly string[];
  /** The keys of the frontmatter that the client does not read. */
  lost: readonly string[];
}

/**
 * Returns the reason why a skill of an MCP server is not copied: in a client's folder it would count as the user's own,
 * including its scripts.
 */
export function findRemoteRefusal({ name, origin: { remote } }: Skill) {
  if (!remote) return undefined;
  return {
    code: "remote-export",
    message: `Skill '${name}' belongs to MCP server '${remote.server}': it is not copied`,
    fix: "connect the client to that server, or add the skill from its author's repository",
    commands: ["skillet add"],
  } as const;
}

/** Contract: throws a SkillError with the reason when the client cannot use the skill. */
export async function adaptSkill(skill: Skill, client: ClientFormat): Promise<AdaptedSkill> {
  const remote = findRemoteRefusal(skill);
  if (remote) throw new SkillError(remote.code, remote);
  checkClientName(skill.name, client);
  const description = writeDescription(skill, client);
  const { own, moved } = splitKeys(skill, client);
  if (description.hasUseWhen)
    for (const key of Object.keys(moved)) if (normalizeKey(key) === "when-to-use") delete moved[key];
  const policy = await writePolicy(skill, client, moved);
  const { license, compatibility } = skill.manifest;
  const metadata = mergeMetadata(skill.manifest.data["metadata"], moved);
  const isLong = compatibility !== undefined && compatibility.length > MAX_COMPATIBILITY_LENGTH;
  if (isLong) metadata["compatibility"] = compatibility;
  const data = omitEmptyEntries([
    ["name", skill.name],
    ["description", description.text],
    ["license", license],
    ["compatibility", isLong ? undefined : compatibility],
    ["allowed-tools", skill.manifest.data["allowed-tools"]],
    ...own,
    ["metadata", Object.keys(metadata).length === 0 ? undefined : metadata],
  ]);
  const body = replaceSkillDir(await skill.body(), client);
  const situation = { skill, client, kept: new Set(own.keys()), body: body.text };
  const lost = Object.keys(moved).filter((key) => !(policy && normalizeKey(key) === INVOCATION));
  return {
    skillMd: renderDocument(data, body.text),
    files: policy?.files ?? {},
    notes: [
      ...(STANDARD_NAME.test(skill.name) ? [] : [NAME_NOTE]),
      ...description.notes,
      ...(isLong
        ? [`compatibility is longer than ${MAX_COMPATIBILITY_LENGTH} characters: it is written under metadata`]
        : []),
      ...listLostKeyNotes(moved, lost, client),
      ...(policy?.notes ?? []),
      ...NOTE_RULES.flatMap((note) => note(situation) ?? []),
      ...body.notes,
    ],
    lost,
  };
}

const NAME_NOTE =
  "its name does not follow the standard (lower-case letters, digits and single hyphens): other clients may refuse it";
const INVOCATION = "disable-model-invocation";
const MAX_COMPATIBILITY_LENGTH = 500;
const SKILL_DIR = /\$(?:SKILL_DIR\b|\{SKILL_DIR\})/g;
const ANY_SKILL_DIR = /\$(?:(?:CLAUDE_)?SKILL_DIR\b|\{(?:CLAUDE_)?SKILL_DIR\})/g;
const STANDARD: ReadonlySet<string> = new Set(STANDARD_KEYS);

function checkClientName(name: string, { title, reserved, listsName }: ClientFormat): void {
  if (name.length > MAX_NAME_LENGTH || isWindowsDeviceName(name)) {
    throw new SkillError("name-format", {
      message: `Skill "${name}" has a name that is not a valid folder name on every system`,
      fix: `rename it: at most ${MAX_NAME_LENGTH} characters, and not a Windows device name such as "con"`,
    });
  }
  if (listsName && !listsName.test(name)) {
    throw new SkillError("name-format", {
      message: `Skill "${name}" has a name that ${title} does not list`,
      fix: "rename it: lower-case letters, digits and single hyphens are listed everywhere",
    });
  }
  if (reserved.includes(name)) {
    throw new SkillError("name-reserved", {
      message: `Skill "${name}" has a name that ${title} reserves for itself`,
      fix: `rename it, for example to "my-${name}": its folder, and "name:" in its SKILL.md`,
    });
  }
}

/**
 * Returns the description for a client within its length limit. Appends `when_to_use` if the client does not read that
 * key.
 */
function writeDescription(
  { name, description, manifest: { whenToUse = "" } }: Skill,
  { title, keys, description: limit, refusesAngleBrackets: isPlain }: ClientFormat,
): { text: string; hasUseWhen: boolean; notes: string[] } {
  const readsCue = keys.includes("when_to_use");
  const cue = readsCue || description.includes(whenToUse) ? "" : whenToUse;
  const hasUseWhen = whenToUse !== "" && !readsCue;
  const written = isPlain ? removeAngleBrackets(description) : description;
  const whole = cue === "" ? written : `${endSentence(written)} ${cue}`;
  const notes = [
    ...(written === description
      ? []
      : ["the description has angle brackets, which uploads refuse: it is written without them"]),
    ...(cue === "" ? [] : [`${title} ignores when_to_use: it is written at the end of the description`]),
  ];
  if (limit === undefined) return { text: whole, hasUseWhen, notes };
  // Claude Code lists both keys, with a dash between them, and cuts the combined text.
  const room = limit.longest - (readsCue && whenToUse !== "" ? whenToUse.length + 3 : 0);
  if (whole.length <= room) return { text: whole, hasUseWhen, notes };
  const text = shortenTo(room, truncateLine(written, written.length), cue);
  const long = `a description of ${whole.length + limit.longest - room} characters; ${title} takes ${limit.longest}`;
  if (text.length <= room) {
    const shortened = `it is shortened to ${text.length}, and the part that says when to use it is kept`;
    return { text, hasUseWhen, notes: [...notes, `it has ${long}: ${shortened}`] };
  }
  if (limit.beyond === "cut")
    return { text: whole, hasUseWhen, notes: [...notes, `it has ${long}, and cuts the rest`] };
  throw new SkillError("description-too-long", {
    message: `Skill "${name}" has ${long}`,
    fix: "shorten it; details belong in the instructions",
  });
}

/**
 * Returns the longest text within a limit that keeps the cue: drops whole sentences of the description from the end.
 */
function shortenTo(limit: number, description: string, cue: string): string {
  const { what, cues, negative } = splitDescription(description, cue);
  for (let kept = what.length - 1; kept > 0; kept--) {
    const text = [...what.slice(0, kept), ...cues, ...negative].map(endSentence).join(" ");
    if (text.length <= limit) return text;
  }
  return fitDescription(shortenDescription({ description, whenToUse: cue || undefined }), limit);
}

function endSentence(text: string): string {
  return /[.!?:;…。！？]["'”’)]*$/.test(text) ? text : `${text}.`;
}

/**
 * Returns the policy file of the client with model invocation disabled, if the client has one and the skill asks for
 * it.
 */
async function writePolicy(
  skill: Skill,
  { title, policyFile }: ClientFormat,
  moved: JsonObject,
): Promise<{ files: Record<string, string>; notes: string[] } | undefined> {
  const key = Object.keys(moved).find((other) => normalizeKey(other) === INVOCATION);
  if (policyFile === undefined || key === undefined || skill.manifest.invocation.byModel) return undefined;
  const hasOwn = (await skill.files()).files.some(({ path }) => path === policyFile);
  const { data, findings } = readYaml(hasOwn ? Buffer.from(await skill.read(policyFile)).toString() : "", 1);
  if (findings.some(({ code }) => code !== "yaml-duplicate")) {
    return {
      files: {},
      notes: [
        `its own ${policyFile} cannot be parsed, and is copied unchanged: models may choose the skill in ${title}`,
      ],
    };
  }
  const policy = isJsonObject(data["policy"]) ? data["policy"] : {};
  if (policy["allow_implicit_invocation"] === false) return { files: {}, notes: [] };
  const written = writeYaml({ ...data, policy: { ...policy, allow_implicit_invocation: false } });
  return {
    files: { [policyFile]: written },
    notes: [`${title} reads ${policyFile} in place of ${INVOCATION}: it is written there`],
  };
}

/** Returns the instructions with the client's own notation for the skill's folder. */
function replaceSkillDir(body: string, { title, skillDir }: ClientFormat): { text: string; notes: string[] } {
  const pattern = skillDir === undefined ? ANY_SKILL_DIR : SKILL_DIR;
  if (body.search(pattern) < 0) return { text: body, notes: [] };
  if (skillDir !== undefined) return { text: body.replace(pattern, () => skillDir), notes: [] };
  return {
    text: `${SKILL_DIR_LINE}\n\n${body.replace(pattern, () => "$SKILL_DIR")}`,
    notes: [`${title} sets no variable for the skill's folder: a first line explains what $SKILL_DIR stands for`],
  };
}

/** Every client shows a model the path of SKILL.md; only Claude Code puts it into the instructions. */
const SKILL_DIR_LINE =
  "In these instructions `$SKILL_DIR` stands for the folder of this SKILL.md. It is not an environment variable: write the path.";

function listLostKeyNotes(moved: JsonObject, lost: readonly string[], { title }: ClientFormat): string[] {
  return lost.flatMap((key) => {
    const row = UNSUPPORTED_KEYS[normalizeKey(key)];
    return row && (row.isSet?.(moved[key]) ?? true) ? `${title} ignores ${normalizeKey(key)}: ${row.effect}` : [];
  });
}

/** Replaces `<name>` by name; other angle brackets, as in `a < b`, by a similar character. */
function removeAngleBrackets(text: string): string {
  return text
    .replace(/<([^<>\s][^<>]*)>/g, "$1")
    .replaceAll("<", "‹")
    .replaceAll(">", "›");
}

/** Splits the keys into those that the client reads, in its spelling, and those that move to `metadata`. */
function splitKeys(
  { manifest, origin }: Skill,
  { keys }: ClientFormat,
): { own: Map<string, unknown>; moved: JsonObject } {
  const own = new Map<string, unknown>();
  const moved = createJsonObject();
  const spelled = new Map(keys.map((key) => [normalizeKey(key), key]));
  for (const [key, value] of Object.entries(manifest.data)) {
    // The instructions of a YAML file become the body.
    if (STANDARD.has(key) || (key === "instructions" && origin.form !== "folder" && origin.form !== "markdown"))
      continue;
    const known = keys.includes(key) ? key : spelled.get(normalizeKey(key));
    const isTaken = known !== undefined && (known === key || !Object.hasOwn(manifest.data, known));
    if (isTaken) own.set(known, value);
    else moved[key] = value;
  }
  return { own, moved };
}

/** Clients know one spelling; authors use both. */
function normalizeKey(key: string): string {
  return key.replaceAll("_", "-");
}

/** Merges moved keys into `metadata`. Top-level keys took precedence before, and still do. */
function mergeMetadata(metadata: unknown, moved: JsonObject): JsonObject {
  const all = createJsonObject();
  const before = isJsonObject(metadata) ? metadata : metadata === undefined || metadata === null ? {} : { metadata };
  for (const [key, value] of [...Object.entries(before), ...Object.entries(moved)]) all[key] = value;
  return all;
}

function omitEmptyEntries(entries: Iterable<readonly [string, unknown]>): JsonObject {
  const data = createJsonObject();
  for (const [key, value] of entries) if (value !== undefined && value !== null) data[key] = value;
  return data;
}

interface NoteContext {
  skill: Skill;
  client: ClientFormat;
  /** The client's own keys that the skill has. */
  kept: ReadonlySet<string>;
  body: string;
}

/** Differences in another client, one row each. */
const NOTE_RULES: readonly ((situation: NoteContext) => string | undefined)[] = [
  ({ skill: { name }, client: { title, builtInNames: comesWith = [] } }) =>
    comesWith.includes(name) ? `${title} has a built-in skill or command "${name}": this skill replaces it` : undefined,
  ({ skill, client: { title } }) => {
    const { toolsets, capabilities, packages } = skill.manifest;
    const needs = [
      ...(toolsets.length > 0 ? ["its tools"] : []),
      ...(capabilities.length > 0 ? [`its capabilities (${capabilities.join(", ")})`] : []),
      ...(listDeclaredVariables(skill).length > 0
        ? [`its variables (${listDeclaredVariables(skill).join(", ")})`]
        : []),
      ...(packages.length > 0 ? [`its packages (${packages.join(", ")})`] : []),
    ];
    return needs.length === 0
      ? undefined
      : `${title} provides only instructions and files: ${needs.join(", ")} work through \`skillet serve\``;
  },
  ({ skill: { manifest }, client: { title } }) =>
    manifest.model === undefined
      ? undefined
      : `its model, "${truncateLine(manifest.model, 64)}", is for sub-agents of skillet: ${title} uses its own`,
  ({ skill: { manifest }, client: { title } }) =>
    manifest.tools.allowed.length > 0 ? `${title} ignores allowed_tools` : undefined,
  ({ skill: { manifest }, client: { title } }) =>
    manifest.tools.preapproved.length > 0
      ? `${title} may call its allowed-tools without asking: ${manifest.tools.preapproved.join(", ")}`
      : undefined,
  ({ skill: { manifest }, client: { title } }) =>
    manifest.sensitive || manifest.access.chatTypes !== undefined
      ? `${title} makes it available to every user: only skillet applies its limits to sensitive use or certain chats`
      : undefined,
  ({ skill: { manifest }, client: { title } }) =>
    manifest.defaultEnabled ? undefined : `it is disabled by default in skillet; in ${title} it is enabled`,
  ({ client: { title }, kept }) =>
    kept.has("hooks") ? `its hooks are commands that ${title} runs itself, outside skillet's sandbox` : undefined,
  ({ body, client: { title } }) =>
    findDynamicCommands(body).length > 0
      ? `the commands in !\`…\` are kept: ${title} may run them itself, outside skillet's sandbox`
      : undefined,
];

/** The signature is not valid for a copy: a copy is written for its client. */
export const UNSIGNED_NOTE = `the signature ${SIGNATURE_FILE}, which covers the original files; this copy is adapted to its client`;

async function isSigned(skill: Skill): Promise<boolean> {
  return (await skill.files()).files.some(({ path }) => path === SIGNATURE_FILE);
}

/**
 * Lists the files that are not in copies: hidden files belong to this machine, and a signature to the original files.
 */
export async function listOmittedFiles(skill: Skill): Promise<string[]> {
  return [...(await listHiddenFiles(skill)), ...((await isSigned(skill)) ? [`left out: ${UNSIGNED_NOTE}`] : [])];
}

async function listHiddenFiles(skill: Skill): Promise<string[]> {
  const hidden = (await skill.files()).files.flatMap(({ path }) => (isPrivateFile(path) ? [getHiddenPart(path)] : []));
  const names = [...new Set(hidden)].filter((path) => !path.endsWith(".DS_Store"));
  if (names.length === 0) return [];
  const rest = names.length > MAX_SHOWN_NAMES ? `, and ${names.length - MAX_SHOWN_NAMES} more` : "";
  return [`left out: ${names.slice(0, MAX_SHOWN_NAMES).join(", ")}${rest}`];
}

const MAX_SHOWN_NAMES = 5;

/** Returns the path up to its first hidden part, so that a hidden folder is named once. */
function getHiddenPart(path: string): string {
  return /^(?:.*?\/)??\.[^/]*/.exec(path)?.[0] ?? path;
}

export function createPluginManifest({ name, description, manifest }: Skill): Record<string, unknown> {
  const { version, authors, homepage, license, tags } = manifest;
  return {
    name,
    ...(version === undefined ? {} : { version }),
    description,
    ...(authors.length === 0 ? {} : { author: { name: authors.join(", ") } }),
    ...(homepage === undefined || !/^https?:\/\//.test(homepage) ? {} : { homepage }),
    ...(license === undefined ? {} : { license }),
    ...(tags.length === 0 ? {} : { keywords: tags }),
  };
}

/** Formats the README that users read first; the plugin directory requires one. */
export function formatReadme({ name, description, manifest: { compatibility } }: Skill): string {
  return [
    `# ${name}`,
    description,
    ...(compatibility === undefined ? [] : [compatibility]),
    `This plugin contains one skill, \`${name}\`. Claude uses it when a task matches the description above; \`/${name}:${name}\` calls it by name.`,
    "To try it, start Claude Code with `--plugin-dir` and the path of this folder. It was created by `skillet export`.",
  ].join("\n\n");
}
