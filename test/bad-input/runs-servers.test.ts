import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { moduleOf } from "../support/program.ts";
import { serverHost } from "./runs-scene.ts";

describe("an MCP server", () => {
  it("that ignores the request to end is gone after the program that started it", async () => {
    const { home, log, settings } = serverHost("stays");
    const program = `
      import { listMcpTools } from ${JSON.stringify(moduleOf("agent/mcp-client/mcp-servers"))};
      import { DEFAULT_SETTINGS } from ${JSON.stringify(moduleOf("config/settings"))};
      const [name, { env, ...more }] = ${JSON.stringify([...settings.mcp].map(([name, { env, ...more }]) => [name, { ...more, env: [...env] }])[0])};
      const mcp = new Map([[name, { ...more, env: new Map(env) }]]);
      const { tools } = await listMcpTools({ home: ${JSON.stringify(home)}, env: {}, settings: { ...DEFAULT_SETTINGS, mcp } });
      process.stdout.write((await tools[0].execute({})).text);`;
    const run = promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
    expect((await run).stdout).toContain("echo");
    const pid = Number(readFileSync(log, "utf8"));
    await expect.poll(() => isRunning(pid)).toBe(false);
  });
});

/** A zombie, which was not reaped since it ended, does not count. */
function isRunning(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
