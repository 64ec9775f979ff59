import { chmodSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { useSkill } from "../../src/agent/run/use-skill.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { disclose } from "../../src/catalog/disclose.ts";
import { getMatcher } from "../../src/catalog/search/matcher.ts";
import { discover } from "../../src/config/discover.ts";
import { createLazySkill } from "../../src/skill/define-skill.ts";
import type { Source } from "../../src/skill/skill.ts";
import { temporaryFolder, writeFiles } from "../support/folder.ts";
import { startModelServer } from "../support/model-server.ts";
import { modelConfig } from "../support/use.ts";

interface StoredSkill {
  description: string;
  keywords: readonly string[];
  instructions: string;
  files?: Readonly<Record<string, string>>;
}

const SKILLS: Readonly<Record<string, StoredSkill>> = {
  refunds: {
    description: "Decides on refunds of the shop.",
    keywords: ["refund"],
    instructions: "Refund orders below 50 euros. policy.md has the rest.",
    files: { "policy.md": "Ask the zebra desk above 50 euros." },
  },
  shipping: {
    description: "Answers questions on parcels.",
    keywords: ["parcel"],
    instructions: "Say where the parcel is. Mention the aardvark line.",
  },
};

interface SourceScene {
  source: Source;
  /** The reads of content since the source was created, in order: `refunds`, `refunds/policy.md`. */
  reads: readonly string[];
}

/** Skills that a server lists, and whose content it sends on request. */
async function serveSkills(): Promise<SourceScene> {
  const reads: string[] = [];
  const server = createServer((request, response) => {
    const [name = "", ...path] = decodeURIComponent((request.url ?? "").slice(1)).split("/");
    const skill = SKILLS[name];
    if (name === "") {
      const rows = Object.entries(SKILLS).map(([id, { instructions: _, files: _files, ...row }]) => ({ id, ...row }));
      return void response.end(JSON.stringify(rows));
    }
    if (path[0] === "files") {
      const files = Object.entries(skill?.files ?? {}).map(([file, text]) => ({ path: file, size: text.length }));
      return void response.end(JSON.stringify(files));
    }
    reads.push([name, ...path].join("/"));
    const text = path.length === 0 ? skill?.instructions : skill?.files?.[path.join("/")];
    response.statusCode = text === undefined ? 404 : 200;
    response.end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ask = async (path: string) => {
    const response = await fetch(`${url}/${path}`);
    if (!response.ok) throw new Error(`${path} answers with ${response.status}`);
    return response;
  };
  const source: Source = {
    name: "shop",
    scope: "integration",
    async load() {
      const rows = (await (await ask("")).json()) as { id: string; description: string; keywords: string[] }[];
      const skills = rows.map(({ id, description, keywords }) =>
        createLazySkill(
          { name: id, description, frontmatter: { triggers: { keywords } } },
          {
            revision: "1",
            instructions: async () => (await ask(id)).text(),
            async files() {
              const files = (await (await ask(`${id}/files`)).json()) as { path: string; size: number }[];
              return files.map((file) => ({ ...file, executable: false }));
            },
            read: async (path) => new Uint8Array(await (await ask(`${id}/${path}`)).arrayBuffer()),
          },
        ),
      );
      return { skills, diagnostics: [] };
    },
  };
  return { source, reads };
}

/** The same skills as rows of a database. */
async function storeSkills(): Promise<SourceScene> {
  const reads: string[] = [];
  const database = new DatabaseSync(join(temporaryFolder(), "skills.db"));
  onTestFinished(() => database.close());
  database.exec("CREATE TABLE skills (name TEXT PRIMARY KEY, description TEXT, keywords TEXT, instructions TEXT)");
  database.exec("CREATE TABLE files (skill TEXT, path TEXT, content TEXT)");
  for (const [name, { description, keywords, instructions, files = {} }] of Object.entries(SKILLS)) {
    const values = [name, description, JSON.stringify(keywords), instructions];
    database.prepare("INSERT INTO skills VALUES (?, ?, ?, ?)").run(...values);
    for (const [path, content] of Object.entries(files))
      database.prepare("INSERT INTO files VALUES (?, ?, ?)").run(name, path, content);
  }
  const source: Source = {
    name: "shop",
    scope: "integration",
    async load() {
      const rows = database.prepare("SELECT name, description, keywords FROM skills").all();
      const skills = rows.map((row) => {
        const name = String(row["name"]);
        const frontmatter = { triggers: { keywords: JSON.parse(String(row["keywords"])) } };
        return createLazySkill(
          { name, description: String(row["description"]), frontmatter },
          {
            revision: "1",
            async instructions() {
              reads.push(name);
              return String(
                database.prepare("SELECT instructions FROM skills WHERE name = ?").get(name)?.["instructions"],
              );
            },
            files: async () =>
              database
                .prepare("SELECT path, length(content) AS size FROM files WHERE skill = ?")
                .all(name)
                .map(({ path, size }) => ({ path: String(path), size: Number(size), executable: false })),
            async read(path) {
              reads.push(`${name}/${path}`);
              const row = database.prepare("SELECT content FROM files WHERE skill = ? AND path = ?").get(name, path);
              return Buffer.from(String(row?.["content"]));
            },
          },
        );
      });
      return { skills, diagnostics: [] };
    },
  };
  return { source, reads };
}

const SOURCES = { "an HTTP server": serveSkills, "a database": storeSkills };

describe.each(Object.entries(SOURCES))("skills of %s", (_, create) => {
  const discoverFrom = async (source: Source, { env = {}, index = false, root = temporaryFolder() } = {}) => {
    const options = { workspace: root, env: { HOME: root, ...env }, index, shippedSkills: join(root, "none") };
    return discover({ ...options, follow: false, sources: [source] });
  };

  it("[P-01] are listed without their instructions, and disclosed with those that match", async () => {
    const { source, reads } = await create();
    const { catalog, settings } = await discoverFrom(source);
    expect(settings).toBeDefined();
    expect(catalog.names()).toEqual(["refunds", "shipping"]);
    expect(catalog.get("refunds").origin).toMatchObject({ scope: "integration", source: "shop" });
    expect(reads).toEqual([]);
    const disclosed = await disclose(catalog, "I want a refund", { shortlist: false });
    expect(disclosed.shown.map(({ name }) => name)).toEqual(["refunds"]);
    expect(disclosed.text).toContain("Refund orders below 50 euros.");
    expect(disclosed.text).toContain("policy.md");
    expect(reads).toEqual(["refunds"]);
  });

  it("[P-01] are found by words of their instructions, and read once in the next process with an index", async () => {
    const root = temporaryFolder();
    for (const reading of [["refunds", "shipping"], []]) {
      const { source, reads } = await create();
      const { catalog } = await discoverFrom(source, { index: true, root });
      const { matches } = await getMatcher(catalog).match("aardvark line", { bodies: true });
      expect(matches.map(({ skill }) => skill.name)).toEqual(["shipping"]);
      expect([...reads].sort()).toEqual(reading);
    }
  });

  it("give a session their instructions and files", async () => {
    const { source, reads } = await create();
    const found = await discoverFrom(source);
    const session = openSession(found.catalog, found);
    onTestFinished(() => session.close());
    const loaded = await session.call("load_skill", { skill: "refunds" });
    expect(loaded).toMatchObject({ isError: false, text: expect.stringContaining("Refund orders below 50 euros.") });
    const file = await session.call("read_skill_resource", { skill: "refunds", resource: "policy.md" });
    expect(file).toMatchObject({ isError: false, text: expect.stringContaining("zebra desk") });
    expect(reads).toEqual(["refunds", "refunds/policy.md"]);
    const missing = await session.call("read_skill_resource", { skill: "refunds", resource: "other.md" });
    expect(missing).toMatchObject({ isError: true, text: expect.stringContaining("policy.md") });
  });

  it("are used by a run", async () => {
    const { source } = await create();
    const server = await startModelServer("openai", [
      ({ instructions }) => {
        expect(instructions).toContain("Refund orders below 50 euros.");
        return [{ tool: "read_skill_resource", input: { resource: "policy.md" } }];
      },
      ({ results }) => {
        expect(results[0]?.content).toContain("zebra desk");
        return "Ask the desk.";
      },
    ]);
    const root = temporaryFolder();
    const home = join(root, ".skillet");
    writeFiles(home, { "config.toml": modelConfig("openai", server) });
    chmodSync(join(home, "config.toml"), 0o600);
    const found = await discoverFrom(source, { root, env: { SKILLET_HOME: home } });
    const result = await useSkill(found.catalog, found, { skill: "refunds", message: "An order of 80 euros." });
    expect(result).toMatchObject({ isError: false, content: "Ask the desk." });
  });

  it("that cannot be read are omitted from a disclosure, and refused by a session", async () => {
    const { source } = await create();
    const broken: Source = {
      ...source,
      load: async () => ({
        skills: [
          createLazySkill(
            { name: "ledger", description: "Keeps books.", frontmatter: { triggers: { keywords: ["ledger"] } } },
            { instructions: () => Promise.reject(new Error("the server does not answer")) },
          ),
        ],
        diagnostics: [],
      }),
    };
    const found = await discoverFrom(broken);
    expect(await disclose(found.catalog, "open the ledger")).toMatchObject({
      shown: [],
      omitted: { instructions: ["ledger"] },
    });
    const session = openSession(found.catalog, found);
    onTestFinished(() => session.close());
    const loaded = await session.call("load_skill", { skill: "ledger" });
    expect(loaded).toMatchObject({ isError: true, text: expect.stringContaining("the server does not answer") });
  });
});
