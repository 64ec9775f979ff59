import { chmodSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { skillet } from "../support/command.ts";
import { DESK } from "../support/desk.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { type Called, connectClient, type Era, type McpClient, negotiation } from "../support/mcp-client.ts";
import { createHomeWith, environment, type Place, startMcpProcess, startOf } from "../support/mcp-process.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { toolsetOf } from "../support/toolset.ts";
import { modelConfig } from "../support/use.ts";

const SOON = { timeout: 45_000, interval: 20 };
const OWN = "home/.skillet/skills";
const CONFIG = "home/.skillet/config.toml";

const MAIL = {
  [`${OWN}/mail/SKILL.md`]: skillText("mail", { more: 'toolsets:\n  - "toolsets/index:Tools"\n' }),
  [`${OWN}/mail/toolsets/index.ts`]: toolsetOf({ send: 'return "mail of " + args.input;' }),
  [`${OWN}/mail/scripts/count.sh`]: "#!/bin/sh\necho counted $KEY\n",
  [`${OWN}/other/SKILL.md`]: skillText("other"),
};

/** A server process, and any number of its clients. */
interface Running {
  connect(): Promise<McpClient>;
  said(): string;
}

interface Door {
  era: Era;
  /** True to forget a client's loaded skills with each answer. */
  isStateless?: boolean;
  open(place: Place, era: Era): Promise<Running>;
}

const DOORS: Readonly<Record<string, Door>> = {
  "stdio, 2025-11-25": { era: "2025-11-25", open: overStdio },
  "stdio, 2026-07-28": { era: "2026-07-28", open: overStdio },
  "HTTP, 2025-11-25": { era: "2025-11-25", open: overHttp },
  "HTTP, 2026-07-28": { era: "2026-07-28", open: overHttp, isStateless: true },
};

/** Each client of a server over stdio starts a process. */
async function overStdio(place: Place, era: Era): Promise<Running> {
  let said = "";
  return {
    said: () => said,
    connect: () => {
      const [command, args] = [process.execPath, startOf(["--chat-type", "private"])];
      const transport = new StdioClientTransport({
        command,
        args,
        cwd: place.cwd,
        env: environment(place),
        stderr: "pipe",
      });
      transport.stderr?.on("data", (text) => {
        said += text;
      });
      return clientOver(transport, era);
    },
  };
}

async function overHttp(place: Place, era: Era): Promise<Running> {
  const server = startMcpProcess(place, ["--http", "0", "--no-token", "--chat-type", "private"]);
  const url = await vi.waitFor(() => new URL(server.lines()[0] ?? ""), SOON);
  return { said: server.said, connect: () => clientOver(new StreamableHTTPClientTransport(url), era) };
}

async function clientOver(transport: Parameters<Client["connect"]>[0], era: Era): Promise<McpClient> {
  let changes = 0;
  const onChanged = () => {
    changes++;
  };
  const listChanged = { tools: { onChanged, autoRefresh: false, debounceMs: 0 } };
  const client = new Client({ name: "test", version: "1.0.0" }, { ...negotiation(era), listChanged });
  await client.connect(transport);
  const close = () => client.close();
  onTestFinished(close);
  return { ...connectClient(client), changes: () => changes, close };
}

/** A command of the same user, at the same time. */
async function command({ cwd, home }: Place, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await skillet(args, { cwd, env: { HOME: home } });
  expect(code, stderr).toBe(0);
  return stdout;
}

/** Replaces a configuration file. */
function configure({ root }: Place, path: string, text: string): void {
  writeFiles(root, { [`${path}.new`]: text });
  chmodSync(join(root, `${path}.new`), 0o600);
  renameSync(join(root, `${path}.new`), join(root, path));
}

const codeOf = ({ meta }: Called) => meta["skillet/code"];

async function listed({ call }: McpClient): Promise<string[]> {
  const { structured } = await call("list_skills");
  const skills = structured?.["skills"] as { name: string }[] | undefined;
  return (skills ?? []).map(({ name }) => name);
}

/** A folder with a model that follows a script for every request. */
async function placeWithModel(files: Record<string, string>, turn: Turn, config = ""): Promise<Place> {
  const model = modelConfig("openai", await startModelServer("openai", turn));
  return createHomeWith({ [CONFIG]: `${model}\n${config}`, ...files });
}

describe.each(sampleRows(Object.entries(DOORS), 2))(
  "a running server, over %s",
  { timeout: 120_000 },
  (_, { era, isStateless = false, open }) => {
    it("[S-10] refuses a disabled skill, in old and new sessions, and removes its tools until it is enabled", async () => {
      const place = createHomeWith(MAIL);
      const server = await open(place, era);
      const old = await server.connect();
      const before = await old.tools();
      await old.call("load_skill", { skill: "mail" });
      if (!isStateless) expect(await old.tools()).toEqual([...before, "mail__send", "mail__count", "mail__run"]);
      const { client } = old;
      expect((await client.listPrompts()).prompts.map(({ name }) => name)).toContain("mail");
      const changes = old.changes();
      await command(place, "disable", "mail");
      for (const one of [old, await server.connect()]) {
        expect(await listed(one)).not.toContain("mail");
        expect(codeOf(await one.call("load_skill", { skill: "mail" }))).toBe("disabled");
        expect(codeOf(await one.call("use_skill", { skill: "mail", message: "Go." }))).toBe("disabled");
        expect(codeOf(await one.call("run_skill_script", { skill: "mail", script: "count.sh" }))).toBe("disabled");
        expect(codeOf(await one.call("read_skill_resource", { skill: "mail", resource: "SKILL.md" }))).toBe("disabled");
        const isNamed = /^- mail\b/m.test(one.client.getInstructions() ?? "");
        expect(isNamed, "the configuration of its start").toBe(one === old);
        expect(await one.tools()).toEqual(before);
      }
      const called = await old.call("call_skill_tool", { skill: "mail", tool: "mail__send", input: { input: "Ada" } });
      expect(codeOf(called)).toBe("disabled");
      if (!isStateless) {
        await expect(old.call("mail__send", { input: "Ada" })).rejects.toThrow("Skill 'mail' is disabled");
        await vi.waitFor(() => expect(old.changes(), "the client is notified").toBeGreaterThan(changes), SOON);
      }
      expect((await client.listPrompts()).prompts.map(({ name }) => name)).not.toContain("mail");
      expect((await client.listResources()).resources.map(({ name }) => name)).not.toContain("mail");
      await command(place, "enable", "mail");
      for (const one of [old, await server.connect()]) {
        expect((await one.call("load_skill", { skill: "mail" })).isError).toBe(false);
        const sent = await one.call("call_skill_tool", { skill: "mail", tool: "mail__send", input: { input: "Ada" } });
        expect(sent.text).toContain("mail of Ada");
      }
      if (!isStateless) expect((await old.call("mail__send", { input: "Ada" })).text).toContain("mail of Ada");
    });
  },
);

const OLDER_DOORS = Object.entries(DOORS).filter(([, { era }]) => era === "2025-11-25");

describe.each(sampleRows(OLDER_DOORS, 1))("a running server, over %s", { timeout: 120_000 }, (_, { era, open }) => {
  it("[S-10] follows the workspace's configuration, and is never loosened by an invalid file", async () => {
    const place = createHomeWith({ ...MAIL, [CONFIG]: "" });
    const server = await open(place, era);
    const old = await server.connect();
    const code = async () => codeOf(await old.call("load_skill", { skill: "mail" }));
    expect(await code()).toBeUndefined();
    configure(place, "project/.skillet/config.toml", "[skills.mail]\nenabled = false\n");
    await vi.waitFor(async () => expect(await code()).toBe("disabled"), SOON);
    const other = await server.connect();
    expect(await listed(other)).not.toContain("mail");
    await other.close(); // Over stdio it is a separate process, which would print the warnings too.
    rmSync(join(place.cwd, ".skillet/config.toml"));
    await vi.waitFor(async () => expect(await code()).toBeUndefined(), SOON);
    await command(place, "disable", "mail");
    configure(place, CONFIG, "[skills.mail\nenabled = true\n");
    await vi.waitFor(() => expect(server.said()).toContain(".skillet/config.toml:1:13 is not valid TOML"), SOON);
    expect(await code()).toBe("disabled");
    configure(place, CONFIG, '[skills.mail]\nenabled = "false"\n');
    await vi.waitFor(() => expect(server.said()).toContain("is valid again"), SOON);
    await vi.waitFor(
      () => expect(server.said()).toContain('.skillet/config.toml:2:1 "skills.mail.enabled" must be'),
      SOON,
    );
    expect(await code(), "the value from before").toBe("disabled");
    expect(server.said().match(/is not valid TOML/g), "reported once").toHaveLength(1);
    configure(place, CONFIG, "[skills.mail]\nenabled = true\n");
    await vi.waitFor(async () => expect(await code()).toBeUndefined(), SOON);
  });

  it("[S-10] adds the skills of new sources, follows their changes, and removes them with the source", async () => {
    const place = createHomeWith({ ...MAIL, [CONFIG]: "", "home/team/far/SKILL.md": skillText("far") });
    const server = await open(place, era);
    const old = await server.connect();
    expect(await listed(old)).not.toContain("far");
    await command(place, "config", "set", "sources.team.path", join(place.home, "team"));
    await vi.waitFor(async () => expect(await listed(old)).toContain("far"), SOON);
    expect((await old.call("load_skill", { skill: "far" })).isError).toBe(false);
    expect(await listed(await server.connect())).toContain("far");
    const changes = old.changes();
    writeFiles(place.home, { "team/farther/SKILL.md": skillText("farther") });
    await vi.waitFor(async () => expect(await listed(old)).toContain("farther"), SOON);
    expect(old.changes()).toBeGreaterThanOrEqual(changes);
    await command(place, "config", "unset", "sources.team.path");
    await vi.waitFor(async () => expect(await listed(old)).not.toContain("far"), SOON);
    expect((await old.call("load_skill", { skill: "far" })).isError).toBe(true);
    expect(await listed(await server.connect())).not.toContain("farther");
  });

  it("[Q-19, S-23] asks a provider only for capabilities that are granted at the time", async () => {
    const skill = { more: "capabilities: [desk.tickets]\nallowed_tools: [desk.tickets.list]\n" };
    const place = await placeWithModel(
      { [`${OWN}/helper/SKILL.md`]: skillText("helper", skill) },
      ({ results, tools }) => {
        const tool = Object.keys(tools).find((name) => name.includes("tickets")) ?? "";
        return results.length > 0
          ? `It came to ${results.map(({ content }) => content).join()}`
          : [{ tool, input: {} }];
      },
    );
    const server = await open(place, era);
    const old = await server.connect();
    const use = async (one: McpClient) => one.call("use_skill", { skill: "helper", message: "List the tickets." });
    expect(codeOf(await use(old)), "it has no provider yet").toBe("capability-unavailable");
    writeFiles(place.root, { "desk.cjs": DESK });
    const provider = `[capabilities.providers.desk]\ncommand = ${JSON.stringify([process.execPath, join(place.root, "desk.cjs")])}\n`;
    const before = readFileSync(join(place.root, CONFIG), "utf8");
    configure(place, CONFIG, `${before}\n${provider}`);
    await vi.waitFor(async () => expect(codeOf(await use(old))).toBe("capability-not-granted"), SOON);
    await command(place, "capability", "grant", "helper", "desk.tickets", "--yes");
    for (const one of [old, await server.connect()]) expect((await use(one)).text).toContain("ticket 7");
    await command(place, "capability", "ungrant", "helper", "desk.tickets");
    for (const one of [old, await server.connect()]) expect(codeOf(await use(one))).toBe("capability-not-granted");
    expect(
      readFileSync(join(place.root, "asked"), "utf8").trim().split("\n"),
      "the caller of the request",
    ).toHaveLength(2);
  });

  it("uses the current models, keys, limits, chats and tools of the configuration", async () => {
    const first = await startModelServer("openai", () => "said by the first");
    const second = await startModelServer("openai", () => "said by the second");
    const mail = { ...MAIL, [`${OWN}/mail/SKILL.md`]: skillText("mail", { more: "env:\n  - KEY\n" }) };
    const place = createHomeWith({
      ...mail,
      [CONFIG]: `${modelConfig("openai", first)}\n[skills.mail]\nKEY = "the-first-key"\n`,
    });
    const server = await open(place, era);
    const old = await server.connect();
    const use = async () => (await old.call("use_skill", { skill: "other", message: "Go." })).text;
    const script = async () => (await old.call("run_skill_script", { skill: "mail", script: "count.sh" })).text;
    expect(await use()).toContain("said by the first");
    expect(await script()).toContain("counted [KEY]");
    await command(place, "config", "set", "models.default.base_url", second.url);
    expect(await use()).toContain("said by the second");
    await command(place, "config", "set", "limits.tool_output", "500");
    writeFiles(place.root, {
      [`${OWN}/mail/scripts/count.sh`]: `#!/bin/sh\nprintf '%s-' $KEY | tr a-z b-za; seq 9999\n`,
    });
    await skillet(["config", "set", "skills.mail.KEY"], {
      cwd: place.cwd,
      env: { HOME: place.home },
      stdin: "xyz-xyz",
    });
    await vi.waitFor(
      async () => expect(await script(), "the new key, as the script changes it").toContain("yza-yza-"),
      SOON,
    );
    expect((await script()).length, "the new limit").toBeLessThan(1500);
    await command(place, "config", "set", "skills.mail.allow_chat_ids", "42");
    expect(codeOf(await old.call("load_skill", { skill: "mail" }))).toBe("chat-id");
    await command(place, "config", "unset", "skills.mail.allow_chat_ids");
    expect(codeOf(await old.call("load_skill", { skill: "mail" }))).toBeUndefined();
    const tools = await old.tools();
    await command(place, "config", "set", "tools.disabled", "run_skill_script,use_skill,call_skill_tool");
    await vi.waitFor(async () => expect(await old.tools()).not.toContain("use_skill"), SOON);
    expect(await old.tools()).not.toContain("call_skill_tool");
    await expect(old.call("run_skill_script", { skill: "mail", script: "count.sh" })).rejects.toThrow(
      "Tool 'run_skill_script' is disabled in the configuration",
    );
    await command(place, "config", "unset", "tools.disabled");
    await vi.waitFor(async () => expect((await old.tools()).sort()).toEqual(tools.sort()), SOON);
    expect(await use()).toContain("said by the second");
  });
});

describe("a command that changes the configuration", { timeout: 120_000 }, () => {
  it("reports how many running servers have the change, and its effect on active runs", async () => {
    const place = createHomeWith(MAIL);
    expect(await command(place, "disable", "mail")).toBe(
      "✓ mail is now disabled, in ~/.skillet/config.toml\n  to undo: skillet enable mail\n  none of your servers or chats is running; a run under way is denied further tool calls\n",
    );
    const [one, two] = [await overHttp(place, "2025-11-25"), await overStdio(place, "2025-11-25")];
    await two.connect();
    expect(one.said()).toContain("served over MCP");
    let size = 5000;
    // A busy machine may take longer than a command waits, and then it reports that.
    await vi.waitFor(async () => {
      const said = await command(place, "config", "set", "limits.tool_output", String(++size));
      expect(said).toBe(
        "✓ limits.tool_output set in ~/.skillet/config.toml\n  in effect in 2 running servers; a run under way keeps its model, limits, sandbox and secrets\n",
      );
    }, SOON);
    const { running, ...rest } = JSON.parse(await command(place, "enable", "mail", "--json"));
    expect(rest).toMatchObject({ skills: [{ name: "mail", isEnabled: true }] });
    expect(running).toMatchObject([{ kind: "server" }, { kind: "server" }]);
    expect(await command(place, "enable", "mail"), "nothing was changed").not.toContain("running");
  });

  it("does not count a killed server, and names one that does not answer", async () => {
    const place = createHomeWith(MAIL);
    const server = startMcpProcess(place);
    await server.initialize();
    process.kill(server.child.pid ?? 0, "SIGSTOP");
    const { stdout, stderr, code } = await skillet(["disable", "mail"], { cwd: place.cwd, env: { HOME: place.home } });
    expect([code, stdout]).toEqual([0, expect.not.stringContaining("none of your servers or chats is running")]);
    expect(stderr).toBe(
      `! 1 running server has not applied it yet\n  stop the processes that do not answer: ${server.child.pid}\n`,
    );
    process.kill(server.child.pid ?? 0, "SIGCONT");
    const again = await command(place, "disable", "mail");
    expect(again, "asked again").toContain("in effect in 1 running server");
    server.child.kill("SIGKILL");
    await server.ended;
    expect(await command(place, "enable", "mail")).not.toContain("running");
    expect(readdirSync(join(place.home, ".skillet/live"))).toEqual([]);
  });
});
