import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { resolveModel } from "../agent/models/resolve-model.ts";
import { createHostRedactor } from "../agent/run/redaction.ts";
import { readSkillSecrets } from "../agent/run/run-inputs.ts";
import type { RunResult } from "../agent/run/run-result.ts";
import { type UseRequest, useSkill } from "../agent/run/use-skill.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Host } from "../config/host.ts";
import type { RunLimits, WorkspaceAccess } from "../config/limits.ts";
import type { RunEvent } from "../host/events.ts";
import type { Message, Model, ModelReply, ModelRequest } from "../host/model-contract.ts";
import type { Isolation, Sandbox } from "../host/sandbox-contract.ts";
import { replaceFile } from "../store/locked-file.ts";
import { createFolder } from "../util/file-access.ts";
import { omitUndefined } from "../util/objects.ts";
import { createEvalFileError, readDataFile } from "./eval-cases.ts";

/** A recorded run: everything that it got from outside. */
export interface RecordedRun {
  version: 1;
  kind: "recorded-run";
  skill: string;
  /** ISO 8601. */
  at: string;
  ms: number;
  model: string;
  request: Pick<UseRequest, "message" | "context" | "input" | "maxIterations" | "seconds" | "tokens">;
  /** The settings that its prompt depends on. */
  setup: {
    limits: RunLimits;
    workspace?: WorkspaceAccess;
    /** The sandbox that it had, so that no sandbox is needed to replay it. */
    sandbox?: Pick<Sandbox, "level" | "by" | "mapsPaths" | "system">;
  };
  /** The texts of system prompts, and the messages, each once. */
  prompts: string[];
  messages: Message[];
  turns: RecordedTurn[];
  /** The calls that were refused, as `step tool`. */
  blocked: string[];
  result: Pick<RunResult, "content" | "isError" | "stop">;
}

export interface RecordedTurn {
  /** The index of the system prompt, and those of the messages. */
  prompt: number;
  messages: number[];
  tools: string[];
  reply: Pick<ModelReply, "text" | "calls" | "finish" | "usage">;
  ms: number;
}

/** Runs skills like `useSkill`, and records the last run. */
export interface UseRecorder {
  use: typeof useSkill;
  /** Creates the recording of the run that ended with this result. */
  finish(result: RunResult): RecordedRun;
}

/** Creates a recorder for a use of a skill. Throws a SkillError if its model is unavailable. */
export async function createUseRecorder(catalog: Catalog, host: Host, request: UseRequest): Promise<UseRecorder> {
  const { model } = await resolveModel(host, request.model ?? catalog.find(request.skill)?.manifest.model);
  let at = new Date();
  let turns: RecordingParts["turns"] = [];
  let blocked: string[] = [];
  let isolation: Isolation | undefined;
  const recording: Model = {
    ...omitUndefined({ supportsEffort: model.supportsEffort, contextWindow: model.contextWindow }),
    name: model.name,
    async respond(request) {
      const started = performance.now();
      // The conversation continues to grow: what was sent is kept.
      const sent = { ...request, messages: structuredClone(request.messages) };
      const reply = await model.respond(request);
      turns = [...turns, { request: sent, reply, ms: Math.round(performance.now() - started) }];
      return reply;
    },
  };
  return {
    use(all, hostOptions, { model: _, ...rest }) {
      [at, turns, blocked, isolation] = [new Date(), [], [], undefined];
      const onEvent: Host["onEvent"] = (event) => {
        hostOptions.onEvent?.(event);
        if (event.type === "tool-blocked") blocked.push(formatBlocked(event));
        if (event.type === "run-ended" && event.isolation) isolation = event.isolation;
      };
      return useSkill(all, { ...hostOptions, onEvent, models: { default: recording } }, rest);
    },
    finish: (result) =>
      createRecording({ at, host, catalog, request, result, turns, blocked, isolation, model: model.name }),
  };
}

interface RecordingParts {
  catalog: Catalog;
  host: Host;
  request: UseRequest;
  at: Date;
  result: RunResult;
  turns: readonly { request: ModelRequest; reply: ModelReply; ms: number }[];
  blocked: string[];
  isolation: Isolation | undefined;
  model: string;
}

function createRecording({
  at,
  host,
  catalog,
  request,
  result,
  turns,
  blocked,
  isolation,
  model,
}: RecordingParts): RecordedRun {
  const prompts = createTable<string>();
  const messages = createTable<Message>();
  const skill = catalog.find(request.skill);
  const access = (skill && host.settings.skills.get(skill.name)?.workspace) ?? host.settings.sandbox.workspace;
  const { message, context, input, maxIterations, seconds, tokens } = request;
  const recording: RecordedRun = {
    ...{ version: 1, kind: "recorded-run", skill: result.skill, at: at.toISOString(), ms: result.ms, model },
    request: omitUndefined({ message, context, input, maxIterations, seconds, tokens }),
    setup: {
      limits: { ...host.settings.limits },
      ...omitUndefined({ workspace: access }),
      ...(isolation ? { sandbox: describeSandbox(isolation) } : {}),
    },
    turns: turns.map(({ request: { instructions, messages: sent, tools }, reply, ms }) => ({
      prompt: prompts.add(instructions),
      messages: sent.map((one) => messages.add(omitRaw(one))),
      tools: tools.map(({ name }) => name),
      reply: { text: reply.text, calls: reply.calls, finish: reply.finish, usage: reply.usage },
      ms,
    })),
    prompts: prompts.values,
    messages: messages.values,
    blocked,
    result: { content: result.content, isError: result.isError, stop: result.stop },
  };
  const secrets = skill ? readSkillSecrets(skill, host).secrets : new Map<string, string>();
  const redactor = createHostRedactor(host, secrets);
  return mapTexts(recording, (text) => redactor.redact(hidePlaces(text, listPlaces(host, catalog, result.skill))));
}

/** A list in which equal values have one index. */
function createTable<T>(): { values: T[]; add(value: T): number } {
  const indexes = new Map<string, number>();
  const values: T[] = [];
  return {
    values,
    add(value) {
      const key = JSON.stringify(value);
      const known = indexes.get(key);
      if (known !== undefined) return known;
      indexes.set(key, values.length);
      return values.push(value) - 1;
    },
  };
}

/** Leaves out what only the provider that wrote it can read. */
export function omitRaw(message: Message): Message {
  if (message.role !== "assistant") return message;
  const { raw: _, ...rest } = message;
  return rest;
}

function describeSandbox({ level, by }: Isolation): NonNullable<RecordedRun["setup"]["sandbox"]> {
  const isContainer = by === "docker" || by === "podman";
  return { level, by, mapsPaths: level === "strong", system: isContainer ? "own" : "host" };
}

function formatBlocked({ step, tool }: Extract<RunEvent, { type: "tool-blocked" }>): string {
  return `${step} ${tool}`;
}

type Place = readonly [path: string, name: string];

/** The folders of this machine that a prompt may name, the longest first. */
export function listPlaces(host: Host, catalog: Catalog, skill: string): Place[] {
  const { folder } = catalog.find(skill)?.origin ?? {};
  const places: Place[] = [];
  if (host.workspace !== undefined) places.push([host.workspace, "{workspace}"]);
  if (folder !== undefined) places.push([folder, "{skill}"]);
  if (host.home !== undefined) places.push([host.home, "{skillet}"]);
  return places.sort((a, b) => b[0].length - a[0].length);
}

const RUN_ID = /\b\d{8}-\d{6}-[0-9a-f]{8}\b/g;

export function hidePlaces(text: string, places: readonly Place[]): string {
  let hidden = text.replace(RUN_ID, "{run}");
  for (const [path, name] of places) hidden = hidden.replaceAll(path, name);
  return hidden;
}

export function mapTexts<T>(value: T, map: (text: string) => string): T {
  if (typeof value === "string") return map(value) as T;
  if (Array.isArray(value)) return value.map((one) => mapTexts(one, map)) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, mapTexts(one, map)])) as T;
}

/** Writes a recording to a file, readable by everyone who may read the skill. */
export function saveRecording(file: string, recording: RecordedRun): void {
  createFolder(dirname(file));
  replaceFile(file, `${JSON.stringify(recording, null, 2)}\n`, 0o644);
}

/** Reads a recording. Throws a SkillError if the file is not one. */
export function readRecording(file: string): RecordedRun {
  const data = readDataFile(file);
  const { version, kind, turns, messages, prompts } = data;
  const isRecording =
    kind === "recorded-run" && [turns, messages, prompts].every(Array.isArray) && typeof data["skill"] === "string";
  if (!isRecording) throw createEvalFileError(file, "is not a recorded run of `skillet run --record`");
  if (version !== 1)
    throw createEvalFileError(file, `has the version ${String(version)}; this skillet reads version 1`);
  return data as unknown as RecordedRun;
}

/** The folder of recorded runs, relative to a skill's folder. */
export const RECORDING_FOLDER = "evals/recorded";

/** Lists the recorded runs of a skill: their files, sorted. */
export function listRecordings(skillFolder: string): string[] {
  const folder = join(skillFolder, RECORDING_FOLDER);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort()
    .map((name) => join(folder, name));
}
