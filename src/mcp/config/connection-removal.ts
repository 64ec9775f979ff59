import { statementsOf } from "../../host/toml-lines.ts";
import { SkillError } from "../../shared/error.ts";
import { stringsIn } from "../../skill/data.ts";
import type { Entry } from "./clients.ts";
import {
  type ConnectionPlace,
  checkProjectFiles,
  connectionFiles,
  defaultMode,
  editedPlugin,
  type FileChange,
  hookPlaces,
  isOurEntry,
  isPluginAsWritten,
  quietly,
  type Records,
  rowOf,
} from "./connection-plan.ts";
import { type ConnectionRecord, digestOf } from "./connection-record.ts";
import { isTable } from "./entry.ts";
import { PROMPT_HOOKS } from "./hook-config.ts";
import { ourHandlers, removeHook } from "./hook-merge.ts";
import { removeInJsonc } from "./jsonc.ts";
import { entryAt, JSON_LANGUAGE, type Language, languageOf } from "./merge.ts";
import { PLUGIN_MARK } from "./opencode-plugin.ts";
import { spanBetween, undoSpans } from "./text-span.ts";
import { about, readClientFile } from "./write.ts";

/**
 * Plans what disconnects a client. A file that is as `connect` left it is restored to the byte; in another one, skillet's entries are removed
 * with the objects that were created for them, and nothing else.
 */
export async function planRemoval(options: ConnectionPlace, records: Records): Promise<FileChange[]> {
  const { client, scope } = options;
  checkProjectFiles(options);
  const language = await languageOf(rowOf(client).format);
  const removals = removalsOf(options, language, records);
  const files = [...new Set(removals.map(({ file }) => file))];
  return files
    .flatMap((file): FileChange[] => {
      const there = readClientFile(file);
      const record = records[file];
      if (!there) return [];
      const { text, mark, mode } = there;
      const rest = record?.clients.filter((one) => one !== client) ?? [];
      const common = { file, before: text, mark, mode };
      // Another client reads the same file, and is connected by it.
      if (record && rest.length > 0)
        return [{ ...common, after: text, spans: [], hidden: [], record: { ...record, clients: rest } }];
      const ours = removals.filter((one) => one.file === file);
      return about(file, () => {
        const isConnected = (written: string) => ours.some(({ has }) => has(written));
        if (!isConnected(text))
          return record ? [{ ...common, after: text, spans: [], hidden: [], record: undefined }] : [];
        const hidden = ours.flatMap((one) => one.hidden(text));
        const restored = restoredFrom(mark, text, record);
        const isRestored = restored !== undefined && (restored === null || !isConnected(restored));
        const after = isRestored ? (restored ?? undefined) : removedFrom(text, ours, record);
        const span = spanBetween(text, after ?? "");
        return [{ ...common, after, spans: span ? [span] : [], hidden, record: undefined }];
      });
    })
    .map((change) => ({ ...change, mode: change.mode || defaultMode(scope) }));
}

/** One part to remove from a file: the server or the hook. */
interface Removal {
  file: string;
  has(text: string): boolean;
  remove(text: string): string;
  hidden(text: string): string[];
  language: Language | undefined;
  isOwnFile: boolean;
}

function removalsOf(options: ConnectionPlace, language: Language, records: Records): Removal[] {
  const { client, name } = options;
  const row = rowOf(client);
  const files = connectionFiles(options);
  const found = (text: string) => {
    const path = [...row.servers(quietly(text, language)), name];
    const entry = entryAt(language.parse(text), path);
    return entry && isOurEntry(entry, client, records[files.server]) ? { path, entry } : undefined;
  };
  const removals: Removal[] = [
    {
      file: files.server,
      has: (text) => found(text) !== undefined,
      remove(text) {
        const there = found(text);
        if (!there) return text;
        return row.format === "toml"
          ? removeTable(text, there.path, there.entry, language)
          : removeInJsonc(text, there.path);
      },
      hidden(text) {
        const usual = new Set(["type", "command", "args", "tools", "url"]);
        const added = Object.entries(found(text)?.entry ?? {}).filter(([key]) => !usual.has(key));
        return added.flatMap(([, value]) => [
          ...stringsIn(Object(value) === value ? Object.values(Object(value)) : [value]),
        ]);
      },
      language,
      isOwnFile: false,
    },
  ];
  const hook = PROMPT_HOOKS[client];
  if (!hook || files.hook === undefined) return removals;
  const places = hookPlaces(options);
  const [place] = places;
  if (!place || "plugin" in hook) {
    const record = records[files.hook];
    const has = (text: string) => text.startsWith(PLUGIN_MARK);
    const remove = (text: string) => {
      if ("plugin" in hook && !isPluginAsWritten(text, hook, record)) throw editedPlugin();
      return "";
    };
    return [...removals, { file: files.hook, has, remove, hidden: () => [], language: undefined, isOwnFile: true }];
  }
  const has = (text: string) => places.some((one) => ourHandlers(text, one).length > 0);
  const remove = (text: string) => places.reduce(removeHook, text);
  const isOwnFile = place.hook.isOwnFile === true;
  return [...removals, { file: files.hook, has, remove, hidden: () => [], language: JSON_LANGUAGE, isOwnFile }];
}

/** The text before `connect`, to the byte; null: there was no file; undefined: it was changed since, or nothing is recorded. */
function restoredFrom(mark: string, text: string, record: ConnectionRecord | undefined): string | null | undefined {
  if (!record || record.after !== digestOf(mark + text)) return undefined;
  if (record.before === null) return null;
  const restored = undoSpans(text, record.undo);
  return digestOf(mark + restored) === record.before ? restored : undefined;
}

function removedFrom(
  text: string,
  removals: readonly Removal[],
  record: ConnectionRecord | undefined,
): string | undefined {
  let next = text;
  let isOwnFile = record?.isCreated === true;
  for (const { has, remove, language, isOwnFile: isOwn } of removals) {
    if (has(next)) next = remove(next);
    if (language === JSON_LANGUAGE) next = prune(next, record?.made ?? (isOwn ? [["hooks"], ["version"]] : []), isOwn);
    isOwnFile ||= isOwn;
  }
  return isOwnFile && /^\s*(?:\{\s*\})?\s*$/.test(next) ? undefined : next;
}

/** Removes objects and lists that `connect` created and that are empty now; the version of a file that has no hooks any more. */
function prune(text: string, made: readonly (readonly string[])[], isOwnFile: boolean): string {
  let next = text;
  const events = isOwnFile
    ? Object.keys(Object(quietly(text, JSON_LANGUAGE)?.["hooks"])).map((name) => ["hooks", name])
    : [];
  for (const path of [...made, ...events].toSorted((a, b) => b.length - a.length)) {
    const document = quietly(next, JSON_LANGUAGE) ?? {};
    const value = path.reduce<unknown>(
      (here, name) => (isTable(here) && Object.hasOwn(here, name) ? here[name] : undefined),
      document,
    );
    const isEmpty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
    if (isEmpty) next = removeInJsonc(next, path);
  }
  const document = quietly(next, JSON_LANGUAGE) ?? {};
  const isVersionOurs = made.some((path) => path.length === 1 && path[0] === "version");
  const hasHooks = Object.keys(Object(document["hooks"])).length > 0;
  return isVersionOurs && !hasHooks && Object.hasOwn(document, "version") ? removeInJsonc(next, ["version"]) : next;
}

/** All of a table: Codex refuses its whole file over a server without a command. */
function removeTable(text: string, path: readonly string[], entry: Entry, language: Language): string {
  const removed = language.edit(text, path, { before: entry, after: {} });
  const isBelow = (parts: readonly string[]) => path.every((name, at) => parts[at] === name);
  const next = removed === undefined ? undefined : withoutHeads(removed, isBelow);
  const left = next === undefined ? undefined : quietly(next, language);
  if (next === undefined || left === undefined || entryAt(left, path) !== undefined) {
    throw new SkillError("config-edit", {
      message: `writes ${path.join(".")} in a way that only a person can change`,
      fix: "remove it by hand: nothing was written",
    });
  }
  return next;
}

/** Without the heads of tables that hold nothing any more; comments below them stay. */
function withoutHeads(text: string, isBelow: (parts: readonly string[]) => boolean): string {
  const heads = statementsOf(text).filter(({ isTable: isHead, parts }) => isHead && isBelow(parts));
  return heads.reduceRight((written, { start, end }) => {
    const line = written.indexOf("\n", end);
    return written.slice(0, start) + written.slice(line === -1 ? written.length : line + 1);
  }, text);
}
