import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { EVALUATION_SKILLS } from "../catalog/evaluation/skills.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";

const QUERY = "Größe der Rechnung in bütçe.xlsx: invioce für İstanbul, 請求書を直して, straße and naïve résumé";

describe("skillet explain in processes", () => {
  it("[A-09] prints the same bytes with and without the search index, in every language of the system", async () => {
    const folder = temporaryFolder(
      Object.fromEntries(
        EVALUATION_SKILLS.map(({ name, description, body }) => [
          `home/.skillet/skills/${name}/SKILL.md`,
          skillText(name, { description: JSON.stringify(description), body }),
        ]),
      ),
    );
    const env = { HOME: join(folder, "home") };
    const explain = async (more: Record<string, string> = {}) => {
      const { code, stdout } = await runSkilletProcess(["explain", QUERY, "--json"], {
        cwd: folder,
        env: { ...env, ...more },
      });
      expect(code).toBe(0);
      return stdout;
    };
    const first = await explain();
    expect(JSON.parse(first).matches.length).toBeGreaterThan(3);
    for (const LANG of ["C", "de_DE.UTF-8", "tr_TR.UTF-8", "ja_JP.UTF-8"])
      expect(await explain({ LANG, LC_ALL: LANG }), LANG).toBe(first);
  });
});
