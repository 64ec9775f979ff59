import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const ENTRIES = ["index.js", "catalog.js"].map((file) => join(import.meta.dirname, "..", "..", "dist", file));

/** Imports `skillet` and `skillet/catalog` as published, and returns the exports of both. */
export async function library() {
  if (!ENTRIES.every((path) => existsSync(path))) throw new Error("skillet is not built\n  run: npm run build");
  const modules = await Promise.all(ENTRIES.map((path) => import(pathToFileURL(path).href)));
  return Object.assign({}, ...modules);
}
