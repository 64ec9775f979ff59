import { fstatSync, lstatSync, realpathSync, type Stats } from "node:fs";
import { CODES } from "../codes/findings.ts";
import type { Data } from "../skill/data.ts";
import { areFatal, type Finding, type Profile } from "../skill/diagnostic.ts";
import { type Document, parseFrame, parseMarkdown, parseYaml } from "../skill/document.ts";
import { findFrame, trimBody } from "../skill/frame.ts";
import { readSkill } from "../skill/read.ts";
import { encodingFinding, HEAD, readBytes, type Stamp, withFile } from "./file.ts";
import { replacedFileFinding, sharedFileFinding } from "./file-list.ts";
import type { IndexedFile } from "./scan-index.ts";
import type { Candidate } from "./walk.ts";

/** What a file turned out to be. */
export interface Reading extends IndexedFile {
  stamp?: Stamp;
}

/** Reads and judges a file. Nothing when it is not there. */
export function readCandidate(candidate: Candidate, profile: Profile): Reading | undefined {
  const { form, stem, needs } = candidate;
  const file = readHead(candidate, form === "yaml");
  if ("finding" in file) {
    if (file.finding.code === "not-found") return undefined;
    return { findings: needs.length > 0 ? [] : [...candidate.findings, file.finding] };
  }
  const { stamp } = file;
  const judged = readSkill(file.document, { form, stem, profile });
  const { name, description, data } = judged;
  if (isNoSkill(candidate, data)) return { findings: [], stamp };
  const isUsable = judged.isUsable && !areFatal(candidate.findings, profile);
  const findings = candidate.findings.length === 0 ? judged.findings : [...candidate.findings, ...judged.findings];
  delete data["instructions"];
  if (!isUsable && isElsewhere(candidate, stamp)) return { findings: withoutQuotes(findings), stamp };
  if (isUsable) return { skill: { name, description, data: JSON.stringify(data) }, findings, stamp };
  // A copy of the same name may be used in its place: the name says of which skill this is the nearer one.
  return { findings: name === stem ? findings : findings.map((finding) => ({ ...finding, name })), stamp };
}

/** Whether a file is something else than a skill, so that nothing is reported. */
export function isNoSkill({ form, needs, isNamed }: Candidate, data: Data): boolean {
  if (isNamed) return false;
  if (needs.some((key) => !(key in data))) return true;
  const keys = form === "yaml" ? Object.keys(data) : [];
  return keys.length > 0 && !keys.some((key) => OF_A_SKILL.has(key));
}

/** A YAML file with none of these configures something else. */
const OF_A_SKILL = new Set(["name", "description", "instructions"]);

/** Whether a link leads from where the file was found to somewhere else. */
export function isElsewhere({ file, path }: Candidate, { ino }: Stamp): boolean {
  try {
    // What was read may have been a link that is none any more.
    if (lstatSync(file).ino !== ino) return true;
    return realpathSync.native(file) !== `${realpathSync.native(file.slice(0, -path.length))}/${path}`;
  } catch {
    return true;
  }
}

/** What a link leads to may be no skill but somebody's secrets: only what kind of thing is wrong is said of it. */
export function withoutQuotes(findings: readonly Finding[]): Finding[] {
  return findings.map(({ code, line, column }) => ({
    code,
    message: CODES[code].means,
    ...(line === undefined || column === undefined ? {} : { line, column }),
  }));
}

/** The instructions in the text of a YAML skill file. */
export function yamlBody(text: string): string {
  return trimBody(parseYaml(text).body);
}

/**
 * Reads as much of a skill file as discovery needs: the frontmatter, and enough to know whether anything follows it.
 * Contract: the document's body is then the beginning of the instructions.
 */
function readHead(candidate: Candidate, isYaml: boolean): { document: Document; stamp: Stamp } | { finding: Finding } {
  return withFile(candidate.file, (fd, stamp) => {
    const finding = candidate.refusesShared ? unreadFinding(candidate, fstatSync(fd)) : undefined;
    if (finding) return { finding };
    if (isYaml) return parseBytes(readBytes(fd, stamp.size), stamp, parseYaml);
    const head = readBytes(fd, Math.min(HEAD, stamp.size));
    const closing = head.indexOf(CLOSING, 3);
    const frame = findFrame(
      head.toString("utf8", 0, closing === -1 ? head.length : Math.min(head.length, closing + ENOUGH_BODY)),
    );
    if (head.length < stamp.size && !isEnough(frame))
      return parseBytes(readBytes(fd, stamp.size), stamp, parseMarkdown);
    if (!isEnough(frame) || frame.text.includes("\ufffd")) return parseBytes(head, stamp, parseMarkdown);
    return { document: parseFrame(frame), stamp };
  });
}

function unreadFinding({ file, folder }: Candidate, stats: Stats): Finding | undefined {
  return sharedFileFinding(file, folder, stats) ?? replacedFileFinding(file, stats);
}

const ENOUGH_BODY = 64;
const CLOSING = Buffer.from("\n---");

function isEnough(frame: ReturnType<typeof findFrame>): frame is Extract<typeof frame, { start: number }> {
  return "start" in frame && frame.closed && /\S/.test(frame.text.slice(frame.bodyStart));
}

function parseBytes(bytes: Buffer, stamp: Stamp, parse: (text: string) => Document): ReturnType<typeof readHead> {
  const finding = encodingFinding(bytes);
  return finding ? { finding } : { document: parse(bytes.toString("utf8")), stamp };
}
