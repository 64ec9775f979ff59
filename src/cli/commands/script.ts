import { shortenHomePath } from "../../agent/policy/trust-policy.ts";
import { runScript, type ScriptResult } from "../../agent/run/run-script.ts";
import { describeEnding } from "../../agent/tools/tool-output.ts";
import type { Host } from "../../config/host.ts";
import { SkillError } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import { escapeForTerminal } from "../../util/untrusted-text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  discoverForRun,
  EXIT,
  formatExamples,
  requireConfiguration,
} from "../command-context.ts";
import {
  type CommandIo,
  createInterruptSignal,
  createPrinter,
  printDiffExcerpt,
  printJson,
  printProblem,
} from "../output.ts";
import { askForPendingTrust, createApprovingHost, isPendingTrust } from "../run-output.ts";
import { failMissingSkill } from "./show.ts";

/** `skillet script`. */
export const scriptCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Run a script of a skill in its own sandbox")
      .argument("<skill>", "The skill")
      .argument("[script]", "A script of the skill, by path or name. Without it, the scripts are listed.")
      .argument("[args...]", "The arguments of the script")
      .option("--stdin", "Pass piped input to the script")
      .option("--write", "Let the script change files in the workspace")
      .option("-q, --quiet", "Print only the output of the script")
      .passThroughOptions()
      .addHelpText(
        "after",
        formatExamples(
          "skillet script deploy",
          "skillet script deploy check.sh staging --verbose",
          "skillet script --json report totals.py",
        ),
      ),
  run: runSkillScript,
};

interface ScriptOptions {
  stdin?: boolean;
  write?: boolean;
  quiet?: boolean;
}

/** Runs a script of a skill in its sandbox. Its output goes to stdout and stderr, the outcome to stderr. */
async function runSkillScript({ io, options, args }: CommandContext<ScriptOptions>): Promise<number> {
  const [name = "", file, ...rest] = args;
  const found = await discoverForRun(io, options);
  requireConfiguration(io, found);
  const skill = found.catalog.find(name);
  if (!skill) return failMissingSkill(io, found, name);
  if (file === undefined) return await listScripts(io, skill, options.json ?? false);
  if (file.startsWith("-")) {
    throw new SkillError("usage", {
      message: `"${file}" is in the place of the script's name`,
      fix: "put skillet's own options before the skill's name",
      commands: ["skillet script --json NAME FILE"],
    });
  }
  const stdin = options.stdin ? await readScriptStdin(io) : undefined;
  const signal = createInterruptSignal(io);
  const { host } = createApprovingHost(io, found, {});
  const start = () =>
    runScript(host, {
      skill,
      script: file,
      args: rest,
      writes: options.write ?? false,
      signal,
      ...(stdin === undefined ? {} : { stdin }),
    });
  let result = await streamScript(io, start(), options.json ?? false);
  const { refusals } = result;
  if (isPendingTrust(refusals) && (await askForPendingTrust(io, found, [{ skill, refusals }])))
    result = await streamScript(io, start(), options.json ?? false);
  if (options.json) printJson(io.stdout, result);
  else if (io.stdout.isClosed)
    return EXIT.fine; // `skillet script … | head` stops reading.
  else if (!options.quiet || result.ending === "refused") printScriptOutcome(io, result, { ...options, host });
  return getScriptExitCode(result);
}

async function listScripts(io: CommandIo, skill: Skill, asJson: boolean): Promise<number> {
  const scripts = await listSkillScripts(skill);
  if (asJson) printJson(io.stdout, { name: skill.name, scripts });
  else {
    const out = createPrinter(io.stdout, io.env);
    const widest = Math.max(0, ...scripts.map(({ path }) => path.length));
    for (const { path, description } of scripts) {
      if (description === undefined) out.line`${out.bold(path)}`;
      else out.line`${out.bold(path.padEnd(widest))}  ${description}`;
    }
    const error = createPrinter(io.stderr, io.env);
    if (scripts.length === 0) error.line`${skill.name} has no scripts: add one to its scripts folder`;
  }
  return EXIT.fine;
}

async function streamScript(io: CommandIo, run: ReturnType<typeof runScript>, asJson: boolean): Promise<ScriptResult> {
  const progress = createPrinter(io.stderr, io.env);
  for await (const event of run) {
    if (event.type === "packages-built") progress.line`${progress.dim("·")} ${event.text}`;
    else if (event.type === "script-printed" && !asJson) io[event.stream].write(escapeForTerminal(event.text));
  }
  return run;
}

function printScriptOutcome(
  io: CommandIo,
  result: ScriptResult,
  { workspace, host }: CommonOptions & { host: Host },
): void {
  const error = createPrinter(io.stderr, io.env);
  for (const refusal of result.refusals) printProblem(error, error.red("✗"), refusal, workspace);
  if (result.ending === "refused") return;
  for (const warning of result.warnings) {
    printProblem(error, error.yellow("!"), warning);
    printDiffExcerpt(error, warning.data?.["diff"]);
  }
  const { isolation, ms, warnings, view } = result;
  const { said: text, key } = describeEnding(result);
  const how = isolation?.level === "none" ? "NOT ISOLATED" : `${isolation?.level} isolation by ${isolation?.by}`;
  const seen =
    view?.workspace && `${ACCESS_VERBS[view.workspace.access]} ${shortenHomePath(view.workspace.path, host)}`;
  const mark = result.isError ? error.red("✗") : error.green("✓");
  const butWarned = result.isError && result.exitCode === 0 && warnings.length > 0 ? ", with warnings" : "";
  error.line`${mark} ${text}${butWarned} ${error.dim(`(${(ms / 1000).toFixed(2)} s, ${how}, ${seen ?? "workspace not visible"})`)}`;
  if (key !== undefined) error.line`  ${key} in config.toml sets the limit`;
}

const ACCESS_VERBS = { read: "reads", "read-write": "may change" };

function getScriptExitCode({ ending, isError }: ScriptResult): number {
  if (ending === "refused") return EXIT.refused;
  if (ending === "abort") return EXIT.interrupted;
  if (ending !== "exit") return EXIT.limit;
  return isError ? EXIT.findings : EXIT.fine;
}

async function readScriptStdin(io: CommandIo): Promise<string> {
  if (io.stdin) return (await io.stdin()) ?? "";
  throw new SkillError("usage", {
    message: "--stdin needs piped input",
    fix: "pipe it in: command | skillet script --stdin NAME FILE",
  });
}
