import { setTimeout as wait } from "node:timers/promises";
import type { SkillEvent } from "../host/events.ts";
import { RUN_DEFAULTS } from "../host/limits.ts";
import type { Message } from "../host/models.ts";
import { quietly } from "../host/notify.ts";
import type { Notice } from "../host/sandbox.ts";
import type { PromptSession } from "../prompt/session.ts";
import { TimedOut } from "../run/bound-time.ts";
import { emit } from "../run/loop-options.ts";
import type { Port } from "../run/port.ts";
import { contentOf, type RunResult } from "../run/result.ts";
import { defined } from "../shared/defined.ts";
import { reason } from "../shared/inside.ts";
import { inLine, inTag } from "../shared/prompt.ts";
import type { Hiding } from "../shared/redact.ts";
import { openBridge, SERVER } from "./bridge.ts";
import type { ClaudeOptions, ClaudeResult } from "./options.ts";
import { type Ground, STRUCTURED } from "./own-tools.ts";
import { openPermits, type Permits } from "./permit.ts";
import type { Place, Plan } from "./place.ts";
import type { ClaudeSdk, SdkCall, SdkOptions, SdkQuery, SdkUserMessage } from "./sdk.ts";
import { type Ended, openTranscript, type Transcript } from "./transcript.ts";

export interface Scene {
  run: string;
  tell(event: SkillEvent): void;
  port: Port;
  hiding: Hiding;
  session: PromptSession;
  start: number;
  sdk: ClaudeSdk;
  options: ClaudeOptions;
  place: Place;
  plan: Plan;
  tools: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  ground: Ground;
  signal: AbortSignal;
  limits: { iterations: number; seconds: number };
}

/** What came of it, and the answer as data where that was asked for. */
export type Said = RunResult & Pick<ClaudeResult, "structured">;

/** Says the prompt to Claude and listens until it has answered. Contract: resolves when its process has ended. */
export async function converse(scene: Scene): Promise<Said> {
  const { run, port, hiding, session, options, place, tools, ground, signal, limits } = scene;
  const tell = (event: Parameters<typeof emit>[2]) => emit(port, { run, skill: "" }, event);
  const onSkill = (name: string) => {
    const skill = place.installed.get(name.replace(/^\//, ""));
    if (skill) scene.tell({ type: "skill-loaded", skill: skill.name, source: skill.origin.source });
  };
  const bridged = () => session.tools;
  const transcript = openTranscript({ run, port, hiding, limits, bridged, onSkill });
  const permits = openPermits({
    ...{ run, port, hiding, signal, ground, bridged },
    tools: options.sdkOptions?.["outputFormat"] === undefined ? tools : [...tools, STRUCTURED],
    allowedTools: options.allowedTools ?? [],
    installed: place.home && place.installed,
    step: () => transcript.step,
  });
  const failed = await listen(scene, transcript, permits);
  transcript.close(options.model);
  const changed = place.changed();
  const ended = endingOf(transcript, { signal, failed, changed });
  const { stop, error, cost, structured } = ended;
  const isError = stop === "error" || stop === "timeout" || stop === "aborted";
  const ms = Math.round(performance.now() - scene.start);
  const { usage, step } = transcript;
  const iterations = transcript.model === undefined ? 0 : step;
  const { seconds } = limits;
  const content = contentOf({ stop, text: ended.text, iterations, seconds, tokens: undefined, error });
  tell({ type: "run-ended", stop, isError, iterations, ms, usage, ...defined({ cost }) });
  return {
    ...{ run, skill: "", content, isError, iterations, stop, refusals: [], warnings: scene.plan.warnings, usage, ms },
    ...defined({ cost, error, structured, model: transcript.model ?? options.model }),
  };
}

/** What was said in earlier evaluations of the session, as a part of the prompt: the home that Claude would keep it in is gone. */
function earlier(messages: readonly Message[]): string[] {
  const lines = messages.flatMap((message) =>
    message.role === "tool" || message.text === "" ? [] : inTag("skill_message", { role: message.role }, message.text),
  );
  return lines.length === 0 ? [] : [["Earlier in this session:", ...lines].join("\n")];
}

/** Gives what went wrong with the SDK itself. */
async function listen(scene: Scene, transcript: Transcript, permits: Permits): Promise<Notice | undefined> {
  const { sdk, session, options, signal, hiding } = scene;
  if (signal.aborted) return undefined;
  const abortController = new AbortController();
  const input = openInput([...earlier(session.messages), session.render().text].join("\n\n"));
  let query: SdkQuery | undefined;
  const onAbort = async () => {
    // Told alone that nobody listens any more, it would go on for as long as it has.
    await Promise.race([query?.interrupt?.(), wait(GRACE_MS)]).catch(() => {});
    abortController.abort();
  };
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const told = { ...sdkOptions(scene, permits), abortController };
    query = sdk.query({ prompt: input.messages, options: told });
    for await (const message of query) {
      quietly(() => options.onMessage?.(message));
      transcript.take(message);
      if (transcript.ended) input.close();
    }
    return undefined;
  } catch (error) {
    return {
      code: "claude-failed",
      message: inLine(hiding.text(`Claude Code ended: ${reason(error)}`), 500), // With what it printed last.
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
function openInput(content: string): { messages: AsyncIterable<SdkUserMessage>; close(): void } {
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  async function* messages(): AsyncIterable<SdkUserMessage> {
    yield { type: "user", message: { role: "user", content }, parent_tool_use_id: null };
    await closed;
  }
  return { messages: messages(), close };
}

function sdkOptions(scene: Scene, permits: Permits): SdkOptions {
  const { run, session, options, place, plan, tools, env, ground, signal, limits } = scene;
  const bridge = openBridge(session, { run, signal, hiding: scene.hiding, limits: RUN_DEFAULTS });
  const { sdkOptions: more = {}, model, systemPrompt } = options;
  const isHermetic = plan.isolation !== undefined;
  return {
    persistSession: false,
    ...more,
    ...defined({ model, systemPrompt }),
    ...(UUID.test(session.id) ? { sessionId: session.id } : {}),
    cwd: ground.cwd,
    env,
    tools: [...tools],
    maxTurns: limits.iterations,
    // Whatever is not allowed below is refused, and nobody is asked but by us.
    permissionMode: "dontAsk",
    allowedTools: [],
    mcpServers: { ...Object(more["mcpServers"]), [SERVER]: bridge.server },
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
        { hooks: [hookOf(permits, signal)], timeout: LONGEST_HOOK, onFailure: "block" },
        ...listOf(Object(more["hooks"])["PreToolUse"]),
      ],
    },
  };
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** People may take their time: a day. */
const LONGEST_HOOK = 24 * 60 * 60;

function hookOf(permits: Permits, signal: AbortSignal): (call: SdkCall) => Promise<unknown> {
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

interface Outcome {
  signal: AbortSignal;
  failed: Notice | undefined;
  changed: Notice | undefined;
}

/** What ended it: what is worst goes first. */
function endingOf({ ended, text }: Transcript, { signal, failed, changed }: Outcome): Ended {
  const known = { text: ended?.text || text, ...defined({ cost: ended?.cost }) };
  if (changed) return { stop: "error", error: changed, ...known };
  if (ended && !(signal.aborted && ended.stop === "error")) return { ...ended, text: ended.text || text };
  if (signal.aborted) return { stop: signal.reason instanceof TimedOut ? "timeout" : "aborted", ...known };
  const nothing: Notice = { code: "claude-failed", message: "Claude Code ended without a result", fix: "try again" };
  return { stop: "error", error: failed ?? nothing, ...known };
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
