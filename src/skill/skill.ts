import { FINDING_CODES, type FindingCode, type FindingSeverity } from "../errors/finding-codes.ts";
import type { Problem } from "../errors/problem.ts";
import { isJsonObject } from "../util/objects.ts";
import type { SkillForm } from "./frontmatter.ts";
import type { Manifest } from "./manifest.ts";

/** In rising precedence: a later scope overrides an earlier one. */
export const SCOPES = ["bundled", "integration", "installed", "user", "workspace", "inline"] as const;
export type SkillScope = (typeof SCOPES)[number];

export interface SkillOrigin {
  readonly scope: SkillScope;
  /** The name of the source, as in `name@source`. */
  readonly source: string;
  readonly form: SkillForm;
  /** The skill's file as it was found; absent for a skill defined in code. */
  readonly file?: string;
  /** The real path of the skill's folder; only skills in the folder form have one. */
  readonly folder?: string;
  /** Device and inode of the folder of the skill's file at discovery. A folder that replaced it is not read. */
  readonly folderId?: string;
  /** Inode, size and time of the skill's file at discovery. A symlink out of the folder is followed only to this file. */
  readonly fileId?: string;
  /** True if the file of a workspace skill was a symlink at discovery: its target may belong to another owner. */
  readonly isLinked?: boolean;
  /** The name of the skill whose folder contains this one, if any. Files of this skill are also files of that one. */
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
  /** `sha256:…` over the URI and digest of each listed file. An approval is bound to it. */
  readonly digest: string;
}

/** Returns true if a skill has a folder for its code: on this machine, or made of the files that its server lists. */
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

/**
 * Returns true for hidden files, which belong to the machine and not to the skill's content: `.env` may contain a user's keys.
 */
export function isPrivateFile(path: string): boolean {
  return /(?:^|\/)\./.test(path);
}

/** Returns true for files of evaluations. A model that does the job has no use for them, and would know the expected results. */
export function isEvalFile(path: string): boolean {
  return path.startsWith("evals/");
}

export interface FileList {
  files: readonly SkillFile[];
  findings: readonly Finding[];
}

/** Detects that a skill changed, without reading its instructions. */
export interface SkillFingerprint {
  /** The skill's file, or another unique key in its source. */
  file: string;
  /** Differs for each version: for a file, its time, size and inode. */
  value: string;
  /** The time of the last change in milliseconds: a version that is only seconds old is not cached. 0 if that is not needed. */
  changedAt: number;
}

/** A skill, independent of its format and its source. */
export interface Skill {
  readonly name: string;
  readonly description: string;
  readonly manifest: Manifest;
  readonly origin: SkillOrigin;
  /** Findings of the source that read it. */
  readonly findings: readonly Finding[];
  /** Returns false if the manifest contains nothing that a policy checks. Faster than reading the manifest. */
  hasRequirements?(): boolean;
  /** Returns false if the manifest does not restrict who may invoke the skill. Faster than reading the manifest. */
  restrictsInvocation?(): boolean;
  /** Returns its fingerprint at discovery. Without one, its instructions are read again in each process that searches them. */
  fingerprint?(): SkillFingerprint | undefined;
  /** Returns the instructions: read on demand, and cached until the file changes. */
  body(): Promise<string>;
  /** Returns the files next to SKILL.md: listed on the first call. */
  files(): Promise<FileList>;
  /** Returns true if the folder's files differ from the list by now. */
  hasOtherFiles?(): boolean;
  /** Returns queries that the skill is for: those it declares and the training queries in `evals/triggers.json`. */
  examples(): readonly string[];
  /** Returns the bytes of a listed file. Throws a SkillError for any other path. */
  read(path: string): Promise<Uint8Array>;
  /**
   * Fetches and verifies the content of `body` and `read`, for a skill that is not on this machine; absent for all others.
   * Defaults to the instructions. Throws a SkillError if the server is unreachable, or if the content differs from its listing.
   */
  fetch?(files?: "all" | readonly string[]): Promise<void>;
}

/** Returns true if a skill is available to the model, or to users who call it by name. */
export function isInvocableBy(invoker: "model" | "user", skill: Skill): boolean {
  if (skill.restrictsInvocation?.() === false) return true;
  const { invocation } = skill.manifest;
  return invoker === "model" ? invocation.byModel : invocation.byUser;
}

/** Returns the skill with these instructions, so that later changes of its file have no effect on a decision. */
export function withBody(skill: Skill, body: string): Skill {
  const { name, description, manifest, origin, findings } = skill;
  return {
    ...{ name, description, manifest, origin, findings },
    body: async () => body,
    files: () => skill.files(),
    examples: () => skill.examples(),
    read: (path) => skill.read(path),
  };
}

export interface LoadedSkills {
  skills: readonly Skill[];
  /** Diagnostics of the files that were read, including those that are not skills. */
  diagnostics: readonly Diagnostic[];
}

/** A source of skills. Contract: `load` never throws because of its files; a broken file is a diagnostic. */
export interface Source {
  readonly name: string;
  readonly scope: SkillScope;
  /** The folder it reads, if any. */
  readonly path?: string;
  load(): LoadedSkills | Promise<LoadedSkills>;
}

/** Creates a source of skills that are defined in code. */
export function createInlineSource(
  skills: readonly Skill[],
  options: { name?: string; scope?: SkillScope } = {},
): Source {
  const { name = "inline", scope = "inline" } = options;
  const placed = skills.map((skill) => withOrigin(skill, { ...skill.origin, scope, source: name }));
  return { name, scope, load: () => ({ skills: placed, diagnostics: [] }) };
}

/** Returns the skill with another origin. Methods delegate to the original: a skill need not be a plain object. */
export function withOrigin(skill: Skill, origin: SkillOrigin): Skill {
  return {
    name: skill.name,
    description: skill.description,
    get manifest() {
      return skill.manifest;
    },
    origin,
    findings: skill.findings,
    hasRequirements: () => skill.hasRequirements?.() ?? true,
    restrictsInvocation: () => skill.restrictsInvocation?.() ?? true,
    ...(skill.fingerprint ? { fingerprint: () => skill.fingerprint?.() } : {}),
    body: async () => await skill.body(),
    files: async () => await skill.files(),
    examples: () => skill.examples(),
    read: async (path) => await skill.read(path),
    ...(skill.fetch ? { fetch: (files) => skill.fetch?.(files) ?? Promise.resolve() } : {}),
  };
}

/** The format of a name in the open standard, except its length. */
export const STANDARD_NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
export const MAX_NAME_LENGTH = 64;

/** Returns the reason why `name` cannot be the name of a skill, if any. Length and letters are lenient: see `name-format`. */
export function findNameProblem(name: string): { code: FindingCode; why: string } | undefined {
  if (name === "") return { code: "name-invalid", why: "is empty" };
  if ([...name].length > MAX_NAME_LENGTH)
    return { code: "name-invalid", why: `is longer than ${MAX_NAME_LENGTH} characters` };
  if (RESERVED_NAMES.has(name.toLowerCase())) return { code: "name-reserved", why: "is reserved" };
  if (PLAIN_NAME.test(name)) return undefined;
  if (!new RegExp(USABLE_NAME, "u").test(name))
    return {
      code: "name-invalid",
      why: "may contain only letters, digits and hyphens, and must start with a letter or digit",
    };
  if (new RegExp(INVISIBLE_CHARACTER, "u").test(name))
    return { code: "name-invalid", why: "contains an invisible character" };
  if (name.normalize("NFKC") !== name || mixesScripts(name)) {
    return { code: "name-lookalike", why: "contains look-alike letters" };
  }
  return undefined;
}

export function isWindowsDeviceName(name: string): boolean {
  return /^(?:con|prn|aux|nul|com\d|lpt\d)$/i.test(name);
}

const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9 ._-]*$/;
// As text: compiling Unicode classes costs time at every start, and almost every name is plain.
const USABLE_NAME = "^[\\p{L}\\p{N}][\\p{L}\\p{N}\\p{M} ._-]*$";

const INVISIBLE_CHARACTER = "\\p{Default_Ignorable_Code_Point}";

// `defaults` is a section of the configuration, `skills.lock` a file next to the skill folders; the others are names of built-in
// tools.
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

export const PROFILES = ["load", "agentskills", "shipped", "claude-upload", "vscode"] as const;
export type Profile = (typeof PROFILES)[number];
export type Severity = "error" | "warning" | "info";

export interface Position {
  line: number;
  column: number;
}

/** A problem that a parser or a rule found, before a profile gives it a severity. Its fix, if any, is more specific than the code's row. */
export interface Finding extends Partial<Position>, Partial<Pick<Problem, "fix" | "commands" | "data">> {
  code: FindingCode;
  message: string;
  /** The top-level key of the problem, and the key that was probably meant. */
  key?: string;
  meant?: string;
  /** The name in a file that does not load, if it differs from its folder or file name. */
  name?: string;
}

/** A finding in a file, with its severity in a profile. Discovery, check and lint all return it. */
export interface Diagnostic extends Problem<FindingCode>, Omit<Finding, "fix"> {
  severity: Severity;
  file: string;
}

/** Returns the severity of a code in a profile, or undefined if the profile does not report it. */
export function getSeverity(code: FindingCode, profile: Profile): Severity | undefined {
  const severity = resolveSeverity(code, profile);
  if (severity === "none") return undefined;
  return severity === "reported-error" ? "error" : severity;
}

function resolveSeverity(code: FindingCode, profile: Profile): FindingSeverity {
  const { severities } = FINDING_CODES[code];
  return severities[profile] ?? severities.all;
}

export function diagnose(findings: readonly Finding[], file: string, profile: Profile = "load"): Diagnostic[] {
  const diagnostics: Diagnostic[] = [];
  for (const finding of findings) {
    const severity = getSeverity(finding.code, profile);
    if (severity) diagnostics.push({ ...finding, severity, file, fix: finding.fix ?? FINDING_CODES[finding.code].fix });
  }
  return diagnostics;
}

/** Returns true if a diagnostic means that its file is not loaded as a skill. */
export function stopsLoading({ code, severity }: Pick<Diagnostic, "code" | "severity">): boolean {
  return severity === "error" && resolveSeverity(code, "load") !== "reported-error";
}

/** Returns true if a finding stops a file from loading in a profile; a `reported-error` does not. */
export function hasFatalFindings(findings: readonly Finding[], profile: Profile): boolean {
  return findings.some(({ code }) => resolveSeverity(code, profile) === "error");
}

export function hasErrors(findings: readonly Finding[], profile: Profile = "load"): boolean {
  return findings.some((finding) => getSeverity(finding.code, profile) === "error");
}

/** Returns the reason why a skill cannot have a variable of this name, if any. */
export function findVariableProblem(name: string): string | undefined {
  if (!VARIABLE_NAME.test(name)) return "is not a valid variable name";
  return RESERVED_VARIABLES.test(name) ? "changes how programs start" : undefined;
}

export const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

const RESERVED_VARIABLES =
  /^(?:PATH|HOME|TMPDIR|LANG|LC_.*|PWD|OLDPWD|SHLVL|IFS|ENV|BASH_.*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4]|LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH|MALLOC_.*|NODE_.*|PYTHON.*|PERL5?(?:LIB|OPT|DB)|PERLLIB|RUBY(?:LIB|OPT)|JAVA_TOOL_OPTIONS|GIT_.*|UV_.*|SKILLET_.*|SKILL_DIR|(?:HTTPS?|ALL|NO)_PROXY)$/i;

// apt gives some characters a meaning: `apt-` removes, `libssl.*` is a pattern, `jq=1.6` selects a version and `./x.deb` a file.
export const SYSTEM_PACKAGE_NAME = /^[a-z0-9][a-z0-9+.-]{0,62}[a-z0-9+.]$/;

/** Returns true for the plain name of a system package. */
export function isSystemPackageName(name: string): boolean {
  return SYSTEM_PACKAGE_NAME.test(name);
}

/** The requirements under `metadata`, in the spellings of other clients. */
interface Requirements {
  /** Required programs: all of them. */
  bins: readonly string[];
  /** Required programs: one of them. */
  anyBins: readonly string[];
  env: readonly string[];
  /** Operating systems, by Node's names; any if empty. */
  os: readonly string[];
}

/** Reads the requirements that are understood. */
export function readRequirements({ manifest: { metadata } }: Pick<Skill, "manifest">): Requirements {
  const client = metadata["openclaw"];
  const requires = [metadata["requires"], isJsonObject(client) ? client["requires"] : undefined];
  return {
    bins: collectTexts(requires, "bins", PROGRAM_NAME),
    anyBins: collectTexts(requires, "anyBins", PROGRAM_NAME),
    env: collectTexts(requires, "env", /^/).filter((name) => findVariableProblem(name) === undefined),
    os: collectTexts([metadata, client, ...requires], "os", PROGRAM_NAME).map((name) => {
      const lower = name.toLowerCase();
      return OS_ALIASES.get(lower) ?? lower;
    }),
  };
}

/** Returns the names of the variables that a skill declares, without invalid names. */
export function listDeclaredVariables(skill: Pick<Skill, "manifest">): string[] {
  const names = [...skill.manifest.env, ...readRequirements(skill).env];
  return [...new Set(names)].filter((name) => findVariableProblem(name) === undefined);
}

const PROGRAM_NAME = /^[\w.+-]{1,64}$/;
const MAX_REQUIREMENTS = 64;
const OS_ALIASES: ReadonlyMap<string, string> = new Map([
  ["macos", "darwin"],
  ["mac", "darwin"],
  ["osx", "darwin"],
  ["windows", "win32"],
]);

/** Collects the text, or the texts of a list, under a key of several objects. */
function collectTexts(places: readonly unknown[], key: string, wanted: RegExp): string[] {
  const values = places.flatMap((place) => (isJsonObject(place) ? [place[key]] : [])).flat();
  return values
    .filter((value): value is string => typeof value === "string" && wanted.test(value))
    .slice(0, MAX_REQUIREMENTS);
}

/**
 * A Python package as a user enters it: a name, extras, and versions. URLs, paths, options, environment markers and arbitrary
 * equality are excluded: pip accepts all of them in a plain argument.
 */
export const PYTHON_PACKAGE =
  /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?(?:\[[A-Za-z0-9][A-Za-z0-9._-]{0,98}(?:, ?[A-Za-z0-9][A-Za-z0-9._-]{0,98}){0,15}\])?(?: ?(?:==|!=|<=|>=|~=|<|>) ?[0-9][0-9A-Za-z.+!*-]{0,63}(?: ?, ?(?:==|!=|<=|>=|~=|<|>) ?[0-9][0-9A-Za-z.+!*-]{0,63}){0,7})?$/;

/** An npm package: a name, and a version, range or tag after `@`. URLs, paths, aliases and repositories are excluded. */
export const NPM_PACKAGE =
  /^(?:@[a-z0-9][a-z0-9._~-]{0,98}\/)?[a-z0-9][a-z0-9._~-]{0,98}(?:@(?:[a-z][a-z0-9.-]{0,63}|(?:[~^]|[<>]=?|=)?v?[0-9][0-9A-Za-z.+*-]{0,63}(?: (?:[~^]|[<>]=?|=)?v?[0-9][0-9A-Za-z.+*-]{0,63}){0,3}))?$/;

/** Normalizes the name of a Python package, as package indexes do. */
export function normalizePythonName(specifier: string): string {
  const [name = ""] = /^[A-Za-z0-9._-]+/.exec(specifier) ?? [];
  return name.replace(/[._-]+/g, "-").toLowerCase();
}

/** Splits an npm specifier into the name of the package and the requested range. */
export function parseNpmSpecifier(specifier: string): { name: string; range: string | undefined } {
  const at = specifier.indexOf("@", 1);
  return at === -1
    ? { name: specifier, range: undefined }
    : { name: specifier.slice(0, at), range: specifier.slice(at + 1) };
}

/**
 * Returns the packages that a `requirements.txt` lists by name, without options, URLs, paths and lines with environment markers.
 */
export function parseRequirementsTxt(text: string): string[] {
  return text
    .split(/\r?\n/)
    .map((line) => line.replace(/(?:^|\s)#.*$/, "").trim())
    .filter((line) => PYTHON_PACKAGE.test(line));
}

/** Returns the dependencies in a `package.json`, by name and range, without URLs, paths and aliases. */
export function parseNpmDependencies(text: string): string[] {
  const dependencies = readPackageJsonDependencies(text);
  return Object.entries(dependencies).flatMap(([name, range]) => {
    const specifier = range === "*" || range === "" ? name : `${name}@${String(range)}`;
    return NPM_PACKAGE.test(specifier) ? [specifier] : [];
  });
}

function readPackageJsonDependencies(text: string): Readonly<Record<string, unknown>> {
  try {
    const manifest: unknown = JSON.parse(text);
    const dependencies = isJsonObject(manifest) ? manifest["dependencies"] : undefined;
    return isJsonObject(dependencies) ? dependencies : {};
  } catch {
    return {};
  }
}
