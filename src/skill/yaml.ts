import {
  CORE_SCHEMA,
  constructFromEvents,
  DUMP_SCHEMA,
  defineMappingTag,
  defineScalarTag,
  dump,
  EVENT_ID,
  type Event,
  floatCoreTag,
  intCoreTag,
  NOT_RESOLVED,
  parseEvents,
  SCALAR_STYLE,
  type Schema,
  visit,
  YAMLException,
} from "js-yaml";
import { oneLine } from "../shared/text.ts";
import { type Data, emptyData } from "./data.ts";
import type { Finding } from "./diagnostic.ts";
import { newlines } from "./frame.ts";
import { readSimpleYaml } from "./simple-yaml.ts";

export interface ReadYaml {
  data: Data;
  findings: Finding[];
}

/** Reads one YAML mapping. Aliases, tags, deep nesting and floods of keys are refused; a duplicate key is said. */
export function readYaml(source: string, firstLine: number): ReadYaml {
  const simple = readSimpleYaml(source);
  return simple ? { data: simple, findings: [] } : readAnyYaml(source, firstLine);
}

/** As `readYaml`, always with the real parser. */
export function readAnyYaml(source: string, firstLine: number): ReadYaml {
  const findings: Finding[] = [];
  const fail = (finding: Finding): ReadYaml => ({ data: emptyData(), findings: [...findings, finding] });
  try {
    const events = parseEvents(source, LIMITS);
    const refused = refusedEvent(events, source, firstLine);
    if (refused) return fail(refused);
    const documents = construct(events, source, firstLine, findings);
    if (documents.length > 1) {
      return fail({ code: "yaml-documents", message: "holds several YAML documents", line: firstLine, column: 1 });
    }
    const [data] = documents;
    if (data === undefined || data === null) return { data: emptyData(), findings };
    if (typeof data === "object" && !Array.isArray(data)) return { data: data as Data, findings };
    const message = `is ${Array.isArray(data) ? "a list" : "one value"}, not key: value lines`;
    return fail({ code: "frontmatter-type", message, line: firstLine, column: 1 });
  } catch (error) {
    return fail(explain(error, firstLine));
  }
}

/** Writes data so that `readYaml` (and YAML 1.1 readers) give the same data back. */
export function writeYaml(data: Data): string {
  // What was read has no prototype, down to the last mapping, and js-yaml writes no such objects.
  return dump(structuredClone(data), {
    schema: DUMP_SCHEMA,
    lineWidth: -1,
    noRefs: true,
    quoteStyle: "double",
    // A plain key that starts so would end the document.
    transform: (documents) =>
      visit(documents, (node) => {
        if (node.kind === "scalar" && /^(?:---|\.\.\.)(?:\s|$)/.test(node.value))
          node.style = SCALAR_STYLE.DOUBLE_QUOTED;
      }),
  });
}

/**
 * Quotes, line by line, what kept YAML from being read: an unquoted `: `, a value that starts with `@` or a bracket,
 * a quote that is not closed, tabs as indentation. Nothing when that does not help.
 */
export function mend(source: string, firstLine: number): { text: string; result: ReadYaml } | undefined {
  if (newlines(source) > MOST_LINES) return undefined;
  const findings: Finding[] = [];
  const lines: string[] = [];
  const blocks = topLevelBlocks(source);
  const budget = { left: MOST_TRIES };
  if (blocks.length > MOST_KEYS) return undefined;
  for (const block of blocks) {
    const mended = mendBlock(block.lines, budget);
    if (budget.left <= 0) return undefined;
    for (const [offset, key] of mended.changed) {
      const message = `the value of "${oneLine(key, 64)}" is not valid YAML as it stands; it was read as text`;
      findings.push({ code: "yaml-repaired", message, line: firstLine + block.start + offset, column: 1 });
    }
    lines.push(...mended.lines);
  }
  if (findings.length === 0) return undefined;
  const text = lines.join("\n");
  const result = readYaml(text, firstLine);
  if (result.findings.some((finding) => finding.code !== "yaml-duplicate")) return undefined;
  return { text, result: { data: result.data, findings: [...findings, ...result.findings] } };
}

const LIMITS = { maxDepth: 16 };
const MOST_KEYS = 256;
/** How many lines are looked at one by one: who writes more that is wrong did not mean YAML. */
const MOST_TRIES = 400;
/** No frontmatter that somebody wrote has more, and to look for what is wrong takes as long as reading it. */
const MOST_LINES = 4000;
const TOO_MANY_KEYS = `more than ${MOST_KEYS} keys in one place`;

/** Made when first asked for: most starts read no YAML that needs it. */
let made: Schema | undefined;

function schema(): Schema {
  made ??= CORE_SCHEMA.withTags(
    // `.inf`, `.nan` and 1e999 have no place in a skill and none in JSON: they stay the text they were written as.
    [intCoreTag, floatCoreTag].map((tag) =>
      defineScalarTag(tag.tagName, {
        ...tag,
        resolve(source, isExplicit, tagName) {
          const value = tag.resolve(source, isExplicit, tagName);
          return typeof value === "number" && !Number.isFinite(value) ? NOT_RESOLVED : value;
        },
      }),
    ),
    defineMappingTag<{ data: Data; size: number }, Data>("tag:yaml.org,2002:map", {
      create: () => ({ data: emptyData(), size: 0 }),
      addPair(carrier, key, value) {
        if (key !== null && typeof key === "object") return "a list or mapping as a key";
        if (++carrier.size > MOST_KEYS) return TOO_MANY_KEYS;
        carrier.data[String(key)] = value;
        return "";
      },
      has: (carrier, key) => String(key) in carrier.data,
      keys: (data) => Object.keys(data),
      get: (data, key) => data[String(key)],
      finalize: (carrier) => carrier.data,
      identify: (data) => data !== null && typeof data === "object" && !Array.isArray(data),
    }),
  );
  return made;
}

function construct(events: Event[], source: string, firstLine: number, findings: Finding[]): unknown[] {
  try {
    return constructFromEvents(events, { source, schema: schema(), maxAliases: 0 });
  } catch (error) {
    if (!(error instanceof YAMLException) || !error.reason.includes("duplicated mapping key")) throw error;
    findings.push({ code: "yaml-duplicate", message: "a key stands twice", ...place(error, firstLine) });
    return constructFromEvents(events, { source, schema: schema(), maxAliases: 0, json: true });
  }
}

function refusedEvent(events: Event[], source: string, firstLine: number): Finding | undefined {
  for (const event of events) {
    if (event.type === EVENT_ID.POP || event.type === EVENT_ID.DOCUMENT) continue;
    if (event.anchorStart !== -1) {
      const message = "uses an anchor or alias (& or *)";
      return { code: "yaml-alias", message, ...positionIn(source, event.anchorStart, firstLine) };
    }
    if (event.type !== EVENT_ID.ALIAS && event.tagStart !== -1) {
      const message = "uses a YAML tag (!)";
      return { code: "yaml-tag", message, ...positionIn(source, event.tagStart, firstLine) };
    }
  }
  return undefined;
}

// The parser's own message quotes the file, which may be a link to something that is no skill: only its reason is used.
function explain(error: unknown, firstLine: number): Finding {
  if (!(error instanceof YAMLException)) {
    return { code: "yaml-syntax", message: "cannot be read as YAML", line: firstLine, column: 1 };
  }
  const why = error.reason.replace(/["<][^">]*[">]/g, "…");
  const limit = error.reason.includes(TOO_MANY_KEYS)
    ? `has ${TOO_MANY_KEYS}`
    : /depth/i.test(why)
      ? "is nested too deep"
      : undefined;
  return limit
    ? { code: "yaml-limit", message: limit, ...place(error, firstLine) }
    : { code: "yaml-syntax", message: `is not valid YAML: ${why}`, ...place(error, firstLine) };
}

function place(error: YAMLException, firstLine: number): { line: number; column: number } {
  return { line: firstLine + (error.mark?.line ?? 0), column: (error.mark?.column ?? 0) + 1 };
}

function positionIn(source: string, index: number, firstLine: number): { line: number; column: number } {
  const before = source.slice(0, index).split("\n");
  return { line: firstLine + before.length - 1, column: (before.at(-1)?.length ?? 0) + 1 };
}

interface Block {
  start: number;
  lines: string[];
}

/** The lines of each top-level key. Comments between two keys belong to neither. */
function topLevelBlocks(source: string): Block[] {
  const blocks: Block[] = [];
  for (const [index, line] of source.split("\n").entries()) {
    const last = blocks.at(-1);
    if (last && !KEY_LINE.test(line)) {
      last.lines.push(line);
      continue;
    }
    const own = (last?.lines.findLastIndex((one) => !one.startsWith("#")) ?? 0) + 1;
    const comments = own > 0 ? (last?.lines.splice(own) ?? []) : [];
    if (comments.length > 0) blocks.push({ start: index - comments.length, lines: comments });
    blocks.push({ start: index, lines: [line] });
  }
  return blocks;
}

const KEY_LINE = /^["']?[A-Za-z_$][\w.$-]*["']?:/;
const FIRST_LINE = /^(["']?[A-Za-z_$][\w.$-]*["']?):[ \t]*(.*)$/;
const NESTED_LINE = /^([ \t]+(?:- +)?(["']?[\w.$-]+["']?):[ \t]+|[ \t]*- +)(.*)$/;

interface MendedBlock {
  lines: string[];
  /** Offset of each line that was changed, and the key it belongs to. */
  changed: [number, string][];
}

function mendBlock(lines: string[], budget: { left: number }): MendedBlock {
  const [first = "", ...rest] = lines;
  const parts = FIRST_LINE.exec(first);
  budget.left--;
  if (!parts || isValid(lines.join("\n"))) return { lines, changed: [] };
  const [, key = "", value = ""] = parts;
  if (value !== "" && !/^[|>]/.test(value)) {
    if (rest.some((line) => /^\S/.test(line))) return { lines, changed: [] };
    const blank = lines.length - lines.findLastIndex((line) => line.trim() !== "") - 1;
    const folded = [value, ...rest.map((line) => line.trim()).filter(Boolean)].join(" ");
    return { lines: [`${key}: ${quote(folded)}`, ...Array(blank).fill("")], changed: [[0, key]] };
  }
  const changed: [number, string][] = [];
  budget.left -= rest.length;
  if (budget.left <= 0) return { lines, changed };
  const mended = rest.map((line, index) => {
    const spaced = line.replace(/^\t+/, (tabs) => "  ".repeat(tabs.length));
    const nested = NESTED_LINE.exec(spaced);
    const [, lead = "", , text = ""] = nested ?? [];
    const quoted = nested && !isValid(`x: ${text}`) && !/^[|>&]/.test(text) ? lead + quote(text) : spaced;
    if (quoted !== line) changed.push([index + 1, key]);
    return quoted;
  });
  return { lines: [first, ...mended], changed };
}

/** Only bad syntax is mended: what breaks a limit or uses an alias stays refused. */
function isValid(text: string): boolean {
  return !readYaml(text, 1).findings.some(
    (finding) => finding.code === "yaml-syntax" || finding.code === "frontmatter-type",
  );
}

/** A value as quoted text. A comment after it stays: it may be what the author meant as text. */
function quote(value: string): string {
  const at = value.search(/[ \t]#/);
  const text = (at === -1 ? value : value.slice(0, at)).trim();
  const comment = at === -1 ? "" : value.slice(at).trimEnd();
  const mark = text[0];
  if (mark !== '"' && mark !== "'") return JSON.stringify(text) + comment;
  const inner = text.slice(1);
  const meant = inner.endsWith(mark) ? inner.slice(0, -1) : inner.includes(mark) ? text : inner;
  return JSON.stringify(meant) + comment;
}
