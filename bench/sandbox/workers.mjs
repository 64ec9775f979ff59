import { spawn } from "node:child_process";
import { chownSync, mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";

const NOBODY = 65534;
const own = join(import.meta.dirname, "worker.mjs");
export const isRoot = process.getuid?.() === 0;

/** The users that create sandboxes: the caller and, if that is root, also an ordinary user, for whom the kernel allows less. */
export const USERS = [
  { label: isRoot ? "root" : "user" },
  ...(isRoot ? [{ label: "user", user: { uid: NOBODY, gid: NOBODY } }] : []),
];

/** Runs `work` with a function that sends tasks to a new process, and ends the process in any case. */
export async function withWorker({ place, user, say, flags = [], file = own, cwd = "/", env = {} }, work) {
  const home = mkdtempSync(join(place, "worker-"));
  const temporary = join(home, "tmp");
  mkdirSync(temporary);
  if (user) for (const path of [home, temporary]) chownSync(path, user.uid, user.gid);
  const child = spawn(process.execPath, [...flags, file, home], {
    env: { PATH: process.env.PATH, HOME: home, TMPDIR: temporary, LANG: "C.UTF-8", ...proxies(), ...env },
    cwd,
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    ...user,
  });
  // Not `close`: it is not emitted when this side disconnected.
  const ended = new Promise((resolve) => child.once("exit", resolve));
  try {
    return await work((task, given = {}) => ask(child, { task, ...given }, say));
  } finally {
    if (child.connected) child.disconnect();
    await ended;
  }
}

/** Proxies for downloading packages, if any. */
function proxies() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => /^(https?|no)_proxy$/i.test(name)));
}

function ask(child, message, say) {
  return new Promise((resolve, reject) => {
    const onExit = (code) => reject(new Error(`measuring ${message.task} ended with ${code}`));
    const onMessage = ({ progress, answer, problem, code }) => {
      if (progress !== undefined) return say?.(progress);
      child.off("message", onMessage).off("exit", onExit);
      if (problem === undefined) resolve(answer);
      else reject(Object.assign(new Error(problem), { code }));
    };
    child.on("message", onMessage).on("exit", onExit);
    if (child.connected) child.send(message);
    else onExit(child.exitCode);
  });
}
