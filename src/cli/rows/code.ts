import { Option } from "commander";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** `skillet script`. */
export const SCRIPT: Entry = {
  define: (command) =>
    command
      .description("run a script of a skill in a sandbox of its own")
      .argument("<skill>", "the skill")
      .argument("[script]", "one of its scripts, by path or name; lists them when left out")
      .argument("[args...]", "what the script is given")
      .option("--stdin", "give it what is piped in")
      .option("--write", "let it change files of the workspace; without it the script can only read them")
      .option("-q, --quiet", "do not say what became of it")
      .passThroughOptions()
      .addHelpText(
        "after",
        examples(
          "skillet script deploy",
          "skillet script deploy check.sh staging --verbose",
          "skillet script --json report totals.py",
        ),
      ),
  load: async () => (await import("../commands/script.ts")).script,
};

/** `skillet tools`. */
export const TOOLS: Entry = {
  define: (command) =>
    command
      .description("show the tools that skills bring, and what is wrong with them")
      .argument("[skill]", "a skill, or a server of [tools.mcp]; every skill with toolsets when left out")
      .addHelpText("after", examples("skillet tools", "skillet tools my-skill --json")),
  load: async () => (await import("../commands/tools.ts")).tools,
};

/** `skillet call`. */
export const CALL: Entry = {
  define: (command) =>
    command
      .description("call one tool that a skill or a server brings, as a run would")
      .argument(
        "<tool>",
        "the tool, as skillet tools names it: SKILL.TOOL, or SERVER.TOOL; SKILL alone lists its tools",
      )
      .option("-i, --input <json>", "its input; @file reads it from a file, - what is piped in")
      .option("-y, --yes", "agree beforehand to what it changes")
      .addHelpText(
        "after",
        examples(
          `skillet call my-skill.my-tool --input '{"input": "hello"}'`,
          "skillet call report.send -i @mail.json",
        ),
      ),
  load: async () => (await import("../commands/call.ts")).call,
};

/** `skillet packages` and what stands below it. */
export const PACKAGES: Entry = {
  define: (command) =>
    command
      .description("build the system and Python packages that skills declare")
      .addHelpText("after", examples("skillet packages build", "skillet packages list")),
  commands: {
    build: {
      define: (command) =>
        command
          .description("build what skills declare under `packages`, and fetch what their Python scripts declare")
          .argument("[skill...]", "skills; every skill found when left out")
          .option("--dry-run", "say what would be fetched, and build nothing")
          .option("--update", "ask for newer versions")
          .addHelpText("after", examples("skillet packages build", "skillet packages build media --dry-run")),
      load: async () => (await import("../commands/packages.ts")).buildSkillPackages,
    },
    list: {
      define: (command) =>
        command
          .description("list the system packages that are built")
          .addHelpText("after", examples("skillet packages list")),
      load: async () => (await import("../commands/packages.ts")).listPackages,
    },
    prune: {
      define: (command) =>
        command
          .description("remove what no skill found here uses")
          .option("--dry-run", "say what would be removed, and remove nothing")
          .option("-y, --yes", "do not ask")
          .addHelpText("after", examples("skillet packages prune --dry-run", "skillet packages prune --yes")),
      load: async () => (await import("../commands/packages.ts")).prunePackages,
    },
  },
};

/** `skillet trust`. */
export const TRUST: Entry = {
  define: (command) =>
    command
      .description("let code run that came with a workspace or that another program put there")
      .argument(
        "[path...]",
        "workspaces, skills' folders, or skills by name or pattern (pdf*); defaults to the workspace",
      )
      .addOption(new Option("-l, --list", "show what has been trusted").conflicts("revoke"))
      .option("--show", "show everything that will be followed and run, also of many skills")
      .option("--revoke", "take it back")
      .addOption(
        new Option(
          "--text",
          "let models read the skills of this workspace; their code still waits for trust in each skill",
        ).conflicts(["secrets"]),
      )
      .addOption(
        new Option(
          "--mine [folder]",
          "you write the skills in this folder: your edits keep the trust; not proof against other programs that run as you",
        ).conflicts(["secrets", "text"]),
      )
      .addOption(
        new Option(
          "--secrets <skill>",
          "give a skill's values to the copy found now, and no longer to another",
        ).conflicts(["list", "revoke"]),
      )
      .option("-y, --yes", "trust it without asking; needed where there is no terminal")
      .addHelpText(
        "after",
        "\nScripts and commands of a skill run in a sandbox.\nIts tools (toolsets) run as you, without a sandbox.",
      )
      .addHelpText(
        "after",
        examples(
          "skillet trust",
          "skillet trust skills/deploy",
          "skillet trust ~/.claude/skills",
          "skillet trust --text .",
          "skillet trust --mine ~/code/skills",
          "skillet trust --list",
          "skillet trust --revoke skills/deploy",
          "skillet trust --secrets research",
        ),
      ),
  load: async () => (await import("../commands/trust.ts")).trust,
};
