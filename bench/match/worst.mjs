import { median } from "../measure.mjs";
import { longQuery } from "./queries.mjs";
import { HOSTILE } from "./skills.mjs";

const ROUNDS = 15;
const WORDS = [20, 200, 2000];
const LETTERS = 5000;
/** Each additional letter doubles the time of the hostile patterns: longer texts would not finish. */
const NATIVE_LETTERS = [18, 22, 26];
/** Harmless patterns that also have to run on the same text. */
const PLAIN = ["a+$", "(a|ba)+$", "a.*b?[?]$", "[a-z]+a[a-z]*[?]$", "\\ba+(s|ing)?\\s*x?$"];

/** Measures queries of some lengths, and one of a megabyte, in ms. */
export async function costOfLength(matcher) {
  const rows = [];
  for (const words of WORDS) {
    const queries = Array.from({ length: ROUNDS }, (_, seed) => longQuery(words, seed + 1));
    rows.push({ words, ms: median(await timeEach(queries, (query) => matcher.match(query))) });
  }
  const megabyte = longQuery(200_000, 99).slice(0, 2 ** 20);
  return { rows, megabyte: median(await timeEach(Array(ROUNDS).fill(megabyte), (query) => matcher.match(query))) };
}

/** Measures queries of some lengths on the instructions of skills without triggers, in ms. */
export async function costOfSearch(matcher) {
  const rows = [];
  for (const words of WORDS) {
    const queries = Array.from({ length: ROUNDS }, (_, seed) => longQuery(words, seed + 1));
    const ask = (query) => matcher.match(query, { bodies: true });
    for (const query of queries) await ask(query);
    rows.push({ words, ms: median(await timeEach(queries, ask)) });
  }
  return { rows };
}

/** Measures `aaa…!` in ms: with all skills, with skills with one pattern each, and with the language's RegExp. */
export async function costOfHostile({ matcher, createMatcher, defineSkill }) {
  const alone = async (pattern) => {
    const frontmatter = { triggers: { patterns: [pattern] } };
    const skill = defineSkill({ name: "alone", description: "Has one pattern.", instructions: "None.", frontmatter });
    return { pattern, ms: await timeOf(createMatcher([skill]), LETTERS) };
  };
  return {
    letters: LETTERS,
    together: await mapEach([50, 500, 5000], async (letters) => ({ letters, ms: await timeOf(matcher, letters) })),
    hostile: await mapEach(HOSTILE, alone),
    plain: await mapEach(PLAIN, alone),
    native: HOSTILE.map((pattern) => ({
      pattern,
      rows: NATIVE_LETTERS.map((letters) => nativeTime(pattern, letters)),
    })),
  };
}

async function timeOf(matcher, letters) {
  const texts = Array(ROUNDS).fill(`${"a".repeat(letters)}!`);
  await timeEach(texts, (text) => matcher.match(text));
  return median(await timeEach(texts, (text) => matcher.match(text)));
}

/** Maps the items one after the other. */
async function mapEach(items, map) {
  const mapped = [];
  for (const item of items) mapped.push(await map(item));
  return mapped;
}

function timeEach(queries, ask) {
  return mapEach(queries, async (query) => {
    const start = process.hrtime.bigint();
    await ask(query);
    return Number(process.hrtime.bigint() - start) / 1e6;
  });
}

function nativeTime(pattern, letters) {
  const expression = new RegExp(pattern);
  return { letters, ms: time(() => expression.test(`${"a".repeat(letters)}!`)) };
}

function time(work) {
  const start = process.hrtime.bigint();
  work();
  return Number(process.hrtime.bigint() - start) / 1e6;
}
