import { isUtf8 } from "node:buffer";
import { remoteAttributes } from "../catalog/content.ts";
import { inLine, inTag } from "../shared/prompt.ts";
import { count, grouped } from "../shared/text.ts";
import { scriptsOf } from "../skill/script.ts";
import { isPrivate, type Skill } from "../skill/skill.ts";
import type { ToolResult } from "../skill/tool.ts";

/** How many characters of a file a model gets at once. */
const PORTION = 48_000;

/** A file of a skill for a model. Throws a SkillError for anything that the skill does not list. */
export function resourceText(skill: Skill, path: string, offset: number): ToolResult {
  if (scriptsOf(skill).some((script) => script.path === path)) {
    const content = `"${inLine(path)}" of skill '${inLine(skill.name, 64)}' is a script: run_skill_script runs it; its text is not for reading.`;
    return { content, isError: true, code: "resource-script" };
  }
  const bytes = skill.read(path);
  if (isPrivate(path)) {
    const content = `"${inLine(path)}" of skill '${inLine(skill.name, 64)}' is not for models: its name begins with a dot.`;
    return { content, isError: true, code: "resource-private" };
  }
  if (!isUtf8(bytes) || bytes.includes(0)) {
    const content = `"${inLine(path)}" of skill '${inLine(skill.name, 64)}' is ${kindOf(bytes)} of ${count(bytes.length, "byte")}, not text.`;
    return { content, isError: true, code: "resource-binary" };
  }
  const text = Buffer.from(bytes).toString("utf8");
  const portion = text.slice(offset, offset + PORTION).replace(/[\ud800-\udbff]$/, "");
  const end = offset + portion.length;
  const more =
    end < text.length ? `\n[${count(end, "character")} of ${grouped(text.length)}; offset ${end} goes on]` : "";
  return {
    content: `${inTag("skill_resource", { skill: skill.name, path, ...remoteAttributes(skill) }, portion)}${more}`,
    isError: false,
  };
}

/** What files of a kind begin with. */
const KINDS: readonly (readonly [kind: string, start: readonly number[], at?: number])[] = [
  ["a PNG image", [0x89, 0x50, 0x4e, 0x47]],
  ["a JPEG image", [0xff, 0xd8, 0xff]],
  ["a GIF image", [0x47, 0x49, 0x46, 0x38]],
  ["a WebP image", [0x57, 0x45, 0x42, 0x50], 8],
  ["a PDF document", [0x25, 0x50, 0x44, 0x46]],
  ["a ZIP archive (also .docx, .xlsx, .pptx, .jar)", [0x50, 0x4b, 0x03, 0x04]],
  ["a gzip archive", [0x1f, 0x8b]],
  ["an xz archive", [0xfd, 0x37, 0x7a, 0x58, 0x5a]],
  ["a zstd archive", [0x28, 0xb5, 0x2f, 0xfd]],
  ["a 7z archive", [0x37, 0x7a, 0xbc, 0xaf]],
  ["a tar archive", [0x75, 0x73, 0x74, 0x61, 0x72], 257],
  ["an ELF program", [0x7f, 0x45, 0x4c, 0x46]],
  ["a Windows program", [0x4d, 0x5a]],
  ["a Mach-O program", [0xcf, 0xfa, 0xed, 0xfe]],
  ["WebAssembly", [0x00, 0x61, 0x73, 0x6d]],
  ["a SQLite database", [0x53, 0x51, 0x4c, 0x69, 0x74, 0x65]],
  ["an Ogg recording", [0x4f, 0x67, 0x67, 0x53]],
  ["an MP3 recording", [0x49, 0x44, 0x33]],
  ["a RIFF file (WAV or AVI)", [0x52, 0x49, 0x46, 0x46]],
  ["an MP4 video", [0x66, 0x74, 0x79, 0x70], 4],
  ["a font", [0x77, 0x4f, 0x46]],
  ["a TrueType font", [0x00, 0x01, 0x00, 0x00]],
  ["UTF-16 text", [0xff, 0xfe]],
  ["UTF-16 text", [0xfe, 0xff]],
];

/** What bytes that are no text seem to be. */
export function kindOf(bytes: Uint8Array): string {
  const kind = KINDS.find(([, start, at = 0]) => start.every((byte, index) => bytes[at + index] === byte));
  return kind?.[0] ?? "binary data";
}
