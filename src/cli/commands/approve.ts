import { type Approval, type Effect, openApprovals } from "../../host/approvals.ts";
import { userHome } from "../../host/home.ts";
import { nothingAsked, type RunSummary, type Runs } from "../../host/runs.ts";
import { allSecrets } from "../../run/secrets.ts";
import { type HeldChanges, listHeld, readHeld } from "../../run/workspace/held-changes.ts";
import { SkillError } from "../../shared/error.ts";
import { openHiding } from "../../shared/redact.ts";
import { count } from "../../shared/text.ts";
import { shortPath } from "../../source/locations.ts";
import { isReadInFull } from "../approval.ts";
import { showEffect } from "../effect.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, surroundingsFor } from "../found.ts";
import { type Io, isAgreed, printer, printJson } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";
import { runsFor, shortId } from "../run-words.ts";
import { approveHeld, heldJson, printHeld } from "./approve-held.ts";
import { goOn } from "./resume.ts";
import { printRuns } from "./runs.ts";

interface ApproveOptions {
  deny?: string | true;
  run?: boolean;
  always?: boolean;
  resume?: boolean;
  yes?: boolean;
  details?: boolean;
  forget?: string;
}

type AnsweredOptions = Omit<ApproveOptions, "deny"> & { deny?: string };

/** Gives the word that a run waits for, or applies held changes; or says which wait, and what was agreed to for ever. */
export async function approve({ io, options: raw, args: [given] }: Context<ApproveOptions>): Promise<number> {
  const { deny, ...rest } = raw;
  const options = { ...rest, ...(deny === undefined ? {} : { deny: deny === true ? "" : deny }) };
  const runs = runsFor(io, options);
  const { skilletHome } = surroundingsFor(io, options);
  const approvals = openApprovals(skilletHome);
  if (options.forget !== undefined) return forget(io, approvals, options.forget, options.json ?? false);
  if (given === undefined)
    return listWaiting(io, { runs, approvals, held: listHeld(skilletHome) }, options.json ?? false);
  const held = readHeld(skilletHome, given);
  if (held) return approveHeld(io, held, options);
  const run = runMeant(runs, given);
  const { effect } = run;
  if (run.state !== "waiting" || !effect) throw nothingAsked(run);
  if (options.details) {
    showEffect(printer(io.stdout, io.env), effect, userHome(io.env), { isWhole: true });
    return EXIT.fine;
  }
  const approval = approvalOf({ ...options, ...(await reasonIn(io, options)) }, effect);
  const isAsked = approval.isApproved && !options.yes;
  const out = printer(io.stderr, io.env);
  const isShown = isAsked || !options.json ? showEffect(out, effect, userHome(io.env)) : true;
  const isRead = isShown || !isAsked || (await isReadInFull(io, out, effect));
  if (isAsked && !(isRead && (await isAgreed(io, questionOf(approval, effect))))) {
    throw unsaid(io, run);
  }
  runs.answer(run.id, approval, effect);
  if (approval.isApproved && approval.scope === "always") approvals.add(effect);
  if (options.json && !options.resume) printJson(io.stdout, { run: run.id, effect, ...approval });
  if (!options.json) sayWord(io, run, approval, options.resume ?? false);
  // What is agreed to with this word is this: what comes next is asked about again.
  const { yes: _, ...others } = options;
  return options.resume ? goOn(io, runs.find(run.id), others) : EXIT.fine;
}

/** `last` is the last that waits: only to one that does a word can be given. */
function runMeant(runs: Runs, given: string): RunSummary {
  const waiting = given === "last" ? runs.list().find(({ state }) => state === "waiting") : undefined;
  return waiting ?? runs.find(given);
}

/** Whoever can start a program is not yet somebody who was asked. */
function unsaid(io: Io, { id }: RunSummary): SkillError {
  if (io.ask) return new SkillError("not-agreed", { message: `nothing was written down: ${id} still waits` });
  return new SkillError("not-agreed", {
    message: `not agreed: nobody was asked, since this is no terminal; ${id} still waits`,
    fix: `look at what it would do (skillet runs show ${shortId(id)}), then say --yes`,
  });
}

/** Why not, without secrets: it is written down, and told to the model. */
async function reasonIn(io: Io, { deny, ...options }: AnsweredOptions & CommonOptions): Promise<{ deny?: string }> {
  if (deny === undefined || deny.trim() === "") return {};
  return { deny: openHiding(allSecrets(new Map(), await discoverFor(io, options))).text(deny) };
}

type Approvals = ReturnType<typeof openApprovals>;

function approvalOf({ deny, run, always }: AnsweredOptions, { on, skill, isOnce }: Effect): Approval {
  if (deny !== undefined) return { isApproved: false, ...(deny.trim() === "" ? {} : { reason: deny.trim() }) };
  if (isOnce && (run || always)) {
    const message = `This is asked about each time: it cannot be agreed to ${always ? "always" : "for a run"}`;
    throw new SkillError("usage", { message, fix: `leave out ${always ? "--always" : "--run"} to agree to it once` });
  }
  if (always && skill === "") {
    const fix = "say --run, for this run";
    throw new SkillError("usage", { message: "No skill asks for this, so that none can be let always", fix });
  }
  return { isApproved: true, scope: always ? "always" : run || (on === "workspace" && !isOnce) ? "run" : "once" };
}

function questionOf({ scope = "once" }: Approval, { on, tool }: Effect): string {
  if (scope === "once") return "Agree to this, once?";
  const what = on === "workspace" ? "all changes of files here" : `each call of ${tool}`;
  return `Agree to ${what}, ${scope === "run" ? "for the rest of the run" : "always"}?`;
}

const SAID = { once: "once", run: "for this run", always: "always" };

function sayWord(io: Io, { id, effect }: RunSummary, approval: Approval, isResumed: boolean): void {
  const { isApproved, scope = "once" } = approval;
  const out = printer(io.stderr, io.env);
  const reach = scope === "always" ? (effect?.on === "workspace" ? " in this folder" : " for this skill") : "";
  if (isApproved) out.line`${out.green("✓")} agreed ${SAID[scope]}${reach}: ${id}`;
  else out.line`${out.green("✓")} refused: ${id}; the model is told, and may find another way`;
  if (!isResumed) out.line`  ${out.cyan(`skillet resume ${shortId(id)}`)}  goes on with it`;
}

interface Listed {
  runs: Runs;
  approvals: Approvals;
  held: readonly HeldChanges[];
}

function listWaiting(io: Io, { runs, approvals, held }: Listed, asJson: boolean): number {
  const waiting = runs.list().filter(({ state }) => state === "waiting");
  const always = approvals.list();
  const problem = approvals.problem();
  if (asJson)
    printJson(io.stdout, { waiting, always, held: held.map(heldJson), ...(problem === undefined ? {} : { problem }) });
  else {
    const out = printer(io.stdout, io.env);
    printRuns(out, waiting, { hasInput: true });
    printHeld(out, held, userHome(io.env));
    for (const { skill, source, place, allowed } of always) {
      const from = place === "" ? source : shortPath(place, userHome(io.env));
      out.line`${out.green("✓")} always: ${out.bold(skill)}  ${allowed.map(sayAllowed).join(", ")}  ${out.dim(from)}`;
    }
    const error = printer(io.stderr, io.env);
    if (waiting.length === 0) error.line`no run waits for a word`;
    else error.line`${error.dim("skillet approve ID --deny REASON --resume does not agree, and goes on")}`;
    if (held.length > 0) error.line`${error.dim("skillet approve ID shows held changes and applies them")}`;
    if (always.length > 0)
      error.line`${error.dim("skillet approve --forget SKILL takes back what is agreed to always")}`;
  }
  if (problem !== undefined && !asJson) printer(io.stderr, io.env).line`! ${problem}`;
  return problem === undefined ? EXIT.fine : EXIT.findings;
}

function sayAllowed(word: string): string {
  return word.replace(/^tool:/, "").replace(/^workspace:/, "changes in ");
}

function forget(io: Io, approvals: Approvals, skill: string, asJson: boolean): number {
  const copies = approvals.forget(skill);
  if (copies === 0) {
    const names = [...new Set(approvals.list().map((row) => row.skill))];
    const fix = names.length === 0 ? "nothing is agreed to always" : `there are: ${names.slice(0, 10).join(", ")}`;
    throw new SkillError("not-found", { message: `Nothing was agreed to always for ${skill}`, fix });
  }
  if (asJson) printJson(io.stdout, { name: skill, copies });
  else {
    const out = printer(io.stdout, io.env);
    out.line`${out.green("✓")} ${skill} is asked about again${copies > 1 ? ` (${count(copies, "copy", "copies")})` : ""}`;
  }
  return EXIT.fine;
}
