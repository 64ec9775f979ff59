import { type Catalog, DISCLOSURE_DEFAULTS, type DisclosureMode } from "../../catalog/catalog.ts";
import type { DiscloseOptions, Disclosure } from "../../catalog/disclose.ts";
import { getMatcher, isSelectedMatch, type Match } from "../../catalog/search/matcher.ts";
import { completeHost, type Host, type HostOptions, notifyListeners } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Approve } from "../../host/approval.ts";
import type { RunEvent } from "../../host/events.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { type CallOptions, createTool, type Tool, type ToolResult } from "../../skill/tool.ts";
import { createWireNames, formatWireName } from "../../skill/tool-names.ts";
import { omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { isToolDisabled } from "../policy/skill-policies.ts";
import { createTaintTracker } from "../policy/taint-tracker.ts";
import { shortenHomePath } from "../policy/trust-policy.ts";
import { type CallToolContext, callTool, createApprovalAsker } from "../run/call-tool.ts";
import { createHostRedactor } from "../run/redaction.ts";
import { createRefusalResult, createRunId, type Run, type RunResult } from "../run/run-result.ts";
import { type UseRequest, useSkill } from "../run/use-skill.ts";
import type { Advice, AdviceMemory, AdviseContext } from "./advise.ts";
import { getDisclosureMode, withSteadyTrust } from "./session-disclosure.ts";
import { SessionState } from "./session-state.ts";
import { createSessionTools, formatToolLines } from "./session-tools.ts";

/** The stored state of a loaded skill: enough to continue after a conversation was shortened or stored. */
export interface ActiveSkill {
  name: string;
  source: string;
  /** Fingerprint of the instructions. */
  stamp: string;
  arguments?: string;
}

export type Invoker = "model" | "user";

export interface LoadOptions {
  /** The invoker. Defaults to the model. The skill may restrict who can invoke it. */
  by?: Invoker;
  arguments?: string;
  /** Return the instructions again even if they are loaded. */
  again?: boolean;
  signal?: AbortSignal;
}

export interface SessionOptions {
  /** The skills that an earlier session of this conversation had loaded. */
  active?: readonly ActiveSkill[];
  /** The tools that loading a skill provides: only those of its toolsets, or its scripts and `run` as well. Defaults to `toolsets`. */
  provides?: "toolsets" | "all";
  /** False disables sub-agents. */
  allowsSubAgents?: boolean;
  /** Handling of a loaded skill with `context: fork`: run it in a sub-agent, or suggest to the model to use it. Defaults to `run`. */
  forkMode?: "run" | "suggest";
  /** The memory of advice that conversations received, for sessions that last for one request. Defaults to a memory of this session. */
  adviceMemory?: AdviceMemory;
  /**
   * Loading of a skill with toolsets: wait until they are imported, or return the instructions at once. In the background, the tools are
   * those that the same files had before, and `toolsLoading` resolves when they are imported. Defaults to `wait`.
   */
  toolsetLoading?: "wait" | "background";
  /** The context window of the conversation's model in tokens. The list of skills takes 1 % of it unless a budget is configured. */
  contextWindow?: number;
  /** Records scripts like runs, with the caller: for sessions on behalf of others. */
  recordsScripts?: boolean;
  /** Runs no code of a skill: no tools, scripts, commands in instructions or sub-agents. */
  isReadOnly?: boolean;
}

/** Options of a call in a conversation. */
export interface SessionCallOptions extends CallOptions {
  /** Asks for approval of this call, in place of the host's function. It is not passed to skills. */
  approve?: Approve;
}

/** Options for one query. They override the settings. */
export type QueryOptions = Pick<
  DiscloseOptions,
  | "tier"
  | "files"
  | "shortlist"
  | "budget"
  | "listingBudget"
  | "countInPrefix"
  | "maxSkills"
  | "isLoaded"
  | "toolsets"
  | "instructions"
>;

/** Client options for an advice. The session provides the rest. */
export type SessionAdviseOptions = Omit<AdviseContext, "catalog" | "host" | "memory" | "isLoaded">;

/** Limits of a list of skills. */
export interface ListingLimits {
  /** In characters. */
  room?: number;
  /** Returns true to omit a skill from the list. It can still be loaded. */
  isOmitted?(skill: Skill): boolean;
}

/** One conversation: the loaded skills, the recently used ones, and the available tools. */
export interface Session {
  /** The current skills. */
  readonly catalog: Catalog;
  /** The session's own tools, then those of loaded skills, as `skill.tool`. */
  readonly tools: readonly Tool[];
  /** True if no code of a skill may run. */
  readonly isReadOnly: boolean;
  /** The way skills are shown to a model: `static` if the settings choose it and skills can be used. */
  readonly disclosureMode: DisclosureMode;
  /** Returns true if the configuration disables this tool. */
  isDisabled(tool: string): boolean;
  /** The loaded skills, in order. Plain data: store it, and pass it to the next session. */
  readonly active: readonly ActiveSkill[];
  /** Returns the skills that a model may know, or that a user may call by name. */
  listVisible(by?: Invoker): readonly Skill[];
  /**
   * Lists those skills within the budget, the same for every query; empty without skills. `room` is an additional limit, in
   * characters.
   */
  formatListing(options?: ListingLimits): Promise<string>;
  /** Lists the same skills as JSON, as `list_skills` does, after reading the sources again. `note` comes last. */
  listSkills(options?: ListingLimits & { note?: string | undefined }): Promise<ToolResult>;
  /** Returns the text about skills to show the model for this query. */
  disclose(query: string, options?: QueryOptions): Promise<Disclosure>;
  /** Decides what to add to a prompt of the user: nothing, a shortlist, or one skill's instructions. Never repeats a text. */
  advise(prompt: string, options?: SessionAdviseOptions): Promise<Advice>;
  /** Adds a skill's instructions to the conversation. */
  load(name: string, options?: LoadOptions): Promise<ToolResult>;
  /** Loads the skills for a topic: those it triggers, otherwise those with the best keyword match. At most `max_skills`. */
  activate(topic: string, options?: Pick<LoadOptions, "again" | "signal">): Promise<ActivationResult>;
  /** Hands a task to a sub-agent that follows the skill. Contract: the run resolves even when it was refused. */
  use(request: UseRequest): Run<RunEvent, RunResult>;
  /** Unloads a skill and removes its tools. Contract: returns false if it was not loaded. */
  unload(name: string): boolean;
  /** Returns one line with the loaded skills, for a conversation that was shortened; empty without loaded skills. */
  formatReminder(): string;
  /** Returns the reason why a known tool is gone: it, or its skill, was disabled in the meantime. */
  findRevocation(tool: string): Problem | undefined;
  /** Calls a tool, after approval if it has an effect. Contract: never throws. */
  call(tool: string, input: unknown, options?: SessionCallOptions): Promise<ToolResult>;
  /** Reads the sources again. */
  reload(): Promise<Catalog>;
  /** Calls `listener` after a skill was loaded or unloaded, by the model or by the program. Returns a function that unsubscribes. */
  onToolsChanged(listener: () => void): () => void;
  /** Resolves when the pending imports of toolsets are done; undefined without pending imports. */
  readonly toolsLoading: Promise<void> | undefined;
  /** The loaded skills whose toolsets are being imported and whose tools are not known yet. */
  readonly loadingTools: readonly string[];
  /** Returns one line for each skill whose tools became known, or failed to load, after it was loaded. Each line is returned once. */
  takeToolUpdates(): readonly string[];
  /** Returns the reasons why the tools of a loaded skill cannot be called. */
  findToolProblems(skill: string): readonly Problem[];
  /** Resolves when the tools of all loaded skills are available and up to date. */
  ready(): Promise<void>;
  /** Mounts the tools of skills that were disclosed in full, as loading them does. */
  mountTools(skills: readonly Skill[]): Promise<MountToolsResult>;
  /** The skills whose tools are mounted, in order. */
  readonly mountedSkills: readonly string[];
  /** Closes the tools of all loaded skills. */
  close(): void;
}

/** The result of activating a topic. */
export interface ActivationResult {
  /** The skills loaded for it, the best first. */
  skills: readonly string[];
  /** Their instructions for the model, or a message that no skill matches. */
  result: ToolResult;
}

/** The result of mounting tools. */
interface MountToolsResult {
  /** Text for the model; empty if there are no tools. */
  text: string;
  problems: readonly Problem[];
}

/**
 * Opens a session with these skills. Options that the host omits have their defaults. Throws a SkillError if the catalog or a part of
 * the host is invalid.
 */
export function openSession(opened: Catalog, hostOptions: HostOptions = {}, options: SessionOptions = {}): Session {
  const { skills, get } = Object(opened) as Partial<Catalog>;
  if (!Array.isArray(skills) || typeof get !== "function")
    throw new SkillError("catalog-invalid", {
      message: "openSession needs a catalog as its first argument",
      fix: "pass the `catalog` that `discover()` returns, or the result of `loadCatalog()`",
    });
  const active = new Map((options.active ?? []).map((skill) => [skill.name, skill]));
  const state = new SessionState(opened, completeHost(hostOptions), active, options);
  const ownTools = createSessionTools(state);
  const createContext = createCallContexts(state.host);
  const mounted = active.size > 0 && !options.isReadOnly ? state.mountLoaded() : undefined;
  const listOffered = (mounted: readonly Tool[]) =>
    keepFirstByName([
      ...ownTools(),
      ...state.addOwnTools(mounted).filter(({ name }) => !isToolDisabled(name, state.host)),
    ]);
  return {
    get catalog() {
      return state.catalog;
    },
    get active() {
      return [...active.values()];
    },
    get tools() {
      return listOffered(state.mounts.tools);
    },
    isReadOnly: state.isReadOnly,
    get disclosureMode() {
      return getDisclosureMode(state.host.settings, state.canUse);
    },
    isDisabled: (tool) => isToolDisabled(tool, state.host),
    listVisible: (by = "model") =>
      withSteadyTrust(state.host, () =>
        state.catalog.skills.filter((skill) => isInvocableBy(by, skill) && state.isAvailable(skill)),
      ),
    formatListing: (listingOptions) => state.listing(listingOptions),
    listSkills: (listOptions) => state.list(listOptions),
    load: (name, loadOptions) => state.load(name, loadOptions),
    activate: (topic, loadOptions) => activateTopic(state, topic, loadOptions),
    use: (request) => useSkill(state.catalog, state.host, request),
    reload: () => state.reload(),
    unload(name) {
      const wasLoaded = state.unload(name);
      notifyListeners(state.listeners);
      return wasLoaded;
    },
    findRevocation: (tool) => state.findRevocation(tool),
    onToolsChanged(listener) {
      state.listeners.add(listener);
      return () => void state.listeners.delete(listener);
    },
    close: () => state.mounts.close(),
    get toolsLoading() {
      return state.toolsLoading;
    },
    get loadingTools() {
      return state.loadingTools;
    },
    takeToolUpdates: () => state.takeToolUpdates(),
    findToolProblems: (skill) => state.mounts.findOutcome(skill)?.problems ?? [],
    async ready() {
      await mounted;
      await state.mounts.refreshTools();
    },
    get mountedSkills() {
      return state.mounts.names;
    },
    async mountTools(skills) {
      const bringing = skills.filter(({ manifest }) => manifest.toolsets.length > 0);
      const all = await Promise.all(bringing.map(async (skill) => ({ skill, ...(await state.mounts.mount(skill)) })));
      if (all.length > 0) notifyListeners(state.listeners);
      const lines = all.map((one) => [`${one.skill.name}:`, ...formatToolLines(one)].join(" "));
      return { text: lines.join("\n"), problems: all.flatMap(({ problems }) => problems) };
    },
    disclose: (query, more) => state.disclose(query, more),
    advise: (prompt, more) => state.advise(prompt, more),
    formatReminder() {
      const isThere = (name: string) => [state.catalog.find(name) ?? []].flat().some(state.isVisible);
      const names = [...active.keys()].filter(isThere).map((name) => sanitizeLine(name, 64));
      if (names.length === 0) return "";
      return `[Skills loaded in this conversation: ${names.join(", ")}. To repeat one, call load_skill with again: true]`;
    },
    async call(name, input, options = {}) {
      const isNamed = (candidate: Tool) => candidate.name === name || formatWireName(candidate.name) === name;
      const ours = ownTools().find(isNamed);
      if (ours) return callTool(ours, input, await createContext(ours, input, options));
      const known = listOffered(state.mounts.knownTools);
      const tools = known.some(isNamed) ? known : listOffered(await state.mountLoaded());
      const tool = tools.find(isNamed);
      const seconds = state.host.settings.limits.toolSeconds;
      if (tool) return callTool(tool, input, await createContext(tool, input, options, seconds));
      const revoked = state.findRevocation(name);
      if (revoked) return createRefusalResult([revoked]);
      const available = tools.map((candidate) => sanitizeLine(candidate.name, 128)).join(", ");
      const content = `Unknown tool "${sanitizeLine(name, 64)}". Available tools: ${available}.`;
      return { text: content, isError: true, code: "tool-unknown" };
    },
  };
}

/** Returns true if a call has an effect, or if that cannot be determined. */
async function hasCallEffect(tool: Tool, input: unknown): Promise<boolean> {
  try {
    return (await tool.effect?.(input)) !== undefined;
  } catch {
    return true;
  }
}

/** Keeps the first of several tools with the same name: `c` of skill `a.b` and `b.c` of skill `a` are both `a.b.c`. */
function keepFirstByName(tools: readonly Tool[]): readonly Tool[] {
  const byName = new Map([...tools].reverse().map((tool) => [tool.name, tool]));
  return byName.size === tools.length ? tools : tools.filter((tool) => byName.get(tool.name) === tool);
}

/**
 * Creates the contexts of calls in one conversation: an approval for all of it is not asked again, and `taint` tracks the untrusted
 * text that was read. A tool of the session, or one that starts a run or a script, has its own time limit.
 */
function createCallContexts(host: Host) {
  const approvedKeys = new Set<string>();
  const taint = createTaintTracker();
  let run: string | undefined;
  return async (
    tool: Tool,
    input: unknown,
    options: SessionCallOptions,
    seconds?: number,
  ): Promise<CallToolContext> => {
    const { approve = host.approve, signal = new AbortController().signal } = options;
    const isLimited = seconds !== undefined && tool.starts === undefined;
    const redactor = createHostRedactor(host);
    const { workspace } = host;
    run ??= createRunId();
    const context = {
      ...{ run, skill: "", toolPolicies: [], approvedKeys, redactor, taint },
      workspace: workspace === undefined ? undefined : shortenHomePath(workspace, host),
      allowedFolders: workspace === undefined ? [] : [workspace],
    };
    const ask = createApprovalAsker({ ...host, ...omitUndefined({ approve }) }, { signal, redactor });
    const unaskedFix = approve ? "its input is too long to be shown in full here" : "no user can be asked here";
    const needsApproval = tool.effect !== undefined && (isLimited || (await hasCallEffect(tool, input)));
    const { approve: _, ...callOptions } = options;
    return {
      approval: needsApproval ? { context, ask, unaskedFix } : undefined,
      createOptions: () => (isLimited ? callOptions : options),
      seconds: isLimited ? seconds : undefined,
      redactor,
      taint,
    };
  };
}

/** Loads the skills for a topic. */
async function activateTopic(state: SessionState, topic: string, options: LoadOptions = {}): Promise<ActivationResult> {
  const { settings } = state.host;
  const max = settings.disclosure.maxSkills ?? DISCLOSURE_DEFAULTS.maxSkills;
  const { isForModel } = state;
  const { matches } = await getMatcher(await state.reload()).match(topic, {
    limit: max,
    isVisible: isForModel,
    isCallable: isForModel,
  });
  const names = selectTopicMatches(matches)
    .slice(0, max)
    .map(({ skill }) => skill.name);
  const results: { name: string; result: ToolResult }[] = [];
  for (const name of names) results.push({ name, result: await state.load(name, { ...options, task: topic }) });
  const loaded = results.filter(({ result }) => !result.isError).map(({ name }) => name);
  if (results.length === 0) return { skills: [], result: createNoMatchResult(topic) };
  const content = results.map(({ result }) => result.text).join("\n\n");
  return {
    skills: loaded,
    result: { text: content, isError: loaded.length === 0, ...omitUndefined({ code: getSharedErrorCode(results) }) },
  };
}

/** Selects the matches for a topic. If none is triggered, those that score at least half as high as the best. */
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
  const content = `No skill fits "${sanitizeLine(topic, 200)}". Call list_skills to see all skills.`;
  return { text: content, isError: false, code: "no-match" };
}

/** A tool of a session in the shape that agent frameworks expect: a name that every provider accepts, a JSON Schema, and a text result. */
export interface AgentTool {
  name: string;
  description: string;
  inputSchema: Tool["inputSchema"];
  /** Returns the text for the model. Contract: resolves even when the call failed or was refused. */
  execute(input: unknown, options?: { signal?: AbortSignal }): Promise<string>;
}

/** A session tool offered to frameworks, with the function that calls it. */
export interface SessionToolOffer extends Pick<Tool, "description" | "category" | "inputSchema"> {
  name: string;
  call(input: unknown, options: CallOptions): Promise<ToolResult>;
}

/**
 * Creates the tools of a session for an agent framework. The list does not change later; `call_skill_tool` calls tools of skills that are
 * loaded afterwards.
 */
export function createAgentTools(session: Session): AgentTool[] {
  return listOfferedTools(session).map(({ name, description, inputSchema, call }) => ({
    name,
    description,
    inputSchema,
    async execute(input, options) {
      // Frameworks pass their own context here.
      const signal = options?.signal;
      return (await call(input, signal instanceof AbortSignal ? { signal } : {})).text;
    },
  }));
}

/** Lists the tools of a session with names that providers accept. */
export function listOfferedTools(session: Session): SessionToolOffer[] {
  const { tools } = session;
  const { toWire } = createWireNames(tools.map(({ name }) => name));
  const own = tools.map(
    ({ name, description, category, inputSchema }): SessionToolOffer => ({
      ...{ name: toWire(name), description, category, inputSchema },
      call: (input, options) => session.call(name, input, options),
    }),
  );
  return hasToolsets(session) ? [...own, createCallTool(session)] : own;
}

/** Creates the tool that calls the tools of skills loaded later: frameworks do not change the tool list during a request. */
function createCallTool(session: Session): SessionToolOffer {
  const { name, description, category, inputSchema, execute } = createTool(
    {
      name: "call_skill_tool",
      description: "Calls a tool of a loaded skill that is not in your list of tools. load_skill names these tools.",
      category: "skills",
      parameters: {
        tool: { type: "string", description: "the tool's name, as shown by load_skill", isRequired: true },
        input: { type: "object", description: "the tool's input" },
      },
    },
    ({ tool, input = {} }, options) => session.call(tool, input, options),
  );
  return { name, description, category, inputSchema, call: execute };
}

function hasToolsets({ catalog }: Session): boolean {
  const known = TOOLSET_CATALOGS.get(catalog) ?? catalog.skills.some(({ manifest }) => manifest.toolsets.length > 0);
  TOOLSET_CATALOGS.set(catalog, known);
  return known;
}

/** Cached: with ten thousand skills the check takes time. */
const TOOLSET_CATALOGS = new WeakMap<Catalog, boolean>();
