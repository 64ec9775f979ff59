import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire, isBuiltin, registerHooks, stripTypeScriptTypes } from "node:module";
import { dirname, extname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { SkillError } from "../../shared/error.ts";
import { codeOf, isInside } from "../../shared/inside.ts";
import { ENDINGS } from "../../skill/toolset-ref.ts";
import type { Start } from "./messages.ts";
import { isOwnCode, ownModuleSource, ownModuleUrl, ownParent } from "./own-modules.ts";

type Judged = Pick<Start, "root" | "digests" | "folder" | "hasPackages">;

/**
 * Says to this thread where a toolset's imports lead: to the files of its judged copy, byte for byte, to ours, and to packages where these
 * may be had. The same holds for `require` and `createRequire`, whatever a file is called.
 */
export function hookImports({ root, digests, folder, hasPackages }: Judged): void {
  const copy = openCopy({ root, digests });
  const outside = openOutside(hasPackages);
  registerHooks({
    resolve(specifier, context, next) {
      if (isBuiltin(specifier)) return next(specifier, context);
      const importer = copy.fileAt(context.parentURL);
      if (importer === undefined) {
        const found = next(specifier, context);
        if (copy.fileAt(found.url) === undefined && !outside.admit(found.url, specifier, context.parentURL))
          throw refused(specifier, shownParent(context.parentURL), root);
        return found;
      }
      const own = ownModuleUrl(specifier);
      if (own !== undefined) return { url: own, shortCircuit: true };
      const from = (parentURL: string) =>
        outside.note(
          context.conditions.includes("require") // There `next` knows no other parent.
            ? { url: pathToFileURL(createRequire(parentURL).resolve(specifier)).href, shortCircuit: true }
            : next(specifier, { ...context, parentURL }),
        );
      const parent = ownParent();
      if (parent !== undefined && /^zod(?:\/|$)/.test(specifier)) return from(parent);
      if (/^(?:\.{0,2}\/|file:)/.test(specifier)) {
        return { url: pathToFileURL(ownFile(specifier, importer, copy)).href, shortCircuit: true };
      }
      if (!hasPackages || /^[a-z][a-z0-9+.-]*:/i.test(specifier)) throw refused(specifier, importer, root);
      try {
        return from(pathToFileURL(join(folder, relative(root, importer))).href);
      } catch (error) {
        throw codeOf(error) === "ERR_MODULE_NOT_FOUND" || codeOf(error) === "MODULE_NOT_FOUND"
          ? notInstalled(specifier, importer, root)
          : error;
      }
    },
    load(url, context, next) {
      const path = copy.fileAt(url);
      if (path === undefined) {
        const isRequired = context.conditions.includes("require");
        const source = ownModuleSource(url, isRequired);
        if (source !== undefined) return { format: isRequired ? "commonjs" : "module", source, shortCircuit: true };
        if (!outside.has(url)) throw refused(url, undefined, root);
        return next(url, context);
      }
      const bytes = copy.bytesOf(path);
      const format = FORMATS[extname(path)]?.(path, copy);
      if (format === undefined) throw notCode(path, root);
      if (format === "native") return next(url, context);
      // Of a module that is imported Node itself takes `require`, which asks here again.
      if (format === "commonjs" && !context.conditions.includes("require")) return next(url, { ...context, format });
      const text = bytes.toString("utf8");
      return { format, source: /ts$/.test(path) ? withoutTypes(text, url) : text, shortCircuit: true };
    },
  });
}

interface Copy {
  root: string;
  /** The path that an address leads to, when that is in the copy. */
  fileAt(url: string | undefined): string | undefined;
  has(path: string): boolean;
  /** Throws a SkillError when it is not a file of the copy, or not as it was judged. */
  bytesOf(path: string): Buffer;
}

function openCopy({ root, digests }: Pick<Start, "root" | "digests">): Copy {
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
        message: `${relative(root, path)} is not as it was when the skill was judged`,
        fix: "look at the skill, and start again",
      });
    },
  };
}

/** What may be loaded from outside of the copy: all where packages may be had, else our own code and the packages that it imports. */
function openOutside(hasPackages: boolean) {
  const known = new Set<string>();
  const has = (url: string) => hasPackages || !url.startsWith("file:") || isOwnCode(url) || known.has(url);
  const note = <Found extends { url: string }>(found: Found): Found => {
    known.add(found.url);
    return found;
  };
  return {
    has,
    note,
    /** Whether a module outside may import it: a package by its name, or a file of the same package. */
    admit(url: string, specifier: string, parent: string | undefined): boolean {
      if (has(url)) return true;
      if (parent === undefined || !has(parent) || !parent.startsWith("file:")) return false;
      const isPath = /^(?:\.{0,2}\/|file:)/.test(specifier);
      if (isPath && !isInside(packageAround(fileURLToPath(parent)), fileURLToPath(url))) return false;
      known.add(url);
      return true;
    },
  };
}

function packageAround(path: string): string {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? dirname(path);
}

function shownParent(url: string | undefined): string | undefined {
  return url?.startsWith("file:") ? fileURLToPath(url) : undefined;
}

type Format = "module" | "commonjs" | "json" | "native";

/** By ending, whatever a package.json above the copy may say. No other ending is code, also where Node would load it as such. */
const FORMATS: Readonly<Record<string, (path: string, copy: Copy) => Format>> = {
  ".ts": () => "module",
  ".mts": () => "module",
  ".mjs": () => "module",
  ".cjs": () => "commonjs",
  ".js": (path, copy) => packageType(dirname(path), copy) ?? looksLike(copy.bytesOf(path).toString("utf8")),
  ".json": () => "json",
  ".node": () => "native",
  ".wasm": () => "native",
};

function packageType(at: string, copy: Copy): "module" | "commonjs" | undefined {
  if (!isInside(copy.root, at)) return undefined;
  try {
    const { type } = JSON.parse(copy.bytesOf(join(at, "package.json")).toString("utf8"));
    return type === "module" || type === "commonjs" ? type : undefined;
  } catch {
    return at === copy.root ? undefined : packageType(dirname(at), copy);
  }
}

function looksLike(text: string): "module" | "commonjs" {
  return /^\s*(?:import|export)\b/m.test(text) || !/\b(?:require\s*\(|module\.exports|exports\.)/.test(text)
    ? "module"
    : "commonjs";
}

/** What only has to be left out is left out where it stands, so that lines stay what they are. */
function withoutTypes(text: string, sourceUrl: string): string {
  try {
    return stripTypeScriptTypes(text, { mode: "strip", sourceUrl });
  } catch (error) {
    if (codeOf(error) !== "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") throw error;
    return stripTypeScriptTypes(text, { mode: "transform", sourceMap: true, sourceUrl });
  }
}

/** `./helper` and `./helper.js` may mean helper.ts, as compilers have it. */
function ownFile(specifier: string, importer: string, { root, has }: Copy): string {
  const wanted = specifier.startsWith("file:") ? fileURLToPath(specifier) : resolve(dirname(importer), specifier);
  if (!isInside(root, wanted)) throw refused(specifier, importer, root);
  const written = wanted.replace(/\.([mc]?)js$/, ".$1ts");
  const found = [...ENDINGS.map((ending) => wanted + ending), written].find(has);
  if (found !== undefined) return found;
  throw new SkillError("toolset-broken", {
    message: `${relative(root, importer)} imports "${specifier}", which is not in the skill's folder`,
    fix: "correct the import, or add the file",
  });
}

function notCode(path: string, root: string): SkillError {
  return new SkillError("toolset-import", {
    message: `${relative(root, path)} is imported, and its ending is not one of a module`,
    fix: `name it as one: ${Object.keys(FORMATS).join(", ")}`,
  });
}

function refused(specifier: string, importer: string | undefined, root: string): SkillError {
  const isPackage = !/^[./]|:/.test(specifier);
  const by = importer === undefined ? "it" : isInside(root, importer) ? relative(root, importer) : importer;
  return new SkillError("toolset-import", {
    message: `${by} imports "${specifier}", ${isPackage ? "a package, which is no part of what was trusted" : "which is outside of the skill's folder"}`,
    fix: isPackage
      ? "import only the skill's own files, node: modules, zod, skillet and @agent/tools; or put the skill into your own folder, ~/.skillet/skills"
      : "import the skill's own files, by a path that begins with ./",
  });
}

function notInstalled(specifier: string, importer: string, root: string): SkillError {
  return new SkillError("toolset-import", {
    message: `${relative(root, importer)} imports "${specifier}", which is not installed for the skill`,
    fix: `install it in the skill's folder: npm install ${specifier}`,
  });
}
