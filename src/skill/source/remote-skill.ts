import { hash, randomUUID } from "node:crypto";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SkillError } from "../../errors/problem.ts";
import { createFolder, readRegularFile } from "../../util/file-access.ts";
import type { JsonObject } from "../../util/objects.ts";
import { compareText } from "../../util/text.ts";
import { findFrontmatter, trimBody } from "../frontmatter.ts";
import { type Manifest, readManifest } from "../manifest.ts";
import type { FileList, Finding, RemoteOrigin, Skill, SkillFingerprint, SkillOrigin } from "../skill.ts";
import { createUnlistedFileError, removePrototypes } from "./file-skill.ts";

/** A skill in the listing of an MCP server. Contract: valid by the Skills extension; `resources` is complete. */
export interface RemoteEntry {
  uri: string;
  frontmatter: { name: string; description: string; [key: string]: unknown };
  resources: readonly RemoteResource[];
}

interface RemoteResource {
  uri: string;
  digest: string;
  size: number;
}

/** Downloads one file of a skill. Contract: the bytes were verified against the entry. */
type DownloadRemoteFile = (entry: RemoteEntry, uri: string) => Promise<Uint8Array>;

interface RemoteSkillParts {
  server: string;
  entry: RemoteEntry;
  findings: readonly Finding[];
  files: RemoteFileCache;
  download: DownloadRemoteFile;
}

const SKILL_FILE = "SKILL.md";
/** The maximum number of parallel requests per skill. */
const MAX_PARALLEL_REQUESTS = 6;

/** A skill of an MCP server: its metadata comes from the listing; its files are fetched on demand, and cached. */
export class RemoteSkill implements Skill {
  readonly name: string;
  readonly description: string;
  readonly origin: SkillOrigin & { remote: RemoteOrigin };
  readonly findings: readonly Finding[];
  readonly entry: RemoteEntry;
  readonly #resources: ReadonlyMap<string, RemoteResource>;
  readonly #files: RemoteFileCache;
  readonly #download: DownloadRemoteFile;
  #manifest: Manifest | undefined;
  #body: string | undefined;

  constructor({ server, entry, findings, files, download }: RemoteSkillParts) {
    const { uri, frontmatter, resources } = entry;
    this.name = frontmatter.name;
    this.description = frontmatter.description.trim();
    const remote = { server, uri, digest: computeResourcesDigest(resources) };
    this.origin = { scope: "integration", source: formatRemoteSourceName(server), form: "folder", remote };
    this.findings = findings;
    this.entry = entry;
    this.#resources = new Map(resources.map((resource) => [parseRemotePath(uri, resource.uri), resource]));
    this.#files = files;
    this.#download = download;
  }

  get manifest(): Manifest {
    this.#manifest ??= readManifest(removePrototypes(this.entry.frontmatter) as JsonObject);
    return this.#manifest;
  }

  fingerprint(): SkillFingerprint {
    const { remote, source } = this.origin;
    return { file: `${source} ${remote.uri}`, value: remote.digest, changedAt: 0 };
  }

  async body(): Promise<string> {
    this.#body ??= extractBody(Buffer.from(await this.read(SKILL_FILE)).toString("utf8"));
    return this.#body;
  }

  async files(): Promise<FileList> {
    const files = [...this.#resources]
      .filter(([path]) => path !== SKILL_FILE)
      .map(([path, { size }]) => ({ path, size, executable: false }))
      .sort((a, b) => compareText(a.path, b.path));
    return { files, findings: [] };
  }

  examples(): readonly string[] {
    return this.manifest.triggers.examples;
  }

  /** Also reads SKILL.md, as the server sent it. */
  async read(path: string): Promise<Uint8Array> {
    const resource = this.#resources.get(path);
    if (!resource) throw createUnlistedFileError(this.name, path, (await this.files()).files);
    const bytes = this.#files.read(resource.digest);
    if (bytes) return bytes;
    throw new SkillError("remote-not-fetched", {
      message: `"${path}" of skill "${this.name}" (from ${this.origin.source}) has not been fetched`,
      fix: "await skill.fetch() before you read it",
    });
  }

  async fetch(files: "all" | readonly string[] = []): Promise<void> {
    const wanted = files === "all" ? [...this.#resources.keys()] : [...new Set([SKILL_FILE, ...files])];
    const missing = wanted.filter((path) => {
      const digest = this.#resources.get(path)?.digest;
      return digest !== undefined && !this.#files.read(digest); // `read` rejects unlisted files.
    });
    // SKILL.md goes first: if it differs from the listing, nothing else is fetched.
    const groups = [missing.filter((path) => path === SKILL_FILE), missing.filter((path) => path !== SKILL_FILE)];
    for (const group of groups) {
      for (let at = 0; at < group.length; at += MAX_PARALLEL_REQUESTS) {
        await Promise.all(group.slice(at, at + MAX_PARALLEL_REQUESTS).map((path) => this.#fetchOne(path)));
      }
    }
  }

  /** Returns the listed resource of a file. */
  resourceAt(path: string): RemoteResource | undefined {
    return this.#resources.get(path);
  }

  /** Returns the size of SKILL.md in bytes, without reading it. */
  ownSize(): number {
    return this.#resources.get(SKILL_FILE)?.size ?? 0;
  }

  async #fetchOne(path: string): Promise<void> {
    const resource = this.#resources.get(path);
    if (resource) this.#files.write(resource.digest, await this.#download(this.entry, resource.uri));
  }
}

/** Returns the name of the source for the skills of an MCP server. */
export function formatRemoteSourceName(server: string): string {
  return `mcp:${server}`;
}

/** Returns the path of a listed file below the folder of its SKILL.md. Contract: the entry is valid, so the URI is inside. */
function parseRemotePath(skillUri: string, uri: string): string {
  const root = new URL(skillUri).href.slice(0, -SKILL_FILE.length);
  return new URL(uri).href.slice(root.length).split("/").map(decodeSegment).join("/");
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function computeResourcesDigest(resources: readonly RemoteResource[]): string {
  const pairs = resources.map(({ uri, digest }) => [uri, digest] as const).sort(([a], [b]) => compareText(a, b));
  return `sha256:${hash("sha256", JSON.stringify(pairs))}`;
}

function extractBody(text: string): string {
  const frame = findFrontmatter(text);
  return "start" in frame && frame.closed ? trimBody(frame.text.slice(frame.bodyStart)) : "";
}

/** The cached files of one remote skill, by digest. */
interface RemoteFileCache {
  /** Returns the bytes with this digest. Undefined if they are not cached, or were changed. */
  read(digest: string): Uint8Array | undefined;
  /** Contract: `bytes` have this digest. Best effort: a cache that cannot be written is not an error. */
  write(digest: string, bytes: Uint8Array): void;
}

const MAX_REMOTE_FILE_BYTES = 16 * 1024 * 1024;

/** Opens the cache of one skill. Bytes are hashed again on each read: another program may have changed them. */
export function createRemoteFileCache(folder: string): RemoteFileCache {
  const memory = new Map<string, Uint8Array>(); // If the cache is not writable, this process still has the fetched files.
  const pathOf = (digest: string) => join(folder, digest.replace(":", "-"));
  return {
    read(digest) {
      const cached = memory.get(digest);
      if (cached) return cached;
      try {
        const bytes = readRegularFile(pathOf(digest), { limit: MAX_REMOTE_FILE_BYTES, refusesLinks: true });
        return computeBytesDigest(bytes) === digest ? bytes : undefined;
      } catch {
        return undefined;
      }
    },
    write(digest, bytes) {
      const part = `${pathOf(digest)}.${randomUUID()}`;
      try {
        createFolder(folder, 0o700);
        writeFileSync(part, bytes, { mode: 0o600, flag: "wx" });
        renameSync(part, pathOf(digest));
      } catch {
        rmSync(part, { force: true });
        memory.set(digest, bytes);
      }
    },
  };
}

function computeBytesDigest(bytes: Uint8Array): string {
  return `sha256:${hash("sha256", bytes)}`;
}
