import { type Command, Option } from "commander";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** The clients whose folders are known: spelled out here too, since every command reads this file. */
export const NATIVE_CLIENT_NAMES = [
  ...["claude", "codex", "gemini", "opencode", "copilot", "vscode", "cursor", "agents"],
];

/** What else `skillet export --to` writes, and the format of each. */
export const FILE_TARGETS = { zip: "skill-zip", plugin: "agent-plugin" } as const;
export const EXPORT_TARGETS: readonly string[] = [...NATIVE_CLIENT_NAMES, ...Object.keys(FILE_TARGETS)];

const CLIENTS = NATIVE_CLIENT_NAMES.join(", ");

/** `skillet export`. */
export const EXPORT: Entry = {
  define: (command) =>
    command
      .description("write skills for other clients: copies in their own folders, zips, plugins")
      .argument("[skill...]", "skills, or `name@source`; for clients, every usable skill when left out")
      .option("-t, --to <target,...>", `where to: ${EXPORT_TARGETS.join(", ")} (default: zip)`)
      .option("--project", "use the client's folder in this workspace, not your own")
      .addOption(mode("-l, --list", "show all copies and whether they are up to date", ["update", "remove"]))
      .addOption(mode("--update", "update existing copies, in all clients unless --to names some", ["remove"]))
      .addOption(mode("--remove", "remove copies, from all clients unless --to names some", []))
      .option("--all", "with --remove: every copy")
      .option("-n, --dry-run", "show what would change, and change nothing")
      .option("-o, --output <file>", "for zip and plugin: where to write it (default: the current folder)")
      .option("--force", "also replace or remove what was edited by hand")
      .addOption(formatOption().hideHelp())
      .addHelpText("after", "\nWhat skillet did not write is never changed or removed.")
      .addHelpText(
        "after",
        examples(
          "skillet export code-review --to claude",
          "skillet export --to codex,gemini --dry-run",
          "skillet export deploy --to agents --project",
          "skillet export deploy --to zip --output dist/",
          "skillet export --list",
          "skillet export --update",
          "skillet export --remove deploy --to codex",
        ),
      ),
  load: async () => (await import("../commands/export.ts")).exportCommand,
};

function mode(flags: string, description: string, others: string[]): Option {
  return new Option(flags, description).conflicts(others);
}

/** The former way to name a zip or a plugin. */
function formatOption(): Option {
  return new Option("-f, --format <format>", "what to write").choices(Object.values(FILE_TARGETS)).conflicts("to");
}

/** `skillet install`: the former name of `export --to CLIENT`. */
export const INSTALL: Entry = {
  define: (command) =>
    copying(command.description("as `skillet export --to CLIENT`"))
      .option("--to <client,...>", `the clients: ${CLIENTS}`)
      .option("--update", "update existing copies, in all clients unless --to names some")
      .addOption(
        new Option("-l, --list", "show all copies and whether they are up to date").conflicts([
          "update",
          "dryRun",
          "force",
        ]),
      )
      .addHelpText("after", examples("skillet export code-review --to claude")),
  load: async () => (await import("../commands/install.ts")).install,
};

/** `skillet uninstall`: the former name of `export --remove`. */
export const UNINSTALL: Entry = {
  define: (command) =>
    copying(command.description("as `skillet export --remove`"))
      .option("--all", "every copy")
      .option("--from <client,...>", `only from these: ${CLIENTS}`)
      .addHelpText("after", examples("skillet export --remove code-review")),
  load: async () => (await import("../commands/uninstall.ts")).uninstall,
};

function copying(command: Command): Command {
  return command
    .argument("[skill...]", "skills, or `name@source`")
    .option("--project", "use the client's folder in this workspace, not your own")
    .option("-n, --dry-run", "show what would change, and change nothing")
    .option("--force", "also replace or remove what was edited by hand");
}
