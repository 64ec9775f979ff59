import { FINDING_CODES, type FindingCode } from "../errors/finding-codes.ts";

export const PROFILES = ["load", "agentskills", "shipped", "claude-upload", "vscode"] as const;
export type Profile = (typeof PROFILES)[number];
export type Severity = "error" | "warning" | "info";

export interface Position {
  line: number;
  column: number;
}

/** What a parser or a rule saw, before anybody said how much it matters. */
export interface Finding extends Partial<Position> {
  code: FindingCode;
  message: string;
  /** What to do, when it is more precise than what the code's own row says. */
  fix?: string;
  /** The top-level key it is about, and the one that was probably meant. */
  key?: string;
  meant?: string;
  /** The name that a file states, if it does not load and is not in a place of that name. */
  name?: string;
}

/** A finding in a file, weighed by a profile. Discovery, check and lint all speak it. */
export interface Diagnostic extends Finding {
  severity: Severity;
  file: string;
  fix: string;
}

export function getSeverity(code: FindingCode, profile: Profile): Severity | undefined {
  return SEVERITY_BY_LETTER[FINDING_CODES[code].weigh[PROFILES.indexOf(profile)] ?? "-"];
}

export function diagnose(findings: readonly Finding[], file: string, profile: Profile = "load"): Diagnostic[] {
  const diagnostics: Diagnostic[] = [];
  for (const finding of findings) {
    const severity = getSeverity(finding.code, profile);
    if (severity) diagnostics.push({ ...finding, severity, file, fix: finding.fix ?? FINDING_CODES[finding.code].fix });
  }
  return diagnostics;
}

/** Returns whether a diagnostic says that its file is not loaded as a skill. */
export function stopsLoading({ code, severity }: Pick<Diagnostic, "code" | "severity">): boolean {
  return severity === "error" && !FINDING_CODES[code].weigh.startsWith("E");
}

/** Returns whether these findings keep a file from being loaded by a profile: an error that is only reported does not. */
export function hasFatalFindings(findings: readonly Finding[], profile: Profile): boolean {
  return findings.some(({ code }) => FINDING_CODES[code].weigh[PROFILES.indexOf(profile)] === "e");
}

export function hasErrors(findings: readonly Finding[], profile: Profile = "load"): boolean {
  return findings.some((finding) => getSeverity(finding.code, profile) === "error");
}

const SEVERITY_BY_LETTER: Record<string, Severity | undefined> = {
  e: "error",
  E: "error",
  w: "warning",
  i: "info",
  "-": undefined,
};
