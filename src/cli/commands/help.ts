import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { buildProgram, failUnknownCommand } from "../program.ts";

/** `skillet help`. */
export const helpCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Show the help of a command")
      .argument("[command...]", "The command. Defaults to the program itself.")
      .addHelpText("after", formatExamples("skillet help run", "skillet help config set")),
  run: printHelp,
};

async function printHelp({ io, args }: CommandContext<object>): Promise<number> {
  let command = await buildProgram(io, args, () => {});
  for (const name of args) {
    const inner = command.commands.find((other) => other.name() === name);
    command = inner ?? failUnknownCommand(command, name);
  }
  command.outputHelp();
  return EXIT.fine;
}
