import { join } from "node:path";
import type { ScanFinding } from "../../scan/finding.ts";
import { SkillError } from "../../shared/error.ts";
import { oneLine } from "../../shared/text.ts";
import { type Candidate, prepare } from "../../supply/candidate.ts";
import type { Fetched } from "../../supply/contract.ts";
import type { Printer } from "../io.ts";
import { sayWeights } from "./words.ts";

/** The outcome of checking one skill of a source before it is chosen. */
export type Verdict =
  | { is: "fine" }
  /** The scanner found something that a person should look at. */
  | { is: "look"; findings: readonly ScanFinding[] }
  | { is: "refused"; error: SkillError };

export interface Verdicts {
  of(candidate: Candidate): Verdict;
}

/** Checks and scans each skill of a source once, when it is first shown. `work`: a folder for intermediate files. */
export function createVerdicts(fetched: Fetched, work: string): Verdicts {
  const known = new Map<Candidate, Verdict>();
  return {
    of(candidate) {
      const verdict = known.get(candidate) ?? judge(candidate, fetched, join(work, "verdicts", String(known.size)));
      known.set(candidate, verdict);
      return verdict;
    },
  };
}

function judge(candidate: Candidate, fetched: Fetched, folder: string): Verdict {
  try {
    const findings = prepare(candidate, fetched, folder).findings.filter(({ weight }) => weight !== "low");
    return findings.length > 0 ? { is: "look", findings } : { is: "fine" };
  } catch (error) {
    if (error instanceof SkillError) return { is: "refused", error };
    throw error;
  }
}

/** Prints one line per skill: number, verdict, name, and its description or why it needs a look. */
export function printOffer(
  out: Printer,
  candidates: readonly Candidate[],
  { verdicts, isNumbered }: { verdicts: Verdicts; isNumbered: boolean },
): void {
  const digits = isNumbered ? String(candidates.length).length : 0;
  const longest = Math.min(32, Math.max(0, ...candidates.map(({ skill }) => skill.name.length)));
  for (const [index, candidate] of candidates.entries()) {
    const verdict = verdicts.of(candidate);
    const number = isNumbered ? `${String(index + 1).padStart(digits)}  ` : "";
    const name = candidate.skill.name.padEnd(longest);
    const room = Math.max(20, out.width - number.length - name.length - 5);
    const text = oneLine(describe(candidate, verdict), Math.min(room, 120));
    out.line`${number}${out[COLOR[verdict.is]](MARK[verdict.is])} ${out.bold(name)}  ${out.dim(text)}`;
  }
}

const MARK: Record<Verdict["is"], string> = { fine: "✓", look: "!", refused: "✗" };
const COLOR = { fine: "green", look: "yellow", refused: "red" } as const satisfies Record<Verdict["is"], string>;

function describe({ skill }: Candidate, verdict: Verdict): string {
  const { parent } = skill.origin;
  const place = parent === undefined ? "" : `(inside ${parent}) `;
  if (verdict.is === "refused") return `${place}refused: ${reasonOf(verdict.error)}`;
  return `${place}${verdict.is === "look" ? `(scan: ${sayWeights(verdict.findings)}) ` : ""}${skill.description}`;
}

/** The reason alone, where the message also names the skill. */
function reasonOf({ message, cause }: SkillError): string {
  return cause instanceof SkillError ? cause.message : message;
}

export function verdictAsJson({ skill, path }: Candidate, verdict: Verdict): object {
  const { name, description } = skill;
  const facts = { name, path, description, state: verdict.is };
  if (verdict.is === "look")
    return { ...facts, findings: verdict.findings.map(({ file, ...finding }) => ({ ...finding, path: file })) };
  if (verdict.is === "fine") return facts;
  const { code, message, fix } = verdict.error;
  return { ...facts, error: { code, message, fix } };
}
