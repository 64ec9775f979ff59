import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { setUp } from "./clients.mjs";
import { connect, listen, openCorpusHome } from "./home.mjs";
import { converse, DONE } from "./models/conversation.mjs";
import { modelServer } from "./models/server.mjs";
import { endProcess, runProgram } from "./process.mjs";

/** Maximum time in ms for a server to end after its client. */
const GRACE = 2_000;

/** Runs the whole conversation with a client. Contract: afterwards its processes have ended, and its folder is removed unless a problem was found. */
export async function attempt(client) {
  const home = openCorpusHome(client.name);
  const conversation = converse();
  const model = await modelServer(client.protocol, conversation);
  const begin = performance.now();
  try {
    connect(home, client);
    listen(home, client);
    setUp(client, home, model.url);
    const { command, env } = client.start({ path: home.path, url: model.url });
    const ended = await runProgram(command, {
      cwd: home.workspace,
      // A client that uses the proxy reaches only this machine.
      env: { ...home.env, HTTP_PROXY: model.url, HTTPS_PROXY: model.url, NO_PROXY: "127.0.0.1,localhost", ...env },
      // A server that outlives its client is a finding.
      isGroupKept: true,
    });
    const seconds = (performance.now() - begin) / 1000;
    const wire = readWire(home.path);
    const left = await endLeft(wire.flatMap(({ started = [] }) => started));
    if (ended.group !== undefined) endProcess(-ended.group);
    const problems = [...conversation.problems, ...problemsOf(ended, conversation, wire)];
    const { printed } = ended;
    return outcome({ ...conversation, problems, wire, left, seconds, elsewhere: [...model.elsewhere], printed });
  } catch (error) {
    return outcome({ ...conversation, problems: [error.message] });
  } finally {
    model.close();
  }

  function outcome(seen) {
    if (seen.problems.length > 0) return { ...seen, folder: home.path };
    rmSync(home.path, { recursive: true, force: true });
    return seen;
  }
}

function problemsOf({ problem, printed }, { requests }, wire) {
  const noise = wire.find(({ from, message }) => from !== undefined && message === undefined);
  return [
    problem,
    printed.includes(DONE) || problem ? undefined : "it did not print the model's last words",
    wire.length > 0 ? undefined : "it did not start the server",
    requests.length > 0 ? undefined : "it did not offer the model any tool of the server",
    noise && `what the ${noise.from} wrote is no message: ${noise.line}`,
  ].filter((text) => text !== undefined);
}

function readWire(path) {
  const file = join(path, "wire.jsonl");
  if (!existsSync(file)) return [];
  const entries = readFileSync(file, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  return entries.map((entry) => ({ ...entry, message: parsed(entry.line) }));
}

function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Servers that outlived their client. */
async function endLeft(ids) {
  const until = Date.now() + GRACE;
  while (ids.some(isRunning) && Date.now() < until) await wait(50);
  const left = ids.filter(isRunning);
  for (const id of left) endProcess(id);
  return left;
}

const isRunning = (id) => endProcess(id, 0);
