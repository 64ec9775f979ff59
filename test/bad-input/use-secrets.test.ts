import { chmodSync, cpSync, existsSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { planUse } from "../../src/agent/run/plan-use.ts";
import { useSkill } from "../../src/agent/run/use-skill.ts";
import { createConversation } from "../../src/agent/session/conversation.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import type { SkillEvent } from "../../src/host/events.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { createSecretGrants } from "../../src/store/trust.ts";
import { skillet } from "../support/command.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { createCatalogOf } from "../support/skills.ts";
import { useScene } from "../support/use.ts";
import { callsOnce, hostWith, KEY, oddModel, oddServer, piece, resultsFor, toolOf } from "./use-scene.ts";

const SECRET = 's3cret "Value"/42+x';
const bytes = Buffer.from(SECRET);
const SPELLED = [
  SECRET,
  ...(["base64", "base64url", "hex"] as const).map((encoding) => bytes.toString(encoding).replace(/=+$/, "")),
  encodeURIComponent(SECRET),
  JSON.stringify(SECRET).slice(1, -1),
];

/** Contract: in none of its spellings. */
function expectHidden(what: unknown, spelled = SPELLED): void {
  const text = `${JSON.stringify(what)}\n${String(what)}`;
  for (const way of spelled)
    for (const form of [way, JSON.stringify(way).slice(1, -1)]) expect(text).not.toContain(form);
}

const given = (value: string) => `[skills.x]\nK = ${JSON.stringify(value)}\n`;
const NEEDS = "env: [K]\n";

describe("a configured value", () => {
  it("[Q-22] is in no event, result or request, whatever a command, a file, a name or the model makes of it", async () => {
    const calls: [string, unknown][] = [
      ["bash", { command: 'echo "$K"; printf %s "$K" | base64; printf %s "$K" | od -An -v -tx1; false' }],
      ["bash", { command: 'for c in a "$K" b; do printf %s "$c"; sleep 0.05; done; echo "$K" >&2' }],
      ["read_file", { path: "notes.txt" }],
      ["grep", { pattern: "key" }],
      ["bash", { command: `echo ${SECRET}` }],
      [SECRET, {}],
      ["use_skill", { skill: SECRET, message: SECRET }],
      ["read_file", { path: SECRET }],
      ["write_file", { path: "made.txt", content: SECRET }],
      ["read_skill_resource", { resource: SECRET }],
    ];
    const model = oddModel(
      { calls: calls.map(([tool, input], at) => ({ id: `${at}`, tool, input })) },
      { text: `It is ${SECRET}, or ${bytes.toString("base64")}.` },
    );
    const { found } = await useScene({
      skills: { x: { more: NEEDS } },
      config: given(SECRET),
      workspace: { "notes.txt": `key: ${SECRET}\n` },
      turns: [],
    });
    const told: SkillEvent[] = [];
    const run = useSkill(
      found.catalog,
      {
        ...found,
        models: { default: model },
        onEvent: (event) => told.push(event),
        approve: async () => ({ isApproved: true, reason: SECRET }),
      },
      { skill: "x", message: `Use ${SECRET}.`, context: SECRET, input: { a: SECRET, [SECRET]: 1 } },
    );
    const events: SkillEvent[] = [];
    for await (const event of run) events.push(event);
    const result = await run;
    expect(result.content).toMatch(/^It is \[K\], or \[K\]/);
    expect(resultsFor(model)[0]).toContain("[K]");
    expectHidden([result, events, told, resultsFor(model), model.asked[0]?.instructions, model.asked[0]?.messages]);
    expectHidden((await found.runs.read(result.run)).lines);
  });

  it.each(["7-chars", "two\nlines of it", "password", "ünïcödé-κλειδί", "12345678", '"quoted"', "$HOME `x` \\"])(
    "[Q-22] that is %j is redacted",
    async (value) => {
      const { use } = await useScene({
        skills: { x: { more: NEEDS } },
        config: given(value),
        turns: [
          () => [{ tool: "bash", input: { command: 'printf "<%s>" "$K"', timeout_seconds: Number(value) || 5 } }],
          ({ results }) => {
            expect(results[0]?.content).toContain("<[K]>");
            return `It is ${value}`;
          },
        ],
      });
      const { result, events } = await use({ skill: "x" });
      expect(result.content).toBe("It is [K]");
      expectHidden([result, events], [value]);
    },
  );

  it("[Q-22] is redacted from the run of another skill too, also when it is a reference", async () => {
    const { use } = await useScene({
      skills: { x: {}, other: { more: "env: [A, B, C]\n" } },
      env: { OF_ENV: "environment-value-77" },
      config: '[skills.other]\nA = "plain-value-55"\nB = "env:OF_ENV"\nC = "file:key.txt"\n',
      workspace: { ".env": "plain-value-55\nenvironment-value-77\nfile-value-99\n" },
      turns: [
        () => [{ tool: "read_file", input: { path: ".env" } }],
        ({ results }) => {
          expect(results[0]?.content).toContain("[A]\n[B]\n[C]");
          return "plain-value-55 environment-value-77 file-value-99";
        },
      ],
    }).then((scene) => {
      writeFiles(join(scene.found.root, "home/.skillet"), { "key.txt": "file-value-99\n" });
      return scene;
    });
    expect((await use({ skill: "x" })).result.content).toBe("[A] [B] [C]");
  });

  it("[Q-22] is redacted before a long output is cut", async () => {
    const value = "abcdefghijklmnopqrstuvwxyz0123456789";
    const settings = { ...DEFAULT_SETTINGS, skills: new Map([["x", { variables: new Map([["K", value]]) }]]) };
    const catalog = await createCatalogOf({ x: { more: { env: ["K"] } } });
    for (const before of [8965, 8980, 8999, 10_990, 11_000]) {
      const model = callsOnce("t", {});
      const content = "-".repeat(before) + value + "-".repeat(14_000 - before);
      const tools = [toolOf("t", async () => ({ text: content, isError: false }))];
      await useSkill(catalog, hostWith(model, { settings, tools }), { skill: "x" });
      expect(JSON.stringify(model.asked[1]?.messages)).not.toMatch(/abcdefgh|23456789/);
    }
  });

  it("[Q-22] is redacted in streamed text", async () => {
    const found = await oddServer((_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const character of `The key is ${KEY}, yes.`) response.write(piece({ content: character }));
      response.end(`${piece({}, "stop")}data: [DONE]\n\n`);
    });
    const events: SkillEvent[] = [];
    const result = await useSkill(found.catalog, { ...found, onEvent: (event) => events.push(event) }, { skill: "x" });
    expect(result.content).toBe("The key is [models.default.api_key], yes.");
    const said = events.map((event) => (event.type === "text-generated" ? event.text : "")).join("");
    expect(said).toBe(result.content);
  });

  it("[Q-22] is redacted in a conversation: from the model, and in the stored messages", async () => {
    const { found, server } = await useScene({
      skills: { x: { more: NEEDS } },
      config: given(SECRET),
      turns: [() => "ok"],
    });
    const conversation = createConversation(openSession(found.catalog, found), found);
    await conversation.send(`My key is ${SECRET}.`);
    expectHidden([conversation.messages, server.requests[0]?.prompt]);
  });

  it("[Q-22] is in no plan, and no message about an invalid configuration", async () => {
    const found = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skillText("x", { more: NEEDS }),
      "home/.skillet/config.toml": given(SECRET),
    });
    expectHidden(await planUse(found.catalog, found, { skill: "x", message: SECRET }));
    expectHidden((await planUse(found.catalog, found, { skill: SECRET })).checks);
    writeFileSync(join(found.root, "home/.skillet/config.toml"), `[skills.x]\nK = "${SECRET.replaceAll('"', "")}\n[`);
    const options = { cwd: join(found.root, "project"), env: { HOME: join(found.root, "home") } };
    for (const args of [
      ["config"],
      ["config", "--json"],
      ["run", "x"],
      ["run", "x", "--dry-run"],
      ["chat", "hi"],
      ["list"],
    ]) {
      const { code, stdout, stderr } = await skillet(args, options);
      expect(code).toBe(2);
      expect(stdout + stderr).not.toContain("s3cret");
    }
  });
});

describe("the key of a model", () => {
  it.each<[string, number]>([
    ["refuses it", 401],
    ["forbids it", 403],
    ["refuses the request", 400],
    ["is missing", 404],
    ["fails", 500],
  ])("[Q-22] is not shown when a server that %s repeats it", async (_, status) => {
    const found = await oddServer(({ headers }, response) => {
      const message = `${headers.authorization} ${Buffer.from(KEY).toString("base64")} ${Buffer.from(KEY).toString("hex")}`;
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ error: { message } }));
    });
    const events: SkillEvent[] = [];
    const result = await useSkill(found.catalog, { ...found, onEvent: (event) => events.push(event) }, { skill: "x" });
    expect(result.stop).toBe("error");
    expectHidden(
      [result, events],
      [KEY, Buffer.from(KEY).toString("base64").replace(/=+$/, ""), Buffer.from(KEY).toString("hex")],
    );
  });

  it("[Q-22] and no other part of its server's address is shown either", async () => {
    const env = { ANTHROPIC_API_KEY: KEY, ANTHROPIC_BASE_URL: "http://ada:pass-word-9@127.0.0.1:9/v1?key=token-77777" };
    const found = await discoverIn({ "home/.skillet/skills/x/SKILL.md": skillText("x") }, env);
    const withName = await useSkill(found.catalog, found, { skill: "x" });
    expect(withName.isError).toBe(true);
    expectHidden(withName, ["pass-word-9", "token-77777"]);
    const plain = await discoverIn(
      { "home/.skillet/skills/x/SKILL.md": skillText("x") },
      { ...env, ANTHROPIC_BASE_URL: "http://127.0.0.1:9/v1?key=token-77777" },
    );
    expectHidden(await useSkill(plain.catalog, plain, { skill: "x", seconds: 10 }), ["token-77777"]);
  });
});

describe("values that a skill was granted", () => {
  const body = "```sh\necho got $K\n```";
  const skill = (word: string) => skillText("x", { more: NEEDS, body: body.replace("got", word) });
  const codes = async (scene: Scene, name = "x") => {
    const { refusals, content } = await useSkill(scene.catalog, scene, { skill: name });
    return refusals.length > 0 ? refusals.map(({ code }) => code) : content.split("\n")[0];
  };
  const trusted = async (scene: Scene) => {
    const x = scene.skill("x");
    scene.trust.grant([{ skill: x, copy: await copySkill(x) }]);
    return scene;
  };

  it("[Q-03, Q-04] go to no other copy: of the workspace, trusted or not, moved, or linked to", async () => {
    const first = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skill("got"),
      "home/.skillet/config.toml": given(SECRET),
    });
    chmodSync(first.root, 0o755);
    expect(await codes(first)).toBe("got [K]");
    const copy = join(first.root, "project/.skillet/skills/x");
    writeFiles(copy, { "SKILL.md": skill("evil") });
    expect(await codes(await first.again())).toEqual(["untrusted", "secret-other-source"]);
    expect(await codes(await trusted(await first.again()))).toEqual(["secret-other-source"]);
    expect(await codes(await first.again(), "x@~/.skillet/skills")).toBe("got [K]");
    rmSync(copy, { recursive: true });
    const [home, elsewhere] = [join(first.root, "home/.skillet/skills"), join(first.root, "home/elsewhere")];
    renameSync(join(home, "x"), join(home, "y"));
    expect(await codes(await first.again())).toEqual(["secret-other-source"]);
    renameSync(join(home, "y"), elsewhere);
    symlinkSync(elsewhere, join(home, "x"));
    expect(await codes(await first.again())).toEqual(["secret-other-source"]);
    rmSync(join(home, "x"));
    cpSync(elsewhere, join(home, "x"), { recursive: true });
    expect(await codes(await first.again())).toBe("got [K]");
    writeFileSync(join(first.root, "home/.skillet/grants.json"), "{");
    expect(await codes(await first.again())).toEqual(["grants-unreadable"]);
  });

  it("[Q-03] go to one of two concurrent claims", async () => {
    const found = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skill("one"),
      ".skillet/skills/x/SKILL.md": skill("two"),
    });
    const copies = [found.skill("x"), found.catalog.find("x@~/.skillet/skills")].flatMap((copy) => copy ?? []);
    const owners = copies.map((copy) => createSecretGrants(join(found.root, "home/.skillet")).claim(copy).location);
    expect(owners).toHaveLength(2);
    expect(new Set(owners).size).toBe(1);
  });

  it("[Q-03] include its network, and permission for commands in its instructions", async () => {
    for (const line of ['network = ["127.0.0.1:1"]', "dynamic_commands = true"]) {
      const first = await discoverIn({
        "home/.skillet/skills/x/SKILL.md": skillText("x", { body: "```sh\necho mine\n```" }),
        "home/.skillet/config.toml": `[skills.x]\n${line}\n`,
      });
      chmodSync(first.root, 0o755);
      expect(await codes(first)).toBe("mine");
      writeFiles(first.root, { "project/.skillet/skills/x/SKILL.md": skillText("x", { body: "!`touch PWN`" }) });
      expect(await codes(await trusted(await first.again()))).toEqual(["secret-other-source"]);
      const said = await skillet(["trust", "--secrets", "x", "--yes"], {
        cwd: join(first.root, "project"),
        env: { HOME: join(first.root, "home") },
      });
      expect(said.code).toBe(0);
      expect(await codes(await first.again())).not.toEqual(["secret-other-source"]);
    }
  });
});

describe("an untrusted workspace", () => {
  it("[Q-04] runs nothing for any caller and in any way", async () => {
    const body = "!`touch /workspace/PWN`\n\n```sh\ntouch PWN\n```";
    const found = await discoverIn({
      ".skillet/skills/forked/SKILL.md": skillText("forked", { body, more: "context: fork\n" }),
      ".skillet/skills/plain/SKILL.md": skillText("plain", { body }),
      ".skillet/skills/plain/scripts/go.sh": "#!/bin/sh\ntouch PWN\n",
      "home/.skillet/config.toml": "[tools]\ndynamic_commands = true\n",
    });
    chmodSync(found.root, 0o755);
    chmodSync(join(found.root, "project"), 0o777);
    const session = openSession(found.catalog, found);
    for (const name of ["forked", "plain"]) {
      expect(await session.call("use_skill", { skill: name })).toMatchObject({ isError: true, code: "untrusted" });
      await session.call("load_skill", { skill: name });
      await session.call("validate_skill", { skill: name });
      await session.call("run_skill_script", { skill: name, script: "scripts/go.sh" });
      await createConversation(session, found).send(`use the ${name} skill`);
      await useSkill(found.catalog, hostWith(oddModel({ text: "x" }), found), { skill: name });
    }
    expect(existsSync(join(found.root, "project/PWN"))).toBe(false);
  });
});
