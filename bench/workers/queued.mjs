// The measurements of `bench/workers.mjs` with worker processes: throughput compared with processes with the journal in files, the memory of
// a run, and the time until another worker continues the runs of a killed one.
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { openEngine } from "../../build/adapters/postgres/engine.js";

const ROOT = join(import.meta.dirname, "../..");
const BIN = join(ROOT, "bin/skillet.cjs");
const SKILL = "---\nname: bench\ndescription: Answers. Use when asked to answer.\nmax_iterations: 50\n---\n\nAnswer.\n";

export async function measureQueued(url, { rounds = 3, runs = 200, atOnce = 200, kills = 8, say = () => {} } = {}) {
  const model = await startModel();
  const homes = [createHome(model.url, url), createHome(model.url)];
  const engine = await openEngine({ url });
  const add = await createAdder(engine, homes[0], url);
  try {
    const pairs = [];
    // In turns, so that other load slows both. The first round warms up.
    for (let round = 0; round <= rounds; round++) {
      say(`workers: throughput, round ${round} of ${rounds}`);
      const pair = [await measureFiles(homes[1], runs), await measureWorkers(homes[0], url, add, runs)];
      if (round > 0) pairs.push(pair);
    }
    say("workers: memory");
    const memory = await measureMemory({ home: homes[0], url, add, model, atOnce });
    say("workers: killed workers");
    const takeover = await measureTakeover({ home: homes[0], url, add, model, engine, kills });
    const ratios = pairs.map(([files, queued]) => files.ms / queued.ms);
    const rows = ["two processes, files", "two workers, Postgres"].map((name, index) => ({
      name,
      perSecond:
        (runs * 1000) /
        percentile(
          pairs.map((pair) => pair[index].ms),
          0.5,
        ),
      cpuMs:
        percentile(
          pairs.map((pair) => pair[index].cpuMs),
          0.5,
        ) / runs,
    }));
    return {
      throughput: { runs, rows, ratios: ratios.map(round2), median: round2(percentile(ratios, 0.5)) },
      memory,
      takeover,
    };
  } finally {
    model.close();
    await engine.close();
    for (const home of homes) rmSync(home, { recursive: true, force: true });
  }
}

/** A model that answers at once, or when `release` is called. Speaks the streamed protocol of OpenAI. */
async function startModel() {
  const state = { isHeld: false, waiting: [], calls: 0 };
  const server = createServer(async (request, response) => {
    await text(request);
    state.calls++;
    if (state.isHeld) await new Promise((resolve) => state.waiting.push(resolve));
    const chunk = (delta, finish = null) =>
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`${chunk({ role: "assistant", content: "done" })}${chunk({}, "stop")}data: [DONE]\n\n`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}/v1`,
    get waiting() {
      return state.waiting.length;
    },
    hold() {
      state.isHeld = true;
    },
    release() {
      state.isHeld = false;
      for (const resolve of state.waiting.splice(0)) resolve();
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function createHome(modelUrl, url) {
  const home = mkdtempSync(join(tmpdir(), "skillet-bench-"));
  mkdirSync(join(home, ".skillet/skills/bench"), { recursive: true });
  writeFileSync(join(home, ".skillet/skills/bench/SKILL.md"), SKILL);
  const engine = url === undefined ? "" : `[engine]\nurl = "env:BENCH_URL"\nlease_seconds = 5\nattempts = 20\n`;
  const settings = `[models.default]\nprovider = "openai-compatible"\nmodel = "m"\nbase_url = "${modelUrl}"\napi_key = "none-needed-here"\n${engine}`;
  writeFileSync(join(home, ".skillet/config.toml"), settings, { mode: 0o600 });
  return home;
}

const envOf = (home, url = "") => ({ PATH: process.env.PATH, HOME: home, BENCH_URL: url });

/** Queues copies of a run that the command has queued. */
async function createAdder(engine, home, url) {
  const args = [BIN, "run", "bench", "answer", "--detach"];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: home, env: envOf(home, url), encoding: "utf8" });
  const id = stdout.trim();
  if (id === "") throw new Error(stderr);
  const { lines } = await engine.runs.read(id);
  await engine.runs.cancel(id);
  const [{ type: _, version: __, at: ___, ...head }] = lines;
  const { request } = lines.find(({ type }) => type === "request");
  const { value: start } = lines.find(({ type }) => type === "step");
  return async (count, queue) => {
    const ids = [];
    for (let index = 0; index < count; index++) {
      const next = `${id.slice(0, 16)}${randomBytes(4).toString("hex")}`;
      await engine.queue.enqueue({ head: { ...head, id: next }, request }, { start, queue });
      ids.push(next);
    }
    return ids;
  };
}

async function measureFiles(home, count) {
  const script = join(ROOT, "bench/workers/file-runs.mjs");
  const results = await Promise.all(
    [0, 1].map(async () => {
      const child = spawn(process.execPath, [script, String(count / 2)], { cwd: home, env: envOf(home) });
      child.stderr.pipe(process.stderr);
      return JSON.parse(await text(child.stdout));
    }),
  );
  return {
    ms: Math.max(...results.map(({ end }) => end)) - Math.min(...results.map(({ start }) => start)),
    cpuMs: results.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
  };
}

async function startWorker({ home, url }, queue, slots) {
  const child = spawn(process.execPath, [BIN, "worker", "--json", "--queue", queue, "--slots", String(slots)], {
    ...{ cwd: home, env: envOf(home, url), stdio: ["ignore", "pipe", "inherit"] },
  });
  const events = [];
  let rest = "";
  child.stdout.on("data", (bytes) => {
    const lines = (rest + bytes).split("\n");
    rest = lines.pop();
    events.push(...lines.filter(Boolean).map((line) => JSON.parse(line)));
  });
  await until(() => events.some(({ type }) => type === "worker-started"));
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  };
  return { child, events, stop };
}

/** Each measurement has its own queue: runs that another one left do not count. */
const newQueue = () => `bench-${randomBytes(4).toString("hex")}`;

async function measureWorkers(home, url, add, count) {
  const queue = newQueue();
  await add(count, queue);
  const workers = await Promise.all([0, 1].map(() => startWorker({ home, url }, queue, 16)));
  const before = workers.map(({ child }) => readCpuMs(child.pid));
  const eventsOf = (type) => workers.flatMap(({ events }) => events.filter((event) => event.type === type));
  await until(() => eventsOf("run-left").length >= count);
  const cpuMs = workers.reduce((sum, { child }, index) => sum + readCpuMs(child.pid) - before[index], 0);
  await Promise.all(workers.map(({ stop }) => stop()));
  const times = (type) => eventsOf(type).map(({ at }) => Date.parse(at));
  return { ms: Math.max(...times("run-left")) - Math.min(...times("run-taken")), cpuMs };
}

/** The kernel counts in hundredths of a second. */
function readCpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

async function measureMemory({ home, url, add, model, atOnce }) {
  const queue = newQueue();
  const worker = await startWorker({ home, url }, queue, atOnce);
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${worker.child.pid}/status`, "utf8"))?.[1]) / 1024;
  // The first run loads what every run shares.
  await add(1, queue);
  await until(() => worker.events.some(({ type }) => type === "run-left"));
  const idle = rss();
  model.hold();
  await add(atOnce, queue);
  await until(() => model.waiting === atOnce);
  const busy = rss();
  model.release();
  await until(() => worker.events.filter(({ type }) => type === "run-left").length === atOnce + 1);
  await worker.stop();
  return { atOnce, idleMb: Math.round(idle), busyMb: Math.round(busy), mbPerRun: round2((busy - idle) / atOnce) };
}

/** By the clock of the database: from the kill until another worker has begun the run. */
async function measureTakeover({ home, url, add, model, engine, kills }) {
  const queue = newQueue();
  const [id] = await (async () => {
    model.hold();
    return add(1, queue);
  })();
  let worker = await startWorker({ home, url }, queue, 4);
  const seconds = [];
  const ownerOf = async () =>
    (await engine.database.query(`select worker from skillet.runs where id = '${id}'`))[0].worker;
  await until(async () => (await ownerOf()) !== null);
  for (let kill = 0; kill < kills; kill++) {
    const next = await startWorker({ home, url }, queue, 4);
    const before = await ownerOf();
    const [{ at }] = await engine.database.query("select clock_timestamp()::text as at");
    worker.child.kill("SIGKILL");
    await until(async () => ![before, null].includes(await ownerOf()));
    const [row] = await engine.database.query(
      `select extract(epoch from changed_at - '${at}'::timestamptz)::float8 as s from skillet.runs where id = '${id}'`,
    );
    seconds.push(row.s);
    worker = next;
  }
  model.release();
  await worker.stop();
  return { kills, medianSeconds: round2(percentile(seconds, 0.5)), p95Seconds: round2(percentile(seconds, 0.95)) };
}

async function until(condition) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
}

function percentile(numbers, part) {
  return numbers.toSorted((a, b) => a - b)[Math.min(numbers.length - 1, Math.floor(numbers.length * part))];
}

const round2 = (value) => Math.round(value * 100) / 100;
