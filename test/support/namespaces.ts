import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { temporaryFolder } from "./folder.ts";

/** A machine of a test: commands run in it, and other machines reach it at its address. */
export interface TestMachine {
  name: string;
  /** Its address, and the one at which it reaches this machine. */
  address: string;
  gateway: string;
  /** Returns the program and the arguments that run a shell command in it, in a folder. */
  wrap(command: string, cwd: string): [string, string[]];
}

/** True when this process may create network namespaces. Others use their own machine, as `createPlainMachine` returns it. */
export const HAS_NAMESPACES: boolean =
  process.platform === "linux" &&
  process.getuid?.() === 0 &&
  spawnSync("unshare", ["--net", "--mount", "--uts", "ip", "link", "set", "lo", "up"]).status === 0;

/** A machine without its own network. */
export function createPlainMachine(name: string): TestMachine {
  return { name, address: "127.0.0.1", gateway: "127.0.0.1", wrap: (command) => ["bash", ["-c", command]] };
}

/**
 * Creates a machine with its own network, host name and `/etc/hosts`. `hosts`: the names that it knows, with their addresses. It is gone
 * with the test.
 */
export async function createNamespace(
  name: string,
  index: number,
  hosts: (machine: { gateway: string }) => Readonly<Record<string, string>>,
): Promise<TestMachine> {
  // Each process of tests has its own block of addresses.
  const [high, low] = [(process.pid >> 8) & 0xff, process.pid & 0xff];
  const [gateway, address] = [4 * index + 1, 4 * index + 2].map((last) => `10.${high}.${low}.${last}`) as [
    string,
    string,
  ];
  const file = join(temporaryFolder(), "hosts");
  const lines = Object.entries({ localhost: "127.0.0.1", [name]: "127.0.0.1", ...hosts({ gateway }) });
  writeFileSync(file, lines.map(([host, at]) => `${at} ${host}\n`).join(""));
  const start = `mount --bind ${file} /etc/hosts && hostname ${name} && ip link set lo up && echo ready && exec sleep infinity`;
  const keeper = spawn("unshare", ["--net", "--mount", "--uts", "--propagation", "private", "sh", "-c", start], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void keeper.kill("SIGKILL"));
  await waitForOutput(keeper, "ready");
  const inside = ["--target", String(keeper.pid), "--net", "--mount", "--uts"];
  const link = `sk${process.pid}n${index}`;
  const run = (program: string, args: string[]) => {
    const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
    if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr}`);
  };
  run("ip", ["link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", String(keeper.pid)]);
  run("ip", ["addr", "add", `${gateway}/30`, "dev", link]);
  run("ip", ["link", "set", link, "up"]);
  run("nsenter", [...inside, "ip", "addr", "add", `${address}/30`, "dev", "eth0"]);
  run("nsenter", [...inside, "ip", "link", "set", "eth0", "up"]);
  return {
    ...{ name, address, gateway },
    wrap: (command, cwd) => ["nsenter", [...inside, `--wdns=${cwd}`, "bash", "-c", command]],
  };
}

/** Waits until a process has printed a text. Rejects with its output if it ends before. */
export function waitForOutput(child: ChildProcess, text: string | RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = "";
    const take = (bytes: Buffer) => {
      output += bytes;
      if (typeof text === "string" ? output.includes(text) : text.test(output)) resolve(output);
    };
    child.stdout?.on("data", take);
    child.stderr?.on("data", take);
    child.on("close", () => reject(new Error(`ended before it printed ${text}: ${output}`)));
    child.on("error", reject);
  });
}
