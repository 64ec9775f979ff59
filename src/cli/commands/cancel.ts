import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { openCommandStores } from "../command-host.ts";
import { createPrinter, printJson } from "../output.ts";

/** `skillet cancel`. */
export const cancelCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Cancel a run, also in another process")
      .argument("<id>", "A run id, the start or end of it, or `last`")
      .addHelpText("after", formatExamples("skillet cancel 3f2a91c0")),
  run: cancelRun,
};

/** Cancels a run, also one of another process. */
async function cancelRun({ io, options, args: [given = ""] }: CommandContext<object>): Promise<number> {
  const { runs, statistics } = await openCommandStores(io, options);
  const { id, owner } = await runs.find(given);
  await runs.cancel(id);
  await statistics.recordOutcome(id, "aborted");
  if (options.json) printJson(io.stdout, { run: id, ...(owner === undefined ? {} : { owner }) });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.green("✓")} cancelled: ${id}${owner === undefined ? "" : `; ${owner.label} stops within a second`}`;
  }
  return EXIT.fine;
}
