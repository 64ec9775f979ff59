import { COLUMNS, type Look, type Piece } from "./terminal.ts";

const SIZE = 14;
const ADVANCE = 8.4;
const LINE = 19;
const MARGIN = 16;
const FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace";

// A window with a background of its own reads alike on light and dark pages: what shows a picture seldom knows which one it is on.
const PAPER = "#161b22";
const EDGE = "#8b949e";
const INK = "#e6edf3";
const INKS: Readonly<Record<Look, string>> = {
  ...{ bold: INK, dim: "#9da7b3", red: "#ff8b82", green: "#56d364", yellow: "#e3b341", cyan: "#79c0ff" },
};

/** A terminal as a picture: self-contained, and its text is text. */
export function svgOf(rows: readonly (readonly Piece[])[], title: string): string {
  const width = Math.round(COLUMNS * ADVANCE + 2 * MARGIN);
  const height = rows.length * LINE + 2 * MARGIN;
  const texts = rows.flatMap((row, index) => textsOf(row, MARGIN + index * LINE + SIZE));
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" font-family="${FONT}" font-size="${SIZE}">
<title>${escaped(title)}</title>
<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8" fill="${PAPER}" stroke="${EDGE}"/>
${texts.join("\n")}
</svg>
`;
}

function textsOf(row: readonly Piece[], y: number): string[] {
  const texts: string[] = [];
  let column = 0;
  for (const { text, looks } of row) {
    const ink = INKS[looks.find((look) => look !== "bold") ?? "bold"];
    const weight = looks.includes("bold") ? ' font-weight="700"' : "";
    // Several blanks are one in a picture: what stands between them is placed by itself. Its length is said, so that columns stay columns
    // in whatever font there is.
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
