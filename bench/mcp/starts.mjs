import { join } from "node:path";
import { build } from "esbuild";
import { inTurn } from "../sandbox/rounds.mjs";
import { initializing, skillet, startServer } from "./server.mjs";

const SLOW_SAMPLES = 3;
const own = (name) => join(import.meta.dirname, name);

/** Measures the time from the start of a process until it answers `tools/list`, which is sent immediately. */
export async function starts({ place, home, samples, say }) {
  const bundled = join(place, "empty.cjs");
  await build({
    entryPoints: [own("empty.mjs")],
    outfile: bundled,
    bundle: true,
    minify: true,
    platform: "node",
    target: "node22",
    format: "cjs",
    logLevel: "error",
  });
  const way = (name, ...args) => ({ name, sample: () => listed({ ...home, args }) });
  say(`starts: ${samples} rounds`);
  const rows = await inTurn(
    [
      way("JSON-RPC, no SDK", own("raw.mjs")),
      way("empty server, bundled", bundled),
      way("empty server, not bundled", own("empty.mjs")),
      way("skillet serve", skillet, "serve"),
    ],
    samples,
  );
  say(`starts: ${SLOW_SAMPLES} rounds of the SDK's own loader`);
  const slow = await inTurn([way("the SDK's loadSkills", own("sdk-skills.mjs"), home.skills)], SLOW_SAMPLES);
  return [...rows, ...slow];
}

async function listed(command) {
  const start = performance.now();
  const server = startServer(command);
  const initialized = server.ask("initialize", initializing());
  server.tell("notifications/initialized");
  const [, { tools }] = await Promise.all([initialized, server.ask("tools/list")]);
  const ms = performance.now() - start;
  if (tools.length === 0) throw new Error("no tool was listed");
  await server.stop();
  return ms;
}
