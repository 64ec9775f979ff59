import { examples } from "./examples.ts";
import type { Entry } from "./program.ts";

export const STATS: Entry = {
  define: (command) =>
    command
      .description("show how often skills are used, what comes of it, how long it takes and what it costs")
      .option("--since <when>", "count from then on: 7d, 24h, 30m, or a date such as 2026-11-01")
      .addHelpText("after", examples("skillet stats", "skillet stats --since 7d", "skillet stats --json")),
  load: async () => (await import("./commands/stats.ts")).stats,
};
