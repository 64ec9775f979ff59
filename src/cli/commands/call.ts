import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { findDenials } from "../../agent/policy/skill-policies.ts";
import { requireSecretOwner, shortenHomePath } from "../../agent/policy/trust-policy.ts";
import { createApprovalAsker, callTool as runTool, type ToolApproval } from "../../agent/run/call-tool.ts";
import { createHostRedactor } from "../../agent/run/redaction.ts";
import { readSkillSecrets, type SkillSecrets } from "../../agent/run/run-inputs.ts";
import { createRefusalResult, createRunId } from "../../agent/run/run-result.ts";
import { createLazySandbox } from "../../agent/toolsets/open-toolsets.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import type { Tool, ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import type { Redactor } from "../../util/redact.ts";
import { findNearest } from "../../util/text.ts";
import { createApprovalPrompt } from "../approval-prompt.ts";
import {
  type CommandContext,
  type CommandDefinition,
  EXIT,
  formatExamples,
  NOT_A_TERMINAL,
} from "../command-definition.ts";
import { discoverForRun, requireConfiguration } from "../command-host.ts";
import { escapeForTerminal, formatInputSchema } from "../format.ts";
import { type CommandIo, createInterruptSignal, createPrinter, printHanging, printJson } from "../output.ts";
import { askForPendingTrust, isPendingTrust } from "../run-output.ts";
import {
  listSkillsWithTools,
  listTools,
  openMcpServerTools,
  openSkillTools,
  printToolProblems,
  type ToolProvider,
} from "./tools.ts";

/** `skillet call`. */
export const callCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Call one tool of a skill or an MCP server")
      .argument("<tool>", "SKILL.TOOL or SERVER.TOOL, as listed by skillet tools. SKILL alone lists its tools.")
      .option("-i, --input <json>", "Pass this input; @file reads a file, - reads stdin")
      .option("-y, --yes", "Approve the changes it makes in advance")
      .addHelpText(
        "after",
        formatExamples(
          `skillet call my-skill.my-tool --input '{"input": "hello"}'`,
          "skillet call report.send -i @mail.json",
        ),
      ),
  run: callTool,
};

interface CallOptions {
  input?: string;
  yes?: boolean;
}

/** Calls one tool as a run would. The result goes to stdout, progress to stderr. */
async function callTool({ io, options, args }: CommandContext<CallOptions>): Promise<number> {
  const [name = ""] = args;
  const found = await discoverForRun(io, options);
  requireConfiguration(io, found);
  if (isProviderName(found, name)) return listTools({ io, options, args });
  const input = await readCallInput(io, options.input);
  const row = await openToolProvider(io, found, name);
  try {
    const tool = findTool(row, name);
    const isAgreed = options.yes ?? false;
    const result = tool
      ? await makeCall(io, found, { row, tool, input, isAgreed })
      : createRefusedOutcome(row.problems);
    if (options.json) printJson(io.stdout, result.result);
    else printCallOutcome(io, result, tool);
    return getCallExitCode(result.result);
  } finally {
    row?.close();
  }
}

/** The outcome of a call, or the reasons why it was not made. */
interface CallOutcome {
  result: ToolResult;
  refusals?: readonly Problem[];
}

function createRefusedOutcome(refusals: readonly Problem[]): CallOutcome {
  return { result: createRefusalResult(refusals), refusals };
}

/** Returns true for the name of a skill or server: without a tool, its tools are listed. */
function isProviderName(found: DiscoverResult, name: string): boolean {
  return listSkillsWithTools(found).some((skill) => skill.name === name) || found.settings.mcp.has(name);
}

/** Opens the skill or server that provides the tool. */
async function openToolProvider(io: CommandIo, found: DiscoverResult, name: string): Promise<ToolProvider> {
  const skill = findToolSkill(found, name);
  if (!skill) {
    const server = await openMcpServerTools(found, name.replace(/(?:\.|__).*$/s, ""));
    if (server) return server;
    throw createUnknownToolError(found, name);
  }
  const hiding = createHostRedactor(found, readSkillSecrets(skill, found).secrets);
  const open = async () => {
    const rows = await openSkillTools(found, [skill], (text) =>
      io.stderr.write(escapeForTerminal(hiding.redact(text))),
    );
    return rows[0] as ToolProvider;
  };
  const row = await open();
  const refusals = row.problems;
  return isPendingTrust(refusals) && (await askForPendingTrust(io, found, [{ skill, refusals }])) ? open() : row;
}

/** Finds the skill of a tool: `my-skill.my-tool`, or in the form that models use. */
function findToolSkill(found: DiscoverResult, name: string): Skill | undefined {
  const skills = listSkillsWithTools(found).sort((a, b) => b.name.length - a.name.length); // A name may be a prefix of another.
  return skills.find((skill) => [".", "__"].some((between) => name.startsWith(skill.name + between)));
}

function createUnknownToolError(found: DiscoverResult, name: string): SkillError {
  const names = [...listSkillsWithTools(found).map((skill) => skill.name), ...found.settings.mcp.keys()];
  const meant = findNearest(name.replace(/(?:\.|__).*$/s, ""), names);
  return new SkillError("usage", {
    message: `No skill and no server has a tool "${name}"${meant ? `; did you mean one of ${meant}?` : ""}`,
    fix: "use a name that skillet tools lists: SKILL.TOOL or SERVER.TOOL",
  });
}

/** Returns the tool; undefined if a known problem left no tools. */
function findTool({ tools: there, problems }: ToolProvider, name: string): Tool | undefined {
  if (problems.length > 0 && there.length === 0) return undefined;
  const tool = there.find((candidate) => candidate.name === name || formatWireName(candidate.name) === name);
  if (tool) return tool;
  throw new SkillError("usage", {
    message: `Unknown tool "${name}"`,
    fix: `its tools: ${there.map((candidate) => candidate.name).join(", ")}`,
  });
}

interface CallRequest {
  row: ToolProvider;
  tool: Tool;
  input: unknown;
  /** True if the user approved the call in advance. */
  isAgreed: boolean;
}

async function makeCall(
  io: CommandIo,
  found: DiscoverResult,
  { row, tool, input, isAgreed }: CallRequest,
): Promise<CallOutcome> {
  const { of } = row;
  const own: SkillSecrets = of ? readSkillSecrets(of.skill, found) : { secrets: new Map() };
  const hiding = createHostRedactor(found, own.secrets);
  const refusals = of ? findDenials(of.skill, found, "run") : [];
  const isGiven =
    of && isPendingTrust(refusals) && (await askForPendingTrust(io, found, [{ skill: of.skill, refusals }]));
  const denied = of && isGiven ? findDenials(of.skill, found, "run") : refusals;
  if (denied.length > 0) return createRefusedOutcome(denied);
  if (own.problem !== undefined) throw own.problem;
  const signal = createInterruptSignal(io);
  const { secrets } = own;
  const run = createRunId();
  const progress = createPrinter(io.stderr, io.env);
  let refusal: Problem | undefined;
  const result = await runTool(tool, input, {
    approval: isAgreed ? undefined : createCallApproval(io, found, { row, redactor: hiding, signal }),
    createOptions() {
      if (of) requireSecretOwner(of.skill, found); // Checked right before the values are passed on.
      return {
        ...{ signal, run, key: `${run}:1`, env: Object.fromEntries(secrets) },
        ...(of ? { sandbox: createLazySandbox(found, { ...of, secrets, redactor: hiding, signal }) } : {}),
        onProgress: (text: string) => progress.line`${progress.dim("·")} ${hiding.redact(text)}`,
      };
    },
    seconds: found.settings.limits.toolSeconds,
    redactor: hiding,
    journal: {
      async recordRefusal(refused, problem) {
        refusal = problem;
        return refused;
      },
    },
  });
  return refusal ? { result, refusals: [refusal] } : { result };
}

function createCallApproval(
  io: CommandIo,
  found: DiscoverResult,
  { row, redactor, signal }: { row: ToolProvider; redactor: Redactor; signal: AbortSignal },
): ToolApproval {
  const { workspace: folder } = found;
  const workspace = folder === undefined ? undefined : shortenHomePath(folder, found);
  const approve = createApprovalPrompt(io, "call");
  const host = { approvals: found.approvals, ...(approve ? { approve } : {}) };
  return {
    context: { run: "", skill: "", toolPolicies: [], approvedKeys: new Set(), redactor, workspace },
    ...(row.of ? {} : { source: `server ${row.name}` }),
    ask: createApprovalAsker(host, { signal, redactor }),
    unaskedFix: `${NOT_A_TERMINAL}: to approve it in advance, add --yes`,
  };
}

async function readCallInput(io: CommandIo, given: string | undefined): Promise<unknown> {
  if (given === undefined) return {};
  try {
    const text = given.startsWith("@") ? readFileSync(resolve(io.cwd, given.slice(1)), "utf8") : given;
    return JSON.parse(given === "-" ? ((await io.stdin?.()) ?? "") : text);
  } catch (error) {
    throw new SkillError("usage", {
      message: `The input cannot be read: ${getErrorMessage(error)}`,
      fix: `use --input '{"input": "…"}', --input @file.json, or --input - for stdin`,
    });
  }
}

function printCallOutcome(
  io: CommandIo,
  { result: { text, output, isError, title, code }, refusals }: CallOutcome,
  tool: Tool | undefined,
): void {
  const error = createPrinter(io.stderr, io.env);
  if (refusals) printToolProblems(error, refusals);
  else if (isError) {
    const [first = "", ...more] = (output ?? text).split("\n");
    printHanging(error, error.text`${error.red("✗")} `, [first], { indent: 2, code });
    for (const line of more) error.line`  ${line}`;
    if (code === "input-invalid" && tool)
      error.line`  expected input: ${formatInputSchema(tool.inputSchema) || "nothing"}`;
  } else {
    if (title !== undefined) error.line`${error.green("✓")} ${title}`;
    const shown = escapeForTerminal(output ?? text);
    io.stdout.write(shown.endsWith("\n") ? shown : `${shown}\n`);
  }
}

const CALL_EXIT_CODES: Readonly<Record<string, number>> = {
  untrusted: EXIT.refused,
  changed: EXIT.refused,
  "approval-needed": EXIT.refused,
  "not-approved": EXIT.refused,
  "mcp-disabled": EXIT.refused,
  "tool-timeout": EXIT.limit,
  aborted: EXIT.interrupted,
};

function getCallExitCode({ isError, code = "" }: ToolResult): number {
  return isError ? (CALL_EXIT_CODES[code] ?? EXIT.findings) : EXIT.fine;
}
