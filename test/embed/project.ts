import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeFiles } from "../support/folder.ts";
import { installPacked } from "../support/packed.ts";

/** The program that each bundler and compiler of the tests gets. */
const PROGRAM = join(import.meta.dirname, "program");

/** A user's project, with the packed package installed and nothing of this repository. */
export interface EmbeddingProject {
  folder: string;
  /** Runs a program of the project, or of one of its packages. Throws with its output when it fails. */
  run(command: string, ...args: string[]): string;
  /** Installs packages, as `name@version`. */
  install(...packages: string[]): void;
  /** Starts a bundler's output in an otherwise empty folder, and returns its output. */
  runBundled(output: string, entry: string): unknown;
  remove(): void;
}

const SKILL = {
  "home/.skillet/skills/rates/SKILL.md": `---
name: rates
description: Knows exchange rates. Use when the user asks for the exchange rate of a currency.
toolsets: ["toolsets/index:tools"]
---
Answer with the rate.
`,
  "home/.skillet/skills/rates/toolsets/index.ts": `import { Tool } from "@agent/tools";
import { defineSkill } from "skillet";
import { z } from "zod";

export const tools = [
  Tool.define("rate_of", {
    description: "Returns the rate of a currency",
    parameters: z.object({ currency: z.string() }),
    execute: async ({ currency }) => \`\${currency}: 1.25, \${typeof defineSkill}\`,
  }),
];
`,
};

/** The program's output in any environment. The skills of the package are missing when it is not installed as files. */
export const PRINTED = {
  errors: [],
  tier: "registry",
  used: { content: "Task: Say hello.", isError: false },
  isLoaded: true,
  called: '<skill_output tool="rates.rate_of">\nEUR: 1.25, function\n</skill_output>',
};

export function createProject(): EmbeddingProject {
  const { folder, remove } = installPacked();
  const elsewhere: string[] = [];
  cpSync(PROGRAM, folder, { recursive: true });
  writeFiles(folder, { ...SKILL, "workspace/README.md": "A project.\n" });
  const args = [join(folder, "home"), join(folder, "workspace")];
  const start = (command: string, given: readonly string[], cwd: string) =>
    execFileSync(command, given, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  return {
    folder,
    run: (command, ...given) => {
      try {
        return start(command, given, folder);
      } catch (error) {
        const { stdout, stderr } = error as { stdout: string; stderr: string };
        throw new Error(`${[command, ...given].join(" ")} failed:\n${stdout}\n${stderr}`, { cause: error });
      }
    },
    install: (...packages) => {
      start("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", ...packages], folder);
    },
    runBundled: (output, entry) => {
      const at = mkdtempSync(join(tmpdir(), "skillet-bundled-"));
      elsewhere.push(at);
      cpSync(join(folder, output), at, { recursive: true });
      if (!readdirSync(at).includes("package.json")) writeFileSync(join(at, "package.json"), '{ "type": "module" }');
      return JSON.parse(start(process.execPath, [join(at, entry), ...args], at));
    },
    remove: () => {
      for (const at of elsewhere) rmSync(at, { recursive: true, force: true });
      remove();
    },
  };
}
