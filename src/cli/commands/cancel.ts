import { openStatistics } from "../../host/statistics.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { runsFor } from "../run-words.ts";

/** Calls a run off, whoever is at it. */
export async function cancel({ io, options, args: [given = ""] }: Context<object>): Promise<number> {
  const runs = runsFor(io, options);
  const { id, pid } = runs.find(given);
  runs.cancel(id);
  openStatistics(surroundingsFor(io, options).skilletHome).settle(id, "aborted");
  if (options.json) printJson(io.stdout, { run: id, ...(pid === undefined ? {} : { pid }) });
  else {
    const out = printer(io.stdout, io.env);
    out.line`${out.green("✓")} called off: ${id}${pid === undefined ? "" : `; process ${pid} stops within a second`}`;
  }
  return EXIT.fine;
}
