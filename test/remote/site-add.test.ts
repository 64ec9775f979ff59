import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { addSkills } from "../../src/remote/add.ts";
import { createAddScene } from "../cli/add-scene.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { type Answer, INDEX_PATH, siteEntry, siteIndex, startSite } from "../support/skill-site.ts";

/** A site with these skills, by the names of its index; its content can change while it runs. */
async function siteOf(skills: Record<string, string>) {
  const answers: Record<string, Answer> = {};
  const offer = (now: Record<string, string>, digests: Record<string, string> = {}) => {
    const entries = Object.entries(now).map(([name, text]) =>
      siteEntry(name, "skill-md", `/${name}.md`, digests[name] ?? text),
    );
    for (const key of Object.keys(answers)) delete answers[key];
    for (const [name, text] of Object.entries(now)) answers[`/${name}.md`] = text;
    answers[INDEX_PATH] = siteIndex(entries);
  };
  offer(skills);
  const { url } = await startSite(answers);
  return { url, offer };
}

describe("a site without a selection", () => {
  it("[S-33] offers all its skills to the command, if there is one skill or --all is set", async () => {
    const { url } = await siteOf({ a: skillText("a") });
    const one = createAddScene();
    expect((await one.run(["add", `${url}/`, "--yes"])).stdout).toContain("✓ added: a ");
    const more = await siteOf({ a: skillText("a"), b: skillText("b") });
    const two = createAddScene();
    expect((await two.run(["add", more.url, "--yes"])).stderr).toContain("name some, or add --all: a, b");
    expect((await two.run(["add", more.url, "--all", "--yes"])).code).toBe(0);
    expect(["a", "b"].map((name) => existsSync(join(two.installed, name, "SKILL.md")))).toEqual([true, true]);
  });

  it("offers them to a program too", async () => {
    const { url } = await siteOf({ a: skillText("a"), b: skillText("b") });
    const home = temporaryFolder();
    const added = await addSkills({ source: url, workspace: home, home, env: {}, approve: () => true });
    expect(added.additions.map(({ name, is }) => [name, is])).toEqual([
      ["a", "new"],
      ["b", "new"],
    ]);
  });
});

describe("skills of one site", () => {
  it("do not block updates of one another, when one is gone or does not match its digest", async () => {
    const site = await siteOf({ a: skillText("a"), b: skillText("b") });
    const { run, installed } = createAddScene();
    await run(["add", site.url, "--all", "--yes"]);
    const newer = (word: string) => skillText("a", { body: word });
    site.offer({ a: newer("second") });
    const gone = await run(["update", "--yes"]);
    expect(gone.stderr).toMatch(/b: .*offers no skill "b"/);
    expect(gone.stderr).not.toContain("a, b");
    expect(readFileSync(join(installed, "a/SKILL.md"), "utf8")).toContain("second");
    site.offer({ a: newer("third"), b: skillText("b") }, { b: "another" });
    const wrong = await run(["update", "--yes"]);
    expect(wrong.stderr).toMatch(/b: The file of "b" does not match the site's index/);
    expect(readFileSync(join(installed, "a/SKILL.md"), "utf8")).toContain("third");
  });

  it("are found again by the site's names, even if their own names differ", async () => {
    const site = await siteOf({ idx: skillText("other") });
    const { run, installed } = createAddScene();
    expect((await run(["add", site.url, "--yes"])).stdout).toContain("✓ added: other ");
    expect((await run(["outdated"])).stdout).not.toContain("offers no skill");
    site.offer({ idx: skillText("other", { body: "newer" }) });
    expect((await run(["update", "--yes"])).code).toBe(0);
    expect(readFileSync(join(installed, "other/SKILL.md"), "utf8")).toContain("newer");
    site.offer({ idx: skillText("third") });
    const { stderr } = await run(["update"]);
    expect(stderr).toContain('Skill "other" is now named "third" in its source');
    expect(stderr).toContain(`skillet add ${site.url}${INDEX_PATH} idx`);
  });
});
