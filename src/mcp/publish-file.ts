import { isUtf8 } from "node:buffer";
import { extname } from "node:path";
import { findHidden, spellHidden } from "../shared/hidden.ts";
import { count } from "../shared/text.ts";
import { isPrivate, type Skill, type SkillFile } from "../skill/skill.ts";
import { listSkillFiles, readSkillFile } from "../source/file-list.ts";
import { FileSkill } from "../source/file-skill.ts";
import { SKILL_FILE } from "./publish-uri.ts";

/** The files beside SKILL.md as they are now: a skill's own list is that of when somebody first asked. */
export function filesNow(skill: Skill): readonly SkillFile[] {
  const { folder, file } = skill.origin;
  const isInFolder = skill instanceof FileSkill && folder !== undefined && file !== undefined;
  const files = isInFolder ? listSkillFiles(skill.origin).files : (attempt(() => skill.files().files) ?? []);
  return files.filter(({ path }) => path !== SKILL_FILE && !isPrivate(path));
}

/** What is published of a listed file. Nothing when it cannot be read, or is full of what cannot be seen. */
export function fileBytes(skill: Skill, path: string): Uint8Array | undefined {
  const bytes = rawBytes(skill, path);
  if (!bytes || !isText(bytes)) return bytes;
  const text = Buffer.from(bytes).toString("utf8");
  if (isFullOfHidden(text)) return undefined;
  const shown = withoutHidden(text, NOTED.has(mimeTypeOf(path) ?? ""));
  return shown === text ? bytes : Buffer.from(shown);
}

/** No text in bytes with a zero: most that has one is a program's. */
export function isText(bytes: Uint8Array): boolean {
  return isUtf8(bytes) && !bytes.includes(0);
}

/** The same text with what cannot be seen written out, and said where a line of ours does no harm. */
export function withoutHidden(written: string, isNoted = true): string {
  const { text, count: hidden } = spellHidden(written);
  if (hidden === 0 || !isNoted) return text;
  return `[${count(hidden, "hidden character")} in this text, written out as \\u{…}]\n${text}`;
}

const MOST_HIDDEN = 100_000;
const WINDOW = 64 * 1024;

// Megabytes of them would take many seconds to write out, and nobody would read that.
function isFullOfHidden(text: string): boolean {
  if (text.length <= MOST_HIDDEN) return false;
  let found = 0;
  for (let start = 0; start < text.length && found <= MOST_HIDDEN; start += WINDOW) {
    found += findHidden(text.slice(start, start + WINDOW)).length;
  }
  return found > MOST_HIDDEN;
}

/** By the file's ending; nothing for one that nobody knows. */
export function mimeTypeOf(path: string): string | undefined {
  return TYPES.get(extname(path).toLowerCase());
}

function rawBytes(skill: Skill, path: string): Uint8Array | undefined {
  if (skill instanceof FileSkill) {
    const result = readSkillFile(skill.origin, path);
    return "bytes" in result ? result.bytes : undefined;
  }
  return attempt(() => skill.read(path));
}

/** What a skill that somebody else wrote gives; nothing when it throws. */
export function attempt<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch {
    return undefined;
  }
}

const NOTED: ReadonlySet<string> = new Set(["text/markdown", "text/plain"]);

const TYPES: ReadonlyMap<string, string> = new Map([
  [".md", "text/markdown"],
  [".markdown", "text/markdown"],
  [".txt", "text/plain"],
  [".json", "application/json"],
  [".yaml", "application/yaml"],
  [".yml", "application/yaml"],
  [".toml", "application/toml"],
  [".py", "text/x-python"],
  [".sh", "application/x-sh"],
  [".bash", "application/x-sh"],
  [".js", "text/javascript"],
  [".mjs", "text/javascript"],
  [".ts", "text/typescript"],
  [".html", "text/html"],
  [".css", "text/css"],
  [".csv", "text/csv"],
  [".xml", "application/xml"],
  [".svg", "image/svg+xml"],
  [".png", "image/png"],
  [".jpg", "image/jpeg"],
  [".jpeg", "image/jpeg"],
  [".gif", "image/gif"],
  [".webp", "image/webp"],
  [".pdf", "application/pdf"],
]);
