import { median } from "../measure.mjs";
import { longQuery } from "./queries.mjs";
import { HOSTILE } from "./skills.mjs";

const ROUNDS = 15;
const WORDS = [20, 200, 2000];
const LETTERS = 5000;
/** Each letter more doubles what the hostile ones take: more than these would not end. */
const NATIVE_LETTERS = [18, 22, 26];
/** Patterns that nobody fears, and that have to be run on the same text. */
const PLAIN = ["a+$", "(a|ba)+$", "a.*b?[?]$", "[a-z]+a[a-z]*[?]$", "\\ba+(s|ing)?\\s*x?$"];

/** Milliseconds for queries of some lengths, and for one of a megabyte. */
export function costOfLength(matcher) {
  const rows = WORDS.map((words) => {
    const queries = Array.from({ length: ROUNDS }, (_, seed) => longQuery(words, seed + 1));
    return { words, ms: median(queries.map((query) => time(() => matcher.match(query)))) };
  });
  const megabyte = longQuery(200_000, 99).slice(0, 2 ** 20);
  return { rows, megabyte: median(Array.from({ length: ROUNDS }, () => time(() => matcher.match(megabyte)))) };
}

/** Milliseconds for queries of some lengths on skills without triggers, with their instructions. */
export function costOfSearch(matcher) {
  const rows = WORDS.map((words) => {
    const queries = Array.from({ length: ROUNDS }, (_, seed) => longQuery(words, seed + 1));
    const ask = (query) => matcher.match(query, { bodies: true });
    for (const query of queries) ask(query);
    return { words, ms: median(queries.map((query) => time(() => ask(query)))) };
  });
  return { rows };
}

/** Milliseconds for `aaa…!`: of all skills together, of skills with one pattern each, and of the RegExp of the language. */
export function costOfHostile({ matcher, createMatcher, defineSkill }) {
  const alone = (pattern) => {
    const frontmatter = { triggers: { patterns: [pattern] } };
    const skill = defineSkill({ name: "alone", description: "Has one pattern.", instructions: "None.", frontmatter });
    return { pattern, ms: timeOf(createMatcher([skill]), LETTERS) };
  };
  return {
    letters: LETTERS,
    together: [50, 500, 5000].map((letters) => ({ letters, ms: timeOf(matcher, letters) })),
    hostile: HOSTILE.map(alone),
    plain: PLAIN.map(alone),
    native: HOSTILE.map((pattern) => ({
      pattern,
      rows: NATIVE_LETTERS.map((letters) => nativeTime(pattern, letters)),
    })),
  };
}

function timeOf(matcher, letters) {
  const text = `${"a".repeat(letters)}!`;
  const once = () => time(() => matcher.match(text));
  for (let count = 0; count < ROUNDS; count++) once();
  return median(Array.from({ length: ROUNDS }, once));
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
