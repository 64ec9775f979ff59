import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  createLoginThrottle,
  expandScopes,
  resolveClientAddress,
} from "../../src/adapters/mcp-server/http-identity.ts";
import { createAuditLog } from "../../src/capabilities/audit-log.ts";
import { createRunStore } from "../../src/store/runs.ts";
import { createStatisticsStore } from "../../src/store/statistics.ts";
import { startCollector } from "../support/collector.ts";
import { skillText } from "../support/folder.ts";
import { ERAS } from "../support/mcp-client.ts";
import { createHomeWith } from "../support/mcp-process.ts";
import { startModelServer } from "../support/model-server.ts";
import { readAll } from "../support/read-all.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { codeOf, startTeamServer } from "../support/team-server.ts";
import { modelConfig } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

const OWN = "home/.skillet/skills";
const SKILLS = {
  [`${OWN}/mail/SKILL.md`]: skillText("mail", { more: "env: [KEY]\n" }),
  [`${OWN}/mail/scripts/whose.sh`]: "#!/bin/sh\necho key is $KEY of ${#KEY}\n",
  [`${OWN}/notes/SKILL.md`]: skillText("notes"),
  [`${OWN}/diary/SKILL.md`]: skillText("diary", { more: "sensitive: true\n" }),
};
const PEOPLE = `
[skills.mail]
KEY = "key-of-everyone"

[server.people.ada]
tenant = "red"
chat_type = "private"
[server.people.ada.variables.mail]
KEY = "key-of-ada-alone"

[server.people.bob]
tenant = "blue"
skills = ["notes", "mail"]
`;

function placeOfTeam(config = "") {
  return createHomeWith({ ...SKILLS, "home/.skillet/config.toml": `${PEOPLE}\n${config}` });
}

function listed(structured: Record<string, unknown> | undefined): string[] {
  return ((structured?.["skills"] ?? []) as { name: string }[]).map(({ name }) => name);
}

describe.each(sampleRows(ERAS, 1))("a server with people, for clients of %s", { timeout: 120_000 }, (era) => {
  it("[E-35] serves each person their own skills, values and type of chat", async () => {
    const server = await startTeamServer(placeOfTeam());
    const [ada, bob] = [await server.createToken("ada"), await server.createToken("bob")];
    const [a, b] = [await server.connect(ada.token, era), await server.connect(bob.token, era)];
    const seenByAda = listed((await a.call("list_skills")).structured);
    expect(seenByAda).toEqual(expect.arrayContaining(["mail", "notes", "diary"]));
    expect(listed((await b.call("list_skills")).structured).sort()).toEqual(["mail", "notes"]);
    expect(codeOf(await b.call("load_skill", { skill: "diary" }))).toBeDefined();
    // The output is redacted: the name of the variable is in place of its value, for each person their own.
    const script = { skill: "mail", script: "whose.sh" };
    const [ofAda, ofBob] = [await a.call("run_skill_script", script), await b.call("run_skill_script", script)];
    expect(ofAda.text).toContain(`key is [KEY] of ${"key-of-ada-alone".length}`);
    expect(ofBob.text).toContain(`key is [KEY] of ${"key-of-everyone".length}`);
  });

  it("[E-35] lets a token do what its scopes allow, and names the missing scope", async () => {
    const server = await startTeamServer(placeOfTeam());
    const toolsOf = async (scope: string) => {
      const { token } = await server.createToken("eve", "--scope", scope);
      const client = await server.connect(token, era);
      return { client, tools: await client.tools() };
    };
    const list = await toolsOf("list");
    expect(list.tools.sort()).toEqual(["list_skills", "search_skills"]);
    const refused = await list.client
      .call("load_skill", { skill: "notes" })
      .catch((error) => ({ text: error.message }));
    expect(refused.text).toContain("it needs the scope load");
    expect(list.client.client.getServerCapabilities()).not.toHaveProperty("resources");
    expect(list.client.client.getServerCapabilities()).not.toHaveProperty("prompts");
    const load = await toolsOf("load");
    expect(load.tools).toContain("load_skill");
    expect(load.tools).not.toEqual(expect.arrayContaining(["run_skill_script"]));
    expect(load.tools).not.toEqual(expect.arrayContaining(["use_skill"]));
    const run = await toolsOf("run");
    expect(run.tools).toContain("run_skill_script");
    expect(run.tools).not.toContain("use_skill");
    await run.client.call("load_skill", { skill: "notes" });
    const through = await run.client.call("call_skill_tool", { tool: "notes.run", skill: "notes", input: {} });
    expect(through.isError).toBe(true);
  });

  it("[E-35] records who used a skill: in runs, statistics and events", async () => {
    const model = await startModelServer("openai", () => "It is done.");
    const place = placeOfTeam(modelConfig("openai", model));
    const server = await startTeamServer(place, ["--access-log", join(place.root, "access.jsonl")]);
    const [ada, bob] = [await server.createToken("ada"), await server.createToken("bob")];
    for (const { token } of [ada, bob]) {
      const client = await server.connect(token, era);
      await client.call("load_skill", { skill: "notes" });
      expect((await client.call("use_skill", { skill: "notes", message: "Take a note." })).text).toContain(
        "It is done.",
      );
    }
    const home = join(place.home, ".skillet");
    const runs = await createRunStore(home).list();
    expect(runs.map(({ caller }) => [caller?.userId, caller?.tenant]).sort()).toEqual([
      ["ada", "red"],
      ["bob", "blue"],
    ]);
    expect(JSON.parse(await server.command("runs", "--user", "ada", "--json")).runs).toHaveLength(1);
    const statistics = createStatisticsStore(home);
    await waitFor(async () => expect((await statistics.total({ user: "ada" })).runs).toBe(1));
    expect(await statistics.total({ tenant: "blue" })).toMatchObject({ runs: 1, loads: 1 });
    const entries = await waitFor(() => {
      const lines = readFileSync(join(place.root, "access.jsonl"), "utf8").trim().split("\n");
      const parsed = lines.map((line) => JSON.parse(line));
      expect(parsed.filter(({ tool }) => tool === "use_skill")).toHaveLength(2);
      return parsed;
    });
    expect(entries.find(({ tool }) => tool === "use_skill")).toMatchObject({
      ...{ user: "ada", tenant: "red", credential: `token ${ada.id}`, rpc: "tools/call", skill: "notes", status: 200 },
    });
    expect(JSON.stringify(entries)).not.toContain("Take a note");
    expect(JSON.stringify(entries)).not.toContain(ada.token);
  });
});

describe.each(sampleRows(ERAS, 1))(
  "actions of a person over a server, for clients of %s",
  { timeout: 120_000 },
  (era) => {
    it("[E-34] records every load, script and use: in runs, statistics, audit log, traces and access log", async () => {
      const model = await startModelServer("openai", () => "It is done.");
      const traces = await startCollector();
      const place = placeOfTeam(modelConfig("openai", model));
      const server = await startTeamServer(place, ["--access-log", join(place.root, "access.jsonl")], {
        OTEL_EXPORTER_OTLP_ENDPOINT: traces.url,
      });
      const ada = await server.createToken("ada");
      const client = await server.connect(ada.token, era);
      await client.call("load_skill", { skill: "mail" });
      const script = { skill: "mail", script: "whose.sh", args: ["key-of-ada-alone"] };
      expect((await client.call("run_skill_script", script)).isError).toBe(false);
      await client.call("use_skill", { skill: "notes", message: "Take a note." });
      const home = join(place.home, ".skillet");
      const who = { userId: "ada", tenant: "red" };
      const runs = createRunStore(home);
      const listed = (await runs.list()).map(({ kind, skill, state, caller }) => ({ kind, skill, state, caller }));
      expect(listed.sort((a, b) => (a.kind < b.kind ? -1 : 1))).toMatchObject([
        { kind: "script", skill: "mail", state: "ended", caller: who },
        { kind: "use", skill: "notes", state: "ended", caller: who },
      ]);
      const recorded = (await runs.list()).find(({ kind }) => kind === "script");
      const journal = JSON.stringify(await runs.read(recorded?.id ?? ""));
      expect(journal).toContain("whose.sh");
      expect(journal).not.toContain("key-of-ada-alone");
      expect(JSON.parse(await server.command("runs", "show", recorded?.id ?? "", "--json"))).toBeDefined();
      const statistics = createStatisticsStore(home);
      await waitFor(async () => expect(await statistics.total({ user: "ada" })).toMatchObject({ runs: 2, loads: 1 }));
      const audit = await readAll(createAuditLog(home).read());
      const acts = audit.filter(({ method }) => method.startsWith("skill."));
      expect(acts.map(({ method, skill, outcome, user, tenant }) => [method, skill, outcome, user, tenant])).toEqual([
        ["skill.load", "mail", "ok", "ada", "red"],
        ["skill.run", "mail", "complete", "ada", "red"],
        ["skill.run", "notes", "answer", "ada", "red"],
      ]);
      await waitFor(() => {
        const spans = traces.spans().filter(({ attributes }) => attributes["user.id"] === "ada");
        expect(spans.map(({ name }) => name).sort()).toEqual(["invoke_agent mail", "invoke_agent notes"]);
      });
      const lines = readFileSync(join(place.root, "access.jsonl"), "utf8").trim().split("\n");
      const tools = lines.map((line) => JSON.parse(line)).filter(({ tool }) => tool !== undefined);
      expect(tools.map(({ tool, skill, user }) => [tool, skill, user])).toEqual([
        ["load_skill", "mail", "ada"],
        ["run_skill_script", "mail", "ada"],
        ["use_skill", "notes", "ada"],
      ]);
    });
  },
);

describe("a server with people", { timeout: 120_000 }, () => {
  it("[E-35] treats the session of another person, or of a token with other scopes, as unknown", async () => {
    const server = await startTeamServer(placeOfTeam());
    const ada = await server.createToken("ada");
    const less = await server.createToken("ada", "--scope", "list");
    const bob = await server.createToken("bob");
    const client = await server.connect(ada.token);
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-session-id": client.session() ?? "",
    };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
    const send = (token: string, method = "POST") =>
      server.send("/mcp", { method, token, headers, ...(method === "POST" ? { body } : {}) });
    for (const token of [bob.token, less.token, server.token]) {
      expect((await send(token)).status).toBe(404);
      expect((await send(token, "DELETE")).status).toBe(404);
    }
    expect((await send(ada.token)).status).toBe(200);
    expect(await client.tools()).toContain("list_skills");
  });

  it("[Q-30] answers without a token only whether it is alive and ready", async () => {
    const server = await startTeamServer(placeOfTeam());
    for (const path of ["/healthz", "/readyz"]) {
      const answer = await server.send(path);
      expect([answer.status, await answer.text()]).toEqual([200, "ok\n"]);
    }
    for (const path of ["/mcp", "/metrics", "/healthz/", "/"]) expect((await server.send(path)).status).toBe(401);
    expect((await server.send("/healthz", { method: "POST" })).status).toBe(401);
  });

  it("gives metrics in the text format of Prometheus to tokens with that scope", async () => {
    const server = await startTeamServer(placeOfTeam());
    const { token } = await server.createToken("prometheus", "--scope", "metrics");
    const ada = await server.createToken("ada");
    const client = await server.connect(ada.token);
    await client.call("load_skill", { skill: "notes" });
    expect((await server.send("/metrics", { token: ada.token })).status).toBe(403);
    expect((await server.send("/mcp", { token })).status).toBe(403);
    const answer = await server.send("/metrics", { token });
    expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    const text = await answer.text();
    for (const line of [
      "skillet_sessions 1",
      'skillet_rpc_requests_total{method="tools/call",tool="load_skill"} 1',
      'skillet_skill_events_total{kind="loaded"} 1',
      'skillet_http_requests_total{method="POST",status="200"}',
      'skillet_http_request_seconds_bucket{le="+Inf"}',
    ])
      expect(text).toContain(line);
    for (const line of text.trim().split("\n"))
      expect(line).toMatch(/^(?:# (?:HELP|TYPE) skillet_\w+ .+|skillet_\w+(?:\{[^{}]*\})? [\d.e+-]+)$/);
    expect(text).not.toMatch(/ada|prometheus/);
  });

  it("[E-35] slows down an address that sends wrong tokens, and still accepts the token of a person there", async () => {
    const server = await startTeamServer(placeOfTeam());
    const ada = await server.createToken("ada");
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 12; attempt++)
      statuses.push((await server.send("/mcp", { token: `wrong-token-${attempt}` })).status);
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
    const refused = await server.send("/mcp", { token: server.token });
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    const client = await server.connect(ada.token);
    expect(await client.tools()).toContain("list_skills");
  });
});

describe("the throttle of logins", () => {
  it("forgets failures after a while, and counts addresses of one IPv6 network together", () => {
    let now = 0;
    const throttle = createLoginThrottle({ burst: 3, seconds: 10, now: () => now });
    for (let attempt = 0; attempt < 3; attempt++) throttle.fail(`2001:db8::${attempt}`);
    expect(throttle.secondsToWait("2001:db8:0:0:ffff::1")).toBe(10);
    expect(throttle.secondsToWait("2001:db8:1::1")).toBe(0);
    now += 10_000;
    expect(throttle.secondsToWait("2001:db8::1")).toBe(0);
    throttle.fail("2001:db8::9");
    expect(throttle.secondsToWait("2001:db8::1")).toBe(10);
  });
});

describe("the address of a client", () => {
  const request = (remoteAddress: string, forwarded?: string) => ({
    headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded },
    socket: { remoteAddress } as never,
  });

  it.each([
    ["203.0.113.5", undefined, [], "203.0.113.5"],
    ["203.0.113.5", "198.51.100.1", [], "203.0.113.5"],
    ["10.0.0.1", "198.51.100.1", ["10.0.0.1"], "198.51.100.1"],
    ["::ffff:10.0.0.1", "198.51.100.1", ["10.0.0.1"], "198.51.100.1"],
    ["10.0.0.1", "1.2.3.4, 198.51.100.1", ["10.0.0.1"], "198.51.100.1"],
    ["10.0.0.1", "1.2.3.4, 198.51.100.1, 10.0.0.2", ["10.0.0.1", "10.0.0.2"], "198.51.100.1"],
    ["10.0.0.1", "<script>", ["10.0.0.1"], "unknown"],
  ])(
    "of a request from %s with X-Forwarded-For %s, with trusted proxies %j, is %s",
    (remote, forwarded, trusted, is) => {
      expect(resolveClientAddress(request(remote, forwarded), trusted)).toBe(is);
    },
  );
});

describe("scopes", () => {
  it.each([
    [["list"], ["list"]],
    [["use"], ["list", "load", "run", "use"]],
    [
      ["run", "approve"],
      ["list", "load", "run", "approve"],
    ],
    [["metrics"], ["metrics"]],
    [["everything"], []],
  ])("%j include %j", (given, all) => {
    expect([...expandScopes(given)].sort()).toEqual([...all].sort());
  });
});
