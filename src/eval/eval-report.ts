import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { replaceFile } from "../store/locked-file.ts";
import { createFolder, readRegularText } from "../util/file-access.ts";
import { isJsonObject } from "../util/objects.ts";
import { computeRate, type PairedComparison, type Rate } from "./pair-statistics.ts";
import { RECALL_RANKS, type TriggerEvaluation, type TriggerScore } from "./trigger-evaluation.ts";

/** `route`: matching without a model. `trigger`: a model chooses. `task`: the work is done and graded. `replay`: recorded runs. */
export const EVAL_LEVELS = ["route", "trigger", "task", "replay"] as const;
export type EvalLevel = (typeof EVAL_LEVELS)[number];

/** The result of an evaluation, as it is stored in `~/.skillet/evals` and printed by `--json`. The same form for every level. */
export interface EvalReport {
  version: 1;
  /** Sorts by time. */
  id: string;
  level: EvalLevel;
  /** ISO 8601. */
  at: string;
  ms: number;
  workspace?: string;
  /** The model, if one was used. */
  model?: string;
  /** Null without `--ci`. */
  passed: boolean | null;
  spent?: EvalSpending;
  skills: EvalSkillReport[];
}

/** The model calls of an evaluation. */
export interface EvalSpending {
  calls: number;
  inputTokens: number;
  outputTokens: number;
  /** Omitted if the price of the model is not configured. */
  dollars?: number;
  /** The ceiling in dollars, if one was set. */
  ceiling?: number;
  /** The day of the prices, if it is configured: the earliest one of the models. */
  priceDate?: string;
}

export interface EvalSkillReport {
  name: string;
  /** The digest of the skill's files, if it was run. */
  digest?: string;
  warnings: string[];
  rates: NamedRate[];
  comparisons: ArmComparison[];
  cases: EvalCaseReport[];
  misses: EvalMiss[];
}

/** A share: `recall@1`, `recall@3`, `false triggers`, or the arm whose trials passed. */
export interface NamedRate extends Rate {
  name: string;
}

/** An arm compared with the baseline. */
export interface ArmComparison extends PairedComparison {
  baseline: string;
  arm: string;
}

export interface EvalCaseReport {
  name: string;
  /** The trials by arm. */
  arms: Record<string, ArmTotals>;
  /** The reasons why trials failed, most frequent first. */
  failures: string[];
}

export interface ArmTotals {
  passed: number;
  trials: number;
  inputTokens: number;
  outputTokens: number;
  dollars?: number;
  ms: number;
}

/** A query with the wrong outcome. */
export interface EvalMiss {
  query: string;
  shouldTrigger: boolean;
  rank?: number;
  /** The skill that came first instead. */
  takenBy?: string;
}

/** The number of queries from which on a rate is worth comparing. */
export const MIN_QUERIES = 20;

/** Creates the beginning of a report. */
export function createEvalReport(level: EvalLevel, details: Partial<EvalReport> = {}, now = new Date()): EvalReport {
  const time = now.toISOString().replace(/\D/g, "");
  const id = `${time.slice(0, 8)}-${time.slice(8, 14)}-${randomBytes(4).toString("hex")}`;
  return { version: 1, id, level, at: now.toISOString(), ms: 0, passed: null, skills: [], ...details };
}

export function createSkillReport(name: string, details: Partial<EvalSkillReport> = {}): EvalSkillReport {
  return { name, warnings: [], rates: [], comparisons: [], cases: [], misses: [], ...details };
}

/** Reports what `evaluateTriggers` measured. */
export function reportTriggerScores({ skills }: TriggerEvaluation): EvalSkillReport[] {
  return skills.map((score) =>
    createSkillReport(score.skill, {
      rates: listTriggerRates(score),
      warnings: warnFewQueries(score.queries + score.others),
      misses: [
        ...score.misses.map((miss) => ({ ...miss, shouldTrigger: true })),
        ...score.falseTriggers.map((query) => ({ query, shouldTrigger: false })),
      ],
    }),
  );
}

/** Lists the rates of a score, with their intervals. */
export function listTriggerRates({ queries, first, others, false: wrong }: TriggerScore): NamedRate[] {
  return [
    ...RECALL_RANKS.map((rank) => ({ name: `recall@${rank}`, ...computeRate(first[rank], queries) })),
    { name: "false triggers", ...computeRate(wrong, others) },
  ];
}

/** Warns that a rate of few queries says little. */
export function warnFewQueries(count: number): string[] {
  return count >= MIN_QUERIES
    ? []
    : [`${count} of the ${MIN_QUERIES} queries that a rate needs: the intervals are wide`];
}

/** Stores a report under `~/.skillet/evals`, and returns its file. */
export function saveEvalReport(skilletHome: string, report: EvalReport): string {
  const folder = join(skilletHome, "evals");
  createFolder(folder, 0o700);
  const file = join(folder, `${report.id}.json`);
  replaceFile(file, `${JSON.stringify(report, null, 2)}\n`);
  return file;
}

/** Reads the stored reports, the newest first. Files that are not reports are left out. */
export function readEvalReports(skilletHome: string, limit = 100): EvalReport[] {
  let names: string[];
  try {
    names = readdirSync(join(skilletHome, "evals"));
  } catch {
    return []; // Nothing was evaluated yet.
  }
  const reports: EvalReport[] = [];
  for (const name of names
    .filter((one) => REPORT_FILE.test(one))
    .sort()
    .reverse()) {
    if (reports.length === limit) break;
    try {
      const report: unknown = JSON.parse(readRegularText(join(skilletHome, "evals", name)));
      if (isJsonObject(report) && report["version"] === 1 && Array.isArray(report["skills"]))
        reports.push(report as unknown as EvalReport);
    } catch {} // Another program's file, or one that was cut off.
  }
  return reports;
}

const REPORT_FILE = /^\d{8}-\d{6}-[0-9a-f]{8}\.json$/;
