import { CommanderError } from "commander";
import { SkillError } from "../shared/error.ts";
import { type Io, printer } from "./io.ts";
import { buildProgram } from "./program.ts";

/** What every command ends with. */
export const EXIT = { fine: 0, findings: 1, usage: 2, refused: 3, limit: 4, waiting: 5 } as const;

/** The command line as a function. Never throws and never ends the process. */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  let code: number = EXIT.fine;
  const program = buildProgram(io, argv, (result) => {
    code = result;
  });
  try {
    await program.parseAsync(argv, { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.fine : EXIT.usage;
    const { line, red } = printer(io.stderr, io.env);
    const message = error instanceof Error ? error.message : String(error);
    line`${red("✗")} ${message}`;
    if (error instanceof SkillError && error.fix) line`  ${error.fix}`;
    else if (!(error instanceof SkillError))
      line`  this is a bug in skillet: please report it with the command you ran`;
    return EXIT.findings;
  }
}
