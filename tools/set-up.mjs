// Puts in place what the machine lacks, as `skillet doctor --fix` does: `npm start` and `npm test` begin with it.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

/** How many lines of a command that failed are shown: the last ones say why. */
const LAST_LINES = 6;

/** What running a skill needs. Building the packages that one declares needs more. */
export const TO_RUN = ["bwrap", "prlimit"];

/**
 * Installs what is missing of these programs, all when left out. Says nothing where nothing is. Contract: false when something is still
 * missing, which has been said.
 */
export async function setUp(programs) {
  // Elsewhere sandboxes are the system's own, or a container's.
  if (process.platform !== "linux") return true;
  const { applyHostToolFix, planHostToolFix, detectMachine, listHostTools } = await import(
    "../build/sandbox/host-tools.js"
  );
  const states = () => listHostTools().filter(({ tool }) => programs?.includes(tool.program) ?? true);
  const look = () => {
    const { userWithoutRange, ...machine } = detectMachine();
    return programs ? machine : { ...machine, userWithoutRange };
  };
  const missing = () => states().flatMap(({ tool, path }) => (path === undefined ? [tool] : []));
  for (const { program, purpose } of missing()) say(`! ${program} is missing: it ${purpose}`);
  const { commands } = planHostToolFix(states(), look());
  if (commands.length > 0) await install(commands, applyHostToolFix);
  else if (missing().length > 0) sayByHand(look(), planHostToolFix(states(), { ...look(), isRoot: true }));
  const { userWithoutRange: user } = look();
  if (user !== undefined) say(`✗ user ${user} has no range of ids in /etc/subuid: it cannot build packages of skills`);
  return missing().length === 0 && user === undefined;
}

async function install(commands, applyHostToolFix) {
  say(`  installing: ${commands.map((command) => command.join(" ")).join("\n              ")}`);
  const begin = performance.now();
  const printed = [];
  const failed = await applyHostToolFix(commands, (line) => printed.push(line));
  if (failed === undefined) return say(`✓ installed (${Math.ceil((performance.now() - begin) / 1000)} s)`);
  say(`✗ this failed: ${failed.join(" ")}`);
  for (const line of printed.slice(-LAST_LINES)) say(`  │ ${line}`);
}

function sayByHand({ manager }, { commands }) {
  if (manager === undefined) return say("✗ nothing was installed: no package manager is known here");
  say("✗ nothing was installed: you are not root, and there is no sudo. Let root run:");
  for (const command of commands) say(`    ${command.join(" ")}`);
}

function say(line) {
  process.stderr.write(`${line}\n`);
}

/** What only tests need, so that only the gate installs it: by the file that tells whether it is there. */
const FOR_TESTS = {
  // Without it the tests see how Claude Code refuses to start programs.
  socat: { file: "/usr/bin/socat", purpose: "is for Claude Code's own sandbox" },
  "linux-libc-dev": {
    file:
      process.arch === "x64" ? "/usr/include/x86_64-linux-gnu/asm/unistd_64.h" : "/usr/include/asm-generic/unistd.h",
    purpose: "has the numbers of system calls that the filter is compared with",
  },
  "linux-libc-dev-arm64-cross": {
    file: "/usr/aarch64-linux-gnu/include/asm-generic/unistd.h",
    purpose: "has those of arm64",
  },
  "user-mode-linux": {
    file: "/usr/bin/linux.uml",
    purpose: "is the kernel on which a delegated cgroup is tried",
  },
};

/** Installs the packages of Debian that these tests need, where it may, and says which before it does. Contract: false when one is still missing. */
export function setUpTests(names) {
  if (process.platform !== "linux" || !existsSync("/usr/bin/apt-get")) return true;
  const missing = () => names.filter((name) => !existsSync(FOR_TESTS[name].file));
  if (missing().length === 0) return true;
  for (const name of missing()) say(`! ${name} is missing: it ${FOR_TESTS[name].purpose}`);
  const sudo = process.getuid() === 0 ? [] : ["sudo", "-n"];
  const install = [...sudo, "apt-get", "-qq", "-y", "install", "--no-install-recommends", ...missing()];
  say(`  installing: ${install.join(" ")}`);
  const run = ([file, ...args]) => spawnSync(file, args, { encoding: "utf8", env: { ...process.env, ...QUIET } });
  let { status, stderr } = run(install);
  if (status !== 0) {
    const update = [...sudo, "apt-get", "-qq", "update"];
    say(`              ${update.join(" ")}`);
    run(update);
    ({ status, stderr } = run(install));
  }
  if (status === 0 && missing().length === 0) say("✓ installed");
  else say(`✗ this failed: ${install.join(" ")}`);
  if (status !== 0) for (const line of (stderr ?? "").trim().split("\n").slice(-LAST_LINES)) say(`  │ ${line}`);
  return missing().length === 0;
}

const QUIET = { DEBIAN_FRONTEND: "noninteractive" };
