import { lstatSync } from "node:fs";
import { byText } from "../../shared/text.ts";
import type { CopiedFile } from "../../source/digest.ts";
import type { LockedFile, LockedFiles } from "./format.ts";
import { isFile, lookInto, sha256, sorted } from "./tree.ts";

/** One file that is not as it was agreed to; `.` is the whole folder. `mode`: the same bytes, but who may do what with them differs. */
export interface Drift {
  path: string;
  what: "added" | "removed" | "changed" | "mode";
}

/** What differs between what was agreed to and what is there. */
export function driftOf(agreed: LockedFiles, there: LockedFiles): Drift[] {
  const paths = new Set([...Object.keys(agreed), ...Object.keys(there)]);
  return [...paths].sort(byText).flatMap((path) => {
    const what = difference(agreed[path], there[path]);
    return what === undefined ? [] : [{ path, what }];
  });
}

/** What is in a folder, and how that differs. */
export interface Looked {
  drift: Drift[];
  files: LockedFiles;
  folders: readonly string[];
}

/** The same for a folder. A link in its place is another one, wherever it leads. Throws when it cannot be read. */
export function driftIn(folder: string, agreed: LockedFiles): Looked {
  if (!lstatSync(folder).isDirectory())
    return { drift: [{ path: ".", what: "changed" }], files: sorted([]), folders: [] };
  const { files, folders } = lookInto(folder);
  return { drift: driftOf(agreed, files), files, folders };
}

/** The same for what was read of a skill in order to be used: what is not part of that is not looked at. */
export function driftOfCopy(agreed: LockedFiles, files: ReadonlyMap<string, CopiedFile>): Drift[] {
  const drift: Drift[] = [];
  for (const [path, { bytes, executable }] of files) {
    const file = agreed[path];
    if (!file) drift.push({ path, what: "added" });
    else if (file.size !== bytes.length || file.sha256 !== sha256(bytes)) drift.push({ path, what: "changed" });
    else if (path !== "SKILL.md" && isExecutable(file) !== executable) drift.push({ path, what: "mode" });
  }
  return drift;
}

function difference(agreed: LockedFile | undefined, there: LockedFile | undefined): Drift["what"] | undefined {
  if (!agreed) return "added";
  if (!there) return "removed";
  if (agreed.sha256 !== there.sha256 || agreed.size !== there.size || isFile(agreed) !== isFile(there)) {
    return "changed";
  }
  return agreed.mode === there.mode ? undefined : "mode";
}

function isExecutable({ mode }: LockedFile): boolean {
  return (Number.parseInt(mode, 8) & 0o111) !== 0;
}
