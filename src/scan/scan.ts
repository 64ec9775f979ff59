import { byText } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import type { SkillCopy } from "../source/digest.ts";
import { excerpt } from "./excerpt.ts";
import { type ScanFinding, type ScanSubject, WEIGHTS, type Weight } from "./finding.ts";
import { isMentioned, isSample, isTaught } from "./mention.ts";
import { kindOf, Page } from "./page.ts";
import { type BytesOfFile, PLACES, type Place, type Rule, type Weighing } from "./rule.ts";
import { commandIn, ENCODED_COMMAND } from "./rules/blob.ts";
import { COMBINED_RULES, EFFECTS, INTENTS, LEADING, SIGNS } from "./rules/combined.ts";
import { FILE_RULES, isBinary, magicOf } from "./rules/file.ts";
import { hiddenIn } from "./rules/hidden.ts";
import { SKILL_WIDE_RULES } from "./rules/skill-wide.ts";
import { TOLD_RULES, TOLD_WORDS } from "./rules/told.ts";
import { PAGE_RULES, PARTLY_READ, TEXT_RULES } from "./rules.ts";
import { findCombined, type SignKind, type SignSeen } from "./sign.ts";
import { openWords, type Pass, type Passed } from "./words.ts";

/** What of a skill is looked at. */
export function subjectOf(skill: Skill, copy: SkillCopy): ScanSubject {
  return { name: skill.name, description: skill.description, manifest: skill.manifest, files: copy.files };
}

/** What a person should look at before they trust a skill, the heaviest first. Costs no more than reading it a few times. */
export function scanSkill(subject: ScanSubject): ScanFinding[] {
  return new Scan().skill(subject);
}

/** The same for files of which nothing is known. */
export function scanFiles(files: ScanSubject["files"]): ScanFinding[] {
  return new Scan().files(files);
}

const LARGEST = 1024 * 1024;
/** In one line, of what does not count where it stands. */
const MOST_IGNORED = 32;
/** How often one rule is said, of a file and of a skill; and how much in all. */
const MOST_SIGNS = 48;
const MOST = { file: 3, skill: 12, all: 100 };

class Scan {
  readonly #found: ScanFinding[] = [];
  readonly #counts = new Map<string, number>();
  readonly #pages: Page[] = [];
  /** The lists of words of which one was seen in some file. */
  readonly #lists = new Set<number>();
  #all: ScanSubject["files"] = new Map();

  skill({ description, manifest, files }: ScanSubject): ScanFinding[] {
    this.#each(files);
    const own = files.get("SKILL.md");
    let read: string | undefined;
    const head = () => {
      read ??= own ? textOf(own.bytes.subarray(0, LONGEST_HEAD)) : "";
      return read;
    };
    const told = {
      description,
      manifest,
      pages: this.#pages,
      lineOf: (key: string) => lineOfKey(head(), key),
      mentions: (text: string) => isInFiles(text, files, head()),
    };
    for (const rule of TOLD_RULES) {
      for (const { file = "SKILL.md", line, weight = rule.weight, seen } of rule.find(told)) {
        this.#say(rule, { weight, file, line: line + 1, column: 1, seen });
      }
    }
    return this.#result();
  }

  files(files: ScanSubject["files"]): ScanFinding[] {
    this.#each(files);
    return this.#result();
  }

  #each(files: ScanSubject["files"]): void {
    this.#all = files;
    for (const [path, file] of files) this.#file({ path, ...file });
    this.#skillWide();
  }

  #skillWide(): void {
    for (const [number, rule] of SKILL_WIDE_RULES.entries()) {
      const from = SKILL_WIDE_LISTS[number] as number;
      if (!rule.all.every((_, list) => this.#lists.has(from + list))) continue;
      const found = rule.find(this.#pages);
      if (!found) continue;
      const { file, line, seen } = found;
      this.#say(rule, { weight: found.weight ?? rule.weight, file, line: line + 1, column: 1, seen });
    }
  }

  #isSample(page: Page, line: number): boolean {
    return isSample(page, line, (path) => {
      const file = this.#all.get(path);
      return file && textOf(file.bytes.subarray(0, LONGEST_HEAD));
    });
  }

  #file(given: BytesOfFile): void {
    const file = { ...given, kind: magicOf(given.bytes) };
    for (const rule of FILE_RULES) {
      const found = rule.find(file);
      if (found) this.#say(rule, { weight: found.weight ?? rule.weight, file: file.path, seen: found.seen });
    }
    const text = utf16(file.bytes);
    const bytes = text === undefined ? file.bytes : Buffer.from(text);
    if (text === undefined && isBinary(file)) return;
    if (bytes.length > LARGEST) this.#say(PARTLY_READ, { weight: "low", file: file.path, seen: "the first MiB" });
    this.#text(file, bytes.subarray(0, LARGEST));
  }

  #text({ path, executable }: BytesOfFile, bytes: Uint8Array): void {
    const passed = pass(bytes);
    if (passed.hits.length === 0 && passed.runs.length === 0 && !passed.mayHide) return;
    const text = textOf(bytes);
    const page = new Page(path, kindOf(path, text, executable), text);
    this.#pages.push(page);
    if (passed.mayHide) this.#hidden(page, text);
    this.#statements(page, passed);
    this.#wholePage(page, passed);
    this.#combined(page, passed);
    this.#runs(page, bytes, passed);
  }

  #statements(page: Page, { hits }: Passed): void {
    for (let at = 0; at < hits.length; at += 2) {
      const rule = TEXT_RULES[hits[at] as number];
      if (!rule || this.#isEnough(rule, page.path)) continue;
      let ignored = 0;
      for (const statement of page.statements(hits[at + 1] as number)) {
        const found = rule.find(statement.text, statement);
        if (!found) continue;
        const { line, column } = page.locate(statement.line, statement.from + found.index);
        const place = page.placeAt(line, column);
        const weight = weightIn(rule.weigh, place);
        if (weight === undefined && ++ignored < MOST_IGNORED) continue;
        if (weight === undefined) break;
        const isMention =
          weight !== "low" &&
          ((rule.heedsMentions !== false && isMentioned(page, { line, column, place })) || this.#isSample(page, line));
        const seen = statement.text.slice(found.index, found.index + found.length);
        this.#say(rule, {
          weight: isMention ? "low" : weight,
          file: page.path,
          line: line + 1,
          column: column + 1,
          seen,
        });
        break;
      }
    }
  }

  #wholePage(page: Page, { hits }: Passed): void {
    const lists = new Set<number>();
    for (let at = 0; at < hits.length; at += 2) lists.add(hits[at] as number);
    for (const list of lists) if (list >= FIRST_WIDE) this.#lists.add(list);
    for (const [number, rule] of PAGE_RULES.entries()) {
      const from = PAGE_LISTS[number] as number;
      if (!rule.all.every((_, list) => lists.has(from + list))) continue;
      const found = rule.find(page);
      if (!found) continue;
      const { line, seen } = found;
      const place = page.placeAt(line);
      const isMention =
        this.#isSample(page, line) || (place === "block" && isMentioned(page, { line, column: 0, place }));
      const weight = isMention ? "low" : (found.weight ?? rule.weight);
      this.#say(rule, { weight, file: page.path, line: line + 1, column: 1, seen });
    }
  }

  #combined(page: Page, passed: Passed): void {
    const signs = this.#signs(page, passed);
    for (const rule of COMBINED_RULES) {
      const found = findCombined(rule, signs);
      if (!found) continue;
      const { line, column, seen } = found;
      if (rule.isFallback && this.#isAlarmed(page.path, line + 1, rule.within)) continue;
      this.#say(rule, { weight: rule.weight, file: page.path, line: line + 1, column: column + 1, seen });
    }
  }

  #isAlarmed(file: string, line: number, within: number): boolean {
    return this.#found.some(
      (finding) => finding.weight === "high" && finding.file === file && Math.abs((finding.line ?? 0) - line) <= within,
    );
  }

  /** Most signs count next to a leading one only, and are looked for nowhere else. */
  #signs(page: Page, passed: Passed): SignSeen[] {
    const leading = this.#signsIn(page, passed, (kind) => LEADING.has(kind));
    if (leading.length === 0) return [];
    const near = new Set<number>();
    const nearEffects = new Set<number>();
    for (const { kind, line } of leading) {
      if (EFFECTS.has(kind)) addAround(nearEffects, line, EFFECT_REACH);
      if (BESIDE_OTHERS.has(kind)) addAround(near, line, REACH);
    }
    const isNear = (kind: SignKind, line: number) =>
      INTENTS.has(kind) ? nearEffects.has(line) : near.has(line) || (BESIDE_EFFECTS.has(kind) && nearEffects.has(line));
    return [...leading, ...this.#signsIn(page, passed, (kind, line) => !LEADING.has(kind) && isNear(kind, line))];
  }

  #signsIn(page: Page, { hits }: Passed, isWanted: (kind: SignKind, line: number) => boolean): SignSeen[] {
    const signs: SignSeen[] = [];
    const counts = new Map<SignKind, number>();
    for (let at = 0; at < hits.length; at += 2) {
      const sign = SIGNS[(hits[at] as number) - FIRST_SIGN];
      const start = hits[at + 1] as number;
      if (!sign || !isWanted(sign.kind, start) || (counts.get(sign.kind) ?? 0) >= MOST_SIGNS) continue;
      const isCode = page.isCode(start);
      if (sign.where === "prose" && (isCode || page.kind === "data")) continue;
      for (const statement of page.statements(start)) {
        const text = sign.where === "code" && !isCode ? inlineCode(statement.text) : statement.text;
        const found = sign.find(text, statement);
        if (!found) continue;
        const { line, column } = page.locate(statement.line, statement.from + found.index);
        const at = { line, column, place: page.placeAt(line, column), isOrder: ORDERED.has(sign.kind) };
        if (isTaught(page, at) || (sign.where === "code" && isMentioned(page, at))) continue;
        const seen = statement.text.slice(found.index, found.index + found.length);
        signs.push({ kind: sign.kind, line, column, seen });
        counts.set(sign.kind, (counts.get(sign.kind) ?? 0) + 1);
        break;
      }
    }
    return signs;
  }

  #hidden(page: Page, text: string): void {
    const lines = new Lines(text);
    for (const { rule, weight, index, seen } of hiddenIn(text, page.kind === "code")) {
      this.#say(rule, { weight, file: page.path, ...lines.at(index), seen });
    }
  }

  #runs(page: Page, bytes: Uint8Array, { runs }: Passed): void {
    for (let at = 0; at < runs.length && !this.#isEnough(ENCODED_COMMAND, page.path); at += 2) {
      const [from, to] = [runs[at] as number, runs[at + 1] as number];
      const command = commandIn(textOf(bytes.subarray(from, Math.min(to, from + LONGEST_HEAD))));
      if (command === undefined) continue;
      const { line, column } = new Lines(textOf(bytes.subarray(0, from))).at(Number.POSITIVE_INFINITY);
      const weight = weightIn(ENCODED_COMMAND.weigh, page.placeAt(line - 1, column - 1));
      if (weight) this.#say(ENCODED_COMMAND, { weight, file: page.path, line, column, seen: command });
    }
  }

  /** Each weight has a number of its own: hints cannot crowd out what weighs more. */
  #isEnough({ id, weight: most }: Rule, file: string, weight = most): boolean {
    const key = `${id} ${weight}`;
    const inSkill = this.#counts.get(key) ?? 0;
    if (inSkill < MOST.file) return false;
    return inSkill >= MOST.skill || (this.#counts.get(`${key} ${file}`) ?? 0) >= MOST.file;
  }

  #say(rule: Rule, { seen, ...at }: Pick<ScanFinding, "weight" | "file" | "line" | "column"> & { seen: string }): void {
    if (this.#isEnough(rule, at.file, at.weight)) return;
    const key = `${rule.id} ${at.weight}`;
    for (const name of [key, `${key} ${at.file}`]) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    const shown = excerpt(seen);
    const message = shown === "" ? rule.title : `${rule.title}: ${shown}`;
    this.#found.push({ rule: rule.id, ...at, message, fix: rule.fix });
  }

  /** Where something weighs more, what weighs little adds nothing. */
  #result(): ScanFinding[] {
    const heavy = new Set(this.#found.filter(({ weight }) => weight !== "low").map(placeOf));
    return this.#found
      .filter((finding) => finding.weight !== "low" || finding.line === undefined || !heavy.has(placeOf(finding)))
      .sort(
        (a, b) =>
          WEIGHTS.indexOf(a.weight) - WEIGHTS.indexOf(b.weight) ||
          byText(a.file, b.file) ||
          (a.line ?? 0) - (b.line ?? 0) ||
          (a.column ?? 0) - (b.column ?? 0) ||
          byText(a.rule, b.rule),
      )
      .slice(0, MOST.all);
  }
}

const LONGEST_HEAD = 64 * 1024;

/** The lists of words: one a rule over statements, then those of the rules over pages, then those that only have a page read. */
const LISTS = [
  ...TEXT_RULES.map(({ words }) => words),
  ...PAGE_RULES.flatMap(({ all }) => all),
  ...SIGNS.map(({ words }) => words),
  TOLD_WORDS,
  ...SKILL_WIDE_RULES.flatMap(({ all }) => all),
];
const PAGE_LISTS = PAGE_RULES.map(
  (_, at) => TEXT_RULES.length + PAGE_RULES.slice(0, at).reduce((sum, { all }) => sum + all.length, 0),
);

/** Signs of what the model is to do with what it finds. */
const ORDERED: ReadonlySet<SignKind> = new Set(["ships-out", "names-secrets", "takes-secrets", "sends", "tells"]);

/** How far a sign may be from a leading one, with what statements may be joined. */
const REACH = 12 + Math.max(...COMBINED_RULES.map(({ within }) => within));
const EFFECT_RULES = COMBINED_RULES.filter(({ all }) => all.every((kinds) => kinds.some(isIntentOrEffect)));
const EFFECT_REACH = 12 + Math.max(...EFFECT_RULES.map(({ within }) => within));
const BESIDE_OTHERS = new Set(
  COMBINED_RULES.filter((rule) => !EFFECT_RULES.includes(rule)).flatMap(({ all }) => all.flat()),
);
/** What else counts next to an effect. */
const BESIDE_EFFECTS = new Set(EFFECT_RULES.flatMap(({ all }) => all.flat()));
const FIRST_WIDE = LISTS.length - SKILL_WIDE_RULES.reduce((sum, { all }) => sum + all.length, 0);
const SKILL_WIDE_LISTS = SKILL_WIDE_RULES.map(
  (_, at) => FIRST_WIDE + SKILL_WIDE_RULES.slice(0, at).reduce((sum, { all }) => sum + all.length, 0),
);
const FIRST_SIGN = TEXT_RULES.length + PAGE_RULES.reduce((sum, { all }) => sum + all.length, 0);

let passing: Pass | undefined;

function pass(bytes: Uint8Array): Passed {
  passing ??= openWords(LISTS);
  return passing(bytes);
}

function isIntentOrEffect(kind: SignKind): boolean {
  return EFFECTS.has(kind) || INTENTS.has(kind);
}

function addAround(rows: Set<number>, line: number, reach: number): void {
  for (let row = line - reach; row <= line + reach; row++) rows.add(row);
}

/** Where characters stand. Contract: asked in rising order. */
class Lines {
  readonly #text: string;
  #line = 1;
  #start = 0;

  constructor(text: string) {
    this.#text = text;
  }

  at(index: number): { line: number; column: number } {
    const end = Math.min(index, this.#text.length);
    for (let next = this.#text.indexOf("\n", this.#start); next !== -1 && next < end; ) {
      this.#line++;
      this.#start = next + 1;
      next = this.#text.indexOf("\n", this.#start);
    }
    return { line: this.#line, column: end - this.#start + 1 };
  }
}

/** The words of code in a sentence, each where it is in the sentence. */
function inlineCode(text: string): string {
  return text
    .split("`")
    .map((part, at) => (at % 2 === 1 ? part : " ".repeat(part.length)))
    .join(" ");
}

function weightIn(weigh: Weighing, place: Place): Weight | undefined {
  return WEIGHTS.find((weight) => weight[0] === weigh[PLACES.indexOf(place)]);
}

function placeOf({ file, line }: ScanFinding): string {
  return `${line}:${file}`;
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

function utf16(bytes: Uint8Array): string | undefined {
  const mark = ((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0);
  if (mark !== 0xfffe && mark !== 0xfeff) return undefined;
  return new TextDecoder(mark === 0xfffe ? "utf-16le" : "utf-16be").decode(bytes.subarray(0, 2 * LARGEST));
}

function lineOfKey(head: string, key: string): number {
  return Math.max(
    0,
    head.split("\n").findIndex((line) => line.startsWith(`${key}:`)),
  );
}

function isInFiles(text: string, files: ScanSubject["files"], head: string): boolean {
  const end = head.indexOf("\n---", 3);
  for (const [path, { bytes }] of files) {
    const from = path === "SKILL.md" && end !== -1 ? Buffer.byteLength(head.slice(0, end)) : 0;
    if (Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes(text, from)) return true;
  }
  return false;
}
