import { type Catalog, findReplacedCopy, formatReplacedNote } from "../../catalog/catalog.ts";
import type { Disclosure } from "../../catalog/disclose.ts";
import { formatSkillContent } from "../../catalog/skill-content.ts";
import { type Host, notifyListeners } from "../../config/host.ts";
import type { Problem } from "../../errors/problem.ts";
import type { SkillEvent } from "../../host/events.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { isFolderReplaced } from "../../skill/source/skill-files.ts";
import { type CallOptions, catchToolErrors, type Tool, type ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { createTurns } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import { shortHash } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findFirstDenial, findToolRevocation } from "../policy/skill-policies.ts";
import { trustPolicy } from "../policy/trust-policy.ts";
import { createEventSink, createHostRedactor } from "../run/redaction.ts";
import { type DynamicCommandContext, listAllowedCommands, runCommandsForLoading } from "../run/run-inputs.ts";
import { createRefusalResult, reportRunProgress, toToolResult } from "../run/run-result.ts";
import type { ScriptRequest } from "../run/run-script.ts";
import {
  createRunContext,
  describeUnknownSkill,
  type ParentRun,
  runUse,
  type UseRequest,
  useSkill,
} from "../run/use-skill.ts";
import { describeScriptUse } from "../workspace/sandbox-permissions.ts";
import { type Advice, type AdviceMemory, advise, createAdviceMemory } from "./advise.ts";
import type {
  ActiveSkill,
  Invoker,
  ListingLimits,
  LoadOptions,
  QueryOptions,
  SessionAdviseOptions,
  SessionCallOptions,
  SessionOptions,
} from "./session.ts";
import {
  canUseSkills,
  createRecentSkills,
  createSkillListResult,
  discloseForHost,
  formatHostListing,
  isSameCatalog,
  isSkillAvailable,
  isSkillVisible,
  listHostSkills,
  listMostUsed,
  type RecentSkills,
} from "./session-disclosure.ts";
import {
  createHandOverResult,
  createLoadedResult,
  createOwnTools,
  filterPermittedTools,
  findSessionDenial,
  formatToolLines,
  joinToolsBySkill,
  type LoadedTools,
  type OwnTools,
} from "./session-tools.ts";
import { ToolsetMounts } from "./toolset-mounts.ts";

/** A skill's task in a sub-agent, used if no arguments were passed when it was loaded, and the options of the call that loads it. */
type LoadTask = { task?: string; call?: SessionCallOptions };

/** The state of one conversation. */
export class SessionState {
  catalog: Catalog;
  readonly host: Host;
  readonly #active: Map<string, ActiveSkill>;
  readonly #recent: RecentSkills;
  #used: Promise<readonly string[]> | undefined;
  /** The skills whose instructions are in the conversation. A model may read their files. */
  readonly #disclosedSkills: Set<string>;
  /** The advice that the prompts of this session received. */
  readonly #adviceMemory: AdviceMemory = createAdviceMemory();
  /** The tools of the loaded skills. */
  readonly mounts: ToolsetMounts;
  /** Resolves when the pending imports of toolsets are done. */
  toolsLoading: Promise<void> | undefined;
  /** By skill: the tools that were known at load time, while its toolsets were still being imported. */
  readonly #awaited = new Map<string, string>();

  /** Called whenever the set of loaded skills changes. */
  readonly listeners = new Set<() => void>();
  readonly #options: SessionOptions;
  /** The tools of a skill other than its toolsets, while the skill is unchanged. */
  readonly #ownTools = new WeakMap<Skill, readonly Tool[]>();
  /** Loads one skill at a time: of many concurrent loads, one does the work. */
  readonly #loadInTurn = createTurns();

  constructor(catalog: Catalog, host: Host, active: Map<string, ActiveSkill>, options: SessionOptions = {}) {
    this.catalog = catalog;
    this.#options = options;
    this.host = host;
    this.#active = active;
    this.#disclosedSkills = new Set(active.keys());
    this.#recent = createRecentSkills([...active.keys()].reverse(), host);
    this.mounts = new ToolsetMounts(host, async (name) => (await this.reload()).find(name));
  }

  /** True if sub-agents are available: a host without model settings has none. */
  get canUse(): boolean {
    return canUseSkills(this.host, this.#options);
  }

  /** True if no code of a skill may run. */
  get isReadOnly(): boolean {
    return this.#options.isReadOnly === true;
  }

  readonly isVisible = (skill: Skill): boolean => isSkillVisible(skill, this.host);
  /** Returns true if the skill can be used here. Only such skills are offered. */
  readonly isAvailable = (skill: Skill): boolean => isSkillAvailable(skill, this.host);
  readonly isForModel = (skill: Skill): boolean => isInvocableBy("model", skill) && this.isAvailable(skill);

  /** Reads the sources again. An unchanged catalog stays the same object, with everything derived from it. */
  async reload(): Promise<Catalog> {
    const next = await this.catalog.reload();
    if (!isSameCatalog(this.catalog, next)) this.catalog = next;
    await this.#prepareOwnTools();
    return this.catalog;
  }

  /** Finds a skill, also one that was just created: an unknown name, or one whose folder changed, is looked up again. */
  async find(name: string, by: Invoker): Promise<Skill | { refusal: ToolResult }> {
    const known = this.catalog.find(name);
    const skill = known && !isFolderReplaced(known) ? known : (await this.reload()).find(name);
    if (!skill) return { refusal: createRefusalResult([describeUnknownSkill(name, this.catalog, this.host)]) };
    const refusal = by === "model" ? this.findRefusal(skill) : findSessionDenial(skill, this.host, by);
    return refusal ? { refusal } : skill;
  }

  /** Returns the reason why the model must not get the skill. */
  readonly findRefusal = (skill: Skill): ToolResult | undefined =>
    findSessionDenial(skill, this.host, this.#disclosedSkills.has(skill.name) ? undefined : "model");

  async load(name: string, options: LoadOptions & LoadTask = {}, parent?: ParentRun): Promise<ToolResult> {
    const { by = "model", arguments: written, signal, task, call } = options;
    const skill = await this.find(name, by);
    if ("refusal" in skill) return skill.refusal;
    this.#recent.note(skill.name);
    return catchToolErrors(async () => {
      await skill.fetch?.().catch(async (error) => {
        await this.reload(); // The server may list another version by now. The next call uses it.
        throw error;
      });
      if (skill.manifest.context === "fork" && this.canUse) {
        if (this.#options.forkMode === "suggest" && isInvocableBy("model", skill))
          return createHandOverResult(skill, written);
        return this.use({ skill: name, by, ...omitUndefined({ message: written ?? task, signal }) }, parent, call);
      }
      return this.#loadInTurn(skill.name, () => this.#loadInstructions(skill, options, parent));
    });
  }

  async #loadInstructions(skill: Skill, options: LoadOptions, parent: ParentRun | undefined): Promise<ToolResult> {
    const { arguments: written, again, signal } = options;
    const values = omitUndefined({ arguments: written });
    if ((await this.#isLoaded(skill)) && this.#active.get(skill.name)?.arguments === written && !again)
      return createLoadedResult(skill, formatToolLines(await this.#mountTools(skill)));
    const dynamic = { skill, host: this.host, arguments: written, signal };
    const printed =
      !this.isReadOnly && (await listAllowedCommands(dynamic)).length > 0
        ? await runLoadCommands(dynamic, parent)
        : undefined;
    const content = await formatSkillContent(skill, {
      ...values,
      folder: this.host.resolveFolder?.(skill),
      printed,
      toolsets: "there",
      scripts: this.isReadOnly ? "They cannot be run here." : await describeScriptUse(this.host, skill),
    });
    this.#disclosedSkills.add(skill.name);
    this.#active.delete(skill.name);
    this.#active.set(skill.name, {
      name: skill.name,
      source: skill.origin.source,
      stamp: await fingerprintInstructions(skill),
      ...values,
    });
    await runOnce("loaded", parent, () => notifySkillLoaded(this.host, skill));
    const replaced = findReplacedCopy(this.catalog, skill.name);
    const notes = replaced ? [formatReplacedNote(replaced)] : [];
    const isUntrusted = skill.origin.remote !== undefined && trustPolicy(skill, this.host) !== undefined;
    const lines = [content, ...formatToolLines(await this.#mountTools(skill)), ...notes];
    notifyListeners(this.listeners);
    return {
      text: lines.join("\n"),
      isError: false,
      ...(isUntrusted ? { isUntrusted } : {}),
    };
  }

  unload(name: string): boolean {
    const known = this.catalog.find(name)?.name ?? name;
    this.mounts.unmount(known);
    return this.#active.delete(known);
  }

  /** Mounts the tools of a skill. Returns them, or the problems. */
  async #mountTools(skill: Skill): Promise<LoadedTools> {
    if (this.isReadOnly) return { tools: [], problems: [] };
    if (this.#options.toolsetLoading === "background") return await this.#startMount(skill);
    const { tools, problems } = await this.mounts.mount(skill);
    if (!this.#active.has(skill.name)) {
      this.mounts.unmount(skill.name); // The skill was unloaded in the meantime.
      return { tools: [], problems: [] };
    }
    return { tools: joinToolsBySkill(tools, this.#isWhole ? [await this.#ownOf(skill)] : []), problems };
  }

  /** Starts to mount the tools of a skill. Returns the tools known so far. */
  async #startMount(skill: Skill): Promise<LoadedTools> {
    const { tools, problems, loading } = await this.mounts.startMount(skill);
    const known = joinToolsBySkill(tools, this.#isWhole ? [await this.#ownOf(skill)] : []);
    if (!loading) {
      this.#awaited.delete(skill.name); // The result of this load is complete.
      return { tools: known, problems };
    }
    this.#awaited.set(skill.name, tools.map(({ name }) => name).join("\n"));
    const arriving = Promise.all([this.toolsLoading, loading]).then(() => {
      if (this.toolsLoading === arriving) this.toolsLoading = undefined;
    });
    this.toolsLoading = arriving;
    return { tools: known, problems, isLoading: tools.length === 0 };
  }

  /** The loaded skills whose toolsets are being imported and whose tools are not known yet. */
  get loadingTools(): readonly string[] {
    return [...this.#awaited].flatMap(([name, known]) =>
      known === "" && this.mounts.has(name) && !this.mounts.findOutcome(name) ? name : [],
    );
  }

  /** Returns one line for each skill whose tools became known, or changed, after it was loaded. Each line is returned once. */
  takeToolUpdates(): readonly string[] {
    return [...this.#awaited].flatMap(([name, known]) => {
      const outcome = this.mounts.findOutcome(name);
      if (!outcome && this.mounts.has(name)) return [];
      this.#awaited.delete(name);
      const names = outcome?.tools.map((tool) => tool.name).join("\n");
      if (!outcome || (outcome.problems.length === 0 && names === known)) return [];
      return `Skill '${sanitizeLine(name, 64)}': ${formatToolLines(outcome).join(" ")}`;
    });
  }

  get #isWhole(): boolean {
    return this.#options.provides === "all" && !this.isReadOnly;
  }

  /** Adds the script and run tools of the loaded skills to those of the toolsets. */
  addOwnTools(toolsets: readonly Tool[]): readonly Tool[] {
    if (!this.#isWhole) return toolsets;
    const loaded = this.#listActiveSkills().map((skill) =>
      this.#permitOwnTools(skill, this.#ownTools.get(skill) ?? []),
    );
    return joinToolsBySkill(toolsets, loaded);
  }

  #listActiveSkills(): Skill[] {
    return [...this.#active.values()].flatMap(
      ({ name, source }) => this.catalog.copies(name).find(({ origin }) => origin.source === source) ?? [],
    );
  }

  /** Creates the script and run tools of loaded skills that were read again, or loaded by an earlier session. */
  async #prepareOwnTools(): Promise<void> {
    if (this.#isWhole) for (const skill of this.#listActiveSkills()) await this.#ownOf(skill);
  }

  async #ownOf(skill: Skill): Promise<OwnTools> {
    const known = this.#ownTools.get(skill) ?? (await createOwnTools(skill, this));
    this.#ownTools.set(skill, known);
    return this.#permitOwnTools(skill, known);
  }

  #permitOwnTools(skill: Skill, known: readonly Tool[]): OwnTools {
    return { skill: skill.name, tools: filterPermittedTools(known, skill, this) };
  }

  /** Returns the reason why a known tool is gone: the configuration may have disabled it or its skill. */
  findRevocation(tool: string): Problem | undefined {
    const disabled = findToolRevocation(tool, this.host);
    if (disabled) return disabled;
    const isOf = (name: string) => tool.startsWith(`${name}.`) || tool.startsWith(`${formatWireName(name)}__`);
    const [owner] = [...this.#active.keys()].filter(isOf).sort((a, b) => b.length - a.length); // Of `a` and `a.b`, the longer one matches.
    const skill = owner === undefined ? undefined : this.catalog.find(owner);
    const denial = skill && findFirstDenial(skill, this.host);
    return denial && { code: denial.code, message: denial.message, fix: denial.fix };
  }

  /** Runs a script of a skill, for a model. */
  async runScript(
    { skill, ...request }: Omit<ScriptRequest, "skill"> & { skill: string },
    { signal }: CallOptions,
  ): Promise<ToolResult> {
    const found = await this.find(skill, "model");
    if ("refusal" in found) return found.refusal;
    const { runSessionScript } = await import("../run/run-script.ts"); // Loaded on demand.
    const asked = { ...request, skill: found, ...omitUndefined({ signal }) };
    return runSessionScript(this.host, asked, this.#options.recordsScripts);
  }

  /** Returns the tools of all loaded skills, including those that an earlier session loaded. */
  async mountLoaded(): Promise<readonly Tool[]> {
    if (this.isReadOnly) return [];
    await this.#prepareOwnTools();
    for (const { name, source } of this.#active.values()) {
      const skill = this.mounts.has(name) ? undefined : this.catalog.find(name);
      const isSame = skill?.origin.source === source;
      if (isSame && !findSessionDenial(skill, this.host, undefined)) await this.#mountTools(skill);
    }
    return this.mounts.refreshTools();
  }

  /** Hands a task to a sub-agent that follows the skill. */
  async use(request: UseRequest, parent?: ParentRun, options: SessionCallOptions = {}): Promise<ToolResult> {
    const found = await this.find(request.skill, request.by ?? "user");
    if ("refusal" in found) return found.refusal;
    this.#recent.note(found.name);
    const { catalog } = this;
    const { onProgress, approve } = options;
    const host = { ...this.host, ...omitUndefined({ approve }) };
    const { signal = new AbortController().signal } = request;
    const result = await (parent
      ? runUse({ catalog, host, request, chain: createRunContext(parent), steps: parent.steps, id: parent.id, signal })
      : reportRunProgress(useSkill(catalog, host, request), onProgress));
    return toToolResult(result, host.settings.limits.toolOutput);
  }

  async disclose(query: string, more: QueryOptions = {}): Promise<Disclosure> {
    const context = {
      recent: await this.#recent.names(),
      usage: await this.#usage(),
      canFork: this.canUse,
      contextWindow: this.#options.contextWindow,
    };
    const options = { isLoaded: (skill: Skill) => this.#isLoaded(skill), ...more };
    const disclosure = await discloseForHost(this.catalog, this.host, query, { context, options });
    for (const { name } of [...disclosure.shown, ...disclosure.mentioned].reverse()) this.#recent.note(name);
    for (const { name } of disclosure.shown) this.#disclosedSkills.add(name);
    // Matches by words count only if the text names them.
    const matched = disclosure.matches.filter(
      ({ level, skill }) => level !== "words" || disclosure.shortlist.includes(skill),
    );
    if (matched.length > 0) {
      const skills = matched.map(({ skill }) => skill.name);
      emitSessionEvent(this.host, {
        type: "skill-matched",
        skills,
        tier: disclosure.tier,
        ...omitUndefined({ caller: this.host.caller }),
      });
    }
    return disclosure;
  }

  async advise(prompt: string, { conversation, ...more }: SessionAdviseOptions = {}): Promise<Advice> {
    const { adviceMemory: advised } = this.#options;
    // Without a conversation id from the client, a session is one conversation. A shared memory has no such default.
    const known = conversation ?? (advised ? undefined : "");
    const advice = await advise(prompt, {
      ...more,
      ...omitUndefined({ conversation: known }),
      catalog: await this.reload(),
      host: this.host,
      memory: advised ?? this.#adviceMemory,
      isLoaded: (skill) => this.#isLoaded(skill),
    });
    const skills = advice.skills.map(({ name }) => name);
    if (advice.kind === "instructions") {
      for (const name of skills) {
        this.#recent.note(name);
        this.#disclosedSkills.add(name);
      }
    }
    if (skills.length > 0) {
      const tier = advice.kind === "instructions" ? "full" : "registry";
      emitSessionEvent(this.host, {
        type: "skill-matched",
        skills,
        tier,
        ...omitUndefined({ caller: this.host.caller }),
      });
    }
    return advice;
  }

  /** Lists the skills that a model may know, the same for every query. */
  async listing({ room, isOmitted }: ListingLimits = {}): Promise<string> {
    const context = { usage: await this.#usage(), contextWindow: this.#options.contextWindow, canFork: this.canUse };
    return formatHostListing(this.catalog, this.host, { ...context, ...omitUndefined({ room, isOmitted }) });
  }

  /** Lists the same skills as JSON. */
  async list(options: ListingLimits & { note?: string | undefined } = {}): Promise<ToolResult> {
    const usage = await this.#usage();
    return createSkillListResult(listHostSkills(await this.reload(), this.host, { usage, ...options }));
  }

  /** Returns the most used skills at the start of the conversation. Fixed, so that the start of its prompts does not change. */
  #usage(): Promise<readonly string[]> {
    this.#used ??= listMostUsed(this.host);
    return this.#used;
  }

  /** Returns true if the current instructions are loaded. */
  async #isLoaded(skill: Skill): Promise<boolean> {
    const known = this.#active.get(skill.name);
    return known !== undefined && known.stamp === (await fingerprintInstructions(skill));
  }
}

/** Emits the event that a skill's instructions are in a conversation. */
export function notifySkillLoaded(host: Host, { name, origin }: Skill): void {
  const { caller } = host;
  emitSessionEvent(host, { type: "skill-loaded", skill: name, source: origin.source, ...omitUndefined({ caller }) });
}

function emitSessionEvent(host: Host, event: SkillEvent): void {
  if (host.onEvent || host.statistics) createEventSink(createHostRedactor(host), host)(event);
}

/** Runs in a step if there are steps: on resume, the event is not emitted again. */
async function runOnce(name: string, parent: ParentRun | undefined, notify: () => void): Promise<void> {
  if (!parent) return notify();
  await parent.steps.step(name, async () => {
    notify();
    return true;
  });
}

/** Runs in a step if there are steps: commands may print something else the second time. */
async function runLoadCommands(dynamic: DynamicCommandContext, parent?: ParentRun): Promise<string[] | undefined> {
  const run = async () => (await runCommandsForLoading(dynamic)) ?? null;
  return (await (parent ? parent.steps.step("commands", run) : run())) ?? undefined;
}

async function fingerprintInstructions(skill: Skill): Promise<string> {
  return skill.origin.remote?.digest ?? shortHash(await skill.body());
}
