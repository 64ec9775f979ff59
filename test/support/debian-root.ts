import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { GuideScene } from "./guide.ts";
import { ROOT } from "./markdown-code.ts";

export const MMDEBSTRAP = "/usr/bin/mmdebstrap";

/** Files of this machine with the mirrors and certificates of its package managers. */
const REGISTRY_FILES = ["/etc/ssl/certs/ca-certificates.crt", "/usr/etc/npmrc"];
const USER_CONFIGURATION = join(process.env["HOME"] ?? "/root", ".npmrc");

/** A new Debian system in a folder, with Node and npm, git, and this project as a user would have cloned it. */
export interface DebianRoot {
  folder: string;
  /** Runs a command in a folder of it, as root or as a user. */
  run(command: string, options: { uid: number; cwd: string }): { exit: number | null; output: string };
  /** Lets a guide run in it, by one user. */
  enter(scene: GuideScene, uid: number): GuideScene;
  remove(): void;
}

/**
 * Mounts the root, changes to it and runs a command. `chroot` would not do: no sandbox can be started below it. The working directory is
 * bound to the same path, so that a scene needs no other paths.
 */
const ENTER = `root=$1 uid=$2 folder=$3 cwd=$PWD; shift 3
mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/run" && cp /etc/resolv.conf /etc/hosts "$root/etc/"
if [ -n "$folder" ]; then mkdir -p "$root$folder" && mount --bind "$folder" "$root$folder"; fi
cd "$root" && mkdir -p .before && pivot_root . .before && cd "$cwd" && umount -l /.before
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"`;

const PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

export function createDebianRoot(): DebianRoot {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "skillet-debian-")));
  const { VERSION_CODENAME } = readRelease();
  execFileSync(
    MMDEBSTRAP,
    ["--variant=minbase", "--include=ca-certificates,git", VERSION_CODENAME ?? "stable", folder],
    {
      stdio: "ignore",
    },
  );
  installNode(folder);
  for (const file of REGISTRY_FILES) if (existsSync(file)) copy(file, join(folder, file));
  const env = { PATH, LANG: "C.UTF-8", NODE_EXTRA_CA_CERTS: process.env["NODE_EXTRA_CA_CERTS"] ?? "" };
  const enter = (uid: number, bound: string, argv: readonly string[]): [string, ...string[]] => {
    const namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"];
    return ["unshare", ...namespaces, "sh", "-c", ENTER, "sh", folder, String(uid), bound, ...argv];
  };
  const root: DebianRoot = {
    folder,
    run(command, { uid, cwd }) {
      const [program, ...args] = enter(uid, "", ["env", "-C", cwd, "bash", "-c", `exec 2>&1; ${command}`]);
      const HOME = uid === 0 ? "/root" : "/home/ada";
      const { status, stdout } = spawnSync(program, args, {
        cwd: "/",
        env: { ...env, HOME },
        encoding: "utf8",
        maxBuffer: 2 ** 26,
      });
      return { exit: status, output: stdout };
    },
    enter(scene, uid) {
      const program = uid === 0 ? "/root/skillet" : "/home/ada/skillet";
      writeFileSync(join(scene.home, "bin/skillet"), `#!/bin/sh\nexec node ${program}/bin/skillet.cjs "$@"\n`);
      execFileSync("chown", ["-R", `${uid}:${uid}`, scene.home]);
      return {
        ...scene,
        env: { ...scene.env, ...env, PATH: `${join(scene.home, "bin")}:${PATH}` },
        wrap: (argv) => enter(uid, scene.home, argv),
      };
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
  root.run("useradd --create-home --shell /bin/bash ada", { uid: 0, cwd: "/" });
  for (const [home, uid] of [
    ["/root", 0],
    ["/home/ada", 1000],
  ] as const) {
    if (existsSync(USER_CONFIGURATION)) copy(USER_CONFIGURATION, join(folder, home, ".npmrc"));
    execFileSync("git", ["clone", "--quiet", "--no-hardlinks", ROOT, join(folder, home, "skillet")]);
    execFileSync("chown", ["-R", `${uid}:${uid}`, join(folder, home)]);
  }
  return root;
}

function readRelease(): Record<string, string> {
  const text = execFileSync("cat", ["/etc/os-release"], { encoding: "utf8" });
  return Object.fromEntries(Array.from(text.matchAll(/^(\w+)="?([^"\n]*)"?$/gm), ([, name, value]) => [name, value]));
}

/** Copies the Node and the npm that this machine has in addition to the project's own: a user installs them first. */
function installNode(folder: string): void {
  const program = (name: string) =>
    realpathSync(execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8", env: { PATH } }).trim());
  const bin = join(folder, "usr/local/bin");
  copy(program("node"), join(bin, "node"));
  cpSync(dirname(dirname(program("npm"))), join(folder, "usr/local/lib/node_modules/npm"), { recursive: true });
  for (const name of ["npm", "npx"]) symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, join(bin, name));
}

function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(from, to, { dereference: true });
}
