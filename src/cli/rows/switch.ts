import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** `skillet enable`. */
export const ENABLE: Entry = {
  define: (command) =>
    command
      .description("switch skills on, and say what else they need")
      .argument("<skill...>", "skills")
      .option(
        "--project",
        "for this workspace, in its own .skillet/config.toml; it cannot switch on what you switched off",
      )
      .addHelpText("after", examples("skillet enable gog", "skillet enable research deploy --project")),
  load: async () => (await import("../commands/switch.ts")).enable,
};

/** `skillet disable`. */
export const DISABLE: Entry = {
  define: (command) =>
    command
      .description("switch skills off: no model is told of them, and nobody can use them")
      .argument("<skill...>", "skills")
      .option("--project", "for this workspace, in its own .skillet/config.toml")
      .addHelpText("after", examples("skillet disable research", "skillet disable deploy --project")),
  load: async () => (await import("../commands/switch.ts")).disable,
};
