import type { Code } from "../codes/findings.ts";
import { oneLine } from "../shared/text.ts";
import type { Data } from "./data.ts";
import { areFatal, type Finding, type Profile, severityOf } from "./diagnostic.ts";
import type { Document } from "./document.ts";
import type { Form } from "./frame.ts";
import { isKnownKey, type Report, readValues } from "./manifest.ts";
import { isWindowsDevice, STANDARD_NAME, unusableName } from "./name.ts";
import { judgeTriggers } from "./triggers.ts";

export interface Place {
  form: Form;
  /** The folder's name, or the file's without its ending. */
  stem: string;
  profile: Profile;
}

export interface SkillText {
  name: string;
  description: string;
  data: Data;
  findings: Finding[];
  /** False when a finding is an error in the profile: the text is then no skill. */
  isUsable: boolean;
}

/** Judges a document as a skill. Only what the profile cares for is reported. */
export function readSkill(document: Document, place: Place): SkillText {
  const { data } = document;
  const findings = document.findings.filter((finding) => severityOf(finding.code, place.profile));
  let last = "";
  const report: Report = (code, key, message, meant) => {
    // One finding says it for a list of ten thousand.
    if (!severityOf(code, place.profile) || last === `${code} ${key}`) return;
    last = `${code} ${key}`;
    const rename = isKnownKey(key) ? "" : ` \`--fix --rename ${oneLine(key, 64)}\` renames it`;
    const hint = meant ? { meant, fix: `did you mean "${meant}"?${rename}` } : {};
    findings.push({ code, message, key: oneLine(key, 64), ...document.locate(key), ...hint });
  };
  if (areFatal(findings, place.profile) && isEmpty(data)) {
    return { name: place.stem, description: "", data, findings, isUsable: false };
  }
  const values = readValues(data, report);
  if (values.triggers || values.paths) judgeTriggers(data, values.triggers, values.paths ?? [], report);
  const name = readName(data["name"], place, report);
  const description = values.description ?? "";
  if (description === "") report("description-missing", "description", "has no description");
  if (!/\S/.test(document.body)) {
    report(
      "body-missing",
      "instructions",
      place.form === "yaml" ? 'has no text under "instructions"' : "has no instructions",
    );
  }
  if (severityOf("version-missing", place.profile)) {
    if (inMetadata(data, "version") === undefined) report("version-missing", "metadata", "has no metadata.version");
    if (!Array.isArray(inMetadata(data, "tags"))) report("tags-missing", "metadata", "has no list metadata.tags");
  }
  return { name, description, data, findings, isUsable: !areFatal(findings, place.profile) };
}

function readName(value: unknown, place: Place, report: Report): string {
  const written = writtenName(value, report);
  const problem = written === undefined ? undefined : unusableName(written);
  if (written !== undefined && !problem) {
    judgeName(written, place, report);
    return written;
  }
  if (problem) {
    const shown = oneLine(written ?? "", 64);
    report(
      problem.code,
      "name",
      `the name "${shown}" ${problem.why}; "${oneLine(place.stem, 64)}" serves in its place`,
    );
  }
  const fallback = unusableName(place.stem);
  if (fallback) report("name-none", "name", `"${oneLine(place.stem, 64)}" ${fallback.why} and cannot serve as a name`);
  else judgeName(place.stem, place, report);
  return place.stem;
}

function writtenName(value: unknown, report: Report): string | undefined {
  if (typeof value === "string") return value.trim();
  const type = value === null ? "null" : Array.isArray(value) ? "a list" : typeof value;
  if (value === undefined) report("name-missing", "name", "has no name");
  else if (typeof value === "number") {
    report("name-type", "name", "the name is a number: quote it");
    return String(value);
  } else report("name-type", "name", `the name is ${type}, not text`);
  return undefined;
}

function judgeName(name: string, place: Place, report: Report): void {
  const say = (code: Code, message: string) => report(code, "name", message);
  if (!STANDARD_NAME.test(name)) say("name-format", `"${name}" is not lower-case letters, digits and single hyphens`);
  if (isWindowsDevice(name)) say("name-device", `"${name}" is a device name on Windows`);
  if (/claude|anthropic/i.test(name)) say("name-vendor", `"${name}" holds a vendor's name`);
  if (name !== place.stem && place.form === "folder") {
    say("name-differs", `the name is "${name}" and the folder "${oneLine(place.stem, 64)}"`);
  }
}

function inMetadata(data: Data, key: string): unknown {
  const { metadata } = data;
  return metadata !== null && typeof metadata === "object" ? (metadata as Data)[key] : undefined;
}

function isEmpty(data: Data): boolean {
  for (const _ in data) return false;
  return true;
}
