/** Contract suites for drivers of stores, and drivers that keep everything in memory. */

export {
  type AuditStorage,
  createMemoryAudit,
  createMemoryVault,
  type MemoryAudit,
  type MemoryVault,
  testAudit,
  testVault,
} from "./capability-stores.ts";
export type { ContractCase, ContractStorage, CreateStorage } from "./contract.ts";
export {
  createMemoryApprovalStore,
  createMemoryStatisticsStore,
  testApprovalStore,
  testStatisticsStore,
} from "./contract.ts";
export { createMemoryRunStore, type MemoryRun } from "./run-store.ts";
export { type RunStorage, testRunStore } from "./run-store-cases.ts";
