import { isDeepStrictEqual } from "node:util";
import { editToml } from "../../host/config-edit.ts";
import { dotted, type Leaf, openToml } from "../../host/config-file.ts";
import { SkillError } from "../../shared/error.ts";
import type { Finding } from "../../skill/diagnostic.ts";
import type { Client, Entry } from "./clients.ts";
import { describeEntry, isCalling, isOurs, isTable, keysAtStake, merged } from "./entry.ts";
import { parseJsonc, removeInJsonc, saysNothing, setInJsonc } from "./jsonc.ts";
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

/** A text with a snippet in it. */
export interface Merged {
  text: string;
  /** The entry as it was, with nothing in it when there was none, and as it is. */
  before: Entry;
  after: Entry;
}

/**
 * Puts a snippet into a text and keeps all else: other servers, what was added to this one, comments, formatting. Contract: the same text
 * when it was there already. Throws a SkillError when the text does not parse, when another server has the name, when something that was
 * added would be lost, or when the text is written in a way that only a person can change.
 */
export function mergeSnippet(text: string, { path, entry }: Snippet, client: Client, language: Language): Merged {
  const before = entryAt(language.parse(text), path) ?? {};
  if (Object.keys(before).length > 0) {
    if (!isOurs(before, entry)) throw another(path, before);
    const keys = keysAtStake(before, entry, client);
    if (keys.length > 0) throw atStake(path, before, keys);
  }
  const after = merged(before, entry, client.only);
  if (isDeepStrictEqual(after, before)) return { text, before, after };
  const next = language.edit(text, path, { before, after });
  const wanted = language.parse(text);
  put(wanted, path, after);
  if (next === undefined || !isDeepStrictEqual(language.parse(next), wanted)) {
    throw new SkillError("config-edit", {
      message: `writes ${dotted(path.slice(0, -1))} in a way that only a person can change`,
      fix: "put the lines above in by hand: nothing was written",
    });
  }
  return { text: next, before, after };
}

/** What stands at a path. Throws a SkillError when something is in the way. */
export function entryAt(document: Record<string, unknown>, path: readonly string[]): Entry | undefined {
  let here: unknown = document;
  for (const [index, name] of path.entries()) {
    if (!isTable(here)) throw inTheWay(path.slice(0, index));
    if (!Object.hasOwn(here, name)) return undefined;
    here = here[name];
  }
  if (!isTable(here)) throw inTheWay(path);
  return here;
}

export function inTheWay(path: readonly string[]): SkillError {
  return new SkillError("config-edit", {
    message: path.length === 0 ? "holds no object" : `holds ${dotted(path)}, which is no object with names in it`,
    fix: "mend it by hand: nothing was written",
  });
}

/** Says whose it is by the program or the address alone: the rest may hold a secret. */
function another(path: readonly string[], there: Entry): SkillError {
  const [command] = [there["command"]].flat();
  const program = command === undefined ? "is another" : `starts ${JSON.stringify(String(command))}`;
  const what = isCalling(there) ? `calls ${describeEntry(there)}` : program;
  return new SkillError("another-server", {
    message: `holds ${dotted(path)} already, and that one ${what}`,
    fix: "choose another with --name, or take it out first: nothing was written",
  });
}

function atStake(path: readonly string[], there: Entry, keys: readonly string[]): SkillError {
  const what = isCalling(there) ? `calls ${describeEntry(there)}` : `starts \`skillet ${describeEntry(there)}\``;
  const names = keys.map((key) => dotted([key])).join(", ");
  return new SkillError("keys-at-stake", {
    message: `holds ${dotted(path)} already: that one ${what}, and has keys of yours that do not go with the new one: ${names}`,
    fix: "take these keys out first, or choose another name with --name: nothing was written",
  });
}

export const JSON_LANGUAGE: Language = {
  parse(text) {
    try {
      if (saysNothing(text)) return {};
      const document = parseJsonc(text);
      if (isTable(document)) return document;
    } catch (error) {
      throw notValid("JSON", lineAt(text, /position (\d+)/.exec(String(error))?.[1]));
    }
    throw inTheWay([]);
  },
  edit(text, path, { before, after }) {
    const start = withObject(text);
    if (Object.keys(before).length === 0) return setInJsonc(start, path, after);
    const changed = Object.entries(after).filter(([key, value]) => !isDeepStrictEqual(before[key], value));
    const more = changed.reduce((written, [key, value]) => setInJsonc(written, [...path, key], value), start);
    const gone = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
    return gone.reduce((written, key) => removeInJsonc(written, [...path, key]), more);
  },
};

/** A text that holds an object: after the comments, if there are some, where it holds none. Contract: it parses. */
export function withObject(text: string): string {
  if (!saysNothing(text)) return text;
  if (text.trim() === "") return `{}${text || "\n"}`;
  const newLine = text.includes("\r\n") ? "\r\n" : "\n";
  return `${text.trimEnd()}${newLine}{}${newLine}`;
}

function tomlLanguage(read: Awaited<ReturnType<typeof openToml>>): Language {
  const leavesOf = (text: string): Leaf[] | undefined => {
    const said = read(text);
    return "problem" in said ? undefined : said.leaves;
  };
  return {
    parse(text) {
      const said = read(text);
      if ("problem" in said) throw unread(said.problem);
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

function notValid(language: string, line?: number): SkillError {
  return new SkillError("config-syntax", {
    message: `is not valid ${language}${line === undefined ? "" : `: line ${line}`}`,
    fix: "mend it first: nothing was written",
  });
}

/** Valid TOML has numbers that are not read to the last digit here. */
function unread({ message, line }: Finding): SkillError {
  if (!message.includes("cannot be represented losslessly")) return notValid("TOML", line);
  return new SkillError("config-edit", {
    message: `holds a number that is too large to be kept as it is: line ${line}`,
    fix: "put the lines above in by hand: nothing was written",
  });
}

function lineAt(text: string, position?: string): number | undefined {
  return position === undefined ? undefined : text.slice(0, Number(position)).split("\n").length;
}
