import { spawnSync } from "node:child_process";
import { chmodSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findSystemProgram } from "../../src/util/system.ts";
import { skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";
import { RUN, SHARED_CODE, PROGRAM as START } from "../support/program.ts";

const PROGRAM = join(import.meta.dirname, "../support/mcp-server.ts");

function homeWith(config: string): string {
  const home = temporaryFolder({ ".skillet/config.toml": config });
  chmodSync(join(home, ".skillet/config.toml"), 0o600);
  return home;
}

const server = (name: string, kind: string, more = "") =>
  `[tools.mcp.${name}]\ncommand = ${JSON.stringify([process.execPath, PROGRAM, kind])}\n${more}\n`;

describe("`doctor --tools`", () => {
  it("starts the configured servers, and reports what each provides or lacks", async () => {
    const HOME = homeWith(
      server("web", "usual", 'tools = ["look", "send"]') +
        server("dies", "dies", 'env = { API_KEY = "the key" }') +
        server("off", "usual", "enabled = false"),
    );
    const { code, stdout } = await skillet(["doctor", "--tools"], { env: { HOME } });
    expect(stdout).toMatch(/✓ web {2}2 tools {2}.*mcp-server\.ts usual\n {4}web\.look, web\.send\n/);
    expect(stdout).toMatch(/✗ dies {2}0 tools/);
    expect(stdout).toMatch(/MCP server 'dies' cannot be used: .*code 7; it printed: \[API_KEY\] is missing/);
    expect(stdout).toContain("under [tools.mcp.dies] in config.toml");
    expect(stdout).toMatch(/ off {2}disabled/);
    expect(code).toBe(1);
  });

  it("reports the same as JSON", async () => {
    const HOME = homeWith(server("web", "usual", 'tools = ["look"]'));
    const { code, stdout } = await skillet(["doctor", "--tools", "--json"], { env: { HOME } });
    expect(JSON.parse(stdout)).toMatchObject({ servers: [{ name: "web", tools: ["web.look"], problems: [] }] });
    expect(code).toBe(0);
  });

  it("reports that no server is configured", async () => {
    const { code, stdout } = await skillet(["doctor", "--tools"]);
    expect(stdout).toContain("none configured");
    expect(code).toBe(0);
  });
});

describe("`doctor`", () => {
  it.runIf(process.platform === "linux")("reports a full disk under the home", async () => {
    const disk = join(temporaryFolder({ "disk/.keep": "" }), "disk");
    const source = `
      import { writeFileSync } from "node:fs";
      import { run } from ${JSON.stringify(START)};
      try { writeFileSync("ballast", "x".repeat(1_000_000)); } catch {}
      ${RUN}`;
    const start = join(temporaryFolder({ "start.mjs": source }), "start.mjs");
    const small = ["--dev-bind", "/", "/", "--size", "307200", "--tmpfs", disk, "--chdir", disk, "--"];
    const { status, stdout } = spawnSync(
      findSystemProgram("bwrap") ?? "",
      [...small, process.execPath, start, "doctor"],
      { env: { ...SHARED_CODE, HOME: disk, SKILLET_HOME: disk }, encoding: "utf8" },
    );
    expect(stdout).toContain("is not writable: no state is saved between starts\n");
    expect(stdout).toContain(`Nothing can be written to ${disk}: no space left on device`);
    expect(status).toBe(1);
  });

  it("leaves no file in a home that is writable", async () => {
    const HOME = temporaryFolder();
    const { stdout } = await skillet(["doctor"], { env: { HOME, SKILLET_HOME: HOME } });
    expect(stdout).toContain("is writable\n");
    expect(readdirSync(HOME).filter((name) => name.startsWith("."))).toEqual([]);
  });
});
