import { hash } from "node:crypto";
import { realpathSync } from "node:fs";
import { join } from "node:path";
import type { Host } from "../../config/host.ts";
import { type Problem, pickProblem } from "../../errors/problem.ts";
import { findSchemaError } from "../../host/json-schema.ts";
import { getSkillStoreFolder, storeVerifiedCopy } from "../../sandbox/sandbox-folders.ts";
import { sanitizeSchema, TOOL_ID } from "../../skill/define-tool.ts";
import { parseToolsetRef } from "../../skill/manifest-fields.ts";
import { hasFolder, type Skill } from "../../skill/skill.ts";
import { findToolsetFile } from "../../skill/skill-code.ts";
import type { SkillCopy } from "../../skill/source/skill-copy.ts";
import type { Tool, ToolOwner, ToolSandbox } from "../../skill/tool.ts";
import { readCacheFile, writeCacheFile } from "../../store/json-store.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import type { Redactor, Secrets } from "../../util/redact.ts";
import { truncateLine } from "../../util/text.ts";
import { escapeInvisible } from "../../util/untrusted-text.ts";
import { describeTrustChange, trustPolicy } from "../policy/trust-policy.ts";
import { createHostRedactor } from "../run/redaction.ts";
import { toProblem } from "../run/run-result.ts";
import { wrapHostTool } from "../tools/tool-output.ts";
import { resolveSkilletHome, watchOwnSkills } from "../workspace/sandbox-permissions.ts";
import { startToolsetThread, type ThreadStart, type ToolsetOffer, type ToolsetThread } from "./toolset-thread.ts";

interface ToolsetRequest {
  skill: Skill;
  /** The checked files, which are the ones imported. */
  copy: SkillCopy;
  /** Defaults to a redactor for all configured secrets. */
  redactor?: Redactor;
  /** Receives the output of its code. Discarded by default. */
  onPrinted?(text: string): void;
}

/** The tools that a skill provides. Empty if one of its toolsets is broken. */
export interface OpenToolsets {
  readonly tools: readonly Tool[];
  readonly problems: readonly Problem[];
  /** Returns why the tools no longer answer, or undefined while they do. */
  getEndReason(): string | undefined;
  close(): void;
}

/**
 * Imports the `toolsets` of a skill in a separate thread. The thread protects the host from accidents but is not a sandbox: only the
 * user's own code and trusted code is imported.
 */
export async function openToolsets(host: Host, request: ToolsetRequest): Promise<OpenToolsets> {
  const { skill, copy } = request;
  if (skill.manifest.toolsets.length === 0) return createNoToolsets([]);
  try {
    const checked = checkToolsets(host, skill, copy);
    if ("problems" in checked) return createNoToolsets(checked.problems);
    const start = createThreadStart(host, skill, {
      root: realpathSync(storeVerifiedCopy(copy, getSkillStoreFolder(resolveSkilletHome(host)))),
      digests: new Map([...copy.files].map(([path, { bytes }]) => [path, hash("sha256", bytes)])),
      toolsets: checked.toolsets,
    });
    const redactor = request.redactor ?? createHostRedactor(host);
    const { onPrinted } = request;
    const thread = await startToolsetThread(start, {
      env: createThreadEnv(host),
      name: skill.name,
      redact: redactor.redact,
      onPrinted,
    });
    if ("problem" in thread) return createNoToolsets([createToolsetProblem(skill, thread.problem)]);
    const unusable = await findSchemaProblems(skill, thread.offers);
    if (unusable.length > 0) {
      thread.close();
      return createNoToolsets(unusable);
    }
    const max = host.settings.limits.toolOutput;
    const offers = thread.offers.map((offer) => ({
      ...offer,
      inputSchema: sanitizeSchema(offer.inputSchema) ?? offer.inputSchema,
    }));
    const tools = offers.map((offer) =>
      wrapHostTool(
        createToolsetTool(offer, thread, { owner: { ...start.given.skill, digest: copy.digest }, host }),
        max,
        redactor,
      ),
    );
    writeCachedTools(resolveSkilletHome(host), copy.digest, tools);
    return { tools, problems: [], getEndReason: () => thread.getEndReason(), close: () => thread.close() };
  } catch (error) {
    return createNoToolsets([createToolsetProblem(skill, toProblem(error))]);
  }
}

function createNoToolsets(problems: readonly Problem[]): OpenToolsets {
  return { tools: [], problems, getEndReason: () => undefined, close: () => {} };
}

/** Checks that the code may be imported and finds its files. Returns all problems at once. */
function checkToolsets(
  host: Host,
  skill: Skill,
  copy: SkillCopy,
): Pick<ThreadStart, "toolsets"> | { problems: readonly Problem[] } {
  const untrusted = trustPolicy(skill, host);
  if (untrusted) return { problems: [untrusted].flat().map(pickProblem) };
  const changes = host.trust?.findChanges(skill, copy) ?? [];
  if (changes.length > 0) return { problems: [describeTrustChange(skill, changes)] };
  const found = skill.manifest.toolsets.map((written) => resolveToolset(written, skill, copy));
  const problems = found.filter((one) => "code" in one);
  return problems.length > 0 ? { problems } : { toolsets: found.filter((one) => "file" in one) };
}

function resolveToolset(
  written: string,
  skill: Skill,
  { files }: SkillCopy,
): { file: string; export: string } | Problem {
  const ref = parseToolsetRef(written);
  const shown = truncateLine(written, 120);
  if ("problem" in ref) {
    return createToolsetProblem(skill, {
      code: "toolset-ref",
      message: `"${shown}" ${ref.problem}`,
      fix: "use the form toolsets/index:MyToolset: a file in the skill's folder and one of its exports",
    });
  }
  const isThere = (path: string) => hasFolder(skill.origin) && path !== "SKILL.md" && files.has(path);
  const file = findToolsetFile(ref, isThere);
  if (file !== undefined) return { file, export: ref.export };
  return createToolsetProblem(skill, {
    code: "toolset-missing",
    message: `"${shown}" names a file that is not in the skill's folder`,
    fix: `add ${truncateLine(ref.path, 120)}.ts, or correct the path`,
  });
}

function createThreadStart(
  host: Host,
  skill: Skill,
  { root, digests, toolsets }: Pick<ThreadStart, "root" | "digests" | "toolsets">,
): ThreadStart {
  const owner = { name: skill.name, source: skill.origin.source, location: getSkillLocation(skill) };
  return {
    root,
    digests,
    folder: skill.origin.folder ?? root,
    hasPackages: (host.trust?.getStatus(skill) ?? "own") === "own",
    toolsets,
    given: { skill: owner, ...omitUndefined({ workspace: host.workspace, caller: host.caller }) },
  };
}

/** The environment variables that the thread gets: none that could be a secret. */
const THREAD_VARIABLES = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"] as const;

function createThreadEnv(host: Host): Record<string, string> {
  const env = host.env ?? process.env;
  return Object.fromEntries(THREAD_VARIABLES.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

async function findSchemaProblems(skill: Skill, offers: readonly ToolsetOffer[]): Promise<Problem[]> {
  const problems = await Promise.all(
    offers.map(async ({ name, inputSchema }) => ({ name, problem: await findSchemaProblem(inputSchema) })),
  );
  return problems.flatMap(({ name, problem }) => {
    if (problem === undefined) return [];
    const message = `its tool "${name}" has an \`inputSchema\` that is invalid: ${problem}`;
    return createToolsetProblem(skill, {
      code: "toolset-broken",
      message,
      fix: "define its `parameters` with zod",
    });
  });
}

/** Returns the problem of a schema. Models read it too, so it may not contain hidden characters. */
async function findSchemaProblem(schema: JsonObject): Promise<string | undefined> {
  if (!sanitizeSchema(schema)) return "it has hidden characters in names or values";
  return findSchemaError(schema);
}

const MAX_TOOL_DESCRIPTION = 4096;

function createToolsetTool(
  { name, description, inputSchema, hasEffect, isReadOnly }: ToolsetOffer,
  thread: ToolsetThread,
  { owner, host }: { owner: ToolOwner; host: Host },
): Tool {
  return {
    name: `${owner.name}.${name}`,
    description: escapeInvisible(description).text.slice(0, MAX_TOOL_DESCRIPTION),
    category: "skills",
    inputSchema,
    owner,
    ...(hasEffect ? { effect: (input: unknown) => thread.effect(name, input) } : {}),
    ...(isReadOnly ? { isReadOnly } : {}),
    execute: (input, options) => watchOwnSkills(host, () => thread.call(name, input, { ...options, skill: owner })),
  };
}

function createToolsetProblem({ name }: Skill, problem: Problem): Problem {
  return { ...problem, message: `Toolset of skill '${name}': ${problem.message}` };
}

interface LazySandboxOptions {
  skill: Skill;
  copy: SkillCopy;
  secrets: Secrets;
  redactor: Redactor;
  signal: AbortSignal;
}

/** Creates the sandbox of a skill's tools outside a run. It is opened when a tool first starts a program. */
export function createLazySandbox(host: Host, request: LazySandboxOptions): ToolSandbox {
  let opened: Promise<ToolSandbox> | undefined;
  const open = async (): Promise<ToolSandbox> => {
    const { createToolSandbox, openRunSandbox } = await import("../workspace/run-sandbox.ts");
    return createToolSandbox(await openRunSandbox(host, { ...request, kind: "script", onProgress: () => {} }));
  };
  return {
    async run(argv, options) {
      opened ??= open();
      return (await opened).run(argv, options);
    },
  };
}

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
function writeCachedTools(home: string, digest: string, tools: readonly Tool[]): void {
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
