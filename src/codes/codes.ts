import { ARCHIVES } from "./archives.ts";
import { CAPABILITIES } from "./capabilities.ts";
import { COMMAND } from "./command.ts";
import { CODES } from "./findings.ts";
import { LOCKS } from "./locks.ts";
import { MCP } from "./mcp.ts";
import { PROMPTS } from "./prompts.ts";
import { RUNS } from "./runs.ts";
import { SCRIPTS } from "./scripts.ts";
import { SOURCES } from "./sources.ts";
import { TOOLS } from "./tools.ts";
import { USE } from "./use.ts";

/** Every code that skillet gives, each in one table. Import the types alone: the words are for docs/errors.md. */
export const ERROR_CODES = {
  ...{ ...CODES, ...SOURCES, ...ARCHIVES, ...LOCKS, ...USE, ...RUNS, ...SCRIPTS },
  ...{ ...TOOLS, ...CAPABILITIES, ...MCP, ...PROMPTS, ...COMMAND },
} as const;

/** Where code of others may bring codes of its own (results of tools, events), a code is any text. */
export type ErrorCode = keyof typeof ERROR_CODES;
