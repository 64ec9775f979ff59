import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export type Label = "malicious" | "ordinary";
export type Half = "tuning" | "held-out";

export interface SampleFile {
  readonly path: string;
  readonly text: string;
}

/** A skill of the evaluation set. */
export interface Sample {
  readonly name: string;
  readonly label: Label;
  readonly class: string;
  /** Ordinary, but touches sensitive files, networks or words for a good reason. */
  readonly isHard: boolean;
  readonly half: Half;
  readonly files: readonly SampleFile[];
}

export const HALVES: readonly Half[] = ["tuning", "held-out"];

/** Loads the samples of both halves, or of one, ordered by half, class and place in the file. */
export function loadSets(halves: readonly Half[] = HALVES): Sample[] {
  return halves.flatMap((half) => loadFolder(half, half));
}

/** Loads a half of the second set. Do not read the held-out half when you change rules. */
export function loadSecondSet(half: Half): Sample[] {
  return loadFolder(`second/${half}`, half);
}

function loadFolder(folder: string, half: Half): Sample[] {
  return readdirSync(join(import.meta.dirname, folder))
    .filter((file) => file.endsWith(".md"))
    .sort()
    .flatMap((file) =>
      parseSamples(readFileSync(join(import.meta.dirname, folder, file), "utf8"), file.slice(0, -".md".length), half),
    );
}

/**
 * Assigns each sample to a half. Samples are ordered by class, difficulty and the SHA-256 of their name, and alternate
 * between the halves, for each label on its own: each class is in both halves, and the halves have the same size.
 */
export function splitByHash(samples: readonly Omit<Sample, "half">[]): Map<string, Half> {
  const key = (sample: Omit<Sample, "half">) =>
    [sample.class, sample.isHard ? "1" : "0", createHash("sha256").update(sample.name).digest("hex")].join(" ");
  const halves = new Map<string, Half>();
  for (const label of ["malicious", "ordinary"]) {
    const ordered = samples
      .filter((sample) => sample.label === label)
      .map((sample) => ({ name: sample.name, key: key(sample) }))
      .sort((a, b) => (a.key < b.key ? -1 : 1));
    for (const [index, { name }] of ordered.entries()) halves.set(name, index % 2 === 0 ? "tuning" : "held-out");
  }
  return halves;
}

/** Parses a container: `=== LABEL NAME` starts a sample and its SKILL.md, `--- PATH` starts a further file of it. */
export function parseSamples(text: string, className: string, half: Half): Sample[] {
  return text.split(/^(?==== )/m).map((part) => {
    const [header = "", ...lines] = part.trimEnd().split("\n");
    const [, label, name = "", hard] = /^=== (malicious|ordinary) ([a-z0-9-]+)( \(hard\))?$/.exec(header) ?? [];
    if (label === undefined) throw new Error(`${half}/${className}.md has a bad header: ${header}`);
    const files: { path: string; lines: string[] }[] = [{ path: "SKILL.md", lines: [] }];
    for (const line of lines) {
      const [, path] = /^--- ([\w./-]+)$/.exec(line) ?? [];
      if (path === undefined) files.at(-1)?.lines.push(line);
      else files.push({ path, lines: [] });
    }
    return {
      name,
      label: label as Label,
      class: className,
      isHard: hard !== undefined,
      half,
      files: files.map((file) => ({ path: file.path, text: expand(`${file.lines.join("\n")}\n`) })),
    };
  });
}

/** Encoded and invisible text is written in plain text in the containers, so that a reviewer sees what it is. */
const NOTATIONS: Readonly<Record<string, (text: string) => string>> = {
  base64: (text) => Buffer.from(text).toString("base64"),
  "utf16-base64": (text) => Buffer.from(text, "utf16le").toString("base64"),
  hex: (text) => Buffer.from(text).toString("hex"),
  charcodes: (text) => Array.from(text, (char) => char.charCodeAt(0)).join(", "),
  tags: (text) => Array.from(text, (char) => String.fromCodePoint(0xe0000 + char.charCodeAt(0))).join(""),
  spaces: (count) => " ".repeat(Number(count)),
};

/** Expands `{{U+200B}}` to that character, and `{{base64:…}}` and the other notations to the encoded text. */
function expand(text: string): string {
  return text
    .replace(/\{\{U\+([0-9A-F]{4,6})\}\}/g, (_, code: string) => String.fromCodePoint(Number.parseInt(code, 16)))
    .replace(/\{\{([a-z0-9-]+):([^{}]*)\}\}/g, (whole, name: string, value: string) => {
      return NOTATIONS[name]?.(value) ?? whole;
    });
}
