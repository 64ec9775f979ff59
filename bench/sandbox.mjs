import { chmodSync } from "node:fs";
import { loadavg } from "node:os";
import { withPlace } from "./place.mjs";
import { wholeCommand } from "./sandbox/command.mjs";
import { crowd } from "./sandbox/crowd.mjs";
import { layers } from "./sandbox/layers.mjs";
import { starts } from "./sandbox/starts.mjs";
import { workspace } from "./sandbox/workspace.mjs";

const SAMPLES_A_RUN = 10;
const FEWEST_SAMPLES = 50;

/** Measures the cost of isolating a process: one, many at once, with packages, and as a whole command. */
export async function sandbox({ runs, withPeers, say }) {
  if (process.platform !== "linux") return { absent: `measured on Linux only, and this is ${process.platform}` };
  const samples = Math.max(FEWEST_SAMPLES, runs * SAMPLES_A_RUN);
  const [load] = loadavg();
  return withPlace(async (place) => {
    chmodSync(place, 0o755); // The user that runs the code needs access to this folder.
    const given = { place, samples, withPeers, say };
    try {
      return {
        load,
        samples,
        starts: await starts(given),
        crowd: await crowd(given),
        layers: await layers(given),
        command: await wholeCommand(given),
        workspace: await workspace(given),
      };
    } catch (error) {
      if (error.code === "sandbox-unavailable") return { absent: error.message };
      throw error;
    }
  });
}
