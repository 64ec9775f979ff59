import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startBalancer } from "../../support/balancer.ts";
import { conformanceServer } from "../conformance-server.ts";
import { FURTHER, NOT_PASSED, PLAIN, REQUIRED, SKILLS, STATELESS_TOOLS } from "../support/scenarios.ts";
import { BIN, home, skilletServeHttp } from "../support/served.ts";
import { clientConformance, conformance, findings, passed, type Revision, type Verdict } from "../support/suite.ts";

const TIMEOUT = 120_000;

describe.each(["2025-11-25", "2026-07-28"] satisfies Revision[])("a server of %s", (revision) => {
  const notPassed = Object.values(NOT_PASSED[revision]).flat();
  const wanted = [...REQUIRED[revision], ...FURTHER[revision]];
  const print = (server: string, verdict: Verdict, names: readonly string[]) => {
    const right = passed(verdict).filter((name) => names.includes(name));
    const checks = right.flatMap((name) => verdict[name] ?? []).filter(({ status }) => status === "SUCCESS");
    process.stdout.write(
      `conformance ${revision}, ${server}: ${right.length} of ${names.length} scenarios, ${checks.length} checks\n`,
    );
  };

  it("passes every required scenario of the conformance suite", { timeout: TIMEOUT }, async () => {
    const serving = await conformanceServer(home());
    onTestFinished(() => serving.close());
    const verdict = await conformance(serving.url, revision, { expected: notPassed });
    print("required", verdict, REQUIRED[revision]);
    print("not counted", verdict, FURTHER[revision]);
    expect(Object.keys(verdict).sort()).toEqual([...wanted, ...notPassed].sort());
    expect(wanted.flatMap((name) => findings(verdict, name))).toEqual([]);
    expect(passed(verdict)).toEqual([...wanted].sort());
    await passesSkills("with the suite's tools", serving.url);
  });

  it("can be `skillet serve` with only its own tools", { timeout: TIMEOUT }, async () => {
    const url = await skilletServeHttp(home());
    const plain = PLAIN[revision];
    const expected = [...wanted, ...notPassed].filter((name) => !plain.includes(name));
    const verdict = await conformance(url, revision, { expected });
    print("skillet serve", verdict, plain);
    expect(plain.flatMap((name) => findings(verdict, name))).toEqual([]);
    expect(passed(verdict)).toEqual(expect.arrayContaining([...plain]));
    passesStateless(verdict);
    await passesSkills("skillet serve", url);
  });

  it("[E-30] can be two servers of one home behind a proxy", { timeout: TIMEOUT }, async () => {
    const place = home();
    const servers = await Promise.all([0, 1].map(() => skilletServeHttp(place)));
    // Clients of 2025-11-25 have sessions, which stay on one server. Those of 2026-07-28 have none: the servers take turns.
    const isSticky = revision === "2025-11-25";
    const { url, counts } = await startBalancer(
      servers.map((server) => new URL(server)),
      { isSticky },
    );
    // A rule of servers that clients reach directly: a page of the proxy's address is not one of the server's.
    const plain = PLAIN[revision].filter((name) => name !== "dns-rebinding-protection");
    const expected = [...wanted, ...notPassed].filter((name) => !plain.includes(name));
    const verdict = await conformance(url.href, revision, { expected });
    print("two servers", verdict, plain);
    expect(plain.flatMap((name) => findings(verdict, name))).toEqual([]);
    expect(passed(verdict)).toEqual(expect.arrayContaining([...plain]));
    passesStateless(verdict);
    await passesSkills("two servers", url.href);
    for (const count of counts) expect(count).toBeGreaterThan(10);
  });

  /** The rules of requests without a session: everything that needs none of the suite's tools. */
  function passesStateless(verdict: Verdict) {
    if (revision !== "2026-07-28") return;
    const checks = verdict["server-stateless"] ?? [];
    const others = checks.filter(({ id }) => !STATELESS_TOOLS.includes(id));
    expect(others.filter(({ status }) => status !== "SUCCESS")).toEqual([]);
    expect(others.length).toBeGreaterThan(20);
  }

  async function passesSkills(server: string, url: string) {
    const verdict = await conformance(url, revision, { scenarios: SKILLS });
    print(`skills, ${server}`, verdict, SKILLS);
    expect(SKILLS.flatMap((name) => findings(verdict, name))).toEqual([]);
    expect(passed(verdict)).toEqual(SKILLS);
  }
});

describe("skillet as a host of skills of MCP servers", () => {
  const program = join(import.meta.dirname, "../skills-host.mjs");
  const as = (mode: "list" | "load") => `${process.execPath} ${program} ${BIN} ${mode}`;

  it.each([
    ["sep-2640-client-no-prefetch", "list"],
    ["sep-2640-client-verify-digest", "load"],
    ["sep-2640-client-verify-size", "load"],
    ["sep-2640-client-verify-frontmatter", "load"],
  ] as const)("[A-10] passes %s of the conformance suite", { timeout: TIMEOUT }, async (scenario, mode) => {
    const checks = await clientConformance(as(mode), scenario);
    expect(checks.map(({ id, status, errorMessage }) => ({ id, status, errorMessage }))).toEqual([
      { id: expect.stringContaining("sep-2640-host-"), status: "SUCCESS" },
    ]);
  });
});
