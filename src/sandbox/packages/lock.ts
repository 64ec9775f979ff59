import { createHash } from "node:crypto";
import { createReadStream, statSync } from "node:fs";
import { join } from "node:path";
import { SkillError } from "../../shared/error.ts";
import { readRegularText } from "../../shared/regular-file.ts";
import { byText } from "../../shared/text.ts";

export interface LockedPackage {
  name: string;
  version: string;
  arch: string;
  /** Of the .deb, in hexadecimal. */
  sha256: string;
  size: number;
  /** In the archive: the same on every mirror. */
  path: string;
}

/** Exactly what a root is made of, beside what is in its base. */
export interface LayerLock {
  kind: "layer";
  suite: string;
  arch: string;
  /** The id of the base it stands on; none when it is a base itself. */
  base: string | undefined;
  /** What was asked for. */
  names: readonly string[];
  packages: readonly LockedPackage[];
}

/** The host's own packages, as they were when they were asked for. */
export interface HostLock {
  kind: "host";
  suite: string;
  arch: string;
  packages: readonly { name: string; version: string }[];
}

export type Lock = LayerLock | HostLock;

/** One text for one lock: keys and packages in order. */
export function lockText(lock: Lock): string {
  const packages = lock.packages.map(sorted).sort((a, b) => byText(String(a["name"]), String(b["name"])));
  return `${JSON.stringify(sorted({ ...lock, packages }), null, 2)}\n`;
}

export function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** What a set is found by: the same names on the same base. */
export function setKey(lock: Pick<LayerLock, "suite" | "arch" | "base" | "names">): string {
  return hashOf(JSON.stringify([lock.suite, lock.arch, lock.base, lock.names])).slice(0, 32);
}

/** The lock in a folder that was built, or nothing where what is there is none. */
export function readLock(folder: string): LayerLock | undefined {
  try {
    const lock: unknown = JSON.parse(readRegularText(join(folder, "lock.json")));
    return isLayerLock(lock) ? lock : undefined;
  } catch {
    return undefined;
  }
}

function isLayerLock(value: unknown): value is LayerLock {
  const lock = recordOf(value);
  const { base, names, packages } = lock;
  return (
    lock["kind"] === "layer" &&
    areTexts(lock["suite"], lock["arch"], base ?? "") &&
    Array.isArray(names) &&
    areTexts(...names) &&
    Array.isArray(packages) &&
    packages
      .map(recordOf)
      .every(
        ({ name, version, arch, sha256, size, path }) =>
          areTexts(name, version, arch, sha256, path) && typeof size === "number",
      )
  );
}

const recordOf = (value: unknown) =>
  (typeof value === "object" && value !== null ? value : {}) as Partial<Record<string, unknown>>;
const areTexts = (...values: unknown[]) => values.every((value) => typeof value === "string");

/** Refuses debs that are not, byte for byte, those of the lock. */
export async function verifyDebs(packages: readonly LockedPackage[], folder: string): Promise<void> {
  for (const entry of packages) {
    const file = join(folder, debName(entry));
    const size = statSync(file, { throwIfNoEntry: false })?.size;
    const isRight = size === entry.size && (await hashOfFile(file)) === entry.sha256;
    if (isRight) continue;
    throw new SkillError("package-tampered", {
      message: `${debName(entry)} is not what the archive's signed index says: its ${size === entry.size ? "SHA-256" : "size"} differs`,
      fix: "nothing was installed: try again later or from another mirror",
    });
  }
}

/** How apt names the file, whatever the archive calls it. */
export function debName({ name, version, arch }: LockedPackage): string {
  return `${name}_${version.replaceAll(":", "%3a")}_${arch}.deb`;
}

async function hashOfFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest("hex");
}

function sorted(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => byText(a, b)));
}
