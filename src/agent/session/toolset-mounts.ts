import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { copySkill, type SkillCopy, withCurrentFiles } from "../../skill/source/skill-copy.ts";
import type { CallOptions, Tool, ToolResult } from "../../skill/tool.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { getSkilletHome } from "../../util/system.ts";
import { findFirstDenial } from "../policy/skill-policies.ts";
import { fingerprintPaths, listSkillPaths, trustPolicy } from "../policy/trust-policy.ts";
import { createHostRedactor } from "../run/redaction.ts";
import { createRefusalResult, toProblem } from "../run/run-result.ts";
import type { OpenToolsets } from "../toolsets/open-toolsets.ts";

/** The toolsets of the loaded skills. They follow their files: an edited toolset is imported again before it is listed or called. */
export class ToolsetMounts {
  readonly #host: Host;
  /** Finds the current skill. Undefined if it is gone. */
  readonly #find: (name: string) => Promise<Skill | undefined>;
  readonly #mounts = new Map<string, ToolsetMount>();
  #isClosed = false;

  constructor(host: Host, find: (name: string) => Promise<Skill | undefined>) {
    this.#host = host;
    this.#find = find;
  }

  /** Mounts the toolsets of a skill, or refreshes them. Returns their tools and problems. */
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
  async startMount(
    skill: Skill,
  ): Promise<{ tools: readonly Tool[]; problems: readonly Problem[]; loading?: Promise<void> }> {
    const mount = this.#mountOf(skill);
    if (!mount) return { tools: [], problems: [] };
    const { loading } = await mount.begin();
    return loading ? { tools: mount.tools, problems: [], loading } : { tools: mount.tools, problems: mount.problems };
  }

  /** Returns the outcome of a skill's toolsets; undefined if it has none, or they are still being imported. */
  findOutcome(name: string): { tools: readonly Tool[]; problems: readonly Problem[] } | undefined {
    const mount = this.#mounts.get(name);
    return mount && !mount.isLoading ? { tools: mount.tools, problems: mount.problems } : undefined;
  }

  #mountOf(skill: Skill): ToolsetMount | undefined {
    if (skill.manifest.toolsets.length === 0 || this.#isClosed) return undefined;
    let mount = this.#mounts.get(skill.name);
    if (mount?.key !== getMountKey(skill)) {
      mount?.close();
      mount = new ToolsetMount(this.#host, skill, this.#find);
    }
    this.#mounts.delete(skill.name);
    this.#mounts.set(skill.name, mount); // Appended, to keep the order of loading.
    return mount;
  }

  /** The names of the mounted skills, in order. */
  get names(): readonly string[] {
    return [...this.#mounts.keys()];
  }

  has(name: string): boolean {
    return this.#mounts.has(name);
  }

  /** The current tools, as far as known without waiting. An edited toolset is imported for the next caller. */
  get tools(): readonly Tool[] {
    for (const mount of this.#mounts.values()) if (mount.isStale()) void mount.refresh();
    return this.knownTools;
  }

  /** The tools as of the last refresh. A call refreshes them first. */
  get knownTools(): readonly Tool[] {
    return [...this.#mounts.values()].flatMap(({ tools }) => tools);
  }

  /** Returns the tools after checking the files. */
  async refreshTools(): Promise<readonly Tool[]> {
    await Promise.all([...this.#mounts.values()].map((mount) => mount.refresh()));
    return this.knownTools;
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
  /** The number of calls in progress. It is closed after the last one. */
  calls: number;
  isOld: boolean;
}

/** The toolsets of one skill. */
class ToolsetMount {
  readonly key: string;
  readonly #host: Host;
  readonly #find: (name: string) => Promise<Skill | undefined>;
  #skill: Skill;
  /** The paths of its files when they were last opened, and their fingerprint. */
  #paths: readonly string[] = [];
  #fingerprint = "";
  #ownFingerprint: string | undefined;
  #opened: OpenedMount | undefined;
  #problems: readonly Problem[] = [];
  #tools: readonly Tool[] = [];
  #refreshing: Promise<void> | undefined;
  #loading: Promise<void> | undefined;
  #isClosed = false;
  #lastDenialCode = "";

  constructor(host: Host, skill: Skill, find: (name: string) => Promise<Skill | undefined>) {
    this.#host = host;
    this.#skill = skill;
    this.#find = find;
    this.key = getMountKey(skill);
  }

  /** Empty while the skill is hidden from this caller, for example because it was disabled. */
  get tools(): readonly Tool[] {
    return this.#denial() ? [] : this.#tools;
  }

  get problems(): readonly Problem[] {
    return this.#problems;
  }

  /** Returns true if its files, or the reasons to refuse it, have changed. */
  isStale(): boolean {
    if (this.#opened === undefined || this.#getDenialCode() !== this.#lastDenialCode) return true;
    return this.#fingerprint !== fingerprintPaths(this.#paths);
  }

  #denial(): Problem | undefined {
    const denial = findFirstDenial(this.#skill, this.#host);
    if (denial?.kind !== "access") return undefined;
    return { code: denial.code, message: denial.message, fix: denial.fix };
  }

  /** Returns the code of the first reason to refuse it; empty if it is not refused. */
  #getDenialCode(): string {
    return this.#denial()?.code ?? [trustPolicy(this.#skill, this.#host) ?? []].flat()[0]?.code ?? "";
  }

  get isLoading(): boolean {
    return this.#loading !== undefined;
  }

  /** Starts to open them after the caller has returned. Returns a promise in an object, or none if they are open. */
  async begin(): Promise<{ loading?: Promise<void> }> {
    const isOver = this.#problems.length > 0 || this.#opened?.getEndReason() !== undefined;
    if (!this.#loading && !this.#refreshing && !isOver && !this.isStale()) return {};
    if (this.#tools.length === 0) await this.#listCachedTools();
    const before = this.#opened;
    this.#loading ??= new Promise((resolve) => setImmediate(resolve))
      .then(() => this.refresh({ isAgain: this.#opened === before }))
      .finally(() => {
        this.#loading = undefined;
      });
    return { loading: this.#loading };
  }

  /** Lists the tools that the same files had before. Their code is imported before a call. */
  async #listCachedTools(): Promise<void> {
    try {
      const copy = await copySkill(await withCurrentFiles(this.#skill));
      if (trustPolicy(this.#skill, this.#host) || (this.#host.trust?.findChanges(this.#skill, copy) ?? []).length > 0)
        return;
      const { name, origin } = this.#skill;
      const { digest } = copy;
      const owner = { name, source: origin.source, location: getSkillLocation(this.#skill), digest };
      const { home, env } = this.#host;
      const { readCachedTools } = await import("../toolsets/open-toolsets.ts"); // Loaded only for a skill with toolsets.
      const known = readCachedTools(home ?? getSkilletHome(env ?? process.env), copy.digest) ?? [];
      this.#tools = known.map(({ name: id, description, inputSchema, hasEffect }) =>
        this.#wrapCurrent({
          name: `${owner.name}.${id}`,
          description,
          category: "skills",
          inputSchema,
          owner,
          ...(hasEffect ? { effect: async () => undefined } : {}),
          execute: async () => this.#createMissingResult(`${owner.name}.${id}`),
        }),
      );
    } catch {
      // Problems with its files are reported when they are opened.
    }
  }

  /** Opens the toolsets again if they are stale. Contract: never throws. `isAgain` also restarts toolsets that ended. */
  refresh({ isAgain = false } = {}): Promise<void> {
    const isOver = isAgain && (this.#problems.length > 0 || this.#opened?.getEndReason() !== undefined);
    if (!this.#refreshing && !isOver && !this.isStale()) return Promise.resolve();
    this.#refreshing ??= this.#open(isOver).finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  async #open(isOver: boolean): Promise<void> {
    try {
      const skill = await withCurrentFiles(await this.#findCurrent());
      this.#skill = skill;
      await this.#recordPaths(skill); // Before reading, so that a concurrent change is detected next time.
      const denialCode = this.#getDenialCode();
      const isSameDenial = denialCode === this.#lastDenialCode;
      this.#lastDenialCode = denialCode;
      const denial = this.#denial();
      if (denial) return this.#replace({ ...NO_TOOLSETS, problems: [denial] }); // Its code stops until it is allowed again.
      if (skill.fetch) {
        const untrusted = [trustPolicy(skill, this.#host) ?? []].flat()[0];
        if (untrusted) return this.#replace({ ...NO_TOOLSETS, problems: [untrusted] });
        await skill.fetch("all");
      }
      const copy = await copySkill(skill);
      if (!isOver && isSameDenial && copy.digest === this.#opened?.digest && this.#problems.length === 0) return;
      const { openToolsets } = await import("../toolsets/open-toolsets.ts"); // Loaded on demand.
      const opened = await openToolsets(this.#host, { skill, copy });
      this.#replace({ ...opened, digest: copy.digest, copy, skill, calls: 0, isOld: false });
    } catch (error) {
      await this.#recordPaths(this.#skill).catch(() => {}); // The reason is the first error.
      const problem = toProblem(error);
      this.#replace({ ...NO_TOOLSETS, problems: [problem] });
      if (problem.code === GONE_CODE) this.#tools = [];
    }
  }

  async #recordPaths(skill: Skill): Promise<void> {
    this.#paths = listSkillPaths(skill, (await skill.files()).files);
    this.#fingerprint = fingerprintPaths(this.#paths);
  }

  /** Returns the current skill. Looked up again only when its own file changed. */
  async #findCurrent(): Promise<Skill> {
    const { file = "" } = this.#skill.origin;
    const fingerprint = fingerprintPaths([file]);
    const isSame = this.#ownFingerprint === undefined || this.#ownFingerprint === fingerprint;
    const found = isSame ? this.#skill : await this.#find(this.#skill.name);
    if (!found || getMountKey(found) !== this.key) throw createGoneError(this.#skill);
    this.#ownFingerprint = fingerprint;
    return found;
  }

  #replace(next: OpenedMount): void {
    closeWhenIdle(this.#opened);
    this.#opened = next;
    this.#problems = next.problems;
    // The names stay listed while they are broken, so that a caller learns the reason.
    if (next.problems.length === 0) this.#tools = next.tools.map((tool) => this.#wrapCurrent(tool));
    if (this.#isClosed) closeWhenIdle(next);
  }

  /** Wraps a tool so that each call uses the current version of the skill. */
  #wrapCurrent(listed: Tool): Tool {
    const current = async (): Promise<Tool | undefined> => {
      await this.refresh();
      return this.#opened?.tools.find(({ name }) => name === listed.name);
    };
    return {
      ...listed,
      ...(listed.effect ? { effect: async (input: unknown) => (await current())?.effect?.(input) } : {}),
      execute: async (input, options = {}) => {
        const tool = await current();
        if (!tool) return this.#createMissingResult(listed.name);
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
      // A loaded skill does not receive its secrets, but its output is still redacted.
      const redactor = createHostRedactor(this.#host);
      const sandbox = createLazySandbox(this.#host, { skill, copy, secrets: new Map(), redactor, signal });
      return await tool.execute(input, { ...options, sandbox });
    } finally {
      opened.calls--;
      if (opened.isOld) closeWhenIdle(opened);
    }
  }

  #createMissingResult(name: string): ToolResult {
    if (this.#problems.length > 0) return createRefusalResult(this.#problems);
    const available = this.#tools.map((tool) => tool.name).join(", ");
    return {
      text: `Tool "${name}" no longer exists. Tools of its skill: ${available}`,
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
const NO_TOOLSETS = { tools: [], getEndReason: () => undefined, close: () => {}, digest: "", calls: 0, isOld: false };

/** Closes the toolsets when no call is in progress. */
function closeWhenIdle(opened: OpenedMount | undefined): void {
  if (!opened) return;
  opened.isOld = true;
  if (opened.calls === 0) opened.close();
}

function createChangedResult(name: string): ToolResult {
  return {
    text: `Tool "${name}" was just edited and now needs approval: call it again`,
    isError: true,
    code: "tool-changed",
  };
}

function createGoneError({ name }: Skill): SkillError {
  return new SkillError(GONE_CODE, { message: `Skill '${name}' no longer exists`, fix: "" });
}

function getMountKey({ origin: { folder, file, source, remote } }: Skill): string {
  return folder ?? file ?? (remote ? `${source} ${remote.uri}` : source);
}
