import { existsSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { RunEvent, SkillEvent, Stop } from "./events.ts";
import { openStatisticsFile, unusable } from "./statistics-file.ts";
import { skillsIn, totalIn } from "./statistics-queries.ts";

/** What was used, how often, and what came of it. Several programs may write at once. */
export interface Statistics {
  /** Takes note of what ended, was refused or was loaded. Contract: never throws; what cannot be written down is lost. */
  take(event: SkillEvent): void;
  /** The skills that were used or loaded, the last one first; at most so many. Empty when nothing is known. */
  recent(most: number): readonly string[];
  /** The skills that were used or loaded most often, at most so many; those used alike by name. Empty when nothing is known. */
  mostUsed?(most: number): readonly string[];
  /** Takes note that a run which waited ended so after all. Contract: never throws. */
  settle(run: string, stop: Stop): void;
  /** One row a skill, by name; with `since`, only what happened from then on. Throws a SkillError when it cannot be read. */
  perSkill(options?: { since?: Date }): readonly SkillStatistics[];
  /** Of all skills together: what a run within a run took is in that one, and counted once. Throws like `perSkill`. */
  total(options?: { since?: Date }): Total;
}

export type Total = Pick<SkillStatistics, "runs" | "loads" | "refused" | "inputTokens" | "outputTokens" | "cost">;

export interface SkillStatistics {
  skill: string;
  /** Where the copies that were used came from. */
  sources: readonly string[];
  runs: number;
  loads: number;
  refused: number;
  /** How runs ended, by `stop`. */
  outcomes: Readonly<Record<string, number>>;
  /** Of those that ended: half, and all but a twentieth, took at most so long, with all that they used. */
  p50Ms?: number;
  p95Ms?: number;
  iterations: number;
  /** With those of the runs within them. */
  inputTokens: number;
  outputTokens: number;
  /** In US dollars, where prices are known. */
  cost?: number;
  /** When it was last used or loaded, as ISO 8601 writes it. */
  lastUse?: string;
}

/** What is written down in skillet's own folder. Nothing is opened before there is something to write or to read. */
export function openStatistics(skilletHome: string): Statistics {
  const file = join(skilletHome, "statistics.db");
  const begun = new Map<string, Begun>();
  let opened: Opened | undefined;
  let restUntil = 0;
  const waiting: Row[] = [];
  let retry: NodeJS.Timeout | undefined;
  const open = (waitMs = LONGEST_WAIT_MS): Opened => {
    opened ??= prepared(openStatisticsFile(file, waitMs));
    return opened;
  };
  // Another process may hold the file: then it is tried again for some seconds, and nobody is held up meanwhile.
  const write = (tries = 0): void => {
    retry = undefined;
    try {
      for (let note = waiting[0]; note; note = waiting[0]) {
        open(tries === 0 ? LONGEST_WAIT_MS : SHORT_WAIT_MS).insert.run(note);
        waiting.shift();
      }
    } catch (error) {
      if (errcodeOf(error) === BUSY && tries < MOST_TRIES) retry = setTimeout(write, AGAIN_MS, tries + 1);
      else {
        waiting.length = 0;
        restUntil = performance.now() + REST_MS;
      }
    }
  };
  const read = <T>(nothing: T, work: (opened: Opened) => T): T => {
    if (!opened && !existsSync(file)) return nothing;
    try {
      return work(open());
    } catch (error) {
      throw unusable(file, error);
    }
  };
  return {
    take(event) {
      try {
        if (event.type === "run-started") remember(begun, event);
        const note = noteOf(event, begun);
        if (event.type === "run-ended") begun.delete(event.run);
        if (!note || performance.now() < restUntil || waiting.length >= MOST_WAITING) return;
        waiting.push(note);
        if (!retry) write();
      } catch {
        restUntil = performance.now() + REST_MS;
      }
    },
    settle(run, stop) {
      try {
        read(undefined, ({ database }) => {
          database.prepare("UPDATE uses SET stop = ? WHERE run = ? AND stop = 'waiting'").run(stop, run);
          return undefined;
        });
      } catch {} // It is counted as it was.
    },
    recent(most) {
      if (performance.now() < restUntil) return [];
      try {
        return read([], ({ last }) => firstOf(last, most));
      } catch {
        return [];
      }
    },
    mostUsed(most) {
      if (performance.now() < restUntil) return [];
      try {
        return read([], ({ database }) =>
          database
            .prepare(MOST_USED)
            .all(most)
            .map((row) => String(row["skill"])),
        );
      } catch {
        return [];
      }
    },
    perSkill: ({ since } = {}) => read([], ({ database }) => skillsIn(database, since?.getTime() ?? 0)),
    total: ({ since } = {}) => read(NOTHING, ({ database }) => totalIn(database, since?.getTime() ?? 0)),
  };
}

/** What cannot be used is left alone for so long. */
const REST_MS = 60_000;
/** What SQLite said, where it was SQLite. */
function errcodeOf(error: unknown): number | undefined {
  const { errcode, cause } = Object(error) as { errcode?: number; cause?: { errcode?: number } };
  return errcode ?? cause?.errcode;
}

/** What SQLite says of a file that another holds. */
const BUSY = 5;
const LONGEST_WAIT_MS = 2000;
const SHORT_WAIT_MS = 50;
const AGAIN_MS = 250;
const MOST_TRIES = 20;
const MOST_WAITING = 1000;
const NOTHING: Total = { runs: 0, loads: 0, refused: 0, inputTokens: 0, outputTokens: 0 };

/** What only the beginning of a run says. */
type Begun = Pick<Started, "source" | "model" | "depth">;
type Started = Extract<RunEvent, { type: "run-started" }>;

/** Of runs that never end nothing is to be kept for ever. */
const MOST_BEGUN = 1000;

function remember(begun: Map<string, Begun>, { run, source, model, depth }: Started): void {
  begun.set(run, { model, depth, ...(source === undefined ? {} : { source }) });
  const [oldest] = begun.keys();
  if (begun.size > MOST_BEGUN && oldest !== undefined) begun.delete(oldest);
}

type Row = Record<string, string | number | null>;

/** What is written down of an event; nothing of most. A conversation is no skill, and neither is a name that nothing has. */
function noteOf(event: SkillEvent, begun: ReadonlyMap<string, Begun>): Row | undefined {
  if (event.type === "skill-loaded") {
    return { ...BLANK, at: Date.now(), kind: "loaded", skill: event.skill, source: event.source };
  }
  if ((event.type !== "run-ended" && event.type !== "run-refused") || event.skill === "") return undefined;
  const { run, skill } = event;
  const { source = null, model = null, depth = null } = begun.get(run) ?? BLANK;
  const row = { ...BLANK, at: Date.parse(event.at) || Date.now(), skill, run, source, model, depth };
  if (event.type === "run-refused") {
    return event.refusals.some(({ code }) => code === "not-found") ? undefined : { ...row, kind: "refused" };
  }
  const { stop, iterations, ms, usage, cost = null } = event;
  const { inputTokens, outputTokens } = usage;
  const tokens = { inputTokens: whole(inputTokens), outputTokens: whole(outputTokens) };
  return { ...row, kind: "run", stop, iterations: whole(iterations), ms: whole(ms), ...tokens, cost };
}

/** What a model says that it used may be any number, and one that cannot be written down should not cost what comes after it. */
function whole(number: number): number {
  return Number.isFinite(number) ? Math.min(Math.max(0, Math.round(number)), Number.MAX_SAFE_INTEGER) : 0;
}

const BLANK = {
  source: null,
  model: null,
  run: null,
  depth: null,
  stop: null,
  iterations: 0,
  ms: 0,
  inputTokens: 0,
  outputTokens: 0,
  cost: null,
};

interface Opened {
  database: DatabaseSync;
  insert: StatementSync;
  last: StatementSync;
}

function prepared(database: DatabaseSync): Opened {
  return { database, insert: database.prepare(INSERT), last: database.prepare(LAST) };
}

// A run that waited and was gone on with is said to end twice, and by then nobody may know how it began.
const INSERT = `
  INSERT INTO uses (at, kind, skill, source, model, run, depth, stop, iterations, ms, input_tokens, output_tokens, cost)
  VALUES ($at, $kind, $skill, $source, $model, $run, $depth, $stop, $iterations, $ms, $inputTokens, $outputTokens, $cost)
  ON CONFLICT (run) DO UPDATE SET
    at = excluded.at, kind = excluded.kind, source = coalesce(excluded.source, source),
    model = coalesce(excluded.model, model), depth = coalesce(excluded.depth, depth), stop = excluded.stop,
    iterations = excluded.iterations, ms = excluded.ms, input_tokens = excluded.input_tokens,
    output_tokens = excluded.output_tokens, cost = excluded.cost
  WHERE excluded.kind = 'run'`;

/** How far back what is recent is looked for. */
const MOST_LOOKED_AT = 2000;
const LAST = `SELECT skill FROM uses WHERE kind <> 'refused' ORDER BY at DESC, id DESC LIMIT ${MOST_LOOKED_AT}`;
const MOST_USED = `SELECT skill FROM (${LAST}) GROUP BY skill ORDER BY count(*) DESC, skill LIMIT ?`;

function firstOf(last: StatementSync, most: number): string[] {
  const names = new Set<string>();
  for (const { skill } of last.iterate() as Iterable<Row>) {
    if (names.size >= most) break;
    names.add(String(skill));
  }
  return [...names];
}
