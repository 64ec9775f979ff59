import { join } from "node:path";
import { type ApprovalRequest, type ApprovalSubject, getApprovalKey } from "../host/approval.ts";
import type { ToolOwner } from "../skill/tool.ts";
import { isJsonObject } from "../util/objects.ts";
import { createJsonStore } from "./json-store.ts";

/** The permanent approvals of the user: tools of one copy of a skill, and its changes in a workspace. */
export interface ApprovalStore {
  isAlwaysApproved(request: ApprovalSubject): Promise<boolean>;
  /** Throws a SkillError when the approval cannot be recorded. */
  add(request: ApprovalSubject): Promise<void>;
  list(): Promise<ListedApprovals[]>;
  /**
   * Revokes all approvals for skills of this name, or for the one at a path. Contract: returns the number of copies.
   */
  forget(skill: string, location?: string): Promise<number>;
  /** Returns the reason why no approval counts: the record cannot be read. */
  problem(): Promise<string | undefined>;
}

/** The permanent approvals of one copy of a skill. */
export interface ListedApprovals {
  skill: string;
  source: string;
  location: string;
  allowed: readonly string[];
}

interface StoredApproval extends ToolOwner {
  allowed: string[];
}

export function createApprovalStore(skilletHome: string): ApprovalStore {
  const ledger = createJsonStore({
    file: join(skilletHome, "approvals.json"),
    isEntry: isStoredApproval,
    unreadable: {
      code: "approvals-unreadable",
      fix: "fix the file, or remove it: then skillet asks for each approval again",
    },
  });
  return {
    isAlwaysApproved: async (request) =>
      !request.isOnce && (ledger.entries()[getOwnerKey(request)]?.allowed.includes(getApprovalKey(request)) ?? false),
    add: async (request) =>
      ledger.update((entries) => {
        if (request.isOnce) return;
        const { skill, source, location } = request;
        const known = entries[getOwnerKey(request)] ?? { name: skill, source, location, allowed: [] };
        if (!known.allowed.includes(getApprovalKey(request))) known.allowed.push(getApprovalKey(request));
        entries[getOwnerKey(request)] = known;
      }),
    list: async () =>
      Object.values(ledger.entries()).map(({ name, source, location, allowed }) => ({
        skill: name,
        source,
        location,
        allowed,
      })),
    async forget(skill, location) {
      const isSelected = (one: StoredApproval | undefined) =>
        one?.name === skill && (location === undefined || one.location === location);
      // An unreadable record may have them: the update reports it.
      if (ledger.problem() === undefined && !Object.values(ledger.entries()).some(isSelected)) return 0;
      return ledger.update((entries) => {
        const keys = Object.keys(entries).filter((key) => isSelected(entries[key]));
        for (const key of keys) delete entries[key];
        return keys.length;
      });
    },
    problem: async () => {
      const problem = ledger.problem();
      return problem === undefined ? undefined : `${ledger.file} cannot be read: ${problem}`;
    },
  };
}

function getOwnerKey({ skill, source, location }: Pick<ApprovalRequest, "skill" | "source" | "location">): string {
  return location === "" ? `${skill}@${source}` : `${skill}@${location}`;
}

function isStoredApproval(entry: unknown): entry is StoredApproval {
  if (!isJsonObject(entry) || !Array.isArray(entry["allowed"])) return false;
  return (
    ["name", "source", "location"].every((key) => typeof entry[key] === "string") &&
    entry["allowed"].every((item) => typeof item === "string")
  );
}
