import { join } from "node:path";
import { defined } from "../shared/defined.ts";
import { isData } from "../skill/data.ts";
import type { Skill } from "../skill/skill.ts";
import { isShipped } from "../source/shipped.ts";
import { openLedger } from "./ledger.ts";
import { type Locks, openLocks } from "./lock/locks.ts";
import { placeOf } from "./trust.ts";

/** One copy of a skill: the source it is from, and its folder or file there. */
export interface Owner {
  source: string;
  place: string;
  /** Where it was added from, for one that was: another that is put into its place is another copy. */
  from?: string;
}

/**
 * Which copy of a skill its values were given to: that of one source is not that of another. They are given when they are set, if there is one
 * copy, or when the user chooses; never by being used.
 */
export interface Grants {
  /** The copy that has them; nothing while none does. */
  ownerOf(name: string): Owner | undefined;
  /** Whether this copy is that one. */
  isOwner(skill: Skill, owner: Owner): boolean;
  /** Gives them to this copy from now on. Throws a SkillError when it cannot be written down. */
  grant(skill: Skill): void;
  /** Gives them to this copy while none has them, and says which has them now. Throws a SkillError as `grant` does. */
  claim(skill: Skill): Owner;
  /** Why nobody is given anything: what was written down cannot be read. */
  problem(): string | undefined;
}

/** What was written down when values were set, or given. */
export function openGrants(skilletHome: string, locks: Locks = openLocks(skilletHome)): Grants {
  const ownerFrom = (skill: Skill) => ownerOf(skill, locks);
  const ledger = openLedger({
    file: join(skilletHome, "grants.json"),
    isEntry: isGrant,
    unreadable: {
      code: "grants-unreadable",
      fix: "fix it, or remove it: then the next run of each skill with values asks which copy gets them",
    },
  });
  return {
    ownerOf: (name) => ledger.entries()[name],
    isOwner: (skill, owner) => {
      const { source, place, from } = ownerFrom(skill);
      return place === owner.place && from === owner.from && (place !== "" || source === owner.source);
    },
    grant: (skill) =>
      ledger.change((skills) => {
        skills[skill.name] = { ...ownerFrom(skill), at: new Date().toISOString() };
      }),
    claim: (skill) =>
      ledger.change((skills) => {
        const owner = skills[skill.name] ?? { ...ownerFrom(skill), at: new Date().toISOString() };
        skills[skill.name] = owner;
        return owner;
      }),
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined ? undefined : `${ledger.file} cannot be read: ${problem}`;
    },
  };
}

/**
 * Whether a copy is given values only by the user. What comes with this package, or with the program that embeds it, is not: that program
 * reads the configuration itself.
 */
export function needsGrant({ origin: { scope, folder, file = "" } }: Skill): boolean {
  if (scope === "bundled") return !isShipped(folder ?? file);
  return scope !== "integration" && scope !== "inline";
}

/** Skills in code have no place but their source, and what comes with this package is the same wherever that is put. */
function ownerOf(skill: Skill, locks: Locks): Owner {
  const { scope, source } = skill.origin;
  const place = placeOf(skill);
  const from = locks.sourceOf(skill);
  return { source, place: scope === "bundled" && isShipped(place) ? "" : place, ...defined({ from }) };
}

interface Grant extends Owner {
  at: string;
}

function isGrant(entry: unknown): entry is Grant {
  if (!isData(entry) || !["source", "place", "at"].every((key) => typeof entry[key] === "string")) return false;
  return entry["from"] === undefined || typeof entry["from"] === "string";
}
