import { inTurn } from "../sandbox/rounds.mjs";
import { toolsetName } from "./home.mjs";
import { openStdio } from "./server.mjs";

/** Measures a call over stdio, including the client's part. Each sample requests a different skill. The client refreshes its tools when notified. */
export async function calls({ home, samples, say }) {
  say(`calls: ${samples} rounds`);
  const server = await openStdio(home, { refreshes: true });
  let count = 0;
  const timed = (name, work, { from = home.texts, after } = {}) => ({
    name,
    async sample() {
      const skill = from[count++ % from.length];
      const start = performance.now();
      await work(skill);
      const ms = performance.now() - start;
      await after?.(skill);
      return ms;
    },
  });
  const call = (name, given = {}) => server.ask("tools/call", { name, arguments: given });
  const [there, other] = [toolsetName(0), toolsetName(1)];
  const load = (skill) => call("load_skill", { skill });
  const after = (skill) => call("unload_skill", { skill });
  try {
    await load(there);
    return await inTurn(
      [
        timed("tools/list", () => server.ask("tools/list")),
        timed("list_skills", () => call("list_skills")),
        timed("search_skills", () => call("search_skills", { query: "convert invoices" })),
        timed("load_skill", load, { after }),
        timed("load_skill with a script", load, { from: home.scripted, after }),
        timed("load_skill with a toolset", load, { from: [other], after }),
        timed("read_skill_resource", (skill) =>
          call("read_skill_resource", { skill, resource: "references/guide.md" }),
        ),
        timed("skills/list, a page", () => server.ask("skills/list")),
        timed("a call of a tool", () => call(`${there}__echo`, { input: "hello" })),
      ],
      samples,
    );
  } finally {
    await server.stop();
  }
}
