import { mkdirSync } from "node:fs";
import { basename, isAbsolute, join } from "node:path";
import type { LockedSkill } from "../host/lock/format.ts";
import { defined } from "../shared/defined.ts";
import { isInside } from "../shared/inside.ts";
import { unusableName } from "../skill/name.ts";
import type { Surroundings } from "../source/locations.ts";
import { parseAddress, sayAddress } from "./address.ts";
import { type Offer, offerOf } from "./candidate.ts";
import type { Address, Fetched, FetchOptions } from "./contract.ts";
import { fetchSource } from "./fetch.ts";
import type { SkillsPlace } from "./skills-place.ts";
import type { Provenance } from "./update.ts";

/** A source that was fetched, and what it holds. */
export interface Supply {
  fetched: Fetched;
  offer: Offer;
}

/** Fetches a source into a folder of its own below `work`, and finds its skills. */
export async function fetchOffer(address: Address, work: string, options: Omit<FetchOptions, "to">): Promise<Supply> {
  const to = join(work, crypto.randomUUID(), stemOf(address)); // A skill that states no name has that of its folder.
  mkdirSync(to, { recursive: true, mode: 0o700 });
  const fetched = await fetchSource(address, { ...options, to });
  return { fetched, offer: await offerOf(fetched) };
}

function stemOf(address: Address): string {
  const path = address.kind === "folder" ? address.path : address.kind === "archive" ? address.location : address.url;
  const last =
    address.kind === "site" ? "" : basename(address.inside ?? path).replace(/\.(?:git|zip|skill|tgz|tar\.gz)$/i, "");
  return last === "" || unusableName(last) ? "skill" : last;
}

/** What the lock of a place says of where a skill came from. A folder of the workspace is named from there: others have it elsewhere. */
export function provenanceOf(
  { address, commit }: Pick<Fetched, "address" | "commit">,
  path: string,
  where: { place: SkillsPlace; around: Surroundings },
): Provenance {
  const { ref, ...rest } = address.kind === "git" ? address : { ref: undefined, ...address };
  return {
    source: portable(sayAddress(rest as Address), where),
    ...defined({ path: path === "" ? undefined : path, ref, commit }),
  };
}

function portable(source: string, { place, around }: { place: SkillsPlace; around: Surroundings }): string {
  const { workspace } = around;
  if (!place.isProject || !isAbsolute(source) || !isInside(workspace, source)) return source;
  return `.${source.slice(workspace === "/" ? 0 : workspace.length) || "/"}`; // As it is written: `//` tells what is inside an archive.
}

/** Where a locked skill came from, to be fetched again. */
export function addressOf({ source, ref }: LockedSkill, { workspace, home }: Surroundings): Address {
  const address = parseAddress(source, { cwd: workspace, home });
  return address.kind === "git" ? { ...address, ...defined({ ref }) } : address;
}
