import { EXIT } from "../exit.ts";
import { buildProgram, type Context, unknownCommand } from "../program.ts";

export async function help({ io, args }: Context<object>): Promise<number> {
  let command = buildProgram(io, args, () => {});
  for (const name of args) {
    const inner = command.commands.find((other) => other.name() === name);
    command = inner ?? unknownCommand(command, name);
  }
  command.outputHelp();
  return EXIT.fine;
}
