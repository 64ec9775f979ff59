import { posix } from "node:path";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { SkillError } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import { createTool, type Tool, type ToolResult } from "../../skill/tool.ts";
import { omitUndefined } from "../../util/objects.ts";
import { isInside } from "../../util/safe-path.ts";
import { formatNumber } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { runScriptForModel } from "../run/run-script.ts";
import {
  type RunCommandOptions,
  type RunCommandOutcome,
  type SandboxToolContext,
  WORKSPACE_CHANGE,
} from "../workspace/run-sandbox.ts";
import {
  createScriptEffect,
  describeScriptView,
  hasFailedToWrite,
  needsWriteApproval,
  WRITES_PARAMETER,
} from "../workspace/sandbox-permissions.ts";
import { readCallId } from "./skill-tools.ts";
import { createProgramResult, describeEnding, formatProblemLines } from "./tool-output.ts";

/** The first line of the result of a command that tried to change a read-only workspace. */
const READ_ONLY_WORKSPACE_NOTE =
  "[The workspace was read-only: for a command that changes it, set writes to true; this may need the user's approval.]";

/** The command is one argument and never part of this program. An image may lack bash. */
const SHELL_PROGRAM = 'command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec sh -c "$1"';

export function createBashTool(context: SandboxToolContext): Tool {
  const { sandbox, host } = context;
  const { needsWriteApproval: asksToWrite } = sandbox;
  const parameters = {
    command: { type: "string", description: "the bash command", isRequired: true },
    timeout_seconds: {
      type: "number",
      description: `the time limit; defaults to the maximum, ${host.settings.scripts.seconds}`,
    },
    writes: {
      type: "boolean",
      description:
        "true for a command that changes files in the workspace, which may need the user's approval; otherwise they are read-only",
    },
  } as const;
  return createTool(
    {
      name: "bash",
      description: `Runs a shell command in a sandbox and returns its output. ${describeStartFolder(context)} Each command has its own sandbox: files outside the workspace, processes and variables are gone when it ends. Network: ${describeNetwork(context)}.`,
      category: "workspace",
      parameters: asksToWrite ? parameters : removeWritesParameter(parameters),
      // Without isolation, any command can write.
      effect: ({ command, writes }) =>
        asksToWrite && (writes || sandbox.sandbox.level === "none")
          ? { ...WORKSPACE_CHANGE, what: command }
          : undefined,
    },
    async ({ command, timeout_seconds: seconds, writes }, options) => {
      const isReading = asksToWrite && writes !== true;
      if (command.includes("\0")) return createInvalidResult("The command contains a NUL character.");
      if (Buffer.byteLength(command) > MAX_COMMAND_BYTES)
        return createInvalidResult("The command is longer than 100,000 bytes: write a file first.");
      const outcome = await sandbox.run(["sh", "-c", SHELL_PROGRAM, "sh", command], {
        ...(seconds === undefined ? {} : { seconds: Math.max(seconds, MIN_TIMEOUT_SECONDS) }),
        ...(isReading ? { access: "read" } : {}),
        signal: options.signal,
        callId: readCallId(options),
      });
      const result = await formatCommandResult("bash", outcome, context);
      if (!isReading || !hasFailedToWrite(outcome.stderr, sandbox, { access: "read" })) return result;
      return {
        ...result,
        text: `${READ_ONLY_WORKSPACE_NOTE}\n${result.text}`,
        data: { ...result.data, needsWriteAccess: true },
      };
    },
  );
}

const MIN_TIMEOUT_SECONDS = 0.1;
/** In bytes. Systems accept slightly more for one argument. */
const MAX_COMMAND_BYTES = 100_000;

/** Removes the parameter if no approval is needed to write. */
function removeWritesParameter<P extends { writes: unknown }>({ writes: _, ...rest }: P): P {
  return rest as P;
}

function createInvalidResult(content: string): ToolResult {
  return { text: content, isError: true, code: "input-invalid" };
}

function describeStartFolder({ sandbox: { folder, access, visiblePaths } }: SandboxToolContext): string {
  const workspace = access === "read" ? "the workspace, which is read-only" : "the workspace";
  const skill = visiblePaths.skill === undefined ? "" : ` The skill's files are in ${visiblePaths.skill} (SKILL_DIR).`;
  if (access === "none") return `It starts in ${folder}; there is no workspace.${skill}`;
  return `It starts in ${folder}, ${workspace}.${skill}`;
}

function describeNetwork({ sandbox: { network } }: SandboxToolContext): string {
  if (network.length === 0) return "none";
  return `only ${network.map(({ host, port: steps }) => `${host}:${steps}`).join(", ")}, through the proxy in HTTPS_PROXY`;
}

/** Formats the outcome of a command for a model. */
async function formatCommandResult(
  tool: string,
  outcome: RunCommandOutcome,
  context: SandboxToolContext,
): Promise<ToolResult> {
  const { host, sandbox, skill } = context;
  const { ms, isTruncated, ending } = outcome;
  const suggest =
    ending === "exit" && outcome.exitCode !== 0
      ? (await import("../workspace/package-hints.ts")).suggestMissingPackage
      : undefined;
  const missing = skill && (await suggest?.(outcome, skill, host, sandbox.sandbox));
  const notices = [...(outcome.notices ?? []), ...(missing ? [missing] : [])];
  const details = [`${(ms / 1000).toFixed(1)} s`, ...(isTruncated ? ["output cut"] : [])];
  const printed = createProgramResult(outcome, {
    subject: tool,
    details,
    problems: formatProblemLines(notices, sandbox.redactor),
    max: host.settings.limits.toolOutput,
    attributes: { tool },
  });
  const isError = ending !== "exit" || outcome.exitCode !== 0;
  const code = ending === "exit" ? "tool-failed" : `tool-${ending}`;
  return { ...printed, isError, ...(isError ? { code } : {}) };
}

/** Creates the tool that runs scripts of the run's own skill. */
export async function createSkillScriptTool(
  { host, sandbox, broker, waited = () => 0 }: SandboxToolContext,
  skill: Skill,
): Promise<Tool> {
  const texts = (await listSkillScripts(skill))
    .slice(0, 20)
    .map(({ path, description }) => sanitizeLine(description === undefined ? path : `${path}: ${description}`, 200));
  return createTool(
    {
      name: "run_skill_script",
      description: `Runs a script of the skill in its own sandbox and returns its output. ${describeScriptView(host, skill)} Scripts: ${texts.join("; ")}.`,
      category: "skills",
      parameters: {
        script: { type: "string", description: "the script's path or name", isRequired: true },
        args: { type: "strings", description: "its arguments, one per item; not parsed by a shell" },
        stdin: { type: "string", description: "its standard input" },
        ...WRITES_PARAMETER,
      },
      effect: ({ script, args = [], writes }) =>
        writes && needsWriteApproval(host, skill) ? createScriptEffect(script, args) : undefined,
    },
    ({ script, args, stdin, writes }, { signal, ...call }) =>
      runScriptForModel(
        host,
        { skill, script, ...omitUndefined({ args, stdin, writes, signal }) },
        ({ isolation, warnings }) =>
          sandbox.recordScript({ isolation, planted: warnings.filter(({ code }) => code === "workspace-protected") }),
        { broker, callId: readCallId(call), waited, review: sandbox.review },
      ),
  );
}

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
  return [visiblePaths.workspace, visiblePaths.skill].filter((path) => path !== undefined);
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
