import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { shortenHomePath } from "../../agent/policy/setup-policy.ts";
import { findDenials } from "../../agent/policy/skill-policies.ts";
import { requireSecretOwner } from "../../agent/policy/trust-policy.ts";
import { collectSecrets, readSkillSecrets, type SkillSecrets } from "../../agent/run/run-inputs.ts";
import { createRefusalResult, createRunId } from "../../agent/run/run-result.ts";
import { callWithTimeout } from "../../agent/run/tool-call.ts";
import { createApprovalRequest, requestApproval } from "../../agent/run/tool-policy.ts";
import { unwrapToolOutput } from "../../agent/tools/tool-output.ts";
import { createLazySandbox } from "../../agent/toolsets/open-toolsets.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import type { Tool, ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { createRedactor, type Redactor } from "../../util/redact.ts";
import { findNearest } from "../../util/text.ts";
import { createApprovalPrompt } from "../approval-prompt.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { discoverForRun, requireConfiguration } from "../command-host.ts";
import { escapeForTerminal, formatInputSchema } from "../format.ts";
import { type CommandIo, createInterruptSignal, createPrinter, printJson } from "../output.ts";
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
      .description("call one tool that a skill or a server brings, as a run would")
      .argument(
        "<tool>",
        "the tool, as skillet tools names it: SKILL.TOOL, or SERVER.TOOL; SKILL alone lists its tools",
      )
      .option("-i, --input <json>", "its input; @file reads it from a file, - what is piped in")
      .option("-y, --yes", "agree beforehand to what it changes")
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

/** Calls one tool as a run would: what it gives goes to stdout, what happens meanwhile to stderr. */
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

/** What a call came to; where it was not made, why not. */
interface CallOutcome {
  result: ToolResult;
  refusals?: readonly Problem[];
}

function createRefusedOutcome(refusals: readonly Problem[]): CallOutcome {
  return { result: createRefusalResult(refusals), refusals };
}

/** A skill or a server by its own name: whoever names no tool wants to see which there are. */
function isProviderName(found: DiscoverResult, name: string): boolean {
  return listSkillsWithTools(found).some((skill) => skill.name === name) || found.settings.mcp.has(name);
}

/** Where the tool is: a skill brings it, or a server has it. */
async function openToolProvider(io: CommandIo, found: DiscoverResult, name: string): Promise<ToolProvider> {
  const skill = findToolSkill(found, name);
  if (!skill) {
    const server = await openMcpServerTools(found, name.replace(/(?:\.|__).*$/s, ""));
    if (server) return server;
    throw createUnknownToolError(found, name);
  }
  const hiding = createRedactor(collectSecrets(readSkillSecrets(skill, found).secrets, found));
  const open = async () => {
    const rows = await openSkillTools(found, [skill], (text) => io.stderr.write(escapeForTerminal(hiding.text(text))));
    return rows[0] as ToolProvider;
  };
  const row = await open();
  const refusals = row.problems;
  return isPendingTrust(refusals) && (await askForPendingTrust(io, found, [{ skill, refusals }])) ? open() : row;
}

/** `my-skill.my-tool`, also as a model writes it. */
function findToolSkill(found: DiscoverResult, name: string): Skill | undefined {
  const skills = listSkillsWithTools(found).sort((a, b) => b.name.length - a.name.length); // One's name may begin with another's.
  return skills.find((skill) => [".", "__"].some((between) => name.startsWith(skill.name + between)));
}

function createUnknownToolError(found: DiscoverResult, name: string): SkillError {
  const names = [...listSkillsWithTools(found).map((skill) => skill.name), ...found.settings.mcp.keys()];
  const meant = findNearest(name.replace(/(?:\.|__).*$/s, ""), names);
  return new SkillError("usage", {
    message: `No skill and no server has a tool "${name}"${meant ? `; did you mean one of ${meant}?` : ""}`,
    fix: "name it as skillet tools does: SKILL.TOOL, or SERVER.TOOL",
  });
}

/** Nothing where there are none, and why is known. */
function findTool({ tools: there, problems }: ToolProvider, name: string): Tool | undefined {
  if (problems.length > 0 && there.length === 0) return undefined;
  const tool = there.find((candidate) => candidate.name === name || formatWireName(candidate.name) === name);
  if (tool) return tool;
  throw new SkillError("usage", {
    message: `There is no tool "${name}"`,
    fix: `there are: ${there.map((candidate) => candidate.name).join(", ")}`,
  });
}

interface CallRequest {
  row: ToolProvider;
  tool: Tool;
  input: unknown;
  /** Whether whoever called agreed beforehand. */
  isAgreed: boolean;
}

async function makeCall(
  io: CommandIo,
  found: DiscoverResult,
  { row, tool, input, isAgreed }: CallRequest,
): Promise<CallOutcome> {
  const { of } = row;
  const own: SkillSecrets = of ? readSkillSecrets(of.skill, found) : { secrets: new Map() };
  const hiding = createRedactor(collectSecrets(own.secrets, found));
  const refusals = of ? findDenials(of.skill, found, "run") : [];
  const isGiven =
    of && isPendingTrust(refusals) && (await askForPendingTrust(io, found, [{ skill: of.skill, refusals }]));
  const denied = of && isGiven ? findDenials(of.skill, found, "run") : refusals;
  if (denied.length > 0) return createRefusedOutcome(denied);
  if (own.problem !== undefined) throw own.problem;
  const signal = createInterruptSignal(io);
  const refused = isAgreed ? undefined : await findDenial(io, found, { row, tool, input, hiding, signal });
  if (refused) return createRefusedOutcome([refused]);
  if (of) requireSecretOwner(of.skill, found);
  const { secrets } = own;
  const run = createRunId();
  const progress = createPrinter(io.stderr, io.env);
  const options = {
    ...{ signal, run, key: `${run}:1`, env: Object.fromEntries(secrets) },
    ...(of ? { sandbox: createLazySandbox(found, { ...of, secrets, hiding, signal }) } : {}),
    onProgress: (text: string) => progress.line`${progress.dim("·")} ${hiding.text(text)}`,
  };
  const result = await callWithTimeout(tool, input, options, found.settings.limits.toolSeconds);
  return { result: { ...result, content: hiding.text(result.content) } };
}

interface CallApprovalContext extends Pick<CallRequest, "row" | "tool" | "input"> {
  hiding: Redactor;
  signal: AbortSignal;
}

/** Why a call that changes something is not made. */
async function findDenial(
  io: CommandIo,
  found: DiscoverResult,
  { row, tool, input, hiding, signal }: CallApprovalContext,
): Promise<Problem | undefined> {
  const { workspace: folder } = found;
  const workspace = folder === undefined ? undefined : shortenHomePath(folder, found);
  const about = { run: "", skill: "", gates: [], agreed: new Set<string>(), hiding, workspace };
  const asked = await createApprovalRequest(about, tool, { input });
  if (!asked) return undefined;
  const effect = row.of ? asked : { ...asked, source: `server ${row.name}` };
  const approve = createApprovalPrompt(io, "call");
  const host = { approvals: found.approvals, ...(approve ? { approve } : {}) };
  const hide = (text: string) => hiding.text(text);
  const word = await requestApproval(host, { effect, signal, hide, onAsked: () => {}, onGiven: () => {} });
  if (word?.isApproved) return undefined;
  if (word) return { code: "not-approved", message: `${tool.name} was not called: it was not approved`, fix: "" };
  return {
    code: "approval-needed",
    message: `${tool.name} was not called: ${effect.reason}, and nobody can be asked here`,
    fix: "to agree to it beforehand: --yes",
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
      fix: `as in --input '{"input": "…"}', --input @file.json, or --input - for what is piped in`,
    });
  }
}

function printCallOutcome(
  io: CommandIo,
  { result: { content, isError, title, code }, refusals }: CallOutcome,
  tool: Tool | undefined,
): void {
  const error = createPrinter(io.stderr, io.env);
  if (refusals) printToolProblems(error, refusals);
  else if (isError) {
    const [first = "", ...more] = unwrapToolOutput(content).split("\n");
    error.line`${error.red("✗")} ${first}`;
    for (const line of more) error.line`  ${line}`;
    if (code === "input-invalid" && tool) error.line`  it takes: ${formatInputSchema(tool.inputSchema) || "nothing"}`;
  } else {
    if (title !== undefined) error.line`${error.green("✓")} ${title}`;
    const text = escapeForTerminal(unwrapToolOutput(content));
    io.stdout.write(text.endsWith("\n") ? text : `${text}\n`);
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
