import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire, isBuiltin, registerHooks, stripTypeScriptTypes } from "node:module";
import { dirname, extname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { getErrnoCode, SkillError } from "../../errors/problem.ts";
import { MODULE_ENDINGS } from "../../skill/skill-code.ts";
import { isInside } from "../../util/safe-path.ts";
import type { ThreadStart } from "./toolset-thread.ts";

type CheckedCopy = Pick<ThreadStart, "root" | "digests" | "folder" | "hasPackages">;

/**
 * Registers the import hooks of this thread. A toolset may import the files of its checked copy, byte for byte, skillet's own
 * modules and, if allowed, packages. The same holds for `require` and `createRequire`, whatever the file extension.
 */
export function registerImportHooks({ root, digests, folder, hasPackages }: CheckedCopy): void {
  const copy = createToolsetCopy({ root, digests });
  const outside = createOutsideModules(hasPackages);
  registerHooks({
    resolve(specifier, context, next) {
      if (isBuiltin(specifier)) return next(specifier, context);
      const importer = copy.fileAt(context.parentURL);
      if (importer === undefined) {
        const found = next(specifier, context);
        if (copy.fileAt(found.url) === undefined && !outside.admit(found.url, specifier, context.parentURL))
          throw createImportRefusal(specifier, getParentPath(context.parentURL), root);
        return found;
      }
      const own = getOwnModuleUrl(specifier);
      if (own !== undefined) return { url: own, shortCircuit: true };
      const from = (parentURL: string) =>
        outside.note(
          context.conditions.includes("require") // With `require`, `next` ignores another parent.
            ? { url: pathToFileURL(createRequire(parentURL).resolve(specifier)).href, shortCircuit: true }
            : next(specifier, { ...context, parentURL }),
        );
      if (OWN_PARENT !== undefined && /^zod(?:\/|$)/.test(specifier)) return from(OWN_PARENT);
      if (/^(?:\.{0,2}\/|file:)/.test(specifier)) {
        return { url: pathToFileURL(resolveOwnFile(specifier, importer, copy)).href, shortCircuit: true };
      }
      if (!hasPackages || /^[a-z][a-z0-9+.-]*:/i.test(specifier)) throw createImportRefusal(specifier, importer, root);
      try {
        return from(pathToFileURL(join(folder, relative(root, importer))).href);
      } catch (error) {
        throw getErrnoCode(error) === "ERR_MODULE_NOT_FOUND" || getErrnoCode(error) === "MODULE_NOT_FOUND"
          ? createNotInstalledError(specifier, importer, root)
          : error;
      }
    },
    load(url, context, next) {
      const path = copy.fileAt(url);
      if (path === undefined) {
        const isRequired = context.conditions.includes("require");
        const source = createOwnModuleSource(url, isRequired);
        if (source !== undefined) return { format: isRequired ? "commonjs" : "module", source, shortCircuit: true };
        if (!outside.has(url)) throw createImportRefusal(url, undefined, root);
        return next(url, context);
      }
      const bytes = copy.bytesOf(path);
      const format = MODULE_FORMATS[extname(path)]?.(path, copy);
      if (format === undefined) throw createNotCodeError(path, root);
      if (format === "native") return next(url, context);
      // Node itself provides `require` for an imported CommonJS module, and calls this hook again.
      if (format === "commonjs" && !context.conditions.includes("require")) return next(url, { ...context, format });
      const text = bytes.toString("utf8");
      return { format, source: /ts$/.test(path) ? stripTypes(text, url) : text, shortCircuit: true };
    },
  });
}

interface ToolsetCopy {
  root: string;
  /** Returns the path of a URL if it is inside the copy. */
  fileAt(url: string | undefined): string | undefined;
  has(path: string): boolean;
  /** Throws a SkillError if it is not a file of the copy, or changed since it was checked. */
  bytesOf(path: string): Buffer;
}

function createToolsetCopy({ root, digests }: Pick<ThreadStart, "root" | "digests">): ToolsetCopy {
  return {
    root,
    fileAt(url) {
      const path = url?.startsWith("file:") ? fileURLToPath(url) : undefined;
      return path !== undefined && isInside(root, path) ? path : undefined;
    },
    has: (path) => digests.has(relative(root, path)),
    bytesOf(path) {
      const expected = digests.get(relative(root, path));
      const bytes = expected === undefined ? undefined : readFileSync(path);
      if (bytes && hash("sha256", bytes) === expected) return bytes;
      throw new SkillError("toolset-import", {
        message: `${relative(root, path)} has changed since the skill was checked`,
        fix: "review the skill, and start again",
      });
    },
  };
}

/**
 * Tracks which modules outside the copy may be loaded: all if packages are allowed, otherwise skillet's own code and the
 * packages that it imports.
 */
function createOutsideModules(hasPackages: boolean) {
  const known = new Set<string>();
  const has = (url: string) => hasPackages || !url.startsWith("file:") || isOwnCode(url) || known.has(url);
  const note = <Found extends { url: string }>(found: Found): Found => {
    known.add(found.url);
    return found;
  };
  return {
    has,
    note,
    /** Returns true if a module outside the copy may import it: a package by name, or a file of the same package. */
    admit(url: string, specifier: string, parent: string | undefined): boolean {
      if (has(url)) return true;
      if (parent === undefined || !has(parent) || !parent.startsWith("file:")) return false;
      const isPath = /^(?:\.{0,2}\/|file:)/.test(specifier);
      if (isPath && !isInside(findPackageFolder(fileURLToPath(parent)), fileURLToPath(url))) return false;
      known.add(url);
      return true;
    },
  };
}

function findPackageFolder(path: string): string {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? dirname(path);
}

function getParentPath(url: string | undefined): string | undefined {
  return url?.startsWith("file:") ? fileURLToPath(url) : undefined;
}

type ModuleFormat = "module" | "commonjs" | "json" | "native";

/**
 * Module formats by file extension, whatever a package.json above the copy states. No other extension is code, even if
 * Node would load it.
 */
const MODULE_FORMATS: Readonly<Record<string, (path: string, copy: ToolsetCopy) => ModuleFormat>> = {
  ".ts": () => "module",
  ".mts": () => "module",
  ".mjs": () => "module",
  ".cjs": () => "commonjs",
  ".js": (path, copy) => readPackageType(dirname(path), copy) ?? guessModuleType(copy.bytesOf(path).toString("utf8")),
  ".json": () => "json",
  ".node": () => "native",
  ".wasm": () => "native",
};

function readPackageType(at: string, copy: ToolsetCopy): "module" | "commonjs" | undefined {
  if (!isInside(copy.root, at)) return undefined;
  try {
    const { type } = JSON.parse(copy.bytesOf(join(at, "package.json")).toString("utf8"));
    return type === "module" || type === "commonjs" ? type : undefined;
  } catch {
    return at === copy.root ? undefined : readPackageType(dirname(at), copy);
  }
}

function guessModuleType(text: string): "module" | "commonjs" {
  return /^\s*(?:import|export)\b/m.test(text) || !/\b(?:require\s*\(|module\.exports|exports\.)/.test(text)
    ? "module"
    : "commonjs";
}

/** Strips types in place, so that line numbers stay the same. */
function stripTypes(text: string, sourceUrl: string): string {
  try {
    return stripTypeScriptTypes(text, { mode: "strip", sourceUrl });
  } catch (error) {
    if (getErrnoCode(error) !== "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") throw error;
    return stripTypeScriptTypes(text, { mode: "transform", sourceMap: true, sourceUrl });
  }
}

/** Resolves an import to a file of the copy. `./helper` and `./helper.js` may mean helper.ts, as in TypeScript. */
function resolveOwnFile(specifier: string, importer: string, { root, has }: ToolsetCopy): string {
  const wanted = specifier.startsWith("file:") ? fileURLToPath(specifier) : resolve(dirname(importer), specifier);
  if (!isInside(root, wanted)) throw createImportRefusal(specifier, importer, root);
  const written = wanted.replace(/\.([mc]?)js$/, ".$1ts");
  const found = [...MODULE_ENDINGS.map((ending) => wanted + ending), written].find(has);
  if (found !== undefined) return found;
  throw new SkillError("toolset-broken", {
    message: `${relative(root, importer)} imports "${specifier}", which is not in the skill's folder`,
    fix: "correct the import, or add the file",
  });
}

function createNotCodeError(path: string, root: string): SkillError {
  return new SkillError("toolset-import", {
    message: `${relative(root, path)} is imported, but its extension is not that of a module`,
    fix: `rename it to one of: ${Object.keys(MODULE_FORMATS).join(", ")}`,
  });
}

function createImportRefusal(specifier: string, importer: string | undefined, root: string): SkillError {
  const isPackage = !/^[./]|:/.test(specifier);
  const by = importer === undefined ? "it" : isInside(root, importer) ? relative(root, importer) : importer;
  return new SkillError("toolset-import", {
    message: `${by} imports "${specifier}", ${isPackage ? "a package, which was not part of the trusted files" : "which is outside the skill's folder"}`,
    fix: isPackage
      ? "import only the skill's own files, node: modules, zod, skillet and @agent/tools; or move the skill to your own folder, ~/.skillet/skills"
      : "import the skill's own files, with a path that starts with ./",
  });
}

function createNotInstalledError(specifier: string, importer: string, root: string): SkillError {
  return new SkillError("toolset-import", {
    message: `${relative(root, importer)} imports "${specifier}", which is not installed for the skill`,
    fix: `install it in the skill's folder: npm install ${specifier}`,
  });
}

/** True in the published code of the thread. It contains skillet's own modules, which have no file there. */
const IS_BUNDLED = import.meta.dirname === undefined;

/** The module from which zod is resolved, if it is not bundled. */
const OWN_PARENT: string | undefined = import.meta.url;

/** Modules that every toolset can import without installation, by specifier. `zod` is another one. */
const OWN_MODULES: Readonly<Record<string, string>> = {
  "@agent/tools": "tool-exports",
  skillet: "../../index",
  "skillet/sandbox": "../../sandbox/index",
};

/** The same modules in the published code. Each is run when it is first imported. */
const BUNDLED_MODULES: Readonly<Record<string, () => object>> = IS_BUNDLED
  ? {
      "@agent/tools": () => require("./tool-exports.ts"),
      skillet: () => require("../../index.ts"),
      "skillet/sandbox": () => require("../../sandbox/index.ts"),
      zod: () => require("zod"),
      "zod/v4": () => require("zod/v4"),
      "zod/v4/core": () => require("zod/v4/core"),
      "zod/mini": () => require("zod/mini"),
      "zod/v4-mini": () => require("zod/v4-mini"),
      "zod/v3": () => require("zod/v3"),
    }
  : {};

const BUNDLED_SCHEME = "skillet-own:";
/** The symbol under which the source of a bundled module finds `loadBundledModule`. */
const BUNDLED_LOADER = "skillet.own-modules";
const loadedModules = new Map<string, object>();

if (IS_BUNDLED) Reflect.set(globalThis, Symbol.for(BUNDLED_LOADER), loadBundledModule);

function loadBundledModule(specifier: string): object {
  const known = loadedModules.get(specifier) ?? BUNDLED_MODULES[specifier]?.() ?? {};
  loadedModules.set(specifier, known);
  return known;
}

/** Returns the URL of one of skillet's own modules. */
function getOwnModuleUrl(specifier: string): string | undefined {
  if (IS_BUNDLED) return Object.hasOwn(BUNDLED_MODULES, specifier) ? `${BUNDLED_SCHEME}${specifier}` : undefined;
  const path = Object.hasOwn(OWN_MODULES, specifier) ? OWN_MODULES[specifier] : undefined;
  return path && new URL(`${path}${extname(import.meta.filename)}`, import.meta.url).href;
}

/** Creates the source of a bundled module: it exports what `loadBundledModule` returns. Returns undefined for any other module. */
function createOwnModuleSource(url: string, isRequired: boolean): string | undefined {
  if (!url.startsWith(BUNDLED_SCHEME)) return undefined;
  const specifier = url.slice(BUNDLED_SCHEME.length);
  const module = `globalThis[Symbol.for("${BUNDLED_LOADER}")](${JSON.stringify(specifier)})`;
  if (isRequired) return `module.exports = ${module};`;
  const names = Object.keys(loadBundledModule(specifier));
  const values = names.map((name, index) => `const _${index} = module[${JSON.stringify(name)}];`);
  const exported = names.map((name, index) => `_${index} as ${JSON.stringify(name)}`);
  return `const module = ${module};${values.join("")}export { ${exported.join(", ")} };`;
}

/** Returns true for the URL of one of skillet's own files. */
function isOwnCode(url: string): boolean {
  return !IS_BUNDLED && url.startsWith("file:") && isInside(join(import.meta.dirname, "../.."), fileURLToPath(url));
}
