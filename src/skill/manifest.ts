import type { Code } from "../codes/findings.ts";
import { firstSentence, isWithinOneEdit, oneLine } from "../shared/text.ts";
import { CLIENT_KEYS, clientUseOf } from "./client-keys.ts";
import { type Data, isData } from "./data.ts";
import * as read from "./fields.ts";

/** What a skill says of itself, in one shape whatever dialect it was written in. */
export interface Manifest {
  readonly description: string;
  readonly briefDescription: string;
  readonly title?: string;
  readonly version?: string;
  readonly tags: readonly string[];
  readonly authors: readonly string[];
  readonly license?: string;
  readonly compatibility?: string;
  readonly homepage?: string;
  readonly rationale?: string;
  readonly whenToUse?: string;
  readonly triggers: read.Triggers;
  readonly paths: readonly string[];
  readonly model?: string;
  readonly effort?: string;
  readonly maxSteps?: number;
  readonly inputSchema?: Data;
  readonly tools: {
    /** Must exist before a run. */
    readonly required: readonly string[];
    /** `allowed_tools`: nothing else may be called. Empty: all. */
    readonly allowed: readonly string[];
    /** `allowed-tools`: may be called without asking. */
    readonly preapproved: readonly string[];
    readonly disallowed: readonly string[];
  };
  readonly toolsets: readonly string[];
  readonly scripts: readonly read.Script[];
  readonly env: readonly string[];
  readonly packages: readonly string[];
  readonly capabilities: readonly string[];
  readonly sensitive: boolean;
  readonly access: { readonly chatTypes?: readonly string[] };
  readonly invocation: { readonly byModel: boolean; readonly byUser: boolean };
  readonly arguments: readonly string[];
  readonly argumentHint?: string;
  readonly context?: string;
  readonly agent?: string;
  readonly defaultEnabled: boolean;
  readonly metadata: Data;
  /** Everything as it was written, with the keys that nobody knows. */
  readonly data: Data;
}

/** Contract: called for each problem with a top-level key. */
export type Report = (code: Code, key: string, message: string, meant?: string) => void;

/** The one table of spellings. Where several stand in a file, the first in this order counts. */
const FIELDS = {
  description: field(read.description, ["description"]),
  briefDescription: field(read.text, ["brief_description", "brief-description"], "metadata"),
  title: field(read.text, ["title"]),
  version: field(read.version, ["version"], "metadata"),
  tags: field(read.list, ["tags"], "metadata"),
  authors: field(read.list, ["authors", "author"], "metadata"),
  license: field(read.text, ["license"]),
  compatibility: field(read.compatibility, ["compatibility"]),
  homepage: field(read.text, ["homepage"]),
  rationale: field(read.text, ["rationale"]),
  whenToUse: field(read.text, ["when_to_use", "when-to-use"], "metadata"),
  triggers: field(read.triggers, ["triggers"], "metadata"),
  paths: field(read.list, ["paths", "globs"], "metadata"),
  model: field(read.text, ["model", "preferred_model", "preferred-model"]),
  effort: field(read.text, ["effort"]),
  maxSteps: field(read.steps, ["max_iterations", "max-iterations"]),
  inputSchema: field(read.schema, ["input_schema", "input-schema"]),
  requiredTools: field(read.tools, ["required_tools", "required-tools"]),
  allowedTools: field(read.tools, ["allowed_tools"]),
  preapprovedTools: field(read.tools, ["allowed-tools"]),
  disallowedTools: field(read.tools, ["disallowed-tools", "disallowed_tools"]),
  toolsets: field(read.toolsets, ["toolsets"]),
  scripts: field(read.scripts, ["scripts"]),
  env: field(read.variables, ["env"]),
  packages: field(read.packages, ["packages"]),
  capabilities: field(read.capabilities, ["capabilities"]),
  sensitive: field(read.flag, ["sensitive"]),
  access: field(read.access, ["access"]),
  modelInvocationDisabled: field(read.flag, ["disable-model-invocation", "disable_model_invocation"]),
  userInvocable: field(read.flag, ["user-invocable", "user-invokable", "user_invocable"]),
  arguments: field(read.names, ["arguments"]),
  argumentHint: field(read.hint, ["argument-hint", "argument_hint"]),
  context: field(read.text, ["context"]),
  agent: field(read.text, ["agent"]),
  defaultEnabled: field(read.flag, ["default_enabled", "default-enabled"]),
  metadata: field(read.mapping, ["metadata"]),
  // Read elsewhere (name, instructions) or kept for the clients that use them.
  other: field(read.anything, [
    "name",
    "instructions",
    "hooks",
    "shell",
    "command-dispatch",
    "command-tool",
    "command-arg-mode",
    "mcp-servers",
    "handoffs",
    "dependencies",
    "interface",
    "policy",
  ]),
};

type Fields = typeof FIELDS;
export type FieldName = keyof Fields;
export type Values = { [Name in keyof Fields]?: NonNullable<ReturnType<Fields[Name]["read"]>> };

/** Reads every key of the frontmatter. What cannot be used is left out and reported. */
export function readValues(data: Data, report: Report): Values {
  const values: Record<string, unknown> = {};
  for (const key in data) {
    const row = BY_KEY.get(key);
    if (row) readInto(values, row, key, data, report);
    else reportUnknown(key, data, report);
  }
  const { metadata } = data;
  if (isData(metadata)) {
    for (const [key, row] of IN_METADATA) {
      if (metadata[key] === undefined || values[row.name] !== undefined) continue;
      const problem: read.Problem = (code, message) => report(code, "metadata", `"metadata.${key}" ${message}`);
      values[row.name] = row.read(metadata[key], problem);
    }
  }
  return values as Values;
}

export function readManifest(data: Data, report: Report = () => {}): Manifest {
  const values = readValues(data, report);
  const description = values.description ?? "";
  return {
    ...defined({
      title: values.title,
      version: values.version,
      license: values.license,
      compatibility: values.compatibility,
      homepage: values.homepage,
      rationale: values.rationale,
      whenToUse: values.whenToUse,
      model: values.model,
      effort: values.effort,
      maxSteps: values.maxSteps,
      inputSchema: values.inputSchema,
      argumentHint: values.argumentHint,
      context: values.context,
      agent: values.agent,
    }),
    description,
    briefDescription: oneLine(values.briefDescription ?? firstSentence(description), LONGEST_BRIEF),
    tags: values.tags ?? NONE,
    authors: values.authors ?? NONE,
    triggers: values.triggers ?? NO_TRIGGERS,
    paths: values.paths ?? NONE,
    tools: {
      required: values.requiredTools ?? NONE,
      allowed: values.allowedTools ?? NONE,
      preapproved: values.preapprovedTools ?? NONE,
      disallowed: values.disallowedTools ?? NONE,
    },
    toolsets: values.toolsets ?? NONE,
    scripts: values.scripts ?? [],
    env: values.env ?? NONE,
    packages: values.packages ?? NONE,
    capabilities: values.capabilities ?? NONE,
    sensitive: values.sensitive ?? false,
    access: values.access ?? {},
    invocation: { byModel: !(values.modelInvocationDisabled ?? false), byUser: values.userInvocable ?? true },
    arguments: values.arguments ?? NONE,
    defaultEnabled: values.defaultEnabled ?? true,
    metadata: values.metadata ?? {},
    data,
  };
}

/** The keys of the open standard. */
export const STANDARD_KEYS: readonly string[] = [
  "name",
  "description",
  "license",
  "compatibility",
  "metadata",
  "allowed-tools",
];

const LONGEST_BRIEF = 120;
const NONE: readonly string[] = Object.freeze([]);
const NO_TRIGGERS: read.Triggers = { keywords: NONE, verbs: NONE, patterns: NONE, examples: NONE, negative: NONE };

interface Field<T> {
  read: read.Read<T>;
  keys: readonly string[];
  /** Also looked for under `metadata`, where the standard wants extensions. */
  place?: "metadata";
}
export interface Row extends Field<unknown> {
  name: FieldName;
}

function field<T>(read: read.Read<T>, keys: readonly string[], place?: "metadata"): Field<T> {
  return place ? { read, keys, place } : { read, keys };
}

/** The table, row by row. */
export const ROWS: readonly Row[] = Object.entries<Field<unknown>>(FIELDS).map(([name, row]) => ({
  ...row,
  name: name as FieldName,
}));
const BY_KEY = new Map(ROWS.flatMap((row) => row.keys.map((key) => [key, row] as const)));
const IN_METADATA = [...BY_KEY].filter(([, row]) => row.place === "metadata");
const STANDARD = new Set(STANDARD_KEYS);
const KNOWN_TO_VSCODE = new Set<string>([...CLIENT_KEYS.vscode.skill, "user-invokable"]);
const WIRING = new Set(["capability_provider", "capability-provider", "capability_providers", "providers"]);
/** Parts of a YAML skill file that are no frontmatter of the standard but the form's own. */
const OF_THE_FORM = new Set(["instructions"]);

function readInto(values: Record<string, unknown>, row: Row, key: string, data: Data, report: Report): void {
  if (!STANDARD.has(key) && !OF_THE_FORM.has(key)) {
    const inMetadata = key === "author" ? "key-author" : "key-extension";
    const ours = row.place === "metadata" ? inMetadata : "key-top-level";
    const code = KNOWN_TO_VSCODE.has(key) ? "key-client" : row.name === "other" ? "key-other-client" : ours;
    report(code, key, `"${key}" is not a key of the open standard`);
  }
  const preferred = row.keys.length > 1 ? row.keys.find((spelling) => spelling in data) : key;
  if (row.name !== "other" && preferred !== key) {
    report("key-twice", key, `"${key}" has no effect beside "${preferred}"`);
    return;
  }
  values[row.name] = row.read(data[key], (code, message) => report(code, key, `"${key}" ${message}`));
}

function reportUnknown(key: string, data: Data, report: Report): void {
  if (WIRING.has(key)) {
    report("provider-wiring", key, `"${key}" is not read from a skill`);
    return;
  }
  const use = clientUseOf(key);
  if (use === "skill") {
    report("key-other-client", key, `"${key}" is not a key of the open standard`);
    return;
  }
  const meant = use === undefined ? correctedKey(key, data) : undefined;
  const message = `"${oneLine(key, 64)}" is not a known key`;
  if (meant !== undefined) report("key-misspelled", key, message, meant);
  else report("key-unknown", key, message);
}

/**
 * The key that a misspelled one stands for: within one edit, of one field alone, and able to hold the value. Singular and plural are
 * two words (`package` and `packages`), so neither is a misspelling of the other.
 */
function correctedKey(key: string, data: Data): string | undefined {
  const near = ROWS.flatMap((row) => {
    const spelling = row.keys.find((known) => isWithinOneEdit(key, known) && !isPluralOf(key, known));
    return spelling === undefined ? [] : [{ row, spelling }];
  });
  const [only, ...others] = near;
  if (!only || others.length > 0) return undefined;
  const { row, spelling } = only;
  const isThere = row.name === "other" ? spelling in data : row.keys.some((known) => known in data);
  return !isThere && takes(row, spelling, data[key]) ? spelling : undefined;
}

function isPluralOf(key: string, known: string): boolean {
  return `${key}s` === known || key === `${known}s`;
}

/** Whether a field reads this value without a complaint. */
function takes(row: Row, key: string, value: unknown): boolean {
  if (row.name === "other") return OF_THE_FILE.has(key) && typeof value === "string";
  let isFine = true;
  const read = row.read(value, () => {
    isFine = false;
  });
  return isFine && read !== undefined;
}

/** Keys of the row `other` that skillet reads itself; both are text. */
const OF_THE_FILE = new Set(["name", "instructions"]);

/** Whether this is a key of skillet's own table. */
export function isKnownKey(key: string): boolean {
  return BY_KEY.has(key);
}

function defined<T extends object>(values: T): { [Key in keyof T]?: NonNullable<T[Key]> } {
  const kept: { [Key in keyof T]?: NonNullable<T[Key]> } = {};
  for (const key in values) if (values[key] !== undefined) kept[key] = values[key] as NonNullable<T[typeof key]>;
  return kept;
}
