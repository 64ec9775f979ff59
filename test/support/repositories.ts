import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { temporaryFolder, writeFiles } from "./folder.ts";

/** A git repository of a test. */
export interface Repository {
  /** Its work tree. */
  folder: string;
  /** `file://…` */
  url: string;
  /** Runs git in it, and returns the output. */
  git(...args: string[]): string;
  /** Adds files, commits them, and returns the commit's id. */
  commit(files?: Record<string, string | Uint8Array>, message?: string): string;
}

const IDENTITY = {
  GIT_AUTHOR_NAME: "A",
  GIT_AUTHOR_EMAIL: "a@example.com",
  GIT_COMMITTER_NAME: "A",
  GIT_COMMITTER_EMAIL: "a@example.com",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
};

/** A repository with these files in its one commit; gone when the test is over. Without files it has no commit. */
export function makeRepository(
  files: Record<string, string | Uint8Array> = {},
  folder = temporaryFolder(),
): Repository {
  mkdirSync(folder, { recursive: true });
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "core.fsync=none", ...args], {
      cwd: folder,
      encoding: "utf8",
      env: { PATH: process.env["PATH"], ...IDENTITY },
      stdio: ["ignore", "pipe", "pipe"],
    }).trim();
  const repository: Repository = {
    folder,
    url: pathToFileURL(folder).href,
    git,
    commit(more = {}, message = "change") {
      writeFiles(folder, more);
      git("add", "--all");
      git("commit", "--quiet", "--allow-empty", "--message", message);
      return git("rev-parse", "HEAD");
    },
  };
  git("init", "--quiet", "--initial-branch=main");
  if (Object.keys(files).length > 0) repository.commit(files, "first");
  return repository;
}

/** Adds another repository's commit at a path of this one as a submodule, with any URL. */
export function addSubmodule({ git, folder }: Repository, path: string, url: string): void {
  const id = git("rev-parse", "HEAD");
  writeFileSync(join(folder, ".gitmodules"), `[submodule "x"]\n\tpath = ${path}\n\turl = ${url}\n`);
  git("add", ".gitmodules");
  git("update-index", "--add", "--cacheinfo", `160000,${id},${path}`);
  git("commit", "--quiet", "--message", "submodule");
}

export function addLink({ git, folder }: Repository, path: string, target: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  symlinkSync(target, join(folder, path));
  git("add", "--all");
  git("commit", "--quiet", "--message", "link");
}

/** A script that leaves a file behind when it runs. */
export function createCanary(file: string, canaryFile: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `#!/bin/sh\ntouch '${canaryFile}'\n`);
  chmodSync(file, 0o755);
}
