/** Contract suites for drivers of stores, and drivers that keep everything in memory. */

export type { ContractCase, ContractStorage, CreateStorage } from "./contract.ts";
export {
  createMemoryApprovalStore,
  createMemoryStatisticsStore,
  testApprovalStore,
  testStatisticsStore,
} from "./contract.ts";
export {
  type AuditStorage,
  createMemoryAudit,
  createMemoryRunStore,
  createMemoryVault,
  type MemoryAudit,
  type MemoryRun,
  type MemoryVault,
  testAudit,
  testVault,
} from "./memory-stores.ts";
export { type RunStorage, testRunStore } from "./run-store-cases.ts";
