/** One change of a text: at this place, these characters take the place of those. */
export interface TextSpan {
  at: number;
  removed: string;
  inserted: string;
}

/** Undoes a change: the text takes the place of so many characters. */
export interface UndoSpan {
  at: number;
  length: number;
  text: string;
}

/** Returns the smallest span that makes one text of another; undefined if they are the same. */
export function spanBetween(before: string, after: string): TextSpan | undefined {
  if (before === after) return undefined;
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < shorter - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const span = {
    at: head,
    removed: before.slice(head, before.length - tail),
    inserted: after.slice(head, after.length - tail),
  };
  return fromLineStart(span, before);
}

/** Undoes spans, the last one first. Contract: the text is the one that they led to. */
export function undoSpans(text: string, spans: readonly UndoSpan[]): string {
  return spans.reduceRight(
    (written, { at, length, text: old }) => written.slice(0, at) + old + written.slice(at + length),
    text,
  );
}

export function undoOf({ at, removed, inserted }: TextSpan): UndoSpan {
  return { at, length: inserted.length, text: removed };
}

/** Of the places where the same insertion or removal gives the same text, the one after a member or at a line's end reads best. */
function fromLineStart(span: TextSpan, before: string): TextSpan {
  const key = span.removed === "" ? "inserted" : span.inserted === "" ? "removed" : undefined;
  if (key === undefined) return span;
  for (let at = span.at, text = span[key]; ; at--, text = `${before[at]}${text.slice(0, -1)}`) {
    if (/^(?:,|\r?\n)/.test(text)) return { ...span, at, [key]: text };
    if (at === 0 || before[at - 1] !== text.at(-1)) return span;
  }
}
