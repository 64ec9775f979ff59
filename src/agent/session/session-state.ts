import { type Catalog, findReplacedCopy, formatReplacedNote } from "../../catalog/catalog.ts";
import type { Disclosure } from "../../catalog/disclose.ts";
import { formatSkillContent } from "../../catalog/skill-content.ts";
import { type Host, notifyHost, notifyListeners } from "../../config/host.ts";
import type { Problem } from "../../errors/problem.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { isFolderReplaced } from "../../skill/source/skill-files.ts";
import { type CallOptions, catchToolErrors, type Tool, type ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { omitUndefined } from "../../util/objects.ts";
import { shortHash } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findDenials, findFirstDenial, findToolRevocation } from "../policy/skill-policies.ts";
import { trustPolicy } from "../policy/trust-policy.ts";
import { type DynamicCommandContext, listAllowedCommands, runCommandsForLoading } from "../run/run-instructions.ts";
import { createRefusalResult, reportRunProgress, toToolResult } from "../run/run-result.ts";
import type { ScriptRequest } from "../run/run-script.ts";
import {
  createRunContext,
  describeUnknownSkill,
  findInvocationDenials,
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
  discloseForHost,
  formatHostListing,
  formatListingJson,
  isSkillAvailable,
  isSkillVisible,
  listMostUsed,
  type RecentSkills,
} from "./session-disclosure.ts";
import {
  createOwnTools,
  filterPermittedTools,
  formatToolLines,
  joinToolsBySkill,
  type LoadedTools,
  type OwnTools,
} from "./session-tools.ts";
import { isSameCatalog } from "./shared-catalog.ts";
import { ToolsetMounts } from "./toolset-mounts.ts";

/** For a skill that works on its own when it is loaded. */
interface LoadTask {
  /** What it is to do, where nothing was written for it. */
  task?: string;
  /** What the call that loads it comes with. */
  call?: SessionCallOptions;
}

/** What a conversation has come to. */
export class SessionState {
  catalog: Catalog;
  readonly host: Host;
  readonly #active: Map<string, ActiveSkill>;
  readonly #recent: RecentSkills;
  #used: readonly string[] | undefined;
  /** Whose instructions the conversation was given, by whomever: a model may read their files then. */
  readonly #given: Set<string>;
  /** What the prompts of this session received as advice. */
  readonly #advised: AdviceMemory = createAdviceMemory();
  /** What the loaded skills bring. */
  readonly mounts: ToolsetMounts;
  /** Resolves when the toolsets that are being imported are there. */
  arriving: Promise<void> | undefined;
  /** By skill, the tools that were known when it was loaded and its toolsets were still to be imported. */
  readonly #awaited = new Map<string, string>();

  /** Called after each change of what is loaded. */
  readonly listeners = new Set<() => void>();
  readonly #options: SessionOptions;
  /** What a skill is besides its toolsets, as long as it is the same one. */
  readonly #own = new WeakMap<Skill, readonly Tool[]>();

  constructor(catalog: Catalog, host: Host, active: Map<string, ActiveSkill>, options: SessionOptions = {}) {
    this.catalog = catalog;
    this.#options = options;
    this.host = host;
    this.#active = active;
    this.#given = new Set(active.keys());
    this.#recent = createRecentSkills([...active.keys()].reverse(), host);
    this.mounts = new ToolsetMounts(host, async (name) => (await this.reload()).find(name));
  }

  /** Whether sub-agents can be had: a host that says nothing of models has none to give. */
  get canUse(): boolean {
    return canUseSkills(this.host, this.#options);
  }

  /** Whether nothing of a skill is run. */
  get isReadOnly(): boolean {
    return this.#options.isReadOnly === true;
  }

  readonly isVisible = (skill: Skill): boolean => isSkillVisible(skill, this.host);
  /** Whether the skill is offered: what cannot be used here is not. */
  readonly isAvailable = (skill: Skill): boolean => isSkillAvailable(skill, this.host);
  readonly isForModel = (skill: Skill): boolean => isInvocableBy("model", skill) && this.isAvailable(skill);

  /** Reads the sources again. A catalog that says the same stays, with all that was made from it. */
  async reload(): Promise<Catalog> {
    const next = await this.catalog.reload();
    if (!isSameCatalog(this.catalog, next)) this.catalog = next;
    return this.catalog;
  }

  /** What was just made is found too: a name that is not there, or has another folder in its place, is looked for once more. */
  async find(name: string, by: Invoker): Promise<Skill | { refusal: ToolResult }> {
    const known = this.catalog.find(name);
    const skill = known && !isFolderReplaced(known) ? known : (await this.reload()).find(name);
    if (!skill) return { refusal: createRefusalResult([describeUnknownSkill(name, this.catalog, this.host)]) };
    const refusal = by === "model" ? this.refusalOf(skill) : findSessionDenial(skill, this.host, by);
    return refusal ? { refusal } : skill;
  }

  /** What speaks against giving the skill to the model. */
  readonly refusalOf = (skill: Skill): ToolResult | undefined =>
    findSessionDenial(skill, this.host, this.#given.has(skill.name) ? undefined : "model");

  async load(name: string, options: LoadOptions & LoadTask = {}, within?: ParentRun): Promise<ToolResult> {
    const { by = "model", arguments: written, again, signal, task, call } = options;
    const skill = await this.find(name, by);
    if ("refusal" in skill) return skill.refusal;
    this.#recent.note(skill.name);
    const given = written === undefined ? {} : { arguments: written };
    return catchToolErrors(async () => {
      await skill.fetch?.().catch(async (error) => {
        await this.reload(); // The server may list something else by now: the next call has that.
        throw error;
      });
      if (skill.manifest.context === "fork" && this.canUse) {
        if (this.#options.forks === "tell" && isInvocableBy("model", skill))
          return createHandOverResult(skill, written);
        return this.use({ skill: name, by, ...omitUndefined({ message: written ?? task, signal }) }, within, call);
      }
      if (this.#isLoaded(skill) && this.#active.get(skill.name)?.arguments === written && !again)
        return createLoadedResult(skill, formatToolLines(await this.#bringing(skill)));
      const dynamic = { skill, host: this.host, arguments: written, signal };
      // Waited for only where there is something to wait for: of many that load a skill at once, one gets it.
      const printed =
        !this.isReadOnly && listAllowedCommands(dynamic).length > 0
          ? await runLoadCommands(dynamic, within)
          : undefined;
      const content = formatSkillContent(skill, {
        ...given,
        folder: this.host.folderOf?.(skill),
        printed,
        toolsets: "there",
        scripts: this.isReadOnly ? "They are not run here." : describeScriptUse(this.host, skill),
      });
      this.#given.add(skill.name);
      this.#active.delete(skill.name);
      this.#active.set(skill.name, {
        name: skill.name,
        source: skill.origin.source,
        stamp: fingerprintInstructions(skill),
        ...given,
      });
      await runOnce("loaded", within, () => notifySkillLoaded(this.host, skill));
      const replaced = findReplacedCopy(this.catalog, skill.name);
      const notes = replaced ? [formatReplacedNote(replaced)] : [];
      const isUntrusted = skill.origin.remote !== undefined && trustPolicy(skill, this.host) !== undefined;
      const lines = [content, ...formatToolLines(await this.#bringing(skill)), ...notes];
      notifyListeners(this.listeners);
      return {
        content: lines.join("\n"),
        isError: false,
        ...(isUntrusted ? { isUntrusted } : {}),
      };
    });
  }

  unload(name: string): boolean {
    const known = this.catalog.find(name)?.name ?? name;
    this.mounts.unmount(known);
    return this.#active.delete(known);
  }

  /** Opens what a skill brings, and gives it with what is wrong with it. */
  async #bringing(skill: Skill): Promise<LoadedTools> {
    if (this.isReadOnly) return { tools: [], problems: [] };
    if (this.#options.toolsetLoading === "background") return this.#beginning(skill);
    const { tools, problems } = await this.mounts.mount(skill);
    if (!this.#active.has(skill.name)) {
      this.mounts.unmount(skill.name); // It was unloaded while it was opened.
      return { tools: [], problems: [] };
    }
    return { tools: joinToolsBySkill(tools, this.#isWhole ? [this.#ownOf(skill)] : []), problems };
  }

  /** Starts to open what a skill brings, and gives what is known of it. */
  #beginning(skill: Skill): LoadedTools {
    const { tools, problems, loading } = this.mounts.begin(skill);
    const known = joinToolsBySkill(tools, this.#isWhole ? [this.#ownOf(skill)] : []);
    if (!loading) {
      this.#awaited.delete(skill.name); // The answer to this load has it all.
      return { tools: known, problems };
    }
    this.#awaited.set(skill.name, tools.map(({ name }) => name).join("\n"));
    const arriving = Promise.all([this.arriving, loading]).then(() => {
      if (this.arriving === arriving) this.arriving = undefined;
    });
    this.arriving = arriving;
    return { tools: known, problems, isLoading: tools.length === 0 };
  }

  /** The loaded skills whose toolsets are being imported, and whose tools are not known. */
  get loadingTools(): readonly string[] {
    return [...this.#awaited].flatMap(([name, known]) =>
      known === "" && this.mounts.has(name) && !this.mounts.outcomeOf(name) ? name : [],
    );
  }

  /** Returns a line for each skill whose tools were not known when it was loaded, or were others, and are known now. Each is given once. */
  toolUpdates(): readonly string[] {
    return [...this.#awaited].flatMap(([name, known]) => {
      const outcome = this.mounts.outcomeOf(name);
      if (!outcome && this.mounts.has(name)) return [];
      this.#awaited.delete(name);
      const names = outcome?.tools.map((tool) => tool.name).join("\n");
      if (!outcome || (outcome.problems.length === 0 && names === known)) return [];
      return `Skill '${sanitizeLine(name, 64)}': ${formatToolLines(outcome).join(" ")}`;
    });
  }

  get #isWhole(): boolean {
    return this.#options.brings === "all" && !this.isReadOnly;
  }

  /** These, and what the loaded skills are besides. */
  withOwn(toolsets: readonly Tool[]): readonly Tool[] {
    if (!this.#isWhole) return toolsets;
    const loaded = [...this.#active.values()].flatMap(({ name, source }) => {
      const skill = this.catalog.copies(name).find(({ origin }) => origin.source === source);
      return skill ? [this.#ownOf(skill)] : [];
    });
    return joinToolsBySkill(toolsets, loaded);
  }

  #ownOf(skill: Skill): OwnTools {
    const known = this.#own.get(skill) ?? createOwnTools(skill, this);
    this.#own.set(skill, known);
    return { skill: skill.name, tools: filterPermittedTools(known, skill, this) };
  }

  /** Why a tool is gone that the conversation was given: the configuration may have taken it, or its skill, away since. */
  revocationOf(tool: string): Problem | undefined {
    const disabled = findToolRevocation(tool, this.host);
    if (disabled) return disabled;
    const isOf = (name: string) => tool.startsWith(`${name}.`) || tool.startsWith(`${formatWireName(name)}__`);
    const [owner] = [...this.#active.keys()].filter(isOf).sort((a, b) => b.length - a.length); // Of `a` and `a.b`, the longer one.
    const skill = owner === undefined ? undefined : this.catalog.find(owner);
    const denial = skill && findFirstDenial(skill, this.host);
    return denial && { code: denial.code, message: denial.message, fix: denial.fix };
  }

  /** Runs a script of a skill, for a model. */
  async script(
    { skill, ...request }: Omit<ScriptRequest, "skill"> & { skill: string },
    { signal }: CallOptions,
  ): Promise<ToolResult> {
    const found = await this.find(skill, "model");
    if ("refusal" in found) return found.refusal;
    const { runScriptForModel } = await import("../run/run-script.ts"); // Only who runs one loads what it needs.
    return runScriptForModel(this.host, { ...request, skill: found, ...omitUndefined({ signal }) });
  }

  /** The tools of all that is loaded, also of what an earlier session had loaded. */
  async mountedNow(): Promise<readonly Tool[]> {
    if (this.isReadOnly) return [];
    for (const { name, source } of this.#active.values()) {
      const skill = this.mounts.has(name) ? undefined : this.catalog.find(name);
      if (skill?.origin.source === source && !findSessionDenial(skill, this.host, undefined))
        await this.#bringing(skill);
    }
    return this.mounts.fresh();
  }

  /** Hands a task to a sub-agent that follows the skill. */
  async use(request: UseRequest, within?: ParentRun, options: SessionCallOptions = {}): Promise<ToolResult> {
    const found = await this.find(request.skill, request.by ?? "user");
    if ("refusal" in found) return found.refusal;
    this.#recent.note(found.name);
    const { catalog } = this;
    const { onProgress, approve } = options;
    const host = { ...this.host, ...omitUndefined({ approve }) };
    const { signal = new AbortController().signal } = request;
    const result = await (within
      ? runUse({ catalog, host, request, chain: createRunContext(within), port: within.port, id: within.id, signal })
      : reportRunProgress(useSkill(catalog, host, request), onProgress));
    return toToolResult(result, host.settings.limits.toolOutput);
  }

  disclose(query: string, more: QueryOptions = {}): Disclosure {
    const context = {
      recent: this.#recent.names(),
      usage: this.#usage(),
      canFork: this.canUse,
      contextWindow: this.#options.contextWindow,
    };
    const options = { isLoaded: (skill: Skill) => this.#isLoaded(skill), ...more };
    const told = discloseForHost(this.catalog, this.host, query, { context, options });
    for (const { name } of [...told.shown, ...told.noted].reverse()) this.#recent.note(name);
    for (const { name } of told.shown) this.#given.add(name);
    if (told.matches.length > 0) {
      const skills = told.matches.map(({ skill }) => skill.name);
      notifyHost(this.host, {
        type: "skill-matched",
        skills,
        tier: told.tier,
        ...omitUndefined({ caller: this.host.caller }),
      });
    }
    return told;
  }

  async advise(prompt: string, { conversation, ...more }: SessionAdviseOptions = {}): Promise<Advice> {
    const { advised } = this.#options;
    // A session is one conversation where the client names none. A memory that others share has no such default.
    const known = conversation ?? (advised ? undefined : "");
    const advice = await advise(prompt, {
      ...more,
      ...omitUndefined({ conversation: known }),
      catalog: await this.reload(),
      host: this.host,
      memory: advised ?? this.#advised,
      isLoaded: (skill) => this.#isLoaded(skill),
    });
    const skills = advice.skills.map(({ name }) => name);
    if (advice.kind === "instructions") {
      for (const name of skills) {
        this.#recent.note(name);
        this.#given.add(name);
      }
    }
    if (skills.length > 0) {
      const tier = advice.kind === "instructions" ? "full" : "registry";
      notifyHost(this.host, { type: "skill-matched", skills, tier, ...omitUndefined({ caller: this.host.caller }) });
    }
    return advice;
  }

  /** The skills that a model may know of, as they are listed for every query. */
  listing({ room, isLeftOut }: ListingLimits = {}): string {
    const { contextWindow } = this.#options;
    const context = { usage: this.#usage(), contextWindow, canFork: this.canUse };
    return formatHostListing(this.catalog, this.host, { ...context, ...omitUndefined({ room, isLeftOut }) });
  }

  /** The same skills as JSON. */
  async list(options: ListingLimits & { note?: string | undefined } = {}): Promise<ToolResult> {
    const content = formatListingJson(await this.reload(), this.host, { usage: this.#usage(), ...options });
    return { content, isError: false };
  }

  /** The most used skills when the conversation began: its prompts keep their beginning, whatever it uses. */
  #usage(): readonly string[] {
    this.#used ??= listMostUsed(this.host);
    return this.#used;
  }

  /** What was loaded are the instructions as they are now. */
  #isLoaded(skill: Skill): boolean {
    const known = this.#active.get(skill.name);
    return known !== undefined && known.stamp === fingerprintInstructions(skill);
  }
}

/** Says that a skill's instructions are in a conversation. */
export function notifySkillLoaded(host: Host, { name, origin }: Skill): void {
  const { caller } = host;
  notifyHost(host, { type: "skill-loaded", skill: name, source: origin.source, ...omitUndefined({ caller }) });
}

/** In a step, where there are steps: what was told is not told again. */
async function runOnce(name: string, within: ParentRun | undefined, tell: () => void): Promise<void> {
  const work = async () => {
    tell();
    return true;
  };
  await (within ? within.port.step(name, work) : work());
}

/** In a step, where there are steps: what commands print is not the same twice. */
async function runLoadCommands(
  dynamic: DynamicCommandContext,
  within: ParentRun | undefined,
): Promise<string[] | undefined> {
  const run = async () => (await runCommandsForLoading(dynamic)) ?? null;
  return (await (within ? within.port.step("commands", run) : run())) ?? undefined;
}

function fingerprintInstructions(skill: Skill): string {
  return skill.origin.remote?.digest ?? shortHash(skill.body());
}

function createLoadedResult({ name }: Skill, tools: readonly string[]): ToolResult {
  const content = `Skill '${sanitizeLine(name, 64)}' is already loaded in this conversation, and has not changed. If its instructions are out of sight, load it with again: true.`;
  return { content: [content, ...tools].join("\n"), isError: false, code: "already-loaded" };
}

/** For a model that hands the task to a skill which is followed on its own. */
function createHandOverResult({ name }: Skill, written: string | undefined): ToolResult {
  const task = written === undefined ? "" : `, with this task:\n\n${written}`;
  const content = `Skill '${sanitizeLine(name, 64)}' is followed on its own: hand it over with use_skill${task}`;
  return { content, isError: false, code: "to-be-used" };
}

/** What speaks against giving this skill to whoever asks; nobody in particular, when it was given already. */
function findSessionDenial(skill: Skill, host: Host, by: Invoker | undefined): ToolResult | undefined {
  const refusals = [...findDenials(skill, host), ...findInvocationDenials(skill, by)];
  return refusals.length === 0 ? undefined : createRefusalResult(refusals);
}
