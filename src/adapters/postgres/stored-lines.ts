import { SkillError } from "../../errors/problem.ts";
import { formatJournalLine, type JournalLine, type ParsedJournal, parseJournal } from "../../store/journal.ts";
import { isSealed, type Sealer } from "./database.ts";

/** The place of a sealed line in its run. A line opens in this place only, and the places of a journal have an order. */
interface LinePlace {
  kind: string;
  /** The owner of the lease, or `-` for a line of another process. */
  owner: string;
  /** The number of the line in the lease, or among the lines of other processes. */
  n: number;
}

/** The owner of the lines of processes without the lease. */
export const NO_OWNER = "-";

/** The start of a sealed line with its place. Lines from before version 8 of the tables are sealed without one. */
const PLACED = "sealed-2 ";
const PLACED_PATTERN = /^sealed-2 ([a-z]+) (\S+) (\d+) /;

/** True for a stored line that opens in its place only. */
export function isPlaced(stored: string): boolean {
  return stored.startsWith(PLACED);
}

/** Formats a line of a run as the database stores it. */
export function formatStoredLine(
  sealer: Sealer,
  run: string,
  line: JournalLine,
  { owner, n }: Omit<LinePlace, "kind">,
): string {
  const plain = formatJournalLine(line);
  if (!sealer.hasKey) return plain;
  const place = { kind: line.type, owner, n };
  return `${PLACED}${formatPlace(place)} ${sealer.seal(formatContext(run, place), plain.trimEnd())}\n`;
}

function formatPlace({ kind, owner, n }: LinePlace): string {
  return `${kind} ${owner} ${n}`;
}

function formatContext(run: string, place: LinePlace): string {
  return `line of ${run}: ${formatPlace(place)}`;
}

/** Checks the place of a line that was opened. Throws a SkillError. */
type PlaceCheck = (place: LinePlace | undefined, plain: string) => void;

/** Parses stored lines of a run. Throws a SkillError without the key of a sealed line, and for one that is not in its place. */
export function parseStoredLines(sealer: Sealer, run: string, stored: string, check: PlaceCheck): ParsedJournal {
  const opened = stored.split("\n").map((text) => {
    if (text === "") return text;
    const { plain, place } = openLine(sealer, run, text);
    check(place, plain);
    return plain;
  });
  return parseJournal(Buffer.from(opened.join("\n")));
}

function openLine(sealer: Sealer, run: string, text: string): { plain: string; place?: LinePlace } {
  if (!isPlaced(text)) return { plain: isSealed(text) ? sealer.unseal(run, text) : text };
  const [start = "", kind = "", owner = "", n = ""] = PLACED_PATTERN.exec(text) ?? [];
  const place = { kind, owner, n: Number(n) };
  const sealed = text.slice(start.length);
  if (!isSealed(sealed)) throw createAlteredError(run);
  return { plain: sealer.unseal(formatContext(run, place), sealed), place };
}

/** The order of the lines of a journal. */
export interface LineOrder {
  /** Checks the next line. */
  readonly check: PlaceCheck;
  /** Returns the place of the last line of an owner, which the first line of the next lease has to name. */
  getLast(): string;
}

/**
 * Creates the check of a whole journal, in its order. A line that was moved, repeated, or is missing before another one is found; the end of
 * a journal can be cut off.
 */
export function createLineOrder(run: string): LineOrder {
  const state = { isPlaced: false, others: 0, last: "", owner: "", next: 0 };
  const owners = new Set<string>();
  const require = (isRight: boolean) => {
    if (!isRight) throw createAlteredError(run);
  };
  return {
    getLast: () => state.last,
    check(place, plain) {
      // A plain line comes from before the key, or from before places: none follows a line with a place.
      require(place !== undefined || !state.isPlaced);
      if (!place) return;
      const { kind, owner, n } = place;
      state.isPlaced = true;
      if (owner === NO_OWNER) return require(n === state.others++);
      if (owner !== state.owner) {
        require(kind === "opened" && !owners.has(owner) && readAfter(plain) === state.last);
        owners.add(owner);
        state.owner = owner;
        state.next = 0;
      }
      require(n === state.next++);
      state.last = formatPlace(place);
    },
  };
}

/** Adds what the first line of a lease names: the last line of the lease before. */
export function addAfter(line: JournalLine, after: string): JournalLine {
  return line.type === "opened" ? ({ ...line, after } as JournalLine) : line;
}

function readAfter(plain: string): unknown {
  return JSON.parse(plain).after;
}

/** Creates the check of lines that are read without the others of their journal. `kind`: the only kind of line. */
export function createPlaceCheck(
  run: string,
  { isSealedRun, kind }: { isSealedRun: boolean; kind?: string },
): PlaceCheck {
  return (place) => {
    const isRight = place ? kind === undefined || place.kind === kind : !isSealedRun;
    if (!isRight) throw createAlteredError(run);
  };
}

/** Counts the lines with a place of processes without the lease. Contract: in a transaction that holds the row of the run. */
export const COUNT_OTHERS = `
select (starts_with(head, '${PLACED}'))::int
  + (select count(*) from skillet.lines where run = $1 and owner is null and starts_with(line, '${PLACED}')) as others
from skillet.runs where id = $1`;

function createAlteredError(run: string): SkillError {
  return new SkillError("engine-altered", {
    message: `The database has lines of run ${run} that were moved, removed or added since skillet wrote them`,
    fix: "find out who writes to the database, and restore it from a backup",
  });
}
