import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { inTurn } from "../sandbox/rounds.mjs";
import { makeHome, SKILL } from "./home.mjs";

const node = process.execPath;
const root = join(import.meta.dirname, "..", "..");
const PROVIDER = "@ai-sdk/openai-compatible";

/** Measures whole commands, and for `skillet run` also the time until the first request. `before` is another checkout for comparison. */
export async function starts({ place, model, samples, before, say }) {
  const asking = makeHome(place, "asking", model.url);
  const plain = makeHome(place, "plain");
  const own = (at) => join(at, "bin", "skillet.cjs");
  const imports = (...names) => ["--input-type=module", "-e", names.map((name) => `import "${name}";`).join("")];
  const whole = (name, args, given = plain) => ({ name, sample: () => ended({ args, ...given }) });
  const lists = (name, at) => {
    const { env, ...home } = makeHome(place, name);
    // Without the shipped skills, which differ between checkouts.
    return whole(name, [own(at), "list"], { ...home, env: { ...env, SKILLS_DIR: plain.cwd } });
  };
  const use = { args: [own(root), "run", SKILL, "say hello"], ...asking };
  const first = makeHome(place, "first", model.url);
  say(`starts: ${samples} rounds`);
  return inTurn(
    [
      whole("node -e 0", ["-e", "0"]),
      whole("import ai", imports("ai"), { ...plain, cwd: root }),
      whole("import provider", imports(PROVIDER), { ...plain, cwd: root }),
      whole("import both", imports("ai", PROVIDER), { ...plain, cwd: root }),
      whole("skillet --version", [own(root), "--version"]),
      lists("skillet list", root),
      ...(before ? [lists("skillet list, before", before)] : []),
      { name: "skillet run, first request", sample: () => asked(use, model) },
      { name: "skillet run", sample: () => ended(use) },
      {
        name: "skillet run, first time",
        sample() {
          rmSync(join(first.home, "cache"), { recursive: true, force: true });
          return asked({ ...use, ...first }, model);
        },
      },
      whole("skillet chat, runbook", [own(root), "chat", "-m", "runbook", "List available skills"]),
      whole("skillet run host-report", [own(root), "run", "-m", "runbook", "host-report"]),
    ],
    samples,
  );
}

async function asked(command, model) {
  const next = model.nextAsked();
  const start = performance.now();
  const [at] = await Promise.all([next, ended(command)]);
  return at - start;
}

/** Measures the time from the start of a process to its end. The model runs in this process, so nothing here may block. */
function ended({ args, cwd, env }) {
  const start = performance.now();
  const child = spawn(node, args, { cwd, env, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (bytes) => {
    said += bytes;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve(performance.now() - start);
      else reject(new Error(`${args.slice(1).join(" ")} ended with ${code}: ${said}`));
    });
  });
}
