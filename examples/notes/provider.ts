// The notes as a program that serves the capability notes.notes: one request on stdin, one answer on stdout.
import { homedir } from "node:os";
import { join } from "node:path";
import { serveProvider } from "skillet/provider";
import { notesProvider } from "./notes.ts";

process.removeAllListeners("warning"); // Node 22 warns at each start that SQLite is experimental.
const file = process.env["NOTES_FILE"] ?? join(homedir(), ".skillet", "notes.db");
await serveProvider(notesProvider(file), process);
