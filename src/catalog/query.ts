import { grouped } from "../shared/text.ts";
import { fileTypeTerms } from "./file-types.ts";
import { isForeignFunctionWord } from "./foreign-words.ts";
import { eachWord, termOf } from "./terms.ts";

/** How much of a query is looked at, in characters: its beginning, and its end where it is longer. */
export const LONGEST_QUERY = 20_000;
const LONGEST_END = 4000;
/** Says what of a longer query is looked at. */
export const CUT_NOTE = `only the first ${grouped(LONGEST_QUERY - LONGEST_END)} and the last ${grouped(LONGEST_END)} characters of the query were looked at`;

/** A word of a query: `weight` counts its occurrences, less those outside the request itself. */
export interface QueryWord {
  term: string;
  /** The word as it is written, folded. */
  word: string;
  weight: number;
}

export interface QueryReading {
  /** By their terms, in the order in which they first occur. */
  words: ReadonlyMap<string, QueryWord>;
  /** Terms that are neighbors in the request itself. */
  pairs: readonly (readonly [QueryWord, QueryWord])[];
}

/** The part of a query that is looked at. People put the request before or after what they paste. */
export function boundedQuery(query: string): string {
  if (query.length <= LONGEST_QUERY) return query;
  return `${query.slice(0, LONGEST_QUERY - LONGEST_END)}\n\n${query.slice(-LONGEST_END)}`;
}

/** Reads the words of a query, and how much each counts. */
export function readQuery(query: string): QueryReading {
  const words = new Map<string, QueryWord>();
  const pairs: [QueryWord, QueryWord][] = [];
  const seenPairs = new Set<string>();
  const text = boundedQuery(query);
  const isUnspaced = UNSPACED.test(text);
  const count = (term: string, word: string, weight: number, most: number): QueryWord => {
    const known = words.get(term);
    if (known) {
      if (known.weight < most) known.weight += weight;
      return known;
    }
    const read = { term, word, weight };
    words.set(term, read);
    return read;
  };
  const foreign = isForeignFunctionWord(text);
  for (const section of sectionsOf(text)) {
    const { weight, most } = section;
    let before: QueryWord | undefined;
    eachWord(section.text, (word) => {
      // Endings and particles of Japanese: pairs of them are in every sentence.
      if (isUnspaced && HIRAGANA.test(word)) return;
      const term = foreign(word) ? undefined : termOf(word);
      if (term === undefined) return;
      // Between Chinese or Japanese characters, a Latin word is the name of something.
      const read = count(term, word, isUnspaced && LATIN.test(word) ? weight * LATIN_WEIGHT : weight, most);
      if (weight === 1 && before && before !== read && pairs.length < MOST_PAIRS) {
        const key = `${before.term} ${term}`;
        if (!seenPairs.has(key)) pairs.push([before, read]);
        seenPairs.add(key);
      }
      before = read;
    });
    for (const [term, word] of fileTypeTerms(section.text)) count(term, word, weight * FILE_TYPE_WEIGHT, weight);
  }
  return { words, pairs };
}

const MOST_PAIRS = 200;
const LATIN_WEIGHT = 2;
const FILE_TYPE_WEIGHT = 0.5;
const UNSPACED = /[\u3040-\u30ff\u3400-\u9fff]/;
const HIRAGANA = /[\u3040-\u309f]/;
const LATIN = /^[a-z\d]/;

interface Section {
  text: string;
  /** What an occurrence of a word counts, and up to which weight of the word. */
  weight: number;
  most: number;
}

/** What is pasted counts so much less than the request. However often a paste repeats a word, it is one paste. */
const PASTED_WEIGHT = 0.2;
const MOST_CODE = 0.2;
const MOST_PROSE = 0.4;
/** A query below this many characters is all request. */
const SHORT_QUERY = 300;

/**
 * The request is the paragraphs that are not code at the beginning and at the end of the text, or else the first and the last of them.
 * Everything else may be pasted.
 */
function sectionsOf(text: string): Section[] {
  if (text.length < SHORT_QUERY && !text.includes("```")) return [{ text, ...REQUEST }];
  const blocks = blocksOf(text);
  const prose = blocks.filter(({ isCode }) => !isCode);
  const [first, last] = [prose[0], prose.at(-1)];
  if (blocks.length < 2 || !first) return [{ text, ...REQUEST }];
  // Between code there are lines that only look like prose.
  const edges = [blocks[0], blocks.at(-1)].filter((block) => block === first || block === last);
  const requests = edges.length > 0 ? edges : [first, last];
  return blocks.map((block) => {
    const own = block.lines.join("\n");
    if (requests.includes(block)) return { text: own, ...REQUEST };
    return { text: own, weight: PASTED_WEIGHT, most: block.isCode ? MOST_CODE : MOST_PROSE };
  });
}

const REQUEST = { weight: 1, most: Number.POSITIVE_INFINITY };

interface Block {
  isCode: boolean;
  lines: string[];
}

/** Paragraphs, and runs of lines that look like code, logs or stack traces. */
function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  let [isFenced, isNew] = [false, true];
  for (const line of text.split("\n")) {
    const isFence = FENCE.test(line);
    if (isFence) isFenced = !isFenced;
    if (!isFenced && !isFence && line.trim() === "") {
      isNew = true;
      continue;
    }
    const isCode = isFenced || isFence || CODE_LINE.test(line);
    const last = blocks.at(-1);
    if (last && last.isCode === isCode && (isCode || !isNew)) last.lines.push(line);
    else blocks.push({ isCode, lines: [line] });
    isNew = false;
  }
  return blocks;
}

const FENCE = /^\s*(?:```|~~~)/;
/** Indented lines, stack frames, log lines with a time, JSON, diffs, the head of a mail, table rows, lines that end as statements do. */
const CODE_LINE =
  /^(?: {4}|\t)|^\s*(?:at \S+[ (]|File "|Traceback |[{}[\]<>|$#;]|"[^"]*": |\/\/|import |from \S+ import |(?:const|let|var|def|func|fn|class|function|public|private|static|return|SELECT|INSERT|CREATE) |(?:if|for|while) ?\(|\[?\d{2,4}[-:/]\d\d[-:/ T]|(?:ERROR|WARN|INFO|DEBUG|TRACE|E|W)\b[:\] ]|diff --git |\+{3} |-{3} |@@ |[+-]\t|(?:From|To|Cc|Subject|Date|Sent): |\.{3} \d+ more$|[\w.]+(?:Error|Exception): |Caused by: )|[;{}]\s*$|^[^\s,]+(?:,[^\s,]*){3,}\s*$/;
