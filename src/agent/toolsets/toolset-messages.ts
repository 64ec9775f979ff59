import { join } from "node:path";
import type { ErrorCode } from "../../errors/error-codes.ts";
import type { Problem } from "../../errors/problem.ts";
import type { Caller } from "../../host/approval.ts";
import { sanitizeSchema, TOOL_ID } from "../../skill/define-tool.ts";
import type { Tool, ToolEffect, ToolOutcome, ToolOwner, ToolResult } from "../../skill/tool.ts";
import { readCacheFile, writeCacheFile } from "../../store/json-store.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { escapeInvisible } from "../../util/untrusted-text.ts";

/** The start options of a toolset's thread. */
export interface ThreadStart {
  /** The folder of the checked copy of the skill. */
  root: string;
  /** The SHA-256 of each file by path: no other file is imported. */
  digests: ReadonlyMap<string, string>;
  /** The skill's own folder: shown in messages, and used to find packages. */
  folder: string;
  /** True if packages installed next to the skill may be imported: they are not part of the trusted files. */
  hasPackages: boolean;
  toolsets: readonly { file: string; export: string }[];
  given: ToolsetContext;
}

/** The argument for the constructor of a toolset class. */
export interface ToolsetContext {
  skill: ToolOwner;
  workspace?: string;
  caller?: Caller;
}

/** A tool as the thread describes it. */
export interface ToolsetOffer {
  name: string;
  description: string;
  inputSchema: JsonObject;
  hasEffect: boolean;
  isReadOnly: boolean;
}

/** The options of a call, without its input. */
export interface ThreadCall {
  run?: string;
  key?: string;
  skill?: ToolOwner;
  env?: Readonly<Record<string, string>>;
  hasSandbox: boolean;
}

export type MessageToThread =
  | { type: "call"; id: number; tool: string; input: unknown; call: ThreadCall }
  | { type: "effect"; id: number; tool: string; input: unknown }
  | { type: "abort"; id: number }
  | { type: "ran"; program: number; outcome: ToolOutcome }
  | { type: "not-run"; program: number; code: ErrorCode; message: string };

export type MessageFromThread =
  | { type: "ready"; offers: readonly ToolsetOffer[] }
  | { type: "problem"; problem: Problem }
  | { type: "called"; id: number; result: ToolResult }
  | { type: "effect"; id: number; effect: ToolEffect | undefined }
  | { type: "printed"; text: string }
  | { type: "progress"; id: number; text: string }
  | { type: "run"; id: number; program: number; argv: readonly [string, ...string[]]; stdin?: string; seconds?: number }
  | { type: "stop"; program: number };

const TOOL_CACHE_BOUNDS = { ending: ".tools", mostBytes: 1024 * 1024, mostFiles: 256 };
const MAX_CACHED_TOOLS = 64;

/** Returns the tools that the skill's toolsets had when its files had this digest. */
export function readCachedTools(home: string, digest: string): readonly ToolsetOffer[] | undefined {
  const bytes = readCacheFile(getToolCacheFile(home, digest), TOOL_CACHE_BOUNDS);
  if (!bytes) return undefined;
  try {
    const offers = (JSON.parse(Buffer.from(bytes).toString("utf8")) as unknown[]).map(readOffer);
    return offers.length > 0 && offers.length <= MAX_CACHED_TOOLS && offers.every((offer) => offer !== undefined)
      ? offers
      : undefined;
  } catch {
    return undefined;
  }
}

/** Caches the tools of a skill's toolsets, so that they can be listed before the next import. */
export function writeCachedTools(home: string, digest: string, tools: readonly Tool[]): void {
  const offers = tools.map(
    ({ name, owner, description, inputSchema, effect, isReadOnly = false }): ToolsetOffer => ({
      name: owner ? name.slice(owner.name.length + 1) : name,
      description,
      inputSchema,
      hasEffect: effect !== undefined,
      isReadOnly,
    }),
  );
  const folder = getToolCacheFolder(home);
  writeCacheFile(folder, getToolCacheFile(home, digest), Buffer.from(JSON.stringify(offers)), TOOL_CACHE_BOUNDS);
}

function getToolCacheFolder(home: string): string {
  return join(home, "cache", "toolsets");
}

function getToolCacheFile(home: string, digest: string): string {
  return join(getToolCacheFolder(home), `${digest.replace(/[^\w-]/g, "")}${TOOL_CACHE_BOUNDS.ending}`);
}

function readOffer(value: unknown): ToolsetOffer | undefined {
  const { name, description, inputSchema, hasEffect, isReadOnly } = Object(value) as Partial<ToolsetOffer>;
  if (typeof name !== "string" || !TOOL_ID.test(name) || typeof description !== "string") return undefined;
  const schema = isJsonObject(inputSchema) ? (sanitizeSchema(inputSchema as JsonObject) ?? undefined) : undefined;
  if (schema?.["type"] !== "object" || escapeInvisible(description).text !== description) return undefined;
  return { name, description, inputSchema: schema, hasEffect: hasEffect === true, isReadOnly: isReadOnly === true };
}
