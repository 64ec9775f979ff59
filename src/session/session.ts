import type { Catalog } from "../catalog/catalog.ts";
import type { DisclosureMode } from "../catalog/defaults.ts";
import type { DiscloseOptions, Disclosure } from "../catalog/disclose.ts";
import type { Approve } from "../host/approvals.ts";
import { completeHost, type HostOptions } from "../host/complete-host.ts";
import type { RunEvent } from "../host/events.ts";
import { notifyAll } from "../host/notify.ts";
import type { Notice } from "../host/sandbox.ts";
import { isDisabled } from "../policy/tools.ts";
import { callInTime } from "../run/in-time.ts";
import { type RunResult, refusedResult } from "../run/result.ts";
import type { Run } from "../run/start-run.ts";
import { noteResult, openTaint } from "../run/taint.ts";
import { type UseRequest, useSkill } from "../run/use.ts";
import { inLine } from "../shared/prompt.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import type { CallOptions, Tool, ToolResult } from "../skill/tool.ts";
import { wireName } from "../skill/wire-name.ts";
import { activate } from "./activate.ts";
import type { AdviceMemory } from "./advice-memory.ts";
import type { Advice, AdviseContext } from "./advise.ts";
import { openAgreement } from "./agree.ts";
import { modeFor, steadily } from "./disclose-for.ts";
import { State } from "./state.ts";
import { sessionTools, toolLines } from "./tools.ts";

/** What is kept of a loaded skill: enough to go on after a conversation was shortened or stored. */
export interface ActiveSkill {
  name: string;
  source: string;
  /** Which instructions. */
  stamp: string;
  arguments?: string;
}

export type By = "model" | "user";

export interface LoadOptions {
  /** Who asks. A model, when left out: what a skill says about who may invoke it is held to. */
  by?: By;
  arguments?: string;
  /** Give the instructions again, although they are loaded. */
  again?: boolean;
  signal?: AbortSignal;
}

export interface SessionOptions {
  /** What an earlier session of this conversation had loaded. */
  active?: readonly ActiveSkill[];
  /** What loading a skill brings: the tools of its toolsets; or all that it has, its scripts and `run` as tools of their own too. The former, when left out. */
  brings?: "toolsets" | "all";
  /** False: no task is handed to a sub-agent. */
  uses?: boolean;
  /** What loading does with a skill that is followed on its own (`context: fork`): follows it, or tells the model to use it. The former, when left out. */
  forks?: "run" | "tell";
  /** What conversations received as advice, for sessions that last for one request. Defaults to a memory of this session. */
  advised?: AdviceMemory;
  /**
   * What loading a skill with toolsets does: waits until they are imported, or returns the instructions at once. Then the tools are
   * those that the same files had before, and `arriving` resolves when they are imported. Defaults to `wait`.
   */
  toolsetLoading?: "wait" | "background";
  /** How many tokens the model of the conversation can read at once: its list of skills takes 1 % of that, where none is configured. */
  contextWindow?: number;
  /** Nothing of a skill is run: it brings no tools, its scripts and the commands in its instructions stay where they are, and nothing is handed to it. */
  isReadOnly?: boolean;
}

/** What a call in a conversation comes with. */
export interface SessionCallOptions extends CallOptions {
  /** Whom to ask about this call, in place of the host's. No skill gets hold of it. */
  approve?: Approve;
}

/** What can be said of one query, over the settings. */
export type TellOptions = Pick<
  DiscloseOptions,
  "files" | "shortlist" | "budget" | "listingBudget" | "countInPrefix" | "maxSkills" | "isLoaded" | "toolsets"
>;

/** What a client can set for an advice: the session decides the rest. */
export type SessionAdviseOptions = Omit<AdviseContext, "catalog" | "host" | "memory" | "isLoaded">;

/** Limits of a list of skills. */
export interface ListingRoom {
  /** In characters. */
  room?: number;
  /** Leaves a skill out. It can be loaded all the same. */
  isLeftOut?(skill: Skill): boolean;
}

/** One conversation: what is loaded, what was used recently, the tools now offered. */
export interface Session {
  /** The skills as they are now. */
  readonly catalog: Catalog;
  /** The session's own tools, then those that loaded skills bring, as `skill.tool`. */
  readonly tools: readonly Tool[];
  /** Whether nothing of a skill is run. */
  readonly isReadOnly: boolean;
  /** How skills are shown to a model: `static` where the settings choose it and skills can be used. */
  readonly disclosureMode: DisclosureMode;
  /** Whether the configuration took this tool away from everybody. */
  isDisabled(tool: string): boolean;
  /** What is loaded, in order. Plain data: keep it, and give it to the next session. */
  readonly active: readonly ActiveSkill[];
  /** The skills that a model may know of, or a person call by name. */
  visible(by?: By): readonly Skill[];
  /**
   * The list of those skills within its budget, the same for every query; empty when there are none. `room` is a further limit, in
   * characters.
   */
  listing(options?: ListingRoom): string;
  /** The same skills as JSON, as `list_skills` gives them, after the sources were read again. `note` comes at the end. */
  list(options?: ListingRoom & { note?: string | undefined }): Promise<ToolResult>;
  /** What to tell the model for this query. */
  disclose(query: string, options?: TellOptions): Disclosure;
  /** Decides what to add to a prompt of the user: nothing, a shortlist, or one skill's instructions. What was given or loaded before is not repeated. */
  advise(prompt: string, options?: SessionAdviseOptions): Promise<Advice>;
  /** Puts a skill's instructions into the conversation. */
  load(name: string, options?: LoadOptions): Promise<ToolResult>;
  /** Loads the skills that a topic is about: those it triggers, else those that its words fit best. At most `max_skills`. */
  activate(topic: string, options?: Pick<LoadOptions, "again" | "signal">): Promise<Activation>;
  /** Hands a task to a sub-agent that follows the skill. Contract: the run resolves, also when it was refused. */
  use(request: UseRequest): Run<RunEvent, RunResult>;
  /** Forgets that it is loaded, and takes its tools away. Contract: false when it was not. */
  unload(name: string): boolean;
  /** One line that says what is loaded, for a conversation that was shortened; empty when nothing is. */
  reminder(): string;
  /** Returns why a tool is gone that this conversation was given: it, or the skill that provided it, was disabled since. */
  revocationOf(tool: string): Notice | undefined;
  /** Calls a tool, once somebody agrees to what it changes. Contract: never throws. */
  call(tool: string, input: unknown, options?: SessionCallOptions): Promise<ToolResult>;
  /** Reads the sources again. */
  reload(): Promise<Catalog>;
  /** Calls `listener` after a skill was loaded or unloaded, by the model or by the program. Returns a function that ends this. */
  onToolsChanged(listener: () => void): () => void;
  /** Resolves when the toolsets that are being imported are there; undefined if none is. */
  readonly arriving: Promise<void> | undefined;
  /** The loaded skills whose toolsets are being imported, and whose tools are not known. */
  readonly loadingTools: readonly string[];
  /** Returns a line for each skill whose tools were not known when it was loaded and are known now, or cannot be had. Each is given once. */
  toolUpdates(): readonly string[];
  /** Returns why the tools of a loaded skill cannot be called. */
  toolProblems(skill: string): readonly Notice[];
  /** Resolves when the tools of what was loaded are there as they are now. */
  ready(): Promise<void>;
  /** Brings the tools of skills that were told in full, as loading them does. */
  bring(skills: readonly Skill[]): Promise<Bringing>;
  /** The skills whose tools are there, in order. */
  readonly brought: readonly string[];
  /** Ends what loaded skills brought. */
  close(): void;
}

/** What became of a topic. */
export interface Activation {
  /** The skills that are loaded for it, the best first. */
  skills: readonly string[];
  /** Their instructions, for the model; or that there are none. */
  result: ToolResult;
}

/** What skills brought. */
export interface Bringing {
  /** What to tell a model of it; empty when they bring nothing. */
  text: string;
  problems: readonly Notice[];
}

/** Opens a conversation over these skills. What the host leaves out has its default. */
export function openSession(opened: Catalog, given: HostOptions = {}, options: SessionOptions = {}): Session {
  const active = new Map((options.active ?? []).map((skill) => [skill.name, skill]));
  const state = new State(opened, completeHost(given), active, options);
  const ownTools = sessionTools(state);
  const taint = openTaint();
  const agree = openAgreement(state.host, taint);
  const noted = async (tool: Tool, input: unknown, made: Promise<ToolResult>) => {
    const result = await made;
    noteResult(taint, { tool, input }, result);
    return result;
  };
  const mounted = active.size > 0 && !options.isReadOnly ? state.mountedNow() : undefined;
  const offered = (mounted: readonly Tool[]) =>
    firstOfEach([...ownTools(), ...state.withOwn(mounted).filter(({ name }) => !isDisabled(name, state.host))]);
  return {
    get catalog() {
      return state.catalog;
    },
    get active() {
      return [...active.values()];
    },
    get tools() {
      return offered(state.mounts.tools);
    },
    isReadOnly: state.isReadOnly,
    get disclosureMode() {
      return modeFor(state.host.settings, state.canUse);
    },
    isDisabled: (tool) => isDisabled(tool, state.host),
    visible: (by = "model") =>
      steadily(state.host, () => state.catalog.skills.filter((skill) => isFor(by, skill) && state.isAvailable(skill))),
    listing: (listingOptions) => state.listing(listingOptions),
    list: (listOptions) => state.list(listOptions),
    load: (name, loadOptions) => state.load(name, loadOptions),
    activate: (topic, loadOptions) => activate(state, topic, loadOptions),
    use: (request) => useSkill(state.catalog, state.host, request),
    reload: () => state.reload(),
    unload(name) {
      const wasLoaded = state.unload(name);
      notifyAll(state.listeners);
      return wasLoaded;
    },
    revocationOf: (tool) => state.revocationOf(tool),
    onToolsChanged(listener) {
      state.listeners.add(listener);
      return () => void state.listeners.delete(listener);
    },
    close: () => state.mounts.close(),
    get arriving() {
      return state.arriving;
    },
    get loadingTools() {
      return state.loadingTools;
    },
    toolUpdates: () => state.toolUpdates(),
    toolProblems: (skill) => state.mounts.outcomeOf(skill)?.problems ?? [],
    async ready() {
      await mounted;
      await state.mounts.fresh();
    },
    get brought() {
      return state.mounts.names;
    },
    async bring(skills) {
      const bringing = skills.filter(({ manifest }) => manifest.toolsets.length > 0);
      const all = await Promise.all(bringing.map(async (skill) => ({ skill, ...(await state.mounts.mount(skill)) })));
      if (all.length > 0) notifyAll(state.listeners);
      const lines = all.map((one) => [`${one.skill.name}:`, ...toolLines(one)].join(" "));
      return { text: lines.join("\n"), problems: all.flatMap(({ problems }) => problems) };
    },
    disclose: (query, more) => state.disclose(query, more),
    advise: (prompt, more) => state.advise(prompt, more),
    reminder() {
      const isThere = (name: string) => [state.catalog.find(name) ?? []].flat().some(state.isVisible);
      const names = [...active.keys()].filter(isThere).map((name) => inLine(name, 64));
      if (names.length === 0) return "";
      return `[Skills loaded in this conversation: ${names.join(", ")}. load_skill with again: true repeats one]`;
    },
    async call(name, input, options = {}) {
      const isNamed = (candidate: Tool) => candidate.name === name || wireName(candidate.name) === name;
      const ours = ownTools().find(isNamed);
      // They have limits of their own.
      const execute = async (tool: Tool) =>
        ((await isChanging(tool, input)) ? await agree(tool, input, options) : undefined) ??
        noted(tool, input, tool.execute(input, options));
      if (ours) return execute(ours);
      const known = offered(state.mounts.listed);
      const tools = known.some(isNamed) ? known : offered(await state.mountedNow());
      const tool = tools.find(isNamed);
      if (tool?.starts !== undefined) return execute(tool);
      const { approve, ...given } = options;
      const { toolSeconds } = state.host.settings.limits;
      if (tool) {
        const refusal = await agree(tool, input, options);
        return refusal ?? noted(tool, input, callInTime(tool, input, given, toolSeconds));
      }
      const revoked = state.revocationOf(name);
      if (revoked) return refusedResult([revoked]);
      const there = tools.map((candidate) => inLine(candidate.name, 128)).join(", ");
      const content = `There is no tool "${inLine(name, 64)}"; there are ${there}.`;
      return { content, isError: true, code: "tool-unknown" };
    },
  };
}

/** Returns true if a call changes something; also where that cannot be found out. */
async function isChanging(tool: Tool, input: unknown): Promise<boolean> {
  try {
    return (await tool.effect?.(input)) !== undefined;
  } catch {
    return true;
  }
}

/** `c` of the skill `a.b` and `b.c` of the skill `a` have one name: it stays with the skill that was loaded first, in the list and in calls. */
function firstOfEach(tools: readonly Tool[]): readonly Tool[] {
  const byName = new Map([...tools].reverse().map((tool) => [tool.name, tool]));
  return byName.size === tools.length ? tools : tools.filter((tool) => byName.get(tool.name) === tool);
}
