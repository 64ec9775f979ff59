import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

export type Tier = "fast" | "process" | "system";

/** Modules that start processes or open sockets. A test that imports one, itself or in a helper, is not fast. */
export const PROCESS_MODULES = [
  "node:child_process",
  "node:cluster",
  "node:dgram",
  "node:http",
  "node:https",
  "node:net",
];

/** A helper of tests that start threads of toolsets, which cost as much as processes. */
const THREAD_HELPER = /\/toolset\.ts$/;

const AGENT_FILES = [
  ...[
    "approvals",
    "contributed-tools",
    "capability",
    "dynamic",
    "run-sandbox",
    "skill-packages",
    "journal-resume",
    "mcp",
    "mcp-use",
  ],
  ...[
    "missing-package",
    "network",
    "step-driver",
    "progress-line",
    "python",
    "result",
    "resume",
    "revocation",
    "run-taint",
  ],
  ...["script", "script-workspace", "session-script", "tools", "tools-files", "toolset", "toolset-uncalled", "use"],
  ...["use-edges", "use-limits", "use-combinations", "uv", "web-search"],
];
/** Files and folders of `test/` whose tests run code, without the ending that depends on the tier. */
export const RUNS_CODE: readonly string[] = [
  ...AGENT_FILES.map((name) => `agent/${name}.`),
  ...["agent/workspace/", "sandbox/", "cli/script.", "cli/trust.", "cli/trust-mine."],
  ...["cli/packages.", "bad-input/scripts.", "bad-input/packages."],
  ...["bad-input/trust.", "bad-input/trust-effect."],
];

interface TierRule {
  tier: Tier;
  reason: string;
  /** Matches the path from the project's root. */
  path?: RegExp;
  runsCode?: true;
  importsProcessModule?: true;
}

/** THE table of tiers: the first row that matches decides. */
export const TIER_RULES: readonly TierRule[] = [
  { tier: "system", path: /\.system\.test\.ts$/, reason: "is named so: a sweep over kills, or a long scene" },
  {
    tier: "system",
    path: /^test\/(?:sandbox|e2e|mcp-clients)\//,
    reason: "needs the machine, or an installed package",
  },
  { tier: "process", path: /\.process\.test\.ts$/, reason: "is named so: the program starts a process for it" },
  { tier: "process", runsCode: true, reason: "runs code of skills in a sandbox" },
  { tier: "process", importsProcessModule: true, reason: "imports what starts processes or threads, or opens sockets" },
  { tier: "fast", reason: "starts no process" },
];

const projectRoot = join(import.meta.dirname, "../..");
const IMPORT = /(?:^import (?!type )|^} from |^(?:import|export) (?!type )[^;]*? from |\bimport\()"([^"\s]+)"/gm;

/** Returns the tier of a test file, by its path from the project's root. */
export function tierOf(path: string, root = projectRoot): Tier {
  const rule = TIER_RULES.find(
    (rule) =>
      (rule.path?.test(path) ?? true) &&
      (!rule.runsCode || RUNS_CODE.some((start) => path.startsWith(`test/${start}`))) &&
      (!rule.importsProcessModule || importsProcessModule(join(root, path), join(root, "test"))),
  );
  return rule?.tier ?? "fast";
}

/** Lists the test files of a tier, by their paths from the project's root. */
export function listTierFiles(tier: Tier): string[] {
  return listTestFiles().filter((path) => tierOf(path) === tier);
}

/** Lists all test files of the gate. */
export function listTestFiles(): string[] {
  return readdirSync(join(projectRoot, "test"), { recursive: true, encoding: "utf8" })
    .map((path) => `test/${path.replaceAll("\\", "/")}`)
    .filter((path) => path.endsWith(".test.ts") && !/^test\/fixtures\/|\/node_modules\//.test(path))
    .sort();
}

/** Lists the test files that import a helper, by its path below `test/`. */
export function listFilesThatImport(helper: string): string[] {
  return listTestFiles().filter((path) =>
    readImports(join(projectRoot, path)).some((specifier) => specifier.endsWith(`/${helper}`)),
  );
}

/** True when a file imports such a module, itself or in files of the tests that it imports. */
function importsProcessModule(file: string, tests: string, seen = new Set<string>()): boolean {
  if (seen.has(file) || !file.startsWith(tests) || !existsSync(file)) return false;
  seen.add(file);
  return readImports(file).some(
    (specifier) =>
      PROCESS_MODULES.includes(specifier) ||
      THREAD_HELPER.test(specifier) ||
      (specifier.startsWith(".") && importsProcessModule(resolve(dirname(file), specifier), tests, seen)),
  );
}

const imports = new Map<string, readonly string[]>();

function readImports(file: string): readonly string[] {
  let found = imports.get(file);
  if (found === undefined) {
    found = [...readFileSync(file, "utf8").matchAll(IMPORT)].map(([, specifier = ""]) => specifier);
    imports.set(file, found);
  }
  return found;
}
