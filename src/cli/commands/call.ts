import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import type { Notice } from "../../host/sandbox.ts";
import { denials } from "../../policy/policy.ts";
import { requireSecrets } from "../../policy/secrets.ts";
import { shownPath } from "../../policy/shown-path.ts";
import { runId } from "../../run/id.ts";
import { callInTime } from "../../run/in-time.ts";
import { wordOn } from "../../run/port.ts";
import { unlabelled } from "../../run/printed.ts";
import { refusedResult } from "../../run/result.ts";
import { allSecrets, type OwnSecrets, ownSecrets } from "../../run/secrets.ts";
import { lateSandbox } from "../../run/toolset/late-sandbox.ts";
import { effectToAgree } from "../../run/word.ts";
import { SkillError } from "../../shared/error.ts";
import { reason } from "../../shared/inside.ts";
import { type Hiding, openHiding } from "../../shared/redact.ts";
import { nearest } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import type { Tool, ToolResult } from "../../skill/tool.ts";
import { wireName } from "../../skill/wire-name.ts";
import { askApproval } from "../approval.ts";
import { EXIT } from "../exit.ts";
import { forTerminal } from "../fold.ts";
import { discoverToRun, requireConfiguration } from "../found.ts";
import { type Io, interruption, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { takesOf } from "../takes.ts";
import { openServer, openTools, skillsWithTools, type ToolRow } from "../tools-found.ts";
import { askForWaiting, isWaiting } from "../waiting.ts";
import { sayProblems, tools } from "./tools.ts";

interface CallOptions {
  input?: string;
  yes?: boolean;
}

/** Calls one tool as a run would: what it gives goes to stdout, what happens meanwhile to stderr. */
export async function call({ io, options, args }: Context<CallOptions>): Promise<number> {
  const [name = ""] = args;
  const found = await discoverToRun(io, options);
  requireConfiguration(io, found);
  if (isWhole(found, name)) return tools({ io, options, args });
  const input = await inputOf(io, options.input);
  const row = await openFor(io, found, name);
  try {
    const tool = toolIn(row, name);
    const isAgreed = options.yes ?? false;
    const result = tool ? await made(io, found, { row, tool, input, isAgreed }) : refusedBy(row.problems);
    if (options.json) printJson(io.stdout, result.result);
    else say(io, result, tool);
    return exitOf(result.result);
  } finally {
    row?.close();
  }
}

/** What a call came to; where it was not made, why not. */
interface Outcome {
  result: ToolResult;
  refusals?: readonly Notice[];
}

function refusedBy(refusals: readonly Notice[]): Outcome {
  return { result: refusedResult(refusals), refusals };
}

/** A skill or a server by its own name: whoever names no tool wants to see which there are. */
function isWhole(found: Discovered, name: string): boolean {
  return skillsWithTools(found).some((skill) => skill.name === name) || found.settings.mcp.has(name);
}

/** Where the tool is: a skill brings it, or a server has it. */
async function openFor(io: Io, found: Discovered, name: string): Promise<ToolRow> {
  const skill = skillOf(found, name);
  if (!skill) {
    const server = await openServer(found, name.replace(/(?:\.|__).*$/s, ""));
    if (server) return server;
    throw unknown(found, name);
  }
  const hiding = openHiding(allSecrets(ownSecrets(skill, found).secrets, found));
  const open = async () => {
    const rows = await openTools(found, [skill], (text) => io.stderr.write(forTerminal(hiding.text(text))));
    return rows[0] as ToolRow;
  };
  const row = await open();
  const refusals = row.problems;
  return isWaiting(refusals) && (await askForWaiting(io, found, [{ skill, refusals }])) ? open() : row;
}

/** `my-skill.my-tool`, also as a model writes it. */
function skillOf(found: Discovered, name: string): Skill | undefined {
  const skills = skillsWithTools(found).sort((a, b) => b.name.length - a.name.length); // One's name may begin with another's.
  return skills.find((skill) => [".", "__"].some((between) => name.startsWith(skill.name + between)));
}

function unknown(found: Discovered, name: string): SkillError {
  const names = [...skillsWithTools(found).map((skill) => skill.name), ...found.settings.mcp.keys()];
  const meant = nearest(name.replace(/(?:\.|__).*$/s, ""), names);
  return new SkillError("usage", {
    message: `No skill and no server has a tool "${name}"${meant ? `; did you mean one of ${meant}?` : ""}`,
    fix: "name it as skillet tools does: SKILL.TOOL, or SERVER.TOOL",
  });
}

/** Nothing where there are none, and why is known. */
function toolIn({ tools: there, problems }: ToolRow, name: string): Tool | undefined {
  if (problems.length > 0 && there.length === 0) return undefined;
  const tool = there.find((candidate) => candidate.name === name || wireName(candidate.name) === name);
  if (tool) return tool;
  throw new SkillError("usage", {
    message: `There is no tool "${name}"`,
    fix: `there are: ${there.map((candidate) => candidate.name).join(", ")}`,
  });
}

interface Made {
  row: ToolRow;
  tool: Tool;
  input: unknown;
  /** Whether whoever called agreed beforehand. */
  isAgreed: boolean;
}

async function made(io: Io, found: Discovered, { row, tool, input, isAgreed }: Made): Promise<Outcome> {
  const { of } = row;
  const own: OwnSecrets = of ? ownSecrets(of.skill, found) : { secrets: new Map() };
  const hiding = openHiding(allSecrets(own.secrets, found));
  const refusals = of ? denials(of.skill, found, "run") : [];
  const isGiven = of && isWaiting(refusals) && (await askForWaiting(io, found, [{ skill: of.skill, refusals }]));
  const denied = of && isGiven ? denials(of.skill, found, "run") : refusals;
  if (denied.length > 0) return refusedBy(denied);
  if (own.problem !== undefined) throw own.problem;
  const signal = interruption(io);
  const refused = isAgreed ? undefined : await disagreement(io, found, { row, tool, input, hiding, signal });
  if (refused) return refusedBy([refused]);
  if (of) requireSecrets(of.skill, found);
  const { secrets } = own;
  const run = runId();
  const progress = printer(io.stderr, io.env);
  const options = {
    ...{ signal, run, key: `${run}:1`, env: Object.fromEntries(secrets) },
    ...(of ? { sandbox: lateSandbox(found, { ...of, secrets, hiding, signal }) } : {}),
    onProgress: (text: string) => progress.line`${progress.dim("·")} ${hiding.text(text)}`,
  };
  const result = await callInTime(tool, input, options, found.settings.limits.toolSeconds);
  return { result: { ...result, content: hiding.text(result.content) } };
}

interface Asked extends Pick<Made, "row" | "tool" | "input"> {
  hiding: Hiding;
  signal: AbortSignal;
}

/** Why a call that changes something is not made. */
async function disagreement(
  io: Io,
  found: Discovered,
  { row, tool, input, hiding, signal }: Asked,
): Promise<Notice | undefined> {
  const { workspace: folder } = found;
  const workspace = folder === undefined ? undefined : shownPath(folder, found);
  const about = { run: "", skill: "", gates: [], agreed: new Set<string>(), hiding, workspace };
  const asked = await effectToAgree(about, tool, { input });
  if (!asked) return undefined;
  const effect = row.of ? asked : { ...asked, source: `server ${row.name}` };
  const approve = askApproval(io, "call");
  const host = { approvals: found.approvals, ...(approve ? { approve } : {}) };
  const hide = (text: string) => hiding.text(text);
  const word = await wordOn(host, { effect, signal, hide, onAsked: () => {}, onGiven: () => {} });
  if (word?.isApproved) return undefined;
  if (word) return { code: "not-approved", message: `${tool.name} was not called: it was not approved`, fix: "" };
  return {
    code: "approval-needed",
    message: `${tool.name} was not called: ${effect.reason}, and nobody can be asked here`,
    fix: "to agree to it beforehand: --yes",
  };
}

async function inputOf(io: Io, given: string | undefined): Promise<unknown> {
  if (given === undefined) return {};
  try {
    const text = given.startsWith("@") ? readFileSync(resolve(io.cwd, given.slice(1)), "utf8") : given;
    return JSON.parse(given === "-" ? ((await io.stdin?.()) ?? "") : text);
  } catch (error) {
    throw new SkillError("usage", {
      message: `The input cannot be read: ${reason(error)}`,
      fix: `as in --input '{"input": "…"}', --input @file.json, or --input - for what is piped in`,
    });
  }
}

function say(io: Io, { result: { content, isError, title, code }, refusals }: Outcome, tool: Tool | undefined): void {
  const error = printer(io.stderr, io.env);
  if (refusals) sayProblems(error, refusals);
  else if (isError) {
    const [first = "", ...more] = unlabelled(content).split("\n");
    error.line`${error.red("✗")} ${first}`;
    for (const line of more) error.line`  ${line}`;
    if (code === "input-invalid" && tool) error.line`  it takes: ${takesOf(tool.inputSchema) || "nothing"}`;
  } else {
    if (title !== undefined) error.line`${error.green("✓")} ${title}`;
    const text = forTerminal(unlabelled(content));
    io.stdout.write(text.endsWith("\n") ? text : `${text}\n`);
  }
}

const EXITS: Readonly<Record<string, number>> = {
  untrusted: EXIT.refused,
  changed: EXIT.refused,
  "approval-needed": EXIT.refused,
  "not-approved": EXIT.refused,
  "mcp-disabled": EXIT.refused,
  "tool-timeout": EXIT.limit,
  aborted: EXIT.interrupted,
};

function exitOf({ isError, code = "" }: ToolResult): number {
  return isError ? (EXITS[code] ?? EXIT.findings) : EXIT.fine;
}
