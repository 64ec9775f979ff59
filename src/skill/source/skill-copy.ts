import { SkillError } from "../../errors/problem.ts";
import { formatNumber } from "../../util/text.ts";
import { findFrontmatter } from "../frontmatter.ts";
import { toSkillMd } from "../frontmatter-yaml.ts";
import { type FileList, type Skill, withBody } from "../skill.ts";
import { createReplacedFolderError, createUnlistedFileError } from "./file-skill.ts";
import { readFileBytes, withOpenFile } from "./read-file.ts";
import { listSkillFiles, readSkillFile, withOwnFile } from "./skill-files.ts";

export interface CopiedFile {
  bytes: Uint8Array;
  executable: boolean;
}

/** All files of a skill, read once, so that the reviewed files are the used ones. */
export interface SkillCopy {
  /** `sha256:…` over the skill's own file and every listed one: path, executable bit, bytes. */
  digest: string;
  /** By path; the skill's own file is `SKILL.md`. */
  files: ReadonlyMap<string, CopiedFile>;
}

const MAX_SKILL_BYTES = 64 * 1024 * 1024;

/** Reads all files of a skill. Throws a SkillError if a file cannot be read. */
export function copySkill(skill: Skill): SkillCopy {
  const listed = skill.files().files;
  const total = listed.reduce((sum, { size }) => sum + size, 0);
  if (total > MAX_SKILL_BYTES) {
    throw new SkillError("skill-too-large", {
      message: `The files of skill "${skill.name}" are ${formatNumber(total)} bytes, more than ${formatNumber(MAX_SKILL_BYTES)}`,
      fix: "remove files that it does not need from its folder",
    });
  }
  const { createHash } = process.getBuiltinModule("node:crypto"); // Loaded lazily: most starts need no digest.
  const hash = createHash("sha256");
  const part = (bytes: string | Uint8Array) => {
    hash.update(`${bytes.length}:`);
    hash.update(bytes);
  };
  const own = readOwnBytes(skill);
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

function readOwnBytes(skill: Skill): Uint8Array {
  const { file, remote } = skill.origin;
  if (remote) return skill.read("SKILL.md");
  return file === undefined ? Buffer.from(toSkillMd(skill)) : readOwnFile(skill, file);
}

/** Reads the skill's own file, if it is still a skill: it may have become a symlink to any file, or a pipe. */
function readOwnFile(skill: Skill, file: string): Uint8Array {
  skill.body(); // Throws if it is not a skill anymore.
  const read = withOwnFile({ ...skill.origin, file }, (path) =>
    withOpenFile(path, (fd, { size }) => ({ bytes: Buffer.from(readFileBytes(fd, size)) })),
  );
  if (!read) throw createReplacedFolderError(skill);
  if ("bytes" in read && (skill.origin.form === "yaml" || isSkillText(read.bytes))) return read.bytes;
  throw new SkillError("resource-changed", {
    message: `Skill "${skill.name}": ${file} ${"finding" in read ? read.finding.message : "is not a skill anymore"}`,
    fix: "reload the skills: the folder changed after discovery",
  });
}

function isSkillText(bytes: Buffer): boolean {
  const frame = findFrontmatter(bytes.toString("utf8"));
  return "start" in frame && frame.closed;
}

/** Returns the skill with its copied files, so that later changes of its folder have no effect. */
export function withCopy(skill: Skill, { files }: SkillCopy): Skill {
  const list = skill.files();
  return {
    ...withBody(skill),
    files: () => list,
    read(path) {
      const file = list.files.some((listed) => listed.path === path) ? files.get(path) : undefined;
      if (!file) throw createUnlistedFileError(skill.name, path, list.files);
      return file.bytes;
    },
  };
}

export function computeSkillDigest(skill: Skill): string {
  return copySkill(skill).digest;
}

/**
 * Returns true if two skills have the same content, so that either can be used. `quick` compares their metadata, and their files
 * by name, size and mode; `exact` compares every byte.
 */
export function isSameSkill(a: Skill, b: Skill, precision: "quick" | "exact"): boolean {
  try {
    if (a.description !== b.description || a.body() !== b.body()) return false;
    if (JSON.stringify(a.files().files) !== JSON.stringify(b.files().files)) return false;
    return precision === "quick" || computeSkillDigest(a) === computeSkillDigest(b);
  } catch {
    return false; // A file that cannot be read cannot be compared.
  }
}

/** Returns the skill with the current files of its folder. */
export function withCurrentFiles(skill: Skill): Skill {
  const { folder } = skill.origin;
  if (folder === undefined) return skill;
  const list = listCurrentFiles(skill);
  return {
    ...withBody(skill),
    files: () => list,
    read(path) {
      const result = readSkillFile(skill.origin, path);
      if ("bytes" in result) return result.bytes;
      throw new SkillError(`resource-${result.code}`, { message: `Skill "${skill.name}": ${result.message}` });
    },
  };
}

/** Returns the current files of the folder: a skill's own list is from its first call. */
export function listCurrentFiles(skill: Skill): FileList {
  const { folder, file } = skill.origin;
  return folder === undefined || file === undefined ? skill.files() : listSkillFiles(skill.origin);
}
