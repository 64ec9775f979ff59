import { randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import { errors, jwtVerify, SignJWT } from "jose";
import { getErrorMessage } from "../errors/problem.ts";
import type { Capabilities, CapabilityProvider } from "../host/capability-contract.ts";
import type { SandboxSocket } from "../host/sandbox-contract.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { type BrokerContext, type BrokerRun, loadProviderDescription } from "./broker-context.ts";
import {
  BROKER_METHODS,
  BROKER_PROTOCOL_VERSION,
  type BrokerAnswer,
  type BrokerMethod,
  type BrokerRequest,
  CAPABILITY_SOCKET,
  type CapabilityList,
  createErrorAnswer,
  formatReply,
  MAX_BROKER_REQUEST_BYTES,
  refuseRequest,
  SOCKET_VARIABLE,
  TOKEN_VARIABLE,
} from "./broker-protocol.ts";
import { invokeCapability, refuseCapability } from "./invoke-capability.ts";
import { isNestedTooDeep, MAX_NESTING } from "./provider-protocol.ts";
import { approveSignIn, createSignInFlows, handleSignIn } from "./sign-in-flows.ts";

/** The gateway between one run and the providers: sensitive systems are only reached through it. */
export interface Broker {
  /** Returns the access of one tool call. Requests are recognized by it when the call is made again after a kill. */
  forCall(callId: string): CallBroker;
  /** Lists the skill's capabilities and their operations. */
  list(): Promise<CapabilityList>;
  /** Aborts when the run halts: everything it started must end too. */
  readonly halted: AbortSignal;
  /** Refuses every request from now on. */
  close(): Promise<void>;
}

/** The access of one tool call to the providers. Calls at the same time each have their own. */
export interface CallBroker {
  /** Creates the socket for one sandbox, with the variables that its code needs to authenticate. */
  createSocket(): Promise<{ door: SandboxSocket; env: Readonly<Record<string, string>> }>;
  /** Calls an operation for the run itself, which needs no token. Contract: resolves. */
  invoke(params: JsonObject): Promise<BrokerAnswer>;
}

/** One signing key for all runs of this process: tokens are bound to their run by their claims. */
let processTokens: BrokerTokens | undefined;

function getProcessTokens(): BrokerTokens {
  processTokens ??= createBrokerTokens();
  return processTokens;
}

export function createBroker(capabilities: Capabilities, run: BrokerRun, tokens?: BrokerTokens): Broker {
  const signing = tokens ?? getProcessTokens();
  const halted = new AbortController();
  const ended = new AbortController();
  let refusals = 0;
  const { skill, caller, run: id } = run;
  const who = {
    ...{ run: id, skill: skill.name, source: skill.origin.source },
    ...omitUndefined({ user: caller?.userId, tenant: caller?.tenant, chat: caller?.chatId }),
  };
  const auth = createSignInFlows({
    vault: capabilities.vault,
    // A sign-in that another skill began does not exist for this one, unless it may begin it too.
    findProvider: (requested) =>
      refuseCapability(context, requested) ? undefined : capabilities.findProvider(requested, skill),
    approve: (flow, namespace, credential) => approveSignIn(context, flow, { namespace, credential }),
  });
  const context: BrokerContext = {
    auth,
    run: { ...run, signal: AbortSignal.any([run.signal, ended.signal]) },
    ...{ capabilities, callId: "0", counts: { calls: 0, signIns: 0 } },
    ...{
      questions: new Set(),
      repeatCounts: new Map(),
      usedApprovals: new Map(),
      answersByKey: new Map(),
      descriptions: new Map(),
    },
    halt: () => halted.abort(),
    async audit(entry) {
      // Repeated refusals must not fill the disk.
      const isRefusal = !["ok", "begun", "repeated"].includes(entry.outcome);
      if (isRefusal && ++refusals > MAX_AUDITED_REFUSALS) return;
      await capabilities.audit.add({ ...who, ...entry });
    },
  };
  const nonces = new Set<string>();
  const frameProblem = async ({ token, nonce }: BrokerRequest, until: number): Promise<BrokerAnswer | undefined> => {
    if (context.run.signal.aborted) return refuseRequest("run-ended", "This run has ended");
    // While the run waits for people, its clock stops, and the lifetime of its tokens is extended.
    const waited = run.getDeadline() - until;
    const problem = await signing.findProblem(token, { run: id, skill: skill.name }, Date.now() - waited);
    if (problem) return refuseRequest(problem, TOKEN_PROBLEMS[problem], `each command has it in ${TOKEN_VARIABLE}`);
    if (nonces.size >= MAX_NONCES) return refuseRequest("quota-exceeded", "This run has made too many requests");
    if (nonces.has(nonce))
      return refuseRequest("nonce-reused", "This nonce was used before", "send the request again with a new nonce");
    nonces.add(nonce);
    return undefined;
  };
  const answer = async (
    context: BrokerContext,
    line: string | { unread: BrokerReadProblem },
    { until, gone }: ConnectionContext,
  ): Promise<BrokerAnswer> => {
    if (typeof line !== "string")
      return auditAnswer(context, "frame", refuseRequest(line.unread, READ_PROBLEMS[line.unread]));
    const frame = parseBrokerRequest(line);
    if ("problem" in frame) return auditAnswer(context, "frame", refuseRequest("request-invalid", frame.problem));
    const problem = await frameProblem(frame, until);
    if (problem) return auditAnswer(context, frame.method, problem);
    return METHOD_HANDLERS[frame.method](context, frame.params, gone);
  };
  const createCallBroker = (call: BrokerContext): CallBroker => ({
    async createSocket() {
      const until = run.getDeadline();
      const token = await signing.issue({
        run: id,
        skill: skill.name,
        capabilities: skill.manifest.capabilities,
        until,
      });
      const onConnection: SandboxSocket["onConnection"] = (connection) => {
        const gone = new AbortController();
        connection.once("close", () => gone.abort());
        const asker = { until, gone: gone.signal };
        answerConnection(connection, async (line) =>
          formatReply(createRequestId(), await answerErrors(() => answer(call, line, asker), call)),
        );
      };
      return {
        door: { path: CAPABILITY_SOCKET, variable: SOCKET_VARIABLE, onConnection },
        env: { [TOKEN_VARIABLE]: token },
      };
    },
    invoke: (params) => answerErrors(() => invokeCapability(call, params), call),
  });
  const calls = new Map<string, CallBroker>();
  return {
    halted: halted.signal,
    forCall(callId) {
      const known = calls.get(callId) ?? createCallBroker({ ...context, callId, repeatCounts: new Map() });
      calls.set(callId, known);
      return known;
    },
    list: () => listCapabilities(context),
    async close() {
      if (ended.signal.aborted) return;
      ended.abort();
      if (refusals <= MAX_AUDITED_REFUSALS) return;
      const count = refusals - MAX_AUDITED_REFUSALS;
      try {
        await capabilities.audit.add({ ...who, method: "refused", outcome: "too-many", count });
      } catch {} // The first refusals are recorded.
    },
  };
}

const MAX_AUDITED_REFUSALS = 100;
const MAX_NONCES = 10_000;

interface ConnectionContext {
  /** The expiry of its token. */
  until: number;
  /** Aborts when the client disconnects. */
  gone: AbortSignal;
}

const METHOD_HANDLERS: Record<
  BrokerMethod,
  (context: BrokerContext, params: JsonObject, gone: AbortSignal) => Promise<BrokerAnswer>
> = {
  list: async (context) => auditAnswer(context, "list", { ok: true, result: { ...(await listCapabilities(context)) } }),
  invoke: invokeCapability,
  "auth.begin": (context, params) => handleSignIn(context, "begin", params),
  "auth.complete": (context, params) => handleSignIn(context, "complete", params),
  "auth.poll": (context, params) => handleSignIn(context, "poll", params),
};

const TOKEN_PROBLEMS = {
  "token-missing": "The request has no token",
  "token-invalid": "The token is not valid for this run",
  "token-expired": "The token has expired",
};

const READ_PROBLEMS: Record<BrokerReadProblem, string> = {
  "request-too-large": "The request is larger than 1 MiB",
  "request-timeout": "The request did not arrive in time",
  "request-missing": "The connection was closed without a request",
};

async function auditAnswer(context: BrokerContext, method: string, answer: BrokerAnswer): Promise<BrokerAnswer> {
  await context.audit({ method, outcome: answer.ok ? "ok" : answer.error.code });
  return answer;
}

/** Turns an exception into an answer. A request that cannot be audited is not answered. */
async function answerErrors(work: () => Promise<BrokerAnswer>, { run }: BrokerContext): Promise<BrokerAnswer> {
  try {
    return await work();
  } catch (error) {
    return createErrorAnswer(error, run.redact, "broker-failed");
  }
}

function createRequestId(): string {
  return `req_${randomBytes(9).toString("base64url")}`;
}

/** The required and optional params of each method. */
const METHOD_PARAMS: Readonly<Record<BrokerMethod, { must: readonly string[]; may: readonly string[] }>> = {
  list: { must: [], may: [] },
  invoke: { must: ["capability", "operation"], may: ["input", "account", "key", "approval"] },
  "auth.begin": { must: ["capability"], may: ["scopes"] },
  "auth.complete": { must: ["flow", "callback"], may: [] },
  "auth.poll": { must: ["flow"], may: [] },
};

const REQUEST_KEYS = ["v", "token", "nonce", "method", "params"];

/** Parses a request, or returns why it is invalid. Unknown keys, such as an identity, make it invalid. */
function parseBrokerRequest(line: string): BrokerRequest | { problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return createRequestProblem("it is not JSON");
  }
  if (!isJsonObject(value)) return createRequestProblem("it is not an object");
  if (isNestedTooDeep(value)) return createRequestProblem(`it is nested more than ${MAX_NESTING} levels deep`);
  const { v, token = "", nonce, method, params = {} } = value;
  if (v !== BROKER_PROTOCOL_VERSION) return createRequestProblem(`its version is not ${BROKER_PROTOCOL_VERSION}`);
  const unknown = Object.keys(value).find((key) => !REQUEST_KEYS.includes(key));
  if (unknown !== undefined) return createRequestProblem(`"${sanitizeLine(unknown, 64)}" is not a known key`);
  if (typeof token !== "string") return createRequestProblem("its token is not a string");
  if (typeof nonce !== "string" || !/^[\w-]{8,64}$/.test(nonce)) return createRequestProblem("its nonce is invalid");
  const known = BROKER_METHODS.find((one) => one === method);
  if (!known) return createRequestProblem("unknown method");
  if (!isJsonObject(params)) return createRequestProblem("its params are not an object");
  return findParamsProblem(known, params) ?? { v, token, nonce, method: known, params };
}

function findParamsProblem(method: BrokerMethod, params: Record<string, unknown>): { problem: string } | undefined {
  const { must, may } = METHOD_PARAMS[method];
  const missing = must.find((key) => params[key] === undefined);
  if (missing !== undefined) return createRequestProblem(`${method} needs "${missing}"`);
  for (const [key, value] of Object.entries(params)) {
    if (!must.includes(key) && !may.includes(key))
      return createRequestProblem(`"${sanitizeLine(key, 64)}" is not a parameter of ${method}`);
    if (key === "input") continue;
    const isFit = key === "scopes" ? isTextList(value) : typeof value === "string" && value.length <= getMaxLength(key);
    if (!isFit) return createRequestProblem(`invalid "${key}" of ${method}`);
  }
  return undefined;
}

function getMaxLength(key: string): number {
  return key === "callback" ? 16_384 : 256;
}

function isTextList(value: unknown): boolean {
  return (
    Array.isArray(value) && value.length <= 50 && value.every((item) => typeof item === "string" && item.length <= 256)
  );
}

function createRequestProblem(why: string): { problem: string } {
  return { problem: `Invalid request: ${why}` };
}

/** The time a request may take to arrive. An answer may take as long as it needs. */
const READ_TIMEOUT_MS = 10_000;

const CLOSE_TIMEOUT_MS = 2000;

/** The reasons why no request could be read. */
type BrokerReadProblem = "request-too-large" | "request-timeout" | "request-missing";

/** Reads one line of a connection, answers it with one, and closes. Contract: `answer` does not throw. */
export function answerConnection(
  connection: Duplex,
  answer: (line: string | { unread: BrokerReadProblem }) => Promise<string>,
  timeoutMs = READ_TIMEOUT_MS,
): void {
  const pieces: Buffer[] = [];
  let size = 0;
  let isRead = false;
  const done = (line: string | { unread: BrokerReadProblem }) => {
    if (isRead) return;
    isRead = true;
    clearTimeout(timer);
    connection.removeAllListeners("data");
    connection.resume(); // Anything sent after the request is discarded.
    void answer(line).then((reply) => {
      if (connection.destroyed) return;
      // A slow reader still gets the whole reply while the socket is open; a client that keeps sending is ignored.
      connection.end(reply, () => setTimeout(() => connection.destroy(), CLOSE_TIMEOUT_MS).unref());
    });
  };
  const timer = setTimeout(() => done({ unread: "request-timeout" }), timeoutMs);
  timer.unref();
  connection.on("data", (bytes: Buffer) => {
    const end = bytes.indexOf(10);
    pieces.push(end === -1 ? bytes : bytes.subarray(0, end));
    size += pieces.at(-1)?.length ?? 0;
    if (size > MAX_BROKER_REQUEST_BYTES) done({ unread: "request-too-large" });
    else if (end !== -1) done(Buffer.concat(pieces).toString());
  });
  connection.once("end", () =>
    size === 0 ? done({ unread: "request-missing" }) : done(Buffer.concat(pieces).toString()),
  );
  connection.once("close", () => {
    clearTimeout(timer);
    isRead = true;
  });
}

/** The claims of a token: its run, skill and capabilities, and its expiry. */
interface TokenClaims {
  run: string;
  skill: string;
  capabilities: readonly string[];
  /** In `Date.now` milliseconds. */
  until: number;
}

type TokenProblem = "token-missing" | "token-invalid" | "token-expired";

/** The second factor: the socket identifies the run, and the token must match it. */
export interface BrokerTokens {
  issue(claims: TokenClaims): Promise<string>;
  /** Returns why a token is not valid for this run, or undefined. `now` excludes the time spent waiting for people. */
  findProblem(
    token: unknown,
    wanted: Pick<TokenClaims, "run" | "skill">,
    now?: number,
  ): Promise<TokenProblem | undefined>;
}

const TOKEN_AUDIENCE = "skillet-broker";

/** Contract: the key never leaves this object; with it, every token could be forged. */
export function createBrokerTokens(key: Uint8Array = randomBytes(32)): BrokerTokens {
  return {
    issue: ({ run, skill, capabilities, until }) =>
      new SignJWT({ skill, capabilities: [...capabilities] })
        .setProtectedHeader({ alg: "HS256" })
        .setAudience(TOKEN_AUDIENCE)
        .setSubject(run)
        .setIssuedAt()
        .setExpirationTime(Math.floor(until / 1000))
        .setJti(randomBytes(12).toString("base64url"))
        .sign(key),
    async findProblem(token, { run, skill }, now = Date.now()) {
      if (typeof token !== "string" || token === "") return "token-missing";
      try {
        const { payload } = await jwtVerify(token, key, {
          audience: TOKEN_AUDIENCE,
          subject: run,
          algorithms: ["HS256"],
          requiredClaims: ["exp", "jti"],
          currentDate: new Date(now),
        });
        return payload["skill"] === skill && Array.isArray(payload["capabilities"]) ? undefined : "token-invalid";
      } catch (error) {
        return error instanceof errors.JWTExpired ? "token-expired" : "token-invalid";
      }
    },
  };
}

type ListedCapability = CapabilityList["capabilities"][number];

/** Lists the capabilities that the skill declares, each with its operations or the reason why it has none. */
async function listCapabilities(context: BrokerContext): Promise<CapabilityList> {
  return {
    capabilities: await Promise.all(context.run.skill.manifest.capabilities.map((id) => listCapability(context, id))),
  };
}

async function listCapability(context: BrokerContext, id: string): Promise<ListedCapability> {
  const { run, capabilities } = context;
  const provider = capabilities.findProvider(id, run.skill);
  if (!capabilities.isGranted(id, run.skill))
    return createUnreadyEntry(id, "the operator has not granted it to this skill");
  if (!provider || !capabilities.isVisible(id, run.caller, run.skill))
    return createUnreadyEntry(id, "it is not available to this caller");
  return describeCapability(context, id, provider).catch((error) =>
    createUnreadyEntry(id, run.redact(getErrorMessage(error))),
  );
}

async function describeCapability(
  context: BrokerContext,
  id: string,
  provider: CapabilityProvider,
): Promise<ListedCapability> {
  const found = (await loadProviderDescription(context, provider)).capabilities.find((served) => served.id === id);
  if (!found) return createUnreadyEntry(id, "its provider does not serve it");
  const operations = found.operations.map(({ name, description, mutating, inputSchema }) => ({
    ...{ name, description: sanitizeLine(description, 500), mutating },
    input: inputSchema,
  }));
  return { id, description: sanitizeLine(found.description, 500), is_ready: true, operations };
}

function createUnreadyEntry(id: string, problem: string): ListedCapability {
  return { id, description: "", is_ready: false, problem: sanitizeLine(problem, 500), operations: [] };
}
