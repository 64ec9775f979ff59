import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Host } from "../host/host.ts";
import { systemProgram } from "../host/programs.ts";
import { type Notice, type Sandbox, seenPath } from "../host/sandbox.ts";
import { uvCommand } from "../sandbox/uv.ts";
import { SkillError } from "../shared/error.ts";
import type { Hiding, Secrets } from "../shared/redact.ts";
import { interpreterOf, SKILL_FOLDER, type SkillScript, STAND_INS } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import type { SkillCopy } from "../source/digest.ts";
import { type Enclosure, type EnclosureRequest, openEnclosure } from "./enclosure.ts";
import { giveCommand } from "./proposed-packages.ts";
import { declaringScripts, hasUv } from "./python.ts";
import { outsideArguments, translateArguments } from "./script-arguments.ts";

export interface Preparation {
  /** The variables that it declares, with their values. */
  secrets: Secrets;
  hiding: Hiding;
  skill: Skill;
  script: SkillScript;
  copy: SkillCopy;
  args: readonly string[];
  onProgress(text: string): void;
  signal: AbortSignal;
  broker?: EnclosureRequest["broker"];
  waited?: EnclosureRequest["waited"];
  review?: EnclosureRequest["review"];
  /** It may write to the workspace. */
  writes?: boolean | undefined;
}

export interface PreparedScript {
  enclosure: Enclosure;
  argv: [string, ...string[]];
  /** Arguments that name files which it cannot see, and why. */
  warnings: readonly Notice[];
}

/** Everything that a script gets. Throws a SkillError when something of it cannot be had. */
export async function prepareScript(host: Host, given: Preparation): Promise<PreparedScript> {
  const { skill, script, copy } = given;
  const enclosure = await openEnclosure(host, { ...given, kind: "script" });
  const { sandbox, root, mounts } = enclosure;
  const path = seenPath(sandbox, mounts, `${SKILL_FOLDER}/${script.path}`);
  const bytes = copy.files.get(script.path)?.bytes ?? new Uint8Array();
  const isDeclaring = declaringScripts(skill, copy).some((one) => one.script.path === script.path);
  const declaring = hasUv(host) ? uvCommand(path) : ["python3", path];
  const argv = isDeclaring ? declaring : commandFor(path, bytes, { skill, host, script, sandbox, root });
  const outside = outsideArguments(given.args, host, { ...enclosure, skill });
  const { notices, problems } = enclosure;
  // Why there is no workspace is worth a warning only where it is missed, and says all of the paths in it.
  const unseen = notices.length > 0 && (outside.length > 0 || given.writes) ? notices : outside;
  return {
    enclosure,
    argv: [...argv, ...translateArguments(given.args, host, enclosure)] as [string, ...string[]],
    warnings: [...unseen, ...problems],
  };
}

interface Runner {
  skill: Skill;
  host: Host;
  script: SkillScript;
  sandbox: Sandbox;
  root: string | undefined;
}

function commandFor(path: string, bytes: Uint8Array, { skill, host, script, sandbox, root }: Runner): string[] {
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
      fix: `add the package with ${program}: ${giveCommand(skill, host, "packages", [STAND_INS.get(program) ?? program])}`,
    });
  }
  return [name === "node" && !sandbox.mapsPaths ? process.execPath : name, ...args, path];
}

function isThere(program: string, { system }: Sandbox, root: string | undefined): boolean {
  if (program === "node" || system === "own") return true; // What is in an image, only the image knows.
  if (root === undefined) return systemProgram(program) !== undefined;
  return ["usr/bin", "usr/local/bin", "usr/sbin", "bin"].some((folder) => existsSync(join(root, folder, program)));
}
