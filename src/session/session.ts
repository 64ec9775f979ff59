import type { Catalog } from "../catalog/catalog.ts";
import { skillContent } from "../catalog/content.ts";
import { type DiscloseOptions, type Disclosure, disclose } from "../catalog/disclose.ts";
import type { RunEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import { notify } from "../host/notify.ts";
import type { Notice } from "../host/sandbox.ts";
import { NO_SETTINGS } from "../host/settings.ts";
import { denials, firstDenial } from "../policy/policy.ts";
import { isDisabled } from "../policy/tools.ts";
import { type Chain, TOP } from "../run/chain.ts";
import { commandsOf, type Dynamic, printedForLoading } from "../run/dynamic.ts";
import { callInTime } from "../run/in-time.ts";
import { invocationDenial, notFound } from "../run/judge-use.ts";
import type { Within } from "../run/loop-options.ts";
import { asToolResult, type RunResult, refusedResult } from "../run/result.ts";
import type { Run } from "../run/start-run.ts";
import { type UseRequest, useSkill, useWithin } from "../run/use.ts";
import { defined } from "../shared/defined.ts";
import { shortHash } from "../shared/hash.ts";
import { inLine } from "../shared/prompt.ts";
import { safely } from "../skill/safely.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import type { CallOptions, Tool, ToolResult } from "../skill/tool.ts";
import { wireName } from "../skill/wire-name.ts";
import { openAgreement } from "./agree.ts";
import { Mounts } from "./mounts.ts";
import { saysTheSame } from "./same-catalog.ts";
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
}

/** What can be said of one query, over the settings. */
export type TellOptions = Pick<
  DiscloseOptions,
  "files" | "shortlist" | "budget" | "maxSkills" | "isLoaded" | "toolsets"
>;

/** One conversation: what is loaded, what was used recently, the tools now offered. */
export interface Session {
  /** The skills as they are now. */
  readonly catalog: Catalog;
  /** The session's own tools, then those that loaded skills bring, as `skill.tool`. */
  readonly tools: readonly Tool[];
  /** What is loaded, in order. Plain data: keep it, and give it to the next session. */
  readonly active: readonly ActiveSkill[];
  /** The skills that a model may know of. */
  visible(): readonly Skill[];
  /** What to tell the model for this query. */
  disclose(query: string, options?: TellOptions): Disclosure;
  /** Puts a skill's instructions into the conversation. */
  load(name: string, options?: LoadOptions): Promise<ToolResult>;
  /** Hands a task to a sub-agent that follows the skill. Contract: the run resolves, also when it was refused. */
  use(request: UseRequest): Run<RunEvent, RunResult>;
  /** Forgets that it is loaded, and takes its tools away. Contract: false when it was not. */
  unload(name: string): boolean;
  /** One line that says what is loaded, for a conversation that was shortened; empty when nothing is. */
  reminder(): string;
  /** Calls a tool, once the host agrees to what it changes. Contract: never throws. */
  call(tool: string, input: unknown, options?: CallOptions): Promise<ToolResult>;
  /** Reads the sources again. */
  reload(): Promise<Catalog>;
  /** Resolves when the tools of what was loaded are there as they are now. */
  ready(): Promise<void>;
  /** Brings the tools of skills that were told in full, as loading them does. */
  bring(skills: readonly Skill[]): Promise<Bringing>;
  /** The skills whose tools are there, in order. */
  readonly brought: readonly string[];
  /** Ends what loaded skills brought. */
  close(): void;
}

/** What skills brought. */
export interface Bringing {
  /** What to tell a model of it; empty when they bring nothing. */
  text: string;
  problems: readonly Notice[];
}

/** Opens a conversation over these skills. What the host leaves out has its default. */
export function openSession(opened: Catalog, given: Partial<Host> = {}, options: SessionOptions = {}): Session {
  const active = new Map((options.active ?? []).map((skill) => [skill.name, skill]));
  const state = new State(opened, { settings: NO_SETTINGS, ...given }, active);
  const own = sessionTools(state);
  const agree = openAgreement(state.host);
  const mounted = active.size > 0 ? state.mountedNow() : undefined;
  const offered = (mounted: readonly Tool[]) => [
    ...own,
    ...mounted.filter(({ name }) => !isDisabled(name, state.host)),
  ];
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
    visible: () => state.catalog.skills.filter(state.isForModel),
    load: (name, loadOptions) => state.load(name, loadOptions),
    use: (request) => useSkill(state.catalog, state.host, request),
    reload: () => state.reload(),
    unload: (name) => state.unload(name),
    close: () => state.mounts.close(),
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
      const lines = all.map((one) => [`${one.skill.name}:`, ...toolLines(one)].join(" "));
      return { text: lines.join("\n"), problems: all.flatMap(({ problems }) => problems) };
    },
    disclose: (query, more) => state.disclose(query, more),
    reminder() {
      const names = [...active.keys()].filter((name) => state.catalog.has(name)).map((name) => inLine(name, 64));
      if (names.length === 0) return "";
      return `[Skills loaded in this conversation: ${names.join(", ")}. load_skill with again: true repeats one]`;
    },
    async call(name, input, options = {}) {
      const isNamed = (candidate: Tool) => candidate.name === name || wireName(candidate.name) === name;
      const ours = own.find(isNamed);
      if (ours) return ours.execute(input, options); // It has limits of its own.
      const known = offered(state.mounts.listed);
      const tools = known.some(isNamed) ? known : offered(await state.mountedNow());
      const tool = tools.find(isNamed);
      const { toolSeconds } = state.host.settings.limits;
      if (tool) return (await agree(tool, input, options)) ?? callInTime(tool, input, options, toolSeconds);
      const there = tools.map((candidate) => candidate.name).join(", ");
      const content = `There is no tool "${inLine(name, 64)}"; there are ${there}.`;
      return { content, isError: true, code: "tool-unknown" };
    },
  };
}

/** What a conversation has come to. */
export class State {
  catalog: Catalog;
  readonly host: Host;
  readonly #active: Map<string, ActiveSkill>;
  /** The one used last first. */
  readonly #recent: string[];
  /** Whose instructions the conversation was given, by whomever: a model may read their files then. */
  readonly #given: Set<string>;
  /** What the loaded skills bring. */
  readonly mounts: Mounts;

  constructor(catalog: Catalog, host: Host, active: Map<string, ActiveSkill>) {
    this.catalog = catalog;
    this.host = host;
    this.#active = active;
    this.#recent = [...new Set([...[...active.keys()].reverse(), ...(host.statistics?.recent(MOST_RECENT) ?? [])])];
    this.#given = new Set(active.keys());
    this.mounts = new Mounts(host, async (name) => (await this.reload()).find(name));
  }

  /** Whether sub-agents can be had: a host that says nothing of models has none to give. */
  get canUse(): boolean {
    const { models, settings, env } = this.host;
    return models !== undefined || settings.models.size > 0 || env !== undefined;
  }

  readonly isVisible = (skill: Skill): boolean => firstDenial(skill, this.host)?.kind !== "access";
  readonly isForModel = (skill: Skill): boolean => isFor("model", skill) && this.isVisible(skill);

  /** Reads the sources again. A catalog that says the same stays, with all that was made from it. */
  async reload(): Promise<Catalog> {
    const next = await this.catalog.reload();
    if (!saysTheSame(this.catalog, next)) this.catalog = next;
    return this.catalog;
  }

  /** What was just made is found too: a name that is not there is looked for once more. */
  async find(name: string, by: By): Promise<Skill | { refusal: ToolResult }> {
    const skill = this.catalog.find(name) ?? (await this.reload()).find(name);
    if (!skill) return { refusal: refusedResult([notFound(name, this.catalog, this.host)]) };
    const refusal = by === "model" ? this.refusalOf(skill) : denialOf(skill, this.host, by);
    return refusal ? { refusal } : skill;
  }

  /** What speaks against giving the skill to the model. */
  readonly refusalOf = (skill: Skill): ToolResult | undefined =>
    denialOf(skill, this.host, this.#given.has(skill.name) ? undefined : "model");

  async load(name: string, options: LoadOptions = {}, within?: Within): Promise<ToolResult> {
    const { by = "model", arguments: written, again, signal } = options;
    const skill = await this.find(name, by);
    if ("refusal" in skill) return skill.refusal;
    moveToFront(this.#recent, skill.name);
    const given = written === undefined ? {} : { arguments: written };
    return safely(async () => {
      if (skill.manifest.context === "fork" && this.canUse) {
        return this.use({ skill: name, by, ...defined({ message: written, signal }) }, within);
      }
      if (this.#isLoaded(skill) && this.#active.get(skill.name)?.arguments === written && !again)
        return alreadyLoaded(skill, toolLines(await this.mounts.mount(skill)));
      const dynamic = { skill, host: this.host, arguments: written, signal };
      // Waited for only where there is something to wait for: of many that load a skill at once, one gets it.
      const printed = commandsOf(dynamic).length > 0 ? await printedIn(dynamic, within) : undefined;
      const content = skillContent(skill, {
        ...given,
        folder: this.host.folderOf?.(skill),
        printed,
        toolsets: "there",
      });
      this.#given.add(skill.name);
      this.#active.delete(skill.name);
      this.#active.set(skill.name, { name: skill.name, source: skill.origin.source, stamp: stampOf(skill), ...given });
      await once("loaded", within, () => tellLoaded(this.host, skill));
      return { content: [content, ...toolLines(await this.mounts.mount(skill))].join("\n"), isError: false };
    });
  }

  unload(name: string): boolean {
    const known = this.catalog.find(name)?.name ?? name;
    this.mounts.unmount(known);
    return this.#active.delete(known);
  }

  /** The tools of all that is loaded, also of what an earlier session had loaded. */
  async mountedNow(): Promise<readonly Tool[]> {
    for (const { name, source } of this.#active.values()) {
      const skill = this.mounts.has(name) ? undefined : this.catalog.find(name);
      if (skill?.origin.source === source && !denialOf(skill, this.host, undefined)) await this.mounts.mount(skill);
    }
    return this.mounts.fresh();
  }

  /** Hands a task to a sub-agent that follows the skill. */
  async use(request: UseRequest, within?: Within): Promise<ToolResult> {
    const found = await this.find(request.skill, request.by ?? "user");
    if ("refusal" in found) return found.refusal;
    moveToFront(this.#recent, found.name);
    const { catalog, host } = this;
    const { signal = new AbortController().signal } = request;
    const result = await (within
      ? useWithin({ catalog, host, request, chain: chainIn(within), port: within.port, id: within.id, signal })
      : useSkill(catalog, host, request));
    return asToolResult(result, host.settings.limits.toolOutput);
  }

  disclose(query: string, more: TellOptions = {}): Disclosure {
    const { settings, folderOf } = this.host;
    const told = disclose(this.catalog, query, {
      isLoaded: (skill) => this.#isLoaded(skill),
      toolsets: "on-load",
      ...settings.disclosure,
      ...more,
      ...(folderOf ? { folderOf } : {}),
      isVisible: this.isVisible,
      recent: this.#recent,
      canFork: this.canUse,
      search: "search_skills",
    });
    for (const { name } of [...told.shown, ...told.noted].reverse()) moveToFront(this.#recent, name);
    for (const { name } of told.shown) this.#given.add(name);
    if (told.matches.length > 0) {
      const skills = told.matches.map(({ skill }) => skill.name);
      notify(this.host, { type: "skill-matched", skills, tier: told.tier, ...defined({ caller: this.host.caller }) });
    }
    return told;
  }

  /** What was loaded are the instructions as they are now. */
  #isLoaded(skill: Skill): boolean {
    const known = this.#active.get(skill.name);
    return known !== undefined && known.stamp === stampOf(skill);
  }
}

/** Says that a skill's instructions are in a conversation. */
export function tellLoaded(host: Host, { name, origin }: Skill): void {
  const { caller } = host;
  notify(host, { type: "skill-loaded", skill: name, source: origin.source, ...defined({ caller }) });
}

/** In a step, where there are steps: what was told is not told again. */
async function once(name: string, within: Within | undefined, tell: () => void): Promise<void> {
  const work = async () => {
    tell();
    return true;
  };
  await (within ? within.port.step(name, work) : work());
}

/** In a step, where there are steps: what commands print is not the same twice. */
async function printedIn(dynamic: Dynamic, within: Within | undefined): Promise<string[] | undefined> {
  const run = async () => (await printedForLoading(dynamic)) ?? null;
  return (await (within ? within.port.step("commands", run) : run())) ?? undefined;
}

function chainIn({ parent, budget, asked }: Within): Chain {
  return { ...TOP, parent, budget, ...defined({ asked, model: asked }) };
}

function stampOf(skill: Skill): string {
  return shortHash(skill.body());
}

function alreadyLoaded({ name }: Skill, tools: readonly string[]): ToolResult {
  const content = `Skill '${inLine(name, 64)}' is already loaded in this conversation, and has not changed. If its instructions are out of sight, load it with again: true.`;
  return { content: [content, ...tools].join("\n"), isError: false, code: "already-loaded" };
}

/** How many of the skills that were used last are known. */
export const MOST_RECENT = 100;

function moveToFront(names: string[], name: string): void {
  const place = names.indexOf(name);
  if (place !== -1) names.splice(place, 1);
  names.unshift(name);
  if (names.length > MOST_RECENT) names.pop();
}

/** What speaks against giving this skill to whoever asks; nobody in particular, when it was given already. */
function denialOf(skill: Skill, host: Host, by: By | undefined): ToolResult | undefined {
  const refusals = [...denials(skill, host), ...invocationDenial(skill, by)];
  return refusals.length === 0 ? undefined : refusedResult(refusals);
}
