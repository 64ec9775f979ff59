import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isInside } from "../../util/safe-path.ts";

/** Modules that every toolset can import without installing anything, by specifier. `zod` is one too, with all that it exports. */
const OWN_MODULES: Readonly<Record<string, string>> = {
  "@agent/tools": "tool-exports",
  skillet: "../../index",
  "skillet/sandbox": "../../sandbox/index",
};

const OWN_CODE = join(import.meta.dirname, "../..");

// The build replaces this module: there the modules are in the code of the thread, and have no file.

/** Returns the address of a module of ours. */
export function ownModuleUrl(specifier: string): string | undefined {
  const path = Object.hasOwn(OWN_MODULES, specifier) ? OWN_MODULES[specifier] : undefined;
  return path && new URL(`${path}${extname(import.meta.filename)}`, import.meta.url).href;
}

/** Returns the text of a module of ours that has no file. */
export function ownModuleSource(_url: string, _isRequired: boolean): string | undefined {
  return undefined;
}

/** Returns the module that the packages of ours are resolved from, where they are not part of this code. */
export function ownParent(): string | undefined {
  return import.meta.url;
}

/** True for the address of a file of ours. */
export function isOwnCode(url: string): boolean {
  return url.startsWith("file:") && isInside(OWN_CODE, fileURLToPath(url));
}
