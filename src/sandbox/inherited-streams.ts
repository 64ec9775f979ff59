import childProcess from "node:child_process";
import { syncBuiltinESMExports } from "node:module";

/**
 * Stops programs that trusted skill code starts in this thread from inheriting the host's streams, on which the host
 * may speak a protocol. This prevents accidents only: the code is trusted and has other ways.
 */
export function detachInheritedStreams(): void {
  const all = childProcess as unknown as Record<string, StartProcess>;
  for (const name of START_FUNCTIONS) {
    const start = all[name] as StartProcess;
    const own: StartProcess = (...args) => start(...replaceInheritedStreams(name, args));
    all[name] = Object.defineProperties(own, Object.getOwnPropertyDescriptors(start));
  }
  syncBuiltinESMExports();
}

type StartProcess = (...args: unknown[]) => unknown;

const START_FUNCTIONS = ["spawn", "spawnSync", "execSync", "execFileSync", "fork"];

function replaceInheritedStreams(name: string, args: unknown[]): unknown[] {
  const at = args.findIndex((arg, index) => index > 0 && Object(arg) === arg && !Array.isArray(arg));
  const options = (at === -1 ? {} : args[at]) as { stdio?: unknown; silent?: boolean };
  const isFork = name === "fork";
  const requested = options.stdio ?? (isFork && options.silent !== true ? "inherit" : undefined);
  if (requested === undefined) return args;
  const listed: unknown[] = Array.isArray(requested) ? requested : [requested, requested, requested];
  const stdio = listed.map((one) => (isHostStream(one) ? "ignore" : one));
  const changed = { ...options, stdio: isFork && !stdio.includes("ipc") ? [...stdio, "ipc"] : stdio };
  return at === -1 ? [...args.filter((one) => one !== undefined), changed] : args.with(at, changed);
}

function isHostStream(one: unknown): boolean {
  const { stdin, stdout, stderr } = process;
  const standard: unknown[] = ["inherit", 0, 1, 2, stdin, stdout, stderr];
  return standard.includes(one);
}
