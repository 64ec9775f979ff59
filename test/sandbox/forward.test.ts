import { execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, readFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { openNetworkProxy } from "../../src/sandbox/network-proxy.ts";
import { createRefusalNotices, NETWORK_SOCKET, wrapWithForwarder } from "../../src/sandbox/sandbox-network.ts";
import { temporaryFolder } from "../support/folder.ts";

const NODE = "/opt/skillet/bin/node";
const NOBODY = 65_534;
// If root runs the test, code in the sandbox runs as an unprivileged user, seen from outside.
const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

interface Ran {
  code: number | null;
  signal: string | null;
  output: string;
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

const hello: RequestListener = (request, response) => {
  if (request.url === "/away") response.writeHead(302, { Location: "http://169.254.169.254/" });
  response.end("hello");
};

/** Servers of the host on its loopback interface: two that are allowed for a sandbox without a network, and one that is not. */
async function scene() {
  const folder = temporaryFolder();
  chmodSync(folder, 0o755);
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const kind = ["-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  const names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"];
  execFileSync("openssl", ["req", ...kind, ...names, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const plain = await listening(createServer(hello));
  const closed = await listening(createServer(hello));
  const tls = await listening(createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, hello));
  const proxy = await openNetworkProxy({
    endpoints: [plain, tls].map((port) => ({ host: "127.0.0.1", port })),
    folder,
    ...(user.uid === undefined ? {} : { owner: user }),
  });
  onTestFinished(() => proxy.close());
  const run = (argv: readonly [string, ...string[]]): Promise<Ran> => {
    const mounts = [
      "--ro-bind",
      process.execPath,
      NODE,
      "--ro-bind",
      proxy.socket,
      NETWORK_SOCKET,
      "--ro-bind",
      cert,
      "/cert.pem",
    ];
    return inBubblewrap([...mounts, "--", ...wrapWithForwarder(argv, { node: NODE })]);
  };
  return { run, plain, closed, tls };
}

function inBubblewrap(args: readonly string[]): Promise<Ran> {
  const system = [
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--ro-bind",
    "/usr",
    "/usr",
    "--ro-bind-try",
    "/etc/alternatives",
    "/etc/alternatives",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--tmpfs",
    "/run",
  ];
  const links = ["bin", "sbin", "lib", "lib64"].flatMap((name) => ["--symlink", `usr/${name}`, `/${name}`]);
  return ended("/usr/bin/bwrap", [...system, ...links, ...args]);
}

function ended(
  file: string,
  args: readonly string[],
  onStart?: (kill: (signal: NodeJS.Signals) => void) => void,
): Promise<Ran> {
  return new Promise((resolve) => {
    const child = spawn(file, args, {
      env: { PATH: "/usr/bin:/bin", MINE: "1", NO_PROXY: "*" },
      stdio: ["ignore", "pipe", "pipe"],
      ...user,
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (bytes) => {
        output += bytes;
        if (output.includes("ready")) onStart?.((signal) => child.kill(signal));
      });
    }
    child.on("close", (code, signal) => resolve({ code, signal, output }));
  });
}

const fetching = (url: string) =>
  [
    NODE,
    "--eval",
    `fetch(${JSON.stringify(url)}, { redirect: "follow" }).then(async (r) => console.log(r.status, await r.text()), (e) => console.log("failed", e.message))`,
  ] as const;
const python = (url: string) =>
  [
    "/usr/bin/python3",
    "-c",
    `import ssl, urllib.request as r\nprint(r.urlopen(${JSON.stringify(url)}, context=ssl.create_default_context(cafile="/cert.pem") if ${JSON.stringify(url)}.startswith("https") else None).read())`,
  ] as const;

describe.skipIf(!existsSync("/usr/bin/bwrap"))("a sandbox without a network, with the forwarder in it", () => {
  it("[Q-14] reaches allowed hosts, in HTTP and TLS, with curl, Node and Python", async () => {
    const { run, plain, tls } = await scene();
    const curl = ["/usr/bin/curl", "--silent", "--show-error", "--cacert", "/cert.pem"] as const;
    for (const argv of [
      [...curl, `http://127.0.0.1:${plain}/`],
      [...curl, `https://127.0.0.1:${tls}/`],
      fetching(`http://127.0.0.1:${plain}/`),
      ["/usr/bin/env", "NODE_EXTRA_CA_CERTS=/cert.pem", ...fetching(`https://127.0.0.1:${tls}/`)],
      python(`http://127.0.0.1:${plain}/`),
      python(`https://127.0.0.1:${tls}/`),
    ] as [string, ...string[]][]) {
      expect(await run(argv), argv.join(" ")).toMatchObject({ code: 0, output: expect.stringContaining("hello") });
    }
  });

  it("[Q-14] reaches nothing else: not by another port, host or redirect, and not directly", async () => {
    const { run, plain, closed } = await scene();
    const curl = ["/usr/bin/curl", "--silent", "--location", "--max-time", "5"] as const;
    const [home, away] = [`http://127.0.0.1:${closed}/`, "http://169.254.169.254/"];
    for (const url of [
      home,
      away,
      `http://127.0.0.1:${plain}/away`,
      `http://[::1]:${plain}/`,
      `http://localhost:${plain}/`,
    ]) {
      expect((await run([...curl, url])).output, url).toMatch(
        /^not allowed: the operator can add "\S+" to network in config\.toml\n$/,
      );
    }
    for (const url of [home, away, `http://127.0.0.1:${plain}/away`]) {
      expect((await run([...fetching(url)])).output, url).toMatch(/^failed /m);
      expect((await run([...python(url)])).output, url).toContain("HTTP Error 403");
    }
    expect((await run([...python(`https://127.0.0.1:${closed}/`)])).output).toContain(
      `403 not allowed: the operator can add "127.0.0.1:${closed}"`,
    );
    for (const url of [home, `http://127.0.0.1:${plain}/`, away, "http://1.1.1.1/"]) {
      expect(await run([...curl, "--noproxy", "*", url]), url).toMatchObject({ code: 7, output: "" });
    }
  });

  it("[Q-01] keeps the variables of the command, except those that name the proxy", async () => {
    const { run } = await scene();
    const { output } = await run(["/usr/bin/env"]);
    const variables = Object.fromEntries(
      output
        .trim()
        .split("\n")
        .map((line) => line.split(/=(.*)/s).slice(0, 2)),
    );
    const address = expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(variables).toEqual({
      ...{ PATH: "/usr/bin:/bin", MINE: "1", PWD: expect.any(String), NODE_USE_ENV_PROXY: "1" },
      ...{ HTTP_PROXY: address, HTTPS_PROXY: address, ALL_PROXY: address, NO_PROXY: "" },
      ...{ http_proxy: address, https_proxy: address, all_proxy: address, no_proxy: "" },
    });
  });

  it.each([
    [["/bin/sh", "-c", "exit 7"], 7],
    [["/bin/sh", "-c", "kill -KILL $$"], 137],
    [["/bin/sh", "-c", "kill -TERM $$"], 143],
    [["/bin/sh", "-c", "kill -SEGV $$"], 139],
    [["/bin/sh", "-c", "cat; echo out; echo err >&2"], 0],
    [["/no/such/program"], 127],
    [["/usr"], 126],
  ] as const)("[Q-16] exits as the command does: %j", async (argv, code) => {
    const { run } = await scene();
    expect(await run([...argv])).toMatchObject({ code });
  });
});

describe("the forwarder", () => {
  it("[Q-15] passes signals on, and dies of the same signal as the command", async () => {
    const start = (script: string) =>
      wrapWithForwarder(["/bin/sh", "-c", script], { node: process.execPath, socket: "/none" });
    const run = (script: string, signal: NodeJS.Signals) => {
      const [file, ...args] = start(script);
      let isSent = false;
      return ended(file, args, (kill) => {
        if (!isSent) kill(signal);
        isSent = true;
      });
    };
    const waiting = "echo ready; while :; do sleep 0.05; done";
    expect(await run(waiting, "SIGTERM")).toEqual({ code: null, signal: "SIGTERM", output: "ready\n" });
    expect(await run(waiting, "SIGUSR1")).toMatchObject({ code: null, signal: "SIGUSR1" });
    expect(await run(`trap 'echo caught; exit 3' INT; ${waiting}`, "SIGINT")).toMatchObject({
      code: 3,
      output: "ready\ncaught\n",
    });
  });

  it("[Q-14] is one text that needs only Node", () => {
    const [, , , text = ""] = wrapWithForwarder(["/bin/true"], { node: NODE });
    expect(() => new Function("require", "process", text)).not.toThrow();
    expect([...text.matchAll(/require\("([^"]+)"\)/g)].map(([, name]) => name)).toEqual([
      "node:child_process",
      "node:os",
      "node:net",
    ]);
  });
});

describe("a refused host", () => {
  it("[Q-14] is reported to the operator, with the reason", () => {
    const { notices, onRefused } = createRefusalNotices();
    const endpoint = { host: "other.example", port: 443 };
    for (const reason of ["closed", "private", "unresolved", "closed"] as const) onRefused({ endpoint, reason });
    expect(notices).toEqual([
      {
        code: "network-not-allowed",
        message: "it tried to reach other.example:443, which is not allowed",
        fix: 'to allow it, add "other.example:443" to network under [skills.<name>] in config.toml',
      },
      {
        code: "network-not-allowed",
        message: "it tried to reach other.example:443, which resolves to a private address",
        fix: "to allow it, add the numeric address to network under [skills.<name>] in config.toml",
      },
      {
        code: "network-not-allowed",
        message: "it tried to reach other.example:443, which could not be resolved",
        fix: "check the name, and that this machine can resolve names",
      },
    ]);
  });

  it("[Q-14] is reported once each, and ten times at most", () => {
    const { notices, onRefused } = createRefusalNotices();
    for (let port = 1; port <= 1000; port++) onRefused({ endpoint: { host: "a.example", port }, reason: "closed" });
    expect(notices).toHaveLength(10);
  });
});
