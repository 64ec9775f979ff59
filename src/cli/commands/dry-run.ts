import type { Discovered } from "../../host/discover.ts";
import { planUse } from "../../run/plan-use.ts";
import type { UseRequest } from "../../run/use.ts";
import { EXIT } from "../exit.ts";
import { type Io, printer, printJson } from "../io.ts";

/** Every check that a use would go through, and what it would be given; nothing is run. */
export async function dryRun(io: Io, found: Discovered, request: UseRequest, asJson: boolean): Promise<number> {
  const plan = await planUse(found.catalog, found, request);
  const isFine = plan.checks.every(({ refusals }) => refusals.length === 0);
  if (asJson) printJson(io.stdout, plan);
  else {
    const out = printer(io.stdout, io.env);
    const widest = Math.max(...plan.checks.map(({ name }) => name.length));
    for (const { name, detail, refusals } of plan.checks) {
      const [first, ...more] = refusals;
      out.line`${first ? out.red("✗") : out.green("✓")} ${name.padEnd(widest)}  ${first ? first.message : out.dim(detail)}`;
      const indent = " ".repeat(widest + 4);
      for (const line of first?.fix.split("\n") ?? []) out.line`${indent}${line}`;
      for (const { message, fix } of more) {
        out.line`${indent}${message}`;
        for (const line of fix.split("\n")) out.line`${indent}${line}`;
      }
    }
    for (const { message, fix } of plan.warnings) out.line`${out.yellow("!")} ${message}: ${fix}`;
    out.line``;
    out.line`${isFine ? "It would run. Nothing was run." : "It would be refused."}`;
  }
  return isFine ? EXIT.fine : EXIT.refused;
}
