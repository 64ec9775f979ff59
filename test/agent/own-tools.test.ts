import { chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { openSession, type Session, type SessionOptions } from "../../src/agent/session/session.ts";
import type { Host } from "../../src/config/host.ts";
import type { Approve } from "../../src/host/approval.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import type { Tool } from "../../src/skill/tool.ts";
import { formatWireName } from "../../src/skill/tool-names.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";
import { toolsetOf } from "../support/toolset.ts";
import { useScene } from "../support/use.ts";

const HOME = "home/.skillet/skills";
const TOOLSET = 'toolsets:\n  - "toolsets/index:Tools"\n';
const says = (word: string) => `#!/bin/sh\necho "${word} $1"\n`;

interface Written {
  more?: string;
  /** The remaining parts of its folder. */
  files?: Record<string, string>;
}

/** Creates skills in a folder, trusted unless it is the workspace's. */
function filesOf(skills: Record<string, Written>, folder = HOME): Record<string, string> {
  return Object.fromEntries(
    Object.entries(skills).flatMap(([name, { more = "", files = {} }]) => [
      [`${folder}/${name}/SKILL.md`, skillText(name, { more })],
      ...Object.entries(files).map(([path, text]) => [`${folder}/${name}/${path}`, text]),
    ]),
  );
}

interface Opened {
  session: Session;
  scene: Scene;
}

async function opened(
  files: Record<string, string>,
  options: SessionOptions = {},
  host: Partial<Host> = {},
): Promise<Opened> {
  const scene = await discoverIn(files);
  chmodSync(scene.root, 0o755);
  const session = openSession(scene.catalog, { ...scene, ...host }, { provides: "all", ...options });
  onTestFinished(() => session.close());
  return { session, scene };
}

const brought = ({ tools }: Session) => tools.filter(({ owner }) => owner !== undefined);
const names = (session: Session) => brought(session).map(({ name }) => name);
const named = (session: Session, name: string) => session.tools.find((tool) => tool.name === name) as Tool;
const one = { "toolsets/index.ts": toolsetOf({ one: 'return "one of a toolset";' }) };

describe("own tools of a loaded skill", () => {
  it("[P-25] include its toolset's tools, its scripts and itself, while it is loaded", async () => {
    const { session } = await opened(
      filesOf({ mail: { more: TOOLSET, files: { ...one, "scripts/count.sh": says("counted") } } }),
    );
    expect(names(session)).toEqual([]);
    const { text } = await session.load("mail");
    expect(text).toContain("[It provides these tools: mail__one, mail__count, mail__run]");
    expect(names(session)).toEqual(["mail.one", "mail.count", "mail.run"]);
    expect(brought(session).map(({ category }) => category)).toEqual(["skills", "skills", "skills"]);
    expect(await session.call("mail.count", { args: ["seven"] })).toMatchObject({
      isError: false,
      text: expect.stringContaining("counted seven"),
    });
    session.unload("mail");
    expect(names(session)).toEqual([]);
    expect((await session.call("mail.count", {})).code).toBe("tool-unknown");
  });

  it("[P-25] are only its toolset's tools by default", async () => {
    const { session } = await opened(
      filesOf({ mail: { more: TOOLSET, files: { ...one, "scripts/count.sh": says("counted") } } }),
      { provides: "toolsets" },
    );
    await session.load("mail");
    expect(names(session)).toEqual(["mail.one"]);
  });

  it("[P-25] distinguish scripts with the same name by their folders", async () => {
    const { session } = await opened(
      filesOf({
        x: { files: { "scripts/a/do.sh": says("a"), "scripts/b/do.sh": says("b"), "scripts/do.py": "print('py')\n" } },
      }),
      { allowsSubAgents: false },
    );
    await session.load("x");
    expect(names(session).sort()).toEqual(["x.a_do_sh", "x.b_do_sh", "x.do_py"]);
    expect((await session.call("x.a_do_sh", { args: ["1"] })).text).toContain("a 1");
    expect((await session.call("x.b_do_sh", { args: ["2"] })).text).toContain("b 2");
  });

  it.each([
    ["folders with equivalent names", ["scripts/a.b/do.sh", "scripts/a_b/do.sh"]],
    ["folders in other scripts", ["scripts/é/do.sh", "scripts/ü/do.sh"]],
    ["a name that collides with another's path", ["scripts/a/do.sh", "scripts/b/do.sh", "scripts/a_do_sh.sh"]],
  ])("[P-25] distinguish scripts in %s", async (_, paths) => {
    const files = Object.fromEntries(paths.map((path) => [path, says(path)]));
    const { session } = await opened(filesOf({ x: { files } }), { allowsSubAgents: false });
    await session.load("x");
    expect(new Set(names(session)).size).toBe(paths.length);
    const ran = await Promise.all(names(session).map(async (name) => (await session.call(name, {})).text));
    for (const path of paths)
      expect(
        ran.filter((content) => content.includes(`${path} \n`)),
        path,
      ).toHaveLength(1);
  });

  it("[P-25] have names that a model can call, and show no hidden characters of script names", async () => {
    const odd = [
      "my script.sh",
      "ünï.sh",
      `${"long".repeat(30)}.sh`,
      "x.test.sh",
      "sly\u202e\nname.sh",
      "__proto__.sh",
    ];
    const files = Object.fromEntries(odd.map((file) => [`scripts/${file}`, says("ran")]));
    const { session } = await opened(filesOf({ x: { files } }), { allowsSubAgents: false });
    const { text } = await session.load("x");
    const tools = brought(session);
    // A name that begins with `_` is not a script.
    expect(tools.length).toBe(odd.length - 1);
    for (const { name, description } of tools) {
      expect(formatWireName(name)).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      expect(text).toContain(formatWireName(name));
      expect(description).not.toMatch(/[\u202e\n]/);
      expect((await session.call(formatWireName(name), { args: ["it"] })).text).toContain("ran it");
    }
    expect((await session.call("nothing", {})).text).not.toMatch(/[\u202e\n]/);
  });

  it("[P-25] call the toolset's tool when a script has the same name", async () => {
    const files = { ...one, "scripts/one.sh": says("script") };
    const { session } = await opened(filesOf({ x: { more: TOOLSET, files } }));
    const { text } = await session.load("x");
    expect(text).toContain("[It provides these tools: x__one, x__run]");
    expect(names(session)).toEqual(["x.one", "x.run"]);
    expect((await session.call("x.one", {})).text).toContain("one of a toolset");
  });

  it("[P-25] call the script named run before the skill itself, and the toolset's tool before both", async () => {
    const script = { "scripts/run.sh": says("the script") };
    const { session } = await opened(
      filesOf({
        plain: { files: script },
        both: { more: TOOLSET, files: { ...script, "toolsets/index.ts": toolsetOf({ run: 'return "the tool";' }) } },
      }),
    );
    await session.load("plain");
    expect(names(session)).toEqual(["plain.run"]);
    expect(named(session, "plain.run").starts).toBe("script");
    expect((await session.call("plain.run", { args: ["ran"] })).text).toContain("the script ran");
    await session.load("both");
    expect(names(session)).toEqual(["plain.run", "both.run"]);
    expect((await session.call("both.run", {})).text).toContain("the tool");
  });

  it("[P-25] never call the tool of another skill whose normalized name is the same", async () => {
    const { session } = await opened(
      filesOf({
        a: { files: { "scripts/b.c.sh": says("of a") } },
        "a.b": { files: { "scripts/c.sh": says("of a.b") } },
      }),
      { allowsSubAgents: false },
    );
    await session.load("a");
    await session.load("a.b");
    expect(new Set(names(session)).size, "each name once").toBe(names(session).length);
    for (const tool of brought(session))
      expect((await session.call(tool.name, {})).text).toContain(`of ${tool.owner?.name} `);
  });

  it("[P-25] run no code of an untrusted skill until it is trusted", async () => {
    const { session, scene } = await opened(
      filesOf({ x: { more: TOOLSET, files: { ...one, "scripts/count.sh": says("counted") } } }, "skills"),
    );
    expect((await session.load("x")).isError).toBe(false);
    expect(names(session)).toEqual([]);
    expect((await session.call("x.count", {})).code).toBe("tool-unknown");
    const skill = scene.skill("x");
    scene.trust.grant([{ skill, copy: await copySkill(skill) }]);
    await session.load("x", { again: true });
    expect(names(session)).toEqual(["x.one", "x.count", "x.run"]);
    expect((await session.call("x.count", { args: ["2"] })).text).toContain("counted 2");
  });

  it("[P-25] exclude scripts when scripts cannot run, and the skill itself when it cannot be delegated to", async () => {
    const files = filesOf({ x: { more: TOOLSET, files: { ...one, "scripts/count.sh": says("counted") } } });
    const reading = (await opened(files, { isReadOnly: true })).session;
    expect((await reading.load("x")).text).not.toContain("It brought");
    expect(names(reading)).toEqual([]);
    expect((await reading.call("x.count", {})).code).toBe("tool-unknown");
    const alone = (await opened(files, { allowsSubAgents: false })).session;
    await alone.load("x");
    expect(names(alone)).toEqual(["x.one", "x.count"]);
  });

  it("[P-25] exclude the skill itself when a model may not use it, even if a user loaded it", async () => {
    const { session } = await opened(
      filesOf({ x: { more: "disable-model-invocation: true\n", files: { "scripts/count.sh": says("counted") } } }),
    );
    expect((await session.load("x")).code).toBe("not-for-models");
    expect(names(session)).toEqual([]);
    await session.load("x", { by: "user" });
    expect(names(session)).toEqual(["x.count"]);
    expect((await session.call("x.count", { args: ["3"] })).text).toContain("counted 3");
  });

  it.each([
    ["all of them", {}, ["z.count", "z.run", "a.one", "a.run", "m.run"]],
    ["only their own skills", { allowsSubAgents: false }, ["z.count", "a.one"]],
  ])("[P-25] are grouped by skill, in the order of loading: %s", async (_, options, order) => {
    const { session } = await opened(
      filesOf({ a: { more: TOOLSET, files: one }, m: {}, z: { files: { "scripts/count.sh": says("counted") } } }),
      options,
    );
    for (const name of ["z", "a", "m"]) await session.load(name);
    expect(names(session)).toEqual(order);
  });

  it("[P-25] return in the next session of a conversation", async () => {
    const { session, scene } = await opened(
      filesOf({ x: { more: TOOLSET, files: { ...one, "scripts/count.sh": says("counted") } } }),
    );
    await session.load("x");
    const next = openSession(scene.catalog, scene, { provides: "all", active: session.active });
    onTestFinished(() => next.close());
    await next.ready();
    expect(names(next)).toEqual(["x.one", "x.count", "x.run"]);
  });

  it("[P-18] are not added for a skill that is unloaded while it is loading", async () => {
    const { session } = await opened(filesOf({ x: { more: TOOLSET, files: one } }));
    const loading = session.load("x");
    while (!session.unload("x")) await null;
    await loading;
    expect({ active: session.active, brought: session.mountedSkills, tools: names(session) }).toEqual({
      active: [],
      brought: [],
      tools: [],
    });
    await session.load("x");
    expect(names(session)).toContain("x.one");
  });

  it("exclude what the configuration disables", async () => {
    const { session } = await opened({
      ...filesOf({ x: { files: { "scripts/count.sh": says("counted") } } }),
      "home/.skillet/config.toml": '[tools]\ndisabled = ["x.count"]\n',
    });
    await session.load("x");
    expect(names(session)).toEqual(["x.run"]);
    expect((await session.call("x.count", {})).code).toBe("tool-blocked");
  });

  it("exclude scripts and sub-agents when the tool that runs them is disabled", async () => {
    const files = filesOf({ x: { files: { "scripts/count.sh": says("counted") } } });
    const left = async (disabled: string) => {
      const config = { "home/.skillet/config.toml": `[tools]\ndisabled = ["${disabled}"]\n` };
      const { session } = await opened({ ...files, ...config });
      await session.load("x");
      return names(session);
    };
    expect(await left("run_skill_script")).toEqual(["x.run"]);
    expect(await left("use_skill")).toEqual(["x.count"]);
  });

  it("[P-25] belong to the loaded copy, even if a nearer copy has its name", async () => {
    const { session } = await opened({
      ...filesOf({ x: { files: { "scripts/count.sh": says("the far one") } } }),
      ...filesOf({ x: { files: { "scripts/other.sh": says("the near one") } } }, ".skillet/skills"),
    });
    const { text } = await session.load("x@user");
    expect(text).toContain("[It provides these tools: x__count, x__run]");
    expect(names(session)).toEqual(["x.count", "x.run"]);
    expect((await session.call("x.count", {})).text).toContain("the far one");
  });
});

describe("the tool that delegates a task to its skill", () => {
  const SCHEMA =
    "input_schema:\n  type: object\n  properties:\n    city:\n      type: string\n      description: which one\n  required: [city]\n";

  it("[P-25] runs the task as a sub-agent and returns its result", async () => {
    const { found } = await useScene({ skills: { x: {} }, turns: [({ said }) => `Asked: ${said.join(" ")}`] });
    const session = openSession(found.catalog, found, { provides: "all" });
    onTestFinished(() => session.close());
    await session.load("x");
    const { text, iterations } = await session.call("x.run", { message: "Count." });
    expect(text).toContain("Asked: Count.");
    expect(iterations).toBe(1);
  });

  it("[P-25] shows the schema of the skill's input, and validates the input against it", async () => {
    const { found, server } = await useScene({
      skills: { weather: { more: SCHEMA } },
      turns: [({ said }) => `Asked: ${said.join(" ")}`],
    });
    const session = openSession(found.catalog, found, { provides: "all" });
    onTestFinished(() => session.close());
    await session.load("weather");
    expect(named(session, "weather.run").inputSchema).toMatchObject({
      type: "object",
      properties: {
        message: { type: "string" },
        input: {
          type: "object",
          properties: { city: { type: "string", description: "which one" } },
          required: ["city"],
        },
      },
      required: ["input"],
    });
    for (const input of [{ message: "Rain?" }, { input: {} }, { input: { city: 7 } }, { input: "Oslo" }]) {
      const { isError, code } = await session.call("weather.run", input);
      expect({ input, isError, code }).toEqual({ input, isError: true, code: "input-invalid" });
    }
    expect(server.requests).toHaveLength(0);
    expect((await session.call("weather.run", { input: { city: "Oslo" } })).text).toContain("Oslo");
  });

  it("[P-25] asks for no input when the skill has no schema for it", async () => {
    const { session } = await opened(filesOf({ x: {} }));
    await session.load("x");
    expect(Object.keys(named(session, "x.run").inputSchema["properties"] as object)).toEqual(["message", "context"]);
  });

  it("reports its progress to listeners", async () => {
    const { found } = await useScene({ skills: { x: {} }, turns: () => "Done." });
    const session = openSession(found.catalog, found, { provides: "all" });
    onTestFinished(() => session.close());
    await session.load("x");
    const told: string[] = [];
    await session.call("x.run", { message: "Go." }, { onProgress: (text) => void told.push(text) });
    expect(told[0]).toMatch(/^x: started with /);
  });
});

/** A tool that changes something and returns its input. */
const PAYS = `import { z } from "zod";
import { Tool } from "@agent/tools";
const seen = (value) => [value, ...(value && typeof value === "object" ? Object.values(value) : [])];
export const Tools = [
  Tool.define("pay", {
    description: "Pays",
    parameters: z.object({ to: z.string() }),
    effect: ({ to }) => ({ on: "outside", what: "pay somebody", where: to }),
    execute: async (args, context) => "paid " + args.to + " with " + Object.keys(context).sort().join(",") + " and " +
      seen(context).filter((value) => typeof value === "function" && /approve/i.test(value.name)).length + " approvals",
  }),
];
`;

describe("the approver of a call", () => {
  const bank = () => filesOf({ bank: { more: TOOLSET, files: { "toolsets/index.ts": PAYS } } });
  const yes: Approve = async () => ({ isApproved: true });
  const asking = (word: boolean) => {
    const asked: string[] = [];
    const approve: Approve = async ({ tool, where }) => {
      asked.push(`${tool} ${where}`);
      return word ? { isApproved: true } : { isApproved: false, reason: "not today" };
    };
    return { approve, asked };
  };

  it("is the one in the call, before the host's", async () => {
    const [host, caller] = [asking(true), asking(false)];
    const { session } = await opened(bank(), {}, { approve: host.approve });
    await session.load("bank");
    expect(await session.call("bank.pay", { to: "Ada" }, { approve: caller.approve })).toMatchObject({
      isError: true,
      code: "not-approved",
      text: expect.stringContaining("not today"),
    });
    expect([host.asked, caller.asked]).toEqual([[], ["bank.pay Ada"]]);
    expect((await session.call("bank.pay", { to: "Bob" })).text).toContain("paid Bob");
    expect([host.asked, caller.asked]).toEqual([["bank.pay Bob"], ["bank.pay Ada"]]);
  });

  it("is undefined when neither is set", async () => {
    const { session } = await opened(bank(), {}, { approve: undefined as never });
    await session.load("bank");
    expect((await session.call("bank.pay", { to: "Ada" })).code).toBe("approval-needed");
    expect((await session.call("bank.pay", { to: "Ada" }, { approve: yes })).text).toContain("paid Ada");
  });

  it("is used by a run that the call starts, too", async () => {
    const { found } = await useScene({
      skills: { writer: {} },
      turns: [
        () => [{ tool: "write_file", input: { path: "made.txt", content: "made" } }],
        ({ results }) => `Result: ${results[0]?.content}`,
      ],
    });
    const { approve, asked } = asking(true);
    const session = openSession(found.catalog, found, { provides: "all" });
    onTestFinished(() => session.close());
    await session.load("writer");
    expect((await session.call("writer.run", { message: "Write." }, { approve })).isError).toBe(false);
    expect(asked).toHaveLength(1);
    expect(readFileSync(join(found.root, "project/made.txt"), "utf8")).toBe("made");
  });

  it("is used by a skill that runs on loading, too", async () => {
    const { found } = await useScene({
      skills: { writer: { more: "context: fork\n" } },
      turns: [() => [{ tool: "write_file", input: { path: "made.txt", content: "made" } }], () => "Done."],
    });
    const { approve, asked } = asking(true);
    const told: string[] = [];
    const onProgress = (text: string) => void told.push(text);
    const session = openSession(found.catalog, found);
    const { text: content, isError } = await session.call("load_skill", { skill: "writer" }, { approve, onProgress });
    expect({ isError, has: content.includes("Done.") }).toEqual({ isError: false, has: true });
    expect(asked).toHaveLength(1);
    expect(told[0]).toMatch(/^writer: started with /);
  });

  it("[S-25] is not reachable by a skill's tool", async () => {
    const { session } = await opened(bank());
    await session.load("bank");
    const { text } = await session.call("bank.pay", { to: "Ada" }, { approve: yes });
    expect(text).toMatch(/paid Ada with [\w,]+ and 0 approvals/);
    expect(text).not.toMatch(/with .*approve.* and/);
  });
});
