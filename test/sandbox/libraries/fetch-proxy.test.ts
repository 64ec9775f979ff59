import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../support/folder.ts";
import type { ServedPackage } from "../../support/package-servers.ts";
import { WITH_BUILT } from "../../support/program.ts";
import { sampleRows } from "../../support/sample-steps.ts";
import { type FetchOutcome, type FetchScenario, LISTENERS } from "./isolated-fetch.ts";

const start = promisify(execFile);

const HOSTS = ["127.0.0.1 localhost", "10.1.2.3 inside.example", "93.184.215.14 public.example"];
const MIXED = ["93.184.215.14 mixed.example", "10.1.2.3 mixed.example"];

/** Runs pip or npm in a separate network: the loopback interface has every address, so that each connection can be counted. */
async function fetchAlone(scenario: FetchScenario): Promise<FetchOutcome> {
  const hosts = join(temporaryFolder(), "hosts");
  writeFileSync(hosts, `${[...HOSTS, ...MIXED].join("\n")}\n`);
  const addresses = LISTENERS.filter(({ host }) => !["127.0.0.1", "::1"].includes(host));
  const setUp = [
    'mount --bind "$0" /etc/hosts',
    "ip link set lo up",
    ...addresses.map(({ host }) => `ip addr add ${host}/32 dev lo`),
    'exec "$@"',
  ].join(" && ");
  const program = [process.execPath, "--no-warnings", ...WITH_BUILT, join(import.meta.dirname, "isolated-fetch.ts")];
  const argv = ["--map-root-user", "--net", "--mount", "sh", "-c", setUp, hosts, ...program, JSON.stringify(scenario)];
  const { NO_PROXY: _, no_proxy: __, ...env } = process.env;
  const { stdout } = await start("unshare", argv, { encoding: "utf8", env });
  const outcome: FetchOutcome = JSON.parse(stdout);
  expect(outcome.left, "servers and processes are closed").toEqual([]);
  return outcome;
}

const plain = (name: string, more: Partial<ServedPackage> = {}): ServedPackage => ({
  name,
  version: "1.0.0",
  files: {},
  ...more,
});
const dependsOn = (url: string) => plain("lines", { manifest: { dependencies: { evil: url } } });
const refusal = (host: string) => ({
  code: "library-private-address",
  message: expect.stringMatching(
    `^lines.*: the package, its index or a dependency refers to ${host.replace(/[[\].]/g, "\\$&")}`,
  ),
  fix: expect.stringMatching(/config set (?:@SCOPE:registry|global\.extra-index-url) URL$/),
});

/** The name in a package, and the one in the problem. */
const PRIVATE = [
  ["http://127.0.0.1:8001", "127.0.0.1:8001"],
  ["https://127.0.0.1:8001", "127.0.0.1:8001"],
  ["http://[::1]:8001", "[::1]:8001"],
  ["http://inside.example", "inside.example:80"],
  ["http://mixed.example", "mixed.example:80"],
] as const;

describe("npm that fetches packages", { timeout: 60_000 }, () => {
  const origins = [...PRIVATE, ["http://2130706433:8001", "127.0.0.1:8001"] as const];
  it.each(sampleRows(origins, 1))("[Q-29] requests no dependency that is a tarball at %s", async (origin, host) => {
    const outcome = await fetchAlone({ kind: "npm", wanted: "lines", packages: [dependsOn(`${origin}/evil.tgz`)] });
    expect(outcome).toMatchObject({ problem: refusal(host), locked: [], connections: {} });
  });

  it("[Q-29] requests no optional dependency at a private address, and refuses the package", async () => {
    const packages = [
      plain("lines", { manifest: { optionalDependencies: { evil: "http://127.0.0.1:8001/evil.tgz" } } }),
    ];
    const outcome = await fetchAlone({ kind: "npm", wanted: "lines", packages });
    expect(outcome).toMatchObject({ problem: refusal("127.0.0.1:8001"), connections: {} });
  });

  it("[Q-29] requests no private address that the registry names for a file", async () => {
    const packages = [plain("lines", { fileAt: "http://10.1.2.3/lines/-/lines-1.0.0.tgz" })];
    const outcome = await fetchAlone({ kind: "npm", wanted: "lines", packages });
    expect(outcome).toMatchObject({ problem: refusal("10.1.2.3:80"), connections: {} });
  });

  it.each(
    sampleRows(
      [
        ["/lines", "http://127.0.0.1:8001/lines", "127.0.0.1:8001"],
        ["/lines/-/lines-1.0.0.tgz", "http://169.254.169.254/lines-1.0.0.tgz", "169.254.169.254:80"],
        ["/lines/-/lines-1.0.0.tgz", "http://[::1]:8001/lines-1.0.0.tgz", "[::1]:8001"],
      ],
      1,
    ),
  )("[Q-29] does not follow a redirect of %s to %s", async (path, to, host) => {
    const packages = [plain("lines")];
    const outcome = await fetchAlone({ kind: "npm", wanted: "lines", packages, redirects: { [path]: to } });
    expect(outcome).toMatchObject({ problem: refusal(host), connections: {} });
  });

  it("[Q-29] requests no dependency that is a git repository, even if the user allows them", async () => {
    const dependencies = {
      evil: "git+http://127.0.0.1:8001/evil.git",
      other: "git+ssh://git@127.0.0.1:8001/other.git",
    };
    const packages = [plain("lines", { manifest: { dependencies } })];
    const env = { NPM_CONFIG_ALLOW_GIT: "all" };
    const outcome = await fetchAlone({ kind: "npm", wanted: "lines", packages, env });
    expect(outcome).toMatchObject({ problem: { code: "library-unresolved" }, connections: {} });
  });

  it.each(
    sampleRows(
      [
        ["NPM_CONFIG_NOPROXY has", { env: { NPM_CONFIG_NOPROXY: "127.0.0.1" } }],
        ["NO_PROXY and .npmrc have", { env: { NO_PROXY: "*,127.0.0.1" }, configuration: "noproxy=127.0.0.1\n" }],
      ],
      1,
    ),
  )("[Q-29] requests no private address, whatever %s", async (_, more) => {
    const packages = [dependsOn("http://127.0.0.1:8001/evil.tgz")];
    const outcome = await fetchAlone({ kind: "npm", wanted: "lines", packages, ...more });
    expect(outcome).toMatchObject({ problem: refusal("127.0.0.1:8001"), connections: {} });
  });

  it.each(
    sampleRows<[string, Partial<FetchScenario>]>(
      [
        ["by IPv6", { indexHost: "::1" }],
        ["by a name with a private address", { indexHost: "10.1.2.3", indexUrl: "http://inside.example:PORT/" }],
        [
          "with a token in .npmrc",
          {
            indexUrl: "",
            configuration: "registry=INDEX\n//127.0.0.1:PORT/:_authToken=abc\n",
            authorization: "Bearer abc",
          },
        ],
      ],
      1,
    ),
  )("[S-45] reaches the registry that the user configured %s", async (_, { indexUrl = "INDEX", ...more }) => {
    const fileAt = `${indexUrl || "INDEX"}lines/-/lines-1.0.0.tgz`;
    const packages = [plain("lines", { fileAt })];
    const outcome = await fetchAlone({ kind: "npm", wanted: "lines", packages, indexUrl, ...more });
    expect(outcome).toMatchObject({ locked: ["lines@1.0.0"], connections: {} });
  });

  it("[S-45] fetches a file from another host that is public, or that the user's .npmrc names", async () => {
    const fileAt = "http://public.example/lines/-/lines-1.0.0.tgz";
    const other = await fetchAlone({ kind: "npm", wanted: "lines", packages: [plain("lines", { fileAt })] });
    expect(other).toMatchObject({ locked: ["lines@1.0.0"], connections: { "93.184.215.14": expect.any(Number) } });
    const own = await fetchAlone({
      kind: "npm",
      wanted: "lines",
      packages: [plain("lines", { fileAt: "http://10.1.2.3/lines/-/lines-1.0.0.tgz" })],
      configuration: "@files:registry=http://user:secret@10.1.2.3/\n",
    });
    expect(own).toMatchObject({ locked: ["lines@1.0.0"], connections: { "10.1.2.3": expect.any(Number) } });
  });

  it("[S-45] leaves no server and no process when it is canceled in the middle", async () => {
    const outcome = await fetchAlone({ kind: "npm", wanted: "lines", packages: [plain("lines")], cancelAt: "/lines" });
    expect(outcome).toMatchObject({ problem: { code: "package-aborted" }, locked: [] });
  });

  it("[Q-29] makes connections through the user's own proxy, to addresses that were checked", async () => {
    const proxies = { https_proxy: "http://me:p%40ss@127.0.0.1:3128" };
    const packages = [plain("lines", { fileAt: "http://public.example/lines/-/lines-1.0.0.tgz" })];
    const base = { kind: "npm", wanted: "lines", packages, env: proxies } as const;
    const through = await fetchAlone({ ...base, indexHost: "10.1.2.3", indexUrl: "http://inside.example:PORT/" });
    expect(through.locked).toEqual(["lines@1.0.0"]);
    expect([...new Set(through.tunnels)]).toEqual([
      expect.stringMatching(/^inside\.example:\d+ me:p@ss$/),
      "93.184.215.14:80 me:p@ss",
    ]);
    const direct = await fetchAlone({ ...base, env: { ...proxies, NO_PROXY: "127.0.0.1" } });
    expect([...new Set(direct.tunnels)]).toEqual(["93.184.215.14:80 me:p@ss"]);
    const refused = await fetchAlone({ ...base, packages: [dependsOn("http://inside.example/evil.tgz")] });
    expect(refused).toMatchObject({ problem: refusal("inside.example:80"), connections: {} });
    expect(refused.tunnels.filter((one) => one.includes("inside"))).toEqual([]);
  });

  it("[S-45] names a proxy that is not an HTTP proxy, and a host that cannot be looked up", async () => {
    const base = { kind: "npm", wanted: "lines", packages: [plain("lines")] } as const;
    const socks = await fetchAlone({ ...base, env: { HTTPS_PROXY: "socks5://me:secret@127.0.0.1:3128" } });
    expect(socks.problem).toMatchObject({
      code: "library-tools",
      message: expect.stringContaining("socks5://127.0.0.1:3128"),
    });
    const unknown = await fetchAlone({ ...base, indexUrl: "http://registry.invalid/" });
    expect(unknown.problem).toMatchObject({
      code: "library-unresolved",
      message: "lines cannot be fetched: registry.invalid:80 cannot be resolved",
    });
  });
});

describe("pip that fetches packages", { timeout: 60_000 }, () => {
  it.each(sampleRows(PRIVATE, 1))("[Q-29] requests no file that the index has at %s", async (origin, host) => {
    const packages = [plain("lines", { fileAt: `${origin}/lines-1.0.0-py3-none-any.whl` })];
    const outcome = await fetchAlone({ kind: "python", wanted: "lines", packages });
    expect(outcome).toMatchObject({ problem: refusal(host), locked: [], connections: {} });
  });

  it("[Q-29] requests no other spelling of a private address", async () => {
    const packages = [plain("lines", { fileAt: "http://127.1:8001/lines-1.0.0-py3-none-any.whl" })];
    const outcome = await fetchAlone({ kind: "python", wanted: "lines", packages });
    expect(outcome).toMatchObject({ problem: { code: "library-unresolved" }, locked: [], connections: {} });
  });

  it.each(
    sampleRows(
      [
        ["/simple/lines/", "http://127.0.0.1:8001/simple/lines/", "127.0.0.1:8001"],
        [
          "/simple/lines/lines-1.0.0-py3-none-any.whl",
          "http://169.254.169.254/lines-1.0.0-py3-none-any.whl",
          "169.254.169.254:80",
        ],
        ["/simple/lines/lines-1.0.0-py3-none-any.whl", "http://[::1]:8001/lines-1.0.0-py3-none-any.whl", "[::1]:8001"],
      ],
      1,
    ),
  )("[Q-29] does not follow a redirect of %s to %s", async (path, to, host) => {
    const outcome = await fetchAlone({
      kind: "python",
      wanted: "lines",
      packages: [plain("lines")],
      redirects: { [path]: to },
    });
    expect(outcome).toMatchObject({ problem: refusal(host), connections: {} });
  });

  it("[Q-29] requests no dependency that is a URL", async () => {
    const packages = [plain("lines", { requires: ["evil @ http://127.0.0.1:8001/evil-1.0.0-py3-none-any.whl"] })];
    const outcome = await fetchAlone({ kind: "python", wanted: "lines", packages });
    expect(outcome).toMatchObject({ problem: { code: "library-unresolved" }, connections: {} });
  });

  it.each(
    sampleRows(
      [
        ["NO_PROXY", { env: { NO_PROXY: "*", no_proxy: "127.0.0.1" } }],
        [
          "PIP_PROXY and pip.conf",
          { env: { pip_proxy: "" }, configuration: "[download]\nproxy =\n[global]\nproxy =\n" },
        ],
      ],
      1,
    ),
  )("[Q-29] requests no private address, whatever %s has", async (_, more) => {
    const packages = [plain("lines", { fileAt: "http://127.0.0.1:8001/lines-1.0.0-py3-none-any.whl" })];
    const outcome = await fetchAlone({ kind: "python", wanted: "lines", packages, ...more });
    expect(outcome).toMatchObject({ problem: refusal("127.0.0.1:8001"), connections: {} });
  });

  it.each(
    sampleRows<[string, Partial<FetchScenario>]>(
      [
        ["by IPv6", { indexHost: "::1" }],
        [
          "with a password",
          { indexUrl: "http://me:secret@127.0.0.1:PORT/simple/", authorization: "Basic bWU6c2VjcmV0" },
        ],
        [
          "in pip.conf, by a name with a private address",
          {
            indexHost: "10.1.2.3",
            indexUrl: "",
            configuration: "[global]\nindex-url = http://inside.example:PORT/simple/\ntrusted-host = inside.example\n",
          },
        ],
      ],
      1,
    ),
  )("[S-45] reaches the index that the user configured %s", async (_, more) => {
    const packages = [plain("lines", { requires: ["words"] }), plain("words")];
    const outcome = await fetchAlone({ kind: "python", wanted: "lines", packages, ...more });
    expect(outcome).toMatchObject({ locked: ["lines@1.0.0", "words@1.0.0"], connections: {} });
  });

  it("[Q-29] makes connections through the user's own proxy, to addresses that were checked", async () => {
    const packages = [plain("lines", { fileAt: "http://public.example/lines-1.0.0-py3-none-any.whl" })];
    const configuration = "[global]\nproxy = http://me:secret@127.0.0.1:3128\ntrusted-host = public.example\n";
    const base = { kind: "python", wanted: "lines", packages, configuration } as const;
    const through = await fetchAlone(base);
    expect(through.locked).toEqual(["lines@1.0.0"]);
    expect([...new Set(through.tunnels)]).toEqual([
      expect.stringMatching(/^127\.0\.0\.1:\d+ me:secret$/),
      "93.184.215.14:80 me:secret",
    ]);
    const fileAt = "http://mixed.example/lines-1.0.0-py3-none-any.whl";
    const refused = await fetchAlone({ ...base, packages: [plain("lines", { fileAt })] });
    expect(refused).toMatchObject({ problem: refusal("mixed.example:80"), connections: {} });
    expect(refused.tunnels.filter((one) => !one.startsWith("127.0.0.1"))).toEqual([]);
  });
});
