import { createHash } from "node:crypto";
import {
  appendFileSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { adoptSkills } from "../../src/remote/index.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { makeRepository } from "../support/repositories.ts";
import { createAddScene, createAnswers, filesBelow } from "./add-scene.ts";

const SCRIPT = "#!/bin/sh\necho one\n";
const PDF = { "SKILL.md": skillText("pdf"), "scripts/go.sh": SCRIPT };

/** A skill in the folder of Claude Code. */
function scene(files: Record<string, string> = {}) {
  const one = createAddScene({
    ...Object.fromEntries(Object.entries(PDF).map(([path, text]) => [`home/.claude/skills/pdf/${path}`, text])),
    ...files,
  });
  const skills = join(one.home, ".claude/skills");
  return { ...one, skills, pdf: join(skills, "pdf"), skillsLock: join(skills, "skills.lock") };
}

function entryIn(lock: string, name = "pdf") {
  return JSON.parse(readFileSync(lock, "utf8")).skills[name];
}

/** A repository with the same skill. */
function source() {
  return makeRepository(Object.fromEntries(Object.entries(PDF).map(([path, text]) => [`skills/pdf/${path}`, text])));
}

/** The hash that `npx skills` records for a folder. */
function npxHash(files: Record<string, string>): string {
  const hash = createHash("sha256");
  for (const path of Object.keys(files).sort((a, b) => a.localeCompare(b))) hash.update(path).update(files[path] ?? "");
  return hash.digest("hex");
}

describe("skillet adopt", () => {
  it("lists what can be adopted, asks, and records it in place", async () => {
    const { run, home, skills, skillsLock, pdf } = scene();
    const before = filesBelow(skills);
    const dialogue = createAnswers("y");
    const { code, stdout } = await run(["adopt"], { ask: dialogue.ask });
    expect(code).toBe(0);
    expect(stdout).toContain("pdf: no source found; --from SOURCE sets one");
    expect(stdout, "the review of trust").toContain("+echo one");
    expect(stdout).toContain("✓ adopted: pdf in ~/.claude/skills");
    expect(dialogue.asked).toEqual(["Adopt and trust this skill and its code, which runs in a sandbox? [y/N] "]);
    const { "skills.lock": _lock, ...after } = filesBelow(skills);
    expect(after, "no file is changed, and none is copied").toEqual(before);
    expect(existsSync(join(home, ".skillet/installed"))).toBe(false);
    expect(entryIn(skillsLock)).toMatchObject({ adopted: true, source: "local:", grants: ["instructions", "scripts"] });
    expect(await run(["verify"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("1 skill matches the lock"),
    });
    expect((await run(["list", "--installed"])).stdout).toBe("✓ pdf  no source (adopted in ~/.claude/skills)\n");
    expect(await run(["script", "pdf", "go.sh"])).toMatchObject({ code: 0, stdout: "one\n" });
    appendFileSync(join(pdf, "scripts/go.sh"), "echo evil\n");
    expect(await run(["script", "pdf", "go.sh"])).toMatchObject({ stdout: "" });
    expect(await run(["verify"])).toMatchObject({ code: 1, stdout: expect.stringContaining("go.sh was changed") });
  });

  it("adopts nothing without approval or in a dry run, and reports that in JSON", async () => {
    const { run, json, skillsLock, home } = scene();
    expect(await run(["adopt"])).toMatchObject({ code: 3 });
    expect(await run(["adopt"], { ask: createAnswers("n").ask })).not.toMatchObject({ code: 0 });
    expect(await json(["adopt", "--dry-run"])).toMatchObject({ isDryRun: true, adopted: [{ name: "pdf" }] });
    expect(existsSync(skillsLock)).toBe(false);
    expect(existsSync(join(home, ".skillet/trust.json"))).toBe(false);
    expect(await json(["adopt", "--yes"])).toMatchObject({
      isDryRun: false,
      adopted: [{ name: "pdf", lock: skillsLock, digest: expect.stringMatching(/^sha256:/), findings: [], links: [] }],
      problems: [],
    });
    expect(await run(["adopt"])).toMatchObject({ code: 0, stdout: expect.stringContaining("nothing to adopt") });
  });

  it("keeps the precedence of copies", async () => {
    const { run, json, home } = scene({ "home/.skillet/skills/pdf/SKILL.md": skillText("pdf", { body: "Mine." }) });
    const winner = async () => (await json(["show", "pdf"])).source;
    const before = await winner();
    expect(await run(["adopt", join(home, ".claude/skills/pdf"), "--yes"])).toMatchObject({ code: 0 });
    expect(await winner()).toBe(before);
  });

  it("[Q-04] shows sixty skills on at most two screens before the first question", async () => {
    const many = Array.from({ length: 60 }, (_, index) => [
      [`home/.claude/skills/skill-${index}/SKILL.md`, skillText(`skill-${index}`)],
      [`home/.claude/skills/skill-${index}/scripts/go.sh`, SCRIPT],
    ]).flat();
    for (const command of ["adopt", "trust"]) {
      const { run, home } = createAddScene(Object.fromEntries(many));
      let [printed, lines] = ["", 0];
      const ask = async () => {
        if (lines === 0) lines = printed.split("\n").flatMap((line) => line.match(/.{1,80}/g) ?? [""]).length;
        return "y";
      };
      const onOutput = (text: string) => {
        printed += text;
      };
      const args = command === "adopt" ? ["adopt"] : ["trust", join(home, ".claude/skills")];
      expect(await run(args, { ask, onOutput, columns: 80 }), command).toMatchObject({ code: 0 });
      expect(lines, command).toBeGreaterThan(10);
      expect(lines, command).toBeLessThanOrEqual(48);
    }
  });
});

describe("the origin of an adopted skill", () => {
  it("is the remote, commit and path of its work tree; an update keeps edits", async () => {
    const { run, home, cwd } = createAddScene();
    const upstream = makeRepository({ "skills/pdf/SKILL.md": skillText("pdf"), "skills/pdf/scripts/go.sh": SCRIPT });
    mkdirSync(join(home, ".claude"), { recursive: true });
    upstream.git("clone", "--quiet", upstream.url, join(home, ".claude"));
    const skills = join(home, ".claude/skills");
    appendFileSync(join(skills, "pdf/SKILL.md"), "\nMy own line.\n");
    const adopted = await run(["adopt", skills, "--yes"]);
    expect(adopted.stdout).toContain("(from its git repository)");
    const entry = entryIn(join(skills, "skills.lock"));
    expect(entry).toMatchObject({
      source: upstream.url,
      path: "skills/pdf",
      commit: upstream.git("rev-parse", "HEAD"),
    });
    expect(Object.keys(entry.upstream.files), "the files of the commit are the base").toEqual([
      "SKILL.md",
      "scripts/go.sh",
    ]);
    expect(await run(["outdated"])).toMatchObject({ code: 0 });
    upstream.commit({ "skills/pdf/scripts/go.sh": "#!/bin/sh\necho newer\n" });
    expect(await run(["outdated"])).toMatchObject({ code: 1, stdout: expect.stringContaining("pdf") });
    expect(await run(["update", "--yes"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("✓ updated: pdf"),
    });
    expect(readFileSync(join(skills, "pdf/SKILL.md"), "utf8")).toContain("My own line.");
    expect(await run(["script", "pdf", "go.sh"], { cwd }), "the approved version is trusted").toMatchObject({
      code: 0,
      stdout: "newer\n",
    });
    expect(entryIn(join(skills, "skills.lock"))).toMatchObject({ adopted: true });
    expect(await run(["verify"])).toMatchObject({ code: 0 });
  });

  it("is not a work tree that does not track it, and never contains a password", async () => {
    const { run, skills, skillsLock, home } = scene();
    const { git, commit } = makeRepository({}, home);
    git("remote", "add", "origin", "https://user:hunter2@git.example.com/dots.git");
    writeFileSync(join(home, ".gitignore"), ".claude\n.skillet\n");
    commit();
    expect(await run(["adopt", skills, "--yes"])).toMatchObject({ code: 0 });
    expect(entryIn(skillsLock).source).toBe("local:");
    expect(await run(["remove", "pdf", "--keep"])).toMatchObject({ code: 0 });
    writeFileSync(join(home, ".gitignore"), ".skillet\n");
    commit();
    const { stdout } = await run(["adopt", skills, "--yes"]);
    expect(entryIn(skillsLock)).toMatchObject({
      source: "https://git.example.com/dots.git",
      path: ".claude/skills/pdf",
    });
    expect(stdout + readFileSync(skillsLock, "utf8")).not.toContain("hunter2");
  });

  it.each([
    ["home/.agents/.skill-lock.json", {}],
    ["home/state/skills/.skill-lock.json", { XDG_STATE_HOME: "state" }],
  ])("is the record of `npx skills` in %s, by either of its hashes", async (file, env) => {
    const { url, git } = source();
    for (const hash of [npxHash(PDF), git("rev-parse", "HEAD:skills/pdf")]) {
      const entry = {
        source: url,
        sourceType: "git",
        sourceUrl: url,
        skillPath: "skills/pdf/SKILL.md",
        skillFolderHash: hash,
      };
      const { run, skillsLock, home } = scene({ [file]: JSON.stringify({ version: 3, skills: { pdf: entry } }) });
      const state = Object.fromEntries(Object.entries(env).map(([key, path]) => [key, join(home, path)]));
      const { stdout } = await run(["adopt", "--yes"], { env: state });
      expect(stdout).toContain("(from .skill-lock.json)");
      const locked = entryIn(skillsLock);
      expect(locked).toMatchObject({ source: url, path: "skills/pdf" });
      expect(locked.upstream, "it is unchanged since it was added").toBeUndefined();
    }
  });

  it.each(["--upload-pack=x", "x\u001b[31m\ny", "a..b"])(
    "is not one with the ref %j, which no branch has",
    async (ref) => {
      const entry = { source: "acme/skills", sourceType: "github", skillPath: "skills/pdf/SKILL.md", ref };
      const lock = JSON.stringify({ version: 3, skills: { pdf: entry } });
      const { run, skillsLock } = scene({ "home/.agents/.skill-lock.json": lock });
      expect(await run(["adopt", "--yes"])).toMatchObject({ code: 0 });
      expect(entryIn(skillsLock)).toMatchObject({ source: "local:" });
      expect(entryIn(skillsLock).ref).toBeUndefined();
    },
  );

  it("is the one in a project's skills-lock.json; an earlier edit is a conflict, and nothing is lost", async () => {
    const { url, commit } = source();
    const entry = {
      source: url,
      sourceUrl: url,
      sourceType: "git",
      skillPath: "skills/pdf/SKILL.md",
      computedHash: npxHash(PDF),
    };
    const { run, cwd } = createAddScene({
      "project/skills-lock.json": JSON.stringify({ version: 1, skills: { pdf: entry } }),
      "project/.claude/skills/pdf/SKILL.md": `${PDF["SKILL.md"]}\nEdited before.\n`,
      "project/.claude/skills/pdf/scripts/go.sh": SCRIPT,
    });
    const folder = join(cwd, ".claude/skills/pdf");
    expect((await run(["adopt", "--project", "--yes"])).stdout).toContain("(from skills-lock.json)");
    expect(entryIn(join(folder, "../skills.lock")).upstream.files).toEqual({});
    expect((await run(["list", "--installed"])).stdout).not.toContain("with your changes");
    commit({ "skills/pdf/SKILL.md": skillText("pdf", { body: "Theirs." }) });
    const before = filesBelow(folder);
    expect(await run(["update", "pdf", "--project", "--yes"])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("its original version is no longer available"),
    });
    expect(filesBelow(folder)).toEqual(before);
    expect(await run(["update", "pdf", "--project", "--yes", "--conflicts", "theirs"])).toMatchObject({ code: 0 });
    expect(readFileSync(join(folder, "SKILL.md"), "utf8")).toContain("Theirs.");
    expect(readdirSync(join(cwd, "../home/.skillet/replaced"))).toHaveLength(1);
  });

  it("is the marketplace of a plugin of Claude Code, whose recorded commit is the base of an update", async () => {
    const market = makeRepository({
      ".claude-plugin/marketplace.json": JSON.stringify({
        name: "m",
        plugins: [{ name: "kit", source: "./plugins/kit" }],
      }),
      "plugins/kit/.claude-plugin/plugin.json": JSON.stringify({ name: "kit" }),
      "plugins/kit/skills/pdf/SKILL.md": PDF["SKILL.md"],
      "plugins/kit/skills/pdf/scripts/go.sh": SCRIPT,
    });
    const { run, home, cwd } = createAddScene();
    const plugins = join(home, ".claude/plugins");
    const kit = join(plugins, "cache/m/kit/1.0.0");
    mkdirSync(kit, { recursive: true });
    const [commit, clone] = [market.git("rev-parse", "HEAD"), join(plugins, "marketplaces/m")];
    market.git("clone", "--quiet", market.url, clone);
    writeFiles(kit, { "skills/pdf/SKILL.md": `${PDF["SKILL.md"]}\nMine.\n`, "skills/pdf/scripts/go.sh": SCRIPT });
    writeFiles(plugins, {
      "installed_plugins.json": JSON.stringify({
        version: 2,
        plugins: { "kit@m": [{ scope: "user", installPath: kit, version: "1.0.0", gitCommitSha: commit }] },
      }),
      "known_marketplaces.json": JSON.stringify({
        m: { source: { source: "git", url: market.url }, installLocation: clone },
      }),
    });
    const lock = join(kit, "skills/skills.lock");
    expect((await run(["adopt", "--yes"])).stdout).toContain("(from the plugin kit@m)");
    expect(entryIn(lock)).toMatchObject({ source: market.url, path: "plugins/kit/skills/pdf", commit });
    market.commit({ "plugins/kit/skills/pdf/scripts/go.sh": "#!/bin/sh\necho newer\n" });
    expect(await run(["update", "--yes"])).toMatchObject({ code: 0 });
    expect(readFileSync(join(kit, "skills/pdf/SKILL.md"), "utf8"), "an edit from before stays").toContain("Mine.");
    expect(await run(["script", "pdf", "go.sh"], { cwd })).toMatchObject({ stdout: "newer\n" });
  });

  it("is unknown for any other: verify works, update reports it, and --from sets it", async () => {
    const { run, skillsLock, pdf } = scene();
    const { url, commit } = source();
    await run(["adopt", "--yes"]);
    expect(await run(["update"])).toMatchObject({ code: 0, stderr: expect.stringContaining("without a source: pdf") });
    expect(await run(["update", "pdf"])).toMatchObject({ code: 1, stderr: expect.stringContaining("--from SOURCE") });
    expect(await run(["outdated"])).toMatchObject({ code: 0 });
    expect(await run(["adopt", pdf]), "it is adopted already").toMatchObject({
      code: 1,
      stderr: expect.stringContaining("was already adopted"),
    });
    expect(await run(["adopt", pdf, "--from", url, "--yes"])).toMatchObject({ code: 0 });
    expect(entryIn(skillsLock)).toMatchObject({ source: url, path: "skills/pdf", adopted: true });
    commit({ "skills/pdf/more.md": "More.\n" });
    expect(await run(["update", "pdf", "--yes"])).toMatchObject({ code: 0 });
    expect(existsSync(join(pdf, "more.md"))).toBe(true);
    expect(await run(["adopt", pdf, "--from", "/nowhere", "--yes"])).not.toMatchObject({ code: 0 });
  });
});

it("[Q-29] is not fetched from a private address that only a record names", async () => {
  const { url, port, asked } = await listening();
  const entry = { source: url, sourceType: "git", sourceUrl: url, skillPath: "skills/pdf/SKILL.md" };
  const { run, skillsLock } = scene({
    "home/.agents/.skill-lock.json": JSON.stringify({ version: 3, skills: { pdf: entry } }),
  });
  expect(await run(["adopt", "--yes"])).toMatchObject({ code: 0 });
  expect(entryIn(skillsLock).source).toBe(url);
  for (const command of ["update", "outdated"]) {
    expect(await run([command]), command).toMatchObject({ code: 1, stderr: expect.stringContaining("private") });
    expect(asked(), `${command}, on port ${port}`).toBe(0);
  }
  await run(["outdated", "--allow-private-addresses"]);
  expect(asked()).toBeGreaterThan(0);
});

/** A server of this machine that counts its requests. */
async function listening() {
  let count = 0;
  const server = createServer((_request, response) => {
    count++;
    response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { port, url: `http://127.0.0.1:${port}/repo.git`, asked: () => count };
}

describe("a folder that cannot be adopted", () => {
  it("includes a symlink: the folder that it leads to is adopted, once", async () => {
    const { run, home } = createAddScene({ "home/.agents/skills/pdf/SKILL.md": skillText("pdf") });
    for (const client of [".claude", ".codex"]) {
      mkdirSync(join(home, client, "skills"), { recursive: true });
      symlinkSync(join(home, ".agents/skills/pdf"), join(home, client, "skills/pdf"));
    }
    const { code, stdout } = await run([
      "adopt",
      join(home, ".claude/skills/pdf"),
      join(home, ".codex/skills/pdf"),
      "--yes",
    ]);
    expect(code).toBe(0);
    expect(stdout).toContain("~/.claude/skills/pdf, ~/.codex/skills/pdf are symlinks: ~/.agents/skills/pdf is adopted");
    expect(stdout).toContain("✓ adopted: pdf in ~/.agents/skills");
    expect(existsSync(join(home, ".agents/skills/skills.lock"))).toBe(true);
    expect(existsSync(join(home, ".claude/skills/skills.lock"))).toBe(false);
  });

  it("is reported with the reason, and the others are adopted", async () => {
    const { run, skills, home, skillsLock } = scene({
      "home/.claude/skills/broken/SKILL.md": "no frontmatter\n",
      "home/.claude/skills/other/SKILL.md": skillText("another"),
      "home/.claude/skills/clone/SKILL.md": skillText("clone"),
      "home/.claude/skills/clone/.git/HEAD": "ref: refs/heads/main\n",
      "home/.claude/skills/flat.md": skillText("flat"),
      "home/.claude/skills/linked/SKILL.md": skillText("linked"),
      "home/empty/readme": "",
    });
    symlinkSync("/etc/hostname", join(skills, "linked/outside"));
    const paths = ["broken", "other", "clone", "flat.md", "linked", "pdf", "../../empty", "gone"].map((name) =>
      join(skills, name),
    );
    const { code, stdout, stderr } = await run(["adopt", ...paths, "--yes"]);
    expect(code).toBe(1);
    for (const reason of [
      /broken is not a skill: its SKILL\.md/,
      /"another" is in a folder called "other"/,
      /is itself a git repository/,
      /is a file, but a skill is adopted with its folder/,
      /"outside" is a symlink/,
      /empty has no SKILL\.md/,
      /Skill or folder ~\/\.claude\/skills\/gone not found/,
    ])
      expect(stderr).toMatch(reason);
    expect(stdout).toContain("✓ adopted: pdf");
    expect(Object.keys(JSON.parse(readFileSync(skillsLock, "utf8")).skills)).toEqual(["pdf"]);
    expect(existsSync(join(home, ".claude/skills/linked/skills.lock"))).toBe(false);
  });

  it.runIf(process.getuid?.() === 0)("includes one that belongs to another user, partly or entirely", async () => {
    const { run, pdf, skillsLock } = scene();
    chownSync(join(pdf, "scripts/go.sh"), ORDINARY_USER, ORDINARY_USER);
    const { code, stderr } = await run(["adopt", "--yes"]);
    expect(code).toBe(1);
    expect(stderr).toContain("scripts/go.sh belongs to another user");
    expect(existsSync(skillsLock)).toBe(false);
  });

  it("includes one that skillet manages already: added or exported", async () => {
    const { run, installed, home } = createAddScene();
    const { url } = source();
    await run(["add", url, "--yes", "--to", "claude"]);
    for (const folder of [join(installed, "pdf"), join(home, ".claude/skills/pdf")]) {
      const { code, stderr } = await run(["adopt", folder, "--yes"]);
      expect(code).toBe(1);
      expect(stderr).toMatch(/was already added|is a copy that skillet made/);
    }
  });

  it("[Q-04] that changes between the check and the approval is recorded as it was checked", async () => {
    const { home, cwd, skillsLock, pdf } = scene();
    const adopting = adoptSkills({
      workspace: cwd,
      home,
      env: { HOME: home },
      approve(adoptions) {
        expect(adoptions.map(({ name }) => name)).toEqual(["pdf"]);
        appendFileSync(join(pdf, "scripts/go.sh"), "echo evil\n");
        return true;
      },
    });
    await expect(adopting).rejects.toMatchObject({ code: "resource-changed" });
    expect(existsSync(skillsLock)).toBe(false);
    expect(existsSync(join(home, ".skillet/trust.json"))).toBe(false);
  });
});

describe("skillet remove of an adopted skill", () => {
  it("stops managing it, and asks before it deletes the folder", async () => {
    const { run, pdf, skillsLock } = scene();
    await run(["adopt", "--yes"]);
    expect(await run(["remove", "pdf"]), "there is no user to ask").toMatchObject({ code: 3 });
    const kept = createAnswers("n");
    expect(await run(["remove", "pdf"], { ask: kept.ask })).toMatchObject({ code: 0 });
    expect(kept.asked).toEqual(["Also delete ~/.claude/skills/pdf, which existed before skillet managed it? [y/N] "]);
    expect([existsSync(pdf), existsSync(skillsLock)]).toEqual([true, false]);
    await run(["adopt", "--yes"]);
    expect(await run(["remove", "pdf", "--keep"])).toMatchObject({ code: 0 });
    expect(existsSync(pdf)).toBe(true);
    await run(["adopt", "--yes"]);
    appendFileSync(join(pdf, "SKILL.md"), "\nMine.\n");
    expect(await run(["remove", "pdf", "--yes"]), "edited since").toMatchObject({ code: 1 });
    expect(await run(["remove", "pdf", "--yes", "--force"])).toMatchObject({ code: 0 });
    expect([existsSync(pdf), existsSync(skillsLock)]).toEqual([false, false]);
    expect(JSON.parse((await run(["trust", "--list", "--json"])).stdout).trusted).toEqual([]);
  });

  it("asks which one when several folders have it; update and verify take all of them", async () => {
    const { run, home, pdf } = scene({ "home/.codex/skills/pdf/SKILL.md": skillText("pdf", { body: "Another." }) });
    expect(await run(["adopt", "--yes"])).toMatchObject({ code: 0 });
    const { code, stderr } = await run(["remove", "pdf", "--keep"]);
    expect(code).toBe(1);
    expect(stderr).toContain("name one: skillet remove pdf@~/.codex/skills; skillet remove pdf@~/.claude/skills");
    expect((await run(["verify", "pdf"])).stdout).toContain("2 skills");
    expect(await run(["remove", "pdf@~/.codex/skills", "--keep"])).toMatchObject({ code: 0 });
    expect(existsSync(join(home, ".codex/skills/skills.lock"))).toBe(false);
    expect(await run(["remove", "pdf", "--yes"])).toMatchObject({ code: 0 });
    expect(existsSync(pdf)).toBe(false);
  });

  it("works for a folder that no client reads", async () => {
    const { run } = createAddScene();
    const folder = temporaryFolder({ "pdf/SKILL.md": skillText("pdf") });
    expect(await run(["adopt", join(folder, "pdf"), "--yes"])).toMatchObject({ code: 0 });
    expect((await run(["list", "--installed"])).stdout).toContain("adopted in");
    expect(await run(["remove", "pdf", "--keep"])).toMatchObject({ code: 0 });
    expect((await run(["list", "--installed"])).stdout).toBe("");
  });
});

it("[Q-03] values of an adopted copy stay its own", async () => {
  const { run, pdf } = scene({
    "home/.claude/skills/pdf/SKILL.md": skillText("pdf", { more: "env: [TOKEN]\n" }),
    "home/.claude/skills/pdf/scripts/go.sh": '#!/bin/sh\ntest "$TOKEN" = secret-value && echo has it\n',
  });
  await run(["trust", pdf, "--yes"]);
  expect(await run(["config", "set", "skills.pdf.TOKEN"], { stdin: "secret-value" })).toMatchObject({ code: 0 });
  expect(await run(["script", "pdf", "go.sh"])).toMatchObject({ stdout: "has it\n" });
  expect(await run(["adopt", pdf, "--yes"])).toMatchObject({ code: 0 });
  expect(await run(["script", "pdf", "go.sh"])).toMatchObject({ code: 0, stdout: "has it\n" });
});
