import type { Host } from "../host/host.ts";

/** Runs code that may write to files of the user's: skills that it changes are no longer trusted as the user's own work. */
export function watchOwnSkills<T>({ trust }: Pick<Host, "trust">, work: () => Promise<T>): Promise<T> {
  return trust?.own ? trust.own.watch(work) : work(); // The trust of an embedding program may have none.
}
