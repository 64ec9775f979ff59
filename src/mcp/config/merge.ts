import { isDeepStrictEqual } from "node:util";
import { editToml } from "../../host/config-edit.ts";
import { dotted, type Leaf, openToml } from "../../host/config-file.ts";
import { SkillError } from "../../shared/error.ts";
import type { Client, Entry } from "./clients.ts";
import { parseJsonc, removeInJsonc, setInJsonc } from "./jsonc.ts";
import type { Snippet } from "./snippet.ts";

/** A text as one of the two languages has it. */
export interface Language {
  /** What it says. Throws a SkillError that names the line, and nothing of what stands there. */
  parse(text: string): Record<string, unknown>;
  /** With these values below a path, and without those; all else as it was. Nothing when that cannot be done. */
  edit(text: string, path: readonly string[], change: Change): string | undefined;
}

interface Change {
  /** What is there below the path. */
  before: Entry;
  /** What is to be. */
  after: Entry;
}

/** Opens what reads and changes a client's files. What reads TOML is loaded only for it. */
export async function languageOf(format: Client["format"]): Promise<Language> {
  return format === "toml" ? tomlLanguage(await openToml()) : JSON_LANGUAGE;
}

/**
 * Puts a snippet into a text and keeps all else: other servers, what was added to this one, comments, formatting. Contract: the same text
 * when it was there already. Throws a SkillError when the text does not parse, when another server has the name, or when the text is
 * written in a way that only a person can change.
 */
export function mergeSnippet(text: string, snippet: Snippet, only: Client["only"], language: Language): string {
  const { path, entry } = snippet;
  const document = language.parse(text);
  const there = entryAt(document, path);
  if (there && !isOurs(there, entry)) throw another(path, there);
  const after = merged(there ?? {}, entry, only);
  if (isDeepStrictEqual(after, there)) return text;
  const next = language.edit(text, path, { before: there ?? {}, after });
  const wanted = language.parse(text);
  put(wanted, path, after);
  if (next === undefined || !isDeepStrictEqual(language.parse(next), wanted)) {
    throw new SkillError("config-edit", {
      message: `writes ${dotted(path.slice(0, -1))} in a way that only a person can change`,
      fix: "put the lines above in by hand: nothing was written",
    });
  }
  return next;
}

/** Whether a server of that entry is one of skillet's: started by it, or the one that is meant. */
function isOurs(there: Entry, meant: Entry): boolean {
  const words = [there["command"], there["args"]].flat();
  const starts = words.some((word, at) => PROGRAM.test(String(word)) && words[at + 1] === "serve");
  return starts || (addressOf(meant) !== undefined && addressOf(there) === addressOf(meant));
}

const PROGRAM = /(?:^|[\\/])skillet(?:\.cjs|\.cmd)?$/;

function addressOf(entry: Entry): unknown {
  return entry["url"] ?? entry["httpUrl"];
}

/** What was there with what is meant over it, and without what the client does not want beside it. */
function merged(there: Entry, meant: Entry, only: Client["only"]): Entry {
  const unwanted = addressOf(meant) === undefined ? only.called : only.started;
  const kept = Object.entries(there).filter(([key]) => Object.hasOwn(meant, key) || !unwanted.includes(key));
  const after: Record<string, unknown> = Object.fromEntries(kept);
  for (const [key, value] of Object.entries(meant)) {
    after[key] = isTable(value) && isTable(after[key]) ? { ...after[key], ...value } : value;
  }
  return after;
}

/** What stands at a path. Throws a SkillError when something is in the way. */
function entryAt(document: Record<string, unknown>, path: readonly string[]): Entry | undefined {
  let here: unknown = document;
  for (const [index, name] of path.entries()) {
    if (!isTable(here)) throw inTheWay(path.slice(0, index));
    if (!Object.hasOwn(here, name)) return undefined;
    here = here[name];
  }
  if (!isTable(here)) throw inTheWay(path);
  return here;
}

function inTheWay(path: readonly string[]): SkillError {
  return new SkillError("config-edit", {
    message: path.length === 0 ? "holds no object" : `holds ${dotted(path)}, which is no object with names in it`,
    fix: "mend it by hand: nothing was written",
  });
}

/** Says whose it is by the program or the host alone: the rest may hold a secret. */
function another(path: readonly string[], there: Entry): SkillError {
  const [command] = [there["command"]].flat();
  const address = addressOf(there);
  const host = URL.canParse(String(address)) ? new URL(String(address)).origin : "another address";
  const program = command === undefined ? "is another" : `starts ${JSON.stringify(String(command))}`;
  const what = address === undefined ? program : `calls ${host}`;
  return new SkillError("another-server", {
    message: `holds ${dotted(path)} already, and that one ${what}`,
    fix: "choose another with --name, or take it out first: nothing was written",
  });
}

const JSON_LANGUAGE: Language = {
  parse(text) {
    if (text.trim() === "") return {};
    try {
      const document = parseJsonc(text);
      if (isTable(document)) return document;
    } catch (error) {
      throw notValid("JSON", lineAt(text, /position (\d+)/.exec(String(error))?.[1]));
    }
    throw inTheWay([]);
  },
  edit(text, path, { before, after }) {
    const start = text.trim() === "" ? `{}${text || "\n"}` : text;
    if (Object.keys(before).length === 0) return setInJsonc(start, path, after);
    const changed = Object.entries(after).filter(([key, value]) => !isDeepStrictEqual(before[key], value));
    const more = changed.reduce((written, [key, value]) => setInJsonc(written, [...path, key], value), start);
    const gone = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
    return gone.reduce((written, key) => removeInJsonc(written, [...path, key]), more);
  },
};

function tomlLanguage(read: Awaited<ReturnType<typeof openToml>>): Language {
  const leavesOf = (text: string): Leaf[] | undefined => {
    const said = read(text);
    return "problem" in said ? undefined : said.leaves;
  };
  return {
    parse(text) {
      const said = read(text);
      if ("problem" in said) throw notValid("TOML", said.problem.line);
      return tableOf(said.leaves);
    },
    edit(text, path, { before, after }) {
      const gone = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
      const removed = (leavesOf(text) ?? []).filter(([parts]) => gone.some((key) => isBelow(parts, [...path, key])));
      const changed = Object.entries(after).filter(([key, value]) => !isDeepStrictEqual(before[key], value));
      const edits = [
        ...changed.map(([key, value]) => ({ parts: [...path, key], value })),
        ...removed.map(([parts]) => ({ parts })),
      ];
      let next: string | undefined = text;
      for (const edit of edits) if (next !== undefined) next = editToml(next, edit, leavesOf);
      return next;
    },
  };
}

/** Tables that hold nothing are left out: they say nothing, and no edit takes one away. */
function tableOf(leaves: readonly Leaf[]): Record<string, unknown> {
  const table: Record<string, unknown> = {};
  for (const [parts, value] of leaves) put(table, parts, value);
  return table;
}

/** Puts a value at a path, whatever its names are: `__proto__` is one too. */
function put(table: Record<string, unknown>, path: readonly string[], value: unknown): void {
  let here = table;
  for (const [index, name] of path.entries()) {
    const isLast = index === path.length - 1;
    if (isLast || !Object.hasOwn(here, name)) {
      const inner = isLast ? value : {};
      Object.defineProperty(here, name, { value: inner, writable: true, enumerable: true, configurable: true });
    }
    here = Object.getOwnPropertyDescriptor(here, name)?.value;
  }
}

function isBelow(parts: readonly string[], above: readonly string[]): boolean {
  return above.every((name, index) => parts[index] === name);
}

function isTable(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Date);
}

function notValid(language: string, line?: number): SkillError {
  return new SkillError("config-syntax", {
    message: `is not valid ${language}${line === undefined ? "" : `: line ${line}`}`,
    fix: "mend it first: nothing was written",
  });
}

function lineAt(text: string, position?: string): number | undefined {
  return position === undefined ? undefined : text.slice(0, Number(position)).split("\n").length;
}
