import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { createServer } from "node:net";
import { delimiter, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startBalancer } from "../support/balancer.ts";
import { temporaryFolder, writeFiles } from "../support/folder.ts";
import { findMissingLine, listSteps, runLine } from "../support/guide.ts";
import { codeBlocks, ROOT } from "../support/markdown-code.ts";
import {
  createNamespace,
  createPlainMachine,
  HAS_NAMESPACES,
  type TestMachine,
  waitForOutput,
} from "../support/namespaces.ts";
import { HAS_POSTGRES, POSTGRES_PROGRAMS, startPostgres } from "../support/postgres.ts";
import { connectWith } from "../support/team-server.ts";
import { waitFor } from "../support/wait-for.ts";

const PAGE = "docs/workers.md";
const HAPROXY = "/usr/sbin/haproxy";

/** A machine of the page with its home, and the texts of the page that differ on it. */
interface Host extends TestMachine {
  home: string;
  env: Record<string, string>;
  port: string;
  rewrite(text: string): string;
}

async function findFreePort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return String(port);
}

function createHome(): string {
  const home = temporaryFolder({
    "bin/skillet": `#!/bin/sh\nexec "${process.execPath}" "${join(ROOT, "bin/skillet.cjs")}" "$@"\n`,
  });
  mkdirSync(join(home, "work"));
  for (const path of [home, join(home, "bin/skillet")]) chmodSync(path, 0o755);
  return home;
}

/** Creates the machines of the page: with namespaces each has its own network, and otherwise only its own home. */
async function createHosts() {
  const names = ["first", "second"];
  const machines = HAS_NAMESPACES
    ? await Promise.all(
        names.map((name, index) => createNamespace(name, index, ({ gateway }) => ({ "db.example.com": gateway }))),
      )
    : names.map(createPlainMachine);
  const databasePort = HAS_NAMESPACES ? "5432" : await findFreePort();
  const hba = temporaryFolder({
    hba: "local all all trust\nhost all all 10.0.0.0/8 trust\nhost all all 127.0.0.1/32 trust\n",
  });
  for (const path of [hba, join(hba, "hba")]) chmodSync(path, 0o755);
  const server = await startPostgres({
    listen_addresses: `'${[...new Set(machines.map(({ gateway }) => gateway))].join(",")}'`,
    ...{ hba_file: join(hba, "hba"), port: databasePort },
  });
  onTestFinished(() => server.remove());
  const homes = machines.map(createHome);
  const hosts: Host[] = [];
  for (const [index, machine] of machines.entries()) {
    const home = homes[index] ?? "";
    const port = HAS_NAMESPACES ? "7400" : await findFreePort();
    const rewrite = (text: string) =>
      HAS_NAMESPACES
        ? text
        : text
            .replaceAll("db.example.com", `127.0.0.1:${databasePort}`)
            .replaceAll(/\b7400\b/g, port)
            .replaceAll("0.0.0.0", "127.0.0.1")
            .replace(/^(?:first|second)-…/, "…");
    const path = [join(home, "bin"), POSTGRES_PROGRAMS, process.env["PATH"]].join(delimiter);
    hosts.push({ ...machine, home, port, rewrite, env: { PATH: path, HOME: home } });
  }
  const home = temporaryFolder();
  const env = { PATH: [POSTGRES_PROGRAMS, "/usr/bin", "/bin"].join(delimiter), HOME: home, PGHOST: server.folder };
  const database = { ...createPlainMachine("db"), home, port: "", rewrite: (text: string) => text };
  return [...hosts, { ...database, env: { ...env, PGUSER: "postgres", PGPORT: databasePort } }];
}

/** Starts a command that does not end, and waits until it is ready. */
async function startService(host: Host, command: string): Promise<void> {
  const child = spawn(...host.wrap(`exec ${command}`, join(host.home, "work")), {
    ...{ cwd: join(host.home, "work"), env: host.env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await waitForOutput(child, /✓ worker|http:\/\/\S+/);
}

describe.skipIf(!HAS_POSTGRES)(`${PAGE}${HAS_NAMESPACES ? "" : ", without network namespaces: they need root"}`, () => {
  it("[E-32] works as it is printed, from nothing to two workers and two servers, each with its own home", async () => {
    const hosts = await createHosts();
    const outputs: string[] = [];
    const wrong: string[] = [];
    for (const block of codeBlocks(PAGE)) {
      const names =
        block.marks
          .find((mark) => mark.startsWith("on="))
          ?.slice("on=".length)
          .split(",") ?? [];
      for (const name of names) {
        const host = hosts.find((one) => one.name === name);
        if (!host) throw new Error(`${PAGE}:${block.line} names no machine: ${name}`);
        mkdirSync(join(host.home, "work"), { recursive: true });
        for (const { line, command, shown, expectedExit } of listSteps(block)) {
          const written = host.rewrite(command);
          if (block.marks.includes("background")) {
            await startService(host, written);
            continue;
          }
          const { exit, output } = await runLine(written, join(host.home, "work"), host.env, host.wrap);
          outputs.push(output);
          const missing = findMissingLine({ shown: shown.map(host.rewrite), output });
          if (exit !== expectedExit || missing !== undefined)
            wrong.push(`${PAGE}:${line} on ${name}: ${command}: exit ${exit}, not shown: ${missing}\n${output}`);
        }
      }
    }
    expect(wrong).toEqual([]);
    const [first, second] = hosts as [Host, Host];
    await waitFor(async () => {
      const { output } = await runLine("skillet runs --json", second.home, second.env, second.wrap);
      expect(JSON.parse(output).runs).toMatchObject([
        { skill: "host-report", state: "ended", end: { stop: "answer" } },
      ]);
    });
    const [token = ""] = /skt_\S+/.exec(outputs.join("\n")) ?? [];
    const servers = [first, second].map(({ address, port }) => new URL(`http://${address}:${port}/mcp`));
    for (const era of ["2026-07-28", "2025-11-25"] as const) {
      const balancer = await startBalancer(servers, { isSticky: era === "2025-11-25", host: "skills.example.com" });
      for (const client of await Promise.all([0, 1].map(() => connectWith(balancer.url, token, era))))
        expect((await client.call("load_skill", { skill: "host-report" })).isError).toBe(false);
      for (const count of balancer.counts) expect(count).toBeGreaterThan(0);
    }
  });

  it.skipIf(!existsSync(HAPROXY))("has a configuration that HAProxy accepts", () => {
    const [block] = codeBlocks(PAGE).filter(({ language }) => language === "haproxy");
    const folder = temporaryFolder();
    // The machine names do not resolve here.
    writeFiles(folder, {
      "haproxy.cfg": (block?.code ?? "").replaceAll(/\b(?:first|second)\.example\.com/g, "127.0.0.1"),
    });
    expect(spawnSync(HAPROXY, ["-c", "-f", join(folder, "haproxy.cfg")], { encoding: "utf8" })).toMatchObject({
      status: 0,
    });
  });
});
