import { rmSync } from "node:fs";
import { join } from "node:path";
import { makeFloor, ownContenders } from "./contenders.mjs";
import { generate } from "./generate.mjs";
import { median, peakMemory, run } from "./measure.mjs";
import { installPeers, peerContender } from "./peers.mjs";
import { withPlace } from "./place.mjs";

const MANY = 10_000;
const PEER_ROUNDS_WITH_MANY = 3;
const MEMORY_RUNS = 3;

/** Measures finding and listing skills, at every size. `say` receives progress lines. */
export async function discover({ sizes, runs, withPeers, say }) {
  const peers = withPeers ? installPeers(say) : [];
  return withPlace(async (place) => {
    const floor = makeFloor(place);
    const results = [];
    for (const size of sizes) results.push(await discoverAt({ size, runs, floor, peers, place, say }));
    return { floor: floor.kind, results };
  });
}

async function discoverAt({ size, runs, floor, peers, place, say }) {
  say(`${size} skills: writing`);
  const root = join(place, String(size));
  const folders = { nested: join(root, "nested"), flat: join(root, "flat") };
  for (const layout of peers.length > 0 ? ["nested", "flat"] : ["nested"]) generate(folders[layout], size, layout);
  const contenders = [
    ...(await ownContenders({ place, skills: folders.nested, floor, size })),
    ...peers.map((peer) => peerContender(peer, { place, folders })),
  ].map((contender) => ({ ...contender, times: [] }));
  const peerRuns = size >= MANY ? Math.min(runs, PEER_ROUNDS_WITH_MANY) : runs;
  for (let round = 0; round <= runs; round++) {
    say(`${size} skills: ${round === 0 ? "warming up" : `round ${round} of ${runs}`}`);
    // Each round starts with a different contender, so that none always follows the same slow one.
    for (const contender of [...contenders.slice(round), ...contenders.slice(0, round)]) {
      if (!contender.absent && (!contender.isPeer || round <= peerRuns)) await runOnce(contender, round);
    }
  }
  for (const contender of contenders) if (contender.measuresMemory) contender.peak = await peakOf(contender, place);
  rmSync(root, { recursive: true, force: true });
  return { size, runs, peerRuns, rows: rowsOf(contenders) };
}

async function runOnce(contender, round) {
  contender.prepare?.();
  const { ms, output, problem } = await run(contender.command);
  if (problem) {
    if (!contender.isPeer) throw new Error(`${contender.name} ${problem}`);
    contender.absent = problem;
    return;
  }
  const found = contender.count?.(output);
  if (contender.mustFind !== undefined && found !== contender.mustFind) {
    throw new Error(`${contender.name} found ${found} of ${contender.mustFind} skills`);
  }
  if (found !== undefined) contender.found = Math.min(found, contender.found ?? found);
  if (round > 0) contender.times.push(ms);
}

async function peakOf(contender, place) {
  let peak = 0;
  for (let count = 0; count < MEMORY_RUNS; count++) {
    contender.prepare?.();
    peak = Math.max(peak, await peakMemory(contender.command, place));
  }
  return peak;
}

function rowsOf(contenders) {
  const rows = contenders.map(({ name, label = name, note, isPeer = false, found, times, peak, absent }) => ({
    name,
    label,
    note,
    isPeer,
    absent,
    found,
    ms: times.length > 0 && !absent ? median(times) : undefined,
    least: times.length > 0 && !absent ? Math.min(...times) : undefined,
    megabytes: peak,
  }));
  const [floor, node] = ["floor", "node -e 0"].map((name) => rows.find((row) => row.name === name).ms);
  return rows.map((row) =>
    row.ms === undefined ? row : { ...row, timesFloor: row.ms / floor, timesNode: row.ms / node },
  );
}
