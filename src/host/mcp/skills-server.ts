import type { Client } from "@modelcontextprotocol/client";
import type { SkillsClient } from "@modelcontextprotocol/client/ext/skills";
import { SkillError } from "../../shared/error.ts";
import { timerMs } from "../../shared/patience.ts";
import { inLine } from "../../shared/prompt.ts";
import type { RemoteEntry } from "../../source/remote-skill.ts";
import { loadPeer } from "../peers.ts";
import { type Connection, connect } from "./connect.ts";
import { onClosing } from "./end.ts";
import { openFailures } from "./failure.ts";
import { failed, type Launch, tableOf } from "./launch.ts";

/** The skills of a server, as it lists them. */
export interface SkillsListing {
  skills: RemoteEntry[];
  /** Entries that cannot be used. */
  invalid: { uri: string; reason: string }[];
  /** The server listed more than is read. */
  isCut: boolean;
  /** For how long the listing is current, as the server states it. */
  ttlMs?: number;
}

/** An MCP server as a source of skills. */
export interface SkillsServer {
  /** Lists names, descriptions and digests; reads no file. Throws a SkillError. */
  list(ms: number): Promise<SkillsListing>;
  /** Reads a file of a skill, verified against its entry. Throws a SkillError. */
  read(entry: RemoteEntry, uri: string): Promise<Uint8Array>;
}

/** Skills of one server that are read. */
export const MOST_SKILLS = 1000;
const MOST_PAGES = 60;
/** Of one skill, as JSON: what a file may have as frontmatter, and the digests of all its files. */
const LARGEST_ENTRY = 256 * 1024;
const LARGEST_LISTING = 8 * 1024 * 1024;

/** Returns the server that is reached so. Within a process each server is connected once. */
export function skillsServer(launch: Launch): SkillsServer {
  const key = JSON.stringify(launch);
  const known = OPENED.get(key) ?? openSkillsServer(launch);
  OPENED.set(key, known);
  return known;
}

interface OpenedServer extends SkillsServer {
  close(): Promise<void>;
}

const OPENED = new Map<string, OpenedServer>();
onClosing(async () => {
  const servers = [...OPENED.values()];
  OPENED.clear();
  await Promise.all(servers.map((server) => server.close()));
});

/** Thrown when the servers of this process are closed while one is asked. */
export class ServersClosed extends Error {}

interface Connected {
  connection: Connection;
  skills: SkillsClient;
}

function openSkillsServer(launch: Launch): OpenedServer {
  const failures = openFailures(launch);
  const ending = new AbortController();
  const until = (ms: number) => AbortSignal.any([AbortSignal.timeout(timerMs(ms)), ending.signal]);
  let current: Promise<Connected> | undefined;
  const open = async (ms: number): Promise<Connected> => {
    const [{ SkillsClient: SkillsClientClass }, connection] = await Promise.all([
      loadPeer.mcpSkills(),
      connect(launch, { ms, signal: until(ms), onChanged: () => {} }),
    ]);
    boundListing(connection.client);
    return { connection, skills: new SkillsClientClass(connection.client, { skipInvalid: true }) };
  };
  const connected = async (ms: number): Promise<Connected> => {
    const known = await current?.catch(() => undefined);
    if (known?.connection.isOpen()) return known;
    current = open(ms);
    return current;
  };
  const drop = async () => {
    const known = await current?.catch(() => undefined);
    current = undefined;
    await known?.connection.close();
  };
  return {
    async list(ms) {
      const signal = until(ms);
      try {
        const { skills } = await inTime(connected(ms), signal);
        if (!skills.supported) throw notSupported(launch.name);
        return readListing(await inTime(skills.list({}, { timeout: ms, signal }), signal));
      } catch (error) {
        void drop();
        if (ending.signal.aborted) throw new ServersClosed("the servers were closed", { cause: error });
        throw error instanceof SkillError ? error : failures.ofStart(error);
      }
    },
    async read(entry, uri) {
      const ms = launch.seconds * 1000;
      const signal = until(ms);
      let used: Connected | undefined;
      try {
        used = await inTime(connected(ms), signal);
        const file = await inTime(
          used.skills.read({ ...entry, resources: entry.resources.map((one) => ({ ...one })) }, uri, {
            timeout: ms,
            signal,
          }),
          signal,
        );
        return file.bytes;
      } catch (error) {
        if (isVerificationError(error)) throw mismatch(launch.name, entry, error);
        const { code, message, fix } = failures.ofCall(error, used?.connection.last());
        throw new SkillError(code, { message, fix });
      }
    },
    close() {
      ending.abort();
      return drop();
    },
  };
}

/** Ends the walk through the pages of `skills/list` where a server lists more than is read: the SDK would read all, or fail. */
function boundListing(client: Client): void {
  const request = client.request.bind(client) as (...args: unknown[]) => Promise<unknown>;
  let pages = 0;
  let listed = 0;
  const bounded = async (...args: unknown[]) => {
    const { method, params } = args[0] as { method: string; params?: { cursor?: string } };
    const result = await request(...args);
    if (method !== "skills/list") return result;
    if (params?.cursor === undefined) [pages, listed] = [0, 0];
    const { skills, nextCursor, ...rest } = result as { skills: unknown[]; nextCursor?: string };
    pages += 1;
    listed += skills.length;
    const isEnough = listed > MOST_SKILLS || pages >= MOST_PAGES;
    return isEnough ? { ...rest, skills: skills.slice(0, MOST_SKILLS + 1) } : result;
  };
  Object.assign(client, { request: bounded });
}

type Listed = Awaited<ReturnType<SkillsClient["list"]>>;

function readListing({ skills, invalid, ttlMs }: Listed): SkillsListing {
  const listing: SkillsListing = { skills: [], invalid: [], isCut: skills.length + invalid.length > MOST_SKILLS };
  const refuse = (uri: string, reason: string) =>
    listing.invalid.push({ uri: inLine(uri, 200), reason: inLine(reason, 300) });
  let room = LARGEST_LISTING;
  for (const { uri, frontmatter, resources } of skills.slice(0, MOST_SKILLS)) {
    const why = whyNotUsed(resources);
    const size = JSON.stringify([frontmatter, resources]).length;
    if (resources === "dynamic" || why !== undefined) refuse(uri, why ?? "");
    else if (size > LARGEST_ENTRY) refuse(uri, "its entry is larger than 256 KiB");
    else if (size > room) listing.isCut = true;
    else {
      room -= size;
      listing.skills.push({
        uri,
        frontmatter,
        resources: resources.map(({ uri, digest, size }) => ({ uri, digest, size })),
      });
    }
  }
  for (const { uri = "a skill without a URI", reason } of invalid.slice(0, MOST_INVALID)) refuse(uri, reason);
  return { ...listing, ...(ttlMs === undefined ? {} : { ttlMs }) };
}

const MOST_INVALID = 20;
/** What the Skills extension lets a skill have. */
const LIMITS = { files: 512, bytes: 16 * 1024 * 1024 };

function whyNotUsed(resources: Listed["skills"][number]["resources"]): string | undefined {
  if (resources === "dynamic") return "its content is generated, so that it cannot be verified";
  if (resources.length > LIMITS.files) return `it has more than ${LIMITS.files} files`;
  const bytes = resources.reduce((sum, { size }) => sum + size, 0);
  return bytes > LIMITS.bytes ? "its files are larger than 16 MiB" : undefined;
}

/** The class is another one in each copy of the SDK. */
function isVerificationError(error: unknown): error is Error & { reason: string; uri: string } {
  return error instanceof Error && error.name === "SkillVerificationError";
}

function mismatch(
  server: string,
  { frontmatter: { name } }: RemoteEntry,
  error: Error & { reason: string },
): SkillError {
  return new SkillError("remote-mismatch", {
    message: `Skill '${name}': MCP server '${server}' sent other content than it listed: ${inLine(error.message, 300)}`,
    fix: "run `skillet list --refresh` to read its listing again; if it stays so, do not use the skill",
    cause: error,
  });
}

function notSupported(name: string): SkillError {
  return failed(name, "it does not serve skills", `set skills = false under ${tableOf(name)} in config.toml`);
}

async function inTime<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort = () => {};
  const late = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
  });
  return Promise.race([work, late]).finally(() => signal.removeEventListener("abort", onAbort));
}
