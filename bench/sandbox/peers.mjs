import { spawnSync } from "node:child_process";
import { parts } from "./library.mjs";

const TRUE = "/bin/true";
const container = (file) => ["run", "--rm", "--network", "none", "--cap-drop", "ALL", imageOf(file), "true"];

/** Other ways to isolate a process, if they are installed. The benchmark downloads none of them. */
const PEERS = {
  docker: container,
  podman: container,
  firejail: () => ["--quiet", "--noprofile", "--net=none", "--private", "--caps.drop=all", TRUE],
  nsjail: () => ["-Mo", "--quiet", "--user", "65534", "--group", "65534", "--chroot", "/", "--", TRUE],
};

/** Returns each peer with its command, or with the reason that it is unavailable. */
export async function findPeers() {
  const { findSystemProgram } = await parts("util/system.js");
  return Object.entries(PEERS).map(([name, argumentsFor]) => {
    const file = findSystemProgram(name);
    if (file === undefined) return { name, absent: "not installed" };
    try {
      const args = argumentsFor(file);
      call(file, args);
      return { name, command: { file, args } };
    } catch (error) {
      return { name, absent: `does not work here: ${error.message}` };
    }
  });
}

function imageOf(file) {
  const [image] = call(file, ["image", "ls", "--quiet"]).split("\n");
  if (image) return image;
  throw new Error("it has no image");
}

function call(file, args) {
  const { status, stdout, stderr, error } = spawnSync(file, args, { encoding: "utf8", timeout: 60_000 });
  if (error) throw error;
  if (status === 0) return stdout;
  throw new Error(stderr.trim().split("\n")[0] || `exit ${status}`);
}
