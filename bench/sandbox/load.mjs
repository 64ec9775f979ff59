import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { setTimeout } from "node:timers/promises";
import { timed } from "./ways.mjs";

/** Runs this number of processes at once, wave after wave. */
export async function together(way, { count, waves }) {
  let failed = 0;
  let problem;
  const ms = await timed(async () => {
    for (let wave = 0; wave < waves; wave++) {
      const results = await Promise.allSettled(Array.from({ length: count }, () => way()));
      for (const { reason } of results.filter(({ status }) => status === "rejected")) {
        failed++;
        problem ??= reason.message;
      }
    }
  });
  return { ms, runs: count * waves, failed, problem };
}

/** Measures the memory of this process at each mark. The first runs fill caches for the next; only continued growth is a leak. */
export async function endurance(way, marks) {
  const rows = [{ name: "at the start", ...(await held()) }];
  let runs = 0;
  for (const mark of marks) {
    for (; runs < mark; runs++) await way();
    rows.push({ name: `after ${mark} runs`, runs, ...(await held()) });
  }
  return rows;
}

async function held() {
  await setTimeout(200);
  globalThis.gc();
  const { rss, heapUsed, external } = process.memoryUsage();
  const targets = readdirSync("/proc/self/fd").map(target);
  const ready = targets.filter((path) => path.includes("/skillet-pipes-")).length;
  return {
    rss: rss / 2 ** 20,
    heap: (heapUsed + external) / 2 ** 20,
    descriptors: targets.length - ready,
    ready,
    left: leftFolders() + cgroups() + children(),
  };
}

function target(fd) {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return ""; // The descriptor that read the folder: the same every time.
  }
}

const leftFolders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("skillet-")).length;

const cgroups = () =>
  readdirSync("/sys/fs/cgroup", { recursive: true }).filter((path) => path.includes(`skillet-${process.pid}-`)).length;

function children() {
  return readdirSync("/proc/self/task")
    .flatMap((task) => readFileSync(`/proc/self/task/${task}/children`, "utf8").trim().split(" "))
    .filter(Boolean).length;
}
