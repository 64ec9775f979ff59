import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { findDenials, findFirstDenial, isToolDisabled } from "../../agent/policy/skill-policies.ts";
import { requireSecretOwner, shortenHomePath, trustPolicy } from "../../agent/policy/trust-policy.ts";
import { createApprovalAsker, callTool as runTool, type ToolApproval } from "../../agent/run/call-tool.ts";
import { createHostRedactor } from "../../agent/run/redaction.ts";
import { readSkillSecrets, type SkillSecrets } from "../../agent/run/run-inputs.ts";
import { createRefusalResult, createRunId, toProblem } from "../../agent/run/run-result.ts";
import { wrapHostTool } from "../../agent/tools/tool-output.ts";
import { createLazySandbox, openToolsets } from "../../agent/toolsets/open-toolsets.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { copySkill, type SkillCopy } from "../../skill/source/skill-copy.ts";
import type { Tool, ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import type { Redactor } from "../../util/redact.ts";
import { findNearest, truncateLine } from "../../util/text.ts";
import { escapeForTerminal } from "../../util/untrusted-text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  discoverForRun,
  discoverWithCapabilities,
  EXIT,
  formatExamples,
  NOT_A_TERMINAL,
  requireConfiguration,
} from "../command-context.ts";
import { formatInputSchema, formatMcpServers, listMcpServers } from "../format.ts";
import {
  type CommandIo,
  createInterruptSignal,
  createPrinter,
  type Printer,
  printHanging,
  printJson,
  printProblem,
  runUntilInterrupted,
} from "../output.ts";
import { runWithWaitIndicator } from "../progress.ts";
import { askForPendingTrust, createApprovalPrompt, isPendingTrust } from "../run-output.ts";
import { failMissingSkill } from "./show.ts";

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
  const provider = name.replace(/(?:\.|__).*$/s, "");
  const message = `Skill "${provider}" has no tools`;
  if (found.catalog.has(provider))
    return new SkillError("usage", { message, fix: "list the tools of all skills", commands: ["skillet tools"] });
  const meant = findNearest(provider, names);
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

async function readCallInput(io: CommandIo, value: string | undefined): Promise<unknown> {
  if (value === undefined) return {};
  try {
    const text = value.startsWith("@") ? readFileSync(resolve(io.cwd, value.slice(1)), "utf8") : value;
    return JSON.parse(value === "-" ? ((await io.stdin?.()) ?? "") : text);
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

/** `skillet tools`. */
export const toolsCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("List the tools that skills provide, with their problems")
      .argument("[skill]", "A skill, or a server of [tools.mcp]. Defaults to every skill with toolsets.")
      .addHelpText("after", formatExamples("skillet tools", "skillet tools my-skill --json")),
  run: listTools,
};

/** Lists the tools of skills, each imported as in a run; or those of a server, by its name. */
export async function listTools({ io, options, args }: CommandContext<object>): Promise<number> {
  const [name] = args;
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  const named = name === undefined ? undefined : found.catalog.find(name);
  const server = await runWithWaitIndicator(io, `starting ${name}`, () =>
    name === undefined || named ? undefined : runUntilInterrupted(io, () => openMcpServerTools(found, name)),
  );
  if (name !== undefined && !named && !server) return failMissingSkill(io, found, name);
  const rows: ToolProvider[] = server ? [server] : [];
  server?.close();
  await runWithWaitIndicator(io, "importing toolsets", async ({ at }) => {
    for (const skill of server ? [] : named ? [named] : listSkillsWithTools(found)) {
      at(`importing the tools of ${skill.name}`);
      for (const row of await runUntilInterrupted(io, () => openSkillTools(found, [skill]))) {
        row.close(); // One thread at a time.
        rows.push(row);
      }
    }
  });
  if (options.json) printJson(io.stdout, { skills: rows.map(toToolProviderJson) });
  else {
    for (const row of rows) printToolProvider(io, row);
    if (rows.every((row) => row.tools.length + row.problems.length === 0)) printNoTools(io, name, server !== undefined);
    if (name === undefined) printServerHint(io, found);
  }
  return getToolsExitCode(rows, name !== undefined);
}

function printNoTools(io: CommandIo, name: string | undefined, isServer: boolean): void {
  const out = createPrinter(io.stderr, io.env);
  if (isServer) out.line`${name ?? ""} has no tools`;
  else
    out.line`${name === undefined ? "no skill provides tools" : `${name} provides no tools`}: a skill lists its tools under toolsets`;
}

/** Prints the configured servers. They are not started for a list, which may take long. */
function printServerHint(io: CommandIo, found: DiscoverResult): void {
  const [first] = listMcpServers(found);
  if (!first) return;
  const out = createPrinter(io.stderr, io.env);
  out.line`${out.dim(`MCP servers: ${formatMcpServers(found)}`)}`;
  out.line`  ${out.cyan(`skillet tools ${first.name}`)} lists the tools of one, ${out.cyan("skillet doctor --tools")} checks all`;
}

/** Returns the exit code. Missing trust is a problem only if the skill was named. */
function getToolsExitCode(rows: readonly ToolProvider[], isNamed: boolean): number {
  const codes = rows.flatMap(({ problems }) => problems.map(({ code }) => code));
  if (codes.some((code) => !TRUST_PROBLEM_CODES.has(code))) return EXIT.findings;
  return isNamed && codes.length > 0 ? EXIT.refused : EXIT.fine;
}

const TRUST_PROBLEM_CODES = new Set(["untrusted", "changed"]);

function toToolProviderJson({ name, source, tools, problems }: ToolProvider): object {
  return {
    name,
    source,
    tools: tools.map((tool) => ({
      name: tool.name,
      description: tool.description,
      isMutating: tool.effect !== undefined,
      inputSchema: tool.inputSchema,
    })),
    problems,
  };
}

function printToolProvider(io: CommandIo, { name, source, tools, problems }: ToolProvider): void {
  const out = createPrinter(io.stdout, io.env);
  const error = createPrinter(io.stderr, io.env);
  if (tools.length > 0) out.line`${out.bold(name)} ${out.dim(source)}`;
  const widest = Math.max(0, ...tools.map((tool) => tool.name.length));
  for (const tool of tools) {
    const changes = tool.effect ? out.text` ${out.yellow("asks first")}` : "";
    out.line`  ${tool.name.padEnd(widest)}  ${truncateLine(tool.description, 200)}${changes}`;
    const takes = formatInputSchema(tool.inputSchema);
    if (takes !== "") out.line`    ${out.dim(truncateLine(takes, Math.min(out.width - 4, 300)))}`;
  }
  printToolProblems(error, problems);
}

/** Prints problems with their fixes. */
export function printToolProblems(out: Printer, problems: readonly Problem[]): void {
  for (const problem of problems)
    printProblem(out, TRUST_PROBLEM_CODES.has(problem.code) ? out.yellow("!") : out.red("✗"), problem);
}

/** The tools of a skill or server, or the reasons why they are missing. */
export interface ToolProvider {
  name: string;
  source: string;
  tools: readonly Tool[];
  problems: readonly Problem[];
  /** The skill that provides them; absent for a server. */
  of?: { skill: Skill; copy: SkillCopy };
  close(): void;
}

/** Opens the tools of skills: the only source of tools for commands. */
export async function openSkillTools(
  found: DiscoverResult,
  skills: readonly Skill[],
  onPrinted?: OutputListener,
): Promise<ToolProvider[]> {
  return Promise.all(skills.map((skill) => openToolsOfSkill(found, skill, onPrinted)));
}

/** Receives the output of their code. */
type OutputListener = (text: string) => void;

/** Lists the skills with tools that are available to this caller. */
export function listSkillsWithTools({ catalog, ...host }: DiscoverResult): Skill[] {
  return catalog.skills.filter(
    (skill) => skill.manifest.toolsets.length > 0 && findFirstDenial(skill, host)?.kind !== "access",
  );
}

async function openToolsOfSkill(
  found: DiscoverResult,
  skill: Skill,
  onPrinted: OutputListener = () => {},
): Promise<ToolProvider> {
  const head = { name: skill.name, source: skill.origin.source };
  try {
    const [untrusted] = skill.fetch ? [trustPolicy(skill, found) ?? []].flat() : [];
    if (untrusted) return { ...head, tools: [], problems: [untrusted], close: () => {} };
    await skill.fetch?.("all");
    const copy = await copySkill(skill);
    const { tools, problems, close } = await openToolsets(found, { skill, copy, onPrinted });
    return { ...head, tools: filterDisabledTools(found, tools), problems, of: { skill, copy }, close };
  } catch (error) {
    return { ...head, tools: [], problems: [toProblem(error)], close: () => {} };
  }
}

/** Removes the tools that the user disabled. */
function filterDisabledTools(found: DiscoverResult, tools: readonly Tool[]): readonly Tool[] {
  return tools.filter(({ name }) => !isToolDisabled(name, found));
}

/** Opens the tools of a configured server; undefined for an unknown name. */
export async function openMcpServerTools(found: DiscoverResult, server: string): Promise<ToolProvider | undefined> {
  const settings = found.settings.mcp.get(server);
  if (!settings) return undefined;
  const head = { name: server, source: "[tools.mcp]" };
  if (settings.enabled === false)
    return { ...head, tools: [], problems: [createDisabledProblem(server)], close: () => {} };
  const [{ listMcpTools }, { closeMcpServers }] = await Promise.all([
    import("../../agent/mcp-client/mcp-servers.ts"),
    import("../../util/system.ts"),
  ]);
  const { tools, problems } = await listMcpTools(found, (name) => name === server);
  const hiding = createHostRedactor(found);
  const most = found.settings.limits.toolOutput;
  return {
    ...head,
    tools: filterDisabledTools(found, tools).map((tool) => wrapHostTool(tool, most, hiding)),
    problems,
    close: () => void closeMcpServers(),
  };
}

function createDisabledProblem(server: string): Problem {
  return {
    code: "mcp-disabled",
    message: `MCP server '${server}' is disabled`,
    fix: `set enabled = true under [tools.mcp.${server}] in config.toml`,
  };
}
