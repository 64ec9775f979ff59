import { dynamicCommands } from "../../catalog/content.ts";
import { isCode } from "../../host/trust.ts";
import type { ScanFinding } from "../../scan/finding.ts";
import { scanSkill } from "../../scan/scan.ts";
import { count, grouped, oneLine } from "../../shared/text.ts";
import { declaredVariables } from "../../skill/needs.ts";
import { scriptsOf } from "../../skill/script.ts";
import type { Printer } from "../io.ts";
import { sayWeights, someOf } from "../supply/words.ts";
import { printHanging } from "../wrap.ts";
import type { Subject } from "./trust-show.ts";

/** How much trust a skill needs, the most first. Skills of one group are approved together. */
const RISKS = ["tools", "findings", "scripts", "text"] as const;
type Risk = (typeof RISKS)[number];

export interface TrustSummary {
  subject: Subject;
  risk: Risk;
  /** How many files can be run. */
  runs: number;
  /** Bytes of all files that are or steer code. */
  bytes: number;
  needs: readonly string[];
  /** Of weight medium and high. */
  findings: readonly ScanFinding[];
}

const TITLES: Record<Risk, string> = {
  tools: "with tools that run as you, without a sandbox",
  findings: "that the scanner found something in",
  scripts: "with code that runs in a sandbox",
  text: "without code: models follow their instructions",
};

export interface TrustGroup {
  title: string;
  summaries: readonly TrustSummary[];
}

/** Groups skills by how much trust they need, the most first. */
export function groupForTrust(subjects: readonly Subject[]): TrustGroup[] {
  const summaries = subjects.map(summarize);
  return RISKS.flatMap((risk) => {
    const group = summaries.filter((summary) => summary.risk === risk);
    return group.length === 0 ? [] : [{ title: `${count(group.length, "skill")} ${TITLES[risk]}`, summaries: group }];
  });
}

function summarize(subject: Subject): TrustSummary {
  const { skill, copy } = subject;
  const { name, description, manifest } = skill;
  const code = [...copy.files].filter(([path, file]) => path !== "SKILL.md" && isCode(skill, path, file));
  const scanned = scanSkill({ name, description, manifest, files: copy.files });
  const findings = scanned.filter(({ weight }) => weight !== "low");
  const commands = dynamicCommands(skill.body()).length;
  const runs = scriptsOf(skill).length + manifest.toolsets.length + commands;
  const risk =
    manifest.toolsets.length > 0
      ? "tools"
      : findings.length > 0
        ? "findings"
        : runs + code.length > 0
          ? "scripts"
          : "text";
  const needs = [
    ...declaredVariables(skill),
    ...manifest.packages.map((one) => `package ${one}`),
    ...manifest.capabilities,
  ];
  return { subject, risk, runs, bytes: code.reduce((sum, [, file]) => sum + file.bytes.length, 0), needs, findings };
}

const MOST_ROWS = 20;
const LONGEST_NAME = 28;

/** Prints one line per skill: what can run, its size, what it needs and what the scanner found. Skills without code share a line. */
export function printTrustGroup(out: Printer, { title, summaries }: TrustGroup): void {
  out.line`${out.bold(title)}`;
  const names = summaries.map(({ subject }) => subject.skill.name);
  if (summaries.every(({ risk }) => risk === "text"))
    return void printHanging(out, "  ", [someOf(names, MOST_NAMES)], { indent: 2 });
  const rows = summaries.slice(0, MOST_ROWS);
  const longest = Math.min(LONGEST_NAME, Math.max(...rows.map(({ subject }) => subject.skill.name.length)));
  for (const { subject, runs, bytes, needs, findings } of rows) {
    const name = oneLine(subject.skill.name, LONGEST_NAME).padEnd(longest);
    const parts = [
      `${runs === 0 ? "data" : count(runs, "file that runs", "files that run")}, ${grouped(bytes)} bytes`,
      ...(needs.length > 0 ? [`needs ${someOf(needs, 2)}`] : []),
      ...(findings.length > 0 ? [`scan: ${sayWeights(findings)}`] : []),
    ];
    const text = oneLine(parts.join(" · "), Math.max(20, out.width - longest - 4));
    out.line`  ${name}  ${findings.length > 0 ? out.yellow(text) : out.dim(text)}`;
  }
  if (summaries.length > MOST_ROWS)
    out.line`  ${out.dim(`… and ${summaries.length - MOST_ROWS} more: type show, or run skillet trust --show`)}`;
}

const MOST_NAMES = 60;
