/** Says what is wrong with a pattern: the message goes on where the pattern stops, as in `is nested too deeply`. */
export class Unreadable extends Error {}

export const MOST_REPEATS = 1000;
const MOST_CHOICES = 32;

/** What is known of a part of a pattern. */
export interface Part {
  needs: readonly (readonly string[])[];
  /** The one text that the part matches, when it is one. */
  exact: string | undefined;
  size: number;
  /** The part can match nothing at all, or anything: it does not narrow what is around it. */
  isOpen: boolean;
  /** How often what it repeats may stand in a row, as the engine counts it. */
  repeats: number;
}

export const NOTHING: Part = { needs: [], exact: "", size: 1, isOpen: true, repeats: 1 };
/** Exactly one character of some set. */
export const ONE: Part = { needs: [], exact: undefined, size: 1, isOpen: false, repeats: 1 };
export const ANY: Part = { ...ONE, isOpen: true };
export const DIGIT: Part = { ...ONE, needs: [[..."0123456789"]] };
export const FLAGS: Part = { ...NOTHING };

export function isWordCode(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 32;
}

export function literal(character: string): Part {
  return isPlain(character) ? literals(character.toLowerCase()) : ONE;
}

/** Contract: lower-case characters that `isPlain`. */
export function literals(exact: string): Part {
  return { needs: NO_NEEDS, exact, size: exact.length, isOpen: false, repeats: 1 };
}

const NO_NEEDS: Part["needs"] = [];

// Where upper and lower case are not one character each, a text that matches need not hold the literal as it is written.
function isPlain(character: string): boolean {
  if (character.charCodeAt(0) < 128) return true;
  return character.toLowerCase() === character.toUpperCase();
}

export function inARow(parts: readonly Part[]): Part {
  const needs: (readonly string[])[] = [];
  let run = "";
  let whole: string | undefined = "";
  let [size, repeats, isOpen] = [0, 1, true];
  const close = () => {
    if (run !== "") needs.push([run]);
    run = "";
  };
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
    needs.push(...part.needs);
  }
  if (whole !== undefined) return { needs: NO_NEEDS, exact: whole, size: Math.max(1, size), isOpen, repeats };
  close();
  return { needs, exact: undefined, size, isOpen, repeats };
}

export function oneOf(parts: readonly Part[]): Part {
  const [first] = parts;
  if (first && parts.length === 1) return first;
  let [size, repeats, isOpen, isNeeded] = [1, 1, false, true];
  const all: string[] = [];
  for (const part of parts) {
    size += part.size;
    repeats = Math.max(repeats, part.repeats);
    isOpen ||= part.isOpen;
    const best = part.exact ? [part.exact] : longest(part.needs);
    isNeeded &&= best.length > 0;
    all.push(...best);
  }
  if (!isNeeded) return { needs: NO_NEEDS, exact: undefined, size, isOpen, repeats };
  // Whatever holds "aa" holds "a": the longer one says nothing more.
  const choices = all.filter(
    (text, at) => !all.some((other, place) => (other === text ? place < at : text.includes(other))),
  );
  return { needs: choices.length <= MOST_CHOICES ? [choices] : NO_NEEDS, exact: undefined, size, isOpen, repeats };
}

export function repeat(part: Part, { least, most }: { least: number; most: number }): Part {
  const counted = Math.max(least, most === Number.POSITIVE_INFINITY ? 1 : most, 1);
  const repeats = part.repeats * counted;
  if (repeats > MOST_REPEATS) throw new Unreadable("repeats repetitions more than 1,000 times in all");
  const size = part.size * counted + 1;
  if (least === 0) return { needs: NO_NEEDS, exact: undefined, size, isOpen: true, repeats };
  if (part.exact !== undefined && least === 1 && most === 1) return part;
  return { needs: part.exact ? [[part.exact]] : part.needs, exact: undefined, size, isOpen: part.isOpen, repeats };
}

export function withText(needs: Part["needs"], text: string): Part["needs"] {
  return text === "" ? needs : [...needs, [text]];
}

/** The set whose shortest text is longest: it is found least often by chance. */
function longest(needs: Part["needs"]): readonly string[] {
  let best: readonly string[] = [];
  for (const set of needs) if (shortest(set) > shortest(best)) best = set;
  return best;
}

function shortest(set: readonly string[]): number {
  return set.length === 0 ? 0 : Math.min(...set.map((text) => text.length));
}
