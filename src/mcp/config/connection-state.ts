import { SkillError } from "../../shared/error.ts";
import type { Entry } from "./clients.ts";
import {
  type ConnectionPlace,
  connectionFiles,
  hookPlaces,
  isOurEntry,
  quietly,
  type Records,
  rowOf,
} from "./connection-plan.ts";
import { isOurs, isTable } from "./entry.ts";
import { ourHandlers } from "./hook-merge.ts";
import { entryAt, languageOf } from "./merge.ts";
import { PLUGIN_MARK } from "./opencode-plugin.ts";
import { about, readClientFile } from "./write.ts";

/** The state of one part of a connection: what the client's files say. */
export interface ConnectionState {
  server: { file: string; entry: Entry | undefined; problem?: SkillError };
  hook: { file: string; handler: Entry | "plugin" | undefined; problem?: SkillError } | undefined;
}

/** Reads the server and the hook from the files of a client, and the problems of these files. */
export async function readConnection(options: ConnectionPlace, records: Records = {}): Promise<ConnectionState> {
  const { client, name } = options;
  const row = rowOf(client);
  const files = connectionFiles(options);
  const language = await languageOf(row.format);
  const server = reading(files.server, undefined as Entry | undefined, (text) => {
    const entry = entryAt(language.parse(text), [...row.servers(quietly(text, language)), name]);
    return entry && isOurEntry(entry, client, records[files.server]) ? entry : undefined;
  });
  const state = { server: { file: files.server, entry: server.value, ...problemIn(server) } };
  if (files.hook === undefined) return { ...state, hook: undefined };
  const [place] = hookPlaces(options);
  const hook = reading(files.hook, undefined as Entry | "plugin" | undefined, (text) => {
    if (!place) return text.startsWith(PLUGIN_MARK) ? "plugin" : undefined;
    return ourHandlers(text, place)[0]?.handler;
  });
  return { ...state, hook: { file: files.hook, handler: hook.value, ...problemIn(hook) } };
}

/** Returns the name under which a client has skillet's server; undefined if it has none. Files that cannot be read have none. */
export async function findServerName(options: Omit<ConnectionPlace, "name">): Promise<string | undefined> {
  const row = rowOf(options.client);
  const language = await languageOf(row.format);
  const { value } = reading(connectionFiles(options).server, undefined as string | undefined, (text) => {
    const servers = entryAt(language.parse(text), row.servers(quietly(text, language))) ?? {};
    return Object.entries(servers).find(([, entry]) => isTable(entry) && isOurs(entry, {}))?.[0];
  });
  return value;
}

function reading<T>(file: string, none: T, read: (text: string) => T): { value: T; problem?: SkillError } {
  try {
    const there = readClientFile(file);
    return { value: there ? about(file, () => read(there.text)) : none };
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    return { value: none, problem: error };
  }
}

function problemIn({ problem }: { problem?: SkillError }): { problem?: SkillError } {
  return problem ? { problem } : {};
}
