import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { denials } from "../../policy/policy.ts";
import { claimSecrets } from "../../policy/secrets.ts";
import { runId } from "../../run/id.ts";
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
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { type Io, interruption, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { forTerminal } from "../say.ts";
import { openServer, openTools, skillsWithTools, type ToolRow } from "../tools-found.ts";
import { askForTrust } from "./trust.ts";

interface CallOptions {
  input?: string;
  yes?: boolean;
}

/** Calls one tool as a run would: what it gives goes to stdout, what happens meanwhile to stderr. */
export async function call({ io, options, args }: Context<CallOptions>): Promise<number> {
  const [name = ""] = args;
  const found = await discoverFor(io, options);
  if (!warnOfConfiguration(io, found)) return EXIT.usage;
  const input = inputOf(io, options.input);
  const row = await openFor(io, found, name);
  try {
    const tool = toolIn(row, name);
    const isAgreed = options.yes ?? false;
    const result = "isError" in tool ? tool : await made(io, found, { row, tool, input, isAgreed });
    if (options.json) printJson(io.stdout, result);
    else say(io, result);
    return exitOf(result);
  } finally {
    row?.close();
  }
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
  return isWaiting(row) && (await askForTrust(io, found, [skill])) ? open() : row;
}

function isWaiting(row: ToolRow | undefined): boolean {
  return row?.problems.some(({ code }) => code === "untrusted" || code === "changed") ?? false;
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

function toolIn({ tools, problems }: ToolRow, name: string): Tool | ToolResult {
  if (problems.length > 0 && tools.length === 0) return refusedResult(problems);
  const tool = tools.find((candidate) => candidate.name === name || wireName(candidate.name) === name);
  if (tool) return tool;
  throw new SkillError("usage", {
    message: `There is no tool "${name}"`,
    fix: `there are: ${tools.map((candidate) => candidate.name).join(", ")}`,
  });
}

interface Made {
  row: ToolRow;
  tool: Tool;
  input: unknown;
  /** Whether whoever called agreed beforehand. */
  isAgreed: boolean;
}

async function made(io: Io, found: Discovered, { row, tool, input, isAgreed }: Made): Promise<ToolResult> {
  const { of } = row;
  const own: OwnSecrets = of ? ownSecrets(of.skill, found) : { secrets: new Map() };
  const hiding = openHiding(allSecrets(own.secrets, found));
  const denied = of ? denials(of.skill, found, "run") : [];
  if (denied.length > 0) return refusedResult(denied);
  if (own.problem !== undefined) throw own.problem;
  const interrupted = interruption(io);
  const { toolSeconds } = found.settings.limits;
  const late = AbortSignal.timeout(Math.min(toolSeconds * 1000, 2 ** 31 - 1));
  const signal = AbortSignal.any([interrupted, late]);
  const refused = isAgreed ? undefined : await disagreement(io, found, { tool, input, hiding, signal });
  if (refused) return refused;
  if (of) claimSecrets(of.skill, found);
  const { secrets } = own;
  const progress = printer(io.stderr, io.env);
  const result = await tool.execute(input, {
    ...{ signal, run: runId(), env: Object.fromEntries(secrets) },
    ...(of ? { sandbox: lateSandbox(found, { ...of, secrets, hiding, signal }) } : {}),
    onProgress: (text) => progress.line`${progress.dim("·")} ${hiding.text(text)}`,
  });
  const timedOut = { content: `It did not end within ${toolSeconds} seconds.`, isError: true, code: "tool-timeout" };
  return result.code === "aborted" && late.aborted ? timedOut : { ...result, content: hiding.text(result.content) };
}

/** Why a call that changes something is not made. */
async function disagreement(
  io: Io,
  found: Discovered,
  { tool, input, hiding, signal }: { tool: Tool; input: unknown; hiding: Hiding; signal: AbortSignal },
): Promise<ToolResult | undefined> {
  const about = { run: "", skill: "", gates: [], agreed: new Set<string>(), hiding };
  const effect = await effectToAgree(about, tool, { input });
  if (!effect) return undefined;
  const approve = askApproval(io);
  const host = { approvals: found.approvals, ...(approve ? { approve } : {}) };
  const hide = (text: string) => hiding.text(text);
  const word = await wordOn(host, { effect, signal, hide, onAsked: () => {}, onGiven: () => {} });
  if (word?.isApproved) return undefined;
  const refusal = { code: "not-approved", message: `${tool.name} was not called: it was not approved`, fix: "" };
  const needed = {
    code: "approval-needed",
    message: `${tool.name} was not called: ${effect.reason}, and nobody can be asked here`,
    fix: "to agree to it beforehand: --yes",
  };
  return refusedResult([word ? refusal : needed]);
}

function inputOf(io: Io, given: string | undefined): unknown {
  if (given === undefined) return {};
  try {
    return JSON.parse(given.startsWith("@") ? readFileSync(resolve(io.cwd, given.slice(1)), "utf8") : given);
  } catch (error) {
    throw new SkillError("usage", {
      message: `The input cannot be read: ${reason(error)}`,
      fix: `as in --input '{"input": "…"}', or --input @file.json`,
    });
  }
}

function say(io: Io, { content, isError, title }: ToolResult): void {
  const error = printer(io.stderr, io.env);
  if (isError) {
    const [first = "", ...more] = unlabelled(content).split("\n");
    error.line`${error.red("✗")} ${first}`;
    for (const line of more) error.line`  ${line}`;
    return;
  }
  if (title !== undefined) error.line`${error.green("✓")} ${title}`;
  const text = forTerminal(unlabelled(content));
  io.stdout.write(text.endsWith("\n") ? text : `${text}\n`);
}

const EXITS: Readonly<Record<string, number>> = {
  untrusted: EXIT.refused,
  changed: EXIT.refused,
  "approval-needed": EXIT.refused,
  "not-approved": EXIT.refused,
  "tool-timeout": EXIT.limit,
  aborted: EXIT.interrupted,
};

function exitOf({ isError, code = "" }: ToolResult): number {
  return isError ? (EXITS[code] ?? EXIT.findings) : EXIT.fine;
}
