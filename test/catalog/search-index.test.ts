import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { attachSearchStore, filterCatalog, loadCatalog, type SearchStore } from "../../src/catalog/catalog.ts";
import { createMatcher } from "../../src/catalog/search/matcher.ts";
import { type Postings, PostingsBuilder } from "../../src/catalog/search/postings.ts";
import { decodeSearchIndex, encodeSearchIndex } from "../../src/catalog/search/search-index.ts";
import { createInlineSource, type Skill } from "../../src/skill/skill.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { createSearchFileStore } from "../../src/store/json-store.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { defineTestSkill } from "../support/skills.ts";
import { evaluationSkills } from "./evaluation/measure.ts";
import { EVALUATION_REQUESTS } from "./evaluation/requests.ts";
import { UNRELATED_PROMPTS } from "./evaluation/unrelated.ts";

const TEXTS: Record<string, string> = {
  alpha: skillText("alpha", { description: "Writes invoices.", body: "Ask the zeppelin registry." }),
  beta: skillText("beta", { description: "Paints walls.", body: "Mix the ultramarine pigment." }),
  gamma: skillText("gamma", {
    description: "Cooks soup.",
    body: "Peel the parsnip.",
    more: "triggers: { keywords: [broth] }\n",
  }),
};

/** A folder with skills whose files are older than the clock's tick, and a store next to it. */
function scene(texts = TEXTS) {
  const folder = temporaryFolder();
  const [skills, cache] = [join(folder, "skills"), join(folder, "cache")];
  const fileOf = (name: string) => join(skills, name, "SKILL.md");
  const write = (name: string, text: string, secondsAgo = 60) => {
    writeFiles(skills, { [`${name}/SKILL.md`]: text });
    const at = Date.now() / 1000 - secondsAgo;
    utimesSync(fileOf(name), at, at);
  };
  for (const [name, text] of Object.entries(texts)) write(name, text);
  const store = createSearchFileStore(cache, "key");
  const open = async (extra: readonly Skill[] = []) => {
    const { skills: found } = await loadCatalog([createDirectorySource({ path: skills }), createInlineSource(extra)]);
    attachSearchStore(found, store);
    return found;
  };
  const indexFile = () => join(cache, readdirSync(cache)[0] ?? "none");
  return {
    folder,
    skills,
    cache,
    store,
    open,
    write,
    fileOf,
    indexFile,
    remove: (name: string) => rmSync(dirname(fileOf(name)), { recursive: true }),
  };
}

const namesIn = async (skills: readonly Skill[], query: string) =>
  (await createMatcher(skills).match(query, { bodies: true })).matches.map(({ skill }) => skill.name);

describe("the search index", () => {
  it("[A-09] is stored: the first query of the next process reads no instructions", async () => {
    const { open, remove, store } = scene();
    expect(await namesIn(await open(), "zeppelin")).toEqual(["alpha"]);
    const again = await open();
    const kept = store.load();
    for (const name of Object.keys(TEXTS)) remove(name);
    expect(await namesIn(again, "zeppelin")).toEqual(["alpha"]);
    expect(await namesIn(again, "ultramarine")).toEqual(["beta"]);
    expect(await namesIn(again, "some broth")).toEqual(["gamma"]);
    expect(store.load()).toEqual(kept);
  });

  it("[A-09] is separate for a narrowed catalog, and both are stored", async () => {
    const { skills, store, remove } = scene();
    const open = async () => {
      const whole = await loadCatalog([createDirectorySource({ path: skills })]);
      attachSearchStore(whole.skills, store);
      return { whole, narrow: filterCatalog(whole, ({ name }) => name !== "beta") };
    };
    const { whole, narrow } = await open();
    expect(filterCatalog(whole, () => true).skills).toBe(whole.skills);
    await namesIn(whole.skills, "zeppelin");
    const kept = store.load();
    await namesIn(narrow.skills, "zeppelin");
    const again = await open();
    for (const name of Object.keys(TEXTS)) remove(name);
    expect(await namesIn(again.narrow.skills, "zeppelin")).toEqual(["alpha"]);
    expect(await namesIn(again.narrow.skills, "ultramarine")).toEqual([]);
    expect(await namesIn(again.whole.skills, "ultramarine")).toEqual(["beta"]);
    expect(store.load()).toEqual(kept);
  });

  it("[A-09] is updated for changed, added and removed skills, and only these are read", async () => {
    const { open, write, remove, store } = scene();
    await namesIn(await open(), "zeppelin");
    write("beta", skillText("beta", { description: "Paints walls.", body: "Use the vermilion pigment." }), 30);
    write("delta", skillText("delta", { description: "Plants trees.", body: "Dig near the juniper." }), 30);
    remove("gamma");
    const changed = await open();
    remove("alpha");
    expect(await namesIn(changed, "vermilion")).toEqual(["beta"]);
    expect(await namesIn(changed, "juniper")).toEqual(["delta"]);
    expect(await namesIn(changed, "zeppelin")).toEqual(["alpha"]);
    expect(await namesIn(changed, "ultramarine")).toEqual([]);
    expect(await namesIn(changed, "parsnip")).toEqual([]);
    expect(store.load()).toBeDefined();
  });

  it("[A-09] is updated for a file that changed within the clock's tick, or whose queries changed", async () => {
    const { open, write, skills } = scene();
    write("alpha", skillText("alpha", { description: "Writes invoices.", body: "Ask the zeppelin registry." }), 0);
    const first = await open();
    await namesIn(first, "zeppelin");
    // As long as before, at the same time.
    const { mtime, size } = statSync(join(skills, "alpha/SKILL.md"));
    writeFileSync(
      join(skills, "alpha/SKILL.md"),
      readFileSync(join(skills, "alpha/SKILL.md"), "utf8").replace("zeppelin", "tangerin"),
    );
    utimesSync(join(skills, "alpha/SKILL.md"), mtime, mtime);
    expect(statSync(join(skills, "alpha/SKILL.md")).size).toBe(size);
    expect(await namesIn(await open(), "tangerin")).toEqual(["alpha"]);
    const queries = [{ query: "varnish my door", should_trigger: true, split: "train" }];
    writeFiles(skills, { "beta/evals/triggers.json": JSON.stringify(queries) });
    expect(await namesIn(await open(), "varnish")).toEqual(["beta"]);
  });

  it("[A-09] notices changed queries in a folder that the link `evals` leads to", async () => {
    const { open, skills } = scene();
    const write = (query: string, secondsAgo: number) => {
      const queries = [{ query, should_trigger: true, split: "train" }];
      writeFiles(skills, { "beta/questions/triggers.json": JSON.stringify(queries) });
      const at = Date.now() / 1000 - secondsAgo;
      utimesSync(join(skills, "beta/questions/triggers.json"), at, at);
    };
    write("varnish my door", 60);
    symlinkSync("questions", join(skills, "beta/evals"));
    expect(await namesIn(await open(), "varnish")).toEqual(["beta"]);
    write("lacquer my door", 30);
    const changed = await open();
    expect([await namesIn(changed, "lacquer"), await namesIn(changed, "varnish")]).toEqual([["beta"], []]);
    rmSync(join(skills, "beta/evals"));
    expect(await namesIn(await open(), "lacquer")).toEqual([]);
  });

  it("[A-09] stores skills of a program too, by their content", async () => {
    const { open } = scene();
    const inline = (body: string) => [defineTestSkill("inline", { description: "Sews.", body })];
    expect(await namesIn(await open(inline("Use the bobbin.")), "bobbin")).toEqual(["inline"]);
    expect(await namesIn(await open(inline("Use the bobbin.")), "bobbin")).toEqual(["inline"]);
    const changed = await open(inline("Use the thimble."));
    expect([await namesIn(changed, "bobbin"), await namesIn(changed, "thimble")]).toEqual([[], ["inline"]]);
  });

  it("[A-09] gives the same matches as without it, with and without instructions", async () => {
    const skills = evaluationSkills(150);
    const kept: { bytes?: Uint8Array } = {};
    const store: SearchStore = {
      key: "k",
      load: () => kept.bytes,
      save: (bytes) => {
        kept.bytes = bytes;
      },
      now: () => 0,
    };
    const withStore = () => {
      const list = [...skills];
      attachSearchStore(list, store);
      return createMatcher(list);
    };
    await withStore().match("once", { bodies: true });
    const [kinds, fresh, loaded] = [[true, false], createMatcher(skills), withStore()];
    const queries = [...EVALUATION_REQUESTS.map(({ query }) => query), ...UNRELATED_PROMPTS];
    for (const query of queries) {
      for (const bodies of kinds) {
        const [a, b] = await Promise.all(
          [fresh, loaded].map(async (matcher) => await matcher.match(query, { bodies })),
        );
        expect(b).toEqual(a);
      }
    }
  });
});

describe("an unusable search index", () => {
  const DAMAGE: Record<string, (file: string) => void> = {
    "is empty": (file) => writeFileSync(file, ""),
    "is cut off": (file) => writeFileSync(file, readFileSync(file).subarray(0, -8)),
    "has a wrong byte": (file) =>
      writeFileSync(
        file,
        readFileSync(file).map((byte, at) => (at === 700 ? byte ^ 1 : byte)),
      ),
    "is not one": (file) => writeFileSync(file, "a".repeat(4096)),
    "is a folder": (file) => {
      rmSync(file);
      mkdirSync(file);
    },
    "is a link": (file) => {
      writeFileSync(`${file}.elsewhere`, readFileSync(file));
      rmSync(file);
      symlinkSync(`${file}.elsewhere`, file);
    },
    "may be written by others": (file) => chmodSync(file, 0o666),
    "is for other settings": (file) => {
      const postings = buildPostings([["zeppelin"]]);
      writeFileSync(file, encodeSearchIndex("other", { documents: "[]", cues: "[]", postings }), { mode: 0o600 });
    },
    "has other documents than it says": (file) => {
      const postings = buildPostings([["zeppelin"]]);
      writeFileSync(file, encodeSearchIndex("key", { documents: "[]", cues: "[0]", postings }), { mode: 0o600 });
    },
    "has documents that cannot be read": (file) => {
      const postings = buildPostings([["zeppelin"]]);
      writeFileSync(file, encodeSearchIndex("key", { documents: "[[", cues: "{}", postings }), { mode: 0o600 });
    },
  };

  it.each(Object.entries(DAMAGE))("[A-09] because it %s is built again", async (_, damage) => {
    const { open, indexFile, store } = scene();
    await namesIn(await open(), "zeppelin");
    damage(indexFile());
    expect(await namesIn(await open(), "zeppelin")).toEqual(["alpha"]);
    expect(await namesIn(await open(), "ultramarine")).toEqual(["beta"]);
    if (statSync(indexFile()).isFile())
      expect(decodeSearchIndex("key", store.load() ?? new Uint8Array())).toBeDefined();
  });

  it("[A-09] is detected by any wrong byte and any length", () => {
    const texts = (at: number) => [`name${at}`, "some words of a description", "", "", "and naïve 日本語 body"];
    const postings = buildPostings([0, 1, 2].map(texts));
    const whole = encodeSearchIndex("key", { documents: "[1,2,3]", cues: "[0,0,0]", postings });
    expect(decodeSearchIndex("key", whole)).toEqual({ documents: "[1,2,3]", cues: "[0,0,0]", postings });
    const unaligned = new Uint8Array(whole.length + 1);
    unaligned.set(whole, 1);
    expect(decodeSearchIndex("key", unaligned.subarray(1))?.postings).toEqual(postings);
    for (let at = 0; at < whole.length; at++) {
      const wrong = whole.slice();
      wrong[at] = (wrong[at] ?? 0) ^ 0x40;
      expect(decodeSearchIndex("key", wrong), `byte ${at}`).toBeUndefined();
      expect(decodeSearchIndex("key", whole.slice(0, at)), `length ${at}`).toBeUndefined();
    }
    expect(decodeSearchIndex("key", Uint8Array.from([...whole, ...new Uint8Array(8)]))).toBeUndefined();
  });
});

function buildPostings(documents: readonly (readonly string[])[]): Postings {
  const builder = new PostingsBuilder();
  for (const texts of documents) builder.add(texts);
  return builder.build();
}
