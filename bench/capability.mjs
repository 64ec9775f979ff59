import { mkdirSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { loadavg } from "node:os";
import { join } from "node:path";
import { withPlace } from "./place.mjs";
import { parts } from "./sandbox/library.mjs";
import { inTurn } from "./sandbox/rounds.mjs";

const RUNS = 100;
const SKILL = `---
name: caller
description: Calls a capability. For measuring what a call costs.
capabilities: [plain.thing]
---
Call it.
`;

/** Measures the path between a skill and a provider: a call through the broker, compared with the provider alone and a bare socket. */
export async function capability({ runs: rounds, say }) {
  const [load] = loadavg();
  return withPlace(async (place) => {
    const library = await parts(
      "capabilities/capability-broker.js",
      "capabilities/configured-capabilities.js",
      "capabilities/define-provider.js",
      "config/discover.js",
      "agent/tools/skill-tools.js",
      "agent/workspace/run-sandbox.js",
      "agent/run/step-runner.js",
      "agent/policy/taint-tracker.js",
      "util/redact.js",
    );
    const scene = await open(place, library);
    say(`calls: ${rounds} rounds of 100`);
    const rows = await calls(scene, rounds);
    say("verifications: 20,000");
    const verifications = await verify(library);
    say(`runs at once: ${RUNS}`);
    return { load, rows, verifications, atOnce: await atOnce(scene) };
  });
}

async function open(place, library) {
  const { defineProvider, discover, createCapabilities } = library;
  const home = join(place, "home");
  mkdirSync(join(home, ".skillet", "skills", "caller"), { recursive: true });
  writeFileSync(join(home, ".skillet", "skills", "caller", "SKILL.md"), SKILL);
  const found = await discover({ env: { HOME: home }, home, workspace: place, index: false });
  const input = { type: "object", properties: { text: { type: "string" } }, additionalProperties: false };
  const get = { description: "Gives it.", input, output: { type: "object" }, execute: ({ text }) => ({ text }) };
  const provider = defineProvider({
    namespace: "plain",
    capabilities: { thing: { description: "A thing.", operations: { get } } },
  });
  const settings = { ...found.settings, capabilities: { calls: Number.MAX_SAFE_INTEGER, changes: 0 } };
  const capabilities = createCapabilities({ ...found, settings, providers: [provider], isGranted: () => true });
  const host = { ...found, capabilities, caller: { chatType: "private" } };
  const skill = found.catalog.get("caller");
  const brokerOf = (id) =>
    library.createRunBroker({
      ...{ id, skill, host, getDeadline: () => Date.now() + 600_000, signal: new AbortController().signal },
      steps: library.createLiveStepRunner(host, () => {}),
      redactor: library.createRedactor(new Map()),
      taint: library.createTaintTracker(),
    });
  return { ...library, place, provider, host, skill, brokerOf };
}

async function calls({ place, provider, brokerOf }, rounds) {
  const { door, env } = await (await brokerOf("bench")).forCall("0").createSocket();
  const brokered = await listen(join(place, "b.sock"), door.onConnection);
  const bare = await listen(join(place, "e.sock"), (connection) =>
    connection.once("data", (line) => connection.end(line)),
  );
  const params = { capability: "plain.thing", operation: "get", input: { text: "x".repeat(1000) } };
  const frame = { v: 1, token: env.SKILLET_CAPABILITY_TOKEN, method: "invoke", params };
  const context = { run: "bench", skill: "caller", source: "user" };
  const { signal } = new AbortController();
  let count = 0;
  const line = () => `${JSON.stringify({ ...frame, nonce: `bench-nonce-${++count}` })}\n`;
  const ask = async (path) => {
    const reply = JSON.parse(await exchange(path, line()));
    if (reply.ok === false) throw new Error(reply.error.message);
  };
  const each = (work) => async () => {
    const start = performance.now();
    for (let time = 0; time < 100; time++) await work();
    return (performance.now() - start) / 100;
  };
  try {
    return await inTurn(
      [
        { name: "a call through the broker", sample: each(() => ask(brokered.path)) },
        {
          name: "the provider alone",
          sample: each(() => provider.invoke({ ...params, context, key: "k" }, { signal })),
        },
        { name: "a round trip of one line over a Unix socket", sample: each(() => ask(bare.path)) },
      ],
      rounds,
    );
  } finally {
    brokered.server.close();
    bare.server.close();
  }
}

async function verify({ createBrokerTokens }) {
  const tokens = createBrokerTokens();
  const wanted = { run: "r", skill: "s" };
  const token = await tokens.issue({ ...wanted, capabilities: ["plain.thing"], until: Date.now() + 600_000 });
  const most = 20_000;
  const before = process.cpuUsage();
  for (let time = 0; time < most; time++) {
    if ((await tokens.findProblem(token, wanted)) !== undefined) throw new Error("a valid token was refused");
  }
  const { user, system } = process.cpuUsage(before);
  return { perCoreSecond: most / ((user + system) / 1e6) };
}

/** Starts runs in parallel. Each lists the sockets that it sees: exactly one, and a different one in every run. */
async function atOnce({ brokerOf, openRunSandbox, createRedactor, host, skill }) {
  const start = performance.now();
  const outcomes = await Promise.all(
    Array.from({ length: RUNS }, async (_, index) => {
      const broker = await brokerOf(`run_${index}`);
      const sandbox = await openRunSandbox(host, {
        ...{ skill, secrets: new Map(), redactor: createRedactor(new Map()), kind: "run", broker },
        ...{ signal: new AbortController().signal, onProgress: () => {} },
      });
      return sandbox.run(["sh", "-c", "ls /run/skillet | wc -l; stat -c %i /run/skillet/*"]);
    }),
  );
  const seen = outcomes.map(({ stdout }) => stdout.trim().split(/\s+/));
  const isAlone = seen.every(([number]) => number === "1") && new Set(seen.map(([, inode]) => inode)).size === RUNS;
  return { runs: RUNS, ms: performance.now() - start, isAlone };
}

async function listen(path, onConnection) {
  const server = createServer({ allowHalfOpen: true }, (connection) => {
    connection.on("error", () => {});
    onConnection(connection);
  });
  await new Promise((resolve) => server.listen(path, resolve));
  return { path, server };
}

function exchange(path, line) {
  return new Promise((resolve, reject) => {
    let text = "";
    const connection = connect(path);
    connection.on("data", (bytes) => (text += bytes));
    connection.on("error", reject);
    connection.on("close", () => resolve(text));
    connection.write(line);
  });
}
