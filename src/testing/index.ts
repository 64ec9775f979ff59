/** Contract suites for drivers of stores, and drivers that keep everything in memory. */
export { createMemoryApprovalStore, testApprovalStore } from "./approval-store.ts";
export type { ContractCase, ContractStorage, CreateStorage } from "./contract.ts";
export { createMemoryStatisticsStore, testStatisticsStore } from "./statistics-store.ts";
