import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { load } from "js-yaml";
import { temporaryFolder } from "./folder.ts";
import { SHARED_CODE } from "./program.ts";

export const ROOT = join(import.meta.dirname, "..", "..");

interface Step {
  name: string;
  id?: string;
  shell: string;
  run: string;
  env?: Record<string, string>;
  "working-directory"?: string;
}

export interface Action {
  name: string;
  description: string;
  branding: { icon: string; color: string };
  inputs: Record<string, { description: string; default: string }>;
  outputs: Record<string, { description: string; value: string }>;
  runs: { using: string; steps: Step[] };
}

export const ACTION = load(readFileSync(join(ROOT, "action.yml"), "utf8")) as Action;

export interface ActionRun {
  status: number;
  log: string;
  /** Matches lines of the log that are commands to the runner. */
  commands: string[];
  outputs: Record<string, string>;
  summary: string;
}

/** Runs the steps of the action as a runner does, in its checkout. `more`: additional variables of the runner's environment. */
export function runAction(
  workspace: string,
  inputs: Record<string, string> = {},
  more: Record<string, string> = {},
): ActionRun {
  // Its first step would reinstall this checkout while other tests use it.
  if (!existsSync(join(ROOT, "dist/cli/bin.cjs"))) throw new Error("it is not built: node tools/build.mjs");
  const temp = temporaryFolder();
  mkdirSync(join(temp, "home"));
  const env = {
    PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
    HOME: join(temp, "home"),
    RUNNER_TEMP: temp,
    ...SHARED_CODE,
    GITHUB_ACTION_PATH: ROOT,
    GITHUB_WORKSPACE: workspace,
    GITHUB_STEP_SUMMARY: join(temp, "summary"),
    ...more,
  };
  const values = new Map(Object.entries(ACTION.inputs).map(([name, input]) => [`inputs.${name}`, input.default]));
  for (const [name, value] of Object.entries(inputs)) values.set(`inputs.${name}`, value);
  let log = "";
  let status = 0;
  for (const [index, step] of ACTION.runs.steps.entries()) {
    const script = join(temp, `step-${index}.sh`);
    const written = join(temp, `output-${index}`);
    writeFileSync(script, evaluated(step.run, values));
    const own = Object.entries(step.env ?? {}).map(([name, value]) => [name, evaluated(value, values)]);
    const ran = spawnSync("/bin/bash", ["--noprofile", "--norc", "-eo", "pipefail", script], {
      cwd: join(workspace, evaluated(step["working-directory"] ?? ".", values)),
      env: { ...env, GITHUB_OUTPUT: written, ...Object.fromEntries(own) },
      encoding: "utf8",
    });
    log += ran.stdout + ran.stderr;
    status = ran.status ?? -1;
    for (const line of existsSync(written) ? readFileSync(written, "utf8").split("\n") : []) {
      const [, name, value = ""] = /^([^=]+)=(.*)$/.exec(line) ?? [];
      if (name) values.set(`steps.${step.id}.outputs.${name}`, value);
    }
    if (status !== 0) break;
  }
  const outputs = Object.entries(ACTION.outputs).map(([name, { value }]) => [name, evaluated(value, values)]);
  const summary = existsSync(env.GITHUB_STEP_SUMMARY) ? readFileSync(env.GITHUB_STEP_SUMMARY, "utf8") : "";
  return { status, log, commands: commandsIn(log), outputs: Object.fromEntries(outputs), summary };
}

/** Replaces expressions, as a runner does before the shell starts, which is why a script must not contain any. */
function evaluated(text: string, values: ReadonlyMap<string, string>): string {
  return text.replace(/\$\{\{ *([\w.-]+) *\}\}/g, (_, name: string) => values.get(name) ?? "");
}

/** A runner takes `::` at the start of a line, and `##[` anywhere in one, for a command, until `::stop-commands::`. */
function commandsIn(log: string): string[] {
  let token: string | undefined;
  return log.split("\n").flatMap((line) => {
    if (token !== undefined) {
      if (line.trim() === `::${token}::`) token = undefined;
      return [];
    }
    token = /^::stop-commands::(.*)$/.exec(line)?.[1];
    return token === undefined && (/^\s*::/.test(line) || line.includes("##[")) ? [line] : [];
  });
}
