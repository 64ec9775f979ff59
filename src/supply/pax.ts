import { utf8 } from "./entry-name.ts";
import { refusedArchive, shown } from "./refusal.ts";

/** What a PAX header says: records of `LENGTH KEY=VALUE` and a line's end. Values that are not read here are left out. */
export function paxRecords(data: Buffer): ReadonlyMap<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < data.length; ) {
    const { key, value, next } = recordAt(data, at);
    if (records.has(key)) throw refusedArchive("archive-ambiguous", `says ${shown(key)} twice in one header`);
    records.set(key, READ.has(key) ? utf8(value) : "");
    at = next;
  }
  return records;
}

/** Others hold what was true where it was packed, such as owners and times. */
const READ: ReadonlySet<string> = new Set(["path", "linkpath", "size"]);
const NEWLINE = 0x0a;

function recordAt(data: Buffer, at: number): { key: string; value: Buffer; next: number } {
  const [start, digits] = /^([1-9]\d{0,6}) /.exec(data.toString("latin1", at, at + 8)) ?? [];
  const next = at + Number(digits);
  const equals = data.indexOf("=", at);
  if (start === undefined || equals === -1 || equals >= next || data[next - 1] !== NEWLINE) {
    throw refusedArchive("archive-broken", "has a PAX header that cannot be read");
  }
  return { key: utf8(data.subarray(at + start.length, equals)), value: data.subarray(equals + 1, next - 1), next };
}
