import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { skillet } from "./support/command.ts";
import { temporaryFolder, writeFiles } from "./support/folder.ts";

const skills = join(import.meta.dirname, "..", "skills");
const KEY = "pplx-0123456789abcdef";

describe("the script of host-report", () => {
  const script = join(skills, "host-report/scripts/report.sh");
  const report = (proc: string) => execFileSync("sh", [script, proc], { encoding: "utf8", env: {} });

  it("reports every part within 80 columns from the sandbox", async () => {
    const { code, stdout } = await skillet(["script", "host-report", "report.sh"]);
    expect(code).toBe(0);
    const lines = stdout.split("\n");
    const labels = ["Time", "System", "Uptime", "Processors", "Load", "Memory", "Swap", "Disk"];
    expect(lines.slice(0, 8).map((line) => line.split(" ")[0])).toEqual(labels);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(stdout).toMatch(/^Memory {6}\d+\.\d of \d+\.\d GiB used \(\d+ %\), \d+\.\d GiB available$/m);
    expect(stdout).toMatch(/^Disk {8}\d+\.\d of \d+\.\d GiB used \(\d+ %\), \d+\.\d GiB free, on \S/m);
    expect(stdout).not.toContain("unknown");
  });

  it("prints unknown for what the machine does not report", () => {
    const printed = report(temporaryFolder());
    for (const label of ["Uptime", "Processors", "Load", "Memory", "Swap"])
      expect(printed).toMatch(new RegExp(`^${label} +unknown$`, "m"));
  });

  it("computes shares, and reports what needs attention", () => {
    const proc = temporaryFolder({
      uptime: "93784.5 1\n",
      loadavg: "9.00 8.00 7.00 1/2 3\n",
      cpuinfo: `processor\t: 0\nmodel name\t: ${"Very Long ".repeat(20)}\n\nprocessor\t: 1\n`,
      meminfo:
        "MemTotal: 10485760 kB\nMemFree: 1 kB\nMemAvailable: 524288 kB\nSwapTotal: 2097152 kB\nSwapFree: 524288 kB\n",
    });
    const printed = report(proc);
    expect(printed).toContain("Uptime      1 d 2 h\n");
    expect(printed).toContain("Load        9.00 8.00 7.00 (1, 5 and 15 minutes), 400 % of 2 processors\n");
    expect(printed).toContain("Memory      9.5 of 10.0 GiB used (95 %), 0.5 GiB available\n");
    expect(printed).toContain("Swap        1.5 of 2.0 GiB used (75 %)\n");
    expect(printed).toMatch(
      /\n\n! more work is waiting .*\n! less than a tenth .*\n! more than half of the swap is used\n/,
    );
    expect(Math.max(...printed.split("\n").map((line) => line.length))).toBe(80);
  });
});

describe("the script of research", () => {
  it("sends the key, and prints the answer with its sources", async () => {
    const { run, requests } = await service((_, response) =>
      response.end(
        JSON.stringify({
          choices: [{ message: { content: "It is 42 [1].\n" } }],
          search_results: [{ title: "The\nguide", date: "2026-01-02", url: "https://a.example/g" }],
        }),
      ),
    );
    expect(await run("--pro", "--since", "week", "what is", "it?")).toEqual({
      code: 0,
      stdout: "It is 42 [1].\n\nSources:\n[1] The guide (2026-01-02) https://a.example/g\n",
      stderr: "",
    });
    expect(requests).toEqual([
      {
        url: "/chat/completions",
        authorization: `Bearer ${KEY}`,
        body: {
          model: "sonar-pro",
          messages: [{ role: "user", content: "what is it?" }],
          search_recency_filter: "week",
        },
      },
    ]);
  });

  it.each([
    [401, "<html>no</html>", /^The key was refused: .*\n$/],
    [429, "{}", /^Too many requests\. Wait/],
    [
      400,
      `{"error":{"message":"bad ${KEY}"}}`,
      /^Perplexity did not .*\(400\)\.\nMessage: bad \[PERPLEXITY_API_KEY\]\n$/,
    ],
    [503, "", /^Perplexity has a server error \(503\)/],
    [200, "{}", /returned an invalid answer/],
  ])("explains the fix for an answer of %i, and never prints the key", async (status, body, message) => {
    const { run } = await service((_, response) => response.writeHead(status).end(body));
    const { code, stdout, stderr } = await run("x");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain(KEY);
  });

  it("explains how to open the network", async () => {
    const settings =
      '[skills.research]\n  PERPLEXITY_API_KEY = "env:PERPLEXITY_API_KEY"\n  network = ["api.perplexity.ai:443"]\n';
    const home = temporaryFolder();
    const config = (network: string) =>
      writeFiles(home, { ".skillet/config.toml": `[skills.research]\nPERPLEXITY_API_KEY = "${KEY}"\n${network}` });
    for (const [network, reason] of [
      ["", /cannot be reached \(\w+\)\. Network access is not allowed/],
      [
        'network = ["other.example:443"]\n',
        /refused the connection to \S+ \(403 not allowed: .*\)\. Network access is not allowed/,
      ],
    ] as const) {
      config(network);
      const { code, stderr } = await skillet(["script", "research", "ask.mjs", "x"], { env: { HOME: home } });
      expect({ network, code }).toEqual({ network, code: 1 });
      expect(stderr).toMatch(reason);
      expect(stderr).toContain(settings);
    }
  });

  it("refuses an invalid question or key", async () => {
    const { run } = await service(() => {});
    expect(await run()).toMatchObject({ code: 2, stderr: expect.stringMatching(/^usage: ask\.mjs /) });
    expect(await run("--since", "monday", "x")).toMatchObject({ code: 2 });
    expect(await run("--wrong", "x")).toMatchObject({ code: 2 });
    const odd = await start(["x"], { PERPLEXITY_API_KEY: "two words" });
    expect(odd).toMatchObject({ code: 1, stderr: expect.stringMatching(/^PERPLEXITY_API_KEY is not a valid key: /) });
    expect(odd.stderr).not.toContain("words");
    expect(await start(["x"], {})).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("The API key is missing"),
    });
  });
});

/** A service named api.perplexity.ai, behind a proxy: the script uses the same path as in a sandbox. */
async function service(answer: RequestListener) {
  const folder = temporaryFolder();
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const name = ["-subj", "/CN=test", "-addext", "subjectAltName=DNS:api.perplexity.ai"];
  const kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  execFileSync("openssl", ["req", ...kind, ...name, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const requests: { url: string | undefined; authorization: string | undefined; body: unknown }[] = [];
  const tls = createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, async (request, response) => {
    const { url, headers } = request;
    requests.push({ url, authorization: headers.authorization, body: JSON.parse(await text(request)) });
    answer(request, response);
  });
  const port = await listening(tls);
  const proxy = createServer().on("connect", ({ url }, client: Socket) => {
    expect(url).toBe("api.perplexity.ai:443");
    const upstream = connect(port, "127.0.0.1", () => client.write("HTTP/1.1 200 OK\r\n\r\n"));
    upstream.on("error", () => client.destroy());
    client.on("error", () => upstream.destroy());
    client.pipe(upstream).pipe(client);
  });
  const env = {
    PERPLEXITY_API_KEY: KEY,
    HTTPS_PROXY: `http://127.0.0.1:${await listening(proxy)}`,
    NODE_USE_ENV_PROXY: "1",
    NODE_NO_WARNINGS: "1",
    NODE_EXTRA_CA_CERTS: cert,
  };
  return { requests, run: (...args: string[]) => start(args, env) };
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function start(args: readonly string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [join(skills, "research/scripts/ask.mjs"), ...args], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, stdout, stderr };
}
