import { join, resolve } from "node:path";
import { attachSearchStore, type Catalog, loadCatalog, type SearchStore } from "../catalog/catalog.ts";
import { getErrorMessage } from "../errors/problem.ts";
import type { Caller } from "../host/approval.ts";
import { type Diagnostic, diagnose, listDeclaredVariables, type Skill, type Source } from "../skill/skill.ts";
import { createDirectorySource } from "../skill/source/directory-source.ts";
import { type Environment, type Location, listLocations } from "../skill/source/locations.ts";
import type { ApprovalStore } from "../store/approvals.ts";
import { type ClientCopyStore, createClientCopyStore } from "../store/copy-records.ts";
import { createSearchFileStore } from "../store/json-store.ts";
import { createSkillLocks, type SkillLocks } from "../store/lock-diff.ts";
import { LOCK_FILE } from "../store/lock-file.ts";
import type { RunStore } from "../store/runs.ts";
import type { SpendingStore } from "../store/spending.ts";
import type { StatisticsStore } from "../store/statistics.ts";
import { createSecretGrants, createTrustStore, type SecretGrants, type TrustStore } from "../store/trust.ts";
import { omitUndefined } from "../util/objects.ts";
import { getSkilletHome, getUserHome, packageVersion } from "../util/system.ts";
import { findNearest, truncateLine } from "../util/text.ts";
import type { ConfigEntry } from "./config-file.ts";
import { createSystemInfo, type SystemInfo } from "./host.ts";
import type { LiveSettings } from "./live-settings.ts";
import type { RemoteRefresh } from "./remote-skills.ts";
import { createLiveView, type LoadedSettings, loadSettings, type Settings } from "./settings.ts";

export interface DiscoverOptions {
  /** Defaults to `AGENT_WORKSPACE_ROOT`, otherwise to the working directory. */
  workspace?: string;
  home?: string;
  env?: Readonly<Record<string, string | undefined>>;
  /** Sources of the embedding program: integrations, skills in code. */
  sources?: readonly Source[];
  /** Keeps an index under `~/.skillet/cache`, so that the next start reads only changed files. Defaults to true. */
  index?: boolean;
  /**
   * The folder of skills with scope `bundled`. Defaults to that of this package, or to none if a bundler included skillet in another
   * program.
   */
  shippedSkills?: string;
  /** The caller on whose behalf skills are used. Defaults to none. */
  caller?: Caller;
  /** Settings from `createSettings`, instead of the configuration files. No file is read then. */
  settings?: Settings;
  /** Watches the configuration files: a change takes effect within a second, also in running sessions and runs. Defaults to true. */
  follow?: boolean;
  /** The time when skills of MCP servers are listed again. Defaults to `background` if `follow` is true, otherwise to `soon`. */
  remote?: RemoteRefresh;
}

export interface DiscoverResult {
  catalog: Catalog;
  settings: Settings;
  workspace: string;
  home: string;
  env: Environment["env"];
  trust: TrustStore;
  grants: SecretGrants;
  approvals: ApprovalStore;
  installs: ClientCopyStore;
  runs: RunStore;
  spending: SpendingStore;
  statistics: StatisticsStore;
  system: SystemInfo;
  caller?: Caller;
  /** The trace context in the environment, if there is one. */
  traceParent?: string;
  /** The configuration as it was found, with the diagnostics of its files. */
  configuration: LoadedSettings;
  /** Returns the configuration in effect. The same object until it, or a diagnostic of its files, changes. */
  currentConfiguration(): LoadedSettings;
  around: Environment;
  locations: readonly Location[];
}

/** Finds all skills in the standard folders, in configured folders, and from the embedding program. */
export async function discover(options: DiscoverOptions = {}): Promise<DiscoverResult> {
  const environment = resolveEnvironment(options);
  const { settings, current } = await loadLiveSettings(environment, options);
  const configuration = current();
  const locations = listLocations(environment);
  const indexFolder = options.index === false ? undefined : getIndexFolder(environment);
  const searchStore = options.index === false ? undefined : createWorkspaceSearchStore(environment);
  const installs = createClientCopyStore(environment.skilletHome);
  const locks = createSkillLocks(environment.skilletHome);
  const own = locations.filter(({ sameAs }) => sameAs === undefined);
  const shared = {
    leavesOut: () =>
      installs.createCopyFilter(
        [...locations, ...settings.sources, ...(options.sources ?? [])].flatMap(({ path }) => path ?? []),
      ),
    ...(indexFolder === undefined ? {} : { indexFolder }),
  };
  const standard = own.map((location) => createDirectorySource({ ...location, ...shared }));
  const open = async (): Promise<Catalog> => {
    const extra = settings.sources.map((source) => createDirectorySource({ ...source, scope: "user", ...shared }));
    const remote = await loadRemoteSources(settings, environment, options);
    const catalog = await loadCatalog([...standard, ...extra, ...remote, ...(options.sources ?? [])]);
    if (searchStore) attachSearchStore(catalog.skills, searchStore);
    return { ...catalog, reload: open };
  };
  const locked = [...own.filter(({ scope }) => scope !== "bundled"), ...configuration.settings.sources];
  return {
    catalog: await open(),
    settings,
    workspace: environment.workspace,
    home: environment.skilletHome,
    env: environment.env,
    trust: createTrustStore(environment.skilletHome, locations, locks),
    grants: createSecretGrants(environment.skilletHome, locks),
    approvals: openOnCall(async () =>
      (await import("../store/approvals.ts")).createApprovalStore(environment.skilletHome),
    ),
    installs,
    runs: openOnCall(async () => {
      const retention = createLiveView(() => settings.runs, ["days", "most"]);
      return (await import("../store/runs.ts")).createRunStore(environment.skilletHome, retention);
    }),
    statistics: openOnCall(async () =>
      (await import("../store/statistics.ts")).createStatisticsStore(environment.skilletHome),
    ),
    spending: openOnCall(async () =>
      (await import("../store/spending.ts")).createSpendingStore(environment.skilletHome),
    ),
    system: createSystemInfo(createLiveView(() => settings.sandbox, ["engine", "level", "program"])),
    ...(options.caller ? { caller: options.caller } : {}),
    ...(environment.env["TRACEPARENT"] ? { traceParent: environment.env["TRACEPARENT"] } : {}),
    configuration: {
      ...configuration,
      diagnostics: [...configuration.diagnostics, ...diagnoseClientCopies(installs), ...diagnoseLocks(locks, locked)],
    },
    currentConfiguration: current,
    around: environment,
    locations,
  };
}

type StoreMethods = Record<string, (...args: unknown[]) => Promise<unknown>>;

/** Returns a store that is opened by the first call: most commands need none. Contract: all its members are asynchronous methods. */
export function openOnCall<Store extends object>(open: () => Promise<Store>): Store {
  const methods: StoreMethods = {};
  let opening: Promise<StoreMethods> | undefined;
  const createMethod =
    (name: string) =>
    async (...args: unknown[]) => {
      opening ??= open() as Promise<unknown> as Promise<StoreMethods>;
      return (await opening)[name]?.(...args);
    };
  return new Proxy(methods, {
    get(known, name) {
      if (typeof name === "symbol" || name === "then") return undefined;
      known[name] ??= createMethod(name);
      return known[name];
    },
  }) as unknown as Store;
}

/** Loads the code for MCP servers only if the configuration uses skills of a server. */
async function loadRemoteSources(
  settings: Pick<Settings, "mcp">,
  environment: Environment,
  { remote, follow }: DiscoverOptions,
): Promise<Source[]> {
  if (![...settings.mcp.values()].some(({ skills }) => skills) && remote !== "now") return [];
  const { createRemoteSources } = await import("./remote-skills.ts");
  return createRemoteSources({ settings, environment, refresh: remote ?? (follow === false ? "soon" : "background") });
}

async function loadLiveSettings(environment: Environment, options: DiscoverOptions): Promise<LiveSettings> {
  if (options.settings) {
    const loaded = { ...NO_FILES, settings: options.settings };
    return { settings: options.settings, current: () => loaded };
  }
  if (options.follow !== false) return (await import("./live-settings.ts")).followSettings(environment); // Only long-running programs need it.
  const loaded = await loadSettings(environment);
  return { settings: loaded.settings, current: () => loaded };
}

const NO_FILES: Omit<LoadedSettings, "settings"> = {
  diagnostics: [],
  files: [],
  isBroken: false,
  entries: [],
  overruled: [],
};

export function resolveEnvironment(options: DiscoverOptions): Environment {
  const { env = process.env, home = getUserHome(env) } = options;
  const workspace = resolve(options.workspace ?? (env["AGENT_WORKSPACE_ROOT"] || "."));
  const { shippedSkills } = options;
  return { workspace, home, skilletHome: resolve(getSkilletHome(env, home)), env, ...omitUndefined({ shippedSkills }) };
}

function diagnoseClientCopies(installs: ClientCopyStore): Diagnostic[] {
  const problem = installs.problem();
  if (problem === undefined) return [];
  return diagnose([{ code: "exports-unreadable", message: problem }], installs.file);
}

function diagnoseLocks(locks: SkillLocks, places: readonly { path: string }[]): Diagnostic[] {
  return places.flatMap(({ path }) => {
    const problem = locks.getProblem(path);
    if (!problem) return [];
    const message = `cannot be used, so no skill next to it is used: ${getErrorMessage(problem.cause)}`;
    return diagnose(
      [{ code: "lock-unreadable", message, ...omitUndefined({ fix: problem.fix }) }],
      join(path, LOCK_FILE),
    );
  });
}

function getIndexFolder(environment: Environment): string {
  return join(environment.skilletHome, "cache", "scan");
}

/** Creates the search index of a workspace: each one has different skills. */
function createWorkspaceSearchStore({ skilletHome: home, workspace }: Environment): SearchStore {
  return createSearchFileStore(join(home, "cache", "search"), JSON.stringify([packageVersion(), workspace]));
}

/** Finds configuration for missing skills, and variables that a skill does not declare. */
export function findUndeclaredSettings({ configuration, catalog }: DiscoverResult): Diagnostic[] {
  const ofSkills = configuration.entries.filter(({ parts }) => parts[0] === "skills" && parts[1] !== "defaults");
  const bySkill = Map.groupBy(ofSkills, ({ parts }) => parts[1] ?? "");
  const diagnostics: Diagnostic[] = [];
  for (const [name, entries] of bySkill) {
    if (diagnostics.length >= MAX_DIAGNOSTICS) break;
    const skill = catalog.find(name);
    diagnostics.push(
      ...(skill
        ? diagnoseUndeclaredVariables(skill, entries)
        : entries.slice(0, 1).flatMap((entry) => diagnoseUnknownSkill(entry, catalog))),
    );
  }
  return diagnostics;
}

const MAX_DIAGNOSTICS = 100;

function diagnoseUndeclaredVariables(skill: Skill, entries: readonly ConfigEntry[]): Diagnostic[] {
  const declared = listDeclaredVariables(skill);
  return entries.flatMap(({ parts: [, name = "", key = ""], row, file, line }) => {
    if (!row.isSecret || declared.includes(key)) return [];
    const message = `[skills.${name}] sets ${key}, which the skill does not declare; the skill does not get it`;
    return diagnose([{ code: "config-undeclared", message, line }], file);
  });
}

function diagnoseUnknownSkill({ parts: [, name = ""], file, line }: ConfigEntry, catalog: Catalog): Diagnostic[] {
  const meant = findNearest(name, catalog.names());
  const fix = meant === undefined ? {} : { fix: `did you mean ${meant}?`, meant };
  const message = `[skills.${truncateLine(name, 64)}] names a skill that is not found`;
  return diagnose([{ code: "config-skill", message, line, ...fix }], file);
}
