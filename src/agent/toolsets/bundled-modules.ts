// The build puts this module in the place of own-modules.ts: in the code of a toolset's thread skillet's own modules have no file.

/** Modules that every toolset can import without installation, by specifier. Each is run when it is first imported. */
const OWN_MODULES: Readonly<Record<string, () => object>> = {
  "@agent/tools": () => require("./tool-exports.ts"),
  skillet: () => require("../../index.ts"),
  "skillet/sandbox": () => require("../../sandbox/index.ts"),
  zod: () => require("zod"),
  "zod/v4": () => require("zod/v4"),
  "zod/v4/core": () => require("zod/v4/core"),
  "zod/mini": () => require("zod/mini"),
  "zod/v4-mini": () => require("zod/v4-mini"),
  "zod/v3": () => require("zod/v3"),
};

const SCHEME = "skillet-own:";
/** The symbol under which the source of a module finds `loadModule`. */
const LOADER = "skillet.own-modules";
const loaded = new Map<string, object>();

Reflect.set(globalThis, Symbol.for(LOADER), loadModule);

function loadModule(specifier: string): object {
  const known = loaded.get(specifier) ?? OWN_MODULES[specifier]?.() ?? {};
  loaded.set(specifier, known);
  return known;
}

/** Returns the URL of one of skillet's own modules. */
export function ownModuleUrl(specifier: string): string | undefined {
  return Object.hasOwn(OWN_MODULES, specifier) ? `${SCHEME}${specifier}` : undefined;
}

/** Returns the source of one of skillet's own modules: it exports what `loadModule` returns. */
export function ownModuleSource(url: string, isRequired: boolean): string | undefined {
  if (!url.startsWith(SCHEME)) return undefined;
  const specifier = url.slice(SCHEME.length);
  const module = `globalThis[Symbol.for("${LOADER}")](${JSON.stringify(specifier)})`;
  if (isRequired) return `module.exports = ${module};`;
  const names = Object.keys(loadModule(specifier));
  const values = names.map((name, index) => `const _${index} = module[${JSON.stringify(name)}];`);
  const exported = names.map((name, index) => `_${index} as ${JSON.stringify(name)}`);
  return `const module = ${module};${values.join("")}export { ${exported.join(", ")} };`;
}

/** Returns the module from which skillet's own packages are resolved, if they are not bundled. */
export function ownParent(): string | undefined {
  return undefined;
}

/** Returns true for the URL of one of skillet's own files. */
export function isOwnCode(_url: string): boolean {
  return false;
}
