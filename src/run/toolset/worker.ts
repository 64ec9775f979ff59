import { pathToFileURL } from "node:url";
import { parentPort, workerData } from "node:worker_threads";
import type { Notice } from "../../host/sandbox.ts";
import { inheritNothing } from "../../sandbox/inherit.ts";
import { SkillError } from "../../shared/error.ts";
import { reason } from "../../shared/inside.ts";
import { oneLine } from "../../shared/text.ts";
import { isData } from "../../skill/data.ts";
import type { Tool, ToolEffect, ToolOutcome, ToolProgram, ToolResult, ToolSandbox } from "../../skill/tool.ts";
import { keepDescriptors } from "./descriptors.ts";
import { checkNames, jsonOf, toolsIn } from "./gather.ts";
import { hookImports } from "./hooks.ts";
import type { Call, FromThread, Offer, Start, ToThread } from "./messages.ts";

// The thread that a skill's toolsets are imported and called in. It is for their code alone: what that code prints, patches or ends by
// accident stays here.

const start = workerData as Start;
const post = parentPort?.postMessage.bind(parentPort) as (message: FromThread) => void;
const tools = new Map<string, Tool>();
const calls = new Map<number, AbortController>();
const programs = new Map<number, PromiseWithResolvers<ToolOutcome>>();
let programCount = 0;
let printed = 0;

/** In characters: what is longer would only fill the memory of whoever called. */
const LONGEST_OUTPUT = 8 * 1024 * 1024;
const LARGEST_METADATA = 256 * 1024;
const LONGEST_PRINTED = 1024 * 1024;
/** Of what is said in a line, which whoever called hides secrets in before it is cut to that. */
const LONGEST_WORDS = 10_000;
const MOST_PROGRESS = 1000;

async function begin(): Promise<void> {
  const { stdout, stderr } = process;
  for (const stream of [stdout, stderr]) stream.write = takePrinted;
  keepDescriptors(takePrinted);
  inheritNothing();
  parentPort?.on("message", (message: ToThread) => HANDLE[message.type](message as never));
  hookImports(start);
  try {
    post({ type: "ready", offers: await openTools() });
  } catch (error) {
    post({ type: "problem", problem: problemOf(error) });
  }
}

/** What its code prints is nobody's output but its own. */
function takePrinted(chunk: Uint8Array | string, encoding?: unknown, done?: unknown): boolean {
  const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
  printed += text.length + 1;
  if (printed <= LONGEST_PRINTED) post({ type: "printed", text });
  const written = [encoding, done].find((given) => typeof given === "function");
  if (typeof written === "function") queueMicrotask(() => written());
  return true;
}

async function openTools(): Promise<Offer[]> {
  const found: Tool[] = [];
  for (const at of start.toolsets) {
    const url = pathToFileURL(`${start.root}/${at.file}`).href;
    try {
      found.push(...(await toolsIn(await import(url), at, start.given)));
    } catch (error) {
      throw asProblem(at.file, error);
    }
  }
  checkNames(found);
  for (const tool of found) tools.set(tool.name, tool);
  return found.map(({ name, description, inputSchema, effect }) => ({
    name,
    description,
    inputSchema: JSON.parse(jsonOf(inputSchema) ?? "{}"),
    hasEffect: typeof effect === "function",
  }));
}

const HANDLE: { [Type in ToThread["type"]]: (message: Extract<ToThread, { type: Type }>) => void } = {
  async call({ id, tool, input, call }) {
    const controller = new AbortController();
    calls.set(id, controller);
    const result = await resultOf(tool, input, optionsOf(id, call, controller.signal));
    calls.delete(id);
    post({ type: "called", id, result });
  },
  async effect({ id, tool, input }) {
    post({ type: "effect", id, effect: await effectOf(tool, input) });
  },
  abort: ({ id }) => calls.get(id)?.abort(),
  ran: ({ program, outcome }) => settle(program)?.resolve(outcome),
  "not-run": ({ program, code, message }) => settle(program)?.reject(new SkillError(code, { message })),
};

function settle(program: number): PromiseWithResolvers<ToolOutcome> | undefined {
  const waiting = programs.get(program);
  programs.delete(program);
  return waiting;
}

function optionsOf(id: number, { hasSandbox, ...call }: Call, signal: AbortSignal) {
  let said = 0;
  const onProgress = (text: string) => {
    if (++said <= MOST_PROGRESS) post({ type: "progress", id, text: String(text).slice(0, LONGEST_WORDS) });
  };
  return { ...call, signal, onProgress, ...(hasSandbox ? { sandbox: sandboxOf(id) } : {}) };
}

/** The sandbox of whoever calls, over there. */
function sandboxOf(id: number): ToolSandbox {
  return {
    run(argv, { stdin, seconds, signal }: ToolProgram = {}) {
      const program = ++programCount;
      const waiting = Promise.withResolvers<ToolOutcome>();
      programs.set(program, waiting);
      const onAbort = () => post({ type: "stop", program });
      signal?.addEventListener("abort", onAbort, { once: true });
      post({
        ...{ type: "run", id, program, argv: argv.map(String) as [string, ...string[]] },
        ...(stdin === undefined ? {} : { stdin: String(stdin) }),
        ...(seconds === undefined ? {} : { seconds: Number(seconds) }),
      });
      if (signal?.aborted) onAbort();
      return waiting.promise.finally(() => signal?.removeEventListener("abort", onAbort));
    },
  };
}

async function resultOf(name: string, input: unknown, options: object): Promise<ToolResult> {
  let given: unknown;
  try {
    given = await tools.get(name)?.execute(input, options);
  } catch (error) {
    return { content: `It failed: ${shown(reason(error))}`, isError: true, code: "failed" };
  }
  if (typeof given === "string") return { content: bounded(given), isError: false };
  const { content, isError, code, title, metadata } = Object(given) as Partial<ToolResult>;
  if (typeof content !== "string") {
    return { content: `Tool '${name}' gave no text: make it with Tool.define`, isError: true, code: "failed" };
  }
  return {
    content: bounded(isError === true ? shown(content) : content),
    isError: isError === true,
    ...(typeof code === "string" ? { code: code.slice(0, LONGEST_WORDS) } : {}),
    ...(typeof title === "string" ? { title: title.slice(0, LONGEST_WORDS) } : {}),
    ...metadataOf(metadata),
  };
}

function bounded(text: string): string {
  return text.length <= LONGEST_OUTPUT ? text : `${text.slice(0, LONGEST_OUTPUT)}\n[… it was longer …]`;
}

/** Plain data, of a size that can be passed on. */
function metadataOf(metadata: unknown): Pick<ToolResult, "metadata"> {
  const text = isData(metadata) ? jsonOf(metadata) : undefined;
  return text === undefined || text.length > LARGEST_METADATA ? {} : { metadata: JSON.parse(text) };
}

/** Whoever does not know what a call changes is to ask. */
async function effectOf(name: string, input: unknown): Promise<ToolEffect | undefined> {
  try {
    const effect: unknown = await tools.get(name)?.effect?.(input);
    if (effect === undefined || effect === null) return undefined;
    const { on, what, where, amount, isReversible } = Object(effect) as Partial<ToolEffect>;
    const texts = Object.entries({ what, where, amount }).filter(([, text]) => typeof text === "string");
    return {
      on: on === "workspace" ? on : "outside",
      ...Object.fromEntries(texts.map(([key, text]) => [key, String(text).slice(0, LONGEST_WORDS)])),
      ...(typeof isReversible === "boolean" ? { isReversible } : {}),
    };
  } catch {
    return { on: "outside" };
  }
}

function problemOf(error: unknown): Notice {
  if (!(error instanceof SkillError)) return { code: "toolset-broken", message: shown(reason(error)), fix: "" };
  return { code: error.code, message: shown(error.message), fix: shown(error.fix ?? "") };
}

/** What a file of the skill threw while it was imported, and where it did. */
function asProblem(file: string, error: unknown): SkillError {
  if (error instanceof SkillError && error.code.startsWith("toolset-")) return error;
  if (error instanceof SkillError) {
    return new SkillError("toolset-broken", { message: `${file}: ${error.message}`, fix: error.fix ?? "" });
  }
  const said = oneLine(shown(reason(error)), 400);
  const stack = error instanceof Error ? shown(error.stack ?? "") : "";
  const place = /^(?: +at .*?\(?)?([^\s()]+\.[mc]?[jt]s:\d+(?::\d+)?)\)?$/m.exec(stack)?.[1];
  const isOwn = place !== undefined && !/^(?:node|file):|^\//.test(place);
  return new SkillError("toolset-broken", {
    message: `${isOwn ? place : file} cannot be imported: ${said}`,
    fix: "mend it; skillet tools shows whether it can be",
  });
}

/** Paths as they are in the skill's folder. */
function shown(text: string): string {
  return [`${pathToFileURL(start.root).href}/`, `${start.root}/`].reduce(
    (said, path) => said.replaceAll(path, ""),
    text,
  );
}

void begin(); // Last, since all of the above has to be there for the code that is imported now.
