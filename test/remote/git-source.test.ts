import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { fetchGit, type GitSourceAddress, readRemoteCommit } from "../../src/remote/git-fetch.ts";
import type { FetchSourceOptions, SourceAddress } from "../../src/remote/remote-source.ts";
import { createGit } from "../../src/sandbox/git.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { addLink, addSubmodule, makeRepository } from "../support/repositories.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { type Answer, startFiles, startGitServer, startSite } from "../support/skill-site.ts";
import { waitFor } from "../support/wait-for.ts";

const SKILL = { "skills/greet/SKILL.md": skillText("greet"), "README.md": "# Read me\n" };

function at(url: string, more: { ref?: string; inside?: string } = {}): GitSourceAddress {
  return { kind: "git", url, ...more } satisfies SourceAddress;
}

function fetched(address: GitSourceAddress, options: Partial<FetchSourceOptions> = {}) {
  return fetchGit(address, { to: temporaryFolder(), env: process.env, ...options });
}

function commandLines(): string[] {
  return execFileSync("ps", ["-A", "-o", "args="], { encoding: "utf8" }).split("\n");
}

const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

describe("fetching a repository", () => {
  it("[S-33] writes the files of its default branch, byte for byte, and leaves nothing of git", async () => {
    const binary = Uint8Array.from({ length: 70_000 }, (_, index) => (index * 7) % 256);
    const repository = makeRepository({ ...SKILL, "data.bin": binary, "empty.txt": "", "ä ö/ü.md": "x\r\ny\n" });
    repository.git("update-index", "--chmod=+x", "README.md");
    repository.git("commit", "-qm", "mode");
    const to = temporaryFolder();
    const { folder, commit, links, notes } = await fetched(at(repository.url), { to });
    expect(filesIn(folder)).toEqual(["README.md", "data.bin", "empty.txt", "skills/greet/SKILL.md", "ä ö/ü.md"]);
    expect(readFileSync(join(folder, "data.bin")).equals(binary)).toBe(true);
    expect(readFileSync(join(folder, "ä ö/ü.md"), "utf8")).toBe("x\r\ny\n");
    expect(statSync(join(folder, "README.md")).mode & 0o777).toBe(0o755);
    expect(statSync(join(folder, "data.bin")).mode & 0o777).toBe(0o644);
    expect(commit).toBe(repository.git("rev-parse", "HEAD"));
    expect([[...links], notes]).toEqual([[], []]);
    expect([readdirSync(to), folder]).toEqual([[basename(to)], join(to, basename(to))]);
  });

  it("writes only the requested folder, with relative paths", async () => {
    const { url } = makeRepository({ ...SKILL, "skills/greet/a/b.txt": "b" });
    const { folder } = await fetched(at(url, { inside: "skills/greet" }));
    expect(filesIn(folder)).toEqual(["SKILL.md", "a/b.txt"]);
  });

  it("lists the folders with skills when the requested one is missing or a file", async () => {
    const { url } = makeRepository(SKILL);
    for (const inside of ["skill/greet", "README.md"]) {
      await expect(fetched(at(url, { inside }))).rejects.toMatchObject({
        code: "source-folder-missing",
        fix: 'the source has skills in "skills/greet"',
      });
    }
  });

  it("accepts a branch, a tag, an annotated tag or a commit", async () => {
    const repository = makeRepository({ "a.txt": "1" });
    const first = repository.git("rev-parse", "HEAD");
    repository.git("tag", "light");
    repository.git("tag", "--annotate", "--message", "x", "heavy");
    repository.git("branch", "feature/old");
    repository.commit({ "a.txt": "2" });
    const ids = [first, first.toUpperCase(), repository.git("rev-parse", "heavy")];
    for (const ref of ["light", "heavy", "feature/old", "refs/heads/feature/old", ...ids]) {
      const { folder, commit } = await fetched(at(repository.url, { ref }));
      expect([ref, commit, readFileSync(join(folder, "a.txt"), "utf8")]).toEqual([ref, first, "1"]);
    }
  });

  it("takes 40 hexadecimal digits for a commit and never for a branch with that name", async () => {
    const repository = makeRepository({ "a.txt": "honest" });
    const honest = repository.git("rev-parse", "HEAD");
    const evil = repository.commit({ "a.txt": "evil" });
    const unborn = "0123456789abcdef0123456789abcdef01234567";
    for (const name of [honest, unborn]) {
      repository.git("update-ref", `refs/heads/${name}`, evil);
      repository.git("update-ref", `refs/tags/${name}`, evil);
    }
    const { folder, commit } = await fetched(at(repository.url, { ref: honest }));
    expect([commit, readFileSync(join(folder, "a.txt"), "utf8")]).toEqual([honest, "honest"]);
    await expect(fetched(at(repository.url, { ref: unborn }))).rejects.toMatchObject({ code: "git-commit-missing" });
    await expect(fetched(at(repository.url), { commit: unborn })).rejects.toMatchObject({ code: "git-commit-missing" });
    expect(await readRemoteCommit(at(repository.url, { ref: honest }), { env: {} })).toBe(honest);
  });

  it("fetches the given commit, wherever the branch is now", async () => {
    const repository = makeRepository({ "a.txt": "1" });
    const first = repository.git("rev-parse", "HEAD");
    repository.commit({ "a.txt": "2" });
    const { folder, commit } = await fetched(at(repository.url, { ref: "main" }), { commit: first });
    expect([commit, readFileSync(join(folder, "a.txt"), "utf8")]).toEqual([first, "1"]);
  });

  it("fetches over http from a static server, also a commit inside a branch", async () => {
    const repository = makeRepository({ "a.txt": "1" });
    const first = repository.git("rev-parse", "HEAD");
    repository.commit({ "a.txt": "2" });
    repository.git("update-server-info");
    const { url } = await startFiles(repository.folder);
    const newest = await fetched(at(`${url}/.git`));
    expect(readFileSync(join(newest.folder, "a.txt"), "utf8")).toBe("2");
    const pinned = await fetched(at(`${url}/.git`, { ref: "main" }), { commit: first });
    expect([pinned.commit, readFileSync(join(pinned.folder, "a.txt"), "utf8")]).toEqual([first, "1"]);
    expect(await readRemoteCommit(at(`${url}/.git`), { env: {} })).toBe(newest.commit);
    const none = "0123456789abcdef0123456789abcdef01234567";
    await expect(fetched(at(`${url}/.git`, { ref: none }))).rejects.toMatchObject({ code: "git-commit-missing" });
    await expect(fetched(at(`${url}/nothing`))).rejects.toMatchObject({ code: "git-not-found" });
  });

  it("fetches all branches when a server serves no single commit", async () => {
    const repository = makeRepository({ "a.txt": "1" });
    const first = repository.git("rev-parse", "HEAD");
    repository.commit({ "a.txt": "2" });
    repository.git("update-ref", `refs/heads/${first}`, "HEAD");
    const { url } = await startGitServer(repository.folder);
    const newest = await fetched(at(`${url}/.git`));
    expect(readFileSync(join(newest.folder, "a.txt"), "utf8")).toBe("2");
    const pinned = await fetched(at(`${url}/.git`, { ref: first }));
    expect([pinned.commit, readFileSync(join(pinned.folder, "a.txt"), "utf8")]).toEqual([first, "1"]);
  });

  describe("a redirect of a server", () => {
    const ASKED = "/info/refs?service=git-upload-pack";
    const sentTo =
      (location: string): Answer =>
      (_, response) =>
        response.writeHead(301, { location }).end();

    /** Serves the files of a repository below /r.git, and these answers. */
    async function server(answers: Record<string, Answer> = {}) {
      const { folder, git } = makeRepository(SKILL);
      git("update-server-info");
      const files = filesIn(join(folder, ".git")).map((path) => [
        path === "info/refs" ? `/r.git${ASKED}` : `/r.git/${path}`,
        readFileSync(join(folder, ".git", path)),
      ]);
      return startSite({ ...Object.fromEntries(files), ...answers });
    }

    it("is followed, also twice, on the same host", async () => {
      const { url } = await server({
        [`/old${ASKED}`]: sentTo(`/older.git${ASKED}`),
        [`/older.git${ASKED}`]: sentTo(`/r.git${ASKED}`),
      });
      const { folder, commit } = await fetched(at(`${url}/old`));
      expect(filesIn(folder)).toEqual(["README.md", "skills/greet/SKILL.md"]);
      expect(await readRemoteCommit(at(`${url}/old`), { env: {} })).toBe(commit);
    });

    it("to another host is not followed, and the fix is named", async () => {
      const other = await server();
      const elsewhere = other.url.replace("127.0.0.1", "localhost");
      const { url } = await server({ [`/old${ASKED}`]: sentTo(`${elsewhere}/r.git${ASKED}`) });
      const failure = {
        code: "download-redirect",
        message: `"${url}/old" redirects to "${new URL(elsewhere).host}"`,
        fix: `if you trust that host, use its address: "${elsewhere}/r.git"`,
      };
      await expect(fetched(at(`${url}/old`))).rejects.toMatchObject(failure);
      await expect(readRemoteCommit(at(`${url}/old`), { env: {} })).rejects.toMatchObject(failure);
      expect(other.asked).toEqual([]);
    });

    it.each(["/r.git/info/refs?service=git-upload-pack", "/sign-in", "file:///etc/info/refs", "//[/info/refs"])(
      "is refused if it is endless or leads to another type: %s",
      async (place) => {
        const { url } = await startSite({ [`/r.git${ASKED}`]: sentTo(place) });
        await expect(fetched(at(`${url}/r.git`))).rejects.toMatchObject({ code: "download-redirect" });
      },
    );
  });

  it("suggests the spelling of the folder, when a host name appears and when it fails", async () => {
    const { url } = makeRepository(SKILL);
    const namesake = "./owner/repo";
    const { notes } = await fetched({ ...at(url), namesake });
    expect(notes).toEqual([`It is from "${url}": to add the local folder, use ./owner/repo`]);
    await expect(fetched({ ...at(`${url}-none`), namesake })).rejects.toMatchObject({
      code: "git-not-found",
      fix: expect.stringMatching(/^to add the local folder, use \.\/owner\/repo; otherwise check the address/),
    });
  });

  it("keeps links as text and creates none, and fetches no submodule", async () => {
    const repository = makeRepository(SKILL);
    addLink(repository, "skills/greet/out", "../../../../etc/passwd");
    addSubmodule(repository, "skills/greet/lib", "../..");
    const { folder, links, notes } = await fetched(at(repository.url));
    expect([...links]).toEqual([["skills/greet/out", "../../../../etc/passwd"]]);
    expect(notes).toEqual(['"skills/greet/lib" is a submodule, and was not fetched']);
    expect(filesIn(folder)).toEqual([".gitmodules", "README.md", "skills/greet/SKILL.md"]);
  });

  it("returns many complete files in order", async () => {
    const count = IS_LONG ? 1000 : 250;
    const files = Object.fromEntries(
      Array.from({ length: count }, (_, index) => [`s/${index}/SKILL.md`, `${index} `.repeat(index % 97)]),
    );
    const { folder } = await fetched(at(makeRepository(files).url));
    const paths = filesIn(folder);
    expect(paths).toHaveLength(count);
    expect(paths.filter((path) => readFileSync(join(folder, path), "utf8") !== files[path])).toEqual([]);
  });
});

describe("a repository that cannot be fetched", () => {
  it.each([
    ["a missing branch", { ref: "feature" }, "git-ref-missing", "use a branch, a tag, or a commit with all 40 digits"],
    ["a misspelled branch", { ref: "mian" }, "git-ref-missing", 'did you mean "main"?'],
    ["half a commit", { ref: "0123456" }, "git-ref-missing", "use a branch, a tag, or a commit with all 40 digits"],
  ])("is named with the fix: %s", async (_, more, code, fix) => {
    const { url } = makeRepository(SKILL);
    await expect(fetched(at(url, more))).rejects.toMatchObject({ code, fix });
    await expect(readRemoteCommit(at(url, more), { env: {} })).rejects.toMatchObject({ code });
  });

  it("can be empty, missing, another type, or on an unknown host", async () => {
    await expect(fetched(at(makeRepository().url))).rejects.toMatchObject({ code: "git-empty" });
    await expect(readRemoteCommit(at(makeRepository().url), { env: {} })).rejects.toMatchObject({ code: "git-empty" });
    await expect(fetched(at("file:///nowhere/at/all"))).rejects.toMatchObject({ code: "git-not-found" });
    await expect(fetched(at(`file://${temporaryFolder()}`))).rejects.toMatchObject({ code: "git-not-found" });
    await expect(fetched(at("http://127.0.0.1:1/r.git"))).rejects.toMatchObject({ code: "git-unreachable" });
    await expect(fetched(at("ssh://git@127.0.0.1:1/r"))).rejects.toMatchObject({
      code: expect.stringMatching(/^git-/),
    });
  });

  it("is stopped when it exceeds its limit, and leaves nothing", async () => {
    const noise = Buffer.alloc(3_000_000);
    for (let at = 0, value = 1; at < noise.length; at++)
      noise[at] = value = ((value * 69069 + 1) >>> 24) ^ ((at * 2654435761) >>> 13);
    const { url } = makeRepository({ "a.bin": noise });
    const to = temporaryFolder();
    const fetching = fetchGit(at(url), { to, env: {} }, 1000);
    await expect(fetching).rejects.toMatchObject({ code: "source-too-large" });
    expect(readdirSync(to)).toEqual([]);
  });

  it("can need a sign-in without credentials, and no user is asked", async () => {
    const { url } = await startSite({
      "/r.git/info/refs?service=git-upload-pack": (_, response) =>
        response.writeHead(401, { "www-authenticate": 'Basic realm="x"' }).end(),
    });
    await expect(fetched(at(`${url}/r.git`))).rejects.toMatchObject({ code: "git-sign-in" });
  });

  it("is stopped after a silence that is too long, and on abort", async () => {
    const { url, asked } = await startSite({ "/r.git/info/refs?service=git-upload-pack": () => {} });
    const options = { env: {}, repository: "/dev/null", protocol: "http" } as const;
    const silent = await createGit({ ...options, timeoutSeconds: 0.3 });
    await expect(silent.run(["ls-remote", "--", `${url}/r.git`])).rejects.toMatchObject({ code: "git-timeout" });
    const stop = new AbortController();
    const before = asked.length;
    const fetching = readRemoteCommit(at(`${url}/r.git`), { env: {}, signal: stop.signal });
    void waitFor(() => asked.length > before).then(() => stop.abort());
    await expect(fetching).rejects.toMatchObject({ code: "fetch-aborted" });
    await waitFor(() => expect(commandLines().filter((line) => line.includes(url))).toEqual([]));
  });

  it("is aborted at once, with all processes of git", async () => {
    const { url } = makeRepository(SKILL);
    const to = temporaryFolder();
    const signal = AbortSignal.abort();
    await expect(fetched(at(url), { to, signal })).rejects.toMatchObject({ code: "fetch-aborted" });
    expect(readdirSync(to)).toEqual([]);
  });
});

describe("the remote commit of a branch", () => {
  it("is found without a fetch, for branches, tags and annotated tags", async () => {
    const repository = makeRepository({ "a.txt": "1" });
    const first = repository.git("rev-parse", "HEAD");
    repository.git("tag", "--annotate", "--message", "x", "heavy");
    repository.git("branch", "x/main");
    const second = repository.commit({ "a.txt": "2" });
    const told = (ref?: string) => readRemoteCommit(at(repository.url, ref === undefined ? {} : { ref }), { env: {} });
    expect([await told(), await told("main"), await told("heavy"), await told("x/main")]).toEqual([
      second,
      second,
      first,
      first,
    ]);
  });
});

describe("the settings of git", () => {
  const home = () =>
    temporaryFolder({
      ".gitconfig": `[credential "https://example.com"]
	helper = "!echo \\"a b\\""
[http]
	proxy = http://127.0.0.1:9
	sslVerify = false
[http "https://example.com"]
	sslVerify = false
	followRedirects = true
	extraHeader = "X-A: b\\nc"
[core]
	hooksPath = /evil
	sshCommand = evil
[url "ext::evil"]
	insteadOf = https://
[alias]
	fetch = !evil
`,
    });
  const settingsOf = async (protocol: "file" | "http" | "https" | "ssh") => {
    const git = await createGit({ env: { HOME: home() }, repository: "/dev/null", protocol });
    const { stdout } = await git.run(["config", "--null", "--list"]);
    return stdout.toString().split("\0");
  };

  it("are the user's only for sign-in and network, and never when they weaken it", async () => {
    const seen = await settingsOf("https");
    expect(seen).toContain('credential.https://example.com.helper\n!echo "a b"');
    expect(seen).toContain("http.proxy\nhttp://127.0.0.1:9");
    expect(seen).toContain("http.https://example.com.extraheader\nX-A: b\nc");
    expect(seen).toContain("core.hookspath\n/dev/null");
    expect(seen.filter((setting) => /followredirects/.test(setting))).toEqual(["http.followredirects\nfalse"]);
    expect(seen.join("\0")).not.toMatch(/sslverify|insteadof|evil|alias/i);
  });

  it("are skillet's own for every other protocol", async () => {
    for (const protocol of ["file", "http", "ssh"] as const) {
      expect((await settingsOf(protocol)).join("\0")).not.toMatch(/credential|http\.(?!followredirects\nfalse)|evil/);
    }
  });
});
