import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

const files = {
  "skills/documents/SKILL.md": skillText("documents", {
    description: "Writes invoices and letters for customers in PDF.",
  }),
  "skills/invoices/SKILL.md": skillText("invoices", {
    description: "Writes invoices for customers in PDF.",
  }),
  "skills/poems/SKILL.md": skillText("poems", { description: "Writes poems about spring. Use when asked for verses." }),
};
const check = (...args: string[]) =>
  skillet(["check", ...args], { cwd: temporaryFolder(files), env: { SKILLS_DIR: "none" } });

describe("skillet check --overlap", () => {
  it("warns about the skill to narrow, with the colliding words and those that only it has", async () => {
    const { code, stdout } = await check("skills", "--overlap");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /! skills\/documents\/SKILL\.md 'documents' competes with 'invoices' \(similarity 0\.\d\d\): both are about .*invoices.* {2}\[description-overlap\]/,
    );
    expect(stdout).toMatch(
      /narrow the description of 'documents' to what only it does \(.*letters.*\), or merge the two/,
    );
    expect(stdout).not.toContain("'poems'");
    expect((await check("skills", "--overlap", "--strict")).code).toBe(1);
  });

  it("is part of JSON and SARIF, and only with the option", async () => {
    const found = JSON.parse((await check("skills", "--overlap", "--json")).stdout);
    const overlaps = found.diagnostics.filter(({ code }: { code: string }) => code === "description-overlap");
    expect(overlaps).toMatchObject([{ data: { other: "invoices" } }]);
    const sarif = (await check("skills", "--overlap", "--format", "sarif")).stdout;
    expect(sarif).toContain('"ruleId": "description-overlap"');
    expect((await check("skills")).stdout).not.toContain("description-overlap");
  });

  it("compares all skills that were found if no path is given", async () => {
    const home = temporaryFolder({
      ".skillet/skills/bills/SKILL.md": files["skills/invoices/SKILL.md"].replace("name: invoices", "name: bills"),
    });
    const cwd = temporaryFolder({ ".agents/skills/documents/SKILL.md": files["skills/documents/SKILL.md"] });
    const { stdout } = await skillet(["check", "--overlap"], { cwd, env: { HOME: home } });
    expect(stdout).toContain("'documents' competes with 'bills'");
  });
});
