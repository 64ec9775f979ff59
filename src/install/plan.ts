import type { ErrorCode } from "../codes/codes.ts";
import type { Content } from "./content.ts";

/** Why something is not done, and what to do about it. */
export interface Reason {
  code: ErrorCode;
  message: string;
  fix: string;
}

/** A skill as it is to stand in a client's folder. */
export interface Wanted {
  name: string;
  source: string;
  /** What it would hold there; nothing when it is refused beforehand. */
  content?: Content;
  /** What is another thing there than here. */
  notes: readonly string[];
  /** The keys of its frontmatter that the client does not read. */
  lost: readonly string[];
  /** What speaks against it, whatever stands there. */
  refusal?: Reason;
  /** True when it is from that very folder. */
  isThere: boolean;
}

/** What stands in a skill's place. `ours`: skillet put it there; `isLast`: and what it was copied from is gone. */
export type Standing =
  | { is: "nothing" }
  | { is: "foreign"; what: "folder" | "file" | "link"; digest?: string }
  | { is: "ours"; digest: string; isEdited: boolean; isLast?: boolean };

export interface Step extends Pick<Wanted, "name" | "source" | "notes" | "lost"> {
  action: "install" | "update" | "unchanged" | "refuse";
  /** Why, where it is not plain. */
  reason?: Reason;
  /** The files that it is about, below its folder. */
  files: readonly string[];
  /** True when what stands there is as it would be written, and only has to be written down as ours. */
  adopts?: true;
}

export interface Removal {
  name: string;
  /** `forget`: it was taken away by hand, and only has to be crossed out. */
  action: "remove" | "forget" | "refuse";
  reason?: Reason;
}

export interface PlanOptions {
  /** Where a skill would stand, as people are told. */
  shown(name: string): string;
  /** The client's title. */
  client: string;
  /** Whether copies that somebody changed by hand may be replaced and removed. What skillet did not put there never is. */
  force?: boolean | undefined;
}

/** What is to be done so that these skills stand there. Contract: pure. */
export function planInstall(
  wanted: readonly Wanted[],
  standing: (name: string) => Standing,
  options: PlanOptions,
): Step[] {
  return wanted.map((one) => {
    const { name, source, notes, lost, content } = one;
    const files = content?.files ?? [];
    return { name, source, ...judge(one, standing(name), options), notes, lost, files };
  });
}

/** What is to be done so that these skills stand there no more. Contract: pure. */
export function planRemoval(
  names: readonly string[],
  standing: (name: string) => Standing,
  options: PlanOptions,
): Removal[] {
  return names.map((name) => {
    const there = standing(name);
    if (there.is === "nothing") return { name, action: "forget" };
    if (there.is === "foreign") return { name, action: "refuse", reason: notOurs(name, there, options, "removed") };
    if (options.force) return { name, action: "remove", ...(there.isEdited ? { reason: lost(name, options) } : {}) };
    if (there.isEdited) return { name, action: "refuse", reason: edited(name, options, "removes") };
    return there.isLast ? { name, action: "refuse", reason: last(name, options) } : { name, action: "remove" };
  });
}

type Verdict = Pick<Step, "action" | "reason" | "adopts">;

function judge({ name, content, refusal, isThere }: Wanted, there: Standing, options: PlanOptions): Verdict {
  if (isThere) return { action: "unchanged", reason: alreadyThere(name, options) };
  if (refusal || !content) return { action: "refuse", ...(refusal ? { reason: refusal } : {}) };
  if (there.is === "nothing") return { action: "install" };
  if (there.is === "foreign") {
    // A process that ended too soon may have left it, or another machine: what is the same need not be anybody's but ours.
    if (there.digest === content.digest) return { action: "unchanged", adopts: true };
    return { action: "refuse", reason: notOurs(name, there, options, "replaced") };
  }
  if (there.digest === content.digest) return { action: "unchanged", ...(there.isEdited ? { adopts: true } : {}) };
  if (!there.isEdited) return { action: "update" };
  if (options.force) return { action: "update", reason: lost(name, options) };
  return { action: "refuse", reason: edited(name, options, "replaces") };
}

function alreadyThere(name: string, { client }: PlanOptions): Reason {
  return {
    code: "already-there",
    message: `Skill '${name}' is in the folder of ${client} itself`,
    fix: "nothing is to be done",
  };
}

function notOurs(
  name: string,
  { what }: Extract<Standing, { is: "foreign" }>,
  { shown }: PlanOptions,
  done: string,
): Reason {
  return {
    code: "in-the-way",
    message: `${shown(name)} is a ${what} that skillet did not put there; it is not ${done}`,
    fix: done === "removed" ? "remove it by hand if you do not need it" : "move it away if you do not need it",
  };
}

function edited(name: string, { shown }: PlanOptions, does: string): Reason {
  return {
    code: "edited",
    message: `${shown(name)} was changed by hand since skillet put it there`,
    fix: `keep your changes somewhere else, then --force ${does} it`,
  };
}

/** With --force: it is done, and this is what it costs. */
function lost(name: string, options: PlanOptions): Reason {
  return { ...edited(name, options, ""), fix: "keep your changes somewhere else first: they do not outlive --force" };
}

function last(name: string, { shown }: PlanOptions): Reason {
  return {
    code: "last-copy",
    message: `What ${shown(name)} was copied from is gone, so it may be the last copy`,
    fix: "keep it somewhere else if you need it, then --force removes it",
  };
}
