import { Tool } from "@agent/tools";
import { z } from "zod";

const SECONDS = 20;

const files = z
  .array(z.string())
  .min(1)
  .max(8)
  .describe("Paths of data files in the workspace: CSV, TSV, JSON, JSON lines");

interface Context {
  signal: AbortSignal;
  sandbox: {
    run(
      argv: [string, ...string[]],
      options: { stdin: string; seconds: number; signal: AbortSignal },
    ): Promise<{ ending: string; exitCode?: number; stdout: string; stderr: string }>;
  };
}

/** Reads the files in the sandbox of the caller: untrusted data is parsed there, and a query that never ends is killed. */
async function runScript(command: "describe" | "query", input: unknown, { sandbox, signal }: Context) {
  const argv: [string, ...string[]] = ["node", "--no-warnings", "/skill/scripts/tables.mjs", command];
  const { ending, exitCode, stdout, stderr } = await sandbox.run(argv, {
    stdin: JSON.stringify(input),
    seconds: SECONDS,
    signal,
  });
  if (ending === "timeout") throw new Error(`It took longer than ${SECONDS} seconds. Filter or join less.`);
  if (ending !== "exit" || exitCode !== 0)
    throw new Error(stderr.trim().split("\n").at(-1) || `It was stopped: ${ending}`);
  const { error, ...answer } = JSON.parse(stdout);
  if (error !== undefined) throw new Error(error);
  return answer;
}

export const Tables = [
  Tool.define("describe", {
    description: "Describes data files: table name, columns with their types, number of rows, and the first rows.",
    parameters: z.object({ files }),
    isReadOnly: true,
    execute: (input, context) => runScript("describe", input, context),
  }),
  Tool.define("query", {
    description: "Runs one SELECT of SQLite over data files. Each file is a table with the name that `describe` shows.",
    parameters: z.object({ files, sql: z.string().max(20_000).describe("One SELECT statement") }),
    isReadOnly: true,
    execute: (input, context) => runScript("query", input, context),
  }),
];
