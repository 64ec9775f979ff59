import type { ErrorCode } from "../../codes/codes.ts";
import type { Discovered } from "../../host/discover.ts";
import { isEnabled } from "../../policy/policy.ts";
import { givenPackages } from "../../run/given-packages.ts";
import { proposedPackages } from "../../run/proposed-packages.ts";
import {
  buildSkillLibraries,
  pruneSkillLibraries,
  skillLibrarySets,
  type UnusedLibraries,
  unusedSkillLibraries,
} from "../../run/skill-libraries.ts";
import { isSetOf, type LibrarySummary, listLibraries } from "../../sandbox/libraries/library-layer.ts";
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
  const { asked, failures } = askedBy(skills, found);
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
  const { python, libraries } = options.dryRun
    ? { python: [], libraries: plannedLibraries(found, skills) }
    : await buildLibrariesOf(found, skills, work);
  for (const { name, scripts } of options.json ? [] : python)
    out.line`${out.green("✓")} ${out.bold(scripts.join(", "))}  Python packages ready  ${out.dim(name)}`;
  for (const { name, kind, wanted, packages } of options.json ? [] : libraries) {
    const state =
      packages === undefined ? "would be resolved and fetched" : `ready, ${count(packages.length, "package")}`;
    out.line`${out.green("✓")} ${out.bold(wanted.join(", "))}  ${KINDS[kind]}, ${state}  ${out.dim(name)}`;
  }
  if (options.json) printJson(io.stdout, { sets: results, python, libraries, problems: failures });
  printFailures(io, failures);
  if (!options.json) sayProposals(io, found, skills);
  if (asked.length + python.length + libraries.length + failures.length === 0) sayNothingAsked(io, args, found);
  if (failures.length > 0) return EXIT.findings;
  return isConfigured ? EXIT.fine : EXIT.usage;
}

interface BuiltLibraries {
  python: { name: string; scripts: string[] }[];
  libraries: {
    name: string;
    kind: LibrarySummary["kind"];
    wanted: readonly string[];
    packages?: { name: string; version: string; integrity: string }[];
  }[];
}

const KINDS: Readonly<Record<LibrarySummary["kind"], string>> = { python: "Python packages", npm: "npm packages" };

/** Builds the Python and npm packages that skills are given, or that their scripts declare. */
async function buildLibrariesOf(found: Discovered, skills: readonly Skill[], work: Work): Promise<BuiltLibraries> {
  const built: BuiltLibraries = { python: [], libraries: [] };
  for (const skill of skills) {
    const { name } = skill;
    await attempt([name], work, async () => {
      const { scripts, layers } = await buildSkillLibraries(found, skill, work);
      if (scripts.length > 0) built.python.push({ name, scripts });
      for (const { set, lock } of layers) {
        const packages = lock.packages.map((one) => ({
          name: one.name,
          version: one.version,
          integrity: one.integrity,
        }));
        built.libraries.push({ name, kind: set.kind, wanted: set.wanted, packages });
      }
    });
  }
  return built;
}

function plannedLibraries(found: Discovered, skills: readonly Skill[]): BuiltLibraries["libraries"] {
  return skills.flatMap((skill) => {
    const given = givenPackages(skill, found);
    return (["python", "npm"] as const).flatMap((kind) =>
      given[kind].length > 0 ? [{ name: skill.name, kind, wanted: given[kind] }] : [],
    );
  });
}

/** Names packages that files of a skill list and that nobody gave it. */
function sayProposals(io: Io, found: Discovered, skills: readonly Skill[]): void {
  const error = printer(io.stderr, io.env);
  for (const skill of skills) {
    for (const { file, wanted, command } of proposedPackages(skill, found))
      sayLine(error, `${skill.name}: ${file} lists ${wanted.join(", ")}; to add them: ${command}`);
  }
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
  const { asked } = askedBy(enabledSkills(found), found);
  const usersOf = (names: readonly string[]) =>
    asked.find((set) => set.names.join(" ") === names.join(" "))?.skills ?? [];
  const layers = listLayers(defaultPlaces(found.around)).map((layer) => ({ ...layer, skills: usersOf(layer.names) }));
  const sets = enabledSkills(found).map((skill) => ({ name: skill.name, sets: skillLibrarySets(found, skill) }));
  const libraries = listLibraries(defaultPlaces(found.around)).map((library) => ({
    ...library,
    skills: sets.filter((one) => one.sets.some((set) => isSetOf(library, set))).map(({ name }) => name),
  }));
  if (options.json) printJson(io.stdout, { layers: layers.map(layerFacts), libraries: libraries.map(libraryFacts) });
  const out = printer(io.stdout, io.env);
  for (const { names, bytes, suite, isCurrent, skills, built } of options.json ? [] : layers) {
    const state = isCurrent ? skills.join(", ") || "no skill here uses it" : "replaced by a newer one";
    out.line`${out.bold(names.join(", "))}  ${sizeOf(bytes)}  ${suite}  ${built.slice(0, 10)}  ${out.dim(state)}`;
  }
  for (const { kind, wanted, bytes, built, isCurrent, skills } of options.json ? [] : libraries) {
    const state = isCurrent ? skills.join(", ") || "no skill here uses it" : "replaced by a newer one";
    out.line`${out.bold(wanted.join(", "))}  ${sizeOf(bytes)}  ${KINDS[kind]}  ${built.slice(0, 10)}  ${out.dim(state)}`;
  }
  if (layers.length + libraries.length === 0)
    sayLine(
      printer(io.stderr, io.env),
      "no packages are built: `skillet packages build` builds those that skills ask for",
    );
  return EXIT.fine;
}

function layerFacts<Layer extends LayerSummary>({ root: folder, built: builtAt, ...layer }: Layer): object {
  return { ...layer, folder, builtAt };
}

function libraryFacts({ built: builtAt, ...library }: LibrarySummary): object {
  return { ...library, builtAt };
}

/** Removes what no skill that is found here uses, after showing it and asking. */
export async function prunePackages({ io, options }: Context<PruneCommandOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  const places = defaultPlaces(found.around);
  // A set that cannot be read is nothing that could have been built.
  const sets = askedBy(found.catalog.skills, found).asked.map(({ names }) => names);
  const libraries = unusedSkillLibraries(found, found.catalog.skills);
  const planned = { ...unusedLayers(places, sets), libraries };
  const [out, error] = [printer(io.stdout, io.env), printer(io.stderr, io.env)];
  const isNothing = unusedCount(planned) === 0;
  const isAsked = !options.dryRun && !options.yes && !isNothing;
  if (isAsked) printUnused(error, "would remove", planned);
  const isRefused = isAsked && !(await isAgreed(io, "Remove this?"));
  if (isRefused) {
    const fix = "`skillet packages prune --yes` removes it";
    throw new SkillError("not-agreed", { message: "nothing was removed", fix });
  }
  if (options.dryRun) {
    if (options.json) printJson(io.stdout, { isDryRun: true, ...unusedFacts(planned) });
    else printUnused(out, "would remove", planned);
    return EXIT.fine;
  }
  const { layers, bases } = await pruneLayers(places, sets);
  pruneSkillLibraries(found, libraries);
  const removed = { layers, bases, libraries };
  if (options.json) printJson(io.stdout, { isDryRun: false, ...unusedFacts(removed) });
  else printUnused(out, "removed", removed);
  return EXIT.fine;
}

interface AllUnused extends Unused {
  libraries: UnusedLibraries;
}

function unusedCount({ layers, bases, libraries }: AllUnused): number {
  return layers.length + bases.length + libraries.layers.length + libraries.fetched.length;
}

function unusedFacts({ layers, bases, libraries }: AllUnused): object {
  const python = libraries.fetched.length;
  return { removed: layers.map(layerFacts), bases, python, libraries: libraries.layers.map(libraryFacts) };
}

function printUnused(out: Printer, what: string, unused: AllUnused): void {
  const { layers, bases, libraries } = unused;
  for (const { names, bytes } of layers) out.line`${what} ${out.bold(names.join(", "))}  ${sizeOf(bytes)}`;
  for (const id of bases) out.line`${what} the base ${id}`;
  for (const { kind, wanted, bytes } of libraries.layers)
    out.line`${what} ${out.bold(wanted.join(", "))}  ${sizeOf(bytes)}  ${KINDS[kind]}`;
  if (libraries.fetched.length > 0)
    out.line`${what} the Python packages of ${count(libraries.fetched.length, "script")}`;
  if (unusedCount(unused) === 0) out.line`nothing to remove`;
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
function askedBy(skills: readonly Skill[], found: Discovered): { asked: Asked[]; failures: Failure[] } {
  const sets = new Map<string, Asked>();
  const failures: Failure[] = [];
  for (const skill of skills) {
    const { name } = skill;
    const { system } = givenPackages(skill, found);
    if (system.length === 0) continue;
    try {
      const names = packageSet(system);
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
