import { nearest } from "../shared/text.ts";
import { KEYS, type Key } from "./keys.ts";
import { unquoted } from "./toml-lines.ts";

const ROWS = KEYS.map((row) => ({ row, wanted: row.path.split(".") }));

/** The row that a key belongs to. */
export function rowOf(parts: readonly string[]): Key | undefined {
  return ROWS.find(({ wanted }) => fits(wanted, parts))?.row;
}

/** Whether keys stand below this one. */
export function isTableKey(parts: readonly string[]): boolean {
  const isAbove = (wanted: readonly string[]) =>
    parts.length < wanted.length && parts.every((part, index) => fitsPart(wanted[index] ?? "", part));
  return parts.length > 0 && rowOf(parts) === undefined && ROWS.some(({ wanted }) => isAbove(wanted));
}

function fits(wanted: readonly string[], parts: readonly string[]): boolean {
  return (
    wanted.length === parts.length &&
    wanted.every((part, index) => fitsPart(part, parts[index] ?? "")) &&
    !(wanted[1] === "*" && RESERVED.has(`${parts[0]}.${parts[1]}`))
  );
}

/** What is written where a name stands, and is none. */
const RESERVED = new Set(["skills.defaults"]);

function fitsPart(wanted: string, part: string): boolean {
  if (wanted === "*") return true;
  return wanted === "UPPER_CASE" ? UPPER_CASE.test(part) : wanted === part;
}

export const UPPER_CASE = /^[A-Z_][A-Z0-9_]*$/;

/** The parts of a key as a person writes it. A name with dots in it needs no quotes where what stands around it is known. */
export function keyParts(written: string): string[] {
  const parts = (written.match(/"(?:[^"\\]|\\.)*"|'[^']*'|[^.]+/g) ?? []).map(unquoted);
  if (rowOf(parts)) return parts;
  for (const { wanted } of ROWS) {
    const star = wanted.indexOf("*");
    const extra = parts.length - wanted.length;
    if (star === -1 || extra <= 0) continue;
    const joined = [
      ...parts.slice(0, star),
      parts.slice(star, star + extra + 1).join("."),
      ...parts.slice(star + extra + 1),
    ];
    if (fits(wanted, joined)) return joined;
  }
  return parts;
}

/** The known key that differs from this one in one part only, and there only a little. */
export function nearestKey(parts: readonly string[]): string[] | undefined {
  for (const [index, part] of parts.entries()) {
    const candidates = ROWS.flatMap(({ wanted }) => {
      const isBelow = wanted.every((other, at) => at >= index || fitsPart(other, parts[at] ?? ""));
      return isBelow ? (wanted[index] ?? []) : [];
    });
    if (candidates.some((wanted) => fitsPart(wanted, part))) continue;
    const meant = nearest(part, new Set(candidates));
    return meant === undefined ? undefined : [...parts.slice(0, index), meant, ...parts.slice(index + 1)];
  }
  return undefined;
}
