import { isUtf8 } from "node:buffer";
import type { CapabilityList } from "../../capabilities/broker-protocol.ts";
import type { Broker } from "../../capabilities/capability-broker.ts";
import { getRemoteAttributes } from "../../catalog/skill-content.ts";
import { BUILT_IN_TOOLS, type Host } from "../../config/host.ts";
import type { McpSettings, Settings } from "../../config/settings.ts";
import { formatFix, type Problem } from "../../errors/problem.ts";
import type { ApprovalRequest } from "../../host/approval.ts";
import { isPrivateFile, type Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import {
  type CallOptions,
  catchToolErrors,
  createTool,
  type ParameterValues,
  type Tool,
  type ToolParameters,
  type ToolResult,
} from "../../skill/tool.ts";
import { resolveToolName, toDottedToolName } from "../../skill/tool-names.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { omitUndefined } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { formatCount, formatNumber } from "../../util/text.ts";
import { sanitizeLine, wrapInTag } from "../../util/untrusted-text.ts";
import { enabledPolicy } from "../policy/skill-policies.ts";
import type { TaintTracker } from "../policy/taint-tracker.ts";
import { emitRunEvent, type StepRunner } from "../run/step-runner.ts";
import type { PreparedUse } from "../run/sub-agent.ts";
import { COMPLETE_TOOL, formatOrigins } from "../run/tool-policy.ts";
import type { ParentRun, RunContext, StartedUse, UseRequest } from "../run/use-skill.ts";
import { frameOutput, shortenMiddle, wrapHostTool } from "./tool-output.ts";

const SKILL_TOOL_CATEGORY = "skills";
const SKILL_PARAMETER = {
  type: "string",
  description: "the skill's name",
  isRequired: true,
  aliases: ["skill_name"],
} as const;

/** Creates the tool that lists skills, with a note if a nearer copy of one does not load. */
export function createListTool(list: () => Promise<ToolResult>): Tool {
  return createTool(
    {
      name: "list_skills",
      description: "Lists the available skills: name, description, version and tags, as JSON.",
      category: SKILL_TOOL_CATEGORY,
      isReadOnly: true,
      parameters: {},
    },
    list,
  );
}

/** Creates the tool with which a model delegates a task to a skill. */
export function createUseTool(
  use: (request: UseRequest, within: ParentRun | undefined, options: CallOptions) => Promise<ToolResult>,
): SubRunTool {
  return createSubRunTool(
    {
      name: "use_skill",
      description:
        "Delegates a task to a skill, which runs as a sub-agent with its own model, tools and limits and returns only the result. It does not see this conversation: pass the information it needs.",
      category: SKILL_TOOL_CATEGORY,
      parameters: {
        skill: SKILL_PARAMETER,
        message: { type: "string", description: "the task, in complete sentences" },
        context: { type: "string", description: "the facts from this conversation that it needs" },
        input: { type: "object", description: "input for a skill with an input schema" },
      },
    },
    ({ skill, message, context, input }, options, within) =>
      use(
        { skill, by: "model", ...omitUndefined({ message, context, input, signal: options.signal }) },
        within,
        options,
      ),
  );
}

/** Creates the tool with which a sub-agent ends its run. */
export function createCompleteTool(): Tool {
  return createTool(
    {
      name: COMPLETE_TOOL,
      description: "Ends the task with its result. Nothing else is passed on.",
      category: SKILL_TOOL_CATEGORY,
      parameters: {
        result: {
          type: "string",
          description: "the complete result; on failure, name the missing parts and what you tried",
          isRequired: true,
        },
        failed: { type: "boolean", description: "true if the task could not be done" },
      },
    },
    async ({ result }) => ({ text: result, isError: false }),
  );
}

/** Creates the tool that reads files of skills. `find` resolves the skill; if there is only one, its name is optional. */
export function createResourceTool(
  find: (name: string | undefined) => Promise<Skill | { refusal: ToolResult }>,
  only?: Skill,
): Tool {
  return createTool(
    {
      name: "read_skill_resource",
      description: "Reads a file of a skill, as listed by load_skill.",
      category: SKILL_TOOL_CATEGORY,
      isReadOnly: true,
      parameters: {
        skill: only
          ? { ...SKILL_PARAMETER, description: `the skill's name; defaults to ${only.name}`, isRequired: false }
          : SKILL_PARAMETER,
        resource: {
          type: "string",
          description: "the file's path, as listed",
          isRequired: true,
          aliases: ["resource_name"],
        },
        offset: { type: "number", description: "the character offset at which to continue a long file" },
      },
    },
    async ({ skill, resource, offset = 0 }) => {
      const found = await find(skill);
      if ("refusal" in found) return found.refusal;
      const path = resource.replace(/^(?:\.\/)+/, "");
      await found.fetch?.([path]);
      return await readResource(found, path, Math.max(0, Math.floor(offset)));
    },
  );
}

/** A tool whose call is a nested run with its own steps and limits. */
interface SubRunTool extends Tool {
  executeInRun(input: unknown, options: CallOptions, within: ParentRun): Promise<ToolResult>;
}

export function isSubRunTool(tool: Tool): tool is SubRunTool {
  return "executeInRun" in tool;
}

/** Creates a tool whose call is a nested run. `within` is the calling run, or undefined outside of a run. */
export function createSubRunTool<P extends ToolParameters>(
  head: ToolHead<P>,
  run: (values: ParameterValues<P>, options: CallOptions, within: ParentRun | undefined) => Promise<ToolResult>,
): SubRunTool {
  const bound = (within: ParentRun | undefined) => createTool(head, (values, options) => run(values, options, within));
  return {
    ...bound(undefined),
    executeInRun: (input, options, within) => bound(within).execute(input, options),
  };
}

type ToolHead<P extends ToolParameters> = { name: string; description: string; category: string; parameters: P };

/** Creates a tool of the category `skills` from a table of its parameters. */
export function createSkillTool<P extends ToolParameters>(
  name: string,
  description: string,
  parameters: P,
  run: (values: ParameterValues<P>, options: CallOptions) => Promise<ToolResult>,
): Tool {
  return createTool({ name, description, category: "skills", parameters }, run);
}

/** The maximum number of characters of a file per call. */
const MAX_RESOURCE_CHARACTERS = 48_000;

/** Reads a file of a skill for a model. Throws a SkillError for a file that the skill does not list. */
async function readResource(skill: Skill, path: string, offset: number): Promise<ToolResult> {
  if ((await listSkillScripts(skill)).some((script) => script.path === path)) {
    const content = `"${sanitizeLine(path)}" of skill '${sanitizeLine(skill.name, 64)}' is a script: run it with run_skill_script; scripts cannot be read.`;
    return { text: content, isError: true, code: "resource-script" };
  }
  const bytes = await skill.read(path);
  if (isPrivateFile(path)) {
    const content = `"${sanitizeLine(path)}" of skill '${sanitizeLine(skill.name, 64)}' is private: its name starts with a dot.`;
    return { text: content, isError: true, code: "resource-private" };
  }
  if (!isUtf8(bytes) || bytes.includes(0)) {
    const content = `"${sanitizeLine(path)}" of skill '${sanitizeLine(skill.name, 64)}' is ${describeFileKind(bytes)} of ${formatCount(bytes.length, "byte")}, not text.`;
    return { text: content, isError: true, code: "resource-binary" };
  }
  const text = Buffer.from(bytes).toString("utf8");
  const portion = text.slice(offset, offset + MAX_RESOURCE_CHARACTERS).replace(/[\ud800-\udbff]$/, "");
  const end = offset + portion.length;
  const more =
    end < text.length
      ? `\n[${formatCount(end, "character")} of ${formatNumber(text.length)}; continue with offset ${end}]`
      : "";
  return {
    text: `${wrapInTag("skill_resource", { skill: skill.name, path, ...getRemoteAttributes(skill) }, portion)}${more}`,
    output: portion,
    isError: false,
  };
}

/** The first bytes of known file types. */
const FILE_SIGNATURES: readonly (readonly [kind: string, start: readonly number[], at?: number])[] = [
  ["a PNG image", [0x89, 0x50, 0x4e, 0x47]],
  ["a JPEG image", [0xff, 0xd8, 0xff]],
  ["a GIF image", [0x47, 0x49, 0x46, 0x38]],
  ["a WebP image", [0x57, 0x45, 0x42, 0x50], 8],
  ["a PDF document", [0x25, 0x50, 0x44, 0x46]],
  ["a ZIP archive (also .docx, .xlsx, .pptx, .jar)", [0x50, 0x4b, 0x03, 0x04]],
  ["a gzip archive", [0x1f, 0x8b]],
  ["an xz archive", [0xfd, 0x37, 0x7a, 0x58, 0x5a]],
  ["a zstd archive", [0x28, 0xb5, 0x2f, 0xfd]],
  ["a 7z archive", [0x37, 0x7a, 0xbc, 0xaf]],
  ["a tar archive", [0x75, 0x73, 0x74, 0x61, 0x72], 257],
  ["an ELF program", [0x7f, 0x45, 0x4c, 0x46]],
  ["a Windows program", [0x4d, 0x5a]],
  ["a Mach-O program", [0xcf, 0xfa, 0xed, 0xfe]],
  ["WebAssembly", [0x00, 0x61, 0x73, 0x6d]],
  ["a SQLite database", [0x53, 0x51, 0x4c, 0x69, 0x74, 0x65]],
  ["an Ogg recording", [0x4f, 0x67, 0x67, 0x53]],
  ["an MP3 recording", [0x49, 0x44, 0x33]],
  ["a RIFF file (WAV or AVI)", [0x52, 0x49, 0x46, 0x46]],
  ["an MP4 video", [0x66, 0x74, 0x79, 0x70], 4],
  ["a font", [0x77, 0x4f, 0x46]],
  ["a TrueType font", [0x00, 0x01, 0x00, 0x00]],
  ["UTF-16 text", [0xff, 0xfe]],
  ["UTF-16 text", [0xfe, 0xff]],
];

/** Describes the type of bytes that are not text. */
export function describeFileKind(bytes: Uint8Array): string {
  const kind = FILE_SIGNATURES.find(([, start, at = 0]) => start.every((byte, index) => bytes[at + index] === byte));
  return kind?.[0] ?? "binary data";
}

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
  const hostNames = (use.host.tools ?? []).map(({ name }) => name);
  const own = toolsets.tools.filter(({ name }) => !hostNames.includes(name));
  const names = [...hostNames, ...own.map(({ name }) => name)];
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
    execute: (value, options) =>
      catchToolErrors(async (): Promise<ToolResult> => {
        const answer = await broker
          .forCall(readCallId(options))
          .invoke({ capability, operation: name, input: value ?? {} });
        if (!answer.ok) {
          const { code, message } = answer.error;
          const fix = formatFix(answer.error);
          const text = [`${code}: ${message}`, ...(fix === "" ? [] : [`next: ${fix}`])].join("\n");
          return { ...frameOutput({ tool, label: "untrusted" }, text), isError: true, code };
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
export async function createRunBroker(options: RunBrokerOptions): Promise<Broker | undefined> {
  const { skill, host, steps, redactor, signal, taint } = options;
  const { capabilities, caller } = host;
  if (!capabilities || skill.manifest.capabilities.length === 0) return undefined;
  const { createBroker } = await import("../../capabilities/capability-broker.ts"); // Loaded only when a skill has capabilities.
  const whose = { run: options.id, skill: skill.name };
  const hide = (text: string) => redactor.redact(text);
  const ask = async (name: string, request: ApprovalRequest, asking: AbortSignal, callId: string) => {
    const about = { step: Number.parseInt(callId, 10) || 0, tool: request.tool };
    const { approval } = await steps.requestApproval(name, {
      ...{ request, signal: asking, redact: hide },
      onRequested: () => emitRunEvent(steps, whose, { type: "approval-requested", ...about, approvalRequest: request }),
      onAnswered: (answer) => emitRunEvent(steps, whose, { type: "approval-decided", ...about, ...answer }),
    });
    return approval;
  };
  return createBroker(capabilities, {
    ...{
      run: options.id,
      skill,
      path: getSkillLocation(skill),
      caller,
      signal,
      redact: hide,
      getDeadline: options.getDeadline,
    },
    findRevocation: options.findRevocation ?? (() => enabledPolicy(skill, host)),
    step: (name, work) => steps.step(name, work),
    findStep: (name) => steps.findStep(name),
    underLease: (work) => steps.underLease(work),
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
