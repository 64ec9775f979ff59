import type { Catalog } from "../catalog/catalog.ts";
import { saysTheSame } from "./same-catalog.ts";

/** A catalog for many conversations. One that says the same after it was read again stays the same object. */
export interface SharedCatalog {
  /** Its `reload`, and that of all that come of it, reads only now and then where reading takes long: anybody may ask for it. */
  readonly catalog: Catalog;
  /** Reads it again in any case, from now on: what is being read already may have missed what has changed. */
  renew(): Promise<Catalog>;
}

export function openSharedCatalog(first: Catalog, now = () => performance.now()): SharedCatalog {
  let reading: Promise<Catalog> | undefined;
  /** Begins when the one that is under way has ended. */
  let next: Promise<Catalog> | undefined;
  let last: Promise<Catalog> | undefined;
  let restsUntil = 0;
  const readSource = async (): Promise<Catalog> => {
    const read = await source.reload();
    if (!saysTheSame(source, read)) {
      source = read;
      latest = share(read);
    }
    return latest;
  };
  const read = (): Promise<Catalog> => {
    const from = now();
    next = undefined;
    reading = readSource().finally(() => {
      const to = now();
      restsUntil = to + restAfter(to - from);
      reading = undefined;
    });
    last = reading;
    return reading;
  };
  const resting = () => (now() < restsUntil ? last : undefined);
  const reload = () => reading ?? next ?? resting() ?? read();
  const renew = () => {
    if (reading) next ??= reading.then(read, read);
    return next ?? read();
  };
  const share = (catalog: Catalog): Catalog => ({ ...catalog, reload });
  let source = first;
  let latest = share(first);
  return { catalog: latest, renew };
}

/** A tenth of the time is spent on reading at most; but who waits for a new skill waits for seconds at most. */
function restAfter(took: number): number {
  return took <= QUICK_MS ? 0 : Math.min(took * 9, LONGEST_MS);
}

const QUICK_MS = 20;
const LONGEST_MS = 2000;
