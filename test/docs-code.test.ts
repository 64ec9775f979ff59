import { execFile } from "node:child_process";
import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { loadSettings } from "../src/config/settings.ts";
import { checkText } from "../src/skill/source/check-skills.ts";
import { findSystemProgram } from "../src/util/system.ts";
import { skillText, temporaryFolder } from "./support/folder.ts";
import { listGuides, measurePage } from "./support/guide.ts";
import {
  callsOf,
  codeBlocks,
  installedFolder,
  modulesOf,
  ROOT,
  typeErrors,
  usageError,
} from "./support/markdown-code.ts";
import { API_KEY, MODEL, startModelServer, type Turn } from "./support/model-server.ts";
import { SHARED_CODE } from "./support/program.ts";

const pages = readdirSync(join(ROOT, "docs"))
  .filter((name) => name.endsWith(".md"))
  .map((name) => `docs/${name}`);
const textOf = (page: string) => readFileSync(join(ROOT, page), "utf8");
const blocksOf = (language: string) =>
  pages.flatMap((page) => codeBlocks(page).filter((block) => block.language === language));

describe("the code of the pages", () => {
  it("compiles, with the published types", () => {
    const modules = Object.assign({}, ...pages.map(modulesOf));
    expect(Object.keys(modules).length).toBeGreaterThan(10);
    expect(typeErrors(modules)).toEqual([]);
  });

  it("names members and functions of the library that exist", () => {
    const text = textOf("docs/embedding.md");
    const used = Object.entries(TABLES).flatMap(([head, type]) => {
      const [, table = ""] = text.split(`\n| ${head} |`);
      const cells = table.split("\n\n")[0]?.matchAll(/^\| (`.*?) \| /gm) ?? [];
      const names = [...cells].flatMap(([, cell = ""]) => [...cell.matchAll(/`(\w+)/g)].map(([, name]) => name));
      expect(names.length, head).toBeGreaterThan(5);
      return names.map((name) => `declare const ${type}_${name}: ${type}["${name}"];`);
    });
    const called = [
      ...new Set([...text.matchAll(/`(?:await |session\.|found\.)?([a-z]\w+)\(/g)].map(([, name]) => name)),
    ];
    expect(called.length).toBeGreaterThan(30);
    const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    const entries = Object.keys(exports).filter((entry) => exports[entry].types && entry !== "./claude");
    const keys = entries.map((entry) => `keyof typeof import("skillet${entry.slice(1)}")`);
    const types = ["Catalog", "DiscoverOptions", "DiscoverResult", "HostOptions", "Session", "Skill"];
    const members = [...types, "Sandbox", "Model", "Tool"].map((type) => `keyof ${type}`);
    const written = ["instructions", "expireLease", "edit"].map((name) => `"${name}"`); // of objects that a program writes

    const code = [
      `import type { ${types.join(", ")}, Model, Tool } from "skillet";`,
      'import type { Sandbox } from "skillet/sandbox";',
      ...used,
      `export const called: (${[...keys, ...members, ...written].join(" | ")})[] = ${JSON.stringify(called)};`,
    ];
    expect(typeErrors({ "names.ts": code.join("\n") })).toEqual([]);
  });

  it("uses existing exports in the programs of other frameworks, which are not installed here", () => {
    const folder = join(ROOT, "test/embed/frameworks");
    const programs = readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")] as const);
    const blocks = blocksOf("js").map(
      ({ page, line, code }) => [`${page}.${line}.mjs`, `${code}\nexport {};\n`] as const,
    );
    const code = Object.fromEntries([...programs, ...blocks].map(([name, text]) => [name.replace(/mjs$/, "ts"), text]));
    const imported = Object.values(code).flatMap((text) => [...text.matchAll(/ from "(?!skillet)([^"]+)"/g)]);
    const modules = new Set(imported.map(([, name]) => `declare module "${name}";\n`));
    expect(modules.size).toBeGreaterThan(4);
    expect(blocks.length).toBeGreaterThan(2);
    const globals = `declare const session: import("skillet").Session, model: unknown, Agent: any, createAgent: any;
      declare const createAgentTools: typeof import("skillet").createAgentTools;`;
    expect(typeErrors({ ...code, "others.d.ts": [...modules, globals].join("") })).toEqual([]);
  });

  it("uses existing commands and options", async () => {
    const shown = [...pages, "examples/README.md", "examples/notes/README.md"];
    const calls = shown.flatMap((page) => callsOf(page).map((call) => ({ page, ...call })));
    const wrong: string[] = [];
    for (const call of calls) {
      const problem = await usageError(call);
      if (problem !== undefined) wrong.push(`${call.page}:${call.line} skillet ${call.argv.join(" ")}: ${problem}`);
    }
    expect(calls.length).toBeGreaterThan(200);
    expect(wrong).toEqual([]);
  });

  it("uses existing configuration keys", async () => {
    const wrong: string[] = [];
    for (const { page, line, code } of blocksOf("toml")) {
      const home = temporaryFolder({ ".skillet/config.toml": code, "team-skills/.keep": "" });
      chmodSync(join(home, ".skillet/config.toml"), 0o600);
      const around = { home, skilletHome: join(home, ".skillet"), workspace: temporaryFolder(), env: {} };
      const { diagnostics } = await loadSettings(around);
      wrong.push(...diagnostics.map(({ message }) => `${page}:${line} ${message}`));
    }
    expect(wrong).toEqual([]);
  });

  it("uses existing fields of a skill", () => {
    const heads = blocksOf("yaml").filter(({ code }) => !OF_CI.test(code));
    expect(heads.length).toBeGreaterThan(4);
    const wrong = heads.flatMap(({ page, line, code }) => {
      const head = /^description:/m.test(code) ? code : `description: Does it. Use when asked for it.\n${code}`;
      const { diagnostics } = checkText(`---\nname: it\n${head}---\n\nDo it.\n`);
      return diagnostics.map(({ message }) => `${page}:${line} ${message}`);
    });
    expect(wrong).toEqual([]);
  });
});

/** The tables of docs/embedding.md whose first column has members of a type, by their heads. */
const TABLES = {
  "option |": "DiscoverOptions",
  "of a catalog | what it gives": "Catalog",
  "of a session | what it gives": "Session",
  "member | what it is | left out": "HostOptions",
};

/** A step of a workflow and a list of hooks, which are YAML too. */
const OF_CI = /^(?:on|jobs|steps|repos):|^\s*- (?:uses|run|name):/m;

interface Program {
  /** The content of its working folder; its home is `home`. */
  files?: Record<string, string>;
  turns?: readonly Turn[];
  stdin?: string;
  /** Text that identifies the page's module to run. Defaults to the first module. */
  holds?: string;
  prints: readonly (string | RegExp)[];
  needs?: "bwrap";
}

const MY_SKILL = "home/.agent/skills/my-skill";
const [toolset = ""] = Object.values(modulesOf("docs/toolsets.md"));

/** The programs of pages. Others need an account, a network or a person, and are only compiled; prompts.md has its own test. */
const PROGRAMS: Record<string, Program> = {
  embedding: {
    files: { "skills/deploy/SKILL.md": skillText("deploy") },
    holds: "wave",
    prints: [
      "[ 'greet', 'wave' ]",
      "full 43 a skill is mentioned or triggered [2 skills available]",
      "You said: Greet Ann. answer 1",
      "none none",
      '{"type":"skill-loaded","skill":"greet","source":"inline"',
      "1 []\n{ isValid: true }",
    ],
  },
  ai: {
    files: { "skills/notes/SKILL.md": skillText("notes") },
    turns: [({ prompt }) => `About: ${prompt}`, () => "Reviewed.", () => "It rains."],
    prints: ["About: Make me a skill for release notes.\nReviewed.\ntrue\nIt rains.\n", "- notes:", /^7$/m],
  },
  toolsets: {
    files: {
      [`${MY_SKILL}/SKILL.md`]:
        codeBlocks("docs/toolsets.md").find(({ language }) => language === "markdown")?.code ?? "",
      [`${MY_SKILL}/toolsets/index.ts`]: toolset,
    },
    holds: "openSession",
    prints: ["'my-skill.my-tool'", "Processed: hello"],
  },
  scripts: {
    files: {
      "home/.skillet/skills/invoices/SKILL.md": skillText("invoices"),
      "home/.skillet/skills/invoices/scripts/totals.py": "import sys\nprint(sys.argv[1], 'has 3 invoices')\n",
    },
    prints: ["2026 has 3 invoices\n0 exit strong []\n"],
    needs: "bwrap",
  },
  export: {
    files: { "home/.skillet/skills/deploy/SKILL.md": skillText("deploy") },
    prints: ["'deploy: install'", /\.claude\/skills \{\n {2}HOME:/],
  },
  providers: {
    stdin:
      '{"version":1,"id":"a","method":"describe","namespace":"weather","params":{},"context":{},"deadline_ms":9000}\n',
    prints: ['"id":"a","ok":true', '"id":"weather.forecast"'],
  },
  mcp: {
    stdin: '{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
    prints: ['"id":1'],
  },
};

describe("the programs of the pages", () => {
  it.each(Object.keys(PROGRAMS))("docs/%s.md runs as it is printed", async (name) => {
    const { files = {}, turns = [], stdin = "", holds = "", prints, needs } = PROGRAMS[name] as Program;
    if (needs && findSystemProgram(needs) === undefined && !process.env["CI"]) return;
    const page = Object.entries(modulesOf(`docs/${name}.md`)).find(([, code]) => code.includes(holds));
    const [module = "", code = ""] = page ?? [];
    const folder = installedFolder({ "home/.keep": "", ...files, [module]: code });
    const { url } = await startModelServer("openai", turns);
    const env = {
      ...{ ...SHARED_CODE, PATH: process.env["PATH"], HOME: join(folder, "home") },
      ...{ MODEL_BASE_URL: url, MODEL_NAME: MODEL, MODEL_API_KEY: API_KEY },
    };
    const child = promisify(execFile)(process.execPath, ["--no-warnings", module], { cwd: folder, env });
    child.child.stdin?.end(stdin);
    const { stdout } = await child;
    for (const text of prints) expect(stdout).toMatch(text);
  });
});

describe("the text of the pages", () => {
  const guides = listGuides();

  it.each(guides)("%s leads with code: at least 15 blocks for 1,000 words, and at most 1,000 words", (page) => {
    const { words, blocks } = measurePage(page);
    expect((blocks * 1_000) / words).toBeGreaterThanOrEqual(15);
    expect(words).toBeLessThan(1_000);
  });

  it.each(guides)("%s names each file that it shows", (page) => {
    const lines = textOf(page).split("\n");
    const unnamed = codeBlocks(page).flatMap(({ marks, line }) => {
      const path = marks.find((mark) => mark.startsWith("file="))?.slice("file=".length);
      const above = lines.slice(Math.max(0, line - 5), line - 2).join("\n");
      return path === undefined || above.includes(`\`${path}\``) ? [] : [`${page}:${line} ${path}`];
    });
    expect(unnamed).toEqual([]);
  });

  it("has short paragraphs: at most 5 % have more than 60 words", () => {
    expect(guides.length).toBeGreaterThan(20);
    const measured = [...pages, "README.md"].map(measurePage);
    const sum = (key: "paragraphs" | "longParagraphs") => measured.reduce((total, one) => total + one[key], 0);
    expect(sum("longParagraphs") / sum("paragraphs")).toBeLessThanOrEqual(0.05);
    expect(guides.filter((page) => measurePage(page).longParagraphs > 0)).toEqual([]);
  });
});

describe("the index of the pages", () => {
  const index = textOf("docs/README.md");

  it("has each page, and is the navigation of the site", () => {
    expect(readFileSync(join(ROOT, "docs/site/.vitepress/config.ts"), "utf8")).toContain('"../../README.md"');
    const listed = [...index.matchAll(/\]\(([a-z-]+\.md)\)/g)].map(([, page = ""]) => `docs/${page}`);
    const expected = pages.filter((page) => page !== "docs/README.md");
    expect([...new Set(listed)].sort()).toEqual(expected.sort());
  });

  it("defines each term once", () => {
    const words = [
      "Skill",
      "Source",
      "Catalog",
      "Disclosure",
      "Policy",
      "Host",
      "Tool",
      "Session",
      "Run",
      "Diagnostic",
    ];
    expect([...textOf("docs/concepts.md").matchAll(/^\| \*\*(\w+)\*\* \|/gm)].map(([, word]) => word)).toEqual(words);
  });

  it.each([...pages, "README.md", "examples/README.md"])("%s links only to existing headings", (page) => {
    const links = [...textOf(page).matchAll(/\]\(([^)\s:]*)#([^)\s]+)\)/g)];
    const wrong = links.filter(([, to = "", heading = ""]) => {
      const target = to === "" ? page : join(dirname(page), to);
      return target.endsWith(".md") && !headingsOf(textOf(target)).has(heading);
    });
    expect(wrong.map(([link]) => link)).toEqual([]);
  });
});

/** What links to headings of a page end in. */
function headingsOf(text: string): Set<string> {
  const headings = [...text.replace(/^```[\s\S]*?^```/gm, "").matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replace(/ /g, "-"),
  );
  return new Set([...headings, ...[...text.matchAll(/<a id="([^"]+)"/g)].map(([, id = ""]) => id)]);
}
