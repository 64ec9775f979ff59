import { SkillError } from "../shared/error.ts";
import { grouped } from "../shared/text.ts";
import { findFrame } from "../skill/frame.ts";
import { toSkillMd } from "../skill/render.ts";
import { type Skill, withBody } from "../skill/skill.ts";
import { readBytes, withFile } from "./file.ts";
import { withOwnFile } from "./file-list.ts";
import { notFolder, unlisted } from "./file-skill.ts";

export interface CopiedFile {
  bytes: Uint8Array;
  executable: boolean;
}

/** Everything a skill holds, read once, so that what was looked at is what is used. */
export interface SkillCopy {
  /** `sha256:…` over the skill's own file and every listed one: path, executable bit, bytes. */
  digest: string;
  /** By path; the skill's own file is `SKILL.md`. */
  files: ReadonlyMap<string, CopiedFile>;
}

const LARGEST_SKILL = 64 * 1024 * 1024;

/** Reads a whole skill. Throws a SkillError when a file of it cannot be read. */
export function copySkill(skill: Skill): SkillCopy {
  const listed = skill.files().files;
  const total = listed.reduce((sum, { size }) => sum + size, 0);
  if (total > LARGEST_SKILL) {
    throw new SkillError("skill-too-large", {
      message: `The files of skill "${skill.name}" are ${grouped(total)} bytes, more than ${grouped(LARGEST_SKILL)}`,
      fix: "keep what it does not need out of its folder",
    });
  }
  const { createHash } = process.getBuiltinModule("node:crypto"); // Loading it costs a start, and most need no digest.
  const hash = createHash("sha256");
  const part = (bytes: string | Uint8Array) => {
    hash.update(`${bytes.length}:`);
    hash.update(bytes);
  };
  const own = ownBytes(skill);
  part(own);
  const files = new Map<string, CopiedFile>([["SKILL.md", { bytes: own, executable: false }]]);
  for (const { path, executable } of listed) {
    const bytes = skill.read(path);
    part(path);
    part(executable ? "x" : "-");
    part(bytes);
    files.set(path, { bytes, executable });
  }
  return { digest: `sha256:${hash.digest("hex")}`, files };
}

function ownBytes(skill: Skill): Uint8Array {
  const { file, remote } = skill.origin;
  if (remote) return skill.read("SKILL.md");
  return file === undefined ? Buffer.from(toSkillMd(skill)) : ownFile(skill, file);
}

/** The skill's own file as it is now, if that is still the skill's: it may have become a link to anything, or a pipe. */
function ownFile(skill: Skill, file: string): Uint8Array {
  skill.body(); // Throws when it is no skill any more.
  const read = withOwnFile({ ...skill.origin, file }, (path) =>
    withFile(path, (fd, { size }) => ({ bytes: Buffer.from(readBytes(fd, size)) })),
  );
  if (!read) throw notFolder(skill);
  if ("bytes" in read && (skill.origin.form === "yaml" || isSkillText(read.bytes))) return read.bytes;
  throw new SkillError("resource-changed", {
    message: `Skill "${skill.name}": ${file} ${"finding" in read ? read.finding.message : "is no skill any more"}`,
    fix: "find the skills again: the folder changed since they were found",
  });
}

function isSkillText(bytes: Buffer): boolean {
  const frame = findFrame(bytes.toString("utf8"));
  return "start" in frame && frame.closed;
}

/** The same skill with its files as they were copied: what was judged is what is read, whatever becomes of its folder. */
export function withCopy(skill: Skill, { files }: SkillCopy): Skill {
  const list = skill.files();
  return {
    ...withBody(skill),
    files: () => list,
    read(path) {
      const file = list.files.some((listed) => listed.path === path) ? files.get(path) : undefined;
      if (!file) throw unlisted(skill.name, path, list.files);
      return file.bytes;
    },
  };
}

export function digestOf(skill: Skill): string {
  return copySkill(skill).digest;
}

/**
 * Whether two skills say and hold the same, so that it does not matter which of them is used. `quick` compares what they say, and
 * their files by name, size and mode; `exact` every byte.
 */
export function isCopy(a: Skill, b: Skill, care: "quick" | "exact"): boolean {
  try {
    if (a.description !== b.description || a.body() !== b.body()) return false;
    if (JSON.stringify(a.files().files) !== JSON.stringify(b.files().files)) return false;
    return care === "quick" || digestOf(a) === digestOf(b);
  } catch {
    return false; // A file that cannot be read cannot be compared.
  }
}
