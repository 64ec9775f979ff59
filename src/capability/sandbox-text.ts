import { program } from "./sandbox-program.ts";
import { spelling } from "./sandbox-spelling.ts";
import { telling } from "./sandbox-telling.ts";

// The build replaces this module with the texts: a bundler may write functions that need helpers of its own.

/** The functions of `skillet-sb` as texts. */
export const PROGRAM = String(program);
export const SPELLING = String(spelling);
export const TELLING = String(telling);
