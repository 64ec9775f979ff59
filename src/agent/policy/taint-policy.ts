import type { Tool } from "../../skill/tool.ts";
import { isJsonObject } from "../../util/objects.ts";
import { isInside } from "../../util/safe-path.ts";

/** The parts of a call that the rules read. */
export interface TaintCheckCall {
  tool: Pick<Tool, "name" | "inputSchema" | "starts" | "owner"> & Partial<Pick<Tool, "category">>;
  input: unknown;
  /** True if it changes something outside the workspace. */
  isMutating: boolean;
  /** The skill that is followed; undefined in a conversation. */
  ownSkill?: string | undefined;
  /** The folders that a call may always name: the workspace and the skill's own. */
  allowedFolders: readonly string[];
}

/** One value in the input of a call. */
export interface InputLeaf {
  text: string;
  /** True for a field name, which usually comes from the tool: only an address in it, or a long name, counts. */
  isKey: boolean;
}

export interface InputLeaves {
  leaves: readonly InputLeaf[];
  /** True if there were more or deeper values than the limits allow. */
  isCut: boolean;
}

/** Returns the parts of a call that untrusted text may not decide without approval. Contract: pure. */
export function findPrivilegedInput(call: TaintCheckCall): InputLeaves {
  const found = TAINT_RULES.map((values) => values(call));
  return { leaves: found.flatMap(({ leaves }) => leaves), isCut: found.some(({ isCut }) => isCut) };
}

/** Returns the other skills that a call names, without the run's own. */
export function listNamedSkills({
  tool,
  input,
  ownSkill: own,
}: Pick<TaintCheckCall, "tool" | "input" | "ownSkill">): string[] {
  const { skill, skill_name: also } = Object(input) as Record<string, unknown>;
  const named = SKILL_NAMING_TOOLS.has(tool.name) ? (skill ?? also) : tool.starts && tool.owner?.name;
  if (typeof named !== "string" || named.trim() === "") return [];
  const [name = named] = named.split("@");
  return name.trim() === own ? [] : [...new Set([named, name])];
}

const SKILL_NAMING_TOOLS: ReadonlySet<string> = new Set(["use_skill", "load_skill", "run_skill_script"]);

type TaintRule = (call: TaintCheckCall) => InputLeaves;

const NO_LEAVES: InputLeaves = { leaves: [], isCut: false };

/** The rules, one row per privilege. */
const TAINT_RULES: readonly TaintRule[] = [
  // A change outside the workspace: its whole input.
  ({ isMutating, tool, input }) => (isMutating ? collectLeaves(input, tool.inputSchema) : NO_LEAVES),
  // Another skill: its name.
  (call) => ({ leaves: listNamedSkills(call).map((text) => ({ text, isKey: false })), isCut: false }),
  // A path outside, for tools that could access it: built-in tools refuse it, or see only a sandbox.
  ({ tool, input, allowedFolders: inside }) => {
    if (isOwnTool(tool.name)) return NO_LEAVES;
    const { leaves, isCut } = collectLeaves(input, tool.inputSchema);
    return {
      leaves: leaves.filter(({ text }) => isOutsidePath(text, inside)).map(({ text }) => ({ text, isKey: false })),
      isCut,
    };
  },
];

/** Returns true for a path outside the allowed folders, as written. A path with `..` counts as outside. */
function isOutsidePath(text: string, inside: readonly string[]): boolean {
  const path = text
    .trim()
    .replace(/^file:(?:\/\/[^/]*)?/i, "")
    .replaceAll("\\", "/");
  if (path.length > MAX_PATH_LENGTH || /[\n\r]/.test(path)) return false;
  if (path.split("/").includes("..")) return true;
  if (!/^(?:\/|~(?:$|[\w-]*\/)|[a-z]:\/)/i.test(path)) return false;
  return !inside.some((folder) => isInside(folder, path));
}

const MAX_PATH_LENGTH = 4096;
const MAX_LEAVES = 300;
const MAX_LEAF_DEPTH = 50;

/** Collects the texts and numbers in a value. A choice listed in the tool's own schema is not untrusted text. */
export function collectLeaves(value: unknown, schema?: unknown): InputLeaves {
  const leaves: InputLeaf[] = [];
  for (const leaf of walkLeaves(value, schema, 0)) {
    if (leaf === "too deep" || leaves.length === MAX_LEAVES) return { leaves, isCut: true };
    leaves.push(leaf);
  }
  return { leaves, isCut: false };
}

function* walkLeaves(value: unknown, schema: unknown, depth: number): Generator<InputLeaf | "too deep"> {
  const {
    enum: choices,
    properties,
    items,
    additionalProperties: others,
    patternProperties: patterns,
    propertyNames: names,
  } = Object(schema) as Record<string, unknown>;
  // If the schema describes a map, its keys are values of the caller: `{ "ada@example.com": "owner" }`.
  const hasFreeKeys = [others, patterns, names].some(isJsonObject);
  if (Array.isArray(choices) && choices.includes(value)) return;
  if (typeof value === "string" || typeof value === "number") yield { text: String(value), isKey: false };
  if (value === null || typeof value !== "object") return;
  if (depth === MAX_LEAF_DEPTH) yield "too deep";
  else if (Array.isArray(value)) for (const item of value) yield* walkLeaves(item, items, depth + 1);
  else {
    for (const [key, item] of Object.entries(value)) {
      const known = isJsonObject(properties) && Object.hasOwn(properties, key) ? properties[key] : undefined;
      if (known === undefined) yield { text: key, isKey: !hasFreeKeys };
      yield* walkLeaves(item, known ?? others, depth + 1);
    }
  }
}

type OriginLabel = (input: Record<string, unknown>, own: string | undefined) => string;

const formatNoOrigin = () => "";

/** The labels of built-in tools' results, shown as the origin of a text. Empty for skillet's own text and the list of skills. */
const ORIGIN_LABELS: Readonly<Record<string, OriginLabel>> = {
  read_skill_resource: ({ skill, resource, resource_name: also }, own) =>
    `file ${resource ?? also} of skill ${skill ?? own}`,
  run_skill_script: ({ skill, script }, own) => `output of ${script} of skill ${skill ?? own}`,
  bash: ({ command }) => `output of \`${command}\``,
  read_file: ({ path, file_path: also }) => `file ${path ?? also}`,
  grep: ({ pattern }) => `files with ${pattern}`,
  list_files: ({ path }) => `names of files in ${path ?? "the workspace"}`,
  web_search: ({ query }) => `search results for ${query}`,
  web_fetch: ({ url }) => `page ${url}`,
  use_skill: ({ skill, skill_name: also }) => `answer of skill ${skill ?? also}`,
  load_skill: ({ skill, skill_name: also }) => `answer of skill ${skill ?? also}`,
  write_file: formatNoOrigin,
  edit_file: formatNoOrigin,
  complete: formatNoOrigin,
  list_skills: formatNoOrigin,
  search_skills: formatNoOrigin,
  validate_skill: formatNoOrigin,
  lint_skill: formatNoOrigin,
  // Opened sections are instructions, like a loaded skill.
  open_sections: formatNoOrigin,
};

/** Returns true for a built-in tool, whose result is in skillet's own tags. */
export function isOwnTool(tool: string): boolean {
  return Object.hasOwn(ORIGIN_LABELS, tool);
}

/** Returns the label of a result as the origin of a text, or undefined for skillet's own text. */
export function formatResultOrigin({
  tool,
  input,
  ownSkill: own,
}: Pick<TaintCheckCall, "tool" | "input" | "ownSkill">): string | undefined {
  const given = Object(input) as Record<string, unknown>;
  if (isOwnTool(tool.name)) return ORIGIN_LABELS[tool.name]?.(given, own) || undefined;
  if (tool.starts === "use") return `answer of skill ${tool.owner?.name}`;
  // The label that the broker uses too.
  if (tool.category === "capabilities") return tool.name.replace(/\.(?=[^.]*$)/, " ");
  return `tool ${tool.name}`;
}
