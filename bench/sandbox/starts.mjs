import { findPeers } from "./peers.mjs";
import { inTurn } from "./rounds.mjs";
import { USERS, withWorker } from "./workers.mjs";

const WAYS = ["bare", "bwrap by hand", "bwrap, same view", "skillet"];

/** Measures the time from the start of `true` to its end, in each way and for each user. */
export async function starts({ place, samples, withPeers, say }) {
  const peers = withPeers ? await findPeers() : [];
  say(`starting true: ${samples} rounds`);
  return withWorkers(USERS, { place, say }, async (workers) => {
    const own = workers.flatMap(({ label, ask }) =>
      WAYS.map((way) => ({ name: `${way}, ${label}`, sample: () => ask("way", { way }) })),
    );
    const [{ ask, label }] = workers;
    const others = peers.map(({ name, absent, command }) => ({
      name: `${name}, ${label}`,
      absent,
      sample: () => ask("way", { way: "peer", given: command }),
    }));
    const bounds = {};
    for (const worker of workers) bounds[worker.label] = await worker.ask("bounds");
    return { bounds, rows: await inTurn([...own, ...others], samples) };
  });
}

/** Starts all workers, and runs `work` with them: they take turns. */
function withWorkers([first, ...rest], options, work, ready = []) {
  if (!first) return work(ready);
  return withWorker({ ...options, ...first }, (ask) =>
    withWorkers(rest, options, work, [...ready, { label: first.label, ask }]),
  );
}
