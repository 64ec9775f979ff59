import { Option } from "commander";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** The clients whose folders are known: spelled out here too, since every command reads this file. */
export const NATIVE_CLIENT_NAMES = ["claude", "codex", "gemini", "opencode", "vscode", "cursor", "agents"];

const CLIENTS = NATIVE_CLIENT_NAMES.join(", ");

/** `skillet install`. */
export const INSTALL: Entry = {
  define: (command) =>
    command
      .description("put copies of skills into a client's own folder, or bring those that are there up to date")
      .argument("[skill...]", "skills, or `name@source`; every one that can be used here when left out")
      .option("--to <client,...>", `the clients: ${CLIENTS}`)
      .option("--project", "into this workspace, in place of your own folders")
      .option("--update", "bring up to date what is installed, in all clients unless --to names some; add nothing")
      .option("-n, --dry-run", "show what would be written, and write nothing")
      .option("--force", "also replace copies that were changed by hand")
      .addOption(
        new Option("-l, --list", "show what was put where, and whether it is up to date").conflicts([
          "update",
          "dryRun",
          "force",
        ]),
      )
      .addHelpText("after", "\nWhat skillet did not put there is never touched.")
      .addHelpText(
        "after",
        examples(
          "skillet install code-review --to claude",
          "skillet install --to claude,codex --dry-run",
          "skillet install deploy --to agents --project",
          "skillet install --update",
          "skillet install --list",
        ),
      ),
  load: async () => (await import("../commands/install.ts")).install,
};

/** `skillet uninstall`. */
export const UNINSTALL: Entry = {
  define: (command) =>
    command
      .description("take copies that skillet installed out of clients' folders again")
      .argument("[skill...]", "skills")
      .option("--all", "every copy there")
      .option("--from <client,...>", `only out of these: ${CLIENTS}`)
      .option("--project", "out of this workspace, in place of your own folders")
      .option("-n, --dry-run", "show what would be removed, and remove nothing")
      .option("--force", "also remove copies that were changed by hand")
      .addHelpText(
        "after",
        examples(
          "skillet uninstall code-review",
          "skillet uninstall --all --from codex",
          "skillet uninstall deploy --from agents --project",
        ),
      ),
  load: async () => (await import("../commands/uninstall.ts")).uninstall,
};

/** `skillet export`. */
export const EXPORT: Entry = {
  define: (command) =>
    command
      .description("write a skill as one file or folder, for others to upload or install")
      .argument("<skill>", "the skill, or `name@source` for a shadowed copy")
      .addOption(
        new Option("-f, --format <format>", "what to write")
          .choices(["skill-zip", "agent-plugin"])
          .default("skill-zip"),
      )
      .option("-o, --output <file>", "where; the current folder when left out")
      .option("--force", "replace what is there")
      .addHelpText(
        "after",
        examples("skillet export code-review", "skillet export deploy --format agent-plugin --output plugins/deploy"),
      ),
  load: async () => (await import("../commands/export.ts")).exportCommand,
};
