import { defined } from "../../shared/defined.ts";
import type { SkillError } from "../../shared/error.ts";
import { count } from "../../shared/text.ts";
import { type Refetched, refetch } from "../../supply/refetch.ts";
import { inStaging } from "../../supply/staging.ts";
import { unmoved } from "../../supply/unmoved.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { CommonOptions, Context } from "../program.ts";
import { fetching, unlessStopped } from "../supply/fetch.ts";
import { type LockedPlace, lockedPlace, named, sayNothingAdded } from "../supply/locked-skills.ts";
import { SHORT } from "../supply/origin.ts";
import { sayProblems } from "../supply/words.ts";

/** Asks the sources of added skills whether what they have is what was added. */
export async function outdated({
  io,
  options,
  args,
}: Context<{ project?: boolean; allowPrivateAddresses?: boolean }>): Promise<number> {
  const allowPrivate = options.allowPrivateAddresses ?? false;
  const around = surroundingsFor(io, options);
  const locked = lockedPlace(around, options.project ?? false);
  const entries = named(locked, args);
  const asking = async (work: string) => {
    const { same, fetched } = await fetching(io, "what was added", async (signal) => {
      const { isProject } = locked.place;
      const options = { around, work, env: io.env, signal, allowPrivate, isProject };
      const same = await unmoved(entries, options);
      const others = entries.filter(([name]) => !same.has(name));
      return { same, fetched: await refetch(others, options) };
    });
    const rows = entries.map(([name, entry]): Row => {
      const { commit, ref, source, path } = entry;
      const about = { name, source, path, ref, commit };
      if (same.has(name)) return { ...about, state: "up-to-date", ...defined({ now: commit }) };
      return { ...about, ...stateOf((entry.upstream ?? entry).digest, fetched.get(name)) };
    });
    return report(rows, { io, options, locked });
  };
  return unlessStopped("nothing is known", () => inStaging(around.skilletHome, asking));
}

type Row = { name: string; commit?: string | undefined } & ReturnType<typeof stateOf>;

function report(rows: readonly Row[], { io, options, locked }: Reporting): number {
  const old = rows.filter(({ state }) => state === "outdated");
  const failed = rows.flatMap(({ name, problem }) => (problem ? [{ name, error: problem }] : []));
  if (options.json) printJson(io.stdout, { folder: locked.place.folder, skills: rows.map(asJson) });
  else {
    const out = printer(io.stdout, io.env);
    const error = printer(io.stderr, io.env);
    const widest = Math.min(32, Math.max(0, ...old.map(({ name }) => name.length)));
    for (const { name, commit, now } of old) {
      const change = commit && now ? `${commit.slice(0, SHORT)} → ${now.slice(0, SHORT)}` : "has changed";
      out.line`${out.yellow("!")} ${out.bold(name.padEnd(widest))}  ${change}`;
    }
    sayProblems(error, failed);
    if (rows.length === 0) error.line`${sayNothingAdded(locked)}`;
    else if (old.length === 0 && failed.length === 0)
      out.line`${out.green("✓")} ${count(rows.length, "skill")} up to date`;
    else if (old.length > 0) {
      const command = `skillet update${options.project ? " --project" : ""} --dry-run`;
      out.line`  to see what is new: ${fromHere(command, options.workspace)}`;
    }
  }
  return old.length + failed.length > 0 ? EXIT.findings : EXIT.fine;
}

interface Reporting {
  io: Io;
  options: CommonOptions & { project?: boolean };
  locked: LockedPlace;
}

function asJson({ problem, now, ...row }: Row): object {
  const { code, message, fix } = problem ?? {};
  return { ...row, ...defined({ commitThere: now }), ...(problem ? { error: { code, message, fix } } : {}) };
}

function stateOf(
  digest: string,
  fetched: Refetched | undefined,
): { state: "up-to-date" | "outdated" | "unknown"; now?: string; problem?: SkillError } {
  if (!fetched) return { state: "unknown" };
  if ("error" in fetched) return { state: "unknown", problem: fetched.error };
  const { prepared, supply } = fetched;
  const { commit } = supply.fetched;
  const state = prepared.digest === digest ? "up-to-date" : "outdated";
  return { state, ...(commit === undefined ? {} : { now: commit }) };
}
