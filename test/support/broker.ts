import { mkdtempSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { BrokerRun, CapabilityOutcome } from "../../src/capabilities/broker-context.ts";
import { type BrokerReply, TOKEN_VARIABLE } from "../../src/capabilities/broker-protocol.ts";
import {
  type Broker,
  type BrokerTokens,
  createBroker,
  createBrokerTokens,
} from "../../src/capabilities/capability-broker.ts";
import { type CapabilityOptions, createCapabilities } from "../../src/capabilities/configured-capabilities.ts";
import { defineProvider } from "../../src/capabilities/define-provider.ts";
import type { Approval, ApprovalRequest } from "../../src/host/approval.ts";
import type { AuditLine, Capabilities, CapabilityProvider, ProviderCall } from "../../src/host/capability-contract.ts";
import { temporaryFolder } from "./folder.ts";
import { readAll } from "./read-all.ts";
import { defineTestSkill } from "./skills.ts";

/** Notes in memory, and the requests to them. */
export function memoryNotes(more: { output?: (call: ProviderCall) => unknown } = {}) {
  const asked: ProviderCall[] = [];
  const provider = defineProvider({
    namespace: "notes",
    seconds: 2,
    capabilities: {
      notes: {
        description: "Notes.",
        operations: {
          list: {
            description: "Lists notes.",
            input: OBJECT({ limit: { type: "integer" } }),
            execute: () => ({ notes: [] }),
          },
          add: {
            description: "Adds a note.",
            mutating: true,
            input: OBJECT({ title: { type: "string", maxLength: 50 } }, ["title"]),
            output: { type: "object", required: ["id"] },
            execute: () => ({ id: asked.length }),
          },
        },
      },
    },
  });
  const invoke: CapabilityProvider["invoke"] = async (call, options) => {
    asked.push(call);
    const answer = await provider.invoke(call, options);
    return more.output ? { ...answer, output: await more.output(call) } : answer;
  };
  return { provider: { ...provider, invoke }, asked };
}

function OBJECT(properties: object, required: readonly string[] = []) {
  return { type: "object", properties, required, additionalProperties: false };
}

export interface BrokerScene {
  broker: Broker;
  capabilities: Capabilities;
  /** The path of its socket, and the token to present there. */
  socket: string;
  token: string;
  /** The approval requests. */
  effects: ApprovalRequest[];
  called: CapabilityOutcome[];
  origins: [label: string, text: string][];
  /** Sends a request as code in the sandbox does, and returns the answer. */
  send(method: string, params?: object, more?: object): Promise<BrokerReply>;
  invoke(operation: string, input?: object, more?: object): Promise<BrokerReply>;
  lines(): Promise<AuditLine[]>;
}

interface Parts extends CapabilityOptions {
  run?: Partial<BrokerRun>;
  /** The capabilities that the skill declares. */
  declares?: readonly string[];
  words?: Approval[];
  tokens?: BrokerTokens;
}

/** A broker behind a real socket, for a run of skill `x`. */
export async function createBrokerScene(parts: Parts = {}): Promise<BrokerScene> {
  const { run = {}, declares = ["notes.notes"], words = [], tokens = createBrokerTokens(), ...options } = parts;
  const home = temporaryFolder();
  const capabilities = createCapabilities({ home, env: {}, isGranted: () => true, ...options });
  const effects: ApprovalRequest[] = [];
  const called: CapabilityOutcome[] = [];
  const origins: [string, string][] = [];
  const steps = new Map<string, unknown>();
  const broker = createBroker(
    capabilities,
    {
      run: "run_1",
      skill: defineTestSkill("x", { more: { capabilities: [...declares] } }),
      path: "/skills/x",
      caller: { userId: "ada", chatId: "7", chatType: "private" },
      getDeadline: () => Date.now() + 60_000,
      signal: new AbortController().signal,
      redact: (text) => text,
      async step<T>(name: string, work: () => Promise<T>) {
        if (!steps.has(name)) steps.set(name, await work());
        return steps.get(name) as T;
      },
      findStep: <T>(name: string) => (steps.has(name) ? { value: steps.get(name) as T } : undefined),
      async requestApproval(_, effect) {
        effects.push(effect);
        return words.shift() ?? { isApproved: true };
      },
      underLease: (work) => work(),
      findOrigins: () => [],
      addOrigin: (label, text) => origins.push([label, text]),
      onCalled: (call) => called.push(call),
      ...run,
    },
    tokens,
  );
  const { door, env } = await broker.forCall("0").createSocket();
  const { socket, server } = await listen(door.onConnection);
  onTestFinished(() => void server.close());
  const token = env[TOKEN_VARIABLE] ?? "";
  let count = 0;
  const send = (method: string, params: object = {}, more: object = {}) =>
    exchange(socket, JSON.stringify({ v: 1, token, nonce: `nonce-${++count}-xx`, method, params, ...more }));
  return {
    ...{ broker, capabilities, socket, token, effects, called, origins, send },
    invoke: (operation, input = {}, more = {}) =>
      send("invoke", { capability: "notes.notes", operation, input, ...more }),
    lines: () => readAll(capabilities.audit.read()),
  };
}

async function listen(onConnection: (socket: import("node:net").Socket) => void) {
  const socket = join(mkdtempSync(join(tmpdir(), "broker-")), "s");
  const server: Server = createServer({ allowHalfOpen: true }, (connection) => {
    connection.on("error", () => {});
    onConnection(connection);
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  return { socket, server };
}

/** Sends a line, or a malformed one, and reads the answer. */
export async function exchange(socket: string, line: string, { isCut = false } = {}): Promise<BrokerReply> {
  const text = await new Promise<string>((resolve, reject) => {
    let read = "";
    const connection = connect(socket);
    connection.on("data", (bytes) => (read += bytes));
    connection.on("error", (error) => (read === "" ? reject(error) : resolve(read)));
    connection.on("close", () => resolve(read));
    connection.write(isCut ? line : `${line}\n`);
  });
  return JSON.parse(text);
}

/** Returns the code of a refusal, or `ok`. */
export function codeIn(reply: BrokerReply): string {
  return reply.ok ? "ok" : reply.error.code;
}
