import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { discover } from "../../src/config/discover.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

it("takes the skills that the embedding program ships in place of this package's", async () => {
  const root = temporaryFolder({
    "shipped/mine/SKILL.md": skillText("mine"),
    "other/theirs/SKILL.md": skillText("theirs"),
  });
  for (const name of ["home", "work"]) mkdirSync(join(root, name));
  const home = join(root, "home");
  const options = { home, workspace: join(root, "work"), env: { HOME: home, SKILLS_DIR: join(root, "other") } };
  const { catalog } = await discover({ ...options, shippedSkills: join(root, "shipped") });
  expect(catalog.skills.map(({ name, origin: { scope } }) => [name, scope])).toEqual([["mine", "bundled"]]);
  expect((await discover(options)).catalog.names()).toEqual(["theirs"]);
});
