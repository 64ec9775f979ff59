import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

declare const SKILLET_VERSION: string | undefined;
declare const SKILLET_IS_PROGRAM: boolean | undefined;

/** Returns the version of this package. The build writes it into the code, where no bundler can lose it. */
export function packageVersion(): string {
  if (typeof SKILLET_VERSION === "string") return SKILLET_VERSION;
  version ??= String(readPackage(join(import.meta.dirname, ".."))?.version);
  return version;
}

let version: string | undefined;

/**
 * Returns the folder of this package, with its skills and its program; undefined if a bundler made this code part of
 * another program. Folders of that program never count: skillet does not ship their content.
 */
export function packageRoot(): string | undefined {
  found ??= { root: findRoot() };
  return found.root;
}

let found: { root: string | undefined } | undefined;

/** The maximum depth of library files below the package folder: `dist/lib/NAME.js`. */
const DEPTH = 2;

function findRoot(): string | undefined {
  // Undefined if a bundler writes CommonJS.
  const here: string | undefined = import.meta.dirname;
  if (typeof SKILLET_IS_PROGRAM === "boolean" && here !== undefined) return join(here, "../..");
  let folder = here;
  for (let depth = 0; folder !== undefined && depth < DEPTH; depth++) {
    folder = dirname(folder);
    if (readPackage(folder)?.name === "skillet") return folder;
  }
  return undefined;
}

function readPackage(folder: string): { name?: unknown; version?: unknown } | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  } catch {
    return undefined;
  }
}
