import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as esbuild from "esbuild";

const root = join(import.meta.dirname, "..");

/**
 * Bundles `skillet-sb`, and returns its code. It runs in sandboxes whose Node may be older than skillet's, and whether a package.json above
 * makes it CommonJS or an ES module.
 */
export async function bundleSandboxCommand(): Promise<string> {
  const { outputFiles } = await esbuild.build({
    absWorkingDir: root,
    entryPoints: ["src/capabilities/sb-program.ts"],
    write: false,
    ...{ bundle: true, minify: true, platform: "node", format: "iife", target: "node20", charset: "ascii" },
    banner: { js: 'var require = typeof require === "function" ? require : process.getBuiltinModule;' },
    logLevel: "warning",
  });
  return outputFiles[0]?.text ?? "";
}

/** Writes it to dist/, from which the sources read it. Tests call it before they start. */
export default async function writeSandboxCommand(): Promise<void> {
  const code = await bundleSandboxCommand();
  mkdirSync(join(root, "dist"), { recursive: true });
  const file = join(root, "dist/skillet-sb.js");
  writeFileSync(`${file}.${process.pid}`, code);
  renameSync(`${file}.${process.pid}`, file);
}
