import { join } from "node:path";
import { hasUnknownBase, LOCAL_SOURCE, type LockedSkill } from "../host/lock/format.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { stopsLoading } from "../skill/diagnostic.ts";
import type { Surroundings } from "../source/locations.ts";
import { sayAddress } from "./address.ts";
import { type Candidate, type Prepared, prepare } from "./candidate.ts";
import type { Address } from "./contract.ts";
import { refusePrivate } from "./download.ts";
import { addressOf, fetchOffer, type Supply } from "./fetch-offer.ts";

/** What the source of a locked skill has now: the skill, or why not. */
export type Refetched = { prepared: Prepared; supply: Supply } | { error: SkillError };

export interface RefetchOptions {
  around: Surroundings;
  /** A folder of ours. */
  work: string;
  env: Readonly<Record<string, string | undefined>>;
  signal?: AbortSignal;
  /** Whether the very commits are fetched that the lock names, whatever their refs are by now. */
  isPinned?: boolean;
  /** Asks private addresses too that only a source, or the lock of a workspace, named. */
  allowPrivate?: boolean;
  /** Whether the user did not type the addresses in the lock: it is a workspace's, or they were found when skills were adopted. */
  isUntyped?: boolean;
  /** Called before each source. */
  onFetch?(source: string): void;
}

/** Fetches the sources of locked skills again, each once, and finds the skills in them. */
export async function refetch(
  entries: readonly (readonly [string, LockedSkill])[],
  options: RefetchOptions,
): Promise<Map<string, Refetched>> {
  const found = new Map<string, Refetched>();
  const groups = Map.groupBy(entries, ([, { source, ref, commit }]) =>
    JSON.stringify([source, ref, options.isPinned ? commit : undefined]),
  );
  for (const group of groups.values()) {
    const supply = await supplyOf(group, options);
    for (const [name, entry] of group) {
      found.set(name, supply instanceof SkillError ? { error: supply } : within(supply, name, entry, options));
    }
  }
  return found;
}

interface FetchedAgain extends Supply {
  /** Why a site does not give one of its skills. */
  failures: ReadonlyMap<string, SkillError>;
}

async function supplyOf(
  group: readonly (readonly [string, LockedSkill])[],
  { around, work, env, signal, isPinned, allowPrivate, isUntyped, onFetch }: RefetchOptions,
): Promise<FetchedAgain | SkillError> {
  const [first] = group;
  if (!first) return new SkillError("not-found", { message: "There is nothing to fetch", fix: "" });
  const [, entry] = first;
  if (entry.source === LOCAL_SOURCE) return noSource(group.map(([name]) => name));
  try {
    const address = addressOf(entry, around);
    if (isUntyped && !allowPrivate) await judgeLocked(address);
    onFetch?.(sayAddress(address));
    const commit = isPinned ? entry.commit : undefined;
    const names = group.map(([name, locked]) => offeredName(name, locked));
    const failures = new Map<string, SkillError>();
    const onFailure = (name: string, error: SkillError) => void failures.set(name, error);
    return {
      ...(await fetchOffer(address, work, { env, names, onFailure, ...defined({ signal, commit, allowPrivate }) })),
      failures,
    };
  } catch (error) {
    if (error instanceof SkillError && !signal?.aborted) return error;
    throw error;
  }
}

function noSource([name = "", ...more]: readonly string[]): SkillError {
  return new SkillError("no-source", {
    message: `Where ${more.length > 0 ? "they" : "it"} came from is not known: adopted without a source`,
    fix: `set one: skillet adopt ${more.length > 0 ? "NAME" : name} --from SOURCE`,
  });
}

/**
 * Fetches the original files of adopted skills whose origin has a commit and whose files at that commit are not known here. One that cannot
 * be fetched is left out: then nothing tells which files were edited.
 */
export async function fetchBases(
  entries: readonly (readonly [string, LockedSkill])[],
  options: RefetchOptions,
): Promise<ReadonlyMap<string, Prepared>> {
  const unknown = entries.filter(([, entry]) => hasUnknownBase(entry) && entry.commit !== undefined);
  const fetched = await refetch(unknown, { ...options, isPinned: true });
  return new Map([...fetched].flatMap(([name, one]) => ("prepared" in one ? [[name, one.prepared]] : [])));
}

/** Throws when a lock that others wrote names a private address: whoever clones a project has not typed it. */
export async function judgeLocked(address: Address): Promise<void> {
  const [, host] = address.kind === "git" ? (/^[^/@:]+@([^/:]+):/.exec(address.url) ?? []) : [];
  const text = address.kind === "folder" ? "" : address.kind === "archive" ? address.location : address.url;
  const url = URL.parse(host === undefined ? text : `ssh://${host}`);
  if (url && ["http:", "https:", "ssh:"].includes(url.protocol)) await refusePrivate(url);
}

/** What a site calls a skill: the folder that it is fetched into. The skill itself may have another name. */
function offeredName(name: string, { path = name }: Pick<LockedSkill, "path">): string {
  return path.split("/", 1)[0] ?? name;
}

function within(supply: FetchedAgain, name: string, entry: LockedSkill, { work }: RefetchOptions): Refetched {
  const { path = "" } = entry;
  const error = supply.failures.get(offeredName(name, entry));
  if (error) return { error };
  const { candidates } = supply.offer;
  const candidate = candidates.find((one) => one.path === path && one.skill.name === name);
  if (!candidate) return { error: gone(name, path, supply) };
  try {
    return { prepared: prepare(candidate, supply.fetched, join(work, "skills", name)), supply };
  } catch (error) {
    if (error instanceof SkillError) return { error };
    throw error;
  }
}

function gone(name: string, path: string, { offer, fetched }: Supply): SkillError {
  const { candidates, diagnostics } = offer;
  const wrong = (message: string, fix: string) => new SkillError("source-gone", { message, fix });
  const adding = ({ skill, path }: Candidate) => {
    const wanted = fetched.address.kind === "site" ? offeredName(skill.name, { path }) : skill.name;
    return `remove it and add what is there now: skillet add ${sayAddress(fetched.address)} ${wanted}`;
  };
  const moved = candidates.find(({ skill }) => skill.name === name);
  if (moved) {
    const where = moved.path === "" ? "the whole of its source" : `at ${moved.path} in its source`;
    return wrong(`Skill "${name}" is ${where} now`, adding(moved));
  }
  const renamed = candidates.find((one) => one.path === path);
  if (renamed) return wrong(`Skill "${name}" is called "${renamed.skill.name}" in its source now`, adding(renamed));
  const broken = diagnostics.find(stopsLoading);
  return wrong(
    `Its source has no skill "${name}" ${path === "" ? "any more" : `at ${path} any more`}`,
    broken ? `a skill there does not load: ${broken.message}` : "keep it as it is, or remove it",
  );
}
