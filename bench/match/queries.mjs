import { randomFrom } from "../generate.mjs";
import { inflected, pickVerb, pickWord, sentence } from "./vocabulary.mjs";

/** Creates the same queries every time: half are about one of the skills, the others are unrelated. */
export function makeQueries(skills, count) {
  const random = randomFrom(3);
  return Array.from({ length: count }, (_, number) => KINDS[number % KINDS.length](random, random.pick(skills)));
}

/** Creates pasted text with this number of words. */
export function longQuery(words, seed) {
  const random = randomFrom(seed);
  const lines = Array.from({ length: words / 20 }, () => `${sentence(random, 19)} ${random.below(1000)}`);
  return lines.join("\n");
}

const KINDS = [
  (random, { keywords }) => `I have a ${random.pick(keywords)} here and it has to be ready before Monday`,
  (random) => `Can you ${pickVerb(random)} the ${inflected(random)} of our ${inflected(random)}?`,
  (random) => random.pick(TALK),
  (_, { description }) => `I want to ${description.split(" ").slice(2, 9).join(" ")}, how would you go about it?`,
  (random, { woken }) => `Good morning. ${random.pick(TALK)} And ${woken}`,
  (random) => `${inflected(random)} ${inflected(random)} ${inflected(random)}`,
  (random, { name }) => random.pick([`/${name} and keep it short`, `use the ${name} skill`, name.replaceAll("-", " ")]),
  (random) => `Why does src/${pickWord(random)}/${pickWord(random)}.ts fail with ${inflected(random)}?`,
  (random) => random.pick(TALK),
  (random) => `${sentence(random, 20 + random.below(40))}${random.pick(["", ` Line ${random.below(100)}.`])}`,
];
const TALK = [
  "Thanks, that is all for today.",
  "What time is it in Lisbon now?",
  "Tell me a joke about penguins, a short one.",
  "No, I meant the other file, the one we looked at yesterday afternoon.",
  "Who won the match last night, and how did they score?",
  "ok",
  "Write three sentences about autumn in the mountains for a postcard to my grandmother.",
  "Könnten Sie das bitte noch einmal kürzer erklären?",
];
