import { CommanderError } from "commander";
import { SkillError } from "../shared/error.ts";
import { EXIT } from "./exit.ts";
import { type Io, printer } from "./io.ts";
import { buildProgram } from "./program.ts";

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
    return error instanceof SkillError && USAGE.has(error.code) ? EXIT.usage : EXIT.findings;
  }
}

const USAGE = new Set(["workspace-missing", "usage"]);
