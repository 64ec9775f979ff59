import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkConnections } from "../../src/remote/clients/check-connections.ts";
import { readConnection } from "../../src/remote/clients/plan-connection.ts";
import { MCP_CLIENT_NAMES } from "../../src/skill/clients.ts";
import { skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";
import { PROGRAM, RUN } from "../support/program.ts";

const BIN = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");

/** A home in which clients are connected with a program at another path: the sources, or a replacement. */
function place(program = `import(${JSON.stringify(PROGRAM)}).then(({ run }) => { ${RUN} })`) {
  const folder = temporaryFolder({ "home/x": "", "project/x": "", "bin/skillet.cjs": program });
  const [home, project] = [join(folder, "home"), join(folder, "project")];
  const options = { cwd: project, env: { HOME: home } };
  return {
    folder,
    home,
    project,
    async connect(client: string, ...args: string[]) {
      await skillet(["connect", client, "--yes", ...args], options);
      for (const root of [home, project])
        for (const file of filesIn(root)) replace(file, BIN, join(folder, "bin/skillet.cjs"));
    },
    async doctor() {
      const { code, stdout } = await skillet(["doctor", "--json"], options);
      return { code, connections: JSON.parse(stdout).connections };
    },
    text: () => skillet(["doctor"], options),
  };
}

function filesIn(folder: string): string[] {
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((path) => join(folder, path));
  return paths.filter((path) => !path.includes(".skillet/") && statSync(path).isFile());
}

function replace(file: string, from: string, to: string): void {
  writeFileSync(file, readFileSync(file, "utf8").replaceAll(from, to));
}

describe("skillet doctor", () => {
  it("[A-07] starts the server and the hook of each connected client", async () => {
    const at = place();
    for (const client of MCP_CLIENT_NAMES) await at.connect(client);
    const { code, connections } = await at.doctor();
    expect(connections.map(({ client }: { client: string }) => client)).toEqual(MCP_CLIENT_NAMES);
    for (const { client, server, hook, problems } of connections) {
      expect([client, server, problems]).toEqual([
        client,
        { state: "works", detail: expect.stringMatching(/^\d+ tools$/) },
        [],
      ]);
      const answers = ["claude", "codex"].includes(client) ? "the running server answers" : "the command answers";
      expect(hook).toEqual(client === "vscode" ? null : { state: "works", detail: answers });
    }
    expect(code).toBe(0);
  });

  it("[A-07] reports a server and a hook that do not start, with the command that writes them again", async () => {
    const at = place();
    await at.connect("gemini");
    replace(join(at.home, ".gemini/settings.json"), process.execPath, join(at.home, "no-node"));
    await at.connect("claude");
    replace(join(at.home, ".claude.json"), process.execPath, join(at.home, "no-node"));
    const { code, connections } = await at.doctor();
    expect(code).toBe(1);
    const [claude, gemini] = connections;
    expect(claude.problems, "the hook calls the server").toEqual([
      {
        code: "connection-broken",
        message: expect.stringContaining("Claude Code is connected, but its server does not work"),
        fix: "Run",
        commands: ["skillet connect claude"],
      },
    ]);
    expect(gemini.problems).toEqual([
      expect.objectContaining({ message: expect.stringContaining("its server does not work") }),
      expect.objectContaining({
        message: expect.stringContaining("its prompt hook does not work: it ended with code 127"),
      }),
    ]);
    const { stdout } = await at.text();
    expect(stdout).toContain("✗ Gemini CLI  server: fails; prompt hook: fails\n");
    expect(stdout).toContain("Run: skillet connect gemini");
    writeFileSync(join(at.home, ".gemini/settings.json"), "{");
    expect((await at.doctor()).connections[1].problems).toEqual([
      { code: "config-syntax", message: expect.stringContaining("is not valid JSON"), fix: expect.any(String) },
    ]);
  });

  it("[A-07] reports what a hook prints when it adds nothing because it fails", async () => {
    const at = place();
    await at.connect("cursor");
    writeFileSync(join(at.home, ".skillet/config.toml"), "[models\n");
    const { connections } = await at.doctor();
    expect(connections[0].hook).toEqual({ state: "fails", detail: expect.stringContaining("skillet hook:") });
  });

  it("[A-07] ends a program that does not answer in time", async () => {
    const at = place("setInterval(() => {}, 1000);");
    await at.connect("cursor");
    const connection = { home: at.home, workspace: at.project, env: { HOME: at.home }, platform: process.platform };
    const state = await readConnection({ client: "cursor", scope: "user", environment: connection, name: "skillet" });
    const program = { command: process.execPath, args: [BIN] };
    const context = { environment: connection, skilletHome: join(at.home, ".skillet"), program, seconds: 0.5 };
    expect(await checkConnections([{ client: "cursor", scope: "user", state }], context)).toEqual([
      {
        server: { state: "fails", detail: expect.any(String) },
        hook: { state: "fails", detail: "it did not answer within 0.5 s" },
      },
    ]);
  });

  it("[Q-04] starts nothing that a project's file names, unless it is this program", async () => {
    const at = place();
    writeFileSync(
      join(at.folder, "bin/skillet.cjs"),
      `require("node:fs").writeFileSync(${JSON.stringify(join(at.folder, "ran"))}, "")`,
    );
    for (const client of ["gemini", "opencode", "cursor"]) await at.connect(client, "--project");
    const { code, connections } = await at.doctor();
    for (const { client, server, hook } of connections) {
      const untried = { state: "untried", detail: "the project's file names another program" };
      expect([client, server, hook]).toEqual([client, untried, untried]);
    }
    expect([code, connections.length, existsSync(join(at.folder, "ran"))]).toEqual([0, 3, false]);
  });
});
