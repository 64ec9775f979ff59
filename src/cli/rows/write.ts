import { Argument, Option } from "commander";
import { PROFILES } from "../../skill/diagnostic.ts";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";
import { LIST } from "./look.ts";

/** `skillet new`. */
export const NEW: Entry = {
  define: (command) =>
    command
      .description("make a new skill that passes every check; says what your words for it break")
      .argument("<name>", "lower-case letters, digits and hyphens")
      .option("-d, --description <text>", "what it does and when to use it")
      .addOption(new Option("--in <folder>", "the folder for it").default(undefined, "<workspace>/skills"))
      .addOption(new Option("--user", "make it in your own skills, ~/.skillet/skills").conflicts("in"))
      .option("--toolset", "with a tool in TypeScript, and the types that your editor needs")
      .addHelpText(
        "after",
        examples(
          "skillet new release-notes",
          'skillet new deploy --description "Deploys the app. Use when asked to ship."',
          "skillet new weather --toolset",
        ),
      ),
  load: async () => (await import("../commands/new.ts")).newSkill,
};

/** `skillet types`. */
export const TYPES: Entry = {
  define: (command) =>
    command
      .description("write the types that toolsets import next to your skills, for editors and compilers; needs no npm")
      .addArgument(
        new Argument("[folder]", "a skill's folder, or a folder of skills").default(undefined, "<workspace>/skills"),
      )
      .addHelpText("after", examples("skillet types", "skillet types ~/.skillet/skills")),
  load: async () => (await import("../commands/types.ts")).types,
};

/** What can be set up: spelled out here too, since every command reads this file. */
export const SETUP_NAMES = ["anthropic", "openai", "openai-compatible", "mcp"] as const;

/** `skillet setup`. */
export const SETUP: Entry = {
  define: (command) =>
    command
      .description(
        "install optional packages in your project, for a program that imports skillet; the command needs none",
      )
      .addArgument(new Argument("<name>", "what for").choices(SETUP_NAMES))
      .option("-n, --dry-run", "print the command, and install nothing")
      .addHelpText("after", examples("skillet setup anthropic", "skillet setup mcp --dry-run")),
  load: async () => (await import("../commands/setup.ts")).setup,
};

/** `skillet check`. */
export const CHECK: Entry = {
  define: (command) =>
    command
      .description("check skills, and report what is wrong, where, and how to fix it")
      .argument(
        "[path...]",
        "skill folders, skill files, folders of skills, or names; the workspace's skills when left out",
      )
      .addOption(new Option("-p, --profile <name>", "what to check against").choices(PROFILES).default("load"))
      .addOption(
        new Option("-f, --format <name>", "how to print the findings")
          .choices(["text", "json", "sarif", "github"])
          .default("text")
          .conflicts("json"),
      )
      .option("--fix", "fix in place what does not change what a skill says, and show each change")
      .addOption(new Option("-n, --dry-run", "show what --fix would change, and write nothing").implies({ fix: true }))
      .option("--rename <key,...>", "with --fix: also rename these misspelled keys")
      .option("--strict", "warnings count as errors")
      .option("--changed", "the paths are files that changed: check the skills that they are part of, and nothing else")
      .addHelpText(
        "after",
        examples(
          "skillet check skills/deploy",
          "skillet check skills --profile agentskills",
          "skillet check skills --fix --dry-run",
          "skillet check --fix --rename alowed_tools skills",
          "skillet check --format sarif > skills.sarif",
          "git diff --name-only main | xargs skillet check --changed",
        ),
      ),
  load: async () => (await import("../commands/check.ts")).check,
};

/** What there is a schema of: spelled out here too, since every command reads this file. */
export const SCHEMA_KINDS = ["frontmatter", "config", "workspace-config"] as const;

/** `skillet schema`. */
export const SCHEMA: Entry = {
  define: (command) =>
    command
      .description("print a JSON Schema, by which an editor completes and checks what you write; alone: list them")
      .addArgument(new Argument("[kind]", "what it is for").choices(SCHEMA_KINDS))
      .addHelpText(
        "after",
        `
An editor finds it by a comment at the top of the file:
  # yaml-language-server: $schema=frontmatter.json      in a skill
  #:schema ./config.json                                in config.toml`,
      )
      .addHelpText(
        "after",
        examples(
          "skillet schema",
          "skillet schema frontmatter > frontmatter.json",
          "skillet schema config > ~/.skillet/config.json",
        ),
      ),
  load: async () => (await import("../commands/schema.ts")).schema,
};

/** `skillet skill` and what stands below it. */
export const SKILL: Entry = {
  define: (command) =>
    command
      .description("the same under other names: skill list, skill validate")
      .addHelpText("after", examples("skillet skill list", "skillet skill validate skills/deploy")),
  commands: {
    list: LIST,
    validate: {
      define: (command) =>
        command
          .description("say whether a path is a valid skill; as `skillet check PATH`")
          .argument("<path>", "a skill folder or file")
          .addHelpText("after", examples("skillet skill validate skills/deploy")),
      load: async () => (await import("../commands/check.ts")).check,
    },
  },
};
