import { spawn } from "node:child_process";
import { chmodSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Sandbox, SandboxCommand } from "../../src/host/sandbox-contract.ts";
import { createContainerArguments, createContainerSandbox } from "../../src/sandbox/container.ts";
import { findSystemProgram } from "../../src/util/system.ts";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";
import { withGrowingLimit } from "../support/wait-for.ts";
import { describeSandbox } from "./contract.ts";

const IMAGE = `debian@sha256:${"0".repeat(64)}`;
const LIMITS = { seconds: 10, output: 1024, memory: 256 * 1024 * 1024, processes: 32, disk: 1024 * 1024 };
const command = (more: Partial<SandboxCommand> & Pick<SandboxCommand, "argv">): SandboxCommand => ({
  env: {},
  folder: "/",
  mounts: [],
  network: [],
  limits: LIMITS,
  ...more,
});

/**
 * In place of a client and its engine, an executable that starts the entry point as a separate process, which survives when the
 * client is killed, until `rm --force` ends it. It isolates nothing.
 */
const CLIENT = `#!${process.execPath}
const fs = require("node:fs");
const { spawn } = require("node:child_process");
const args = process.argv.slice(2);
const value = (name) => args[args.indexOf(name) + 1];
const file = (name) => __dirname + "/" + name;
const variables = args[0] === "run" ? fs.readFileSync(value("--env-file"), "utf8") : "";
const mode = args[0] === "run" ? (fs.statSync(value("--env-file")).mode & 0o777).toString(8) : "";
fs.appendFileSync(file("calls"), JSON.stringify({ args, env: process.env, variables, mode }) + "\\n");
if (fs.existsSync(file("down"))) {
  console.error("Cannot connect to the daemon\\nSee help");
  process.exit(args[0] === "run" ? 125 : 1);
} else if (args[0] === "rm" && fs.existsSync(file("stuck"))) {
  console.error("Error: device or resource busy\\nSee help");
  process.exit(1);
} else if (args[0] === "rm") {
  if (!fs.existsSync(file(args[2]))) { console.error("Error: No such container: " + args[2]); process.exit(1); }
  const pid = Number(fs.readFileSync(file(args[2])));
  try { if (pid > 1) process.kill(-pid, "SIGKILL"); } catch {}
  fs.rmSync(file(args[2]));
} else {
  fs.writeFileSync(value("--cidfile"), "c0ffee");
  const after = args.findIndex((arg) => arg.startsWith("debian@"));
  const env = Object.fromEntries(variables.trim().split("\\n").map((line) => line.split(/=(.*)/s).slice(0, 2)));
  const seen = args.slice(after + 1).map((arg) => arg.replace("/run/skillet/network.sock", /source=([^,]*net.sock)/.exec(args.join(" "))?.[1]));
  // As an engine does, it knows the container before the entry point runs: what the entry point prints may end this client at once.
  const known = 'i=0; until [ -e "$0" ]; do i=$((i + 1)); [ $i -lt 3000 ] || exit 1; sleep 0.01; done; exec "$@"';
  const argv = ["-c", known, file(value("--name")), value("--entrypoint"), ...seen];
  const child = spawn("/bin/sh", argv, { detached: true, stdio: ["inherit", "inherit", "inherit"], env });
  fs.writeFileSync(file("pid"), String(child.pid));
  fs.renameSync(file("pid"), file(value("--name")));
  child.on("exit", (code, signal) => { fs.rmSync(file(value("--name")), { force: true }); process.exit(code ?? 128 + require("node:os").constants.signals[signal]); });
}
`;

interface Call {
  args: string[];
  env: Record<string, string>;
  variables: string;
  mode: string;
}

function scene(options: { is?: "down" | "stuck" } = {}) {
  const folder = temporaryFolder({ docker: CLIENT, ...(options.is ? { [options.is]: "" } : {}) });
  const temporary = temporaryFolder();
  const program = join(folder, "docker");
  chmodSync(program, 0o755);
  const sandbox = createContainerSandbox({
    program,
    image: IMAGE,
    folder: temporary,
    node: process.execPath,
    env: { HOME: "/root", DOCKER_HOST: "unix:///x", SECRET: "of the host" },
  });
  const calls = (): Call[] =>
    readFileSync(join(folder, "calls"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  /** Remaining containers, and files of runs. */
  const left = () => [...readdirSync(folder), ...readdirSync(temporary)].filter((name) => /^skillet-/.test(name));
  return { sandbox, calls, left, program, temporary };
}

async function run(
  sandbox: Sandbox,
  wanted: SandboxCommand,
  options: { most?: number; signal?: AbortSignal; onOutput?: () => void } = {},
) {
  const output = { stdout: "", stderr: "" };
  const outcome = await sandbox.run(wanted, {
    onOutput(stream, bytes) {
      output[stream] += bytes;
      options.onOutput?.();
      return output.stdout.length + output.stderr.length <= (options.most ?? 1024);
    },
    ...(options.signal ? { signal: options.signal } : {}),
  });
  return { ...outcome, ...output };
}

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
};

describe("the arguments of a container client (without an engine)", () => {
  const names = { image: IMAGE, name: "skillet-1", variables: "/run/v", id: "/run/id" };
  const given = command({
    argv: ["python3", "/skill/scripts/a.py", "--image", "x"],
    env: { KEY: "secret" },
    folder: "/skill",
    mounts: [
      { from: "/store/a,b", to: "/skill", access: "read" },
      { from: '/home/me/"work"', to: "/workspace", access: "read-write" },
    ],
    stdin: "{}",
  });

  it("[Q-13, Q-14, Q-17] close everything, limit the whole process tree, and name no secret", () => {
    expect(createContainerArguments(given, { ...names, by: "docker" })).toEqual([
      ...["run", "--rm", "--init", "--pull", "never", "--name", "skillet-1", "--cidfile", "/run/id"],
      ...["--network", "none", "--ipc", "private", "--cgroupns", "private", "--hostname", "skill"],
      ...["--user", "65534:65534", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
      ...["--memory", "268435456", "--memory-swap", "268435456", "--pids-limit", "32"],
      ...["--ulimit", "core=0:0", "--ulimit", "fsize=1048576:1048576", "--shm-size", "1048576", "--read-only"],
      ...["--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=1048576,mode=1777"],
      ...["--tmpfs", "/run:rw,exec,nosuid,nodev,size=1048576,mode=1777"],
      ...["--tmpfs", "/home/skill:rw,exec,nosuid,nodev,size=1048576,mode=1777"],
      ...["--mount", 'type=bind,"source=/store/a,b",target=/skill,readonly'],
      ...["--mount", 'type=bind,"source=/home/me/""work""",target=/workspace'],
      ...["--env-file", "/run/v", "--log-driver", "none", "--no-healthcheck", "--stop-timeout", "0", "--interactive"],
      ...["--workdir", "/skill", "--entrypoint", "python3", IMAGE, "/skill/scripts/a.py", "--image", "x"],
    ]);
    const podman = createContainerArguments(given, { ...names, by: "podman" });
    expect(podman).toEqual(expect.arrayContaining(["--http-proxy=false", "--unsetenv-all"]));
    expect(JSON.stringify(podman)).not.toContain("secret");
  });

  it("[Q-13] name the user of the run if the caller may become it, and never root", () => {
    const userOf = (user?: number) => {
      const told = createContainerArguments(
        { ...given, ...(user === undefined ? {} : { user }) },
        { ...names, by: "docker" },
      );
      return told[told.indexOf("--user") + 1];
    };
    const own = process.getuid?.() ?? 0;
    expect([userOf(), userOf(0)]).toEqual(["65534:65534", "65534:65534"]);
    expect(userOf(4321)).toBe(own === 0 ? "4321:4321" : "65534:65534");
    if (own !== 0) expect(userOf(own)).toBe(`${own}:${process.getgid?.()}`);
  });

  it("[Q-13] refuse an invalid path", () => {
    const mounts = [{ from: "/a\nb", to: "/skill", access: "read" as const }];
    expect(() => createContainerArguments({ ...given, mounts }, { ...names, by: "docker" })).toThrow(
      "has a line break",
    );
  });
});

describe("a run in a container (with a client of the test in place of an engine)", () => {
  it("[Q-01, Q-16] passes variables in a private file, and connects input, output and exit code", async () => {
    const { sandbox, calls, left } = scene();
    const script = 'cat; echo "$KEY$HOME"; echo err >&2; exit 3';
    const result = await run(
      sandbox,
      command({ argv: ["/bin/sh", "-c", script], env: { KEY: "a=b #c" }, stdin: "in\n" }),
    );
    expect(result).toMatchObject({
      exitCode: 3,
      signal: undefined,
      ending: "exit",
      stdout: "in\na=b #c/home/skill\n",
      stderr: "err\n",
    });
    expect(result.isolation).toEqual({ level: "strong", by: "docker", bounds: "tree" });
    const [started, ...removals] = calls();
    expect(started).toMatchObject({ mode: "600", variables: expect.stringContaining("KEY=a=b #c\n") });
    expect(JSON.stringify([started?.args, started?.env])).not.toContain("a=b");
    expect(Object.keys(started?.env ?? {}).sort()).toEqual(["DOCKER_CONFIG", "DOCKER_HOST", "HOME", "PATH"]);
    expect(removals.map(({ args }) => args)).toEqual([["rm", "--force", started?.args[6]]]);
    expect(left()).toEqual([]);
  });

  it("[Q-15] ends the container, not only the client, on timeout, abort and too much output", async () => {
    const hang = "echo $$; sleep 60 & wait";
    const { sandbox, calls, left } = scene();
    let runs = 2;
    const late = await withGrowingLimit(
      (seconds) => {
        runs++;
        return run(sandbox, command({ argv: ["/bin/sh", "-c", hang], limits: { ...LIMITS, seconds } }));
      },
      ({ stdout }) => stdout !== "",
    );
    expect(late).toMatchObject({ ending: "timeout", exitCode: undefined });
    const stop = new AbortController();
    const aborted = await run(sandbox, command({ argv: ["/bin/sh", "-c", hang] }), {
      signal: stop.signal,
      onOutput: () => stop.abort(),
    });
    expect(aborted).toMatchObject({ ending: "abort", exitCode: undefined });
    const loud = await run(sandbox, command({ argv: ["/bin/sh", "-c", `${hang} & yes`] }), { most: 100_000 });
    expect(loud.ending).toBe("output");
    // The engine's signal is on its way when `rm` returns.
    for (const { stdout } of [late, aborted, loud]) {
      expect(stdout).toMatch(/^\d+\n/);
      await expect.poll(() => isAlive(Number.parseInt(stdout, 10))).toBe(false);
    }
    expect(calls().filter(({ args }) => args[0] === "rm")).toHaveLength(2 * runs);
    expect(left()).toEqual([]);
  });

  it("[Q-15] ends the container when the host is killed", async () => {
    const { calls, left, program, temporary } = scene();
    const host = `
      import { createContainerSandbox } from ${JSON.stringify(moduleOf("sandbox/container"))};
      await createContainerSandbox(${JSON.stringify({ program, image: IMAGE, folder: temporary })}).run(
        ${JSON.stringify(command({ argv: ["/bin/sh", "-c", "echo $$; sleep 60 & wait"] }))},
        { onOutput: (_, bytes) => process.stdout.write(bytes) || true });`;
    const child = spawn(process.execPath, ["--no-warnings", "--input-type=module", "--eval", host], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const pid = await new Promise<number>((resolve) =>
      child.stdout.once("data", (bytes) => resolve(Number(String(bytes)))),
    );
    expect(isAlive(pid)).toBe(true);
    child.kill("SIGKILL");
    await expect.poll(() => isAlive(pid)).toBe(false);
    await expect.poll(left).toEqual([]);
    expect(calls().at(-1)?.args.slice(0, 2)).toEqual(["rm", "--force"]);
  });

  it("[Q-15, Q-16] returns the result of a run whose container could not be removed, and names the container", async () => {
    const { sandbox, calls } = scene({ is: "stuck" });
    const result = await run(sandbox, command({ argv: ["/bin/sh", "-c", "echo done; exit 3"] }));
    expect(result).toMatchObject({ ending: "exit", exitCode: 3, stdout: "done\n" });
    const name = calls()[0]?.args[6];
    expect(result.notices).toEqual([
      {
        code: "sandbox-not-removed",
        message: `the container ${name} could not be removed: Error: device or resource busy`,
        fix: `run \`docker rm --force ${name}\``,
      },
    ]);
  });

  it("[Q-14] reaches allowed hosts through the mounted socket, and no others", async () => {
    const server = createServer((_, response) => response.end("hello"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { sandbox, calls } = scene();
    const curl = (at: number) =>
      command({ argv: ["/usr/bin/curl", "-s", `http://127.0.0.1:${at}/`], network: [{ host: "127.0.0.1", port }] });
    expect(await run(sandbox, curl(port))).toMatchObject({ exitCode: 0, stdout: "hello" });
    const refused = await run(sandbox, curl(1));
    expect(refused.stdout).toContain('add "127.0.0.1:1" to network');
    expect(refused.notices).toMatchObject([
      { code: "network-not-allowed", message: expect.stringContaining("127.0.0.1:1") },
    ]);
    expect(calls()[0]?.args.join(" ")).toMatch(
      /--mount type=bind,source=\S+net\.sock,target=\/run\/skillet\/network\.sock,readonly /,
    );
  });

  it("[Q-13] is refused with the client's error when it does not start, and leaves nothing", async () => {
    const { sandbox, left } = scene({ is: "down" });
    await expect(run(sandbox, command({ argv: ["true"] }))).rejects.toMatchObject({
      code: "sandbox-start-failed",
      message: "The container could not be started: Cannot connect to the daemon",
      fix: expect.stringContaining("docker images"),
    });
    const missing = createContainerSandbox({ program: "/no/such/podman", image: IMAGE, folder: temporaryFolder() });
    await expect(run(missing, command({ argv: ["true"] }))).rejects.toMatchObject({ code: "sandbox-start-failed" });
    expect([missing.by, left()]).toEqual(["podman", []]);
  });

  it("[Q-13] is refused when it would lose packages or a variable", async () => {
    const { sandbox, left, temporary } = scene();
    await expect(run(sandbox, command({ argv: ["true"], root: "/layer" }))).rejects.toMatchObject({
      code: "sandbox-packages",
    });
    for (const env of [
      { KEY: "a\nb" },
      { KEY: "a\r" },
      { KEY: "\ud800" },
      { KEY: "x".repeat(70_000) },
      { "A B": "1" },
      { "#A": "1" },
    ]) {
      await expect(run(sandbox, command({ argv: ["true"], env: env as Record<string, string> }))).rejects.toMatchObject(
        { code: "variable-unusable" },
      );
    }
    expect([left(), existsSync(temporary)]).toEqual([[], true]);
  });
});

const image = process.env["SKILLET_TEST_IMAGE"];
const engine =
  image === undefined ? undefined : (["docker", "podman"] as const).find((name) => findSystemProgram(name));
const client = engine && findSystemProgram(engine);
if (image !== undefined && engine && client) {
  describeSandbox(`a container of ${engine}`, "strong", async () =>
    createContainerSandbox({ program: client, engine, image }),
  );
}
