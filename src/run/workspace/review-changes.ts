import type { Effect } from "../../host/approvals.ts";
import type { Host } from "../../host/host.ts";
import type { Notice } from "../../host/sandbox.ts";
import { placeOf } from "../../host/trust.ts";
import { shownPath } from "../../policy/shown-path.ts";
import type { Hiding } from "../../shared/redact.ts";
import { count } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { emit } from "../loop-options.ts";
import { asNotice } from "../notice.ts";
import type { Port } from "../port.ts";
import { completeInput } from "../shown.ts";
import { applyHeld, type HeldChanges, heldPaths } from "./held-changes.ts";

/** Asks for the approval of held changes. Contract: resolves; false where nobody can be asked now. */
export type ReviewChanges = (held: HeldChanges) => Promise<boolean>;

export interface ReviewContext {
  run: string;
  skill: Skill;
  host: Host;
  port: Port;
  hiding: Hiding;
  signal: AbortSignal;
}

/** Asks whoever approves for the host, with the complete diff. No approval that was given before covers it. */
export function createReview({ run, skill, host, port, hiding, signal }: ReviewContext): ReviewChanges {
  return async (held) => {
    if (signal.aborted) return false;
    const about = { run, source: skill.origin.source, place: placeOf(skill) };
    const effect = heldEffect(held, { ...about, hiding, where: shownPath(held.workspace, host) });
    const at = { step: 0, tool: effect.tool };
    const whose = { run, skill: skill.name };
    const approval = await port.ask({
      effect,
      signal,
      hide: (text) => hiding.text(text),
      onAsked: () => emit(port, whose, { type: "approval-asked", ...at, effect }),
      onGiven: (given) => emit(port, whose, { type: "approval-given", ...at, ...given }),
    });
    return approval?.isApproved === true;
  };
}

/** Returns the approval request for held changes: their complete diff is its input. */
export function heldEffect(
  { skill, changes }: HeldChanges,
  { hiding, where, ...about }: { hiding: Hiding; where: string } & Partial<Pick<Effect, "run" | "source" | "place">>,
): Effect {
  const diffs = Object.fromEntries(changes.map(({ path, change, diff }) => [`${path} (${change})`, diff]));
  return {
    ...{ run: "", skill, source: "", place: "", ...about },
    tool: "workspace",
    on: "workspace",
    input: completeInput(diffs, hiding),
    what: hiding.text(`change sensitive paths: ${heldPaths(changes)}`),
    where: hiding.text(where),
    amount: count(changes.length, "path"),
    reason: "other programs obey these paths without being started for them",
    isOnce: true,
  };
}

/** Applies held changes that are approved. Returns what has to be said of the others. */
export async function settleHeld(
  home: string,
  held: HeldChanges,
  { review, isRecovered = false }: { review?: ReviewChanges | undefined; isRecovered?: boolean },
): Promise<Notice[]> {
  const isWhole = held.changes.every(({ problem }) => problem === undefined);
  if (!isWhole || !(await review?.(held))) return [heldNotice(held, isRecovered)];
  try {
    applyHeld(home, held);
    return [];
  } catch (error) {
    return [asNotice(error)];
  }
}

function heldNotice({ id, changes }: HeldChanges, isRecovered: boolean): Notice {
  const who = isRecovered ? "A run that was killed" : "The code";
  const left = changes.flatMap(({ path, problem }) => (problem === undefined ? [] : [`${path}: ${problem}`]));
  const unsettled = left.length === 0 ? "" : `. Not put back: ${left.join("; ")}`;
  return {
    code: "workspace-protected",
    message: `${who} changed what other programs obey: ${heldPaths(changes)}. Held as ${id}${unsettled}`,
    fix: `\`skillet approve ${id}\` shows the complete diff and applies it; \`skillet approve ${id} --deny\` removes it`,
    diff: changes.map((one) => `${one.path} (${one.change})\n${one.diff}`).join("\n"),
  };
}
