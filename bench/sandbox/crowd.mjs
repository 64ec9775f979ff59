import { USERS, withWorker } from "./workers.mjs";

const AT_ONCE = 40;
const WAVES = 5;
/** The system gives Node memory until about 2,000 runs, and then no more: what comes after that is judged. */
const MARKS = [200, 2000, 4000];

/** Many at once, then many one after the other: whether all succeed, how long it takes, and what the host is left with. */
export async function crowd({ place, say }) {
  const rows = [];
  const memory = {};
  for (const { label, user } of USERS) {
    await withWorker({ place, user, say, flags: ["--expose-gc"] }, async (ask) => {
      for (const way of ["bare", "bwrap, same view", "skillet"]) {
        say(`${AT_ONCE} at once: ${way}, ${label}`);
        await ask("way", { way });
        const once = await ask("together", { way, count: AT_ONCE, waves: 1 });
        rows.push({
          name: `${way}, ${label}`,
          once,
          waves: await ask("together", { way, count: AT_ONCE, waves: WAVES }),
        });
      }
    });
    say(`${MARKS.at(-1)} one by one, ${label}`);
    await withWorker({ place, user, say, flags: ["--expose-gc"] }, async (ask) => {
      await ask("way", { way: "skillet" });
      memory[label] = await ask("endurance", { marks: MARKS });
    });
  }
  const failed = rows.find(({ name, once, waves }) => name.startsWith("skillet") && once.failed + waves.failed > 0);
  if (failed) throw new Error(`${failed.name}, ${AT_ONCE} at once: ${failed.once.problem ?? failed.waves.problem}`);
  return { atOnce: AT_ONCE, waves: WAVES, rows, memory };
}
