import { createStatisticsStore } from "../../store/statistics.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { openCommandRuns, resolveCommandEnvironment } from "../command-host.ts";
import { createPrinter, printJson } from "../output.ts";

/** `skillet cancel`. */
export const cancelCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("call a run off, also one that another process is at")
      .argument("<id>", "a run, the beginning or end of its id, or `last`")
      .addHelpText("after", formatExamples("skillet cancel 3f2a91c0")),
  run: cancelRun,
};

/** Calls a run off, whoever is at it. */
async function cancelRun({ io, options, args: [given = ""] }: CommandContext<object>): Promise<number> {
  const runs = openCommandRuns(io, options);
  const { id, pid } = runs.find(given);
  runs.cancel(id);
  createStatisticsStore(resolveCommandEnvironment(io, options).skilletHome).settle(id, "aborted");
  if (options.json) printJson(io.stdout, { run: id, ...(pid === undefined ? {} : { pid }) });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.green("✓")} called off: ${id}${pid === undefined ? "" : `; process ${pid} stops within a second`}`;
  }
  return EXIT.fine;
}
