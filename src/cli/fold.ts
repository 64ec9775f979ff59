import { reveal, spellHidden } from "../shared/hidden.ts";

/** Text of others, without what acts on a terminal: it is written out, and nothing is printed over. */
export function forTerminal(text: string): string {
  return spellHidden(text.replace(/\r(?!\n)/g, "\n")).text;
}

/**
 * Folds a text into lines that are at most this wide, after it was made safe: what is written out is longer. Every character beyond ASCII counts
 * two columns. Terminals differ in those of ambiguous width, and no line may reach the edge and continue at the next one in any of them.
 */
export function foldColumns(text: string, width: number): string[] {
  return foldLines(text, width).flat();
}

/** The same, the pieces of each line together. */
export function foldLines(text: string, width: number): string[][] {
  const room = Number.isFinite(width) ? Math.max(4, width) : Number.POSITIVE_INFINITY;
  return forTerminal(text)
    .replaceAll("\t", "    ")
    .split(/\r?\n/)
    .map((line) => {
      const pieces = [""];
      let columns = 0;
      for (const character of line) {
        const wide = columnsOf(character);
        if (columns + wide > room) {
          pieces.push("");
          columns = 0;
        }
        pieces[pieces.length - 1] += character;
        columns += wide;
      }
      return pieces;
    });
}

/** A joiner that begins a line joins nothing, and is written out there. */
function columnsOf(character: string): number {
  return character < "\x80" ? 1 : Math.max(2, reveal(character).length);
}
