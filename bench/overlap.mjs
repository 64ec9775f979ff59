import { loadavg } from "node:os";
import { generate } from "./generate.mjs";
import { withPlace } from "./place.mjs";
import { parts } from "./sandbox/library.mjs";

const SKILLS = 5000;
const ROUNDS = 3;

/** Measures `skillet check --overlap` for many skills, without reading their files. */
export async function overlap({ say }) {
  const [load] = loadavg();
  return withPlace(async (place) => {
    const { createDirectorySource, loadCatalog, findOverlaps } = await parts(
      "skill/source/directory-source.js",
      "catalog/catalog.js",
      "catalog/overlap.js",
    );
    generate(`${place}/skills`, SKILLS, "flat");
    const { skills } = await loadCatalog([createDirectorySource({ path: `${place}/skills`, scope: "inline" })]);
    if (skills.length !== SKILLS) throw new Error(`${skills.length} of ${SKILLS} skills were found`);
    const seconds = [];
    const cpuSeconds = [];
    let pairs = 0;
    for (let round = 1; round <= ROUNDS; round++) {
      say(`comparing ${SKILLS} skills: round ${round} of ${ROUNDS}`);
      const [start, used] = [performance.now(), process.cpuUsage()];
      pairs = (await findOverlaps(skills)).length;
      seconds.push((performance.now() - start) / 1000);
      const { user, system } = process.cpuUsage(used);
      cpuSeconds.push((user + system) / 1e6);
    }
    return { load, skills: SKILLS, pairs, seconds, cpuSeconds };
  });
}
