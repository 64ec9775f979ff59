import { COLUMNS, type Look, type Piece } from "./terminal.ts";

const SIZE = 14;
const ADVANCE = 8.4;
const LINE = 19;
const MARGIN = 16;
const FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace";

// The window has its own background, since a picture does not know whether its page is light or dark.
const PAPER = "#161b22";
const EDGE = "#8b949e";
const INK = "#e6edf3";
const INKS: Readonly<Record<Look, string>> = {
  ...{ bold: INK, dim: "#9da7b3", red: "#ff8b82", green: "#56d364", yellow: "#e3b341", cyan: "#79c0ff" },
};

/** A row of the terminal, and whether it was typed: typed text appears character by character. */
export interface Row {
  pieces: readonly Piece[];
  isTyped?: boolean;
}

const SECONDS_PER_CHARACTER = 0.04;
const SECONDS_PER_ROW = 0.08;
const SECONDS_BEFORE_TYPING = 0.8;
const SECONDS_BEFORE_OUTPUT = 0.5;

/**
 * Renders a recording of a terminal as SVG. It is self-contained, its text is text, and it plays once: viewers without animation, or with
 * reduced motion, show the last state.
 */
export function renderTerminal(rows: readonly Row[], title: string): string {
  const width = Math.round(COLUMNS * ADVANCE + 2 * MARGIN);
  const height = rows.length * LINE + 2 * MARGIN;
  let seconds = 0;
  let wasTyped = false;
  const groups = rows.flatMap(({ pieces, isTyped = false }, index) => {
    const texts = textsOf(pieces, MARGIN + index * LINE + SIZE);
    if (texts.length === 0) return [];
    const length = pieces.reduce((sum, { text }) => sum + text.length, 0);
    const duration = isTyped ? length * SECONDS_PER_CHARACTER : 0;
    if (index > 0) seconds += isTyped ? SECONDS_BEFORE_TYPING : wasTyped ? SECONDS_BEFORE_OUTPUT : SECONDS_PER_ROW;
    const timing = isTyped
      ? `animation-delay:${round(seconds)}s;animation-duration:${round(duration)}s;animation-timing-function:steps(${length})`
      : `animation-delay:${round(seconds)}s`;
    seconds += duration;
    wasTyped = isTyped;
    return [`<g class="${isTyped ? "typed" : "row"}" style="${timing}">`, ...texts, "</g>"];
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" font-family="${FONT}" font-size="${SIZE}">
<title>${escaped(title)}</title>
<style>
@media (prefers-reduced-motion: no-preference) { .row { animation: show 0.01s backwards } .typed { animation: type backwards } }
@keyframes show { from { opacity: 0 } }
@keyframes type { from { clip-path: inset(0 100% 0 0) } to { clip-path: inset(0 0 0 0) } }
</style>
<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8" fill="${PAPER}" stroke="${EDGE}"/>
${groups.join("\n")}
</svg>
`;
}

function textsOf(row: readonly Piece[], y: number): string[] {
  const texts: string[] = [];
  let column = 0;
  for (const { text, looks } of row) {
    const ink = INKS[looks.find((look) => look !== "bold") ?? "bold"];
    const weight = looks.includes("bold") ? ' font-weight="700"' : "";
    // SVG collapses spaces, so each run of words has its own position. `textLength` keeps the columns aligned in any font.
    for (const { 0: words, index } of text.matchAll(/\S+(?: \S+)*/g)) {
      const place = `x="${round(MARGIN + (column + index) * ADVANCE)}" y="${y}" textLength="${round(words.length * ADVANCE)}"`;
      texts.push(`<text ${place} lengthAdjust="spacingAndGlyphs" fill="${ink}"${weight}>${escaped(words)}</text>`);
    }
    column += text.length;
  }
  return texts;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (found) => `&#${found.charCodeAt(0)};`);
}
