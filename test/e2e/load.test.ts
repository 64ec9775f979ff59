import { spawn, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../support/folder.ts";
import { API_KEY, MODEL, modelServer } from "../support/model-server.ts";

const program = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");

/** The command as it is built, in a home of its own. */
function open() {
  const home = temporaryFolder();
  const { PATH } = process.env;
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [program, ...args], {
      cwd: home,
      encoding: "utf8",
      env: { PATH, HOME: home, SKILLET_HOME: join(home, "own") },
    });
  const kept = (): string[] =>
    readdirSync(join(home, "own", "cache", "compiled"), { recursive: true, encoding: "utf8" })
      .filter((path) => path.includes("-command-"))
      .map((path) => join(home, "own", "cache", "compiled", path));
  return { run, kept };
}

describe("what V8 compiled", () => {
  it("is kept for a command that succeeded, and for no other", () => {
    const { run, kept } = open();
    expect(run("list")).toMatchObject({ status: 0, stderr: "" });
    expect(run("nonsense").status).toBe(2);
    expect(run("show", "nonsense").status).not.toBe(0);
    expect(kept()).toEqual([expect.stringMatching(/-command-list$/)]);
  });

  it("is used as it is, and not written again", () => {
    const { run, kept } = open();
    const { stdout } = run("list");
    const [path = ""] = kept();
    const before = readFileSync(path);
    expect(run("list")).toMatchObject({ status: 0, stdout });
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("is not believed when a byte of it is wrong or some are missing, and is made anew", () => {
    const { run, kept } = open();
    const { stdout } = run("list");
    const [path = ""] = kept();
    const length = readFileSync(path).length;
    const damages = [
      () => {
        const bytes = readFileSync(path);
        bytes.fill(0x55, length / 4, length / 4 + 64);
        writeFileSync(path, bytes);
      },
      () => truncateSync(path, length - 100),
      () => truncateSync(path, 0),
    ];
    for (const damage of damages) {
      damage();
      expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
      const bytes = readFileSync(path);
      expect(bytes.subarray(0, bytes.length / 2).equals(bytes.subarray(bytes.length / 2))).toBe(true);
      expect(bytes.length).toBeGreaterThan(length / 2);
    }
  });
});

describe("the packages that the command is built with", () => {
  it.each([
    ["anthropic", "anthropic"],
    ["openai", "responses"],
    ["openai-compatible", "openai"],
  ] as const)("reach a model of %s, with what was compiled before too", async (provider, protocol) => {
    const turns = [() => [{ tool: "list_skills", input: {} }], () => "hello there"];
    const { url } = await modelServer(protocol, [...turns, ...turns]);
    const home = temporaryFolder();
    const model = { provider, model: MODEL, api_key: API_KEY, base_url: url };
    const lines = Object.entries(model).map(([key, value]) => `${key} = "${value}"\n`);
    writeFileSync(join(home, "config.toml"), `[models.default]\n${lines.join("")}`, { mode: 0o600 });
    const { PATH } = process.env;
    for (const _ of ["compiled now", "compiled before"]) {
      const child = spawn(process.execPath, [program, "run", "--quiet", "code-review", "look"], {
        cwd: home,
        env: { PATH, HOME: home, SKILLET_HOME: home },
        stdio: ["ignore", "pipe", "pipe"],
      });
      const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
      expect({ stdout, stderr }).toEqual({ stdout: "hello there\n", stderr: "" });
    }
  });
});
