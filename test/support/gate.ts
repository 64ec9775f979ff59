import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { SkillError } from "../../src/errors/problem.ts";
import { type ExtractOptions, type ExtractResult, extractEntries, readArchive } from "../../src/remote/extract.ts";
import type { SourceEntry } from "../../src/remote/remote-source.ts";
import { type TarEntry, tarOf, type ZipEntry, type ZipWhole, zipOf } from "./archives.ts";
import { skillText, temporaryFolder } from "./folder.ts";

/** A refused archive, and the code of the refusal. */
export type Row = readonly [title: string, code: string, archive: () => Buffer];

export const HELLO = { name: "SKILL.md", data: "hello" };

export function zip(title: string, code: string, entries: readonly ZipEntry[], whole?: ZipWhole): Row {
  return [`zip: ${title}`, code, () => zipOf(entries, whole)];
}

export function tar(title: string, code: string, entries: readonly TarEntry[], end?: Buffer): Row {
  return [`tar: ${title}`, code, () => gzipSync(tarOf(entries, end))];
}

/** A folder with every kind of entry that archive programs support. */
export const TREE = {
  "SKILL.md": skillText("x"),
  "scripts/run.sh": "#!/bin/sh\n",
  "data.bin": Buffer.from(Array.from({ length: 70_000 }, (_, index) => (index * index) >> 3)),
  "empty.txt": "",
  "Übung/読み.md": "x",
  ".hidden": "x",
};

/** Packs a folder with git, and leaves no repository in it. */
export function gitArchive(folder: string, format: "zip" | "tar.gz"): Buffer {
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=x", "-c", "user.email=x", ...args], {
      cwd: folder,
      env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" },
    });
  git("init", "-q");
  git("add", "-A");
  git("commit", "-q", "-m", "x");
  const archive = git("archive", `--format=${format}`, "HEAD");
  rmSync(`${folder}/.git`, { recursive: true });
  return archive;
}

/** Defines one test for each archive. */
export function refuses(rows: readonly Row[]): void {
  test.for(rows)("[Q-12] %s is refused (%s)", async ([, code, archive]) => {
    const bytes = archive();
    const outcome = await unpackThroughGate(() => readArchive(bytes, "a.skill"));
    expect(outcome).toBeInstanceOf(SkillError);
    const { code: said, message, fix } = outcome as SkillError;
    expect([said, message]).toEqual([code, expect.stringMatching(/^[ -~…ßéÿ\u0301¹\ufffd]*$/)]);
    expect(message.length).toBeLessThan(1200);
    expect(fix).toMatch(/^nothing of the source was added/);
  });
}

export interface Passed extends ExtractResult {
  to: string;
}

/** Unpacks into a folder that has siblings, and returns the written files or the error. Throws if a sibling changed. */
export async function unpackThroughGate(
  entries: () => Iterable<SourceEntry> | AsyncIterable<SourceEntry>,
  options: Omit<ExtractOptions, "to"> = {},
): Promise<Passed | SkillError> {
  const root = temporaryFolder({ "canary/file": "as it was", "x/file": "as it was" });
  const to = join(root, "to");
  mkdirSync(to, 0o700);
  const before = besides(root);
  const outcome = await attempt(entries, { to, ...options });
  if (besides(root) !== before) throw new Error("something was written next to the folder");
  return outcome;
}

async function attempt(
  entries: () => Iterable<SourceEntry> | AsyncIterable<SourceEntry>,
  options: ExtractOptions,
): Promise<Passed | SkillError> {
  try {
    return { ...(await extractEntries(entries(), options)), to: options.to };
  } catch (error) {
    if (error instanceof SkillError) return error;
    throw error;
  }
}

/** Returns the files below a folder, by path, and whether they are executable. */
export function filesBelow(folder: string): Record<string, string> {
  const found: Record<string, string> = Object.create(null); // A file may be called `__proto__`.
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    const file = join(entry.parentPath, entry.name);
    const path = file.slice(folder.length + 1);
    if (entry.isDirectory()) found[`${path}/`] = "";
    else if (!entry.isFile()) found[path] = "no file";
    else found[path] = `${(statSync(file).mode & 0o7777).toString(8)} ${readFileSync(file, "latin1")}`;
  }
  return found;
}

function besides(root: string): string {
  const beside = readdirSync(root)
    .sort()
    .filter((name) => name !== "to");
  return JSON.stringify(beside.map((name) => [name, filesBelow(join(root, name))]));
}
