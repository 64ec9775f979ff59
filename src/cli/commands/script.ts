import type { Host } from "../../host/host.ts";
import { shownPath } from "../../policy/shown-path.ts";
import { sayEnding } from "../../run/ending.ts";
import { runScript, type ScriptResult } from "../../run/script.ts";
import { SkillError } from "../../shared/error.ts";
import { scriptsOf } from "../../skill/script.ts";
import type { Skill } from "../../skill/skill.ts";
import { agreeing } from "../approval.ts";
import { EXIT } from "../exit.ts";
import { forTerminal } from "../fold.ts";
import { discoverToRun, requireConfiguration } from "../found.ts";
import { type Io, interruption, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { CommonOptions, Context } from "../program.ts";
import { sayDiff, sayNotice } from "../say.ts";
import { askForWaiting, isWaiting } from "../waiting.ts";
import { explainMissing } from "./show.ts";

interface ScriptOptions {
  stdin?: boolean;
  write?: boolean;
  quiet?: boolean;
}

/** Runs a script of a skill in its sandbox: what it prints goes where it printed it, what became of it to stderr. */
export async function script({ io, options, args }: Context<ScriptOptions>): Promise<number> {
  const [name = "", file, ...rest] = args;
  const found = await discoverToRun(io, options);
  requireConfiguration(io, found);
  const skill = found.catalog.find(name);
  if (!skill) return explainMissing(io, found, name);
  if (file === undefined) return listScripts(io, skill, options.json ?? false);
  if (file.startsWith("-")) {
    throw new SkillError("usage", {
      message: `"${file}" stands where the script's name is looked for`,
      fix: "options of skillet's own stand before the skill's name: skillet script --json NAME FILE",
    });
  }
  const stdin = options.stdin ? await readStdin(io) : undefined;
  const signal = interruption(io);
  const { host } = agreeing(io, found, {});
  const start = () =>
    runScript(host, {
      skill,
      script: file,
      args: rest,
      writes: options.write ?? false,
      signal,
      ...(stdin === undefined ? {} : { stdin }),
    });
  let result = await printed(io, start(), options.json ?? false);
  const { refusals } = result;
  if (isWaiting(refusals) && (await askForWaiting(io, found, [{ skill, refusals }])))
    result = await printed(io, start(), options.json ?? false);
  if (options.json) printJson(io.stdout, result);
  else if (io.stdout.isClosed)
    return EXIT.fine; // `skillet script … | head` has enough.
  else if (!options.quiet || result.ending === "refused") sayOutcome(io, result, { ...options, host });
  return exitOf(result);
}

function listScripts(io: Io, skill: Skill, asJson: boolean): number {
  const scripts = scriptsOf(skill);
  if (asJson) printJson(io.stdout, { name: skill.name, scripts });
  else {
    const out = printer(io.stdout, io.env);
    const widest = Math.max(0, ...scripts.map(({ path }) => path.length));
    for (const { path, description } of scripts) {
      if (description === undefined) out.line`${out.bold(path)}`;
      else out.line`${out.bold(path.padEnd(widest))}  ${description}`;
    }
    const error = printer(io.stderr, io.env);
    if (scripts.length === 0) error.line`${skill.name} has no scripts: what stands in its scripts folder is one`;
  }
  return EXIT.fine;
}

async function printed(io: Io, run: ReturnType<typeof runScript>, asJson: boolean): Promise<ScriptResult> {
  const progress = printer(io.stderr, io.env);
  for await (const event of run) {
    if (event.type === "packages-built") progress.line`${progress.dim("·")} ${event.text}`;
    else if (event.type === "script-printed" && !asJson) io[event.stream].write(forTerminal(event.text));
  }
  return run;
}

function sayOutcome(io: Io, result: ScriptResult, { workspace, host }: CommonOptions & { host: Host }): void {
  const error = printer(io.stderr, io.env);
  for (const { message, fix } of result.refusals) sayNotice(error, error.red("✗"), message, fromHere(fix, workspace));
  if (result.ending === "refused") return;
  for (const { message, fix, diff } of result.warnings) {
    sayNotice(error, error.yellow("!"), message, fix);
    sayDiff(error, diff);
  }
  const { isolation, ms, warnings, view } = result;
  const { said, key } = sayEnding(result);
  const how = isolation?.level === "none" ? "NOT ISOLATED" : `${isolation?.level} isolation by ${isolation?.by}`;
  const seen = view?.workspace && `${VERBS[view.workspace.access]} ${shownPath(view.workspace.path, host)}`;
  const mark = result.isError ? error.red("✗") : error.green("✓");
  const butWarned = result.isError && result.exitCode === 0 && warnings.length > 0 ? ", but see above" : "";
  error.line`${mark} ${said}${butWarned} ${error.dim(`(${(ms / 1000).toFixed(2)} s, ${how}, ${seen ?? "workspace not visible"})`)}`;
  if (key !== undefined) error.line`  ${key} in config.toml sets the limit`;
}

const VERBS = { read: "reads", "read-write": "may change" };

function exitOf({ ending, isError }: ScriptResult): number {
  if (ending === "refused") return EXIT.refused;
  if (ending === "abort") return EXIT.interrupted;
  if (ending !== "exit") return EXIT.limit;
  return isError ? EXIT.findings : EXIT.fine;
}

async function readStdin(io: Io): Promise<string> {
  if (io.stdin) return (await io.stdin()) ?? "";
  throw new SkillError("usage", { message: "--stdin needs something on standard input", fix: "pipe it in" });
}
