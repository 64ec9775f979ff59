import { existsSync, readFileSync, statSync } from "node:fs";
import { createRequire, isBuiltin, registerHooks, stripTypeScriptTypes } from "node:module";
import { dirname, extname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { SkillError } from "../../shared/error.ts";
import { codeOf, isInside } from "../../shared/inside.ts";
import { ENDINGS } from "../../skill/toolset-ref.ts";
import type { Start } from "./messages.ts";

const OWN_ENDING = extname(import.meta.filename); // `.ts` from source, `.js` as it is built.

/** What is there for every toolset, without installing anything. */
const OURS: Readonly<Record<string, string>> = {
  "@agent/tools": "tools",
  skillet: "../../index",
  "skillet/ai": "../../ai/toolset",
  "skillet/sandbox": "../../sandbox/index",
};

/** Says to this thread where a toolset's imports lead: to its own files, to ours, and to packages where these may be had. */
export function hookImports({ root, folder, hasPackages }: Pick<Start, "root" | "folder" | "hasPackages">): void {
  const fileIn = (url: string | undefined) => {
    const path = url?.startsWith("file:") ? fileURLToPath(url) : undefined;
    return path !== undefined && isInside(root, path) ? path : undefined;
  };
  registerHooks({
    resolve(specifier, context, next) {
      const importer = fileIn(context.parentURL);
      if (importer === undefined || isBuiltin(specifier)) return next(specifier, context);
      const ours = Object.hasOwn(OURS, specifier) ? OURS[specifier] : undefined;
      if (ours !== undefined) {
        return { url: new URL(`${ours}${OWN_ENDING}`, import.meta.url).href, shortCircuit: true };
      }
      const from = (parentURL: string) =>
        context.conditions.includes("require") // There `next` knows no other parent.
          ? { url: pathToFileURL(createRequire(parentURL).resolve(specifier)).href, shortCircuit: true }
          : next(specifier, { ...context, parentURL });
      if (/^zod(?:\/|$)/.test(specifier)) return from(import.meta.url);
      if (/^(?:\.{0,2}\/|file:)/.test(specifier)) {
        return { url: pathToFileURL(ownFile(specifier, importer, root)).href, shortCircuit: true };
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
      const path = fileIn(url);
      const format = path === undefined ? undefined : FORMATS[extname(path)]?.(path, root);
      if (path === undefined || format === undefined) return next(url, context);
      if (format === "commonjs") return next(url, { ...context, format }); // Node's own way: its `require` asks here too.
      const text = readFileSync(path, "utf8");
      return { format, source: /ts$/.test(path) ? withoutTypes(text, url) : text, shortCircuit: true };
    },
  });
}

/** By ending, whatever a package.json above the copy may say. */
const FORMATS: Readonly<Record<string, (path: string, root: string) => "module" | "commonjs">> = {
  ".ts": () => "module",
  ".mts": () => "module",
  ".mjs": () => "module",
  ".cjs": () => "commonjs",
  ".js": (path, root) => packageType(dirname(path), root) ?? looksLike(readFileSync(path, "utf8")),
};

function packageType(at: string, root: string): "module" | "commonjs" | undefined {
  if (!isInside(root, at)) return undefined;
  try {
    const { type } = JSON.parse(readFileSync(join(at, "package.json"), "utf8"));
    return type === "module" || type === "commonjs" ? type : undefined;
  } catch {
    return at === root ? undefined : packageType(dirname(at), root);
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
function ownFile(specifier: string, importer: string, root: string): string {
  const wanted = specifier.startsWith("file:") ? fileURLToPath(specifier) : resolve(dirname(importer), specifier);
  if (!isInside(root, wanted)) throw refused(specifier, importer, root);
  const written = wanted.replace(/\.([mc]?)js$/, ".$1ts");
  const found = [...ENDINGS.map((ending) => wanted + ending), written].find(isFile);
  if (found !== undefined) return found;
  throw new SkillError("toolset-broken", {
    message: `${relative(root, importer)} imports "${specifier}", which is not in the skill's folder`,
    fix: "correct the import, or add the file",
  });
}

function isFile(path: string): boolean {
  return existsSync(path) && statSync(path).isFile();
}

function refused(specifier: string, importer: string, root: string): SkillError {
  const isPackage = !/^[./]|:/.test(specifier);
  return new SkillError("toolset-import", {
    message: `${relative(root, importer)} imports "${specifier}", ${isPackage ? "a package, which is no part of what was trusted" : "which is outside of the skill's folder"}`,
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
