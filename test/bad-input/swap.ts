import { spawn } from "node:child_process";
import { onTestFinished } from "vitest";

export interface Swap {
  /** True while to try again: this many times, and until both sides occurred, which may take longer when the other process gets little time. */
  goesOn(hasSeenBoth: boolean): boolean;
}

const LOOKS = 100;
/** Only turns a hang into a failure. */
const DEADLINE_MS = 45_000;

/** Another process points a link to two targets in turn, as fast as it can. Contract: resolves when it has started. */
export function startSwapping(link: string, one: string, other: string): Promise<Swap> {
  return swappingBy(["symlinkSync", "symlinkSync"], link, [one, other]);
}

/** The same for a file that is a copy of one and a hard link to another in turn. */
export function startSwappingNames(path: string, one: string, other: string): Promise<Swap> {
  return swappingBy(["copyFileSync", "linkSync"], path, [one, other]);
}

async function swappingBy(
  [makeOne, makeOther]: readonly [string, string],
  link: string,
  [one, other]: readonly [string, string],
): Promise<Swap> {
  const program = `
    const { ${[...new Set([makeOne, makeOther])].join(", ")}, renameSync } = require("node:fs");
    const [link, one, other] = process.argv.slice(1);
    process.stdout.write("begun");
    for (const end = Date.now() + ${DEADLINE_MS}; Date.now() < end; ) {
      ${makeOther}(other, link + ".next");
      renameSync(link + ".next", link);
      ${makeOne}(one, link + ".next");
      renameSync(link + ".next", link);
    }`;
  const child = spawn(process.execPath, ["-e", program, link, one, other], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  await new Promise<void>((resolve, reject) => {
    child.stdout.once("data", () => resolve());
    child.once("error", reject);
  });
  const deadline = Date.now() + DEADLINE_MS;
  let looks = 0;
  return { goesOn: (hasSeenBoth) => looks++ < LOOKS || (!hasSeenBoth && Date.now() < deadline) };
}
