import { existsSync, lstatSync } from "node:fs";
import { dirname } from "node:path";
import { SkillError } from "../../errors/problem.ts";
import { isInside, resolveRealPath } from "../../util/safe-path.ts";
import {
  type ConnectionRecord,
  createUndoSpan,
  digestConfigText,
  findTextSpan,
  type TextSpan,
} from "./apply-connection.ts";
import {
  type ClientConfigEntry,
  type ConfigScope,
  isRemoteEntry,
  isSkilletServer,
  isTable,
  MCP_CLIENTS,
  type McpClient,
  type McpClientEnvironment,
  type McpServerTarget,
} from "./mcp-clients.ts";
import {
  type ConfigLanguage,
  getConfigEntry,
  JSON_LANGUAGE,
  loadConfigLanguage,
  mergeMcpSnippet,
  nameFileInErrors,
  readClientConfig,
} from "./mcp-config.ts";
import {
  findSkilletHandlers,
  type HookKind,
  type HookLocation,
  type HookProgram,
  isSkilletHandler,
  mergePromptHook,
  PLUGIN_MARK,
  type PluginHook,
  PROMPT_HOOKS,
} from "./prompt-hook-config.ts";

/** A client, the location of its files, and its name for the server. */
export interface ConnectionTarget {
  client: string;
  scope: ConfigScope;
  environment: McpClientEnvironment;
  name: string;
}

interface ConnectionOptions extends ConnectionTarget {
  server: McpServerTarget;
  /** Keys of the server's entry in addition to those of every client, such as Codex's approval mode. */
  more?: ClientConfigEntry;
  program: HookProgram;
  /** Undefined: no hook. */
  hook: HookKind | undefined;
}

/** A planned change of one file. */
export interface ConfigFileChange {
  file: string;
  /** The text before and after; undefined if it does not exist. Without the byte order mark. */
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

export type ConnectionRecords = Readonly<Record<string, ConnectionRecord>>;

/** Returns the file with the server's entry, and the one with the hook, if the client has one. */
export function getConnectionFiles({ client, scope, environment }: Omit<ConnectionTarget, "name">): {
  server: string;
  hook: string | undefined;
} {
  return { server: getMcpClient(client)[scope](environment), hook: PROMPT_HOOKS[client]?.file(scope, environment) };
}

/**
 * Plans the changes that connect a client: one per file, none for a file that is already correct. Throws a SkillError
 * when one cannot be changed.
 */
export async function planConnection(
  options: ConnectionOptions,
  records: ConnectionRecords,
): Promise<ConfigFileChange[]> {
  const { client, scope, hook: kind, name, program } = options;
  const files = getConnectionFiles(options);
  requireProjectFiles(options);
  const row = getMcpClient(client);
  const language = await loadConfigLanguage(row.format);
  const steps: EditStep[] = [
    {
      file: files.server,
      edit(text) {
        const path = [...row.servers(tryParseConfig(text, language)), name];
        const entry = { ...row.entry(options.server), ...options.more };
        const { text: next } = mergeMcpSnippet(text, { format: row.format, path, entry }, row, language);
        return next;
      },
      makes: (text) => [row.servers(tryParseConfig(text, language))],
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
          if (text !== "" && !text.startsWith(PLUGIN_MARK)) throw createForeignPluginError();
          if (text !== "" && !isUnmodifiedPlugin(text, hook, record)) throw createEditedPluginError();
          return wanted;
        },
        makes: () => [],
      });
    } else {
      for (const environment of listHookLocations(options)) {
        const { event, version } = environment.hook;
        const makes = [["hooks"], ["hooks", event], ...(version === undefined ? [] : [["version"]])];
        steps.push({
          file: files.hook,
          edit: (text) => mergePromptHook(text, environment.hook.handler(target), environment),
          makes: () => makes,
        });
      }
    }
  }
  return createFileChanges(steps, { client, scope, records });
}

/** Throws a SkillError when a file of the project leads out of it. */
export function requireProjectFiles(options: Omit<ConnectionTarget, "name">): void {
  if (options.scope !== "project") return;
  for (const file of Object.values(getConnectionFiles(options))) requireInsideProject(file, options.environment);
}

/**
 * The author of a project may have made its file a symlink to a file of the user. A link without a target cannot be
 * checked.
 */
function requireInsideProject(file: string | undefined, { workspace }: McpClientEnvironment): void {
  if (file === undefined) return;
  const real = resolveRealPath(file);
  const isDangling = lstatSync(real, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  if (!isDangling && isInside(resolveRealPath(workspace), real)) return;
  throw new SkillError("unwritable", {
    message: `${file} is a symlink that leaves the project`,
    fix: "put a file in its place, or connect without --project",
  });
}

export function getMcpClient(client: string): McpClient {
  const row = Object.hasOwn(MCP_CLIENTS, client) ? MCP_CLIENTS[client] : undefined;
  if (row) return row;
  throw new SkillError("usage", {
    message: `Unknown client "${client}"`,
    fix: `Supported clients: ${Object.keys(MCP_CLIENTS).join(", ")}`,
  });
}

/** Returns true for a server of skillet. One on another machine counts if `connect` wrote its address. */
export function isSkilletEntry(
  entry: ClientConfigEntry,
  client: string,
  record: ConnectionRecord | undefined,
): boolean {
  return isSkilletServer(entry, {}) || (isRemoteEntry(entry) && record?.clients.includes(client) === true);
}

/** Returns the events of a client's JSON file that have a handler of skillet, the prompt first; empty for a plugin. */
export function listHookLocations({ client, name }: Pick<ConnectionTarget, "client" | "name">): HookLocation[] {
  const hook = PROMPT_HOOKS[client];
  if (!hook || "plugin" in hook) return [];
  const hooks = [hook, ...(hook.summary ? [{ ...hook, ...hook.summary }] : [])];
  return hooks.map((one) => ({ hook: one, isOurs: (handler) => isSkilletHandler(handler, client, name) }));
}

/** One edit of a file. */
interface EditStep {
  file: string;
  edit(text: string): string;
  /** Paths of the objects that it creates if they are missing. */
  makes(text: string): readonly (readonly string[])[];
}

function createFileChanges(
  steps: readonly EditStep[],
  { client, scope, records }: { client: string; scope: ConfigScope; records: ConnectionRecords },
): ConfigFileChange[] {
  const files = [...new Set(steps.map(({ file }) => file))];
  return files.flatMap((file): ConfigFileChange[] => {
    const there = readClientConfig(file);
    const known = records[file];
    const { text, mark, mode } = there ?? { text: "", mark: "", mode: getDefaultMode(scope) };
    let next = text;
    const spans: TextSpan[] = [];
    const made: string[][] = [];
    for (const step of steps.filter((one) => one.file === file)) {
      const before = next;
      next = nameFileInErrors(file, () => step.edit(before));
      const span = findTextSpan(before, next);
      if (!span) continue;
      spans.push(span);
      made.push(
        ...step
          .makes(before)
          .filter((path) => !hasPath(before, path))
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
    const before = there ? digestConfigText(mark + text) : null;
    const isSame = known !== undefined && known.after === before;
    const record: ConnectionRecord = {
      clients,
      before: isSame ? known.before : before,
      after: digestConfigText(mark + next),
      undo: [...(isSame ? known.undo : []), ...spans.map(createUndoSpan)],
      isCreated: there === undefined || known?.isCreated === true,
      made: removeDuplicatePaths([...(known?.made ?? []), ...made]),
      folders: [...new Set([...(known?.folders ?? []), ...findMissingFolders(file)])],
    };
    return [{ ...change, record }];
  });
}

function removeDuplicatePaths(paths: readonly string[][]): string[][] {
  return [...new Map(paths.map((path) => [JSON.stringify(path), path])).values()];
}

/**
 * Returns true if a JSON text has a value at this path. TOML needs no such record: a table disappears with its last
 * key.
 */
function hasPath(text: string, path: readonly string[]): boolean {
  let here: unknown = tryParseConfig(text, JSON_LANGUAGE) ?? {};
  for (const name of path) {
    if (!isTable(here) || !Object.hasOwn(here, name)) return false;
    here = here[name];
  }
  return true;
}

export function tryParseConfig(text: string, language: ConfigLanguage): Record<string, unknown> | undefined {
  try {
    return language.parse(text);
  } catch (error) {
    if (error instanceof SkillError) return undefined;
    throw error;
  }
}

function findMissingFolders(file: string): string[] {
  const missing: string[] = [];
  for (let folder = dirname(file); !existsSync(folder) && folder !== dirname(folder); folder = dirname(folder))
    missing.unshift(folder);
  return missing;
}

export function getDefaultMode(scope: ConfigScope): number {
  return scope === "user" ? 0o600 : 0o644;
}

/** Returns true if a plugin is as `connect` wrote it, in this version or, by the record, in another one. */
export function isUnmodifiedPlugin(text: string, hook: PluginHook, record: ConnectionRecord | undefined): boolean {
  const rest = (written: string) => written.replace(PROGRAM_LINE, "");
  const usual = hook.plugin({ server: "", program: { command: "", args: [] }, kind: "command" });
  return rest(text) === rest(usual) || record?.after === digestConfigText(text);
}

const PROGRAM_LINE = /^const \[PROGRAM, .*$/m;

export function createEditedPluginError(): SkillError {
  return new SkillError("unmanaged-hook", {
    message: "was edited by hand",
    fix: "delete it yourself, or save your changes in another file: nothing was written",
  });
}

function createForeignPluginError(): SkillError {
  return new SkillError("unmanaged-hook", {
    message: "was not written by skillet",
    fix: "rename it, or connect with --no-hook: nothing was written",
  });
}

/** The state of both parts of a connection, from the client's files. */
export interface ConnectionState {
  server: { file: string; entry: ClientConfigEntry | undefined; problem?: SkillError };
  hook: { file: string; handler: ClientConfigEntry | "plugin" | undefined; problem?: SkillError } | undefined;
}

/** Reads the server and the hook from the files of a client, and the problems of these files. */
export async function readConnection(
  options: ConnectionTarget,
  records: ConnectionRecords = {},
): Promise<ConnectionState> {
  const { client, name } = options;
  const row = getMcpClient(client);
  const files = getConnectionFiles(options);
  const language = await loadConfigLanguage(row.format);
  const server = readPart(files.server, undefined as ClientConfigEntry | undefined, (text) => {
    const entry = getConfigEntry(language.parse(text), [...row.servers(tryParseConfig(text, language)), name]);
    return entry && isSkilletEntry(entry, client, records[files.server]) ? entry : undefined;
  });
  const state = { server: { file: files.server, entry: server.value, ...pickProblem(server) } };
  if (files.hook === undefined) return { ...state, hook: undefined };
  const [environment] = listHookLocations(options);
  const hook = readPart(files.hook, undefined as ClientConfigEntry | "plugin" | undefined, (text) => {
    if (!environment) return text.startsWith(PLUGIN_MARK) ? "plugin" : undefined;
    return findSkilletHandlers(text, environment)[0]?.handler;
  });
  return { ...state, hook: { file: files.hook, handler: hook.value, ...pickProblem(hook) } };
}

/** Returns the client's name for skillet's server; undefined if it has none, or its files cannot be read. */
export async function findServerName(options: Omit<ConnectionTarget, "name">): Promise<string | undefined> {
  const row = getMcpClient(options.client);
  const language = await loadConfigLanguage(row.format);
  const { value } = readPart(getConnectionFiles(options).server, undefined as string | undefined, (text) => {
    const servers = getConfigEntry(language.parse(text), row.servers(tryParseConfig(text, language))) ?? {};
    return Object.entries(servers).find(([, entry]) => isTable(entry) && isSkilletServer(entry, {}))?.[0];
  });
  return value;
}

function readPart<T>(file: string, none: T, read: (text: string) => T): { value: T; problem?: SkillError } {
  try {
    const there = readClientConfig(file);
    return { value: there ? nameFileInErrors(file, () => read(there.text)) : none };
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    return { value: none, problem: error };
  }
}

function pickProblem({ problem }: { problem?: SkillError }): { problem?: SkillError } {
  return problem ? { problem } : {};
}
