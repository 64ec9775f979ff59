import { cpSync, existsSync, lstatSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Argument } from "commander";
import { createSettingsSchema } from "../../config/settings-schema.ts";
import { SkillError } from "../../errors/problem.ts";
import { createEvalSchema } from "../../eval/eval-cases.ts";
import { type FieldName, MANIFEST_FIELDS } from "../../skill/manifest.ts";
import * as fields from "../../skill/manifest-fields.ts";
import { MAX_NAME_LENGTH, STANDARD_NAME, SYSTEM_PACKAGE_NAME, VARIABLE_NAME } from "../../skill/skill.ts";
import { formatDisplayPath, listLocations } from "../../skill/source/locations.ts";
import { MAX_TRIGGERS } from "../../skill/triggers.ts";
import { createFolder } from "../../util/file-access.ts";
import type { JsonObject } from "../../util/objects.ts";
import { packageRoot } from "../../util/system.ts";
import {
  type CommandContext,
  type CommandDefinition,
  EXIT,
  formatExamples,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { createPrinter, printJson } from "../output.ts";

/** The kinds of schemas. Repeated here because every command loads this file. */
export const SCHEMA_KINDS = ["frontmatter", "config", "workspace-config", "evals"] as const;

/** `skillet schema`. */
export const schemaCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Print a JSON Schema for your editor, or list the schemas")
      .addArgument(new Argument("[kind]", "The schema").choices(SCHEMA_KINDS))
      .addHelpText(
        "after",
        `
An editor finds it by a comment at the top of the file:
  # yaml-language-server: $schema=frontmatter.json      in a skill
  #:schema ./config.json                                in config.toml`,
      )
      .addHelpText(
        "after",
        formatExamples(
          "skillet schema",
          "skillet schema frontmatter > frontmatter.json",
          "skillet schema config > ~/.skillet/config.json",
        ),
      ),
  run: printSchema,
};

/** All schemas. */
export const SCHEMAS: Readonly<Record<(typeof SCHEMA_KINDS)[number], { says: string; make(): JsonObject }>> = {
  frontmatter: { says: "the frontmatter of a SKILL.md, or a skill in a .yaml file", make: createFrontmatterSchema },
  config: { says: "your ~/.skillet/config.toml", make: () => createSettingsSchema("user") },
  "workspace-config": { says: "a workspace's .skillet/config.toml", make: () => createSettingsSchema("workspace") },
  evals: { says: "the cases of `skillet eval --level task`: evals/tasks.yaml of a skill", make: createEvalSchema },
};

async function printSchema({ io, options, args: [kind] }: CommandContext<object>): Promise<number> {
  const wanted = SCHEMAS[kind as keyof typeof SCHEMAS];
  const schemas = Object.entries(SCHEMAS).map(([name, { says }]) => ({ kind: name, says }));
  if (wanted) printJson(io.stdout, wanted.make());
  else if (options.json) printJson(io.stdout, { schemas });
  else {
    const out = createPrinter(io.stdout, io.env);
    const widest = Math.max(...schemas.map(({ kind: name }) => name.length));
    for (const { kind: name, says } of schemas) out.line`${out.bold(name.padEnd(widest))}  ${says}`;
  }
  return EXIT.fine;
}

/**
 * Creates a JSON Schema with which editors complete and check the frontmatter of a skill. Everything it rejects is an error in
 * the open standard's profile of `check`. It accepts unknown keys, because loading a skill keeps them as data.
 */
export function createFrontmatterSchema(): JsonObject {
  const { metadata, ...properties } = buildProperties(MANIFEST_FIELDS);
  const inMetadata = buildProperties(MANIFEST_FIELDS.filter(({ place }) => place === "metadata"));
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Frontmatter of a skill",
    description: "The text between the --- lines of a SKILL.md, or a .yaml file with its instructions.",
    type: "object",
    required: ["description"],
    properties: { ...properties, metadata: { ...metadata, properties: inMetadata } },
    additionalProperties: true,
  };
}

function buildProperties(rows: typeof MANIFEST_FIELDS): Record<string, JsonObject> {
  const properties: Record<string, JsonObject> = {};
  for (const { name, read, keys } of rows) {
    for (const key of keys) {
      const [first = ""] = keys;
      const { says = KEPT_KEY_TEXT, ...more } = name === "other" ? (OTHER_KEY_DOCS[key] ?? {}) : FIELD_DOCS[name];
      const shape = { ...SHAPE_BY_READER.get(read), ...more };
      properties[key] =
        key === first || name === "other"
          ? { description: says, ...shape }
          : { description: `Same as \`${first}\`: ${says}`, deprecated: true, ...shape };
    }
  }
  return properties;
}

/** The documentation of a field, one row per field. */
interface FieldDoc {
  says?: string;
  examples?: readonly unknown[];
  default?: unknown;
  [keyword: string]: unknown;
}

const FIELD_DOCS: Readonly<Record<Exclude<FieldName, "other">, FieldDoc>> = {
  description: {
    says: "What the skill does, and when to use it. A model sees only this text until the skill is loaded.",
    examples: ["Writes release notes from the commits. Use when preparing a release."],
  },
  briefDescription: { says: "For short lists. Defaults to the first sentence of the description." },
  title: { says: "A heading for people." },
  version: { says: "The version, as major.minor.patch.", examples: ["1.0.0"] },
  tags: { says: "Keywords for searching.", examples: [["release", "git"]] },
  authors: { says: "The authors.", examples: [["Ada Lovelace"]] },
  license: { says: "The name of the license, or the license file in the skill.", examples: ["MIT"] },
  compatibility: {
    says: "Requirements: clients, programs, network access.",
    examples: ["Needs git and internet access."],
  },
  homepage: { says: "A page with more information.", examples: ["https://example.com/skills/release-notes"] },
  rationale: { says: "The reason why this is a separate skill. For people." },
  whenToUse: {
    says: "When to use it, if that is missing in the description.",
    examples: ["When preparing a release."],
  },
  triggers: {
    says: "Queries that the skill is for. If a selective trigger matches, the instructions are loaded automatically. A plain list contains keywords.",
    examples: [
      { keywords: ["release notes"], verbs: ["release"], patterns: ["changelog\\s+for\\s+v\\d+"] },
      ["release notes", "changelog"],
    ],
  },
  paths: { says: "Files that the skill is for, as globs.", examples: [["src/**/*.sql", "*.tf"]] },
  model: {
    says: "The model that runs the skill: an alias from the configuration, or provider/model.",
    examples: ["fast", "anthropic/claude-haiku-4-5"],
  },
  effort: { says: "The reasoning effort of the model.", examples: ["low", "medium", "high"] },
  maxIterations: { says: "The maximum number of model calls. Defaults to 10; the caller can lower it." },
  inputSchema: {
    says: "JSON Schema of the input. Defaults are filled in, and invalid input is rejected.",
    examples: [{ type: "object", properties: { content: { type: "string" } }, required: ["content"] }],
  },
  requiredTools: { says: "Tools that must exist; otherwise the skill is rejected.", examples: [["bash"]] },
  allowedTools: {
    says: "The only tools that it may call, in addition to its own. Defaults to all.",
    examples: [["bash", "read_file"]],
  },
  preapprovedTools: {
    says: "Tools that it may call without approval, in the syntax of the open standard. Does not restrict other tools.",
    examples: ["Bash(git:*) Read"],
  },
  disallowedTools: { says: "Tools that it must not call.", examples: [["bash"]] },
  toolsets: {
    says: "Tools that the skill provides: a file of the skill, and an export of the file.",
    examples: [["toolsets/index:MyToolset"]],
  },
  scripts: {
    says: "Files that are scripts, if that is not obvious from their names.",
    examples: [["scripts/totals.py"]],
  },
  env: { says: "Environment variables for its code, from [skills.NAME] in config.toml.", examples: [["API_KEY"]] },
  packages: { says: "System packages that its code needs.", examples: [["jq", "ffmpeg"]] },
  capabilities: {
    says: "Capabilities that it uses, as namespace.name. The host provides them.",
    examples: [["gog.email"]],
  },
  sensitive: { says: "If true, the skill is available in private chats only.", default: false },
  access: { says: "The chats in which it may be used.", examples: [{ chat_types: ["private"] }] },
  modelInvocationDisabled: { says: "If true, only people may use it, and models do not see it.", default: false },
  userInvocable: { says: "If true, people can call it by its name.", default: true },
  arguments: { says: "Names for the arguments: $file in the instructions.", examples: [["file", "format"]] },
  argumentHint: { says: "The arguments that people type after its name.", examples: ["[file] [format]"] },
  context: { says: "`fork`: runs it in its own sub-agent when it is loaded.", examples: ["fork"] },
  agent: { says: "The kind of sub-agent, for clients with several kinds." },
  defaultEnabled: { says: "If false, the skill is disabled until the user enables it.", default: true },
  metadata: { says: "Other data. Extensions of the open standard are also read here." },
};

/** Keys that other modules read. */
const OTHER_KEY_DOCS: Readonly<Record<string, FieldDoc>> = {
  name: {
    says: "The name, equal to the name of its folder. Defaults to the name of the folder.",
    type: "string",
    pattern: STANDARD_NAME.source,
    maxLength: MAX_NAME_LENGTH,
    examples: ["release-notes"],
  },
  instructions: { says: "In a .yaml file: the instructions for the agent.", type: ["string", "null"] },
};

const KEPT_KEY_TEXT = "Kept for the clients that use it.";

const TEXT_TYPE = ["string", "null"];
const ITEM_SHAPE = { type: ["string", "number", "boolean"] };
/** A single text is accepted as a list. */
const LIST_SHAPE = { type: ["array", "string", "number", "boolean", "null"], items: ITEM_SHAPE };
const SCRIPT_SHAPES = [
  { type: "string", minLength: 1 },
  {
    type: "object",
    required: ["path"],
    properties: {
      path: { type: "string", minLength: 1, description: "Relative to the skill's folder." },
      name: { description: "The name of the script." },
      description: { description: "A description of the script." },
    },
  },
];

/** The values that each reader accepts without a finding. */
const SHAPES: Readonly<Record<keyof Readers, JsonObject>> = {
  text: { type: TEXT_TYPE },
  hint: { type: ["array", ...TEXT_TYPE], items: ITEM_SHAPE },
  anything: {},
  version: { type: ["number", ...TEXT_TYPE] },
  description: { type: "string", pattern: "\\S", maxLength: 1024 },
  compatibility: { type: TEXT_TYPE, maxLength: 500 },
  flag: { type: ["boolean", "null"] },
  steps: { type: ["integer", "null"], minimum: 1, maximum: 1000 },
  list: LIST_SHAPE,
  names: LIST_SHAPE,
  tools: LIST_SHAPE,
  capabilities: createNamesShape(fields.CAPABILITY_ID),
  variables: createNamesShape(VARIABLE_NAME),
  packages: createNamesShape(SYSTEM_PACKAGE_NAME),
  toolsets: { ...LIST_SHAPE, items: { ...ITEM_SHAPE, pattern: "^\\s*(?:$|(?![/~\\s])[^:\\\\]+:\\s*\\S)" } },
  mapping: { type: ["object", "null"] },
  access: { type: ["object", "null"], properties: { chat_types: LIST_SHAPE } },
  triggers: {
    type: ["object", "array", "null"],
    properties: createTriggersShape(),
    items: ITEM_SHAPE,
    maxItems: MAX_TRIGGERS.keywords,
  },
  scripts: { anyOf: [...SCRIPT_SHAPES, { type: "array", items: { anyOf: SCRIPT_SHAPES } }, { type: "null" }] },
  schema: { type: ["object", "null"] },
};

type Readers = {
  [Name in keyof typeof fields as (typeof fields)[Name] extends fields.FieldReader<infer _> ? Name : never]: 1;
};

const SHAPE_BY_READER = new Map<unknown, JsonObject | undefined>(
  Object.entries(fields).map(([name, reader]) => [reader, SHAPES[name as keyof Readers]]),
);

/** Creates the schema for names of one kind; a single text separates them with commas or spaces. */
function createNamesShape(name: RegExp): JsonObject {
  const plain = name.source.slice(1, -1);
  return {
    ...LIST_SHAPE,
    items: { ...ITEM_SHAPE, pattern: `^(?:\\s*${plain})?\\s*$` },
    pattern: `^[,\\s]*(?:${plain}(?:[,\\s]+|$))*$`,
  };
}

function createTriggersShape(): JsonObject {
  const kinds = Object.entries(MAX_TRIGGERS).filter(([kind]) => kind !== "paths");
  return Object.fromEntries(kinds.map(([kind, max]) => [kind, { ...LIST_SHAPE, maxItems: max }]));
}

/** `skillet types`. */
export const typesCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Write the types for toolsets next to your skills")
      .addArgument(
        new Argument("[folder]", "A skill folder, or a folder of skills").default(undefined, "<workspace>/skills"),
      )
      .addHelpText("after", formatExamples("skillet types", "skillet types ~/.skillet/skills")),
  run: writeTypes,
};

async function writeTypes({ io, options, args: [path] }: CommandContext<object>): Promise<number> {
  const environment = resolveCommandEnvironment(io, options);
  const value = path === undefined ? (listLocations(environment).at(-1)?.path ?? "") : resolve(io.cwd, path);
  if (!existsSync(value) || !statSync(value).isDirectory()) {
    throw new SkillError("not-found", {
      message: `${formatDisplayPath(value, environment)} is not a folder`,
      fix: "name a skill folder, or a folder of skills",
      commands: ["skillet types skills/NAME"],
    });
  }
  const { folder, written, kept } = writeToolsetTypes(existsSync(join(value, "SKILL.md")) ? dirname(value) : value);
  if (options.json) printJson(io.stdout, { folder, written, kept });
  else {
    const out = createPrinter(io.stdout, io.env);
    const here = { ...environment, workspace: io.cwd };
    for (const name of written) out.line`${out.green("✓")} ${formatDisplayPath(join(folder, name), here)}`;
    for (const name of kept)
      out.line`${out.dim("·")} ${formatDisplayPath(join(folder, name), here)} is already installed and was not changed`;
  }
  return EXIT.fine;
}

/** The modules that a toolset can import without installing anything. */
const TYPED_PACKAGES = ["@agent/tools", "skillet", "zod"] as const;

interface ToolsetTypes {
  /** The folder of the declarations. */
  folder: string;
  written: readonly string[];
  /** Packages installed there with their own types, which are not changed. */
  kept: readonly string[];
}

/**
 * Writes the declarations of the modules that toolsets import into `node_modules` of a folder of skills, where compilers and editors find
 * them. Git ignores them.
 */
export function writeToolsetTypes(skillsFolder: string): ToolsetTypes {
  const from = join(packageRoot() ?? "", "dist", "toolset-types");
  const folder = join(skillsFolder, "node_modules");
  try {
    if (lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink()) throw new Error("it is a symlink");
    const isNew = !existsSync(folder);
    const kept = TYPED_PACKAGES.filter((name) => !isWrittenBySkillet(join(folder, name)));
    const written = TYPED_PACKAGES.filter((name) => !kept.includes(name));
    createFolder(folder);
    if (isNew) writeFileSync(join(folder, ".gitignore"), "*\n");
    for (const name of written) {
      rmSync(join(folder, name), { recursive: true, force: true });
      cpSync(join(from, name), join(folder, name), { recursive: true });
    }
    return { folder, written, kept };
  } catch (cause) {
    throw new SkillError("unwritable", {
      message: `The declarations cannot be written to ${folder}`,
      fix: "check that it is a writable folder",
      cause,
    });
  }
}

/** Returns true if the folder is missing or was written by an earlier call. */
function isWrittenBySkillet(folder: string): boolean {
  if (lstatSync(folder, { throwIfNoEntry: false }) === undefined) return true;
  try {
    const { description } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return String(description).includes("skillet types");
  } catch {
    return false;
  }
}
