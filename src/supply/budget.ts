import { count, grouped } from "../shared/text.ts";
import { SOURCE_LIMITS } from "./contract.ts";
import { refusedEntry } from "./refusal.ts";

/** What of a source's bounds is left. What is only looked into, in an archive within it, counts as what is written does. */
export interface Budget {
  entry(path: string): void;
  /** To be asked before the bytes are read. */
  file(path: string, size: number): void;
}

export function sourceBudget(): Budget {
  let { entries, bytes } = SOURCE_LIMITS;
  return {
    entry(path) {
      if (--entries < 0) {
        const most = count(SOURCE_LIMITS.entries, "file, folder and link", "files, folders and links");
        throw refusedEntry("source-too-many", path, `is one too many: a source may hold ${most}`);
      }
    },
    file(path, size) {
      if (size > SOURCE_LIMITS.file) {
        const why = `has ${grouped(size)} bytes: a file may have ${grouped(SOURCE_LIMITS.file)}`;
        throw refusedEntry("entry-too-large", path, why);
      }
      bytes -= size;
      if (bytes < 0) {
        const why = `is more than fits: a source may hold ${grouped(SOURCE_LIMITS.bytes)} bytes`;
        throw refusedEntry("source-too-large", path, why);
      }
    },
  };
}
