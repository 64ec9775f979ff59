import { SkillError } from "../shared/error.ts";

import type { Budget } from "./budget.ts";
import { whyCode } from "./code-file.ts";
import type { SourceEntry } from "./contract.ts";
import { entryPath } from "./entry-name.ts";
import { gunzip } from "./inflate.ts";
import { refusedEntry, shown } from "./refusal.ts";
import { tarEntries } from "./tar-entries.ts";
import { isTar } from "./tar-header.ts";
import { zipEntries } from "./zip-entries.ts";
import { endsAsZip } from "./zip-list.ts";

/**
 * Throws when a file is an archive with code in it, or one that nobody can look into: what a skill can run stands open, where it is shown
 * and looked through. Documents of offices and books are archives as well, and pass.
 */
export function judgeNested(path: string, bytes: Uint8Array, budget: Budget): void {
  look({ path, bytes, budget, depth: 1 });
}

interface Look {
  path: string;
  bytes: Uint8Array;
  budget: Budget;
  depth: number;
}

const DEEPEST = 3;

/** How archives begin; those that are not opened here have no entries. */
const FORMS: readonly {
  is: (bytes: Buffer) => boolean;
  what: string;
  entries?: (bytes: Buffer, path: string) => Iterable<SourceEntry>;
}[] = [
  { is: starts("PK\x03\x04"), what: "a zip", entries: zipEntries },
  { is: starts("PK\x05\x06"), what: "a zip", entries: zipEntries },
  { is: starts("\x1f\x8b"), what: "compressed", entries: gzipEntries },
  { is: isTar, what: "a tar", entries: tarEntries },
  { is: starts("\xfd7zXZ\0"), what: "an xz archive" },
  { is: starts("7z\xbc\xaf\x27\x1c"), what: "a 7z archive" },
  { is: (bytes) => /^BZh[1-9](?:1AY&SY|\x17rE8P\x90)/.test(bytes.toString("latin1", 0, 10)), what: "a bzip2 archive" },
  { is: starts("\x28\xb5\x2f\xfd"), what: "a zstd archive" },
  { is: starts("\x04\x22\x4d\x18"), what: "an lz4 archive" },
  { is: starts("LZIP"), what: "an lzip archive" },
  { is: starts("Rar!\x1a\x07"), what: "a rar archive" },
  { is: starts("MSCF\0\0\0\0"), what: "a cabinet" },
  { is: starts("xar!"), what: "a xar archive" },
  { is: starts("!<arch>\n"), what: "a package or a library" },
  { is: starts("\xed\xab\xee\xdb"), what: "a package" },
  // Programs that open zips look for their end, whatever stands before.
  { is: endsAsZip, what: "a zip behind something else" },
];

function look({ path, bytes: content, budget, depth }: Look): void {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.length);
  const form = FORMS.find(({ is }) => is(bytes));
  if (form === undefined) return;
  if (depth > DEEPEST) throw refused(path, `is an archive in archives, more than ${DEEPEST} deep`);
  if (form.entries === undefined) throw refused(path, `is ${form.what}, which cannot be looked into`);
  try {
    for (const entry of form.entries(bytes, path)) {
      budget.entry(entry.path);
      const name = entryPath(entry);
      if (entry.kind === "other")
        throw refused(path, `is an archive that holds more than files, folders and links: ${shown(name)}`);
      if (entry.kind !== "file") continue;
      budget.file(name, entry.size);
      const file = entry.read();
      const why = whyCode(name, entry.mode, file);
      if (why) throw refused(path, `is an archive with code in it: ${shown(name)} ${why}`);
      look({ path: `${path}/${name}`, bytes: file, budget, depth: depth + 1 });
    }
  } catch (error) {
    if (!(error instanceof SkillError) || error.code === NESTED) throw error;
    throw refused(path, `is an archive that is not taken as a file: ${error.message}`, error);
  }
}

const NESTED = "archive-nested";

function refused(path: string, why: string, cause?: unknown): SkillError {
  return refusedEntry(NESTED, path, why, cause);
}

/** A tar, or one file that is called as its archive is. */
function gzipEntries(bytes: Buffer, path: string): Iterable<SourceEntry> {
  const content = gunzip(bytes);
  if (isTar(content)) return tarEntries(content);
  const name = path.slice(path.lastIndexOf("/") + 1).replace(/\.gz$/i, "");
  return [{ path: name, kind: "file", mode: 0o644, size: content.length, read: () => content }];
}

function starts(magic: string): (bytes: Buffer) => boolean {
  return (bytes) => bytes.toString("latin1", 0, magic.length) === magic;
}
