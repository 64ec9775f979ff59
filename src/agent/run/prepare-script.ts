import { existsSync } from "node:fs";
import { isAbsolute, join, normalize, resolve } from "node:path";
import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import { HOME_FOLDER, type Sandbox, WORKSPACE_FOLDER } from "../../host/sandbox-contract.ts";
import { mapSandboxPath } from "../../sandbox/sandbox-folders.ts";
import { createUvCommand } from "../../sandbox/uv.ts";
import type { Skill } from "../../skill/skill.ts";
import {
  detectInterpreter,
  FALLBACK_PROGRAMS,
  SANDBOX_SKILL_FOLDER,
  type SkillScript,
} from "../../skill/skill-code.ts";
import type { SkillCopy } from "../../skill/source/skill-copy.ts";
import type { Redactor, Secrets } from "../../util/redact.ts";
import { isInside, resolveRealPath } from "../../util/safe-path.ts";
import { findSystemProgram, getUserHome } from "../../util/system.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { formatSkillKey } from "../policy/trust-policy.ts";
import { formatPackagesCommand } from "../workspace/package-hints.ts";
import { openRunSandbox, type RunSandbox, type RunSandboxOptions } from "../workspace/run-sandbox.ts";
import { findDeclaringScripts, hasUv } from "../workspace/skill-libraries.ts";

interface PrepareScriptOptions {
  /** The values of the variables that the skill declares. */
  secrets: Secrets;
  redactor: Redactor;
  skill: Skill;
  script: SkillScript;
  copy: SkillCopy;
  args: readonly string[];
  onProgress(text: string): void;
  signal: AbortSignal;
  broker?: RunSandboxOptions["broker"];
  waited?: RunSandboxOptions["waited"];
  review?: RunSandboxOptions["review"];
  /** The script may write to the workspace. */
  writes?: boolean | undefined;
}

interface PreparedScript {
  sandbox: RunSandbox;
  argv: [string, ...string[]];
  /** Arguments that name files the script cannot see, and why. */
  warnings: readonly Problem[];
}

/** Prepares everything that a script needs. Throws a SkillError if a part is unavailable. */
export async function prepareScript(host: Host, given: PrepareScriptOptions): Promise<PreparedScript> {
  const { skill, script, copy } = given;
  const enclosure = await openRunSandbox(host, { ...given, kind: "script" });
  const { sandbox, root, mounts } = enclosure;
  const path = mapSandboxPath(sandbox, mounts, `${SANDBOX_SKILL_FOLDER}/${script.path}`);
  const bytes = copy.files.get(script.path)?.bytes ?? new Uint8Array();
  const isDeclaring = (await findDeclaringScripts(skill, copy)).some((one) => one.script.path === script.path);
  const declaring = hasUv(host) ? createUvCommand(path) : ["python3", path];
  const argv = isDeclaring ? declaring : resolveScriptCommand(path, bytes, { skill, host, script, sandbox, root });
  const outside = warnHiddenArguments(given.args, host, { ...enclosure, skill });
  const { notices, problems } = enclosure;
  // The reason for a missing workspace is shown only if the script needs it. It then replaces the warnings for single paths.
  const unseen = notices.length > 0 && (outside.length > 0 || given.writes) ? notices : outside;
  return {
    sandbox: enclosure,
    argv: [...argv, ...translateArguments(given.args, host, enclosure)] as [string, ...string[]],
    warnings: [...unseen, ...problems],
  };
}

interface InterpreterContext {
  skill: Skill;
  host: Host;
  script: SkillScript;
  sandbox: Sandbox;
  root: string | undefined;
}

function resolveScriptCommand(
  path: string,
  bytes: Uint8Array,
  { skill, host, script, sandbox, root }: InterpreterContext,
): string[] {
  const interpreter = detectInterpreter(script.path, bytes);
  if (!interpreter) {
    throw new SkillError("script-interpreter", {
      message: `No interpreter found for "${script.path}" of skill '${skill.name}'`,
      fix: "add a first line such as #!/bin/sh, or use one of the extensions .sh, .py, .js, .ts, .rb, .pl",
    });
  }
  const { program, args } = interpreter;
  if (program === undefined) return [path];
  const names = [program, FALLBACK_PROGRAMS.get(program) ?? program];
  const name = names.find((candidate) => hasSandboxProgram(candidate, sandbox, root));
  if (name === undefined) {
    throw new SkillError("script-interpreter", {
      message: `"${script.path}" of skill '${skill.name}' needs ${program}, which is not in its sandbox`,
      fix: `add the package with ${program}: ${formatPackagesCommand(skill, host, "packages", [FALLBACK_PROGRAMS.get(program) ?? program])}`,
    });
  }
  return [name === "node" && !sandbox.mapsPaths ? process.execPath : name, ...args, path];
}

function hasSandboxProgram(program: string, { system }: Sandbox, root: string | undefined): boolean {
  if (program === "node" || system === "own") return true; // The programs of an image are not known here.
  if (root === undefined) return findSystemProgram(program) !== undefined;
  return ["usr/bin", "usr/local/bin", "usr/sbin", "bin"].some((folder) => existsSync(join(root, folder, program)));
}

type VisiblePaths = Pick<RunSandbox, "sandbox" | "workspace" | "visiblePaths">;

/** Returns the arguments as the script sees them: absolute paths in the workspace become paths of the sandbox. */
function translateArguments(args: readonly string[], { workspace }: Host, seen: VisiblePaths): string[] {
  const { visiblePaths } = seen;
  if (seen.workspace === undefined || visiblePaths.workspace === undefined) return [...args];
  const as = visiblePaths.workspace;
  const roots = [workspace === undefined ? seen.workspace : resolve(workspace), seen.workspace];
  return args.map((arg) => {
    const { option, value } = splitOption(arg);
    const root = isAbsolute(value) ? roots.find((path) => isInside(path, normalize(value))) : undefined;
    return root === undefined ? arg : `${option}${join(as, normalize(value).slice(root.length))}`;
  });
}

/**
 * Returns a warning for each argument that names a path the script cannot see. It checks the path alone and never whether a file
 * exists, so that no caller learns from it which files the machine has.
 */
function warnHiddenArguments(
  args: readonly string[],
  host: Host,
  { skill, ...seen }: VisiblePaths & { skill: Skill },
): Problem[] {
  if (seen.sandbox.level === "none") return [];
  const paths = args.map((arg) => splitOption(arg).value).filter((value) => !isPathVisible(value, host, seen));
  return [...new Set(paths)].slice(0, MAX_ARGUMENT_WARNINGS).map((path) => ({
    code: "argument-outside",
    ...(seen.workspace === undefined ? describeClosedWorkspace(path, skill) : describeOutsidePath(path, host)),
  }));
}

const MAX_ARGUMENT_WARNINGS = 3;

function describeOutsidePath(path: string, { workspace = "" }: Host): Omit<Problem, "code"> {
  return {
    message: `The script cannot see ${sanitizeLine(path, 200)}: it is outside the workspace ${workspace}`,
    fix: "copy the file into the workspace, or use its folder as the workspace (skillet script --workspace FOLDER)",
  };
}

function describeClosedWorkspace(path: string, skill: Skill): Omit<Problem, "code"> {
  return {
    message: `The script cannot see ${sanitizeLine(path, 200)}: it has no access to the workspace`,
    fix: "work in a project folder and run",
    commands: [`skillet config set ${formatSkillKey(skill, "workspace")} read`],
  };
}

function isPathVisible(value: string, host: Host, { workspace }: Pick<VisiblePaths, "workspace">): boolean {
  const start = resolve(host.workspace ?? "/");
  const path = value.startsWith("~/") ? join(getUserHome(host.env ?? process.env), value.slice(2)) : value;
  const named = resolve(start, path);
  if (!isAbsolute(path) && workspace === undefined) {
    // Plain text looks like a relative path: only an existing file of the workspace counts.
    return host.workspace === undefined || path === "" || !existsSync(named);
  }
  if (workspace !== undefined && [start, workspace].some((folder) => isInside(folder, named))) {
    return isInside(workspace, resolveRealPath(named)); // A symlink that leads out of the workspace is broken inside the sandbox.
  }
  if (named === "/" || named === "/tmp" || VISIBLE_FOLDERS.some((folder) => isInside(folder, named))) return true;
  // The script has its own /tmp: only a file of the host's /tmp is missing there.
  return isInside("/tmp", named) ? !existsSync(named) : !existsSync(`/${named.split("/")[1]}`);
}

/** Folders that are in every sandbox. */
const VISIBLE_FOLDERS = [
  SANDBOX_SKILL_FOLDER,
  WORKSPACE_FOLDER,
  HOME_FOLDER,
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib64",
  "/dev",
  "/proc",
  "/opt/skillet",
];

/** Splits `--out=PATH` into option and value: the value may be a path. */
function splitOption(arg: string): { option: string; value: string } {
  const [option = ""] = /^--?[\w-]+=/.exec(arg) ?? [];
  return { option, value: arg.slice(option.length) };
}
