import { createArgumentParser } from "./sb-args.ts";
import { createOutputFormatter } from "./sb-output.ts";
import { runSandboxCommand } from "./sb-program.ts";

// The build replaces this module with the source texts: a bundler may emit functions that need its own helpers.

/** The functions of `skillet-sb` as source text. */
export const PROGRAM_SOURCE = String(runSandboxCommand);
export const ARGUMENT_PARSER_SOURCE = String(createArgumentParser);
export const OUTPUT_FORMATTER_SOURCE = String(createOutputFormatter);
