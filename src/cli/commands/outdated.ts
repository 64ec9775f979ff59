import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { hasUnknownBase, LOCAL_SOURCE, type LockedSkill } from "../../host/lock/format.ts";
import { defined } from "../../shared/defined.ts";
import type { SkillError } from "../../shared/error.ts";
import { byText, count } from "../../shared/text.ts";
import { type Refetched, refetch } from "../../supply/refetch.ts";
import { needsTrust } from "../../supply/skills-place.ts";
import { inStaging } from "../../supply/staging.ts";
import { unmoved } from "../../supply/unmoved.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { CommonOptions, Context } from "../program.ts";
import { fetching, unlessStopped } from "../supply/fetch.ts";
import { allLockedPlaces, chooseNamed, type LockedPlace, sayNothingAdded } from "../supply/locked-skills.ts";
import { SHORT } from "../supply/origin.ts";
import { sayNames, sayProblems } from "../supply/words.ts";

/** Asks the sources of added skills whether what they have is what was added. */
export async function outdated({
  io,
  options,
  args,
}: Context<{ project?: boolean; allowPrivateAddresses?: boolean }>): Promise<number> {
  const allowPrivate = options.allowPrivateAddresses ?? false;
  const around = surroundingsFor(io, options);
  const chosen = chooseNamed(allLockedPlaces(around, options.project ?? false), args);
  const asking = async (work: string) => {
    const rows = await fetching(io, "what was added", async (signal) => {
      const rows: Row[] = [];
      for (const [index, { locked, entries }] of chosen.entries()) {
        const { folder, isAdopted } = locked.place;
        const own = join(work, `${index}`);
        mkdirSync(own, 0o700);
        const fetchOptions = {
          around,
          work: own,
          env: io.env,
          signal,
          allowPrivate,
          isUntyped: needsTrust(locked.place),
        };
        const remote = entries.filter(([, { source }]) => source !== LOCAL_SOURCE);
        const same = await unmoved(remote, fetchOptions);
        const fetched = await refetch(
          remote.filter(([name]) => !same.has(name)),
          fetchOptions,
        );
        for (const [name, entry] of entries) {
          const { commit, ref, source, path } = entry;
          const about = { name, source, path, ref, commit, ...(isAdopted ? { folder } : {}) };
          if (source === LOCAL_SOURCE) rows.push({ ...about, source: undefined, state: "no-source" });
          else if (same.has(name)) rows.push({ ...about, state: "up-to-date", ...defined({ now: commit }) });
          else rows.push({ ...about, ...stateOf(entry, fetched.get(name)) });
        }
      }
      return rows.sort((a, b) => byText(a.name, b.name));
    });
    return report(rows, { io, options, locked: chosen[0]?.locked });
  };
  return unlessStopped("nothing is known", () => inStaging(around.skilletHome, asking));
}

type Row = { name: string; source?: string | undefined; commit?: string | undefined } & State;

interface State {
  state: "up-to-date" | "outdated" | "unknown" | "no-source";
  now?: string;
  problem?: SkillError;
}

function report(rows: readonly Row[], { io, options, locked }: Reporting): number {
  const old = rows.filter(({ state }) => state === "outdated");
  const failed = rows.flatMap(({ name, problem }) => (problem ? [{ name, error: problem }] : []));
  const known = rows.filter(({ state }) => state !== "no-source");
  if (options.json) printJson(io.stdout, { folder: locked?.place.folder, skills: rows.map(asJson) });
  else {
    const out = printer(io.stdout, io.env);
    const error = printer(io.stderr, io.env);
    const widest = Math.min(32, Math.max(0, ...old.map(({ name }) => name.length)));
    for (const { name, commit, now } of old) {
      const change = commit && now ? `${commit.slice(0, SHORT)} → ${now.slice(0, SHORT)}` : "has changed";
      out.line`${out.yellow("!")} ${out.bold(name.padEnd(widest))}  ${change}`;
    }
    sayProblems(error, failed);
    if (rows.length === 0) error.line`${locked ? sayNothingAdded(locked) : ""}`;
    else if (old.length === 0 && failed.length === 0 && known.length > 0)
      out.line`${out.green("✓")} ${count(known.length, "skill")} up to date`;
    else if (old.length > 0) {
      const command = `skillet update${options.project ? " --project" : ""} --dry-run`;
      out.line`  to see what is new: ${fromHere(command, options.workspace)}`;
    }
  }
  const local = rows.filter(({ state }) => state === "no-source").map(({ name }) => name);
  if (local.length > 0 && !options.json) {
    const out = printer(io.stdout, io.env);
    out.line`${out.dim(`· without a source: ${sayNames(local)} (skillet adopt NAME --from SOURCE)`)}`;
  }
  return old.length + failed.length > 0 ? EXIT.findings : EXIT.fine;
}

interface Reporting {
  io: Io;
  options: CommonOptions & { project?: boolean };
  locked: LockedPlace | undefined;
}

function asJson({ problem, now, ...row }: Row): object {
  const { code, message, fix } = problem ?? {};
  return { ...row, ...defined({ commitThere: now }), ...(problem ? { error: { code, message, fix } } : {}) };
}

function stateOf(entry: LockedSkill, fetched: Refetched | undefined): State {
  if (!fetched) return { state: "unknown" };
  if ("error" in fetched) return { state: "unknown", problem: fetched.error };
  const { prepared, supply } = fetched;
  const { commit } = supply.fetched;
  const { digest } = hasUnknownBase(entry) ? entry : (entry.upstream ?? entry);
  const state = prepared.digest === digest ? "up-to-date" : "outdated";
  return { state, ...(commit === undefined ? {} : { now: commit }) };
}
