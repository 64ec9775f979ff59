/** Details of skills: files, scripts, findings, digests. */
export { FINDING_CODES, type FindingCode } from "../errors/finding-codes.ts";
export type { JsonObject } from "../util/objects.ts";
export { createLazySkill, type SkillReader } from "./define-skill.ts";
export type { ParsedSkillMd } from "./document.ts";
export type { SkillForm } from "./frontmatter.ts";
export type { DeclaredScript, Triggers } from "./manifest-fields.ts";
export type { Finding, Position } from "./skill.ts";
export { type FileList, SCOPES } from "./skill.ts";
export { findScript, getSandboxPath, listSkillScripts, type SkillScript } from "./skill-code.ts";
export type { CheckedFile, CheckSkillsOptions } from "./source/check-skills.ts";
export type { Environment } from "./source/locations.ts";
export { type CopiedFile, computeSkillDigest, copySkill, type SkillCopy } from "./source/skill-copy.ts";
export type { Watcher } from "./source/watch-folders.ts";
