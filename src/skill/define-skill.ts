import { PromptValidationError, SkillError } from "../errors/problem.ts";
import { collectStrings, type JsonObject } from "../util/objects.ts";
import { shortHash } from "../util/text.ts";
import { escapeCodePoint, findInvisible } from "../util/untrusted-text.ts";
import { trimBody } from "./frontmatter.ts";
import { type FieldName, MANIFEST_FIELDS, type ReportProblem, readManifest } from "./manifest.ts";
import { findNameProblem, type Skill, type SkillFile } from "./skill.ts";
import { validateTriggers } from "./triggers.ts";

export interface SkillDefinition {
  name: string;
  description: string;
  instructions: string;
  /** A heading for people; must not be empty. */
  title?: string;
  authors?: readonly string[];
  /** The reason why the skill exists. */
  rationale?: string;
  /** An alias from the configuration, or `provider/model`. */
  model?: string;
  /** Defaults to the value in the configuration, which is 10. */
  maxIterations?: number;
  /** JSON Schema of the input. */
  inputSchema?: Readonly<Record<string, unknown>>;
  /** Tools that must exist before a run. */
  requiredTools?: readonly string[];
  /** The only tools that a run may call. Defaults to all. */
  allowedTools?: readonly string[];
  /** Names of environment variables. Their values come from the configuration. */
  env?: readonly string[];
  /** System packages of the sandbox. */
  packages?: readonly string[];
  /** Namespaced capabilities, such as `gog.email`. */
  capabilities?: readonly string[];
  /** If true, private chats only, unless `access` lists others. Defaults to false. */
  sensitive?: boolean;
  access?: { chatTypes?: readonly string[] };
  /** Other frontmatter keys, as in a file: `{ allowed_tools: ["bash"] }`. */
  frontmatter?: Record<string, unknown>;
}

/** Creates a skill in code. Throws a PromptValidationError if the definition is invalid. */
export function defineSkill(definition: SkillDefinition): Skill {
  const { name, instructions, title } = definition;
  const description = typeof definition.description === "string" ? definition.description.trim() : "";
  const wrong = (what: string, fix: string) =>
    new PromptValidationError("definition-invalid", { message: `Skill "${name}": ${what}`, fix });
  const unknown = Object.keys(definition).find((key) => !DEFINITION_KEYS.has(key));
  if (unknown !== undefined)
    throw wrong(`"${unknown}" is not a field of a definition`, `put it under frontmatter: { ${unknown}: … }`);
  if (typeof name !== "string" || !DEFINED_NAME.test(name) || findNameProblem(name)) {
    throw wrong(
      "the name is invalid",
      "use up to 64 lower-case letters, digits and hyphens, and do not start with a hyphen",
    );
  }
  if (description === "" || description.length > 1024) {
    throw wrong(
      "the description must have 1 to 1024 characters",
      "describe in a sentence what it does and when to use it",
    );
  }
  if (/<[^>]*>/.test(description)) throw wrong("the description contains XML tags", "write it as plain text");
  if (title !== undefined && (typeof title !== "string" || title.trim() === ""))
    throw wrong("the title is empty", "remove it, or enter a title");
  if (typeof instructions !== "string" || instructions.trim() === "") {
    throw wrong("the instructions are empty", "describe what the agent must do");
  }
  const twice = FIELD_ROWS.find(({ field, keys }) => {
    const { frontmatter = {} } = definition;
    return definition[field] !== undefined && keys.some((key) => frontmatter[key] !== undefined);
  });
  if (twice) throw wrong(`"${twice.field}" is also under frontmatter`, "remove one of them");
  const data: JsonObject = { ...buildFrontmatter(definition), name, description };
  for (const text of collectStrings(data)) {
    const [hidden] = findInvisible(text);
    if (hidden) throw wrong(`contains the hidden character ${escapeCodePoint(hidden.codePoint)}`, "remove it");
  }
  const report: ReportProblem = (code, _key, message, meant) => {
    if (DEFINITION_ERROR_CODES.has(code)) throw wrong(message, meant ? `did you mean "${meant}"?` : "correct it");
  };
  const manifest = readManifest(data, report);
  validateTriggers(data, manifest.triggers, manifest.paths, report);
  const body = trimBody(instructions);
  return Object.freeze<Skill>({
    name,
    description,
    manifest,
    origin: { scope: "inline", source: "inline", form: "code" },
    findings: [],
    fingerprint: () => ({ file: `code:${name}`, value: shortHash(JSON.stringify([data, body])), changedAt: 0 }),
    body: async () => body,
    files: async () => ({ files: [], findings: [] }),
    examples: () => manifest.triggers.examples,
    async read(path) {
      throw new SkillError("resource-unlisted", {
        message: `Skill "${name}" has no file "${path}"`,
        fix: "do not read files of it: a skill defined in code has none",
      });
    },
  });
}

/** Reads the content of a skill from a server or a database. */
export interface SkillReader {
  /**
   * Differs for each version of the content. The search index then keeps what it read in an earlier process, and the skill
   * reads its instructions and its list of files once. Without it, they are read each time.
   */
  revision?: string;
  instructions(): Promise<string>;
  /** Lists the files that a model can read. Defaults to none. */
  files?(): Promise<readonly SkillFile[]>;
  /** Reads a listed file. */
  read?(path: string): Promise<Uint8Array>;
}

/**
 * Creates a skill whose content is read when it is needed. Throws a PromptValidationError if the definition is invalid. Its files
 * are text for a model: scripts of it do not run.
 *
 * @example
 * const skill = createLazySkill({ name: "greet", description: "Greets people." }, { instructions: () => db.readText("greet") });
 */
export function createLazySkill(definition: Omit<SkillDefinition, "instructions">, reader: SkillReader): Skill {
  const defined = defineSkill({ ...definition, instructions: "Read on demand." });
  const { name, manifest } = defined;
  const { revision } = reader;
  const keep = <T>(read: () => Promise<T>) => (revision === undefined ? read : createKeptRead(read));
  const files = keep(async () => (await reader.files?.()) ?? []);
  return Object.freeze<Skill>({
    ...defined,
    fingerprint:
      revision === undefined
        ? () => undefined
        : () => ({ file: `code:${name}`, value: shortHash(JSON.stringify([manifest.data, revision])), changedAt: 0 }),
    body: keep(async () => trimBody(await reader.instructions())),
    files: async () => ({ files: await files(), findings: [] }),
    async read(path) {
      const listed = await files();
      if (reader.read && listed.some((file) => file.path === path)) return reader.read(path);
      const names = listed.slice(0, 10).map((file) => file.path);
      throw new SkillError("resource-unlisted", {
        message: `Skill "${name}" has no file "${path}"`,
        fix: names.length === 0 ? "do not read files of it: it has none" : `available files: ${names.join(", ")}`,
      });
    },
  });
}

/** Keeps the first value. A failed read is tried again. */
function createKeptRead<T>(read: () => Promise<T>): () => Promise<T> {
  let kept: Promise<T> | undefined;
  return () => {
    kept ??= read().catch((error) => {
      kept = undefined;
      throw error;
    });
    return kept;
  };
}

type TypedField = Exclude<keyof SkillDefinition, "name" | "description" | "instructions" | "frontmatter">;

/** The manifest row of each typed field. */
const TYPED_FIELDS: Readonly<Record<TypedField, FieldName>> = {
  title: "title",
  authors: "authors",
  rationale: "rationale",
  model: "model",
  maxIterations: "maxIterations",
  inputSchema: "inputSchema",
  requiredTools: "requiredTools",
  allowedTools: "allowedTools",
  env: "env",
  packages: "packages",
  capabilities: "capabilities",
  sensitive: "sensitive",
  access: "access",
};
const FIELD_ROWS = Object.entries(TYPED_FIELDS).map(([field, name]) => ({
  field: field as TypedField,
  keys: MANIFEST_FIELDS.find((row) => row.name === name)?.keys ?? [],
}));

/** Returns the frontmatter as in a file, without keys that are undefined. */
function buildFrontmatter({ frontmatter = {}, ...definition }: SkillDefinition): JsonObject {
  const typed = FIELD_ROWS.map(
    ({ field, keys: [key = field] }) => [key, toFrontmatterValue(field, definition[field])] as const,
  );
  return Object.fromEntries([...Object.entries(frontmatter), ...typed].filter(([, value]) => value !== undefined));
}

function toFrontmatterValue(field: TypedField, value: unknown): unknown {
  if (field !== "access" || value === null || typeof value !== "object") return value;
  const { chatTypes, ...rest } = value as NonNullable<SkillDefinition["access"]>;
  return { ...rest, ...(chatTypes === undefined ? {} : { chat_types: chatTypes }) };
}

const DEFINITION_KEYS: ReadonlySet<string> = new Set([
  ...["name", "description", "instructions", "frontmatter"],
  ...Object.keys(TYPED_FIELDS),
]);
const DEFINED_NAME = /^[a-z0-9][a-z0-9-]{0,63}$/;
const DEFINITION_ERROR_CODES: ReadonlySet<string> = new Set([
  "field-type",
  "field-value",
  "key-misspelled",
  "capability-format",
  "variable-name",
  "package-name",
  "toolset-ref",
  "schema-reference",
  "trigger-pattern",
  "trigger-broad",
  "trigger-unusable",
  "trigger-limit",
]);
