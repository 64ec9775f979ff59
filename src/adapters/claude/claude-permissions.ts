import { isAbsolute, join, relative, resolve } from "node:path";
import { OPEN_SECTIONS } from "../../agent/prompts/prompt-section.ts";
import { callTool, type ToolApproval } from "../../agent/run/call-tool.ts";
import { summarizeInput } from "../../agent/run/redaction.ts";
import { emitRunEvent, type StepRunner } from "../../agent/run/step-runner.ts";
import { createToolPolicies, findToolBlock, type ToolPolicy } from "../../agent/run/tool-policy.ts";
import { formatProblem } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import type { Tool, ToolResult } from "../../skill/tool.ts";
import { isToolCallGranted } from "../../skill/tool-grants.ts";
import { resolveToolName } from "../../skill/tool-names.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { isInside, resolveRealPath } from "../../util/safe-path.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { resolveBridgedName } from "./claude-transcript.ts";

export interface PermissionOptions {
  run: string;
  steps: StepRunner;
  redactor: Redactor;
  signal: AbortSignal;
  folders: ClaudeFolders;
  /** The enabled tools of Claude. */
  tools: readonly string[];
  /** Rules for calls that need no approval. */
  allowedTools: readonly string[];
  /** Returns the current tools of the prompt. */
  listBridgedTools(): readonly Tool[];
  /** The installed skills, by name; undefined if those of the user are used. */
  installed: ReadonlyMap<string, Skill> | undefined;
  /** Returns the current step of the model. */
  step(): number;
}

/** The reason for a refusal, for the model; undefined if the call is allowed. */
type PermissionRefusal = { code: string; message: string } | undefined;

/** Decides about calls one after the other: calling a skill changes which calls are allowed after it. */
export interface ToolPermissions {
  check(call: { tool: string; input: unknown }): Promise<PermissionRefusal>;
}

/** Creates the permissions of a run: the tool-call pipeline, with Claude in place of the execution. */
export function createToolPermissions(options: PermissionOptions): ToolPermissions {
  const { run, steps, redactor, step } = options;
  const approvedKeys = new Set<string>();
  let active: GatedSkill | undefined;
  const findRefusal = (call: PermissionCall): PermissionRefusal => {
    if (call.tool !== SKILL_TOOL || call.bridged || !options.installed) return findPolicyRefusal(call, active, options);
    const named = findNamedSkill(call.input, options.installed);
    if ("code" in named) return named;
    active = gateSkill(named, options);
    return undefined;
  };
  return {
    async check({ tool: name, input }) {
      const call = createPermissionCall(name, input, options);
      const { tool } = call;
      let refused: PermissionRefusal;
      await callTool(call.bridged ?? describeAsTool(call, options.folders), input, {
        findRefusal() {
          const refusal = isUnchecked(call, options) ? undefined : findRefusal(call);
          return refusal && { text: refusal.message, isError: true, code: refusal.code };
        },
        approval: createPermissionApproval(call, active, approvedKeys, options),
        createOptions: () => ({}),
        execute: async () => ALLOWED_RESULT,
        redactor,
        journal: {
          async recordRefusal(refusal) {
            const { code = "refused", text: message } = refusal;
            refused = { code, message };
            emitRunEvent(steps, { run, skill: "" }, { type: "tool-blocked", step: step(), tool, code, message });
            return refusal;
          },
        },
      });
      return refused;
    },
  };
}

/** Claude makes the call itself. */
const ALLOWED_RESULT: ToolResult = { text: "", isError: false };

/** Returns true for calls that change nothing but the prompt or the answer. */
function isUnchecked({ tool, bridged }: PermissionCall, { tools }: PermissionOptions): boolean {
  return tool === OPEN_SECTIONS || (tool === STRUCTURED_OUTPUT_TOOL && !bridged && tools.includes(tool));
}

interface GatedSkill {
  skill: Skill;
  gates: readonly ToolPolicy[];
}

interface PermissionCall {
  tool: string;
  input: unknown;
  /** The tool of the prompt, if it is one. */
  bridged: Tool | undefined;
  own: ReturnType<typeof parseClaudeToolCall>;
}

function createPermissionCall(
  name: string,
  input: unknown,
  { listBridgedTools: bridged, folders: ground }: PermissionOptions,
): PermissionCall {
  // By the full name: a tool of the prompt may have the name of one of Claude's.
  const bare = resolveBridgedName(name, bridged());
  const tool = bridged().find((one) => one.name === bare);
  const own = tool ? { place: undefined, input: isJsonObject(input) ? input : {}, readsOnly: () => false } : undefined;
  return { tool: bare ?? name, input, bridged: tool, own: own ?? parseClaudeToolCall(name, input, ground) };
}

function findNamedSkill(input: unknown, installed: ReadonlyMap<string, Skill>): Skill | NonNullable<PermissionRefusal> {
  const name = String(Object(input).skill ?? "").replace(/^\//, "");
  const skill = installed.get(name);
  if (skill) return skill;
  const names = [...installed.keys()].join(", ") || "none";
  return { code: "not-found", message: `Unknown skill "${sanitizeLine(name, 64)}". Installed skills: ${names}` };
}

function gateSkill(skill: Skill, { tools, listBridgedTools: bridged }: PermissionOptions): GatedSkill {
  const names = [...tools, ...bridged().map(({ name }) => name)];
  return { skill, gates: createToolPolicies([], skill, { names, own: [] }) };
}

/** Returns a refusal that no approval can override. */
function findPolicyRefusal(
  { tool, own, bridged }: PermissionCall,
  active: GatedSkill | undefined,
  options: PermissionOptions,
): PermissionRefusal {
  const { tools, folders: ground } = options;
  if (!bridged && !tools.includes(tool) && !tool.startsWith("mcp__"))
    return { code: "tool-unknown", message: `Unknown tool '${tool}'. Available tools: ${tools.join(", ")}` };
  if (isChangingTool(tool) && own.place !== undefined && isProtected(ground, own.place))
    return { code: "read-only", message: "Installed skills and their settings cannot be changed" };
  const blocked = active && findToolBlock(active.gates, tool, own.input);
  return blocked && { code: blocked.code, message: sanitizeLine(formatProblem(blocked), 512) };
}

/** Returns true for files that the agent may use but not change: everything in its home. */
function isProtected({ home, skillsDir }: ClaudeFolders, path: string): boolean {
  return skillsDir !== undefined && isInside(home, path);
}

function isChangingTool(tool: string): boolean {
  return CHANGING_TOOLS.has(resolveToolName(tool));
}

const CHANGING_TOOLS: ReadonlySet<string> = new Set(["write_file", "edit_file"]);

/** Returns how a call is approved, or undefined if it needs no approval. */
function createPermissionApproval(
  call: PermissionCall,
  active: GatedSkill | undefined,
  approvedKeys: Set<string>,
  options: PermissionOptions,
): ToolApproval | undefined {
  const { run, steps, redactor, signal, folders } = options;
  const { tool, bridged } = call;
  const loadsSkill = tool === SKILL_TOOL && !bridged && options.installed !== undefined;
  if (loadsSkill || isUnchecked(call, options) || isPreapproved(call, active, options)) return undefined;
  const skill = active?.skill;
  const owner = skill && { name: skill.name, source: skill.origin.source, location: skill.origin.folder ?? "" };
  const position = { step: options.step(), tool };
  const emit = (event: Parameters<typeof emitRunEvent>[2]) => emitRunEvent(steps, { run, skill: "" }, event);
  return {
    context: {
      ...{ run, skill: skill?.name ?? "", owner, toolPolicies: [], approvedKeys, redactor },
      workspace: folders.cwd,
    },
    ask: (request) =>
      steps.requestApproval(tool, {
        request,
        signal,
        redact: (text) => redactor.redact(text),
        onRequested: () => emit({ type: "approval-requested", ...position, approvalRequest: request }),
        onAnswered: (approval) => emit({ type: "approval-decided", ...position, ...approval }),
      }),
    subject: summarizeInput(call.own.input),
    unaskedFix: "",
  };
}

/** Returns true for calls allowed by the caller or the active skill, read-only calls, and tools without effect. */
function isPreapproved(
  { tool, own, bridged }: PermissionCall,
  active: GatedSkill | undefined,
  options: PermissionOptions,
): boolean {
  const { allowedTools, folders: ground } = options;
  if (bridged && !bridged.effect) return true;
  const declared = active?.gates.flatMap((gate) => gate.declared) ?? [];
  return (
    isToolCallGranted([...allowedTools, ...declared], tool, own.input) || own.readsOnly(ground.cwd, ground.skillsDir)
  );
}

/** Describes one of Claude's own tools for an approval request. */
function describeAsTool({ tool, own }: PermissionCall, { cwd }: ClaudeFolders): Tool {
  const isInWorkspace = isChangingTool(tool) && own.place !== undefined && isInside(cwd, own.place);
  return {
    name: tool,
    description: `Claude's tool ${tool}`,
    category: "workspace",
    inputSchema: {},
    effect: () => {
      const what = summarizeInput(own.input);
      return { on: isInWorkspace ? "workspace" : "outside", ...(what === undefined ? {} : { what }) };
    },
    execute: async () => ({ text: "", isError: true }),
  };
}

/** Tools that read files. Reading needs no approval in the allowed folders. */
export const READING_TOOLS: readonly string[] = ["Read", "Glob", "Grep"];
/** The tool for structured answers. */
export const STRUCTURED_OUTPUT_TOOL = "StructuredOutput";
/** The tool that loads an installed skill. */
export const SKILL_TOOL = "Skill";

/** The folders of a call. All are real paths. */
export interface ClaudeFolders {
  cwd: string;
  home: string;
  /** The folder of the installed skills. */
  skillsDir: string | undefined;
}

/** A parsed call of one of Claude's own tools. */
interface ClaudeToolCall {
  /** The real path of the call; the working directory for a search without a path. */
  place: string | undefined;
  /** The input in the form that `allowed-tools` rules match: relative to the working directory, if inside. */
  input: JsonObject;
  /** Returns true if the call can only read below these folders. */
  readsOnly(...roots: readonly (string | undefined)[]): boolean;
}

export function parseClaudeToolCall(tool: string, rawInput: unknown, ground: ClaudeFolders): ClaudeToolCall {
  const input = isJsonObject(rawInput) ? rawInput : {};
  const ours = resolveToolName(tool);
  const named = [input["file_path"], input["notebook_path"], input["path"]].find((one) => typeof one === "string");
  const location =
    typeof named === "string" ? resolveModelPath(named, ground) : SEARCHING_TOOLS.has(ours) ? ground.cwd : undefined;
  const path = location === undefined ? {} : { path: toRelativePath(ground.cwd, location) };
  return {
    place: location,
    input: { ...input, ...path },
    readsOnly: (...roots) =>
      READING_TOOLS.includes(tool) &&
      location !== undefined &&
      roots.some((root) => root !== undefined && isInside(root, location)) &&
      !(tool === "Glob" && LEAVING_PATTERN.test(String(input["pattern"]).replaceAll("\\", "/"))),
  };
}

const SEARCHING_TOOLS: ReadonlySet<string> = new Set(["list_files", "grep"]);
/** A glob that starts elsewhere or goes up. */
const LEAVING_PATTERN = /^(?:\/|~|[A-Za-z]:)|(?:^|[/{,])\s*\.\.(?:[/},]|$)|[{,]\s*(?:\/|~)/;

function toRelativePath(cwd: string, path: string): string {
  if (!isInside(cwd, path)) return path;
  return relative(cwd, path).replaceAll("\\", "/") || ".";
}

/** Resolves a path from a model. */
function resolveModelPath(written: string, { cwd, home }: { cwd: string; home: string }): string {
  const path = written.trim(); // As Claude does: ` /etc` means /etc.
  const whole = /^~(?=\/|$)/.test(path) ? join(home, path.slice(1)) : isAbsolute(path) ? path : resolve(cwd, path);
  return resolveRealPath(resolve(whole));
}
