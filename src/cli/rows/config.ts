import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** `skillet config` and what stands below it. */
export const CONFIG: Entry = {
  define: (command) =>
    command
      .description("show what is configured, what holds by default, and where each value comes from")
      .option("--show-secrets", "show the values of variables and keys")
      .addHelpText(
        "after",
        examples(
          "skillet config",
          "skillet config get skills.research.model",
          "skillet config set skills.research.enabled true",
          "skillet config set skills.research.PERPLEXITY_API_KEY < key.txt",
        ),
      ),
  load: async () => (await import("../commands/config.ts")).showConfig,
  commands: {
    get: {
      define: (command) =>
        command
          .description("print one value: yours, the workspace's, or the default")
          .argument("<key>", "a key, as skills.research.model; or a table, for all that is in it")
          .option("--show-secrets", "print it also when it is a secret")
          .addHelpText(
            "after",
            examples(
              "skillet config get limits.max_iterations",
              "skillet config get skills.research",
              "skillet config get skills.research.PERPLEXITY_API_KEY --show-secrets",
            ),
          ),
      load: async () => (await import("../commands/config-get.ts")).getConfig,
    },
    set: {
      define: (command) =>
        command
          .description("write one value into your config.toml, and leave the rest of it as it is")
          .argument("<key>", "a key, as skills.research.model")
          .argument("[value]", "the value; a secret is piped in or asked for")
          .option("--for <copy>", "the copy of a skill that gets it, as NAME@SOURCE")
          .addHelpText(
            "after",
            examples(
              "skillet config set skills.research.model fast",
              "skillet config set tools.disabled bash,grep",
              "skillet config set skills.research.PERPLEXITY_API_KEY",
              "skillet config set skills.research.PERPLEXITY_API_KEY env:PERPLEXITY_API_KEY",
              "pass show perplexity | skillet config set skills.research.PERPLEXITY_API_KEY",
              "skillet config set skills.research.MY_KEY --for research@bundled < key.txt",
            ),
          ),
      load: async () => (await import("../commands/config.ts")).setConfig,
    },
    unset: {
      define: (command) =>
        command
          .description("take one value out of your config.toml")
          .argument("<key>", "a key, as skills.research.model")
          .addHelpText("after", examples("skillet config unset skills.research.model")),
      load: async () => (await import("../commands/config.ts")).unsetConfig,
    },
    path: {
      define: (command) =>
        command
          .description("print where your config.toml is, whether it is there or not")
          .addHelpText("after", examples('$EDITOR "$(skillet config path)"')),
      load: async () => (await import("../commands/config.ts")).configPath,
    },
  },
};
