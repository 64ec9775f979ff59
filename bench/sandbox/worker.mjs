// A process that uses the library as a host would, and runs the tasks of its parent: one message, one answer.
import { join } from "node:path";
import { parts } from "./library.mjs";
import { endurance, together } from "./load.mjs";
import { open, timed, waysIn } from "./ways.mjs";

const home = process.argv[2];
let opened = 0;
let ways;

const TASKS = {
  async way({ way, given }) {
    ways ??= await waysIn(home);
    return timed(() => ways[way](given));
  },
  async bounds() {
    ways ??= await waysIn(home);
    return (await ways.skillet()).bounds;
  },
  open: ({ isFirst }) => timed(() => open(isFirst ? join(home, `home-${++opened}`) : home)),
  async together({ way, count, waves }) {
    ways ??= await waysIn(home);
    return together(ways[way], { count, waves });
  },
  async endurance({ marks }) {
    ways ??= await waysIn(home);
    return endurance(ways.skillet, marks);
  },
  async root({ names, own, shared, isToBuild }) {
    const { buildPackages, findPackageRoot } = await parts("sandbox/packages/apt-packages.js");
    const places = { own, shared };
    if (isToBuild) await buildPackages(names, places, { onProgress: (text) => process.send({ progress: text }) });
    let found;
    const ms = await timed(() => {
      found = findPackageRoot(names, places);
    });
    return { ms, kind: found.kind, root: found.root };
  },
};

process.on("message", async ({ task, ...given }) => {
  try {
    process.send({ answer: await TASKS[task](given) });
  } catch ({ message, fix, code }) {
    process.send({ problem: fix ? `${message}\n  ${fix}` : message, code });
  }
});
process.on("disconnect", () => process.exit());
