import { gunzipSync, inflateRawSync, type ZlibOptions } from "node:zlib";
import { codeOf, reason } from "../shared/inside.ts";
import { grouped } from "../shared/text.ts";
import { SOURCE_LIMITS } from "./contract.ts";
import { refusedArchive, refusedEntry } from "./refusal.ts";

/** What gzip compressed, several times in a row as well, within the bounds of a source. */
export function gunzip(bytes: Buffer): Buffer {
  const most = Math.min(SOURCE_LIMITS.bytes, mostFrom(bytes.length));
  const result = inflateBy(gunzipSync, bytes, most);
  if (result === "too-large") {
    throw refusedArchive("archive-bomb", `of ${grouped(bytes.length)} bytes becomes more than ${grouped(most)}`);
  }
  if ("cause" in result) {
    throw refusedArchive("archive-broken", `cannot be read as gzip writes it: ${reason(result.cause)}`, result.cause);
  }
  if (result.used !== bytes.length) throw refusedArchive("archive-stray", "goes on behind its end");
  return result.content;
}

/** The bytes of an entry of a zip, which must be as many as it says, from all that it has. */
export function inflateEntry(path: string, packed: Buffer, size: number): Buffer {
  const result = inflateBy(inflateRawSync, packed, size);
  if (result !== "too-large" && "cause" in result) {
    throw refusedEntry("entry-damaged", path, `cannot be inflated: ${reason(result.cause)}`, result.cause);
  }
  if (result === "too-large" || result.content.length !== size || result.used !== packed.length) {
    throw refusedEntry("entry-size", path, "has not as many bytes as the archive says");
  }
  return result.content;
}

/** How many bytes so many compressed ones may become. */
export function mostFrom(packed: number): number {
  return Math.max(ANY_RATIO, SOURCE_LIMITS.ratio * packed);
}

/** What may come out of ever so few bytes: as much can be had without any trick. */
const ANY_RATIO = 8 * 1024 * 1024;

type Inflated = { content: Buffer; used: number } | { cause: unknown } | "too-large";
type Inflate = (bytes: Buffer, options: ZlibOptions) => unknown;

function inflateBy(inflate: Inflate, bytes: Buffer, most: number): Inflated {
  try {
    const result = inflate(bytes, { maxOutputLength: Math.max(1, most), info: true });
    const { buffer, engine } = result as { buffer: Buffer; engine: { bytesWritten: number } };
    return { content: buffer, used: engine.bytesWritten };
  } catch (cause) {
    return codeOf(cause) === "ERR_BUFFER_TOO_LARGE" ? "too-large" : { cause };
  }
}
