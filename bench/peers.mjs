import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { environment } from "./contenders.mjs";

const CACHE = join(import.meta.dirname, ".peers");
const INSTALL_SECONDS = 300;

/** The second list is for registries without the @langchain/core that the newest other packages need. */
export const DEEPAGENTS = [
  "deepagents@1.14.1",
  "--legacy-peer-deps deepagents@1.14.1 langchain@1.5.14 @langchain/core@1.2.13 @langchain/langgraph@1.4.13",
];

/**
 * Versions are fixed, so two runs compare the same programs; `packages` are tried in turn.
 * `bin` is a command that lists skills, in a project with the skills in `project`; without it, peers/NAME.mjs loads `layout`.
 */
const PEERS = [
  {
    name: "skills",
    packages: ["skills@1.7.4"],
    layout: "flat",
    bin: ["skills/bin/cli.mjs", "list"],
    project: ".agents/skills",
    count: (text) => text.match(/Agents:/g)?.length ?? 0,
    note: "`skills list`, which finds all but exits before a pipe has taken the whole list",
  },
  {
    name: "openskills",
    packages: ["openskills@1.5.0"],
    layout: "flat",
    bin: ["openskills/dist/cli.js", "list"],
    project: ".claude/skills",
    count: (text) => text.match(/^ {2}\S+ +\(project\)$/gm)?.length ?? 0,
    note: "`openskills list`",
  },
  {
    name: "pi",
    packages: ["@earendil-works/pi-coding-agent@1.5.0", "@earendil-works/pi-coding-agent@0.87.1"],
    layout: "nested",
    note: "`loadSkills`",
  },
  { name: "deepagents", packages: DEEPAGENTS, layout: "flat", note: "`listSkills`" },
  {
    name: "bash-tool",
    packages: ["bash-tool@1.3.19"],
    layout: "flat",
    note: "`experimental_createSkillTool`, which reads every resource file too",
  },
  { name: "mastra", packages: ["@mastra/core@1.71.0"], layout: "flat", note: "`Workspace`, without its search" },
  { name: "gemini", packages: ["@google/gemini-cli-core@0.61.0"], layout: "flat", note: "`loadSkillsFromDir`" },
];

/** Installs missing peers, each in its own folder, so that one failed installation affects no other peer. */
export function installPeers(say, peers = PEERS) {
  return peers.map((peer) => {
    const folder = join(CACHE, peer.name);
    const known = installed(folder);
    if (peer.packages.includes(known)) return { ...peer, folder, package: known };
    const reasons = [];
    for (const wanted of peer.packages) {
      say(`installing ${wanted}`);
      const reason = install(folder, wanted);
      if (reason === undefined) return { ...peer, folder, package: wanted };
      reasons.push(`${wanted}: ${reason}`);
    }
    return { ...peer, package: peer.packages[0], absent: `cannot be installed (${reasons.join("; ")})` };
  });
}

/** Returns a peer as a contender. `folders` has the same skills in both layouts. */
export function peerContender(peer, { place, folders }) {
  const { name, layout, note, absent, count = Number.parseInt } = peer;
  const [, version = ""] = /(?:^|\s)@?[^@\s]+@(\S+)/.exec(peer.package) ?? [];
  const label = `${name} ${version}`;
  const contender = { name, label, note: `${note}; ${layout} layout; ${peer.package}`, isPeer: true, count };
  if (absent) return { ...contender, absent };
  const env = environment(place);
  if (!peer.bin) {
    const driver = join(peer.folder, "driver.mjs");
    // In the folder of the packages, because a module's imports are resolved from its location.
    copyFileSync(join(import.meta.dirname, "peers", `${name}.mjs`), driver);
    return { ...contender, command: { file: process.execPath, args: [driver, folders[layout]], cwd: place, env } };
  }
  const [file, ...args] = peer.bin;
  const project = join(place, `project-${name}`);
  const link = join(project, peer.project);
  rmSync(link, { force: true });
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync(folders[layout], link);
  const command = {
    file: process.execPath,
    args: [join(peer.folder, "node_modules", file), ...args],
    cwd: project,
    env,
  };
  return { ...contender, command };
}

function installed(folder) {
  const marker = join(folder, "installed.txt");
  return existsSync(marker) ? readFileSync(marker, "utf8") : undefined;
}

function install(folder, wanted) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), `${JSON.stringify({ private: true, type: "module" })}\n`);
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const done = spawnSync("npm", ["install", "--prefix", folder, ...quiet, ...wanted.split(" ")], {
    cwd: folder,
    timeout: INSTALL_SECONDS * 1000,
    encoding: "utf8",
  });
  if (done.status === 0) {
    writeFileSync(join(folder, "installed.txt"), wanted);
    return undefined;
  }
  if (done.error) return done.error.message;
  if (/^npm error code E404$/m.test(done.stderr)) return "not in the registry";
  return /^npm error notarget (No .+?)\.$/m.exec(done.stderr)?.[1] ?? `npm ended with ${done.status ?? done.signal}`;
}
