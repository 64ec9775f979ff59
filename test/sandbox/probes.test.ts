import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { printSafetyReport, probeWorkspace } from "../../src/cli/commands/sandbox-views.ts";
import { discover } from "../../src/config/discover.ts";
import { DEFAULT_SANDBOX_SETTINGS, type SandboxSettings } from "../../src/config/limits.ts";
import type { Sandbox } from "../../src/host/sandbox-contract.ts";
import { createNoSandbox, createSandbox } from "../../src/sandbox/create-sandbox.ts";
import { findHostProcesses, probeKilledHost } from "../../src/sandbox/probe-host.ts";
import { isProbeComplete, type ProbeResult, probeSandbox } from "../../src/sandbox/probes.ts";
import { getSandboxFolder } from "../../src/sandbox/sandbox-folders.ts";
import { temporaryFolder } from "../support/folder.ts";
import { describeWithBubblewrap } from "./contract.ts";

describeWithBubblewrap("the probes", () => {
  const home = mkdtempSync(join(tmpdir(), "skillet-test-"));
  afterAll(() => rmSync(home, { recursive: true, force: true }));
  let sandbox: Sandbox;
  let probes: ProbeResult[];
  const reported: ProbeResult[] = [];
  // Files of earlier tests that were killed are not of these probes.
  let filesBefore: string[];
  const listProbeFiles = () =>
    [home, homedir(), tmpdir(), process.cwd(), getSandboxFolder(home)]
      .filter((folder) => existsSync(folder))
      .flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
      .filter((path) => /(?:\.skillet-bait-|\/bait-|\/probe-)/.test(path) && existsSync(path));
  beforeAll(async () => {
    filesBefore = listProbeFiles();
    sandbox = await createSandbox({ settings: DEFAULT_SANDBOX_SETTINGS, home });
    probes = await probeSandbox(sandbox, { home, onProbe: (probe) => reported.push(probe) });
  });

  for (const id of ["Q-01", "Q-02", "Q-13", "Q-14", "Q-15", "Q-17"]) {
    it(`resists every attempt`, () => {
      const own = probes.filter((probe) => probe.id === id);
      expect(own.length).toBeGreaterThan(0);
      expect(own.filter(({ holds }) => holds === false)).toEqual([]);
    });
  }

  it("test everything if Perl is installed", () => {
    if (!existsSync("/usr/bin/perl")) return;
    expect(probes.filter(({ holds }) => holds === undefined)).toEqual([]);
  });

  it("are reported one by one as they finish, and all at the end", () => {
    const names = (list: readonly ProbeResult[]) => list.map(({ name }) => name).sort();
    expect(names(reported)).toEqual(names(probes));
  });

  it("leave none of their files", () => {
    const left = listProbeFiles().filter((path) => !filesBefore.includes(path));
    expect(left.filter((path) => !isRunning(path))).toEqual([]);
  });

  it("[Q-13] find a broken promise", async () => {
    // A sandbox with holes, each with its own report.
    const leaky: Sandbox = {
      ...sandbox,
      run: (command, options) =>
        sandbox.run(
          {
            ...command,
            argv: command.argv.includes("two") ? [...command.argv, command.env["PROBE_SECRET"] ?? ""] : command.argv,
            env: { ...command.env, OF_THE_HOST: "1" },
            mounts: [
              ...command.mounts.map((mount) =>
                mount.to === "/skill" ? { ...mount, access: "read-write" as const } : mount,
              ),
              // Parts of the host, also where code writes.
              ...["/tmp", tmpdir()].map((to) => ({ from: tmpdir(), to, access: "read-write" as const })),
            ],
            limits: { ...command.limits, processes: 512, memory: command.limits.memory * 8 },
          },
          options,
        ),
    };
    const failed = (await probeSandbox(leaky, { home })).filter(({ holds }) => holds === false).map(({ name }) => name);
    for (const name of [
      "code sees only its declared environment variables and the fixed ones",
      "the home folder, the working directory and /tmp of the host are hidden",
      "the list of mounts names only the documented paths of the host",
      "no service of the host can be reached on a socket",
      "unix sockets of the host are out of reach",
      "no connection arrived at the host's sockets",
      "two runs share no files",
      "memory is limited",
      "the number of processes is limited",
      "every writable folder is limited in size",
      "the kernel's memory for sockets is limited",
    ]) {
      expect(failed).toContain(name);
    }
  });

  it("[Q-13] run with the image's own Node when code sees the programs of an image", async () => {
    const started = new Set<string>();
    const own: Sandbox = {
      ...sandbox,
      system: "own",
      run: (command, options) => {
        started.add(command.argv[0]);
        return sandbox.run(command, options);
      },
    };
    expect(isProbeComplete(await probeSandbox(own, { home }))).toBe(true);
    expect([...started].sort()).toEqual(["/bin/sh", "node"]);
  });

  it("[Q-13] run nothing without isolation", async () => {
    const bare = createNoSandbox();
    let runs = 0;
    const counted: Sandbox = { ...bare, run: (...given) => bare.run(...given).finally(() => runs++) };
    expect(await probeSandbox(counted, { home })).toEqual([]);
    expect(runs).toBe(0);
  });

  it("[Q-14, Q-27] hold in a workspace that code may write to, and fail without a sandbox", async () => {
    const { settings } = await discover({ workspace: home, env: { HOME: home }, follow: false });
    const holds = async (one: Sandbox) => (await probeWorkspace(one, settings)).map((probe) => [probe.id, probe.holds]);
    const promised = ["Q-14", "Q-14", "Q-27", "Q-27"];
    expect(await holds(sandbox)).toEqual(promised.map((id) => [id, true]));
    expect(await holds(createNoSandbox())).toEqual([]);
    const claimed: Sandbox = { ...createNoSandbox(), level: "strong" };
    expect((await holds(claimed)).slice(0, 2)).toEqual([
      ["Q-14", false],
      ["Q-14", false],
    ]);
  });

  it("[Q-15] kill skillet while a sandbox starts and while code runs, and see the leftovers without a sandbox", async () => {
    const options = { settings: DEFAULT_SANDBOX_SETTINGS, home };
    const holds = async (module?: string) =>
      (await probeKilledHost({ ...options, module })).map((probe) => probe.holds);
    expect(await holds()).toEqual([true, true]);
    const text = `import { spawn } from "node:child_process";
      export const createSandbox = () => ({ run: ({ argv: [file, ...args] }) => new Promise(() => {
        for (let i = 0; i < 2; i++) spawn(file, args, { detached: true, stdio: "ignore" });
      }) });`;
    expect(await holds(join(temporaryFolder({ "leaky.mjs": text }), "leaky.mjs"))).toEqual([false, false]);
    expect(await holds("/nowhere.mjs")).toEqual([undefined, undefined]);
  });

  it.runIf(existsSync("/usr/bin/perl"))("[Q-13] notice an answered system call that the filter does not list", () => {
    // The kernel's own answer is another one: the probe fails without a filter.
    const text = "for (@ARGV) { syscall($_ + 0, 0, 0); print $! + 0, qq( ) }";
    const calls = process.arch === "arm64" ? ["0", "1"] : ["206", "207"];
    expect(spawnSync("/usr/bin/perl", ["-e", text, "--", ...calls], { encoding: "utf8" }).stdout).not.toContain("38");
  });

  describe("probes on the safety card", () => {
    async function card(sandboxSettings: Partial<SandboxSettings> = {}, json = false) {
      let text = "";
      const stream = { write: (piece: string) => (text += piece) };
      const io = { stdout: stream, stderr: stream, env: {}, cwd: home };
      const { settings, around } = await discover({ workspace: home, env: { HOME: home }, follow: false });
      const sandbox = { ...DEFAULT_SANDBOX_SETTINGS, ...sandboxSettings };
      const found = { settings: { ...settings, sandbox }, around: { ...around, skilletHome: home } };
      const code = await printSafetyReport(io, { json }, found);
      return { code, text, lines: text.trimEnd().split("\n") };
    }

    it("[Q-13] are one line each, and the last line counts them", async () => {
      const { code, lines } = await card();
      const held = lines.filter((line) => line.startsWith("✓")).length;
      const all = lines.filter((line) => /^[✓✗·]/.test(line)).length;
      expect(lines.at(-1)).toMatch(new RegExp(`^${held} of ${all} guarantees hold`));
      expect(code).toBe(lines.some((line) => line.startsWith("✗")) ? 1 : 0);
      expect(lines.filter((line) => line.length > 80 || /Q-\d/.test(line))).toEqual([]);
      expect(lines[0]).toMatch(/^Sandbox {2}strong, by bubblewrap \d/);
    });

    it("[Q-13] fail when their program could not run", async () => {
      // A client whose image has a shell and no Node, and which answers for the rest.
      const client = `#!/bin/sh
case "$*" in
  *"--entrypoint node"*) echo "{"; exit 127 ;;
  *"i=0; while"*) echo 20 ;;
  *seccomp*) printf 'nonewprivs 1\\nseccomp 2\\nend\\n' ;;
esac
`;
      const program = join(temporaryFolder({ docker: client }), "docker");
      chmodSync(program, 0o755);
      const { code, lines } = await card({ engine: "docker", program, image: "x" });
      expect(lines.filter((line) => line.startsWith("✗"))).toEqual([]);
      expect(lines.join("\n")).toContain("the image must contain node");
      expect(code).toBe(1);
    });

    it("[Q-13] report that nothing is isolated if the operator chose that", async () => {
      const { code, text } = await card({ level: "none" });
      expect([code, text]).toEqual([1, expect.stringContaining("Code is not isolated")]);
    });

    it("[Q-13] report why there is no sandbox, and the fix", async () => {
      const { code, text } = await card({ engine: "seatbelt" });
      expect([code, text]).toEqual([1, expect.stringMatching(/sandbox-exec was not found.*\n.*config\.toml/)]);
      const { text: json } = await card({ engine: "seatbelt" }, true);
      expect(JSON.parse(json)).toMatchObject({ error: { code: "sandbox-unavailable", fix: expect.any(String) } });
    });
  });
});

/** Files of another run of the probes, at the same time. */
function isRunning(path: string): boolean {
  const token = /bait-[0-9a-f-]+/.exec(path)?.[0];
  return token === undefined ? path.includes("/probe-") : findHostProcesses(token)?.length !== 0;
}
