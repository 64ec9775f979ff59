import { mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { defined } from "../shared/defined.ts";
import type { Address, Fetched, FetchOptions, SourceEntry } from "./contract.ts";
import { unpack } from "./unpack.ts";

/** Writes what a source holds below `to`, through the gate. */
export async function writeSource(
  address: Address,
  entries: Iterable<SourceEntry> | AsyncIterable<SourceEntry>,
  { to, signal }: FetchOptions,
): Promise<Fetched> {
  const folder = filesFolder(to);
  const { links, notes, refused } = await unpack(entries, { to: folder, skipRefused: true, ...defined({ signal }) });
  return { folder, address, links, notes, refused };
}

/** Makes the folder for the files. It is called as `to` is: a skill that states no name has that of its folder. */
export function filesFolder(to: string): string {
  const folder = join(to, basename(to));
  mkdirSync(folder, 0o700);
  return folder;
}
