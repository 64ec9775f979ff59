import { Option } from "commander";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";
import { SINCE } from "../since.ts";
import { seeing } from "./use.ts";

/** `skillet runs` and what stands below it. */
export const RUNS: Entry = {
  define: (command) =>
    command
      .description("list what was done: uses of skills and answers of chats, and what waits or was interrupted")
      .argument("[command]")
      .option(
        "-s, --state <state>",
        "only those that are running, interrupted, waiting, answered, ended, cancelled or corrupt; of those that ended: done, failed",
      )
      .option("--skill <skill>", "only those of this skill; `chat` for conversations")
      .option("--since <time>", `only those that began since then: ${SINCE}`)
      .option("-n, --number <number>", "at most so many; 20 when left out")
      .usage("[options]")
      .addHelpText(
        "after",
        examples(
          "skillet runs",
          "skillet runs --state waiting",
          "skillet runs --skill code-review --since 7d",
          "skillet runs show last",
        ),
      ),
  load: async () => (await import("../commands/runs.ts")).runs,
  commands: {
    show: {
      define: (command) =>
        command
          .description("show one run: what was asked, each step with its time and cost, approvals, and what came of it")
          .argument("<id>", "a run, the beginning or end of its id, or `last`")
          .option("--full", "all of the result, and of what was called")
          .addHelpText("after", examples("skillet runs show last", "skillet runs show 3f2a91c0 --full")),
      load: async () => (await import("../commands/runs-show.ts")).showRun,
    },
    prune: {
      define: (command) =>
        command
          .description("remove what is older or more than is kept; nothing that a process is at")
          .option("--older-than <days>", "older than so many days; keep_days of [runs], 30")
          .option("--keep <number>", "more than so many that are over; keep of [runs], 1000")
          .option("--dry-run", "say what would be removed, and remove nothing")
          .addHelpText(
            "after",
            examples("skillet runs prune --dry-run", "skillet runs prune --older-than 7 --keep 100"),
          ),
      load: async () => (await import("../commands/runs-prune.ts")).pruneRuns,
    },
  },
};

/** `skillet resume`. */
export const RESUME: Entry = {
  define: (command) =>
    seeing(
      command
        .description("go on with a run that was interrupted or waits: what was done is not done again")
        .argument("<id>", "a run, the beginning or end of its id, or `last`")
        .option("-m, --model <alias>", "another model from here on, as skillet run takes it"),
    ).addHelpText("after", examples("skillet resume last", "skillet resume 3f2a91c0 --model fast")),
  load: async () => (await import("../commands/resume.ts")).resume,
};

/** `skillet approve`. */
export const APPROVE: Entry = {
  define: (command) =>
    command
      .description(
        "agree to what a run waits for, or refuse it; apply held changes; without an id: what waits, is held, and is agreed to always",
      )
      .argument(
        "[id]",
        "a run, the beginning or end of its id, or `last`: the last that waits; or held changes, as held-3f2a91c0",
      )
      .addOption(
        new Option("--deny [reason]", "refuse it, and tell the model why; remove held changes").conflicts([
          "run",
          "always",
        ]),
      )
      .option("--run", "agree for the rest of this run")
      .addOption(
        new Option(
          "--always",
          "agree always, for this copy of the skill; for changes of files, in this folder",
        ).conflicts("run"),
      )
      .option("--resume", "and go on with it at once")
      .addOption(
        new Option(
          "--details",
          "show all of the input, or of held changes with every file that their diff counts, and decide nothing",
        ).conflicts(["deny", "run", "always", "resume", "yes"]),
      )
      .option("-y, --yes", "do not ask whether that is meant; needed to agree where there is no terminal")
      .addOption(
        new Option("--forget <skill>", "take back what was agreed to always for a skill").conflicts([
          "deny",
          "run",
          "always",
          "resume",
        ]),
      )
      .option("-q, --quiet", "with --resume: do not say what happens")
      .addHelpText(
        "after",
        examples(
          "skillet approve",
          "skillet approve 3f2a91c0 --resume",
          "skillet approve 3f2a91c0 --resume --yes",
          "skillet approve held-3f2a91c0",
          'skillet approve 3f2a91c0 --deny "ask Ann first" --resume',
          "skillet approve --forget mailer",
        ),
      ),
  load: async () => (await import("../commands/approve.ts")).approve,
};

/** `skillet cancel`. */
export const CANCEL: Entry = {
  define: (command) =>
    command
      .description("call a run off, also one that another process is at")
      .argument("<id>", "a run, the beginning or end of its id, or `last`")
      .addHelpText("after", examples("skillet cancel 3f2a91c0")),
  load: async () => (await import("../commands/cancel.ts")).cancel,
};
