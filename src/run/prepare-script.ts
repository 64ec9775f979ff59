import { existsSync } from "node:fs";
import { join } from "node:path";
import { skilletHome, userHome } from "../host/home.ts";
import type { Host } from "../host/host.ts";
import { systemProgram } from "../host/programs.ts";
import { type Command, type Mount, type Sandbox, seenPath } from "../host/sandbox.ts";
import type { SandboxSettings } from "../host/sandbox-settings.ts";
import { openSandbox } from "../sandbox/open.ts";
import { defaultPlaces, type Places } from "../sandbox/packages/place.ts";
import { storeFolder } from "../sandbox/places.ts";
import { storeSkill } from "../sandbox/store.ts";
import { SkillError } from "../shared/error.ts";
import type { Secrets } from "../shared/redact.ts";
import { interpreterOf, SKILL_FOLDER, type SkillScript, STAND_INS } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import type { SkillCopy } from "../source/digest.ts";
import { endpointsIn } from "./endpoints.ts";
import { pythonCommand } from "./python.ts";
import { type OpenWorkspace, openWorkspace } from "./workspace.ts";

export interface Preparation {
  /** The variables that it declares, with their values. */
  secrets: Secrets;
  skill: Skill;
  script: SkillScript;
  copy: SkillCopy;
  args: readonly string[];
  onProgress(text: string): void;
  signal: AbortSignal;
}

export interface PreparedScript {
  command: Omit<Command, "limits" | "stdin">;
  sandbox: Sandbox;
  workspace: OpenWorkspace;
}

/** Everything that a script gets. Throws a SkillError when something of it cannot be had. */
export async function prepareScript(host: Host, given: Preparation): Promise<PreparedScript> {
  const { skill, script, copy, secrets } = given;
  const home = homeOf(host);
  const { settings } = host;
  const network = endpointsIn([...settings.sandbox.network, ...(settings.skills.get(skill.name)?.network ?? [])]);
  const sandbox = await sandboxOf(host);
  if (sandbox.level === "none" && (skill.manifest.sensitive || skill.manifest.capabilities.length > 0)) {
    throw new SkillError("isolation-too-weak", {
      message: `Skill '${skill.name}' is sensitive or has capabilities, and nothing keeps its code apart here`,
      fix: 'remove [sandbox] level = "none" from config.toml',
    });
  }
  const root = await rootFor(skill, host, { ...given, sandbox });
  const mount: Mount = { from: storeSkill(copy, storeFolder(home)), to: SKILL_FOLDER, access: "read" };
  const python = await pythonCommand(host, script, copy, { ...given, sandbox, mount, folder: pythonFolder(host) });
  const workspace = openWorkspace(skill, host, home);
  const mounts = [mount, ...workspace.mounts, ...(python?.mounts ?? [])];
  const path = seenPath(sandbox, mounts, `${SKILL_FOLDER}/${script.path}`);
  const bytes = copy.files.get(script.path)?.bytes ?? new Uint8Array();
  const argv = python?.argv ?? commandFor(path, bytes, { skill, script, sandbox, root });
  return {
    sandbox,
    workspace,
    command: {
      argv: [...argv, ...given.args] as [string, ...string[]],
      env: { ...Object.fromEntries(secrets), ...python?.env, SKILL_DIR: seenPath(sandbox, mounts, SKILL_FOLDER) },
      folder: SKILL_FOLDER,
      mounts,
      network,
      ...(root === undefined ? {} : { root }),
      ...(workspace.user === undefined ? {} : { user: workspace.user }),
    },
  };
}

/** What is fetched for Python scripts is kept beside the system packages. */
export function pythonFolder(host: Host): string {
  return placesOf(host).own;
}

function placesOf(host: Host): Places {
  return defaultPlaces({ skilletHome: homeOf(host), env: host.env ?? {} });
}

export function homeOf({ home, env }: Host): string {
  return home ?? skilletHome(env ?? process.env);
}

/** The sandbox that the host gives, or the one that its settings choose. */
export async function sandboxOf(host: Host): Promise<Sandbox> {
  if (host.sandbox) return host.sandbox;
  const settings = host.settings.sandbox;
  const where = { home: homeOf(host), userHome: userHome(host.env ?? process.env) };
  const key = JSON.stringify(where);
  const opened = OPENED.get(settings) ?? new Map<string, Sandbox>();
  const sandbox = opened.get(key) ?? (await openSandbox({ settings, ...where }));
  OPENED.set(settings, opened.set(key, sandbox));
  return sandbox;
}

/** Opened once for settings and a home: what it found out of the machine is kept. */
const OPENED = new WeakMap<SandboxSettings, Map<string, Sandbox>>();

/** The system with the packages that the skill declares: found, or built now, before anything runs. */
async function rootFor(
  { name, manifest: { packages } }: Skill,
  host: Host,
  { onProgress, signal, sandbox }: Preparation & { sandbox: Sandbox },
): Promise<string | undefined> {
  if (packages.length === 0 || sandbox.system === "own") return undefined; // An image has them, or it has not.
  if (sandbox.by !== "bubblewrap") {
    throw new SkillError("packages-missing", {
      message: `Skill '${name}' needs system packages (${packages.join(", ")}), which are brought only into a sandbox of bubblewrap`,
      fix: "remove level and engine under [sandbox] in config.toml, or install the packages and take them out of the skill",
    });
  }
  const { buildPackages, findRoot } = await import("../sandbox/packages/packages.ts");
  const places = placesOf(host);
  let found = findRoot(packages, places);
  if (found.kind === "missing") {
    await buildPackages(packages, places, { onProgress, signal });
    found = findRoot(packages, places);
  }
  if (found.kind !== "missing") return found.kind === "layer" ? found.root : undefined;
  throw new SkillError("packages-missing", {
    message: `The packages ${packages.join(", ")} are not there`,
    fix: found.fix,
  });
}

interface Runner {
  skill: Skill;
  script: SkillScript;
  sandbox: Sandbox;
  root: string | undefined;
}

function commandFor(path: string, bytes: Uint8Array, { skill, script, sandbox, root }: Runner): string[] {
  const interpreter = interpreterOf(script.path, bytes);
  if (!interpreter) {
    throw new SkillError("script-interpreter", {
      message: `Nothing says how to run "${script.path}" of skill '${skill.name}'`,
      fix: "start it with a line such as #!/bin/sh, or give it an ending: .sh, .py, .js, .ts, .rb, .pl",
    });
  }
  const { program, args } = interpreter;
  if (program === undefined) return [path];
  const names = [program, STAND_INS.get(program) ?? program];
  const name = names.find((candidate) => isThere(candidate, sandbox, root));
  if (name === undefined) {
    throw new SkillError("script-interpreter", {
      message: `"${script.path}" of skill '${skill.name}' is for ${program}, which is not in its sandbox`,
      fix: `add the package with ${program} to \`packages\` in the skill, or install it on this machine`,
    });
  }
  return [name === "node" && !sandbox.mapsPaths ? process.execPath : name, ...args, path];
}

function isThere(program: string, { system }: Sandbox, root: string | undefined): boolean {
  if (program === "node" || system === "own") return true; // What is in an image, only the image knows.
  if (root === undefined) return systemProgram(program) !== undefined;
  return ["usr/bin", "usr/local/bin", "usr/sbin", "bin"].some((folder) => existsSync(join(root, folder, program)));
}
