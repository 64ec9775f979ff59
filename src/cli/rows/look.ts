import { Option } from "commander";
import type { ListingClient } from "../../catalog/client-listings.ts";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** `skillet list`. */
export const LIST: Entry = {
  define: (command) =>
    command
      .description("list the skills that are found")
      .argument("[word...]", "only skills that have all of these words in their name or description")
      .option("-a, --all", "also what is shadowed, disabled or broken, with the reasons")
      .addOption(
        new Option("--installed", "what was added, from where, and whether it is as its lock says").conflicts([
          "all",
          "watch",
          "prompt",
        ]),
      )
      .addOption(
        new Option("--by <group>", "group by `client`: the skills that each client finds by itself")
          .choices(["client"])
          .conflicts(["all", "installed", "watch", "prompt"]),
      )
      .addOption(new Option("-w, --watch", "stay, and show changes as they happen").conflicts("all"))
      .addOption(
        new Option("--prompt", "print them as a section of a system prompt").conflicts(["all", "watch", "json"]),
      )
      .addOption(
        new Option(
          "--chat-type <type>",
          "all skills registered for a chat of this type, with what stops them",
        ).conflicts(["installed", "by", "watch"]),
      )
      .addOption(
        new Option("--chat-id <id>", "all skills registered for the chat of this id").conflicts([
          "installed",
          "by",
          "watch",
        ]),
      )
      .option("--refresh", "read the listings of MCP servers with `skills = true` again, before they expire")
      .option("--paths", "with --prompt: also where a skill's folder is for its code")
      .addHelpText(
        "after",
        examples(
          "skillet list",
          "skillet list pdf",
          "skillet list --all",
          "skillet list --by client",
          "skillet list --chat-type group --chat-id 12345",
          "skillet list --json | jq '.skills[].name'",
        ),
      ),
  load: async () => (await import("../commands/list.ts")).list,
};

/** `skillet show`. */
export const SHOW: Entry = {
  define: (command) =>
    command
      .description("show one skill: what it costs, where it comes from, its files and findings")
      .argument("<skill>", "the skill, or `name@source` for a shadowed copy")
      .argument("[resource]", "one of its files: print it")
      .addOption(new Option("--body", "print the instructions").conflicts("sandbox"))
      .option("--sandbox", "print what its scripts would see: paths, network, variables, packages, limits")
      .addHelpText(
        "after",
        examples(
          "skillet show skillmaker",
          "skillet show skillmaker --sandbox",
          "skillet show skillmaker@bundled",
          "skillet show skillmaker quality-checklist.md",
        ),
      ),
  load: async () => (await import("../commands/show.ts")).show,
};

const CLIENTS = ["claude", "codex", "gemini", "opencode", "copilot"] satisfies ListingClient[];

/** `skillet explain`. */
export const EXPLAIN: Entry = {
  define: (command) =>
    command
      .description("say what a model is told for a query, and why each skill was chosen or not")
      .argument("<query>", "what the user asks")
      .option("-s, --skill <skill>", "explain one skill")
      .option("--file <file...>", "paths that the conversation is about, for skills with `paths`")
      .option("--max-skills <number>", "tell the instructions of at most so many skills")
      .option("--budget <tokens>", "give the instructions and the list at most so much")
      .option("--listing-budget <tokens>", "give the list of skills at most so much")
      .option("--shortlist", "name the skills that fit by their words when no trigger does")
      .addOption(
        new Option("--as <client>", "show what this client's model is told: by the client, the server and the hook")
          .choices(CLIENTS)
          .conflicts("skill"),
      )
      .option("--text", "print only what the model is told")
      .addHelpText(
        "after",
        examples(
          'skillet explain "greet the new team"',
          'skillet explain "review my change" --skill code-review',
          'skillet explain "list skills" --budget 1500 --text',
          'skillet explain "review my change" --as claude',
        ),
      ),
  load: async () => (await import("../commands/explain.ts")).explain,
};

/** `skillet eval`. */
export const EVAL: Entry = {
  define: (command) =>
    command
      .description("measure whether queries find the skills they are for (evals/triggers.json of a skill)")
      .argument("[path...]", "folders of skills, skill folders, or names; every skill found when left out")
      .option("-a, --all", "compete with every skill found here, not only with their neighbours")
      .option("-m, --misses", "list the queries that missed and those that triggered wrongly")
      .option("--ci", "exit 1 when the threshold is not reached")
      .option("--threshold <share>", "the least recall@3, and the most false triggers above it", "0.8")
      .addHelpText(
        "after",
        examples(
          "skillet eval skills",
          "skillet eval skills/deploy --misses",
          "skillet eval skills --ci --threshold 0.9",
        ),
      ),
  load: async () => (await import("../commands/eval.ts")).evaluateSkills,
};

/** `skillet doctor`. */
export const DOCTOR: Entry = {
  define: (command) =>
    command
      .description("show the folders that are searched, the configuration, and what is wrong")
      .option("--sandbox", "try what the sandbox promises, and show what holds")
      .addOption(
        new Option("--tools", "start the configured servers of tools, and show what they have").conflicts("sandbox"),
      )
      .addOption(new Option("--fix", "install what is missing, with the system's package manager").conflicts("sandbox"))
      .option("-y, --yes", "do not ask before that")
      .addHelpText(
        "after",
        examples(
          "skillet doctor",
          "skillet doctor --sandbox",
          "skillet doctor --tools",
          "skillet doctor --fix",
          "skillet doctor --json",
        ),
      ),
  load: async () => (await import("../commands/doctor.ts")).doctor,
};
