import { join } from "node:path";
import type { Reason, Removal, Step } from "../../install/plan.ts";
import type { Target } from "../../install/target.ts";
import type { SkillError } from "../../shared/error.ts";
import { count } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { type Io, type Printer, printer, printJson, type Safe } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { CommonOptions } from "../program.ts";
import { sayNotice } from "../say.ts";
import { printHanging } from "../wrap.ts";
import { notesOf } from "./notes.ts";

/** What was done in one client's folder. */
export interface Outcome {
  target: Target;
  steps: readonly (Step | Removal | Left)[];
  /** Why nothing was. */
  error?: SkillError;
}

/** A copy that is not brought up to date, and why. */
export interface Left {
  name: string;
  action: "leave" | "refuse";
  reason: Reason;
}

interface Options extends CommonOptions {
  dryRun?: boolean;
}

type Action = (Step | Removal | Left)["action"];

interface Words {
  mark: string;
  paint: "green" | "yellow" | "dim" | "red";
  /** What was done, and what would be. */
  done: string;
  planned: string;
}

const WORDS: Record<Action, Words> = {
  install: { mark: "+", paint: "green", done: "exported", planned: "would be exported" },
  update: { mark: "~", paint: "yellow", done: "updated", planned: "would be updated" },
  unchanged: { mark: "=", paint: "dim", done: "unchanged", planned: "unchanged" },
  remove: { mark: "-", paint: "yellow", done: "removed", planned: "would be removed" },
  forget: { mark: "-", paint: "dim", done: "was gone already", planned: "is gone already" },
  leave: { mark: "=", paint: "dim", done: "left as it is", planned: "left as it is" },
  refuse: { mark: "✗", paint: "red", done: "refused", planned: "refused" },
};

const CHANGES: ReadonlySet<Action> = new Set(["install", "update", "remove"]);
const MOST_FILES = 20;

/** Tells what was done, and gives what the command ends with. */
export function printOutcomes(io: Io, outcomes: readonly Outcome[], options: Options): number {
  if (options.json) printJson(io.stdout, asJson(outcomes, options));
  const said = new Map<string, string>();
  for (const outcome of outcomes) {
    if (!options.json) printSteps(io, outcome, { ...options, said });
    sayRest(io, outcome, options);
  }
  if (outcomes.some(({ error }) => error)) return EXIT.findings;
  return outcomes.some(({ steps }) => steps.some(({ action }) => action === "refuse")) ? EXIT.refused : EXIT.fine;
}

function asJson(outcomes: readonly Outcome[], { dryRun = false }: Options): object {
  return {
    isDryRun: dryRun,
    clients: outcomes.map(({ target: { id, folder }, steps, error }) => ({
      client: id,
      folder,
      steps: steps.map((step) => ({ ...step, folder: join(folder, step.name) })),
      ...(error ? { error: { code: error.code, message: error.message, fix: error.fix } } : {}),
    })),
  };
}

interface Printing extends Options {
  /** What was said of clients before. */
  said: Map<string, string>;
}

/** At once: a thousand writes take longer than what they tell of. */
function printSteps(io: Io, { target, steps }: Outcome, { dryRun = false, said }: Printing): void {
  const lines: string[] = [];
  const { isTTY, columns } = io.stdout;
  const out = printer({ isTTY, columns, write: (text) => lines.push(text) }, io.env);
  const { title } = target.client;
  const shown = steps.filter(({ action }) => action !== "refuse");
  const changed = shown.filter((step): step is Step => "files" in step && CHANGES.has(step.action));
  const { own, shared, asOf } = notesOf(changed, title, said);
  const widest = Math.min(32, Math.max(0, ...shown.map(({ name }) => name.length)));
  const dim = (line: string): Safe => out.dim(line);
  if (shown.length > 0) out.line`${out.bold(title)} ${out.dim(target.shown)}`;
  for (const step of shown) {
    const { mark, paint } = WORDS[step.action];
    const before = out.text`  ${out[paint](mark)} ${out.bold(step.name.padEnd(widest))}  `;
    printHanging(out, before, [wordsFor(step, dryRun)], { indent: widest + 6 });
    for (const note of own.get(step.name) ?? []) printHanging(out, "      ", [note], { indent: 6, paint: dim });
    if (CHANGES.has(step.action) && step.reason?.code === "edited")
      out.line`      ${out.yellow(`it was changed by hand since: these changes ${dryRun ? "would be" : "are"} lost`)}`;
    if (dryRun && "files" in step && CHANGES.has(step.action)) printFiles(out, step);
  }
  const rest = asOf === undefined ? [] : [`what was said of ${asOf} above goes for ${title} too`];
  for (const note of [...shared, ...rest])
    printHanging(out, out.text`  ${out.dim("·")} `, [note], { indent: 4, paint: dim });
  io.stdout.write(lines.join(""));
}

function wordsFor(step: Outcome["steps"][number], dryRun: boolean): string {
  const { done, planned } = WORDS[step.action];
  if (step.action === "unchanged" && step.reason) return "already there";
  if (step.action === "leave") return [step.reason.message, step.reason.fix].filter(Boolean).join(": ");
  const files = "files" in step && CHANGES.has(step.action) ? `, ${count(step.files.length, "file")}` : "";
  return `${dryRun ? planned : done}${files}`;
}

function printFiles(out: Printer, { files }: Step): void {
  for (const file of files.slice(0, MOST_FILES)) out.line`      ${file}`;
  if (files.length > MOST_FILES) out.line`      ${out.dim(`and ${files.length - MOST_FILES} more: --json has all`)}`;
}

function sayRest(io: Io, { target, steps, error }: Outcome, { dryRun, workspace, json }: Options): void {
  const out = printer(io.stderr, io.env);
  for (const { action, reason } of steps)
    if (action === "refuse" && reason) sayNotice(out, out.red("✗"), reason.message, fromHere(reason.fix, workspace));
  if (error) sayNotice(out, out.red("✗"), error.message, error.fix ?? "");
  const said = Map.groupBy(steps, ({ action }) => action);
  if (json || error || steps.length === 0) return;
  const sums = [...said].map(([action, { length }]) => `${length} ${WORDS[action][dryRun ? "planned" : "done"]}`);
  const { title, next } = target.client;
  out.line`${said.has("refuse") ? out.yellow("!") : out.green("✓")} ${title}: ${sums.join(", ")}`;
  if (!dryRun && (said.has("install") || said.has("update"))) printHanging(out, "  ", [`then ${next}`], { indent: 2 });
}
