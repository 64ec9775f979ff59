import { stem } from "./terms.ts";

/** What people call files of a type, by the endings of their names. Those of source code are not here: most tasks name some. */
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

/** Made when a query first names a file. */
let TERMS: ReadonlyMap<string, readonly FileTypeTerm[]> | undefined;

function readTypes(): ReadonlyMap<string, readonly FileTypeTerm[]> {
  return new Map(
    Object.entries(FILE_TYPES).flatMap(([endings, words]) => {
      const terms = words.split(" ").map((word) => [stem(word), word] as const);
      return endings.split(" ").map((ending) => [ending, terms] as const);
    }),
  );
}

/** The terms for each type of file that a text names, `.xlsx` or `report.xlsx`, once a type. */
export function fileTypeTerms(text: string): FileTypeTerm[] {
  if (!text.includes(".")) return [];
  const endings = new Set<string>();
  for (const name of text.split(SEPARATORS)) {
    const [, ending] = (name.length <= LONGEST_NAME && ENDING.exec(name)) || [];
    if (ending !== undefined) endings.add(ending.toLowerCase());
  }
  if (endings.size === 0) return [];
  TERMS ??= readTypes();
  const found: FileTypeTerm[] = [];
  for (const ending of endings) found.push(...(TERMS.get(ending) ?? []));
  return found;
}

const SEPARATORS = /[\s"'`()[\]<>{},;:]+/;
const ENDING = /\.([a-z\d]{2,7})[.!?*_]*$/i;
const LONGEST_NAME = 256;
