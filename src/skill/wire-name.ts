import { shortHash } from "../shared/hash.ts";

/** Names of one list of tools, as providers and clients take them. */
export interface WireNames {
  /** For a tool of the list; another's is made as if it stood alone. */
  toWire(id: string): string;
  /** Nothing for a name that no tool of the list has. */
  toId(wire: string): string | undefined;
}

const LONGEST = 64;
const LEGAL = /^[A-Za-z0-9_-]{1,64}$/;

/** A tool's name where only letters, digits, `_` and `-` are taken: `web.search` → `web__search`. A legal one stays. */
export function wireName(id: string): string {
  if (LEGAL.test(id)) return id;
  const wire = id.replaceAll(".", "__");
  return LEGAL.test(wire) && !UNCLEAR.test(id) ? wire : hashed(id);
}

/** For a whole list: no two have the same. Which name a tool gets depends on the others only where theirs would be the same. */
export function wireNames(ids: readonly string[]): WireNames {
  const toId = new Map<string, string>();
  const toWire = new Map<string, string>();
  const give = (id: string, wire: string) => {
    toId.set(wire, id);
    toWire.set(id, wire);
  };
  // Sorted, so that the order of the list does not matter.
  const unique = [...new Set(ids)].sort();
  for (const id of unique) if (LEGAL.test(id)) give(id, id);
  for (const id of unique) {
    if (toWire.has(id)) continue;
    let wire = wireName(id);
    for (let again = 0; toId.has(wire); again++) wire = hashed(id, again);
    give(id, wire);
  }
  return { toWire: (id) => toWire.get(id) ?? wireName(id), toId: (wire) => toId.get(wire) };
}

/** Names with a dot whose `__` another could have too: `a_.b` and `a._b`, `a__b.c` and `a.b.c`. */
const UNCLEAR = /__|_\.|\._/;

function hashed(id: string, again = 0): string {
  const hash = shortHash(again === 0 ? id : `${id} ${again}`);
  return `${id.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, LONGEST - 1 - hash.length)}_${hash}`;
}
