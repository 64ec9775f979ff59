import { describe, it } from "vitest";
import { createApprovalStore } from "../../src/store/approvals.ts";
import { createStatisticsStore, type UseRow } from "../../src/store/statistics.ts";
import type { ContractCase } from "../../src/testing/contract.ts";
import {
  createMemoryApprovalStore,
  createMemoryStatisticsStore,
  testApprovalStore,
  testStatisticsStore,
} from "../../src/testing/contract.ts";
import { temporaryFolder } from "../support/folder.ts";

/** The drivers of each store, which pass the same cases. */
const SUITES: Readonly<Record<string, ContractCase[]>> = {
  "approvals in files": testApprovalStore(() => {
    const home = temporaryFolder();
    return { open: () => createApprovalStore(home) };
  }),
  "approvals in memory": testApprovalStore(() => {
    const stored = new Map();
    return { open: () => createMemoryApprovalStore(stored) };
  }),
  "statistics in files": testStatisticsStore(() => {
    const home = temporaryFolder();
    return { open: () => createStatisticsStore(home) };
  }),
  "statistics in memory": testStatisticsStore(() => {
    const rows: UseRow[] = [];
    return { open: () => createMemoryStatisticsStore(rows) };
  }),
};

describe.each(Object.entries(SUITES))("a store of %s", (_, cases) => {
  it.each(cases)("$name", ({ run }) => run());
});
