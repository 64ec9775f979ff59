import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const built = join(import.meta.dirname, "..", "..", "build");

/** Imports internal modules of the built library by their path in `build/`, and returns all their exports. */
export async function parts(...paths) {
  if (!existsSync(built)) throw new Error("skillet is not built\n  run: npm run build");
  const missing = paths.find((path) => !existsSync(join(built, path)));
  if (missing !== undefined) throw new Error(`build/${missing} does not exist\n  run: npm run build`);
  const modules = await Promise.all(paths.map((path) => import(pathToFileURL(join(built, path)).href)));
  return Object.assign({}, ...modules);
}
