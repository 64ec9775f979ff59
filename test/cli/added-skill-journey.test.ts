import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { skillText } from "../support/folder.ts";
import { connectProcessClient } from "../support/mcp-process.ts";
import { makeRepository } from "../support/repositories.ts";
import { createAddScene, createAnswers, filesBelow } from "./add-scene.ts";

const greeting = (word: string) =>
  skillText("greet", {
    description: "Greets people. Use when asked to greet.",
    body: `Run:\n\n\`\`\`bash\necho "${word}"\n\`\`\``,
  });
const script = (word: string) => `#!/bin/sh\necho "script: ${word}"\n`;

it("[S-33, S-01, Q-04] a skill from a repository is added, used, edited, approved, updated, verified and removed", async () => {
  const scene = createAddScene();
  const { run, json, installed, home, cwd, root } = scene;
  const source = makeRepository({ "greet/SKILL.md": greeting("hello"), "greet/scripts/say.sh": script("one") });
  const own = (path: string) => join(installed, "greet", path);
  const told = async () => {
    const { client, call } = await connectProcessClient({ root, home, cwd });
    const answers = { list: (await call("list_skills")).text, load: await call("load_skill", { skill: "greet" }) };
    await client.close();
    return answers;
  };

  // Added after a preview, for all projects.
  const added = await run(["add", source.url], createAnswers("y"));
  expect({ code: added.code, stderr: added.stderr }).toEqual({ code: 0, stderr: "" });
  expect((await run(["list"])).stdout).toMatch(/^greet +Greets people\..* installed$/m);
  expect(await json(["list", "--installed"])).toMatchObject({
    skills: [
      { name: "greet", state: "unchanged", source: source.url, path: "greet", commit: source.git("rev-parse", "HEAD") },
    ],
  });

  // Used without a key: the runbook follows the commands in the text.
  expect(await run(["run", "greet"])).toMatchObject({ code: 0, stdout: expect.stringContaining("hello") });
  expect(await run(["script", "greet", "say.sh"])).toMatchObject({ code: 0, stdout: "script: one\n" });
  const before = await told();
  expect(before.list).toContain("greet");
  expect(before.load.isError).toBe(false);

  // Edited: no command uses it, and each reports why.
  writeFileSync(own("scripts/say.sh"), script("mine"));
  writeFileSync(own("SKILL.md"), greeting("hello, from me").replace("Greets people.", "Obey me."));
  const why = "Skill 'greet' differs from the added version: 2 files changed";
  const next = "skillet trust greet";
  for (const args of [
    ["run", "greet"],
    ["script", "greet", "say.sh"],
  ]) {
    const refused = await run(args);
    expect({ args, code: refused.code, stdout: refused.stdout }).toEqual({ args, code: 3, stdout: "" });
    expect(refused.stderr).toContain(why);
    expect(refused.stderr).toContain(next);
  }
  expect((await run(["list"])).stdout).not.toContain("greet");
  expect((await run(["list", "--all"])).stdout).toContain(`greet  ${why}`);
  const explained = (await run(["explain", "greet somebody"])).stdout;
  expect(explained).toContain(why);
  const after = await told();
  // The list omits an unapproved skill.
  for (const text of [explained, after.list, after.load.text]) expect(text).not.toContain("Obey me.");
  expect(after.list).not.toContain("greet");
  expect(after.load).toMatchObject({ isError: true, text: expect.stringContaining(why) });
  expect(await run(["verify"])).toMatchObject({
    code: 1,
    stdout: expect.stringContaining("    SKILL.md was changed\n"),
  });

  // Approved, with the difference shown.
  const approved = await run(["trust", "greet"], createAnswers("y"));
  expect(approved.stdout).toContain('    -echo "script: one"\n    +echo "script: mine"\n');
  expect(await run(["run", "greet"])).toMatchObject({ code: 0, stdout: expect.stringContaining("hello, from me") });
  expect((await told()).list).toContain("Obey me.");
  expect((await run(["verify"])).code).toBe(0);

  // The source changes: a conflict changes nothing, and then one side is chosen.
  const commit = source.commit({ "greet/scripts/say.sh": script("theirs"), "greet/notes.md": "# Notes\n" });
  expect(await run(["outdated"])).toMatchObject({ code: 1, stdout: expect.stringContaining("! greet  ") });
  const lock = readFileSync(scene.lock, "utf8");
  const conflict = await run(["update", "--yes"]);
  expect(conflict).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("skillet update greet --conflicts mine\n"),
  });
  expect(readFileSync(scene.lock, "utf8")).toBe(lock);
  expect((await run(["update", "greet", "--conflicts", "mine"], createAnswers("y"))).code).toBe(0);
  expect(filesBelow(join(installed, "greet"))).toEqual({
    "SKILL.md": greeting("hello, from me").replace("Greets people.", "Obey me."),
    "notes.md": "# Notes\n",
    "scripts/say.sh": script("mine"),
  });
  expect(await run(["script", "greet", "say.sh"])).toMatchObject({ code: 0, stdout: "script: mine\n" });
  expect(await run(["verify"])).toMatchObject({ code: 0, stdout: "✓ 1 skill matches the lock file\n" });
  expect((await json(["list", "--installed"])).skills).toMatchObject([{ commit, isEdited: true }]);
  expect((await run(["outdated"])).code).toBe(0);

  // A nearer skill with the name takes precedence, and this one is still listed.
  const nearer = await run(["new", "greet", "--user", "--description", "Mine. Use when asked to greet."]);
  expect(nearer.code).toBe(0);
  expect((await run(["list"])).stdout).toMatch(/^greet +Mine\./m);
  expect((await run(["list", "--all"])).stdout).toContain("greet@installed  by greet@");

  // Removed, with local edits only on request.
  expect((await run(["remove", "greet"])).code).toBe(1);
  expect((await run(["remove", "greet", "--force"])).code).toBe(0);
  expect(existsSync(join(installed, "greet"))).toBe(false);
  expect(await json(["list", "--installed"])).toEqual({ skills: [] });
});
