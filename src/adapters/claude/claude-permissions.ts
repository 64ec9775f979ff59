import { isAbsolute, join, relative, resolve } from "node:path";
import { OPEN_SECTIONS } from "../../agent/prompts/prompt-section.ts";
import { emitRunEvent, type StepRunner } from "../../agent/run/step-runner.ts";
import {
  createApprovalRequest,
  createToolPolicies,
  findToolBlock,
  summarizeInput,
  type ToolPolicy,
} from "../../agent/run/tool-policy.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { getApprovalKey, isApprovedForRun } from "../../host/approval.ts";
import type { Skill } from "../../skill/skill.ts";
import type { Tool } from "../../skill/tool.ts";
import { isToolCallGranted } from "../../skill/tool-grants.ts";
import { resolveToolName } from "../../skill/tool-names.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { isInside, resolveRealPath } from "../../util/safe-path.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { resolveBridgedName } from "./tool-bridge.ts";

export interface PermissionOptions {
  run: string;
  port: StepRunner;
  hiding: Redactor;
  signal: AbortSignal;
  ground: ClaudeFolders;
  /** Claude's own tools that there are. */
  tools: readonly string[];
  /** What of them needs no word. */
  allowedTools: readonly string[];
  /** The tools of the prompt, as they are now. */
  bridged(): readonly Tool[];
  /** The skills that are installed, by name; nothing where those of the user are there. */
  installed: ReadonlyMap<string, Skill> | undefined;
  /** The step that the model is in. */
  step(): number;
}

/** Nothing, or why not: for the model. */
type PermissionRefusal = { code: ErrorCode; message: string } | undefined;

/** Whether calls may be made, one after the other: a skill that is called changes what may be called after it. */
export interface ToolPermissions {
  judge(call: { tool: string; input: unknown }): Promise<PermissionRefusal>;
}

export function createToolPermissions(options: PermissionOptions): ToolPermissions {
  const { run, port, step } = options;
  const agreed = new Set<string>();
  let active: GatedSkill | undefined;
  const judge = async (call: PermissionCall): Promise<PermissionRefusal> => {
    const { tool } = call;
    if (tool === OPEN_SECTIONS) return undefined;
    if (tool === STRUCTURED_OUTPUT_TOOL && !call.bridged && options.tools.includes(tool)) return undefined;
    if (tool === SKILL_TOOL && !call.bridged && options.installed) {
      const named = findNamedSkill(call.input, options.installed);
      if ("code" in named) return named;
      active = gateSkill(named, options);
      return undefined;
    }
    return findRefusal(call, active, options) ?? requireApproval(call, active, agreed, options);
  };
  return {
    async judge({ tool: name, input }) {
      const call = createPermissionCall(name, input, options);
      const found = await judge(call);
      if (!found) return undefined;
      const refused = { ...found, message: options.hiding.text(found.message) }; // It names what was called with what.
      emitRunEvent(port, { run, skill: "" }, { type: "tool-blocked", step: step(), tool: call.tool, ...refused });
      return refused;
    },
  };
}

interface GatedSkill {
  skill: Skill;
  gates: readonly ToolPolicy[];
}

interface PermissionCall {
  tool: string;
  input: unknown;
  /** The prompt's own, where it is one of these. */
  bridged: Tool | undefined;
  own: ReturnType<typeof parseClaudeToolCall>;
}

function createPermissionCall(name: string, input: unknown, { bridged, ground }: PermissionOptions): PermissionCall {
  // By its whole name: one of the prompt's may be called as one of Claude's is.
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
  return { code: "not-found", message: `There is no skill "${sanitizeLine(name, 64)}" here; there are: ${names}` };
}

function gateSkill(skill: Skill, { tools, bridged }: PermissionOptions): GatedSkill {
  const names = [...tools, ...bridged().map(({ name }) => name)];
  return { skill, gates: createToolPolicies([], skill, { names, own: [] }) };
}

/** What no word helps against. */
function findRefusal(
  { tool, own, bridged }: PermissionCall,
  active: GatedSkill | undefined,
  options: PermissionOptions,
): PermissionRefusal {
  const { tools, ground } = options;
  if (!bridged && !tools.includes(tool) && !tool.startsWith("mcp__"))
    return { code: "tool-unknown", message: `Tool '${tool}' is not there: there are ${tools.join(", ")}` };
  if (isChangingTool(tool) && own.place !== undefined && isProtected(ground, own.place))
    return { code: "read-only", message: "Installed skills and their settings cannot be changed" };
  const blocked = active && findToolBlock(active.gates, tool, own.input);
  return blocked && { code: blocked.code, message: sanitizeLine(`${blocked.message}: ${blocked.fix}`, 512) };
}

/** What is there for the agent to use, and not to change: all that Claude keeps beside its skills. */
function isProtected({ home, skillsDir }: ClaudeFolders, place: string): boolean {
  return skillsDir !== undefined && isInside(home, place);
}

function isChangingTool(tool: string): boolean {
  return CHANGING_TOOLS.has(resolveToolName(tool));
}

const CHANGING_TOOLS: ReadonlySet<string> = new Set(["write_file", "edit_file"]);

/** Why a call may not be made that somebody would have to agree to, and did not. */
async function requireApproval(
  call: PermissionCall,
  active: GatedSkill | undefined,
  agreed: Set<string>,
  options: PermissionOptions,
): Promise<PermissionRefusal> {
  const { run, port, hiding, signal, ground } = options;
  const { tool, own } = call;
  if (isPreapproved(call, active, options)) return undefined;
  const skill = active?.skill;
  const owner = skill && { name: skill.name, source: skill.origin.source, place: skill.origin.folder ?? "" };
  const about = { run, skill: skill?.name ?? "", owner, gates: [], agreed, hiding, workspace: ground.cwd };
  const effect = await createApprovalRequest(about, call.bridged ?? describeAsTool(call, ground), {
    input: call.input,
  });
  if (!effect) return undefined;
  const asked = { step: options.step(), tool };
  const tell = (event: Parameters<typeof emitRunEvent>[2]) => emitRunEvent(port, { run, skill: "" }, event);
  const { approval } = await port.approval(tool, {
    effect,
    signal,
    hide: (text) => hiding.text(text),
    onAsked: () => tell({ type: "approval-asked", ...asked, effect }),
    onGiven: (given) => tell({ type: "approval-given", ...asked, ...given }),
  });
  if (isApprovedForRun(effect, approval)) agreed.add(getApprovalKey(effect));
  if (approval.isApproved) return undefined;
  const why = approval.reason === undefined ? "" : `. Why not: ${approval.reason}`;
  const what = summarizeInput(own.input);
  const which = what === undefined ? "" : ` (${sanitizeLine(what, 120)})`;
  return {
    code: "not-approved",
    message: sanitizeLine(`Tool '${tool}' was not approved${which}: ${effect.reason}${why}`, 512),
  };
}

/** What was allowed by whoever evaluates, or by the skill that is followed; what only reads; and tools that change nothing. */
function isPreapproved(
  { tool, own, bridged }: PermissionCall,
  active: GatedSkill | undefined,
  options: PermissionOptions,
): boolean {
  const { allowedTools, ground } = options;
  if (bridged && !bridged.effect) return true;
  const said = active?.gates.flatMap((gate) => gate.said) ?? [];
  return isToolCallGranted([...allowedTools, ...said], tool, own.input) || own.readsOnly(ground.cwd, ground.skillsDir);
}

/** One of Claude's own, as somebody is asked about it. */
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
    execute: async () => ({ content: "", isError: true }),
  };
}

/** Those that read files, and so need nobody's word for what is theirs to read. */
export const READING_TOOLS: readonly string[] = ["Read", "Glob", "Grep"];
/** What a model answers with where its answer is to be data. */
export const STRUCTURED_OUTPUT_TOOL = "StructuredOutput";
/** What loads an installed skill. */
export const SKILL_TOOL = "Skill";

/** Where a call is made. All are real paths. */
export interface ClaudeFolders {
  cwd: string;
  home: string;
  /** Where the installed skills are. */
  skillsDir: string | undefined;
}

/** A call of one of Claude's own tools, as this side understands it. */
interface ClaudeToolCall {
  /** The real path that it is about; the working folder for one that searches and names none. */
  place: string | undefined;
  /** Its input as the rules of `allowed-tools` are about it: relative to the working folder, where it is in there. */
  input: JsonObject;
  /** Whether all that it can see is below these folders. */
  readsOnly(...roots: readonly (string | undefined)[]): boolean;
}

export function parseClaudeToolCall(tool: string, given: unknown, ground: ClaudeFolders): ClaudeToolCall {
  const input = isJsonObject(given) ? given : {};
  const ours = resolveToolName(tool);
  const named = [input["file_path"], input["notebook_path"], input["path"]].find((one) => typeof one === "string");
  const place =
    typeof named === "string" ? resolveModelPath(named, ground) : SEARCHING_TOOLS.has(ours) ? ground.cwd : undefined;
  const path = place === undefined ? {} : { path: toRelativePath(ground.cwd, place) };
  return {
    place,
    input: { ...input, ...path },
    readsOnly: (...roots) =>
      READING_TOOLS.includes(tool) &&
      place !== undefined &&
      roots.some((root) => root !== undefined && isInside(root, place)) &&
      !(tool === "Glob" && LEAVING_PATTERN.test(String(input["pattern"]).replaceAll("\\", "/"))),
  };
}

const SEARCHING_TOOLS: ReadonlySet<string> = new Set(["list_files", "grep"]);
/** A pattern for names of files that begins elsewhere, or goes up. */
const LEAVING_PATTERN = /^(?:\/|~|[A-Za-z]:)|(?:^|[/{,])\s*\.\.(?:[/},]|$)|[{,]\s*(?:\/|~)/;

function toRelativePath(cwd: string, place: string): string {
  if (!isInside(cwd, place)) return place;
  return relative(cwd, place).replaceAll("\\", "/") || ".";
}

/** Where a path leads that a model gave. */
function resolveModelPath(given: string, { cwd, home }: { cwd: string; home: string }): string {
  const path = given.trim(); // As Claude does: ` /etc` is no folder called " " in there.
  const whole = /^~(?=\/|$)/.test(path) ? join(home, path.slice(1)) : isAbsolute(path) ? path : resolve(cwd, path);
  return resolveRealPath(resolve(whole));
}
