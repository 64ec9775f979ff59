import { findDynamicCommands } from "../../catalog/skill-content.ts";
import type { Message, ToolCall } from "../../host/model-contract.ts";
import type { Tool, ToolResult } from "../../skill/tool.ts";
import { isJsonObject } from "../../util/objects.ts";
import { isInside } from "../../util/safe-path.ts";
import { escapeInvisible } from "../../util/untrusted-text.ts";
import type { AgentContext } from "../run/agent-loop.ts";
import {
  containsScatteredPiece,
  createWordTexts,
  RUN_LENGTH,
  type ScatteredPiece,
  SubstringIndex,
  type WordText,
} from "./taint-match.ts";
import {
  containsLetterPiece,
  containsPiece,
  createLetterTexts,
  findAddresses,
  findAddressNames,
  type LetterText,
  normalizeReadings,
} from "./taint-text.ts";

export interface TaintOptions {
  /** Texts of the user and instructions to follow: text copied from them is not tainted. */
  trusted?: readonly string[];
  /** The tracker of the parent run, whose model wrote the whole task of this run. */
  parent?: TaintTracker | undefined;
}

export function createTaintTracker(options: TaintOptions = {}): TaintTracker {
  return new TaintTracker(options);
}

/** The origin of a text, for display. */
interface TaintOrigin {
  label: string;
}

interface TaintedText extends TaintOrigin {
  raw: string;
  /** The forms for comparison, computed on first use. */
  forms?: readonly string[];
  letters?: readonly LetterText[];
  words?: readonly WordText[];
}

/** In characters. Beyond it, the oldest texts are dropped and no longer recognized. */
const MAX_TAINTED_TEXT = 2 * 1024 * 1024;
const MAX_ORIGINS = 5;
/** Each piece is searched for separately in all texts. */
const MAX_PIECES = 500;
/** Shorter pieces occur in any text. */
const MIN_PIECE_LENGTH = 3;
/** Fewer joined letters could belong to other words. */
const MIN_LETTERS = 6;
/** A longer value is searched for addresses only. */
const MAX_WHOLE_LENGTH = 80;
const FORGOTTEN_LABEL = "earlier output, which was too long to keep";
const TOO_MANY_LABEL = "more values than are checked";

/**
 * Untrusted text that a run has read. Input derives from it if it contains a whole value, an address (also by its letters and digits
 * alone), or any run of 20 characters of it. Text that the user wrote too is excluded.
 */
export class TaintTracker {
  readonly #above: TaintTracker | undefined;
  readonly #trusted = new Map<string, readonly string[] | undefined>();
  readonly #texts: TaintedText[] = [];
  #size = 0;
  #hasForgotten = false;

  constructor({ trusted = [], parent: above }: TaintOptions) {
    this.#above = above;
    for (const text of trusted) this.addTrusted(text);
  }

  /** Adds untrusted text. It is processed only when something is compared with it. */
  addUntrusted({ label }: TaintOrigin, text: string): void {
    if (text === "") return;
    const raw = text.slice(-MAX_TAINTED_TEXT);
    this.#hasForgotten ||= raw.length < text.length;
    this.#texts.push({ label, raw });
    this.#size += raw.length;
    while (this.#size > MAX_TAINTED_TEXT) {
      this.#size -= this.#texts.shift()?.raw.length ?? 0;
      this.#hasForgotten = true;
    }
  }

  /** Adds text of the user, or instructions to follow. */
  addTrusted(text: string): void {
    if (text.trim() !== "" && !this.#trusted.has(text)) this.#trusted.set(text, undefined);
  }

  /** Returns the origins of the texts in a value, at most five. `schema` is the tool's schema, whose choices are not text. */
  findOrigins(value: unknown, schema?: unknown): string[] {
    return this.findLeafOrigins(collectLeaves(value, schema));
  }

  findLeafOrigins({ leaves, isCut }: InputLeaves): string[] {
    if ((leaves.length === 0 && !isCut) || !this.#hasAny()) return [];
    const trusted = [...this.#vouching()];
    const isNew = (piece: string) =>
      !trusted.some((text) =>
        piece.length < RUN_LENGTH ? containsPiece(text, piece, "strictly") : text.includes(piece),
      );
    const values = leaves.filter(({ isKey }) => !isKey).flatMap(({ text }) => normalizeReadings(text));
    // A field name comes from the tool, but an address in it is data.
    const keys = leaves
      .filter(({ isKey }) => isKey)
      .flatMap(({ text }) => normalizeReadings(text).flatMap(findAddresses));
    const addresses = values.flatMap(findAddresses);
    const pieces = [...new Set([...values.filter(({ length }) => length < RUN_LENGTH), ...addresses, ...keys])].filter(
      ({ length }) => length >= MIN_PIECE_LENGTH,
    );
    const looked = pieces.slice(0, MAX_PIECES).filter(isNew);
    const short = looked.filter(({ length }) => length < RUN_LENGTH);
    const whole = values.filter(({ length }) => length >= RUN_LENGTH && length <= MAX_WHOLE_LENGTH).filter(isNew);
    const letters = [
      ...new Set([...looked, ...whole].flatMap((piece) => createLetterTexts(piece).map((form) => form.letters))),
    ].filter(({ length }) => length >= MIN_LETTERS);
    const scattered = looked
      .filter((piece) => addresses.includes(piece) || keys.includes(piece))
      .flatMap(createLetterTexts)
      .filter(({ letters, count }) => count > 1 && letters.length >= MIN_LETTERS && letters.length <= MAX_WHOLE_LENGTH);
    const runs = new SubstringIndex(leaves.flatMap(({ text }) => normalizeReadings(text)));
    for (const text of trusted) runs.exclude(text);
    const labels = new Set<string>(isCut || pieces.length > MAX_PIECES ? [TOO_MANY_LABEL] : []);
    if (this.#isForgetful() && (looked.length > 0 || !runs.isEmpty)) labels.add(FORGOTTEN_LABEL);
    for (const text of this.#all()) {
      if (labels.size >= MAX_ORIGINS) break;
      if (labels.has(text.label)) continue;
      text.forms ??= normalizeReadings(text.raw);
      const isCopied =
        text.forms.some((form) => short.some((piece) => containsPiece(form, piece)) || runs.isContainedIn(form)) ||
        (letters.length > 0 && containsLetters(text, letters)) ||
        (scattered.length > 0 && containsScattered(text, scattered));
      if (isCopied) labels.add(text.label);
    }
    return [...labels];
  }

  #hasAny(): boolean {
    return this.#texts.length > 0 || (this.#above ? this.#above.#hasAny() : false);
  }

  #isForgetful(): boolean {
    return this.#hasForgotten || (this.#above ? this.#above.#isForgetful() : false);
  }

  *#all(): Generator<TaintedText> {
    if (this.#above) yield* this.#above.#all();
    yield* this.#texts;
  }

  *#vouching(): Generator<string> {
    if (this.#above) yield* this.#above.#vouching();
    for (const [text, known] of this.#trusted) {
      const forms = known ?? listTrustedForms(text);
      if (!known) this.#trusted.set(text, forms);
      yield* forms;
    }
  }
}

/** Returns the forms of a trusted text, and separately the addresses in it: `mailto:ada@example.com?subject=Hi` covers `ada@example.com`. */
function listTrustedForms(text: string): string[] {
  const forms = normalizeReadings(text);
  const names = normalizeReadings(findAddressNames(text).join(" "));
  return [...forms, ...names, ...normalizeReadings(forms.flatMap(findAddresses).join(" "))];
}

/** Returns true if an address, path or name is in a text once marks, spaces and escapes are removed from both. */
function containsLetters(text: TaintedText, pieces: readonly string[]): boolean {
  text.letters ??= createLetterTexts(text.raw);
  return text.letters.some((form) => pieces.some((piece) => containsLetterPiece(form, piece)));
}

function containsScattered(text: TaintedText, pieces: readonly ScatteredPiece[]): boolean {
  text.words ??= createWordTexts(text.raw);
  return text.words.some((form) => pieces.some((piece) => containsScatteredPiece(form, piece)));
}

/** Adds the result of a call. A skill that was chosen freely may be chosen again, even if its answer names it. */
export function trackToolResult(
  taint: TaintTracker,
  call: Pick<TaintCheckCall, "tool" | "input" | "ownSkill">,
  result: ToolResult,
): void {
  const { text, isError, output } = result;
  const named = listNamedSkills(call);
  if (named.length > 0 && taint.findOrigins(named).length === 0) for (const one of named) taint.addTrusted(one);
  // A refusal to use a skill is skillet's own text, without output.
  if (named.length > 0 && isError && output === undefined) return;
  // Loaded instructions are to be followed: only the answer of a sub-agent is untrusted, which is output.
  if (call.tool.name === "load_skill" && output === undefined && !result.isUntrusted) return;
  const label = formatResultOrigin(call);
  if (label === undefined) return;
  // The frame of its own tools is skillet's text. The model reads hidden characters written out.
  const untrusted = isOwnTool(call.tool.name) ? (output ?? text) : text;
  const { text: writtenOut, count } = escapeInvisible(untrusted);
  taint.addUntrusted({ label }, count === 0 ? untrusted : `${untrusted}\n${writtenOut}`);
}

/**
 * Creates the tracker of an agent. The user's messages and the skill's instructions as written are trusted. Context passed along
 * with a message is not, and neither is text of another run's model.
 */
export function createAgentTaint(agent: AgentContext): TaintTracker {
  const { taint = createTaintTracker(), task, instructions, messages, parent } = agent;
  const { skill } = task;
  if (skill) taint.addTrusted(skill.body);
  if (parent === undefined) for (const text of listUserTexts(messages)) taint.addTrusted(text);
  if (skill && findDynamicCommands(skill.body).length > 0) {
    taint.addUntrusted({ label: `commands in the instructions of skill ${skill.name}` }, instructions);
  }
  trackEarlierResults(taint, agent);
  return taint;
}

function listUserTexts(messages: readonly Message[]): string[] {
  return messages.flatMap((message) => (message.role === "user" ? [message.userText ?? message.text] : []));
}

/** Adds the results of calls in earlier turns. */
function trackEarlierResults(taint: TaintTracker, { messages, tools, owner }: AgentContext): void {
  const calls = new Map<string, ToolCall>();
  const known = new Map(tools().map((tool) => [tool.name, tool]));
  for (const message of messages) {
    if (message.role === "assistant") {
      for (const call of message.calls) calls.set(call.id, call);
      const { skill, text } = message;
      if (skill !== undefined) taint.addUntrusted({ label: `answer of skill ${skill}` }, text);
    }
    if (message.role !== "tool") continue;
    for (const { id, tool: name, content: text, isError, output } of message.results) {
      const tool: Pick<Tool, "name" | "inputSchema"> = known.get(name) ?? { name, inputSchema: {} };
      const call = { tool, input: calls.get(id)?.input, ownSkill: owner?.name };
      trackToolResult(taint, call, { text, isError, ...(output === undefined ? {} : { output }) });
    }
  }
}

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

interface InputLeaves {
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
function isOwnTool(tool: string): boolean {
  return Object.hasOwn(ORIGIN_LABELS, tool);
}

/** Returns the label of a result as the origin of a text, or undefined for skillet's own text. */
export function formatResultOrigin({
  tool,
  input,
  ownSkill: own,
}: Pick<TaintCheckCall, "tool" | "input" | "ownSkill">): string | undefined {
  const values = Object(input) as Record<string, unknown>;
  if (isOwnTool(tool.name)) return ORIGIN_LABELS[tool.name]?.(values, own) || undefined;
  if (tool.starts === "use") return `answer of skill ${tool.owner?.name}`;
  // The label that the broker uses too.
  if (tool.category === "capabilities") return tool.name.replace(/\.(?=[^.]*$)/, " ");
  return `tool ${tool.name}`;
}
