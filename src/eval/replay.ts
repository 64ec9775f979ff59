import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRunId, type RunResult } from "../agent/run/run-result.ts";
import type { StepRunner } from "../agent/run/step-runner.ts";
import { COMPLETE_TOOL } from "../agent/run/tool-policy.ts";
import { ROOT_CONTEXT, runUse } from "../agent/run/use-skill.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Host } from "../config/host.ts";
import { SkillError } from "../errors/problem.ts";
import type { Message, Model, ModelRequest } from "../host/model-contract.ts";
import type { Sandbox } from "../host/sandbox-contract.ts";
import type { ToolResult } from "../skill/tool.ts";
import { diffLines } from "../util/diff.ts";
import { omitUndefined } from "../util/objects.ts";
import { formatCount } from "../util/text.ts";
import { hidePlaces, listPlaces, mapTexts, omitRaw, type RecordedRun, type RecordedTurn } from "./recorded-run.ts";
import { createTrialWorkspace } from "./trials.ts";

/** The first step of a replayed run that differs from the recorded one. */
export interface ReplayDifference {
  /** The model call, from 1. */
  step: number;
  kind: "prompt" | "tools" | "tool call" | "message" | "steps" | "result" | "refused";
  message: string;
  /** Lines of a diff, recorded to replayed. */
  diff: readonly string[];
}

export interface ReplayOptions {
  catalog: Catalog;
  host: Host;
  signal?: AbortSignal;
}

export interface ReplayResult {
  /** Undefined if every step is as it was recorded. */
  difference?: ReplayDifference;
  steps: number;
}

/**
 * Replays a recorded run without a model, a key, a network and a sandbox: the model's replies and the results of tools are the
 * recorded ones. What skillet and the skill decide is done again: the prompts, the offered tools, and which calls are refused.
 */
export async function replayRun(
  recording: RecordedRun,
  { catalog, host, signal }: ReplayOptions,
): Promise<ReplayResult> {
  const root = mkdtempSync(join(tmpdir(), "skillet-replay-"));
  try {
    return await replayIn(root, recording, { catalog, host, ...(signal ? { signal } : {}) });
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function replayIn(
  root: string,
  recording: RecordedRun,
  { catalog, host: baseHost, signal }: ReplayOptions,
): Promise<ReplayResult> {
  const host = createReplayHost(root, recording, baseHost);
  const places = listPlaces(host, catalog, recording.skill);
  const hide = <T>(value: T): T => mapTexts(value, (text) => hidePlaces(text, places));
  const show = <T>(value: T): T =>
    mapTexts(value, (text) => places.reduce((shown, [path, name]) => shown.replaceAll(name, path), text));
  const results = listRecordedResults(recording);
  let at = 0;
  let difference: ReplayDifference | undefined;
  const differ = (found: ReplayDifference | undefined) => {
    difference ??= found;
  };
  const model: Model = {
    name: recording.model,
    async respond(request) {
      const turn = recording.turns[at];
      const step = at + 1;
      differ(
        turn
          ? compareRequest(recording, turn, step, hide({ ...request, messages: request.messages.map(omitRaw) }))
          : {
              ...{ step, kind: "steps", diff: [] },
              message: `the recorded run had ${formatCount(recording.turns.length, "model call")}, this one makes another`,
            },
      );
      if (difference || !turn)
        throw new SkillError("replay-differs", { message: "The run differs from the recorded one" });
      at++;
      const reply = show(turn.reply);
      if (reply.text !== "") request.onText(reply.text);
      return reply;
    },
  };
  const blocked = new Set(recording.blocked);
  const steps = createReplaySteps({
    turnOf: () => at - 1,
    findCall: (turn, call) => recording.turns[turn]?.reply.calls[call - 1],
    findResult: (id, turn) => {
      const found = results.find((one) => one.turn > turn && one.result.id === id)?.result;
      return found && show(found);
    },
    compareRefusal(step, tool, isRefused, text) {
      const was = blocked.has(`${step} ${tool}`);
      if (was === isRefused) return;
      differ({
        ...{ step: at, kind: "tool call" },
        message: isRefused
          ? `the call of ${tool} is refused now: ${text}`
          : `the call of ${tool} was refused in the recorded run and is made now`,
        diff: [],
      });
    },
  });
  const result = await runUse({
    ...{ catalog, chain: ROOT_CONTEXT, steps, id: createRunId() },
    host: { ...host, models: { default: model } },
    request: { ...show(recording.request), skill: recording.skill },
    signal: signal ?? new AbortController().signal,
  });
  if (result.stop === "refused" && !difference) {
    const why = result.refusals[0];
    return { steps: at, difference: { step: 0, kind: "refused", message: why?.message ?? result.content, diff: [] } };
  }
  differ(compareEnd(recording, at, hide(result)));
  return { steps: at, ...omitUndefined({ difference }) };
}

/** Creates a host in which nothing reaches the outside. */
function createReplayHost(root: string, { setup }: RecordedRun, baseHost: Host): Host {
  const { approve: _, runs: _r, statistics: _s, trust: _t, workspace: _w, onEvent: _e, ...rest } = baseHost;
  const skills = new Map(
    Array.from(baseHost.settings.skills, ([name, one]) => {
      const { workspace: _own, ...other } = one;
      return [name, { ...other, dynamicCommands: false }] as const;
    }),
  );
  const workspace = createTrialWorkspace(root, { files: {}, copies: {} });
  const { workspace: _access, ...sandboxSettings } = baseHost.settings.sandbox;
  return {
    ...rest,
    workspace,
    home: baseHost.home ?? join(root, "home"),
    settings: {
      ...baseHost.settings,
      skills,
      limits: setup.limits,
      models: new Map(),
      sandbox: { ...sandboxSettings, ...omitUndefined({ workspace: setup.workspace }) },
      tools: { ...baseHost.settings.tools, dynamicCommands: false },
    },
    ...(setup.sandbox ? { sandbox: createReplaySandbox(setup.sandbox) } : {}),
  };
}

/** A sandbox in which no command can run: no command of a replay needs one. */
function createReplaySandbox(described: NonNullable<RecordedRun["setup"]["sandbox"]>): Sandbox {
  return {
    ...described,
    async run() {
      throw new SkillError("replay-differs", { message: "A replay runs no commands" });
    },
  };
}

/** Lists the results of all calls, with the first turn whose request has them. */
function listRecordedResults({ turns, messages }: RecordedRun) {
  return turns.flatMap((turn, at) =>
    turn.messages.flatMap((index) => {
      const message = messages[index];
      return message?.role === "tool" ? message.results.map((result) => ({ turn: at, result })) : [];
    }),
  );
}

interface ReplayStepOptions {
  /** Returns the index of the last turn that was replayed. */
  turnOf(): number;
  findCall(turn: number, call: number): { id: string; tool: string } | undefined;
  findResult(
    id: string,
    turn: number,
  ): { content: string; isError: boolean; output?: string; data?: object } | undefined;
  compareRefusal(step: string, tool: string, isRefused: boolean, text: string): void;
}

/** Creates a step runner whose calls have the recorded results. Refusals, `complete` and nested runs are done again. */
function createReplaySteps(options: ReplayStepOptions): StepRunner {
  const turns = new Map<string, number>();
  const create = (prefix: string): StepRunner => ({
    async step<T>(name: string, work: () => Promise<T>, kind?: "refusal"): Promise<T> {
      if (name.startsWith("model:")) {
        const reply = await work();
        turns.set(`${prefix}${name.slice("model:".length)}`, options.turnOf());
        return reply;
      }
      const [, step = "", call = ""] = /^tool:(\d+)\.(\d+)$/.exec(name) ?? [];
      const turn = turns.get(`${prefix}${step}`);
      if (call === "" || turn === undefined) return work();
      const made = options.findCall(turn, Number(call));
      const tool = made?.tool ?? "";
      const refused = kind === "refusal" ? ((await work()) as unknown as ToolResult) : undefined;
      options.compareRefusal(step, tool, refused !== undefined, refused?.text ?? "");
      if (refused) return refused as T;
      if (tool === COMPLETE_TOOL || tool === "use_skill" || made === undefined) return work();
      const result = options.findResult(made.id, turn);
      if (!result) return { text: "[not recorded]", isError: true, code: "replay-differs" } as T;
      const { content: text, isError, output, data } = result;
      return { text, isError, ...omitUndefined({ output, data }) } as T;
    },
    findStep: () => undefined,
    underLease: (work) => work(),
    // The recorded result tells what was approved.
    requestApproval: async (_, { request }) => ({ approval: { isApproved: true }, request }),
    ask: async () => undefined,
    emit: () => {},
    waited: () => 0,
    createChild: (name) => create(`${prefix}${name}/`),
  });
  return create("");
}

type SentRequest = Pick<ModelRequest, "instructions" | "messages" | "tools">;

/** Compares what the model is sent with what it was sent. */
function compareRequest(
  recording: RecordedRun,
  turn: RecordedTurn,
  step: number,
  { instructions, messages, tools }: SentRequest,
): ReplayDifference | undefined {
  const prompt = recording.prompts[turn.prompt] ?? "";
  if (prompt !== instructions)
    return { step, kind: "prompt", message: "the system prompt differs", diff: diffLines(prompt, instructions) };
  const names = tools.map(({ name }) => name);
  if (turn.tools.join("\n") !== names.join("\n"))
    return {
      ...{ step, kind: "tools", message: "other tools are offered" },
      diff: diffLines(turn.tools.join("\n"), names.join("\n")),
    };
  const length = Math.max(turn.messages.length, messages.length);
  for (let index = 0; index < length; index++) {
    const before = recording.messages[turn.messages[index] ?? -1];
    const now = messages[index];
    if (JSON.stringify(before) === JSON.stringify(now)) continue;
    return { step, ...describeMessageDifference(before, now) };
  }
  return undefined;
}

function describeMessageDifference(
  before: Message | undefined,
  now: Message | undefined,
): Omit<ReplayDifference, "step"> {
  if (before?.role === "tool" && now?.role === "tool") {
    const at = before.results.findIndex((one, index) => JSON.stringify(one) !== JSON.stringify(now.results[index]));
    const [was, is] = [before.results[at], now.results[at]];
    return {
      kind: "tool call",
      message: `the result of ${was?.tool ?? is?.tool ?? "a tool"} differs`,
      diff: diffLines(was?.content ?? "", is?.content ?? ""),
    };
  }
  return {
    kind: "message",
    message: now === undefined ? "a message is missing" : `the message of the ${now.role} differs`,
    diff: diffLines(formatMessage(before), formatMessage(now)),
  };
}

function formatMessage(message: Message | undefined): string {
  if (message === undefined) return "";
  return "text" in message ? message.text : JSON.stringify(message.results, null, 2);
}

function compareEnd(
  { turns, result }: RecordedRun,
  steps: number,
  now: Pick<RunResult, "content" | "stop">,
): ReplayDifference | undefined {
  if (steps < turns.length)
    return {
      ...{ step: steps, kind: "steps", diff: [] },
      message: `the run ended after ${formatCount(steps, "model call")}, the recorded one made ${turns.length}`,
    };
  if (now.stop === result.stop && now.content === result.content) return undefined;
  return {
    ...{ step: steps, kind: "result" },
    message: now.stop === result.stop ? "the answer differs" : `the run ended with ${now.stop}, not ${result.stop}`,
    diff: diffLines(result.content, now.content),
  };
}
