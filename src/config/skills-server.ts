import type { Client } from "@modelcontextprotocol/client";
import type { SkillsClient } from "@modelcontextprotocol/client/ext/skills";
import { SkillError } from "../errors/problem.ts";
import type { RemoteEntry } from "../skill/source/remote-skill.ts";
import { clampTimerMs } from "../util/async.ts";
import { loadPeer } from "../util/peer-packages.ts";
import { onMcpShutdown } from "../util/system.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import {
  connectMcpServer,
  createMcpError,
  createMcpErrors,
  formatMcpTable,
  type McpConnection,
  type McpLaunch,
} from "./mcp-connection.ts";

/** The skills that a server lists. */
export interface SkillsListing {
  skills: RemoteEntry[];
  /** Entries that cannot be used. */
  invalid: { uri: string; reason: string }[];
  /** True if the server lists more than the limit. */
  isCut: boolean;
  /** The lifetime of the listing, as set by the server. */
  ttlMs?: number;
}

/** An MCP server as a source of skills. */
export interface SkillsServer {
  /** Lists names, descriptions and digests; reads no file. Throws a SkillError. */
  list(ms: number): Promise<SkillsListing>;
  /** Reads a file of a skill, verified against its entry. Throws a SkillError. */
  read(entry: RemoteEntry, uri: string): Promise<Uint8Array>;
}

/** The maximum skills of one server. */
export const MAX_SERVER_SKILLS = 1000;
const MAX_PAGES = 60;
/** The maximum entry of one skill as JSON: its frontmatter and the digests of all its files. */
const MAX_ENTRY_BYTES = 256 * 1024;
const MAX_LISTING_BYTES = 8 * 1024 * 1024;

/** Returns the server of a launch. Each server is connected once per process. */
export function getSkillsServer(launch: McpLaunch): SkillsServer {
  const key = JSON.stringify(launch);
  const known = OPEN_SERVERS.get(key) ?? createSkillsServer(launch);
  OPEN_SERVERS.set(key, known);
  return known;
}

interface OpenedServer extends SkillsServer {
  close(): Promise<void>;
}

const OPEN_SERVERS = new Map<string, OpenedServer>();
onMcpShutdown(async () => {
  const servers = [...OPEN_SERVERS.values()];
  OPEN_SERVERS.clear();
  await Promise.all(servers.map((server) => server.close()));
});

/** Thrown if the servers of this process are closed during a request. */
export class McpServersClosedError extends Error {}

interface Connected {
  connection: McpConnection;
  skills: SkillsClient;
}

function createSkillsServer(launch: McpLaunch): OpenedServer {
  const failures = createMcpErrors(launch);
  const ending = new AbortController();
  const until = (ms: number) => AbortSignal.any([AbortSignal.timeout(clampTimerMs(ms)), ending.signal]);
  let current: Promise<Connected> | undefined;
  const open = async (ms: number): Promise<Connected> => {
    const [{ SkillsClient: SkillsClientClass }, connection] = await Promise.all([
      loadPeer.mcpSkills(),
      connectMcpServer(launch, { timeoutMs: ms, signal: until(ms), onChanged: () => {} }),
    ]);
    limitListing(connection.client);
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
        const { skills } = await waitUntilAborted(connected(ms), signal);
        if (!skills.supported) throw createUnsupportedError(launch.name);
        return parseListing(await waitUntilAborted(skills.list({}, { timeout: ms, signal }), signal));
      } catch (error) {
        void drop();
        if (ending.signal.aborted) throw new McpServersClosedError("the servers were closed", { cause: error });
        throw error instanceof SkillError ? error : failures.createStartError(error);
      }
    },
    async read(entry, uri) {
      const ms = launch.seconds * 1000;
      const signal = until(ms);
      let used: Connected | undefined;
      try {
        used = await waitUntilAborted(connected(ms), signal);
        const file = await waitUntilAborted(
          used.skills.read({ ...entry, resources: entry.resources.map((one) => ({ ...one })) }, uri, {
            timeout: ms,
            signal,
          }),
          signal,
        );
        return file.bytes;
      } catch (error) {
        if (isVerificationError(error)) throw createMismatchError(launch.name, entry, error);
        const problem = failures.createCallProblem(error, used?.connection.describeEnd());
        throw new SkillError(problem.code, problem);
      }
    },
    close() {
      ending.abort();
      return drop();
    },
  };
}

/** Stops reading pages of `skills/list` at the limit: the SDK would read all of them, or fail. */
function limitListing(client: Client): void {
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
    const isEnough = listed > MAX_SERVER_SKILLS || pages >= MAX_PAGES;
    return isEnough ? { ...rest, skills: skills.slice(0, MAX_SERVER_SKILLS + 1) } : result;
  };
  Object.assign(client, { request: bounded });
}

type ListedSkills = Awaited<ReturnType<SkillsClient["list"]>>;

function parseListing({ skills, invalid, ttlMs }: ListedSkills): SkillsListing {
  const listing: SkillsListing = { skills: [], invalid: [], isCut: skills.length + invalid.length > MAX_SERVER_SKILLS };
  const refuse = (uri: string, reason: string) =>
    listing.invalid.push({ uri: sanitizeLine(uri, 200), reason: sanitizeLine(reason, 300) });
  let room = MAX_LISTING_BYTES;
  for (const { uri, frontmatter, resources } of skills.slice(0, MAX_SERVER_SKILLS)) {
    const why = findUnusableReason(resources);
    const size = JSON.stringify([frontmatter, resources]).length;
    if (resources === "dynamic" || why !== undefined) refuse(uri, why ?? "");
    else if (size > MAX_ENTRY_BYTES) refuse(uri, "its entry is larger than 256 KiB");
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
  for (const { uri = "a skill without a URI", reason } of invalid.slice(0, MAX_INVALID)) refuse(uri, reason);
  return { ...listing, ...(ttlMs === undefined ? {} : { ttlMs }) };
}

const MAX_INVALID = 20;
/** The limits of a skill in the Skills extension. */
const SKILL_LIMITS = { files: 512, bytes: 16 * 1024 * 1024 };

function findUnusableReason(resources: ListedSkills["skills"][number]["resources"]): string | undefined {
  if (resources === "dynamic") return "its content is generated, so it cannot be verified";
  if (resources.length > SKILL_LIMITS.files) return `it has more than ${SKILL_LIMITS.files} files`;
  const bytes = resources.reduce((sum, { size }) => sum + size, 0);
  return bytes > SKILL_LIMITS.bytes ? "its files are larger than 16 MiB" : undefined;
}

/** Checks by name, because each copy of the SDK has its own class. */
function isVerificationError(error: unknown): error is Error & { reason: string; uri: string } {
  return error instanceof Error && error.name === "SkillVerificationError";
}

function createMismatchError(
  server: string,
  { frontmatter: { name } }: RemoteEntry,
  error: Error & { reason: string },
): SkillError {
  return new SkillError("remote-mismatch", {
    message: `Skill '${name}': MCP server '${server}' sent content that differs from its listing: ${sanitizeLine(error.message, 300)}`,
    fix: "if that does not help, do not use the skill; to read its listing again",
    commands: ["skillet list --refresh"],
    cause: error,
  });
}

function createUnsupportedError(name: string): SkillError {
  return createMcpError(
    name,
    "it does not serve skills",
    `set skills = false under ${formatMcpTable(name)} in config.toml`,
  );
}

async function waitUntilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort = () => {};
  const late = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
  });
  return Promise.race([work, late]).finally(() => signal.removeEventListener("abort", onAbort));
}
