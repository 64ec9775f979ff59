import { isOurs, type JudgedCall, type Leaves, leavesOf, originOf, skillsNamed } from "../policy/taint.ts";
import type { ToolResult } from "../skill/tool.ts";
import { unlabelled } from "./printed.ts";
import { RUN, Runs } from "./taint-runs.ts";
import { type ScatteredPiece, standsScattered, type WordText, wordForms } from "./taint-scattered.ts";
import { addressesIn, type LetterText, letterForms, namesIn, readings, stands, standsInLetters } from "./taint-text.ts";

export interface TaintOptions {
  /** What the user said, and what is to be followed: who copies from it follows nobody else. */
  trusted?: readonly string[];
  /** The record of the run around it, whose model wrote all that this one was told. */
  above?: Taint | undefined;
}

export function openTaint(options: TaintOptions = {}): Taint {
  return new Taint(options);
}

/** Where a text came from, for people. */
export interface Origin {
  label: string;
}

interface Text extends Origin {
  raw: string;
  /** As it is compared, made when something is. */
  forms?: readonly string[];
  letters?: readonly LetterText[];
  words?: readonly WordText[];
}

/** In characters. Beyond it the oldest goes, and what was in it is not known any more. */
const MOST_KEPT = 2 * 1024 * 1024;
const MOST_ORIGINS = 5;
/** Each is looked for by itself, in all that was read. */
const MOST_PIECES = 500;
/** Shorter ones stand in any text. */
const SHORTEST = 3;
/** Without anything between them fewer letters could be those of other words. */
const SHORTEST_LETTERS = 6;
/** A longer value is a text, in which addresses are looked for. */
const LONGEST_WHOLE = 80;
const FORGOTTEN = "earlier output, of which too much was read to keep it";
const UNSEEN = "more values than are looked at";

/**
 * Untrusted text that a run has read. The input of a call derives from it by its text: as a whole between other words, as an address in it
 * (also by its letters and digits alone), or with any run of 20 characters; but for what the user said too.
 */
export class Taint {
  readonly #above: Taint | undefined;
  readonly #trusted = new Map<string, readonly string[] | undefined>();
  readonly #texts: Text[] = [];
  #size = 0;
  #hasForgotten = false;

  constructor({ trusted = [], above }: TaintOptions) {
    this.#above = above;
    for (const text of trusted) this.trust(text);
  }

  /** Takes in what somebody else wrote. Costs nothing until something is compared with it. */
  add({ label }: Origin, text: string): void {
    if (text === "") return;
    const raw = text.slice(-MOST_KEPT);
    this.#hasForgotten ||= raw.length < text.length;
    this.#texts.push({ label, raw });
    this.#size += raw.length;
    while (this.#size > MOST_KEPT) {
      this.#size -= this.#texts.shift()?.raw.length ?? 0;
      this.#hasForgotten = true;
    }
  }

  /** Takes in what the user said, or what is to be followed. */
  trust(text: string): void {
    if (text.trim() !== "" && !this.#trusted.has(text)) this.#trusted.set(text, undefined);
  }

  /** Where the texts in a value came from, at most five; none when from nobody else. `schema`: the tool's, whose choices are no text. */
  originsOf(value: unknown, schema?: unknown): string[] {
    return this.originsOfLeaves(leavesOf(value, schema));
  }

  originsOfLeaves({ leaves, isCut }: Leaves): string[] {
    if ((leaves.length === 0 && !isCut) || !this.#hasAny()) return [];
    const trusted = [...this.#vouching()];
    const isNew = (piece: string) =>
      !trusted.some((text) => (piece.length < RUN ? stands(text, piece, "strictly") : text.includes(piece)));
    const values = leaves.filter(({ isKey }) => !isKey).flatMap(({ text }) => readings(text));
    // The name of a field is the tool's own, but an address is data wherever it is.
    const keys = leaves.filter(({ isKey }) => isKey).flatMap(({ text }) => readings(text).flatMap(addressesIn));
    const addresses = values.flatMap(addressesIn);
    const pieces = [...new Set([...values.filter(({ length }) => length < RUN), ...addresses, ...keys])].filter(
      ({ length }) => length >= SHORTEST,
    );
    const looked = pieces.slice(0, MOST_PIECES).filter(isNew);
    const short = looked.filter(({ length }) => length < RUN);
    const whole = values.filter(({ length }) => length >= RUN && length <= LONGEST_WHOLE).filter(isNew);
    const letters = [
      ...new Set([...looked, ...whole].flatMap((piece) => letterForms(piece).map((form) => form.letters))),
    ].filter(({ length }) => length >= SHORTEST_LETTERS);
    const scattered = looked
      .filter((piece) => addresses.includes(piece) || keys.includes(piece))
      .flatMap(letterForms)
      .filter(
        ({ letters, count }) => count > 1 && letters.length >= SHORTEST_LETTERS && letters.length <= LONGEST_WHOLE,
      );
    const runs = new Runs(leaves.flatMap(({ text }) => readings(text)));
    for (const text of trusted) runs.exclude(text);
    const labels = new Set<string>(isCut || pieces.length > MOST_PIECES ? [UNSEEN] : []);
    if (this.#isForgetful() && (looked.length > 0 || !runs.isEmpty)) labels.add(FORGOTTEN);
    for (const text of this.#all()) {
      if (labels.size >= MOST_ORIGINS) break;
      if (labels.has(text.label)) continue;
      text.forms ??= readings(text.raw);
      const isCopied =
        text.forms.some((form) => short.some((piece) => stands(form, piece)) || runs.isIn(form)) ||
        (letters.length > 0 && hasLetters(text, letters)) ||
        (scattered.length > 0 && hasScattered(text, scattered));
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

  *#all(): Generator<Text> {
    if (this.#above) yield* this.#above.#all();
    yield* this.#texts;
  }

  *#vouching(): Generator<string> {
    if (this.#above) yield* this.#above.#vouching();
    for (const [text, known] of this.#trusted) {
      const forms = known ?? vouchingForms(text);
      if (!known) this.#trusted.set(text, forms);
      yield* forms;
    }
  }
}

/** A text, and by themselves what it names: `mailto:ada@example.com?subject=Hi` vouches for `ada@example.com`. */
function vouchingForms(text: string): string[] {
  const forms = readings(text);
  const names = readings(namesIn(text).join(" "));
  return [...forms, ...names, ...readings(forms.flatMap(addressesIn).join(" "))];
}

/** Whether an address, path or name is in a text once marks, blanks and escapes are removed from both. */
function hasLetters(text: Text, pieces: readonly string[]): boolean {
  text.letters ??= letterForms(text.raw);
  return text.letters.some((form) => pieces.some((piece) => standsInLetters(form, piece)));
}

function hasScattered(text: Text, pieces: readonly ScatteredPiece[]): boolean {
  text.words ??= wordForms(text.raw);
  return text.words.some((form) => pieces.some((piece) => standsScattered(form, piece)));
}

/** Takes in what came of a call. A skill that was chosen freely may be chosen again, also when its answer names it. */
export function noteResult(taint: Taint, call: Pick<JudgedCall, "tool" | "input" | "own">, result: ToolResult): void {
  const { content, isError } = result;
  const { name } = call.tool;
  const named = skillsNamed(call);
  if (named.length > 0 && taint.originsOf(named).length === 0) for (const one of named) taint.trust(one);
  // Why a skill was not given is told in words of ours.
  if (named.length > 0 && isError && !/<(?:instruction|skill_)/.test(content)) return;
  // What is loaded is to be followed: only what a skill did on its own is an answer.
  if (name === "load_skill" && !content.startsWith("<instruction>") && !result.isUntrusted) return;
  const label = originOf(call);
  if (label === undefined) return;
  // Nothing that others wrote can forge our tags there.
  const text = isOurs(name) ? unlabelled(content).replace(/<skill_[a-z]+(?: [^>]*)?>/g, "") : content;
  taint.add({ label }, text);
}
