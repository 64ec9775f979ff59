import type { ErrorCode } from "../../codes/codes.ts";
import type { Discovered } from "../../host/discover.ts";
import { isEnabled } from "../../policy/policy.ts";
import { fetchPythonPackages, prunePythonPackages, unusedPythonPackages } from "../../run/python-packages.ts";
import { packageSet } from "../../sandbox/packages/name.ts";
import {
  buildPackages,
  defaultPlaces,
  type LayerSummary,
  listLayers,
  type Places,
  type Plan,
  planPackages,
  pruneLayers,
  type Unused,
  unusedLayers,
} from "../../sandbox/packages/packages.ts";
import { calledOff } from "../../sandbox/packages/run.ts";
import { defined } from "../../shared/defined.ts";
import { SkillError } from "../../shared/error.ts";
import { count } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, folderSaid, warnOfConfiguration } from "../found.ts";
import { type Io, interruption, isAgreed, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { sayLine } from "../say.ts";

interface BuildCommandOptions {
  dryRun?: boolean;
  update?: boolean;
}

interface PruneCommandOptions {
  dryRun?: boolean;
  yes?: boolean;
}

/** What several skills may ask for alike. */
interface Asked {
  names: readonly string[];
  skills: string[];
}

interface Failure {
  skills: string[];
  code: ErrorCode;
  message: string;
  fix: string | undefined;
}

/** Builds the system packages of skills: those that are named, else all that are found. */
export async function buildSkillPackages({ io, options, args }: Context<BuildCommandOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  const isConfigured = warnOfConfiguration(io, found);
  const skills = args.length > 0 ? args.map((name) => found.catalog.get(name)) : enabledSkills(found);
  const { asked, failures } = askedBy(skills);
  const work: Work = { ...watched(io), failures, update: options.update ?? false };
  const places = defaultPlaces(found.around);
  const results: Record<string, unknown>[] = [];
  const out = printer(io.stdout, io.env);
  for (const { names, skills: by } of asked) {
    await attempt(by, work, async () => {
      const result = await (options.dryRun ? planOne : buildOne)(names, places, work);
      results.push({ names, skills: by, ...result.facts });
      if (!options.json)
        out.line`${out.green("✓")} ${out.bold(names.join(", "))}  ${result.text}  ${out.dim(by.join(", "))}`;
    });
  }
  const python = options.dryRun ? [] : await fetchPython(found, skills, work);
  for (const { name, scripts } of options.json ? [] : python)
    out.line`${out.green("✓")} ${out.bold(scripts.join(", "))}  Python packages ready  ${out.dim(name)}`;
  if (options.json) printJson(io.stdout, { sets: results, python, problems: failures });
  printFailures(io, failures);
  if (asked.length + python.length + failures.length === 0) sayNothingAsked(io, args, found);
  if (failures.length > 0) return EXIT.findings;
  return isConfigured ? EXIT.fine : EXIT.usage;
}

/** Fetches what the Python scripts of skills declare in their own comments. */
async function fetchPython(
  found: Discovered,
  skills: readonly Skill[],
  work: Work,
): Promise<{ name: string; scripts: string[] }[]> {
  const fetched: { name: string; scripts: string[] }[] = [];
  for (const skill of skills) {
    await attempt([skill.name], work, async () => {
      const scripts = await fetchPythonPackages(found, skill, work);
      if (scripts.length > 0) fetched.push({ name: skill.name, scripts });
    });
  }
  return fetched;
}

/** What the parts of one command share. */
interface Work extends Watched {
  failures: Failure[];
  update: boolean;
}

/** Does one part. What fails is noted for those who asked for it; when it is called off, nothing more is begun. */
async function attempt(skills: string[], { signal, failures }: Work, part: () => Promise<void>): Promise<void> {
  if (failures.some(({ code }) => code === "package-aborted")) return;
  try {
    if (signal.aborted) throw calledOff(signal);
    await part();
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    failures.push({ skills, code: error.code, message: error.message, fix: error.fix });
  }
}

/** Lists what is built. */
export async function listPackages({ io, options }: Context<object>): Promise<number> {
  const found = await discoverFor(io, options);
  const { asked } = askedBy(enabledSkills(found));
  const usersOf = (names: readonly string[]) =>
    asked.find((set) => set.names.join(" ") === names.join(" "))?.skills ?? [];
  const layers = listLayers(defaultPlaces(found.around)).map((layer) => ({ ...layer, skills: usersOf(layer.names) }));
  if (options.json) printJson(io.stdout, { layers: layers.map(layerFacts) });
  const out = printer(io.stdout, io.env);
  for (const { names, bytes, suite, isCurrent, skills, built } of options.json ? [] : layers) {
    const state = isCurrent ? skills.join(", ") || "no skill here uses it" : "replaced by a newer one";
    out.line`${out.bold(names.join(", "))}  ${sizeOf(bytes)}  ${suite}  ${built.slice(0, 10)}  ${out.dim(state)}`;
  }
  if (layers.length === 0)
    sayLine(
      printer(io.stderr, io.env),
      "no system packages are built: `skillet packages build` builds those that skills ask for",
    );
  return EXIT.fine;
}

function layerFacts<Layer extends LayerSummary>({ root: folder, built: builtAt, ...layer }: Layer): object {
  return { ...layer, folder, builtAt };
}

/** Removes what no skill that is found here uses, after showing it and asking. */
export async function prunePackages({ io, options }: Context<PruneCommandOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  const places = defaultPlaces(found.around);
  // A set that cannot be read is nothing that could have been built.
  const sets = askedBy(found.catalog.skills).asked.map(({ names }) => names);
  const folders = unusedPythonPackages(found, found.catalog.skills);
  const python = folders.length;
  const planned = { ...unusedLayers(places, sets), python };
  const [out, error] = [printer(io.stdout, io.env), printer(io.stderr, io.env)];
  const isNothing = planned.layers.length + planned.bases.length + python === 0;
  const isAsked = !options.dryRun && !options.yes && !isNothing;
  if (isAsked) printUnused(error, "would remove", planned);
  const isRefused = isAsked && !(await isAgreed(io, "Remove this?"));
  if (isRefused) {
    const fix = "`skillet packages prune --yes` removes it";
    throw new SkillError("not-agreed", { message: "nothing was removed", fix });
  }
  if (options.dryRun) {
    if (options.json)
      printJson(io.stdout, { isDryRun: true, removed: planned.layers.map(layerFacts), bases: planned.bases, python });
    else printUnused(out, "would remove", planned);
    return EXIT.fine;
  }
  const { layers, bases } = await pruneLayers(places, sets);
  prunePythonPackages(found, folders);
  if (options.json) printJson(io.stdout, { isDryRun: false, removed: layers.map(layerFacts), bases, python });
  else printUnused(out, "removed", { layers, bases, python });
  return EXIT.fine;
}

function printUnused(out: Printer, what: string, { layers, bases, python }: Unused & { python: number }): void {
  for (const { names, bytes } of layers) out.line`${what} ${out.bold(names.join(", "))}  ${sizeOf(bytes)}`;
  for (const id of bases) out.line`${what} the base ${id}`;
  if (python > 0) out.line`${what} the Python packages of ${count(python, "script")}`;
  if (layers.length + bases.length + python === 0) out.line`nothing to remove`;
}

async function planOne(names: readonly string[], places: Places, options: Work) {
  const plan = await planPackages(names, places, options);
  const { by, base, packages, download: bytes } = plan;
  return { facts: { by, packages: versionsOf(packages), base: versionsOf(base), bytes }, text: describePlan(plan) };
}

function describePlan({ by, packages, base, download }: Plan): string {
  if (by !== "build") return READY[by];
  const more = base.length === 0 ? "" : ` and a base of ${count(base.length, "package")}`;
  const list = packages.map(({ name, version, size }) => `${name} ${version} (${sizeOf(size)})`).join(", ");
  return `would fetch ${sizeOf(download)}: ${list || "nothing more"}${more}`;
}

async function buildOne(names: readonly string[], places: Places, options: Work) {
  const start = performance.now();
  const root = await buildPackages(names, places, options);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const facts = {
    by: root.kind,
    ...("root" in root ? { folder: root.root } : {}),
    packages: "lock" in root ? versionsOf(root.lock.packages) : [],
  };
  return { facts, text: `${READY[root.kind]}, ${seconds} s` };
}

function versionsOf(packages: readonly { name: string; version: string; size?: number }[]): object[] {
  return packages.map(({ name, version, size: bytes }) => ({ name, version, ...defined({ bytes }) }));
}

const READY = { none: "nothing to do", host: "on this machine already", layer: "ready" };

interface Watched {
  signal: AbortSignal;
  onProgress(text: string): void;
}

/** Says on stderr how far it is, and calls it off at an interrupt. Once a command: each takes handlers of the process. */
function watched(io: Io): Watched {
  const error = printer(io.stderr, io.env);
  return { signal: interruption(io), onProgress: (text) => error.line`${error.dim("·")} ${text}` };
}

function enabledSkills(found: Discovered): readonly Skill[] {
  return found.catalog.available((skill) => isEnabled(skill, found));
}

/** The sets that skills ask for, each once, with who asks; and whose names no package can have. */
function askedBy(skills: readonly Skill[]): { asked: Asked[]; failures: Failure[] } {
  const sets = new Map<string, Asked>();
  const failures: Failure[] = [];
  for (const { name, manifest } of skills) {
    if (manifest.packages.length === 0) continue;
    try {
      const names = packageSet(manifest.packages);
      const set = sets.get(names.join(" ")) ?? { names, skills: [] };
      set.skills.push(name);
      sets.set(names.join(" "), set);
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      failures.push({ skills: [name], code: error.code, message: error.message, fix: error.fix });
    }
  }
  return { asked: [...sets.values()], failures };
}

function printFailures(io: Io, failures: readonly Failure[]): void {
  const error = printer(io.stderr, io.env);
  for (const { skills, code, message, fix } of failures) {
    error.line`${error.red("✗")} ${skills.join(", ")}: ${message} ${error.dim(code)}`;
    if (fix !== undefined) error.line`    ${fix}`;
  }
}

function sayNothingAsked(io: Io, args: readonly string[], { around }: Discovered): void {
  const where =
    args.length > 0 ? args.join(", ") : `no skill in ${folderSaid(around.workspace, around)} or your home folder`;
  const asks = `${args.length > 1 ? "ask" : "asks"} for ${args.length > 0 ? "no " : ""}system packages`;
  const says = `${where} ${asks}: a skill does with \`packages: [jq]\` in its SKILL.md`;
  sayLine(printer(io.stderr, io.env), says);
}

function sizeOf(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
