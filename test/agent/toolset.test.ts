import { existsSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { discoverIn } from "../support/discover.ts";
import { writeFiles } from "../support/folder.ts";
import { MY_SKILL, openToolset, openToolsetIn, ownSkill, toolsetOf } from "../support/toolset.ts";

const OUTPUT = (tool: string, text: string) => `<skill_output tool="${tool}">\n${text}\n</skill_output>`;

describe("a toolset", () => {
  it("[T-11] [T-12] works as documented, in a home without node_modules", async () => {
    const { tools, problems, call, scene } = await openToolset(MY_SKILL, { skill: "my-skill" });
    expect(problems).toEqual([]);
    expect(tools).toMatchObject([
      {
        name: "my-skill.my-tool",
        description: "Does something useful",
        category: "skills",
        inputSchema: { type: "object", properties: { input: { type: "string" } }, required: ["input"] },
        owner: {
          name: "my-skill",
          source: "~/.agent/skills",
          location: join(scene.root, "home/.agent/skills/my-skill"),
        },
      },
    ]);
    expect(await call("my-tool", { input: "it" })).toEqual({
      text: OUTPUT("my-skill.my-tool", "Processed: it"),
      isError: false,
      title: "Completed",
      data: {},
      output: "Processed: it",
    });
    expect(await call("my-tool", { input: 3 })).toMatchObject({ isError: true, code: "input-invalid" });
  });

  const SPELLINGS: Record<string, [file: string, reference: string]> = {
    "TypeScript without its ending": ["a/tools.ts", "a/tools:Tools"],
    "its ending too": ["a/tools.ts", "a/tools.ts:Tools"],
    "a path with ./": ["tools.mts", "./tools:Tools"],
    JavaScript: ["tools.js", "tools:Tools"],
    "a module by its ending": ["tools.mjs", "tools:Tools"],
    "a folder": ["tools/index.ts", "tools:Tools"],
  };
  for (const [what, [file, reference]] of Object.entries(SPELLINGS)) {
    it(`[T-11] accepts ${what}`, async () => {
      const { call, problems } = await openToolset(ownSkill({ [file]: toolsetOf({ one: 'return "1"' }) }, [reference]));
      expect(problems).toEqual([]);
      expect((await call("one")).text).toBe(OUTPUT("x.one", "1"));
    });
  }

  it("[T-11] accepts a CommonJS module, whatever a package.json above it says", async () => {
    const files = {
      ...ownSkill(
        {
          "old.cjs": `const { Tool } = require("skillet"); const { z } = require("zod");
            module.exports = { Tools: [Tool.define("one", { description: "d", parameters: z.object({}), execute: () => "1" })] };`,
          "new.js": toolsetOf({ two: 'return "2"' }),
        },
        ["old:Tools", "new:Tools"],
      ),
      "home/package.json": '{ "type": "commonjs" }',
    };
    const { tools, problems } = await openToolset(files);
    expect(problems).toEqual([]);
    expect(tools.map(({ name }) => name)).toEqual(["x.one", "x.two"]);
  });

  it("[T-11] accepts a class, constructed with only the skill, the workspace and the caller", async () => {
    const classes = `import { Tool } from "@agent/tools";
      import { z } from "zod";
      const tool = (name: string, given: unknown) => Tool.define(name, { description: "d", parameters: z.object({}), execute: () => JSON.stringify(given) });
      export class Held { readonly tools; constructor(private readonly given: unknown) { this.tools = [tool("held", given)]; } }
      export class Getter { get tools() { return [tool("getter", 1)]; } }
      export class Method { async tools() { return [tool("method", 2)]; } }
      export class Iterable { *[Symbol.iterator]() { yield tool("iterable", 3); } }
      export enum Kind { One }`;
    const references = ["Held", "Getter", "Method", "Iterable"].map((name) => `toolsets/index:${name}`);
    const { tools, problems, call, scene } = await openToolset(ownSkill({ "toolsets/index.ts": classes }, references), {
      host: { caller: { chatType: "private", chatId: "7" } },
    });
    expect(problems).toEqual([]);
    expect(tools.map(({ name }) => name)).toEqual(["x.held", "x.getter", "x.method", "x.iterable"]);
    const place = join(scene.root, "home/.agent/skills/x");
    const given = JSON.stringify({
      skill: { name: "x", source: "~/.agent/skills", location: place },
      workspace: scene.workspace,
      caller: { chatType: "private", chatId: "7" },
    });
    expect((await call("held")).text).toBe(OUTPUT("x.held", given));
  });

  it("imports its own files, as compilers do, and its data", async () => {
    const { call, problems } = await openToolset(
      ownSkill({
        "toolsets/index.ts": toolsetOf(
          { one: 'return a + b + c + readFileSync(join(import.meta.dirname, "../data.txt"), "utf8")' },
          `import { a } from "./a"; import { b } from "./b.js"; import { c } from "../c/index.ts";
           import { readFileSync } from "node:fs"; import { join } from "path";`,
        ),
        "toolsets/a.ts": "export const a: string = 'a';",
        "toolsets/b.ts": "export const b: string = 'b';",
        "c/index.ts": "export const c: string = 'c';",
        "data.txt": "d",
      }),
    );
    expect(problems).toEqual([]);
    expect((await call("one")).text).toBe(OUTPUT("x.one", "abcd"));
  });

  it("works when skillet's own folder is a link, and shows models no hidden characters", async () => {
    const files = ownSkill({
      "toolsets/index.ts": toolsetOf({ one: "return word" }, 'import { word } from "./word.ts";').replace(
        "z.string().optional()",
        'z.string().optional().describe("a\\u200bb")',
      ),
      "toolsets/word.ts": "export const word = 'linked';",
    });
    const scene = await discoverIn({ ...files, "home/elsewhere/x": "" });
    const home = join(scene.root, "link");
    symlinkSync(join(scene.root, "home/elsewhere"), home);
    const { call, tools } = await openToolsetIn(scene, { host: { home } });
    expect((await call("one")).text).toBe(OUTPUT("x.one", "linked"));
    expect(JSON.stringify(tools[0]?.inputSchema)).toContain("a\\\\u{200b}b");
  });

  it("imports packages that are installed next to a user's skill", async () => {
    const { call, problems } = await openToolset({
      ...ownSkill({ "toolsets/index.ts": toolsetOf({ one: "return word" }, 'import { word } from "some-package";') }),
      "home/.agent/skills/x/node_modules/some-package/package.json": '{ "type": "module", "exports": "./main.js" }',
      "home/.agent/skills/x/node_modules/some-package/main.js": "export const word = 'there';",
    });
    expect(problems).toEqual([]);
    expect((await call("one")).text).toBe(OUTPUT("x.one", "there"));
  });

  it("passes the call's context to a tool, and passes on its progress", async () => {
    const body = `ctx.progress("half way"); return JSON.stringify([ctx.skill.name, ctx.run, ctx.key, ctx.env, Object.keys(process.env).sort(), ctx.signal.aborted]);`;
    const { call } = await openToolset(ownSkill({ "toolsets/index.ts": toolsetOf({ one: body }) }), {
      env: { PATH: "/usr/bin", A_SECRET: "hidden", LANG: "C" },
    });
    const said: string[] = [];
    const { text: content } = await call(
      "one",
      {},
      { run: "r", key: "k", env: { TOKEN: "t" }, onProgress: (text) => said.push(text) },
    );
    expect(JSON.parse(content.split("\n")[1] ?? "")).toEqual([
      "x",
      "r",
      "k",
      { TOKEN: "t" },
      ["HOME", "LANG", "PATH"],
      false,
    ]);
    expect(said).toEqual(["half way"]);
  });

  it("starts programs in the caller's sandbox, and stops them", async () => {
    const body = `const stop = new AbortController();
      const one = await ctx.sandbox.run(["echo", "a"], { stdin: "in", seconds: 3 });
      const other = ctx.sandbox.run(["sleep"], { signal: stop.signal });
      stop.abort();
      return one.stdout + (await other).ending + await ctx.sandbox.run(["fail"]).catch((error) => error.code + error.message);`;
    const { call } = await openToolset(ownSkill({ "toolsets/index.ts": toolsetOf({ one: body }) }));
    const asked: unknown[] = [];
    const sandbox: NonNullable<Parameters<typeof call>[2]>["sandbox"] = {
      async run(argv, { signal, ...options } = {}) {
        asked.push([argv, options]);
        if (argv[0] === "fail") throw Object.assign(new Error("no"), {});
        if (argv[0] === "echo") return { ending: "exit", exitCode: 0, stdout: "a,", stderr: "" };
        await new Promise((resolve) => (signal?.aborted ? resolve(0) : signal?.addEventListener("abort", resolve)));
        return { ending: "abort", stdout: "", stderr: "" };
      },
    };
    expect((await call("one", {}, { sandbox })).text).toBe(OUTPUT("x.one", "a,abortfailedno"));
    expect(asked[0]).toEqual([["echo", "a"], { stdin: "in", seconds: 3 }]);
    expect((await call("one")).text).toContain("No sandbox is available");
  });

  it("reports the effect of a call, and needs approval when it cannot", async () => {
    const tool = (name: string, effect: string) =>
      `Tool.define("${name}", { description: "d", parameters: z.object({ to: z.string() }), effect: ${effect}, execute: () => "done" })`;
    const effects = `import { z } from "zod"; import { Tool } from "@agent/tools";
      export const Tools = [${tool("plain", '"outside"')}, ${tool("by-input", '({ to }) => to === "me" ? undefined : ({ on: "outside", what: "send to " + to, isReversible: false })')}, ${tool("broken", "() => { throw new Error() }")}];`;
    const { tool: named } = await openToolset(ownSkill({ "toolsets/index.ts": effects }));
    expect(await named("plain").effect?.({ to: "you" })).toEqual({ on: "outside" });
    expect(await named("by-input").effect?.({ to: "me" })).toBeUndefined();
    expect(await named("by-input").effect?.({ to: "you" })).toEqual({
      on: "outside",
      what: "send to you",
      isReversible: false,
    });
    expect(await named("broken").effect?.({ to: "you" })).toEqual({ on: "outside" });
  });

  it("imports changed code again, with everything that it imports", async () => {
    const files = ownSkill({
      "toolsets/index.ts": toolsetOf({ one: "return word" }, 'import { word } from "./word.ts";'),
      "toolsets/word.ts": "export const word = 'before';",
    });
    const { call, scene } = await openToolset(files);
    expect((await call("one")).text).toContain("before");
    writeFileSync(join(scene.root, "home/.agent/skills/x/toolsets/word.ts"), "export const word = 'after';");
    const again = await openToolsetIn(await scene.again());
    expect((await again.call("one")).text).toContain("after");
    expect((await call("one")).text, "the running code is the checked one").toContain("before");
  });

  it("[Q-04] never runs in an untrusted workspace, and runs trusted code until it changes", async () => {
    const marks = join((await openToolset(MY_SKILL, { skill: "my-skill" })).scene.root, "ran");
    const toolset = toolsetOf(
      { one: 'return "1"' },
      `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(marks)}, "");`,
    );
    const own = ownSkill({ "toolsets/index.ts": toolset });
    const files = Object.fromEntries(
      Object.entries(own).map(([path, text]) => [path.replace("home/.agent/", ""), text]),
    );
    const untrusted = await openToolset(files);
    expect(untrusted.tools).toEqual([]);
    expect(untrusted.problems).toMatchObject([
      { code: "untrusted", commands: [expect.stringContaining("skillet trust")] },
    ]);
    const { scene } = untrusted;
    scene.trust.grant([{ skill: scene.skill("x"), copy: await copySkill(scene.skill("x")) }]);
    expect(existsSync(marks)).toBe(false);
    const trusted = await openToolsetIn(scene);
    expect((await trusted.call("one")).text).toContain("1");
    expect(existsSync(marks)).toBe(true);
    rmSync(marks);
    writeFiles(scene.root, { "project/skills/x/toolsets/more.ts": "export {};" });
    const changed = await openToolsetIn(await scene.again());
    expect(changed.tools).toEqual([]);
    expect(changed.problems).toMatchObject([
      { code: "changed", message: expect.stringContaining("toolsets/more.ts added") },
    ]);
    expect(existsSync(marks)).toBe(false);
  });

  it("[Q-04] keeps packages away from trusted code: they are not part of it", async () => {
    const own = ownSkill({
      "toolsets/index.ts": toolsetOf({ one: "return word" }, 'import { word } from "some-package";'),
    });
    const files = Object.fromEntries(
      Object.entries(own).map(([path, text]) => [path.replace("home/.agent/", ""), text]),
    );
    const { scene } = await openToolset({
      ...files,
      "skills/x/node_modules/some-package/package.json": '{ "type": "module", "exports": "./main.js" }',
      "skills/x/node_modules/some-package/main.js": "export const word = 'there';",
    });
    scene.trust.grant([{ skill: scene.skill("x"), copy: await copySkill(scene.skill("x")) }]);
    const { problems } = await openToolsetIn(scene);
    expect(problems).toMatchObject([
      { code: "toolset-import", message: expect.stringContaining("not part of the trusted files") },
    ]);
  });

  it("[P-16] is valid in every shipped skill that has one", async () => {
    const scene = await discoverIn({});
    for (const { name } of scene.catalog.skills)
      expect((await openToolsetIn(scene, { skill: name })).problems).toEqual([]);
  });

  it("is undefined for a skill without one", async () => {
    const { tools, problems } = await openToolset({
      "home/.agent/skills/x/SKILL.md": "---\nname: x\ndescription: d\n---\nDo.\n",
    });
    expect([tools, problems]).toEqual([[], []]);
  });
});
