import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { pathToFileURL } from "node:url";
import { parentPort, workerData } from "node:worker_threads";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import { detachInheritedStreams } from "../../sandbox/pipes.ts";
import { TOOL_ID } from "../../skill/define-tool.ts";
import type { Tool, ToolEffect, ToolOutcome, ToolProgram, ToolResult, ToolSandbox } from "../../skill/tool.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { formatNumber, truncateLine } from "../../util/text.ts";
import { registerImportHooks } from "./import-hooks.ts";
import type {
  MessageFromThread,
  MessageToThread,
  ThreadCall,
  ThreadStart,
  ToolsetContext,
  ToolsetOffer,
} from "./toolset-thread.ts";

// The thread that imports and calls a skill's toolsets. Output, patches and exits of their code stay in it.

const threadStart = workerData as ThreadStart;
const postToHost = parentPort?.postMessage.bind(parentPort) as (message: MessageFromThread) => void;
const toolsByName = new Map<string, Tool>();
const activeCalls = new Map<number, AbortController>();
const activePrograms = new Map<number, PromiseWithResolvers<ToolOutcome>>();
let programCount = 0;
let printedLength = 0;

/** In characters: a longer result would only fill the caller's memory. */
const MAX_RESULT_LENGTH = 8 * 1024 * 1024;
const MAX_DATA_LENGTH = 256 * 1024;
const MAX_PRINTED_LENGTH = 1024 * 1024;
/** The maximum length of a one-line text, before the caller redacts secrets and shortens it. */
const MAX_LINE_TEXT = 10_000;
const MAX_PROGRESS_MESSAGES = 1000;

async function startWorker(): Promise<void> {
  const { stdout, stderr } = process;
  for (const stream of [stdout, stderr]) stream.write = capturePrinted;
  protectDescriptors(capturePrinted);
  detachInheritedStreams();
  parentPort?.on("message", (message: MessageToThread) => MESSAGE_HANDLERS[message.type](message as never));
  registerImportHooks(threadStart);
  try {
    postToHost({ type: "ready", offers: await importTools() });
  } catch (error) {
    postToHost({ type: "problem", problem: toThreadProblem(error) });
  }
}

/** Sends the output of the toolset's code to the host as messages. */
function capturePrinted(chunk: Uint8Array | string, encoding?: unknown, done?: unknown): boolean {
  const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
  printedLength += text.length + 1;
  if (printedLength <= MAX_PRINTED_LENGTH) postToHost({ type: "printed", text });
  const written = [encoding, done].find((value) => typeof value === "function");
  if (typeof written === "function") queueMicrotask(() => written());
  return true;
}

async function importTools(): Promise<ToolsetOffer[]> {
  const found: Tool[] = [];
  for (const at of threadStart.toolsets) {
    const url = pathToFileURL(`${threadStart.root}/${at.file}`).href;
    try {
      found.push(...(await readExportedTools(await import(url), at, threadStart.given)));
    } catch (error) {
      throw toImportError(at.file, error);
    }
  }
  checkToolNames(found);
  for (const tool of found) toolsByName.set(tool.name, tool);
  return found.map(({ name, description, inputSchema, effect, isReadOnly }) => ({
    name,
    description,
    inputSchema: JSON.parse(toJson(inputSchema) ?? "{}"),
    hasEffect: typeof effect === "function",
    isReadOnly: isReadOnly === true,
  }));
}

const MESSAGE_HANDLERS: {
  [Type in MessageToThread["type"]]: (message: Extract<MessageToThread, { type: Type }>) => void;
} = {
  async call({ id, tool, input, call }) {
    const controller = new AbortController();
    activeCalls.set(id, controller);
    const result = await callThreadTool(tool, input, createThreadCallOptions(id, call, controller.signal));
    activeCalls.delete(id);
    postToHost({ type: "called", id, result });
  },
  async effect({ id, tool, input }) {
    postToHost({ type: "effect", id, effect: await readThreadEffect(tool, input) });
  },
  abort: ({ id }) => activeCalls.get(id)?.abort(),
  ran: ({ program, outcome }) => takeProgram(program)?.resolve(outcome),
  "not-run": ({ program, code, message }) => takeProgram(program)?.reject(new SkillError(code, { message })),
};

function takeProgram(program: number): PromiseWithResolvers<ToolOutcome> | undefined {
  const waiting = activePrograms.get(program);
  activePrograms.delete(program);
  return waiting;
}

function createThreadCallOptions(id: number, { hasSandbox, ...call }: ThreadCall, signal: AbortSignal) {
  let count = 0;
  const onProgress = (text: string) => {
    if (++count <= MAX_PROGRESS_MESSAGES)
      postToHost({ type: "progress", id, text: String(text).slice(0, MAX_LINE_TEXT) });
  };
  return { ...call, signal, onProgress, ...(hasSandbox ? { sandbox: createRemoteSandbox(id) } : {}) };
}

/** Creates a proxy for the caller's sandbox in the host. */
function createRemoteSandbox(id: number): ToolSandbox {
  return {
    run(argv, { stdin, seconds, signal }: ToolProgram = {}) {
      const program = ++programCount;
      const waiting = Promise.withResolvers<ToolOutcome>();
      activePrograms.set(program, waiting);
      const onAbort = () => postToHost({ type: "stop", program });
      signal?.addEventListener("abort", onAbort, { once: true });
      postToHost({
        ...{ type: "run", id, program, argv: argv.map(String) as [string, ...string[]] },
        ...(stdin === undefined ? {} : { stdin: String(stdin) }),
        ...(seconds === undefined ? {} : { seconds: Number(seconds) }),
      });
      if (signal?.aborted) onAbort();
      return waiting.promise.finally(() => signal?.removeEventListener("abort", onAbort));
    },
  };
}

async function callThreadTool(name: string, input: unknown, options: object): Promise<ToolResult> {
  let value: unknown;
  try {
    value = await toolsByName.get(name)?.execute(input, options);
  } catch (error) {
    return { text: `It failed: ${shortenPaths(getErrorMessage(error))}`, isError: true, code: "failed" };
  }
  if (typeof value === "string") return { text: boundResult(value), isError: false };
  const { text, isError, code, title, data } = Object(value) as Partial<ToolResult>;
  if (typeof text !== "string") {
    return { text: `Tool '${name}' returned no text: create it with Tool.define`, isError: true, code: "failed" };
  }
  return {
    text: boundResult(isError === true ? shortenPaths(text) : text),
    isError: isError === true,
    ...(typeof code === "string" ? { code: code.slice(0, MAX_LINE_TEXT) } : {}),
    ...(typeof title === "string" ? { title: title.slice(0, MAX_LINE_TEXT) } : {}),
    ...readResultData(data),
  };
}

function boundResult(text: string): string {
  return text.length <= MAX_RESULT_LENGTH ? text : `${text.slice(0, MAX_RESULT_LENGTH)}\n[… truncated …]`;
}

/** Returns the data if it is plain JSON of an acceptable size. */
function readResultData(data: unknown): Pick<ToolResult, "data"> {
  const text = isJsonObject(data) ? toJson(data) : undefined;
  return text === undefined || text.length > MAX_DATA_LENGTH ? {} : { data: JSON.parse(text) };
}

/** Returns the declared effect of a call. If that fails, the call needs approval. */
async function readThreadEffect(name: string, input: unknown): Promise<ToolEffect | undefined> {
  try {
    const effect: unknown = await toolsByName.get(name)?.effect?.(input);
    if (effect === undefined || effect === null) return undefined;
    const { on, what, where, amount, isReversible } = Object(effect) as Partial<ToolEffect>;
    const texts = Object.entries({ what, where, amount }).filter(([, text]) => typeof text === "string");
    return {
      on: on === "workspace" ? on : "outside",
      ...Object.fromEntries(texts.map(([key, text]) => [key, String(text).slice(0, MAX_LINE_TEXT)])),
      ...(typeof isReversible === "boolean" ? { isReversible } : {}),
    };
  } catch {
    return { on: "outside" };
  }
}

function toThreadProblem(error: unknown): Problem {
  if (!(error instanceof SkillError))
    return { code: "toolset-broken", message: shortenPaths(getErrorMessage(error)), fix: "" };
  return { ...error.problem, message: shortenPaths(error.message), fix: shortenPaths(error.fix) };
}

/** Creates the error for a file that failed to import, with the location. */
function toImportError(file: string, error: unknown): SkillError {
  if (error instanceof SkillError && error.code.startsWith("toolset-")) return error;
  if (error instanceof SkillError) {
    return new SkillError("toolset-broken", { ...error.problem, message: `${file}: ${error.message}` });
  }
  const text = truncateLine(shortenPaths(getErrorMessage(error)), 400);
  const stack = error instanceof Error ? shortenPaths(error.stack ?? "") : "";
  const path = /^(?: +at .*?\(?)?([^\s()]+\.[mc]?[jt]s:\d+(?::\d+)?)\)?$/m.exec(stack)?.[1];
  const isOwn = path !== undefined && !/^(?:node|file):|^\//.test(path);
  return new SkillError("toolset-broken", {
    message: `${isOwn ? path : file} cannot be imported: ${text}`,
    fix: "fix the error, and check with",
    commands: ["skillet tools"],
  });
}

/** Makes paths relative to the skill's folder. */
function shortenPaths(text: string): string {
  return [`${pathToFileURL(threadStart.root).href}/`, `${threadStart.root}/`].reduce(
    (text, path) => text.replaceAll(path, ""),
    text,
  );
}

/** A toolset: its file and export. */
interface ToolsetExport {
  file: string;
  export: string;
}

const MAX_TOOLSET_TOOLS = 64;
const MAX_SCHEMA_LENGTH = 64 * 1024;

/** Reads the tools of an export. Throws a SkillError that describes the problem. */
async function readExportedTools(module: object, at: ToolsetExport, context: ToolsetContext): Promise<Tool[]> {
  const exported = findExport(module, at);
  const list = await listExportedItems(exported, at, context);
  if (list.length > MAX_TOOLSET_TOOLS) {
    throw createToolsetError(
      at,
      `has ${list.length} tools, more than ${MAX_TOOLSET_TOOLS}`,
      "remove tools that are not needed",
    );
  }
  if (list.length === 0) throw createExportError(at, "has no tools", `export const ${at.export} = [myTool]`);
  return list.map((item, index) => requireTool(item, at, index));
}

/** Requires unique tool names. */
function checkToolNames(tools: readonly Tool[]): void {
  const twice = tools.find(({ name }, index) => tools.findIndex((other) => other.name === name) !== index);
  if (!twice) return;
  throw new SkillError("toolset-collision", {
    message: `Two of its tools are called "${twice.name}"`,
    fix: "give one of them another name",
  });
}

/** Finds an export, also one that a CommonJS module assigned to `module.exports`. */
function findExport(module: object, at: ToolsetExport): unknown {
  const whole = (module as JsonObject)["default"];
  const places = [module, ...(isJsonObject(whole) ? [whole] : [])] as JsonObject[];
  const found = places.find((place) => Object.keys(place).includes(at.export));
  if (found) return found[at.export];
  const there = [...new Set(places.flatMap((place) => Object.keys(place)))].filter((name) => name !== "module.exports");
  throw new SkillError("toolset-export", {
    message: `${at.file} has no export "${at.export}"`,
    fix: there.length === 0 ? "it exports nothing" : `it exports: ${truncateLine(there.join(", "), 300)}`,
  });
}

async function listExportedItems(
  exported: unknown,
  at: ToolsetExport,
  context: ToolsetContext,
): Promise<readonly unknown[]> {
  if (Array.isArray(exported)) return exported;
  if (typeof exported === "function" && exported.prototype !== undefined) {
    const toolset: unknown = new (exported as new (useContext: ToolsetContext) => unknown)(context);
    const own = Object(toolset) as { tools?: unknown; [Symbol.iterator]?: unknown };
    const tools = Array.isArray(toolset) ? toolset : await (typeof own.tools === "function" ? own.tools() : own.tools);
    if (Array.isArray(tools)) return tools;
    if (typeof own[Symbol.iterator] === "function") return [...(toolset as Iterable<unknown>)];
    throw createExportError(
      at,
      "is a class whose instances have no `tools`",
      "add `tools`: an array, a getter or a method",
    );
  }
  throw createExportError(at, "is neither an array of tools nor a class", `export const ${at.export} = [myTool]`);
}

function requireTool(item: unknown, at: ToolsetExport, index: number): Tool {
  const { name, description, inputSchema, execute } = Object(item) as Partial<Tool>;
  const which = typeof name === "string" ? `its tool "${truncateLine(name, 64)}"` : `item ${index + 1}`;
  const lacks = (what: string) =>
    createToolsetError(at, `${which} ${what}`, "create it with Tool.define from @agent/tools");
  if (typeof name !== "string" || typeof execute !== "function") throw lacks("is not a tool");
  // The dot separates the skill's name from this one: another dot would make names ambiguous.
  if (!TOOL_ID.test(name) || name.includes(".")) throw lacks("has an invalid name");
  if (typeof description !== "string" || description.trim() === "") throw lacks("has no description");
  if (!isJsonObject(inputSchema) || inputSchema["type"] !== "object")
    throw lacks("has no `inputSchema` with type object");
  const text = toJson(inputSchema);
  if (text === undefined) throw lacks("has an `inputSchema` that is not JSON");
  if (text.length > MAX_SCHEMA_LENGTH)
    throw lacks(`has an \`inputSchema\` of more than ${formatNumber(MAX_SCHEMA_LENGTH)} characters`);
  return item as Tool;
}

function toJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

function createToolsetError({ file, export: name }: ToolsetExport, what: string, fix: string): SkillError {
  return new SkillError("toolset-broken", { message: `${file}: ${name}: ${what}`, fix });
}

function createExportError({ file, export: name }: ToolsetExport, what: string, fix: string): SkillError {
  return new SkillError("toolset-export", { message: `${file}: ${name} ${what}`, fix });
}

type FsCall = (...args: unknown[]) => unknown;

/**
 * Redirects access to the descriptors 0, 1 and 2, which a thread shares with its host: the host may use them for a protocol, and
 * loggers write to 1 directly. This prevents accidents only: the code is trusted and has other ways. `print` receives the written
 * bytes.
 */
function protectDescriptors(print: (chunk: Uint8Array) => void): void {
  const write = (data: unknown, ...rest: unknown[]): number => {
    const bytes = toWrittenBytes(data, rest);
    print(bytes);
    return bytes.length;
  };
  const writeAll = (parts: unknown): number => (parts as Uint8Array[]).reduce((sum, part) => sum + write(part), 0);
  const nothing = () => undefined;
  const calls: Record<string, FsCall> = {
    write,
    writev: writeAll,
    writeFile: (data) => void write(data),
    appendFile: (data) => void write(data),
    read: () => 0,
    readv: () => 0,
    readFile: (options) => (findEncoding([options]) ? "" : Buffer.alloc(0)),
    close: nothing,
    fsync: nothing,
    fdatasync: nothing,
  };
  for (const [name, own] of Object.entries(calls)) {
    replaceFsCall(`${name}Sync`, own);
    replaceFsCall(name, (...args) => {
      const done = args.findLast((value) => typeof value === "function") as FsCall | undefined;
      const value = own(...args.filter((value) => value !== done));
      setImmediate(() => done?.(null, value, args[0]));
    });
  }
  syncBuiltinESMExports();
}

function replaceFsCall(name: string, own: FsCall): void {
  const all = fs as unknown as Record<string, FsCall>;
  const theirs = all[name] as FsCall;
  const either: FsCall = (fd, ...args) => (fd === 0 || fd === 1 || fd === 2 ? own(...args) : theirs(fd, ...args));
  all[name] = Object.defineProperties(either, Object.getOwnPropertyDescriptors(theirs));
}

/** Returns the bytes of a write. `rest` is offset and length, or position and encoding, as in Node. */
function toWrittenBytes(data: unknown, rest: unknown[]): Buffer {
  if (!ArrayBuffer.isView(data)) return Buffer.from(String(data), findEncoding(rest));
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const [first, second] = rest;
  const { offset, length } =
    Object(first) === first ? (first as { offset?: unknown; length?: unknown }) : { offset: first, length: second };
  const start = typeof offset === "number" ? offset : 0;
  return bytes.subarray(start, typeof length === "number" ? start + length : undefined);
}

function findEncoding(args: unknown[]): BufferEncoding | undefined {
  const all = args.map((one) => (Object(one) === one ? (one as { encoding?: unknown }).encoding : one));
  return all.find((one): one is BufferEncoding => typeof one === "string" && Buffer.isEncoding(one));
}

// Last, since the imported code needs every declaration above.
void startWorker();
