import { Argument } from "commander";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** The shells whose completion is known: spelled out here too, since every command reads this file. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/** `skillet completion`. */
export const COMPLETION: Entry = {
  define: (command) =>
    command
      .description("print what makes a shell complete commands, options and names of skills at TAB")
      .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
      .argument("[word...]", "for that script, after --: a line so far; print what can come next")
      .usage("[options] <shell>")
      .addHelpText(
        "after",
        `
Put it where your shell looks at its start, once:
  bash  echo 'source <(skillet completion bash)' >> ~/.bashrc
  zsh   echo 'source <(skillet completion zsh)' >> ~/.zshrc   (below compinit)
  fish  skillet completion fish > ~/.config/fish/completions/skillet.fish`,
      )
      .addHelpText("after", examples("source <(skillet completion bash)", "skillet completion fish | source")),
  load: async () => (await import("../commands/completion.ts")).completion,
};

/** `skillet help`. */
export const HELP: Entry = {
  define: (command) =>
    command
      .description("show the help of a command")
      .argument("[command...]", "the command; the program when left out")
      .addHelpText("after", examples("skillet help run", "skillet help config set")),
  load: async () => (await import("../commands/help.ts")).help,
};
