import { enabledPolicy } from "../../agent/policy/skill-policies.ts";
import { proposePackages } from "../../agent/workspace/package-hints.ts";
import { listSkillPackages } from "../../agent/workspace/sandbox-permissions.ts";
import {
  buildSkillLibraries,
  findUnusedSkillLibraries,
  listSkillLibrarySets,
  pruneSkillLibraries,
  type UnusedLibraries,
} from "../../agent/workspace/skill-libraries.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import { isLayerOfSet, type LibrarySummary, listLibraryLayers } from "../../sandbox/libraries/library-layer.ts";
import {
  type AptLayerSummary,
  buildPackages,
  findUnusedLayers,
  listAptLayers,
  type PackagePlan,
  parsePackageSet,
  planPackages,
  pruneAptLayers,
  type UnusedAptLayers,
} from "../../sandbox/packages/apt-packages.ts";
import { createProgramCancelError } from "../../sandbox/process.ts";
import { type PackageFolders, resolvePackageFolders } from "../../sandbox/sandbox-folders.ts";
import type { Skill } from "../../skill/skill.ts";
import { mapAsync } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import { formatCount } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  discoverForCommand,
  EXIT,
  formatExamples,
  formatSkillsFolder,
  printConfigurationWarnings,
} from "../command-context.ts";
import {
  type CommandIo,
  createInterruptSignal,
  createPrinter,
  isConfirmed,
  type Printer,
  printJson,
  printProblem,
  printWrappedLine,
} from "../output.ts";

/** `skillet packages` and its subcommands. */
export const packagesCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Build the system and Python packages that skills declare")
      .addHelpText("after", formatExamples("skillet packages build", "skillet packages list")),
  commands: {
    build: {
      define: (command) =>
        command
          .description("Build the packages declared by skills and their Python scripts")
          .argument("[skill...]", "Skills. Defaults to every skill found.")
          .option("--dry-run", "Show the downloads without building anything")
          .option("--update", "Update to newer versions")
          .addHelpText("after", formatExamples("skillet packages build", "skillet packages build media --dry-run")),
      run: buildSkillPackages,
    },
    list: {
      define: (command) =>
        command.description("List the built packages").addHelpText("after", formatExamples("skillet packages list")),
      run: listPackages,
    },
    prune: {
      define: (command) =>
        command
          .description("Remove packages that no skill uses")
          .option("--dry-run", "Show the changes without applying them")
          .option("-y, --yes", "Remove without asking")
          .addHelpText("after", formatExamples("skillet packages prune --dry-run", "skillet packages prune --yes")),
      run: prunePackages,
    },
  },
};

interface BuildPackagesOptions {
  dryRun?: boolean;
  update?: boolean;
}

interface PrunePackagesOptions {
  dryRun?: boolean;
  yes?: boolean;
}

/** A set of packages that one or several skills declare. */
interface PackageRequest {
  names: readonly string[];
  skills: string[];
}

interface PackageFailure extends Problem {
  skills: string[];
}

/** Builds the packages of the named skills, or of all skills. */
async function buildSkillPackages({ io, options, args }: CommandContext<BuildPackagesOptions>): Promise<number> {
  const found = await discoverForCommand(io, options);
  const isConfigured = printConfigurationWarnings(io, found);
  const skills = args.length > 0 ? args.map((name) => found.catalog.get(name)) : listEnabledSkills(found);
  const { asked, failures } = collectRequests(skills, found);
  const work: BuildContext = { ...createBuildProgress(io), failures, update: options.update ?? false };
  const packageFolders = resolvePackageFolders(found.around);
  const results: Record<string, unknown>[] = [];
  const out = createPrinter(io.stdout, io.env);
  for (const { names, skills: by } of asked) {
    await collectFailure(by, work, async () => {
      const result = await (options.dryRun ? planLayer : buildLayer)(names, packageFolders, work);
      results.push({ names, skills: by, ...result.facts });
      if (!options.json)
        out.line`${out.green("✓")} ${out.bold(names.join(", "))}  ${result.text}  ${out.dim(by.join(", "))}`;
    });
  }
  const { python, libraries } = options.dryRun
    ? { python: [], libraries: planLibraries(found, skills) }
    : await buildDeclaredLibraries(found, skills, work);
  for (const { name, scripts } of options.json ? [] : python)
    out.line`${out.green("✓")} ${out.bold(scripts.join(", "))}  Python packages ready  ${out.dim(name)}`;
  for (const { name, kind, wanted, packages } of options.json ? [] : libraries) {
    const state =
      packages === undefined ? "would be resolved and fetched" : `ready, ${formatCount(packages.length, "package")}`;
    out.line`${out.green("✓")} ${out.bold(wanted.join(", "))}  ${LIBRARY_KINDS[kind]}, ${state}  ${out.dim(name)}`;
  }
  if (options.json) printJson(io.stdout, { sets: results, python, libraries, problems: failures });
  printFailures(io, failures);
  if (!options.json) await printProposals(io, found, skills);
  if (asked.length + python.length + libraries.length + failures.length === 0) printNothingDeclared(io, args, found);
  if (failures.length > 0) return EXIT.findings;
  return isConfigured ? EXIT.fine : EXIT.usage;
}

interface LibraryBuildResult {
  python: { name: string; scripts: string[] }[];
  libraries: {
    name: string;
    kind: LibrarySummary["kind"];
    wanted: readonly string[];
    packages?: { name: string; version: string; integrity: string }[];
  }[];
}

const LIBRARY_KINDS: Readonly<Record<LibrarySummary["kind"], string>> = {
  python: "Python packages",
  npm: "npm packages",
};

/** Builds the Python and npm packages that are configured for skills, or that their scripts declare. */
async function buildDeclaredLibraries(
  found: DiscoverResult,
  skills: readonly Skill[],
  work: BuildContext,
): Promise<LibraryBuildResult> {
  const built: LibraryBuildResult = { python: [], libraries: [] };
  for (const skill of skills) {
    const { name } = skill;
    await collectFailure([name], work, async () => {
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

function planLibraries(found: DiscoverResult, skills: readonly Skill[]): LibraryBuildResult["libraries"] {
  return skills.flatMap((skill) => {
    const packages = listSkillPackages(skill, found);
    return (["python", "npm"] as const).flatMap((kind) =>
      packages[kind].length > 0 ? [{ name: skill.name, kind, wanted: packages[kind] }] : [],
    );
  });
}

/** Prints packages that files of a skill list and that are not configured for it. */
async function printProposals(io: CommandIo, found: DiscoverResult, skills: readonly Skill[]): Promise<void> {
  const error = createPrinter(io.stderr, io.env);
  for (const skill of skills) {
    for (const { file, wanted, command } of await proposePackages(skill, found))
      printWrappedLine(error, `${skill.name}: ${file} lists ${wanted.join(", ")}; to add them: ${command}`);
  }
}

/** The state shared by the parts of one command. */
interface BuildContext extends BuildProgress {
  failures: PackageFailure[];
  update: boolean;
}

/** Runs one part and collects its failure. After an interruption no other part is started. */
async function collectFailure(
  skills: string[],
  { signal, failures }: BuildContext,
  part: () => Promise<void>,
): Promise<void> {
  if (failures.some(({ code }) => code === "package-aborted")) return;
  try {
    if (signal.aborted) throw createProgramCancelError(signal);
    await part();
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    failures.push({ skills, code: error.code, message: error.message, fix: error.fix });
  }
}

/** Lists the built packages. */
async function listPackages({ io, options }: CommandContext<object>): Promise<number> {
  const found = await discoverForCommand(io, options);
  const { asked } = collectRequests(listEnabledSkills(found), found);
  const usersOf = (names: readonly string[]) =>
    asked.find((set) => set.names.join(" ") === names.join(" "))?.skills ?? [];
  const layers = listAptLayers(resolvePackageFolders(found.around)).map((layer) => ({
    ...layer,
    skills: usersOf(layer.names),
  }));
  const sets = await mapAsync(listEnabledSkills(found), async (skill) => ({
    name: skill.name,
    sets: await listSkillLibrarySets(found, skill),
  }));
  const libraries = listLibraryLayers(resolvePackageFolders(found.around)).map((library) => ({
    ...library,
    skills: sets.filter((one) => one.sets.some((set) => isLayerOfSet(library, set))).map(({ name }) => name),
  }));
  if (options.json) printJson(io.stdout, { layers: layers.map(toLayerJson), libraries: libraries.map(toLibraryJson) });
  const out = createPrinter(io.stdout, io.env);
  for (const { names, bytes, suite, isCurrent, skills, built } of options.json ? [] : layers) {
    const state = isCurrent ? skills.join(", ") || "no skill here uses it" : "replaced by a newer one";
    out.line`${out.bold(names.join(", "))}  ${formatMegabytes(bytes)}  ${suite}  ${built.slice(0, 10)}  ${out.dim(state)}`;
  }
  for (const { kind, wanted, bytes, built, isCurrent, skills } of options.json ? [] : libraries) {
    const state = isCurrent ? skills.join(", ") || "no skill here uses it" : "replaced by a newer one";
    out.line`${out.bold(wanted.join(", "))}  ${formatMegabytes(bytes)}  ${LIBRARY_KINDS[kind]}  ${built.slice(0, 10)}  ${out.dim(state)}`;
  }
  if (layers.length + libraries.length === 0)
    printWrappedLine(
      createPrinter(io.stderr, io.env),
      "no packages are built: `skillet packages build` builds those that skills declare",
    );
  return EXIT.fine;
}

function toLayerJson<Layer extends AptLayerSummary>({ root: folder, built: builtAt, ...layer }: Layer): object {
  return { ...layer, folder, builtAt };
}

function toLibraryJson({ built: builtAt, ...library }: LibrarySummary): object {
  return { ...library, builtAt };
}

/** Removes packages that no skill uses, after showing them and asking. */
async function prunePackages({ io, options }: CommandContext<PrunePackagesOptions>): Promise<number> {
  const found = await discoverForCommand(io, options);
  const packageFolders = resolvePackageFolders(found.around);
  // An invalid set cannot have been built.
  const sets = collectRequests(found.catalog.skills, found).asked.map(({ names }) => names);
  const libraries = await findUnusedSkillLibraries(found, found.catalog.skills);
  const planned = { ...findUnusedLayers(packageFolders, sets), libraries };
  const [out, error] = [createPrinter(io.stdout, io.env), createPrinter(io.stderr, io.env)];
  const isNothing = countUnused(planned) === 0;
  const isAsked = !options.dryRun && !options.yes && !isNothing;
  if (isAsked) printUnused(error, "would remove", planned);
  const isRefused = isAsked && !(await isConfirmed(io, "Remove this?"));
  if (isRefused) {
    const commands = ["skillet packages prune --yes"];
    throw new SkillError("not-confirmed", { message: "nothing was removed", fix: "remove it", commands });
  }
  if (options.dryRun) {
    if (options.json) printJson(io.stdout, { isDryRun: true, ...toUnusedJson(planned) });
    else printUnused(out, "would remove", planned);
    return EXIT.fine;
  }
  const { layers, bases } = await pruneAptLayers(packageFolders, sets);
  pruneSkillLibraries(found, libraries);
  const removed = { layers, bases, libraries };
  if (options.json) printJson(io.stdout, { isDryRun: false, ...toUnusedJson(removed) });
  else printUnused(out, "removed", removed);
  return EXIT.fine;
}

interface UnusedPackages extends UnusedAptLayers {
  libraries: UnusedLibraries;
}

function countUnused({ layers, bases, libraries }: UnusedPackages): number {
  return layers.length + bases.length + libraries.layers.length + libraries.fetched.length;
}

function toUnusedJson({ layers, bases, libraries }: UnusedPackages): object {
  const python = libraries.fetched.length;
  return { removed: layers.map(toLayerJson), bases, python, libraries: libraries.layers.map(toLibraryJson) };
}

function printUnused(out: Printer, what: string, unused: UnusedPackages): void {
  const { layers, bases, libraries } = unused;
  for (const { names, bytes } of layers) out.line`${what} ${out.bold(names.join(", "))}  ${formatMegabytes(bytes)}`;
  for (const id of bases) out.line`${what} the base ${id}`;
  for (const { kind, wanted, bytes } of libraries.layers)
    out.line`${what} ${out.bold(wanted.join(", "))}  ${formatMegabytes(bytes)}  ${LIBRARY_KINDS[kind]}`;
  if (libraries.fetched.length > 0)
    out.line`${what} the Python packages of ${formatCount(libraries.fetched.length, "script")}`;
  if (countUnused(unused) === 0) out.line`nothing to remove`;
}

async function planLayer(names: readonly string[], packageFolders: PackageFolders, options: BuildContext) {
  const plan = await planPackages(names, packageFolders, options);
  const { by, base, packages, download: bytes } = plan;
  return {
    facts: { by, packages: toVersionsJson(packages), base: toVersionsJson(base), bytes },
    text: formatPlan(plan),
  };
}

function formatPlan({ by, packages, base, download }: PackagePlan): string {
  if (by !== "build") return READY_LABELS[by];
  const more = base.length === 0 ? "" : ` and a base of ${formatCount(base.length, "package")}`;
  const list = packages.map(({ name, version, size }) => `${name} ${version} (${formatMegabytes(size)})`).join(", ");
  return `would fetch ${formatMegabytes(download)}: ${list || "nothing more"}${more}`;
}

async function buildLayer(names: readonly string[], packageFolders: PackageFolders, options: BuildContext) {
  const start = performance.now();
  const root = await buildPackages(names, packageFolders, options);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const facts = {
    by: root.kind,
    ...("root" in root ? { folder: root.root } : {}),
    packages: "lock" in root ? toVersionsJson(root.lock.packages) : [],
  };
  return { facts, text: `${READY_LABELS[root.kind]}, ${seconds} s` };
}

function toVersionsJson(packages: readonly { name: string; version: string; size?: number }[]): object[] {
  return packages.map(({ name, version, size: bytes }) => ({ name, version, ...omitUndefined({ bytes }) }));
}

const READY_LABELS = { none: "nothing to do", host: "already installed on this machine", layer: "ready" };

interface BuildProgress {
  signal: AbortSignal;
  onProgress(text: string): void;
}

/** Reports progress on stderr, and aborts at an interrupt. Created once per command: each call adds signal handlers. */
function createBuildProgress(io: CommandIo): BuildProgress {
  const error = createPrinter(io.stderr, io.env);
  return { signal: createInterruptSignal(io), onProgress: (text) => error.line`${error.dim("·")} ${text}` };
}

function listEnabledSkills(found: DiscoverResult): readonly Skill[] {
  return found.catalog.available((skill) => enabledPolicy(skill, found));
}

/** Returns the distinct sets of packages with the skills that declare them, and the failures for invalid names. */
function collectRequests(
  skills: readonly Skill[],
  found: DiscoverResult,
): { asked: PackageRequest[]; failures: PackageFailure[] } {
  const sets = new Map<string, PackageRequest>();
  const failures: PackageFailure[] = [];
  for (const skill of skills) {
    const { name } = skill;
    const { system } = listSkillPackages(skill, found);
    if (system.length === 0) continue;
    try {
      const names = parsePackageSet(system);
      const set = sets.get(names.join(" ")) ?? { names, skills: [] };
      set.skills.push(name);
      sets.set(names.join(" "), set);
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      failures.push({ skills: [name], ...error.problem });
    }
  }
  return { asked: [...sets.values()], failures };
}

function printFailures(io: CommandIo, failures: readonly PackageFailure[]): void {
  const error = createPrinter(io.stderr, io.env);
  for (const { skills, ...problem } of failures) {
    printProblem(error, error.red("✗"), { ...problem, message: `${skills.join(", ")}: ${problem.message}` });
  }
}

function printNothingDeclared(io: CommandIo, args: readonly string[], { around: environment }: DiscoverResult): void {
  const where =
    args.length > 0
      ? args.join(", ")
      : `no skill in ${formatSkillsFolder(environment.workspace, environment)} or your home folder`;
  const verb = `${args.length > 1 ? "declare" : "declares"} ${args.length > 0 ? "no " : ""}system packages`;
  const text = `${where} ${verb}: add \`packages: [jq]\` to a SKILL.md`;
  printWrappedLine(createPrinter(io.stderr, io.env), text);
}

function formatMegabytes(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
