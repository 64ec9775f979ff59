import type { Discovered } from "../../host/discover.ts";
import { isEnabled } from "../../policy/policy.ts";
import { fetchPythonPackages, prunePythonPackages } from "../../run/python-packages.ts";
import { packageSet } from "../../sandbox/packages/name.ts";
import {
  buildPackages,
  defaultPlaces,
  listLayers,
  type Places,
  type Plan,
  planPackages,
  pruneLayers,
} from "../../sandbox/packages/packages.ts";
import { SkillError } from "../../shared/error.ts";
import { count } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { displayPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";

interface BuildCommandOptions {
  dryRun?: boolean;
  update?: boolean;
}

/** What several skills may ask for alike. */
interface Asked {
  names: readonly string[];
  skills: string[];
}

interface Failure {
  skills: string[];
  code: string;
  message: string;
  fix: string | undefined;
}

/** Builds the system packages of skills: those that are named, else all that are found. */
export async function buildSkillPackages({ io, options, args }: Context<BuildCommandOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  const isConfigured = warnOfConfiguration(io, found);
  const skills = args.length > 0 ? args.map((name) => found.catalog.get(name)) : enabledSkills(found);
  const { asked, failures } = askedBy(skills);
  const places = defaultPlaces(found.around);
  const results: Record<string, unknown>[] = [];
  const out = printer(io.stdout, io.env);
  for (const { names, skills: by } of asked) {
    try {
      const result = options.dryRun
        ? await planOne(io, names, { places, update: options.update ?? false })
        : await buildOne(io, names, { places, update: options.update ?? false });
      results.push({ packages: names, skills: by, ...result.facts });
      if (!options.json)
        out.line`${out.green("✓")} ${out.bold(names.join(", "))}  ${result.text}  ${out.dim(by.join(", "))}`;
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      failures.push({ skills: by, code: error.code, message: error.message, fix: error.fix });
      if (error.code === "package-aborted") break;
    }
  }
  const python = options.dryRun
    ? []
    : await fetchPython(io, found, skills, { failures, update: options.update ?? false });
  for (const { skill, scripts } of options.json ? [] : python)
    out.line`${out.green("✓")} ${out.bold(scripts.join(", "))}  Python packages ready  ${out.dim(skill)}`;
  if (options.json) printJson(io.stdout, { sets: results, python, failures });
  printFailures(io, failures);
  if (asked.length + python.length + failures.length === 0) sayNothingAsked(io, args, found);
  if (failures.length > 0) return EXIT.findings;
  return isConfigured ? EXIT.fine : EXIT.usage;
}

/** Fetches what the Python scripts of skills declare in their own comments. */
async function fetchPython(
  io: Io,
  found: Discovered,
  skills: readonly Skill[],
  { failures, update }: { failures: Failure[]; update: boolean },
): Promise<{ skill: string; scripts: string[] }[]> {
  const fetched: { skill: string; scripts: string[] }[] = [];
  for (const skill of skills) {
    try {
      const scripts = await whileWatched(io, (options) => fetchPythonPackages(found, skill, { ...options, update }));
      if (scripts.length > 0) fetched.push({ skill: skill.name, scripts });
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      failures.push({ skills: [skill.name], code: error.code, message: error.message, fix: error.fix });
    }
  }
  return fetched;
}

/** Lists what is built. */
export async function listPackages({ io, options }: Context<object>): Promise<number> {
  const found = await discoverFor(io, options);
  const { asked } = askedBy(enabledSkills(found));
  const usersOf = (names: readonly string[]) =>
    asked.find((set) => set.names.join(" ") === names.join(" "))?.skills ?? [];
  const layers = listLayers(defaultPlaces(found.around)).map((layer) => ({ ...layer, skills: usersOf(layer.names) }));
  if (options.json) printJson(io.stdout, { layers });
  const out = printer(io.stdout, io.env);
  for (const { names, bytes, suite, isCurrent, skills, built } of options.json ? [] : layers) {
    const state = isCurrent ? skills.join(", ") || "no skill here uses it" : "replaced by a newer one";
    out.line`${out.bold(names.join(", "))}  ${sizeOf(bytes)}  ${suite}  ${built.slice(0, 10)}  ${out.dim(state)}`;
  }
  if (layers.length === 0)
    printer(io.stderr, io.env)
      .line`no system packages are built: \`skillet packages build\` builds those that skills ask for`;
  return EXIT.fine;
}

/** Removes what no skill that is found here uses. */
export async function prunePackages({ io, options }: Context<object>): Promise<number> {
  const found = await discoverFor(io, options);
  // A set that cannot be read is nothing that could have been built.
  const { asked } = askedBy(found.catalog.skills);
  const { removed, bases } = await pruneLayers(
    defaultPlaces(found.around),
    asked.map(({ names }) => names),
  );
  const python = prunePythonPackages(found, found.catalog.skills);
  const out = printer(io.stdout, io.env);
  if (options.json) printJson(io.stdout, { removed, bases, python });
  else {
    for (const { names, bytes } of removed) out.line`removed ${out.bold(names.join(", "))}  ${sizeOf(bytes)}`;
    for (const id of bases) out.line`removed the base ${id}`;
    if (python > 0) out.line`removed the Python packages of ${count(python, "script")}`;
    if (removed.length + bases.length + python === 0) out.line`nothing to remove`;
  }
  return EXIT.fine;
}

interface OneOptions {
  places: Places;
  update: boolean;
}

async function planOne(io: Io, names: readonly string[], { places, update }: OneOptions) {
  const plan = await whileWatched(io, (options) => planPackages(names, places, { ...options, update }));
  return { facts: { ...plan }, text: describePlan(plan) };
}

function describePlan({ by, packages, base, download }: Plan): string {
  if (by !== "build") return READY[by];
  const more = base.length === 0 ? "" : ` and a base of ${count(base.length, "package")}`;
  const list = packages.map(({ name, version, size }) => `${name} ${version} (${sizeOf(size)})`).join(", ");
  return `would fetch ${sizeOf(download)}: ${list || "nothing more"}${more}`;
}

async function buildOne(io: Io, names: readonly string[], { places, update }: OneOptions) {
  const start = performance.now();
  const root = await whileWatched(io, (options) => buildPackages(names, places, { ...options, update }));
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  return { facts: { ...root }, text: `${READY[root.kind]}, ${seconds} s` };
}

const READY = { none: "nothing to do", host: "on this machine already", layer: "ready" };

/** Says on stderr how far it is, and calls it off at an interrupt. */
async function whileWatched<Value>(
  io: Io,
  work: (options: { signal: AbortSignal; onProgress: (text: string) => void }) => Promise<Value>,
): Promise<Value> {
  const error = printer(io.stderr, io.env);
  const controller = new AbortController();
  void io.interrupted?.().then(() => controller.abort());
  return work({ signal: controller.signal, onProgress: (text) => error.line`${error.dim("·")} ${text}` });
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
    args.length > 0 ? args.join(", ") : `no skill in ${displayPath(around.workspace, around)} or your home folder`;
  printer(io.stderr, io.env)
    .line`${where} ${args.length > 1 ? "ask" : "asks"} for ${args.length > 0 ? "no " : ""}system packages: a skill does with \`packages: [jq]\` in its SKILL.md`;
}

function sizeOf(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
