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

/** Between one run and the providers: nothing of a sensitive system is reached but through it. */
export interface Broker {
  /** Says which call of the run is being made, so that what is asked for in it is known again when it is made again. */
  at(place: string): void;
  /** A way in for one sandbox, with what its code must show there. */
  door(): Promise<{ door: SandboxSocket; env: Readonly<Record<string, string>> }>;
  /** What the skill has, with what can be done with it. */
  list(): Promise<CapabilityList>;
  /** For the run itself, which needs no token: it is who it is. Contract: resolves. */
  invoke(params: JsonObject): Promise<BrokerAnswer>;
  /** Ends when the run goes no further for now: what it started is to end too. */
  readonly halted: AbortSignal;
  /** From now on everything is refused. */
  close(): void;
}

/** One key for all runs of this process: a token is held to what it says. */
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
    ...omitUndefined({ user: caller?.userId, chat: caller?.chatId }),
  };
  const auth = createSignInFlows({
    vault: capabilities.vault,
    // A sign-in that another skill began is one that there is not, unless this one may begin it too.
    providerOf: (asked) => (refuseCapability(scene, asked) ? undefined : capabilities.providerOf(asked, skill)),
    agree: (flow, namespace, credential) => approveSignIn(scene, flow, { namespace, credential }),
  });
  const scene: BrokerContext = {
    auth,
    run: { ...run, signal: AbortSignal.any([run.signal, ended.signal]) },
    ...{ capabilities, place: "0", calls: 0, signIns: 0 },
    ...{ asked: new Set(), seen: new Map(), words: new Map(), keyed: new Map(), descriptions: new Map() },
    halt: () => halted.abort(),
    audit(entry) {
      // Who is refused again and again fills no disk.
      const isRefusal = !["ok", "begun", "repeated"].includes(entry.outcome);
      if (isRefusal && ++refusals > MAX_AUDITED_REFUSALS) return;
      capabilities.audit.add({ ...who, ...entry });
    },
  };
  const nonces = new Set<string>();
  const frameProblem = async ({ token, nonce }: BrokerRequest, until: number): Promise<BrokerAnswer | undefined> => {
    if (scene.run.signal.aborted) return refuseRequest("run-ended", "This run has ended");
    // While people are waited for, the run's time stands still, and so does that of what it was given.
    const waited = run.until() - until;
    const problem = await signing.problemOf(token, { run: id, skill: skill.name }, Date.now() - waited);
    if (problem)
      return refuseRequest(problem, TOKEN_PROBLEMS[problem], `it stands in ${TOKEN_VARIABLE} of each command`);
    if (nonces.size >= MAX_NONCES) return refuseRequest("quota-reached", "This run has asked too often");
    if (nonces.has(nonce)) return refuseRequest("nonce-used", "This request was made before", "make it anew");
    nonces.add(nonce);
    return undefined;
  };
  const answer = async (
    line: string | { unread: BrokerReadProblem },
    { until, gone }: ConnectionContext,
  ): Promise<BrokerAnswer> => {
    if (typeof line !== "string")
      return auditAnswer(scene, "frame", refuseRequest(line.unread, READ_PROBLEMS[line.unread]));
    const frame = parseBrokerRequest(line);
    if ("problem" in frame) return auditAnswer(scene, "frame", refuseRequest("frame-invalid", frame.problem));
    const problem = await frameProblem(frame, until);
    if (problem) return auditAnswer(scene, frame.method, problem);
    return METHOD_HANDLERS[frame.method](scene, frame.params, gone);
  };
  return {
    halted: halted.signal,
    at(place) {
      scene.place = place;
      scene.seen.clear();
    },
    async door() {
      const until = run.until();
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
          formatReply(createRequestId(), await answerErrors(() => answer(line, asker), scene)),
        );
      };
      return {
        door: { to: CAPABILITY_SOCKET, variable: SOCKET_VARIABLE, onConnection },
        env: { [TOKEN_VARIABLE]: token },
      };
    },
    list: () => listCapabilities(scene),
    invoke: (params) => answerErrors(() => invokeCapability(scene, params), scene),
    close() {
      if (ended.signal.aborted) return;
      ended.abort();
      if (refusals <= MAX_AUDITED_REFUSALS) return;
      const count = refusals - MAX_AUDITED_REFUSALS;
      try {
        capabilities.audit.add({ ...who, method: "refused", outcome: "too-many", count });
      } catch {} // The refusals before it are written down.
    },
  };
}

const MAX_AUDITED_REFUSALS = 100;
const MAX_NONCES = 10_000;

interface ConnectionContext {
  /** What its token was given until. */
  until: number;
  /** Ends when nobody reads the answer any more. */
  gone: AbortSignal;
}

const METHOD_HANDLERS: Record<
  BrokerMethod,
  (scene: BrokerContext, params: JsonObject, gone: AbortSignal) => Promise<BrokerAnswer>
> = {
  list: async (scene) => auditAnswer(scene, "list", { ok: true, result: { ...(await listCapabilities(scene)) } }),
  invoke: invokeCapability,
  "auth.begin": (scene, params) => handleSignIn(scene, "begin", params),
  "auth.complete": (scene, params) => handleSignIn(scene, "complete", params),
  "auth.poll": (scene, params) => handleSignIn(scene, "poll", params),
};

const TOKEN_PROBLEMS = {
  "token-missing": "The request has no token",
  "token-invalid": "The token is not one of this run",
  "token-expired": "The token has expired",
};

const READ_PROBLEMS: Record<BrokerReadProblem, string> = {
  "frame-too-large": "The request is larger than 1 MiB",
  "frame-timeout": "The request did not arrive in time",
  "frame-cut": "There was no request",
};

function auditAnswer(scene: BrokerContext, method: string, answer: BrokerAnswer): BrokerAnswer {
  scene.audit({ method, outcome: answer.ok ? "ok" : answer.error.code });
  return answer;
}

/** Who cannot write down what is asked answers nothing. */
async function answerErrors(work: () => Promise<BrokerAnswer>, { run }: BrokerContext): Promise<BrokerAnswer> {
  try {
    return await work();
  } catch (error) {
    return createErrorAnswer(error, run.hide, "broker-failed");
  }
}

function createRequestId(): string {
  return `req_${randomBytes(9).toString("base64url")}`;
}

/** What may stand in the params of each method, and what must. */
const METHOD_PARAMS: Readonly<Record<BrokerMethod, { must: readonly string[]; may: readonly string[] }>> = {
  list: { must: [], may: [] },
  invoke: { must: ["capability", "operation"], may: ["input", "account", "key", "approval"] },
  "auth.begin": { must: ["capability"], may: ["scopes"] },
  "auth.complete": { must: ["flow", "callback"], may: [] },
  "auth.poll": { must: ["flow"], may: [] },
};

const REQUEST_KEYS = ["v", "token", "nonce", "method", "params"];

/** A request as it was sent, or why it is none. What nobody asked for is no part of one: an identity, for instance. */
function parseBrokerRequest(line: string): BrokerRequest | { problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return createRequestProblem("it is no JSON");
  }
  if (!isJsonObject(value)) return createRequestProblem("it is no object");
  if (isNestedTooDeep(value)) return createRequestProblem(`it is nested more than ${MAX_NESTING} levels deep`);
  const { v, token = "", nonce, method, params = {} } = value;
  if (v !== BROKER_PROTOCOL_VERSION) return createRequestProblem(`it is not of version ${BROKER_PROTOCOL_VERSION}`);
  const unknown = Object.keys(value).find((key) => !REQUEST_KEYS.includes(key));
  if (unknown !== undefined) return createRequestProblem(`"${sanitizeLine(unknown, 64)}" is no part of one`);
  if (typeof token !== "string") return createRequestProblem("its token is no text");
  if (typeof nonce !== "string" || !/^[\w-]{8,64}$/.test(nonce)) return createRequestProblem("its nonce is none");
  const known = BROKER_METHODS.find((one) => one === method);
  if (!known) return createRequestProblem("its method is none");
  if (!isJsonObject(params)) return createRequestProblem("its params are no object");
  return findParamsProblem(known, params) ?? { v, token, nonce, method: known, params };
}

function findParamsProblem(method: BrokerMethod, params: Record<string, unknown>): { problem: string } | undefined {
  const { must, may } = METHOD_PARAMS[method];
  const missing = must.find((key) => params[key] === undefined);
  if (missing !== undefined) return createRequestProblem(`${method} needs "${missing}"`);
  for (const [key, value] of Object.entries(params)) {
    if (!must.includes(key) && !may.includes(key))
      return createRequestProblem(`"${sanitizeLine(key, 64)}" is no part of ${method}`);
    if (key === "input") continue;
    const isFit = key === "scopes" ? isTextList(value) : typeof value === "string" && value.length <= getMaxLength(key);
    if (!isFit) return createRequestProblem(`"${key}" of ${method} is not what it should be`);
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
  return { problem: `The request is none: ${why}` };
}

/** How long a request may take to arrive. An answer may take as long as it needs. */
const READ_TIMEOUT_MS = 10_000;

const CLOSE_TIMEOUT_MS = 2000;

/** What came in place of a request. */
type BrokerReadProblem = "frame-too-large" | "frame-timeout" | "frame-cut";

/** Reads one line of a connection, answers it with one, and closes. Contract: `answer` does not throw. */
export function answerConnection(
  connection: Duplex,
  answer: (line: string | { unread: BrokerReadProblem }) => Promise<string>,
  patienceMs = READ_TIMEOUT_MS,
): void {
  const pieces: Buffer[] = [];
  let size = 0;
  let isRead = false;
  const done = (line: string | { unread: BrokerReadProblem }) => {
    if (isRead) return;
    isRead = true;
    clearTimeout(timer);
    connection.removeAllListeners("data");
    connection.resume(); // What else is sent is nobody's.
    void answer(line).then((reply) => {
      if (connection.destroyed) return;
      // Who reads slowly gets the whole of it, for as long as the door is open; who goes on sending is not listened to.
      connection.end(reply, () => setTimeout(() => connection.destroy(), CLOSE_TIMEOUT_MS).unref());
    });
  };
  const timer = setTimeout(() => done({ unread: "frame-timeout" }), patienceMs);
  timer.unref();
  connection.on("data", (bytes: Buffer) => {
    const end = bytes.indexOf(10);
    pieces.push(end === -1 ? bytes : bytes.subarray(0, end));
    size += pieces.at(-1)?.length ?? 0;
    if (size > MAX_BROKER_REQUEST_BYTES) done({ unread: "frame-too-large" });
    else if (end !== -1) done(Buffer.concat(pieces).toString());
  });
  connection.once("end", () => (size === 0 ? done({ unread: "frame-cut" }) : done(Buffer.concat(pieces).toString())));
  connection.once("close", () => {
    clearTimeout(timer);
    isRead = true;
  });
}

/** What a token says: for whom, for which run of which skill, for which capabilities, until when. */
interface TokenClaims {
  run: string;
  skill: string;
  capabilities: readonly string[];
  /** As `Date.now` counts. */
  until: number;
}

type TokenProblem = "token-missing" | "token-invalid" | "token-expired";

/** The second factor: the socket says who asks, and the token must say the same. */
export interface BrokerTokens {
  issue(claims: TokenClaims): Promise<string>;
  /** What speaks against it, for a call of this run; nothing when all is right. `now`: as `Date.now` counts, without what nobody's time is. */
  problemOf(
    token: unknown,
    wanted: Pick<TokenClaims, "run" | "skill">,
    now?: number,
  ): Promise<TokenProblem | undefined>;
}

const TOKEN_AUDIENCE = "skillet-broker";

/** Contract: the key is told to nobody; with it, all that it signed is worth nothing. */
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
    async problemOf(token, { run, skill }, now = Date.now()) {
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

/** What the skill declares, and of each what can be done with it, or why nothing can. */
async function listCapabilities(scene: BrokerContext): Promise<CapabilityList> {
  return {
    capabilities: await Promise.all(scene.run.skill.manifest.capabilities.map((id) => listCapability(scene, id))),
  };
}

async function listCapability(scene: BrokerContext, id: string): Promise<ListedCapability> {
  const { run, capabilities } = scene;
  const provider = capabilities.providerOf(id, run.skill);
  if (!capabilities.isGranted(id, run.skill))
    return createUnreadyEntry(id, "the operator has not given it to this skill");
  if (!provider || !capabilities.isVisible(id, run.caller, run.skill))
    return createUnreadyEntry(id, "it is not there for this caller");
  return describeCapability(scene, id, provider).catch((error) =>
    createUnreadyEntry(id, run.hide(getErrorMessage(error))),
  );
}

async function describeCapability(
  scene: BrokerContext,
  id: string,
  provider: CapabilityProvider,
): Promise<ListedCapability> {
  const found = (await loadProviderDescription(scene, provider)).capabilities.find((served) => served.id === id);
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
