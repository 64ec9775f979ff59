import { grouped } from "../shared/text.ts";
import { SOURCE_LIMITS, type SourceEntry } from "./contract.ts";
import { gunzip } from "./inflate.ts";
import { refusedArchive, shown } from "./refusal.ts";
import { tarEntries } from "./tar-entries.ts";
import { zipEntries } from "./zip-entries.ts";
import { endsAsZip } from "./zip-list.ts";

/** What an archive holds, by what it is and not by how it is called: a zip, or a tar that gzip compressed. */
export function readArchive(bytes: Buffer, name: string): Iterable<SourceEntry> {
  if (bytes.length > SOURCE_LIMITS.archive) {
    const why = `has ${grouped(bytes.length)} bytes: one may have ${grouped(SOURCE_LIMITS.archive)}`;
    throw refusedArchive("archive-too-large", why);
  }
  const start = bytes.toString("latin1", 0, 2);
  if (start === "\x1f\x8b") return tarEntries(gunzip(bytes));
  if (start === "PK" || endsAsZip(bytes)) return zipEntries(bytes);
  throw refusedArchive("archive-unknown", `${shown(name)} is neither a zip nor a tar that gzip compressed`);
}
