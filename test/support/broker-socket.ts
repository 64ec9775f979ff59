import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import {
  BROKER_METHODS,
  BROKER_PROTOCOL_VERSION,
  type BrokerMethod,
  type BrokerRequest,
  MAX_BROKER_REQUEST_BYTES,
  SOCKET_VARIABLE,
  TOKEN_VARIABLE,
} from "../../src/capabilities/broker-protocol.ts";

/** The parameters of each method; the first ones are required. */
const PARAMS: Record<BrokerMethod, { needs: string[]; takes: string[] }> = {
  list: { needs: [], takes: [] },
  invoke: { needs: ["capability", "operation", "input"], takes: ["account", "key", "approval"] },
  "auth.begin": { needs: ["capability"], takes: ["scopes"] },
  "auth.complete": { needs: ["flow", "callback"], takes: [] },
  "auth.poll": { needs: ["flow"], takes: [] },
};

export interface BrokerSocket {
  path: string;
  /** The environment of code that calls it. */
  env: Record<string, string>;
  frames: BrokerRequest[];
  /** Resolves when a client has closed a connection. */
  left: Promise<void>;
}

type Answer =
  | { ok: true; result: unknown }
  | { ok: false; error: { code: string; message: string; fix?: string } }
  | ((socket: Socket) => void);

export const TOKEN = "a-token.of-a-run.signed";

/** Answers as a broker does, on its own socket. A request that violates the protocol fails the test. */
export async function startBrokerSocket(
  answer: (frame: BrokerRequest, count: number) => Answer,
): Promise<BrokerSocket> {
  const folder = mkdtempSync(join(tmpdir(), "skillet-test-"));
  chmodSync(folder, 0o755);
  const path = join(folder, "broker.sock");
  const frames: BrokerRequest[] = [];
  const problems: string[] = [];
  const nonces = new Set<string>();
  let leave = () => {};
  const left = new Promise<void>((resolve) => {
    leave = resolve;
  });
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket
      .setEncoding("utf8")
      .on("error", () => {})
      .on("close", leave);
    let said = "";
    socket.on("data", (bytes) => {
      said += bytes;
      if (said.length > MAX_BROKER_REQUEST_BYTES) problems.push("a request is too large");
      if (!said.includes("\n")) return;
      const [line = "", ...rest] = said.split("\n");
      if (rest.join("") !== "") problems.push(`there is more than one line: ${rest.join("\n")}`);
      const frame = JSON.parse(line) as BrokerRequest;
      problems.push(...problemsOf(frame, nonces));
      frames.push(frame);
      const reply = answer(frame, frames.length);
      if (typeof reply === "function") reply(socket);
      else socket.end(`${JSON.stringify({ v: BROKER_PROTOCOL_VERSION, id: `req_${frames.length}`, ...reply })}\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  chmodSync(path, 0o666);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
    rmSync(folder, { recursive: true, force: true });
    expect(problems).toEqual([]);
  });
  return { path, env: { [SOCKET_VARIABLE]: path, [TOKEN_VARIABLE]: TOKEN }, frames, left };
}

function problemsOf(frame: BrokerRequest, nonces: Set<string>): string[] {
  const problems: string[] = [];
  const check = (holds: boolean, problem: string) => void (holds || problems.push(problem));
  check(Object.keys(frame).sort().join() === "method,nonce,params,token,v", `it says ${Object.keys(frame)}`);
  check(frame.v === BROKER_PROTOCOL_VERSION, "the version is another");
  check(frame.token === TOKEN, "the token is another");
  check(typeof frame.nonce === "string" && frame.nonce.length > 8 && frame.nonce.length <= 64, "the nonce is invalid");
  check(!nonces.has(frame.nonce), "the nonce was there before");
  nonces.add(frame.nonce);
  check(BROKER_METHODS.includes(frame.method), `the method is ${frame.method}`);
  const { needs, takes } = PARAMS[frame.method] ?? { needs: [], takes: [] };
  for (const name of needs) check(name in frame.params, `${frame.method} has no ${name}`);
  for (const name of Object.keys(frame.params))
    check([...needs, ...takes].includes(name), `${frame.method} has ${name}`);
  return problems;
}
