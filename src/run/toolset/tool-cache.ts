import { join } from "node:path";
import { spellHidden } from "../../shared/hidden.ts";
import { type Data, isData } from "../../skill/data.ts";
import { TOOL_ID } from "../../skill/define-tool.ts";
import { plainSchema } from "../../skill/plain-schema.ts";
import type { Tool } from "../../skill/tool.ts";
import { readCacheFile, writeCacheFile } from "../../source/cache-file.ts";
import type { Offer } from "./messages.ts";

const BOUNDS = { ending: ".tools", mostBytes: 1024 * 1024, mostFiles: 256 };
const MOST_TOOLS = 64;

/** Returns the tools that the toolsets of a skill had when its files had this digest. */
export function readKnownTools(home: string, digest: string): readonly Offer[] | undefined {
  const bytes = readCacheFile(fileFor(home, digest), BOUNDS);
  if (!bytes) return undefined;
  try {
    const offers = (JSON.parse(Buffer.from(bytes).toString("utf8")) as unknown[]).map(offerIn);
    return offers.length > 0 && offers.length <= MOST_TOOLS && offers.every((offer) => offer !== undefined)
      ? offers
      : undefined;
  } catch {
    return undefined;
  }
}

/** Keeps the tools of a skill's toolsets, so that they can be listed before the toolsets are imported the next time. */
export function writeKnownTools(home: string, digest: string, tools: readonly Tool[]): void {
  const offers = tools.map(
    ({ name, owner, description, inputSchema, effect }): Offer => ({
      name: owner ? name.slice(owner.name.length + 1) : name,
      description,
      inputSchema,
      hasEffect: effect !== undefined,
    }),
  );
  const folder = folderIn(home);
  writeCacheFile(folder, fileFor(home, digest), Buffer.from(JSON.stringify(offers)), BOUNDS);
}

function folderIn(home: string): string {
  return join(home, "cache", "toolsets");
}

function fileFor(home: string, digest: string): string {
  return join(folderIn(home), `${digest.replace(/[^\w-]/g, "")}${BOUNDS.ending}`);
}

function offerIn(value: unknown): Offer | undefined {
  const { name, description, inputSchema, hasEffect } = Object(value) as Partial<Offer>;
  if (typeof name !== "string" || !TOOL_ID.test(name) || typeof description !== "string") return undefined;
  const schema = isData(inputSchema) ? (plainSchema(inputSchema as Data) ?? undefined) : undefined;
  if (schema?.["type"] !== "object" || spellHidden(description).text !== description) return undefined;
  return { name, description, inputSchema: schema, hasEffect: hasEffect === true };
}
