import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { checkProvider } from "../../src/capabilities/check-provider.ts";
import { createPortsProvider } from "../../src/capabilities/ports-provider.ts";
import { skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";
import { callOf, catchProviderError, createCallContext } from "../support/provider.ts";

const children: ChildProcess[] = [];
afterAll(() => children.map((child) => child.kill("SIGKILL")));

/** Starts a program that listens on a free port. */
async function listener({
  address = "127.0.0.1",
  more = "",
  uid,
}: {
  address?: string;
  more?: string;
  uid?: number;
} = {}) {
  const source = `${more}; const server = require("node:net").createServer().listen(0, "${address}", () => console.log(server.address().port))`;
  const child = spawn(process.execPath, ["-e", source], { cwd: "/", ...(uid === undefined ? {} : { uid }) });
  children.push(child);
  const [port] = await once(child.stdout, "data");
  return { child, port: Number(port), pid: child.pid as number, ended: once(child, "exit") };
}

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));
const ADDRESSES = ["127.0.0.1", "0.0.0.0", ...(hasIpv6 ? ["::1", "::"] : [])];

const provider = createPortsProvider();
const ask = async (operation: string, input: object) =>
  (await provider.invoke(callOf(operation, input, { capability: "ports.listeners" }), createCallContext())).output;

async function listed(port: number) {
  const { listeners } = (await ask("list", { port })) as { listeners: Record<string, unknown>[] };
  return listeners;
}

/** The input of `stop` for what listens on a port. */
async function inputOf(port: number) {
  const [{ program, pid, start_time } = {}] = await listed(port);
  return { port, program, pid, start_time };
}

describe("the provider of the shipped skill ports", () => {
  it("[S-21] passes the suite for providers, with a process that is stopped once", async () => {
    const { port, child, ended } = await listener();
    const input = await inputOf(port);
    const findings = await checkProvider(provider, { inputs: {}, invokes: { "ports.listeners.stop": input } });
    expect(findings.filter(({ isOk }) => !isOk)).toEqual([]);
    expect(findings.map(({ title }) => title)).toContain("ports.listeners.stop is done once per key");
    expect([await ended, child.signalCode]).toEqual([[null, "SIGTERM"], "SIGTERM"]);
  });

  it.each(ADDRESSES)("lists what listens on %s", async (address) => {
    const { port, pid } = await listener({ address });
    expect(await listed(port)).toEqual([
      {
        port,
        addresses: [address],
        user: expect.any(String),
        program: "node",
        folder: "/",
        pid,
        start_time: expect.any(Number),
      },
    ]);
  });

  it("stops no other process: not itself, not a later one with the same pid, not another program or port", async () => {
    const { port, pid } = await listener();
    const other = await listener();
    const input = await inputOf(port);
    const own = createServer().listen(0, "127.0.0.1");
    await once(own, "listening");
    const { port: ownPort } = own.address() as { port: number };
    expect(await catchProviderError(ask("stop", await inputOf(ownPort)))).toMatchObject({ code: "denied" });
    own.close();
    expect(await catchProviderError(ask("stop", { ...input, program: "nginx" }))).toMatchObject({ code: "conflict" });
    expect(await catchProviderError(ask("stop", { ...input, port: other.port }))).toMatchObject({ code: "conflict" });
    expect(await ask("stop", { ...input, start_time: 1 })).toEqual({ port, pid, is_running: false });
    expect(await listed(port)).toHaveLength(1);
  });

  it.runIf(process.getuid?.() === 0)("does not stop a process of another user, as root too", async () => {
    const { port } = await listener({ uid: 65_534 });
    expect(await catchProviderError(ask("stop", await inputOf(port)))).toMatchObject({
      code: "denied",
      message: expect.stringContaining("belongs to another user"),
    });
    expect(await listed(port)).toHaveLength(1);
  });

  it("ends a process that ignores SIGTERM only with force", async () => {
    const { port, child, ended } = await listener({ more: 'process.on("SIGTERM", () => {})' });
    const input = await inputOf(port);
    child.kill("SIGTERM");
    expect(await listed(port)).toHaveLength(1);
    await ask("stop", { ...input, force: true });
    await ended;
    expect(child.signalCode).toBe("SIGKILL");
  });
});

/** A new home, and a workspace that the ordinary user of a sandbox can read. */
function scene() {
  const [home, cwd] = [temporaryFolder(), temporaryFolder()];
  chmodSync(cwd, 0o755);
  return (...args: string[]) => skillet(args, { env: { HOME: home }, cwd });
}

describe("skillet run ports, without a language model", () => {
  it("[P-30] asks for the process that listens on a port, stops it once after the approval, and logs it", async () => {
    const run = scene();
    const { port, pid, child, ended } = await listener();
    expect((await run("run", "ports", "--model", "runbook")).stderr).toContain("skillet enable ports\n");
    expect((await run("enable", "ports")).code).toBe(0);
    const reading = await run("run", "ports", "--model", "runbook");
    expect(reading).toMatchObject({ code: 0, stdout: expect.stringContaining(`\n· ${port}`) });
    expect(Math.max(...reading.stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(reading.stdout).toContain(`node, process ${pid} of `);

    const request = ["run", "ports", `stop what runs on port ${port}`, "--model", "runbook"];
    expect((await run(...request)).code).toBe(5);
    const { stdout: pending } = await run("approve");
    expect(pending).toContain(`input: port: ${port}, program: node, pid: ${pid}, start_time: `);
    expect((await run("approve", "last", "--deny", "still needed", "--resume")).stdout).not.toContain("Stopped");
    expect([child.exitCode, child.signalCode]).toEqual([null, null]);

    expect((await run(...request)).code).toBe(5);
    const approved = await run("approve", "last", "--resume", "--yes");
    expect(approved).toMatchObject({ code: 0, stdout: expect.stringContaining(`Stopped node, process ${pid}`) });
    await ended;
    expect(child.signalCode).toBe("SIGTERM");

    expect((await run("approve", "last", "--resume", "--yes")).stderr).toContain("[no-pending-approval]");
    expect(await run(...request)).toMatchObject({ code: 0, stdout: expect.stringContaining("0 programs on port") });
    const { lines } = JSON.parse((await run("audit", "--json")).stdout);
    const stops = lines.filter(({ operation }: { operation: string }) => operation === "stop");
    expect(stops.map(({ outcome }: { outcome: string }) => outcome)).toEqual([
      ...["approval-pending", "not-approved"],
      ...["approval-pending", "begun", "ok"],
    ]);
    expect((await run("audit", "verify")).stdout).toMatch(/intact; head sha256:/);
  });

  it("stops nothing for a sentence without a port", async () => {
    const run = scene();
    await run("enable", "ports");
    const { stdout } = await run("run", "ports", "stop the dev server", "--model", "runbook");
    expect(stdout).toContain("To stop a program, name its port: stop port 3000");
  });
});

it("the skill names every operation of the provider", async () => {
  const { capabilities } = await provider.describe(createCallContext());
  const text = readFileSync(join(import.meta.dirname, "../../skills/ports/SKILL.md"), "utf8");
  for (const { id, operations } of capabilities)
    for (const { name } of operations) {
      expect(text).toContain(id);
      expect(text).toContain(`| \`${name}\` |`);
    }
});
