import type { ErrorCode } from "../codes/codes.ts";
import { isForRun, wordOf } from "../host/approvals.ts";
import { OPEN_SECTIONS } from "../prompt/section.ts";
import { blockOf, type Gate, gatesFor } from "../run/gate.ts";
import { emit } from "../run/loop-options.ts";
import type { Port } from "../run/port.ts";
import { gistOf } from "../run/shown.ts";
import { effectToAgree } from "../run/word.ts";
import { isInside } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import type { Hiding } from "../shared/redact.ts";
import { isData } from "../skill/data.ts";
import type { Skill } from "../skill/skill.ts";
import type { Tool } from "../skill/tool.ts";
import { isGranted } from "../skill/tool-grant.ts";
import { ourTool } from "../skill/tool-names.ts";
import { bridgedName } from "./bridge.ts";
import { type Ground, readOwnCall, SKILL, STRUCTURED } from "./own-tools.ts";

export interface PermitOptions {
  run: string;
  port: Port;
  hiding: Hiding;
  signal: AbortSignal;
  ground: Ground;
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
export type Refusal = { code: ErrorCode; message: string } | undefined;

/** Whether calls may be made, one after the other: a skill that is called changes what may be called after it. */
export interface Permits {
  judge(call: { tool: string; input: unknown }): Promise<Refusal>;
}

export function openPermits(options: PermitOptions): Permits {
  const { run, port, step } = options;
  const agreed = new Set<string>();
  let active: Active | undefined;
  const judge = async (call: Call): Promise<Refusal> => {
    const { tool } = call;
    if (tool === OPEN_SECTIONS) return undefined;
    if (tool === STRUCTURED && !call.bridged && options.tools.includes(tool)) return undefined;
    if (tool === SKILL && !call.bridged && options.installed) {
      const named = skillNamed(call.input, options.installed);
      if ("code" in named) return named;
      active = activeOf(named, options);
      return undefined;
    }
    return speaksAgainst(call, active, options) ?? unagreed(call, active, agreed, options);
  };
  return {
    async judge({ tool: name, input }) {
      const call = callOf(name, input, options);
      const found = await judge(call);
      if (!found) return undefined;
      const refused = { ...found, message: options.hiding.text(found.message) }; // It names what was called with what.
      emit(port, { run, skill: "" }, { type: "tool-blocked", step: step(), tool: call.tool, ...refused });
      return refused;
    },
  };
}

interface Active {
  skill: Skill;
  gates: readonly Gate[];
}

interface Call {
  tool: string;
  input: unknown;
  /** The prompt's own, where it is one of these. */
  bridged: Tool | undefined;
  own: ReturnType<typeof readOwnCall>;
}

function callOf(name: string, input: unknown, { bridged, ground }: PermitOptions): Call {
  // By its whole name: one of the prompt's may be called as one of Claude's is.
  const bare = bridgedName(name, bridged());
  const tool = bridged().find((one) => one.name === bare);
  const own = tool ? { place: undefined, input: isData(input) ? input : {}, readsOnly: () => false } : undefined;
  return { tool: bare ?? name, input, bridged: tool, own: own ?? readOwnCall(name, input, ground) };
}

function skillNamed(input: unknown, installed: ReadonlyMap<string, Skill>): Skill | NonNullable<Refusal> {
  const name = String(Object(input).skill ?? "").replace(/^\//, "");
  const skill = installed.get(name);
  if (skill) return skill;
  const names = [...installed.keys()].join(", ") || "none";
  return { code: "not-found", message: `There is no skill "${inLine(name, 64)}" here; there are: ${names}` };
}

function activeOf(skill: Skill, { tools, bridged }: PermitOptions): Active {
  const names = [...tools, ...bridged().map(({ name }) => name)];
  return { skill, gates: gatesFor([], skill, { names, own: [] }) };
}

/** What no word helps against. */
function speaksAgainst({ tool, own, bridged }: Call, active: Active | undefined, options: PermitOptions): Refusal {
  const { tools, ground } = options;
  if (!bridged && !tools.includes(tool) && !tool.startsWith("mcp__"))
    return { code: "tool-unknown", message: `Tool '${tool}' is not there: there are ${tools.join(", ")}` };
  if (isChanging(tool) && own.place !== undefined && isKept(ground, own.place))
    return { code: "read-only", message: "Installed skills and their settings cannot be changed" };
  const blocked = active && blockOf(active.gates, tool, own.input);
  return blocked && { code: blocked.code, message: inLine(`${blocked.message}: ${blocked.fix}`, 512) };
}

/** What is there for the agent to use, and not to change: all that Claude keeps beside its skills. */
function isKept({ home, skillsDir }: Ground, place: string): boolean {
  return skillsDir !== undefined && isInside(home, place);
}

function isChanging(tool: string): boolean {
  return CHANGING.has(ourTool(tool));
}

const CHANGING: ReadonlySet<string> = new Set(["write_file", "edit_file"]);

/** Why a call may not be made that somebody would have to agree to, and did not. */
async function unagreed(
  call: Call,
  active: Active | undefined,
  agreed: Set<string>,
  options: PermitOptions,
): Promise<Refusal> {
  const { run, port, hiding, signal, ground } = options;
  const { tool, own } = call;
  if (isFree(call, active, options)) return undefined;
  const skill = active?.skill;
  const owner = skill && { name: skill.name, source: skill.origin.source, place: skill.origin.folder ?? "" };
  const about = { run, skill: skill?.name ?? "", owner, gates: [], agreed, hiding, workspace: ground.cwd };
  const effect = await effectToAgree(about, call.bridged ?? asTool(call, ground), { input: call.input });
  if (!effect) return undefined;
  const asked = { step: options.step(), tool };
  const tell = (event: Parameters<typeof emit>[2]) => emit(port, { run, skill: "" }, event);
  const { approval } = await port.approval(tool, {
    effect,
    signal,
    hide: (text) => hiding.text(text),
    onAsked: () => tell({ type: "approval-asked", ...asked, effect }),
    onGiven: (given) => tell({ type: "approval-given", ...asked, ...given }),
  });
  if (isForRun(effect, approval)) agreed.add(wordOf(effect));
  if (approval.isApproved) return undefined;
  const why = approval.reason === undefined ? "" : `. Why not: ${approval.reason}`;
  const what = gistOf(own.input);
  const which = what === undefined ? "" : ` (${inLine(what, 120)})`;
  return {
    code: "not-approved",
    message: inLine(`Tool '${tool}' was not approved${which}: ${effect.reason}${why}`, 512),
  };
}

/** What was allowed by whoever evaluates, or by the skill that is followed; what only reads; and tools that change nothing. */
function isFree({ tool, own, bridged }: Call, active: Active | undefined, options: PermitOptions): boolean {
  const { allowedTools, ground } = options;
  if (bridged && !bridged.effect) return true;
  const said = active?.gates.flatMap((gate) => gate.said) ?? [];
  return isGranted([...allowedTools, ...said], tool, own.input) || own.readsOnly(ground.cwd, ground.skillsDir);
}

/** One of Claude's own, as somebody is asked about it. */
function asTool({ tool, own }: Call, { cwd }: Ground): Tool {
  const isInWorkspace = isChanging(tool) && own.place !== undefined && isInside(cwd, own.place);
  return {
    name: tool,
    description: `Claude's tool ${tool}`,
    category: "workspace",
    inputSchema: {},
    effect: () => {
      const what = gistOf(own.input);
      return { on: isInWorkspace ? "workspace" : "outside", ...(what === undefined ? {} : { what }) };
    },
    execute: async () => ({ content: "", isError: true }),
  };
}
