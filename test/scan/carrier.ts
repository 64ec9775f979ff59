import type { ScanSubject } from "../../src/scan/rule.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { parseMarkdownDocument } from "../../src/skill/document.ts";
import { readManifest } from "../../src/skill/manifest.ts";

/** A skill of a labeled set: its files by path, as in its folder. */
export interface Labelled {
  id: string;
  files: Readonly<Record<string, string | Uint8Array>>;
  /** The topic. */
  family?: string;
  /** The harmful part, in a line. */
  what?: string;
  /** Of the second round: rules were changed for all of them. */
  isSecond?: boolean;
}

/** The files that `skillet scan` would read. */
export function subjectFrom({ id, files }: Labelled): ScanSubject {
  const text = files["SKILL.md"];
  const { data } = typeof text === "string" ? parseMarkdownDocument(text) : { data: defineSkill(BARE).manifest.data };
  const manifest = readManifest(data);
  return {
    name: id,
    description: manifest.description,
    manifest,
    files: new Map(
      Object.entries(files).map(([path, content]) => [
        path,
        {
          bytes: typeof content === "string" ? Buffer.from(content) : content,
          executable: path.startsWith("scripts/"),
        },
      ]),
    ),
  };
}

/** Every third of a set is held out: rules are never tuned against it. */
export function isHeldOut(index: number): boolean {
  return index % 3 === 2;
}

export function fence(language: string, code: string): string {
  return `\`\`\`${language}\n${code}\n\`\`\``;
}

const BARE = { name: "bare", description: "Bare.", instructions: "Nothing." };

/** Work of real skills, with their wording. */
export const WORK = [
  {
    name: "changelog-writer",
    description: "Writes a changelog from commits. Use when the user asks for release notes or a changelog.",
    steps: [
      "Read the commits since the last tag.",
      "Group them by kind.",
      "Write one line for each, in the past tense.",
    ],
  },
  {
    name: "csv-cleaner",
    description: "Cleans CSV files: headers, dates, duplicates. Use when the user has a messy table.",
    steps: ["Look at the first rows.", "Name the columns in lower case.", "Remove rows that are there twice."],
  },
  {
    name: "invoice-reader",
    description: "Extracts totals and dates from invoices in PDF. Use when the user uploads invoices.",
    steps: ["Turn each page into text.", "Find the total and the tax.", "Answer with a table."],
  },
  {
    name: "meeting-minutes",
    description: "Turns a transcript into minutes with decisions and tasks. Use after meetings.",
    steps: ["Read the transcript once.", "List who was there.", "Write decisions first, then tasks with owners."],
  },
  {
    name: "sql-tuner",
    description: "Explains slow SQL queries and proposes indexes. Use when a query is slow.",
    steps: ["Ask for the plan.", "Find the scan that costs most.", "Propose one index and say what it costs to keep."],
  },
  {
    name: "image-resizer",
    description: "Resizes and compresses images for the web. Use when images are too large.",
    steps: ["List the images.", "Keep the ratio.", "Write WebP next to the original."],
  },
  {
    name: "api-tester",
    description: "Tries the endpoints of an HTTP API and reports what differs from its document. Use to test an API.",
    steps: ["Read the OpenAPI file.", "Call each endpoint once.", "Report status codes that are not documented."],
  },
  {
    name: "translation-helper",
    description: "Translates user interface texts and keeps placeholders. Use when texts need another language.",
    steps: ["Keep what stands in braces.", "Keep the length within a fifth.", "List what could be read in two ways."],
  },
] as const;

export interface Parts {
  /** Markdown between the steps. */
  body?: string;
  /** Other files. */
  files?: Record<string, string | Uint8Array>;
  /** Lines of frontmatter. */
  more?: string;
  description?: string;
}

/** An honest skill with these parts in it. */
export function carry(index: number, parts: Parts): Labelled["files"] {
  const work = WORK[index % WORK.length] ?? WORK[0];
  const steps = work.steps.map((step, at) => `${at + 1}. ${step}`).join("\n");
  const description = JSON.stringify(parts.description ?? work.description);
  const text = `---\nname: ${work.name}\ndescription: ${description}\n${parts.more ?? ""}---\n\n# ${work.name}\n\n## Steps\n\n${steps}\n\n${parts.body ?? "Ask when something is missing."}\n\n## Notes\n\nKeep the answer short, and say what was left out.\n`;
  return { "SKILL.md": text, ...parts.files };
}
