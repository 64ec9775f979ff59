import { WEIGHTS, type Weight } from "../../scan/finding.ts";
import { RULES } from "../../scan/rules.ts";
import { byText, count, grouped } from "../../shared/text.ts";
import { displayPath, type Surroundings } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { reportRoot, type SarifResult, sarifLog } from "../formats.ts";
import { surroundingsFor } from "../found.ts";
import { type Io, type Printer, printer, printJson, type Safe } from "../io.ts";
import type { Context } from "../program.ts";
import { waitingFor } from "../progress.ts";
import { sayLine } from "../say.ts";
import { printHanging } from "../wrap.ts";
import { distinct, foldersOfDiscovery, named, workspaceFolders } from "./check.ts";
import { type Scanned, type Scans, scanPath } from "./scan-targets.ts";

interface ScanOptions {
  format?: "text" | "json" | "sarif";
  min?: Weight;
}

const ADVICE = "This is advice: read what is named before you trust a skill. That nothing is found proves nothing.";

export async function scan({ io, options, args }: Context<ScanOptions>): Promise<number> {
  const format = options.json ? "json" : (options.format ?? "text");
  const least = WEIGHTS.indexOf(options.min ?? "low");
  const around = surroundingsFor(io, options);
  const paths = distinct(args.length > 0 ? await named(io, options, args) : workspaceFolders(around));
  const skillsFolders = await foldersOfDiscovery(around);
  const all: Scans = { scanned: [], problems: [] };
  await waitingFor(io, "scanning", async ({ at }) => {
    for (const path of paths) {
      const onScanned = (done: number, of: number) => at(`scanning ${grouped(done)} of ${count(of, "skill")}`);
      const { scanned, problems } = await scanPath(path, { skillsFolders, onScanned });
      all.scanned.push(...scanned);
      all.problems.push(...problems);
    }
  });
  all.scanned.sort((a, b) => byText(a.name, b.name) || byText(a.path, b.path));
  const counts = countsOf(all.scanned);
  const shown: Shown = {
    problems: all.problems,
    counts,
    scanned: all.scanned.map((one) => {
      const findings = one.findings.filter(({ weight }) => WEIGHTS.indexOf(weight) <= least);
      return { ...one, findings, leftOut: one.findings.length - findings.length };
    }),
  };
  if (format === "json") printJson(io.stdout, asJson(shown));
  else if (format === "sarif") printJson(io.stdout, asSarif(shown, reportRoot(io.env, around.workspace)));
  else printText(io, shown, { ...around, workspace: io.cwd });
  if (all.scanned.length === 0 && all.problems.length === 0) {
    const where = args.length > 0 ? args.join(", ") : "this workspace";
    printer(io.stderr, io.env).line`no skills in ${where}: name a folder, a file or a skill`;
  }
  return counts.high > 0 || all.problems.length > 0 ? EXIT.findings : EXIT.fine;
}

/** What is printed, and how much there is of each weight, printed or not. */
interface Shown extends Scans {
  counts: Record<Weight, number>;
  scanned: (Scanned & { leftOut: number })[];
}

function asJson({ scanned, problems, counts }: Shown): object {
  const skills = scanned.map(({ path: place, findings, ...one }) => ({
    ...one,
    place,
    findings: findings.map(({ file, path, ...finding }) => ({ ...finding, path: file, file: path })),
  }));
  return { skills, problems, counts, advice: ADVICE };
}

const LEVELS = { high: "error", medium: "warning", low: "note" } as const;
/** What code scanning sorts by, from 0 to 10. */
const SEVERITIES = { high: "8.0", medium: "5.0", low: "2.0" } as const;

function asSarif({ scanned, problems }: Scans, root: string): object {
  const results: SarifResult[] = [
    ...scanned.flatMap(({ findings }) =>
      findings.map(({ rule, weight, path, line, column, message, fix }) => ({
        ...{ rule, level: LEVELS[weight], text: `The skill ${message}. What to do: ${fix}`, file: path },
        ...(line === undefined ? {} : { line }),
        ...(column === undefined ? {} : { column }),
      })),
    ),
    ...problems.map(({ code, file, message, fix }) => ({
      ...{ rule: code, level: "error" as const, text: `${message}. What to do: ${fix}`, file },
    })),
  ];
  return sarifLog(results, describe, root);
}

function describe(id: string): object {
  const rule = RULES.find((candidate) => candidate.id === id);
  if (!rule) return { id, shortDescription: { text: "what could not be looked at, or is broken" } };
  return {
    id,
    shortDescription: { text: `The skill ${rule.title}` },
    help: { text: `${rule.why} What to do: ${rule.fix}.` },
    properties: { tags: ["security"], "security-severity": SEVERITIES[rule.weight] },
  };
}

function printText(io: Io, { scanned, problems, counts }: Shown, around: Surroundings): void {
  const out = printer(io.stdout, io.env);
  for (const one of scanned) printOne(out, one, around);
  for (const { code, file, message, fix } of problems) {
    printHanging(out, out.text`${out.red("✗")} `, [`${displayPath(file, around)} ${message} ${code}`], { indent: 2 });
    printHanging(out, "    ", [fix], { indent: 4 });
  }
  if (scanned.length === 0 && problems.length === 0) return;
  const weights = WEIGHTS.map((weight) => `${counts[weight]} ${weight}`).join(", ");
  const broken = problems.length === 0 ? "" : `; ${count(problems.length, "problem")}`;
  const skills = scanned.filter(({ isSkill }) => isSkill).length;
  const others = scanned.length - skills;
  const more = others === 0 ? "" : ` and ${count(others, "other place")}`;
  out.line`\nLooked through ${count(skills, "skill")}${more}: ${weights}${broken}`;
  sayLine(out, ADVICE);
}

function printOne(
  out: Printer,
  { name, path, isSkill, findings, leftOut }: Shown["scanned"][number],
  around: Surroundings,
): void {
  const where = out.dim(`${displayPath(path, around)}${isSkill ? "" : ", which is no skill"}`);
  if (findings.length === 0) {
    out.line`${out.dim("·")} ${name} ${where}: ${leftOut === 0 ? "nothing found" : `${leftOut} that weigh less`}`;
    return;
  }
  out.line`${out.bold(name)} ${where}`;
  for (const { rule, weight, file, line, message, fix } of findings) {
    const said = `${file}${line === undefined ? "" : `:${line}`} ${message} ${rule}`;
    printHanging(out, out.text`  ${markOf(out, weight)} `, [said], { indent: 4 });
    printHanging(out, "      ", [fix], { indent: 6 });
  }
}

function markOf(out: Printer, weight: Weight): Safe {
  return weight === "high" ? out.red("✗") : weight === "medium" ? out.yellow("!") : out.dim("·");
}

function countsOf(scanned: readonly Scanned[]): Record<Weight, number> {
  const counts = { high: 0, medium: 0, low: 0 };
  for (const { findings } of scanned) for (const { weight } of findings) counts[weight]++;
  return counts;
}
