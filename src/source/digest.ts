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
