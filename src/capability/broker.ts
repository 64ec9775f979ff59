import { randomBytes } from "node:crypto";
import type { Capabilities } from "../host/capabilities.ts";
import type { Door } from "../host/sandbox.ts";
import { defined } from "../shared/defined.ts";
import type { Data } from "../skill/data.ts";
import { type Answer, failure, refused, replyLine } from "./answer.ts";
import { openAuth } from "./auth.ts";
import { notFor } from "./checks.ts";
import { answerOnce, type Unread } from "./connection.ts";
import { readFrame } from "./frame.ts";
import { invoke } from "./invoke.ts";
import { listCapabilities } from "./list.ts";
import {
  CAPABILITY_SOCKET,
  type Frame,
  type ListResult,
  type Method,
  SOCKET_VARIABLE,
  TOKEN_VARIABLE,
} from "./protocol.ts";
import type { BrokerRun, Scene } from "./scene.ts";
import { agreeToSignIn, signIn } from "./sign-in.ts";
import { openTokens, type Tokens } from "./token.ts";

/** Between one run and the providers: nothing of a sensitive system is reached but through it. */
export interface Broker {
  /** Says which call of the run is being made, so that what is asked for in it is known again when it is made again. */
  at(place: string): void;
  /** A way in for one sandbox, with what its code must show there. */
  door(): Promise<{ door: Door; env: Readonly<Record<string, string>> }>;
  /** What the skill has, with what can be done with it. */
  list(): Promise<ListResult>;
  /** For the run itself, which needs no token: it is who it is. Contract: resolves. */
  invoke(params: Data): Promise<Answer>;
  /** Ends when the run goes no further for now: what it started is to end too. */
  readonly halted: AbortSignal;
  /** From now on everything is refused. */
  close(): void;
}

/** One key for all runs of this process: a token is held to what it says. */
let shared: Tokens | undefined;

function sharedTokens(): Tokens {
  shared ??= openTokens();
  return shared;
}

export function openBroker(capabilities: Capabilities, run: BrokerRun, tokens?: Tokens): Broker {
  const signing = tokens ?? sharedTokens();
  const halted = new AbortController();
  const ended = new AbortController();
  let refusals = 0;
  const { skill, caller, run: id } = run;
  const who = {
    ...{ run: id, skill: skill.name, source: skill.origin.source },
    ...defined({ user: caller?.userId, chat: caller?.chatId }),
  };
  const auth = openAuth({
    vault: capabilities.vault,
    // A sign-in that another skill began is one that there is not, unless this one may begin it too.
    providerOf: (asked) => (notFor(scene, asked) ? undefined : capabilities.providerOf(asked, skill)),
    agree: (flow, namespace, credential) => agreeToSignIn(scene, flow, { namespace, credential }),
  });
  const scene: Scene = {
    auth,
    run: { ...run, signal: AbortSignal.any([run.signal, ended.signal]) },
    ...{ capabilities, place: "0", calls: 0, signIns: 0 },
    ...{ asked: new Set(), seen: new Map(), words: new Map(), keyed: new Map(), descriptions: new Map() },
    halt: () => halted.abort(),
    audit(entry) {
      // Who is refused again and again fills no disk.
      const isRefusal = !["ok", "begun", "repeated"].includes(entry.outcome);
      if (isRefusal && ++refusals > MOST_REFUSALS) return;
      capabilities.audit.add({ ...who, ...entry });
    },
  };
  const nonces = new Set<string>();
  const frameProblem = async ({ token, nonce }: Frame, until: number): Promise<Answer | undefined> => {
    if (scene.run.signal.aborted) return refused("run-ended", "This run has ended");
    // While people are waited for, the run's time stands still, and so does that of what it was given.
    const waited = run.until() - until;
    const problem = await signing.problemOf(token, { run: id, skill: skill.name }, Date.now() - waited);
    if (problem) return refused(problem, WRONG_TOKEN[problem], `it stands in ${TOKEN_VARIABLE} of each command`);
    if (nonces.size >= MOST_NONCES) return refused("quota-reached", "This run has asked too often");
    if (nonces.has(nonce)) return refused("nonce-used", "This request was made before", "make it anew");
    nonces.add(nonce);
    return undefined;
  };
  const answer = async (line: string | { unread: Unread }, { until, gone }: Asker): Promise<Answer> => {
    if (typeof line !== "string") return noted(scene, "frame", refused(line.unread, UNREAD[line.unread]));
    const frame = readFrame(line);
    if ("problem" in frame) return noted(scene, "frame", refused("frame-invalid", frame.problem));
    const problem = await frameProblem(frame, until);
    if (problem) return noted(scene, frame.method, problem);
    return METHODS[frame.method](scene, frame.params, gone);
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
      const onConnection: Door["onConnection"] = (connection) => {
        const gone = new AbortController();
        connection.once("close", () => gone.abort());
        const asker = { until, gone: gone.signal };
        answerOnce(connection, async (line) => replyLine(requestId(), await safely(() => answer(line, asker), scene)));
      };
      return {
        door: { to: CAPABILITY_SOCKET, variable: SOCKET_VARIABLE, onConnection },
        env: { [TOKEN_VARIABLE]: token },
      };
    },
    list: () => listCapabilities(scene),
    invoke: (params) => safely(() => invoke(scene, params), scene),
    close() {
      if (ended.signal.aborted) return;
      ended.abort();
      if (refusals <= MOST_REFUSALS) return;
      const count = refusals - MOST_REFUSALS;
      try {
        capabilities.audit.add({ ...who, method: "refused", outcome: "too-many", count });
      } catch {} // The refusals before it are written down.
    },
  };
}

const MOST_REFUSALS = 100;
const MOST_NONCES = 10_000;

interface Asker {
  /** What its token was given until. */
  until: number;
  /** Ends when nobody reads the answer any more. */
  gone: AbortSignal;
}

const METHODS: Record<Method, (scene: Scene, params: Data, gone: AbortSignal) => Promise<Answer>> = {
  list: async (scene) => noted(scene, "list", { ok: true, result: { ...(await listCapabilities(scene)) } }),
  invoke,
  "auth.begin": (scene, params) => signIn(scene, "begin", params),
  "auth.complete": (scene, params) => signIn(scene, "complete", params),
  "auth.poll": (scene, params) => signIn(scene, "poll", params),
};

const WRONG_TOKEN = {
  "token-missing": "The request has no token",
  "token-invalid": "The token is not one of this run",
  "token-expired": "The token has expired",
};

const UNREAD: Record<Unread, string> = {
  "frame-too-large": "The request is larger than 1 MiB",
  "frame-timeout": "The request did not arrive in time",
  "frame-cut": "There was no request",
};

function noted(scene: Scene, method: string, answer: Answer): Answer {
  scene.audit({ method, outcome: answer.ok ? "ok" : answer.error.code });
  return answer;
}

/** Who cannot write down what is asked answers nothing. */
async function safely(work: () => Promise<Answer>, { run }: Scene): Promise<Answer> {
  try {
    return await work();
  } catch (error) {
    return failure(error, run.hide, "broker-failed");
  }
}

function requestId(): string {
  return `req_${randomBytes(9).toString("base64url")}`;
}
