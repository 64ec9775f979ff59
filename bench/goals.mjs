const MOST_MEGABYTES = 120;

/** Judges the goals. A goal has its measured value and whether it is met, or neither if its size was not run. */
const GOALS = [
  {
    text: "10,000 skills, cold: at most 3 × the floor",
    of: (at) => ratio(at(10_000, "skillet list, cold"), at(10_000, "floor"), 3),
  },
  {
    text: "10,000 skills, with the index: at most 1.6 × the floor",
    of: (at) => ratio(at(10_000, "skillet list, index"), at(10_000, "floor"), 1.6),
  },
  {
    text: "finds all 10,000",
    of: (at) => {
      const found = at(10_000, "skillet list, cold")?.found;
      return found === undefined ? undefined : { measured: String(found), isMet: found === 10_000 };
    },
  },
  {
    text: `10,000 skills, peak memory below ${MOST_MEGABYTES} MB`,
    of: (at) => {
      const rows = ["cold", "index"].map((name) => at(10_000, `skillet list, ${name}`)).filter(Boolean);
      if (rows.length === 0) return undefined;
      const peak = Math.max(...rows.map(({ megabytes }) => megabytes));
      return { measured: `${peak.toFixed(0)} MB`, isMet: peak < MOST_MEGABYTES };
    },
  },
  {
    text: "100 skills, with the index: at most 1.8 × node -e 0",
    of: (at) => ratio(at(100, "skillet list, index"), at(100, "node -e 0"), 1.8),
  },
  {
    text: "100 skills, --version: at most 1.3 × node -e 0",
    of: (at) => ratio(at(100, "skillet --version"), at(100, "node -e 0"), 1.3),
  },
  { text: "cold: a skill of 10,000 costs at most 1.5 × one of 1,000", of: (at) => growth(at, "skillet list, cold") },
  { text: "index: a skill of 10,000 costs at most 1.5 × one of 1,000", of: (at) => growth(at, "skillet list, index") },
];

export function judge(results) {
  const at = (size, name) => results.find((result) => result.size === size)?.rows.find((row) => row.name === name);
  return GOALS.map(({ text, of }) => ({ text, ...of(at) }));
}

/** Medians decide. The report also has the ratio of the shortest times, which other load on the machine affects less. */
function ratio(row, base, most) {
  if (!row || !base) return undefined;
  const [middle, least] = [row.ms / base.ms, row.least / base.least];
  return { measured: `${middle.toFixed(2)} × (shortest times ${least.toFixed(2)} ×)`, isMet: middle <= most };
}

function growth(at, name) {
  const perSkill = (size) => {
    const row = at(size, name);
    return row && { ms: row.ms / size, least: row.least / size };
  };
  return ratio(perSkill(10_000), perSkill(1000), 1.5);
}
