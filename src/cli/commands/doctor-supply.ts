import type { Discovered } from "../../host/discover.ts";
import { openStamps } from "../../host/lock/stamps.ts";
import type { ScanFinding, Weight } from "../../scan/finding.ts";
import { scanSkill, subjectOf } from "../../scan/scan.ts";
import { SkillError } from "../../shared/error.ts";
import { byText, count } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { copySkill } from "../../source/digest.ts";
import { needsTrust } from "../../supply/skills-place.ts";
import { unlockedIn, verifySkill } from "../../supply/verify.ts";
import type { Printer } from "../io.ts";
import { everyLockedPlace, type LockedPlace } from "../supply/locked-skills.ts";

/** What was added, and what the scanner has to say of all skills that did not come with the program. */
export interface SupplyFacts {
  added: number;
  /** Names of those that are not as their lock says, or not in it. */
  notAsLocked: readonly string[];
  scanned: number;
  /** More skills than are looked at here. */
  unscanned: number;
  findings: Readonly<Record<Weight, number>>;
  /** Names of skills with findings of the highest weight. */
  flagged: readonly string[];
}

// Scanning takes about half a millisecond a skill, and doctor is waited for.
const MOST_SCANNED = 1000;

export function supplyFacts(found: Discovered): SupplyFacts {
  const stamps = openStamps(found.home);
  const places = placesIn(found);
  const notAsLocked = places.flatMap(({ place, skills }) => [
    ...skills
      .filter(([name, entry]) => verifySkill(place, name, entry, stamps).is !== "as-locked")
      .map(([name]) => name),
    ...(needsTrust(place) ? [] : unlockedIn(place, new Set(skills.map(([name]) => name)))),
  ]);
  const foreign = found.catalog.skills.filter(({ origin }) => origin.file !== undefined && origin.scope !== "bundled");
  const findings = { high: 0, medium: 0, low: 0 };
  const flagged: string[] = [];
  for (const skill of foreign.slice(0, MOST_SCANNED)) {
    const said = findingsOf(skill);
    for (const { weight } of said) findings[weight]++;
    if (said.some(({ weight }) => weight === "high")) flagged.push(skill.name);
  }
  return {
    added: places.reduce((sum, { skills }) => sum + skills.length, 0),
    notAsLocked: notAsLocked.sort(byText),
    scanned: Math.min(foreign.length, MOST_SCANNED),
    unscanned: Math.max(0, foreign.length - MOST_SCANNED),
    findings,
    flagged: flagged.sort(byText),
  };
}

function placesIn({ around }: Discovered): LockedPlace[] {
  const levels = ["user", "project"] as const;
  return levels.flatMap((level) => {
    try {
      return everyLockedPlace(around, [level]);
    } catch (error) {
      if (error instanceof SkillError) return []; // It is among the findings.
      throw error;
    }
  });
}

function findingsOf(skill: Skill): readonly ScanFinding[] {
  try {
    return scanSkill(subjectOf(skill, copySkill(skill)));
  } catch (error) {
    if (error instanceof SkillError) return []; // What cannot be read is among the findings.
    throw error;
  }
}

/** What makes doctor end with findings. What the scanner says is advice, and does not. */
export function supplyProblems({ notAsLocked }: SupplyFacts): { message: string; fix: string }[] {
  if (notAsLocked.length === 0) return [];
  const message = `not as ${notAsLocked.length === 1 ? "its lock says" : "their locks say"}: ${shown(notAsLocked)}`;
  return [{ message, fix: "`skillet verify` says what differs" }];
}

export function printSupply(out: Printer, facts: SupplyFacts): void {
  const { added, scanned, unscanned, findings, flagged } = facts;
  out.line`\n${out.bold("From elsewhere")} ${out.dim("`skillet list --installed` shows what was added")}`;
  out.line`  ${added === 0 ? "nothing was added" : `${count(added, "skill")} added`}`;
  if (scanned === 0) return;
  const said = Object.entries(findings).flatMap(([weight, number]) => (number > 0 ? `${number} ${weight}` : []));
  const rest = unscanned > 0 ? `, ${unscanned} more not looked at` : "";
  out.line`  ${count(scanned, "skill")} scanned${rest}: ${said.length > 0 ? said.join(", ") : "nothing found, which proves nothing"}`;
  if (flagged.length > 0) out.line`  ${out.yellow(`! look at ${shown(flagged)}`)}: skillet scan ${flagged[0] ?? ""}`;
}

function shown(names: readonly string[]): string {
  return names.length > 5 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", ");
}
