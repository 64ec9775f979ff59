import { DISCLOSURE_MODES } from "../catalog/defaults.ts";
import type { Data } from "../skill/data.ts";
import { PACKAGE } from "../skill/needs.ts";
import { NPM_PACKAGE, PYTHON_PACKAGE } from "../skill/package-specifier.ts";
import { type Owner, PLAIN_NAME } from "./config-file.ts";
import { UPPER_CASE } from "./find-key.ts";
import { CAPABILITY, ENDPOINT, MOST_PACKAGES, NAMESPACE, type TYPES } from "./key-types.ts";
import { KEYS, type Key } from "./keys.ts";
import { PROVIDERS } from "./models.ts";
import { LEVELS } from "./sandbox.ts";
import { ENGINES, WORKSPACE_ACCESS } from "./sandbox-settings.ts";

/** What an editor needs to complete and check a config.toml, as JSON Schema: the user's own, or that of a workspace. */
export function settingsSchema(owner: Owner): Data {
  const rows = KEYS.filter(({ workspace }) => owner === "user" || workspace !== undefined);
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: owner === "user" ? "~/.skillet/config.toml" : ".skillet/config.toml of a workspace",
    description:
      owner === "user"
        ? "What you say of skills, models, limits and sandboxes."
        : "What a workspace may say. Numbers count only where they are lower than yours.",
    ...tableOf(
      rows.map((row) => ({ row, parts: row.path.split(".") })),
      owner,
    ),
  };
}

/** A key, and what of it is still to come. */
interface Below {
  row: Key;
  parts: readonly string[];
}

function tableOf(rows: readonly Below[], owner: Owner): Data {
  const properties: Data = {};
  const patternProperties: Data = {};
  let additionalProperties: unknown = false;
  for (const [name, inner] of Map.groupBy(rows, ({ parts }) => parts[0] ?? "")) {
    const [first] = inner;
    const below = inner.map(({ row, parts }) => ({ row, parts: parts.slice(1) }));
    const shape = first?.parts.length === 1 ? leafOf(first.row, owner) : tableOf(below, owner);
    if (name === "UPPER_CASE") patternProperties[UPPER_CASE.source] = shape;
    else if (name !== "*") properties[name] = shape;
    else if (first?.row.hasPlainName) patternProperties[PLAIN_NAME.source] = shape;
    else additionalProperties = shape;
  }
  const isNamed = (table: Data) => Object.keys(table).length > 0;
  return {
    type: "object",
    ...(isNamed(properties) ? { properties } : {}),
    ...(isNamed(patternProperties) ? { patternProperties } : {}),
    additionalProperties,
  };
}

function leafOf({ means, type, workspaceType = type, default: usual }: Key, owner: Owner): Data {
  return {
    description: means,
    ...SHAPES[owner === "user" ? type : workspaceType],
    ...(usual === undefined ? {} : { default: usual }),
  };
}

/** What `TYPES` lets pass, in the words of JSON Schema. A test tries both with the same values. */
const SHAPES: Readonly<Record<keyof typeof TYPES, Data>> = {
  text: { type: "string" },
  // Of any system: the same file is read on all of them.
  path: { type: "string", pattern: "^(?:/|\\\\|[A-Za-z]:[\\\\/])", examples: ["/etc/skillet/passphrase"] },
  address: {
    type: "string",
    pattern: "^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@\\\\\\s]+(?:[/?#\\\\]|$)",
    examples: ["https://api.example.com/v1"],
  },
  alias: { type: "string", pattern: "^[^/]*$", examples: ["fast"] },
  access: { enum: WORKSPACE_ACCESS },
  mode: { enum: DISCLOSURE_MODES },
  engine: { enum: ENGINES },
  level: { enum: LEVELS },
  provider: { enum: PROVIDERS },
  search: { enum: ["searxng", "brave", "tavily"] },
  flag: { type: "boolean" },
  number: { type: "integer", minimum: 0 },
  size: { type: "integer", minimum: 1 },
  patience: { type: "integer", minimum: 1, maximum: 300 },
  price: { type: "number", minimum: 0 },
  texts: textsOf({}),
  command: { ...textsOf({ minLength: 1 }), minItems: 1, examples: [["node", "/opt/notes/provider.ts"]] },
  capabilities: { ...textsOf({ pattern: CAPABILITY.source }), examples: [["gog.email"]] },
  namespace: { type: "string", pattern: NAMESPACE.source, examples: ["gog"] },
  endpoints: { ...textsOf({ pattern: ENDPOINT.source }), examples: [["api.example.com:443"]] },
  systemPackages: packagesOf(PACKAGE, "poppler-utils"),
  pythonPackages: packagesOf(PYTHON_PACKAGE, "pypdf"),
  npmPackages: packagesOf(NPM_PACKAGE, "docx"),
};

function textsOf(item: Data): Data {
  return { type: "array", items: { type: "string", ...item } };
}

function packagesOf({ source }: RegExp, example: string): Data {
  return { ...textsOf({ pattern: source }), maxItems: MOST_PACKAGES, examples: [[example]] };
}
