import { countColumns } from "./format.ts";

/** Wraps the text of an answer as it arrives. */
export interface AnswerWrapper {
  /** Returns what can be printed now. The last word is held back until it is complete. */
  write(text: string): string;
  /** Returns the rest of the line, and starts a new one. */
  end(): string;
}

const FENCE = /^(?:`{3,}|~{3,})/;
const BULLET = /^(?:[-*+]|\d{1,3}[.)]|>)$/;
/** Rows of a table, JSON, markup and commands are not prose. */
const VERBATIM_START = /^(?:[|{<]|\[\{|[[$]$)/;
/** Markdown shows lines with this indentation as code. */
const CODE_INDENT = /^(?: {4}| *\t)/;

/**
 * Creates a wrapper for the prose of an answer. Code blocks, tables and aligned columns stay as they are, and so does text in backticks: a
 * command or a regular expression is not split.
 */
export function createAnswerWrapper(width: number): AnswerWrapper {
  let fence = "";
  let indent = "";
  let word = "";
  let column = 0;
  let hang = "";
  let mode: "start" | "prose" | "verbatim" = "start";

  const begin = () => {
    [indent, word, hang, column, mode] = ["", "", "", 0, "start"];
  };
  const putFirst = (): string => {
    const [mark] = FENCE.exec(word) ?? [];
    const isBullet = BULLET.test(word);
    const isCode = fence !== "" || mark !== undefined || (CODE_INDENT.test(indent) && !isBullet);
    if (mark !== undefined && fence === "") fence = mark;
    else if (mark?.startsWith(fence)) fence = "";
    mode = isCode || VERBATIM_START.test(word) ? "verbatim" : "prose";
    hang = word === ">" ? `${indent}> ` : indent + (isBullet ? " ".repeat(word.length + 1) : "");
    const text = indent + word;
    column = countWidth(text);
    word = "";
    return text;
  };
  const putWord = (): string => {
    const columns = countWidth(word);
    const isWrapped = column + 1 + columns > width && column > hang.length;
    const text = isWrapped ? `\n${hang}${word}` : ` ${word}`;
    column = (isWrapped ? hang.length : column + 1) + columns;
    word = "";
    return text;
  };
  /** Prints what is held back at the end of a line. A backtick without a second one is prose, so its words wrap. */
  const putRest = (): string => {
    let shown = "";
    for (const one of mode === "start" && fence !== "" ? [word] : word.split(" ")) {
      word = one;
      if (mode === "verbatim") shown += shown === "" ? word : ` ${word}`;
      else if (mode === "start") shown += putFirst();
      else if (word !== "") shown += putWord();
    }
    return shown;
  };
  const take = (character: string): string => {
    if (character === "\n") {
      const text = putRest();
      begin();
      return `${text}\n`;
    }
    if (mode === "verbatim") return character;
    if (character !== " " && character !== "\t") {
      word += character;
      return "";
    }
    if (mode === "start" && word === "") {
      indent += character;
      return "";
    }
    if (mode === "start") {
      const isOpen = hasOpenBacktick(word) && !FENCE.test(word);
      if (isOpen) word += character;
      const text = isOpen ? "" : putFirst();
      if (character === "\t" && !isOpen) mode = "verbatim";
      return (mode as string) === "verbatim" ? text + character : text;
    }
    if (hasOpenBacktick(word)) {
      word += character;
      return "";
    }
    if (word !== "" && character === " ") return putWord();
    // Two spaces or a tab align columns.
    const text = word === "" ? " " : putWord();
    mode = "verbatim";
    return text + character;
  };
  return {
    write(text) {
      if (!Number.isFinite(width)) return text;
      let shown = "";
      for (const character of text) shown += take(character);
      return shown;
    },
    end() {
      const text = putRest();
      begin();
      return text;
    },
  };
}

/** Wraps a whole answer. */
export function wrapAnswer(text: string, width: number): string {
  const wrapper = createAnswerWrapper(width);
  return wrapper.write(text) + wrapper.end();
}

function hasOpenBacktick(word: string): boolean {
  return word.split("`").length % 2 === 0;
}

function countWidth(text: string): number {
  let columns = 0;
  for (const character of text) columns += countColumns(character);
  return columns;
}
