// The lower bound for a Node program: `node scan.mjs FOLDER [yaml]` walks, reads the start of files and, with `yaml`, parses the frontmatter.
import { closeSync, openSync, readdirSync, readSync } from "node:fs";

const [, , root, wanted] = process.argv;
const load = wanted === "yaml" ? (await import("js-yaml")).load : undefined;
const head = Buffer.allocUnsafe(4096);
let found = 0;

walk(root);
process.stdout.write(`${found}\n`);

function walk(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) walk(`${folder}/${entry.name}`);
    else if (entry.name === "SKILL.md") take(`${folder}/SKILL.md`);
  }
}

function take(path) {
  const file = openSync(path);
  const length = readSync(file, head, 0, head.length, 0);
  closeSync(file);
  if (!load) {
    found++;
    return;
  }
  const text = head.toString("utf8", 0, length);
  const { name, description } = load(text.slice(4, text.indexOf("\n---", 4)));
  if (name && description) found++;
}
