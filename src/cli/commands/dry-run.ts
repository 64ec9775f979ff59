import type { Discovered } from "../../host/discover.ts";
import { type Check, planUse } from "../../run/plan-use.ts";
import type { UseRequest } from "../../run/use.ts";
import { EXIT } from "../exit.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { CommonOptions } from "../program.ts";
import { printHanging } from "../wrap.ts";

/** Every check that a use would go through, and what it would be given; nothing is run. */
export async function dryRun(
  io: Io,
  found: Discovered,
  request: UseRequest,
  { json: asJson, workspace }: CommonOptions,
): Promise<number> {
  const plan = await planUse(found.catalog, found, request);
  const isFine = plan.checks.every(({ refusals }) => refusals.length === 0);
  if (asJson) printJson(io.stdout, plan);
  else {
    const out = printer(io.stdout, io.env);
    const short = (text: string) => withTilde(fromHere(text, workspace), found.around.home);
    const looked = plan.checks.filter(({ isSkipped }) => !isSkipped);
    const widest = Math.max(...looked.map(({ name }) => name.length));
    for (const check of looked) printCheck(out, check, widest, short);
    if (looked.length < plan.checks.length) sayHidden(out, looked);
    for (const { message, fix } of plan.warnings)
      printHanging(out, out.text`${out.yellow("!")} `, [message, ...fix.split("\n")].map(short), {
        ...WIDE,
        indent: 2,
      });
    out.line``;
    out.line`${isFine ? "It would run. Nothing was run." : "It would be refused."}`;
  }
  return isFine ? EXIT.fine : EXIT.refused;
}

/** It may be read elsewhere than at a terminal, and is as wide there. */
const WIDE = { width: 80 };

function printCheck(out: Printer, check: Check, widest: number, short: (text: string) => string): void {
  const { name, detail, refusals } = check;
  const mark = refusals.length > 0 ? out.red("✗") : out.green("✓");
  const lines = refusals.flatMap(({ message, fix }) => [message, ...fix.split("\n")]).map(short);
  const said = lines.length > 0 ? lines : [short(detail)];
  printHanging(out, out.text`${mark} ${name.padEnd(widest)}  `, said, { ...WIDE, indent: widest + 4 });
}

/** One line for all of it: what is hidden is not described. */
function sayHidden(out: Printer, looked: readonly Check[]): void {
  const isOff = looked.some(({ refusals }) => refusals.some(({ code }) => code === "disabled"));
  out.line`${out.dim("·")} the rest was not looked at: the skill is ${isOff ? "switched off" : "not there for this caller"}`;
}

/** The home folder and what is below it, as they are called elsewhere. */
function withTilde(text: string, home: string): string {
  return home.length < 2
    ? text
    : text.replaceAll(home, (found, at) => (ENDS.test(text[at + found.length] ?? "") ? "~" : found));
}

/** What may follow a path that is whole. */
const ENDS = /^[^\w.-]?$/;
