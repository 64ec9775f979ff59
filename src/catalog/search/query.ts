import { formatNumber } from "../../util/text.ts";
import { stemWord, toTerm, visitWords } from "./tokenizer.ts";

/** The part of a query that is matched, in characters: its beginning, and its end if it is longer. */
export const MAX_QUERY_LENGTH = 20_000;
const MAX_QUERY_END = 4000;
/** Tells which part of a longer query is matched. */
export const QUERY_CUT_NOTE = `only the first ${formatNumber(MAX_QUERY_LENGTH - MAX_QUERY_END)} and the last ${formatNumber(MAX_QUERY_END)} characters of the query were used`;

/** One query word. `weight` counts its occurrences; those outside the request itself count less. */
export interface QueryWord {
  term: string;
  /** The folded word as written. */
  word: string;
  weight: number;
}

export interface ParsedQuery {
  /** By term, in order of first occurrence. */
  words: ReadonlyMap<string, QueryWord>;
  /** Terms that are neighbors in the request itself. */
  pairs: readonly (readonly [QueryWord, QueryWord])[];
}

/** Returns the part of a query that is matched. Users put the request before or after pasted text. */
export function truncateQuery(query: string): string {
  if (query.length <= MAX_QUERY_LENGTH) return query;
  return `${query.slice(0, MAX_QUERY_LENGTH - MAX_QUERY_END)}\n\n${query.slice(-MAX_QUERY_END)}`;
}

/** Extracts the words of a query and their weights. */
export function parseQuery(query: string): ParsedQuery {
  const words = new Map<string, QueryWord>();
  const pairs: [QueryWord, QueryWord][] = [];
  const seenPairs = new Set<string>();
  const text = truncateQuery(query);
  const isUnspaced = UNSPACED.test(text);
  const count = (term: string, word: string, weight: number, max: number): QueryWord => {
    const known = words.get(term);
    if (known) {
      if (known.weight < max) known.weight += weight;
      return known;
    }
    const added = { term, word, weight };
    words.set(term, added);
    return added;
  };
  const foreign = createForeignWordTest(text);
  for (const section of splitSections(text)) {
    const { weight, maxWeight } = section;
    let before: QueryWord | undefined;
    visitWords(section.text, (word) => {
      // Japanese endings and particles: pairs of them are in every sentence.
      if (isUnspaced && HIRAGANA.test(word)) return;
      const term = foreign(word) ? undefined : toTerm(word);
      if (term === undefined) return;
      // Among Chinese or Japanese characters, a Latin word is usually a name.
      const read = count(term, word, isUnspaced && LATIN.test(word) ? weight * LATIN_WEIGHT : weight, maxWeight);
      if (weight === 1 && before && before !== read && pairs.length < MAX_PAIRS) {
        const key = `${before.term} ${term}`;
        if (!seenPairs.has(key)) pairs.push([before, read]);
        seenPairs.add(key);
      }
      before = read;
    });
    for (const [term, word] of findFileTypeTerms(section.text)) count(term, word, weight * FILE_TYPE_WEIGHT, weight);
  }
  return { words, pairs };
}

const MAX_PAIRS = 200;
const LATIN_WEIGHT = 2;
const FILE_TYPE_WEIGHT = 0.5;
const UNSPACED = /[\u3040-\u30ff\u3400-\u9fff]/;
const HIRAGANA = /[\u3040-\u309f]/;
const LATIN = /^[a-z\d]/;

interface QuerySection {
  text: string;
  /** The weight of one occurrence of a word, and the maximum weight of the word. */
  weight: number;
  maxWeight: number;
}

/** Pasted text counts less than the request. However often it repeats a word, the total is limited. */
const PASTED_WEIGHT = 0.2;
const MAX_CODE_WEIGHT = 0.2;
const MAX_PROSE_WEIGHT = 0.4;
/** In characters: a shorter query is all request. */
const SHORT_QUERY = 300;

/**
 * Splits a query into sections. The request is the prose at the beginning and the end of the text, or otherwise the first and last
 * paragraph of prose. Everything else may be pasted.
 */
function splitSections(text: string): QuerySection[] {
  if (text.length < SHORT_QUERY && !text.includes("```")) return [{ text, ...REQUEST_WEIGHTS }];
  const blocks = splitBlocks(text);
  const prose = blocks.filter(({ isCode }) => !isCode);
  const [first, last] = [prose[0], prose.at(-1)];
  if (blocks.length < 2 || !first) return [{ text, ...REQUEST_WEIGHTS }];
  // Code blocks may contain lines that only look like prose.
  const edges = [blocks[0], blocks.at(-1)].filter((block) => block === first || block === last);
  const requests = edges.length > 0 ? edges : [first, last];
  return blocks.map((block) => {
    const own = block.lines.join("\n");
    if (requests.includes(block)) return { text: own, ...REQUEST_WEIGHTS };
    return { text: own, weight: PASTED_WEIGHT, maxWeight: block.isCode ? MAX_CODE_WEIGHT : MAX_PROSE_WEIGHT };
  });
}

const REQUEST_WEIGHTS = { weight: 1, maxWeight: Number.POSITIVE_INFINITY };

interface QueryBlock {
  isCode: boolean;
  lines: string[];
}

/** Splits into paragraphs, and runs of lines that look like code, logs or stack traces. */
function splitBlocks(text: string): QueryBlock[] {
  const blocks: QueryBlock[] = [];
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
/** Indented lines, stack frames, log lines with a time, JSON, diffs, mail headers, table rows, and lines that end like statements. */
const CODE_LINE =
  /^(?: {4}|\t)|^\s*(?:at \S+[ (]|File "|Traceback |[{}[\]<>|$#;]|"[^"]*": |\/\/|import |from \S+ import |(?:const|let|var|def|func|fn|class|function|public|private|static|return|SELECT|INSERT|CREATE) |(?:if|for|while) ?\(|\[?\d{2,4}[-:/]\d\d[-:/ T]|(?:ERROR|WARN|INFO|DEBUG|TRACE|E|W)\b[:\] ]|diff --git |\+{3} |-{3} |@@ |[+-]\t|(?:From|To|Cc|Subject|Date|Sent): |\.{3} \d+ more$|[\w.]+(?:Error|Exception): |Caused by: )|[;{}]\s*$|^[^\s,]+(?:,[^\s,]*){3,}\s*$/;

/** Common names of file types, by file extension. Source code is not listed: most tasks mention some. */
const FILE_TYPES: Readonly<Record<string, string>> = {
  "xlsx xls xlsm ods": "xlsx excel spreadsheet",
  "csv tsv": "csv spreadsheet",
  "docx doc odt": "docx word",
  "pptx ppt odp key": "pptx powerpoint presentation slides",
  pdf: "pdf",
  ipynb: "jupyter notebook",
  "tf tfvars tfstate": "terraform",
  sol: "solidity",
  sql: "sql",
  "parquet arrow feather": "parquet",
  proto: "protobuf grpc",
  "graphql gql": "graphql",
  "tex bib": "latex",
  "png jpg jpeg gif webp heic tiff": "image",
  svg: "svg",
  "mp4 mov mkv avi webm": "video",
  "mp3 wav flac m4a ogg": "audio",
  "srt vtt": "subtitles",
  "stl step obj": "3d",
  ics: "calendar",
  eml: "email",
  epub: "epub ebook",
  "gpx kml geojson shp": "geospatial map",
  har: "network",
  "apk aab": "android",
  ipa: "ios",
};

type FileTypeTerm = readonly [term: string, word: string];

/** Built when a query first names a file. */
let fileTypeTermCache: ReadonlyMap<string, readonly FileTypeTerm[]> | undefined;

function buildFileTypeTerms(): ReadonlyMap<string, readonly FileTypeTerm[]> {
  return new Map(
    Object.entries(FILE_TYPES).flatMap(([endings, words]) => {
      const terms = words.split(" ").map((word) => [stemWord(word), word] as const);
      return endings.split(" ").map((ending) => [ending, terms] as const);
    }),
  );
}

/** Returns the terms of each file type that a text names, as `.xlsx` or `report.xlsx`; once per type. */
function findFileTypeTerms(text: string): FileTypeTerm[] {
  if (!text.includes(".")) return [];
  const endings = new Set<string>();
  for (const name of text.split(PATH_SEPARATORS)) {
    const [, ending] = (name.length <= MAX_FILE_NAME_LENGTH && FILE_ENDING.exec(name)) || [];
    if (ending !== undefined) endings.add(ending.toLowerCase());
  }
  if (endings.size === 0) return [];
  fileTypeTermCache ??= buildFileTypeTerms();
  const found: FileTypeTerm[] = [];
  for (const ending of endings) found.push(...(fileTypeTermCache.get(ending) ?? []));
  return found;
}

const PATH_SEPARATORS = /[\s"'`()[\]<>{},;:]+/;
const FILE_ENDING = /\.([a-z\d]{2,7})[.!?*_]*$/i;
const MAX_FILE_NAME_LENGTH = 256;

/**
 * Function words and the most frequent words of requests in languages other than English, used only for the ranking. In an English catalog
 * such words are rare, so they would count more than any other.
 */
const FOREIGN_FUNCTION_WORDS: readonly ReadonlySet<string>[] = [
  `aber alle allen als also am an auch auf aus bei beim bin bis bitte brauche da damit dann das dass dein dem den der des die dies
   diese diesem diesen dieser dieses doch du durch ein eine einem einen einer eines er erstelle es etwas euch für gern gibt hab
   habe haben hat hier hilf ich ihm ihr im immer in ins ist ja jede jeden jeder jetzt kann kannst kein keine können könntest
   machen mal man mehr mein meine meinem meinen meiner mich mir mit möchte muss müssen nach nicht noch nur ob oder ohne sein seine
   sich sie sind so soll sollen sollte über um und uns unser unsere unserem unseren unserer unter vom von vor wäre war was weil
   wenn werden wie wieder will wir wird wo wurde zu zum zur zwei zwischen`,
  `a al algo así aún como con cada cómo cual cuando cuál de del desde donde dos el ella ellos en entre era es esa ese eso esta
   estas este esto estos está están favor fue hace hacer hacia hasta hay he la las le les lo los más me mi mis mucho muy necesito
   ni no nos nuestra nuestro nuestros o otra otro para pero poder por porque puede puedes que quiero qué se sea ser si sin sobre
   son su sus sí también tan te tengo tiene tienen todas todo todos tu tus un una uno unos y ya yo ayúdame`,
  `à au aux avec ce ces cette ceci cela c'est dans de des du elle en est et être fait faire il ils je la le les leur lui ma mais
   me mes moi mon ne nos notre nous on ou où par pas peux peut plus pour pourrais qu que quel quelle qui sa sans se ses si son
   sont sur ta te toi ton tu un une veux vos votre vous y`,
  `a ao aos as com como da das de do dos e ela ele em entre era essa esse esta este eu foi há isso isto já mais mas me meu minha
   na nas no nos não o os ou para pela pelo por posso preciso que quero se sem ser seu sua são também tem um uma você`,
  `a al alla alle che chi ci come con da dal dalla dei del della delle di e è gli ha ho i il in io la le lo ma mi mia mio nel
   nella non per perché più puoi quale quando quello questa questo se senza si sono su sul sulla tra tu un una uno voglio`,
].map((list) => new Set(list.split(/\s+/)));

/** The number of its words that identify a language. */
const MIN_LANGUAGE_WORDS = 2;

/** Returns a test for function words in the language of the text. Contract: the tested word is folded. */
function createForeignWordTest(text: string): (word: string) => boolean {
  const sample = text.slice(0, MAX_SAMPLE_LENGTH).toLowerCase();
  const words = new Set(sample.split(WORD_SEPARATORS));
  const english = countLanguageWords(ENGLISH_WORDS, words);
  let [best, maxCount] = [FOREIGN_FUNCTION_WORDS[0] as ReadonlySet<string>, 0];
  for (const language of FOREIGN_FUNCTION_WORDS) {
    const found = countLanguageWords(language, words);
    if (found > maxCount) [best, maxCount] = [language, found];
  }
  return maxCount >= MIN_LANGUAGE_WORDS && maxCount > english ? (word) => best.has(word) : () => false;
}

const MAX_SAMPLE_LENGTH = 2000;
/** Letters of Western European languages; Unicode classes would cost milliseconds at start-up. */
const WORD_SEPARATORS = /[^a-z\xdf-\xff']+/;
const ENGLISH_WORDS = new Set(
  "the of and to is it that for with this on are was be my i we our you an what how can please".split(" "),
);

function countLanguageWords(language: ReadonlySet<string>, words: ReadonlySet<string>): number {
  let count = 0;
  for (const word of words) if (language.has(word)) count++;
  return count;
}
