import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const built = join(import.meta.dirname, "..", "..", "dist", "index.js");

/** The library as it is published. */
export async function library() {
  const parts = existsSync(built) ? await import(pathToFileURL(built).href) : {};
  if (!parts.openMatcher) throw new Error("skillet is not built\n  run: npm run build");
  return parts;
}
