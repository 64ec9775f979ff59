import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Host } from "../host/host.ts";
import { systemProgram } from "../host/programs.ts";
import { type Command, type Mount, type Sandbox, seenPath } from "../host/sandbox.ts";
import { readEndpoint } from "../sandbox/endpoint.ts";
import { openSandbox } from "../sandbox/open.ts";
import { storeFolder } from "../sandbox/places.ts";
import { storeSkill } from "../sandbox/store.ts";
import { SkillError } from "../shared/error.ts";
import type { Secrets } from "../shared/redact.ts";
import { interpreterOf, SKILL_FOLDER, type SkillScript, STAND_INS } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import type { SkillCopy } from "../source/digest.ts";
import type { Surroundings } from "../source/locations.ts";
import { variablesOf } from "./variables.ts";
import { workspaceMounts } from "./workspace.ts";

export interface Preparation {
  skill: Skill;
  script: SkillScript;
  copy: SkillCopy;
  args: readonly string[];
  onProgress(text: string): void;
  signal: AbortSignal;
}

export interface PreparedScript extends Pick<Command, "argv" | "env" | "folder" | "mounts" | "network" | "root"> {
  sandbox: Sandbox;
  secrets: Secrets;
}

/** Everything that a script gets. Throws a SkillError when something of it cannot be had. */
export async function prepareScript(host: Host, given: Preparation): Promise<PreparedScript> {
  const { skill, script, copy } = given;
  const home = host.home ?? join(homedir(), ".skillet");
  const secrets = variablesOf(skill, host);
  const network = endpointsOf(skill, host);
  const sandbox = host.sandbox ?? (await openSandbox({ settings: host.settings.sandbox, home }));
  const root = await rootFor(skill, { skilletHome: home, env: host.env ?? {} }, given);
  const mounts: Mount[] = [
    { from: storeSkill(copy, storeFolder(home)), to: SKILL_FOLDER, access: "read" },
    ...workspaceMounts(skill, host, home),
  ];
  const path = seenPath(sandbox, mounts, `${SKILL_FOLDER}/${script.path}`);
  const argv = commandFor(path, copy.files.get(script.path)?.bytes ?? new Uint8Array(), {
    skill,
    script,
    sandbox,
    root,
  });
  return {
    sandbox,
    secrets,
    network,
    mounts,
    ...(root === undefined ? {} : { root }),
    argv: [...argv, ...given.args] as [string, ...string[]],
    env: { ...Object.fromEntries(secrets), SKILL_DIR: seenPath(sandbox, mounts, SKILL_FOLDER) },
    folder: SKILL_FOLDER,
  };
}

/** The operator's list for all skills, and for this one. */
function endpointsOf(skill: Skill, { settings }: Host): Command["network"] {
  const said = [...settings.sandbox.network, ...(settings.skills.get(skill.name)?.network ?? [])];
  return said.map((text) => {
    const endpoint = readEndpoint(text);
    if (endpoint) return endpoint;
    throw new SkillError("network-endpoint", {
      message: `"${text}" in the configuration's network is no host with a port`,
      fix: 'name one host and one port each, as "api.example.com:443"',
    });
  });
}

/** The system with the packages that the skill declares: found, or built now, before anything runs. */
async function rootFor(
  { manifest: { packages } }: Skill,
  around: Pick<Surroundings, "skilletHome" | "env">,
  { onProgress, signal }: Preparation,
): Promise<string | undefined> {
  if (packages.length === 0) return undefined;
  const { buildPackages, defaultPlaces, findRoot } = await import("../sandbox/packages/packages.ts");
  const places = defaultPlaces(around);
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

function isThere(program: string, { by }: Sandbox, root: string | undefined): boolean {
  if (program === "node" || by === "docker" || by === "podman") return true; // What is in an image, only the image knows.
  if (root === undefined) return systemProgram(program) !== undefined;
  return ["usr/bin", "usr/local/bin", "usr/sbin", "bin"].some((folder) => existsSync(join(root, folder, program)));
}
