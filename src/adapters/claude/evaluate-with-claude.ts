import { randomUUID } from "node:crypto";
import { statSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { createPromptSession, type PromptSession } from "../../agent/prompts/prompt-session.ts";
import type { Prompt } from "../../agent/prompts/prompt-template.ts";
import { createEventSink } from "../../agent/run/redaction.ts";
import {
  createRunId,
  formatRunContent,
  type Run,
  type RunResult,
  startRun,
  toProblem,
} from "../../agent/run/run-result.ts";
import { createLiveStepRunner, emitRunEvent, refuseRun, type StepRunner } from "../../agent/run/step-runner.ts";
import { callIgnoringErrors, type Host } from "../../config/host.ts";
import { DEFAULT_RUN_LIMITS } from "../../config/limits.ts";
import { DEFAULT_SETTINGS } from "../../config/settings.ts";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import type { RunEvent, SkillEvent } from "../../host/events.ts";
import type { Message } from "../../host/model-contract.ts";
import { TimeLimitError, withTimeLimit } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import { createRedactor, type Redactor } from "../../util/redact.ts";
import { resolveRealPath } from "../../util/safe-path.ts";
import { getUserHome } from "../../util/system.ts";
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
import {
  BRIDGE_SERVER,
  createToolBridge,
  createTranscript,
  type Transcript,
  type TranscriptEnd,
} from "./claude-transcript.ts";

/**
 * Evaluates a prompt through the Claude Agent SDK. Installable skills are installed in an isolated home, where Claude finds them; the others
 * are sections that it opens, with their tools served over MCP. Contract: the run resolves even when it is refused or fails, and the home
 * is removed by then.
 */
export function evaluateWithClaude(prompt: Prompt, options: ClaudeOptions = {}): Run<SkillEvent, ClaudeResult> {
  return startRun<SkillEvent, ClaudeResult>(async (pass, signal) => {
    const { sessionId = options.session?.id ?? randomUUID(), approve, approvals } = options;
    const host: Host = { settings: DEFAULT_SETTINGS, ...omitUndefined({ approve, approvals }) };
    const env = { ...process.env, ...options.env };
    const redactor = createRedactor(
      new Map(SECRET_VARIABLES.flatMap((name) => (env[name] ? [[name, env[name]]] : []))),
    );
    const emit = createEventSink(redactor, options, pass);
    const steps = createLiveStepRunner(host, emit as (event: RunEvent) => void);
    const work: EvaluationContext = {
      run: createRunId(),
      start: performance.now(),
      sessionId,
      notify: emit,
      steps,
      redactor,
      signal,
    };
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
  notify(event: SkillEvent): void;
  steps: StepRunner;
  redactor: Redactor;
  signal: AbortSignal;
}

async function runEvaluation(prompt: Prompt, options: ClaudeOptions, work: EvaluationContext): Promise<ClaudeResult> {
  const { run, start, sessionId, notify: emit, steps, redactor, signal } = work;
  const { sdk, cwd, plan, session, tools } = await prepareEvaluation(prompt, options, work);
  for (const warning of plan.warnings) emitRunEvent(steps, { run, skill: "" }, { type: "run-warned", ...warning });
  const claudeHome = openClaudeHome(prompt, plan, {
    sessionId,
    startsPrograms: tools.some((name) => PROGRAM_TOOLS.has(name)),
  });
  const { home, installed } = claudeHome;
  if (claudeHome.event) emit(claudeHome.event);
  const env = createClaudeEnvironment(home, process.env, options.env);
  const ground = {
    cwd,
    home: resolveRealPath(home?.path ?? getUserHome(process.env)),
    skillsDir: home && resolveRealPath(home.skillsDir),
  };
  const { seconds = DEFAULT_RUN_LIMITS.seconds, maxTurns: iterations = DEFAULT_RUN_LIMITS.iterationCap } = options;
  const limits = { seconds, iterations };
  const allowedTools = [...(options.allowedTools ?? []), ...(await listScriptGrants(installed, ground.skillsDir))];
  const runOptions = { ...options, allowedTools };
  const scene = {
    run,
    start,
    notify: emit,
    steps,
    redactor,
    session,
    sdk,
    options: runOptions,
    home: claudeHome,
    plan,
    tools,
    env,
    folders: ground,
    limits,
  };
  let result: ClaudeAnswer;
  let cleanupProblem: Problem | undefined;
  try {
    const conversation = (bounded: AbortSignal) => runConversation({ ...scene, signal: bounded });
    result = await withTimeLimit(seconds, signal, conversation, steps.waited);
  } finally {
    cleanupProblem = await claudeHome.close();
  }
  const newMessages: Message[] = [
    { role: "user", text: session.render().text },
    { role: "assistant", text: result.content, calls: [] },
  ];
  options.session?.remember({ expanded: session.expanded, messages: [...session.messages, ...newMessages] });
  const warnings = [...result.warnings, ...(cleanupProblem ? [cleanupProblem] : [])];
  return { ...result, warnings, sessionId, installed: [...installed.keys()], expanded: session.expanded };
}

/** Claude's own tools that start programs. */
const PROGRAM_TOOLS: ReadonlySet<string> = new Set(["Bash", "PowerShell", "Monitor"]);

/** Validates everything before anything is created. */
async function prepareEvaluation(
  prompt: Prompt,
  options: ClaudeOptions,
  { sessionId, notify: emit }: Pick<EvaluationContext, "sessionId" | "notify">,
) {
  const cwd = resolveWorkingFolder(options.cwd ?? process.cwd());
  const planned = planClaudeHome(prompt, options.isolation);
  const { isInstalled } = planned;
  const scripts = await planScripts(prompt, isInstalled);
  const tools = listClaudeTools({ tools: scripts.tools, ...omitUndefined({ tools: options.tools }) }, isInstalled);
  const unsandboxed =
    isSandboxed(options) && tools.some((name) => PROGRAM_TOOLS.has(name)) ? findSandboxProblem() : undefined;
  if (unsandboxed) throw new SkillError(unsandboxed.code, unsandboxed); // Before anything is created or started.
  const isAsked = scripts.problem !== undefined && options.tools === undefined;
  const plan = isAsked ? { ...planned, warnings: [...planned.warnings, scripts.problem as Problem] } : planned;
  const { messages = [], expanded = [] } = options.session ?? {};
  const before = { expanded: options.expanded ?? expanded, messages };
  const session = createPromptSession(prompt, { id: sessionId, ...before, isInstalled, onEvent: emit });
  const sdk = options.sdk ?? (await loadClaudeSdk(cwd));
  return { sdk, cwd, plan, session, tools };
}

/** Returns true if commands run in Claude Code's sandbox: in an isolated home, unless the program disables it. */
function isSandboxed({ isolation }: ClaudeOptions): boolean {
  if (!isolation) return false;
  return isolation === true || isolation.sandbox?.["enabled"] !== false;
}

/** Checks the working directory: if it is missing, the SDK reports that its program does not fit the system. */
function resolveWorkingFolder(path: string): string {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return resolveRealPath(path);
  throw new SkillError("cwd-missing", {
    message: `The working directory ${path} does not exist`,
    fix: "create it, or set `cwd` to another",
  });
}

function listClaudeTools({ tools }: { tools: readonly string[] }, isInstalled: boolean): string[] {
  return [...new Set(isInstalled ? [SKILL_TOOL, ...tools] : tools)];
}

interface ClaudeRunContext {
  run: string;
  notify(event: SkillEvent): void;
  steps: StepRunner;
  redactor: Redactor;
  session: PromptSession;
  start: number;
  sdk: ClaudeSdk;
  options: ClaudeOptions;
  home: ClaudeHome;
  plan: ClaudeHomePlan;
  tools: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  folders: ClaudeFolders;
  signal: AbortSignal;
  limits: { iterations: number; seconds: number };
}

/** The result, with the answer as data if requested. */
type ClaudeAnswer = RunResult & Pick<ClaudeResult, "structured">;

/** Sends the prompt to Claude and reads until it has answered. Contract: resolves when its process has ended. */
async function runConversation(context: ClaudeRunContext): Promise<ClaudeAnswer> {
  const { run, steps, redactor, session, options, home: claudeHome, tools, folders: ground, signal, limits } = context;
  const emit = (event: Parameters<typeof emitRunEvent>[2]) => emitRunEvent(steps, { run, skill: "" }, event);
  const onSkill = (name: string) => {
    const skill = claudeHome.installed.get(name.replace(/^\//, ""));
    if (skill) context.notify({ type: "skill-loaded", skill: skill.name, source: skill.origin.source });
  };
  const bridged = () => session.tools;
  const transcript = createTranscript({ run, steps, redactor: redactor, limits, listBridgedTools: bridged, onSkill });
  const permits = createToolPermissions({
    ...{ run, steps, redactor: redactor, signal, folders: ground, listBridgedTools: bridged },
    tools: options.sdkOptions?.["outputFormat"] === undefined ? tools : [...tools, STRUCTURED_OUTPUT_TOOL],
    allowedTools: options.allowedTools ?? [],
    installed: claudeHome.home && claudeHome.installed,
    step: () => transcript.step,
  });
  const failed = await streamMessages(context, transcript, permits);
  transcript.close(options.model);
  const changed = claudeHome.findChange();
  const ended = decideEnding(transcript, { signal, failed, changed });
  const { stop, error, cost, structured } = ended;
  const isError = stop === "error" || stop === "timeout" || stop === "aborted";
  const ms = Math.round(performance.now() - context.start);
  const { usage, step } = transcript;
  const iterations = transcript.model === undefined ? 0 : step;
  const { seconds } = limits;
  const content = formatRunContent({
    stop,
    text: ended.text,
    maxIterations: iterations,
    seconds,
    tokens: undefined,
    error,
  });
  emit({ type: "run-ended", stop, isError, iterations, ms, usage, ...omitUndefined({ cost }) });
  return {
    ...{ run, skill: "", content, isError, iterations, stop, refusals: [], warnings: context.plan.warnings, usage, ms },
    ...omitUndefined({ cost, error, structured, model: transcript.model ?? options.model }),
  };
}

/** Formats the messages of earlier evaluations as a part of the prompt: the home in which Claude stored them is gone. */
function formatEarlierMessages(messages: readonly Message[]): string[] {
  const lines = messages.flatMap((message) =>
    message.role === "tool" || message.text === ""
      ? []
      : wrapInTag("skill_message", { role: message.role }, message.text),
  );
  return lines.length === 0 ? [] : [["Earlier in this session:", ...lines].join("\n")];
}

/** Streams the messages. Returns the problem if the SDK itself fails. */
async function streamMessages(
  context: ClaudeRunContext,
  transcript: Transcript,
  permits: ToolPermissions,
): Promise<Problem | undefined> {
  const { sdk, session, options, signal, redactor } = context;
  if (signal.aborted) return undefined;
  const abortController = new AbortController();
  const input = createPromptInput([...formatEarlierMessages(session.messages), session.render().text].join("\n\n"));
  let query: SdkQuery | undefined;
  const onAbort = async () => {
    // Aborting alone would let it run until it ends by itself.
    await Promise.race([query?.interrupt?.(), wait(GRACE_MS)]).catch(() => {});
    abortController.abort();
  };
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const sdkOptions = { ...createSdkOptions(context, permits), abortController };
    query = sdk.query({ prompt: input.messages, options: sdkOptions });
    for await (const message of query) {
      callIgnoringErrors(() => options.onMessage?.(message));
      transcript.record(message);
      if (transcript.ended) input.close();
    }
    return undefined;
  } catch (error) {
    return {
      code: "claude-failed",
      message: sanitizeLine(redactor.redact(`Claude Code ended: ${getErrorMessage(error)}`), 500), // Includes its last output.
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

/** Creates the input stream: the prompt, then nothing until the answer. An open stream allows interrupting. */
function createPromptInput(content: string): { messages: AsyncIterable<SdkUserMessage>; close(): void } {
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  async function* messages(): AsyncIterable<SdkUserMessage> {
    yield { type: "user", message: { role: "user", content }, parent_tool_use_id: null };
    await closed;
  }
  return { messages: messages(), close };
}

function createSdkOptions(context: ClaudeRunContext, permits: ToolPermissions): ClaudeSdkOptions {
  const { run, session, options, home: claudeHome, plan, tools, env, folders: ground, signal, limits } = context;
  const bridge = createToolBridge(session, { run, signal, redactor: context.redactor, limits: DEFAULT_RUN_LIMITS });
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
    // Everything not allowed below is refused. Only skillet asks for approval.
    permissionMode: "dontAsk",
    allowedTools: [],
    mcpServers: { ...Object(more["mcpServers"]), [BRIDGE_SERVER]: bridge.server },
    toolAliases: bridge.aliases(tools),
    // The text of a prompt is neither a command nor a file reference.
    verbatimPrompts: true,
    includePartialMessages: true,
    ...(isHermetic
      ? { settingSources: ["user"], skills: [...claudeHome.installed.keys()], strictMcpConfig: true, plugins: [] }
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
/** Users may take up to a day to approve. */
const MAX_HOOK_SECONDS = 24 * 60 * 60;

function createToolHook(permits: ToolPermissions, signal: AbortSignal): (call: SdkCall) => Promise<unknown> {
  return async ({ tool_name: tool, tool_input: input }) => {
    const refused = await permits.check({ tool, input });
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

/** Decides how it ended: the most severe reason wins. */
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
