import type { Skill } from "../skill/skill.ts";
import type { SkillCopy } from "../skill/source/skill-copy.ts";
import { compareText } from "../util/text.ts";
import { PARTLY_READ_RULE, SOURCE_RULES, TEXT_RULES } from "./all-rules.ts";
import { createKeywordAutomaton, type KeywordHits, type KeywordPass } from "./keyword-automaton.ts";
import {
  FINDING_WEIGHTS,
  type FindingWeight,
  findCombinedSignal,
  formatExcerpt,
  type RegionWeights,
  type ScanFinding,
  type ScannedFile,
  type ScanRule,
  type ScanSubject,
  type SeenSignal,
  type SignalKind,
  TEXT_REGIONS,
  type TextRegion,
} from "./rule.ts";
import {
  EFFECT_SIGNALS,
  INTENT_SIGNAL_KINDS,
  LEADING_SIGNALS,
  SCAN_SIGNALS,
  SIGNAL_RULES,
} from "./rules/combined-signals.ts";
import { findInvisibleText } from "./rules/concealment.ts";
import { CROSS_FILE_RULES } from "./rules/cross-file.ts";
import { DISGUISED_FILE_RULES, detectMagic, isBinaryFile } from "./rules/deception.ts";
import { MANIFEST_MISMATCH_RULES, MANIFEST_MISMATCH_WORDS } from "./rules/manifest-mismatch.ts";
import { decodeCommand, ENCODED_COMMAND_RULE } from "./rules/obfuscation.ts";
import { detectSourceKind, isDetectionSample, isExplained, isOnlyMentioned, SourceText } from "./source-text.ts";

/** Creates the input of a scan from a skill and its copy. */
export function createScanSubject(skill: Skill, copy: SkillCopy): ScanSubject {
  return { name: skill.name, description: skill.description, manifest: skill.manifest, files: copy.files };
}

/**
 * Returns the findings that a person should review before they trust a skill, highest weight first. The cost is linear in its
 * size.
 */
export function scanSkill(subject: ScanSubject): ScanFinding[] {
  return new SkillScan().skill(subject);
}

/** Scans files without a manifest. */
export function scanFiles(files: ScanSubject["files"]): ScanFinding[] {
  return new SkillScan().files(files);
}

const MAX_SCANNED_BYTES = 1024 * 1024;
/** The maximum number of ignored matches in one line. */
const MAX_IGNORED = 32;
/** The maximum number of signals of one kind in a file. */
const MAX_SIGNALS = 48;
/** The maximum number of findings of one rule in a file and in a skill, and of all rules together. */
const MAX_FINDINGS = { file: 3, skill: 12, all: 100 };

class SkillScan {
  readonly #found: ScanFinding[] = [];
  readonly #counts = new Map<string, number>();
  readonly #pages: SourceText[] = [];
  /** The keyword lists with a match in some file. */
  readonly #lists = new Set<number>();
  #all: ScanSubject["files"] = new Map();

  skill({ description, manifest, files }: ScanSubject): ScanFinding[] {
    this.#scanFiles(files);
    const own = files.get("SKILL.md");
    let read: string | undefined;
    const head = () => {
      read ??= own ? decodeText(own.bytes.subarray(0, MAX_HEAD_LENGTH)) : "";
      return read;
    };
    const context = {
      description,
      manifest,
      pages: this.#pages,
      lineOf: (key: string) => findLineOfKey(head(), key),
      mentions: (text: string) => isMentionedInFiles(text, files, head()),
    };
    for (const rule of MANIFEST_MISMATCH_RULES) {
      for (const { file = "SKILL.md", line, weight = rule.weight, seen } of rule.find(context)) {
        this.#report(rule, { weight, file, line: line + 1, column: 1, seen });
      }
    }
    return this.#sortFindings();
  }

  files(files: ScanSubject["files"]): ScanFinding[] {
    this.#scanFiles(files);
    return this.#sortFindings();
  }

  #scanFiles(files: ScanSubject["files"]): void {
    this.#all = files;
    for (const [path, file] of files) this.#scanFile({ path, ...file });
    this.#applyCrossFileRules();
  }

  #applyCrossFileRules(): void {
    for (const [number, rule] of CROSS_FILE_RULES.entries()) {
      const from = CROSS_FILE_LISTS[number] as number;
      if (!rule.all.every((_, list) => this.#lists.has(from + list))) continue;
      const found = rule.find(this.#pages);
      if (!found) continue;
      const { file, line, seen } = found;
      this.#report(rule, { weight: found.weight ?? rule.weight, file, line: line + 1, column: 1, seen });
    }
  }

  #isSample(page: SourceText, line: number): boolean {
    return isDetectionSample(page, line, (path) => {
      const file = this.#all.get(path);
      return file && decodeText(file.bytes.subarray(0, MAX_HEAD_LENGTH));
    });
  }

  #scanFile(input: ScannedFile): void {
    const file = { ...input, kind: detectMagic(input.bytes) };
    for (const rule of DISGUISED_FILE_RULES) {
      const found = rule.find(file);
      if (found) this.#report(rule, { weight: found.weight ?? rule.weight, file: file.path, seen: found.seen });
    }
    const text = decodeUtf16Text(file.bytes);
    const bytes = text === undefined ? file.bytes : Buffer.from(text);
    if (text === undefined && isBinaryFile(file)) return;
    if (bytes.length > MAX_SCANNED_BYTES)
      this.#report(PARTLY_READ_RULE, { weight: "low", file: file.path, seen: "the first MiB" });
    this.#scanText(file, bytes.subarray(0, MAX_SCANNED_BYTES));
  }

  #scanText({ path, executable }: ScannedFile, bytes: Uint8Array): void {
    const keywordHits = findKeywords(bytes);
    if (keywordHits.hits.length === 0 && keywordHits.runs.length === 0 && !keywordHits.mayHide) return;
    const text = decodeText(bytes);
    const page = new SourceText(path, detectSourceKind(path, text, executable), text);
    this.#pages.push(page);
    if (keywordHits.mayHide) this.#findInvisible(page, text);
    this.#applyTextRules(page, keywordHits);
    this.#applySourceRules(page, keywordHits);
    this.#applySignalRules(page, keywordHits);
    this.#findEncodedCommands(page, bytes, keywordHits);
  }

  #applyTextRules(page: SourceText, { hits }: KeywordHits): void {
    for (let at = 0; at < hits.length; at += 2) {
      const rule = TEXT_RULES[hits[at] as number];
      if (!rule || this.#isAtLimit(rule, page.path)) continue;
      let ignored = 0;
      for (const statement of page.statements(hits[at + 1] as number)) {
        const found = rule.find(statement.text, statement);
        if (!found) continue;
        const { line, column } = page.locate(statement.line, statement.from + found.index);
        const place = page.placeAt(line, column);
        const weight = getRegionWeight(rule.regionWeights, place);
        if (weight === undefined && ++ignored < MAX_IGNORED) continue;
        if (weight === undefined) break;
        const isMention =
          weight !== "low" &&
          ((rule.skipsMentions !== false && isOnlyMentioned(page, { line, column, place })) ||
            this.#isSample(page, line));
        const seen = statement.text.slice(found.index, found.index + found.length);
        this.#report(rule, {
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

  #applySourceRules(page: SourceText, { hits }: KeywordHits): void {
    const lists = new Set<number>();
    for (let at = 0; at < hits.length; at += 2) lists.add(hits[at] as number);
    for (const list of lists) if (list >= FIRST_CROSS_FILE_LIST) this.#lists.add(list);
    for (const [number, rule] of SOURCE_RULES.entries()) {
      const from = SOURCE_RULE_LISTS[number] as number;
      if (!rule.keywordGroups.every((_, list) => lists.has(from + list))) continue;
      const found = rule.find(page);
      if (!found) continue;
      const { line, seen } = found;
      const place = page.placeAt(line);
      const isMention =
        this.#isSample(page, line) || (place === "block" && isOnlyMentioned(page, { line, column: 0, place }));
      const weight = isMention ? "low" : (found.weight ?? rule.weight);
      this.#report(rule, { weight, file: page.path, line: line + 1, column: 1, seen });
    }
  }

  #applySignalRules(page: SourceText, keywordHits: KeywordHits): void {
    const signals = this.#findSignals(page, keywordHits);
    for (const rule of SIGNAL_RULES) {
      const found = findCombinedSignal(rule, signals);
      if (!found) continue;
      const { line, column, seen } = found;
      if (rule.isFallback && this.#hasHighFinding(page.path, line + 1, rule.within)) continue;
      this.#report(rule, { weight: rule.weight, file: page.path, line: line + 1, column: column + 1, seen });
    }
  }

  #hasHighFinding(file: string, line: number, within: number): boolean {
    return this.#found.some(
      (finding) => finding.weight === "high" && finding.file === file && Math.abs((finding.line ?? 0) - line) <= within,
    );
  }

  /** Most signals count only near a leading one, so the scan does not look for them elsewhere. */
  #findSignals(page: SourceText, keywordHits: KeywordHits): SeenSignal[] {
    const leading = this.#findSignalsIn(page, keywordHits, (kind) => LEADING_SIGNALS.has(kind));
    if (leading.length === 0) return [];
    const near = new Set<number>();
    const nearEffects = new Set<number>();
    for (const { kind, line } of leading) {
      if (EFFECT_SIGNALS.has(kind)) addNearbyRows(nearEffects, line, EFFECT_REACH);
      if (OTHER_RULE_SIGNALS.has(kind)) addNearbyRows(near, line, SIGNAL_REACH);
    }
    const isNear = (kind: SignalKind, line: number) =>
      INTENT_SIGNAL_KINDS.has(kind)
        ? nearEffects.has(line)
        : near.has(line) || (EFFECT_RULE_SIGNALS.has(kind) && nearEffects.has(line));
    return [
      ...leading,
      ...this.#findSignalsIn(page, keywordHits, (kind, line) => !LEADING_SIGNALS.has(kind) && isNear(kind, line)),
    ];
  }

  #findSignalsIn(
    page: SourceText,
    { hits }: KeywordHits,
    isWanted: (kind: SignalKind, line: number) => boolean,
  ): SeenSignal[] {
    const signals: SeenSignal[] = [];
    const counts = new Map<SignalKind, number>();
    for (let at = 0; at < hits.length; at += 2) {
      const signal = SCAN_SIGNALS[(hits[at] as number) - FIRST_SIGNAL_LIST];
      const start = hits[at + 1] as number;
      if (!signal || !isWanted(signal.kind, start) || (counts.get(signal.kind) ?? 0) >= MAX_SIGNALS) continue;
      const isCode = page.isCode(start);
      if (signal.where === "prose" && (isCode || page.kind === "data")) continue;
      for (const statement of page.statements(start)) {
        const text = signal.where === "code" && !isCode ? keepInlineCode(statement.text) : statement.text;
        const found = signal.find(text, statement);
        if (!found) continue;
        const { line, column } = page.locate(statement.line, statement.from + found.index);
        const at = { line, column, place: page.placeAt(line, column), isOrder: ORDER_SIGNALS.has(signal.kind) };
        if (isExplained(page, at) || (signal.where === "code" && isOnlyMentioned(page, at))) continue;
        const seen = statement.text.slice(found.index, found.index + found.length);
        signals.push({ kind: signal.kind, line, column, seen });
        counts.set(signal.kind, (counts.get(signal.kind) ?? 0) + 1);
        break;
      }
    }
    return signals;
  }

  #findInvisible(page: SourceText, text: string): void {
    const lines = new LinePositions(text);
    for (const { rule, weight, index, seen } of findInvisibleText(text, page.kind === "code")) {
      this.#report(rule, { weight, file: page.path, ...lines.at(index), seen });
    }
  }

  #findEncodedCommands(page: SourceText, bytes: Uint8Array, { runs }: KeywordHits): void {
    for (let at = 0; at < runs.length && !this.#isAtLimit(ENCODED_COMMAND_RULE, page.path); at += 2) {
      const [from, to] = [runs[at] as number, runs[at + 1] as number];
      const command = decodeCommand(decodeText(bytes.subarray(from, Math.min(to, from + MAX_HEAD_LENGTH))));
      if (command === undefined) continue;
      const { line, column } = new LinePositions(decodeText(bytes.subarray(0, from))).at(Number.POSITIVE_INFINITY);
      const weight = getRegionWeight(ENCODED_COMMAND_RULE.weigh, page.placeAt(line - 1, column - 1));
      if (weight) this.#report(ENCODED_COMMAND_RULE, { weight, file: page.path, line, column, seen: command });
    }
  }

  /** Each weight has its own limit, so that low findings cannot displace higher ones. */
  #isAtLimit({ id, weight: max }: ScanRule, file: string, weight = max): boolean {
    const key = `${id} ${weight}`;
    const inSkill = this.#counts.get(key) ?? 0;
    if (inSkill < MAX_FINDINGS.file) return false;
    return inSkill >= MAX_FINDINGS.skill || (this.#counts.get(`${key} ${file}`) ?? 0) >= MAX_FINDINGS.file;
  }

  #report(
    rule: ScanRule,
    { seen, ...at }: Pick<ScanFinding, "weight" | "file" | "line" | "column"> & { seen: string },
  ): void {
    if (this.#isAtLimit(rule, at.file, at.weight)) return;
    const key = `${rule.id} ${at.weight}`;
    for (const name of [key, `${key} ${at.file}`]) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    const shown = formatExcerpt(seen);
    const message = shown === "" ? rule.title : `${rule.title}: ${shown}`;
    this.#found.push({ rule: rule.id, ...at, message, fix: rule.fix });
  }

  /** Low findings on a line with a higher one are dropped. */
  #sortFindings(): ScanFinding[] {
    const heavy = new Set(this.#found.filter(({ weight }) => weight !== "low").map(formatPlace));
    return this.#found
      .filter((finding) => finding.weight !== "low" || finding.line === undefined || !heavy.has(formatPlace(finding)))
      .sort(
        (a, b) =>
          FINDING_WEIGHTS.indexOf(a.weight) - FINDING_WEIGHTS.indexOf(b.weight) ||
          compareText(a.file, b.file) ||
          (a.line ?? 0) - (b.line ?? 0) ||
          (a.column ?? 0) - (b.column ?? 0) ||
          compareText(a.rule, b.rule),
      )
      .slice(0, MAX_FINDINGS.all);
  }
}

const MAX_HEAD_LENGTH = 64 * 1024;

/**
 * The keyword lists: one per text rule, then those of source rules and signals, then those that only make the scan read a page.
 */
const KEYWORD_LISTS = [
  ...TEXT_RULES.map(({ keywords: words }) => words),
  ...SOURCE_RULES.flatMap(({ keywordGroups: all }) => all),
  ...SCAN_SIGNALS.map(({ words }) => words),
  MANIFEST_MISMATCH_WORDS,
  ...CROSS_FILE_RULES.flatMap(({ all }) => all),
];
const SOURCE_RULE_LISTS = SOURCE_RULES.map(
  (_, at) => TEXT_RULES.length + SOURCE_RULES.slice(0, at).reduce((sum, { keywordGroups: all }) => sum + all.length, 0),
);

/** Signals of orders: the model must do something with the data it finds. */
const ORDER_SIGNALS: ReadonlySet<SignalKind> = new Set([
  "ships-out",
  "names-secrets",
  "takes-secrets",
  "sends",
  "tells",
]);

/** The maximum distance of a signal from a leading one, including joined lines. */
const SIGNAL_REACH = 12 + Math.max(...SIGNAL_RULES.map(({ within }) => within));
const EFFECT_RULES = SIGNAL_RULES.filter(({ all }) => all.every((kinds) => kinds.some(isIntentOrEffect)));
const EFFECT_REACH = 12 + Math.max(...EFFECT_RULES.map(({ within }) => within));
const OTHER_RULE_SIGNALS = new Set(
  SIGNAL_RULES.filter((rule) => !EFFECT_RULES.includes(rule)).flatMap(({ all }) => all.flat()),
);
/** Signals that also count near an effect. */
const EFFECT_RULE_SIGNALS = new Set(EFFECT_RULES.flatMap(({ all }) => all.flat()));
const FIRST_CROSS_FILE_LIST = KEYWORD_LISTS.length - CROSS_FILE_RULES.reduce((sum, { all }) => sum + all.length, 0);
const CROSS_FILE_LISTS = CROSS_FILE_RULES.map(
  (_, at) => FIRST_CROSS_FILE_LIST + CROSS_FILE_RULES.slice(0, at).reduce((sum, { all }) => sum + all.length, 0),
);
const FIRST_SIGNAL_LIST = TEXT_RULES.length + SOURCE_RULES.reduce((sum, { keywordGroups: all }) => sum + all.length, 0);

let keywordPass: KeywordPass | undefined;

function findKeywords(bytes: Uint8Array): KeywordHits {
  keywordPass ??= createKeywordAutomaton(KEYWORD_LISTS);
  return keywordPass(bytes);
}

function isIntentOrEffect(kind: SignalKind): boolean {
  return EFFECT_SIGNALS.has(kind) || INTENT_SIGNAL_KINDS.has(kind);
}

function addNearbyRows(rows: Set<number>, line: number, reach: number): void {
  for (let row = line - reach; row <= line + reach; row++) rows.add(row);
}

/** Converts indexes to lines and columns. Contract: call it with rising indexes. */
class LinePositions {
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

/** Keeps only the inline code of a sentence, at its position. */
function keepInlineCode(text: string): string {
  return text
    .split("`")
    .map((part, at) => (at % 2 === 1 ? part : " ".repeat(part.length)))
    .join(" ");
}

function getRegionWeight(weights: RegionWeights, place: TextRegion): FindingWeight | undefined {
  return FINDING_WEIGHTS.find((weight) => weight[0] === weights[TEXT_REGIONS.indexOf(place)]);
}

function formatPlace({ file, line }: ScanFinding): string {
  return `${line}:${file}`;
}

function decodeText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

function decodeUtf16Text(bytes: Uint8Array): string | undefined {
  const mark = ((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0);
  if (mark !== 0xfffe && mark !== 0xfeff) return undefined;
  return new TextDecoder(mark === 0xfffe ? "utf-16le" : "utf-16be").decode(bytes.subarray(0, 2 * MAX_SCANNED_BYTES));
}

function findLineOfKey(head: string, key: string): number {
  return Math.max(
    0,
    head.split("\n").findIndex((line) => line.startsWith(`${key}:`)),
  );
}

function isMentionedInFiles(text: string, files: ScanSubject["files"], head: string): boolean {
  const end = head.indexOf("\n---", 3);
  for (const [path, { bytes }] of files) {
    const from = path === "SKILL.md" && end !== -1 ? Buffer.byteLength(head.slice(0, end)) : 0;
    if (Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes(text, from)) return true;
  }
  return false;
}
