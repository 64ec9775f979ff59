import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";
import { SINCE } from "../since.ts";

export const STATS: Entry = {
  define: (command) =>
    command
      .description("show how often skills are used, what comes of it, how long it takes and what it costs")
      .option("--since <when>", `count from then on: ${SINCE}`)
      .addHelpText("after", examples("skillet stats", "skillet stats --since 7d", "skillet stats --json")),
  load: async () => (await import("../commands/stats.ts")).stats,
};
