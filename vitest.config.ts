import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join, resolve } from "node:path";
import { defineConfig, type Plugin } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** What mostly waits for processes, servers and terminals of its own: with twice as many no processor is idle. */
const WAITING = [
  ...["adapters", "agent", "capabilities", "claude", "cli", "mcp-clients", "e2e", "sandbox"].map(
    (folder) => `test/${folder}/**/*.test.ts`,
  ),
  "test/bad-input/{broker,config-run,mcp,packages,runs,scripts,session,sources,toolsets,trust}.test.ts",
  "test/bad-input/use-{bounds,model,runbook,secrets}.test.ts",
  "test/store/{locked-file,statistics}.test.ts",
  "test/clients/{apply,home}.test.ts",
  "test/remote/{git-source,put}.test.ts",
  "test/docs-code.test.ts",
];

/** True when the packages of test/mcp-clients are installed, which `npm ci` does not do: `npm test` does. */
const HAS_CLIENTS = existsSync(join(import.meta.dirname, "test/mcp-clients/node_modules"));
if (!HAS_CLIENTS) process.stderr.write("test/mcp-clients is left out: run `node tools/install-clients.mjs` first\n");
const NONE = ["test/fixtures/**", "**/node_modules/**", ...(HAS_CLIENTS ? [] : ["test/mcp-clients/**"])];

/** What takes longest, and would be waited for alone if it began late. Where nothing was run before, larger files are first otherwise. */
const LONGEST = [
  "sandbox/packages/packages",
  "agent/mcp",
  "mcp-clients/conformance",
  "e2e/package",
  "agent/journal-port",
  "sandbox/packages/scripts",
  "claude/evaluate",
  "bad-input/toolsets",
  "mcp-clients/inspector",
  "e2e/journey",
  "bad-input/mcp",
  "clients/apply-bad-input",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => LONGEST.some((name) => moduleId.endsWith(`/${name}.test.ts`));
    const groupOf = ({ project }: TestSpecification) => project.config.sequence.groupOrder;
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => groupOf(a) - groupOf(b) || Number(isLong(b)) - Number(isLong(a)));
  }
}

/** Where the gate has just built the program, tests import what was built and not the sources. */
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

export default defineConfig({
  plugins: process.env["SKILLET_TEST_BUILT"] ? [built()] : [],
  test: {
    server: { deps: { external: [/\/(?:build|dist)\//] } },
    setupFiles: ["test/support/machine.ts"],
    sequence: { sequencer: LongestFirst },
    // Files of one worker share what they import: a third of the time went into importing it anew.
    isolate: false,
    // Only turn a hang into a failure, also on a machine that is busy with other work.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 45_000, interval: 20 } },
    // A test that changes the environment of the process would change it for all others: none may.
    unstubEnvs: true,
    projects: [
      {
        extends: true,
        test: {
          name: "computing",
          include: ["test/**/*.test.ts"],
          exclude: [...NONE, ...WAITING],
          // Some of it is timed: one worker a processor, and nothing beside it.
          maxWorkers: "100%",
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "waiting",
          include: WAITING,
          exclude: NONE,
          maxWorkers: availableParallelism() * 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
