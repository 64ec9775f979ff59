import { execFile, spawnSync } from "node:child_process";
import { chmodSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { findSystemProgram } from "../../src/util/system.ts";
import { readBenchResults } from "../../tools/docs/benchmark-page.ts";
import { screens } from "../../tools/screens.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import {
  callsOf,
  codeBlocks,
  installedFolder,
  moduleOf,
  ROOT,
  typeErrors,
  usageError,
} from "../support/markdown-code.ts";
import { API_KEY, MODEL, startModelServer } from "../support/model-server.ts";
import { SHARED_CODE } from "../support/program.ts";

const page = readFileSync(join(ROOT, "README.md"), "utf8");
const code = codeBlocks("README.md").filter(({ language }) => language === "ts");
const shortPrograms = codeBlocks("docs/embedding.md").filter(({ marks }) => marks.includes("alone"));
/** Each code block is a complete module, so that it can be copied. */
const moduleWith = (what: string) =>
  moduleOf([...code, ...shortPrograms].filter((block) => block.code.includes(what)).slice(0, 1));

/** A program in a folder with the package installed, with a model on this machine. */
async function run(files: Record<string, string>, url = "") {
  const model = `[models.default]\nprovider = "openai-compatible"\nmodel = "${MODEL}"\napi_key = "${API_KEY}"\nbase_url = "${url}"\n`;
  const home = temporaryFolder({ ".skillet/config.toml": url === "" ? "" : model });
  const folder = installedFolder(files);
  chmodSync(folder, 0o755); // If root runs the tests, tools of a skill run as another user.
  const env = { PATH: process.env["PATH"], ...SHARED_CODE, HOME: home, MODEL_BASE_URL: url };
  return promisify(execFile)(process.execPath, ["--no-warnings", "main.ts"], { cwd: folder, env });
}

describe("the code of the README", () => {
  it("compiles, each block separately, with the published types", () => {
    const modules = Object.fromEntries(code.map((block) => [`README.${block.line}.ts`, moduleOf([block])]));
    expect(Object.keys(modules)).toHaveLength(2);
    expect(typeErrors(modules)).toEqual([]);
  });

  it("gives an agent of the AI SDK the instructions and the tools", async () => {
    const { url, requests } = await startModelServer("openai", [
      ({ instructions }) => [{ tool: "load_skill", input: { skill: /name="(\w+)"/.exec(instructions)?.[1] } }],
      () => "Moored.",
    ]);
    const main = `import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
      import { answer } from "./agent.ts";
      const { MODEL_BASE_URL: baseURL = "" } = process.env;
      const provider = createOpenAICompatible({ name: "test", baseURL, apiKey: "${API_KEY}" });
      console.log((await answer(provider("${MODEL}"), "use the knots skill")).text);`;
    const skill = skillText("knots", { body: "Make a bowline." });
    const files = { "skills/knots/SKILL.md": skill, "agent.ts": moduleWith("createSkillToolset"), "main.ts": main };
    expect(await run(files, url)).toEqual({ stdout: "Moored.\n", stderr: "" });
    expect(requests[0]?.instructions).toMatch(
      /^You are a helpful assistant\.\n\n\[1 skills available\]\n- knots: Does knots\. Use when asked for knots\.\n\n<skill_content name="knots">\nMake a/,
    );
    expect(requests[1]?.results[0]?.content).toContain("Make a bowline.");
  });

  it("opens a session with a skill in code", async () => {
    const greet = '<skill_content name="greet">\nSay hello.\n</skill_content>\n';
    expect(await run({ "main.ts": moduleWith("openSession") })).toEqual({ stdout: `${greet}${greet}[]\n`, stderr: "" });
  });

  it("uses a skill as a sub-agent, and prints its tool calls", async () => {
    const { url, requests } = await startModelServer("openai", [
      ({ prompt }) => [{ tool: "read_file", input: { path: /\S+\.md/.exec(prompt)?.[0] } }],
      ({ results }) => (results[0]?.content.includes("on Friday") ? "Bins: Friday." : "?"),
    ]);
    const files = { "main.ts": moduleWith("useSkill"), "notes.md": "The bins are emptied on Friday.\n" };
    expect(await run(files, url)).toEqual({ stdout: "Bins: Friday.\n", stderr: "read_file\n" });
    expect(requests[0]?.instructions).toContain("# Summarize");
  });

  it("defines a tool of a skill", () => {
    const folder = installedFolder({
      "home/.skillet/skills/trips/SKILL.md": skillText("trips", { more: 'toolsets: ["toolsets/index:MyToolset"]\n' }),
      "home/.skillet/skills/trips/toolsets/index.ts": moduleWith("MyToolset"),
    });
    const call = [join(ROOT, "bin/skillet.cjs"), "call", "trips.rate", "--input", '{"city": "Oslo"}'];
    const env = { PATH: process.env["PATH"], HOME: join(folder, "home") };
    const result = spawnSync(process.execPath, call, { cwd: folder, env, encoding: "utf8" });
    expect(result).toMatchObject({ status: 0, stdout: "Oslo: 187 EUR\n" });
  });
});

describe("the README", () => {
  it("uses existing commands and options", async () => {
    const calls = callsOf("README.md");
    expect(calls.length).toBeGreaterThan(12);
    const problems = await Promise.all(calls.map(async (call) => ({ ...call, problem: await usageError(call) })));
    expect(problems.filter(({ problem }) => problem !== undefined)).toEqual([]);
  });

  it("names existing scripts of the project", () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    const named = [...page.matchAll(/\bnpm (?:run )?(start|test|(?<=run )\w+)/g)].map(([, name = ""]) => name);
    expect(named).toContain("start");
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
  });

  it("has at most 150 lines, and each of its figures is a stored measurement", () => {
    expect(page.split("\n").length).toBeLessThanOrEqual(150);
    const results = readBenchResults();
    const read = (name: string, row: RegExp) => results[name]?.rows.find((one) => row.test(one.name))?.value;
    const others = (results["loading"]?.rows ?? []).filter(({ isSkillet }) => !isSkillet).map(({ value }) => value);
    const figures: Record<string, unknown[]> = {
      "skillet loads (\\d+); ten other tools load (\\d+) to (\\d+)": [
        ...[read("loading", /^skillet/), Math.min(...others), Math.max(...others)],
      ],
      "takes ([\\d.]+) ms instead of ([\\d.]+) ms\\.": [
        ...[read("sandbox", /^skillet, as a user/), read("sandbox", /^a bare process/)],
      ],
      "first five for (\\d+) % of the test queries, in ([\\d.]+) ms": [
        ...[read("ranking", /among five/), read("matching", /^skillet$/)],
      ],
      "a prompt has ([\\d,]+) tokens of skill text; listing all of them takes ([\\d,]+)": [
        ...[read("prompt", /^skillet/), read("prompt", /^Gemini/)],
      ],
      "loads, of 12 skills[^|]*\\| \\*\\*(\\d+)\\*\\* \\| (\\d+) \\| (\\d+)": [
        ...[read("loading", /^skillet/), read("loading", /^skills /), read("loading", /^Claude Code/)],
      ],
      "without a message \\| \\*\\*(\\d+)\\*\\* \\| (\\d+) \\| (\\d+)": [
        ...[read("lost", /^skillet/), read("lost", /^skills /), read("lost", /^Claude Code/)],
      ],
    };
    for (const [text, expected] of Object.entries(figures)) {
      const [, ...shown] = new RegExp(text).exec(page) ?? [];
      expect(
        shown.map((number) => Number(number.replaceAll(",", ""))),
        text,
      ).toEqual(expected);
    }
    expect(others).toHaveLength(10);
    const claims =
      page
        .split("\n## Why\n")[1]
        ?.split("\n## ")[0]
        ?.match(/^- [\s\S]*?(?=^- |\n\n)/gm) ?? [];
    expect(claims).toHaveLength(4);
    for (const claim of claims) expect(claim).toMatch(/\d[\s\S]*\]\(docs\/benchmarks\.md#/);
  });

  it("and the pages describe each picture by its title", () => {
    const docs = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md"));
    const pictures = ["README.md", ...docs.map((name) => `docs/${name}`)].flatMap((name) => [
      ...readFileSync(join(ROOT, name), "utf8").matchAll(
        /!\[([^\]]*)\]\((?:docs\/)?((?:screens|diagrams)\/\w+\.svg)\)/g,
      ),
    ]);
    expect(pictures.length).toBeGreaterThan(6);
    for (const [, words, path = ""] of pictures)
      expect(readFileSync(join(ROOT, "docs", path), "utf8"), path).toContain(`<title>${words}</title>`);
  });

  it.skipIf(!findSystemProgram("bwrap") && !process.env["CI"])(
    "has pictures of the present output: `npm run screens` creates them",
    async () => {
      const made = await screens();
      for (const [path, picture] of Object.entries(made)) {
        expect(existsSync(join(ROOT, path)), path).toBe(true);
        expect(readFileSync(join(ROOT, path), "utf8"), path).toBe(picture);
        expect(picture).not.toMatch(/\/tmp\/|\/root\b|skillet-screens/);
        const pages = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md"));
        const texts = [page, ...pages.map((name) => readFileSync(join(ROOT, "docs", name), "utf8"))];
        expect(texts.some((text) => text.includes(path.replace(/^docs\//, "")))).toBe(true);
      }
    },
  );
});
