import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const dist = join(import.meta.dirname, "..", "..", "dist");

/** The parts of the built library that no door leads to, by their path in it. */
export async function parts(...paths) {
  if (paths.some((path) => !existsSync(join(dist, path))))
    throw new Error("skillet is not built\n  run: npm run prepare");
  const modules = await Promise.all(paths.map((path) => import(pathToFileURL(join(dist, path)).href)));
  return Object.assign({}, ...modules);
}
