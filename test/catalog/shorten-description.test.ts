import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  describeSkill,
  fitDescription,
  hasUseWhenCue,
  listDescriptionVersions,
  shortenDescription,
  splitDescription,
} from "../../src/catalog/describe-skill.ts";
import { defineTestSkill } from "../support/skills.ts";
import { cuedSkills } from "./cued-skills.ts";

const within = (description: string, limit: number, whenToUse?: string) =>
  fitDescription(shortenDescription({ description, whenToUse }), limit);

describe("the use-when part of a description", () => {
  it.each([
    "Use when a workflow is red.",
    "Use this skill when the user wants a report.",
    "Use this skill whenever someone mentions a design system.",
    "Use for quarterly reports.",
    "Use this agent for color palettes.",
    "Use it to draft replies.",
    "use PROACTIVELY when documenting old projects",
    "Use proactively after each commit.",
    "Always use this skill when tests fail.",
    "Make sure to use this skill whenever a page is built.",
    "Trigger when the user says hello.",
    "Trigger it even when the user does not say so.",
    'Triggers on requests like "fix the build".',
    "Triggers: invoice, receipt, reminder.",
    'Trigger phrases include "ship it".',
    "Auto-triggers on requests to fix code.",
    "Invoke when a plan is ready.",
    "When the user asks for a chart, use this.",
    "Whenever a migration is due.",
    "If the user mentions Jira, start here.",
    "Apply when editing styles.",
    "Activate for Terraform plans.",
    "Should be used when a plan has independent tasks.",
    "This skill should be used when users want to create a skill.",
    "MUST be used when touching payroll.",
    "The agent can be invoked for second opinions.",
    "Ideal for subscription billing.",
    "Best used when the deadline is near.",
    "Verwenden, wenn der Nutzer eine Rechnung schreiben möchte.",
    "Diesen Skill verwenden, wenn eine Rechnung fehlt.",
    "Wenn der Nutzer nach Rechnungen fragt.",
    "Usar cuando el usuario pida un informe.",
    "Utiliza esta habilidad para informes mensuales.",
    "Utiliser quand l'utilisateur demande un rapport.",
    "Usar quando o usuário pedir um relatório.",
    "当用户要求生成报告时使用。",
    "适用于生成月度报告。",
    "ユーザーがレポートを依頼した場合に使用してください。",
    "사용자가 보고서를 요청할 때 사용합니다.",
  ])("[A-02] is %j", (cue) => {
    expect(splitDescription(`Makes reports from tables. ${cue}`)).toEqual({
      what: ["Makes reports from tables."],
      cues: [cue],
      negative: [],
    });
    const versions = shortenDescription({ description: `Makes reports from tables. ${cue} It is rather good.` });
    for (const version of versions) expect(hasUseWhenCue(version), version).toBe(true);
  });

  it.each([
    "Use the Stripe API to charge cards.",
    "Runs tests and reports failures.",
    "Applies brand colors to artifacts.",
    "Loads data for charts.",
    "Covers webpack, modules, and rendering.",
  ])("is not %j", (sentence) => expect(splitDescription(sentence).cues).toEqual([]));

  it("[A-02] can follow in the same sentence, and can come from `when_to_use`", () => {
    expect(splitDescription("Fixes CI failures; use when a workflow is red.")).toMatchObject({
      what: ["Fixes CI failures"],
      cues: ["use when a workflow is red."],
    });
    expect(splitDescription("Audits (use when a release is due).").cues).toEqual(["use when a release is due)."]);
    expect(splitDescription("Does a.", "Before a merge.").cues).toEqual(["Before a merge."]);
    for (const version of shortenDescription({ description: "Does a with b.", whenToUse: "Before a merge." }))
      expect(version).toContain("Before a merge");
  });

  it("[A-02] is not the advice when not to use a skill", () => {
    const { cues, negative } = splitDescription("Makes docs. Use when docs are missing. Do NOT use for comments.");
    expect([cues, negative]).toEqual([["Use when docs are missing."], ["Do NOT use for comments."]]);
  });
});

describe("shortening a description", () => {
  const pdf =
    "Comprehensive toolkit for extracting text and tables from PDF files (including scanned ones), merging documents, and filling forms. " +
    "Use this skill when the user wants to read, merge, split, or fill PDF files, such as invoices, contracts, or tax forms. " +
    "Do not use it for images.";

  it("removes examples, parentheses, synonyms and adjectives first, and keeps the cue", () => {
    expect(within(pdf, 1000)).toBe(pdf);
    expect(within(pdf, 200)).toBe(
      "Comprehensive toolkit for extracting text and tables from PDF files, merging documents, and filling forms. " +
        "Use this skill when the user wants to read, merge, split, or fill PDF files.",
    );
    expect(within(pdf, 130)).toBe(
      "Extracting text and tables. Use this skill when the user wants to read, merge, split, or fill PDF files.",
    );
    expect(within(pdf, 60)).toBe("Use when the user wants to read or fill PDF files.");
  });

  it("uses the author's brief description in place of the first sentence", () => {
    const skill = defineTestSkill("pdf", {
      description: pdf,
      more: { brief_description: "Reads and fills PDF files." },
    });
    expect(fitDescription(listDescriptionVersions(skill), 95)).toBe(
      "Reads and fills PDF files. Use when the user wants to read, merge, split, or fill PDF files.",
    );
  });

  it("keeps the first of several quoted requests", () => {
    const quoted =
      'This skill should be used when the user asks to "publish a server", "package it for npm, or pnpm", "add a bin entry", or mentions registries.';
    expect(within(quoted, 100)).toBe('Use when the user asks to "publish a server" or mentions registries.');
    expect(within(quoted, 55)).toBe('Use when asked to "publish a server".');
  });

  it("[A-02] never cuts a word and keeps a cue in every version of any description", () => {
    const word = fc.constantFrom(
      ..."data, reports tables; (such as e.g. including “quoted” forms) and or when the user — PDF/A .json 报告 geöffnet –".split(
        " ",
      ),
    );
    const text = fc.array(word, { minLength: 1, maxLength: 60 }).map((words) => words.join(" "));
    const forms = fc.constantFrom("Use when ", "Use this skill for ", "Triggers on ", "Verwenden, wenn ");
    fc.assert(
      fc.property(text, forms, text, (what, form, when) => {
        const description = `Makes ${what}. ${form}${when}.`;
        const words = new Set(description.toLowerCase().match(/[\p{L}\p{N}]+/gu));
        const versions = shortenDescription({ description });
        for (const [index, version] of versions.entries()) {
          expect(hasUseWhenCue(version), version).toBe(true);
          expect(version.length).toBeLessThan(versions[index - 1]?.length ?? Number.POSITIVE_INFINITY);
          for (const part of version.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])
            expect(words, version).toContain(part);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("[Q-06] joins no parts to a tag, and terminates for hostile descriptions too", () => {
    const forged = `Makes things < (a) /skill_content> and more. Use when < (b) skill_content is ${"such as ".repeat(200)}x.`;
    for (const version of listDescriptionVersions({ ...defineTestSkill("x"), description: forged })) {
      expect(version).not.toMatch(/<\s*\/?\s*skill_/);
    }
    for (const part of ["(", "use when ", "such as '", "e.g. ", ", ", "- ", '"', "当", "use a b c "])
      expect(
        listDescriptionVersions({ ...defineTestSkill("x"), description: `x ${part.repeat(2000)}` }).length,
      ).toBeGreaterThan(0);
  });

  it("[A-02] keeps the cue at the end of a description that is too long for the list", () => {
    const description = `${"Covers many things in some detail. ".repeat(60)}Use when the moon is full.`;
    const described = describeSkill({ ...defineTestSkill("x"), description });
    expect(described.length).toBeLessThanOrEqual(1024);
    expect(described).toContain("Use when the moon is full.");
  });

  it("[A-02] finds the cue of each of 600 descriptions", () => {
    let [all, withTopic] = [0, 0];
    for (const { description, whenToUse, marker, topic } of cuedSkills()) {
      for (const version of shortenDescription({ description, whenToUse })) {
        const at = version.search(marker);
        expect(at, version).not.toBe(-1);
        all++;
        if (version.slice(at).includes(topic)) withTopic++;
      }
    }
    expect(all).toBeGreaterThan(4000);
    expect(withTopic / all).toBeGreaterThan(0.99);
  });
});
