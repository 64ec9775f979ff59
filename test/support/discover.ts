import { chmodSync } from "node:fs";
import { join } from "node:path";
import { type DiscoverResult, discover } from "../../src/config/discover.ts";
import type { Skill } from "../../src/skill/skill.ts";
import type { RunStore } from "../../src/store/runs.ts";
import { needsSecretGrant } from "../../src/store/trust.ts";
import { temporaryFolder, writeFiles } from "./folder.ts";

export interface Scene extends DiscoverResult {
  root: string;
  skill(name: string): Skill;
  /** Discovers the same folders again. */
  again(): Promise<Scene>;
}

interface DiscoverSceneOptions {
  areGiven?: boolean;
  /** Opens the runs of the scene, each time as another process would. Defaults to those in the user's home. */
  openRuns?: (() => RunStore) | undefined;
}

/** Discovers in a new workspace with these files; those below `home/` are in the user's home. */
export async function discoverIn(
  files: Record<string, string | Uint8Array>,
  env: Record<string, string> = {},
  { areGiven = true, openRuns }: DiscoverSceneOptions = {},
): Promise<Scene> {
  const root = temporaryFolder();
  for (const [path, content] of Object.entries(files)) {
    writeFiles(root, { [path.startsWith("home/") ? path : `project/${path}`]: content });
    if (path === "home/.skillet/config.toml") chmodSync(join(root, path), 0o600);
  }
  const scene = await look(root, env, openRuns);
  if (areGiven && !("home/.skillet/grants.json" in files)) grantValues(scene);
  return scene;
}

/** Binds configured values to their skills, as `skillet config set` does if there is one copy. */
export function grantValues({ settings, catalog, grants }: DiscoverResult): void {
  for (const name of settings.skills.keys()) {
    const [skill, ...others] = catalog.copies(name).filter(needsSecretGrant);
    if (skill && others.length === 0 && !grants.getOwner(name)) grants.grant(skill);
  }
}

async function look(root: string, env: Record<string, string>, openRuns?: () => RunStore): Promise<Scene> {
  const found = await discover({
    workspace: join(root, "project"),
    env: { HOME: join(root, "home"), ...env },
    index: false,
  });
  const runs = openRuns?.() ?? found.runs;
  return { ...found, runs, root, skill: (name) => found.catalog.get(name), again: () => look(root, env, openRuns) };
}
