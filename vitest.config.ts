import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join, resolve } from "node:path";
import { defineConfig, type Plugin } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { listTierFiles } from "./test/support/tiers.ts";

/** True when the packages of test/mcp-clients are installed, which `npm ci` does not do: `npm test` does. */
const HAS_CLIENTS = existsSync(join(import.meta.dirname, "test/mcp-clients/node_modules"));
if (!HAS_CLIENTS && !process.argv.some((word) => word === "fast" || word === "process"))
  process.stderr.write("test/mcp-clients is left out: run `node tools/test-packages.mjs` first\n");

const exclude = ["**/node_modules/**", ...(HAS_CLIENTS ? [] : ["test/mcp-clients/**"])];
// Tests of these tiers wait for processes, servers and terminals: with twice as many workers, no processor is idle.
const maxWorkers = availableParallelism() * 2;

/** In the gate, tests import what it has just built, and not the sources. */
function built(): Plugin {
  const [sources, place] = ["src", "build"].map((folder) => join(import.meta.dirname, folder, "/")) as [string, string];
  return {
    name: "built",
    enforce: "pre",
    resolveId(asked, importer) {
      if (!asked.startsWith(".") || importer === undefined) return;
      const file = resolve(dirname(importer), asked);
      if (file.startsWith(sources)) return `${place}${file.slice(sources.length).replace(/\.ts$/, ".js")}`;
    },
  };
}

/** The files that take longest. They start first: as the last ones, they would run with nothing next to them. */
const SLOW_FILES = [
  ...["cli/eval-tasks", "agent/skill-packages", "adapters/revocation", "adapters/team-revocation.process"],
  ...["adapters/stdio", "cli/dialogue", "scan/cost", "bad-input/toolsets.process", "agent/mcp", "bad-input/mcp"],
  ...["bad-input/own-files", "agent/tools-files.process", "agent/workspace/persistence"],
  ...["adapters/postgres/lost-workers.system", "adapters/postgres/returned-runs.system"],
  ...["adapters/studio-browser.system", "adapters/postgres/workers.system", "sandbox/libraries/fetch-proxy"],
  ...["sandbox/packages/packages", "adapters/postgres/runs-in-postgres.system", "sandbox/bubblewrap", "e2e/example"],
  ...["sandbox/cgroup-v2", "e2e/journey", "e2e/embedding"],
].map((name) => join(import.meta.dirname, "test", `${name}.test.ts`));

class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isSlow = ({ moduleId }: TestSpecification) => SLOW_FILES.includes(moduleId);
    return [...sorted.filter(isSlow), ...sorted.filter((file) => !isSlow(file))];
  }
}

export default defineConfig({
  plugins: process.env["SKILLET_TEST_BUILT"] ? [built()] : [],
  test: {
    server: { deps: { external: [/\/(?:build|dist)\//] } },
    globalSetup: [
      "test/support/run-folder.ts",
      ...(process.env["SKILLET_TEST_BUILT"] ? [] : ["tools/sandbox-command.ts"]),
    ],
    setupFiles: ["test/support/machine.ts"],
    // Files of one worker share what they import: a third of the time went into importing it anew.
    isolate: false,
    // Only turn a hang into a failure, also on a machine that is busy with other work.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    sequence: { sequencer: SlowFirst },
    expect: { poll: { timeout: 45_000, interval: 20 } },
    // A test that changes the environment of the process would change it for all others: none may.
    unstubEnvs: true,
    projects: [
      {
        extends: true,
        test: {
          name: "fast",
          include: listTierFiles("fast"),
          setupFiles: ["test/support/no-processes.ts"],
          maxWorkers: "100%",
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: "process", include: listTierFiles("process"), maxWorkers, sequence: { groupOrder: 1 } },
      },
      {
        extends: true,
        test: { name: "system", include: listTierFiles("system"), exclude, maxWorkers, sequence: { groupOrder: 2 } },
      },
    ],
  },
});
