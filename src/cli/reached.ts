import { setTimeout as sleep } from "node:timers/promises";
import { type LiveProcess, liveProcesses, type ProcessKind } from "../host/live-processes.ts";
import { fingerprintOf } from "../host/live-settings.ts";
import { realPlace } from "../shared/inside.ts";
import { count } from "../shared/text.ts";
import type { Surroundings } from "../source/locations.ts";
import { type Io, printer } from "./io.ts";
import { sayNotice } from "./say.ts";
import { printHanging } from "./wrap.ts";

/** The running servers and chats that follow a configuration file: those that have applied its content, and those that have not. */
export interface Reached {
  applied: readonly LiveProcess[];
  late: readonly LiveProcess[];
}

/** Waits until every running server and chat has applied a change of a configuration file, for two seconds at most. */
export async function waitUntilApplied(file: string, { skilletHome }: Surroundings): Promise<Reached> {
  const end = performance.now() + LONGEST_MS;
  for (;;) {
    const fingerprint = fingerprintOf(file);
    const followers = liveProcesses(skilletHome).filter((one) => appliedOf(one, file) !== undefined);
    const applied = followers.filter((one) => appliedOf(one, file) === fingerprint);
    const late = followers.filter((one) => !applied.includes(one));
    if (late.length === 0 || performance.now() > end) return { applied, late };
    await sleep(LOOK_MS);
  }
}

/** Returns the fingerprint of a file that a process has applied; undefined if it does not follow the file. Symlinks are resolved. */
function appliedOf({ applied }: LiveProcess, file: string): string | undefined {
  return Object.entries(applied).find(([path]) => realPlace(path) === realPlace(file))?.[1];
}

const LONGEST_MS = 2000;
const LOOK_MS = 25;

interface SaidReached {
  /** The consequence for runs under way. */
  runs: string;
  /** Whether something was revoked: then it is also reported that no server or chat of the user is running. */
  isRevocation?: boolean;
}

/** Reports in which running servers and chats a change is in effect, if there was one. */
export function sayReached(io: Io, reached: Reached | undefined, { runs, isRevocation = false }: SaidReached): void {
  const { applied = [], late = [] } = reached ?? {};
  if (!reached || (applied.length + late.length === 0 && !isRevocation)) return;
  const out = printer(io.stdout, io.env);
  const where = applied.length > 0 ? `in effect in ${sayKinds(applied)}; ` : late.length > 0 ? "" : `${NONE_RUNNING}; `;
  printHanging(out, "  ", [`${where}a run under way ${runs}`], { indent: 2, paint: out.dim });
  if (late.length === 0) return;
  const error = printer(io.stderr, io.env);
  const pids = late.map(({ pid }) => pid).join(", ");
  const message = `${sayKinds(late)} ${late.length === 1 ? "has" : "have"} not applied it yet`;
  sayNotice(error, error.yellow("!"), message, `stop what does not answer: process ${pids}`);
}

/** Processes register below the home of their user: those of other users are unknown. */
const NONE_RUNNING = "no server or chat of yours is running";

/** Returns the running servers and chats for `--json`; empty if nothing was changed. */
export function reachedFacts(reached: Reached | undefined) {
  if (!reached) return {};
  const { applied, late } = reached;
  const running = [...applied, ...late].map((one) => ({
    kind: one.kind,
    pid: one.pid,
    isApplied: !late.includes(one),
  }));
  return { running };
}

/** `2 running servers and 1 running chat`. */
function sayKinds(processes: readonly LiveProcess[]): string {
  const number = (kind: ProcessKind) => processes.filter((one) => one.kind === kind).length;
  const kinds = (["server", "chat"] as const).filter((kind) => number(kind) > 0);
  return kinds.map((kind) => count(number(kind), `running ${kind}`)).join(" and ");
}
