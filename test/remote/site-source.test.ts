import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { fetchSite } from "../../src/remote/fetch-source.ts";
import type { FetchSourceOptions } from "../../src/remote/remote-source.ts";
import { packageVersion } from "../../src/util/system.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { type Answer, INDEX_PATH, siteEntry, siteIndex, startSite, tarGz } from "../support/skill-site.ts";

const GREET = skillText("greet");
const greet = (url = "/skills/greet.md") => siteEntry("greet", "skill-md", url, GREET);

async function fetched(answers: Record<string, Answer>, options: Partial<FetchSourceOptions> = {}) {
  const site = await startSite({ "/skills/greet.md": GREET, ...answers });
  const address = { kind: "site", url: `${site.url}${INDEX_PATH}` } as const;
  const result = fetchSite(address, { to: temporaryFolder(), env: {}, ...options });
  return { site, result };
}

async function codeOf(answers: Record<string, Answer>, options: Partial<FetchSourceOptions> = {}): Promise<string> {
  const { result } = await fetched(answers, options);
  return result.then(
    () => "none",
    (error) => {
      expect(error.fix, error.message).toBeTruthy();
      return error.code;
    },
  );
}

describe("a site that offers skills", () => {
  it("[S-33] is fetched skill by skill, each into a folder of its name, with addresses relative to the index", async () => {
    const archive = tarGz(temporaryFolder({ "SKILL.md": skillText("wrap"), "scripts/run.sh": "echo\n" }));
    const { site, result } = await fetched({
      [INDEX_PATH]: siteIndex([greet(), siteEntry("wrap", "archive", "wrap.tar.gz", archive)]),
      "/.well-known/agent-skills/wrap.tar.gz": archive,
    });
    const { folder, notes } = await result;
    expect(readdirSync(folder, { recursive: true }).sort()).toEqual([
      ...["greet", "greet/SKILL.md", "wrap", "wrap/SKILL.md", "wrap/scripts", "wrap/scripts/run.sh"],
    ]);
    expect(readFileSync(join(folder, "greet/SKILL.md"), "utf8")).toBe(GREET);
    expect(notes).toEqual([]);
    expect(site.headers).toMatchObject({ "user-agent": `skillet/${packageVersion()}`, "accept-encoding": "identity" });
    expect(site.headers.cookie).toBeUndefined();
  });

  it("serves only requests for the named skills", async () => {
    const index = siteIndex([greet(), siteEntry("other", "skill-md", "/other.md", "x")]);
    const { site, result } = await fetched({ [INDEX_PATH]: index }, { names: ["greet"] });
    expect(readdirSync((await result).folder)).toEqual(["greet"]);
    expect(site.asked).toEqual([INDEX_PATH, "/skills/greet.md"]);
    const { result: none } = await fetched({ [INDEX_PATH]: index }, { names: ["great"] });
    await expect(none).rejects.toMatchObject({ code: "not-found", fix: "did you mean greet?" });
  });

  it("serves requests for all skills by default, and one request for a name that is given twice", async () => {
    const index = siteIndex([greet()]);
    for (const names of [[], ["greet", "greet"]]) {
      const { site, result } = await fetched({ [INDEX_PATH]: index }, { names });
      expect(readdirSync((await result).folder)).toEqual(["greet"]);
      expect(site.asked).toEqual([INDEX_PATH, "/skills/greet.md"]);
    }
  });

  it("delivers the other skills when the caller records failures, and nothing of the failed ones", async () => {
    const folder = temporaryFolder({ "a/SKILL.md": GREET, evil: "x" });
    const up = tarGz(join(folder, "a"), "SKILL.md", "-P", "../evil");
    const entries = [
      siteEntry("up", "archive", "/up.tgz", up),
      { ...siteEntry("wrong", "skill-md", "/skills/greet.md", "another") },
      greet(),
    ];
    const failures: Record<string, string> = {};
    const { result } = await fetched(
      { [INDEX_PATH]: siteIndex(entries), "/up.tgz": up },
      {
        names: ["up", "../..", "wrong", "gone", "greet"],
        onFailure: (name, { code }) => void Object.assign(failures, { [name]: code }),
      },
    );
    expect(readdirSync((await result).folder)).toEqual(["greet"]);
    expect(failures).toEqual({
      up: "entry-traversal",
      "../..": "not-found",
      wrong: "site-digest-mismatch",
      gone: "not-found",
    });
  });

  it("has invalid offers omitted, each with a note", async () => {
    const entries = [
      greet(),
      siteEntry("new-kind", "hologram", "/x", "x"),
      siteEntry("../../up", "skill-md", "/x", "x"),
      siteEntry("use_skill", "skill-md", "/x", "x"),
      siteEntry("con", "skill-md", "/x", "x"),
      { ...siteEntry("weak", "skill-md", "/x", "x"), digest: "md5:00" },
      { ...siteEntry("nowhere", "skill-md", "/x", "x"), url: 5 },
      { ...siteEntry("secret", "skill-md", "https://me:word@example.com/x", "x") },
      { type: "skill-md" },
      null,
    ];
    const { site, result } = await fetched({ [INDEX_PATH]: siteIndex(entries) });
    const { folder, notes } = await result;
    expect(readdirSync(folder)).toEqual(["greet"]);
    expect(notes).toHaveLength(entries.length - 1);
    expect(notes[0]).toBe('"new-kind" of the site has the unknown type "hologram": skipped');
    expect(site.asked).toEqual([INDEX_PATH, "/skills/greet.md"]);
  });

  it("is refused when a file does not match its digest, before it is opened", async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000));
    const entry = { ...siteEntry("bomb", "archive", "/bomb.tgz", "another"), type: "archive" };
    const to = temporaryFolder();
    expect(await codeOf({ [INDEX_PATH]: siteIndex([entry]), "/bomb.tgz": bomb }, { to })).toBe("site-digest-mismatch");
    expect(readdirSync(to, { recursive: true })).toEqual([basename(to)]);
  });

  it("has archives checked like any other", async () => {
    const folder = temporaryFolder({ "sub/SKILL.md": GREET, evil: "x" });
    const up = tarGz(join(folder, "sub"), "-P", "../evil");
    const entry = siteEntry("up", "archive", "/up.tgz", up);
    expect(await codeOf({ [INDEX_PATH]: siteIndex([entry]), "/up.tgz": up })).toBe("entry-traversal");
    const bomb = gzipSync(Buffer.alloc(50_000_000));
    const large = siteEntry("bomb", "archive", "/bomb.tgz", bomb);
    expect(await codeOf({ [INDEX_PATH]: siteIndex([large]), "/bomb.tgz": bomb })).toMatch(/^archive-/);
  });
});

describe("an unreliable index", () => {
  it.each([
    [
      "of a future version",
      siteIndex([], "https://schemas.agentskills.io/discovery/0.3.0/schema.json"),
      "site-version",
    ],
    ["without a version", JSON.stringify({ version: "0.1", skills: [] }), "site-version"],
    ["of another schema", siteIndex([], "https://example.com/discovery/0.2.0/schema.json"), "site-version"],
    ["no JSON", "<html>", "site-index"],
    ["not an object", "[]", "site-index"],
    [
      "not a list",
      JSON.stringify({ $schema: "https://schemas.agentskills.io/discovery/0.2.0/schema.json" }),
      "site-index",
    ],
    ["a name twice", siteIndex([greet(), { ...greet(), name: "Greet" }]), "site-index"],
    ["501 skills", siteIndex(Array.from({ length: 501 }, () => greet())), "site-too-many"],
    ["more than 1 MiB", siteIndex([{ ...greet(), description: "x".repeat(1_100_000) }]), "download-too-large"],
  ])("is refused with its code: %s", async (_, index, code) => {
    expect(await codeOf({ [INDEX_PATH]: index })).toBe(code);
  });

  it("is refused with the supported versions", async () => {
    const { result } = await fetched({ [INDEX_PATH]: siteIndex([], "https://x.example/discovery/0.9.0/schema.json") });
    await expect(result).rejects.toThrow(/"0\.9\.0".*only 0\.2\.0 is supported/);
  });
});

describe("a download", () => {
  const to =
    (location: string): Answer =>
    (_, response) =>
      response.writeHead(302, { location }).end();
  const index = siteIndex([greet()]);

  it("follows redirects within the same host, and no further", async () => {
    expect(await codeOf({ [INDEX_PATH]: to("/index.json"), "/index.json": index })).toBe("none");
    const other = await startSite({ "/index.json": index });
    expect(await codeOf({ [INDEX_PATH]: to(`${other.url}/index.json`) })).toBe("download-redirect");
    expect(await codeOf({ [INDEX_PATH]: to("http://example.com/index.json") })).toBe("download-redirect");
    expect(await codeOf({ [INDEX_PATH]: to("file:///etc/passwd") })).toBe("download-redirect");
    expect(await codeOf({ [INDEX_PATH]: to(INDEX_PATH) })).toBe("download-redirect");
    expect(other.asked).toEqual([]);
  });

  it("reports the target of a redirect, and the fix", async () => {
    const failure = async (answer: Answer) => (await fetched({ [INDEX_PATH]: answer })).result.catch((error) => error);
    expect(await failure(to("https://other.example/x"))).toMatchObject({
      message: expect.stringMatching(/ redirects to "other\.example"$/),
      fix: 'if you trust that host, use its address: "https://other.example/x"',
    });
    for (const place of ["file:///etc/passwd", "http://other.example/x"]) {
      expect(await failure(to(place))).toMatchObject({
        message: expect.stringMatching(new RegExp(` redirects to "${place}"$`)),
        fix: "use an https address",
      });
    }
    expect(await failure(siteIndex([greet("file:///etc/passwd")]))).toMatchObject({
      message: '"file:///etc/passwd" is not an https address',
      fix: "use an https address",
    });
  });

  it("[Q-29] requests no private address that only the site names, in any spelling", async () => {
    const inner = await startSite({ "/skills/greet.md": GREET });
    const { port } = new URL(inner.url);
    for (const place of [
      `http://127.0.0.1:${port}/skills/greet.md`,
      `http://localhost:${port}/skills/greet.md`,
      `https://localhost:${port}/skills/greet.md`,
      `https://0x7f.1:${port}/skills/greet.md`,
      `https://[::1]:${port}/x`,
      `https://[::ffff:127.0.0.1]:${port}/x`,
      "https://169.254.169.254/latest/meta-data",
      "https://10.0.0.7/x",
      "https://[fd00::1]/x",
    ]) {
      expect(await codeOf({ [INDEX_PATH]: siteIndex([greet(place)]) }), place).toBe("download-private-address");
    }
    const moved: Answer = to(`http://localhost:${port}/skills/greet.md`);
    expect(await codeOf({ [INDEX_PATH]: siteIndex([greet("/moved")]), "/moved": moved })).toBe("download-redirect");
    expect(inner.asked, "it was never requested").toEqual([]);
  });

  it("[Q-29] requests a private address when the user named or allowed its origin", async () => {
    const inner = await startSite({ "/skills/greet.md": GREET });
    const index = siteIndex([greet(`${inner.url}/skills/greet.md`)]);
    expect(await codeOf({ [INDEX_PATH]: index }, { allowPrivate: true })).toBe("none");
    expect(inner.asked).toEqual(["/skills/greet.md"]);
    expect(await codeOf({ [INDEX_PATH]: siteIndex([greet()]) }), "its own origin").toBe("none");
  });

  it("uses https, except on this machine", async () => {
    const entry = greet("http://example.com/greet.md");
    expect(await codeOf({ [INDEX_PATH]: siteIndex([entry]) })).toBe("download-insecure");
    expect(await codeOf({ [INDEX_PATH]: siteIndex([greet("file:///etc/passwd")]) })).toBe("download-insecure");
  });

  it("is stopped at its limit without a stated length, and is never decompressed in transit", async () => {
    const endless: Answer = (request, response) => {
      const write = () => {
        while (!request.destroyed && response.write("x".repeat(65_536)));
      };
      response.on("drain", write);
      write();
    };
    expect(await codeOf({ [INDEX_PATH]: endless })).toBe("download-too-large");
    const zipped: Answer = (_, response) =>
      response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(Buffer.alloc(50_000_000)));
    expect(await codeOf({ [INDEX_PATH]: zipped })).toBe("download-encoding");
  });

  it("reports a server's error", async () => {
    expect(await codeOf({})).toBe("download-missing");
    expect(await codeOf({ [INDEX_PATH]: (_, response) => response.writeHead(500).end("x") })).toBe("download-refused");
    const broken: Answer = (_, response) => {
      response.writeHead(200, { "content-length": "100" }).write("half", () => response.destroy());
    };
    expect(await codeOf({ [INDEX_PATH]: broken })).toBe("download-unreachable");
    const nobody = fetchSite({ kind: "site", url: "http://127.0.0.1:1/x" }, { to: temporaryFolder(), env: {} });
    await expect(nobody).rejects.toMatchObject({ code: "download-unreachable" });
  });

  it("is aborted while the server does not answer", async () => {
    const stop = new AbortController();
    expect(await codeOf({ [INDEX_PATH]: () => stop.abort() }, { signal: stop.signal })).toBe("fetch-aborted");
  });
});
