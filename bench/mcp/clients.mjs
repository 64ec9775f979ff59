import { setTimeout } from "node:timers/promises";
import { toolsetName } from "./home.mjs";
import { openClient, openHttp } from "./http.mjs";

const CLIENTS = 100;
/** Clients that connect and disconnect before the first reading, so that one-time loading is not counted. */
const FIRST = 10;
/** Time until the server watches the folders, which starts after the first answers. */
const SETTLED_MS = 5000;

/** Measures the memory of a process for clients with their own session and skill, with and without a toolset. */
export async function clients({ home, say }) {
  return [
    await of("a skill", home, (number) => home.texts[number], say),
    await of("a skill with a toolset", home, toolsetName, say),
  ];
}

async function of(name, home, skillOf, say) {
  say(`clients: ${CLIENTS}, each with ${name}`);
  const { url, held, stop } = await openHttp(home, { isWatched: true });
  try {
    await withClients(url, FIRST, skillOf, () => setTimeout(SETTLED_MS));
    const before = await held();
    const during = await withClients(url, CLIENTS, skillOf, held);
    const after = await held();
    const each = (key) => (during[key] - before[key]) / CLIENTS;
    return { name, count: CLIENTS, before, during, after, rss: each("rss"), heap: each("heap") };
  } finally {
    await stop();
  }
}

async function withClients(url, count, skillOf, work) {
  const all = [];
  for (let number = 0; number < count; number++) {
    const client = await openClient(url);
    all.push(client);
    await client.ask("tools/call", { name: "load_skill", arguments: { skill: skillOf(number) } });
    await client.ask("tools/list");
  }
  const result = await work();
  await Promise.all(all.map((client) => client.close()));
  return result;
}
