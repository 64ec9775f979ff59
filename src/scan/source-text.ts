import type { ScanStatement, TextRegion } from "./rule.ts";

/** The kind of text in a file. */
export type SourceKind = "document" | "code" | "data";

/** The text of a file, split into lines, each with its region. */
export class SourceText {
  readonly path: string;
  readonly kind: SourceKind;
  readonly lines: readonly string[];
  readonly #places: readonly TextRegion[];

  constructor(path: string, kind: SourceKind, text: string) {
    this.path = path;
    this.kind = kind;
    this.lines = text.split("\n");
    this.#places =
      kind === "document"
        ? classifyDocumentLines(this.lines)
        : kind === "data"
          ? []
          : classifyCodeLines(this.lines, path);
  }

  /** Returns the region of a line, or of a character in it: a sentence may contain inline code. */
  placeAt(line: number, column = 0): TextRegion {
    const place = this.#places[line] ?? "note";
    const text = this.lines[line] ?? "";
    // Text before a comment is visible.
    if (place === "aside" && column < text.indexOf("<!--") && !text.slice(0, column).includes("-->")) return "prose";
    if (place !== "prose") return place;
    const tick = findOpeningMark(text, column, "`");
    return tick === undefined ? "prose" : text[tick - 1] === "!" ? "code" : "inline";
  }

  /** Returns true if the line is code that runs, or that a document contains as a command to run. */
  isCode(line: number): boolean {
    const place = this.#places[line];
    return place === "code" || place === "block";
  }

  /** Returns the line joined with its continuation lines, before and after it; in pieces if it is long. */
  *statements(line: number): Iterable<ScanStatement & { from: number }> {
    let start = line;
    while (start > 0 && line - start < MAX_JOINED_LINES && this.#goesOn(start - 1)) start--;
    let text = this.lines[start] ?? "";
    for (let at = start; at - start < MAX_JOINED_LINES && at + 1 < this.lines.length && this.#goesOn(at); at++) {
      text = `${text.replace(/\\?\r?$/, (end) => " ".repeat(end.length))} ${this.lines[at + 1] ?? ""}`;
    }
    for (let from = 0; from === 0 || from + PIECE_OVERLAP < text.length; from += PIECE_LENGTH - PIECE_OVERLAP) {
      yield { text: text.slice(from, from + PIECE_LENGTH), page: this, line: start, from };
    }
  }

  /** A command continues after a backslash, a pipe or `&&`; a sentence continues where its paragraph is wrapped. */
  #goesOn(line: number): boolean {
    if (this.#places[line] === "prose") return this.#isWrapped(line);
    return this.isCode(line) && /(?:\\|\||&&)\s*$/.test((this.lines[line] ?? "").slice(-8));
  }

  #isWrapped(line: number): boolean {
    const text = this.lines[line] ?? "";
    const next = this.lines[line + 1] ?? "";
    return (
      text.length >= MIN_WRAPPED_LENGTH &&
      this.#places[line + 1] === "prose" &&
      !/[.:!?|>]["”)*_`]{0,3}\s{0,3}$/.test(text.slice(-8)) &&
      !/^\s{0,8}(?:$|[-*+#>|]|\d{1,3}[.)]\s|<|---)/.test(next.slice(0, 16)) &&
      !/^\s{0,3}[#|]/.test(text.slice(0, 8))
    );
  }

  /** Returns the line and column, from 0, of a character in the statement that begins on `line`. */
  locate(line: number, index: number): { line: number; column: number } {
    let [row, column] = [line, index];
    while (row + 1 < this.lines.length && column > (this.lines[row] ?? "").length) {
      column -= (this.lines[row] ?? "").length + 1;
      row++;
    }
    return { line: row, column };
  }
}

/** Detects the kind of a file, from its name and the beginning of its text. */
export function detectSourceKind(path: string, text: string, executable: boolean): SourceKind {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  const ending = /\.([a-z0-9]+)$/.exec(name)?.[1] ?? "";
  if (text.startsWith("#!") || CODE_EXTENSIONS.has(ending) || CODE_NAMES.test(name) || CODE_PATHS.test(path))
    return "code";
  if (/^ya?ml$/.test(ending) && STEPS.test(text.slice(0, MAX_HEAD_LENGTH))) return "code";
  if (ending === "json" && RUN_BY_CLIENTS.test(text.slice(0, MAX_HEAD_LENGTH))) return "code";
  if (ending === "json" && READ_BY_MODELS.test(text.slice(0, MAX_HEAD_LENGTH))) return "document";
  if (DATA_EXTENSIONS.has(ending)) return "data";
  return ending === "" && executable ? "code" : "document";
}

const CODE_EXTENSIONS = new Set(
  "sh bash zsh fish ksh ps1 psm1 bat cmd py pyw rb pl pm php js mjs cjs jsx ts mts cts tsx lua go rs java kt swift c cc cpp h cs r jl scala groovy gradle vbs applescript scpt command desktop service timer plist awk tcl ex exs dart sql reg vim".split(
    " ",
  ),
);
/** Hooks, tasks and servers: clients and editors run the commands in them, whatever the file name. */
const RUN_BY_CLIENTS =
  /"(?:hooks|tasks|mcpServers|servers|postCreateCommand|onOpen)"\s?:[\s\S]{0,2000}?"(?:command|postCreateCommand)"\s?:\s?"/;
/** Descriptions of tools: models read them like the skill itself. */
const READ_BY_MODELS = /"(?:tools|functions|prompts|inputSchema|input_schema)"\s?:[\s\S]{0,2000}?"description"\s?:\s?"/;
/** Workflows of build servers, which run the commands in them. */
const STEPS =
  /^\s{0,12}(?:- )?(?:runs-on|run|script|before_script|after_script|entrypoint|postCreateCommand|entry|(?:ansible\.builtin\.)?(?:shell|command|pip|raw))\s?:/m;
const MAX_HEAD_LENGTH = 16_384;
const CODE_NAMES =
  /^(?:makefile|\.?(?:vimrc|latexmkrc|zshrc|bashrc|zshenv|inputrc|tmux\.conf)|dockerfile|justfile|rakefile|devcontainer\.json|composer\.json|gemfile|procfile|package\.json|\.mcp\.json|mcp\.json|hooks\.json|setup\.cfg|\.(?:bash|zsh)(?:rc|_profile)|\.profile|\.envrc|crontab)$/;
const CODE_PATHS = /(?:^|\/)(?:\.github\/workflows\/|\.vscode\/|\.claude\/|\.cursor\/|\.git\/hooks\/|\.husky\/)/;
const DATA_EXTENSIONS = new Set(
  "json jsonl csv tsv yaml yml toml ini cfg lock css scss less svg xml ipynb map snap log po env example".split(" "),
);

const MAX_JOINED_LINES = 12;
const MIN_WRAPPED_LENGTH = 50;
const PIECE_LENGTH = 1200;
const PIECE_OVERLAP = 300;

const FENCE = /^[ \t>*+-]{0,12}(`{3,}|~{3,})/;
const UNSEEN_MARKUP =
  /^\s{0,3}\[(?:\/\/|comment|_)\]:\s*(?:#|<>)|<\w{1,12}[^>]{0,80}?\shidden(?=[\s>=])|style\s*=\s*["'][^"']{0,200}(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?:[;"'\s]|$)|color\s*:\s*(?:white|#fff|transparent)|(?:left|top|text-indent)\s*:\s*-\d{3,})|!\[[^\]]{0,80}\]\([^)\s]{1,200}\s{1,3}"[^"]{50,}"/i;

function isStyledAway(line: string): boolean {
  return (
    (line.includes("style") ||
      (line.includes("![") && line.includes(' "')) ||
      line.includes(" hidden") ||
      line.trimStart().startsWith("[")) &&
    UNSEEN_MARKUP.test(line.slice(0, 1000))
  );
}

function classifyDocumentLines(lines: readonly string[]): TextRegion[] {
  let fence = "";
  let isUnseen = false;
  return lines.map((line) => {
    const mark = line.includes("```") || line.includes("~~~") ? FENCE.exec(line)?.[1] : undefined;
    if (fence !== "") {
      if (mark?.startsWith(fence)) fence = "";
      return "block";
    }
    if (mark && !isUnseen) {
      fence = mark;
      return "block";
    }
    const opens = line.lastIndexOf("<!--");
    const closes = line.lastIndexOf("-->");
    if (!isUnseen && opens !== -1 && findOpeningMark(line, opens, "`") !== undefined) return "prose";
    const place = isUnseen || opens !== -1 || isStyledAway(line) ? "aside" : "prose";
    if (opens > closes) isUnseen = true;
    else if (closes !== -1) isUnseen = false;
    return place;
  });
}

function classifyCodeLines(lines: readonly string[], path: string): TextRegion[] {
  const isHash = !/\.(?:[mc]?[jt]sx?|go|rs|java|kt|swift|c|cc|cpp|h|cs|scala|dart|sql|json|bat|cmd)$/i.test(path);
  return lines.map((line, at) => {
    const text = line.trimStart();
    if (isHash) return text.startsWith("#") && !(at === 0 && text.startsWith("#!")) ? "note" : "code";
    return /^(?:\/\/|\/?\*|--|rem\b|::)/i.test(text) ? "note" : "code";
  });
}

/** Returns the index of the mark that opens the span around `column`, if there is one. */
function findOpeningMark(text: string, column: number, mark: string): number | undefined {
  let open: number | undefined;
  for (let at = text.indexOf(mark); at !== -1 && at < column; at = text.indexOf(mark, at + 1)) {
    open = open === undefined ? at : undefined;
  }
  return open;
}
