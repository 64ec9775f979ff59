import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { FindingCode } from "../../src/errors/finding-codes.ts";
import { type Diagnostic, type LoadedSkills, stopsLoading } from "../../src/skill/skill.ts";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";

export const FIXTURES = fileURLToPath(new URL("../fixtures/skills", import.meta.url));

/** The prefix of a fixture's name determines the table with its row. */
export const KINDS = ["frontmatter", "name", "hidden", "file"] as const;
export type Kind = (typeof KINDS)[number];

export interface Row {
  folder: string;
  /** The expected handling, as the end of a sentence. */
  title: string;
  /** The name it loads under; false when it must not load. */
  loads: string | false;
  /** Every code that `check` reports in the profile `load`, and no other. */
  codes: readonly FindingCode[];
}

/** A fixture that loads under its folder's name. */
export function loads(folder: string, title: string, ...codes: FindingCode[]): Row {
  return { folder, title, loads: folder, codes };
}

export function loadsAs(name: string, folder: string, title: string, ...codes: FindingCode[]): Row {
  return { folder, title, loads: name, codes };
}

export function refused(folder: string, title: string, ...codes: FindingCode[]): Row {
  return { folder, title, loads: false, codes };
}

export function fixturesOf(kind: Kind): string[] {
  return readdirSync(FIXTURES).filter((folder) => folder.startsWith(`${kind}-`));
}

let loading: LoadedSkills | Promise<LoadedSkills> | undefined;

/** Checks and loads a fixture, and compares both with its row. Contract: check and discovery agree on what a skill is. */
export async function expectVerdict(row: Row): Promise<void> {
  const path = `${FIXTURES}/${row.folder}`;
  const checked = checkPath(path);
  const said = [...checked.diagnostics, ...checked.files.flatMap((file) => file.diagnostics)];
  const isError = ({ severity }: Diagnostic) => severity === "error";
  const [file] = checked.files;
  expect({
    loads:
      checked.files.length === 1 && !file?.diagnostics.some(stopsLoading) && !checked.diagnostics.some(isError)
        ? file?.name
        : false,
    codes: codesOf(said),
  }).toEqual({ loads: row.loads, codes: [...row.codes].sort() });
  loading ??= createDirectorySource({ path: FIXTURES }).load();
  const { skills, diagnostics } = await loading;
  const seen = diagnostics.filter((diagnostic) => diagnostic.file.startsWith(`${path}/`));
  expect({
    loads: skills.find(({ origin }) => origin.file?.startsWith(`${path}/`))?.name ?? false,
    errors: codesOf(seen.filter(isError)),
  }).toEqual({ loads: row.loads, errors: codesOf(said.filter(isError)) });
  expect(row.codes).toEqual(expect.arrayContaining(codesOf(seen)));
}

export function codesOf(findings: Iterable<{ code: FindingCode }>): FindingCode[] {
  return [...new Set([...findings].map(({ code }) => code))].sort();
}
