import type { CapabilityList } from "../../capabilities/broker-protocol.ts";
import type { Broker } from "../../capabilities/capability-broker.ts";
import { BUILT_IN_TOOLS, type Host } from "../../config/host.ts";
import type { McpSettings, Settings } from "../../config/settings.ts";
import { formatFix, type Problem } from "../../errors/problem.ts";
import type { ApprovalRequest } from "../../host/approval.ts";
import type { Skill } from "../../skill/skill.ts";
import { type CallOptions, catchToolErrors, type Tool, type ToolResult } from "../../skill/tool.ts";
import { resolveToolName, toDottedToolName } from "../../skill/tool-names.ts";
import { getSkillLocation } from "../../store/trust.ts";
import type { Redactor } from "../../util/redact.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { enabledPolicy } from "../policy/skill-policies.ts";
import type { TaintTracker } from "../policy/taint-tracker.ts";
import { emitRunEvent, type StepRunner } from "../run/step-runner.ts";
import type { PreparedUse } from "../run/sub-agent.ts";
import { formatOrigins } from "../run/tool-policy.ts";
import type { RunContext, StartedUse } from "../run/use-skill.ts";
import { frameOutput, shortenMiddle, wrapHostTool } from "./tool-output.ts";

/** Tools from the skill's own toolsets and from the MCP servers that the user configured. */
export interface ContributedTools {
  tools: readonly Tool[];
  /** The names of the tools that the skill itself provides. */
  ownNames: readonly string[];
  /** Sources that failed. The run continues without their tools. */
  problems: readonly Problem[];
  close(): void;
}

/** Opens the contributed tools of a run. Loads and starts only what is needed. */
export async function openContributedTools(use: StartedUse, prepared: PreparedUse): Promise<ContributedTools> {
  const [toolsets, servers] = await Promise.all([openOwnToolsets(use, prepared), listServerTools(use, prepared)]);
  const given = (use.host.tools ?? []).map(({ name }) => name);
  const own = toolsets.tools.filter(({ name }) => !given.includes(name));
  const names = [...given, ...own.map(({ name }) => name)];
  const lost = [
    ...toolsets.tools.filter((tool) => !own.includes(tool)),
    ...servers.tools.filter(({ name }) => names.includes(name)),
  ];
  return {
    tools: [...own, ...servers.tools].filter((tool) => !lost.includes(tool)),
    ownNames: own.map(({ name }) => name),
    problems: [...toolsets.problems, ...servers.problems, ...lost.map(createCollisionProblem)],
    close: toolsets.close,
  };
}

/** Creates the problem for a tool whose name is already taken. A server may share a skill's name, and a program may use any name. */
function createCollisionProblem({ name, owner }: Tool): Problem {
  return {
    code: "tool-collision",
    message: `Tool '${name}' is not available: another tool has this name`,
    fix: owner
      ? "the embedding program has a tool of this name: rename one of them"
      : "give the server another name under [tools.mcp] in config.toml",
  };
}

async function openOwnToolsets(
  { host }: StartedUse,
  { skill, copy, redactor }: PreparedUse,
): Promise<Omit<ContributedTools, "ownNames">> {
  if (skill.manifest.toolsets.length === 0) return { tools: [], problems: [], close: () => {} };
  const { openToolsets } = await import("../toolsets/open-toolsets.ts");
  return openToolsets(host, { skill, copy, redactor });
}

async function listServerTools(
  { host, chain, signal }: StartedUse,
  { skill, redactor }: PreparedUse,
): Promise<Pick<ContributedTools, "tools" | "problems">> {
  const { settings } = host;
  const needed = selectMcpServers(settings, [...listAllowedTools(chain), skill.manifest.tools.allowed]);
  if (needed.size === 0) return { tools: [], problems: [] };
  const { listMcpTools } = await import("../mcp-client/mcp-servers.ts");
  const { tools, problems } = await listMcpTools(host, (name) => needed.has(name), { signal });
  return { tools: tools.map((tool) => wrapHostTool(tool, settings.limits.toolOutput, redactor)), problems };
}

function listAllowedTools({ toolPolicies }: RunContext): readonly (readonly string[])[] {
  return toolPolicies.map(({ allowed }) => allowed);
}

/**
 * Selects the servers whose tools a run can use. The lists of its skill and of each calling skill must all allow one; an empty list
 * allows every server.
 */
export function selectMcpServers(
  { mcp, tools }: Pick<Settings, "mcp" | "tools">,
  allowed: readonly (readonly string[])[],
): ReadonlySet<string> {
  const hasSearch = tools.webSearch?.provider !== undefined;
  const builtIn = new Set(BUILT_IN_TOOLS.flatMap(({ name, needs }) => (needs !== "search" || hasSearch ? name : [])));
  const names = [...mcp].flatMap(([name, settings]) => {
    const isNeeded = allowed.every(
      (entries) => entries.length === 0 || entries.some((entry) => mayNameTool(entry, name, settings, builtIn)),
    );
    return settings.enabled !== false && isNeeded ? [name] : [];
  });
  return new Set(names);
}

/** Returns true if an entry may name a tool of this server. */
function mayNameTool(entry: string, server: string, { tools }: McpSettings, builtIn: ReadonlySet<string>): boolean {
  const name = toDottedToolName(entry);
  const star = name.indexOf("*");
  if (star !== -1) {
    const before = name.slice(0, star);
    return before.startsWith(`${server}.`) || `${server}.`.startsWith(before);
  }
  if (name.includes(".")) return name.startsWith(`${server}.`);
  const ours = resolveToolName(name);
  if (builtIn.has(ours)) return false;
  return tools?.some((tool) => tool === name || tool === ours) ?? true;
}

type CapabilityOperation = CapabilityList["capabilities"][number]["operations"][number];

/** Creates a tool for each operation of the skill's capabilities, for example `notes.notes.add`. The broker asks for approval. */
export async function createCapabilityTools(broker: Broker, max: number): Promise<Tool[]> {
  const { capabilities } = await broker.list();
  return capabilities.flatMap(({ id, operations }) =>
    operations.map((operation) => createOperationTool(broker, id, operation, max)),
  );
}

/** Returns true if a skill needs capability tools instead of a shell command: it has no shell for that, or names the tools. */
export function prefersCapabilityTools({ manifest: { capabilities, tools } }: Skill, hasShell: boolean): boolean {
  const isNamed = tools.allowed.some((entry) => {
    const name = toDottedToolName(entry);
    return capabilities.some((id) => id.startsWith(name.replace(/\*$/, "")) || name.startsWith(`${id}.`));
  });
  return isNamed || !hasShell;
}

function createOperationTool(broker: Broker, capability: string, operation: CapabilityOperation, max: number): Tool {
  const { name, description, mutating, input } = operation;
  const says = mutating ? `${description} It makes changes: the user approves each call.` : description;
  const tool = `${capability}.${name}`;
  return {
    name: tool,
    description: sanitizeLine(says, 1000),
    category: "capabilities",
    inputSchema: input,
    ...(mutating ? {} : { isReadOnly: true }),
    execute: (given, options) =>
      catchToolErrors(async (): Promise<ToolResult> => {
        const answer = await broker
          .forCall(readCallId(options))
          .invoke({ capability, operation: name, input: given ?? {} });
        if (!answer.ok) {
          const { code, message } = answer.error;
          const fix = formatFix(answer.error);
          const said = [`${code}: ${message}`, ...(fix === "" ? [] : [`next: ${fix}`])].join("\n");
          return { ...frameOutput({ tool, label: "untrusted" }, said), isError: true, code };
        }
        const { output, approval } = answer.result;
        const text = JSON.stringify(output, null, 2);
        const attributes = { tool, label: "untrusted", ...(typeof approval === "string" ? { approval } : {}) };
        return { ...frameOutput(attributes, shortenMiddle(text, max)), isError: false };
      }),
  };
}

interface RunBrokerOptions {
  id: string;
  skill: Skill;
  host: Host;
  steps: StepRunner;
  redactor: Redactor;
  /** Returns the end of its time, as `Date.now()` counts. */
  getDeadline(): number;
  signal: AbortSignal;
  taint: TaintTracker;
  /** Returns why it may no longer call anything. Defaults to a check whether its own skill is disabled. */
  findRevocation?(): Problem | undefined;
}

/** Creates the broker between a run and the capabilities of its skill. Returns undefined if the skill declares none. */
export async function createRunBroker(given: RunBrokerOptions): Promise<Broker | undefined> {
  const { skill, host, steps, redactor, signal, taint } = given;
  const { capabilities, caller } = host;
  if (!capabilities || skill.manifest.capabilities.length === 0) return undefined;
  const { createBroker } = await import("../../capabilities/capability-broker.ts"); // Loaded only when a skill has capabilities.
  const whose = { run: given.id, skill: skill.name };
  const hide = (text: string) => redactor.redact(text);
  const ask = async (name: string, request: ApprovalRequest, asking: AbortSignal, callId: string) => {
    const about = { step: Number.parseInt(callId, 10) || 0, tool: request.tool };
    const { approval } = await steps.requestApproval(name, {
      ...{ request, signal: asking, redact: hide },
      onRequested: () => emitRunEvent(steps, whose, { type: "approval-requested", ...about, approvalRequest: request }),
      onAnswered: (word) => emitRunEvent(steps, whose, { type: "approval-decided", ...about, ...word }),
    });
    return approval;
  };
  return createBroker(capabilities, {
    ...{
      run: given.id,
      skill,
      path: getSkillLocation(skill),
      caller,
      signal,
      redact: hide,
      getDeadline: given.getDeadline,
    },
    findRevocation: given.findRevocation ?? (() => enabledPolicy(skill, host)),
    step: (name, work) => steps.step(name, work),
    findStep: (name) => steps.findStep(name),
    requestApproval: ask,
    findOrigins: (value, schema) => formatOrigins(taint.findOrigins(value, schema), redactor),
    addOrigin: (label, text) => taint.addUntrusted({ label }, text),
    onCalled: (called) => emitRunEvent(steps, whose, { type: "capability-called", ...called }),
  });
}

/** Returns the call's position in its run, `3.2` for the second call of the third step. It is the last part of its key. */
export function readCallId({ key, run }: CallOptions = {}): string {
  return key?.slice((run?.length ?? -1) + 1) ?? "0";
}

/** Returns the deadline of a time limit that starts now. Time spent waiting for users does not count. */
export function createDeadline(seconds: number, { waited }: Pick<StepRunner, "waited">): () => number {
  const end = Date.now() + seconds * 1000 - waited();
  return () => end + waited();
}
