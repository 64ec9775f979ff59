import { loadSettings } from "../../host/settings.ts";
import { count } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { ago, outcomeOf, runsFor, shortId, subjectOf } from "../run-words.ts";
import { numberOf } from "./runs.ts";

interface PruneOptions {
  olderThan?: string;
  keep?: string;
  dryRun?: boolean;
}

const MOST_SHOWN = 20;

/** Removes the journals of runs that nobody needs any more. */
export async function pruneRuns({ io, options }: Context<PruneOptions>): Promise<number> {
  const { settings } = await loadSettings(surroundingsFor(io, options));
  const { olderThan, keep, dryRun: isTrial = false } = options;
  const retention = {
    days: olderThan === undefined ? settings.runs.days : numberOf("--older-than", olderThan),
    most: keep === undefined ? settings.runs.most : numberOf("--keep", keep),
  };
  const gone = runsFor(io, options).prune(retention, { isTrial });
  if (options.json) {
    printJson(io.stdout, { isDryRun: isTrial, removed: gone });
    return EXIT.fine;
  }
  const out = printer(io.stdout, io.env);
  const what = isTrial ? "would remove" : "removed";
  for (const run of gone.slice(0, MOST_SHOWN))
    out.line`${what} ${shortId(run.id)}  ${subjectOf(run)}  ${out.dim(`${outcomeOf(run)}, ${ago(run.changedAt)}`)}`;
  const { days, most } = retention;
  const kept = `older than ${count(days, "day")}, or more than ${count(most, "run")} that are over`;
  if (gone.length === 0) out.line`nothing to remove: none is ${kept}`;
  else out.line`${isTrial ? "·" : out.green("✓")} ${what} ${count(gone.length, "run")}: ${kept}`;
  return EXIT.fine;
}
