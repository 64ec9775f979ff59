import { createArgumentParser } from "./sb-args.ts";
import { createOutputFormatter } from "./sb-output.ts";
import { runSandboxCommand } from "./sb-program.ts";

// The build replaces this module with the texts: a bundler may write functions that need helpers of its own.

/** The functions of `skillet-sb` as texts. */
export const PROGRAM_SOURCE = String(runSandboxCommand);
export const ARGUMENT_PARSER_SOURCE = String(createArgumentParser);
export const OUTPUT_FORMATTER_SOURCE = String(createOutputFormatter);
