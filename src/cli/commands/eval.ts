import { existsSync, realpathSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Catalog, openCatalog } from "../../catalog/catalog.ts";
import {
  type Evaluation,
  evaluate,
  PLACES,
  recall,
  type Score,
  type SkillScore,
  type Subject,
} from "../../catalog/evaluate.ts";
import { openMatcher } from "../../catalog/match.ts";
import { unavailability } from "../../policy/policy.ts";
import { SkillError } from "../../shared/error.ts";
import { isInside } from "../../shared/inside.ts";
import { count, grouped } from "../../shared/text.ts";
import { directorySource } from "../../source/directory.ts";
import { expectedFolder } from "../../source/file-list.ts";
import { readTriggerQueries, TRIGGER_QUERIES } from "../../source/trigger-queries.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { waitingFor } from "../progress.ts";
import { sayLine } from "../say.ts";

interface EvalOptions {
  all?: boolean;
  misses?: boolean;
  ci?: boolean;
  threshold: string;
}

/** Measures whether queries find the skills that they are for. */
export async function evaluateSkills({ io, options, args }: Context<EvalOptions>): Promise<number> {
  const threshold = shareOf(options.threshold);
  const { catalog, skills, names, maxSkills } = await subjectsFor(io, options, args);
  const { subjects, problems, training } = queriesOf(catalog, names);
  const evaluation = await waitingFor(io, "measuring", ({ at }) => {
    const onScored = (done: number) => at(`measuring ${grouped(done)} of ${count(subjects.length, "skill")}`);
    return evaluate(openMatcher(skills), subjects, { maxSkills, onScored });
  });
  const error = printer(io.stderr, io.env);
  for (const { skill, problem } of problems) error.line`${error.yellow("!")} ${skill}: ${TRIGGER_QUERIES} ${problem}`;
  const isEmpty = evaluation.all.queries + evaluation.all.others === 0;
  if (options.json) printJson(io.stdout, { threshold, training, ...asJson(evaluation) });
  else if (!isEmpty) printTable(io, evaluation, options.misses ?? false);
  if (isEmpty) sayWhatToWrite(error, training);
  else if (!options.json)
    sayLine(
      error,
      `held-out queries only; ${count(training, "training query serves as an example", "training queries serve as examples")}. told: its instructions were given at once`,
      error.dim,
    );
  if (!options.ci) return EXIT.fine;
  const isGood = !isEmpty && problems.length === 0 && isAbove(evaluation.all, threshold);
  error.line`${isGood ? error.green("✓") : error.red("✗")} recall@3 ${percent(recall(evaluation.all, 3))}, false triggers ${percent(falseShare(evaluation.all))}; wanted at least ${percent(threshold)} and at most ${percent(1 - threshold)}${problems.length > 0 ? "; a file of queries is wrong" : ""}`;
  return isGood ? EXIT.fine : EXIT.findings;
}

function shareOf(text: string): number {
  const number = Number(text);
  if (text.trim() !== "" && number >= 0 && number <= 1) return number;
  throw new SkillError("usage", {
    message: `The threshold "${text}" is not a number from 0 to 1`,
    fix: "for example --threshold 0.8",
  });
}

/** The skills to be measured, by name, among those that they compete with: their neighbours, or every skill that is found. */
async function subjectsFor(io: Io, options: Context<EvalOptions>["options"], args: readonly string[]) {
  const given = args.map((arg) => ({ arg, path: resolve(io.cwd, arg.replace(/[\\/]SKILL\.md$/, "")) }));
  const paths = given.flatMap(({ path }) => (existsSync(path) ? path : []));
  const named = given.flatMap(({ arg, path }) => (existsSync(path) ? [] : arg));
  const folders = [...new Set(paths.map((path) => (isSkillFolder(path) ? dirname(path) : path)))];
  const isHermetic = args.length > 0 && named.length === 0 && !options.all;
  const sources = folders.map((path) => directorySource({ path, scope: "inline" }));
  const own = await openCatalog(sources);
  const names = own.skills.flatMap(({ name, origin }) => (isAsked(origin.folder, paths) ? name : []));
  if (isHermetic) return { catalog: own, skills: own.skills, names, maxSkills: undefined };
  const found = await discoverFor(io, options, { sources });
  warnOfConfiguration(io, found);
  for (const name of named) found.catalog.get(name);
  const skills = found.catalog.available((skill) => unavailability(skill, found));
  const there = new Set(skills.map(({ name }) => name));
  const asked = args.length === 0 ? found.catalog.names() : [...names, ...named];
  return {
    catalog: found.catalog,
    skills,
    names: asked.filter((name) => there.has(name)),
    maxSkills: found.settings.disclosure.maxSkills,
  };
}

function isSkillFolder(path: string): boolean {
  return existsSync(join(path, "SKILL.md"));
}

function isAsked(folder: string | undefined, paths: readonly string[]): boolean {
  return folder !== undefined && paths.some((path) => isInside(realpathSync(path), folder));
}

function queriesOf(catalog: Catalog, names: readonly string[]) {
  const subjects: Subject[] = [];
  const problems: { skill: string; problem: string }[] = [];
  let training = 0;
  for (const name of names) {
    const skill = catalog.get(name);
    const { folder } = skill.origin;
    const asked = folder === undefined ? undefined : readTriggerQueries(folder, expectedFolder(skill.origin));
    if (asked?.problem !== undefined) problems.push({ skill: name, problem: asked.problem });
    if (!asked) continue;
    const heldOut = asked.queries.filter(({ isHeldOut }) => isHeldOut);
    training += asked.queries.length - heldOut.length;
    if (heldOut.length > 0) subjects.push({ skill, queries: heldOut });
  }
  return { subjects, problems, training };
}

function sayWhatToWrite(error: Printer, training: number): void {
  if (training > 0)
    error.line`there are ${training} training queries and none is held out: add more, or mark some with "split": "test"`;
  else
    error.line`no skill has ${TRIGGER_QUERIES}: write one as [{ "query": "…", "should_trigger": true }, …], with queries it is not for too`;
}

function printTable(io: Io, { skills, all }: Evaluation, withMisses: boolean): void {
  const out = printer(io.stdout, io.env);
  const widest = Math.max("skill".length, ...skills.map(({ skill }) => skill.length));
  out.line`${out.bold("skill".padEnd(widest))}  ${out.bold("queries     @1     @3     @5   told  false")}  ${out.bold("taken by")}`;
  const row = (name: string, score: Score, taken: string) => {
    const shares = PLACES.map((place) => percent(recall(score, place)).padStart(5)).join("  ");
    const told = `${score.told}/${score.queries}`.padStart(5);
    out.line`${name.padEnd(widest)}  ${String(score.queries).padStart(7)}  ${shares}  ${told}  ${`${score.false}/${score.others}`.padStart(5)}  ${taken}`;
  };
  for (const score of skills) {
    row(
      score.skill,
      score,
      score.takenBy
        .slice(0, 3)
        .map(({ skill, times }) => `${skill} ${times}x`)
        .join(", "),
    );
    if (withMisses) printMisses(out, score);
  }
  if (skills.length > 1) row("all", all, "");
}

function printMisses(out: Printer, { misses, falseTriggers }: SkillScore): void {
  for (const { query, rank, takenBy } of misses) {
    out.line`    ${out.yellow("missed")} ${query}  ${out.dim(`${rank === undefined ? "not found" : `came ${rank}.`}${takenBy === undefined ? "" : `, first was ${takenBy}`}`)}`;
  }
  for (const query of falseTriggers) out.line`    ${out.red("false")} ${query}`;
}

function asJson({ skills, all }: Evaluation): object {
  const withShares = <S extends Score>(score: S) => ({
    ...score,
    recall: Object.fromEntries(PLACES.map((place) => [place, recall(score, place) ?? null])),
  });
  return { all: withShares(all), skills: skills.map(({ skill, ...score }) => ({ name: skill, ...withShares(score) })) };
}

function falseShare({ others, false: wrong }: Score): number | undefined {
  return others === 0 ? undefined : wrong / others;
}

/** 1 - 0.8 is a little less than 0.2 to a computer. */
const ROUNDING = 1e-9;

function isAbove(all: Score, threshold: number): boolean {
  return (recall(all, 3) ?? 1) >= threshold && (falseShare(all) ?? 0) <= 1 - threshold + ROUNDING;
}

function percent(share: number | undefined): string {
  return share === undefined ? "-" : `${Math.round(share * 100)} %`;
}
