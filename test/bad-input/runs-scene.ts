import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Host } from "../../src/config/host.ts";
import { DEFAULT_SETTINGS, type McpSettings } from "../../src/config/settings.ts";
import { type Model, NO_USAGE } from "../../src/host/model-contract.ts";
import { formatJournalLine, type JournalLine } from "../../src/store/journal.ts";
import { temporaryFolder } from "../support/folder.ts";

export const AT = "2026-01-02T03:04:05.000Z";
export const GOOD = "20260102-030405-00000001";
export const ODD = "20260102-030405-00000002";

/** A header line, and a request. */
export function createStartLines(id: string, more: object = {}): object[] {
  const head = { type: "run", version: 1, id, kind: "use", skill: "mailer", task: "Send it", at: AT, ...more };
  return [head, { type: "request", at: AT, request: { skill: "mailer", message: "Send it" } }];
}

/** Lines as an attacker writes them who can compute the checksum. */
export function forgeJournal(...lines: readonly object[]): string {
  return lines.map((line) => formatJournalLine(line as JournalLine)).join("");
}

/** A home with a valid run and these. */
export function homeWith(journals: Readonly<Record<string, string>>): { home: string; runs: string } {
  const home = temporaryFolder();
  const runs = join(home, ".skillet/runs");
  mkdirSync(runs, { recursive: true });
  for (const [id, text] of Object.entries({ [GOOD]: forgeJournal(...createStartLines(GOOD)), ...journals }))
    writeFileSync(join(runs, `${id}.jsonl`), text);
  return { home, runs };
}

export const TOKEN = "hunter2-of-the-server";

/** A host with one server, which misbehaves in this way. */
export function serverHost(kind: string, more: Partial<McpSettings> = {}): Host & { home: string; log: string } {
  const home = temporaryFolder();
  const log = join(home, "log.txt");
  const command = [process.execPath, join(import.meta.dirname, "runs-server.ts"), kind];
  const env = new Map([
    ["TOKEN", TOKEN],
    ["MCP_LOG", log],
  ]);
  const settings = { ...(more.url === undefined ? { command } : {}), env, ...more };
  return { home, log, env: {}, settings: { ...DEFAULT_SETTINGS, mcp: new Map([["web", settings as McpSettings]]) } };
}

/** A model that makes these calls, and then ends, however often it is asked. */
export function caller(...calls: readonly { tool: string; input?: unknown }[]): Model {
  return {
    name: "test/caller",
    async respond({ messages }) {
      if (messages.at(-1)?.role === "tool") return { text: "end", calls: [], usage: NO_USAGE, finish: "stop" };
      const made = calls.map(({ tool, input = {} }, index) => ({ id: String(index), tool, input }));
      return { text: "", calls: made, usage: NO_USAGE, finish: "calls" };
    },
  };
}
