import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../support/folder.ts";

const ROOT = join(import.meta.dirname, "../../..");
const ENGINE = /\/adapters\/postgres\/|\/node_modules\/(?:pg|@dbos-inc)\//;

/** Runs a command from its sources, and returns the addresses of the modules that it loaded. */
function listModules(config: string, ...args: string[]): string[] {
  const home = temporaryFolder({ ".skillet/config.toml": config });
  const folder = temporaryFolder({
    "hooks.mjs": `import { writeFileSync } from "node:fs";
      import { registerHooks } from "node:module";
      const seen = [];
      registerHooks({ load: (url, context, next) => { seen.push(url); return next(url, context); } });
      process.on("exit", () => writeFileSync(process.env.SEEN, JSON.stringify(seen)));`,
    "start.mjs": `import { run } from ${JSON.stringify(join(ROOT, "src/cli/bin.ts"))};\nrun();\n`,
  });
  const seen = join(folder, "seen.json");
  const node = ["--import", pathToFileURL(join(folder, "hooks.mjs")).href, join(folder, "start.mjs"), ...args];
  spawnSync(process.execPath, node, { cwd: home, env: { PATH: "/usr/bin:/bin", HOME: home, SEEN: seen } });
  return JSON.parse(readFileSync(seen, "utf8"));
}

describe("the engine", () => {
  it.each([["list"], ["run host-report --model runbook"]])("[E-02] is not loaded by `%s` without one", (command) => {
    const modules = listModules("", ...command.split(" "));
    expect(modules.length).toBeGreaterThan(50);
    expect(modules.filter((url) => ENGINE.test(url))).toEqual([]);
  });

  it("[E-02] is loaded by a command that uses one", () => {
    const modules = listModules('[engine]\nurl = "postgres://nobody@127.0.0.1:1/none"\n', "runs");
    expect(modules.filter((url) => ENGINE.test(url)).length).toBeGreaterThan(10);
  });

  it("[E-02] adds no package to an installation", () => {
    const {
      dependencies = {},
      peerDependencies,
      peerDependenciesMeta,
    } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    for (const name of ["pg", "@dbos-inc/dbos-sdk"]) {
      expect(Object.keys(dependencies)).not.toContain(name);
      expect(Object.keys(peerDependencies)).toContain(name);
      expect(peerDependenciesMeta[name]).toEqual({ optional: true });
    }
  });
});
