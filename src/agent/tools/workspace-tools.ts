import type { Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import { createTool, type Tool, type ToolResult } from "../../skill/tool.ts";
import { omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { READ_ONLY_WORKSPACE_NOTE } from "../models/runbook-commands.ts";
import { runScriptForModel } from "../run/run-script.ts";
import { suggestMissingPackage } from "../workspace/package-hints.ts";
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
import { describeEnding, formatOutcomeLine, formatPrinted, formatProblemLines } from "./tool-output.ts";
import { createWebFetchTool } from "./web-tools.ts";

/** The tools that are built in, as far as they can do anything in this run. */
export function createWorkspaceTools(enclosure: RunSandbox, given: Omit<SandboxToolContext, "enclosure">): Tool[] {
  const scene: SandboxToolContext = { ...given, enclosure };
  const { access, places, network } = enclosure;
  const { skill } = given;
  const hasFiles = places.workspace !== undefined || places.skill !== undefined;
  return [
    createBashTool(scene),
    ...(hasFiles ? [createReadFileTool(scene)] : []),
    ...(access === "read-write" ? [createWriteFileTool(scene), createEditFileTool(scene)] : []),
    ...(hasFiles ? [createListFilesTool(scene), createGrepTool(scene)] : []),
    ...(network.length > 0 ? [createWebFetchTool(scene)] : []),
    ...(skill && places.skill !== undefined && listSkillScripts(skill).length > 0
      ? [createSkillScriptTool(scene, skill)]
      : []),
  ];
}

/** The command is one argument, and no part of a program of ours. An image may have no bash. */
const SHELL_PROGRAM = 'command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec sh -c "$1"';

function createBashTool(scene: SandboxToolContext): Tool {
  const { enclosure, host } = scene;
  const { asksToWrite } = enclosure;
  const parameters = {
    command: { type: "string", says: "the command, as bash takes it", isRequired: true },
    timeout_seconds: {
      type: "number",
      says: `when to end it, with all that it started; at most ${host.settings.scripts.seconds}, also when left out`,
    },
    writes: {
      type: "boolean",
      says: "true for a command that changes files of the workspace: the user may be asked first; else it can only read them",
    },
  } as const;
  return createTool(
    {
      name: "bash",
      description: `Runs a shell command in a sandbox and gives what it printed. ${describeStartFolder(scene)} Each command has a sandbox of its own: files outside of the workspace, processes and variables are gone when it ends. There is ${describeNetwork(scene)}.`,
      category: "workspace",
      parameters: asksToWrite ? parameters : removeWritesParameter(parameters),
      // Where nothing keeps code apart, any command can write.
      effect: ({ command, writes }) =>
        asksToWrite && (writes || enclosure.sandbox.level === "none")
          ? { ...WORKSPACE_CHANGE, what: command }
          : undefined,
    },
    async ({ command, timeout_seconds: seconds, writes }, { signal }) => {
      const isReading = asksToWrite && writes !== true;
      if (command.includes("\0")) return createInvalidResult("A command holds no NUL character.");
      if (Buffer.byteLength(command) > MAX_COMMAND_BYTES)
        return createInvalidResult("A command is at most 100,000 bytes: write a file first.");
      const outcome = await enclosure.run(["sh", "-c", SHELL_PROGRAM, "sh", command], {
        ...(seconds === undefined ? {} : { seconds: Math.max(seconds, MIN_TIMEOUT_SECONDS) }),
        ...(isReading ? { access: "read" } : {}),
        signal,
      });
      const result = formatCommandResult("bash", outcome, scene);
      if (!isReading || !hasFailedToWrite(outcome.stderr, enclosure, { access: "read" })) return result;
      return { ...result, content: `${READ_ONLY_WORKSPACE_NOTE}\n${result.content}` };
    },
  );
}

const MIN_TIMEOUT_SECONDS = 0.1;
/** In bytes. A system takes a little more for one argument. */
const MAX_COMMAND_BYTES = 100_000;

/** Where nobody is asked there is nothing to say of it. */
function removeWritesParameter<P extends { writes: unknown }>({ writes: _, ...rest }: P): P {
  return rest as P;
}

function createInvalidResult(content: string): ToolResult {
  return { content, isError: true, code: "input-invalid" };
}

function describeStartFolder({ enclosure: { folder, access, places } }: SandboxToolContext): string {
  const workspace = access === "read" ? "the workspace, which can be read but not changed" : "the workspace";
  const skill = places.skill === undefined ? "" : ` The skill's files are in ${places.skill} (SKILL_DIR).`;
  if (access === "none") return `It starts in ${folder}; there is no workspace.${skill}`;
  return `It starts in ${folder}, ${workspace}.${skill}`;
}

function describeNetwork({ enclosure: { network } }: SandboxToolContext): string {
  if (network.length === 0) return "no network";
  return `a network only to ${network.map(({ host, port }) => `${host}:${port}`).join(", ")}, through the proxy that HTTPS_PROXY names`;
}

/** What came of a command, in a way that a model can go on from. */
function formatCommandResult(tool: string, outcome: RunCommandOutcome, scene: SandboxToolContext): ToolResult {
  const { host, enclosure, skill } = scene;
  const { ms, isTruncated, ending } = outcome;
  const missing =
    skill && ending === "exit" ? suggestMissingPackage(outcome, skill, host, enclosure.sandbox) : undefined;
  const notices = [...(outcome.notices ?? []), ...(missing ? [missing] : [])];
  const details = [`${(ms / 1000).toFixed(1)} s`, ...(isTruncated ? ["output cut"] : [])];
  const content = [
    formatOutcomeLine(`${tool}: ${describeEnding(outcome).said}`, details, outcome),
    ...formatProblemLines(notices, enclosure.hiding),
    ...formatPrinted(outcome, host.settings.limits.toolOutput, { tool }),
  ].join("\n");
  const isError = ending !== "exit" || outcome.exitCode !== 0;
  const code = ending === "exit" ? "tool-failed" : `tool-${ending}`;
  return { content, isError, ...(isError ? { code } : {}) };
}

/** The scripts of the run's own skill. */
function createSkillScriptTool({ host, enclosure, broker, waited = () => 0 }: SandboxToolContext, skill: Skill): Tool {
  const said = listSkillScripts(skill)
    .slice(0, 20)
    .map(({ path, description }) => sanitizeLine(description === undefined ? path : `${path}: ${description}`, 200));
  return createTool(
    {
      name: "run_skill_script",
      description: `Runs a script of the skill in a sandbox of its own, and gives what it printed. ${describeScriptView(host, skill)} There are: ${said.join("; ")}.`,
      category: "skills",
      parameters: {
        script: { type: "string", says: "the script's path or name", isRequired: true },
        args: { type: "strings", says: "its arguments, one each; no shell reads them" },
        stdin: { type: "string", says: "what it reads from its standard input" },
        ...WRITES_PARAMETER,
      },
      effect: ({ script, args = [], writes }) =>
        writes && needsWriteApproval(host, skill) ? createScriptEffect(script, args) : undefined,
    },
    ({ script, args, stdin, writes }, { signal }) =>
      runScriptForModel(
        host,
        { skill, script, ...omitUndefined({ args, stdin, writes, signal }) },
        ({ isolation, warnings }) =>
          enclosure.note({ isolation, planted: warnings.filter(({ code }) => code === "workspace-protected") }),
        { broker, waited, review: enclosure.review },
      ),
  );
}
