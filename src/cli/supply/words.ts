import { type Drift, driftOf } from "../../host/lock/drift.ts";
import { isCode } from "../../host/trust.ts";
import { type ScanFinding, WEIGHTS } from "../../scan/finding.ts";
import type { SkillError } from "../../shared/error.ts";
import { count } from "../../shared/text.ts";
import type { Coming } from "../../supply/add-skills.ts";
import type { Conflict } from "../../supply/merge.ts";
import { lockedFilesOf } from "../../supply/read-tree.ts";
import type { Printer } from "../io.ts";
import { sayNotice } from "../say.ts";
import { printDiff, printHanging } from "../wrap.ts";

/** Some names, and how many more there are. */
export function someOf(names: readonly string[], most = 20): string {
  const more = names.length - most;
  return more > 0 ? `${names.slice(0, most).join(", ")} and ${more} more` : names.join(", ");
}

export function sayWeights(findings: readonly ScanFinding[]): string {
  const counts = WEIGHTS.map((weight) => [findings.filter((one) => one.weight === weight).length, weight] as const);
  return counts.flatMap(([number, weight]) => (number > 0 ? `${number} ${weight}` : [])).join(", ");
}

export function listFindings(out: Printer, findings: readonly ScanFinding[], most: number): void {
  for (const { weight, file, line, message, rule } of findings.slice(0, most)) {
    const mark = weight === "high" ? out.red("✗") : weight === "medium" ? out.yellow("!") : out.dim("·");
    const place = `${file}${line === undefined ? "" : `:${line}`}`;
    printHanging(out, out.text`    ${mark} `, [`${place} ${message} (${rule})`], { indent: 6 });
  }
  const more = findings.length - most;
  if (more > 0) out.line`    ${out.dim(`… and ${count(more, "more finding")}`)}`;
}

export function showConflicts(out: Printer, conflicts: readonly Conflict[]): void {
  for (const { path, why, lines } of conflicts) {
    out.line`  ${path}  ${out.red(CONFLICTS[why])}`;
    printDiff(out, lines);
  }
}

const CONFLICTS: Record<Conflict["why"], string> = {
  "both-changed": "you and the source changed the same lines",
  "both-added": "you and the source added it, each in their own way",
  "removed-here": "you removed it, and the source changed it",
  "removed-there": "the source removed it, and you changed it",
  binary: "you and the source changed it, and it is no text",
  "no-base": "you changed it, and what it was before is not known here any more",
};

const DRIFT: Record<Drift["what"], string> = {
  added: "was added",
  removed: "is gone",
  changed: "was changed",
  mode: "has another mode",
};

const MOST_DRIFT = 20;

export function showDrift(out: Printer, drift: readonly Drift[]): void {
  for (const { path, what } of drift.slice(0, MOST_DRIFT))
    out.line`    ${path === "." ? "its folder" : path} ${DRIFT[what]}`;
  if (drift.length > MOST_DRIFT) out.line`    ${out.dim(`… and ${drift.length - MOST_DRIFT} more`)}`;
}

/** What went wrong, once for all that it went wrong for: a source that is gone may have given hundreds. */
export function sayProblems(out: Printer, problems: readonly { name: string; error: SkillError }[]): void {
  for (const [first, ...others] of Map.groupBy(problems, ({ error }) => `${error.message}\n${error.fix}`).values()) {
    if (!first) continue;
    const { message, fix = "" } = first.error;
    sayNotice(out, out.red("✗"), `${someOf([first, ...others].map(({ name }) => name))}: ${message}`, fix);
  }
}

/** What is asked before anything is put in its place. */
export function questionOf(verb: "Add" | "Update", coming: readonly Coming[]): string {
  const [these, their] = coming.length === 1 ? ["this skill", "its"] : [`these ${coming.length} skills`, "their"];
  const hasTools = coming.some(({ skill }) => skill.manifest.toolsets.length > 0);
  const code = hasTools
    ? `, and let ${their} tools run as you, without a sandbox`
    : coming.some((one) => codeIn(one).length > 0)
      ? `, and let ${their} code run in a sandbox`
      : "";
  return `${verb} ${these}${code}?`;
}

/** Its files that are, or steer, code. */
export function codeIn(one: Coming): string[] {
  return [...treeOf(one)].flatMap(([path, file]) => (isCode(one.skill, path, file) ? path : []));
}

/** Every file that it will have. */
export function treeOf(one: Coming) {
  return one.is === "update" ? one.difference.after : one.prepared.tree;
}

/** What is the user's own in it, and not what the source has. */
export function keptIn(one: Coming): string[] {
  if (one.is === "new") return [];
  const [after, theirs] = [lockedFilesOf(one.difference.after), one.prepared.files];
  return driftOf(theirs, after).map(({ path }) => path);
}

/** `3 skills`, or their names where they are few. */
export function sayNames(names: readonly string[]): string {
  return names.length > 8 ? count(names.length, "skill") : names.join(", ");
}
