import { existsSync } from "node:fs";
import { hashNumber } from "../shared/hash.ts";
import { type ExpectedFolder, readInside } from "../shared/inside.ts";
import { isData } from "../skill/data.ts";

/** A query with the answer whether the skill is for it. */
export interface TriggerQuery {
  query: string;
  shouldTrigger: boolean;
  /** Training queries are indexed as examples; held-out ones only measure. */
  isHeldOut: boolean;
}

export const TRIGGER_QUERIES = "evals/triggers.json";

/** The queries beside a skill, or nothing when there are none. What is wrong with the file is said, and the rest of it read. */
export function readTriggerQueries(
  folder: string,
  expected?: ExpectedFolder,
): { queries: TriggerQuery[]; problem?: string } | undefined {
  if (!existsSync(`${folder}/${TRIGGER_QUERIES}`)) return undefined;
  const read = readInside(folder, TRIGGER_QUERIES, LARGEST, expected);
  if ("code" in read) return { queries: [], problem: read.message };
  let entries: unknown;
  try {
    entries = JSON.parse(read.bytes.toString("utf8").replace(/^\ufeff/, ""));
  } catch {
    return { queries: [], problem: "is not valid JSON" };
  }
  if (!Array.isArray(entries)) return { queries: [], problem: "is not a list" };
  const queries = entries.flatMap((entry) => {
    if (!isData(entry)) return [];
    const { query, should_trigger: shouldTrigger, split } = entry;
    if (typeof query !== "string" || query.trim() === "" || typeof shouldTrigger !== "boolean") return [];
    return { query, shouldTrigger, isHeldOut: typeof split === "string" ? split !== "train" : isHeldOut(query) };
  });
  const odd = entries.length - queries.length;
  if (odd === 0) return { queries };
  return {
    queries,
    problem: `has ${odd} of ${entries.length} entries without a "query" and a "should_trigger" of true or false`,
  };
}

export function trainingExamples(queries: readonly TriggerQuery[]): string[] {
  return queries.filter(({ isHeldOut, shouldTrigger }) => shouldTrigger && !isHeldOut).map(({ query }) => query);
}

const LARGEST = 1024 * 1024;

// By the query itself: adding one to the file moves no other to the other side.
function isHeldOut(query: string): boolean {
  return hashNumber(query) % 10 >= 6;
}
