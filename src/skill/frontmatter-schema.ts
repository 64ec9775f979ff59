import type { JsonObject } from "../util/objects.ts";
import { type FieldName, MANIFEST_FIELDS } from "./manifest.ts";
import * as fields from "./manifest-fields.ts";
import { SYSTEM_PACKAGE_NAME, VARIABLE_NAME } from "./requirements.ts";
import { MAX_NAME_LENGTH, STANDARD_NAME } from "./skill.ts";
import { MAX_TRIGGERS } from "./triggers.ts";

/**
 * What an editor needs to complete and check a skill's frontmatter, as JSON Schema. What it refuses, `check` calls an error of the open
 * standard's profile; keys that nobody knows are kept as data when a skill is loaded, and so it lets them be.
 */
export function createFrontmatterSchema(): JsonObject {
  const { metadata, ...properties } = buildProperties(MANIFEST_FIELDS);
  const inMetadata = buildProperties(MANIFEST_FIELDS.filter(({ place }) => place === "metadata"));
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Frontmatter of a skill",
    description: "What stands between the --- lines of a SKILL.md, or in a .yaml file with its instructions.",
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
          : { description: `As \`${first}\`: ${says}`, deprecated: true, ...shape };
    }
  }
  return properties;
}

/** What is said of a field besides its type: one row each. */
interface FieldDoc {
  says?: string;
  examples?: readonly unknown[];
  default?: unknown;
  [keyword: string]: unknown;
}

const FIELD_DOCS: Readonly<Record<Exclude<FieldName, "other">, FieldDoc>> = {
  description: {
    says: "What the skill does, and when to use it. All that a model knows of it until it is loaded.",
    examples: ["Writes release notes from the commits. Use when a release is prepared."],
  },
  briefDescription: { says: "For short lists. The first sentence of the description when left out." },
  title: { says: "A heading for people." },
  version: { says: "Its version, as major.minor.patch.", examples: ["1.0.0"] },
  tags: { says: "Words to find it by.", examples: [["release", "git"]] },
  authors: { says: "Who wrote it.", examples: [["Ada Lovelace"]] },
  license: { says: "The name of its licence, or a file of the skill that holds it.", examples: ["MIT"] },
  compatibility: {
    says: "What it needs: clients, programs, a network.",
    examples: ["Needs git, and access to the internet."],
  },
  homepage: { says: "Where people read more of it.", examples: ["https://example.com/skills/release-notes"] },
  rationale: { says: "Why it is a skill of its own. For people." },
  whenToUse: {
    says: "When to use it, where the description does not say it.",
    examples: ["When a release is prepared."],
  },
  triggers: {
    says: "What queries it is for. Where a selective one fits, its instructions are given without being asked for. A plain list holds keywords.",
    examples: [
      { keywords: ["release notes"], verbs: ["release"], patterns: ["changelog\\s+for\\s+v\\d+"] },
      ["release notes", "changelog"],
    ],
  },
  paths: { says: "Files that it is for, as globs.", examples: [["src/**/*.sql", "*.tf"]] },
  model: {
    says: "The model that follows it: an alias of the configuration, or provider/model.",
    examples: ["fast", "anthropic/claude-haiku-4-5"],
  },
  effort: { says: "How hard the model is to think.", examples: ["low", "medium", "high"] },
  maxSteps: { says: "How often its model is asked at most. 10 when left out; whoever runs it may lower it." },
  inputSchema: {
    says: "JSON Schema of its input. Defaults are put in, and what does not fit is refused.",
    examples: [{ type: "object", properties: { content: { type: "string" } }, required: ["content"] }],
  },
  requiredTools: { says: "Tools without which it is refused.", examples: [["bash"]] },
  allowedTools: {
    says: "The only tools that it may call, beside those that it brings. All when left out.",
    examples: [["bash", "read_file"]],
  },
  preapprovedTools: {
    says: "Tools that it may call without asking, in the words of the open standard. Restricts nothing.",
    examples: ["Bash(git:*) Read"],
  },
  disallowedTools: { says: "Tools that it may not call.", examples: [["bash"]] },
  toolsets: {
    says: "Tools that it brings: a file of the skill, and what that exports.",
    examples: [["toolsets/index:MyToolset"]],
  },
  scripts: { says: "Which of its files are scripts, where that is not plain.", examples: [["scripts/totals.py"]] },
  env: { says: "Variables that its code is given, from [skills.NAME] in config.toml.", examples: [["API_KEY"]] },
  packages: { says: "System packages that its code needs.", examples: [["jq", "ffmpeg"]] },
  capabilities: {
    says: "Systems that it asks, as namespace.name. Whoever runs it gives them.",
    examples: [["gog.email"]],
  },
  sensitive: { says: "Whether it is for private chats only.", default: false },
  access: { says: "Where it may be used.", examples: [{ chat_types: ["private"] }] },
  modelInvocationDisabled: { says: "Whether only people may use it, and no model is told of it.", default: false },
  userInvocable: { says: "Whether people may use it by its name.", default: true },
  arguments: { says: "Names for the words of a message: $file in the instructions.", examples: [["file", "format"]] },
  argumentHint: { says: "What people type behind its name.", examples: ["[file] [format]"] },
  context: { says: "`fork`: hand it to a sub-agent of its own when it is loaded.", examples: ["fork"] },
  agent: { says: "The kind of sub-agent, for clients that have several." },
  defaultEnabled: { says: "Whether it is on before anybody has said so.", default: true },
  metadata: { says: "Anything else. Extensions of the open standard may stand here too." },
};

/** Keys that are read elsewhere. */
const OTHER_KEY_DOCS: Readonly<Record<string, FieldDoc>> = {
  name: {
    says: "Its name: that of its folder, which serves when it is left out.",
    type: "string",
    pattern: STANDARD_NAME.source,
    maxLength: MAX_NAME_LENGTH,
    examples: ["release-notes"],
  },
  instructions: { says: "In a .yaml file: what the agent is to do.", type: ["string", "null"] },
};

const KEPT_KEY_TEXT = "Kept for the clients that use it.";

const TEXT_TYPE = ["string", "null"];
const ITEM_SHAPE = { type: ["string", "number", "boolean"] };
/** One text stands for a list too. */
const LIST_SHAPE = { type: ["array", "string", "number", "boolean", "null"], items: ITEM_SHAPE };
const SCRIPT_SHAPES = [
  { type: "string", minLength: 1 },
  {
    type: "object",
    required: ["path"],
    properties: {
      path: { type: "string", minLength: 1, description: "From the skill's folder." },
      name: { description: "What it is called by." },
      description: { description: "What it does." },
    },
  },
];

/** What each reader takes without a word. */
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

/** Names of one kind; those of one text stand apart by commas or blanks. */
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
  return Object.fromEntries(kinds.map(([kind, most]) => [kind, { ...LIST_SHAPE, maxItems: most }]));
}
