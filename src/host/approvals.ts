import { join } from "node:path";
import { isData } from "../skill/data.ts";
import type { ToolEffect, ToolOwner } from "../skill/tool.ts";
import { openLedger } from "./ledger.ts";

/** What a call would do, for whoever is to agree to it. No value of a secret is in it. */
export interface Effect {
  run: string;
  /** The skill that asks: the one whose tool it is, or that is followed. Empty in a conversation with tools of nobody. */
  skill: string;
  source: string;
  /** Its folder or file; empty for one in code. */
  place: string;
  tool: string;
  input: unknown;
  /** `other`: what it changes is not known, and the skill did not say that it would do it. */
  on: ToolEffect["on"] | "other";
  what: string;
  where?: string;
  amount?: string;
  isReversible?: boolean;
  /** Why somebody has to agree. */
  reason: string;
  /** Where the text came from that it is given, where others wrote it: a line each. */
  from?: readonly string[];
  /** No word that was given before covers it, and none on it covers another. */
  isOnce?: true;
}

/** How far somebody's word reaches: this call, this run, or this skill for ever. */
const SCOPES_OF_WORD = ["once", "run", "always"] as const;
export type WordScope = (typeof SCOPES_OF_WORD)[number];

export interface Approval {
  isApproved: boolean;
  /** `once`, when left out. */
  scope?: WordScope;
  /** Why not, for the model. */
  reason?: string;
}

/** A word as it was given, by whomever: only `true` is a yes, and what is no scope is this call alone. */
export function asApproval(given: unknown, hide: (text: string) => string = (text) => text): Approval {
  const { isApproved, scope, reason } = Object(given) as Partial<Record<keyof Approval, unknown>>;
  const known = SCOPES_OF_WORD.find((one) => one === scope);
  return {
    isApproved: isApproved === true,
    ...(known === undefined ? {} : { scope: known }),
    ...(reason === undefined ? {} : { reason: hide(String(reason)).slice(0, LONGEST_REASON) }),
  };
}

const LONGEST_REASON = 500;

/** Whether a word holds for more than one call: who lets files of the workspace be changed is asked once a run. */
export function isForRun({ on, isOnce }: Pick<Effect, "on" | "isOnce">, { isApproved, scope }: Approval): boolean {
  return isApproved && !isOnce && (on === "workspace" || scope === "run" || scope === "always");
}

/**
 * Asks for an approval. Resolves with `undefined` where it cannot be asked for here: a run then waits in its journal, as without a callback.
 * Contract: resolves. Ends with the signal.
 */
export type Approve = (effect: Effect, options: { signal: AbortSignal }) => Promise<Approval | undefined>;

/** What of an effect is agreed to. */
export type Agreeable = Pick<Effect, "skill" | "source" | "place" | "tool" | "on" | "where" | "isOnce">;

/** What the user agreed to once and for all: tools of one copy of a skill, and its changes in a workspace. */
export interface Approvals {
  isAlways(effect: Agreeable): boolean;
  /** Throws a SkillError when it cannot be written down. */
  add(effect: Agreeable): void;
  list(): { skill: string; source: string; place: string; allowed: readonly string[] }[];
  /** Takes back all that was agreed to for skills of this name, or for the one at a place. Contract: how many copies it was. */
  forget(skill: string, place?: string): number;
  /** Why nothing is agreed to: what was written down cannot be read. */
  problem(): string | undefined;
}

interface Agreed extends ToolOwner {
  allowed: string[];
}

export function openApprovals(skilletHome: string): Approvals {
  const ledger = openLedger({
    file: join(skilletHome, "approvals.json"),
    isEntry: isAgreed,
    unreadable: { code: "approvals-unreadable", fix: "mend it, or remove it to start anew: then you are asked again" },
  });
  return {
    isAlways: (effect) =>
      !effect.isOnce && (ledger.entries()[keyOf(effect)]?.allowed.includes(wordOf(effect)) ?? false),
    add: (effect) =>
      ledger.change((entries) => {
        if (effect.isOnce) return;
        const { skill, source, place } = effect;
        const known = entries[keyOf(effect)] ?? { name: skill, source, place, allowed: [] };
        if (!known.allowed.includes(wordOf(effect))) known.allowed.push(wordOf(effect));
        entries[keyOf(effect)] = known;
      }),
    list: () =>
      Object.values(ledger.entries()).map(({ name, source, place, allowed }) => ({
        skill: name,
        source,
        place,
        allowed,
      })),
    forget(skill, place) {
      const isMeant = (one: Agreed | undefined) => one?.name === skill && (place === undefined || one.place === place);
      if (!Object.values(ledger.entries()).some(isMeant)) return 0;
      return ledger.change((entries) => {
        const keys = Object.keys(entries).filter((key) => isMeant(entries[key]));
        for (const key of keys) delete entries[key];
        return keys.length;
      });
    },
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined ? undefined : `${ledger.file} cannot be read: ${problem}`;
    },
  };
}

/** Changes in one workspace are one thing, whichever tool makes them. What is agreed to once is like nothing else. */
export function wordOf({ tool, on, where = "", isOnce }: Pick<Effect, "tool" | "on" | "where" | "isOnce">): string {
  if (isOnce) return `once:${tool}`;
  return on === "workspace" ? `workspace:${where}` : `tool:${tool}`;
}

function keyOf({ skill, source, place }: Pick<Effect, "skill" | "source" | "place">): string {
  return place === "" ? `${skill}@${source}` : `${skill}@${place}`;
}

function isAgreed(entry: unknown): entry is Agreed {
  if (!isData(entry) || !Array.isArray(entry["allowed"])) return false;
  return (
    ["name", "source", "place"].every((key) => typeof entry[key] === "string") &&
    entry["allowed"].every((item) => typeof item === "string")
  );
}
