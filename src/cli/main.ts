import { CommanderError } from "commander";
import { closeMcpServers } from "../run/mcp/end.ts";
import { SkillError } from "../shared/error.ts";
import { EXIT } from "./exit.ts";
import { type Io, printer } from "./io.ts";
import { buildProgram } from "./program.ts";
import { sayNotice } from "./say.ts";

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
    const out = printer(io.stderr, io.env);
    const message = error instanceof Error ? error.message : String(error);
    // On one line: it may hold the name of somebody's file.
    const fix = error instanceof SkillError ? (error.fix ?? "") : BUG;
    sayNotice(out, out.red("✗"), message, fix.replace(/\s*\n\s*/g, " "));
    return error instanceof SkillError && USAGE.has(error.code) ? EXIT.usage : EXIT.findings;
  } finally {
    await closeMcpServers();
  }
}

const BUG = "this is a bug in skillet: please report it with the command you ran";
const USAGE = new Set(["workspace-missing", "usage"]);
