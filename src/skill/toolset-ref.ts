/** What a skill names under `toolsets`: a file of its own, and what that exports. */
export interface ToolsetRef {
  /** As the skill writes it. */
  written: string;
  /** Relative to the skill's folder; its ending may be left out. */
  path: string;
  export: string;
}

/** `toolsets/index:MyToolset`. Says why it is none, where it is none: every module of it is a file of the skill. */
export function parseToolsetRef(written: string): ToolsetRef | { problem: string } {
  const colon = written.lastIndexOf(":");
  if (colon === -1) return { problem: "names no export" };
  const path = plain(written.slice(0, colon));
  const exported = written.slice(colon + 1).trim();
  const problem = RULES.find(([, isBroken]) => isBroken(path, exported))?.[0];
  return problem === undefined ? { written, path, export: exported } : { problem };
}

const RULES: readonly [problem: string, isBroken: (path: string, exported: string) => boolean][] = [
  ["names no file", (path) => path === ""],
  ["names no export", (_, exported) => exported === ""],
  ["names something that is no file of the skill", (path) => path.includes(":")],
  ["names its file by an absolute path", (path) => /^[/~]/.test(path)],
  ["names its file with `\\`", (path) => path.includes("\\")],
  ["leaves the skill's folder", (path) => path.split("/").includes("..")],
  ["names an export that is no name", (_, exported) => !/^[^\s\p{C}"'`<>\\/(){}[\];,.]{1,128}$/u.test(exported)],
];

/** What is tried where a file is named without its ending, in this order. */
export const ENDINGS = ["", ".ts", ".mts", ".js", ".mjs", ".cjs", "/index.ts", "/index.js"] as const;

/** The file that is meant, of those that there are. */
export function findToolsetFile(
  { path }: Pick<ToolsetRef, "path">,
  isThere: (path: string) => boolean,
): string | undefined {
  return ENDINGS.map((ending) => path + ending).find((file) => MODULE.test(file) && isThere(file));
}

const MODULE = /\.[mc]?[jt]s$/;

function plain(path: string): string {
  return path.trim().replace(/^(?:\.\/+)+/, "");
}
