import { randomUUID } from "node:crypto";
import { statSync } from "node:fs";
import { homedir } from "node:os";
import type { RunEvent, SkillEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import { RUN_DEFAULTS } from "../host/limits.ts";
import type { Message } from "../host/models.ts";
import { notify } from "../host/notify.ts";
import type { Notice } from "../host/sandbox.ts";
import { NO_SETTINGS } from "../host/settings.ts";
import type { Prompt } from "../prompt/prompt.ts";
import { openPromptSession } from "../prompt/session.ts";
import { boundTime } from "../run/bound-time.ts";
import { runId } from "../run/id.ts";
import { emit } from "../run/loop-options.ts";
import { asNotice } from "../run/notice.ts";
import { livePort, type Port } from "../run/port.ts";
import { refusedRun } from "../run/refused.ts";
import { type Run, startRun } from "../run/start-run.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { realPlace } from "../shared/inside.ts";
import { openHiding } from "../shared/redact.ts";
import { converse, type Said } from "./converse.ts";
import { environmentIn, SECRET } from "./environment.ts";
import type { ClaudeOptions, ClaudeResult } from "./options.ts";
import { SKILL } from "./own-tools.ts";
import { openPlace, planFor } from "./place.ts";
import { planScripts, sandboxProblem, scriptGrants } from "./scripts.ts";
import { loadClaudeSdk } from "./sdk.ts";

/**
 * Evaluates a prompt through the Claude Agent SDK: skills that can be installed are, in a home of their own, where Claude finds them by
 * itself; the others are sections that it opens, and their tools are reached through MCP. Contract: the run resolves, also when it is
 * refused or fails, and the home is gone then.
 */
export function evaluateWithClaude(prompt: Prompt, options: ClaudeOptions = {}): Run<SkillEvent, ClaudeResult> {
  return startRun<SkillEvent, ClaudeResult>(async (pass, signal) => {
    const { sessionId = options.session?.id ?? randomUUID(), approve, approvals } = options;
    const host: Host = { settings: NO_SETTINGS, ...defined({ approve, approvals }) };
    const tell = (event: SkillEvent) => {
      pass(event);
      notify(options, event);
    };
    const port = livePort(host, tell as (event: RunEvent) => void);
    const work: Work = { run: runId(), start: performance.now(), sessionId, tell, port, signal };
    try {
      return await evaluate(prompt, options, work);
    } catch (cause) {
      const refused = await refusedRun({ ...work, skill: "", host }, [asNotice(cause)]);
      return { ...refused, sessionId, installed: [], expanded: [...(options.expanded ?? [])], cause };
    }
  }, options.signal);
}

interface Work {
  run: string;
  start: number;
  sessionId: string;
  tell(event: SkillEvent): void;
  port: Port;
  signal: AbortSignal;
}

async function evaluate(prompt: Prompt, options: ClaudeOptions, work: Work): Promise<ClaudeResult> {
  const { run, start, sessionId, tell, port, signal } = work;
  const { sdk, cwd, plan, session, tools } = await prepared(prompt, options, work);
  for (const warning of plan.warnings) emit(port, { run, skill: "" }, { type: "run-warned", ...warning });
  const place = openPlace(prompt, plan, { sessionId, startsPrograms: tools.some((name) => STARTING.has(name)) });
  const { home, installed } = place;
  if (place.event) tell(place.event);
  const env = environmentIn(home, process.env, options.env);
  const hiding = openHiding(new Map(SECRET.flatMap((name) => (env[name] ? [[name, env[name]]] : []))));
  const ground = { cwd, home: realPlace(home?.path ?? homedir()), skillsDir: home && realPlace(home.skillsDir) };
  const { seconds = RUN_DEFAULTS.seconds, maxTurns: iterations = RUN_DEFAULTS.mostIterations } = options;
  const limits = { seconds, iterations };
  const allowedTools = [...(options.allowedTools ?? []), ...scriptGrants(installed, ground.skillsDir)];
  const given = { ...options, allowedTools };
  const scene = {
    run,
    start,
    tell,
    port,
    hiding,
    session,
    sdk,
    options: given,
    place,
    plan,
    tools,
    env,
    ground,
    limits,
  };
  let result: Said;
  let left: Notice | undefined;
  try {
    const conversation = (bounded: AbortSignal) => converse({ ...scene, signal: bounded });
    result = await boundTime(seconds, signal, conversation, port.waited);
  } finally {
    left = await place.close();
  }
  const said: Message[] = [
    { role: "user", text: session.render().text },
    { role: "assistant", text: result.content, calls: [] },
  ];
  options.session?.remember({ expanded: session.expanded, messages: [...session.messages, ...said] });
  const warnings = [...result.warnings, ...(left ? [left] : [])];
  return { ...result, warnings, sessionId, installed: [...installed.keys()], expanded: session.expanded };
}

/** What of Claude's own starts programs. */
const STARTING: ReadonlySet<string> = new Set(["Bash", "PowerShell", "Monitor"]);

/** Everything that can be wrong before something is made. */
async function prepared(prompt: Prompt, options: ClaudeOptions, { sessionId, tell }: Pick<Work, "sessionId" | "tell">) {
  const cwd = workingFolder(options.cwd ?? process.cwd());
  const planned = planFor(prompt, options.isolation);
  const { isInstalled } = planned;
  const scripts = planScripts(prompt, isInstalled);
  const tools = toolsOf({ tools: scripts.tools, ...defined({ tools: options.tools }) }, isInstalled);
  const unsandboxed = isSandboxed(options) && tools.some((name) => STARTING.has(name)) ? sandboxProblem() : undefined;
  if (unsandboxed) throw new SkillError(unsandboxed.code, unsandboxed); // Before anything is made or started.
  const isAsked = scripts.problem !== undefined && options.tools === undefined;
  const plan = isAsked ? { ...planned, warnings: [...planned.warnings, scripts.problem as Notice] } : planned;
  const { messages = [], expanded = [] } = options.session ?? {};
  const before = { expanded: options.expanded ?? expanded, messages };
  const session = openPromptSession(prompt, { id: sessionId, ...before, isInstalled, onEvent: tell });
  const sdk = options.sdk ?? (await loadClaudeSdk(cwd));
  return { sdk, cwd, plan, session, tools };
}

/** Whether commands run in Claude Code's sandbox: in a home of their own, unless the program switches it off. */
function isSandboxed({ isolation }: ClaudeOptions): boolean {
  if (!isolation) return false;
  return isolation === true || isolation.sandbox?.["enabled"] !== false;
}

/** Where there is none, the SDK says that its program does not fit the system. */
function workingFolder(path: string): string {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return realPlace(path);
  throw new SkillError("cwd-missing", {
    message: `The working folder ${path} is not there`,
    fix: "make it, or name another as `cwd`",
  });
}

function toolsOf({ tools }: { tools: readonly string[] }, isInstalled: boolean): string[] {
  return [...new Set(isInstalled ? [SKILL, ...tools] : tools)];
}
