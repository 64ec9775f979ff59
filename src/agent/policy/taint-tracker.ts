import { findDynamicCommands } from "../../catalog/skill-content.ts";
import type { Message, ToolCall } from "../../host/model-contract.ts";
import type { Tool, ToolResult } from "../../skill/tool.ts";
import { escapeInvisible } from "../../util/untrusted-text.ts";
import type { AgentContext } from "../run/agent-loop.ts";
import {
  collectLeaves,
  formatResultOrigin,
  type InputLeaves,
  isOwnTool,
  listNamedSkills,
  type TaintCheckCall,
} from "./taint-policy.ts";
import {
  containsLetterPiece,
  containsPiece,
  createLetterTexts,
  decodeEscapes,
  findAddresses,
  findAddressNames,
  findWords,
  type LetterText,
  normalizeReadings,
  removeDisplayCodes,
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

/** The number of equal consecutive characters that is not a coincidence. */
const RUN_LENGTH = 20;

// Random, so that an author cannot craft a text with many runs of one hash.
const HASH_BASE = Math.floor(Math.random() * 0x1_0000_0000) | 1;
const HASH_TOP = Array.from({ length: RUN_LENGTH - 1 }).reduce<number>((power) => Math.imul(power, HASH_BASE), 1);
const FREE_SLOT = -1;

/** Indexes all runs of 20 characters in some texts, to find them in others. Each text is read once, however long it is. */
class SubstringIndex {
  readonly #joined: string;
  /** The start of each run, in the slot of its hash or the next free slot. */
  readonly #slots: Int32Array;
  readonly #shift: number;
  /** Hashes by the start of a run. */
  readonly #hashes: Int32Array;
  readonly #isOut: Uint8Array;
  #left = 0;

  constructor(texts: readonly string[]) {
    // Folded text contains no NUL.
    this.#joined = [...new Set(texts)].filter(({ length }) => length >= RUN_LENGTH).join("\0");
    const { length } = this.#joined;
    const bits = Math.max(4, Math.ceil(Math.log2(length + 1)) + 3);
    this.#shift = 32 - bits;
    this.#slots = new Int32Array(2 ** bits).fill(FREE_SLOT);
    this.#hashes = new Int32Array(length);
    this.#isOut = new Uint8Array(length);
    this.#fill();
  }

  get isEmpty(): boolean {
    return this.#left === 0;
  }

  /** Excludes the runs that this text contains too. */
  exclude(text: string): void {
    if (this.isEmpty) return;
    this.#each(text, (place) => {
      this.#isOut[place] = 1;
      this.#left--;
      return this.isEmpty;
    });
  }

  isContainedIn(text: string): boolean {
    return !this.isEmpty && this.#each(text, () => true);
  }

  #fill(): void {
    const most = this.#slots.length - 1;
    let barrier = -1;
    let hash = 0;
    for (let end = 0; end < this.#joined.length; end++) {
      hash = rollHash(hash, this.#joined, end);
      const at = end - RUN_LENGTH + 1;
      if (this.#joined.charCodeAt(end) === 0) barrier = end;
      if (at < 0 || barrier >= at) continue;
      let slot = hash >>> this.#shift;
      let place = this.#slots[slot] ?? FREE_SLOT;
      while (place !== FREE_SLOT && !(this.#hashes[place] === hash && this.#isAt(place, this.#joined, at))) {
        slot = (slot + 1) & most;
        place = this.#slots[slot] ?? FREE_SLOT;
      }
      if (place !== FREE_SLOT) continue;
      this.#slots[slot] = at;
      this.#hashes[at] = hash;
      this.#left++;
    }
  }

  /** Calls `isEnough` with each run in a text until it returns true. Contract: returns true if it did. */
  #each(text: string, isEnough: (place: number) => boolean): boolean {
    const slots = this.#slots;
    const hashes = this.#hashes;
    const isOut = this.#isOut;
    const shift = this.#shift;
    const most = slots.length - 1;
    let hash = 0;
    for (let end = 0; end < text.length; end++) {
      hash = rollHash(hash, text, end);
      if (end < RUN_LENGTH - 1) continue;
      let slot = hash >>> shift;
      for (let place = slots[slot] ?? FREE_SLOT; place !== FREE_SLOT; place = slots[slot] ?? FREE_SLOT) {
        const isSame = hashes[place] === hash && isOut[place] === 0 && this.#isAt(place, text, end - RUN_LENGTH + 1);
        if (isSame && isEnough(place)) return true;
        slot = (slot + 1) & most;
      }
    }
    return false;
  }

  #isAt(place: number, text: string, at: number): boolean {
    for (let index = 0; index < RUN_LENGTH; index++) {
      if (this.#joined.charCodeAt(place + index) !== text.charCodeAt(at + index)) return false;
    }
    return true;
  }
}

/** Returns the hash of the run that ends here, computed from the previous one. */
function rollHash(hash: number, text: string, end: number): number {
  const rest = end < RUN_LENGTH ? hash : (hash - Math.imul(text.charCodeAt(end - RUN_LENGTH), HASH_TOP)) | 0;
  return (Math.imul(rest, HASH_BASE) + text.charCodeAt(end)) | 0;
}

/** The words of a text, to find those of an address whatever is between them. */
interface WordText {
  /** The indexes of each word in `starts` and `ends`, in order. */
  places: ReadonlyMap<string, readonly number[]>;
  starts: readonly number[];
  ends: readonly number[];
  /** By index: true if a bracket opens right after the word, or closes right before it. */
  opens: readonly boolean[];
  closes: readonly boolean[];
}

/** Reduces a text to its words, as written and with its escapes decoded. */
function createWordTexts(text: string): WordText[] {
  return [...new Set([text, decodeEscapes(text)].map(removeDisplayCodes))].map(createWordText);
}

function createWordText(text: string): WordText {
  const { plain, words } = findWords(text);
  const places = new Map<string, number[]>();
  for (const [place, { word }] of words.entries()) {
    const known = places.get(word);
    if (known) known.push(place);
    else places.set(word, [place]);
  }
  const starts = words.map(({ at }) => at);
  const ends = words.map(({ at, word }) => at + word.length);
  const between = (from = 0, to = plain.length) => plain.slice(from, Math.min(to, from + MAX_MARK_LENGTH));
  return {
    places,
    starts,
    ends,
    opens: words.map((_, place) => OPENING_BRACKET.test(between(ends[place], starts[place + 1]))),
    closes: words.map((_, place) =>
      CLOSING_BRACKET.test(
        between(Math.max(ends[place - 1] ?? 0, (starts[place] ?? 0) - MAX_MARK_LENGTH), starts[place]),
      ),
    ),
  };
}

const OPENING_BRACKET = /[<([{]/;
const CLOSING_BRACKET = /[>)\]}]/;
const MAX_MARK_LENGTH = 64;

/** An address to look for. */
interface ScatteredPiece {
  letters: string;
  /** The number of words. */
  count: number;
}

/** The maximum number of characters between the words of an address. */
const MAX_GAP = 160;
/** Beyond this number of matches the search stops and reports a hit: the text could contain the address. */
const MAX_MATCHES = 1_000_000;
/** Two words in this order occur in many texts: then only brackets and their content may be between them. */
const MIN_WORDS = 3;

/**
 * Returns true if the words of an address, or parts of them, occur in a text in this order and close together. No list of markup is
 * complete: a model repairs an address with anything in it. Contract: linear in the number of words that are part of the address.
 */
function containsScatteredPiece({ places, starts, ends, opens, closes }: WordText, piece: ScatteredPiece): boolean {
  const { letters, count } = piece;
  const { length } = letters;
  const isThere = (at: number, end: number) => places.has(letters.slice(at, end));
  const parts = Array.from({ length }, (_, index) => index);
  if (!parts.some((at) => isThere(0, at + 1)) || !parts.some((at) => isThere(at, length))) return false;
  const found: { place: number; at: number; end: number }[] = [];
  for (const at of parts) {
    for (const last of parts.slice(at)) {
      const end = last + 1;
      for (const place of places.get(letters.slice(at, end)) ?? []) found.push({ place, at, end });
      if (found.length > MAX_MATCHES) return true;
    }
  }
  // The last letters first: each word is used once.
  found.sort((a, b) => a.place - b.place || b.at - a.at);
  /** By the number of letters found so far: the start of the latest such match, and the index of its last word. */
  const begun: ({ start: number; last: number } | undefined)[] = [];
  for (const { place, at, end } of found) {
    const before = at === 0 ? { start: starts[place] ?? 0, last: place } : begun[at];
    if (!before || (ends[place] ?? 0) - before.start > length + MAX_GAP) continue;
    const isNext = place - before.last <= 1;
    if (!isNext && count < MIN_WORDS && !(opens[before.last] && closes[place])) continue;
    if (end === length) return true;
    if (before.start >= (begun[end]?.start ?? 0)) begun[end] = { start: before.start, last: place };
  }
  return false;
}
