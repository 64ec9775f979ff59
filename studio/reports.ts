// The values of the routes in src/cli/studio-routes.ts: what the command line prints with `--json`.
import type { HeldChange } from "../src/agent/workspace/held-changes.ts";
import type { toApproveJson } from "../src/cli/commands/approve.ts";
import type { toDoctorJson } from "../src/cli/commands/doctor.ts";
import type { explainSkill, toExplainJson } from "../src/cli/commands/explain.ts";
import type { collectClientFacts } from "../src/cli/commands/explain-client.ts";
import type { collectExportedCopies } from "../src/cli/commands/export-manage.ts";
import type { toListJson } from "../src/cli/commands/list.ts";
import type { toRunListJson } from "../src/cli/commands/runs.ts";
import type { toSafetyJson } from "../src/cli/commands/sandbox-views.ts";
import type { countSkillTokens, toShowJson, toSkillFileJson } from "../src/cli/commands/show.ts";
import type { toStatsJson } from "../src/cli/commands/stats.ts";
import type { EvalReport } from "../src/eval/eval-report.ts";
import type { ClientView } from "../src/remote/clients/native-clients.ts";

export interface StudioReport {
  skillet: string;
  workspace: string;
  home: string;
  isReadOnly: boolean;
}

export type SkillsReport = Extract<Awaited<ReturnType<typeof toListJson>>, { shadowed: unknown }>;
export type ListedSkillRow = SkillsReport["skills"][number];
export type SkillTokens = Awaited<ReturnType<typeof countSkillTokens>>;
export interface TokensReport {
  tokens: Record<string, SkillTokens>;
}
export type SkillReport = Awaited<ReturnType<typeof toShowJson>> & {
  exports: Awaited<ReturnType<typeof collectExportedCopies>>["installed"];
};
export type SkillFileReport = Awaited<ReturnType<typeof toSkillFileJson>>;
export interface ClientsReport {
  clients: ClientView[];
}
export type ExplainReport = ReturnType<typeof toExplainJson>;
export interface TiersReport {
  tiers: Pick<ExplainReport, "tier" | "tokens" | "prefix" | "suffix">[];
}
export type SkillExplanation = ReturnType<typeof explainSkill>;
export type ClientReport = Awaited<ReturnType<typeof collectClientFacts>>;
export type RunsReport = ReturnType<typeof toRunListJson>;
export type { RunReport } from "../src/store/run-timeline.ts";
export type ApprovalsReport = Awaited<ReturnType<typeof toApproveJson>> & { digests: Record<string, string> };
export type HeldReport = ApprovalsReport["held"][number];
export type HeldChangeReport = Pick<HeldChange, "path" | "change" | "diff">;
export interface EvalsReport {
  reports: EvalReport[];
}
export type StatsReport = ReturnType<typeof toStatsJson>;
export type DoctorReport = ReturnType<typeof toDoctorJson>;
export type SandboxReport = Awaited<ReturnType<typeof toSafetyJson>>;
