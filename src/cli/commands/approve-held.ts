import { userHome } from "../../host/home.ts";
import { allSecrets } from "../../run/secrets.ts";
import { applyHeld, discardHeld, type HeldChanges, heldPaths } from "../../run/workspace/held-changes.ts";
import { heldEffect } from "../../run/workspace/review-changes.ts";
import { SkillError } from "../../shared/error.ts";
import { openHiding } from "../../shared/redact.ts";
import { shortPath } from "../../source/locations.ts";
import { isReadInFull } from "../approval.ts";
import { showEffect } from "../effect.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, surroundingsFor } from "../found.ts";
import { type Io, isAgreed, type Printer, printer, printJson } from "../io.ts";
import type { CommonOptions } from "../program.ts";
import { printDiff } from "../wrap.ts";

export interface HeldOptions extends CommonOptions {
  deny?: string;
  yes?: boolean;
  details?: boolean;
}

/** Shows held changes with their complete diff, and applies or removes them. */
export async function approveHeld(io: Io, held: HeldChanges, options: HeldOptions): Promise<number> {
  if (options.details) return printDetails(io, held, options);
  const home = surroundingsFor(io, options).skilletHome;
  const isApproved = options.deny === undefined;
  const hiding = openHiding(allSecrets(new Map(), await discoverFor(io, options)));
  const effect = heldEffect(held, { hiding, where: shortPath(held.workspace, userHome(io.env)) });
  const isAsked = isApproved && !options.yes;
  const out = printer(io.stderr, io.env);
  const isShown = isAsked || !options.json ? showEffect(out, effect, userHome(io.env)) : true;
  const isRead = isShown || !isAsked || (await isReadInFull(io, out, effect));
  if (isAsked && !(isRead && (await isAgreed(io, "Apply this to the workspace?")))) throw undecided(io, held);
  if (isApproved) applyHeld(home, held);
  else discardHeld(home, held.id);
  if (options.json) printJson(io.stdout, { held: heldJson(held), isApproved });
  else if (isApproved) out.line`${out.green("✓")} applied: ${heldPaths(held.changes)}`;
  else out.line`${out.green("✓")} removed: ${held.id}`;
  return EXIT.fine;
}

/** Prints all of the held changes, with the files that a diff only counts, and decides nothing. */
function printDetails(io: Io, held: HeldChanges, { json }: HeldOptions): number {
  if (json) printJson(io.stdout, { held: heldJson(held) });
  const out = printer(io.stdout, io.env);
  for (const { path, change, diff, details } of json ? [] : held.changes) {
    out.line`${out.bold(path)} (${change})`;
    printDiff(out, [...diff.split("\n"), ...(details?.split("\n") ?? [])]);
  }
  return EXIT.fine;
}

function undecided(io: Io, { id }: HeldChanges): SkillError {
  if (io.ask) return new SkillError("not-agreed", { message: `Nothing was changed: ${id} is still held` });
  return new SkillError("not-agreed", {
    message: `Not approved, since this is not a terminal: ${id} is still held`,
    fix: `read the diff above, then run: skillet approve ${id} --yes`,
  });
}

/** Prints held changes for a list. */
export function printHeld(out: Printer, all: readonly HeldChanges[], home: string): void {
  for (const { id, workspace, skill, changes } of all) {
    const where = shortPath(workspace, home);
    out.line`${out.yellow("!")} held: ${out.bold(id)}  ${heldPaths(changes, 5)}  ${out.dim([where, skill].filter(Boolean).join(", "))}`;
  }
}

/** Held changes as `--json` gives them. */
export function heldJson({ id, workspace, at, skill, changes }: HeldChanges) {
  const shown = changes.map(({ path, change, group, diff, details, problem }) => ({
    ...{ path, change, group, diff },
    ...(details === undefined ? {} : { details }),
    ...(problem === undefined ? {} : { problem }),
  }));
  return { id, workspace, at, skill, changes: shown };
}
