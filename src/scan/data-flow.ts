import type { SourceText } from "./source-text.ts";

/** A source of a value, and the sinks it should not reach. Each pattern is tried on one line. */
export interface DataFlow {
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

interface FlowLine {
  at: number;
  text: string;
  /** The names that occur in the line. */
  used(): readonly string[];
  /** The names that hold part of the value afterwards. */
  given(): readonly string[];
}

const MAX_LINE_LENGTH = 1000;
const MAX_JOINED_LINES = 6;
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
    while (hasOpenBracket(text) && at - start < MAX_JOINED_LINES && page.isCode(at + 1))
      text = `${text} ${page.lines[++at] ?? ""}`.slice(0, MAX_LINE_LENGTH);
    inside = FUNCTION.exec(text)?.slice(1).find(Boolean) ?? inside;
    const [, file, handle] = OPENED_FILE.exec(text) ?? [];
    if (file !== undefined && handle !== undefined) opened = [file, handle];
    lines.push(new ParsedFlowLine(start, text, inside, opened));
  }
  lineCache.set(page, lines);
  return lines;
}

const FUNCTION =
  /\bdef\s{1,3}(\w{1,60})\s?\(|\bfunction\s{1,3}([\w-]{1,60})|^\s{0,12}(\w{1,60})\s?\(\)\s{0,2}\{|\b(?:const|let|var)\s{1,3}(\w{1,60})\s?=\s?(?:async\s?)?\([^)\n]{0,80}\)\s?=>/;
const OPENED_FILE = /\bopen\(\s?(\w{1,60})\s?,[^)\n]{0,40}\)\s{1,3}as\s{1,3}(\w{1,60})/;

class ParsedFlowLine implements FlowLine {
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

  used(): readonly string[] {
    this.#used ??= this.text.match(NAME) ?? [];
    return this.#used;
  }

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
