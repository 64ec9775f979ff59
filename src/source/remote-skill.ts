import { hash } from "node:crypto";
import { SkillError } from "../shared/error.ts";
import { byText } from "../shared/text.ts";
import type { Data } from "../skill/data.ts";
import type { Finding } from "../skill/diagnostic.ts";
import { findFrame, trimBody } from "../skill/frame.ts";
import { type Manifest, readManifest } from "../skill/manifest.ts";
import type { FileList, Origin, RemoteOrigin, Skill, SkillFingerprint } from "../skill/skill.ts";
import { unlisted, withoutPrototypes } from "./file-skill.ts";
import type { RemoteFiles } from "./remote-files.ts";

/** A skill as an MCP server lists it. Contract: valid by the Skills extension; `resources` is complete. */
export interface RemoteEntry {
  uri: string;
  frontmatter: { name: string; description: string; [key: string]: unknown };
  resources: readonly RemoteResource[];
}

export interface RemoteResource {
  uri: string;
  digest: string;
  size: number;
}

/** Downloads one file of a skill. Contract: the bytes were verified against the entry. */
export type Download = (entry: RemoteEntry, uri: string) => Promise<Uint8Array>;

export interface RemoteSkillParts {
  server: string;
  entry: RemoteEntry;
  findings: readonly Finding[];
  files: RemoteFiles;
  download: Download;
}

const OWN_FILE = "SKILL.md";
/** Requests at once, of one skill. */
const PARALLEL = 6;

/** A skill of an MCP server: its metadata is that of the listing; its files are fetched when they are needed, and cached. */
export class RemoteSkill implements Skill {
  readonly name: string;
  readonly description: string;
  readonly origin: Origin & { remote: RemoteOrigin };
  readonly findings: readonly Finding[];
  readonly entry: RemoteEntry;
  readonly #resources: ReadonlyMap<string, RemoteResource>;
  readonly #files: RemoteFiles;
  readonly #download: Download;
  #manifest: Manifest | undefined;
  #body: string | undefined;

  constructor({ server, entry, findings, files, download }: RemoteSkillParts) {
    const { uri, frontmatter, resources } = entry;
    this.name = frontmatter.name;
    this.description = frontmatter.description.trim();
    const remote = { server, uri, digest: resourcesDigest(resources) };
    this.origin = { scope: "integration", source: remoteSourceName(server), form: "folder", remote };
    this.findings = findings;
    this.entry = entry;
    this.#resources = new Map(resources.map((resource) => [pathIn(uri, resource.uri), resource]));
    this.#files = files;
    this.#download = download;
  }

  get manifest(): Manifest {
    this.#manifest ??= readManifest(withoutPrototypes(this.entry.frontmatter) as Data);
    return this.#manifest;
  }

  fingerprint(): SkillFingerprint {
    const { remote, source } = this.origin;
    return { file: `${source} ${remote.uri}`, value: remote.digest, changedAt: 0 };
  }

  body(): string {
    this.#body ??= bodyIn(Buffer.from(this.read(OWN_FILE)).toString("utf8"));
    return this.#body;
  }

  files(): FileList {
    const files = [...this.#resources]
      .filter(([path]) => path !== OWN_FILE)
      .map(([path, { size }]) => ({ path, size, executable: false }))
      .sort((a, b) => byText(a.path, b.path));
    return { files, findings: [] };
  }

  examples(): readonly string[] {
    return this.manifest.triggers.examples;
  }

  /** Also reads SKILL.md, as the server sent it. */
  read(path: string): Uint8Array {
    const resource = this.#resources.get(path);
    if (!resource) throw unlisted(this.name, path, this.files().files);
    const bytes = this.#files.read(resource.digest);
    if (bytes) return bytes;
    throw new SkillError("remote-not-fetched", {
      message: `"${path}" of skill "${this.name}" (from ${this.origin.source}) has not been fetched`,
      fix: "await skill.fetch() before you read it",
    });
  }

  async fetch(files: "all" | readonly string[] = []): Promise<void> {
    const wanted = files === "all" ? [...this.#resources.keys()] : [...new Set([OWN_FILE, ...files])];
    const missing = wanted.filter((path) => {
      const digest = this.#resources.get(path)?.digest;
      return digest !== undefined && !this.#files.read(digest); // What is not listed is refused where it is read.
    });
    // Its own file goes first: of a skill that is not what was listed, nothing else is fetched.
    const groups = [missing.filter((path) => path === OWN_FILE), missing.filter((path) => path !== OWN_FILE)];
    for (const group of groups) {
      for (let at = 0; at < group.length; at += PARALLEL) {
        await Promise.all(group.slice(at, at + PARALLEL).map((path) => this.#fetchOne(path)));
      }
    }
  }

  /** Returns what the server listed for a file. */
  resourceAt(path: string): RemoteResource | undefined {
    return this.#resources.get(path);
  }

  /** Returns the size of SKILL.md in bytes, which is known without reading it. */
  ownSize(): number {
    return this.#resources.get(OWN_FILE)?.size ?? 0;
  }

  async #fetchOne(path: string): Promise<void> {
    const resource = this.#resources.get(path);
    if (resource) this.#files.write(resource.digest, await this.#download(this.entry, resource.uri));
  }
}

/** The name of the source with the skills of an MCP server. */
export function remoteSourceName(server: string): string {
  return `mcp:${server}`;
}

/** Returns the path of a listed file below the folder of its SKILL.md. Contract: the entry is valid, so the URI is inside. */
function pathIn(skillUri: string, uri: string): string {
  const root = new URL(skillUri).href.slice(0, -OWN_FILE.length);
  return new URL(uri).href.slice(root.length).split("/").map(decoded).join("/");
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function resourcesDigest(resources: readonly RemoteResource[]): string {
  const pairs = resources.map(({ uri, digest }) => [uri, digest] as const).sort(([a], [b]) => byText(a, b));
  return `sha256:${hash("sha256", JSON.stringify(pairs))}`;
}

function bodyIn(text: string): string {
  const frame = findFrame(text);
  return "start" in frame && frame.closed ? trimBody(frame.text.slice(frame.bodyStart)) : "";
}
