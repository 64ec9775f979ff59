import { hash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { codeOf } from "../shared/inside.ts";
import { isData } from "../skill/data.ts";
import type { Skill } from "../skill/skill.ts";
import type { CopiedFile } from "../source/digest.ts";

/** The files of a plugin with this skill in it. Contract: `files` are the skill's own, its SKILL.md as the plugin is to have it. */
export function pluginFiles(skill: Skill, files: ReadonlyMap<string, CopiedFile>): Map<string, CopiedFile> {
  const all = new Map([
    [MANIFEST, json(pluginManifest(skill))],
    ["README.md", text(readme(skill))],
  ]);
  for (const [path, file] of files) all.set(`skills/${skill.name}/${path}`, file);
  const digests = Object.fromEntries([...all].map(([path, { bytes }]) => [path, digestOf(bytes)]));
  return all.set(RECORD, json({ "made by": "skillet export", files: digests }));
}

/**
 * Why a folder is not as skillet made it, or nothing when it is, to the last byte: only such a one may be taken away. What goes on
 * where `is` does not.
 */
export function notOurs(folder: string): string | undefined {
  const record = recordIn(folder);
  if (!record) return "was not made by `skillet export`";
  const there = listed(folder);
  const known = new Map(Object.entries(record));
  const added = there.find((path) => path !== RECORD && !known.has(path));
  if (added !== undefined) return `has a file of somebody else's by now, ${added}`;
  const changed = there.find((path) => path !== RECORD && known.get(path) !== digestAt(join(folder, path)));
  return changed === undefined ? undefined : `was changed since it was made, in ${changed}`;
}

const MANIFEST = ".claude-plugin/plugin.json";
/** What skillet wrote there: how it knows its own folders again. */
const RECORD = ".claude-plugin/skillet.json";
const LARGEST_RECORD = 4 * 1024 * 1024;

function pluginManifest({ name, description, manifest }: Skill): Record<string, unknown> {
  const { version, authors, homepage, license, tags } = manifest;
  return {
    name,
    ...(version === undefined ? {} : { version }),
    description,
    ...(authors.length === 0 ? {} : { author: { name: authors.join(", ") } }),
    ...(homepage === undefined || !/^https?:\/\//.test(homepage) ? {} : { homepage }),
    ...(license === undefined ? {} : { license }),
    ...(tags.length === 0 ? {} : { keywords: tags }),
  };
}

/** What whoever installs it reads first; the directory of plugins takes none without. */
function readme({ name, description, manifest: { compatibility } }: Skill): string {
  return [
    `# ${name}`,
    description,
    ...(compatibility === undefined ? [] : [compatibility]),
    `This plugin holds one skill, \`${name}\`. Claude uses it when a task fits what is said above; \`/${name}:${name}\` calls it by its name.`,
    "To try it, start Claude Code with `--plugin-dir` and the path of this folder. It was made by `skillet export`.",
  ].join("\n\n");
}

function json(value: unknown): CopiedFile {
  return text(JSON.stringify(value, null, 2));
}

function text(written: string): CopiedFile {
  return { bytes: Buffer.from(`${written}\n`), executable: false };
}

function recordIn(folder: string): Record<string, unknown> | undefined {
  try {
    const file = join(folder, RECORD);
    const stats = lstatSync(file);
    if (!stats.isFile() || stats.size > LARGEST_RECORD) return undefined;
    const record: unknown = JSON.parse(readFileSync(file, "utf8"));
    return isData(record) && isData(record["files"]) ? record["files"] : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || /^(?:ENOENT|ENOTDIR|EACCES)$/.test(codeOf(error))) return undefined;
    throw error;
  }
}

/** Everything in it that is no folder, and folders that are empty. */
function listed(folder: string, below = ""): string[] {
  const entries = readdirSync(join(folder, below), { withFileTypes: true });
  if (entries.length === 0) return [`${below}/`];
  return entries.flatMap((entry) => {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    return entry.isDirectory() ? listed(folder, path) : [path];
  });
}

function digestAt(file: string): string | undefined {
  return lstatSync(file).isFile() ? digestOf(readFileSync(file)) : undefined;
}

function digestOf(bytes: Uint8Array): string {
  return `sha256:${hash("sha256", bytes)}`;
}
