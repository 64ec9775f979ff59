import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  createChangeFeed,
  createRunPoll,
  type StudioChange,
  watchStores,
} from "../../src/adapters/studio/studio-changes.ts";
import { createStudioGuard } from "../../src/adapters/studio/studio-server.ts";
import { createHeldFolder, digestCurrent } from "../../src/agent/workspace/held-changes.ts";
import { digestPath } from "../../src/agent/workspace/workspace-snapshot.ts";
import { TIERS } from "../../src/catalog/disclose.ts";
import { createStudioRoutes } from "../../src/cli/studio-routes.ts";
import { createEvalReport, createSkillReport, saveEvalReport } from "../../src/eval/eval-report.ts";
import { getSandboxFolder } from "../../src/sandbox/sandbox-folders.ts";
import { createRunStore } from "../../src/store/runs.ts";
import { createStatisticsStore } from "../../src/store/statistics.ts";
import { findDesktopOpener } from "../../src/util/system.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { createHome, type Place } from "../support/home.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";
import { followChanges, type StudioCall, startStudio } from "../support/studio.ts";
import { modelConfig } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

const SKILLS = {
  "home/.skillet/skills/greeter/SKILL.md": skillText("greeter", {
    description: "Greets people. Use when asked to greet.",
  }),
  "home/.agents/skills/twice/SKILL.md": skillText("twice", { body: "Another." }),
  "project/.git/HEAD": "ref: refs/heads/main\n",
  "project/skills/twice/SKILL.md": skillText("twice"),
  "project/skills/twice/notes/more.md": "# More\n",
  "project/skills/broken/SKILL.md": "---\nname: broken\n---\n\nNothing.\n",
};

/** THE table of routes with the stream of changes. No context is needed: no route answers here. */
const ROUTES = [
  ...createStudioRoutes({} as Parameters<typeof createStudioRoutes>[0]),
  { method: "GET", path: "/api/changes", isChange: undefined },
] as const;
const CHANGES = ROUTES.filter(({ isChange }) => isChange);
const POSTS = ROUTES.filter(({ method }) => method === "POST");

/** The path of a route, with the values of its parameters. Fails for a parameter without one. */
function fillPath(path: string, values: Readonly<Record<string, string>>): string {
  return path.replace(/:(\w+)/g, (_, name: string) => {
    expect(values, path).toHaveProperty(name);
    return values[name] ?? "";
  });
}

const ANY = { name: "greeter", id: "20261119-000000-00000000", index: "0" };

function callRoute({ method, path }: { method: string; path: string }, values: Readonly<Record<string, string>> = ANY) {
  return { path: fillPath(path, values), call: method === "POST" ? { method, body: {} } : { method } };
}

const dist = join(import.meta.dirname, "../../dist/studio");

async function printed({ run }: Place, ...args: string[]): Promise<ReturnType<typeof JSON.parse>> {
  return JSON.parse((await run([...args, "--json"])).stdout);
}

describe("the requests of studio", () => {
  it("[V-01] answers with the page, and with data only to a session", async () => {
    const studio = await startStudio(createHome(SKILLS).run);
    expect(studio.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
    expect(await studio.send("/")).toMatchObject({
      status: 200,
      headers: { "content-type": "text/html; charset=utf-8" },
    });
    expect(await studio.send("/api/skills")).toMatchObject({
      status: 401,
      json: { error: { code: "studio-session" } },
    });
    const send = await studio.open();
    expect((await send("/api/skills")).status).toBe(200);
  });

  it("[V-01] accepts a link once", async () => {
    const studio = await startStudio(createHome(SKILLS).run);
    const session: StudioCall = { method: "POST", body: { token: studio.token } };
    expect((await studio.send("/api/session", { method: "POST", body: { token: "wrong" } })).status).toBe(401);
    expect((await studio.send("/api/session", { method: "POST", body: {} })).status).toBe(401);
    const { status, headers } = await studio.send("/api/session", session);
    expect(status).toBe(200);
    expect(headers["set-cookie"]).toEqual([
      expect.stringMatching(/^skillet-studio-\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/),
    ]);
    expect((await studio.send("/api/session", session)).status).toBe(401);
  });

  it("[V-01] needs for every route both the cookie, which other ports of this machine receive, and the key, which they do not", async () => {
    const studio = await startStudio(createHome(SKILLS).run);
    const send = await studio.open();
    expect((await send("/api/studio")).status).toBe(200);
    expect(ROUTES.length).toBeGreaterThan(15);
    for (const route of ROUTES) {
      const { path, call } = callRoute(route);
      expect((await studio.send(path, call)).status, path).toBe(401);
      for (const headers of [{ cookie: "" }, { "x-skillet-key": "" }, { "x-skillet-key": studio.token }])
        expect((await send(path, { ...call, headers })).json, path).toMatchObject({
          error: { code: "studio-session" },
        });
    }
  });

  it.each([
    ["a foreign Host", { host: "attacker.example" }],
    ["a name that only ends like its own", { host: "localhost.attacker.example" }],
    ["another port in the Host", { host: "127.0.0.1:1" }],
    ["no port in the Host", { host: "127.0.0.1" }],
    ["a foreign Origin", { origin: "https://attacker.example" }],
    ["a page of another local port", { origin: "http://127.0.0.1:1" }],
    ["a page without an origin", { origin: "null" }],
    ["a page of another site", { "sec-fetch-site": "cross-site" }],
    ["a page of the same site", { "sec-fetch-site": "same-site" }],
  ])("[V-01] refuses %s for every route, also with a session, and for the page itself", async (_, headers) => {
    const studio = await startStudio(createHome(SKILLS).run);
    const send = await studio.open();
    for (const { path, call } of [{ path: "/", call: {} }, ...ROUTES.map((route) => callRoute(route))])
      expect(await send(path, { ...call, headers }), path).toMatchObject({
        status: 403,
        json: { error: { code: "studio-origin" } },
      });
  });

  it("[V-01] accepts its own names, also on every interface", () => {
    const isAccepted = (host: string, header: string) => {
      const guard = createStudioGuard({ host, port: 7410 });
      try {
        guard.checkOrigin({ host: header, origin: `http://${header}` });
        return true;
      } catch {
        return false;
      }
    };
    for (const name of ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
      expect(isAccepted("127.0.0.1", `${name}:7410`)).toBe(true);
    expect(isAccepted("127.0.0.1", "192.0.2.7:7410")).toBe(false);
    expect(isAccepted("0.0.0.0", "192.0.2.7:7410")).toBe(true);
    expect(isAccepted("0.0.0.0", "[2001:db8::1]:7410")).toBe(true);
    // A name could be pointed at this machine by its owner.
    expect(isAccepted("0.0.0.0", "attacker.example:7410")).toBe(false);
    expect(isAccepted("studio.example", "studio.example:7410")).toBe(true);
  });

  it("[V-01] never allows another origin in a preflight request", async () => {
    const studio = await startStudio(createHome(SKILLS).run);
    const headers = { origin: "https://attacker.example", "access-control-request-headers": "x-skillet-key" };
    const answer = await studio.send("/api/skills", { method: "OPTIONS", headers });
    expect(answer.status).toBe(403);
    expect(Object.keys(answer.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  it("[V-03] sends a policy that allows no inline script and nothing from another host", async () => {
    const studio = await startStudio(createHome(SKILLS).run);
    for (const path of ["/", "/api/skills", "/skills/greeter"]) {
      const { headers } = await studio.send(path);
      const policy = String(headers["content-security-policy"]);
      expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'");
      expect(policy).toContain("frame-ancestors 'none'; require-trusted-types-for 'script'");
      expect(policy).not.toMatch(/unsafe|https?:|data:|\*/);
      expect(headers).toMatchObject({ "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" });
    }
    const page = (await studio.send("/")).body;
    expect(page).not.toMatch(/<script(?![^>]* src="\/assets\/)|\son\w+=|style=|https?:/i);
  });

  it("[V-04] reads no path that a client names", async () => {
    const here = createHome({ ...SKILLS, "home/secret.txt": "secret" });
    const studio = await startStudio(here.run);
    const send = await studio.open();
    const { json } = await send("/api/skills/twice");
    expect(json.files.map(({ path }: { path: string }) => path)).toEqual(["notes/more.md"]);
    expect((await send("/api/skills/twice/files/0")).json).toEqual(
      await printed(here, "show", "twice", "notes/more.md"),
    );
    const paths = ["..%2f..%2f..%2fsecret.txt", "notes%2fmore.md", "-1", "1", "0.5", "1e0", "__proto__", "constructor"];
    for (const path of paths)
      expect((await send(`/api/skills/twice/files/${path}`)).json, path).toMatchObject({
        error: { code: "not-found" },
      });
    for (const path of ["/assets/../index.html", "/assets/%2e%2e%2fpackage.json", "/assets/..%2f..%2fpackage.json"])
      expect((await studio.send(path)).body, path).not.toContain('"name": "skillet"');
    for (const path of [
      "/api/runs/..%2f..%2fsecret",
      "/api/runs/last",
      "/api/skills/..%2ftwice",
      "/api/%00",
      "/api/skills/%zz",
      "//",
    ])
      expect((await send(path)).status, path).toBe(404);
  });

  it("[V-04] changes nothing when it is read-only, and answers every other route", async () => {
    const here = createHome({ ...SKILLS, "home/.skillet/evals/x.json": "{}" });
    await recordWaitingRun(here, "greet them");
    const send = await (await startStudio(here.run, "--read-only")).open();
    const before = readFiles(here);
    expect(POSTS.filter(({ isChange }) => !isChange).map(({ path }) => path)).toEqual(["/api/doctor", "/api/sandbox"]);
    for (const route of CHANGES) {
      const { path, call } = callRoute(route, { ...ANY, id: WAITING });
      expect(route.method).toBe("POST");
      expect((await send(path, call)).json, path).toMatchObject({ error: { code: "studio-read-only" } });
      expect((await send(path, { method: "PUT" })).status, path).toBe(404);
    }
    for (const route of ROUTES.filter(isQuick)) {
      if (route.isChange) continue;
      const { path, call } = callRoute(route, { ...ANY, name: "twice", id: WAITING });
      expect((await send(path, call)).status, path).toBe(200);
    }
    expect(readFiles(here)).toEqual(before);
  });

  it("[V-04] answers no POST without JSON, or with too much of it", async () => {
    const send = await (await startStudio(createHome(SKILLS).run)).open();
    const forms = [{}, { "content-type": "text/plain" }, { "content-type": "application/x-www-form-urlencoded" }];
    for (const { path } of POSTS.map((route) => callRoute(route))) {
      for (const headers of forms)
        expect((await send(path, { method: "POST", headers })).json, path).toMatchObject({ error: { code: "usage" } });
      const body = { text: "x".repeat(100_000) };
      expect((await send(path, { method: "POST", body })).json, path).toMatchObject({ error: { code: "usage" } });
    }
    expect((await send(`/api/runs/${WAITING}/cancel`, { method: "POST", body: {} })).json).toMatchObject({
      error: { code: "run-unknown" },
    });
  });

  it("[V-04] redacts the secrets of the configuration in every answer, and in the changes", async () => {
    const secret = "hunter2-is-not-a-password";
    const text = `The key is ${secret}.`;
    const here = createHome({
      ...SKILLS,
      "home/.agents/skills/leaky/SKILL.md": skillText("leaky", { body: text, more: "env: [LEAKY_KEY]\n" }),
      "home/.agents/skills/leaky/notes.md": text,
      [`home/.agents/skills/${secret}/SKILL.md`]: skillText(secret, { description: `Use it for ${secret}.` }),
    });
    await here.run(["config", "set", "skills.leaky.LEAKY_KEY"], { stdin: secret });
    await recordWaitingRun(here, text);
    holdChange(here, text);
    const skilletHome = join(here.home, ".skillet");
    const report = createEvalReport("route", { model: text });
    report.skills = [createSkillReport("leaky", { misses: [{ query: text, shouldTrigger: true }] })];
    saveEvalReport(skilletHome, report);
    await createStatisticsStore(skilletHome).record({
      ...{ type: "run-ended", run: WAITING, skill: secret, at: new Date().toISOString(), stop: "answer" },
      ...{ isError: false, iterations: 1, ms: 1, usage: { inputTokens: 1, outputTokens: 1, cachedTokens: 0 } },
    });
    const studio = await startStudio(here.run);
    const send = await studio.open();
    const redacted = new Set<string>();
    const known = { name: "leaky", id: WAITING, index: "0" };
    const hostile = { name: secret, id: secret, index: secret };
    for (const route of ROUTES.filter(isQuick))
      for (const values of route.isChange ? [hostile] : [known, hostile])
        for (const query of ["", `?query=${secret}`, `?query=x&skill=${secret}`, `?query=x&as=${secret}`]) {
          const { path, call } = callRoute(route, values);
          const { body } = await send(`${path}${query}`, call);
          expect(body, path).not.toContain(secret);
          if (body.includes("[LEAKY_KEY]")) redacted.add(route.path);
        }
    const stored = ["skills", "skills/:name", "skills/:name/files/:index", "tokens", "clients", "explain"];
    stored.push("explain/tiers", "runs", "runs/:id", "approvals", "evals", "stats");
    expect([...redacted]).toEqual(expect.arrayContaining(stored.map((path) => `/api/${path}`)));
    expect((await send("/api/skills/leaky")).json.body).toContain("The key is [LEAKY_KEY].");
    const changes = await followChanges(studio.url, send);
    writeFileSync(join(skilletHome, `runs/${secret}.jsonl`), "");
    await waitFor(() => expect(changes().flatMap(({ names }) => names)).toContain("[LEAKY_KEY]"));
    expect(JSON.stringify(changes())).not.toContain(secret);
  });

  it("[V-04] stays JSON when a secret is part of its syntax", async () => {
    const here = createHome({
      ...SKILLS,
      "home/.agents/skills/odd/SKILL.md": skillText("odd", { more: "env: [ODD_KEY]\n" }),
    });
    await here.run(["config", "set", "skills.odd.ODD_KEY"], { stdin: '"name":' });
    const send = await (await startStudio(here.run)).open();
    expect((await send("/api/skills")).json.skills.length).toBeGreaterThan(0);
  });
});

describe("the data of studio", () => {
  it("[V-02] equals what the command line prints with --json", async () => {
    const here = createHome(SKILLS);
    const send = await (await startStudio(here.run)).open();
    const json = async (path: string) => (await send(path)).json;
    const skills = await json("/api/skills");
    expect(skills).toEqual(await printed(here, "list", "--all"));
    expect(skills.shadowed).toHaveLength(1);
    expect(skills.diagnostics.length).toBeGreaterThan(0);
    const { tokens } = await json("/api/tokens");
    expect(Object.keys(tokens)).toEqual(skills.skills.map(({ name }: { name: string }) => name));
    for (const name of ["greeter", "twice", `twice@${skills.shadowed[0].source}`]) {
      const shown = await printed(here, "show", name, "--body");
      expect(await json(`/api/skills/${encodeURIComponent(name)}`)).toEqual({
        ...shown,
        exports: (await printed(here, "export", shown.name, "--list")).installed,
      });
      if (!name.includes("@")) expect(tokens[name]).toEqual(shown.tokens);
    }
    expect(await json("/api/clients")).toEqual(await printed(here, "list", "--by", "client"));
    expect(await json("/api/explain?query=greet%20me")).toEqual(await printed(here, "explain", "greet me"));
    expect(await json("/api/explain?query=greet&skill=twice")).toEqual(
      await printed(here, "explain", "greet", "--skill", "twice"),
    );
    for (const client of ["claude", "codex", "gemini"])
      expect(await json(`/api/explain?query=greet&as=${client}`)).toEqual(
        await printed(here, "explain", "greet", "--as", client),
      );
    const { tiers } = await json("/api/explain/tiers?query=greet%20me");
    expect(tiers.map(({ tier }: { tier: string }) => tier)).toEqual(TIERS);
    for (const shown of tiers)
      expect(await printed(here, "explain", "greet me", "--tier", shown.tier)).toMatchObject(shown);
    expect(await json("/api/stats")).toEqual(await printed(here, "stats"));
    const doctor = (await send("/api/doctor", { method: "POST", body: {} })).json;
    expect(doctor).toEqual(await printed(here, "doctor"));
  });

  it("[V-02] shows runs, approvals and evaluations as the command line does", async () => {
    const server = await startModelServer("openai", [writes, () => "Hello."]);
    const here = createHome({ ...SKILLS, ...QUERIES }, modelConfig("openai", server));
    await here.run(["run", "greeter", "write it"]);
    await here.run(["run", "greeter", "say hello"]);
    const evaluated = await printed(here, "eval", "greeter");
    const send = await (await startStudio(here.run)).open();
    const json = async (path: string) => (await send(path)).json;
    const list = await json("/api/runs");
    expect(list).toEqual(await printed(here, "runs", "-n", "1000"));
    expect(list.runs).toHaveLength(2);
    for (const { id } of list.runs)
      expect(await json(`/api/runs/${id}`)).toEqual(await printed(here, "runs", "show", id));
    const { digests, ...approvals } = await json("/api/approvals");
    expect(approvals).toEqual(await printed(here, "approve"));
    expect(Object.keys(digests)).toEqual(approvals.waiting.map(({ id }: { id: string }) => id));
    expect(approvals.waiting).toHaveLength(1);
    expect(await json("/api/stats")).toEqual(await printed(here, "stats"));
    const { reports } = await json("/api/evals");
    expect(reports).toHaveLength(1);
    expect(reports[0].skills[0].rates).toEqual(evaluated.skills[0].rates);
  });

  it("[V-05] reports changes of skills, runs and approvals to an open page", async () => {
    const server = await startModelServer("openai", [writes]);
    const here = createHome(SKILLS, modelConfig("openai", server));
    const studio = await startStudio(here.run);
    const send = await studio.open();
    const changes = await followChanges(studio.url, send);
    const typesOf = () => new Set(changes().map(({ type }) => type));
    await here.run(["run", "greeter", "write it"]);
    await waitFor(() => expect([...typesOf()]).toEqual(expect.arrayContaining(["runs", "approvals"])));
    const [{ id }] = (await send("/api/runs")).json.runs;
    expect(
      changes()
        .filter(({ type }) => type === "runs")
        .flatMap(({ names }) => names),
    ).toContain(id);
  });
});

describe("the stores that studio follows", () => {
  it("[V-05] are followed again after the home was removed and created again, and cost nothing in between", async () => {
    const home = temporaryFolder({ "runs/a.jsonl": "" });
    const feed = createChangeFeed();
    const stores = watchStores(home, feed);
    onTestFinished(() => stores.close());
    const named: string[] = [];
    feed.subscribe(({ names }) => void named.push(...names));
    writeFileSync(join(home, "runs/b.jsonl"), "{}");
    await waitFor(() => expect(named).toContain("b"));
    rmSync(home, { recursive: true });
    await waitFor(() => expect(named).toContain("a")); // Its removal is the last event.
    stores.refresh();
    const known = named.length;
    for (let look = 0; look < 20; look++) {
      stores.refresh();
      await new Promise(setImmediate);
    }
    expect(named).toHaveLength(known);
    mkdirSync(join(home, "runs"), { recursive: true });
    stores.refresh();
    writeFileSync(join(home, "runs/c.jsonl"), "{}");
    await waitFor(() => expect(named).toContain("c"));
  });

  it("[V-05] are read from a database only while a page is open, and one after the other", async () => {
    const feed = createChangeFeed();
    const versions = new Map([["a", "1"]]);
    let looks = 0;
    const listVersions = async () => {
      looks++;
      return new Map(versions);
    };
    const look = createRunPoll({ runs: { listVersions } }, feed);
    await look();
    expect(looks).toBe(0);
    const changes: StudioChange[] = [];
    const end = feed.subscribe((change) => void changes.push(change));
    const runsOf = () => changes.flatMap(({ type, names }) => (type === "runs" ? [names] : []));
    await Promise.all([look(), look()]);
    expect(looks).toBe(1);
    await waitFor(() => expect(runsOf()).toEqual([[]]));
    await look();
    versions.set("b", "1").set("a", "2");
    await look();
    await waitFor(() => expect(runsOf()).toEqual([[], ["a", "b"]]));
    end();
    await look();
    expect(looks).toBe(3);
  });
});

describe("answers of studio", () => {
  it("[V-06] approving resumes a run that waits and that no process works on", async () => {
    const server = await startModelServer("openai", [writes, () => "Written."]);
    const here = createHome(SKILLS, modelConfig("openai", server));
    await here.run(["run", "greeter", "write it"]);
    const send = await (await startStudio(here.run)).open();
    const { waiting, digests } = (await send("/api/approvals")).json;
    const id: string = waiting[0].id;
    const answer = await send(`/api/approvals/${id}`, {
      method: "POST",
      body: { decision: "once", digest: digests[id] },
    });
    expect(answer).toMatchObject({ status: 200, json: { run: id, isApproved: true, isResumed: true } });
    await waitFor(async () => expect((await send(`/api/runs/${id}`)).json.summary.state).toBe("ended"));
    expect(readFileSync(join(here.project, "out.txt"), "utf8")).toBe("written\n");
  });

  it("[V-06] denying gives the model the reason, with secrets redacted", async () => {
    const server = await startModelServer("openai", [writes, () => "I did not."]);
    const here = createHome(
      { ...SKILLS, "home/.agents/skills/odd/SKILL.md": skillText("odd", { more: "env: [ODD_KEY]\n" }) },
      modelConfig("openai", server),
    );
    await here.run(["config", "set", "skills.odd.ODD_KEY"], { stdin: "a-secret-value" });
    await here.run(["run", "greeter", "write it"]);
    const send = await (await startStudio(here.run)).open();
    const { waiting, digests } = (await send("/api/approvals")).json;
    const id: string = waiting[0].id;
    const body = { decision: "deny", reason: "not today, a-secret-value", digest: digests[id] };
    expect((await send(`/api/approvals/${id}`, { method: "POST", body })).status).toBe(200);
    await waitFor(async () => expect((await send(`/api/runs/${id}`)).json.summary.state).toBe("ended"));
    const shown = JSON.stringify(await printed(here, "runs", "show", id));
    expect(shown).toContain("not today, [ODD_KEY]");
    expect(readdirSync(here.project)).not.toContain("out.txt");
  });

  it("[V-04] answers only the request that was shown", async () => {
    const server = await startModelServer("openai", [writes]);
    const here = createHome(SKILLS, modelConfig("openai", server));
    await here.run(["run", "greeter", "write it"]);
    const send = await (await startStudio(here.run)).open();
    const { waiting } = (await send("/api/approvals")).json;
    const path = `/api/approvals/${waiting[0].id}`;
    for (const body of [{ decision: "once" }, { decision: "once", digest: "0".repeat(64) }])
      expect((await send(path, { method: "POST", body })).json).toMatchObject({
        error: { code: "no-pending-approval" },
      });
    expect((await send("/api/approvals")).json.waiting).toHaveLength(1);
  });

  it("cancels a waiting run", async () => {
    const server = await startModelServer("openai", [writes]);
    const here = createHome(SKILLS, modelConfig("openai", server));
    await here.run(["run", "greeter", "write it"]);
    const send = await (await startStudio(here.run)).open();
    const [{ id }] = (await send("/api/runs")).json.runs;
    expect((await send(`/api/runs/${id}/cancel`, { method: "POST", body: {} })).json).toEqual({ run: id });
    expect((await printed(here, "runs")).runs[0].state).toBe("cancelled");
    expect((await send(`/api/runs/${id}/resume`, { method: "POST", body: {} })).json.error.code).toBe("run-cancelled");
  });
});

describe("the command", () => {
  it.runIf(existsSync("/usr/bin/bwrap"))("ends normally at a signal while the sandbox tests itself", async () => {
    const here = createHome(SKILLS);
    const studio = await startStudio((args, { signal, onOutput } = {}) =>
      runSkilletProcess(args, { cwd: here.project, env: { HOME: here.home }, endOn: signal, onOutput }),
    );
    const send = await studio.open();
    // Folders of probes; for root, all homes share theirs.
    const listProbes = () => readdirSync(getSandboxFolder(join(here.home, ".skillet")));
    const before = new Set(listProbes());
    const answer = send("/api/sandbox", { method: "POST", body: {} }).catch(() => "closed");
    await waitFor(() => expect(listProbes().some((name) => /^probe-/.test(name) && !before.has(name))).toBe(true));
    expect(await studio.stop()).toMatchObject({ code: 0, signal: null });
    expect(await answer).toBe("closed");
  });

  it("uses the given port, or reports that it is in use", async () => {
    const studio = await startStudio(createHome(SKILLS).run);
    const { port } = new URL(studio.url);
    const second = await createHome(SKILLS).run(["studio", "--port", port, "--no-open"]);
    expect(second).toMatchObject({ code: 2 });
    expect(second.stderr).toContain(`Port ${port} of 127.0.0.1 is in use`);
  });

  it.each([["70000"], ["-1"], ["x"]])("refuses the port %s", async (port) => {
    expect(await createHome({}).run(["studio", `--port=${port}`, "--no-open"])).toMatchObject({ code: 2 });
  });

  it("opens a browser only on a desktop", () => {
    expect(findDesktopOpener({ DISPLAY: ":0" }, "linux")).toBe("xdg-open");
    expect(findDesktopOpener({ WAYLAND_DISPLAY: "wayland-0" }, "linux")).toBe("xdg-open");
    expect(findDesktopOpener({}, "darwin")).toBe("open");
    expect(findDesktopOpener({}, "linux")).toBeUndefined();
    expect(findDesktopOpener({ DISPLAY: ":0", SSH_CONNECTION: "192.0.2.1 1 192.0.2.2 22" }, "linux")).toBeUndefined();
    expect(findDesktopOpener({ DISPLAY: ":0", CI: "true" }, "linux")).toBeUndefined();
  });

  it("[V-08] is the only one that imports the server", () => {
    const source = join(import.meta.dirname, "../../src");
    const importing = readdirSync(source, { recursive: true, encoding: "utf8" }).filter(
      (path) =>
        path.endsWith(".ts") &&
        /from "[^"]*(?:\/studio-\w+|commands\/studio)\.ts"/.test(readFileSync(join(source, path), "utf8")),
    );
    expect(importing.filter((path) => !/studio/.test(path))).toEqual([]);
    expect(importing.length).toBeGreaterThan(2);
    expect(readFileSync(join(source, "cli/program.ts"), "utf8")).toContain('await import("./commands/studio.ts")');
  });

  it("[V-08] builds a page of less than 250 kB, compressed", () => {
    const files = readdirSync(dist).map((name) => readFileSync(join(dist, name)));
    const bytes = files.reduce((sum, file) => sum + gzipSync(file).length, 0);
    expect(files.length).toBeGreaterThan(2);
    expect(bytes).toBeLessThan(250_000);
  });
});

const writes: Turn = () => [{ tool: "write_file", input: { path: "out.txt", content: "written\n" } }];

const QUERIES = {
  "home/.skillet/skills/greeter/evals/triggers.json": JSON.stringify([
    { query: "greet them", should_trigger: true, split: "test" },
    { query: "the weather", should_trigger: false, split: "test" },
  ]),
};

const WAITING = "20261119-000000-0000000a";

/** The sandbox tests itself for seconds, and the stream does not end. */
const isQuick = ({ path }: { path: string }) => path !== "/api/changes" && (IS_LONG || path !== "/api/sandbox");

/** Records a run that waits for approval, with a text that was not redacted. */
async function recordWaitingRun({ home, project }: Place, text: string): Promise<void> {
  const journal = await createRunStore(join(home, ".skillet")).create({
    head: {
      ...{ id: WAITING, kind: "use", skill: "greeter", task: text, workspace: project },
      caller: { chatType: "private", chatId: "terminal" },
    },
    request: { skill: "greeter", message: text },
  });
  await journal.ask("approval:1.1", {
    ...{ run: WAITING, skill: "greeter", source: "user", location: join(home, ".skillet/skills/greeter") },
    ...{ tool: "mail", input: { text }, on: "outside", what: "send a mail", reason: "it changes something outside" },
  });
  await journal.close();
}

/** Holds the creation of a file, as a run does. */
function holdChange({ home, project }: Place, text: string): void {
  const folder = createHeldFolder(join(home, ".skillet"));
  const { name, path } = folder.next();
  writeFileSync(path, text);
  folder.save({
    ...{ workspace: project, at: "2026-11-19T10:00:00.000Z", skill: "greeter" },
    changes: [
      {
        ...{ path: ".vscode/settings.json", raw: ".vscode/settings.json", change: "changed", group: "editor" },
        ...{ diff: `+${text}`, stored: name, digest: digestPath(folder.root, name) },
        current: digestCurrent(project, ".vscode/settings.json"),
      },
    ],
  });
}

/** The files of the home and the project with their contents, without the caches of the catalog. */
function readFiles({ home, project }: Place): Record<string, string> {
  const files = [home, project].flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((file) => !file.includes("/.skillet/cache/")),
  );
  return Object.fromEntries(files.map((file) => [file, readFileSync(file, "base64")]));
}
