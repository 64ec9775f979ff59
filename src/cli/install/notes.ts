import type { Step } from "../../install/plan.ts";

/** What is to be said of the copies for one client. */
export interface Said {
  /** Of one skill alone, by its name. */
  own: ReadonlyMap<string, readonly string[]>;
  /** Of several: once, with their names. */
  shared: readonly string[];
  /** The client of which the rest was said already. */
  asOf?: string;
}

type Noted = Pick<Step, "name" | "notes">;

/** What is the same for many skills is said once, and what was said of another client is not said again: `before` remembers both. */
export function notesOf(steps: readonly Noted[], title: string, before: Map<string, string>): Said {
  const byNote = new Map<string, string[]>();
  for (const { name, notes } of steps) for (const note of notes) byNote.set(note, [...(byNote.get(note) ?? []), name]);
  const own = new Map<string, string[]>();
  const shared: string[] = [];
  let asOf: string | undefined;
  for (const [note, names] of byNote) {
    const key = JSON.stringify([note.replaceAll(title, ""), names]);
    const [name = ""] = names;
    const other = before.get(key);
    if (other !== undefined) asOf = other;
    else if (names.length > 1) shared.push(`${listed(names)}: ${note}`);
    else own.set(name, [...(own.get(name) ?? []), note]);
    if (other === undefined) before.set(key, title);
  }
  return { own, shared, ...(asOf === undefined ? {} : { asOf }) };
}

const MOST_NAMES = 6;

function listed(names: readonly string[]): string {
  const rest = names.length - MOST_NAMES;
  return rest > 1 ? `${names.slice(0, MOST_NAMES).join(", ")} and ${rest} more` : names.join(", ");
}
