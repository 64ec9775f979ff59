import { tomlValue } from "../../host/config-edit.ts";
import { dotted, type Entry } from "../../host/config-file.ts";
import { isReference, resolved } from "../../host/reference.ts";
import { displayPath, type Surroundings } from "../../source/locations.ts";
import type { Printer } from "../io.ts";
import { GENERAL, usual } from "./config-defaults.ts";

/** A value as it is shown: one of a secret only when it was asked for. */
export interface Shown {
  key: string;
  value: unknown;
  from: "default" | Entry["owner"];
  file?: string;
  line?: number;
  /** What holds, in words, where that is no value. */
  says?: string;
  isSecret?: true;
  /** Something stands for the value. */
  isHidden?: true;
  /** What keeps a reference from standing for anything; null when it stands for something. */
  problem?: string | null;
}

export function shownEntry(entry: Entry, around: Surroundings, showSecrets: boolean): Shown {
  const { row, parts, value, owner, file, line } = entry;
  const place = { key: dotted(parts), from: owner, file, line };
  if (!row.isSecret) return { ...place, value };
  const shown = { ...place, isSecret: true } as const;
  if (isReference(value)) return { ...shown, value, problem: problemOf(String(value), around) };
  return showSecrets ? { ...shown, value } : { ...shown, value: maskOf(parts), isHidden: true };
}

/** What holds for all keys that nobody set. */
export function shownDefaults(entries: readonly Entry[]): Shown[] {
  const set = new Set(entries.map(({ row }) => row));
  return GENERAL.filter((row) => !set.has(row)).map((row) => {
    const { value = null, says } = usual(row);
    return { key: row.path, value, from: "default", ...(says === undefined ? {} : { says }) };
  });
}

/** With where it is written, indented below a title; alone, without. */
export function printValue(out: Printer, shown: Shown, around?: Surroundings): void {
  const { key, value, says, isHidden, problem, file, line } = shown;
  const text = value === null ? out.dim(says ?? "not set") : isHidden ? String(value) : tomlValue(value);
  const state = problem === undefined ? "" : problem === null ? out.green("  resolves") : out.red(`  ${problem}`);
  const place = around && file !== undefined ? `  ${displayPath(file, around)}:${line}` : "";
  out.line`${around ? "  " : ""}${key} = ${text}${state}${out.dim(place)}`;
}

/** As it is shown wherever else it turns up. */
function maskOf(parts: readonly string[]): string {
  return parts[0] === "skills" ? `[${parts.at(-1)}]` : "(set)";
}

function problemOf(value: string, { skilletHome, env }: Surroundings): string | null {
  let problem: string | null = null;
  try {
    resolved(value, { home: skilletHome, env }, (why) => {
      problem = why;
      throw new Error(why);
    });
  } catch (error) {
    problem ??= String(error);
  }
  return problem;
}
