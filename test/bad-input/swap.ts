import { spawn } from "node:child_process";

export interface Swap {
  /** Whether there is still something to race against. */
  goesOn(): boolean;
  [Symbol.asyncDispose](): Promise<void>;
}

const RUN = 900;

/** Another process points a link now here, now there, as fast as it can. Contract: resolves when it has begun. */
export async function swapping(link: string, one: string, other: string): Promise<Swap> {
  const program = `
    const { symlinkSync, renameSync } = require("node:fs");
    const [link, one, other] = process.argv.slice(1);
    process.stdout.write("begun");
    for (const end = Date.now() + ${RUN * 5}; Date.now() < end; ) {
      for (const target of [other, one]) {
        symlinkSync(target, link + ".next");
        renameSync(link + ".next", link);
      }
    }`;
  const child = spawn(process.execPath, ["-e", program, link, one, other], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  await new Promise<void>((resolve, reject) => {
    child.stdout.once("data", () => resolve());
    child.once("error", reject);
  });
  const end = Date.now() + RUN;
  return {
    goesOn: () => Date.now() < end,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
