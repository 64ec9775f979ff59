import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../../support/folder.ts";
import { client } from "./client.ts";

export type Revision = "2025-11-25" | "2026-07-28";

/** The results of the conformance suite: the outcomes of each scenario's checks. */
export type Verdict = Record<string, readonly Check[]>;

export interface Check {
  id: string;
  status: "SUCCESS" | "FAILURE" | "WARNING" | "SKIPPED" | "INFO";
  errorMessage?: string;
}

export interface Wanted {
  /** Defaults to all of the suite's scenarios for servers of the revision. */
  scenarios?: readonly string[];
  /** Scenarios that are known to fail. */
  expected?: readonly string[];
}

/** Runs the suite's scenarios against a server. */
export async function conformance(url: string, revision: Revision, wanted: Wanted = {}): Promise<Verdict> {
  const { scenarios, expected = [] } = wanted;
  const common = ["server", "--url", url, "--timeout", "20000"];
  const alone = (name: string) => [...common, "--scenario", name, "--spec-version", revision, "--force"];
  const verdict = await run(scenarios ? scenarios.map(alone) : [[...common, "--requirements", revision]]);
  // Some checks give an answer half a second, which a busy machine may need: a failed one runs once more, alone.
  const failed = Object.keys(verdict).filter((name) => !expected.includes(name) && findings(verdict, name).length > 0);
  return { ...verdict, ...(await run(failed.map(alone))) };
}

/** Runs a scenario of the suite for clients: it starts `command` with the address of its server. */
export async function clientConformance(command: string, scenario: string): Promise<readonly Check[]> {
  const verdict = await run([["client", "--command", command, "--scenario", scenario, "--timeout", "60000"]]);
  return verdict[scenario] ?? [];
}

/** The checks of a scenario that neither pass nor only inform, with the error. */
export function findings(verdict: Verdict, scenario: string): string[] {
  return (verdict[scenario] ?? [])
    .filter(({ status }) => status === "FAILURE" || status === "WARNING")
    .map(({ id, status, errorMessage }) => `${scenario}: ${id}: ${status}: ${errorMessage}`);
}

/** The scenarios with at least one passed check and no failed one. */
export function passed(verdict: Verdict): string[] {
  return Object.entries(verdict)
    .filter(([, checks]) => checks.every(({ status }) => status !== "FAILURE"))
    .filter(([, checks]) => checks.some(({ status }) => status === "SUCCESS"))
    .map(([scenario]) => scenario)
    .sort();
}

const PROGRAM = client("@modelcontextprotocol/conformance/dist/index.js");

/** A hanging process is ended: it would outlive the test. */
const LONGEST_MS = 90_000;

/** One process after the other: they expect a quick answer. */
async function run(commands: readonly (readonly string[])[]): Promise<Verdict> {
  const folder = temporaryFolder();
  for (const args of commands) await start([PROGRAM, ...args, "--output-dir", folder], folder);
  return Object.fromEntries(
    readdirSync(folder).map((name) => [
      name.replace(/^(?:server-)?(.*)-\d{4}-\d\d-\d\dT[\d-]+Z$/, "$1"),
      JSON.parse(readFileSync(join(folder, name, "checks.json"), "utf8")),
    ]),
  );
}

/** It exits with 1 after a failure, which its files describe better. */
function start(args: readonly string[], cwd: string): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { cwd, maxBuffer: 1e8, timeout: LONGEST_MS }, (error, stdout, stderr) => {
      if (error && error.code !== 1) reject(new Error(`${error.message}\n${stdout}\n${stderr}`));
      else resolve();
    });
  });
}
