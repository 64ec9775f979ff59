import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SkillError } from "../../src/errors/problem.ts";
import type { SourceAddress } from "../../src/remote/remote-source.ts";
import { formatSourceAddress, parseSourceAddress } from "../../src/remote/source-address.ts";
import { temporaryFolder } from "../support/folder.ts";

const HERE = { cwd: "/nowhere/here", home: "/home/me" };
const ELSEWHERE = { cwd: "/nowhere/else", home: "/home/other" };
const parse = (text: string) => parseSourceAddress(text, HERE);
const git = (url: string, more: { ref?: string; inside?: string } = {}): SourceAddress => ({
  kind: "git",
  url,
  ...more,
});
const SITE = "/.well-known/agent-skills/index.json";

function codeFor(text: string): string {
  try {
    return `none: ${JSON.stringify(parse(text))}`;
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    expect(error.fix, "names the fix").toBeTruthy();
    expect(error.message, "is one line without control sequences").toMatch(/^[^\x00-\x1f\x7f]+$/);
    return error.code;
  }
}

describe("an address", () => {
  it.each<[string, SourceAddress]>([
    ["./x", { kind: "folder", path: "/nowhere/here/x" }],
    ["../x/", { kind: "folder", path: "/nowhere/x" }],
    [".", { kind: "folder", path: "/nowhere/here" }],
    ["/a/b", { kind: "folder", path: "/a/b" }],
    ["/a/b//c/d", { kind: "folder", path: "/a/b", inside: "c/d" }],
    ["~/skills", { kind: "folder", path: "/home/me/skills" }],
    ["/a/b#c", { kind: "folder", path: "/a/b#c" }],
    ["/a/b/SKILL.md", { kind: "folder", path: "/a/b" }],
    ["./x.zip", { kind: "archive", location: "/nowhere/here/x.zip" }],
    ["/a/x.skill", { kind: "archive", location: "/a/x.skill" }],
    ["/a/x.tar.gz//sub", { kind: "archive", location: "/a/x.tar.gz", inside: "sub" }],
    ["/a/x.zip/", { kind: "folder", path: "/a/x.zip" }],
    ["https://example.com/x.tgz", { kind: "archive", location: "https://example.com/x.tgz" }],
    [
      "https://github.com/o/r/archive/main.zip",
      { kind: "archive", location: "https://github.com/o/r/archive/main.zip" },
    ],
    ["file:///a/x.zip", { kind: "archive", location: "/a/x.zip" }],
  ])("reads %s as a folder or an archive", (text, address) => {
    expect(parse(text)).toEqual(address);
  });

  it.each<[string, SourceAddress]>([
    ["owner/repo", git("https://github.com/owner/repo")],
    ["owner/repo.git#v1.2", git("https://github.com/owner/repo", { ref: "v1.2" })],
    ["owner/repo//sub/folder#ref", git("https://github.com/owner/repo", { inside: "sub/folder", ref: "ref" })],
    ["owner/repo#a/b//sub/folder", git("https://github.com/owner/repo", { inside: "sub/folder", ref: "a/b" })],
    ["https://github.com/owner/repo/", git("https://github.com/owner/repo")],
    ["https://github.com/o/r?tab=readme", git("https://github.com/o/r")],
    ["https://github.com/o/r/tree/main/a/b%20c", git("https://github.com/o/r", { ref: "main", inside: "a/b c" })],
    ["https://github.com/o/r/blob/v1/a/SKILL.md", git("https://github.com/o/r", { ref: "v1", inside: "a" })],
    ["https://gitlab.com/g/h/r/-/tree/main/a", git("https://gitlab.com/g/h/r", { ref: "main", inside: "a" })],
    ["https://gitlab.com/g/h/r", git("https://gitlab.com/g/h/r")],
    ["https://bitbucket.org/o/r/src/main/a/b", git("https://bitbucket.org/o/r", { ref: "main", inside: "a/b" })],
    ["https://codeberg.org/o/r/src/branch/x/a", git("https://codeberg.org/o/r", { ref: "x", inside: "a" })],
    ["https://git.example.com/team/repo", git("https://git.example.com/team/repo")],
    ["https://example.com/r.git//a#b", git("https://example.com/r.git", { inside: "a", ref: "b" })],
    ["git+https://example.com", git("https://example.com/")],
    ["git+https://example.com/x.zip", git("https://example.com/x.zip")],
    ["http://127.0.0.1:8080/r.git", git("http://127.0.0.1:8080/r.git")],
    ["ssh://git@example.com:22022/a/r", git("ssh://git@example.com:22022/a/r")],
    ["git@example.com:owner/repo.git//a#b", git("git@example.com:owner/repo.git", { inside: "a", ref: "b" })],
    ["file:///srv/r%20x", git("file:///srv/r%20x")],
    ["file:///srv/r//a#b", git("file:///srv/r", { inside: "a", ref: "b" })],
  ])("reads %s as a repository", (text, address) => {
    expect(parse(text)).toEqual(address);
  });

  it.each([
    ["https://example.com", `https://example.com${SITE}`],
    ["https://Example.com/", `https://example.com${SITE}`],
    [`https://example.com${SITE}`, `https://example.com${SITE}`],
    ["https://example.com/docs/.well-known/agent-skills/", `https://example.com/docs${SITE}`],
    ["http://localhost:3000", `http://localhost:3000${SITE}`],
  ])("reads %s as a site", (text, url) => {
    expect(parse(text)).toEqual({ kind: "site", url });
  });

  it("takes owner/repo for a repository despite a folder of that name, which it remembers", () => {
    const cwd = temporaryFolder({ "owner/repo/SKILL.md": "", "owner/repo/sub/SKILL.md": "" });
    const there = { cwd, home: "/home/me" };
    const namesake = "./owner/repo";
    const repository = git("https://github.com/owner/repo");
    expect(parseSourceAddress("owner/repo", there)).toEqual({ ...repository, namesake });
    expect(parseSourceAddress("owner/repo//sub#v1", there)).toEqual({
      ...repository,
      inside: "sub",
      ref: "v1",
      namesake,
    });
    expect(formatSourceAddress(parseSourceAddress("owner/repo", there))).toBe("https://github.com/owner/repo");
    for (const path of [namesake, "owner/repo/", "owner/../owner/repo"]) {
      expect(parseSourceAddress(path, there), path).toEqual({ kind: "folder", path: join(cwd, "owner/repo") });
    }
  });

  it("takes another spelling for an existing folder or file", () => {
    const cwd = temporaryFolder({
      "x/SKILL.md": "",
      "a/b/c/SKILL.md": "",
      "owner/repo/SKILL.md": "",
      "y.zip": "",
      "d/y.zip": "",
    });
    mkdirSync(join(cwd, "z.zip"));
    const there = { cwd, home: "/home/me" };
    expect(parseSourceAddress("x", there)).toEqual({ kind: "folder", path: join(cwd, "x") });
    expect(parseSourceAddress("a/b/c", there)).toEqual({ kind: "folder", path: join(cwd, "a/b/c") });
    expect(parseSourceAddress("d/y.zip", there)).toEqual({ kind: "archive", location: join(cwd, "d/y.zip") });
    expect(parseSourceAddress("owner//repo", there)).toEqual({
      kind: "folder",
      path: join(cwd, "owner"),
      inside: "repo",
    });
    expect(parseSourceAddress("y.zip", there)).toEqual({ kind: "archive", location: join(cwd, "y.zip") });
    expect(parseSourceAddress("z.zip", there)).toEqual({ kind: "folder", path: join(cwd, "z.zip") });
    expect(parseSourceAddress("x/SKILL.md", there)).toEqual({ kind: "folder", path: join(cwd, "x") });
    writeFileSync(join(cwd, "-rf"), "");
    expect(() => parseSourceAddress("-rf", there)).toThrow(/is an option/);
  });

  it.each([
    ["", "address-unknown"],
    ["x", "address-unknown"],
    ["a/b/c", "address-unknown"],
    ["owner/..", "address-unknown"],
    ["foo:bar", "address-unknown"],
    ["-oProxyCommand=x@host:repo", "address-option"],
    ["--upload-pack=touch pwned", "address-option"],
    ["ext::sh -c touch% pwned", "address-transport"],
    ["EXT::x", "address-transport"],
    ["fd::17", "address-transport"],
    ["anything::https://example.com", "address-transport"],
    ["git+ext::sh", "address-transport"],
    ["git://example.com/r", "address-scheme"],
    ["ftp://example.com/r", "address-scheme"],
    ["ext://sh", "address-scheme"],
    ["javascript://x", "address-scheme"],
    ["__proto__://x", "address-unknown"],
    ["constructor://x", "address-scheme"],
    ["http://example.com/r.git", "address-insecure"],
    ["http://127.0.0.1.example.com/r.git", "address-insecure"],
    ["https://me:secret@example.com/r.git", "address-secret"],
    ["https://ghp_0123456789abcdef0123456789abcdef0123@github.com/o/r", "address-secret"],
    ["ssh://me:secret@example.com/r", "address-secret"],
    ["https://example.com/x.zip?token=abc", "address-secret"],
    ["file://server/share/r", "address-host"],
    ["ssh://-oProxyCommand=touch%20pwned/r", "address-host"],
    ["ssh://git@-oProxyCommand=x/r", "address-host"],
    ["https://", "address-host"],
    ["git@-oProxyCommand=x:r", "address-unknown"],
    ["git@host:-x", "address-unknown"],
    ["https://github.com/owner", "address-incomplete"],
    ["https://github.com/", "address-incomplete"],
    ["owner/.git", "address-incomplete"],
    ["owner/...git", "address-incomplete"],
    ["file:////", "address-unknown"],
    ["file://#a", "address-unknown"],
    ["https://example.com#main", "address-part"],
    ["https://example.com/x.zip#main", "address-part"],
    ["owner/repo//../x", "address-subfolder"],
    ["owner/repo//a/%2e%2e/x", "address-subfolder"],
    ["owner/repo//a\\b", "address-subfolder"],
    ["owner/repo//%00", "address-subfolder"],
    ["owner/repo//50%", "address-subfolder"],
    ["/a//../x", "address-subfolder"],
    ["https://github.com/o/r/tree/main/a%2F..%2Fb", "address-subfolder"],
    ["owner/repo\u0000", "address-hidden"],
    ["owner/repo\n", "address-hidden"],
    ["owner/re\u200bpo", "address-hidden"],
    ["owner/re\u202epo", "address-hidden"],
    ["./a\u001b[8m", "address-hidden"],
    [`./${"x".repeat(3000)}`, "address-too-long"],
  ])("refuses %j", (text, code) => {
    expect(codeFor(text)).toBe(code);
  });

  it.each([
    ...["-x", "--upload-pack=x", "a..b", "a@{1}", "a b", "a:b", "a^", "a~1", "a?", "a*", "a[b", "a\\b", ""],
    ...["/a", "a/", "a.lock", ".a", "a.", "@", "x".repeat(256), "+a:b"],
  ])("refuses %j as a branch, tag or commit", (ref) => {
    expect(codeFor(`owner/repo#${ref}`)).toBe("address-ref");
  });

  it("does not repeat a password in its messages", () => {
    expect(() => parse("https://me:hunter2@example.com/r.git")).toThrow(/^(?!.*hunter2)/);
    expect(() => parse("https://me:hunter2@example.com/r.git")).toThrow(/skills\.lock/);
  });
});

const name = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_ .%#?é-]{0,10}[A-Za-z0-9é]$/);
const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const word = fc.stringMatching(/^[a-z0-9](?:-?[a-z0-9]){0,5}$/);
const inside = fc.option(path, { nil: undefined });
const ref = fc.option(fc.stringMatching(/^[a-z0-9+#%@][a-z0-9+#%@-]{0,9}(?:\/[a-z0-9]{1,4})?[a-z0-9]$/), {
  nil: undefined,
});
const ending = fc.constantFrom("", ".git", ".zip", ".tar.gz", "/SKILL.md");
const url = fc.oneof(
  fc.tuple(word, word).map(([owner, repo]) => `https://github.com/${owner}/${repo}`),
  fc.tuple(word, word, ending).map(([host, repo, end]) => `https://${host}.example.com/${repo}${end}`),
  fc.tuple(word, ending).map(([repo, end]) => `ssh://git@example.com:22/${repo}${end}`),
  fc.tuple(word, ending).map(([repo, end]) => `git@example.com:${repo}${end}`),
  fc
    .tuple(path, ending)
    .map(([folder, end]) => new URL(`file:///${folder.split("/").map(encodeURIComponent).join("/")}${end}`).href),
  fc.constant("https://example.com/"),
);
const given = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined)) as T;
const address: fc.Arbitrary<SourceAddress> = fc.oneof(
  fc
    .record({ path, ending, inside })
    .map((at) => given({ kind: "folder" as const, path: `/${at.path}${at.ending}`, inside: at.inside })),
  fc
    .record({ path, inside })
    .map((at) => given({ kind: "archive" as const, location: `/${at.path}.zip`, inside: at.inside })),
  fc
    .record({ word, inside })
    .map((at) =>
      given({ kind: "archive" as const, location: `https://example.com/${at.word}.tgz`, inside: at.inside }),
    ),
  fc.record({ url, ref, inside }).map((at) => given({ kind: "git" as const, ...at })),
  word.map((host) => ({ kind: "site" as const, url: `https://${host}.example.com${SITE}` })),
) as fc.Arbitrary<SourceAddress>;

describe("a formatted address", () => {
  it("[Q-25] parses back to the same address, wherever it is read", () => {
    fc.assert(
      fc.property(address, (at) => {
        expect(parseSourceAddress(formatSourceAddress(at), ELSEWHERE)).toEqual(at);
      }),
      { numRuns: 2000 },
    );
  });

  it("[Q-25] is the same for every valid address, and any other text is refused with a code", () => {
    const piece = fc.oneof(
      fc.constantFrom(
        "https://",
        "git+",
        "file://",
        "ssh://",
        "git@",
        "github.com/",
        "//",
        "#",
        "..",
        "::",
        ":",
        "~",
        "/",
        "./",
        "%",
        "%2f",
        "?",
        "@",
        "-",
      ),
      fc.constantFrom(
        "example.com",
        "tree/main",
        ".zip",
        ".git",
        "SKILL.md",
        ".well-known/agent-skills/index.json",
        "[::1]",
        "127.0.0.1",
        " ",
      ),
      fc.stringMatching(/^[a-z0-9é.-]{1,6}$/),
      fc.string({ maxLength: 4 }),
    );
    const text = fc.array(piece, { minLength: 1, maxLength: 7 }).map((pieces) => pieces.join(""));
    let understood = 0;
    fc.assert(
      fc.property(text, (typed) => {
        let at: SourceAddress;
        try {
          at = parse(typed);
        } catch (error) {
          expect(error).toBeInstanceOf(SkillError);
          return;
        }
        understood++;
        const said = formatSourceAddress(at);
        expect(parseSourceAddress(said, ELSEWHERE)).toEqual(at);
        expect(formatSourceAddress(parseSourceAddress(said, ELSEWHERE))).toBe(said);
      }),
      { numRuns: 5000 },
    );
    expect(understood, "not all of them are refused").toBeGreaterThan(100);
  });
});
