import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

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

  it("adds to the keywords that there are, in either notation", async () => {
    expect((await improve(scene("triggers:\n  keywords: [bill]\n"))).stdout).toContain(
      '+  keywords: [bill, "honorarium"]',
    );
    expect((await improve(scene("triggers:\n  keywords:\n    - bill\n"))).stdout).toContain('+    - "honorarium"');
    expect((await improve(scene("triggers:\n  verbs: [bill]\n"))).stdout).toContain('+  keywords: ["honorarium"]');
  });

  it("proposes nothing that would take a query of another skill or trigger wrongly", async () => {
    const taken = await improve(scene("", [query("what is an honorarium?", false, "train")]));
    expect(taken.stdout).toContain("no keyword helps without harm");
    const wrong = await improve(scene("", [query("define honorarium", false, "test")]));
    expect(wrong.stdout).toContain("no keyword helps without harm");
  });
});
