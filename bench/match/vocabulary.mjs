import { randomFrom } from "../generate.mjs";

const SIZE = 6000;

/**
 * Creates invented words in the shape of English ones, the most common first, so that no list of real words is needed.
 * Like the words of a language they follow Zipf's law: the tenth is used a tenth as often as the first.
 */
export const WORDS = makeWords();

export const VERBS =
  "review convert extract merge draft deploy audit migrate summarize format validate plan translate build test debug refactor publish archive schedule monitor measure compare clean import export rename split render sign encrypt restore index label classify annotate rank estimate forecast simulate optimize compress resize transcribe record stream notify approve reject assign escalate reconcile invoice refund ship track return inspect repair".split(
    " ",
  );

/**
 * Draws from a list by Zipf's law. `shift` flattens the start of the curve (Mandelbrot): authors choose keywords that distinguish
 * skills, so the most common keyword is less common than the most common word.
 */
export function zipf(list, shift) {
  const sums = [];
  let sum = 0;
  for (let rank = 0; rank < list.length; rank++) {
    sum += 1 / (rank + 1 + shift);
    sums.push(sum);
  }
  return (random) => {
    const wanted = random.next() * sum;
    let [low, high] = [0, sums.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return list[low];
  };
}

export const pickWord = zipf(WORDS, 10);
export const pickKeyword = zipf(WORDS, 50);
export const pickVerb = zipf(VERBS, 5);

/** Creates a sentence with this number of words. Every third word is a common one. */
export function sentence(random, length) {
  const words = Array.from({ length }, (_, at) => (at % 3 === 0 ? random.pick(SMALL) : inflected(random)));
  return `${capital(words.join(" "))}.`;
}

export function inflected(random) {
  return pickWord(random) + random.pick(ENDINGS);
}

export function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

const SMALL = "the a of to in for and with on when from by or into as at this that each before after only not".split(
  " ",
);
const ENDINGS = ["", "", "", "s", "s", "ing", "ed", "er"];

function makeWords() {
  const random = randomFrom(7);
  const onsets = "b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sc sh sp st t tr v w z".split(" ");
  const vowels = "a e i o u ai ea ou io".split(" ");
  const codas = ["", "", "l", "m", "n", "nd", "nt", "r", "rk", "s", "ck", "t", "x"];
  const words = new Set();
  while (words.size < SIZE) {
    const syllables = 1 + Math.min(random.below(3), 1) + random.below(2);
    let word = "";
    for (let count = 0; count < syllables; count++) word += random.pick(onsets) + random.pick(vowels);
    word += random.pick(codas);
    if (word.length > 3) words.add(word);
  }
  return [...words];
}
