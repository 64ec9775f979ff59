import type { Discovered } from "../../host/discover.ts";
import { runScript, type ScriptResult } from "../../run/script.ts";
import { SkillError } from "../../shared/error.ts";
import { spellHidden } from "../../shared/hidden.ts";
import { SHORTEST_SECRET } from "../../shared/redact.ts";
import { count, grouped } from "../../shared/text.ts";
import { scriptsOf } from "../../skill/script.ts";
import type { Skill } from "../../skill/skill.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { explainMissing } from "./show.ts";
import { askForTrust } from "./trust.ts";

interface ScriptOptions {
  stdin?: boolean;
  quiet?: boolean;
}

/** Runs a script of a skill in its sandbox: what it prints goes where it printed it, what became of it to stderr. */
export async function script({ io, options, args }: Context<ScriptOptions>): Promise<number> {
  const [name = "", file, ...rest] = args;
  const found = await discoverFor(io, options);
  if (!warnOfConfiguration(io, found)) return EXIT.usage;
  const skill = found.catalog.find(name);
  if (!skill) return explainMissing(io, found, name);
  if (file === undefined) return listScripts(io, skill, options.json ?? false);
  const stdin = options.stdin ? await readStdin(io) : undefined;
  const start = () =>
    runScript(found, {
      skill,
      script: file,
      args: rest,
      signal: interruption(io),
      ...(stdin === undefined ? {} : { stdin }),
    });
  if (!options.json) warnOfShortSecrets(io, found, skill);
  let result = await printed(io, start(), options.json ?? false);
  const waitsForTrust = result.refusals.some(({ code }) => code === "untrusted" || code === "changed");
  if (waitsForTrust && result.refusals.length === 1 && (await askForTrust(io, found, [skill]))) {
    result = await printed(io, start(), options.json ?? false);
  }
  if (options.json) printJson(io.stdout, result);
  else if (!options.quiet || result.ending === "refused") sayOutcome(io, result);
  return exitOf(result);
}

function listScripts(io: Io, skill: Skill, asJson: boolean): number {
  const scripts = scriptsOf(skill);
  if (asJson) printJson(io.stdout, { skill: skill.name, scripts });
  else {
    const out = printer(io.stdout, io.env);
    const widest = Math.max(0, ...scripts.map(({ path }) => path.length));
    for (const { path, description = "" } of scripts) out.line`${out.bold(path.padEnd(widest))}  ${description}`;
    const error = printer(io.stderr, io.env);
    if (scripts.length === 0) error.line`${skill.name} has no scripts: what stands in its scripts folder is one`;
  }
  return EXIT.fine;
}

async function printed(io: Io, run: ReturnType<typeof runScript>, asJson: boolean): Promise<ScriptResult> {
  const progress = printer(io.stderr, io.env);
  for await (const event of run) {
    if (event.type === "packages-built") progress.line`${progress.dim(event.text)}`;
    else if (event.type === "script-printed" && !asJson) io[event.stream].write(forTerminal(event.text));
  }
  return run;
}

/** Without what acts on a terminal: it is written out, and nothing is printed over. */
function forTerminal(text: string): string {
  return spellHidden(text.replace(/\r(?!\n)/g, "\n")).text;
}

function sayOutcome(io: Io, result: ScriptResult): void {
  const error = printer(io.stderr, io.env);
  for (const { message, fix } of result.refusals) {
    error.line`${error.red("✗")} ${message}`;
    error.line`  ${fix}`;
  }
  if (result.ending === "refused") return;
  for (const { message, fix } of result.warnings) {
    error.line`${error.yellow("!")} ${message}`;
    error.line`  ${fix}`;
  }
  const { isolation, limits, ms } = result;
  const how = isolation ? `${isolation.level} isolation (${isolation.by})` : "";
  const ends: Record<string, string> = {
    exit: result.signal === undefined ? `exit ${result.exitCode}` : `ended by ${result.signal}`,
    timeout: `stopped after ${count(limits.seconds, "second")}, its limit`,
    output: `stopped at ${grouped(limits.output)} bytes of output, its limit`,
    memory: `stopped at ${grouped(limits.memory)} bytes of memory, its limit`,
    abort: "stopped",
  };
  const mark = result.isError ? error.red("✗") : error.green("✓");
  error.line`${mark} ${ends[result.ending] ?? ""}${result.isTruncated ? ", output cut" : ""} ${error.dim(`${(ms / 1000).toFixed(2)} s, ${how}`)}`;
}

function exitOf({ ending, isError }: ScriptResult): number {
  if (ending === "refused") return EXIT.refused;
  if (ending !== "exit") return EXIT.limit;
  return isError ? EXIT.findings : EXIT.fine;
}

function warnOfShortSecrets(io: Io, found: Discovered, skill: Skill): void {
  const values = found.settings.skills.get(skill.name)?.variables;
  const short = skill.manifest.env.filter((name) => (values?.get(name)?.length ?? SHORTEST_SECRET) < SHORTEST_SECRET);
  const error = printer(io.stderr, io.env);
  if (short.length > 0) {
    error.line`${error.yellow("!")} ${short.join(", ")} is too short to be told from other text: it is not hidden in the output`;
  }
}

async function readStdin(io: Io): Promise<string> {
  if (io.stdin) return io.stdin();
  throw new SkillError("usage", { message: "--stdin needs something on standard input", fix: "pipe it in" });
}

function interruption(io: Io): AbortSignal {
  const controller = new AbortController();
  io.interrupted?.().then(() => controller.abort());
  return controller.signal;
}
