import { COMMON_EXTENSIONS, COMMON_FOLDERS, isCommonWord, isFunctionWord } from "./common-words.ts";
import type { PatternFacts } from "./pattern.ts";

/** This many words in a row are specific, whatever they are, if one of them is not a function word. */
const LONG_PHRASE = 3;

/** Whether a keyword or a verb is too common to select a skill: "write", "find the", "where", but not "write tests". */
export function isCommonPhrase(phrase: string): boolean {
  const weighed = weighText(phrase);
  return weighed.words > 0 && isCommon(weighed);
}

/**
 * Whether the texts that a pattern needs are too common to select a skill. Of alternatives the most common one counts:
 * `(invoice|write)` matches "write". Digits and symbols count as a word, so `issue #\d+` needs two.
 */
export function isCommonPattern(needs: PatternFacts["needs"]): boolean {
  const sets = new Map(needs.map((set) => [set.join("|"), set]));
  const total: Words = { words: 0, content: 0, isSelective: false };
  for (const set of sets.values()) {
    const weighed = set.map(weighText);
    total.words += Math.min(...weighed.map(({ words }) => words));
    total.content += Math.min(...weighed.map(({ content }) => content));
    total.isSelective ||= weighed.every((one) => !isCommon(one));
  }
  return isCommon(total);
}

/** Whether a glob matches most files of a project: it has no folder or file name, only a common extension. */
export function isBroadGlob(glob: string): boolean {
  const folders = glob.replaceAll("\\", "/").split("/");
  const file = folders.pop() ?? "";
  if (!folders.every((folder) => /^[*.]*$/.test(folder) || COMMON_FOLDERS.has(folder.toLowerCase()))) return false;
  const [isWild, extension = "*"] = /^\*+(?:\.(.+))?$/.exec(file) ?? [];
  if (!isWild) return false;
  const extensions = extension.replace(/^\{(.*)\}$/, "$1").split(",");
  return extensions.every((one) => COMMON_EXTENSIONS.has(one.trim().toLowerCase()));
}

interface Words {
  words: number;
  /** How many different ones are not function words. */
  content: number;
  /** One of them is not a common word. */
  isSelective: boolean;
}

function isCommon({ words, content, isSelective }: Words): boolean {
  return !isSelective && content < 2 && !(content === 1 && words >= LONG_PHRASE);
}

function weighText(text: string): Words {
  const words = wordsIn(text);
  const content = new Set(words.filter((word) => !isFunctionWord(word)));
  if (words.length === 0 && /\S/.test(text)) return { words: 1, content: 1, isSelective: false };
  return {
    words: words.length,
    content: content.size,
    isSelective: [...content].some((word) => !isCommonWord(word)),
  };
}

/** The words of a text. One with other characters than letters, such as `c++` or `node.js`, stays as it is written. */
function wordsIn(text: string): string[] {
  return text
    .toLowerCase()
    .replaceAll("’", "'")
    .split(/[\s_-]+/)
    .map((word) => word.replace(/^["'(]+|["').,;:!?]+$/g, "").replace(/'(?:s|t|d|m|ll|re|ve)$/, ""))
    .filter((word) => /[^\d\W]|[^\0-\x7f]/.test(word));
}
