import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";
import { createAuditLog } from "../../src/capabilities/audit-log.ts";
import { createVault } from "../../src/capabilities/credential-vault.ts";
import { createApprovalStore } from "../../src/store/approvals.ts";
import { createRunStore } from "../../src/store/runs.ts";
import { createStatisticsStore, type UseRow } from "../../src/store/statistics.ts";
import type { ContractCase } from "../../src/testing/contract.ts";
import {
  createMemoryApprovalStore,
  createMemoryStatisticsStore,
  testApprovalStore,
  testStatisticsStore,
} from "../../src/testing/contract.ts";
import {
  createMemoryAudit,
  createMemoryRunStore,
  createMemoryVault,
  type MemoryAudit,
  type MemoryRun,
  type MemoryVault,
  testAudit,
  testVault,
} from "../../src/testing/memory-stores.ts";
import { testRunStore } from "../../src/testing/run-store-cases.ts";
import { temporaryFolder } from "../support/folder.ts";

/** The drivers of each store, which pass the same cases. */
const SUITES: Readonly<Record<string, ContractCase[]>> = {
  "audit lines in files": testAudit(() => {
    const home = temporaryFolder();
    const file = join(home, "audit.jsonl");
    return {
      open: () => createAuditLog(home),
      edit(change) {
        const lines = readFileSync(file, "utf8").trimEnd().split("\n");
        writeFileSync(
          file,
          change(lines)
            .map((line) => `${line}\n`)
            .join(""),
        );
      },
    };
  }),
  "audit lines in memory": testAudit(() => {
    const stored: MemoryAudit = { lines: [] };
    return {
      open: () => createMemoryAudit(stored),
      edit(change) {
        stored.lines = [...change(stored.lines)];
      },
    };
  }),
  "credentials in files": testVault(() => {
    const home = temporaryFolder();
    return { open: () => createVault(home, { env: {} }) };
  }),
  "credentials in memory": testVault(() => {
    const stored: MemoryVault = { credentials: [], pending: new Map() };
    return { open: () => createMemoryVault(stored) };
  }),
  "approvals in files": testApprovalStore(() => {
    const home = temporaryFolder();
    return { open: () => createApprovalStore(home) };
  }),
  "approvals in memory": testApprovalStore(() => {
    const stored = new Map();
    return { open: () => createMemoryApprovalStore(stored) };
  }),
  "runs in files": testRunStore(() => {
    const home = temporaryFolder();
    return {
      open: () => createRunStore(home),
      expireLease: (id) => {
        // The pid of this process belongs to another one now.
        const owner = join(home, "runs", `${id}.owner`);
        writeFileSync(owner, JSON.stringify({ ...JSON.parse(readFileSync(owner, "utf8")), start: "0" }));
      },
    };
  }),
  "runs in memory": testRunStore(() => {
    const stored = new Map<string, MemoryRun>();
    return {
      open: () => createMemoryRunStore(stored),
      expireLease: (id) => {
        const run = stored.get(id);
        if (run?.lease) run.lease.expiresAt = 0;
      },
    };
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
