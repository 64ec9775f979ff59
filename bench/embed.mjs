import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment } from "./contenders.mjs";
import { median } from "./measure.mjs";
import { DEEPAGENTS, installPeers } from "./peers.mjs";
import { withPlace } from "./place.mjs";

const ROOT = join(import.meta.dirname, "..");

/** The alternatives that a program could embed, and zod as the reference for import times. */
const OTHERS = [
  { name: "zod", packages: ["zod@4.6.7"] },
  { name: "ai", packages: ["ai@7.0.169"] },
  { name: "@modelcontextprotocol/server", packages: ["@modelcontextprotocol/server@2.4.0"] },
  { name: "deepagents", packages: DEEPAGENTS },
  { name: "@mastra/core", packages: ["@mastra/core@1.71.0"] },
];

/** Measures the cost of embedding the library: the size of an installation, and the CPU time of an import. */
export async function embed({ runs, withPeers = true, say }) {
  if (!existsSync(join(ROOT, "dist", "index.js"))) throw new Error("skillet is not built\n  run: npm run build");
  return withPlace(async (place) => {
    const others = withPeers ? installPeers(say, OTHERS) : [];
    const rows = [
      { name: "skillet", folder: packed(place) },
      ...others.map(({ name, folder, absent }) => ({ name, folder, problem: absent })),
    ];
    const there = rows.filter(({ problem }) => problem === undefined);
    const programs = [{ name: undefined, folder: place }, ...there];
    const times = new Map(programs.map((program) => [program, []]));
    // Interleaved, so that other load affects all packages equally.
    for (let round = -1; round < runs; round++) {
      say(`import, round ${round + 1} of ${runs}`);
      for (const program of programs) {
        const ms = importTime(program, place);
        if (round >= 0) times.get(program).push(ms);
      }
    }
    const node = median(times.get(programs[0]));
    return {
      node,
      rows: rows.map((row) =>
        row.problem === undefined
          ? { name: row.name, ...sizeOf(join(row.folder, "node_modules")), ms: median(times.get(row)) }
          : { name: row.name, problem: row.problem },
      ),
    };
  });
}

/** Installs the library as it is published, in a separate folder. */
function packed(place) {
  const folder = join(place, "skillet");
  mkdirSync(folder);
  const npm = (cwd, ...args) => execFileSync("npm", args, { cwd, encoding: "utf8" }).trim();
  const tarball = npm(ROOT, "pack", "--ignore-scripts", "--silent", "--pack-destination", place);
  writeFileSync(join(folder, "package.json"), '{ "private": true }');
  npm(folder, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", join(place, tarball));
  return folder;
}

function sizeOf(modules) {
  const [kilobytes] = execFileSync("du", ["-sk", modules], { encoding: "utf8" }).split("\t");
  return { megabytes: Number(kilobytes) / 1024, packages: packagesIn(modules) };
}

function packagesIn(modules) {
  const names = readdirSync(modules).filter((name) => !name.startsWith("."));
  return names.reduce((count, name) => {
    const inner = name.startsWith("@") ? packagesIn(join(modules, name)) : 1;
    const nested = join(modules, name, "node_modules");
    return count + inner + (!name.startsWith("@") && existsSync(nested) ? packagesIn(nested) : 0);
  }, 0);
}

/** Returns the CPU time in ms, including the start of Node. */
function importTime({ name, folder }, place) {
  const script = `${name === undefined ? "" : `await import("${name}");`}
    const { user, system } = process.cpuUsage(); console.log((user + system) / 1000); process.exit();`;
  const args = ["--input-type=module", "-e", script];
  const said = execFileSync(process.execPath, args, { cwd: folder, env: environment(place), encoding: "utf8" });
  return Number(said.trim().split("\n").at(-1));
}
