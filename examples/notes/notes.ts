// A notes system on SQLite, as a capability provider. provider.ts runs it as a program.
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { type CapabilityProvider, defineProvider, SkillError } from "skillet/provider";
import { z } from "zod";

const Id = z.object({ id: z.number().int().min(1) });
const Note = z.object({ id: z.number(), title: z.string(), text: z.string() });

export function notesProvider(file: string): CapabilityProvider {
  const { one, all, once } = openNotes(file);
  const there = (note: object | undefined, id: number) => {
    if (note) return note;
    throw new SkillError("not-found", { message: `There is no note ${id}`, fix: "call list for the existing notes" });
  };
  return defineProvider({
    namespace: "notes",
    capabilities: {
      notes: {
        description: "Notes of the user, each with a title and a text.",
        operations: {
          list: {
            description: "Lists notes, the newest first: all, or those that contain a text.",
            input: z.object({ query: z.string().optional(), limit: z.number().int().min(1).max(100).default(20) }),
            output: z.object({ notes: z.array(Note.omit({ text: true })) }),
            execute: ({ query = "", limit }) => ({ notes: all(LIST, query, limit) }),
          },
          get: {
            description: "Returns one note with its text.",
            input: Id,
            output: Note,
            execute: ({ id }) => there(one(GET, id), id),
          },
          add: {
            description: "Adds a note.",
            input: z.object({ title: z.string().min(1).max(200), text: z.string().max(20_000) }),
            output: Note,
            mutating: true,
            isReversible: true, // by remove
            execute: ({ title, text }, { key }) => once(key, () => one(ADD, title, text)),
          },
          remove: {
            description: "Removes a note permanently, and returns it.",
            input: Id,
            output: Note,
            mutating: true,
            isReversible: false,
            execute: ({ id }, { key }) => once(key, () => there(one(REMOVE, id), id)),
          },
        },
      },
    },
  });
}

const LIST = "SELECT id, title FROM notes WHERE instr(lower(title || ' ' || text), lower(?)) ORDER BY id DESC LIMIT ?";
const GET = "SELECT id, title, text FROM notes WHERE id = ?";
const ADD = "INSERT INTO notes (title, text) VALUES (?, ?) RETURNING id, title, text";
const REMOVE = "DELETE FROM notes WHERE id = ? RETURNING id, title, text";

function openNotes(file: string) {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
  const database = new DatabaseSync(file, { timeout: 5000 });
  database.exec(`CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT, text TEXT);
    CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, answer TEXT)`);
  const one = (sql: string, ...values: (string | number)[]) => database.prepare(sql).get(...values);
  const all = (sql: string, ...values: (string | number)[]) => database.prepare(sql).all(...values);
  // After a crash the same call may be repeated: it returns the first answer.
  const once = (key: string, work: () => unknown) => {
    database.exec("BEGIN IMMEDIATE");
    try {
      const answer = String(one("SELECT answer FROM calls WHERE key = ?", key)?.["answer"] ?? JSON.stringify(work()));
      database.prepare("INSERT OR IGNORE INTO calls (key, answer) VALUES (?, ?)").run(key, answer);
      database.exec("COMMIT");
      return JSON.parse(answer);
    } catch (error) {
      database.exec("ROLLBACK");
      throw error;
    }
  };
  return { one, all, once };
}
