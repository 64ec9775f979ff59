import type { RunEvent, SkillEvent } from "../host/events.ts";
import type { Usage } from "../host/models.ts";
import { grouped, oneLine } from "../shared/text.ts";
import { type Io, type Printer, printer } from "./io.ts";
import { sayDiff, sayNotice } from "./say.ts";

/** What a run is doing, for whoever waits: what it calls on lines of their own, and on a terminal one line that moves. */
export interface Progress {
  take(event: SkillEvent): void;
  /** Takes the moving line away while something else is written. */
  hold(): void;
  /** Lets it move again. */
  release(): void;
  end(): void;
}

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

export function openProgress(io: Io): Progress {
  const out = printer(io.stderr, io.env);
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
    const frame = FRAMES[state.frame++ % FRAMES.length] ?? "";
    const seconds = `${((performance.now() - start) / 1000).toFixed(0)} s`;
    const tokens = state.tokens > 0 ? [`${grouped(state.tokens)} tokens`] : [];
    const cost = state.hasCost ? [money(state.cost)] : [];
    const line = oneLine([state.doing || "thinking", seconds, ...tokens, ...cost].join(" · "), out.width - 3);
    io.stderr.write(`\r\x1b[2K${out.text`${out.cyan(frame)} ${out.dim(line)}`.text}`);
  };
  const timer = isLive ? setInterval(draw, 120) : undefined;
  timer?.unref();
  const say = (write: () => void) => {
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
      const doing = "skill" in event && event.type !== "skill-loaded" ? doingOf(event) : undefined;
      if (doing !== undefined) state.doing = doing;
      const line = LINES[event.type] as ((out: Printer, event: SkillEvent, indent: string) => unknown) | undefined;
      const depth = ("run" in event && depths.get(event.run)) || 0;
      if (line) say(() => line(out, event, "  ".repeat(depth)));
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

/** A moving line for whoever waits at a terminal, from a second on. It is gone once that is over. */
export interface Waiting {
  /** How far it is. Called again and again by work that lets nothing else happen, or the line would not move. */
  at(doing?: string): void;
  end(): void;
}

const PATIENCE_MS = 1000;
const FRAME_MS = 120;

export function openWaiting(io: Io, doing: string): Waiting {
  const { stderr, env } = io;
  if (stderr.isTTY !== true || env["TERM"] === "dumb") return { at() {}, end() {} };
  const out = printer(stderr, env);
  const start = performance.now();
  const state = { doing, frame: 0, drawnAt: start + PATIENCE_MS - FRAME_MS };
  const draw = () => {
    const now = performance.now();
    if (now - state.drawnAt < FRAME_MS) return;
    state.drawnAt = now;
    const line = oneLine(`${state.doing} · ${((now - start) / 1000).toFixed(0)} s`, out.width - 3);
    const frame = FRAMES[state.frame++ % FRAMES.length] ?? "";
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

/** Work that is waited for so. */
export async function waitingFor<T>(io: Io, doing: string, work: (waiting: Waiting) => T | Promise<T>): Promise<T> {
  const waiting = openWaiting(io, doing);
  try {
    return await work(waiting);
  } finally {
    waiting.end();
  }
}

function doingOf(event: RunEvent): string | undefined {
  const who = event.skill === "" ? "" : `${event.skill}: `;
  const step = "step" in event ? ` · step ${event.step}` : "";
  if (event.type === "tool-called") return `${who}${event.tool}${step}`;
  if (event.type === "text-said") return `${who}writing${step}`;
  if (event.type === "tool-ended" || event.type === "run-started") return `${who}thinking${step}`;
  return undefined;
}

type Lines = {
  [Type in SkillEvent["type"]]?: (out: Printer, event: Extract<SkillEvent, { type: Type }>, indent: string) => unknown;
};

/** What is worth a line of its own. */
const LINES: Lines = {
  "skill-loaded": (out, { skill }) => out.line`${out.dim("·")} loaded ${out.bold(skill)}`,
  "run-started": (out, { skill, model }, indent) =>
    skill !== "" && out.line`${out.dim(`${indent.slice(2)}·`)} ${out.bold(skill)} ${out.dim(`with ${model}`)}`,
  "run-warned": (out, { code, message, fix, diff }) => {
    // Every command prints it before it begins.
    if (code !== "nearer-copy-broken") sayNotice(out, out.yellow("!"), message, fix);
    sayDiff(out, diff);
  },
  "packages-built": (out, { text }) => out.line`${out.dim("·")} ${text}`,
  "model-retried": (out, { reason }) => out.line`${out.yellow("!")} ${reason}`,
  "tool-called": (out, { tool, input, skill }, indent) => {
    if (tool === "complete") return;
    const what = gist(input, out.width - indent.length);
    const who = out.dim(`${indent}${skill === "" ? "·" : `${skill}:`}`);
    out.line`${who} ${tool}${what === "" ? "" : out.text` ${out.dim(what)}`}`;
  },
  "tool-ended": (out, { tool, isError, code = "", message = code }, indent) =>
    isError &&
    tool !== "use_skill" &&
    out.line`${out.dim(`${indent}  `)}${out.yellow("!")} ${tool} failed: ${out.dim(oneLine(message, Math.max(40, out.width - indent.length - tool.length - 14)))}`,
  "capability-called": (out, { capability, operation, outcome }, indent) =>
    outcome !== "ok" && out.line`${out.dim(`${indent}  `)}${out.yellow("!")} ${capability}.${operation}: ${outcome}`,
  // Of what was asked for itself, the command says why not.
  "run-refused": (out, { parent, refusals }, indent) => {
    for (const { message, fix } of parent === undefined ? [] : refusals)
      sayNotice(out, out.text`${indent}  ${out.yellow("!")}`, message, fix);
  },
  "tool-blocked": (out, { tool, message }) =>
    out.line`${out.yellow("!")} ${tool} was blocked: ${oneLine(message, 300)}`,
};

/** The one thing that says most of a call. */
export function gist(input: unknown, width: number): string {
  if (input === null || typeof input !== "object") return "";
  const parts = Object.entries(input).flatMap(([name, value]) => {
    if (typeof value === "string") return [value];
    return typeof value === "number" || typeof value === "boolean" ? [`(${name}: ${value})`] : [];
  });
  return oneLine(parts.join(" "), Math.max(20, Math.min(width, 100) - 30));
}

export function sayUsage(usage: Usage, cost: number | undefined): string[] {
  const tokens = usage.inputTokens + usage.outputTokens;
  return [...(tokens > 0 ? [`${grouped(tokens)} tokens`] : []), ...(cost === undefined ? [] : [money(cost)])];
}

export function money(dollars: number): string {
  return dollars > 0 && dollars < 0.01 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}
