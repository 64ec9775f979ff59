import { SOURCE_LIMITS, type SourceEntry } from "./contract.ts";
import { utf8 } from "./entry-name.ts";
import { paxRecords } from "./pax.ts";
import { refusedArchive, shown, tooMany } from "./refusal.ts";
import { BLOCK, type TarHeader, tarHeader } from "./tar-header.ts";

/** What a tar holds: of the standard, with PAX headers, or with GNU's long names. What another program could read otherwise is refused. */
export function tarEntries(bytes: Buffer): Iterable<SourceEntry> {
  const entries: SourceEntry[] = [];
  let more: More = {};
  for (let at = 0; ; ) {
    if (at + BLOCK > bytes.length)
      throw refusedArchive("archive-broken", "ends before its end: a part of it is missing");
    const block = bytes.subarray(at, at + BLOCK);
    if (isZero(block)) {
      judgeEnd(bytes.subarray(at), more);
      return entries;
    }
    const header = tarHeader(block);
    const start = at + BLOCK;
    const data = bytes.subarray(start, start + header.size);
    at = start + Math.ceil(header.size / BLOCK) * BLOCK;
    const add = MORE[header.type];
    if (add) more = add(more, data);
    else {
      entries.push(entryOf(header, more, data));
      more = {};
      if (entries.length > SOURCE_LIMITS.entries) throw tooMany(entries.length);
    }
  }
}

/** What headers before an entry's own say of it. */
interface More {
  longName?: string;
  longTarget?: string;
  pax?: ReadonlyMap<string, string>;
}

const LONGEST_HEADER = 1024 * 1024;

/** By the type of a header: what it adds to the next entry. */
const MORE: Readonly<Record<string, (more: More, data: Buffer) => More>> = {
  L: (more, data) => once(more, "longName", longText(data)),
  K: (more, data) => once(more, "longTarget", longText(data)),
  x: (more, data) => once(more, "pax", paxRecords(bounded(data))),
  g: (more, data) => {
    for (const key of paxRecords(bounded(data)).keys()) {
      if (!FOR_ALL.test(key))
        throw refusedArchive("archive-ambiguous", `sets ${shown(key)} for all that it holds at once`);
    }
    return more;
  },
};

/** What may be said of all entries at once: nothing that they are called, or hold. */
const FOR_ALL = /^(?:comment|[acm]time|[ug]id|[ug]name|hdrcharset|charset)$/;

function once<Key extends keyof More>(more: More, key: Key, value: More[Key]): More {
  if (more[key] !== undefined) throw refusedArchive("archive-ambiguous", "has two headers of one kind before an entry");
  return { ...more, [key]: value };
}

function longText(data: Buffer): string {
  const end = bounded(data).indexOf(0);
  return utf8(end === -1 ? data : data.subarray(0, end));
}

function bounded(data: Buffer): Buffer {
  if (data.length > LONGEST_HEADER)
    throw refusedArchive("archive-broken", `has a header of more than ${LONGEST_HEADER} bytes`);
  return data;
}

const KINDS: Readonly<Record<string, SourceEntry["kind"]>> = { "0": "file", "\0": "file", "2": "link", "5": "folder" };
const HARD_LINK = "1";

function entryOf(header: TarHeader, { longName, longTarget, pax }: More, data: Buffer): SourceEntry {
  const path = oneOf("name", pax?.get("path"), longName) ?? header.name;
  const target = oneOf("target", pax?.get("linkpath"), longTarget) ?? header.target;
  const size = pax?.get("size");
  if (size !== undefined && size !== String(header.size)) {
    throw refusedArchive("archive-disagrees", `has two sizes for ${shown(path)}: ${header.size}, and ${shown(size)}`);
  }
  const kind = kindOf(header, path, pax);
  if (header.size > 0 && (kind === "folder" || kind === "link")) {
    throw refusedArchive("archive-disagrees", `has bytes for ${shown(path)}, which is no file`);
  }
  const isLink = kind === "link" || header.type === HARD_LINK;
  return { path, kind, mode: header.mode, size: header.size, ...(isLink ? { target } : {}), read: () => data };
}

function oneOf(what: string, pax: string | undefined, long: string | undefined): string | undefined {
  if (pax !== undefined && long !== undefined) {
    throw refusedArchive("archive-ambiguous", `has two ${what}s for one entry: ${shown(pax)} and ${shown(long)}`);
  }
  return pax ?? long;
}

function kindOf({ type }: TarHeader, path: string, pax: More["pax"]): SourceEntry["kind"] {
  const kind = KINDS[type] ?? "other";
  // Files with holes are written in pieces, under a name of their own.
  if (pax && [...pax.keys()].some((key) => key.startsWith("GNU.sparse."))) return "other";
  // As folders were written before they had a type.
  return kind === "file" && path.endsWith("/") ? "folder" : kind;
}

const ZERO = Buffer.alloc(BLOCK);

function isZero(block: Buffer): boolean {
  return block.equals(ZERO);
}

// Two empty blocks are the end, and whatever is behind them is padding.
function judgeEnd(rest: Buffer, more: More): void {
  if (Object.keys(more).length > 0)
    throw refusedArchive("archive-broken", "ends before the entry that a header tells of");
  if (rest.length < 2 * BLOCK) throw refusedArchive("archive-broken", "ends before its end: a part of it is missing");
  if (!isAllZero(rest)) throw refusedArchive("archive-stray", "goes on behind its end");
}

function isAllZero(bytes: Buffer): boolean {
  return bytes[0] === 0 && bytes.subarray(1).equals(bytes.subarray(0, -1));
}
