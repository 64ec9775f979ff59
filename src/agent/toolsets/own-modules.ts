import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isInside } from "../../util/safe-path.ts";

/** Modules that every toolset can import without installation, by specifier. `zod` is another one. */
const OWN_MODULES: Readonly<Record<string, string>> = {
  "@agent/tools": "tool-exports",
  skillet: "../../index",
  "skillet/sandbox": "../../sandbox/index",
};

const OWN_CODE = join(import.meta.dirname, "../..");

// The build puts bundled-modules.ts in the place of this module: there the modules are part of the thread's code and have no file.

/** Returns the URL of one of skillet's own modules. */
export function ownModuleUrl(specifier: string): string | undefined {
  const path = Object.hasOwn(OWN_MODULES, specifier) ? OWN_MODULES[specifier] : undefined;
  return path && new URL(`${path}${extname(import.meta.filename)}`, import.meta.url).href;
}

/** Returns the source of one of skillet's own modules that has no file. */
export function ownModuleSource(_url: string, _isRequired: boolean): string | undefined {
  return undefined;
}

/** Returns the module from which skillet's own packages are resolved, if they are not bundled. */
export function ownParent(): string | undefined {
  return import.meta.url;
}

/** Returns true for the URL of one of skillet's own files. */
export function isOwnCode(url: string): boolean {
  return url.startsWith("file:") && isInside(OWN_CODE, fileURLToPath(url));
}
