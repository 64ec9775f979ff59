import { existsSync, lstatSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { readRegularText } from "../shared/regular-file.ts";

/** The git work tree that a path is in, and what is checked out there. */
export interface CheckedOut {
  /** The work tree. */
  root: string;
  /** Its repository. */
  repository: string;
  /** The commit of HEAD; empty before the first one. Undefined when it cannot be read. */
  head: string | undefined;
  /** Whether a merge (or one with `--squash`), rebase, cherry-pick or revert is under way: files can come from another commit than HEAD then. */
  isBusy: boolean;
}

/** Reads HEAD of the work tree around a path, without running git. Undefined outside a work tree. */
export function readHead(path: string): CheckedOut | undefined {
  for (let root = path; ; root = dirname(root)) {
    const stats = lstatSync(join(root, ".git"), { throwIfNoEntry: false });
    if (stats) {
      const repository = stats.isDirectory() ? join(root, ".git") : namedIn(join(root, ".git"), root);
      if (repository === undefined) return { root, repository: join(root, ".git"), head: undefined, isBusy: false };
      const isBusy = BUSY.some((name) => existsSync(join(repository, name)));
      return { root, repository, head: commitOf(repository), isBusy };
    }
    if (root === dirname(root)) return undefined;
  }
}

const BUSY = [
  "MERGE_HEAD",
  "SQUASH_MSG",
  "CHERRY_PICK_HEAD",
  "REVERT_HEAD",
  "rebase-merge",
  "rebase-apply",
  "sequencer",
];
const COMMIT = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/;

/** A linked work tree names its repository in a file. */
function namedIn(file: string, root: string): string | undefined {
  const [, named] = /^gitdir: (.+?)\s*$/.exec(textOf(file) ?? "") ?? [];
  return named === undefined ? undefined : resolve(root, named);
}

function commitOf(repository: string): string | undefined {
  const text = textOf(join(repository, "HEAD"))?.trim();
  if (text === undefined || COMMIT.test(text)) return text;
  const [, ref] = /^ref: (refs\/\S+)$/.exec(text) ?? [];
  const common = resolve(repository, textOf(join(repository, "commondir"))?.trim() ?? ".");
  // The reftable format has this placeholder in HEAD.
  if (ref === undefined || ref === "refs/heads/.invalid" || ref.includes("..")) return undefined;
  const loose = textOf(join(common, ref))?.trim() ?? textOf(join(repository, ref))?.trim();
  if (loose !== undefined) return COMMIT.test(loose) ? loose : undefined;
  const packed = textOf(join(common, "packed-refs")) ?? "";
  const line = packed.split("\n").find((one) => one.endsWith(` ${ref}`));
  return line?.split(" ")[0] ?? "";
}

function textOf(file: string): string | undefined {
  try {
    return readRegularText(file);
  } catch {
    return undefined;
  }
}
