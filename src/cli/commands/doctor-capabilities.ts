import { statSync } from "node:fs";
import type { AuditVerdict } from "../../host/capabilities.ts";
import { SkillError } from "../../shared/error.ts";
import { count } from "../../shared/text.ts";
import { displayPath } from "../../source/locations.ts";
import type { Found } from "../found.ts";
import { type Io, type Printer, untilInterrupted } from "../io.ts";
import { type ProviderState, printState, providersOf, stateOf } from "../providers-found.ts";
import { entriesOf, type KeyFacts, keyFacts, sayKey, vaultOf } from "../vault.ts";
import { printHanging } from "../wrap.ts";

export interface CapabilityFacts {
  providers: readonly ProviderState[];
  vault: KeyFacts & { signedIn: number };
  /** Without a verdict where the log is too large to be looked through by the way. */
  audit: { file: string; bytes: number; verdict?: AuditVerdict; problem?: string };
  /** A provider that is not ready is none: it may be one that nobody needs today. */
  problems: readonly { message: string; fix: string }[];
}

/** Who serves capabilities and how they are, where the vault's key is from, and whether the log is whole. */
export async function capabilityFacts(io: Io, found: Found): Promise<CapabilityFacts> {
  const asked = providersOf(found);
  const providers = await untilInterrupted(io, (signal) =>
    Promise.all(asked.map((provider) => stateOf(provider, found, signal))),
  );
  const vault = vaultOf(found);
  const kept = { ...keyFacts(vault, found), signedIn: entriesOf(vault).length };
  const audit = auditFacts(found);
  return { providers, vault: kept, audit, problems: problemsIn(kept, audit) };
}

function problemsIn(
  { problem }: CapabilityFacts["vault"],
  audit: CapabilityFacts["audit"],
): CapabilityFacts["problems"] {
  const { verdict, problem: unreadable } = audit;
  const broken = verdict?.isWhole === false ? `the audit log is not whole: ${verdict.message}` : unreadable;
  return [
    ...(problem === null ? [] : [{ message: problem, fix: "skillet auth list shows what it keeps" }]),
    ...(broken === undefined ? [] : [{ message: broken, fix: "skillet audit verify says more" }]),
  ];
}

const LARGEST_LOG = 5 * 1024 * 1024;

function auditFacts({ capabilities: { audit } }: Found): CapabilityFacts["audit"] {
  const { file } = audit;
  const bytes = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes > LARGEST_LOG) return { file, bytes };
  try {
    return { file, bytes, verdict: audit.verify() };
  } catch (error) {
    if (error instanceof SkillError) return { file, bytes, problem: error.message };
    throw error;
  }
}

export function printCapabilities(out: Printer, { providers, vault, audit }: CapabilityFacts, { around }: Found): void {
  out.line`\n${out.bold("Capabilities")} ${out.dim("`skillet capability list` shows what they do, and for which skills")}`;
  for (const provider of providers) printState(out, provider, "  ");
  if (providers.length === 0) out.line`  nobody serves any: [capabilities.providers.NAME] in config.toml`;
  const file = displayPath(vault.file, around);
  if (vault.problem !== null) out.line`  ${out.red("✗")} ${file}  cannot be used`;
  else if (vault.key !== null && (vault.signedIn > 0 || providers.length > 0)) {
    const said = `${count(vault.signedIn, "sign-in")}, ${sayKey(vault)}`;
    printHanging(out, out.text`  ${file}  `, [said], { indent: file.length + 4, paint: out.dim });
  }
  printAudit(out, audit, displayPath(audit.file, around));
}

function printAudit(out: Printer, { bytes, verdict, problem }: CapabilityFacts["audit"], file: string): void {
  if (problem !== undefined) out.line`  ${out.red("✗")} ${file}  cannot be used`;
  else if (verdict?.isWhole === false) out.line`  ${out.red("✗")} ${file}  is not whole`;
  else if (verdict && verdict.lines > 0) out.line`  ${file}  ${out.dim(`${count(verdict.lines, "line")}, whole`)}`;
  else if (!verdict)
    out.line`  ${file}  ${out.dim(`${Math.round(bytes / 1024 / 1024)} MiB, not looked through: skillet audit verify`)}`;
}
