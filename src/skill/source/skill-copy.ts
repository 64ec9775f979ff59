import { SkillError } from "../../errors/problem.ts";
import { formatNumber } from "../../util/text.ts";
import { findFrontmatter, toSkillMd } from "../frontmatter.ts";
import { type FileList, isEvalFile, type Skill, type SkillFile, withBody } from "../skill.ts";
import {
  createReplacedFolderError,
  createUnlistedFileError,
  readFileBytes,
  readInstructions,
  withOpenFile,
} from "./file-skill.ts";
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
  instructions: string;
  /** True if files that the digest covers are left out. */
  isPartial?: true;
}

const MAX_SKILL_BYTES = 64 * 1024 * 1024;

/** Reads all files of a skill. Throws a SkillError if a file cannot be read. */
export async function copySkill(skill: Skill): Promise<SkillCopy> {
  const listed = (await skill.files()).files;
  requireCopiableSize(skill, listed);
  const instructions = await skill.body(); // Throws if its file is not a skill anymore.
  const own = await readOwnBytes(skill);
  const files: ListedBytes[] = [];
  for (const { path, executable } of listed) files.push({ path, executable, bytes: await skill.read(path) });
  return createSkillCopy(own, files, instructions);
}

/**
 * Reads all files of a skill in a folder or file of this machine, as they are now. It is synchronous, so that nothing changes
 * between the check of a skill and the decision.
 */
export function copySkillFolder(skill: Skill): SkillCopy {
  const { file } = skill.origin;
  if (file === undefined) throw createReplacedFolderError(skill);
  const listed = listSkillFiles(skill.origin).files;
  requireCopiableSize(skill, listed);
  const { text } = readInstructions(skill);
  const own = readOwnFile(skill, file);
  const files = listed.map(({ path, executable }) => ({ path, executable, bytes: readCurrentFile(skill, path) }));
  return createSkillCopy(own, files, text);
}

interface ListedBytes {
  path: string;
  executable: boolean;
  bytes: Uint8Array;
}

function requireCopiableSize(skill: Skill, listed: readonly SkillFile[]): void {
  const total = listed.reduce((sum, { size }) => sum + size, 0);
  if (total > MAX_SKILL_BYTES) {
    throw new SkillError("skill-too-large", {
      message: `The files of skill "${skill.name}" are ${formatNumber(total)} bytes, more than ${formatNumber(MAX_SKILL_BYTES)}`,
      fix: "remove files that it does not need from its folder",
    });
  }
}

function createSkillCopy(own: Uint8Array, listed: readonly ListedBytes[], instructions: string): SkillCopy {
  const { createHash } = process.getBuiltinModule("node:crypto"); // Loaded lazily: most starts need no digest.
  const hash = createHash("sha256");
  const part = (bytes: string | Uint8Array) => {
    hash.update(`${bytes.length}:`);
    hash.update(bytes);
  };
  part(own);
  const files = new Map<string, CopiedFile>([["SKILL.md", { bytes: own, executable: false }]]);
  for (const { path, executable, bytes } of listed) {
    part(path);
    part(executable ? "x" : "-");
    part(bytes);
    files.set(path, { bytes, executable });
  }
  return { digest: `sha256:${hash.digest("hex")}`, files, instructions };
}

/** Lists the files of a copy, without the skill's own. */
export function listCopiedFiles({ files }: SkillCopy): { path: string; executable: boolean }[] {
  return [...files].flatMap(([path, { executable }]) => (path === "SKILL.md" ? [] : { path, executable }));
}

async function readOwnBytes(skill: Skill): Promise<Uint8Array> {
  const { file, remote } = skill.origin;
  if (remote) return await skill.read("SKILL.md");
  return file === undefined ? Buffer.from(await toSkillMd(skill)) : readOwnFile(skill, file);
}

/** Reads the skill's own file, if it is still a skill: it may have become a symlink to any file, or a pipe. */
function readOwnFile(skill: Skill, file: string): Uint8Array {
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
export async function withCopy(skill: Skill, { files, instructions }: SkillCopy): Promise<Skill> {
  const list = await skill.files();
  return {
    ...withBody(skill, instructions),
    files: async () => list,
    async read(path) {
      const file = list.files.some((listed) => listed.path === path) ? files.get(path) : undefined;
      if (!file) throw createUnlistedFileError(skill.name, path, list.files);
      return file.bytes;
    },
  };
}

/** Returns the skill with its copied files as a run sees them: without its evaluations. */
export async function withRunCopy(skill: Skill, copy: SkillCopy): Promise<{ skill: Skill; copy: SkillCopy }> {
  const copied = await withCopy(skill, copy);
  const isShown = (path: string) => !isEvalFile(path);
  const list = await copied.files();
  if (list.files.every(({ path }) => isShown(path))) return { skill: copied, copy };
  const shown = { ...list, files: list.files.filter(({ path }) => isShown(path)) };
  return {
    skill: {
      ...copied,
      files: async () => shown,
      async read(path) {
        if (isShown(path)) return copied.read(path);
        throw createUnlistedFileError(skill.name, path, shown.files);
      },
    },
    copy: { ...copy, files: new Map([...copy.files].filter(([path]) => isShown(path))), isPartial: true },
  };
}

export async function computeSkillDigest(skill: Skill): Promise<string> {
  return (await copySkill(skill)).digest;
}

/**
 * Returns true if two skills have the same content, so that either can be used. `quick` compares their metadata, and their files
 * by name, size and mode; `exact` compares every byte.
 */
export async function isSameSkill(a: Skill, b: Skill, precision: "quick" | "exact"): Promise<boolean> {
  try {
    if (a.description !== b.description || (await a.body()) !== (await b.body())) return false;
    if (JSON.stringify((await a.files()).files) !== JSON.stringify((await b.files()).files)) return false;
    return precision === "quick" || (await computeSkillDigest(a)) === (await computeSkillDigest(b));
  } catch {
    return false; // A file that cannot be read cannot be compared.
  }
}

/** Returns the skill with the current files of its folder. */
export async function withCurrentFiles(skill: Skill): Promise<Skill> {
  const { folder } = skill.origin;
  if (folder === undefined) return skill;
  const list = await listCurrentFiles(skill);
  return {
    ...withBody(skill, await skill.body()),
    files: async () => list,
    read: async (path) => readCurrentFile(skill, path),
  };
}

function readCurrentFile({ name, origin }: Skill, path: string): Uint8Array {
  const result = readSkillFile(origin, path);
  if ("bytes" in result) return result.bytes;
  throw new SkillError(`resource-${result.code}`, { message: `Skill "${name}": ${result.message}` });
}

/** Returns the current files of the folder: a skill's own list is from its first call. */
export async function listCurrentFiles(skill: Skill): Promise<FileList> {
  const { folder, file } = skill.origin;
  return folder === undefined || file === undefined ? await skill.files() : listSkillFiles(skill.origin);
}
