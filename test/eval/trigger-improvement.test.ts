import { chmodSync, readFileSync, renameSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { applyImprovement } from "../../src/eval/trigger-evaluation.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { startModelServer } from "../support/model-server.ts";
import { modelConfig } from "../support/use.ts";

const query = (text: string, isFor: boolean, split: string) => ({ query: text, should_trigger: isFor, split });
const scene = (more = "", others: object[] = []) => ({
  "skills/invoices/SKILL.md": skillText("invoices", { description: "Writes bills for customers.", more }),
  "skills/invoices/evals/triggers.json": JSON.stringify([
    query("prepare the honorarium statement for Ann", true, "train"),
    query("honorarium for the workshop in May", true, "train"),
    query("please do the honorarium of June", true, "test"),
    query("send Bob his honorarium", true, "test"),
    query("the weather of June", false, "test"),
    ...others,
  ]),
  "skills/weather/SKILL.md": skillText("weather", { description: "Reports the weather of June and other months." }),
  "skills/weather/evals/triggers.json": JSON.stringify([
    query("weather in May", true, "train"),
    query("how is the weather", true, "test"),
  ]),
});
const improve = (files: Record<string, string>, ...args: string[]) =>
  skillet(["eval", "skills", "--improve", ...args], { cwd: temporaryFolder(files), env: { SKILLS_DIR: "none" } });

describe("skillet eval --improve", () => {
  it("proposes the fewest keywords that let more held-out queries find the skill, as a diff", async () => {
    const { code, stdout } = await improve(scene());
    expect(code).toBe(0);
    expect(stdout).toMatch(/invoices: 2 of 2 held-out queries would find it first, \d now/);
    expect(stdout).toContain("+triggers:");
    expect(stdout).toContain('+  keywords: ["honorarium"]');
    expect(stdout).not.toContain("weather:");
  });

  it("adds to the existing keywords, in either notation", async () => {
    expect((await improve(scene("triggers:\n  keywords: [bill]\n"))).stdout).toContain(
      '+  keywords: [bill, "honorarium"]',
    );
    expect((await improve(scene("triggers:\n  keywords:\n    - bill\n"))).stdout).toContain('+    - "honorarium"');
    expect((await improve(scene("triggers:\n  verbs: [bill]\n"))).stdout).toContain('+  keywords: ["honorarium"]');
  });

  it("proposes nothing that would wrongly take a query of another skill or trigger", async () => {
    const taken = await improve(scene("", [query("what is an honorarium?", false, "train")]));
    expect(taken.stdout).toContain("no change helps without harm");
    const wrong = await improve(scene("", [query("define honorarium", false, "test")]));
    expect(wrong.stdout).not.toContain("keywords");
  });

  it("adds a term to the description if a keyword would trigger the skill wrongly", async () => {
    const describe = (description: string) => {
      const files = scene("", [query("define honorarium", false, "test")]);
      return improve({ ...files, "skills/invoices/SKILL.md": skillText("invoices", { description }) });
    };
    const { stdout } = await describe("Writes bills. Use when the user wants a bill.");
    expect(stdout).toMatch(/invoices: 2 of 2 held-out queries would find it first, \d now/);
    expect(stdout).toContain("-description: Writes bills. Use when the user wants a bill.");
    expect(stdout).toMatch(
      /\+description: Writes bills\. Use when the user wants a bill or mentions honorarium\b.*\.\n/,
    );
    const without = await describe("Writes bills");
    expect(without.stdout).toMatch(/\+description: Writes bills\. Use when the user mentions honorarium\b.*\.\n/);
  });

  it("drops an item from a description if it takes the queries of another skill", async () => {
    const { stdout } = await improve({
      "skills/notes/SKILL.md": skillText("notes", { description: "Writes notes, weather." }),
      "skills/notes/evals/triggers.json": JSON.stringify([
        query("take a note", true, "train"),
        query("write the note down", true, "test"),
      ]),
      "skills/forecast/SKILL.md": skillText("forecast", {
        description: "Predicts rain, storms, sun and the weather of the next days in any place.",
      }),
      "skills/forecast/evals/triggers.json": JSON.stringify([
        query("weather tomorrow", true, "train"),
        query("the weather", true, "test"),
      ]),
    });
    expect(stdout).toMatch(
      /notes: 1 of 1 held-out query would find it first, 1 now, and 1 more query of other skills theirs/,
    );
    expect(stdout).toContain("+description: Writes notes.");
  });

  it("writes the changes with --apply, and keeps all other bytes", async () => {
    const files = scene();
    const cwd = temporaryFolder(files);
    const file = join(cwd, "skills/invoices/SKILL.md");
    const before = readFileSync(file, "utf8");
    chmodSync(file, 0o640);
    const { code, stderr } = await skillet(["eval", "skills", "--improve", "--apply"], {
      cwd,
      env: { SKILLS_DIR: "none" },
    });
    expect([code, stderr]).toEqual([0, expect.stringContaining("skills/invoices/SKILL.md is changed")]);
    const after = readFileSync(file, "utf8");
    expect(after).toBe(before.replace("\n---\n", '\ntriggers:\n  keywords: ["honorarium"]\n---\n'));
    expect(statSync(file).mode & 0o777).toBe(0o640);
    const again = await skillet(["eval", "skills", "--improve"], { cwd, env: { SKILLS_DIR: "none" } });
    expect(again.stdout).toContain("no change helps without harm");
  });

  it("writes nothing through a symlink with --apply", async () => {
    const cwd = temporaryFolder(scene());
    const [file, target] = [join(cwd, "skills/invoices/SKILL.md"), join(cwd, "elsewhere.md")];
    renameSync(file, target);
    symlinkSync(target, file);
    const before = readFileSync(target, "utf8");
    const { stderr } = await skillet(["eval", "skills", "--improve", "--apply"], { cwd, env: { SKILLS_DIR: "none" } });
    expect(stderr).toContain("skills/invoices/SKILL.md is a symlink and is not changed");
    expect(readFileSync(target, "utf8")).toBe(before);
  });

  it("replaces a description in each notation, and refuses if another value would change", () => {
    const text = (value: string) =>
      `---\r\nname: a\r\ndescription: ${value}\r\nlicense: MIT # ours\r\n---\r\n\r\nBody: description: x\r\n`;
    for (const value of ["Old.", '"Old: one"', ">-\r\n  Old\r\n\r\n  and long.", "Old\r\n  and long."])
      expect(applyImprovement(text(value), { keywords: [], description: "New: one." })).toBe(text('"New: one."'));
    expect(applyImprovement("---\nname: a\n---\nBody\n", { keywords: [], description: "New." })).toBeUndefined();
  });

  it("takes the description of a model only if the held-out queries prove it, and never shows them to it", async () => {
    const prompts: string[] = [];
    const server = await startModelServer("openai", ({ prompt }) => {
      prompts.push(prompt);
      return prompt.startsWith("Skill: invoices")
        ? '{"descriptions": ["Reports the weather.", "Writes bills and each honorarium\u{e0041} for customers.", "Writes bills and each honorarium for customers."]}'
        : "no idea";
    });
    const home = temporaryFolder({ ".skillet/config.toml": modelConfig("openai", server) });
    chmodSync(join(home, ".skillet/config.toml"), 0o600);
    const more = [query("define honorarium keyword", false, "train")];
    const cwd = temporaryFolder(scene("", more));
    const { stdout } = await skillet(["eval", "skills", "--improve", "--model", "default"], {
      cwd,
      env: { HOME: home, SKILLS_DIR: "none" },
    });
    expect(stdout).toContain("+description: Writes bills and each honorarium for customers.");
    expect(stdout).not.toMatch(/e0041|\u{e0041}/u);
    expect(prompts.length).toBe(2);
    expect(prompts.join("\n")).toContain("honorarium for the workshop in May");
    expect(prompts.join("\n")).not.toContain("send Bob his honorarium");
  });
});
