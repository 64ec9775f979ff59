import { appendFileSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillText, writeFiles } from "../support/folder.ts";
import { createHome } from "../support/home.ts";

const OWN = "home/.skillet/skills/own";
const WORKSPACE = "project/skills/own";
const copy = (folder: string, says: string) => ({
  [`${folder}/SKILL.md`]: skillText("own", { more: "env: [MY_KEY]\n" }),
  [`${folder}/scripts/go.sh`]: `echo "${says} got $MY_KEY"\n`,
});
const VALUE = { stdin: "A-VALUE-OF-MINE" };
const SET = ["config", "set", "skills.own.MY_KEY"];
const GO = ["script", "own", "go.sh"];
const isGot = (stdout: string) => stdout.includes("got [MY_KEY]");

/** A home and a project with these copies of a skill, and a function that adds more. */
function scene(...files: Record<string, string>[]) {
  const made = createHome(Object.assign({}, ...files));
  const grants = join(made.home, ".skillet/grants.json");
  return {
    ...made,
    put: (more: Record<string, string>) => writeFiles(join(made.home, ".."), more),
    owner: (name = "own"): { place?: string } | undefined => JSON.parse(readFileSync(grants, "utf8")).skills[name],
    grants,
  };
}

describe("a value that is set", () => {
  it("[Q-03] belongs to the only copy from then on: a copy that is trusted and used first does not get it", async () => {
    const { run, put, owner, home } = scene(copy(OWN, "OWN"));
    const set = await run(SET, VALUE);
    expect(set).toMatchObject({ code: 0, stdout: expect.stringContaining("for the copy from ~/.skillet/skills/own") });
    expect(owner()).toMatchObject({ location: join(home, ".skillet/skills/own") });
    put(copy(WORKSPACE, "SHADOW"));
    const trusted = await run(["trust", "own", "--yes"]);
    expect(trusted.code).toBe(0);
    expect(trusted.stdout.replace(/\s+/g, " ")).toContain(
      "config.toml has MY_KEY for this name, granted to the copy from ~/.skillet/skills/own, not to this one",
    );
    const shadow = await run(GO);
    expect(shadow).toMatchObject({
      code: 3,
      stdout: "",
      stderr: expect.stringContaining("skillet trust --secrets own"),
    });
    const used = await run(["script", "own@~/.skillet/skills", "go.sh"]);
    expect(used).toMatchObject({ code: 0, stdout: "OWN got [MY_KEY]\n" });
  });

  it("[Q-03] belongs to the copy that the user names, of several", async () => {
    const { run, owner, home, project, config, grants } = scene(copy(OWN, "OWN"), copy(WORKSPACE, "SHADOW"));
    const before = readFileSync(config, "utf8");
    const refused = await run(SET, VALUE);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain("The skill 'own' has 2 copies");
    expect(refused.stderr).toContain("own@skills, own@~/.skillet/skills");
    expect(refused.stderr).toContain("skillet config set skills.own.MY_KEY --for own@skills");
    expect(readFileSync(config, "utf8")).toBe(before);
    expect(() => readFileSync(grants)).toThrow("ENOENT");
    const none = await run([...SET, "--for", "own@elsewhere"], VALUE);
    expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining("is not a copy of the skill 'own'") });
    expect(await run([...SET, "--for", "own@~/.skillet/skills"], VALUE)).toMatchObject({ code: 0 });
    expect(owner()).toMatchObject({ location: join(home, ".skillet/skills/own") });
    const again = await run(SET, { stdin: "ANOTHER-VALUE" });
    expect(again, "it stays there").toMatchObject({ code: 0 });
    expect(again.stdout.replace(/\s+/g, " ")).toContain(
      "for the copy from ~/.skillet/skills/own, not for the one found here",
    );
    const json = await run([...SET, "--for", "own@skills", "--json"], VALUE);
    expect(JSON.parse(json.stdout)).toMatchObject({
      copy: { source: "skills", location: join(project, "skills/own") },
    });
    expect(owner()).toMatchObject({ location: join(project, "skills/own") });
  });

  it("[Q-03] belongs to the copy that the user selects at a terminal, of several", async () => {
    const { run, owner, home } = scene(copy(OWN, "OWN"), copy(WORKSPACE, "SHADOW"));
    const asked: string[] = [];
    const ask = (answer: string) => async (question: string) => {
      asked.push(question);
      return question.startsWith("Which copy") ? answer : "A-VALUE-OF-MINE";
    };
    const no = await run(SET, { ask: ask("7") });
    expect(no).toMatchObject({ code: 3, stderr: expect.stringContaining("no copy was chosen") });
    const yes = await run(SET, { ask: ask("2") });
    expect(yes.code, yes.stderr).toBe(0);
    expect(yes.stderr).toContain("2  own@~/.skillet/skills");
    expect(asked.filter((question) => question.startsWith("Which copy"))).toHaveLength(2);
    expect(owner()).toMatchObject({ location: join(home, ".skillet/skills/own") });
  });

  it("[Q-03] belongs to no copy if no copy exists, and the next run asks or is refused", async () => {
    const { run, put, grants, owner } = scene();
    const set = await run(SET, VALUE);
    expect(set.code).toBe(0);
    expect(set.stdout.replace(/\s+/g, " ")).toContain("no skill 'own' is found here");
    expect(set.stdout).toContain("skillet trust --secrets own");
    expect(() => readFileSync(grants)).toThrow("ENOENT");
    put(copy(OWN, "OWN"));
    const refused = await run(GO);
    expect(refused).toMatchObject({
      code: 3,
      stdout: "",
      stderr: expect.stringContaining("are not granted to any copy yet"),
    });
    expect((await run(GO, { ask: async () => "n" })).stdout).toBe("");
    expect(() => readFileSync(grants)).toThrow("ENOENT");
    const asked = await run(GO, { ask: async () => "y" });
    expect(asked.stderr).toContain("MY_KEY in config.toml, not granted to any copy yet");
    expect(isGot(asked.stdout)).toBe(true);
    expect(owner()).toBeDefined();
    expect(isGot((await run(GO)).stdout), "no later run asks").toBe(true);
  });

  it("[Q-03] stays with the copy that was recorded for it", async () => {
    const { run, put, owner, home } = scene(copy(OWN, "OWN"));
    await run(SET, VALUE);
    const recorded = owner();
    put(copy(WORKSPACE, "SHADOW"));
    rmSync(join(home, ".skillet/skills/own"), { recursive: true });
    const set = await run(SET, { stdin: "ANOTHER-VALUE" });
    expect(set.stdout.replace(/\s+/g, " ")).toContain("not for the one found here");
    expect(owner()).toEqual(recorded);
    await run(["trust", "own", "--yes"]);
    expect((await run(GO)).stdout).toBe("");
  });

  it("does not belong to a copy if it is for the name alone", async () => {
    const { run, grants } = scene(copy(OWN, "OWN"), copy(WORKSPACE, "SHADOW"));
    expect((await run(["config", "set", "skills.own.enabled", "true"])).code).toBe(0);
    expect(() => readFileSync(grants)).toThrow("ENOENT");
    const odd = await run(["config", "set", "skills.own.enabled", "true", "--for", "own@skills"]);
    expect(odd).toMatchObject({ code: 2, stderr: expect.stringContaining("--for has no effect") });
  });
});

describe("a value that was written by hand", () => {
  it("[Q-03] is refused without a terminal, with the command that grants it, which a script can run too", async () => {
    const { run, config, put } = scene(copy(OWN, "OWN"));
    appendFileSync(config, '[skills.own]\nMY_KEY = "A-VALUE-OF-MINE"\n');
    const refused = await run(GO);
    expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining("skillet trust --secrets own") });
    expect((await run(["trust", "--secrets", "own", "--yes"])).code).toBe(0);
    expect(isGot((await run(GO)).stdout)).toBe(true);
    put(copy(WORKSPACE, "SHADOW"));
    await run(["trust", "own", "--yes"]);
    expect((await run(GO)).stdout).toBe("");
  });

  it("[Q-03] needs approval after trust, for a skill of a workspace", async () => {
    const { run, config } = scene(copy(WORKSPACE, "IT"));
    appendFileSync(config, '[skills.own]\nMY_KEY = "A-VALUE-OF-MINE"\n');
    const asked: string[] = [];
    const ask = async (question: string) => {
      asked.push(question);
      return "y";
    };
    const { stdout, stderr } = await run(GO, { ask });
    expect(stdout, stderr).toBe("IT got [MY_KEY]\n");
    expect(asked).toEqual([
      expect.stringContaining("Trust this skill"),
      expect.stringContaining("Grant this to this copy only?"),
    ]);
    expect(stderr.replace(/\s+/g, " ")).toContain("config.toml has MY_KEY for this name, not granted to any copy yet");
  });
});

describe("a capability that is granted", () => {
  const asking = (folder: string) => ({
    [`${folder}/SKILL.md`]: skillText("own", { more: "capabilities: [desk.tickets]\n" }),
  });

  it("[Q-03] goes to the copy that is named or selected, of several", async () => {
    const { run, owner, home, config } = scene(asking(OWN), asking(WORKSPACE));
    const refused = await run(["capability", "grant", "own", "desk.tickets", "--yes"]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain("own@skills, own@~/.skillet/skills");
    expect(readFileSync(config, "utf8")).toBe("");
    const given = await run(["capability", "grant", "own@~/.skillet/skills", "desk.tickets", "--yes"]);
    expect(given.code, given.stderr).toBe(0);
    expect(owner()).toMatchObject({ location: join(home, ".skillet/skills/own") });
  });
});
