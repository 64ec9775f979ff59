import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText } from "../support/folder.ts";
import { createHomeWith, environment, type Place, startOf } from "../support/mcp-process.ts";
import { waitFor } from "../support/wait-for.ts";

const SCRIPT = "#!/bin/sh\necho hello $1\n";

/** A home with a skill, for a `skillet serve` that is the server. */
function upstream(): Place {
  return createHomeWith({
    "home/.skillet/skills/greeter/SKILL.md": skillText("greeter", {
      body: "Say hello. See references/tone.md.",
      more: "allowed-tools: Bash(git:*)\n",
    }),
    "home/.skillet/skills/greeter/references/tone.md": "Be warm.\n",
    "home/.skillet/skills/greeter/scripts/hi.sh": SCRIPT,
  });
}

/** Runs commands in another home, where that server is configured. */
function downstream(config: string) {
  const { home, cwd } = createHomeWith({ "home/.skillet/config.toml": config });
  const run = (args: string[], more: { ask?: (question: string) => Promise<string> } = {}) =>
    skillet(args, { cwd, env: { HOME: home }, ...more });
  return { home, cwd, run };
}

function stdioConfig(place: Place): string {
  const env = Object.entries(environment(place)).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  return [
    "[tools.mcp.docs]",
    `command = ${JSON.stringify([process.execPath, ...startOf([])])}`,
    "skills = true",
    "[tools.mcp.docs.env]",
    ...env,
    "",
  ].join("\n");
}

/** Starts `skillet serve --http` and returns its address. */
async function httpServer(place: Place): Promise<string> {
  const args = startOf(["--http", "127.0.0.1:0", "--no-token"]);
  const child = spawn(process.execPath, args, { cwd: place.cwd, env: environment(place) });
  onTestFinished(async () => {
    child.kill();
    if (child.exitCode === null && child.signalCode === null) await once(child, "close");
  });
  let said = "";
  return new Promise((resolve, reject) => {
    const hear = (text: Buffer) => {
      said += text;
      const [url] = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(said) ?? [];
      if (url) resolve(url);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("close", () => reject(new Error(said)));
  });
}

describe("skills of another `skillet serve`", () => {
  it("[A-10] over stdio: are listed, read, trusted, run, and need approval again when they change", async () => {
    const server = upstream();
    const { home, cwd, run } = downstream(stdioConfig(server));
    // A busy machine may need longer to start the server than the time limit of a listing.
    const refreshed = () =>
      waitFor(async () => {
        const ran = await run(["list", "--refresh"]);
        expect(ran.stderr).not.toContain("remote-unavailable");
        return ran;
      });
    await refreshed();
    expect(await run(["list"])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^greeter +Does greeter\. Use when asked for greeter\. +mcp:docs \(untrusted\)$/m),
    });
    const listed = JSON.parse((await run(["list", "--json"])).stdout).skills;
    expect(listed.find(({ name }: { name: string }) => name === "greeter")).toMatchObject({
      ...{ scope: "integration", source: "mcp:docs", trust: "untrusted" },
      remote: { server: "docs", uri: "skill://greeter/SKILL.md", digest: expect.stringContaining("sha256:") },
    });
    expect((await run(["show", "greeter"])).stdout).toContain("MCP server docs");
    const cache = join(home, ".skillet/cache/remote/docs");
    expect(existsSync(join(cache, "listing.json"))).toBe(true);
    expect((await run(["show", "greeter", "--body"])).stdout).toBe("Say hello. See references/tone.md.\n");
    expect((await run(["show", "greeter", "references/tone.md"])).stdout).toBe("Be warm.\n");

    expect(await run(["script", "greeter", "hi.sh", "ada"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("run: skillet trust greeter@mcp:docs"),
    });
    const trusted = await run(["trust", "greeter@mcp:docs"], { ask: async () => "y" });
    expect(trusted).toMatchObject({ code: 0 });
    for (const shown of ["skill://greeter/SKILL.md", "Bash(git:*)", "Be warm.", "+echo hello $1"])
      expect(trusted.stdout).toContain(shown);
    expect(await run(["script", "greeter", "hi.sh", "ada"])).toMatchObject({ code: 0, stdout: "hello ada\n" });
    expect((await run(["trust", "--list"])).stdout).toContain("unchanged");

    writeFileSync(join(server.home, ".skillet/skills/greeter/scripts/hi.sh"), SCRIPT.replace("hello", "goodbye"));
    expect(await run(["script", "greeter", "hi.sh", "ada"])).toMatchObject({ code: 0, stdout: "hello ada\n" }); // The trusted text.
    expect((await refreshed()).stdout).toContain("mcp:docs (untrusted)");
    expect(await run(["script", "greeter", "hi.sh", "ada"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("changed since it was trusted"),
    });
    expect((await run(["trust", "--list"])).stdout).toContain("changed");
    const again = await run(["trust", "greeter"], { ask: async () => "n" });
    expect(again).toMatchObject({ code: 3, stdout: expect.stringContaining("-echo hello $1\n    +echo goodbye $1") });
    expect(await run(["trust", "greeter", "--yes"])).toMatchObject({ code: 0 });
    expect(await run(["script", "greeter", "hi.sh", "ada"])).toMatchObject({ code: 0, stdout: "goodbye ada\n" });
    expect(await run(["trust", "greeter", "--revoke"])).toMatchObject({ code: 0 });
    expect(await run(["script", "greeter", "hi.sh", "ada"])).toMatchObject({ code: 3 });

    for (const args of [
      ["export", "greeter"],
      ["export", "greeter", "--to", "claude"],
    ])
      expect(await run(args)).toMatchObject({ stderr: expect.stringContaining("not copied") });
    expect(existsSync(join(cwd, "greeter.zip"))).toBe(false);
    expect((await run(["explain", "/greeter ada"])).stdout).toContain("of MCP server docs matches");
  });

  it("[A-10] over HTTP: are listed and read; an unreachable server is a warning in every command", async () => {
    const url = await httpServer(upstream());
    const { home, run } = downstream(`[tools.mcp.docs]\nurl = ${JSON.stringify(url)}\nskills = true\n`);
    expect((await run(["list"])).stdout).toContain("mcp:docs (untrusted)");
    expect((await run(["show", "greeter", "--body"])).stdout).toContain("Say hello");
    writeFileSync(
      join(home, ".skillet/config.toml"),
      '[tools.mcp.docs]\nurl = "http://127.0.0.1:1/mcp"\nskills = true\n',
    );
    const gone = await run(["list"]);
    expect(gone.code).toBe(0);
    expect(gone.stderr).toMatch(/! mcp:docs MCP server 'docs' cannot be used: .* {2}\[remote-unavailable\]/s);
    expect(gone.stderr).toContain("skillet list --refresh");
    expect(gone.stdout).not.toContain("greeter"); // It is another server.
    writeFileSync(join(home, ".skillet/config.toml"), "");
    await run(["list", "--refresh"]);
    expect(existsSync(join(home, ".skillet/cache/remote/docs"))).toBe(false);
  });
});
