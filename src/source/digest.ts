import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { toSkillMd } from "../skill/render.ts";
import type { Skill } from "../skill/skill.ts";

/** `sha256:…` over a skill's own file and every listed one: path, executable bit, bytes. */
export function digestOf(skill: Skill): string {
  const hash = createHash("sha256");
  const part = (bytes: string | Uint8Array) => {
    hash.update(`${bytes.length}:`);
    hash.update(bytes);
  };
  part(skill.origin.file === undefined ? toSkillMd(skill) : readFileSync(skill.origin.file));
  for (const file of skill.files().files) {
    part(file.path);
    part(file.executable ? "x" : "-");
    part(skill.read(file.path));
  }
  return `sha256:${hash.digest("hex")}`;
}

/** Whether two skills say and hold the same, so that it does not matter which of them is used. */
export function isCopy(a: Skill, b: Skill): boolean {
  try {
    return a.description === b.description && isSameList(a, b) && digestOf(a) === digestOf(b);
  } catch {
    return false; // A file that cannot be read cannot be compared.
  }
}

/** Cheap to tell, so told before anything is hashed. */
function isSameList(a: Skill, b: Skill): boolean {
  return JSON.stringify(a.files().files) === JSON.stringify(b.files().files);
}
