import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { generate } from "./generate.mjs";
import { withPlace } from "./place.mjs";
import { inTurn } from "./sandbox/rounds.mjs";

const SKILLS = 1000;
const PROGRAM = fileURLToPath(new URL("../bin/skillet.cjs", import.meta.url));

/** Measures adding, verifying and scanning many skills, as whole commands, compared with git and cp with the same files. */
export async function supply({ runs, say }) {
  const [load] = loadavg();
  return withPlace(async (place) => {
    const repository = join(place, "repository");
    const url = `file://${repository}`;
    generate(join(repository, "skills"), SKILLS, "flat");
    commit(repository, place);
    const home = join(place, "home");
    const skillet = (...args) => program(home, process.execPath, PROGRAM, ...args);
    const add = () => skillet("add", url, "--all", "--yes");
    const cache = join(home, ".skillet", "cache", "verified");
    const fresh = (path) => rmSync(path, { recursive: true, force: true });
    say(`supply: ${runs} rounds of ${SKILLS} skills`);
    const adding = await inTurn(
      [
        {
          name: "git clone, then cp -r",
          sample: timed(
            () => [join(place, "clone"), join(place, "copy")].forEach(fresh),
            () => {
              program(home, "git", "clone", "-q", "--", url, join(place, "clone"));
              program(home, "cp", "-r", join(place, "clone", "skills"), join(place, "copy"));
            },
          ),
        },
        { name: "skillet add --all", sample: timed(() => fresh(join(home, ".skillet")), add) },
      ],
      runs,
    );
    fresh(join(home, ".skillet"));
    add();
    const looking = await inTurn(
      [
        {
          name: "skillet verify, cold",
          sample: timed(
            () => fresh(cache),
            () => skillet("verify"),
          ),
        },
        {
          name: "skillet verify, nothing changed",
          sample: timed(
            () => skillet("verify"),
            () => skillet("verify"),
          ),
        },
        {
          name: "sha256sum of the same files",
          sample: timed(
            () => {},
            () => sums(home),
          ),
        },
        {
          name: "skillet scan",
          sample: timed(
            () => {},
            () => skillet("scan", join(home, ".skillet", "installed")),
          ),
        },
        {
          name: "node -e 0",
          sample: timed(
            () => {},
            () => program(home, process.execPath, "-e", "0"),
          ),
        },
      ],
      runs,
    );
    return { load, rows: [...adding, ...looking], skills: SKILLS };
  });
}

function timed(before, work) {
  return async () => {
    before();
    const start = performance.now();
    work();
    return performance.now() - start;
  };
}

function commit(repository, home) {
  mkdirSync(repository, { recursive: true });
  writeFileSync(join(home, ".gitconfig"), "[user]\n\tname = bench\n\temail = bench@localhost\n");
  const git = (...args) => program(home, "git", "-C", repository, ...args);
  git("init", "-q", "-b", "main");
  git("add", "-A");
  git("commit", "-qm", "skills");
}

function sums(home) {
  const installed = join(home, ".skillet", "installed");
  program(home, "sh", "-c", 'find "$0" -type f -exec sha256sum {} + > /dev/null', installed);
}

function program(home, name, ...args) {
  const env = { PATH: process.env.PATH, HOME: home };
  const { status, error, stderr } = spawnSync(name, args, { env, cwd: "/", stdio: ["ignore", "ignore", "pipe"] });
  if (status !== 0) throw new Error(`${name} ${args.join(" ")} failed: ${error?.message ?? stderr}`);
}
