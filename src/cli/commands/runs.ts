import { RUN_STATES, type RunState, type RunSummary } from "../../host/runs.ts";
import { SkillError } from "../../shared/error.ts";
import { count, nearest, oneLine } from "../../shared/text.ts";
import { effectLine, inputLine } from "../effect.ts";
import { EXIT } from "../exit.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { sayUsage } from "../progress.ts";
import { ago, markOf, nextOf, outcomeOf, paintOutcome, runsFor, shortId, subjectOf, tookOf } from "../run-words.ts";
import { sayLine } from "../say.ts";
import { sinceOf } from "../since.ts";

interface RunsOptions {
  state?: string;
  skill?: string;
  since?: string;
  number?: string;
}

const MOST = 20;

/** Lists what was done, the newest first. */
export async function runs({ io, options, args: [unknown] }: Context<RunsOptions>): Promise<number> {
  if (unknown !== undefined) throw noSuch(unknown);
  const all = runsFor(io, options).list();
  const fitting = all.filter(fits(options));
  const shown = fitting.slice(0, options.number === undefined ? MOST : numberOf("--number", options.number));
  if (options.json) {
    printJson(io.stdout, { runs: shown, total: fitting.length });
    return EXIT.fine;
  }
  printRuns(printer(io.stdout, io.env), shown);
  const error = printer(io.stderr, io.env);
  if (all.length === 0) sayEmpty(io);
  else if (fitting.length === 0) error.line`none of ${count(all.length, "run")} is like that`;
  else if (fitting.length > shown.length)
    error.line`${error.dim(`and ${count(fitting.length - shown.length, "older one")}: skillet runs -n ${fitting.length}`)}`;
  return EXIT.fine;
}

function noSuch(word: string): SkillError {
  const meant = nearest(word, ["show", "prune"]);
  const fix = meant ? `did you mean skillet runs ${meant}?` : `to see one: skillet runs show ${word}`;
  return new SkillError("usage", { message: `skillet runs takes no "${word}"`, fix });
}

function sayEmpty(io: Io): void {
  const out = printer(io.stderr, io.env);
  sayLine(
    out,
    "there are no runs yet: each use of a skill and each answer of a chat would be here, with what it did and cost",
  );
  out.line`  begin with: ${out.cyan("skillet run host-report")}`;
}

/** What `--state` takes: a state, or how it ended. */
const CHOICES: Readonly<Record<string, (run: RunSummary) => boolean>> = {
  ...Object.fromEntries(RUN_STATES.map((state: RunState) => [state, (run: RunSummary) => run.state === state])),
  done: ({ state, end }) => state === "ended" && end?.isError === false,
  failed: ({ state, end }) => state === "ended" && end?.isError === true,
};

function fits({ state, skill, since }: RunsOptions): (run: RunSummary) => boolean {
  const isChosen = state === undefined ? () => true : CHOICES[state];
  if (!isChosen) {
    const meant = nearest(state ?? "", Object.keys(CHOICES));
    const fix = meant ? `did you mean ${meant}?` : `there are: ${Object.keys(CHOICES).join(", ")}`;
    throw new SkillError("usage", { message: `--state is "${state}", which is none`, fix });
  }
  const from = since === undefined ? 0 : sinceOf(since).getTime();
  return (run) => isChosen(run) && (skill === undefined || subjectOf(run) === skill) && Date.parse(run.at) >= from;
}

export function numberOf(option: string, given: string): number {
  if (/^\d{1,9}$/.test(given)) return Number(given);
  throw new SkillError("usage", { message: `${option} is "${given}", which is no number`, fix: `as in ${option} 50` });
}

const WIDEST = 100;
const LONGEST_NAME = 24;

/** Two lines each: what became of it, and what was asked; then what to do, where something is to be done, and with what input if that is wanted. */
export function printRuns(out: Printer, rows: readonly RunSummary[], { hasInput = false } = {}): void {
  const width = Math.min(out.width, WIDEST);
  const shown = rows.map((run) => ({ run, id: shortId(run.id), when: ago(run.at), details: detailsOf(run) }));
  const widest = (texts: readonly string[]) => Math.max(0, ...texts.map(({ length }) => length));
  const ids = widest(shown.map(({ id }) => id));
  const whens = widest(shown.map(({ when }) => when));
  const outcomes = widest(rows.map(outcomeOf));
  const details = widest(shown.map((row) => row.details));
  const room = width - (2 + ids + 2 + whens + 2 + 2 + outcomes + 2 + details);
  const longest = widest(rows.map(subjectOf));
  const names = Math.max(Math.min(8, longest), Math.min(LONGEST_NAME, room, longest));
  for (const { run, id, when, details: more } of shown) {
    const name = oneLine(subjectOf(run), names).padEnd(names);
    const outcome = paintOutcome(out, run, outcomeOf(run).padEnd(more === "" ? 0 : outcomes));
    const left = Math.max(1, width - (2 + ids + 2 + whens + 2 + names + 2 + outcomes + 2));
    const end = more === "" ? outcome : out.text`${outcome}  ${out.dim(oneLine(more, left))}`;
    out.line`${markOf(out, run)} ${id.padEnd(ids)}  ${out.dim(when.padEnd(whens))}  ${out.bold(name)}  ${end}`;
    if (run.task !== "") out.line`  ${oneLine(run.task, width - 2)}`;
    if (run.effect && run.state === "waiting")
      out.line`  ${oneLine(`somebody has to agree: ${effectLine(run.effect)}`, width - 2)}`;
    const input = hasInput && run.effect ? inputLine(run.effect) : "";
    if (input !== "") out.line`  ${oneLine(`input: ${input}`, width - 2)}`;
    const next = nextOf(run);
    if (next !== undefined) out.line`  ${out.cyan(next)}`;
  }
}

function detailsOf({ end, state, pid }: RunSummary): string {
  if (state === "running") return `process ${pid}`;
  if (!end) return "";
  return [tookOf(end.ms), ...sayUsage(end.usage, end.cost)].join(" · ");
}
