import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { SkillError } from "../../errors/problem.ts";

/** A file of the page, in memory: no path of a request ever reaches the disk. */
export interface StudioAsset {
  type: string;
  body: Buffer;
  /** True if its name has a hash of its content, so that it never changes. */
  isHashed: boolean;
}

const ASSET_TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Loads the built files of the page by their URL path: `/` is index.html. Throws a SkillError if they were not built. */
export function loadStudioAssets(folder: string): ReadonlyMap<string, StudioAsset> {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (cause) {
    throw new SkillError("studio-not-built", {
      message: `The files of the page are missing: ${folder}`,
      fix: "build them",
      commands: ["npm run build"],
      cause,
    });
  }
  return new Map(
    names.flatMap((name) => {
      const type = ASSET_TYPES[extname(name)];
      if (type === undefined) return [];
      const path = name === "index.html" ? "/" : `/assets/${name}`;
      return [[path, { type, body: readFileSync(join(folder, name)), isHashed: path !== "/" }]] as const;
    }),
  );
}
