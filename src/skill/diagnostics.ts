import { FINDING_CODES, type FindingCode, type FindingSeverity } from "../errors/finding-codes.ts";
import type { Problem } from "../errors/problem.ts";

export const PROFILES = ["load", "agentskills", "shipped", "claude-upload", "vscode"] as const;
export type Profile = (typeof PROFILES)[number];
export type Severity = "error" | "warning" | "info";

export interface Position {
  line: number;
  column: number;
}

/** A problem that a parser or a rule found, before a profile gives it a severity. Its fix, if any, is more specific than the code's row. */
export interface Finding extends Partial<Position>, Partial<Pick<Problem, "fix" | "commands" | "data">> {
  code: FindingCode;
  message: string;
  /** The top-level key of the problem, and the key that was probably meant. */
  key?: string;
  meant?: string;
  /** The name in a file that does not load, if it differs from its folder or file name. */
  name?: string;
}

/** A finding in a file, with its severity in a profile. Discovery, check and lint all return it. */
export interface Diagnostic extends Problem<FindingCode>, Omit<Finding, "fix"> {
  severity: Severity;
  file: string;
}

/** Returns the severity of a code in a profile, or undefined if the profile does not report it. */
export function getSeverity(code: FindingCode, profile: Profile): Severity | undefined {
  const severity = resolveSeverity(code, profile);
  if (severity === "none") return undefined;
  return severity === "reported-error" ? "error" : severity;
}

function resolveSeverity(code: FindingCode, profile: Profile): FindingSeverity {
  const { severities } = FINDING_CODES[code];
  return severities[profile] ?? severities.all;
}

export function diagnose(findings: readonly Finding[], file: string, profile: Profile = "load"): Diagnostic[] {
  const diagnostics: Diagnostic[] = [];
  for (const finding of findings) {
    const severity = getSeverity(finding.code, profile);
    if (severity) diagnostics.push({ ...finding, severity, file, fix: finding.fix ?? FINDING_CODES[finding.code].fix });
  }
  return diagnostics;
}

/** Returns true if a diagnostic means that its file is not loaded as a skill. */
export function stopsLoading({ code, severity }: Pick<Diagnostic, "code" | "severity">): boolean {
  return severity === "error" && resolveSeverity(code, "load") !== "reported-error";
}

/** Returns true if a finding stops a file from loading in a profile; a `reported-error` does not. */
export function hasFatalFindings(findings: readonly Finding[], profile: Profile): boolean {
  return findings.some(({ code }) => resolveSeverity(code, profile) === "error");
}

export function hasErrors(findings: readonly Finding[], profile: Profile = "load"): boolean {
  return findings.some((finding) => getSeverity(finding.code, profile) === "error");
}
