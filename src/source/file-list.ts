import { closeSync, type Dirent, lstatSync, readdirSync, type Stats } from "node:fs";
import { join } from "node:path";
import { openInside } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import type { Finding } from "../skill/diagnostic.ts";
import type { FileList, SkillFile } from "../skill/skill.ts";
import { openFinding } from "./file.ts";

const MOST_FILES = 2000;
const DEEPEST = 16;
export const SKIPPED_FOLDERS: ReadonlySet<string> = new Set([".git", ".hg", ".svn", "node_modules"]);

/** Lists the files of a skill's folder, without SKILL.md. What is not served is not listed, and says why. */
export function listFiles(folder: string, skillFile: string): FileList {
  const files: SkillFile[] = [];
  const findings: Finding[] = [];
  const say = (code: Finding["code"], message: string) => findings.push({ code, message });
  const visit = (below: string, depth: number): boolean => {
    for (const entry of entriesOf(join(folder, below), findings)) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (path === skillFile) continue;
      if (files.length >= MOST_FILES) {
        say("too-many-files", `holds more than ${MOST_FILES} files; the rest is not listed`);
        return false;
      }
      if (entry.isDirectory()) {
        if (SKIPPED_FOLDERS.has(entry.name)) continue;
        if (depth >= DEEPEST) say("too-deep", `"${path}" is nested deeper than ${DEEPEST} folders`);
        else if (!visit(path, depth + 1)) return false;
      } else addFile(path, entry);
    }
    return true;
  };
  const addFile = (path: string, entry: Dirent) => {
    const stats = entry.isFile() ? lstatSync(join(folder, path), { throwIfNoEntry: false }) : linkedFile(path, entry);
    if (!stats) return;
    if (stats.mode & 0o6000) say("file-mode", `"${path}" has its set-id bit set`);
    files.push({ path, size: stats.size, executable: (stats.mode & 0o111) !== 0 });
  };
  const linkedFile = (path: string, entry: Dirent): Stats | undefined => {
    const opened = entry.isSymbolicLink() ? openInside(folder, path) : undefined;
    if (opened && "fd" in opened) {
      closeSync(opened.fd);
      return opened.stats;
    }
    if (opened?.code === "outside") say("link-outside", `"${path}" is a link that leaves the skill's folder`);
    else if (opened?.code === "not-a-file")
      say("file-skipped", `"${path}" is a link to something that is no regular file`);
    else say("file-skipped", opened ? opened.message : `"${path}" is not a regular file`);
    return undefined;
  };
  visit("", 1);
  return { files, findings };
}

function entriesOf(folder: string, findings: Finding[]): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).sort((a, b) => byText(a.name, b.name));
  } catch (error) {
    findings.push({ ...openFinding(error), code: "file-skipped" });
    return [];
  }
}
