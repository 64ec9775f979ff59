import { createHash } from "node:crypto";
import { realpathSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { type Skill, SkillsClient } from "@modelcontextprotocol/client/ext/skills";
import { createMcpHandler, InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import { SkillsExtension } from "@modelcontextprotocol/server/ext/skills";
import { load } from "js-yaml";
import { describe, expect, it, onTestFinished } from "vitest";
import { createSkillResources } from "../../src/adapters/mcp-server/skill-resources.ts";
import { openSession, type Session } from "../../src/agent/session/session.ts";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import type { Host } from "../../src/config/host.ts";
import { DEFAULT_SETTINGS, type SkillSettings } from "../../src/config/settings.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { createInlineSource } from "../../src/skill/skill.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { waitUntilUnchanged } from "../support/unchanged.ts";

type Files = Record<string, string | Uint8Array>;

async function sessionIn(files: Files, host: Partial<Host> = {}) {
  const root = realpathSync(temporaryFolder(files));
  const sources = [createDirectorySource({ path: root, name: "here" }), createInlineSource([IN_CODE])];
  return { root, session: openSession(await loadCatalog(sources), host) };
}

const IN_CODE = defineSkill({ name: "in-code", description: "Does it in code.", instructions: "Do it." });

const ERAS = ["legacy", "modern"] as const;
type Era = (typeof ERAS)[number];

/** A client of a real server with these skills. Any complaint of the SDK about an entry fails the test. */
async function connect(session: Session, era: Era = "legacy") {
  const notices: string[] = [];
  const warnings: unknown[] = [];
  const source = createSkillResources(session, { onNotice: (text) => notices.push(text) });
  const make = () => {
    const server = new McpServer({ name: "s", version: "1" }, { capabilities: { resources: {} } });
    new SkillsExtension({ source, onWarning: (warning) => warnings.push(warning) }).attach(server);
    return server;
  };
  const mode = era === "legacy" ? "legacy" : { pin: "2026-07-28" };
  const client = new Client({ name: "c", version: "1" }, { versionNegotiation: { mode } });
  if (era === "legacy") {
    const [near, far] = InMemoryTransport.createLinkedPair();
    await make().connect(far);
    await client.connect(near);
  } else {
    const { fetch } = createMcpHandler(make);
    const url = new URL("http://127.0.0.1/mcp");
    await client.connect(new StreamableHTTPClientTransport(url, { fetch: (to, init) => fetch(new Request(to, init)) }));
  }
  onTestFinished(async () => {
    await client.close();
    expect(warnings).toEqual([]);
  });
  expect(client.getProtocolEra()).toBe(era);
  return { client, skills: new SkillsClient(client), notices, source };
}

const reading = async (client: Client, uri: string) => {
  const { contents } = await client.readResource({ uri });
  const [content] = contents;
  if (!content || contents.length > 1) throw new Error("not one content");
  return "text" in content ? Buffer.from(content.text) : Buffer.from(content.blob, "base64");
};

/** Reads every file, and compares it with its entry. */
async function verify({ client, skills }: { client: Client; skills: SkillsClient }, entry: Skill) {
  if (entry.resources === "dynamic") throw new Error("it has no digests");
  for (const { uri, digest, size } of entry.resources) {
    const bytes = await reading(client, uri);
    expect({ uri, size: bytes.length }).toEqual({ uri, size });
    expect(`sha256:${createHash("sha256").update(bytes).digest("hex")}`, uri).toBe(digest);
    expect((await skills.read(entry, uri)).verified, "as a client verifies it").toBe(true);
  }
  const text = (await reading(client, entry.uri)).toString("utf8");
  expect(load(/^---\n([\s\S]*?)^---\n/m.exec(text)?.[1] ?? "")).toEqual(entry.frontmatter);
}

const refused = { code: -32602 };

const ODD: Files = {
  "plain/SKILL.md": skillText("plain"),
  "plain/docs/a b#c%?.md": "odd",
  "plain/docs/größe 日本.txt": "names",
  "plain/docs/deep/er/x.json": "{}",
  "plain/image.png": Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff, 0]),
  "plain/hidden.md": "Do\u200b it.",
  "plain/empty.txt": "",
  "plain/nested/SKILL.md": skillText("nested"),
  "Capital_Name/SKILL.md": skillText("Capital_Name"),
  "long/SKILL.md": skillText("long", { description: "word ".repeat(400) }),
  "meta/SKILL.md": skillText("meta", { more: "metadata:\n  version: 1.0\n  deep: {er: [1, 2]}\ncompatibility: [a]\n" }),
  "repaired/SKILL.md": skillText("repaired", { more: "hint: use it: now\nsince: 2026-01-02\n" }),
  "unseen/SKILL.md": skillText("unseen", { body: "Do\u202e it." }),
  "flat.md": skillText("flat"),
  "yaml.yaml": "name: yaml\ndescription: Does yaml.\ninstructions: |\n  Do it.\n",
};

describe.each(ERAS)("the skills extension (%s)", (era) => {
  it("publishes every skill, with correct digests", async () => {
    const { session } = await sessionIn(ODD);
    const connected = await connect(session, era);
    const { skills } = await connected.skills.list();
    expect(skills.map(({ frontmatter }) => frontmatter.name)).toEqual(
      "capital-name flat in-code long meta nested plain repaired unseen yaml".split(" "),
    );
    expect(skills.length).toBe(session.catalog.skills.length);
    for (const entry of skills) {
      await verify(connected, entry);
      expect((await connected.skills.get(entry.uri)).skill).toEqual(entry);
    }
    expect(connected.notices).toEqual([]);
    const nested = skills.find(({ uri }) => uri === "skill://plain/SKILL.md")?.resources;
    expect(nested, "what is nested is a part of it").toContainEqual(
      expect.objectContaining({ uri: "skill://plain/nested/SKILL.md" }),
    );
  });

  it("refuses missing paths, and those that lead out", async () => {
    const { client, skills } = await connect((await sessionIn(ODD)).session, era);
    for (const uri of [
      "skill://none/SKILL.md",
      "skill://plain/none.md",
      "skill://plain/../flat/SKILL.md",
      "skill://plain",
    ]) {
      await expect(client.readResource({ uri }), uri).rejects.toMatchObject(refused);
      await expect(skills.get(uri), uri).rejects.toMatchObject(refused);
    }
    for (const uri of [
      "skill://plain/%2e%2e/flat/SKILL.md",
      "skill://plain//etc/passwd",
      "skill://plain/a%5Cb",
      "skill://plain/%00",
    ])
      await expect(client.readResource({ uri }), uri).rejects.toMatchObject(refused);
    for (const uri of ["skill://plain/SKILL.md", "skill://plain/none", "skill://none", "skill://plain/docs/../docs"])
      await expect(skills.readDirectory(uri), uri).rejects.toMatchObject(refused);
  });

  it("lists folders", async () => {
    const { skills } = await connect((await sessionIn(ODD)).session, era);
    expect(skills.directoryRead).toBe(true);
    expect((await skills.readDirectory("skill://plain")).resources).toEqual([
      { uri: "skill://plain/SKILL.md", name: "SKILL.md", mimeType: "text/markdown" },
      { uri: "skill://plain/docs", name: "docs", mimeType: "inode/directory" },
      { uri: "skill://plain/empty.txt", name: "empty.txt", mimeType: "text/plain" },
      { uri: "skill://plain/hidden.md", name: "hidden.md", mimeType: "text/markdown" },
      { uri: "skill://plain/image.png", name: "image.png", mimeType: "image/png" },
      { uri: "skill://plain/nested", name: "nested", mimeType: "inode/directory" },
    ]);
    const { resources } = await skills.readDirectory("skill://plain/docs");
    expect(resources.map(({ uri, name }) => [uri, name])).toEqual([
      ["skill://plain/docs/a%20b%23c%25%3F.md", "a b#c%?.md"],
      ["skill://plain/docs/deep", "deep"],
      ["skill://plain/docs/gr%C3%B6%C3%9Fe%20%E6%97%A5%E6%9C%AC.txt", "größe 日本.txt"],
    ]);
  });

  it("lists the skills as resources", async () => {
    const { root, session } = await sessionIn({
      "a/SKILL.md": skillText("a", { more: "title: The A\n" }),
      "B/SKILL.md": skillText("B"),
    });
    const { client, skills } = await connect(session, era);
    const a = {
      uri: "skill://a/SKILL.md",
      name: "a",
      title: "The A",
      description: "Does a. Use when asked for a.",
      mimeType: "text/markdown",
    };
    const { resources } = await client.listResources();
    expect(resources.slice(0, 2)).toEqual([
      a,
      { ...a, uri: "skill://b/SKILL.md", name: "b", title: "B", description: "Does B. Use when asked for B." },
    ]);
    await waitUntilUnchanged(40, root);
    await skills.list();
    const [known] = (await client.listResources()).resources;
    expect(known).toEqual({ ...a, size: (await reading(client, a.uri)).length });
  });

  it("lists in pages, and accepts only its own cursors", async () => {
    const files = Object.fromEntries(Array.from({ length: 120 }, (_, at) => [`s${at}/SKILL.md`, skillText(`s${at}`)]));
    const many = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`s0/f/${at}.txt`, ""]));
    const { root, session } = await sessionIn({ ...files, ...many });
    const { skills, source } = await connect(session, era);
    const ctx = {} as never;
    const first = await source.list({}, ctx);
    expect(first.skills.length).toBe(50);
    const all = (await skills.list()).skills.map(({ frontmatter }) => frontmatter.name);
    expect(all.toSorted()).toEqual(session.catalog.names());
    rmSync(join(root, all[49] ?? ""), { recursive: true });
    await session.reload();
    const cursor = first.nextCursor ?? "";
    const second = await source.list({ cursor }, ctx);
    expect(second.skills[0]?.frontmatter.name, "the next one, although the one before it is gone").toBe(all[50]);
    expect((await skills.readDirectory("skill://s0/f")).resources.length).toBe(60);
    for (const bad of ["x", "", "!!", Buffer.from("after:http://x").toString("base64url"), `${cursor}=`])
      await expect(skills.list({ cursor: bad }), bad).rejects.toMatchObject(refused);
  });
});

describe("the published skills", () => {
  it("follow new, edited and deleted files", async () => {
    const { root, session } = await sessionIn({ "a/SKILL.md": skillText("a"), "a/x.txt": "one" });
    const connected = await connect(session);
    const { skills, client } = connected;
    const { skill: first } = await skills.get("skill://a/SKILL.md");
    writeFiles(root, {
      "a/x.txt": "two",
      "a/sub/y.txt": "new",
      "a/SKILL.md": skillText("a", { description: "Other." }),
    });
    expect((await reading(client, "skill://a/x.txt")).toString(), "a read returns the present file").toBe("two");
    await expect(skills.read(first, "x.txt"), "which a client sees").rejects.toMatchObject({ reason: "digest" });
    await session.reload();
    const { skill: second } = await skills.get("skill://a/SKILL.md");
    expect(second.frontmatter.description).toBe("Other.");
    expect(second.resources.length).toBe(3);
    await verify(connected, second);
    rmSync(join(root, "a/x.txt"));
    await expect(client.readResource({ uri: "skill://a/x.txt" })).rejects.toMatchObject(refused);
    expect((await skills.get("skill://a/SKILL.md")).skill.resources.length).toBe(2);
  });

  it("include one that was just created, and never a deleted one", async () => {
    const { root, session } = await sessionIn({ "a/SKILL.md": skillText("a"), "c/SKILL.md": skillText("c") });
    const connected = await connect(session);
    await connected.skills.list();
    writeFiles(root, {
      "b/SKILL.md": skillText("b"),
      "b/x.txt": "x",
      "c.md": skillText("c", { description: "Flat now." }),
    });
    expect((await reading(connected.client, "skill://b/x.txt")).toString()).toBe("x");
    await verify(connected, (await connected.skills.get("skill://b/SKILL.md")).skill);
    rmSync(join(root, "a"), { recursive: true });
    rmSync(join(root, "c"), { recursive: true });
    await expect(connected.skills.get("skill://a/SKILL.md")).rejects.toMatchObject(refused);
    expect((await connected.skills.get("skill://c/SKILL.md")).skill.frontmatter.description).toBe("Flat now.");
    const { skills } = await connected.skills.list();
    expect(skills.map(({ frontmatter }) => frontmatter.name)).toEqual(["b", "c", "in-code"]);
  });

  it("exclude the target of a file that became a link", async () => {
    const { root, session } = await sessionIn({ "a/SKILL.md": skillText("a"), "a/x.txt": "x" });
    const outside = temporaryFolder({ "secret.txt": "secret" });
    const { client, skills } = await connect(session);
    for (const file of ["a/SKILL.md", "a/x.txt"]) {
      rmSync(join(root, file));
      symlinkSync(join(outside, "secret.txt"), join(root, file));
    }
    for (const uri of ["skill://a/SKILL.md", "skill://a/x.txt"])
      await expect(client.readResource({ uri }), uri).rejects.toMatchObject(refused);
    expect((await skills.list()).skills.map(({ uri }) => uri)).toEqual(["skill://in-code/SKILL.md"]);
  });

  it("are those within the limits, which are reported once", async () => {
    const many = Object.fromEntries(Array.from({ length: 600 }, (_, at) => [`a/${1000 + at}.txt`, `${at}`]));
    const mega = (size: number) => Buffer.alloc(size * 1024 * 1024, 0xff);
    const { session } = await sessionIn({
      ...many,
      "a/SKILL.md": skillText("a"),
      "b/SKILL.md": skillText("b"),
      "b/1.bin": mega(8),
      "b/2.bin": mega(8),
      "b/3.bin": mega(1),
    });
    const connected = await connect(session);
    const { skills } = await connected.skills.list();
    await connected.skills.list();
    expect(connected.notices.map((text) => text.slice(0, 60))).toEqual([
      "Skill 'a' is served over MCP without 89 files of 601, the fi",
      "Skill 'b' is served over MCP without 1 file of 4 \"2.bin\": th",
    ]);
    for (const entry of skills) {
      if (entry.resources === "dynamic") throw new Error("it has no digests");
      expect(entry.resources.length).toBeLessThanOrEqual(512);
      expect(entry.resources.reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(16 * 1024 * 1024);
    }
    const b = skills.find(({ uri }) => uri === "skill://b/SKILL.md");
    if (!b) throw new Error("it is lost");
    await verify(connected, b);
    await expect(connected.client.readResource({ uri: "skill://b/2.bin" })).rejects.toMatchObject(refused);
    await expect(connected.client.readResource({ uri: "skill://a/1599.txt" })).rejects.toMatchObject(refused);
  });

  it("[Q-08] contain no hidden characters", async () => {
    const { session } = await sessionIn({
      "a/SKILL.md": skillText("a", { body: "Do\u202e it." }),
      "a/x\u200b.md": "Do\u{e0041} it.",
      "a/y.json": '{"a": "\u2066"}',
    });
    const { client, skills } = await connect(session);
    const { skill } = await skills.get("skill://a/SKILL.md");
    const directory = await skills.readDirectory("skill://a");
    const texts = await Promise.all((skill.resources as { uri: string }[]).map(({ uri }) => reading(client, uri)));
    expect(texts.length).toBe(3);
    const all = [JSON.stringify([skill, directory, await client.listResources()]), ...texts.map(String)].join("\n");
    expect(all).not.toMatch(/[\u200b\u202e\u2066\u{e0041}]/u);
    for (const spelled of ["\\u{202e}", "\\u{e0041}", "\\u{2066}", "x\\\\u{200b}.md"]) expect(all).toContain(spelled);
  });

  it("[Q-09] exclude files that a link outside leads to", async () => {
    const { root, session } = await sessionIn({ "a/SKILL.md": skillText("a"), "a/in.txt": "in" });
    const outside = temporaryFolder({ "secret.txt": "secret", "more/x.txt": "x" });
    symlinkSync(join(outside, "secret.txt"), join(root, "a/out.txt"));
    symlinkSync(join(outside, "more"), join(root, "a/more"));
    const { client, skills } = await connect(session);
    expect((await skills.get("skill://a/SKILL.md")).skill.resources).toMatchObject([
      { uri: "skill://a/SKILL.md" },
      { uri: "skill://a/in.txt" },
    ]);
    for (const uri of ["skill://a/out.txt", "skill://a/more/x.txt"])
      await expect(client.readResource({ uri }), uri).rejects.toMatchObject(refused);
  });
});

describe("a caller without access to a skill", () => {
  async function expectUnknown(session: Session, name: string) {
    const { client, skills } = await connect(session);
    const uris = [`skill://${name}/SKILL.md`, `skill://${name}/x.txt`];
    expect(session.catalog.has(name), "it is there").toBe(true);
    expect(JSON.stringify([await skills.list(), await client.listResources()])).not.toContain(`//${name}/`);
    for (const uri of uris) await expect(client.readResource({ uri }), uri).rejects.toMatchObject(refused);
    await expect(skills.get(uris[0] ?? "")).rejects.toMatchObject(refused);
    await expect(skills.readDirectory(`skill://${name}`)).rejects.toMatchObject(refused);
  }
  const files = (more: string): Files => ({ "a/SKILL.md": skillText("a", { more }), "a/x.txt": "x" });

  it("[X-01] neither sees nor reads one that is hidden from the model", async () => {
    await expectUnknown((await sessionIn(files("disable-model-invocation: true\n"))).session, "a");
  });

  it("[S-10] neither sees nor reads one that is disabled", async () => {
    const skills = new Map<string, SkillSettings>([["a", { enabled: false, variables: new Map() }]]);
    await expectUnknown((await sessionIn(files(""), { settings: { ...DEFAULT_SETTINGS, skills } })).session, "a");
  });

  it("[S-36] neither sees nor reads a sensitive one if the caller is unknown", async () => {
    const { session } = await sessionIn(files("sensitive: true\n"));
    await expectUnknown(session, "a");
    const found = await discoverIn({
      "home/.skillet/skills/a/SKILL.md": skillText("a", { more: "sensitive: true\n" }),
      "home/.skillet/skills/a/x.txt": "x",
    });
    await expectUnknown(openSession(found.catalog, found), "a");
    const privately = openSession(found.catalog, { ...found, caller: { chatType: "private" } });
    const { skills, client } = await connect(privately);
    expect((await skills.get("skill://a/SKILL.md")).skill.frontmatter.name).toBe("a");
    expect((await reading(client, "skill://a/x.txt")).toString()).toBe("x");
  });

  it("has the same URIs as other callers", async () => {
    const shared = { "a/SKILL.md": skillText("a-b", { more: "sensitive: true\n" }), "b/SKILL.md": skillText("a_b") };
    const { session } = await sessionIn(shared);
    const open = openSession(session.catalog, { caller: { chatType: "private" } });
    const names = async (of: Session) => (await (await connect(of)).skills.list()).skills.map(({ uri }) => uri);
    expect(await names(open)).toEqual(["skill://a-b-2/SKILL.md", "skill://a-b/SKILL.md", "skill://in-code/SKILL.md"]);
    expect(await names(session)).toEqual(["skill://a-b-2/SKILL.md", "skill://in-code/SKILL.md"]);
  });
});

it("reads a thousand skills once, however often they are listed", async () => {
  const files: Files = {};
  for (let at = 0; at < 1000; at++) {
    files[`s${at}/SKILL.md`] = skillText(`s${at}`);
    files[`s${at}/x.md`] = `File of ${at}.`;
  }
  const { root, session } = await sessionIn(files);
  const { source } = await connect(session);
  await waitUntilUnchanged(40, root);
  const listAll = async () => {
    const digests = [];
    for (let cursor: string | undefined, isFirst = true; isFirst || cursor; isFirst = false) {
      const page = await source.list(cursor === undefined ? {} : { cursor }, {} as never);
      digests.push(...page.skills);
      cursor = page.nextCursor;
    }
    return digests;
  };
  const first = await listAll();
  const second = await listAll();
  expect(first.length).toBe(1001);
  // The one in code is created again; there is nothing to read for it.
  expect(second.filter((entry, at) => entry === first[at]).length).toBe(1000);
});
