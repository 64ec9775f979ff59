import { spawn } from "node:child_process";
import { asOrdinaryUser } from "./ordinary-user.ts";
import { WITH_BUILT } from "./program.ts";

export interface Starting {
  /** True to run it as a user other than root. */
  isOrdinary?: boolean;
  /** A program that starts it, with its arguments. */
  wrap?: readonly string[];
}

/** Runs a file of the tests as `node FILE ORDERS`, which prints its result as JSON. Returns the result, and the signal that ended it. */
export async function runOwnProcess<Came extends { signal: string | null }>(
  file: string,
  orders: object,
  { isOrdinary = false, wrap = [] }: Starting = {},
): Promise<Came> {
  const drop = isOrdinary ? asOrdinaryUser() : [];
  const node = [process.execPath, ...WITH_BUILT, file, JSON.stringify(orders)];
  const [program = "", ...args] = [...wrap, ...drop, ...node];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], cwd: "/" });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (bytes) => {
    stdout += bytes;
  });
  child.stderr.on("data", (bytes) => {
    stderr += bytes;
  });
  const signal = await new Promise<string | null>((resolve) => child.on("close", (_, by) => resolve(by)));
  if (signal === null && !stdout.startsWith("{")) throw new Error(`${stdout}${stderr}`);
  return { ...(stdout === "" ? {} : JSON.parse(stdout)), signal };
}
