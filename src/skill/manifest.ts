import type { FindingCode } from "../errors/finding-codes.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { extractFirstSentence, isWithinOneEdit, truncateLine } from "../util/text.ts";
import { CLIENTS } from "./clients.ts";
import * as read from "./manifest-fields.ts";
import { findClientUse } from "./manifest-fields.ts";

/** The metadata of a skill, in one shape for all dialects. */
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
  readonly maxIterations?: number;
  readonly inputSchema?: JsonObject;
  readonly tools: {
    /** Must exist before a run. */
    readonly required: readonly string[];
    /** `allowed_tools`: no other tool may be called. Empty for all tools. */
    readonly allowed: readonly string[];
    /** `allowed-tools`: may be called without approval. */
    readonly preapproved: readonly string[];
    readonly disallowed: readonly string[];
  };
  readonly toolsets: readonly string[];
  readonly scripts: readonly read.DeclaredScript[];
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
  readonly metadata: JsonObject;
  /** All keys as written, including unknown ones. */
  readonly data: JsonObject;
}

/** Contract: called for each problem with a top-level key. */
export type ReportProblem = (code: FindingCode, key: string, message: string, meant?: string) => void;

/** The table of spellings. If a file contains several spellings of a field, the first in this order counts. */
const FIELDS = {
  description: defineField(read.description, ["description"]),
  briefDescription: defineField(read.text, ["brief_description", "brief-description"], "metadata"),
  title: defineField(read.text, ["title"]),
  version: defineField(read.version, ["version"], "metadata"),
  tags: defineField(read.list, ["tags"], "metadata"),
  authors: defineField(read.list, ["authors", "author"], "metadata"),
  license: defineField(read.text, ["license"]),
  compatibility: defineField(read.compatibility, ["compatibility"]),
  homepage: defineField(read.text, ["homepage"]),
  rationale: defineField(read.text, ["rationale"]),
  whenToUse: defineField(read.text, ["when_to_use", "when-to-use"], "metadata"),
  triggers: defineField(read.triggers, ["triggers"], "metadata"),
  paths: defineField(read.list, ["paths", "globs"], "metadata"),
  model: defineField(read.text, ["model", "preferred_model", "preferred-model"]),
  effort: defineField(read.text, ["effort"]),
  maxIterations: defineField(read.steps, ["max_iterations", "max-iterations"]),
  inputSchema: defineField(read.schema, ["input_schema", "input-schema"]),
  requiredTools: defineField(read.tools, ["required_tools", "required-tools"]),
  allowedTools: defineField(read.tools, ["allowed_tools"]),
  preapprovedTools: defineField(read.tools, ["allowed-tools"]),
  disallowedTools: defineField(read.tools, ["disallowed-tools", "disallowed_tools"]),
  toolsets: defineField(read.toolsets, ["toolsets"]),
  scripts: defineField(read.scripts, ["scripts"]),
  env: defineField(read.variables, ["env"]),
  packages: defineField(read.packages, ["packages"]),
  capabilities: defineField(read.capabilities, ["capabilities"]),
  sensitive: defineField(read.flag, ["sensitive"]),
  access: defineField(read.access, ["access"]),
  modelInvocationDisabled: defineField(read.flag, ["disable-model-invocation", "disable_model_invocation"]),
  userInvocable: defineField(read.flag, ["user-invocable", "user-invokable", "user_invocable"]),
  arguments: defineField(read.names, ["arguments"]),
  argumentHint: defineField(read.hint, ["argument-hint", "argument_hint"]),
  context: defineField(read.text, ["context"]),
  agent: defineField(read.text, ["agent"]),
  defaultEnabled: defineField(read.flag, ["default_enabled", "default-enabled"]),
  metadata: defineField(read.mapping, ["metadata"]),
  // Keys that other modules read (name, instructions), or that are kept for other clients.
  other: defineField(read.anything, [
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
export type ManifestValues = { [Name in keyof Fields]?: NonNullable<ReturnType<Fields[Name]["read"]>> };

/** Reads every key of the frontmatter. Unusable values are ignored and reported. */
export function readManifestValues(data: JsonObject, report: ReportProblem): ManifestValues {
  const values: Record<string, unknown> = {};
  for (const key in data) {
    const row = FIELD_BY_KEY.get(key);
    if (row) readField(values, row, key, data, report);
    else reportUnknown(key, data, report);
  }
  const { metadata } = data;
  if (isJsonObject(metadata)) {
    for (const [key, row] of METADATA_FIELDS) {
      if (metadata[key] === undefined || values[row.name] !== undefined) continue;
      const problem: read.ReportFieldProblem = (code, message) =>
        report(code, "metadata", `"metadata.${key}" ${message}`);
      values[row.name] = row.read(metadata[key], problem);
    }
  }
  return values as ManifestValues;
}

export function readManifest(data: JsonObject, report: ReportProblem = () => {}): Manifest {
  const values = readManifestValues(data, report);
  const description = values.description ?? "";
  return {
    ...omitUndefinedFields({
      title: values.title,
      version: values.version,
      license: values.license,
      compatibility: values.compatibility,
      homepage: values.homepage,
      rationale: values.rationale,
      whenToUse: values.whenToUse,
      model: values.model,
      effort: values.effort,
      maxIterations: values.maxIterations,
      inputSchema: values.inputSchema,
      argumentHint: values.argumentHint,
      context: values.context,
      agent: values.agent,
    }),
    description,
    briefDescription: truncateLine(values.briefDescription ?? extractFirstSentence(description), MAX_BRIEF_LENGTH),
    tags: values.tags ?? NO_ITEMS,
    authors: values.authors ?? NO_ITEMS,
    triggers: values.triggers ?? NO_TRIGGERS,
    paths: values.paths ?? NO_ITEMS,
    tools: {
      required: values.requiredTools ?? NO_ITEMS,
      allowed: values.allowedTools ?? NO_ITEMS,
      preapproved: values.preapprovedTools ?? NO_ITEMS,
      disallowed: values.disallowedTools ?? NO_ITEMS,
    },
    toolsets: values.toolsets ?? NO_ITEMS,
    scripts: values.scripts ?? [],
    env: values.env ?? NO_ITEMS,
    packages: values.packages ?? NO_ITEMS,
    capabilities: values.capabilities ?? NO_ITEMS,
    sensitive: values.sensitive ?? false,
    access: values.access ?? {},
    invocation: { byModel: !(values.modelInvocationDisabled ?? false), byUser: values.userInvocable ?? true },
    arguments: values.arguments ?? NO_ITEMS,
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

const MAX_BRIEF_LENGTH = 120;
const NO_ITEMS: readonly string[] = Object.freeze([]);
const NO_TRIGGERS: read.Triggers = {
  keywords: NO_ITEMS,
  verbs: NO_ITEMS,
  patterns: NO_ITEMS,
  examples: NO_ITEMS,
  negative: NO_ITEMS,
};

interface FieldDefinition<T> {
  read: read.FieldReader<T>;
  keys: readonly string[];
  /** Also read under `metadata`, where the standard expects extensions. */
  place?: "metadata";
}
export interface ManifestField extends FieldDefinition<unknown> {
  name: FieldName;
}

function defineField<T>(read: read.FieldReader<T>, keys: readonly string[], place?: "metadata"): FieldDefinition<T> {
  return place ? { read, keys, place } : { read, keys };
}

/** The table as a list of rows. */
export const MANIFEST_FIELDS: readonly ManifestField[] = Object.entries<FieldDefinition<unknown>>(FIELDS).map(
  ([name, row]) => ({
    ...row,
    name: name as FieldName,
  }),
);
const FIELD_BY_KEY = new Map(MANIFEST_FIELDS.flatMap((row) => row.keys.map((key) => [key, row] as const)));
const METADATA_FIELDS = [...FIELD_BY_KEY].filter(([, row]) => row.place === "metadata");
const STANDARD_KEY_SET = new Set(STANDARD_KEYS);
const VSCODE_KEYS = new Set<string>([...CLIENTS.vscode.keys.skill, "user-invokable"]);
const PROVIDER_KEYS = new Set(["capability_provider", "capability-provider", "capability_providers", "providers"]);
/** Keys of a YAML skill file that are not part of the standard's frontmatter. */
const YAML_FILE_KEYS = new Set(["instructions"]);

function readField(
  values: Record<string, unknown>,
  row: ManifestField,
  key: string,
  data: JsonObject,
  report: ReportProblem,
): void {
  if (!STANDARD_KEY_SET.has(key) && !YAML_FILE_KEYS.has(key)) {
    const inMetadata = key === "author" ? "key-author" : "key-extension";
    const ours = row.place === "metadata" ? inMetadata : "key-top-level";
    const code = VSCODE_KEYS.has(key) ? "key-client" : row.name === "other" ? "key-other-client" : ours;
    report(code, key, `"${key}" is not a key of the open standard`);
  }
  const preferred = row.keys.length > 1 ? row.keys.find((spelling) => spelling in data) : key;
  if (row.name !== "other" && preferred !== key) {
    report("duplicate-field", key, `"${key}" has no effect next to "${preferred}"`);
    return;
  }
  values[row.name] = row.read(data[key], (code, message) => report(code, key, `"${key}" ${message}`));
}

function reportUnknown(key: string, data: JsonObject, report: ReportProblem): void {
  if (PROVIDER_KEYS.has(key)) {
    report("provider-wiring", key, `"${key}" is not read from a skill`);
    return;
  }
  const use = findClientUse(key);
  if (use === "skill") {
    report("key-other-client", key, `"${key}" is not a key of the open standard`);
    return;
  }
  const meant = use === undefined ? suggestKey(key, data) : undefined;
  const message = `"${truncateLine(key, 64)}" is not a known key`;
  if (meant !== undefined) report("key-misspelled", key, message, meant);
  else report("key-unknown", key, message);
}

/**
 * Returns the key that was probably intended: one edit away, of a single field, and able to hold the value. Singular and plural
 * are different words (`package` and `packages`), so neither is a misspelling of the other.
 */
function suggestKey(key: string, data: JsonObject): string | undefined {
  const near = MANIFEST_FIELDS.flatMap((row) => {
    const spelling = row.keys.find((known) => isWithinOneEdit(key, known) && !isPluralOf(key, known));
    return spelling === undefined ? [] : [{ row, spelling }];
  });
  const [only, ...others] = near;
  if (!only || others.length > 0) return undefined;
  const { row, spelling } = only;
  const isThere = row.name === "other" ? spelling in data : row.keys.some((known) => known in data);
  return !isThere && acceptsValue(row, spelling, data[key]) ? spelling : undefined;
}

function isPluralOf(key: string, known: string): boolean {
  return `${key}s` === known || key === `${known}s`;
}

/** Returns true if a field accepts this value without a finding. */
function acceptsValue(row: ManifestField, key: string, value: unknown): boolean {
  if (row.name === "other") return FILE_TEXT_KEYS.has(key) && typeof value === "string";
  let isFine = true;
  const read = row.read(value, () => {
    isFine = false;
  });
  return isFine && read !== undefined;
}

/** Keys of the row `other` that skillet reads itself; both are text. */
const FILE_TEXT_KEYS = new Set(["name", "instructions"]);

/** Returns true if the key is in skillet's own table. */
export function isKnownKey(key: string): boolean {
  return FIELD_BY_KEY.has(key);
}

function omitUndefinedFields<T extends object>(values: T): { [Key in keyof T]?: NonNullable<T[Key]> } {
  const kept: { [Key in keyof T]?: NonNullable<T[Key]> } = {};
  for (const key in values) if (values[key] !== undefined) kept[key] = values[key] as NonNullable<T[typeof key]>;
  return kept;
}
