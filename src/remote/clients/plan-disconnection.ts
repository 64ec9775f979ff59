import { parseTomlStatements } from "../../config/config-file.ts";
import { SkillError } from "../../errors/problem.ts";
import { collectStrings } from "../../util/objects.ts";
import { type ConnectionRecord, digestConfigText, findTextSpan, undoSpans } from "./apply-connection.ts";
import { removeJsoncValue } from "./jsonc.ts";
import { type ClientConfigEntry, isTable } from "./mcp-clients.ts";
import {
  type ConfigLanguage,
  getConfigEntry,
  JSON_LANGUAGE,
  loadConfigLanguage,
  nameFileInErrors,
  readClientConfig,
} from "./mcp-config.ts";
import {
  type ConfigFileChange,
  type ConnectionRecords,
  type ConnectionTarget,
  createEditedPluginError,
  getConnectionFiles,
  getDefaultMode,
  getMcpClient,
  isSkilletEntry,
  isUnmodifiedPlugin,
  listHookLocations,
  requireProjectFiles,
  tryParseConfig,
} from "./plan-connection.ts";
import { findSkilletHandlers, PLUGIN_MARK, PROMPT_HOOKS, removePromptHook } from "./prompt-hook-config.ts";

/**
 * Plans the changes that disconnect a client. A file that is as `connect` left it is restored byte for byte; from
 * another one, only skillet's entries and the objects created for them are removed.
 */
export async function planDisconnection(
  options: ConnectionTarget,
  records: ConnectionRecords,
): Promise<ConfigFileChange[]> {
  const { client, scope } = options;
  requireProjectFiles(options);
  const language = await loadConfigLanguage(getMcpClient(client).format);
  const removals = listRemovals(options, language, records);
  const files = [...new Set(removals.map(({ file }) => file))];
  return files
    .flatMap((file): ConfigFileChange[] => {
      const there = readClientConfig(file);
      const record = records[file];
      if (!there) return [];
      const { text, mark, mode } = there;
      const rest = record?.clients.filter((one) => one !== client) ?? [];
      const common = { file, before: text, mark, mode };
      // Another client reads the same file, and stays connected.
      if (record && rest.length > 0)
        return [{ ...common, after: text, spans: [], hidden: [], record: { ...record, clients: rest } }];
      const ours = removals.filter((one) => one.file === file);
      return nameFileInErrors(file, () => {
        const isConnected = (written: string) => ours.some(({ has }) => has(written));
        if (!isConnected(text))
          return record ? [{ ...common, after: text, spans: [], hidden: [], record: undefined }] : [];
        const hidden = ours.flatMap((one) => one.hidden(text));
        const restored = restoreText(mark, text, record);
        const isRestored = restored !== undefined && (restored === null || !isConnected(restored));
        const after = isRestored ? (restored ?? undefined) : removeParts(text, ours, record);
        const span = findTextSpan(text, after ?? "");
        return [{ ...common, after, spans: span ? [span] : [], hidden, record: undefined }];
      });
    })
    .map((change) => ({ ...change, mode: change.mode || getDefaultMode(scope) }));
}

/** One part to remove from a file: the server or the hook. */
interface PartRemoval {
  file: string;
  has(text: string): boolean;
  remove(text: string): string;
  hidden(text: string): string[];
  language: ConfigLanguage | undefined;
  isOwnFile: boolean;
}

function listRemovals(options: ConnectionTarget, language: ConfigLanguage, records: ConnectionRecords): PartRemoval[] {
  const { client, name } = options;
  const row = getMcpClient(client);
  const files = getConnectionFiles(options);
  const found = (text: string) => {
    const path = [...row.servers(tryParseConfig(text, language)), name];
    const entry = getConfigEntry(language.parse(text), path);
    return entry && isSkilletEntry(entry, client, records[files.server]) ? { path, entry } : undefined;
  };
  const removals: PartRemoval[] = [
    {
      file: files.server,
      has: (text) => found(text) !== undefined,
      remove(text) {
        const there = found(text);
        if (!there) return text;
        return row.format === "toml"
          ? removeTomlTable(text, there.path, there.entry, language)
          : removeJsoncValue(text, there.path);
      },
      hidden(text) {
        const usual = new Set(["type", "command", "args", "tools", "url"]);
        const added = Object.entries(found(text)?.entry ?? {}).filter(([key]) => !usual.has(key));
        return added.flatMap(([, value]) => [
          ...collectStrings(Object(value) === value ? Object.values(Object(value)) : [value]),
        ]);
      },
      language,
      isOwnFile: false,
    },
  ];
  const hook = PROMPT_HOOKS[client];
  if (!hook || files.hook === undefined) return removals;
  const places = listHookLocations(options);
  const [place] = places;
  if (!place || "plugin" in hook) {
    const record = records[files.hook];
    const has = (text: string) => text.startsWith(PLUGIN_MARK);
    const remove = (text: string) => {
      if ("plugin" in hook && !isUnmodifiedPlugin(text, hook, record)) throw createEditedPluginError();
      return "";
    };
    return [...removals, { file: files.hook, has, remove, hidden: () => [], language: undefined, isOwnFile: true }];
  }
  const has = (text: string) => places.some((one) => findSkilletHandlers(text, one).length > 0);
  const remove = (text: string) => places.reduce(removePromptHook, text);
  const isOwnFile = place.hook.isOwnFile === true;
  return [...removals, { file: files.hook, has, remove, hidden: () => [], language: JSON_LANGUAGE, isOwnFile }];
}

/**
 * Returns the text before `connect`, byte for byte; null: the file did not exist; undefined: it was changed since, or has no
 * record.
 */
function restoreText(mark: string, text: string, record: ConnectionRecord | undefined): string | null | undefined {
  if (!record || record.after !== digestConfigText(mark + text)) return undefined;
  if (record.before === null) return null;
  const restored = undoSpans(text, record.undo);
  return digestConfigText(mark + restored) === record.before ? restored : undefined;
}

function removeParts(
  text: string,
  removals: readonly PartRemoval[],
  record: ConnectionRecord | undefined,
): string | undefined {
  let next = text;
  let isOwnFile = record?.isCreated === true;
  for (const { has, remove, language, isOwnFile: isOwn } of removals) {
    if (has(next)) next = remove(next);
    if (language === JSON_LANGUAGE)
      next = pruneCreatedObjects(next, record?.made ?? (isOwn ? [["hooks"], ["version"]] : []), isOwn);
    isOwnFile ||= isOwn;
  }
  return isOwnFile && /^\s*(?:\{\s*\})?\s*$/.test(next) ? undefined : next;
}

/** Removes empty objects and lists that `connect` created, and the version of a file without hooks. */
function pruneCreatedObjects(text: string, made: readonly (readonly string[])[], isOwnFile: boolean): string {
  let next = text;
  const events = isOwnFile
    ? Object.keys(Object(tryParseConfig(text, JSON_LANGUAGE)?.["hooks"])).map((name) => ["hooks", name])
    : [];
  for (const path of [...made, ...events].toSorted((a, b) => b.length - a.length)) {
    const document = tryParseConfig(next, JSON_LANGUAGE) ?? {};
    const value = path.reduce<unknown>(
      (here, name) => (isTable(here) && Object.hasOwn(here, name) ? here[name] : undefined),
      document,
    );
    const isEmpty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
    if (isEmpty) next = removeJsoncValue(next, path);
  }
  const document = tryParseConfig(next, JSON_LANGUAGE) ?? {};
  const isVersionOurs = made.some((path) => path.length === 1 && path[0] === "version");
  const hasHooks = Object.keys(Object(document["hooks"])).length > 0;
  return isVersionOurs && !hasHooks && Object.hasOwn(document, "version") ? removeJsoncValue(next, ["version"]) : next;
}

/** Removes a whole table: Codex refuses its file if a server has no command. */
function removeTomlTable(
  text: string,
  path: readonly string[],
  entry: ClientConfigEntry,
  language: ConfigLanguage,
): string {
  const removed = language.edit(text, path, { before: entry, after: {} });
  const isBelow = (parts: readonly string[]) => path.every((name, at) => parts[at] === name);
  const next = removed === undefined ? undefined : removeTableHeads(removed, isBelow);
  const left = next === undefined ? undefined : tryParseConfig(next, language);
  if (next === undefined || left === undefined || getConfigEntry(left, path) !== undefined) {
    throw new SkillError("config-edit", {
      message: `has ${path.join(".")} in a form that can only be edited by hand`,
      fix: "remove it by hand: nothing was written",
    });
  }
  return next;
}

/** Removes the headers of empty tables; comments below them stay. */
function removeTableHeads(text: string, isBelow: (parts: readonly string[]) => boolean): string {
  const heads = parseTomlStatements(text).filter(({ isTable: isHead, parts }) => isHead && isBelow(parts));
  return heads.reduceRight((written, { start, end }) => {
    const line = written.indexOf("\n", end);
    return written.slice(0, start) + written.slice(line === -1 ? written.length : line + 1);
  }, text);
}
