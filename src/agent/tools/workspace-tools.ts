import type { Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import { createTool, type Tool, type ToolResult } from "../../skill/tool.ts";
import { omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { runScriptForModel } from "../run/run-script.ts";
import {
  type RunCommandOutcome,
  type RunSandbox,
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
import {
  createEditFileTool,
  createGrepTool,
  createListFilesTool,
  createReadFileTool,
  createWriteFileTool,
} from "./file-tools.ts";
import { readCallId } from "./skill-tools.ts";
import { createProgramResult, formatProblemLines } from "./tool-output.ts";
import { createWebFetchTool } from "./web-tools.ts";

/** Creates the built-in tools that can work in this run. */
export async function createWorkspaceTools(
  sandbox: RunSandbox,
  given: Omit<SandboxToolContext, "sandbox">,
): Promise<Tool[]> {
  const context: SandboxToolContext = { ...given, sandbox };
  const { access, visiblePaths, network } = sandbox;
  const { skill } = given;
  const hasFiles = visiblePaths.workspace !== undefined || visiblePaths.skill !== undefined;
  return [
    createBashTool(context),
    ...(hasFiles ? [createReadFileTool(context)] : []),
    ...(access === "read-write" ? [createWriteFileTool(context), createEditFileTool(context)] : []),
    ...(hasFiles ? [createListFilesTool(context), createGrepTool(context)] : []),
    ...(network.length > 0 ? [createWebFetchTool(context)] : []),
    ...(skill && visiblePaths.skill !== undefined && (await listSkillScripts(skill)).length > 0
      ? [await createSkillScriptTool(context, skill)]
      : []),
  ];
}

/** The first line of the result of a command that tried to change a read-only workspace. */
const READ_ONLY_WORKSPACE_NOTE =
  "[The workspace was read-only: for a command that changes it, set writes to true; this may need the user's approval.]";

/** The command is one argument and never part of this program. An image may lack bash. */
const SHELL_PROGRAM = 'command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec sh -c "$1"';

function createBashTool(context: SandboxToolContext): Tool {
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
async function createSkillScriptTool(
  { host, sandbox, broker, waited = () => 0 }: SandboxToolContext,
  skill: Skill,
): Promise<Tool> {
  const said = (await listSkillScripts(skill))
    .slice(0, 20)
    .map(({ path, description }) => sanitizeLine(description === undefined ? path : `${path}: ${description}`, 200));
  return createTool(
    {
      name: "run_skill_script",
      description: `Runs a script of the skill in its own sandbox and returns its output. ${describeScriptView(host, skill)} Scripts: ${said.join("; ")}.`,
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
