/** Facts about a regular expression that are known without running it. */
export interface PatternFacts {
  /** Sets of lower-case texts: every match contains at least one text of each set, in this order. */
  needs: readonly (readonly string[])[];
  /** The maximum number of characters in a match before the first need, between each two, and after the last. */
  gaps: readonly number[];
  /** True if a match can begin only at the start of the text. */
  isAtStart: boolean;
  /** True if it matches every query, so that it does not select any. */
  isBroad: boolean;
  /** The number of steps that it expands to. */
  size: number;
}
export type PatternAnalysis = PatternFacts | { problem: string };

/**
 * Parses a pattern in RE2 syntax, whose matching time is linear in the text. Contract: the engine compiles every pattern that
 * this accepts; a property test compares the two.
 */
export function analyzePattern(pattern: string): PatternAnalysis {
  if (pattern.length > MAX_PATTERN_LENGTH)
    return { problem: `has ${pattern.length} characters, more than ${MAX_PATTERN_LENGTH}` };
  try {
    const { needs, gaps, exact, size, isOpen, isAtStart: isAnchored = false } = new PatternParser(pattern).read();
    if (size > MAX_PATTERN_SIZE) return { problem: "has too many repetitions to match quickly" };
    // With the flag m, `^` also matches at the start of a line.
    const isAtStart = isAnchored && !/\(\?[a-zA-Z-]*m/.test(pattern);
    const facts = { isAtStart, isBroad: isOpen, size };
    return exact ? { needs: [[exact]], gaps: [0, 0], ...facts } : { needs, gaps, ...facts };
  } catch (error) {
    if (error instanceof PatternSyntaxError) return { problem: error.message };
    throw error;
  }
}

const MAX_PATTERN_LENGTH = 1000;
/** The maximum number of steps in an expression: matching costs at most this times the length of the text. */
const MAX_PATTERN_SIZE = 1000;

class PatternParser {
  readonly #text: string;
  readonly #names = new Set<string>();
  #at = 0;
  #depth = 0;
  /** True if the current class is so large that it does not narrow down a query. */
  #isWide = false;

  constructor(text: string) {
    this.#text = text;
  }

  read(): PatternPart {
    const part = this.#alternatives();
    if (this.#at < this.#text.length) throw new PatternSyntaxError('has a ")" that closes nothing');
    return part;
  }

  #alternatives(): PatternPart {
    if (++this.#depth > 100) throw new PatternSyntaxError("is nested too deeply");
    const parts = [this.#sequence()];
    while (this.#take("|")) parts.push(this.#sequence());
    this.#depth--;
    return alternateParts(parts);
  }

  #sequence(): PatternPart {
    const parts: PatternPart[] = [];
    while (this.#at < this.#text.length && this.#peek() !== "|" && this.#peek() !== ")") {
      parts.push(this.#repeated(this.#atom()));
    }
    return concatenateParts(parts);
  }

  #repeated(part: PatternPart): PatternPart {
    const operator = this.#readRepetition();
    if (!operator) return part;
    this.#take("?"); // lazy: the same texts match
    if (part === FLAGS_PART) throw new PatternSyntaxError("repeats a group of flags");
    if (this.#isRepetition())
      throw new PatternSyntaxError("repeats a repetition, as in a**: put the inner one in parentheses");
    return repeatPart(part, operator);
  }

  #readRepetition(): { min: number; max: number } | undefined {
    if (this.#take("*")) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (this.#take("+")) return { min: 1, max: Number.POSITIVE_INFINITY };
    if (this.#take("?")) return { min: 0, max: 1 };
    if (this.#peek() !== "{") return undefined;
    const braces = /^\{(\d+)(,(\d*))?\}/.exec(this.#text.slice(this.#at));
    if (!braces) return undefined;
    this.#at += braces[0].length;
    const min = Number(braces[1]);
    const max = braces[2] === undefined ? min : braces[3] === "" ? Number.POSITIVE_INFINITY : Number(braces[3] ?? min);
    if (min > MAX_REPEATS || (max !== Number.POSITIVE_INFINITY && max > MAX_REPEATS) || max < min)
      throw new PatternSyntaxError(`has the repetition ${braces[0]}, which is not allowed`);
    return { min, max };
  }

  #isRepetition(): boolean {
    const from = this.#at;
    const isOne = this.#readRepetition() !== undefined;
    this.#at = from;
    return isOne;
  }

  #atom(): PatternPart {
    if (this.#isRepetition()) throw new PatternSyntaxError(`has "${this.#peek()}" with nothing before it to repeat`);
    const character = this.#next();
    switch (character) {
      case "(":
        return this.#group();
      case "[":
        return this.#class();
      case ".":
        return ANY_PART;
      case "^":
        return START_PART;
      case "$":
        return EMPTY_PART;
      case "\\":
        return this.#escape();
      default:
        return this.#run(character);
    }
  }

  /** Reads plain characters in a row, without the last one if it is repeated: `ab+`. */
  #run(first: string): PatternPart {
    const from = this.#at;
    while (isWordCode(this.#text.charCodeAt(this.#at))) this.#at++;
    if (this.#at > from && this.#isRepetition()) this.#at--;
    const part = createLiteral(first);
    const more = this.#text.slice(from, this.#at);
    if (more === "" || part.exact === undefined) {
      this.#at = from;
      return part;
    }
    return createLiteralText(part.exact + more.toLowerCase());
  }

  #group(): PatternPart {
    if (this.#take("?")) {
      const name = /^P?<([A-Za-z_]\w*)>/.exec(this.#text.slice(this.#at));
      if (name) {
        this.#at += name[0].length;
        if (this.#names.has(name[1] ?? "")) throw new PatternSyntaxError(`names two groups "${name[1]}"`);
        this.#names.add(name[1] ?? "");
      } else if (this.#flags()) return FLAGS_PART;
    }
    const part = this.#alternatives();
    if (!this.#take(")")) throw new PatternSyntaxError('has a "(" that is not closed');
    return part;
  }

  /** Contract: true if the flags are alone, as in `(?i)`, and apply to the end of the enclosing group. */
  #flags(): boolean {
    const rest = this.#text.slice(this.#at);
    if (/^<?[=!]/.test(rest))
      throw new PatternSyntaxError(
        "uses lookahead or lookbehind, which cannot be matched in linear time: match the text itself",
      );
    const flags = /^(?:[imsU]+(?:-[imsU]+)?|-[imsU]+)?([:)])/.exec(rest);
    if (!flags) throw new PatternSyntaxError(`has the group "(?${rest.slice(0, 3)}", which is unknown`);
    if (flags[0] === ")") throw new PatternSyntaxError('has the group "(?)", which is unknown');
    this.#at += flags[0].length;
    return flags[1] === ")";
  }

  #escape(): PatternPart {
    if (this.#at >= this.#text.length) throw new PatternSyntaxError('ends with a "\\"');
    const character = this.#next();
    if (character >= "1" && character <= "9")
      throw new PatternSyntaxError("uses a backreference, which cannot be matched in linear time: write the text out");
    if (character === "Q") return this.#quoted();
    if (/[AzbB]/.test(character)) return character === "A" ? START_PART : EMPTY_PART;
    if (character === "C") throw new PatternSyntaxError("uses \\C, which is unknown");
    return this.#escapedCharacter(character);
  }

  #escapedCharacter(character: string): PatternPart {
    if (/[dDsSwW]/.test(character)) return character === "d" ? DIGIT_PART : ANY_PART;
    if (character === "p" || character === "P") return this.#property(character === "P");
    const control = CONTROL_ESCAPES[character];
    if (control !== undefined) return createLiteral(control);
    if (character === "x" || character === "0") return createLiteral(this.#coded(character));
    if (/[\p{L}\p{N}]/u.test(character) || character.charCodeAt(0) > 127)
      throw new PatternSyntaxError(`uses "\\${character}", which is unknown`);
    return createLiteral(character);
  }

  #coded(kind: string): string {
    const rest = this.#text.slice(this.#at, this.#at + 12);
    const code =
      kind === "0"
        ? /^[0-7]{0,2}/.exec(rest)
        : (/^([0-9A-Fa-f]{2})/.exec(rest) ?? /^\{([0-9A-Fa-f]{1,8})\}/.exec(rest));
    if (!code) throw new PatternSyntaxError('has "\\x" without two hexadecimal digits after it');
    this.#at += code[0].length;
    const point = kind === "0" ? Number.parseInt(`0${code[0]}`, 8) : Number.parseInt(code[1] ?? "", 16);
    if (point > 0x10ffff) throw new PatternSyntaxError("names a character that does not exist");
    return String.fromCodePoint(point);
  }

  #property(isNegated: boolean): PatternPart {
    const named = /^(?:\{\^?([A-Za-z_]+)\}|([A-Z]))/.exec(this.#text.slice(this.#at, this.#at + 64));
    const name = named?.[1] ?? named?.[2] ?? "";
    if (!named || !isUnicodeProperty(name))
      throw new PatternSyntaxError(`uses the unknown character class "\\p${name}"`);
    this.#at += named[0].length;
    return isNegated !== named[0].startsWith("{^") || name === "Any" ? ANY_PART : SINGLE_PART;
  }

  #quoted(): PatternPart {
    const end = this.#text.indexOf("\\E", this.#at);
    const text = end === -1 ? this.#text.slice(this.#at) : this.#text.slice(this.#at, end);
    this.#at = end === -1 ? this.#text.length : end + 2;
    return text === "" ? FLAGS_PART : concatenateParts([...text].map(createLiteral));
  }

  #class(): PatternPart {
    const isNegated = this.#take("^");
    this.#isWide = isNegated;
    let isFirst = true;
    while (isFirst || this.#peek() !== "]") {
      isFirst = false;
      const from = this.#classItem();
      if (this.#peek() !== "-" || this.#text[this.#at + 1] === "]") continue;
      this.#at++;
      if (from === undefined) continue;
      const to = this.#classItem();
      if (to !== undefined && to - from > 1000) this.#isWide = true;
      if (to === undefined || from > to) throw new PatternSyntaxError("has a character range in reverse order");
    }
    this.#at++;
    return this.#isWide ? ANY_PART : SINGLE_PART;
  }

  /** Contract: returns the code of a single character, or undefined for a class within the class. */
  #classItem(): number | undefined {
    const character = this.#next(() => new PatternSyntaxError('has a "[" that is not closed'));
    const end = character === "[" && this.#peek() === ":" ? this.#text.indexOf(":]", this.#at) : -1;
    if (end !== -1) {
      const name = this.#text.slice(this.#at + 1, end);
      if (!POSIX_CLASSES.has(name.replace(/^\^/, "")))
        throw new PatternSyntaxError(`uses the class "[:${name}:]", which is unknown`);
      this.#at = end + 2;
      if (name.startsWith("^")) this.#isWide = true;
      return undefined;
    }
    if (character !== "\\") return character.codePointAt(0);
    const escaped = this.#next(() => new PatternSyntaxError('ends with a "\\"'));
    const part = this.#escapedCharacter(escaped);
    if (part === ANY_PART) this.#isWide = true;
    return part.exact?.codePointAt(0);
  }

  #peek(): string {
    return this.#text[this.#at] ?? "";
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }

  #next(missing = () => new PatternSyntaxError("ends too early")): string {
    const point = this.#text.codePointAt(this.#at);
    if (point === undefined) throw missing();
    const character = String.fromCodePoint(point);
    this.#at += character.length;
    return character;
  }
}

const CONTROL_ESCAPES: Readonly<Record<string, string>> = { a: "\x07", f: "\f", t: "\t", n: "\n", r: "\r", v: "\v" };
const POSIX_CLASSES = new Set(
  "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split(" "),
);
const SHORT_SCRIPT_NAMES = new Set("Ahom Cham Kawi Lisu Miao Modi Newa Thai Toto".split(" "));

function isUnicodeProperty(name: string): boolean {
  if (name === "Any") return true;
  // The engine knows scripts only by their names, not by their four-letter codes.
  if (/^[A-Z][a-z]{3}$/.test(name) && !SHORT_SCRIPT_NAMES.has(name)) return false;
  for (const form of [`\\p{${name}}`, `\\p{Script=${name}}`]) {
    try {
      new RegExp(form, "u");
      return /^[A-Z][a-z]?$|Script/.test(name) || form.includes("Script");
    } catch {}
  }
  return false;
}

/** Reports an error in a pattern. The message continues after the pattern, as in `is nested too deeply`. */
class PatternSyntaxError extends Error {}

const MAX_REPEATS = 1000;
const MAX_CHOICES = 32;

/** Facts about a part of a pattern. */
interface PatternPart extends Pick<PatternFacts, "needs" | "gaps" | "size"> {
  /** The only text that the part matches, if there is only one. */
  exact: string | undefined;
  /** True if the part can match the empty text or any text: it does not narrow the parts around it. */
  isOpen: boolean;
  /** True if a match can begin only at the start of the text. */
  isAtStart?: boolean;
  /** The maximum number of repetitions in a row, as the engine counts them. */
  repeats: number;
}

const EMPTY_PART: PatternPart = { needs: [], gaps: [0], exact: "", size: 1, isOpen: true, repeats: 1 };
const START_PART: PatternPart = { ...EMPTY_PART, isAtStart: true };
/** Exactly one character of some set. */
const SINGLE_PART: PatternPart = { needs: [], gaps: [1], exact: undefined, size: 1, isOpen: false, repeats: 1 };
const ANY_PART: PatternPart = { ...SINGLE_PART, isOpen: true };
const DIGIT_PART: PatternPart = { ...SINGLE_PART, needs: [[..."0123456789"]], gaps: [0, 0] };
const FLAGS_PART: PatternPart = { ...EMPTY_PART };

function isWordCode(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 32;
}

function createLiteral(character: string): PatternPart {
  const lower = character.toLowerCase();
  // If upper and lower case are not one character each, a matching text need not contain the literal as written.
  const isCaseStable = character.charCodeAt(0) < 128 || lower === character.toUpperCase();
  return isCaseStable ? createLiteralText(lower) : SINGLE_PART;
}

/** Contract: `exact` contains lower-case characters that are case-stable. */
function createLiteralText(exact: string): PatternPart {
  return { needs: NO_NEEDS, gaps: [exact.length], exact, size: exact.length, isOpen: false, repeats: 1 };
}

const NO_NEEDS: PatternPart["needs"] = [];

function concatenateParts(parts: readonly PatternPart[]): PatternPart {
  const needs: (readonly string[])[] = [];
  const gaps: number[] = [];
  let [run, gap] = ["", 0];
  let whole: string | undefined = "";
  let [size, repeats, isOpen] = [0, 1, true];
  const add = (need: readonly string[], gapAfter: number) => {
    needs.push(need);
    gaps.push(gap);
    gap = gapAfter;
  };
  const close = () => {
    if (run !== "") add([run], 0);
    run = "";
  };
  // The parts before the first part with a width have no width, so any of them can anchor the pattern.
  const wide = parts.findIndex(({ exact }) => exact !== "");
  const isAtStart = parts.slice(0, wide === -1 ? parts.length : wide + 1).some((part) => part.isAtStart);
  for (const part of parts) {
    size += part.size;
    repeats = Math.max(repeats, part.repeats);
    isOpen &&= part.isOpen;
    if (part.exact !== undefined) {
      run += part.exact;
      if (whole !== undefined) whole += part.exact;
      continue;
    }
    close();
    whole = undefined;
    gap += part.gaps[0] as number;
    for (const [at, need] of part.needs.entries()) add(need, part.gaps[at + 1] as number);
  }
  if (whole !== undefined)
    return { needs: NO_NEEDS, gaps: [whole.length], exact: whole, size: Math.max(1, size), isOpen, isAtStart, repeats };
  close();
  return { needs, gaps: [...gaps, gap], exact: undefined, size, isOpen, isAtStart, repeats };
}

function alternateParts(parts: readonly PatternPart[]): PatternPart {
  const [first] = parts;
  if (first && parts.length === 1) return first;
  let [size, repeats, isOpen, isNeeded] = [1, 1, false, true];
  const all: string[] = [];
  let [before, after, width] = [0, 0, 0];
  for (const part of parts) {
    size += part.size;
    repeats = Math.max(repeats, part.repeats);
    isOpen ||= part.isOpen;
    const index = part.exact ? 0 : findLongestNeed(part.needs);
    const best = part.exact ? [part.exact] : (part.needs[index] ?? []);
    isNeeded &&= best.length > 0;
    all.push(...best);
    width = Math.max(width, measureWidth(part));
    if (part.exact !== undefined || index === -1) continue;
    before = Math.max(before, measureWidthBetween(part, 0, index));
    after = Math.max(after, measureWidthBetween(part, index + 1, part.needs.length));
  }
  const isAtStart = parts.every((part) => part.isAtStart);
  const open = { needs: NO_NEEDS, gaps: [width], exact: undefined, size, isOpen, isAtStart, repeats };
  if (!isNeeded) return open;
  // Every text that contains "aa" contains "a": the longer one adds nothing.
  const choices = all.filter(
    (text, at) => !all.some((other, index) => (other === text ? index < at : text.includes(other))),
  );
  if (choices.length > MAX_CHOICES) return open;
  // The shorter text may be anywhere in the longer one that it replaces.
  const slack = Math.max(...all.map(({ length }) => length)) - Math.min(...all.map(({ length }) => length));
  return { ...open, needs: [choices], gaps: [before + slack, after + slack] };
}

function repeatPart(part: PatternPart, { min, max }: { min: number; max: number }): PatternPart {
  const counted = Math.max(min, max === Number.POSITIVE_INFINITY ? 1 : max, 1);
  const repeats = part.repeats * counted;
  if (repeats > MAX_REPEATS)
    throw new PatternSyntaxError("has nested repetitions with more than 1,000 repetitions in total");
  const size = part.size * counted + 1;
  const width = measureWidth(part);
  const times = (count: number) => (width === 0 || count === 0 ? 0 : width * count); // Not NaN for 0 and Infinity.
  if (min === 0) return { needs: NO_NEEDS, gaps: [times(max)], exact: undefined, size, isOpen: true, repeats };
  if (part.exact !== undefined && min === 1 && max === 1) return part;
  const needs = part.exact ? [[part.exact]] : part.needs;
  // The needs are those of the first repetition; the others follow it.
  const gaps = part.exact ? [0, 0] : [...part.gaps];
  gaps.push((gaps.pop() as number) + times(max - 1));
  return { ...part, needs, gaps, exact: undefined, size, repeats };
}

/** Returns the index of the set whose shortest text is the longest: it matches least often by chance. -1 without a set. */
function findLongestNeed(needs: PatternPart["needs"]): number {
  let best = -1;
  for (const [at, set] of needs.entries()) if (getShortestLength(set) > getShortestLength(needs[best] ?? [])) best = at;
  return best;
}

/** Returns the maximum number of characters in a match of the part. */
function measureWidth(part: PatternPart): number {
  return part.exact?.length ?? measureWidthBetween(part, 0, part.needs.length);
}

/** Returns the maximum number of characters from one gap to another, including the needs between them. */
function measureWidthBetween({ needs, gaps }: PatternPart, from: number, to: number): number {
  let width = 0;
  for (let at = from; at <= to; at++) {
    width += gaps[at] as number;
    if (at < to) width += Math.max(...(needs[at] as readonly string[]).map(({ length }) => length));
  }
  return width;
}

function getShortestLength(set: readonly string[]): number {
  return set.length === 0 ? 0 : Math.min(...set.map((text) => text.length));
}
