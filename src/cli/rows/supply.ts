import { Option } from "commander";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

const ALLOW_PRIVATE = "also fetch from private addresses that only the source names";
const PROJECT = "in this workspace, in place of all of them: .agents/skills";

/** `skillet add`. */
export const ADD: Entry = {
  define: (command) =>
    command
      .description("add skills from a folder, an archive, a repository or a site: look, scan, agree, lock")
      .argument("[source]", "./folder, file.zip, file.tar.gz, owner/repo, https://…, git@…, with //FOLDER and #REF")
      .argument("[name...]", "which of its skills, where it has several")
      .option("-a, --all", "all of its skills that can be added")
      .option("-l, --list", "list its skills with what was found in each, and add nothing")
      .option("-t, --to <client,...>", "also copy them into the folders of these clients, as `skillet export` does")
      .option("--project", PROJECT)
      .option("-y, --yes", "agree without being asked: to instructions and code, never to values and capabilities")
      .option("-n, --dry-run", "show what would be added, and add nothing")
      .option("--show", "also show all that will be followed and run, line by line")
      .option("--force", "also put it in the place of one that was added from another source")
      .option("--require-signature", "only what a known signer signed (`skillet signers`)")
      .option("--allow-private-addresses", ALLOW_PRIVATE)
      .addOption(
        new Option("--frozen", "add exactly what the lock says, and fail when it cannot be had: for CI").conflicts([
          "all",
          "force",
        ]),
      )
      .addHelpText(
        "after",
        examples(
          "skillet add acme/skills",
          "skillet add acme/skills --list",
          "skillet add acme/skills review --dry-run --show",
          "skillet add https://git.example.com/team/skills.git//review#v2 --project",
          "skillet add ./deploy.skill",
          "skillet add https://skills.example.com --all",
          "skillet add --frozen --project",
        ),
      ),
  load: async () => (await import("../commands/add.ts")).add,
};

/** `skillet adopt`. */
export const ADOPT: Entry = {
  define: (command) =>
    command
      .description("manage skills that you have already, where they are: review, trust, lock; no file is changed")
      .argument("[path...]", "skill folders, folders of skills, or names; your clients' folders when left out")
      .option("--project", "without a path: the skills of this workspace, in place of yours")
      .option("--from <source>", "where they came from, as `skillet add` takes it")
      .option("-y, --yes", "agree without being asked: to instructions and code, never to values and capabilities")
      .option("-n, --dry-run", "show what would be adopted, and record nothing")
      .option("--show", "show all that will be followed and run, not a summary")
      .addHelpText(
        "after",
        examples(
          "skillet adopt",
          "skillet adopt ~/.claude/skills",
          "skillet adopt ~/.claude/skills/pdf --from anthropics/skills",
          "skillet adopt --project --dry-run",
        ),
      ),
  load: async () => (await import("../commands/adopt.ts")).adopt,
};

/** `skillet update`. */
export const UPDATE: Entry = {
  define: (command) =>
    command
      .description("bring added and adopted skills up to date with their sources; what you changed is kept")
      .argument("[skill...]", "skills; all that were added when left out")
      .option("--project", PROJECT)
      .option("-y, --yes", "agree without being asked: to instructions and code, never to values and capabilities")
      .option("-n, --dry-run", "show what would change, and change nothing")
      .option("--show", "show every line that changes, however many")
      .option("--require-signature", "only what a known signer signed (`skillet signers`)")
      .option("--allow-private-addresses", ALLOW_PRIVATE)
      .addOption(
        new Option("--conflicts <whose>", "whose text stays where you and the source changed the same").choices([
          "mine",
          "theirs",
        ]),
      )
      .addHelpText(
        "after",
        examples("skillet update --dry-run", "skillet update deploy", "skillet update deploy --conflicts mine"),
      ),
  load: async () => (await import("../commands/update.ts")).update,
};

/** `skillet remove`. */
export const REMOVE: Entry = {
  define: (command) =>
    command
      .description("take added skills away again; stop managing adopted ones")
      .argument("<skill...>", "skills; NAME@FOLDER where several folders have one")
      .option("--project", PROJECT)
      .option("-n, --dry-run", "show what would be removed, and remove nothing")
      .option("--force", "also those that you changed")
      .option("--keep", "keep the files of adopted skills, and only stop managing them")
      .option("-y, --yes", "delete the files of adopted skills without being asked")
      .addHelpText("after", examples("skillet remove deploy", "skillet remove deploy --project")),
  load: async () => (await import("../commands/remove.ts")).remove,
};

/** `skillet verify`. */
export const VERIFY: Entry = {
  define: (command) =>
    command
      .description("compare added skills with their locks, to the last byte; exit 1 when one differs")
      .argument("[skill...]", "skills; all that were added when left out")
      .option("--project", "only those of this workspace")
      .option("--require-signature", "each must be signed by a known signer (`skillet signers`)")
      .option("--full", "read every byte, also of what nobody has touched since the last look")
      .addHelpText(
        "after",
        examples("skillet verify", "skillet verify deploy --full", "skillet verify --project --json"),
      ),
  load: async () => (await import("../commands/verify.ts")).verify,
};

/** `skillet outdated`. */
export const OUTDATED: Entry = {
  define: (command) =>
    command
      .description("ask the sources of added skills whether they have something newer; exit 1 when one has")
      .argument("[skill...]", "skills; all that were added when left out")
      .option("--project", PROJECT)
      .option("--allow-private-addresses", ALLOW_PRIVATE)
      .addHelpText("after", examples("skillet outdated", "skillet outdated --json")),
  load: async () => (await import("../commands/outdated.ts")).outdated,
};
