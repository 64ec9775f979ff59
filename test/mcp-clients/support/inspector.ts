import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { temporaryFolder } from "../../support/folder.ts";
import { waitFor } from "../../support/wait-for.ts";
import { client } from "./client.ts";
import type { Program } from "./served.ts";

const LAUNCHER = client("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
const MCPDO = client("@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js");

/** A hanging process is ended: it would outlive the test. */
const LONGEST_MS = 30_000;

export interface Answered {
  code: number;
  /** Its output: lines of JSON, or the error. */
  said: string;
}

export interface Inspector {
  /** One connection for this call alone: `inspector --cli`. */
  cli(...args: readonly string[]): Promise<Answered>;
  /** A call in the connection that stays open from `connect skillet` on: the Inspector's `mcpdo`. */
  mcpdo(...args: readonly string[]): Promise<Answered>;
}

/** The Inspector's two command lines, over a file that configures this server as `skillet`. Their leftover processes end with the test. */
export function openInspector({ command, args, env, cwd }: Program): Inspector {
  const folder = temporaryFolder();
  const config = join(folder, "mcp.json");
  writeFileSync(config, JSON.stringify({ mcpServers: { skillet: { command, args, env, cwd } } }));
  const own = {
    PATH: env["PATH"],
    HOME: folder,
    MCP_STORAGE_DIR: folder,
    MCP_INSPECTOR_SECRET_STORE: "file",
  };
  const run = (program: string, given: readonly string[]) =>
    new Promise<Answered>((resolve) => {
      execFile(
        process.execPath,
        [program, ...given],
        { cwd: folder, env: own, maxBuffer: 1e8, timeout: LONGEST_MS },
        (error, stdout, stderr) => {
          const code = error ? Number(error.code ?? 1) : 0;
          resolve({ code, said: code === 0 ? stdout : `${stdout}${stderr}` });
        },
      ).stdin?.end();
    });
  const mcpdo = (...given: readonly string[]) => run(MCPDO, ["--format", "json", "--config", config, ...given]);
  onTestFinished(() => stopDaemon(folder, mcpdo));
  return {
    mcpdo,
    cli: (...given) =>
      run(LAUNCHER, ["--cli", "--config", config, "--server", "skillet", "--format", "json", "--quiet", ...given]),
  };
}

/** It has no parent: if `daemon stop` does not end it, its pid is killed. */
async function stopDaemon(folder: string, mcpdo: Inspector["mcpdo"]): Promise<void> {
  const lock = join(folder, "mcpdod.lock");
  if (!existsSync(lock)) return;
  const pid = Number(readFileSync(lock, "utf8"));
  await mcpdo("daemon", "stop");
  try {
    await waitFor(() => {
      if (isAlive(pid)) throw new Error(`the Inspector's daemon ${pid} goes on`);
    });
  } catch {
    process.kill(pid, "SIGKILL");
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
