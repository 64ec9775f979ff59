import { setTimeout } from "node:timers/promises";
import { toolsetName } from "./home.mjs";
import { openClient, openHttp } from "./http.mjs";

const CLIENTS = 100;
/** Come and go before anything is read: what is loaded once is not theirs. */
const FIRST = 10;
/** Until it follows the folders, which is begun after the first answers. */
const SETTLED_MS = 5000;

/** What a process holds for clients that each have a session and a skill of their own; and for some that bring a toolset. */
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
