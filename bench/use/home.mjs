import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment } from "../contenders.mjs";

export const SKILL = "hello";
const TEXT = `---\nname: ${SKILL}\ndescription: Says hello. For measuring what using a skill costs.\n---\nSay hello.\n`;

/** Creates an environment with its own home: a skill, and a configuration that names the model, if there is one. */
export function makeHome(place, name, url) {
  const home = join(place, name);
  const folder = join(home, "skills", SKILL);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "SKILL.md"), TEXT);
  if (url !== undefined) writeFileSync(join(home, "config.toml"), configuration(url), { mode: 0o600 });
  const work = join(place, "work");
  mkdirSync(work, { recursive: true });
  return { home, cwd: work, env: { ...environment(place), SKILLET_HOME: home } };
}

function configuration(url) {
  return `[models.default]
provider = "openai-compatible"
model = "bench"
base_url = "${url}"

[limits]
max_iterations = 100000
iteration_cap = 100000
timeout_seconds = 3600
`;
}
