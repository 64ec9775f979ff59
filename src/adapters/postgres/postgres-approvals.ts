import { SkillError } from "../../errors/problem.ts";
import { type ApprovalSubject, getApprovalKey } from "../../host/approval.ts";
import type { ApprovalStore } from "../../store/approvals.ts";
import type { Database } from "./database.ts";

/** Whose permanent approvals a store has. Those of one tenant or person never count for another. */
export interface ApprovalOwner {
  tenant?: string | undefined;
  person?: string | undefined;
}

/**
 * Creates the permanent approvals in Postgres. Several machines share them. They are bound to the digest of a skill, since its folder differs
 * between machines, and are read at each decision, so that a revocation counts everywhere at once. Without a scope, the approvals are those
 * of the operator, who also lists and revokes those of all tenants.
 */
export function createPostgresApprovalStore(database: Database, scope?: ApprovalOwner): ApprovalStore {
  const { tenant = "", person = "" } = scope ?? {};
  const inScope = scope ? "tenant = $1 and person = $2" : "$1::text is not null and $2::text is not null";
  return {
    async isAlwaysApproved(request) {
      const copy = getCopyKey(request);
      if (request.isOnce || copy === undefined) return false;
      const rows = await database.query({
        name: "skillet-is-approved",
        text: `select 1 from skillet.approvals
          where tenant = $1 and person = $2 and skill = $3 and copy = $4 and allowed = $5`,
        values: [tenant, person, request.skill, copy, getApprovalKey(request)],
      });
      return rows.length > 0;
    },
    async add(request) {
      if (request.isOnce) return;
      const { skill, source, location } = request;
      const copy = getCopyKey(request);
      if (copy === undefined) throw createUnboundError(skill);
      await database.query({
        text: `insert into skillet.approvals (tenant, person, skill, copy, source, location, allowed)
          values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing`,
        values: [tenant, person, skill, copy, source, location, getApprovalKey(request)],
      });
    },
    async list() {
      const rows = await database.query({
        text: `select skill, (array_agg(source order by seq))[1] as source, (array_agg(location order by seq))[1] as location,
            array_agg(allowed order by seq) as allowed
          from skillet.approvals where ${inScope} group by tenant, person, skill, copy order by min(seq)`,
        values: [tenant, person],
      });
      return rows.map(({ skill, source, location, allowed }) => ({
        ...{ skill: String(skill), source: String(source), location: String(location) },
        allowed: allowed as string[],
      }));
    },
    async forget(skill, location) {
      const [row] = await database.query({
        text: `with gone as (
            delete from skillet.approvals where ${inScope} and skill = $3 and ($4::text is null or location = $4)
            returning tenant, person, copy
          ) select count(distinct (tenant, person, copy)) as copies from gone`,
        values: [tenant, person, skill, location ?? null],
      });
      return Number(row?.["copies"]);
    },
    problem: async () => undefined,
  };
}

/** Returns what identifies the copy of a skill on every machine; undefined if its digest is unknown. */
function getCopyKey({ digest, location, source }: ApprovalSubject): string | undefined {
  return digest ?? (location === "" ? `source ${source}` : undefined);
}

function createUnboundError(skill: string): SkillError {
  return new SkillError("not-approved", {
    message: `The digest of skill '${skill}' is unknown, so its approval cannot be shared by several machines`,
    fix: "approve it for the run",
  });
}
