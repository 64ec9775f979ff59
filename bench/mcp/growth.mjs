import { toolsetName } from "./home.mjs";
import { openStdio } from "./server.mjs";

const CALLS = [1000, 5000, 10_000];
const ROUNDS = [100, 500, 1000];

/** Measures the memory of a process after a number of calls, and after repeatedly loading and unloading a skill with a toolset. */
export async function growth({ home, say }) {
  const { texts } = home;
  const call = (server, name, given = {}) => server.ask("tools/call", { name, arguments: given });
  const mixed = [
    (server, skill) => call(server, "load_skill", { skill }),
    (server, skill) => call(server, "read_skill_resource", { skill, resource: "references/guide.md" }),
    (server) => server.ask("tools/list"),
    (server, skill) => call(server, "unload_skill", { skill }),
    (server) => call(server, "list_skills"),
  ];
  return [
    await grown("calls", CALLS, { home, say }, (server, number) => {
      const skill = texts[Math.floor(number / mixed.length) % texts.length];
      return mixed[number % mixed.length](server, skill);
    }),
    await grown("rounds with a toolset", ROUNDS, { home, say }, async (server) => {
      const skill = toolsetName(0);
      await call(server, "load_skill", { skill });
      await call(server, "unload_skill", { skill });
    }),
  ];
}

async function grown(name, marks, { home, say }, work) {
  say(`growth: ${marks.at(-1)} ${name}`);
  const server = await openStdio(home, { isWatched: true });
  const rows = [];
  try {
    for (let number = 0; number < marks.at(-1); number++) {
      await work(server, number);
      if (marks.includes(number + 1))
        rows.push({ name: `${number + 1} ${name}`, count: number + 1, ...(await server.held()) });
    }
    return { name, rows };
  } finally {
    await server.stop();
  }
}
