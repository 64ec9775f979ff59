import type { Catalog } from "../catalog/catalog.ts";
import { type DiscloseOptions, type Disclosure, disclose } from "../catalog/disclose.ts";
import type { Host } from "../host/host.ts";
import { NO_SETTINGS } from "../host/settings.ts";
import { denials, firstDenial } from "../policy/policy.ts";
import { shortHash } from "../shared/hash.ts";
import { inLine } from "../shared/prompt.ts";
import { nearest } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import type { Tool, ToolResult } from "../skill/tool.ts";
import { loadedText } from "./load.ts";
import { safely } from "./result.ts";
import { sessionTools } from "./tools.ts";

/** What is kept of a loaded skill: enough to go on after a conversation was shortened or stored. */
export interface ActiveSkill {
  name: string;
  source: string;
  /** Which instructions, and with which arguments. */
  stamp: string;
}

export type By = "model" | "user";

export interface LoadOptions {
  /** Who asks. A model, when left out: what a skill says about who may invoke it is held to. */
  by?: By;
  arguments?: string;
  /** Give the instructions again, although they are loaded. */
  again?: boolean;
}

export interface SessionOptions {
  /** What an earlier session of this conversation had loaded. */
  active?: readonly ActiveSkill[];
}

/** One conversation: what is loaded, what was used recently, the tools now offered. */
export interface Session {
  /** The skills as they are now. */
  readonly catalog: Catalog;
  readonly tools: readonly Tool[];
  /** What is loaded, in order. Plain data: keep it, and give it to the next session. */
  readonly active: readonly ActiveSkill[];
  /** The skills that a model may know of. */
  visible(): readonly Skill[];
  /** What to tell the model for this query. */
  disclose(query: string, options?: Pick<DiscloseOptions, "files" | "shortlist" | "budget" | "maxSkills">): Disclosure;
  /** Puts a skill's instructions into the conversation. */
  load(name: string, options?: LoadOptions): Promise<ToolResult>;
  /** Forgets that it is loaded. Contract: false when it was not. */
  unload(name: string): boolean;
  /** One line that says what is loaded, for a conversation that was shortened; empty when nothing is. */
  reminder(): string;
  /** Calls a tool. Contract: never throws. */
  call(tool: string, input: unknown): Promise<ToolResult>;
  /** Reads the sources again. */
  reload(): Promise<Catalog>;
}

/** Opens a conversation over these skills. What the host leaves out has its default. */
export function openSession(opened: Catalog, given: Partial<Host> = {}, options: SessionOptions = {}): Session {
  const host: Host = { settings: NO_SETTINGS, ...given };
  let catalog = opened;
  const active = new Map((options.active ?? []).map((skill) => [skill.name, skill]));
  const recent = [...active.keys()].reverse();
  const isVisible = (skill: Skill) => firstDenial(skill, host)?.kind !== "access";
  const isForModel = (skill: Skill) => skill.manifest.invocation.byModel && isVisible(skill);
  const folderOf = host.folderOf ? { folderOf: host.folderOf } : {};

  async function reload(): Promise<Catalog> {
    catalog = await catalog.reload();
    return catalog;
  }

  /** What was just made is found too: a name that is not there is looked for once more. */
  async function find(name: string, by: By): Promise<Skill | { refusal: ToolResult }> {
    const skill = catalog.find(name) ?? (await reload()).find(name);
    if (!skill) return { refusal: notFound(name, catalog.skills.filter(isForModel)) };
    const refusal = denialOf(skill, host, by);
    return refusal ? { refusal } : skill;
  }

  async function load(
    name: string,
    { by = "model", arguments: written, again }: LoadOptions = {},
  ): Promise<ToolResult> {
    const skill = await find(name, by);
    if ("refusal" in skill) return skill.refusal;
    moveToFront(recent, skill.name);
    const asked = written === undefined ? {} : { arguments: written };
    return safely(() => {
      if (skill.manifest.context === "fork" && host.use) return host.use({ skill, ...asked });
      const before = active.get(skill.name);
      const stamp = shortHash(`${skill.body()}\0${written ?? ""}`);
      if (before?.stamp === stamp && !again) {
        const content = `Skill '${skill.name}' is already loaded in this conversation, and has not changed. If its instructions are out of sight, load it with again: true.`;
        return { content, isError: false, code: "already-loaded" };
      }
      const text = loadedText(skill, host, written);
      active.delete(skill.name);
      active.set(skill.name, { name: skill.name, source: skill.origin.source, stamp });
      return { content: text, isError: false };
    });
  }

  const tools = sessionTools({ catalog: () => catalog, reload, find, load, isVisible, isForModel, host });
  return {
    get catalog() {
      return catalog;
    },
    get active() {
      return [...active.values()];
    },
    tools,
    visible: () => catalog.skills.filter(isForModel),
    load,
    reload,
    unload: (name) => active.delete(name),
    disclose(query, more = {}) {
      const loaded = [...active.keys()];
      const told = disclose(catalog, query, {
        ...host.settings.disclosure,
        ...more,
        ...folderOf,
        isVisible,
        recent,
        loaded,
        search: "search_skills",
      });
      for (const { name } of told.shown.toReversed()) moveToFront(recent, name);
      return told;
    },
    reminder() {
      const names = [...active.keys()].map((name) => inLine(name, 64)).join(", ");
      return names === ""
        ? ""
        : `[Skills loaded in this conversation: ${names}. load_skill with again: true repeats one]`;
    },
    async call(name, input) {
      const tool = tools.find((candidate) => candidate.name === name);
      if (tool) return tool.execute(input);
      const there = tools.map((candidate) => candidate.name).join(", ");
      const content = `There is no tool "${inLine(name, 64)}"; there are ${there}.`;
      return { content, isError: true, code: "tool-unknown" };
    },
  };
}

const MOST_RECENT = 100;

function moveToFront(names: string[], name: string): void {
  const place = names.indexOf(name);
  if (place !== -1) names.splice(place, 1);
  names.unshift(name);
  if (names.length > MOST_RECENT) names.pop();
}

function notFound(name: string, skills: readonly Skill[]): ToolResult {
  const meant = nearest(
    name,
    skills.map((skill) => skill.name),
  );
  const content = `Skill '${inLine(name, 64)}' not found${meant ? `; did you mean '${meant}'?` : ""}`;
  return { content, isError: true, code: "not-found" };
}

/** What speaks against giving this skill to whoever asks. */
function denialOf(skill: Skill, host: Host, by: By): ToolResult | undefined {
  const denied = denials(skill, host);
  if (denied.length > 0) {
    const content = denied.map(({ message, fix }) => `${message}: ${fix}`).join("\n");
    return { content, isError: true, code: denied[0]?.code ?? "denied" };
  }
  const { byModel, byUser } = skill.manifest.invocation;
  if (by === "model" && !byModel) {
    const content = `Skill '${skill.name}' is for the user to call, by name: it says disable-model-invocation.`;
    return { content, isError: true, code: "not-for-models" };
  }
  if (by === "user" && !byUser) {
    const content = `Skill '${skill.name}' is for models to call, not for users: it says user-invocable: false.`;
    return { content, isError: true, code: "not-for-users" };
  }
  return undefined;
}
