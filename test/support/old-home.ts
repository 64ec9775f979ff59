import { chmodSync, cpSync, readdirSync, readFileSync, realpathSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { type RunOptions, skillet } from "./command.ts";
import { temporaryFolder } from "./folder.ts";

const FIXTURE = join(import.meta.dirname, "../fixtures/old-home");
const PLACES = { "@CLONE@": join(import.meta.dirname, "../.."), "@NODE@": process.execPath };

/** Copies the home and the workspace that 0.1.0 created to a new path (test/fixtures/old-home/make.mjs). */
export function copyOldHome() {
  const root = realpathSync(temporaryFolder());
  for (const name of ["home", "project", "mine", "source"])
    cpSync(join(FIXTURE, name), join(root, name), { recursive: true });
  for (const name of ["skillet", "claude"]) renameSync(join(root, `home/dot-${name}`), join(root, `home/.${name}`));
  for (const [mark, path] of Object.entries({ "@ROOT@": root, ...PLACES })) replaceInFiles(root, mark, path);
  const skilletHome = join(root, "home/.skillet");
  for (const name of ["config.toml", "serve-token"]) chmodSync(join(skilletHome, name), 0o600);
  const env = { HOME: join(root, "home"), SKILLS_DIR: join(root, "shipped") };
  const cwd = join(root, "project");
  return {
    root,
    skilletHome,
    env,
    cwd,
    run: (args: readonly string[], options: RunOptions = {}) => skillet([...args], { cwd, env, ...options }),
    json: async (...args: string[]) => JSON.parse((await skillet([...args, "--json"], { cwd, env })).stdout),
    bytes: (path: string) => readFileSync(join(skilletHome, path)),
  };
}

function replaceInFiles(root: string, mark: string, path: string): void {
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name);
    const bytes = entry.isFile() ? readFileSync(file) : Buffer.alloc(0);
    if (!bytes.includes(mark) || bytes.includes(0)) continue;
    const text = bytes.toString().replaceAll(mark, path);
    writeFileSync(file, file.endsWith(".jsonl") ? text.replace(CHECKSUM, updateChecksum) : text);
  }
}

const CHECKSUM = /^(.*),"crc":"[0-9a-f]{8}"\}$/gm;

/** Computes the checksum of a journal's line again. */
export function updateChecksum(_: string, start: string): string {
  return `${start},"crc":"${crc32(`${start}}`).toString(16).padStart(8, "0")}"}`;
}
