import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const built = join(import.meta.dirname, "..", "..", "build");

/** The parts of the built library that no door leads to, by their path in it. */
export async function parts(...paths) {
  if (paths.some((path) => !existsSync(join(built, path))))
    throw new Error("skillet is not built\n  run: npm run build");
  const modules = await Promise.all(paths.map((path) => import(pathToFileURL(join(built, path)).href)));
  return Object.assign({}, ...modules);
}
