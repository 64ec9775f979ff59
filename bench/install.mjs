import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { withPlace } from "./place.mjs";
import { parts } from "./sandbox/library.mjs";
import { inTurn } from "./sandbox/rounds.mjs";

const SKILLS = 100;
const FILES = 20;
const BYTES = 4096;

/** Measures the atomic installation of skills into a folder, compared with a plain copy of the same files. */
export async function install({ runs, say }) {
  const [load] = loadavg();
  return withPlace(async (place) => {
    const { applyFolderChange } = await parts("store/atomic-folder.js");
    const from = join(place, "from");
    const items = Array.from({ length: SKILLS }, (_, number) => write(from, `skill-${number}`));
    const sample = (work) => async () => {
      const to = join(place, "to");
      program("sync", "-f", place); // Flushes pending writes of earlier samples.
      const start = performance.now();
      work(to);
      const ms = performance.now() - start;
      rmSync(to, { recursive: true });
      return ms;
    };
    say(`install: ${runs} rounds of ${SKILLS} skills`);
    const rows = await inTurn(
      [
        { name: "skillet", sample: sample((to) => applyFolderChange({ skillsDir: to, items, isDurable: false })) },
        { name: "cp -r", sample: sample((to) => program("cp", "-r", from, to)) },
        {
          name: "skillet, on disk",
          sample: sample((to) => applyFolderChange({ skillsDir: to, items, isDurable: true })),
        },
        {
          name: "cp -r, then sync -f",
          sample: sample((to) => {
            program("cp", "-r", from, to);
            program("sync", "-f", to);
          }),
        },
      ],
      runs,
    );
    return { load, rows, skills: SKILLS, files: FILES };
  });
}

function write(from, name) {
  const folder = join(from, name);
  mkdirSync(folder, { recursive: true });
  const text = `---\nname: ${name}\ndescription: For measuring.\n---\n`;
  writeFileSync(join(folder, "SKILL.md"), text.padEnd(BYTES, "x"));
  for (let number = 1; number < FILES; number++) {
    writeFileSync(join(folder, `${number}.txt`), `${name} ${number} `.padEnd(BYTES, "x"));
  }
  return { name, source: "ref", folder };
}

function program(name, ...args) {
  const { status, error, stderr } = spawnSync(name, args, { stdio: ["ignore", "ignore", "pipe"] });
  if (status !== 0) throw new Error(`${name} failed: ${error?.message ?? stderr}`);
}
