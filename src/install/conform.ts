import { dynamicCommands } from "../catalog/content.ts";
import { SkillError } from "../shared/error.ts";
import { oneLine } from "../shared/text.ts";
import { type Data, emptyData, isData } from "../skill/data.ts";
import { STANDARD_KEYS } from "../skill/manifest.ts";
import { isWindowsDevice, LONGEST_NAME, STANDARD_NAME } from "../skill/name.ts";
import { declaredVariables } from "../skill/needs.ts";
import { renderDocument } from "../skill/render.ts";
import type { Skill } from "../skill/skill.ts";
import type { NativeClient } from "./clients.ts";

/** What of a client decides how a skill is written for it. */
export type Taker = Pick<NativeClient, "title" | "keys" | "reserved" | "comesWith" | "skillDir" | "isPlain">;

/** A skill as a client takes it. */
export interface Conformed {
  /** Its SKILL.md there. */
  skillMd: string;
  /** What is another thing there than here, a sentence each: for people. */
  notes: readonly string[];
}

/** Contract: throws a SkillError when the client could not take it, and says why. */
export function conform(skill: Skill, client: Taker): Conformed {
  judgeName(skill.name, client);
  const description = descriptionFor(skill, client);
  const { own, moved } = sorted(skill, client);
  const { license, compatibility } = skill.manifest;
  const metadata = joined(skill.manifest.data["metadata"], moved);
  const isLong = compatibility !== undefined && compatibility.length > LONGEST_COMPATIBILITY;
  if (isLong) metadata["compatibility"] = compatibility;
  const data = filled([
    ["name", skill.name],
    ["description", description],
    ["license", license],
    ["compatibility", isLong ? undefined : compatibility],
    ["allowed-tools", skill.manifest.data["allowed-tools"]],
    ...own,
    ["metadata", Object.keys(metadata).length === 0 ? undefined : metadata],
  ]);
  const { skillDir } = client;
  const written = skill.body();
  const body = skillDir === undefined ? written : written.replace(SKILL_DIR, () => skillDir);
  const situation = { skill, client, kept: new Set(own.keys()), body };
  const said = NOTES.flatMap((note) => note(situation) ?? []);
  return {
    skillMd: renderDocument(data, body),
    notes: [
      ...(description === skill.description
        ? []
        : ["the description holds angle brackets, which uploads refuse: it is written without them"]),
      ...(isLong ? [`compatibility is longer than ${LONGEST_COMPATIBILITY} characters: it stands under metadata`] : []),
      ...said,
    ],
  };
}

const SKILL_DIR = /\$(?:SKILL_DIR\b|\{SKILL_DIR\})/g;
const LONGEST_DESCRIPTION = 1024;
const LONGEST_COMPATIBILITY = 500;
const STANDARD: ReadonlySet<string> = new Set(STANDARD_KEYS);

function judgeName(name: string, { title, reserved }: Taker): void {
  if (!STANDARD_NAME.test(name) || name.length > LONGEST_NAME || isWindowsDevice(name)) {
    throw new SkillError("name-format", {
      message: `Skill "${name}" has a name that ${title} may not take`,
      fix: `rename it: up to ${LONGEST_NAME} lower-case letters, digits and single hyphens, and no device of Windows such as "con"`,
    });
  }
  if (reserved.includes(name)) {
    throw new SkillError("name-reserved", {
      message: `Skill "${name}" has a name that ${title} has for something of its own`,
      fix: `rename it, for example to "my-${name}": its folder, and "name:" in its SKILL.md`,
    });
  }
}

function descriptionFor({ name, description }: Skill, { title, isPlain }: Taker): string {
  const written = isPlain ? withoutBrackets(description) : description;
  if (written.length <= LONGEST_DESCRIPTION) return written;
  throw new SkillError("description-too-long", {
    message: `Skill "${name}" has a description of ${written.length} characters; ${title} takes ${LONGEST_DESCRIPTION}`,
    fix: "shorten it; details belong in the instructions",
  });
}

/** `<name>` as name; what else stands there, as in `a < b`, as a mark that looks like it. */
function withoutBrackets(text: string): string {
  return text
    .replace(/<([^<>\s][^<>]*)>/g, "$1")
    .replaceAll("<", "‹")
    .replaceAll(">", "›");
}

/** What the client knows, in its own spelling, and what has to go elsewhere. */
function sorted({ manifest, origin }: Skill, { keys }: Taker): { own: Map<string, unknown>; moved: Data } {
  const own = new Map<string, unknown>();
  const moved = emptyData();
  const spelled = new Map(keys.map((key) => [plain(key), key]));
  for (const [key, value] of Object.entries(manifest.data)) {
    // The instructions of a YAML file are the text below.
    if (STANDARD.has(key) || (key === "instructions" && origin.form !== "folder" && origin.form !== "markdown"))
      continue;
    const known = keys.includes(key) ? key : spelled.get(plain(key));
    const isTaken = known !== undefined && (known === key || !Object.hasOwn(manifest.data, known));
    if (isTaken) own.set(known, value);
    else moved[key] = value;
  }
  return { own, moved };
}

/** Clients know one spelling, people write both. */
function plain(key: string): string {
  return key.replaceAll("_", "-");
}

/** What stood at the top counted before what stood under `metadata`, and does so still. */
function joined(metadata: unknown, moved: Data): Data {
  const all = emptyData();
  const before = isData(metadata) ? metadata : metadata === undefined || metadata === null ? {} : { metadata };
  for (const [key, value] of [...Object.entries(before), ...Object.entries(moved)]) all[key] = value;
  return all;
}

function filled(entries: Iterable<readonly [string, unknown]>): Data {
  const data = emptyData();
  for (const [key, value] of entries) if (value !== undefined && value !== null) data[key] = value;
  return data;
}

interface Situation {
  skill: Skill;
  client: Taker;
  /** The client's own keys that it has. */
  kept: ReadonlySet<string>;
  body: string;
}

/** What changes in another place, one row each. */
const NOTES: readonly ((situation: Situation) => string | undefined)[] = [
  ({ skill: { name }, client: { title, comesWith = [] } }) =>
    comesWith.includes(name) ? `${title} comes with "${name}" of its own: this one takes its place` : undefined,
  ({ skill, client: { title } }) => {
    const { toolsets, capabilities, packages } = skill.manifest;
    const needs = [
      ...(toolsets.length > 0 ? ["its tools"] : []),
      ...(capabilities.length > 0 ? [`its capabilities (${capabilities.join(", ")})`] : []),
      ...(declaredVariables(skill).length > 0 ? [`its variables (${declaredVariables(skill).join(", ")})`] : []),
      ...(packages.length > 0 ? [`its packages (${packages.join(", ")})`] : []),
    ];
    return needs.length === 0
      ? undefined
      : `${title} gives instructions and files alone: ${needs.join(", ")} work through \`skillet serve\``;
  },
  ({ skill: { manifest }, client: { title } }) =>
    manifest.model === undefined
      ? undefined
      : `its model, "${oneLine(manifest.model, 64)}", is for sub-agents of skillet: ${title} uses its own`,
  ({ skill: { manifest }, client: { title } }) =>
    manifest.tools.allowed.length > 0 ? `${title} does not heed allowed_tools` : undefined,
  ({ skill: { manifest }, client: { title }, kept }) =>
    manifest.tools.disallowed.length > 0 && !kept.has("disallowed-tools")
      ? `${title} does not heed disallowed-tools`
      : undefined,
  ({ skill: { manifest }, client: { title } }) =>
    manifest.tools.preapproved.length > 0
      ? `allowed-tools may be called there without asking, where ${title} heeds them: ${manifest.tools.preapproved.join(", ")}`
      : undefined,
  ({ skill: { manifest }, client: { title }, kept }) =>
    !manifest.invocation.byModel && !kept.has("disable-model-invocation")
      ? `${title} has no disable-model-invocation: a model may choose it there by itself`
      : undefined,
  ({ skill: { manifest }, client: { title } }) =>
    manifest.sensitive || manifest.access.chatTypes !== undefined
      ? `${title} gives it to everybody: that it is sensitive, or for some chats alone, is heeded by skillet only`
      : undefined,
  ({ skill: { manifest }, client: { title } }) =>
    manifest.defaultEnabled ? undefined : `it is off here until it is switched on; in ${title} it is on`,
  ({ client: { title }, kept }) =>
    kept.has("hooks")
      ? `its hooks are commands that ${title} runs by itself, outside of any sandbox of skillet`
      : undefined,
  ({ body, client: { title } }) =>
    dynamicCommands(body).length > 0
      ? `the commands in !\`…\` stand as they are: ${title} may run them by itself, outside of any sandbox of skillet`
      : undefined,
  ({ body }) =>
    body.search(SKILL_DIR) >= 0
      ? "its instructions name $SKILL_DIR, which skillet alone sets: there it means the folder of the copy"
      : undefined,
];
