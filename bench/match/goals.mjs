const SIZE = 10_000;
/** Maximum cost of a word in a long query, relative to a word in a short one. */
const MOST_GROWTH = 1.2;
/** Maximum milliseconds for a query by its number of words, and maximum cost of a command relative to `node -e 0`. */
const MOST_SEARCH = { 20: 2, 2000: 10 };
const MOST_COLD = 3.5;
/** Maximum cost of a hostile pattern, relative to the most expensive plain one. */
const MOST_HOSTILE = 1.2;
const RECALL = { 0: 61, 5: 77, 20: 86 };

/** Judges the goals. A goal has its measured value and whether it is met, or neither if it was not run. */
export function judge({ speed, search, quality, tokens }) {
  const row = (name) => (speed.size === SIZE ? speed.rows.find((one) => one.name === name) : undefined);
  const [plain, bodies] = [row("skillet"), row("skillet, bodies")];
  return [
    below("10,000 skills: the matcher is built", plain?.build, 400),
    below("a query, median", plain?.median, 2),
    below("a query, 99th percentile", plain?.p99, 5),
    below("a query with instructions, 99th percentile", bodies?.p99, 30),
    ...searched(speed),
    cold(search),
    growth(speed.worst.lengths.rows),
    hostile(speed.worst.hostile),
    ...Object.entries(RECALL).map(([number, least]) => recall(quality, Number(number), least)),
    ...ofTokens(tokens),
  ];
}

function below(what, ms, most) {
  const text = `${what} below ${most} ms`;
  return ms === undefined ? { text } : { text, measured: `${ms.toFixed(2)} ms`, isMet: ms < most };
}

/** Judges queries on instructions of skills without triggers: the most distinctive words bound their cost. */
function searched({ size, worst }) {
  return Object.entries(MOST_SEARCH).map(([words, most]) => {
    const row = size === SIZE ? worst.searches.rows.find((one) => one.words === Number(words)) : undefined;
    return below(`a query of ${words} words with instructions`, row?.ms, most);
  });
}

function cold({ size, rows }) {
  const row = rows.find(({ name }) => name === "skillet explain, index");
  const text = `${size} skills: explain with the search index at most ${MOST_COLD} × node -e 0`;
  return { text, measured: `${row.ratio.toFixed(2)} ×`, isMet: row.ratio <= MOST_COLD };
}

function growth(rows) {
  const [short, long] = [rows.at(-2), rows.at(-1)];
  const times = long.ms / long.words / (short.ms / short.words);
  const text = `at ${long.words} words, each word costs at most ${MOST_GROWTH} × one at ${short.words}`;
  return { text, measured: `${times.toFixed(2)} ×`, isMet: times <= MOST_GROWTH };
}

function hostile({ hostile, plain }) {
  const times = Math.max(...hostile.map(({ ms }) => ms)) / Math.max(...plain.map(({ ms }) => ms));
  const text = `a hostile pattern costs at most ${MOST_HOSTILE} × the most expensive plain one`;
  return { text, measured: `${times.toFixed(2)} ×`, isMet: times <= MOST_HOSTILE };
}

function recall(quality, examples, least) {
  const text = `${examples === 0 ? "no" : examples} examples a skill: the right one among five for at least ${least} %`;
  const measured = quality?.rows.find((one) => one.examples === examples)?.at[5];
  return measured === undefined ? { text } : { text, measured: `${measured.toFixed(1)} %`, isMet: measured >= least };
}

function ofTokens({ number, budget, breadcrumb, aSkill, above, tight, named }) {
  const goal = (text, measured, isMet) => ({ text, measured, isMet });
  return [
    goal("the sentence with the number of skills takes about 10 tokens", String(breadcrumb), breadcrumb <= 11),
    goal("the list takes about 15 tokens a skill", aSkill.toFixed(1), aSkill <= 16.5),
    goal("of these at most 4 in addition to name and description", above.toFixed(2), above <= 4),
    goal(
      `${number} skills in ${budget} tokens keep every name`,
      `${named} in ${tight}`,
      named === number && tight <= budget,
    ),
  ];
}
