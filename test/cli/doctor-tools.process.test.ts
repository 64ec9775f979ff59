import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";

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
