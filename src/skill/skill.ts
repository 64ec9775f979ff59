import type { FindingCode } from "../errors/finding-codes.ts";
import type { Diagnostic, Finding } from "./diagnostics.ts";
import type { SkillForm } from "./frontmatter.ts";
import type { Manifest } from "./manifest.ts";

/** Far to near: a later scope overrides an earlier one. */
export const SCOPES = ["bundled", "integration", "installed", "user", "workspace", "inline"] as const;
export type SkillScope = (typeof SCOPES)[number];

export interface SkillOrigin {
  readonly scope: SkillScope;
  /** The name of the source, as `name@source` takes it. */
  readonly source: string;
  readonly form: SkillForm;
  /** The skill's file as it was found; absent for a skill defined in code. */
  readonly file?: string;
  /** The real path of the skill's folder; only skills in the folder form have one. */
  readonly folder?: string;
  /** Device and inode of the folder that its file was in when the skill was found. Another folder in its place is not read. */
  readonly folderId?: string;
  /** Inode, size and time of its file when the skill was found. A link out of the folder is followed only to this file. */
  readonly fileId?: string;
  /** Its file was a link when a skill of a workspace was found: it may be anybody's. */
  readonly isLinked?: boolean;
  /** The name of the skill whose folder it is inside, if it is. Its files are files of that one too. */
  readonly parent?: string;
  /** For a skill of a package in a monorepo: the package's folder, relative to the workspace, with `/` between its parts. */
  readonly belongsTo?: string;
  /** For a skill of an MCP server: its identity there, and which content was listed. */
  readonly remote?: RemoteOrigin;
}

/** The identity of a skill of an MCP server. Contract: both parts count; two servers can list the same URI. */
export interface RemoteOrigin {
  /** The name of the server in the configuration. */
  readonly server: string;
  /** The URI of its SKILL.md at that server. */
  readonly uri: string;
  /** `sha256:…` over the URI and digest of each listed file: what an approval is for. */
  readonly digest: string;
}

/** Returns whether a skill has a folder for its code: on this machine, or made of the files that its server lists. */
export function hasFolder({ folder, remote }: SkillOrigin): boolean {
  return folder !== undefined || remote !== undefined;
}

export interface SkillFile {
  /** Relative to the skill's folder, with `/` between its parts. */
  path: string;
  size: number;
  executable: boolean;
}

/** The signature of a skill, in its folder: it covers all other files there. */
export const SIGNATURE_FILE = "SKILL.sig";

/** Whether a file belongs to the machine that it is on, and not to what a skill tells: `.env` may hold somebody's keys. */
export function isPrivateFile(path: string): boolean {
  return /(?:^|\/)\./.test(path);
}

export interface FileList {
  files: readonly SkillFile[];
  findings: readonly Finding[];
}

/** What tells that a skill's file changed, without reading it. */
export interface SkillFingerprint {
  file: string;
  /** Time, size and inode of what the skill is read from. */
  value: string;
  changedAt: number;
}

/** One skill, whatever it was written as and wherever it came from. */
export interface Skill {
  readonly name: string;
  readonly description: string;
  readonly manifest: Manifest;
  readonly origin: SkillOrigin;
  /** What its source saw while reading it. */
  readonly findings: readonly Finding[];
  /** False when its manifest surely asks nothing that a policy looks at: quicker than reading the manifest. */
  asksOfHost?(): boolean;
  /** False when its manifest surely says nothing of who may invoke it: quicker than reading the manifest. */
  limitsInvocation?(): boolean;
  /** What its file was when it was found; absent for a skill without a file. */
  fingerprint?(): SkillFingerprint | undefined;
  /** The instructions: read when asked for, kept until the file changes. */
  body(): string;
  /** The files beside SKILL.md: listed when first asked for. */
  files(): FileList;
  /** Whether there are others by now than were listed. */
  hasOtherFiles?(): boolean;
  /** Queries that it is for: those it declares and those its `evals/triggers.json` sets aside for training. */
  examples(): readonly string[];
  /** A listed file's bytes. Throws a SkillError for anything else. */
  read(path: string): Uint8Array;
  /**
   * Fetches and verifies what `body` and `read` return, for a skill that is not on this machine; absent for all others. Defaults to the
   * instructions. Throws a SkillError if the server cannot be reached, or sends other content than it listed.
   */
  fetch?(files?: "all" | readonly string[]): Promise<void>;
}

/** Whether a skill is there for a model, or for a person who calls it by name. */
export function isInvocableBy(whom: "model" | "user", skill: Skill): boolean {
  if (skill.limitsInvocation?.() === false) return true;
  const { invocation } = skill.manifest;
  return whom === "model" ? invocation.byModel : invocation.byUser;
}

/** The same skill with its instructions as they are now, whatever becomes of its file: what was judged is what is used. */
export function withBody(skill: Skill, body = skill.body()): Skill {
  const { name, description, manifest, origin, findings } = skill;
  return {
    ...{ name, description, manifest, origin, findings },
    body: () => body,
    files: () => skill.files(),
    examples: () => skill.examples(),
    read: (path) => skill.read(path),
  };
}

export interface LoadedSkills {
  skills: readonly Skill[];
  /** What is worth saying of the files that were looked at, also of those that are no skills. */
  diagnostics: readonly Diagnostic[];
}

/** Where skills come from. Contract: `load` never throws for what it finds; a broken file is a diagnostic. */
export interface Source {
  readonly name: string;
  readonly scope: SkillScope;
  /** The folder it reads, when it reads one. */
  readonly path?: string;
  load(): LoadedSkills | Promise<LoadedSkills>;
}

/** Skills defined in code. */
export function createInlineSource(
  skills: readonly Skill[],
  options: { name?: string; scope?: SkillScope } = {},
): Source {
  const { name = "inline", scope = "inline" } = options;
  const placed = skills.map((skill) => withOrigin(skill, { ...skill.origin, scope, source: name }));
  return { name, scope, load: () => ({ skills: placed, diagnostics: [] }) };
}

/** The same skill from another place. What it does stays its own: a skill need not be a plain object. */
export function withOrigin(skill: Skill, origin: SkillOrigin): Skill {
  return {
    name: skill.name,
    description: skill.description,
    get manifest() {
      return skill.manifest;
    },
    origin,
    findings: skill.findings,
    asksOfHost: () => skill.asksOfHost?.() ?? true,
    limitsInvocation: () => skill.limitsInvocation?.() ?? true,
    body: () => skill.body(),
    files: () => skill.files(),
    examples: () => skill.examples(),
    read: (path) => skill.read(path),
    ...(skill.fetch ? { fetch: (files) => skill.fetch?.(files) ?? Promise.resolve() } : {}),
  };
}

/** What the open standard asks of a name, beside its length. */
export const STANDARD_NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
export const MAX_NAME_LENGTH = 64;

/** Why `name` cannot be a skill's name anywhere here, or nothing. Length and letters are generous: see `name-format`. */
export function findNameProblem(name: string): { code: FindingCode; why: string } | undefined {
  if (name === "") return { code: "name-unusable", why: "is empty" };
  if ([...name].length > MAX_NAME_LENGTH)
    return { code: "name-unusable", why: `is longer than ${MAX_NAME_LENGTH} characters` };
  if (RESERVED_NAMES.has(name.toLowerCase())) return { code: "name-reserved", why: "is reserved" };
  if (PLAIN_NAME.test(name)) return undefined;
  if (!new RegExp(USABLE_NAME, "u").test(name))
    return {
      code: "name-unusable",
      why: "may hold only letters, digits, hyphens, and start with one of the first two",
    };
  if (new RegExp(INVISIBLE_CHARACTER, "u").test(name))
    return { code: "name-unusable", why: "holds an invisible character" };
  if (name.normalize("NFKC") !== name || mixesScripts(name)) {
    return { code: "name-lookalike", why: "holds letters that look like others" };
  }
  return undefined;
}

export function isWindowsDeviceName(name: string): boolean {
  return /^(?:con|prn|aux|nul|com\d|lpt\d)$/i.test(name);
}

const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9 ._-]*$/;
// As text: compiling Unicode classes takes time of every start, and almost every name is plain.
const USABLE_NAME = "^[\\p{L}\\p{N}][\\p{L}\\p{N}\\p{M} ._-]*$";

const INVISIBLE_CHARACTER = "\\p{Default_Ignorable_Code_Point}";

// `defaults` is a section of the configuration, `skills.lock` a file next to the folders of skills; the others are tools that a model already has.
const RESERVED_NAMES: ReadonlySet<string> = new Set([
  "defaults",
  "skills.lock",
  "list_skills",
  "search_skills",
  "load_skill",
  "unload_skill",
  "use_skill",
  "activate_skills_for",
  "read_skill_resource",
  "run_skill_script",
  "call_skill_tool",
  "validate_skill",
  "lint_skill",
  "open_sections",
]);

const LATIN_SCRIPT = "\\p{Script=Latin}";
const LOOKALIKE_SCRIPTS = "[\\p{Script=Cyrillic}\\p{Script=Greek}\\p{Script=Armenian}\\p{Script=Cherokee}]";
const ONLY_LOOKALIKES = /^[-_. \dасеорхуіјѕһԁԛԝкмтвнαονρτυικχ]+$/;

function mixesScripts(name: string): boolean {
  if (!new RegExp(LOOKALIKE_SCRIPTS, "u").test(name)) return false;
  return new RegExp(LATIN_SCRIPT, "u").test(name) || ONLY_LOOKALIKES.test(name.toLowerCase());
}
