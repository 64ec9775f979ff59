import { existsSync, lstatSync } from "node:fs";
import { dirname } from "node:path";
import { SkillError } from "../../shared/error.ts";
import { isInside, realPlace } from "../../shared/inside.ts";
import { CLIENTS, type Client, type Entry, type Place, type Scope, type Server } from "./clients.ts";
import { type ConnectionRecord, digestOf } from "./connection-record.ts";
import { isCalling, isOurs, isTable } from "./entry.ts";
import { type HookKind, type HookProgram, isOurHandler, type PluginHook, PROMPT_HOOKS } from "./hook-config.ts";
import { type HookPlace, mergeHook } from "./hook-merge.ts";
import { JSON_LANGUAGE, type Language, languageOf, mergeSnippet } from "./merge.ts";
import { PLUGIN_MARK } from "./opencode-plugin.ts";
import { spanBetween, type TextSpan, undoOf } from "./text-span.ts";
import { about, readClientFile } from "./write.ts";

/** A client, where its files are, and the name that it knows the server by. */
export interface ConnectionPlace {
  client: string;
  scope: Scope;
  place: Place;
  name: string;
}

export interface ConnectionOptions extends ConnectionPlace {
  server: Server;
  /** Keys of the server's entry besides those of every client, such as Codex's approval mode. */
  more?: Entry;
  program: HookProgram;
  /** Undefined: no hook. */
  hook: HookKind | undefined;
}

/** A planned change of one file. */
export interface FileChange {
  file: string;
  /** The text before and after; undefined if there is no file. Without the byte order mark. */
  before: string | undefined;
  after: string | undefined;
  mark: string;
  mode: number;
  spans: readonly TextSpan[];
  /** The new record of the file; undefined: it is deleted. */
  record: ConnectionRecord | undefined;
  /** Values of keys that the user added to an entry: they may be secrets, and are not shown. */
  hidden: readonly string[];
}

export type Records = Readonly<Record<string, ConnectionRecord>>;

/** Returns the file with the server's entry, and the one with the hook, if the client has one. */
export function connectionFiles({ client, scope, place }: Omit<ConnectionPlace, "name">): {
  server: string;
  hook: string | undefined;
} {
  return { server: rowOf(client)[scope](place), hook: PROMPT_HOOKS[client]?.file(scope, place) };
}

/** Plans what connects a client: one change per file, none for a file that is as it should be. Throws a SkillError when one cannot be changed. */
export async function planConnection(options: ConnectionOptions, records: Records): Promise<FileChange[]> {
  const { client, scope, hook: kind, name, program } = options;
  const files = connectionFiles(options);
  checkProjectFiles(options);
  const row = rowOf(client);
  const language = await languageOf(row.format);
  const steps: Step[] = [
    {
      file: files.server,
      edit(text) {
        const path = [...row.servers(quietly(text, language)), name];
        const entry = { ...row.entry(options.server), ...options.more };
        const { text: next } = mergeSnippet(text, { format: row.format, path, entry }, row, language);
        return next;
      },
      makes: (text) => [row.servers(quietly(text, language))],
    },
  ];
  const hook = PROMPT_HOOKS[client];
  if (hook && kind !== undefined && files.hook !== undefined) {
    const target = { server: name, program, kind };
    if ("plugin" in hook) {
      const wanted = hook.plugin(target);
      const record = records[files.hook];
      steps.push({
        file: files.hook,
        edit(text) {
          if (text !== "" && !text.startsWith(PLUGIN_MARK)) throw anotherPlugin();
          if (text !== "" && !isPluginAsWritten(text, hook, record)) throw editedPlugin();
          return wanted;
        },
        makes: () => [],
      });
    } else {
      for (const place of hookPlaces(options)) {
        const { event, version } = place.hook;
        const makes = [["hooks"], ["hooks", event], ...(version === undefined ? [] : [["version"]])];
        steps.push({
          file: files.hook,
          edit: (text) => mergeHook(text, place.hook.handler(target), place),
          makes: () => makes,
        });
      }
    }
  }
  return changesOf(steps, { client, scope, records });
}

/** Throws a SkillError when a file of the project leads out of it. */
export function checkProjectFiles(options: Omit<ConnectionPlace, "name">): void {
  if (options.scope !== "project") return;
  for (const file of Object.values(connectionFiles(options))) checkInProject(file, options.place);
}

/** The author of a project may have made its file a symlink to one of the user's own. A link without a target leads nowhere that can be checked. */
function checkInProject(file: string | undefined, { workspace }: Place): void {
  if (file === undefined) return;
  const real = realPlace(file);
  const isDangling = lstatSync(real, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  if (!isDangling && isInside(realPlace(workspace), real)) return;
  throw new SkillError("unwritable", {
    message: `${file} is a symlink that leaves the project`,
    fix: "put a file in its place, or connect without --project",
  });
}

export function rowOf(client: string): Client {
  const row = Object.hasOwn(CLIENTS, client) ? CLIENTS[client] : undefined;
  if (row) return row;
  throw new SkillError("usage", {
    message: `Unknown client "${client}"`,
    fix: `Supported clients: ${Object.keys(CLIENTS).join(", ")}`,
  });
}

/** A server on another machine is skillet's if `connect` wrote its address. */
export function isOurEntry(entry: Entry, client: string, record: ConnectionRecord | undefined): boolean {
  return isOurs(entry, {}) || (isCalling(entry) && record?.clients.includes(client) === true);
}

/** Returns the events of a client's JSON file that have a handler of skillet, the prompt first; none for a plugin. */
export function hookPlaces({ client, name }: Pick<ConnectionPlace, "client" | "name">): HookPlace[] {
  const hook = PROMPT_HOOKS[client];
  if (!hook || "plugin" in hook) return [];
  const hooks = [hook, ...(hook.summary ? [{ ...hook, ...hook.summary }] : [])];
  return hooks.map((one) => ({ hook: one, isOurs: (handler) => isOurHandler(handler, client, name) }));
}

/** One edit of a file. */
interface Step {
  file: string;
  edit(text: string): string;
  /** Paths of the objects that it creates where they are missing. */
  makes(text: string): readonly (readonly string[])[];
}

function changesOf(
  steps: readonly Step[],
  { client, scope, records }: { client: string; scope: Scope; records: Records },
): FileChange[] {
  const files = [...new Set(steps.map(({ file }) => file))];
  return files.flatMap((file): FileChange[] => {
    const there = readClientFile(file);
    const known = records[file];
    const { text, mark, mode } = there ?? { text: "", mark: "", mode: defaultMode(scope) };
    let next = text;
    const spans: TextSpan[] = [];
    const made: string[][] = [];
    for (const step of steps.filter((one) => one.file === file)) {
      const before = next;
      next = about(file, () => step.edit(before));
      const span = spanBetween(before, next);
      if (!span) continue;
      spans.push(span);
      made.push(
        ...step
          .makes(before)
          .filter((path) => !isThere(before, path))
          .map((path) => [...path]),
      );
    }
    const clients = [...new Set([...(known?.clients ?? []), client])];
    const change = { file, before: there?.text, after: next, mark, mode, spans, hidden: [] };
    if (spans.length === 0) {
      // An entry that `connect` did not write has no record.
      if (!known || known.clients.includes(client)) return [];
      return [{ ...change, record: { ...known, clients } }];
    }
    const before = there ? digestOf(mark + text) : null;
    const isSame = known !== undefined && known.after === before;
    const record: ConnectionRecord = {
      clients,
      before: isSame ? known.before : before,
      after: digestOf(mark + next),
      undo: [...(isSame ? known.undo : []), ...spans.map(undoOf)],
      isCreated: there === undefined || known?.isCreated === true,
      made: unique([...(known?.made ?? []), ...made]),
      folders: [...new Set([...(known?.folders ?? []), ...missingFolders(file)])],
    };
    return [{ ...change, record }];
  });
}

function unique(paths: readonly string[][]): string[][] {
  return [...new Map(paths.map((path) => [JSON.stringify(path), path])).values()];
}

/** Whether a JSON text has something at this path. TOML needs no such record: no table is left when its last key goes. */
function isThere(text: string, path: readonly string[]): boolean {
  let here: unknown = quietly(text, JSON_LANGUAGE) ?? {};
  for (const name of path) {
    if (!isTable(here) || !Object.hasOwn(here, name)) return false;
    here = here[name];
  }
  return true;
}

export function quietly(text: string, language: Language): Record<string, unknown> | undefined {
  try {
    return language.parse(text);
  } catch (error) {
    if (error instanceof SkillError) return undefined;
    throw error;
  }
}

function missingFolders(file: string): string[] {
  const missing: string[] = [];
  for (let folder = dirname(file); !existsSync(folder) && folder !== dirname(folder); folder = dirname(folder))
    missing.unshift(folder);
  return missing;
}

export function defaultMode(scope: Scope): number {
  return scope === "user" ? 0o600 : 0o644;
}

/** Whether a plugin is as `connect` wrote it: now or, by the record, in another version. */
export function isPluginAsWritten(text: string, hook: PluginHook, record: ConnectionRecord | undefined): boolean {
  const rest = (written: string) => written.replace(PROGRAM_LINE, "");
  const usual = hook.plugin({ server: "", program: { command: "", args: [] }, kind: "command" });
  return rest(text) === rest(usual) || record?.after === digestOf(text);
}

const PROGRAM_LINE = /^const \[PROGRAM, .*$/m;

export function editedPlugin(): SkillError {
  return new SkillError("another-hook", {
    message: "was edited by hand",
    fix: "delete it yourself, or save your changes in another file: nothing was written",
  });
}

function anotherPlugin(): SkillError {
  return new SkillError("another-hook", {
    message: "was not written by skillet",
    fix: "rename it, or connect with --no-hook: nothing was written",
  });
}
