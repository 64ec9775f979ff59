import { join, resolve } from "node:path";
import { type Catalog, openCatalog } from "../catalog/catalog.ts";
import { attachSearchStore } from "../catalog/search-store.ts";
import { packageVersion } from "../package.ts";
import { defined } from "../shared/defined.ts";
import { reason } from "../shared/inside.ts";
import { nearest, oneLine } from "../shared/text.ts";
import { type Diagnostic, diagnose } from "../skill/diagnostic.ts";
import { declaredVariables } from "../skill/needs.ts";
import type { Skill } from "../skill/skill.ts";
import { directorySource } from "../source/directory.ts";
import { type Location, locations, type Surroundings } from "../source/locations.ts";
import { openSearchFile, type SearchStore } from "../source/search-file.ts";
import type { Source } from "../source/source.ts";
import { type Approvals, openApprovals } from "./approvals.ts";
import type { Caller } from "./caller.ts";
import type { Entry } from "./config-file.ts";
import { type Grants, openGrants } from "./grants.ts";
import { skilletHome, userHome } from "./home.ts";
import { type Installs, openInstalls } from "./installs.ts";
import type { LiveSettings } from "./live-settings.ts";
import { LOCK_FILE } from "./lock/format.ts";
import { type Locks, openLocks } from "./lock/locks.ts";
import type { RemoteRefresh } from "./remote-skills.ts";
import { openRuns, type Runs } from "./runs.ts";
import { type LoadedSettings, loadSettings, type Settings, viewOf } from "./settings.ts";
import { openStatistics, type Statistics } from "./statistics.ts";
import { openSystem, type System } from "./system.ts";
import { openTrust, type Trust } from "./trust.ts";

export interface DiscoverOptions {
  /** `AGENT_WORKSPACE_ROOT`, else the current folder, when left out. */
  workspace?: string;
  home?: string;
  env?: Readonly<Record<string, string | undefined>>;
  /** Sources of the embedding program: integrations, skills in code. */
  sources?: readonly Source[];
  /** Keep an index under `~/.skillet/cache`, so that the next start reads only what changed. True when left out. */
  index?: boolean;
  /**
   * The folder of skills with scope `bundled`. Defaults to those of this package; none where a bundler made skillet part of another
   * program.
   */
  shippedSkills?: string;
  /** On whose behalf; nobody's in particular when left out. */
  caller?: Caller;
  /** Settings in place of the configuration files, as `createSettings` makes them. No file is read then. */
  settings?: Settings;
  /** Follow the configuration files: a change is in effect within a second, also for sessions and runs that began before. Defaults to true. */
  follow?: boolean;
  /** When the skills of MCP servers are listed again. Defaults to `background` if `follow` is true, otherwise to `soon`. */
  remote?: RemoteRefresh;
}

export interface Discovered {
  catalog: Catalog;
  settings: Settings;
  workspace: string;
  home: string;
  env: Surroundings["env"];
  trust: Trust;
  grants: Grants;
  approvals: Approvals;
  installs: Installs;
  runs: Runs;
  statistics: Statistics;
  system: System;
  caller?: Caller;
  /** The configuration as it was found, with the diagnostics of its files. */
  configuration: LoadedSettings;
  /** Returns the configuration in effect. The same object until it, or a diagnostic of its files, changes. */
  currentConfiguration(): LoadedSettings;
  around: Surroundings;
  locations: readonly Location[];
}

/** Finds every skill in the standard places, those the configuration adds, and the embedding program's own. */
export async function discover(options: DiscoverOptions = {}): Promise<Discovered> {
  const around = surroundings(options);
  const { settings, current } = await openSettings(around, options);
  const configuration = current();
  const places = locations(around);
  const indexFolder = options.index === false ? undefined : indexFolderOf(around);
  const searchStore = options.index === false ? undefined : searchStoreFor(around);
  const installs = openInstalls(around.skilletHome);
  const locks = openLocks(around.skilletHome);
  const own = places.filter(({ sameAs }) => sameAs === undefined);
  const shared = {
    leavesOut: () =>
      installs.copies([...places, ...settings.sources, ...(options.sources ?? [])].flatMap(({ path }) => path ?? [])),
    ...(indexFolder === undefined ? {} : { indexFolder }),
  };
  const standard = own.map((place) => directorySource({ ...place, ...shared }));
  const open = async (): Promise<Catalog> => {
    const extra = settings.sources.map((source) => directorySource({ ...source, scope: "user", ...shared }));
    const remote = await remoteSourcesFor(settings, around, options);
    const catalog = await openCatalog([...standard, ...extra, ...remote, ...(options.sources ?? [])]);
    if (searchStore) attachSearchStore(catalog.skills, searchStore);
    return { ...catalog, reload: open };
  };
  const locked = [...own.filter(({ scope }) => scope !== "bundled"), ...configuration.settings.sources];
  return {
    catalog: await open(),
    settings,
    workspace: around.workspace,
    home: around.skilletHome,
    env: around.env,
    trust: openTrust(around.skilletHome, places, locks),
    grants: openGrants(around.skilletHome, locks),
    approvals: openApprovals(around.skilletHome),
    installs,
    runs: openRuns(
      around.skilletHome,
      viewOf(() => settings.runs, ["days", "most"]),
    ),
    statistics: openStatistics(around.skilletHome),
    system: openSystem(viewOf(() => settings.sandbox, ["engine", "level", "program"])),
    ...(options.caller ? { caller: options.caller } : {}),
    configuration: {
      ...configuration,
      diagnostics: [...configuration.diagnostics, ...unreadable(installs), ...unusable(locks, locked)],
    },
    currentConfiguration: current,
    around,
    locations: places,
  };
}

/** Only a configuration with servers whose skills are used loads what reaches them. */
async function remoteSourcesFor(
  settings: Pick<Settings, "mcp">,
  around: Surroundings,
  { remote, follow }: DiscoverOptions,
): Promise<Source[]> {
  if (![...settings.mcp.values()].some(({ skills }) => skills) && remote !== "now") return [];
  const { remoteSources } = await import("./remote-skills.ts");
  return remoteSources({ settings, around, refresh: remote ?? (follow === false ? "soon" : "background") });
}

async function openSettings(around: Surroundings, options: DiscoverOptions): Promise<LiveSettings> {
  if (options.settings) {
    const loaded = { ...NO_FILES, settings: options.settings };
    return { settings: options.settings, current: () => loaded };
  }
  if (options.follow !== false) return (await import("./live-settings.ts")).followSettings(around); // Only long-running programs need it.
  const loaded = await loadSettings(around);
  return { settings: loaded.settings, current: () => loaded };
}

const NO_FILES: Omit<LoadedSettings, "settings"> = {
  diagnostics: [],
  files: [],
  isBroken: false,
  entries: [],
  overruled: [],
};

export function surroundings(options: DiscoverOptions): Surroundings {
  const { env = process.env, home = userHome(env) } = options;
  const workspace = resolve(options.workspace ?? (env["AGENT_WORKSPACE_ROOT"] || "."));
  const { shippedSkills } = options;
  return { workspace, home, skilletHome: resolve(skilletHome(env, home)), env, ...defined({ shippedSkills }) };
}

function unreadable(installs: Installs): Diagnostic[] {
  const problem = installs.problem();
  if (problem === undefined) return [];
  return diagnose([{ code: "installs-unreadable", message: problem }], installs.file);
}

function unusable(locks: Locks, places: readonly { path: string }[]): Diagnostic[] {
  return places.flatMap(({ path }) => {
    const problem = locks.problemIn(path);
    if (!problem) return [];
    const message = `cannot be used, so no skill beside it is: ${reason(problem.cause)}`;
    return diagnose([{ code: "lock-unreadable", message, ...defined({ fix: problem.fix }) }], join(path, LOCK_FILE));
  });
}

function indexFolderOf(around: Surroundings): string {
  return join(around.skilletHome, "cache", "scan");
}

/** An index for each workspace: another one has other skills. */
function searchStoreFor({ skilletHome: home, workspace }: Surroundings): SearchStore {
  return openSearchFile(join(home, "cache", "search"), JSON.stringify([packageVersion(), workspace]));
}

/** What is configured for a skill that is not there, and variables for one that does not declare them. */
export function undeclaredSettings({ configuration, catalog }: Discovered): Diagnostic[] {
  const ofSkills = configuration.entries.filter(({ parts }) => parts[0] === "skills" && parts[1] !== "defaults");
  const bySkill = Map.groupBy(ofSkills, ({ parts }) => parts[1] ?? "");
  const diagnostics: Diagnostic[] = [];
  for (const [name, entries] of bySkill) {
    if (diagnostics.length >= MOST_FINDINGS) break;
    const skill = catalog.find(name);
    diagnostics.push(
      ...(skill
        ? undeclaredVariables(skill, entries)
        : entries.slice(0, 1).flatMap((entry) => unknownSkill(entry, catalog))),
    );
  }
  return diagnostics;
}

const MOST_FINDINGS = 100;

function undeclaredVariables(skill: Skill, entries: readonly Entry[]): Diagnostic[] {
  const declared = declaredVariables(skill);
  return entries.flatMap(({ parts: [, name = "", key = ""], row, file, line }) => {
    if (!row.isSecret || declared.includes(key)) return [];
    const message = `[skills.${name}] sets ${key}, which the skill does not declare; it is not given to it`;
    return diagnose([{ code: "config-undeclared", message, line }], file);
  });
}

function unknownSkill({ parts: [, name = ""], file, line }: Entry, catalog: Catalog): Diagnostic[] {
  const meant = nearest(name, catalog.names());
  const fix = meant === undefined ? {} : { fix: `did you mean ${meant}?`, meant };
  const message = `[skills.${oneLine(name, 64)}] is about a skill that is not here`;
  return diagnose([{ code: "config-skill", message, line, ...fix }], file);
}
