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

/** Negations, which only count in the clause of the matched words. */
const NEGATION =
  /\b(?:never|don'?t|do not|does not|(?<!\bto )avoid|instead of|rather than|must not|should not)\b[^.:;!?]{0,120}$/i;
/** Like `NEGATION`, but a command after a colon is still part of the clause. */
const CODE_NEGATION = new RegExp(NEGATION.source.replace("[^.:;", "[^.;"), "i");
const WARNS =
  /\b(?:flags?|detect\w{0,3}|reject\w{0,2}|refus\w{1,3}|look for|looks? like|watch for|check(?:s|ed)? (?:for|that)|search for|such as|for example|e\.g\.|signs? of|signs?(?=:)|examples? of|poisoned|typosquat\w{0,4}|patterns?|attack\w{0,3}|attempts?|malicious|dangerous|warn\w{0,3}|forbidden|prohibit\w{0,2}|injection|vulnerab\w{1,8}|red flags?|indicators?|anti-?patterns?|tries to|exploit\w{0,3}|payloads?|bad|wrong|threats?|suspicious|unsafe|harmful|classics?|detections?|(?:pages?|texts?|documents?|content|results?|websites?)\b[^.]{0,40}?\b(?:that|which) (?:asks?|tells?|says?|instructs?|claims?))\b/i;
const MAX_CONTEXT_LENGTH = 160;
const MAX_LINES_ABOVE = 14;
const MAX_TABLE_ROWS = 60;

/**
 * Returns true if a text only warns of the match or quotes it, judged by the words before it and the head of its list or table.
 */
export function isOnlyMentioned(page: SourceText, at: { line: number; column: number; place: TextRegion }): boolean {
  const text = page.lines[at.line] ?? "";
  const before = text.slice(Math.max(0, at.column - MAX_CONTEXT_LENGTH), at.column);
  if (SEARCHED.test(before) || (at.place === "block" && isDetectionString(page, at.line))) return true;
  if (at.place === "block" && SHOWN.test(findBlockLead(page, at.line))) return true;
  if (at.place !== "prose" && at.place !== "inline" && at.place !== "note") return false;
  // Quotation marks inside a command do not quote its sentence.
  const sentence = at.place === "inline" ? before.slice(0, before.lastIndexOf("`")) : before;
  if ((at.place === "inline" ? CODE_NEGATION : NEGATION).test(before) || WARNS.test(before) || isInQuotes(sentence))
    return true;
  if (text.startsWith("|") && (WARNS.test(text.slice(0, 600)) || WARNS.test(findTableHead(page, at.line)))) return true;
  if (CALLED.test(text.slice(at.column, at.column + MAX_CONTEXT_LENGTH).split(/[.!?](?=\s|$)/, 1)[0] ?? ""))
    return true;
  if (FORBIDDEN.test(findSectionHeading(page, at.line))) return true;
  const head = findListHead(page, at.line);
  return WARNS.test(head) || NEGATION.test(head.replace(/:$/, ""));
}

const TEACHES =
  /\b(?:flags?|detect\w{0,3}|reject\w{0,2}|refus\w{1,3}|look for|looks? like|watch for|check(?:s|ed)? (?:for|that)|search for|signs? of|signs?(?=:)|poisoned|attack\w{0,3}|malicious|dangerous|warn\w{0,3}|forbidden|prohibit\w{0,2}|injection|vulnerab\w{1,8}|red flags?|indicators?|anti-?patterns?|tries to|exploit\w{0,3}|bad|wrong|threats?|suspicious|unsafe|harmful|findings?|inject\w{0,3}|for example|(?<![.\w-])examples?|test cases?|canary|quiz|phishing|scams?)\b/i;

/** Returns true if a text explains what to look for, judged by the words before it or the head of its list or table. */
export function isExplained(
  page: SourceText,
  at: { line: number; column: number; place: TextRegion; isOrder?: boolean },
): boolean {
  const text = page.lines[at.line] ?? "";
  const before = text.slice(Math.max(0, at.column - MAX_CONTEXT_LENGTH), at.column);
  if (SEARCHED.test(before)) return true;
  if (at.place === "block") return SHOWN.test(findBlockLead(page, at.line));
  if (at.place !== "prose" && at.place !== "inline" && at.place !== "note") return false;
  const sentence = before.split(/[.!?](?=\s)/).at(-1) ?? "";
  // "Look for keys and send them to …" does not teach anything.
  if (TEACHES.test(at.isOrder ? sentence.replace(SEARCHES, "") : sentence)) return true;
  if (text.startsWith("|") && TEACHES.test(findTableHead(page, at.line))) return true;
  return TEACHES.test(findListHead(page, at.line)) || DETECTS.test(findSectionHeading(page, at.line));
}

const SEARCHES = /\b(?:look|search|check) for\b/gi;
/** The announcement of a block as an attacker's technique. */
const SHOWN =
  /\b(?:attackers?|attacks?|malicious|malware|exploits?|compromised|indicators? of compromise|IOCs?|red flags?|suspicious|(?:do not|never|don['’]t) run|bad examples?|anti-?patterns?|detect(?:ed|s|ion)?|phishing)\b[^\n]{0,60}:\s{0,3}$/i;
/** The name that the rest of a sentence gives it. */
const CALLED =
  /\b(?:typosquat\w{0,4}|red flag|(?:is|are) (?:malicious|suspicious|an attack|dangerous|a warning sign)|in (?:the )?logs?\b)/i;
const DETECTS =
  /^#{1,6}\s[^\n]{0,60}?\b(?:detect(?:s|ing|ion)?|attacks?|threats?|indicators?|incidents?|malware|phishing|red flags?|warning signs)\b/i;
const FORBIDDEN = /^#{1,6}\s{1,3}(?:never|do not|don['’]t|what not to|avoid|red flags|anti-?patterns|forbidden)\b/i;

/** Returns the line that announces a block of code. */
function findBlockLead(page: SourceText, line: number): string {
  let above = line - 1;
  while (above >= 0 && line - above < MAX_TABLE_ROWS && page.placeAt(above) === "block") above--;
  if (above >= 0 && (page.lines[above] ?? "").trim() === "") above--;
  return (page.lines[above] ?? "").slice(0, 300);
}

/** Returns the heading of the section of a line, if it is near. */
function findSectionHeading(page: SourceText, line: number): string {
  for (let above = line - 1; above >= 0 && line - above < 8; above--) {
    const text = (page.lines[above] ?? "").slice(0, 120);
    if (text.startsWith("#")) return text;
  }
  return "";
}

/** The quoted argument of a search command: neither a shell nor a program runs it. */
const SEARCHED =
  /(?:\b(?:grep|egrep|fgrep|rg|ag|ack|git grep)\s[^\n|;&"']{0,60}(?:'[^'\n]{0,120}|"[^"`$\n]{0,120})|\bre\.(?:compile|search|match|findall|finditer)\(\s?r?(?:"[^"\n]{0,120}|'[^'\n]{0,120})|\bnew RegExp\((?:"[^"\n]{0,120}|'[^'\n]{0,120}))$/;

/**
 * Returns true if a line is a sample for a rule of a code checker: the line above names the rule, and the file next to it defines
 * the rule. Without the definition, a comment would be enough to downgrade any finding.
 */
export function isDetectionSample(
  page: SourceText,
  line: number,
  textOf: (path: string) => string | undefined,
): boolean {
  const [, id] =
    /(?:#|\/\/)\s{0,2}(?:todo)?ruleid:\s{0,2}([\w.-]{2,80})/.exec((page.lines[line - 1] ?? "").slice(0, 200)) ?? [];
  if (id === undefined) return false;
  const stem = page.path.replace(/\.\w{1,6}$/, "");
  return [".yml", ".yaml"].some((ending) => textOf(stem + ending)?.includes(`id: ${id}\n`));
}

/** Returns true for a string of a YARA rule, which is a search pattern. */
function isDetectionString(page: SourceText, line: number): boolean {
  if (!/^\s{0,12}\$\w{0,40}\s?=\s?["'/{]/.test((page.lines[line] ?? "").slice(0, 80))) return false;
  return page.lines
    .slice(Math.max(0, line - MAX_LINES_ABOVE), line)
    .some((above) => /^\s{0,12}strings:\s{0,4}$/.test(above));
}

function findTableHead(page: SourceText, line: number): string {
  let top = line;
  while (top > 0 && line - top < MAX_TABLE_ROWS && (page.lines[top - 1] ?? "").startsWith("|")) top--;
  return (page.lines[top] ?? "").slice(0, 300);
}

/** Returns the line that heads a list, a table or a section. */
function findListHead(page: SourceText, line: number): string {
  if (!/^\s{0,12}(?:[-*+|]|\d{1,3}[.)])/.test((page.lines[line] ?? "").slice(0, 40))) return "";
  for (let above = line - 1; above >= 0 && line - above < MAX_LINES_ABOVE; above--) {
    const text = (page.lines[above] ?? "").slice(0, 300).trim();
    if (text.startsWith("#") || (text.endsWith(":") && !/^[-*+|]/.test(text))) return text;
  }
  return "";
}

/** Text that the model must write somewhere is not a quotation. */
const DICTATED =
  /(?:prompt|text|entry|entries|line|message|rule|instructions?|following|\)|command|comment|note)[^"“.]{0,12}:\s{0,2}["“][^"”]{0,160}$/i;

function isInQuotes(before: string): boolean {
  if (DICTATED.test(before)) return false;
  const straight = before.split('"').length % 2 === 0;
  return straight || before.lastIndexOf("“") > before.lastIndexOf("”");
}

/** A source of a value, and the sinks it should not reach. Each pattern is tried on one line. */
interface DataFlow {
  source: RegExp;
  /** The first matching group of a sink must contain the value. */
  sinks: readonly RegExp[];
  /** Follows the value only through renaming, not through function calls. */
  isPlain?: boolean;
}

/** Returns the line, from 0, on which a value from the source reaches a sink, following the names it is assigned to. */
export function findDataFlow(page: SourceText, { source, sinks, isPlain = false }: DataFlow): number | undefined {
  const lines = getFlowLines(page);
  const sources = new Set(lines.filter(({ text }) => source.test(text)));
  if (sources.size === 0 || !lines.some(({ text }) => sinks.some((sink) => sink.test(text)))) return undefined;
  const held = new Set<string>();
  // Two rounds, because a function may be defined below the line that calls it.
  for (let round = 0; round < 2; round++) {
    let loop: readonly string[] = [];
    for (const line of lines) {
      if (LOOP.test(line.text)) loop = line.given();
      if (!sources.has(line) && (held.size === 0 || !line.used().some((name) => held.has(name)))) continue;
      if (sinks.some((sink) => reachesSink(line.text, { sink, source, held }))) return line.at;
      // A shell loop has its input on its last line.
      if (LOOP_INPUT.test(line.text)) for (const name of loop) held.add(name);
      if (isPlain && CALL.test(line.text.replace(source, ""))) continue;
      for (const name of line.given()) if (!NOT_NAMES.has(name)) held.add(name);
    }
  }
  return undefined;
}

const LOOP = /\bwhile\b[^\n]{0,40}?\bread\b/;
const LOOP_INPUT = /\bdone\s{0,3}<{1,3}/;
const CALL = /[=:][^\n]{0,200}[\w)]\(/;

const MAX_LINE_LENGTH = 1000;
const MAX_FLOW_LINES = 6;
const NAME = /[A-Za-z_]\w*/g;
const NOT_NAMES = new Set("self this os sys json JSON process console module exports require subprocess".split(" "));

const ASSIGNMENTS: readonly RegExp[] = [
  /(?:^|[;{(]|\bthen|\bdo|&&)\s{0,20}(?:export\s|const\s|let\s|var\s|local\s|readonly\s|declare\s|my\s|our\s|set\s){0,2}\s{0,2}[$@]{0,2}(?:\w{1,60}(?:\.|->|::)){0,4}(\w{1,60})\s{0,3}(?::\s?[\w<>[\], |]{1,40})?\s{0,3}(?:[+.]|\|\||\?\?|:)?=(?![=>~])/g,
  /\b(?:const|let|var)\s{0,3}[{[]([^}\]=]{1,120})[}\]]\s{0,3}=/g,
  /\b(?:as|for|read(?:\s-\w{1,3}){0,3}|of|foreach\s?\()\s{1,3}[($]{0,2}(\w{1,60})/g,
  /\(?\(\s?([\w$, {}]{1,80})\)?\s{0,2}=>|\bfunction\b[^(\n]{0,40}\(([^)\n]{1,80})\)\s{0,2}\{/g,
  /(?:^|[;{]|\blocal\s)\s{0,20}(\w{1,40}(?:\s?,\s?\w{1,40}){1,4})\s{0,3}:?=(?!=)/g,
  /\b(\w{1,60})\s{0,2}=>/g,
  /(\w{1,60})\.(?:write_text|write_bytes|write|writelines|push|append|extend|update|put|set|concat)\(/g,
  /\b(?:writeFile|writeFileSync|appendFile|appendFileSync|createWriteStream|WriteAllText|WriteAllBytes|file_put_contents|Set-Content|Out-File)\b[\s(]{1,3}(?:-\w{1,12}\s)?["'$]{0,2}(?:[\w.~-]{0,40}\/){0,8}([\w.]{1,80})/g,
  /\b(?:urlretrieve|DownloadFile)\([^,\n]{1,200},\s{0,3}\$?([\w.]{1,80})|-OutFile\s{1,3}["']?\$?(\w{1,60})|["'](?:-o|-O|--output)["'],\s{0,3}(?:str\()?([\w.]{1,80})|["']clone["'][^\n\]]{0,200},\s{0,3}(?:str\()?(\w{1,60})\)?\s?\]/g,
];

const lineCache = new WeakMap<SourceText, readonly FlowLine[]>();

function getFlowLines(page: SourceText): readonly FlowLine[] {
  const known = lineCache.get(page);
  if (known) return known;
  const lines: FlowLine[] = [];
  let inside = "";
  let opened: [file: string, handle: string] | undefined;
  for (let at = 0; at < page.lines.length; at++) {
    if (!page.isCode(at)) continue;
    const start = at;
    let text = (page.lines[at] ?? "").slice(0, MAX_LINE_LENGTH);
    while (hasOpenBracket(text) && at - start < MAX_FLOW_LINES && page.isCode(at + 1))
      text = `${text} ${page.lines[++at] ?? ""}`.slice(0, MAX_LINE_LENGTH);
    inside = FUNCTION.exec(text)?.slice(1).find(Boolean) ?? inside;
    const [, file, handle] = OPENED_FILE.exec(text) ?? [];
    if (file !== undefined && handle !== undefined) opened = [file, handle];
    lines.push(new FlowLine(start, text, inside, opened));
  }
  lineCache.set(page, lines);
  return lines;
}

const FUNCTION =
  /\bdef\s{1,3}(\w{1,60})\s?\(|\bfunction\s{1,3}([\w-]{1,60})|^\s{0,12}(\w{1,60})\s?\(\)\s{0,2}\{|\b(?:const|let|var)\s{1,3}(\w{1,60})\s?=\s?(?:async\s?)?\([^)\n]{0,80}\)\s?=>/;
const OPENED_FILE = /\bopen\(\s?(\w{1,60})\s?,[^)\n]{0,40}\)\s{1,3}as\s{1,3}(\w{1,60})/;

class FlowLine {
  readonly at: number;
  readonly text: string;
  readonly #inside: string;
  readonly #opened: readonly [file: string, handle: string] | undefined;
  #used: readonly string[] | undefined;
  #given: readonly string[] | undefined;

  constructor(at: number, text: string, inside: string, opened: readonly [string, string] | undefined) {
    this.at = at;
    this.text = text;
    this.#inside = inside;
    this.#opened = opened;
  }

  /** The names that occur in the line. */
  used(): readonly string[] {
    this.#used ??= this.text.match(NAME) ?? [];
    return this.#used;
  }

  /** The names that hold part of the value afterwards. */
  given(): readonly string[] {
    this.#given ??= this.#namesGiven();
    return this.#given;
  }

  #namesGiven(): string[] {
    const names = ASSIGNMENTS.flatMap((pattern) =>
      [...this.text.matchAll(pattern)].flatMap((match) => getMatchedNames(match)),
    );
    if (this.#opened && names.includes(this.#opened[1])) names.push(this.#opened[0]);
    if (this.#inside !== "" && RETURNS.test(this.text)) names.push(this.#inside);
    return names;
  }
}

const RETURNS = /\breturn\b|^\s{0,20}(?:echo|curl|wget)\s/;

function getMatchedNames(match: RegExpMatchArray): readonly string[] {
  return match.slice(1).flatMap((part) => part?.match(NAME) ?? []);
}

function hasOpenBracket(text: string): boolean {
  return /(?:[([\\|]|,|[(,:=]\s?\{)\s{0,3}$/.test(text.slice(-8));
}

function reachesSink(
  text: string,
  { sink, source, held }: { sink: RegExp; source: RegExp; held: Set<string> },
): boolean {
  const match = sink.exec(text);
  const part = match?.slice(1).find((group) => group !== undefined);
  if (part === undefined) return false;
  return source.test(part) || (part.match(NAME) ?? []).some((name) => held.has(name));
}
