import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { randomFrom } from "../generate.mjs";
import { capital, inflected, pickKeyword, pickVerb, pickWord, sentence } from "./vocabulary.mjs";

const PER_CATEGORY = 50;
const BODY_BYTES = 5000;
/** Patterns that take a backtracking engine practically forever on a text of a hundred characters. */
export const HOSTILE = ["(a+)+$", "(a|aa)+$"];

/** Creates the same skills every time: keywords, verbs and two patterns each. The first two have a hostile pattern. */
export function makeSkills(count) {
  const names = new Set();
  return Array.from({ length: count }, (_, number) => {
    const random = randomFrom(number + 100_003);
    const [verb, noun] = [pickVerb(random), pickWord(random)];
    const plain = `${verb}-${noun}-${pickWord(random)}`;
    const name = names.has(plain) ? `${plain}-${number}` : plain;
    names.add(name);
    const patterns = [0, 1].map(() =>
      random.pick(PATTERNS)(pickVerb(random), pickKeyword(random), pickKeyword(random)),
    );
    const what = `${capital(verb)} the ${noun} of ${inflected(random)} ${inflected(random)} and ${inflected(random)}.`;
    return {
      name,
      description: `${what} Use when ${sentence(random, 8).toLowerCase().slice(0, -1)} or someone mentions ${noun}.`,
      keywords: Array.from({ length: 4 + random.below(3) }, () => keyword(random)),
      verbs: [verb, pickVerb(random)],
      patterns:
        number < HOSTILE.length ? [HOSTILE[number], patterns[1].pattern] : patterns.map(({ pattern }) => pattern),
      woken: patterns[1].text,
      negative: random.chance(0.05) ? [keyword(random)] : [],
    };
  });
}

export function writeSkills(folder, skills) {
  for (const [number, skill] of skills.entries()) {
    const place = join(folder, `category-${Math.floor(number / PER_CATEGORY)}`, skill.name);
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, "SKILL.md"), `---\n${frontmatter(skill)}---\n\n${body(skill, randomFrom(number + 1))}`);
  }
}

function frontmatter({ name, description, keywords, verbs, patterns, negative }) {
  const triggers = { keywords, verbs, patterns, ...(negative.length > 0 ? { negative } : {}) };
  const lines = Object.entries(triggers).map(([key, list]) => `  ${key}: ${JSON.stringify(list)}\n`);
  return `name: ${name}\ndescription: ${description}\ntriggers:\n${lines.join("")}`;
}

function body({ name }, random) {
  const parts = [`# ${name}\n`];
  for (let bytes = 0; bytes < BODY_BYTES; bytes += parts.at(-1).length) {
    const sentences = Array.from({ length: 4 }, () => sentence(random, 6 + random.below(14)));
    parts.push(`## ${capital(pickWord(random))}\n\n${sentences.join(" ")}\n`);
  }
  return parts.join("\n");
}

function keyword(random) {
  return random.chance(0.4) ? `${pickKeyword(random)} ${pickKeyword(random)}` : pickKeyword(random);
}

/** Typical patterns, each with a text that activates it. */
const PATTERNS = [
  (verb, a, b) => ({ pattern: `\\b${verb}(s|ing|ed)?\\s+(the|my|our)?\\s*${a}`, text: `${verb}ing the ${a} ${b}` }),
  (_, a, b) => ({ pattern: `${a}.*${b}`, text: `${a} for the ${b}` }),
  (_, a, b) => ({ pattern: `\\b(${a}|${b})s?\\b.{0,20}\\d+`, text: `${a} number 12` }),
  (_, a) => ({ pattern: `(?i)\\.${a}\\b`, text: `report.${a}` }),
  (_, a) => ({ pattern: `${a}-\\d{2,6}`, text: `${a}-2041` }),
  (verb, a, b) => ({ pattern: `^(please )?${verb} .*\\b(${a}|${b})`, text: `${verb} all of it, ${b} first` }),
  (_, a) => ({ pattern: `how (do|can|to) .*${a}`, text: `how can I open a ${a}` }),
];
