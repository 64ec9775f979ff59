import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Labelled } from "../carrier.ts";
import { type Label, parseSamples, type Sample } from "../sets/load-sets.ts";

/**
 * Skills that the author of the rules wrote, by class of behavior: to try new rules on, and to keep what they find. They prove nothing
 * about skills of others. The frontmatter is added here; the first sentence is the description.
 */
export function loadVariants(label: Label): Labelled[] {
  const text = readFileSync(join(import.meta.dirname, `${label}.md`), "utf8");
  return parseSamples(text, "variants", "tuning").map((sample) => {
    const { name, files } = addFrontmatter(sample);
    return { id: name, files: Object.fromEntries(files.map((file) => [file.path, file.text])) };
  });
}

/** Adds a frontmatter to the SKILL.md of a sample. Its first sentence is the description. */
export function addFrontmatter(sample: Sample): Sample {
  const [own, ...others] = sample.files;
  const body = own?.text ?? "";
  const head = `---\nname: ${sample.name}\ndescription: ${JSON.stringify(body.split(/[.\n]/, 1)[0])}\n---\n\n`;
  return { ...sample, files: [{ path: "SKILL.md", text: head + body }, ...others] };
}
