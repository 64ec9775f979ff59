import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SkillError } from "../../src/errors/problem.ts";
import { findCandidate, prepareCandidate } from "../../src/remote/candidate.ts";
import { fetchListing, fetchSource } from "../../src/remote/fetch-source.ts";
import type { SourceAddress } from "../../src/remote/remote-source.ts";
import { parseSourceAddress } from "../../src/remote/source-address.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { addLink, addSubmodule, createCanary, makeRepository, type Repository } from "../support/repositories.ts";

const SKILL = { "greet/SKILL.md": skillText("greet") };

/** A folder in which nothing may appear, and a program that writes something there. */
function openTrap() {
  const folder = temporaryFolder();
  const pwned = join(folder, "pwned");
  const program = join(folder, "program");
  createCanary(program, pwned);
  return { pwned, program, hasSprung: () => existsSync(pwned), folder };
}

/** The outcome of fetching: a code, or `fetched`. */
async function outcomeOf(
  address: SourceAddress,
  env: Record<string, string | undefined> = process.env,
): Promise<string> {
  try {
    await fetchSource(address, { to: temporaryFolder(), env });
    return "fetched";
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    expect(error.fix, error.message).toBeTruthy();
    return error.code;
  }
}

const at = (url: string, more: { ref?: string; inside?: string } = {}): SourceAddress => ({
  kind: "git",
  url,
  ...more,
});

describe("an address that is a command", () => {
  it.each([
    ["ext::sh -c touch% PWNED", "address-transport"],
    ["git+ext::sh -c touch% PWNED", "address-transport"],
    ["fd::7", "address-transport"],
    ["--upload-pack=touch PWNED", "address-option"],
    ["-u touch PWNED", "address-option"],
    ["ssh://-oProxyCommand=touch%20PWNED/x", "address-host"],
    ["git@-oProxyCommand=touch:x", "address-unknown"],
    ["owner/repo#--upload-pack=touch PWNED", "address-ref"],
  ])("runs nothing and has its code: %s", (text, code) => {
    const trap = openTrap();
    const options = { cwd: trap.folder, home: trap.folder };
    expect(() => parseSourceAddress(text.replace("PWNED", trap.pwned), options)).toThrow(
      expect.objectContaining({ code }),
    );
    expect(trap.hasSprung()).toBe(false);
  });

  it("runs nothing either when it bypasses the parser of addresses", async () => {
    const trap = openTrap();
    const { url } = makeRepository(SKILL);
    const command = `touch ${trap.pwned}`;
    const addresses = [
      at(`ext::sh -c ${command.replaceAll(" ", "% ")}`),
      at(`--upload-pack=${command}`),
      at(`-u${command}`),
      at("ssh://-oProxyCommand=touch%20x/y"),
      at(url, { ref: `--upload-pack=${command}` }),
      at(url, { ref: `x --upload-pack=${command}` }),
      at(url, { inside: `--output=${trap.pwned}` }),
    ];
    for (const address of addresses) {
      expect(await outcomeOf(address), JSON.stringify(address)).toMatch(/^(?:git-|address-ref|source-folder-missing)/);
    }
    expect(trap.hasSprung()).toBe(false);
  });
});

describe("a manipulated lock file", () => {
  it("cannot name a branch or commit that git reads as something else", async () => {
    const { url } = makeRepository(SKILL);
    for (const ref of ["refs/heads/*", "main:refs/heads/x", "^main", "--upload-pack=x", "main^{tree}", "@{u}", ""]) {
      expect(await outcomeOf(at(url, { ref })), ref).toBe("address-ref");
    }
    for (const commit of ["main", "HEAD", "--upload-pack=x", "", `${"0".repeat(40)}:x`, "0".repeat(39)]) {
      const fetching = fetchSource(at(url), { to: temporaryFolder(), env: {}, commit });
      await expect(fetching, commit).rejects.toMatchObject({ code: "git-commit-missing" });
    }
  });
});

describe("a repository that tries to run a program", () => {
  it("[Q-12] is fetched without hooks, filters, templates and programs of the environment", async () => {
    const trap = openTrap();
    const repository = makeRepository({
      ...SKILL,
      ".gitattributes": "* filter=lfs diff=evil merge=evil ident eol=crlf\n",
      "large.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n$Id$\n",
    });
    for (const hook of ["post-checkout", "post-merge", "reference-transaction", "post-index-change", "pre-auto-gc"]) {
      createCanary(join(trap.folder, "template/hooks", hook), trap.pwned);
      createCanary(join(trap.folder, "hooks", hook), trap.pwned);
      createCanary(join(repository.folder, ".git/hooks", hook), trap.pwned);
    }
    writeFiles(trap.folder, {
      ".gitconfig": [
        `[core]\nhooksPath = ${trap.folder}/hooks\nfsmonitor = ${trap.program}\nsshCommand = ${trap.program}\npager = ${trap.program}`,
        `[init]\ntemplateDir = ${trap.folder}/template`,
        `[filter "lfs"]\nsmudge = ${trap.program}\nprocess = ${trap.program}\nrequired = true`,
        `[uploadpack]\npackObjectsHook = ${trap.program}`,
        `[url "ext::${trap.program} "]\ninsteadOf = file://`,
        '[protocol "ext"]\nallow = always',
        "[submodule]\nrecurse = true",
      ].join("\n"),
    });
    const env = {
      ...process.env,
      HOME: trap.folder,
      GIT_TEMPLATE_DIR: join(trap.folder, "template"),
      GIT_SSH_COMMAND: trap.program,
      GIT_SSH: trap.program,
      GIT_ASKPASS: trap.program,
      GIT_PROXY_COMMAND: trap.program,
      GIT_EXTERNAL_DIFF: trap.program,
      GIT_ALLOW_PROTOCOL: "ext:file",
      GIT_CONFIG_COUNT: "1",
      GIT_CONFIG_KEY_0: "uploadpack.packObjectsHook",
      GIT_CONFIG_VALUE_0: trap.program,
      GIT_EXEC_PATH: trap.folder,
      PATH: `${trap.folder}:${process.env["PATH"]}`,
    };
    createCanary(join(trap.folder, "git"), trap.pwned);
    const fetched = await fetchSource(at(repository.url), { to: temporaryFolder(), env });
    expect(trap.hasSprung()).toBe(false);
    expect(readFileSync(join(fetched.folder, "large.bin"), "utf8"), "as it is in the repository").toMatch(
      /size 1\n\$Id\$\n$/,
    );
    // The same settings do run a program in plain git: the trap is a real one.
    const plain = { ...env, GIT_EXEC_PATH: undefined, PATH: process.env["PATH"] };
    const clone = ["clone", "--quiet", repository.folder, join(trap.folder, "clone")];
    try {
      execFileSync("git", clone, { env: plain, stdio: "ignore" });
    } catch {} // Its outcome does not matter.
    expect(trap.hasSprung()).toBe(true);
  });

  it("has no influence through settings of the server side", async () => {
    const trap = openTrap();
    const { folder, url } = makeRepository(SKILL);
    const own = readFileSync(join(folder, ".git/config"), "utf8");
    const tricks = `
[core]
	fsmonitor = ${trap.program}
	sshCommand = ${trap.program}
	alternateRefsCommand = ${trap.program}
	hooksPath = ${trap.folder}
[uploadpack]
	packObjectsHook = ${trap.program}
[include]
	path = ${trap.folder}/more
`;
    writeFileSync(join(folder, ".git/config"), `${own}${tricks}`);
    expect(await outcomeOf(at(url))).toBe("fetched");
    expect(trap.hasSprung()).toBe(false);
  });

  it("triggers no further fetch, though it declares missing objects and their address", async () => {
    const trap = openTrap();
    const repository = makeRepository(SKILL);
    const blob = repository.git("rev-parse", "HEAD:greet/SKILL.md");
    rmSync(join(repository.folder, ".git/objects", blob.slice(0, 2), blob.slice(2)));
    for (const [key, value] of [
      ["core.repositoryFormatVersion", "1"],
      ["extensions.partialClone", "evil"],
      ["remote.evil.url", `ext::${trap.program}`],
      ["remote.evil.promisor", "true"],
      ["remote.evil.uploadpack", trap.program],
      ["protocol.ext.allow", "always"],
    ] as const) {
      repository.git("config", key, value);
    }
    expect(await outcomeOf(at(repository.url))).toMatch(/^git-/);
    expect(trap.hasSprung()).toBe(false);
  });

  it("triggers no fetch of submodules, whatever their address", async () => {
    for (const url of ["../..", "ext::sh -c touch% pwned", "--upload-pack=touch pwned", "file:///"]) {
      const repository = makeRepository(SKILL);
      addSubmodule(repository, "greet/lib", url);
      const { folder, notes } = await fetchSource(at(repository.url), { to: temporaryFolder(), env: {} });
      expect(notes).toEqual([expect.stringContaining("greet/lib")]);
      expect(readdirSync(join(folder, "greet"))).toEqual(["SKILL.md"]);
    }
  });
});

describe("a malformed commit", () => {
  const BLOB = "100644";
  const TREE = "40000";
  const LINK = "120000";

  /** Objects are written unchanged, whatever their names. */
  function treeOf(
    { folder, git }: Repository,
    entries: readonly (readonly [mode: string, name: string, id: string])[],
  ): string {
    const bytes = entries.map(([mode, name, id]) =>
      Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, "hex")]),
    );
    writeFileSync(join(folder, ".git/tree"), Buffer.concat(bytes));
    return git("hash-object", "-t", "tree", "--literally", "-w", ".git/tree");
  }

  it.each<[string, (repository: Repository, blob: string) => string, string]>([
    ["..", (r, blob) => treeOf(r, [[TREE, "..", treeOf(r, [[BLOB, "evil", blob]])]]), "entry-traversal"],
    ["a slash in a name", (r, blob) => treeOf(r, [[BLOB, "a/../../evil", blob]]), "entry-traversal"],
    ["a path from the root", (r, blob) => treeOf(r, [[BLOB, "/tmp/evil", blob]]), "entry-absolute"],
    [".git", (r, blob) => treeOf(r, [[TREE, ".git", treeOf(r, [[BLOB, "config", blob]])]]), "entry-repository"],
    [".GIT", (r, blob) => treeOf(r, [[TREE, ".GIT", treeOf(r, [[BLOB, "config", blob]])]]), "entry-repository"],
    ["a backslash", (r, blob) => treeOf(r, [[BLOB, "..\\evil", blob]]), "entry-backslash"],
    ["a newline", (r, blob) => treeOf(r, [[BLOB, "a\nb", blob]]), "entry-control"],
    [
      "a name twice",
      (r, blob) =>
        treeOf(r, [
          [BLOB, "a", blob],
          [BLOB, "a", blob],
        ]),
      "duplicate-entry",
    ],
    [
      "a file through a link",
      (r, blob) =>
        treeOf(r, [
          [LINK, "a", blob],
          [TREE, "a", treeOf(r, [[BLOB, "b", blob]])],
        ]),
      "entry-through-symlink",
    ],
  ])("is refused entirely: %s", async (_, make, code) => {
    const repository = makeRepository(SKILL);
    const tree = make(repository, repository.git("rev-parse", "HEAD:greet/SKILL.md"));
    repository.git("update-ref", "HEAD", repository.git("commit-tree", "-m", "x", tree));
    const to = temporaryFolder();
    await expect(fetchSource(at(repository.url), { to, env: {} })).rejects.toMatchObject({ code });
    expect(existsSync(join(to, "evil")) || existsSync("/tmp/evil")).toBe(false);
  });

  it("is accepted without a file that is refused individually, and reports it", async () => {
    const repository = makeRepository(SKILL);
    const blob = repository.git("rev-parse", "HEAD:greet/SKILL.md");
    const tree = treeOf(repository, [
      [BLOB, "A", blob],
      [BLOB, "a", blob],
    ]);
    repository.git("update-ref", "HEAD", repository.git("commit-tree", "-m", "x", tree));
    const { folder, refused } = await fetchSource(at(repository.url), { to: temporaryFolder(), env: {} });
    expect(readdirSync(folder)).toEqual(["A"]);
    expect([...refused]).toMatchObject([["a", { code: "entry-collision" }]]);
  });

  it("creates no link, and follows no existing one", async () => {
    const repository = makeRepository(SKILL);
    addLink(repository, "greet/secret", "/etc/passwd");
    addLink(repository, "loop", "loop");
    const { folder, links } = await fetchSource(at(repository.url), { to: temporaryFolder(), env: {} });
    expect([...links]).toEqual([
      ["greet/secret", "/etc/passwd"],
      ["loop", "loop"],
    ]);
    expect(readdirSync(folder, { recursive: true }).sort()).toEqual(["greet", "greet/SKILL.md"]);
  });
});

describe("a folder that tries to run a program", () => {
  it("is copied without git, and without files that git would act on", async () => {
    const trap = openTrap();
    const { folder } = makeRepository({ ...SKILL, "sub/.gitattributes": "* filter=x\n" });
    for (const hook of ["post-checkout", "fsmonitor-watchman"])
      createCanary(join(folder, ".git/hooks", hook), trap.pwned);
    writeFileSync(
      join(folder, ".git/config"),
      `[core]\nfsmonitor = ${trap.program}\n[filter "x"]\nsmudge = ${trap.program}\n`,
    );
    mkdirSync(join(folder, "sub/.git"));
    const fetched = await fetchSource({ kind: "folder", path: folder }, { to: temporaryFolder(), env: process.env });
    expect(readdirSync(fetched.folder, { recursive: true }).sort()).toEqual([
      "greet",
      "greet/SKILL.md",
      "sub",
      "sub/.gitattributes",
    ]);
    expect(trap.hasSprung()).toBe(false);
  });

  it("is refused for a pipe in it, without waiting", async () => {
    const folder = temporaryFolder(SKILL);
    execFileSync("mkfifo", [join(folder, "greet/pipe")]);
    const work = temporaryFolder();
    const { fetched, listing: offer } = await fetchListing({ kind: "folder", path: folder }, work, {
      env: process.env,
    });
    expect(readdirSync(join(fetched.folder, "greet"))).toEqual(["SKILL.md"]);
    await expect(
      async () => await prepareCandidate(findCandidate("greet", offer), fetched, join(work, "greet")),
    ).rejects.toThrow(expect.objectContaining({ code: "entry-kind" }));
  });

  it("returns nothing through a link, neither of a file nor of a folder in it", async () => {
    const outside = temporaryFolder({ "secret.txt": "secret", "inner/SKILL.md": skillText("inner") });
    const folder = temporaryFolder(SKILL);
    symlinkSync(outside, join(folder, "out"));
    symlinkSync(join(outside, "secret.txt"), join(folder, "greet/secret"));
    const { folder: written, links } = await fetchSource(
      { kind: "folder", path: folder },
      { to: temporaryFolder(), env: {} },
    );
    expect([...links.keys()]).toEqual(["greet/secret", "out"]);
    expect(readdirSync(written, { recursive: true }).sort()).toEqual(["greet", "greet/SKILL.md"]);
    expect(await outcomeOf({ kind: "folder", path: folder, inside: "out/inner" })).toBe("source-folder-missing");
  });

  it("cannot contain the folder that it is copied to", async () => {
    const path = temporaryFolder(SKILL);
    const to = join(path, "deep/staging");
    mkdirSync(to, { recursive: true });
    await expect(fetchSource({ kind: "folder", path }, { to, env: {} })).rejects.toMatchObject({
      code: "source-contains-target",
    });
  });
});
