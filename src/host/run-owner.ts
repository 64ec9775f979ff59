import { readFileSync, rmSync } from "node:fs";
import { hostname } from "node:os";
import { codeOf } from "../shared/inside.ts";
import { readRegularText } from "../shared/regular-file.ts";
import { replaceFile, whileLocked } from "./locked-file.ts";

/** The process that is at something: a run, a folder that it writes, a home. */
export interface Owner {
  pid: number;
  host: string;
  /** When that process began, as the system counts: numbers of processes are used again. */
  start: string;
}

/** Takes a run, or says who has it. */
export function claimRun(file: string): { held: Owner } | { release(): void } {
  return whileLocked(file, () => {
    const held = ownerIn(file);
    if (held) return { held };
    const mine = ownerText();
    replaceFile(file, mine);
    return {
      release() {
        if (readFileOrNone(file) === mine) rmSync(file, { force: true });
      },
    };
  });
}

/** This process, as it is written down for others to find with `ownerIn`. */
export function ownerText(): string {
  return JSON.stringify({ pid: process.pid, host: hostname(), start: startOf(process.pid) });
}

/** Who is at it now. A process of this machine that is gone is not; of those of others nothing is known. */
export function ownerIn(file: string): Owner | undefined {
  const owner = ownerFrom(readFileOrNone(file));
  if (owner === undefined || owner.host !== hostname()) return owner;
  return isAlive(owner.pid) && startOf(owner.pid) === owner.start ? owner : undefined;
}

/** It is written whole or not at all: what is anything else is nobody's. */
function ownerFrom(text: string): Owner | undefined {
  try {
    const { pid, host, start } = Object(JSON.parse(text));
    const isOwner = Number.isSafeInteger(pid) && pid > 0 && typeof host === "string" && typeof start === "string";
    return isOwner ? { pid, host, start } : undefined;
  } catch {
    return undefined;
  }
}

/** A file of skillet's own; empty where there is none. */
function readFileOrNone(file: string): string {
  try {
    return readRegularText(file);
  } catch {
    return "";
  }
}

function readOrNone(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
}

/** Where the system does not tell, all begin at once. One that is dead and still listed has begun never. */
function startOf(pid: number): string {
  const stat = readOrNone(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" ? "never" : (fields[19] ?? "");
}
