import type { Tool } from "../../skill/tool.ts";
import { isJsonObject } from "../../util/objects.ts";
import { isInside } from "../../util/safe-path.ts";

/** A call, as far as the rule looks at it. */
export interface TaintCheckCall {
  tool: Pick<Tool, "name" | "inputSchema" | "starts" | "owner"> & Partial<Pick<Tool, "category">>;
  input: unknown;
  /** Whether it changes something outside of the workspace. */
  isMutating: boolean;
  /** The skill that is followed; none in a conversation. */
  own?: string | undefined;
  /** The folders that a call may name whatever it was told: the workspace, and the skill's own. */
  inside: readonly string[];
}

/** A piece of input. */
export interface InputLeaf {
  text: string;
  /** The name of a field, which is mostly the tool's own: only an address in it, or a long one, counts. */
  isKey: boolean;
}

export interface InputLeaves {
  leaves: readonly InputLeaf[];
  /** Whether there were more, or deeper ones, than are looked at. */
  isCut: boolean;
}

/** What of a call text of others may not decide without somebody's word. Contract: pure. */
export function findPrivilegedInput(call: TaintCheckCall): InputLeaves {
  const found = TAINT_RULES.map((values) => values(call));
  return { leaves: found.flatMap(({ leaves }) => leaves), isCut: found.some(({ isCut }) => isCut) };
}

/** The other skills that a call names: none where it is the run's own. */
export function listNamedSkills({ tool, input, own }: Pick<TaintCheckCall, "tool" | "input" | "own">): string[] {
  const { skill, skill_name: also } = Object(input) as Record<string, unknown>;
  const named = SKILL_NAMING_TOOLS.has(tool.name) ? (skill ?? also) : tool.starts && tool.owner?.name;
  if (typeof named !== "string" || named.trim() === "") return [];
  const [name = named] = named.split("@");
  return name.trim() === own ? [] : [...new Set([named, name])];
}

const SKILL_NAMING_TOOLS: ReadonlySet<string> = new Set(["use_skill", "load_skill", "run_skill_script"]);

type TaintRule = (call: TaintCheckCall) => InputLeaves;

const NO_LEAVES: InputLeaves = { leaves: [], isCut: false };

/** One row a privilege. */
const TAINT_RULES: readonly TaintRule[] = [
  // A change outside of the workspace: all that it is given.
  ({ isMutating, tool, input }) => (isMutating ? collectLeaves(input, tool.inputSchema) : NO_LEAVES),
  // Another skill: its name.
  (call) => ({ leaves: listNamedSkills(call).map((text) => ({ text, isKey: false })), isCut: false }),
  // A path outside, for tools that could go there: ours refuse it, or see nothing but a sandbox.
  ({ tool, input, inside }) => {
    if (isOwnTool(tool.name)) return NO_LEAVES;
    const { leaves, isCut } = collectLeaves(input, tool.inputSchema);
    return {
      leaves: leaves.filter(({ text }) => isOutsidePath(text, inside)).map(({ text }) => ({ text, isKey: false })),
      isCut,
    };
  },
];

/** As it is written: where a path with `..` leads, nobody knows who has not looked. */
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

/** The texts and numbers in a value. A choice that the tool's own schema lists is no text of anybody. */
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
  // Where the schema describes a map, its keys are the caller's values: `{ "ada@example.com": "owner" }`.
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

/** What the results of our own tools are called where a text came from. An empty one: they are words of ours, or the list of skills. */
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
  // What is opened is to be followed, as what is loaded.
  open_sections: formatNoOrigin,
};

/** Whether a tool is built in: what it gives is in tags of ours. */
export function isOwnTool(tool: string): boolean {
  return Object.hasOwn(ORIGIN_LABELS, tool);
}

/** What a result is called where it is shown what a text came from; nothing for words of ours. */
export function formatResultOrigin({
  tool,
  input,
  own,
}: Pick<TaintCheckCall, "tool" | "input" | "own">): string | undefined {
  const given = Object(input) as Record<string, unknown>;
  if (isOwnTool(tool.name)) return ORIGIN_LABELS[tool.name]?.(given, own) || undefined;
  if (tool.starts === "use") return `answer of skill ${tool.owner?.name}`;
  // As the broker calls it, which knows it too.
  if (tool.category === "capabilities") return tool.name.replace(/\.(?=[^.]*$)/, " ");
  return `tool ${tool.name}`;
}
