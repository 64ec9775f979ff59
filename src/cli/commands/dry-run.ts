import type { Discovered } from "../../host/discover.ts";
import { type Check, planUse } from "../../run/plan-use.ts";
import type { UseRequest } from "../../run/use.ts";
import { EXIT } from "../exit.ts";
import { type Io, type Printer, printer, printJson, type Safe } from "../io.ts";

/** Every check that a use would go through, and what it would be given; nothing is run. */
export async function dryRun(io: Io, found: Discovered, request: UseRequest, asJson: boolean): Promise<number> {
  const plan = await planUse(found.catalog, found, request);
  const isFine = plan.checks.every(({ refusals }) => refusals.length === 0);
  if (asJson) printJson(io.stdout, plan);
  else {
    const out = printer(io.stdout, io.env);
    const short = (text: string) => withTilde(text, found.around.home);
    const widest = Math.max(...plan.checks.map(({ name }) => name.length));
    for (const check of plan.checks) printCheck(out, check, widest, short);
    for (const { message, fix } of plan.warnings)
      printHanging(out, out.text`${out.yellow("!")} `, 2, [message, ...fix.split("\n")].map(short));
    out.line``;
    out.line`${isFine ? "It would run. Nothing was run." : "It would be refused."}`;
  }
  return isFine ? EXIT.fine : EXIT.refused;
}

function printCheck(out: Printer, check: Check, widest: number, short: (text: string) => string): void {
  const { name, detail, refusals, isSkipped } = check;
  const mark = refusals.length > 0 ? out.red("✗") : isSkipped ? out.dim("·") : out.green("✓");
  const said = isSkipped ? "not looked at: the skill is not there for this caller" : short(detail);
  const lines = refusals.flatMap(({ message, fix }) => [message, ...fix.split("\n")]).map(short);
  printHanging(out, out.text`${mark} ${name.padEnd(widest)}  `, widest + 4, lines.length > 0 ? lines : [said]);
}

const WIDTH = 80;

/** Lines below one another, after what stands before the first. */
function printHanging(out: Printer, before: Safe, indent: number, lines: readonly string[]): void {
  const [first = "", ...more] = lines.filter((line) => line !== "").flatMap((line) => wrapped(line, WIDTH - indent));
  out.line`${before}${first}`;
  for (const line of more) out.line`${" ".repeat(indent)}${line}`;
}

/** Lines that are no longer than this, but for words that are; and a command stays in one piece, to be copied. */
function wrapped(text: string, width: number): string[] {
  const [, indent = "", prose = "", command] = /^(\s*)(.*?)(run: skillet .*)?$/s.exec(text) ?? [];
  if (text.length <= width) return [text];
  const lines: string[] = [];
  let line = "";
  for (const word of [...prose.split(" ").filter((part) => part !== ""), ...(command === undefined ? [] : [command])]) {
    if (line !== "" && line.length + 1 + word.length > width - indent.length) {
      lines.push(indent + line);
      line = "";
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  return line === "" ? lines : [...lines, indent + line];
}

/** The home folder and what is below it, as they are called elsewhere. */
function withTilde(text: string, home: string): string {
  return home.length < 2
    ? text
    : text.replaceAll(home, (found, at) => (ENDS.test(text[at + found.length] ?? "") ? "~" : found));
}

/** What may follow a path that is whole. */
const ENDS = /^[^\w.-]?$/;
