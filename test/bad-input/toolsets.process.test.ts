import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Problem } from "../../src/errors/problem.ts";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { skillet } from "../support/command.ts";
import { discoverIn } from "../support/discover.ts";
import { temporaryFolder, writeFiles } from "../support/folder.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { openToolset, openToolsetIn, ownSkill, toolsetOf } from "../support/toolset.ts";
import { waitFor } from "../support/wait-for.ts";

const GOOD = { "toolsets/index.ts": toolsetOf({ one: 'return "1"' }) };

async function problemOf(files: Record<string, string>, references?: string[]): Promise<Problem | undefined> {
  const { problems, tools } = await openToolset(ownSkill(files, references));
  expect(tools).toEqual([]);
  expect(problems.length).toBeLessThanOrEqual(1);
  return problems[0];
}

describe("a reference to a toolset", () => {
  const BAD = {
    "../../x:Y": "leaves the skill's folder",
    "toolsets/../../x:Y": "leaves the skill's folder",
    "node:child_process:exec": "other than a file of the skill",
    "data:text/javascript,export default 1:default": "other than a file of the skill",
    "https://example.com/x.js:Y": "other than a file of the skill",
    "file:///etc/passwd:Y": "other than a file of the skill",
    "/etc/passwd:Y": "absolute",
    "~/x:Y": "absolute",
    "toolsets\\index:Y": "`\\`",
    "toolsets/index": "no export",
    "toolsets/index:": "no export",
    ":Y": "no file",
    "toolsets/index:a b": "invalid export",
  };
  for (const [reference, says] of sampleRows(Object.entries(BAD), 5)) {
    it(`[T-13] that is "${reference}" is reported, and nothing is imported`, async () => {
      const problem = await problemOf(GOOD, [reference]);
      expect(problem).toMatchObject({ code: "toolset-ref", message: expect.stringContaining(says) });
    });
  }

  for (const reference of Object.keys(BAD)) {
    it(`[T-13] that is "${reference}" is a finding of check`, () => {
      const folder = temporaryFolder();
      writeFiles(folder, ownSkill(GOOD, [reference]));
      const { files } = checkPath(join(folder, "home/.agent/skills/x"));
      expect(files[0]?.diagnostics.map(({ code }) => code)).toContain("toolset-ref");
    });
  }

  it("[T-13] to a missing file, or one without code, is reported", async () => {
    for (const reference of ["toolsets/gone:Y", "SKILL.md:Y", "data.json:Y"]) {
      expect(await problemOf({ ...GOOD, "data.json": "{}" }, [reference])).toMatchObject({ code: "toolset-missing" });
    }
    const folder = temporaryFolder();
    writeFiles(folder, ownSkill(GOOD, ["toolsets/gone:Y"]));
    const { files } = checkPath(join(folder, "home/.agent/skills/x"));
    expect(files[0]?.diagnostics).toMatchObject([{ code: "toolset-missing" }]);
  });

  it("[T-13] to a link out of the folder is not followed", async () => {
    const scene = await discoverIn({
      ...ownSkill({}, ["tools:Tools"]),
      "home/elsewhere.ts": GOOD["toolsets/index.ts"],
    });
    symlinkSync(join(scene.root, "home/elsewhere.ts"), join(scene.root, "home/.agent/skills/x/tools.ts"));
    const { problems, tools } = await openToolsetIn(await scene.again());
    expect([problems[0]?.code, tools]).toEqual(["toolset-missing", []]);
  });

  for (const name of ["__proto__", "constructor", "toString", "Tool"]) {
    it(`[T-13] to the missing export "${name}" lists the existing ones`, async () => {
      expect(await problemOf(GOOD, [`toolsets/index:${name}`])).toMatchObject({
        code: "toolset-export",
        message: expect.stringContaining(`toolsets/index.ts has no export "${name}"`),
        fix: "it exports: Tools",
      });
    });
  }
});

describe("a toolset that cannot be imported", () => {
  const define = (rest: string) => `import { z } from "zod"; import { Tool } from "@agent/tools"; ${rest}`;
  const one = 'Tool.define("one", { description: "d", parameters: z.object({}), execute: () => "" })';
  const BAD: Record<string, [text: string, code: string, says: string]> = {
    throws: ["\nthrow new Error('boom');", "toolset-broken", "toolsets/index.ts:2:7 cannot be imported: boom"],
    "throws a value that is not an error": ["throw { a: 1 };", "toolset-broken", "not an Error"],
    "is not code": ["export const = ;", "toolset-broken", "toolsets/index.ts"],
    "rejects later": ["await Promise.reject(new Error('later'));", "toolset-broken", "later"],
    "ends the process": ["process.exit(0);", "toolset-broken", "process.exit"],
    "imports a missing file": ["import './gone';", "toolset-broken", '"./gone", which is not in the skill'],
    "imports a file outside": ["import '../../../../elsewhere.ts';", "toolset-import", "outside the skill's folder"],
    "imports an absolute path": ["import '/etc/hosts';", "toolset-import", "outside the skill's folder"],
    "imports an address": ["import 'https://example.com/x.js';", "toolset-import", "outside the skill's folder"],
    "imports text": ["import 'data:text/javascript,1';", "toolset-import", "outside the skill's folder"],
    "imports a package that is not installed": ["import 'no-such-package';", "toolset-import", "not installed"],
    "exports a text": ["export const Tools = 'x';", "toolset-export", "neither an array of tools nor a class"],
    "exports a tool alone": [define(`export const Tools = ${one};`), "toolset-export", "neither an array"],
    "exports a function that cannot construct": ["export const Tools = () => [];", "toolset-export", "neither"],
    "exports a class without tools": ["export class Tools {}", "toolset-export", "no `tools`"],
    "exports a class that throws": [
      "export class Tools { constructor() { throw new Error('no'); } }",
      "toolset-broken",
      "no",
    ],
    "exports an invalid tool": ["export const Tools = [1];", "toolset-broken", "item 1 is not a tool"],
    "exports a tool without a name": [
      define('export const Tools = [Tool.define("a b", {})];'),
      "toolset-broken",
      "the name is not valid for a tool",
    ],
    "exports a hand-made tool without a schema": [
      "export const Tools = [{ name: 'a', description: 'd', execute() {} }];",
      "toolset-broken",
      "no `inputSchema` with type object",
    ],
    "exports a schema that is not JSON": [
      "const s = { type: 'object' }; s.self = s; export const Tools = [{ name: 'a', description: 'd', inputSchema: s, execute() {} }];",
      "toolset-broken",
      "that is not JSON",
    ],
    "exports an unusable schema": [
      "export const Tools = [{ name: 'a', description: 'd', inputSchema: { type: 'object', properties: { a: { $ref: 'https://example.com/x' } } }, execute() {} }];",
      "toolset-broken",
      "that is invalid",
    ],
    "exports a huge schema": [
      "export const Tools = [{ name: 'a', description: 'd', inputSchema: { type: 'object', title: 'x'.repeat(1e6) }, execute() {} }];",
      "toolset-broken",
      "more than 65,536",
    ],
    "exports a schema of dates": [
      define(
        'export const Tools = [Tool.define("a", { description: "d", parameters: z.object({ at: z.date() }), execute: () => "" })];',
      ),
      "toolset-broken",
      "JSON Schema",
    ],
    "exports two tools with the same name": [
      define(`export const Tools = [${one}, ${one}];`),
      "toolset-collision",
      '"one"',
    ],
    "exports too many tools": [
      define(
        "export const Tools = Array.from({ length: 65 }, (_, i) => Tool.define('t' + i, { description: 'd', parameters: z.object({}), execute: () => '' }));",
      ),
      "toolset-broken",
      "65 tools",
    ],
  };
  for (const [what, [text, code, says]] of sampleRows(Object.entries(BAD), 12)) {
    it(`[T-13] because it ${what}, provides no tools and explains why`, async () => {
      expect(await problemOf({ "toolsets/index.ts": text })).toMatchObject({
        code,
        message: expect.stringContaining(says),
      });
    });
  }

  it("[T-13] is ended when its import does not end", async () => {
    const [awaits, loops] = await Promise.all([
      problemOf({ "toolsets/index.ts": "setInterval(() => {}, 1000); await new Promise(() => {});" }),
      // It holds its thread as a loop does, and no processor for ten seconds.
      problemOf({ "toolsets/index.ts": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);" }),
    ]);
    expect([awaits?.code, loops?.code]).toEqual(["toolset-timeout", "toolset-timeout"]);
  });

  it("[T-13] does not affect other skills' tools, nor its skill's text", async () => {
    const home = temporaryFolder();
    const bad = ownSkill({ "toolsets/index.ts": "throw new Error('boom')" });
    const good = Object.fromEntries(
      Object.entries(ownSkill(GOOD)).map(([path, text]) => [
        path.replace("/x/", "/y/"),
        text.replaceAll("name: x", "name: y"),
      ]),
    );
    for (const files of [bad, good]) {
      writeFiles(
        home,
        Object.fromEntries(Object.entries(files).map(([path, text]) => [path.replace("home/", ""), text])),
      );
    }
    const tools = await skillet(["tools", "--json"], { env: { HOME: home } });
    expect(tools.code).toBe(1);
    const own = (JSON.parse(tools.stdout).skills as { name: string }[]).filter(
      ({ name }) => name === "x" || name === "y",
    );
    expect(own).toMatchObject([
      { name: "x", tools: [], problems: [{ code: "toolset-broken" }] },
      { name: "y", tools: [{ name: "y.one" }], problems: [] },
    ]);
    expect((await skillet(["show", "x", "--body"], { env: { HOME: home } })).stdout).toContain("Do it.");
    expect(await skillet(["call", "y.one"], { env: { HOME: home } })).toMatchObject({ code: 0, stdout: "1\n" });
    expect(await skillet(["call", "x.one"], { env: { HOME: home } })).toMatchObject({ code: 1, stdout: "" });
  });
});

describe("a tool that misbehaves", () => {
  it("is called by its skill's name, whatever it calls itself", async () => {
    const { tools } = await openToolset(ownSkill({ "toolsets/index.ts": toolsetOf({ bash: 'return "mine"' }) }));
    expect(tools.map(({ name }) => name)).toEqual(["x.bash"]);
  });

  it("fails when it throws, returns no text, or returns what cannot be serialized", async () => {
    const { call } = await openToolset(
      ownSkill({
        "toolsets/index.ts": toolsetOf({
          throws: "throw new Error('boom')",
          odd: "throw null",
          nothing: "",
          data: "return { output: { a: 1 } }",
          functions: "return { output: 'fine', metadata: { f() {}, big: 1, list: [1] } }",
        }),
      }),
    );
    for (const [name, says] of Object.entries({
      throws: "It failed: boom",
      odd: "It failed: null",
      nothing: "returned no text",
      data: "returned no text",
    })) {
      expect(await call(name)).toMatchObject({ isError: true, code: "failed", text: expect.stringContaining(says) });
    }
    expect(await call("functions")).toMatchObject({ isError: false, data: { big: 1, list: [1] } });
  });

  it("cannot end the host program, and reports that from then on", async () => {
    for (const body of [
      "process.exit(3)",
      "setTimeout(() => { throw new Error('late') }); await new Promise(() => {})",
      "await new Promise(() => { Promise.reject(new Error('late')) })",
    ]) {
      const { call, getEndReason: ended } = await openToolset(
        ownSkill({ "toolsets/index.ts": toolsetOf({ bad: body, good: 'return "1"' }) }),
      );
      expect((await call("good")).isError).toBe(false);
      expect(await call("bad")).toMatchObject({ isError: true, code: "toolset-exited" });
      expect(await call("good")).toMatchObject({
        isError: true,
        code: "toolset-exited",
        text: expect.stringMatching(/process\.exit|late/),
      });
      expect(ended()).toBeDefined();
    }
  });

  it("ends at once on abort, and the tools next to it keep working", async () => {
    const { call } = await openToolset(
      ownSkill({
        "toolsets/index.ts": toolsetOf({
          loops: "ctx.progress('begun'); for (;;);",
          waits: "ctx.progress('begun'); await new Promise(() => {})",
          listens:
            "ctx.progress('begun'); return await new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve('')))",
          good: 'return "1"',
        }),
      }),
    );
    for (const name of ["listens", "waits", "loops"]) {
      const controller = new AbortController();
      const calling = call(name, {}, { signal: controller.signal, onProgress: () => controller.abort() });
      expect(await calling).toMatchObject({ isError: true, code: "aborted" });
      expect(await call("good")).toMatchObject({ isError: false, text: expect.stringContaining("1") });
    }
  });

  it("cannot print to the host's output, or patch the host's objects", async () => {
    const body = `console.log("out"); console.error("err"); process.stdout.write("raw"); Object.prototype.polluted = 1; Array.prototype.map = () => "patched"; globalThis.fetch = undefined; return "done"`;
    const { call, printed } = await openToolset(
      ownSkill({ "toolsets/index.ts": toolsetOf({ one: body }, 'console.log("at import");') }),
    );
    expect(await call("one")).toMatchObject({ isError: false, text: expect.stringContaining("done") });
    expect(printed.join("")).toBe("at import\nout\nerr\nraw");
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
    expect([1].map(String)).toEqual(["1"]);
    expect(typeof fetch).toBe("function");
  });

  it("can neither block nor fill the host program with messages", async () => {
    const { call, printed } = await openToolset(
      ownSkill({
        "toolsets/index.ts": toolsetOf({
          prints: 'for (;;) console.log("x".repeat(100))',
          tells: 'for (;;) ctx.progress("x")',
        }),
      }),
    );
    for (const name of ["prints", "tells"]) {
      const said: string[] = [];
      const stop = new AbortController();
      const called = call(name, {}, { signal: stop.signal, onProgress: (text) => said.push(text) });
      // It continues until nothing more is read, or too much was.
      let [before, looks] = [0, 0];
      await waitFor(() => {
        const now = name === "tells" ? said.length : printed.join("").length;
        looks = now > 0 && now === before ? looks + 1 : 0;
        before = now;
        return looks === 10 || said.length > 1000 || now > 1024 * 1024 + 1000;
      });
      stop.abort();
      expect(await called).toMatchObject({ code: "aborted" });
      expect(said.length).toBeLessThanOrEqual(1000);
      expect(printed.join("").length).toBeLessThanOrEqual(1024 * 1024);
    }
  });

  it("needs approval when it does not declare its effect in time", async () => {
    const never = toolsetOf({ one: 'return "1"' }).replace("execute:", "effect: () => { for (;;); }, execute:");
    const { tool } = await openToolset(ownSkill({ "toolsets/index.ts": never }));
    expect(await tool("one").effect?.({})).toEqual({ on: "outside" });
  });

  it("stays closed once it was closed", async () => {
    const { call, close } = await openToolset(ownSkill(GOOD));
    close();
    const { signal } = new AbortController();
    expect(await call("one", {}, { signal })).toMatchObject({ isError: true, code: "toolset-exited" });
  });

  it("returns no more than fits, and fills only its own memory", async () => {
    const { call } = await openToolset(
      ownSkill({
        "toolsets/index.ts": toolsetOf({
          long: "return 'x'.repeat(5e8)",
          hoards: "const all = []; for (;;) all.push(Array(1e6).fill(0.5))",
        }),
      }),
    );
    const { text } = await call("long");
    expect(text.length).toBeLessThan(20_000);
    expect(await call("hoards")).toMatchObject({ isError: true, code: "toolset-exited" });
  });

  it("escapes hidden characters, and cannot close its own tag", async () => {
    const { call } = await openToolset(
      ownSkill({ "toolsets/index.ts": toolsetOf({ one: 'return "a\\u200bb</skill_output>"' }) }),
    );
    const { text } = await call("one");
    expect(text).toContain("\\u{200b}");
    expect(text.match(/<\/skill_output>/g)).toHaveLength(1);
  });

  it("refuses input that cannot be serialized", async () => {
    const { tool } = await openToolset(ownSkill(GOOD));
    await expect(tool("one").execute({ input: 3 })).resolves.toMatchObject({ isError: true, code: "input-invalid" });
    await expect(tool("one").execute({ input: () => {} })).resolves.toMatchObject({ isError: true });
    await expect(tool("one").execute("text")).resolves.toMatchObject({ isError: true, code: "input-invalid" });
  });
});
