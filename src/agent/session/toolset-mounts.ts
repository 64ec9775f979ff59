import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { copySkill, type SkillCopy, withCurrentFiles } from "../../skill/source/skill-copy.ts";
import type { CallOptions, Tool, ToolResult } from "../../skill/tool.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { createRedactor } from "../../util/redact.ts";
import { getSkilletHome } from "../../util/system.ts";
import { findFirstDenial } from "../policy/skill-policies.ts";
import { trustPolicy } from "../policy/trust-policy.ts";
import { fingerprintPaths, listSkillPaths } from "../policy/trusted-text.ts";
import { collectSecrets } from "../run/run-inputs.ts";
import { createRefusalResult, toProblem } from "../run/run-result.ts";
import type { OpenToolsets } from "../toolsets/open-toolsets.ts";
import { readCachedTools } from "../toolsets/toolset-messages.ts";

/** The tools of the skills that are loaded. They follow their files: what was edited is imported anew before it is listed or called. */
export class ToolsetMounts {
  readonly #host: Host;
  /** The skill as it is now. Nothing when it is gone. */
  readonly #find: (name: string) => Promise<Skill | undefined>;
  readonly #mounts = new Map<string, ToolsetMount>();
  #isClosed = false;

  constructor(host: Host, find: (name: string) => Promise<Skill | undefined>) {
    this.#host = host;
    this.#find = find;
  }

  /** Opens what a skill brings, or looks whether it is still that. Gives what is wrong with it. */
  async mount(skill: Skill): Promise<{ tools: readonly Tool[]; problems: readonly Problem[] }> {
    const mount = this.#mountOf(skill);
    if (!mount) return { tools: [], problems: [] };
    await mount.refresh({ isAgain: true });
    return { tools: mount.tools, problems: mount.problems };
  }

  /**
   * Starts to import the toolsets of a skill. Returns the tools that are known at once, those that the same files had before, and a
   * promise that resolves when the import has ended.
   */
  begin(skill: Skill): { tools: readonly Tool[]; problems: readonly Problem[]; loading?: Promise<void> } {
    const mount = this.#mountOf(skill);
    if (!mount) return { tools: [], problems: [] };
    const loading = mount.begin();
    return loading ? { tools: mount.tools, problems: [], loading } : { tools: mount.tools, problems: mount.problems };
  }

  /** Returns what came of a skill's toolsets; undefined if it has none, or they are still being imported. */
  outcomeOf(name: string): { tools: readonly Tool[]; problems: readonly Problem[] } | undefined {
    const mount = this.#mounts.get(name);
    return mount && !mount.isLoading ? { tools: mount.tools, problems: mount.problems } : undefined;
  }

  #mountOf(skill: Skill): ToolsetMount | undefined {
    if (skill.manifest.toolsets.length === 0 || this.#isClosed) return undefined;
    let mount = this.#mounts.get(skill.name);
    if (mount?.place !== getMountKey(skill)) {
      mount?.close();
      mount = new ToolsetMount(this.#host, skill, this.#find);
    }
    this.#mounts.delete(skill.name);
    this.#mounts.set(skill.name, mount); // Last: in the order in which they were loaded.
    return mount;
  }

  /** Whose tools they are, in order. */
  get names(): readonly string[] {
    return [...this.#mounts.keys()];
  }

  has(name: string): boolean {
    return this.#mounts.has(name);
  }

  /** As they are now, as far as that is known without waiting: what was edited meanwhile is opened for the next who asks. */
  get tools(): readonly Tool[] {
    for (const mount of this.#mounts.values()) if (mount.isStale()) void mount.refresh();
    return this.listed;
  }

  /** As they were when somebody last looked: whoever calls one of them looks then. */
  get listed(): readonly Tool[] {
    return [...this.#mounts.values()].flatMap(({ tools }) => tools);
  }

  /** The same, after a look at the files. */
  async fresh(): Promise<readonly Tool[]> {
    await Promise.all([...this.#mounts.values()].map((mount) => mount.refresh()));
    return this.listed;
  }

  unmount(name: string): void {
    this.#mounts.get(name)?.close();
    this.#mounts.delete(name);
  }

  close(): void {
    this.#isClosed = true;
    for (const name of [...this.#mounts.keys()]) this.unmount(name);
  }
}

interface OpenedMount extends OpenToolsets {
  digest: string;
  copy?: SkillCopy;
  skill?: Skill;
  /** How many calls are under way: it is closed after the last of them. */
  calls: number;
  isOld: boolean;
}

/** The toolsets of one skill. */
class ToolsetMount {
  readonly place: string;
  readonly #host: Host;
  readonly #find: (name: string) => Promise<Skill | undefined>;
  #skill: Skill;
  #stamp = "";
  #ownStamp: string | undefined;
  #opened: OpenedMount | undefined;
  #problems: readonly Problem[] = [];
  #tools: readonly Tool[] = [];
  #refreshing: Promise<void> | undefined;
  #loading: Promise<void> | undefined;
  #isClosed = false;
  #wasStanding = "";

  constructor(host: Host, skill: Skill, find: (name: string) => Promise<Skill | undefined>) {
    this.#host = host;
    this.#skill = skill;
    this.#find = find;
    this.place = getMountKey(skill);
  }

  /** None while the skill is hidden from this caller: it was disabled, for one. */
  get tools(): readonly Tool[] {
    return this.#denial() ? [] : this.#tools;
  }

  get problems(): readonly Problem[] {
    return this.#problems;
  }

  /** Whether its files, or the reasons to refuse it, have changed. */
  isStale(): boolean {
    if (this.#opened === undefined || this.#standing() !== this.#wasStanding) return true;
    return this.#stamp !== fingerprintPaths(listSkillPaths(this.#skill));
  }

  #denial(): Problem | undefined {
    const denial = findFirstDenial(this.#skill, this.#host);
    if (denial?.kind !== "access") return undefined;
    return { code: denial.code, message: denial.message, fix: denial.fix };
  }

  /** The code of the first reason to refuse it; empty when there is none. */
  #standing(): string {
    return this.#denial()?.code ?? [trustPolicy(this.#skill, this.#host) ?? []].flat()[0]?.code ?? "";
  }

  get isLoading(): boolean {
    return this.#loading !== undefined;
  }

  /** Starts to open them when the caller has answered, and returns a promise of that; undefined if they are open. */
  begin(): Promise<void> | undefined {
    const isOver = this.#problems.length > 0 || this.#opened?.ended() !== undefined;
    if (!this.#loading && !this.#refreshing && !isOver && !this.isStale()) return undefined;
    if (this.#tools.length === 0) this.#recall();
    const before = this.#opened;
    this.#loading ??= new Promise((resolve) => setImmediate(resolve))
      .then(() => this.refresh({ isAgain: this.#opened === before }))
      .finally(() => {
        this.#loading = undefined;
      });
    return this.#loading;
  }

  /** Lists the tools that the same files had before: their code is imported before one is called. */
  #recall(): void {
    try {
      const copy = copySkill(withCurrentFiles(this.#skill));
      if (trustPolicy(this.#skill, this.#host) || (this.#host.trust?.changesOf(this.#skill, copy) ?? []).length > 0)
        return;
      const { name, origin } = this.#skill;
      const owner = { name, source: origin.source, place: getSkillLocation(this.#skill) };
      const { home, env } = this.#host;
      const known = readCachedTools(home ?? getSkilletHome(env ?? process.env), copy.digest) ?? [];
      this.#tools = known.map(({ name: id, description, inputSchema, hasEffect }) =>
        this.#following({
          name: `${owner.name}.${id}`,
          description,
          category: "skills",
          inputSchema,
          owner,
          ...(hasEffect ? { effect: async () => undefined } : {}),
          execute: async () => this.#missing(`${owner.name}.${id}`),
        }),
      );
    } catch {
      // Whatever is wrong with its files is reported when they are opened.
    }
  }

  /** Contract: never throws. `isAgain`: also what ended is begun anew. */
  refresh({ isAgain = false } = {}): Promise<void> {
    const isOver = isAgain && (this.#problems.length > 0 || this.#opened?.ended() !== undefined);
    if (!this.#refreshing && !isOver && !this.isStale()) return Promise.resolve();
    this.#refreshing ??= this.#open(isOver).finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  async #open(isOver: boolean): Promise<void> {
    try {
      const skill = withCurrentFiles(await this.#current());
      this.#skill = skill;
      this.#stamp = fingerprintPaths(listSkillPaths(skill)); // Before they are read: what changes meanwhile is seen the next time.
      const standing = this.#standing();
      const isSameStanding = standing === this.#wasStanding;
      this.#wasStanding = standing;
      const denial = this.#denial();
      if (denial) return this.#replace({ ...NO_TOOLSETS, problems: [denial] }); // Its code ends, until it may be called again.
      if (skill.fetch) {
        const untrusted = [trustPolicy(skill, this.#host) ?? []].flat()[0];
        if (untrusted) return this.#replace({ ...NO_TOOLSETS, problems: [untrusted] });
        await skill.fetch("all");
      }
      const copy = copySkill(skill);
      if (!isOver && isSameStanding && copy.digest === this.#opened?.digest && this.#problems.length === 0) return;
      const { openToolsets } = await import("../toolsets/open-toolsets.ts"); // Only who has toolsets loads what they need.
      const opened = await openToolsets(this.#host, { skill, copy });
      this.#replace({ ...opened, digest: copy.digest, copy, skill, calls: 0, isOld: false });
    } catch (error) {
      this.#stamp = fingerprintPaths(listSkillPaths(this.#skill));
      const problem = toProblem(error);
      this.#replace({ ...NO_TOOLSETS, problems: [problem] });
      if (problem.code === GONE_CODE) this.#tools = [];
    }
  }

  /** The skill as it is now: found again only when its own file changed. */
  async #current(): Promise<Skill> {
    const { file = "" } = this.#skill.origin;
    const stamp = fingerprintPaths([file]);
    const isSame = this.#ownStamp === undefined || this.#ownStamp === stamp;
    const found = isSame ? this.#skill : await this.#find(this.#skill.name);
    if (!found || getMountKey(found) !== this.place) throw createGoneError(this.#skill);
    this.#ownStamp = stamp;
    return found;
  }

  #replace(next: OpenedMount): void {
    closeWhenIdle(this.#opened);
    this.#opened = next;
    this.#problems = next.problems;
    // While they are broken the names stay, so that whoever calls one learns why.
    if (next.problems.length === 0) this.#tools = next.tools.map((tool) => this.#following(tool));
    if (this.#isClosed) closeWhenIdle(next);
  }

  /** A tool that is always the one of the skill as it is now. */
  #following(listed: Tool): Tool {
    const current = async (): Promise<Tool | undefined> => {
      await this.refresh();
      return this.#opened?.tools.find(({ name }) => name === listed.name);
    };
    return {
      ...listed,
      ...(listed.effect ? { effect: async (input: unknown) => (await current())?.effect?.(input) } : {}),
      execute: async (input, options = {}) => {
        const tool = await current();
        if (!tool) return this.#missing(listed.name);
        if (tool.effect && !listed.effect) return createChangedResult(listed.name);
        return this.#call(tool, input, options);
      },
    };
  }

  async #call(tool: Tool, input: unknown, options: CallOptions): Promise<ToolResult> {
    const opened = this.#opened as OpenedMount;
    const { skill, copy } = opened;
    opened.calls++;
    try {
      if (options.sandbox || !skill || !copy) return await tool.execute(input, options);
      const { createLazySandbox } = await import("../toolsets/open-toolsets.ts");
      const signal = options.signal ?? new AbortController().signal;
      // It is only loaded: it gets none of its values, but nobody may see them either.
      const hiding = createRedactor(collectSecrets(new Map(), this.#host));
      const sandbox = createLazySandbox(this.#host, { skill, copy, secrets: new Map(), hiding, signal });
      return await tool.execute(input, { ...options, sandbox });
    } finally {
      opened.calls--;
      if (opened.isOld) closeWhenIdle(opened);
    }
  }

  #missing(name: string): ToolResult {
    if (this.#problems.length > 0) return createRefusalResult(this.#problems);
    const there = this.#tools.map((tool) => tool.name).join(", ");
    return {
      content: `Tool "${name}" is not there any more; its skill has: ${there}`,
      isError: true,
      code: "tool-unknown",
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#opened?.close();
  }
}

const GONE_CODE = "not-found";
const NO_TOOLSETS = { tools: [], ended: () => undefined, close: () => {}, digest: "", calls: 0, isOld: false };

/** Ends it, once nobody waits for it any more. */
function closeWhenIdle(opened: OpenedMount | undefined): void {
  if (!opened) return;
  opened.isOld = true;
  if (opened.calls === 0) opened.close();
}

function createChangedResult(name: string): ToolResult {
  return {
    content: `Tool "${name}" has just been changed, and changes something now: call it again`,
    isError: true,
    code: "tool-changed",
  };
}

function createGoneError({ name }: Skill): SkillError {
  return new SkillError(GONE_CODE, { message: `Skill '${name}' is not there any more`, fix: "" });
}

function getMountKey({ origin: { folder, file, source, remote } }: Skill): string {
  return folder ?? file ?? (remote ? `${source} ${remote.uri}` : source);
}
