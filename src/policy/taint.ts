import { isInside } from "../shared/inside.ts";
import { isData } from "../skill/data.ts";
import type { Tool } from "../skill/tool.ts";

/** A call, as far as the rule looks at it. */
export interface JudgedCall {
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
export interface Leaf {
  text: string;
  /** The name of a field, which is mostly the tool's own: only an address in it, or a long one, counts. */
  isKey: boolean;
}

export interface Leaves {
  leaves: readonly Leaf[];
  /** Whether there were more, or deeper ones, than are looked at. */
  isCut: boolean;
}

/** What of a call text of others may not decide without somebody's word. Contract: pure. */
export function privilegedIn(call: JudgedCall): Leaves {
  const found = RULES.map((values) => values(call));
  return { leaves: found.flatMap(({ leaves }) => leaves), isCut: found.some(({ isCut }) => isCut) };
}

/** The other skills that a call names: none where it is the run's own. */
export function skillsNamed({ tool, input, own }: Pick<JudgedCall, "tool" | "input" | "own">): string[] {
  const { skill, skill_name: also } = Object(input) as Record<string, unknown>;
  const named = NAMES_A_SKILL.has(tool.name) ? (skill ?? also) : tool.starts && tool.owner?.name;
  if (typeof named !== "string" || named.trim() === "") return [];
  const [name = named] = named.split("@");
  return name.trim() === own ? [] : [...new Set([named, name])];
}

const NAMES_A_SKILL: ReadonlySet<string> = new Set(["use_skill", "load_skill", "run_skill_script"]);

type Rule = (call: JudgedCall) => Leaves;

const NOTHING: Leaves = { leaves: [], isCut: false };

/** One row a privilege. */
const RULES: readonly Rule[] = [
  // A change outside of the workspace: all that it is given.
  ({ isMutating, tool, input }) => (isMutating ? leavesOf(input, tool.inputSchema) : NOTHING),
  // Another skill: its name.
  (call) => ({ leaves: skillsNamed(call).map((text) => ({ text, isKey: false })), isCut: false }),
  // A path outside, for tools that could go there: ours refuse it, or see nothing but a sandbox.
  ({ tool, input, inside }) => {
    if (isOurs(tool.name)) return NOTHING;
    const { leaves, isCut } = leavesOf(input, tool.inputSchema);
    return {
      leaves: leaves.filter(({ text }) => isOutside(text, inside)).map(({ text }) => ({ text, isKey: false })),
      isCut,
    };
  },
];

/** As it is written: where a path with `..` leads, nobody knows who has not looked. */
function isOutside(text: string, inside: readonly string[]): boolean {
  const path = text
    .trim()
    .replace(/^file:(?:\/\/[^/]*)?/i, "")
    .replaceAll("\\", "/");
  if (path.length > LONGEST_PATH || /[\n\r]/.test(path)) return false;
  if (path.split("/").includes("..")) return true;
  if (!/^(?:\/|~(?:$|[\w-]*\/)|[a-z]:\/)/i.test(path)) return false;
  return !inside.some((folder) => isInside(folder, path));
}

const LONGEST_PATH = 4096;
const MOST_LEAVES = 300;
const DEEPEST = 50;

/** The texts and numbers in a value. A choice that the tool's own schema lists is no text of anybody. */
export function leavesOf(value: unknown, schema?: unknown): Leaves {
  const leaves: Leaf[] = [];
  for (const leaf of walk(value, schema, 0)) {
    if (leaf === "too deep" || leaves.length === MOST_LEAVES) return { leaves, isCut: true };
    leaves.push(leaf);
  }
  return { leaves, isCut: false };
}

function* walk(value: unknown, schema: unknown, depth: number): Generator<Leaf | "too deep"> {
  const {
    enum: choices,
    properties,
    items,
    additionalProperties: others,
    patternProperties: patterns,
    propertyNames: names,
  } = Object(schema) as Record<string, unknown>;
  // Where the schema describes a map, its keys are the caller's values: `{ "ada@example.com": "owner" }`.
  const hasFreeKeys = [others, patterns, names].some(isData);
  if (Array.isArray(choices) && choices.includes(value)) return;
  if (typeof value === "string" || typeof value === "number") yield { text: String(value), isKey: false };
  if (value === null || typeof value !== "object") return;
  if (depth === DEEPEST) yield "too deep";
  else if (Array.isArray(value)) for (const item of value) yield* walk(item, items, depth + 1);
  else {
    for (const [key, item] of Object.entries(value)) {
      const known = isData(properties) && Object.hasOwn(properties, key) ? properties[key] : undefined;
      if (known === undefined) yield { text: key, isKey: !hasFreeKeys };
      yield* walk(item, known ?? others, depth + 1);
    }
  }
}

type Label = (input: Record<string, unknown>, own: string | undefined) => string;

const OUR_OWN_WORDS = () => "";

/** What the results of our own tools are called where a text came from. An empty one: they are words of ours, or the list of skills. */
const LABELS: Readonly<Record<string, Label>> = {
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
  write_file: OUR_OWN_WORDS,
  edit_file: OUR_OWN_WORDS,
  complete: OUR_OWN_WORDS,
  list_skills: OUR_OWN_WORDS,
  search_skills: OUR_OWN_WORDS,
  validate_skill: OUR_OWN_WORDS,
  lint_skill: OUR_OWN_WORDS,
  // What is opened is to be followed, as what is loaded.
  open_sections: OUR_OWN_WORDS,
};

/** Whether a tool is built in: what it gives is in tags of ours. */
export function isOurs(tool: string): boolean {
  return Object.hasOwn(LABELS, tool);
}

/** What a result is called where it is shown what a text came from; nothing for words of ours. */
export function originOf({ tool, input, own }: Pick<JudgedCall, "tool" | "input" | "own">): string | undefined {
  const given = Object(input) as Record<string, unknown>;
  if (isOurs(tool.name)) return LABELS[tool.name]?.(given, own) || undefined;
  if (tool.starts === "use") return `answer of skill ${tool.owner?.name}`;
  // As the broker calls it, which knows it too.
  if (tool.category === "capabilities") return tool.name.replace(/\.(?=[^.]*$)/, " ");
  return `tool ${tool.name}`;
}
