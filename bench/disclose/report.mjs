import { goalLines, machine, table } from "../report.mjs";

const COLUMNS = [
  ["a query", ({ tokens }) => tokens.toFixed(0)],
  ["unrelated", ({ idle }) => idle.toFixed(0)],
  ["a skill", ({ perSkill }) => perSkill.toFixed(1)],
  ["same", ({ same }) => same.toFixed(0)],
  ["names", ({ named }) => String(named)],
  ["cues", ({ cues }) => String(cues)],
  ["right %", ({ right }) => (right * 100).toFixed(0)],
];

export function asText({ sizes }) {
  const tables = sizes.map(({ size, queries, rows }) =>
    table(`${size} skills, ${queries} requests; tokens at four characters each`, COLUMNS, rows),
  );
  return `${[`What a list of skills costs. ${machine()}.`, ...tables, goalLines(judge({ sizes }))].join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function judge({ sizes }) {
  const at = (size) => sizes.find((one) => one.size === size).rows[0];
  const goal = (text, isMet, measured) => ({ text, isMet, measured });
  return [
    goal("60 skills: at least 95 % of the cues in the list", at(60).cues >= 57, `${at(60).cues} of 60`),
    goal("300 skills: every name in the list", at(300).named === 300, `${at(300).named} of 300`),
    goal("3,000 skills: at most 2,000 tokens for every query", at(3000).same <= 2000, at(3000).same.toFixed(0)),
  ];
}
