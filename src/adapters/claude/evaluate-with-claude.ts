import { randomUUID } from "node:crypto";
import { statSync } from "node:fs";
import { homedir } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { createPromptSession, type PromptSession } from "../../agent/prompts/prompt-session.ts";
import type { Prompt } from "../../agent/prompts/prompt-template.ts";
import {
  createRunId,
  formatRunContent,
  type Run,
  type RunResult,
  startRun,
  toProblem,
} from "../../agent/run/run-result.ts";
import { createLiveStepRunner, emitRunEvent, refuseRun, type StepRunner } from "../../agent/run/step-runner.ts";
import { callIgnoringErrors, type Host, notifyHost } from "../../config/host.ts";
import { DEFAULT_RUN_LIMITS } from "../../config/limits.ts";
import { DEFAULT_SETTINGS } from "../../config/settings.ts";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import type { RunEvent, SkillEvent } from "../../host/events.ts";
import type { Message } from "../../host/model-contract.ts";
import { omitUndefined } from "../../util/objects.ts";
import { createRedactor, type Redactor } from "../../util/redact.ts";
import { resolveRealPath } from "../../util/safe-path.ts";
import { TimeLimitError, withTimeLimit } from "../../util/timeout.ts";
import { sanitizeLine, wrapInTag } from "../../util/untrusted-text.ts";
import {
  type ClaudeHome,
  type ClaudeHomePlan,
  createClaudeEnvironment,
  findSandboxProblem,
  listScriptGrants,
  openClaudeHome,
  planClaudeHome,
  planScripts,
  SECRET_VARIABLES,
} from "./claude-home.ts";
import {
  type ClaudeFolders,
  createToolPermissions,
  SKILL_TOOL,
  STRUCTURED_OUTPUT_TOOL,
  type ToolPermissions,
} from "./claude-permissions.ts";
import {
  type ClaudeOptions,
  type ClaudeResult,
  type ClaudeSdk,
  type ClaudeSdkOptions,
  loadClaudeSdk,
  type SdkCall,
  type SdkQuery,
  type SdkUserMessage,
} from "./claude-sdk.ts";
import { createTranscript, type Transcript, type TranscriptEnd } from "./claude-transcript.ts";
import { BRIDGE_SERVER, createToolBridge } from "./tool-bridge.ts";

/**
 * Evaluates a prompt through the Claude Agent SDK: skills that can be installed are, in a home of their own, where Claude finds them by
 * itself; the others are sections that it opens, and their tools are reached through MCP. Contract: the run resolves, also when it is
 * refused or fails, and the home is gone then.
 */
export function evaluateWithClaude(prompt: Prompt, options: ClaudeOptions = {}): Run<SkillEvent, ClaudeResult> {
  return startRun<SkillEvent, ClaudeResult>(async (pass, signal) => {
    const { sessionId = options.session?.id ?? randomUUID(), approve, approvals } = options;
    const host: Host = { settings: DEFAULT_SETTINGS, ...omitUndefined({ approve, approvals }) };
    const tell = (event: SkillEvent) => {
      pass(event);
      notifyHost(options, event);
    };
    const port = createLiveStepRunner(host, tell as (event: RunEvent) => void);
    const work: EvaluationContext = { run: createRunId(), start: performance.now(), sessionId, tell, port, signal };
    try {
      return await runEvaluation(prompt, options, work);
    } catch (cause) {
      const refused = await refuseRun({ ...work, skill: "", host }, [toProblem(cause)]);
      return { ...refused, sessionId, installed: [], expanded: [...(options.expanded ?? [])], cause };
    }
  }, options.signal);
}

interface EvaluationContext {
  run: string;
  start: number;
  sessionId: string;
  tell(event: SkillEvent): void;
  port: StepRunner;
  signal: AbortSignal;
}

async function runEvaluation(prompt: Prompt, options: ClaudeOptions, work: EvaluationContext): Promise<ClaudeResult> {
  const { run, start, sessionId, tell, port, signal } = work;
  const { sdk, cwd, plan, session, tools } = await prepareEvaluation(prompt, options, work);
  for (const warning of plan.warnings) emitRunEvent(port, { run, skill: "" }, { type: "run-warned", ...warning });
  const place = openClaudeHome(prompt, plan, {
    sessionId,
    startsPrograms: tools.some((name) => PROGRAM_TOOLS.has(name)),
  });
  const { home, installed } = place;
  if (place.event) tell(place.event);
  const env = createClaudeEnvironment(home, process.env, options.env);
  const hiding = createRedactor(new Map(SECRET_VARIABLES.flatMap((name) => (env[name] ? [[name, env[name]]] : []))));
  const ground = {
    cwd,
    home: resolveRealPath(home?.path ?? homedir()),
    skillsDir: home && resolveRealPath(home.skillsDir),
  };
  const { seconds = DEFAULT_RUN_LIMITS.seconds, maxTurns: iterations = DEFAULT_RUN_LIMITS.mostIterations } = options;
  const limits = { seconds, iterations };
  const allowedTools = [...(options.allowedTools ?? []), ...listScriptGrants(installed, ground.skillsDir)];
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
  let result: ClaudeAnswer;
  let left: Problem | undefined;
  try {
    const conversation = (bounded: AbortSignal) => runConversation({ ...scene, signal: bounded });
    result = await withTimeLimit(seconds, signal, conversation, port.waited);
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
const PROGRAM_TOOLS: ReadonlySet<string> = new Set(["Bash", "PowerShell", "Monitor"]);

/** Everything that can be wrong before something is made. */
async function prepareEvaluation(
  prompt: Prompt,
  options: ClaudeOptions,
  { sessionId, tell }: Pick<EvaluationContext, "sessionId" | "tell">,
) {
  const cwd = resolveWorkingFolder(options.cwd ?? process.cwd());
  const planned = planClaudeHome(prompt, options.isolation);
  const { isInstalled } = planned;
  const scripts = planScripts(prompt, isInstalled);
  const tools = listClaudeTools({ tools: scripts.tools, ...omitUndefined({ tools: options.tools }) }, isInstalled);
  const unsandboxed =
    isSandboxed(options) && tools.some((name) => PROGRAM_TOOLS.has(name)) ? findSandboxProblem() : undefined;
  if (unsandboxed) throw new SkillError(unsandboxed.code, unsandboxed); // Before anything is made or started.
  const isAsked = scripts.problem !== undefined && options.tools === undefined;
  const plan = isAsked ? { ...planned, warnings: [...planned.warnings, scripts.problem as Problem] } : planned;
  const { messages = [], expanded = [] } = options.session ?? {};
  const before = { expanded: options.expanded ?? expanded, messages };
  const session = createPromptSession(prompt, { id: sessionId, ...before, isInstalled, onEvent: tell });
  const sdk = options.sdk ?? (await loadClaudeSdk(cwd));
  return { sdk, cwd, plan, session, tools };
}

/** Whether commands run in Claude Code's sandbox: in a home of their own, unless the program switches it off. */
function isSandboxed({ isolation }: ClaudeOptions): boolean {
  if (!isolation) return false;
  return isolation === true || isolation.sandbox?.["enabled"] !== false;
}

/** Where there is none, the SDK says that its program does not fit the system. */
function resolveWorkingFolder(path: string): string {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return resolveRealPath(path);
  throw new SkillError("cwd-missing", {
    message: `The working folder ${path} is not there`,
    fix: "make it, or name another as `cwd`",
  });
}

function listClaudeTools({ tools }: { tools: readonly string[] }, isInstalled: boolean): string[] {
  return [...new Set(isInstalled ? [SKILL_TOOL, ...tools] : tools)];
}

interface ClaudeRunContext {
  run: string;
  tell(event: SkillEvent): void;
  port: StepRunner;
  hiding: Redactor;
  session: PromptSession;
  start: number;
  sdk: ClaudeSdk;
  options: ClaudeOptions;
  place: ClaudeHome;
  plan: ClaudeHomePlan;
  tools: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  ground: ClaudeFolders;
  signal: AbortSignal;
  limits: { iterations: number; seconds: number };
}

/** What came of it, and the answer as data where that was asked for. */
type ClaudeAnswer = RunResult & Pick<ClaudeResult, "structured">;

/** Says the prompt to Claude and listens until it has answered. Contract: resolves when its process has ended. */
async function runConversation(scene: ClaudeRunContext): Promise<ClaudeAnswer> {
  const { run, port, hiding, session, options, place, tools, ground, signal, limits } = scene;
  const tell = (event: Parameters<typeof emitRunEvent>[2]) => emitRunEvent(port, { run, skill: "" }, event);
  const onSkill = (name: string) => {
    const skill = place.installed.get(name.replace(/^\//, ""));
    if (skill) scene.tell({ type: "skill-loaded", skill: skill.name, source: skill.origin.source });
  };
  const bridged = () => session.tools;
  const transcript = createTranscript({ run, port, hiding, limits, bridged, onSkill });
  const permits = createToolPermissions({
    ...{ run, port, hiding, signal, ground, bridged },
    tools: options.sdkOptions?.["outputFormat"] === undefined ? tools : [...tools, STRUCTURED_OUTPUT_TOOL],
    allowedTools: options.allowedTools ?? [],
    installed: place.home && place.installed,
    step: () => transcript.step,
  });
  const failed = await streamMessages(scene, transcript, permits);
  transcript.close(options.model);
  const changed = place.changed();
  const ended = decideEnding(transcript, { signal, failed, changed });
  const { stop, error, cost, structured } = ended;
  const isError = stop === "error" || stop === "timeout" || stop === "aborted";
  const ms = Math.round(performance.now() - scene.start);
  const { usage, step } = transcript;
  const iterations = transcript.model === undefined ? 0 : step;
  const { seconds } = limits;
  const content = formatRunContent({ stop, text: ended.text, iterations, seconds, tokens: undefined, error });
  tell({ type: "run-ended", stop, isError, iterations, ms, usage, ...omitUndefined({ cost }) });
  return {
    ...{ run, skill: "", content, isError, iterations, stop, refusals: [], warnings: scene.plan.warnings, usage, ms },
    ...omitUndefined({ cost, error, structured, model: transcript.model ?? options.model }),
  };
}

/** What was said in earlier evaluations of the session, as a part of the prompt: the home that Claude would keep it in is gone. */
function formatEarlierMessages(messages: readonly Message[]): string[] {
  const lines = messages.flatMap((message) =>
    message.role === "tool" || message.text === ""
      ? []
      : wrapInTag("skill_message", { role: message.role }, message.text),
  );
  return lines.length === 0 ? [] : [["Earlier in this session:", ...lines].join("\n")];
}

/** Gives what went wrong with the SDK itself. */
async function streamMessages(
  scene: ClaudeRunContext,
  transcript: Transcript,
  permits: ToolPermissions,
): Promise<Problem | undefined> {
  const { sdk, session, options, signal, hiding } = scene;
  if (signal.aborted) return undefined;
  const abortController = new AbortController();
  const input = createPromptInput([...formatEarlierMessages(session.messages), session.render().text].join("\n\n"));
  let query: SdkQuery | undefined;
  const onAbort = async () => {
    // Told alone that nobody listens any more, it would go on for as long as it has.
    await Promise.race([query?.interrupt?.(), wait(GRACE_MS)]).catch(() => {});
    abortController.abort();
  };
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const told = { ...createSdkOptions(scene, permits), abortController };
    query = sdk.query({ prompt: input.messages, options: told });
    for await (const message of query) {
      callIgnoringErrors(() => options.onMessage?.(message));
      transcript.take(message);
      if (transcript.ended) input.close();
    }
    return undefined;
  } catch (error) {
    return {
      code: "claude-failed",
      message: sanitizeLine(hiding.text(`Claude Code ended: ${getErrorMessage(error)}`), 500), // With what it printed last.
      fix: "run `claude doctor`, and check that the package of the SDK for this system is installed",
    };
  } finally {
    signal.removeEventListener("abort", onAbort);
    input.close();
    abortController.abort();
    await query?.return?.().catch(() => {});
  }
}

const GRACE_MS = 2000;

/** What is said to it: the prompt, and then nothing until it has answered. While that is open it can be interrupted. */
function createPromptInput(content: string): { messages: AsyncIterable<SdkUserMessage>; close(): void } {
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  async function* messages(): AsyncIterable<SdkUserMessage> {
    yield { type: "user", message: { role: "user", content }, parent_tool_use_id: null };
    await closed;
  }
  return { messages: messages(), close };
}

function createSdkOptions(scene: ClaudeRunContext, permits: ToolPermissions): ClaudeSdkOptions {
  const { run, session, options, place, plan, tools, env, ground, signal, limits } = scene;
  const bridge = createToolBridge(session, { run, signal, hiding: scene.hiding, limits: DEFAULT_RUN_LIMITS });
  const { sdkOptions: more = {}, model, systemPrompt } = options;
  const isHermetic = plan.isolation !== undefined;
  return {
    persistSession: false,
    ...more,
    ...omitUndefined({ model, systemPrompt }),
    ...(UUID.test(session.id) ? { sessionId: session.id } : {}),
    cwd: ground.cwd,
    env,
    tools: [...tools],
    maxTurns: limits.iterations,
    // Whatever is not allowed below is refused, and nobody is asked but by us.
    permissionMode: "dontAsk",
    allowedTools: [],
    mcpServers: { ...Object(more["mcpServers"]), [BRIDGE_SERVER]: bridge.server },
    toolAliases: bridge.aliases(tools),
    // Text of a prompt is text: neither a command nor a file to read.
    verbatimPrompts: true,
    includePartialMessages: true,
    ...(isHermetic
      ? { settingSources: ["user"], skills: [...place.installed.keys()], strictMcpConfig: true, plugins: [] }
      : {}),
    hooks: {
      ...Object(more["hooks"]),
      PreToolUse: [
        { hooks: [createToolHook(permits, signal)], timeout: MAX_HOOK_SECONDS, onFailure: "block" },
        ...asArray(Object(more["hooks"])["PreToolUse"]),
      ],
    },
  };
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** People may take their time: a day. */
const MAX_HOOK_SECONDS = 24 * 60 * 60;

function createToolHook(permits: ToolPermissions, signal: AbortSignal): (call: SdkCall) => Promise<unknown> {
  return async ({ tool_name: tool, tool_input: input }) => {
    const refused = await permits.judge({ tool, input });
    if (signal.aborted) return { continue: false, stopReason: "The run was interrupted" };
    return {
      hookSpecificOutput: {
        hookEventName: "PreToolUse",
        permissionDecision: refused ? "deny" : "allow",
        permissionDecisionReason: refused?.message ?? "",
      },
    };
  };
}

interface ConversationOutcome {
  signal: AbortSignal;
  failed: Problem | undefined;
  changed: Problem | undefined;
}

/** What ended it: what is worst goes first. */
function decideEnding({ ended, text }: Transcript, { signal, failed, changed }: ConversationOutcome): TranscriptEnd {
  const known = { text: ended?.text || text, ...omitUndefined({ cost: ended?.cost }) };
  if (changed) return { stop: "error", error: changed, ...known };
  if (ended && !(signal.aborted && ended.stop === "error")) return { ...ended, text: ended.text || text };
  if (signal.aborted) return { stop: signal.reason instanceof TimeLimitError ? "timeout" : "aborted", ...known };
  const nothing: Problem = { code: "claude-failed", message: "Claude Code ended without a result", fix: "try again" };
  return { stop: "error", error: failed ?? nothing, ...known };
}

function asArray(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
