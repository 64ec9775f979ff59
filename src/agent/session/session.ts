import { type Catalog, DISCLOSURE_DEFAULTS, type DisclosureMode } from "../../catalog/catalog.ts";
import type { DiscloseOptions, Disclosure } from "../../catalog/disclose.ts";
import { getMatcher, isSelectedMatch, type Match } from "../../catalog/search/matcher.ts";
import { completeHost, type Host, type HostOptions, notifyListeners } from "../../config/host.ts";
import { getErrorMessage, type Problem } from "../../errors/problem.ts";
import { type Approval, type Approve, getApprovalKey, isApprovedForRun } from "../../host/approval.ts";
import type { RunEvent } from "../../host/events.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import type { CallOptions, Tool, ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { omitUndefined } from "../../util/objects.ts";
import { createRedactor } from "../../util/redact.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { shortenHomePath } from "../policy/setup-policy.ts";
import { isToolDisabled } from "../policy/skill-policies.ts";
import { createTaintTracker, type TaintTracker, trackToolResult } from "../policy/taint-tracker.ts";
import { collectSecrets } from "../run/run-inputs.ts";
import { createRefusalResult, createRunId, type Run, type RunResult } from "../run/run-result.ts";
import { callWithTimeout } from "../run/tool-call.ts";
import { createApprovalRequest, requestApproval } from "../run/tool-policy.ts";
import { type UseRequest, useSkill } from "../run/use-skill.ts";
import type { Advice, AdviceMemory, AdviseContext } from "./advise.ts";
import { getDisclosureMode, withSteadyTrust } from "./session-disclosure.ts";
import { SessionState } from "./session-state.ts";
import { createSessionTools, formatToolLines } from "./session-tools.ts";

/** What is kept of a loaded skill: enough to go on after a conversation was shortened or stored. */
export interface ActiveSkill {
  name: string;
  source: string;
  /** Which instructions. */
  stamp: string;
  arguments?: string;
}

export type Invoker = "model" | "user";

export interface LoadOptions {
  /** Who asks. A model, when left out: what a skill says about who may invoke it is held to. */
  by?: Invoker;
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
export type QueryOptions = Pick<
  DiscloseOptions,
  "files" | "shortlist" | "budget" | "listingBudget" | "countInPrefix" | "maxSkills" | "isLoaded" | "toolsets"
>;

/** What a client can set for an advice: the session decides the rest. */
export type SessionAdviseOptions = Omit<AdviseContext, "catalog" | "host" | "memory" | "isLoaded">;

/** Limits of a list of skills. */
export interface ListingLimits {
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
  visible(by?: Invoker): readonly Skill[];
  /**
   * The list of those skills within its budget, the same for every query; empty when there are none. `room` is a further limit, in
   * characters.
   */
  listing(options?: ListingLimits): string;
  /** The same skills as JSON, as `list_skills` gives them, after the sources were read again. `note` comes at the end. */
  list(options?: ListingLimits & { note?: string | undefined }): Promise<ToolResult>;
  /** What to tell the model for this query. */
  disclose(query: string, options?: QueryOptions): Disclosure;
  /** Decides what to add to a prompt of the user: nothing, a shortlist, or one skill's instructions. What was given or loaded before is not repeated. */
  advise(prompt: string, options?: SessionAdviseOptions): Promise<Advice>;
  /** Puts a skill's instructions into the conversation. */
  load(name: string, options?: LoadOptions): Promise<ToolResult>;
  /** Loads the skills that a topic is about: those it triggers, else those that its words fit best. At most `max_skills`. */
  activate(topic: string, options?: Pick<LoadOptions, "again" | "signal">): Promise<ActivationResult>;
  /** Hands a task to a sub-agent that follows the skill. Contract: the run resolves, also when it was refused. */
  use(request: UseRequest): Run<RunEvent, RunResult>;
  /** Forgets that it is loaded, and takes its tools away. Contract: false when it was not. */
  unload(name: string): boolean;
  /** One line that says what is loaded, for a conversation that was shortened; empty when nothing is. */
  reminder(): string;
  /** Returns why a tool is gone that this conversation was given: it, or the skill that provided it, was disabled since. */
  revocationOf(tool: string): Problem | undefined;
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
  toolProblems(skill: string): readonly Problem[];
  /** Resolves when the tools of what was loaded are there as they are now. */
  ready(): Promise<void>;
  /** Brings the tools of skills that were told in full, as loading them does. */
  bring(skills: readonly Skill[]): Promise<MountToolsResult>;
  /** The skills whose tools are there, in order. */
  readonly brought: readonly string[];
  /** Ends what loaded skills brought. */
  close(): void;
}

/** What became of a topic. */
export interface ActivationResult {
  /** The skills that are loaded for it, the best first. */
  skills: readonly string[];
  /** Their instructions, for the model; or that there are none. */
  result: ToolResult;
}

/** What skills brought. */
interface MountToolsResult {
  /** What to tell a model of it; empty when they bring nothing. */
  text: string;
  problems: readonly Problem[];
}

/** Opens a conversation over these skills. What the host leaves out has its default. */
export function openSession(opened: Catalog, given: HostOptions = {}, options: SessionOptions = {}): Session {
  const active = new Map((options.active ?? []).map((skill) => [skill.name, skill]));
  const state = new SessionState(opened, completeHost(given), active, options);
  const ownTools = createSessionTools(state);
  const taint = createTaintTracker();
  const agree = createCallApproval(state.host, taint);
  const noted = async (tool: Tool, input: unknown, made: Promise<ToolResult>) => {
    const result = await made;
    trackToolResult(taint, { tool, input }, result);
    return result;
  };
  const mounted = active.size > 0 && !options.isReadOnly ? state.mountedNow() : undefined;
  const offered = (mounted: readonly Tool[]) =>
    keepFirstByName([...ownTools(), ...state.withOwn(mounted).filter(({ name }) => !isToolDisabled(name, state.host))]);
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
      return getDisclosureMode(state.host.settings, state.canUse);
    },
    isDisabled: (tool) => isToolDisabled(tool, state.host),
    visible: (by = "model") =>
      withSteadyTrust(state.host, () =>
        state.catalog.skills.filter((skill) => isInvocableBy(by, skill) && state.isAvailable(skill)),
      ),
    listing: (listingOptions) => state.listing(listingOptions),
    list: (listOptions) => state.list(listOptions),
    load: (name, loadOptions) => state.load(name, loadOptions),
    activate: (topic, loadOptions) => activateTopic(state, topic, loadOptions),
    use: (request) => useSkill(state.catalog, state.host, request),
    reload: () => state.reload(),
    unload(name) {
      const wasLoaded = state.unload(name);
      notifyListeners(state.listeners);
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
      if (all.length > 0) notifyListeners(state.listeners);
      const lines = all.map((one) => [`${one.skill.name}:`, ...formatToolLines(one)].join(" "));
      return { text: lines.join("\n"), problems: all.flatMap(({ problems }) => problems) };
    },
    disclose: (query, more) => state.disclose(query, more),
    advise: (prompt, more) => state.advise(prompt, more),
    reminder() {
      const isThere = (name: string) => [state.catalog.find(name) ?? []].flat().some(state.isVisible);
      const names = [...active.keys()].filter(isThere).map((name) => sanitizeLine(name, 64));
      if (names.length === 0) return "";
      return `[Skills loaded in this conversation: ${names.join(", ")}. load_skill with again: true repeats one]`;
    },
    async call(name, input, options = {}) {
      const isNamed = (candidate: Tool) => candidate.name === name || formatWireName(candidate.name) === name;
      const ours = ownTools().find(isNamed);
      // They have limits of their own.
      const execute = async (tool: Tool) =>
        ((await hasCallEffect(tool, input)) ? await agree(tool, input, options) : undefined) ??
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
        return refusal ?? noted(tool, input, callWithTimeout(tool, input, given, toolSeconds));
      }
      const revoked = state.revocationOf(name);
      if (revoked) return createRefusalResult([revoked]);
      const there = tools.map((candidate) => sanitizeLine(candidate.name, 128)).join(", ");
      const content = `There is no tool "${sanitizeLine(name, 64)}"; there are ${there}.`;
      return { content, isError: true, code: "tool-unknown" };
    },
  };
}

/** Returns true if a call changes something; also where that cannot be found out. */
async function hasCallEffect(tool: Tool, input: unknown): Promise<boolean> {
  try {
    return (await tool.effect?.(input)) !== undefined;
  } catch {
    return true;
  }
}

/** `c` of the skill `a.b` and `b.c` of the skill `a` have one name: it stays with the skill that was loaded first, in the list and in calls. */
function keepFirstByName(tools: readonly Tool[]): readonly Tool[] {
  const byName = new Map([...tools].reverse().map((tool) => [tool.name, tool]));
  return byName.size === tools.length ? tools : tools.filter((tool) => byName.get(tool.name) === tool);
}

/** Asks whether a call that changes something may be made. Gives what speaks against it. */
type ApproveCall = (tool: Tool, input: unknown, options: SessionCallOptions) => Promise<ToolResult | undefined>;

/** What somebody agreed to for the whole conversation is not asked again. `taint`: what it has read that others wrote. */
function createCallApproval(host: Host, taint: TaintTracker): ApproveCall {
  let run: string | undefined;
  const agreed = new Set<string>();
  return async (tool, input, { signal = new AbortController().signal, approve = host.approve }) => {
    if (!tool.effect) return undefined;
    run ??= createRunId();
    const hiding = createRedactor(collectSecrets(new Map(), host));
    const workspace = host.workspace === undefined ? undefined : shortenHomePath(host.workspace, host);
    const inside = host.workspace === undefined ? [] : [host.workspace];
    const around = { run, skill: "", gates: [], agreed, hiding, workspace, taint, inside };
    const effect = await createApprovalRequest(around, tool, { input });
    if (!effect) return undefined;
    const hide = (text: string) => hiding.text(text);
    const ask = { effect, signal, hide, onAsked: () => {}, onGiven: () => {} };
    const word = await requestApproval({ ...host, ...omitUndefined({ approve }) }, ask).catch(
      (error): Approval => ({ isApproved: false, reason: getErrorMessage(error) }),
    );
    if (word && isApprovedForRun(effect, word)) agreed.add(getApprovalKey(effect));
    if (word?.isApproved) return undefined;
    const why = word
      ? (word.reason ?? "it was not approved")
      : approve
        ? "it needs an approval, and its input is too long to be shown in full here"
        : "somebody has to agree to it, and nobody can be asked here";
    const content = sanitizeLine(
      `Tool '${tool.name}' was not called, since ${effect.reason}: ${hiding.text(why)}`,
      512,
    );
    return { content, isError: true, code: word ? "not-approved" : "approval-needed" };
  };
}

/** Loads what a topic is about. */
async function activateTopic(state: SessionState, topic: string, options: LoadOptions = {}): Promise<ActivationResult> {
  const { settings } = state.host;
  const most = settings.disclosure.maxSkills ?? DISCLOSURE_DEFAULTS.maxSkills;
  const { isForModel } = state;
  const { matches } = getMatcher(await state.reload()).match(topic, {
    limit: most,
    isVisible: isForModel,
    isCallable: isForModel,
  });
  const names = selectTopicMatches(matches)
    .slice(0, most)
    .map(({ skill }) => skill.name);
  const results: { name: string; result: ToolResult }[] = [];
  for (const name of names) results.push({ name, result: await state.load(name, { ...options, task: topic }) });
  const loaded = results.filter(({ result }) => !result.isError).map(({ name }) => name);
  if (results.length === 0) return { skills: [], result: createNoMatchResult(topic) };
  const content = results.map(({ result }) => result.content).join("\n\n");
  return {
    skills: loaded,
    result: { content, isError: loaded.length === 0, ...omitUndefined({ code: getSharedErrorCode(results) }) },
  };
}

/** Who names a topic asks for skills: where none is triggered, those that its words fit at least half as well as the best. */
function selectTopicMatches(matches: readonly Match[]): readonly Match[] {
  const triggered = matches.filter(isSelectedMatch);
  if (triggered.length > 0) return triggered;
  const best = matches[0]?.score ?? 0;
  return matches.filter(({ score }) => score > 0 && score >= best / 2);
}

function getSharedErrorCode(results: readonly { result: ToolResult }[]): string | undefined {
  return results.every(({ result }) => result.isError) ? results[0]?.result.code : undefined;
}

function createNoMatchResult(topic: string): ToolResult {
  const content = `No skill fits "${sanitizeLine(topic, 200)}". list_skills shows what there is.`;
  return { content, isError: false, code: "no-match" };
}
