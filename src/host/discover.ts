import { join, resolve } from "node:path";
import { type Catalog, openCatalog } from "../catalog/catalog.ts";
import { type Diagnostic, diagnose } from "../skill/diagnostic.ts";
import { directorySource } from "../source/directory.ts";
import { type Location, locations, type Surroundings } from "../source/locations.ts";
import type { Source } from "../source/source.ts";
import { skilletHome, userHome } from "./home.ts";
import { type LoadedSettings, loadSettings, type Settings } from "./settings.ts";
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
}

export interface Discovered {
  catalog: Catalog;
  settings: Settings;
  workspace: string;
  home: string;
  env: Surroundings["env"];
  trust: Trust;
  system: System;
  /** What is wrong with the configuration files. */
  configuration: LoadedSettings;
  around: Surroundings;
  locations: readonly Location[];
}

/** Finds every skill in the standard places, those the configuration adds, and the embedding program's own. */
export async function discover(options: DiscoverOptions = {}): Promise<Discovered> {
  const around = surroundings(options);
  const configuration = await loadSettings(around);
  const places = locations(around);
  const indexFolder = options.index === false ? undefined : indexFolderOf(around);
  const shared = indexFolder === undefined ? {} : { indexFolder };
  const sources = [
    ...places.filter((place) => place.sameAs === undefined).map((place) => directorySource({ ...place, ...shared })),
    ...configuration.settings.sources.map((source) => directorySource({ ...source, scope: "user", ...shared })),
    ...(options.sources ?? []),
  ];
  return {
    catalog: await openCatalog(sources),
    settings: configuration.settings,
    workspace: around.workspace,
    home: around.skilletHome,
    env: around.env,
    trust: openTrust(around.skilletHome, places),
    system: openSystem(configuration.settings.sandbox),
    configuration,
    around,
    locations: places,
  };
}

export function surroundings(options: DiscoverOptions): Surroundings {
  const { env = process.env, home = userHome(env) } = options;
  const workspace = resolve(options.workspace ?? (env["AGENT_WORKSPACE_ROOT"] || "."));
  return { workspace, home, skilletHome: resolve(skilletHome(env, home)), env };
}

function indexFolderOf(around: Surroundings): string {
  return join(around.skilletHome, "cache", "scan");
}

/** Variables that are set for a skill which does not declare them. */
export function undeclaredVariables(found: Discovered): Diagnostic[] {
  const file = found.configuration.files[0]?.path ?? "config.toml";
  return [...found.settings.skills].flatMap(([name, { variables }]) => {
    const skill = found.catalog.find(name);
    const undeclared = skill ? [...variables.keys()].filter((key) => !skill.manifest.env.includes(key)) : [];
    const findings = undeclared.map((key) => ({
      code: "config-undeclared" as const,
      message: `[skills.${name}] sets ${key}, which the skill does not declare; it is not given to it`,
    }));
    return diagnose(findings, file);
  });
}
