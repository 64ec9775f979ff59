import { chmodSync, copyFileSync, existsSync, renameSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Mount } from "../host/sandbox-contract.ts";
import { isInside } from "../util/safe-path.ts";
import { shortHash } from "../util/text.ts";
import { isRoot, makeReadableFolder } from "./sandbox-folders.ts";
import { findUvPrograms, UV_FETCHED_FOLDER } from "./uv.ts";

const UV_MISSING_SCRIPT = `#!/bin/sh
echo "uv is not installed on this machine: https://docs.astral.sh/uv shows how to install it" >&2
exit 127
`;

/**
 * Copies the packages fetched for the skill into uv's cache before uv runs. uv writes to its cache, so no two commands
 * share one.
 */
const UV_CACHE_SCRIPT = `#!/bin/sh
if [ -n "$UV_CACHE_DIR" ] && [ ! -d "$UV_CACHE_DIR" ]; then
  mkdir -p "$UV_CACHE_DIR"
  for fetched in ${UV_FETCHED_FOLDER}/*/; do [ ! -d "$fetched" ] || cp -R "$fetched." "$UV_CACHE_DIR"; done
fi
`;

/** Runs a tool from the user's installed packages directly, even if uvx does not know it. */
const FIND_TOOL_SCRIPT = `number=0 skip= tool=
for word in "$@"; do
  number=$((number + 1))
  if [ -n "$skip" ]; then skip=; continue; fi
  case "$word" in
    --from|--with|--python|-p) skip=1 ;;
    -*) ;;
    *) tool="\${word%%[@=<>~!]*}"; break ;;
  esac
done
if [ -n "$tool" ] && [ -x "/opt/skillet/venv/bin/$tool" ]; then
  shift "$number"
  exec "/opt/skillet/venv/bin/$tool" "$@"
fi
`;

/** Files in the /etc of every sandbox, so that programs can look up their user and host name. */
const BASE_FILES: Readonly<Record<string, string>> = {
  "etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nskill:x:1000:1000:skill:/home/skill:/bin/sh\n",
  "etc/group": "root:x:0:\nskill:x:1000:\n",
  "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
  "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
  "opt/skillet/bin/uv": UV_MISSING_SCRIPT,
  "opt/skillet/bin/uvx": UV_MISSING_SCRIPT,
  "opt/skillet/offline/uv": `${UV_CACHE_SCRIPT}exec /opt/skillet/bin/uv "$@"\n`,
  "opt/skillet/offline/uvx": `${UV_CACHE_SCRIPT}${FIND_TOOL_SCRIPT}exec /opt/skillet/bin/uvx "$@"\n`,
};

/**
 * Creates the base files and returns their mounts, with the host's own programs. Node is one of them, so that a skill's
 * JavaScript runs with the promised version.
 */
export function createBaseMounts(folder: string, userHome: string): Mount[] {
  const base = join(folder, "furniture", shortHash(JSON.stringify(BASE_FILES)));
  for (const [path, text] of Object.entries(BASE_FILES)) {
    const file = join(base, path);
    if (existsSync(file)) continue;
    makeReadableFolder(dirname(file));
    writeFileSync(`${file}.${process.pid}`, text);
    chmodSync(`${file}.${process.pid}`, path.startsWith("opt/") ? 0o755 : 0o644);
    renameSync(`${file}.${process.pid}`, file);
  }
  const found = new Map([["node", process.execPath], ...findUvPrograms(userHome)]);
  const programs = Array.from(found, ([name, program]): Mount => {
    return { from: makeReadableProgram(program, folder), to: `/opt/skillet/bin/${name}`, access: "read" };
  });
  const isProvided = (path: string) => programs.some(({ to }) => to === `/${path}`);
  return [
    ...Object.keys(BASE_FILES)
      .filter((path) => !isProvided(path))
      .map((path) => ({ from: join(base, path), to: `/${path}`, access: "read" as const })),
    ...programs,
  ];
}

/**
 * Returns the program's path, or the path of a copy if the program is readable only by root or outside the system
 * folders. Sandboxed code can list the sources of its mounts, and a path below a home folder reveals the user's name.
 */
export function makeReadableProgram(program: string, folder: string): string {
  if (!isRoot() || (isSystemPath(program) && isReadableByOthers(program))) return program;
  const { size, mtimeMs } = statSync(program);
  const copy = join(folder, "furniture", `${basename(program)}-${shortHash(`${program}:${size}:${mtimeMs}`)}`);
  if (existsSync(copy)) return copy;
  makeReadableFolder(dirname(copy));
  copyFileSync(program, `${copy}.${process.pid}`);
  chmodSync(`${copy}.${process.pid}`, 0o755);
  renameSync(`${copy}.${process.pid}`, copy);
  return copy;
}

function isSystemPath(path: string): boolean {
  return ["/usr", "/bin", "/opt", "/snap", "/nix/store"].some((folder) => isInside(folder, path));
}

function isReadableByOthers(path: string): boolean {
  for (let at = path; ; at = dirname(at)) {
    const needed = at === path ? 0o005 : 0o001;
    if ((statSync(at).mode & needed) !== needed) return false;
    if (dirname(at) === at) return true;
  }
}
