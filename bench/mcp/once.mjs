import { Agent } from "node:http";
import { inTurn } from "../sandbox/rounds.mjs";
import { askOnce, openHttp } from "./http.mjs";

const AT_ONCE = 10;
const TOGETHER = 200;

/** Measures a request that gets its own server: alone, and many at once. */
export async function once({ home, samples, say }) {
  say(`requests without a session: ${samples} rounds`);
  const [skill] = home.texts;
  const { url, stop } = await openHttp(home);
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
  const ask = {
    "tools/list": () => askOnce(url, agent, "tools/list"),
    load_skill: () => askOnce(url, agent, "tools/call", { name: "load_skill", arguments: { skill } }),
  };
  const alone = ([name, work]) => ({
    name,
    async sample() {
      const start = performance.now();
      await work();
      return performance.now() - start;
    },
  });
  try {
    const rows = await inTurn(Object.entries(ask).map(alone), samples);
    for (const row of rows) row.perSecond = await perSecond(ask[row.name]);
    return rows;
  } finally {
    agent.destroy();
    await stop();
  }
}

async function perSecond(work) {
  const start = performance.now();
  let left = TOGETHER;
  const next = async () => {
    while (left-- > 0) await work();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
  return (TOGETHER * 1000) / (performance.now() - start);
}
