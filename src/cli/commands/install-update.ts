import { checkRecord } from "../../install/copies.ts";
import type { Reason } from "../../install/plan.ts";
import { clientOf, targetOf } from "../../install/target.ts";
import { byText } from "../../shared/text.ts";
import { discoverFor, requireConfiguration } from "../found.ts";
import { copiesFrom, noCopy, originalOf, type Row, STATES, type State, stateOf } from "../install/copies.ts";
import { type Left, type Outcome, printOutcomes } from "../install/words.ts";
import { printer } from "../io.ts";
import type { Context } from "../program.ts";
import { askFor, clientIds, type InstallOptions, installInto } from "./install.ts";

/** Brings copies up to date that skillet put into clients' folders, and adds none. */
export async function update({ io, options, args }: Context<InstallOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  checkRecord(found.installs);
  requireConfiguration(io, found);
  const { around, installs } = found;
  const isProject = options.project ?? false;
  const clients = options.to === undefined ? undefined : clientIds(options.to, "name one: --to claude");
  for (const id of clients ?? []) clientOf(id);
  const all = copiesFrom(installs, around, options.workspace);
  const there = all.filter(
    ({ client, where }) => where === (isProject ? "project" : "user") && (clients?.includes(client) ?? true),
  );
  const missing = args.find((name) => !there.some(({ skill }) => skill === name));
  if (missing !== undefined) throw noCopy(missing, all, { home: around.home, isProject, option: "--to", clients });
  const rows = there.filter(({ skill }) => args.length === 0 || args.includes(skill));
  if (rows.length === 0 && !options.json)
    printer(io.stderr, io.env).line`no copies there: \`skillet export --list\` shows all`;
  const jobs = [...Map.groupBy(rows, ({ client }) => client)].map(([client, copies]) => {
    const judged = copies.map((row) => ({ row, state: stateOf(row, found), skill: originalOf(row, found) }));
    const going = judged.flatMap(({ state, skill }) => (skill && UPDATED.has(state) ? [skill] : []));
    const left = judged.filter(({ state, skill }) => !skill || !UPDATED.has(state));
    return { target: targetOf(client, { around, isProject }), skills: going, left };
  });
  if (args.length > 0 && !options.dryRun) await askFor(io, found, jobs, options.force);
  const outcomes = jobs.map((job): Outcome => {
    const outcome =
      job.skills.length === 0 ? { target: job.target, steps: [] } : installInto(job, { io, options, found });
    const left = job.left.map(({ row, state }) => leave(row, state, around.home));
    return { ...outcome, steps: [...outcome.steps, ...left].sort((a, b) => byText(a.name, b.name)) };
  });
  return printOutcomes(io, outcomes, options);
}

/** Those that have an original to be brought up to date with. */
const UPDATED: ReadonlySet<State> = new Set(["up-to-date", "outdated", "edited"]);

function leave(row: Row, state: State, home: string): Left {
  const [message = "", fix = ""] = STATES[state].said(row, home).split(/: (?=`)/);
  const reason: Reason = { code: state, message, fix };
  if (state !== "original-broken") return { name: row.skill, action: "leave", reason };
  return { name: row.skill, action: "refuse", reason: { ...reason, message: `Skill '${row.skill}': ${message}` } };
}
