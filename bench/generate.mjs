import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PER_CATEGORY = 50;
/** With the last section on top, bodies come to about 5 KB. */
const BODY_BYTES = 4600;

/**
 * Writes the same skills every time. `nested` puts them below category folders, `flat` side by side.
 * Contract: every file is valid by the open standard, so a loader that finds fewer has lost some.
 */
export function generate(folder, count, layout) {
  for (let number = 0; number < count; number++) {
    const random = randomFrom(number + 1);
    const [verb, noun, topic] = [random.pick(VERBS), random.pick(NOUNS), random.pick(TOPICS)];
    const name = `${verb}-${noun}-${number}`;
    const category = `category-${Math.floor(number / PER_CATEGORY)}`;
    const skill = layout === "nested" ? join(folder, category, name) : join(folder, name);
    for (const part of ["references", "scripts", "assets"]) mkdirSync(join(skill, part), { recursive: true });
    const about = { name, verb, noun, topic, random };
    writeFileSync(join(skill, "SKILL.md"), `---\n${frontmatter(about)}---\n\n${body(about)}`);
    writeFileSync(join(skill, "references", "guide.md"), `# Guide to ${noun}\n\n${prose(random, 12)}\n`);
    writeFileSync(join(skill, "scripts", "run.sh"), `#!/bin/sh\nset -eu\necho "${name}: $1"\n`);
    writeFileSync(join(skill, "assets", "data.json"), `${JSON.stringify(table(random), null, 2)}\n`);
  }
}

// The shares follow published skills: most have only a name and a description.
function frontmatter({ name, verb, noun, topic, random }) {
  const lines = [`name: ${name}`, description({ verb, noun, topic, random })];
  if (random.chance(0.33)) lines.push(`license: ${random.pick(LICENSES)}`);
  if (random.chance(0.33)) {
    const version = `${random.below(3)}.${random.below(10)}.${random.below(10)}`;
    lines.push("metadata:", `  version: "${version}"`, `  author: ${random.pick(AUTHORS)}`);
  }
  if (random.chance(0.12)) lines.push(`allowed-tools: ${random.pick(TOOLS)}`);
  return `${lines.join("\n")}\n`;
}

function description({ verb, noun, topic, random }) {
  const opening = `${capital(verb)} ${noun} in ${topic} and report what was done`;
  const cue = random.pick(CUES);
  const length = random.below(10);
  const sentences = [`${opening}.`, `Use when ${cue} or when someone mentions ${noun}.`];
  if (length < 3) sentences.splice(0, 2, `${opening}, for use when ${cue}.`);
  else if (length > 6) sentences.push(`${random.pick(EXTRAS)}.`);
  const form = random.below(100);
  if (form < 8) return `description: "For ${topic}: ${sentences.join(" ")}"`;
  if (form < 14) return `description: >\n  ${sentences.join("\n  ")}`;
  if (form < 18) return `description: ${[...sentences, random.pick(FOREIGN)].join(" ")}`;
  return `description: ${sentences.join(" ")}`;
}

function body({ name, verb, noun, topic, random }) {
  const parts = [
    `# ${name}\n`,
    `Read [the guide](references/guide.md) first, then run \`scripts/run.sh\` with [the data](assets/data.json).\n`,
  ];
  let bytes = 0;
  for (let step = 1; bytes < BODY_BYTES; step++) {
    const section = [
      `## Step ${step}: ${verb} the ${noun}\n`,
      `${prose(random, 4)}\n`,
      `- ${capital(random.pick(CUES))}\n- ${random.pick(EXTRAS)}\n`,
      `\`\`\`sh\nscripts/run.sh ${topic.replaceAll(" ", "-")} --step ${step}\n\`\`\`\n`,
    ].join("\n");
    parts.push(section);
    bytes += Buffer.byteLength(section);
  }
  return parts.join("\n");
}

function prose(random, sentences) {
  const text = [];
  for (let count = 0; count < sentences; count++) {
    text.push(`${capital(random.pick(VERBS))} the ${random.pick(NOUNS)} when ${random.pick(CUES)}.`);
  }
  return text.join(" ");
}

function table(random) {
  return Array.from({ length: 8 }, (_, id) => ({ id, topic: random.pick(TOPICS), weight: random.below(1000) }));
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/** mulberry32: small, and the same on every machine. */
export function randomFrom(seed) {
  let state = Math.imul(seed, 0x9e3779b1);
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit) => Math.floor(next() * limit);
  return { next, below, chance: (share) => next() < share, pick: (list) => list[below(list.length)] };
}

const VERBS = "review convert extract merge draft deploy audit migrate summarize format validate plan".split(" ");
const NOUNS = "invoices spreadsheets contracts tickets changelogs diagrams datasets releases emails logs forms".split(
  " ",
);
const TOPICS = [
  "the billing service",
  "a customer archive",
  "the public website",
  "an old code base",
  "weekly reports",
];
const CUES = [
  "the user asks for a quick overview before a meeting",
  "several files have to be compared and the differences explained",
  "a deadline is near and the result must be checked by a second person",
  "numbers from two systems do not agree",
];
const EXTRAS = [
  "Works offline and leaves the originals untouched",
  "Handles large inputs in portions, keeps a record of every change and can be run again after a failure",
  "Not for scanned documents, which need text recognition first",
];
const FOREIGN = [
  "Auch für Übersichten in größeren Häusern.",
  "日本語の文書にも使えます。",
  "Également pour les élèves — déjà vérifié ✓.",
];
const LICENSES = ["MIT", "Apache-2.0", "Complete terms in LICENSE.txt"];
const AUTHORS = ["example-team", "Ada Example", "platform@example.com"];
const TOOLS = ["Read Grep Glob", "Bash(git:*) Read", "Read, Write, Edit", "WebFetch"];
