import type { AuditVerdict } from "../host/capabilities.ts";
import { count } from "../shared/text.ts";
import {
  type AuditHead,
  canonical,
  GENESIS,
  hashOf,
  lineFrom,
  type Snapshot,
  type WrittenLine,
} from "./audit-chain.ts";

/**
 * Whether every line is as it was written, follows the one before, and none is missing at the end. It is no proof against somebody who can
 * write both files, and cuts both: who wants that keeps the head elsewhere, and compares.
 */
export function verifyAudit({ lines, isThere, head }: Snapshot): AuditVerdict {
  let last: AuditHead = { seq: 0, hash: GENESIS };
  let whole = 0;
  let number = 0;
  const torn: number[] = [];
  const no = (line: number, message: string): AuditVerdict => ({ isWhole: false, lines: whole, line, message });
  for (const line of lines) {
    number = line.number;
    if (isTorn(line)) {
      torn.push(number);
      continue;
    }
    const problem = problemOf(line, last, head);
    if (problem !== undefined) return no(number, `line ${number} ${problem}`);
    const { seq, hash } = lineFrom(line.text ?? "") as AuditHead;
    last = { seq, hash };
    whole++;
  }
  const missing = endProblem(last, head, isThere);
  if (missing !== undefined) return no(number + 1, missing);
  return { isWhole: true, lines: whole, head: last.hash, ...(torn.length > 0 ? { torn } : {}) };
}

/**
 * The beginning of a line and no more: whoever wrote it was stopped. Nothing is known to have been lost by it, since the line before and the
 * line after are tied to each other; one that was whole before is missed by the next line, or by the head.
 */
function isTorn({ text }: WrittenLine): boolean {
  return text !== undefined && text !== "" && isBeginning(text) && !isJson(text);
}

/** Keys are in order: one of these is always the first. */
const BEGINNINGS = ["account", "approval", "at"].map((key) => `{"${key}":"`);

function isBeginning(text: string): boolean {
  return BEGINNINGS.some((beginning) => text.startsWith(beginning) || beginning.startsWith(text));
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function problemOf({ text }: WrittenLine, last: AuditHead, head: Snapshot["head"]): string | undefined {
  const line = text === undefined ? undefined : lineFrom(text);
  if (text === undefined || !line) return "is no line of this log: something else wrote it, or it was edited";
  if (hashOf(line) !== line.hash || canonical(line) !== text) return "was edited: its hash is not that of what it says";
  if (line.seq <= last.seq)
    return `is number ${line.seq} and stands after number ${last.seq}: it was repeated or moved`;
  if (line.seq > last.seq + 1) {
    const gone = line.seq - last.seq - 1;
    return `is number ${line.seq} and stands after number ${last.seq}: ${count(gone, "line")} before it ${gone === 1 ? "was" : "were"} removed or moved`;
  }
  if (line.prev !== last.hash) return `does not follow the line before it: one of the two was replaced`;
  if (typeof head === "object" && head.seq === line.seq && head.hash !== line.hash)
    return "is not the one that was written as the last: it was replaced";
  return undefined;
}

/** One line more than the head says is one whose writer was stopped in between. */
function endProblem(last: AuditHead, head: Snapshot["head"], isThere: boolean): string | undefined {
  if (head === "unreadable")
    return "audit.head cannot be read, so it is not known whether lines are missing at the end";
  if (head === undefined)
    return last.seq === 0 ? undefined : "audit.head is gone, so it is not known whether lines are missing at the end";
  if (!isThere) return `the log is gone, and it had ${count(head.seq, "line")}`;
  if (last.seq < head.seq) {
    const gone = head.seq - last.seq;
    return `${count(gone, "line")} at the end ${gone === 1 ? "is" : "are"} missing: the last was number ${head.seq}`;
  }
  if (last.seq > head.seq + 1) return `the last ${last.seq - head.seq} lines were added by something else than skillet`;
  return undefined;
}
