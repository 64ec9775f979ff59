import { readFileSync } from "node:fs";
import { join } from "node:path";

// Both `dist/package.js` and the bundled command in `dist/` stand one level below the package's root, as this file does.
export const packageRoot: string = join(import.meta.dirname, "..");

declare const SKILLET_VERSION: string | undefined;

export function packageVersion(): string {
  if (typeof SKILLET_VERSION === "string") return SKILLET_VERSION; // The build writes it into the command.
  version ??= JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")).version as string;
  return version;
}

let version: string | undefined;
