import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Labelled } from "../carrier.ts";
import { type Label, parseSamples } from "../sets/load-sets.ts";

/**
 * Skills that the author of the rules wrote, by class of behavior: to try new rules on, and to keep what they find. They say nothing
 * about skills of others. The frontmatter is added here; the first sentence is the description.
 */
export function loadVariants(label: Label): Labelled[] {
  const text = readFileSync(join(import.meta.dirname, `${label}.md`), "utf8");
  return parseSamples(text, "variants", "tuning").map(({ name, files }) => {
    const [own, ...others] = files;
    const body = own?.text ?? "";
    const head = `---\nname: ${name}\ndescription: ${JSON.stringify(body.split(/[.\n]/, 1)[0])}\n---\n\n`;
    return { id: name, files: Object.fromEntries([["SKILL.md", head + body], ...others.map((f) => [f.path, f.text])]) };
  });
}
