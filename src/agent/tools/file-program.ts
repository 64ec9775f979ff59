import { posix } from "node:path";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { SkillError } from "../../errors/problem.ts";
import { isInside } from "../../util/safe-path.ts";
import { formatNumber } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import type { RunCommandOptions, RunCommandOutcome, SandboxToolContext } from "../workspace/run-sandbox.ts";
import { describeEnding } from "./tool-output.ts";

interface FileProgram {
  tool: string;
  /** The path as the model wrote it. Defaults to the working directory of commands. */
  path?: string | undefined;
  /** A program for `sh`, with the path in `$path` and the variables of `env`. Contract: no text of a model is part of it. */
  program: string;
  env?: Readonly<Record<string, string>>;
  writes?: boolean;
  /** True if output that exceeds the limit is not a failure. */
  mayBeCut?: boolean;
  options?: Pick<RunCommandOptions, "stdin" | "output" | "isRaw" | "signal">;
}

/** Runs a program on a path in the sandbox. Returns the path in the sandbox and the outcome. Throws a SkillError on failure. */
export async function runFileProgram(
  context: SandboxToolContext,
  { tool, program, env = {}, writes = false, mayBeCut = false, options = {}, ...given }: FileProgram,
): Promise<{ path: string; outcome: RunCommandOutcome }> {
  const roots = listRoots(context, writes);
  const path = resolveToolPath(context, given.path ?? ".", roots);
  if (Object.values(env).some((value) => value.includes("\0") || value.length > MAX_ARGUMENT_LENGTH))
    throw createArgumentError(tool);
  const outcome = await context.sandbox.run(["sh", "-c", `${PATH_GUARD}\n${program}`, "sh", path, ...roots], {
    ...options,
    env,
    isPlain: true,
    ...(writes ? {} : { access: "read" as const }),
  });
  const { ending, exitCode, stderr } = outcome;
  if (ending !== "exit" && !(ending === "output" && mayBeCut)) {
    throw new SkillError(`tool-${ending}`, { message: `${tool}: ${describeEnding(outcome).said}` });
  }
  const known = EXIT_PROBLEMS.get(exitCode ?? 0);
  if (known) throw new SkillError(known.code, { message: `${quotePath(path)} ${known.says}`, fix: known.fix });
  if (exitCode !== 0 && writes) throw createClosedPathError(path, stderr);
  return { path, outcome };
}

/** In characters: systems accept longer paths and arguments. */
const MAX_ARGUMENT_LENGTH = 4096;

/** Returns the folders that the tools may read or write. */
function listRoots({ sandbox: { visiblePaths, access } }: SandboxToolContext, writes: boolean): string[] {
  if (writes) return access === "read-write" && visiblePaths.workspace !== undefined ? [visiblePaths.workspace] : [];
  return [visiblePaths.workspace, visiblePaths.skill].filter((place) => place !== undefined);
}

function resolveToolPath({ sandbox: { folder } }: SandboxToolContext, path: string, roots: readonly string[]): string {
  const whole = posix.resolve(folder, path);
  if (!path.includes("\0") && path.length <= MAX_ARGUMENT_LENGTH && roots.some((root) => isInside(root, whole)))
    return whole;
  throw new SkillError("path-outside", {
    message: `${quotePath(path)} is not in ${roots.join(" or ") || "an accessible folder"}`,
    fix: "use a path inside it",
  });
}

/** Resolves symlinks. A path that does not exist is judged by its nearest existing folder. */
const PATH_GUARD = `path=$1; shift; at=$path; inside=
while [ ! -e "$at" ] && [ ! -L "$at" ] && [ -n "$at" ]; do at=\${at%/*}; done
real=$(readlink -f "$at"; echo x); real=\${real%?x}
for root; do root=$(readlink -f "$root"; echo x); root=\${root%?x}; case $real/ in "$root"/*) inside=1; esac; done
[ "$inside" ] || exit 91`;

/** The exit codes of these programs. */
const EXIT_PROBLEMS = new Map<number, { code: ErrorCode; says: string; fix: string }>([
  [
    91,
    { code: "path-outside", says: "is a symlink that leads outside", fix: "use the target's path, if it is inside" },
  ],
  [92, { code: "path-missing", says: "does not exist", fix: "list_files shows the files" }],
  [93, { code: "path-is-folder", says: "is a folder", fix: "list_files shows its files" }],
  [94, { code: "path-not-a-file", says: "is not a regular file", fix: "use another path" }],
  [
    95,
    { code: "path-denied", says: "is not readable by tools", fix: "make it readable by others, or use another path" },
  ],
  [96, { code: "path-not-a-folder", says: "is not a folder", fix: "read_file reads a file" }],
]);

/** Ends the program if the path is not a readable file. */
export const REQUIRE_FILE = `[ -d "$path" ] && exit 93; [ -e "$path" ] || exit 92; [ -f "$path" ] || exit 94; [ -r "$path" ] || exit 95`;

function createClosedPathError(path: string, stderr: string): SkillError {
  const isReadOnly = /read-only/i.test(stderr);
  const why = isReadOnly ? "tools may not write it" : readLastError(stderr);
  return new SkillError(isReadOnly || /denied|not permitted/i.test(stderr) ? "path-denied" : "tool-failed", {
    message: `${quotePath(path)} could not be written: ${why}`,
    fix: isReadOnly
      ? "only the user changes files that other programs run or read as configuration (.git, .vscode, .envrc and others); write to another path"
      : "check the path and the free disk space",
  });
}

/** Returns the last part of the last line, after the names of programs and files. */
function readLastError(stderr: string): string {
  return sanitizeLine(stderr.trim().split("\n").at(-1)?.split(": ").at(-1) ?? "", 200) || "unknown error";
}

export function quotePath(path: string): string {
  return JSON.stringify(sanitizeLine(path, 300));
}

function createArgumentError(tool: string): SkillError {
  return new SkillError("input-invalid", {
    message: `${tool} takes no NUL character, and no pattern of more than ${formatNumber(MAX_ARGUMENT_LENGTH)} characters`,
    fix: "use a shorter one without NUL",
  });
}
