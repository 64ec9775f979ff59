import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment } from "../contenders.mjs";
import { run } from "../measure.mjs";
import { inTurn } from "./rounds.mjs";
import { withWorker } from "./workers.mjs";

const node = process.execPath;
const skillet = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");
const SKILL =
  "---\nname: hello\ndescription: Says hello. For measuring what running a script costs.\n---\nRun go.sh.\n";

/** A trivial script as it is run by hand and by `skillet script`; and what opening a sandbox costs, of which that is a part. */
export async function wholeCommand({ place, samples, say }) {
  const env = environment(place);
  const skill = join(env.HOME, ".skillet", "skills", "hello");
  const script = join(skill, "scripts", "go.sh");
  mkdirSync(join(skill, "scripts"), { recursive: true });
  writeFileSync(join(skill, "SKILL.md"), SKILL);
  writeFileSync(script, "echo hello\n");
  const cache = join(env.HOME, ".skillet", "cache");
  const whole = (name, file, args, forgets) => ({
    name,
    async sample() {
      if (forgets) rmSync(forgets, { recursive: true, force: true });
      const { ms, output, problem } = await run({ file, args, cwd: place, env });
      if (problem) throw new Error(`${name} ${problem}`);
      if (file !== node && output !== "hello\n") throw new Error(`${name} printed ${JSON.stringify(output)}`);
      return ms;
    },
  });
  const ofScript = (name, forgets) => whole(name, node, [skillet, "script", "hello", "go.sh"], forgets);
  say(`skillet script: ${samples} rounds`);
  return withWorker({ place, say }, async (ask) => ({
    rows: await inTurn(
      [
        { name: "createSandbox", sample: () => ask("open", {}) },
        { name: "createSandbox, first time", sample: () => ask("open", { isFirst: true }) },
        whole("sh go.sh", "/bin/sh", [script]),
        whole("node -e 0", node, ["-e", "0"]),
        ofScript("skillet script"),
        ofScript("skillet script, self-test", join(cache, "sandbox.json")),
        ofScript("skillet script, first time", cache),
      ],
      samples,
    ),
  }));
}
