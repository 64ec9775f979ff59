import childProcess from "node:child_process";
import { syncBuiltinESMExports } from "node:module";

type Start = (...args: unknown[]) => unknown;

/**
 * Keeps programs that a skill's own code starts in this thread from inheriting its host's streams: on them the host may speak a
 * protocol. It holds for what happens by accident: this code is trusted, and has other ways.
 */
export function inheritNothing(): void {
  const all = childProcess as unknown as Record<string, Start>;
  for (const name of STARTERS) {
    const start = all[name] as Start;
    const own: Start = (...args) => start(...withOwnStreams(name, args));
    all[name] = Object.defineProperties(own, Object.getOwnPropertyDescriptors(start));
  }
  syncBuiltinESMExports();
}

const STARTERS = ["spawn", "spawnSync", "execSync", "execFileSync", "fork"];

function withOwnStreams(name: string, args: unknown[]): unknown[] {
  const at = args.findIndex((given, index) => index > 0 && Object(given) === given && !Array.isArray(given));
  const options = (at === -1 ? {} : args[at]) as { stdio?: unknown; silent?: boolean };
  const isFork = name === "fork";
  const given = options.stdio ?? (isFork && options.silent !== true ? "inherit" : undefined);
  if (given === undefined) return args;
  const listed: unknown[] = Array.isArray(given) ? given : [given, given, given];
  const stdio = listed.map((one) => (isOfHost(one) ? "ignore" : one));
  const changed = { ...options, stdio: isFork && !stdio.includes("ipc") ? [...stdio, "ipc"] : stdio };
  return at === -1 ? [...args.filter((one) => one !== undefined), changed] : args.with(at, changed);
}

function isOfHost(one: unknown): boolean {
  const { stdin, stdout, stderr } = process;
  const standard: unknown[] = ["inherit", 0, 1, 2, stdin, stdout, stderr];
  return standard.includes(one);
}
