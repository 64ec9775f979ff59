import type { CapabilityList } from "../../capabilities/broker-protocol.ts";
import type { Broker } from "../../capabilities/capability-broker.ts";
import { BUILT_IN_TOOLS, type Host } from "../../config/host.ts";
import type { McpSettings, Settings } from "../../config/settings.ts";
import type { Problem } from "../../errors/problem.ts";
import type { ApprovalRequest } from "../../host/approval.ts";
import type { Skill } from "../../skill/skill.ts";
import { catchToolErrors, type Tool, type ToolResult } from "../../skill/tool.ts";
import { resolveToolName, toDottedToolName } from "../../skill/tool-names.ts";
import { getSkillLocation } from "../../store/trust.ts";
import type { Redactor } from "../../util/redact.ts";
import { sanitizeLine, wrapInTag } from "../../util/untrusted-text.ts";
import { enabledPolicy } from "../policy/skill-policies.ts";
import type { TaintTracker } from "../policy/taint-tracker.ts";
import { emitRunEvent, type StepRunner } from "../run/step-runner.ts";
import type { PreparedUse } from "../run/sub-agent.ts";
import { formatOrigins } from "../run/tool-policy.ts";
import type { RunContext, StartedUse } from "../run/use-skill.ts";
import { shortenMiddle, wrapHostTool } from "./tool-output.ts";

/** Tools from elsewhere: those of the skill's own toolsets, and of servers that the user configured. */
export interface ContributedTools {
  tools: readonly Tool[];
  /** Which of them the skill brings itself. */
  own: readonly string[];
  /** What could not be had. The run goes on without. */
  problems: readonly Problem[];
  close(): void;
}

/** Only who needs any of it loads and starts it. */
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
    own: own.map(({ name }) => name),
    problems: [...toolsets.problems, ...servers.problems, ...lost.map(createCollisionProblem)],
    close: toolsets.close,
  };
}

/** A server may have the name of a skill, and a program a tool of any name. */
function createCollisionProblem({ name, owner }: Tool): Problem {
  return {
    code: "tool-collision",
    message: `Tool '${name}' is not there: another one has this name`,
    fix: owner
      ? "the program around it has a tool of this name: call one of them otherwise"
      : "give the server another name under [tools.mcp] in config.toml",
  };
}

async function openOwnToolsets(
  { host }: StartedUse,
  { skill, copy, hiding }: PreparedUse,
): Promise<Omit<ContributedTools, "own">> {
  if (skill.manifest.toolsets.length === 0) return { tools: [], problems: [], close: () => {} };
  const { openToolsets } = await import("../toolsets/open-toolsets.ts");
  return openToolsets(host, { skill, copy, hiding });
}

async function listServerTools(
  { host, chain, signal }: StartedUse,
  { skill, hiding }: PreparedUse,
): Promise<Pick<ContributedTools, "tools" | "problems">> {
  const { settings } = host;
  const needed = selectMcpServers(settings, [...listAllowedTools(chain), skill.manifest.tools.allowed]);
  if (needed.size === 0) return { tools: [], problems: [] };
  const { listMcpTools } = await import("../mcp-client/mcp-servers.ts");
  const { tools, problems } = await listMcpTools(host, (name) => needed.has(name), { signal });
  return { tools: tools.map((tool) => wrapHostTool(tool, settings.limits.toolOutput, hiding)), problems };
}

function listAllowedTools({ gates }: RunContext): readonly (readonly string[])[] {
  return gates.map(({ allowed }) => allowed);
}

/**
 * The servers that a run can have tools of, by what its skill and those that called it allow: each list must let it have one. An empty
 * list lets it have all.
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

/** Whether an entry may mean a tool of this server. */
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

/** Every operation of the skill's capabilities as a tool: `notes.notes.add`. The broker asks whoever is to be asked. */
export async function createCapabilityTools(broker: Broker, most: number): Promise<Tool[]> {
  const { capabilities } = await broker.list();
  return capabilities.flatMap(({ id, operations }) =>
    operations.map((operation) => createOperationTool(broker, id, operation, most)),
  );
}

/** Whether a skill is better off with tools than with a command in a shell: it has none for that, or names them. */
export function prefersCapabilityTools({ manifest: { capabilities, tools } }: Skill, hasShell: boolean): boolean {
  const isNamed = tools.allowed.some((entry) => {
    const name = toDottedToolName(entry);
    return capabilities.some((id) => id.startsWith(name.replace(/\*$/, "")) || name.startsWith(`${id}.`));
  });
  return isNamed || !hasShell;
}

function createOperationTool(broker: Broker, capability: string, operation: CapabilityOperation, most: number): Tool {
  const { name, description, mutating, input } = operation;
  const says = mutating ? `${description} It changes something: the user is asked each time.` : description;
  const tool = `${capability}.${name}`;
  return {
    name: tool,
    description: sanitizeLine(says, 1000),
    category: "capabilities",
    inputSchema: input,
    execute: (given) =>
      catchToolErrors(async (): Promise<ToolResult> => {
        const answer = await broker.invoke({ capability, operation: name, input: given ?? {} });
        if (!answer.ok) {
          const { code, message, fix } = answer.error;
          const said = [`${code}: ${message}`, ...(fix === undefined ? [] : [`next: ${fix}`])].join("\n");
          return { content: wrapInTag("skill_output", { tool, label: "untrusted" }, said), isError: true, code };
        }
        const { output, approval } = answer.result;
        const text = JSON.stringify(output, null, 2);
        const attributes = { tool, label: "untrusted", ...(typeof approval === "string" ? { approval } : {}) };
        return { content: wrapInTag("skill_output", attributes, shortenMiddle(text, most)), isError: false };
      }),
  };
}

interface RunBrokerOptions {
  id: string;
  skill: Skill;
  host: Host;
  port: StepRunner;
  hiding: Redactor;
  /** When its time is over, as `Date.now` counts. */
  until(): number;
  signal: AbortSignal;
  taint: TaintTracker;
  /** Why it may call nothing any more. Defaults to whether its own skill is disabled. */
  revoked?(): Problem | undefined;
}

/** Who stands between a run and the capabilities that its skill declares. Nobody where it declares none. */
export async function createRunBroker(given: RunBrokerOptions): Promise<Broker | undefined> {
  const { skill, host, port, hiding, signal, taint } = given;
  const { capabilities, caller } = host;
  if (!capabilities || skill.manifest.capabilities.length === 0) return undefined;
  const { createBroker } = await import("../../capabilities/capability-broker.ts"); // Only who has any loads what it needs.
  const whose = { run: given.id, skill: skill.name };
  const hide = (text: string) => hiding.text(text);
  let place = "0";
  const ask = async (name: string, effect: ApprovalRequest, asking: AbortSignal) => {
    const about = { step: Number.parseInt(place, 10) || 0, tool: effect.tool };
    const { approval } = await port.approval(name, {
      ...{ effect, signal: asking, hide },
      onAsked: () => emitRunEvent(port, whose, { type: "approval-asked", ...about, effect }),
      onGiven: (word) => emitRunEvent(port, whose, { type: "approval-given", ...about, ...word }),
    });
    return approval;
  };
  const broker = createBroker(capabilities, {
    ...{ run: given.id, skill, place: getSkillLocation(skill), caller, signal, hide, until: given.until },
    revoked: given.revoked ?? (() => enabledPolicy(skill, host)),
    step: (name, work) => port.step(name, work),
    done: (name) => port.done(name),
    agree: ask,
    originsOf: (value, schema) => formatOrigins(taint.originsOf(value, schema), hiding),
    addOrigin: (label, text) => taint.add({ label }, text),
    onCalled: (called) => emitRunEvent(port, whose, { type: "capability-called", ...called }),
  });
  return {
    ...broker,
    at(at) {
      place = at;
      broker.at(at);
    },
  };
}

/** When time that begins now will be over; how long people are waited for does not count. */
export function createDeadline(seconds: number, { waited }: Pick<StepRunner, "waited">): () => number {
  const end = Date.now() + seconds * 1000 - waited();
  return () => end + waited();
}
