import type { Catalog } from "../catalog/catalog.ts";
import { saysTheSame } from "./same-catalog.ts";

/** A catalog for many conversations: who reads it again while another does gets the same, and one that says the same stays the same object. */
export function shareCatalog(first: Catalog): Catalog {
  let reading: Promise<Catalog> | undefined;
  const read = async (): Promise<Catalog> => {
    const next = await source.reload();
    if (!saysTheSame(source, next)) {
      source = next;
      latest = share(next);
    }
    return latest;
  };
  const reload = () => {
    reading ??= read().finally(() => {
      reading = undefined;
    });
    return reading;
  };
  const share = (catalog: Catalog): Catalog => ({ ...catalog, reload });
  let source = first;
  let latest = share(first);
  return latest;
}
