import { existsSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { CLOCK_TICK } from "./contenders.mjs";
import { calls } from "./mcp/calls.mjs";
import { clients } from "./mcp/clients.mjs";
import { growth } from "./mcp/growth.mjs";
import { makeHome } from "./mcp/home.mjs";
import { once } from "./mcp/once.mjs";
import { starts } from "./mcp/starts.mjs";
import { withPlace } from "./place.mjs";

const SKILLS = 1000;
const WITH_TOOLS = 100;
const SAMPLES_A_RUN = { starts: 3, calls: 30 };

/** Measures the cost of serving skills: the time until a client has its list, a call, the memory of a client, and leaks. */
export async function mcp({ runs, say }) {
  if (!existsSync(join(import.meta.dirname, "..", "dist", "cli", "bin.cjs")))
    throw new Error("skillet is not built\n  run: npm run build");
  const [load] = loadavg();
  return withPlace(async (place) => {
    say(`writes ${SKILLS} skills`);
    const plain = makeHome(place, "plain", { plain: SKILLS });
    const home = makeHome(place, "with-tools", { plain: SKILLS, withTools: WITH_TOOLS });
    await setTimeout(CLOCK_TICK);
    const given = { place, home, say };
    return {
      load,
      skills: SKILLS,
      starts: await starts({ ...given, home: plain, samples: runs * SAMPLES_A_RUN.starts }),
      calls: await calls({ ...given, samples: runs * SAMPLES_A_RUN.calls }),
      once: await once({ ...given, samples: runs * SAMPLES_A_RUN.calls }),
      clients: await clients(given),
      growth: await growth(given),
    };
  });
}
