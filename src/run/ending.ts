import type { Limits } from "../host/sandbox.ts";
import { count } from "../shared/text.ts";
import type { ScriptResult } from "./script.ts";

type Ended = Pick<ScriptResult, "exitCode" | "signal" | "ending"> & { limits: Limits };

/** How a script or a command ended, in words, and the key of the limit that ended it. */
export function sayEnding(result: Ended): { said: string; key?: string } {
  return ENDINGS[result.ending](result);
}

const ENDINGS: Record<ScriptResult["ending"], (result: Ended) => { said: string; key?: string }> = {
  refused: () => ({ said: "not run" }),
  exit: ({ exitCode, signal }) => ({ said: signal === undefined ? `exit ${exitCode}` : `ended by ${signal}` }),
  timeout: ({ limits }) => ({
    said: `stopped after ${count(limits.seconds, "second")}, its limit`,
    key: "[scripts] timeout_seconds",
  }),
  output: ({ limits }) => ({
    said: `stopped at ${sizeOf(limits.output)} of output, its limit`,
    key: "[scripts] output_bytes",
  }),
  memory: ({ limits }) => ({
    said: `stopped at ${sizeOf(limits.memory)} of memory, its limit`,
    key: "[sandbox] memory_mib",
  }),
  abort: () => ({ said: "interrupted; all that it started has ended" }),
};

function sizeOf(bytes: number): string {
  return bytes % MIB === 0 ? `${bytes / MIB} MiB` : count(bytes, "byte");
}

const MIB = 1024 * 1024;
