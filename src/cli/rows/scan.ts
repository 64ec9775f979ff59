import { Option } from "commander";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** `skillet scan`. */
export const SCAN: Entry = {
  define: (command) =>
    command
      .description("look through skills for what a person should see before they trust them")
      .argument(
        "[path...]",
        "skill folders, skill files, folders of skills, any other folder or file, or names; the workspace's skills when left out",
      )
      .addOption(
        new Option("-f, --format <name>", "how to print the findings")
          .choices(["text", "json", "sarif"])
          .default("text")
          .conflicts("json"),
      )
      .addOption(
        new Option("--min <weight>", "leave out what weighs less").choices(["high", "medium", "low"]).default("low"),
      )
      .addHelpText(
        "after",
        "\nExits with 1 when something weighs high, or could not be looked at.\nIt is advice: that nothing is found proves nothing.",
      )
      .addHelpText(
        "after",
        examples(
          "skillet scan skills/deploy",
          "skillet scan ~/Downloads/some-skill --min medium",
          "skillet scan --format sarif > scan.sarif",
        ),
      ),
  load: async () => (await import("../commands/scan.ts")).scan,
};
