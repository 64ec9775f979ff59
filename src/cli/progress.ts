import type { TraceExporter } from "../adapters/opentelemetry/trace-exporter.ts";
import type { Problem } from "../errors/problem.ts";
import type { RunEvent, SkillEvent } from "../host/events.ts";
import { formatNumber, truncateLine } from "../util/text.ts";
import { type CommandIo, createPrinter, type Printer, printDiffExcerpt, printProblem } from "./output.ts";
import { formatCost } from "./run-format.ts";

/** Shows the progress of a run: one line per call, and a moving status line at a terminal. */
export interface Progress {
  take(event: SkillEvent): void;
  /** Clears the status line while something else is written. */
  hold(): void;
  /** Shows the status line again. */
  release(): void;
  end(): void;
}

const SPINNER_FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

export function createProgress(io: CommandIo): Progress {
  const out = createPrinter(io.stderr, io.env);
  const start = performance.now();
  const depths = new Map<string, number>();
  const state = { doing: "", tokens: 0, cost: 0, hasCost: false, frame: 0, isDrawn: false, isHeld: false };
  const isLive = io.stderr.isTTY === true && io.env["TERM"] !== "dumb";
  const clear = () => {
    if (state.isDrawn) io.stderr.write("\r\x1b[2K");
    state.isDrawn = false;
  };
  const draw = () => {
    if (state.isHeld) return;
    state.isDrawn = true;
    const frame = SPINNER_FRAMES[state.frame++ % SPINNER_FRAMES.length] ?? "";
    const seconds = `${((performance.now() - start) / 1000).toFixed(0)} s`;
    const tokens = state.tokens > 0 ? [`${formatNumber(state.tokens)} tokens`] : [];
    const cost = state.hasCost ? [formatCost(state.cost)] : [];
    const line = truncateLine([state.doing || "thinking", seconds, ...tokens, ...cost].join(" · "), out.width - 3);
    io.stderr.write(`\r\x1b[2K${out.text`${out.cyan(frame)} ${out.dim(line)}`.text}`);
  };
  const timer = isLive ? setInterval(draw, 120) : undefined;
  timer?.unref();
  const printAbove = (write: () => void) => {
    clear();
    write();
  };
  return {
    take(event) {
      if (event.type === "step-ended") {
        state.tokens += event.usage.inputTokens + event.usage.outputTokens;
        state.cost += event.cost ?? 0;
        state.hasCost ||= event.cost !== undefined;
      }
      if (event.type === "run-started") depths.set(event.run, event.depth);
      const doing = "skill" in event && event.type !== "skill-loaded" ? formatActivity(event) : undefined;
      if (doing !== undefined) state.doing = doing;
      const line = EVENT_PRINTERS[event.type] as
        | ((out: Printer, event: SkillEvent, indent: string) => unknown)
        | undefined;
      const depth = ("run" in event && depths.get(event.run)) || 0;
      if (line) printAbove(() => line(out, event, "  ".repeat(depth)));
    },
    hold() {
      state.isHeld = true;
      clear();
    },
    release() {
      state.isHeld = false;
    },
    end() {
      clearInterval(timer);
      clear();
    },
  };
}

/** A moving line for work that takes longer than a second. It is cleared at the end. */
interface WaitIndicator {
  /** Updates the text. Blocking work must call this regularly, or the line does not move. */
  at(doing?: string): void;
  end(): void;
}

const WAIT_DELAY_MS = 1000;
const FRAME_MS = 120;

export function createWaitIndicator(io: CommandIo, doing: string): WaitIndicator {
  const { stderr, env } = io;
  if (stderr.isTTY !== true || env["TERM"] === "dumb") return { at() {}, end() {} };
  const out = createPrinter(stderr, env);
  const start = performance.now();
  const state = { doing, frame: 0, drawnAt: start + WAIT_DELAY_MS - FRAME_MS };
  const draw = () => {
    const now = performance.now();
    if (now - state.drawnAt < FRAME_MS) return;
    state.drawnAt = now;
    const line = truncateLine(`${state.doing} · ${((now - start) / 1000).toFixed(0)} s`, out.width - 3);
    const frame = SPINNER_FRAMES[state.frame++ % SPINNER_FRAMES.length] ?? "";
    stderr.write(`\r\x1b[2K${out.text`${out.cyan(frame)} ${out.dim(line)}`.text}`);
  };
  const timer = setInterval(draw, FRAME_MS).unref();
  return {
    at(now) {
      state.doing = now ?? state.doing;
      draw();
    },
    end() {
      clearInterval(timer);
      if (state.frame > 0) stderr.write("\r\x1b[2K");
    },
  };
}

/** Runs work with a wait indicator. */
export async function runWithWaitIndicator<T>(
  io: CommandIo,
  doing: string,
  work: (waiting: WaitIndicator) => T | Promise<T>,
): Promise<T> {
  const waiting = createWaitIndicator(io, doing);
  try {
    return await work(waiting);
  } finally {
    waiting.end();
  }
}

function formatActivity(event: RunEvent): string | undefined {
  const who = event.skill === "" ? "" : `${event.skill}: `;
  const step = "step" in event ? ` · step ${event.step}` : "";
  if (event.type === "tool-called") return `${who}${event.tool}${step}`;
  if (event.type === "text-generated") return `${who}writing${step}`;
  if (event.type === "tool-ended" || event.type === "run-started") return `${who}thinking${step}`;
  return undefined;
}

type EventPrinters = {
  [Type in SkillEvent["type"]]?: (out: Printer, event: Extract<SkillEvent, { type: Type }>, indent: string) => unknown;
};

/** The events that print a line. */
const EVENT_PRINTERS: EventPrinters = {
  "skill-loaded": (out, { skill }) => out.line`${out.dim("·")} loaded ${out.bold(skill)}`,
  "run-started": (out, { skill, model }, indent) =>
    skill !== "" && out.line`${out.dim(`${indent.slice(2)}·`)} ${out.bold(skill)} ${out.dim(`with ${model}`)}`,
  "run-warned": (out, warning) => {
    // Every command prints this before it starts.
    if (warning.code !== "nearer-copy-broken") printProblem(out, out.yellow("!"), warning);
    printDiffExcerpt(out, warning.data?.["diff"]);
  },
  "packages-built": (out, { text }) => out.line`${out.dim("·")} ${text}`,
  "model-retried": (out, { reason }) => out.line`${out.yellow("!")} ${reason}`,
  "tool-called": (out, { tool, input, skill }, indent) => {
    if (tool === "complete") return;
    const what = summarizeCallInput(input, out.width - indent.length);
    const who = out.dim(`${indent}${skill === "" ? "·" : `${skill}:`}`);
    out.line`${who} ${tool}${what === "" ? "" : out.text` ${out.dim(what)}`}`;
  },
  "tool-ended": (out, { tool, isError, code = "", message = code }, indent) =>
    isError &&
    tool !== "use_skill" &&
    out.line`${out.dim(`${indent}  `)}${out.yellow("!")} ${tool} failed: ${out.dim(truncateLine(message, Math.max(40, out.width - indent.length - tool.length - 14)))}`,
  "capability-called": (out, { capability, operation, outcome }, indent) =>
    outcome !== "ok" && out.line`${out.dim(`${indent}  `)}${out.yellow("!")} ${capability}.${operation}: ${outcome}`,
  // The command itself reports a refused top-level run.
  "run-refused": (out, { parent, refusals }, indent) => {
    for (const refusal of parent === undefined ? [] : refusals)
      printProblem(out, out.text`${indent}  ${out.yellow("!")}`, refusal);
  },
  "tool-blocked": (out, { tool, message }) =>
    out.line`${out.yellow("!")} ${tool} was blocked: ${truncateLine(message, 300)}`,
};

/** Receives the events of a run. */
export type TraceSink = Pick<TraceExporter, "record">;

/**
 * Runs work, traced if the environment names a collector. Contract: after the work has printed its output, waits at most two seconds for
 * the export.
 */
export async function runTraced<T>(io: CommandIo, work: (traces: TraceSink | undefined) => Promise<T>): Promise<T> {
  const traces = await openTraceExport(io);
  try {
    return await work(traces);
  } finally {
    await traces?.close();
  }
}

/** Opens the trace export. The module is loaded only if there is a collector. */
async function openTraceExport(io: CommandIo): Promise<(TraceSink & { close(): Promise<void> }) | undefined> {
  if (!ENDPOINT_VARIABLES.some((name) => io.env[name])) return undefined;
  const { createTraceExporter } = await import("../adapters/opentelemetry/trace-exporter.ts");
  const traces = createTraceExporter(io.env);
  if (!traces) return undefined;
  const out = createPrinter(io.stderr, io.env);
  const printNotice = (notice: Problem | undefined) => {
    if (notice) printProblem(out, out.yellow("!"), notice);
  };
  printNotice(traces.problem);
  return { record: traces.record, close: async () => printNotice(await traces.flush()) };
}

const ENDPOINT_VARIABLES = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/** Summarizes the input of a call by its most important value. */
export function summarizeCallInput(input: unknown, width: number): string {
  if (input === null || typeof input !== "object") return "";
  const parts = Object.entries(input).flatMap(([name, value]) => {
    if (typeof value === "string") return [value];
    return typeof value === "number" || typeof value === "boolean" ? [`(${name}: ${value})`] : [];
  });
  return truncateLine(parts.join(" "), Math.max(20, Math.min(width, 100) - 30));
}
