import { hash } from "node:crypto";
import { realpathSync } from "node:fs";
import type { Host } from "../../host/host.ts";
import type { Notice } from "../../host/sandbox.ts";
import { unusableSchema } from "../../host/schema.ts";
import { placeOf } from "../../host/trust.ts";
import { isTrusted } from "../../policy/trust.ts";
import { storeFolder } from "../../sandbox/places.ts";
import { storedAsJudged } from "../../sandbox/store.ts";
import { defined } from "../../shared/defined.ts";
import { spellHidden } from "../../shared/hidden.ts";
import { type Hiding, openHiding } from "../../shared/redact.ts";
import { oneLine } from "../../shared/text.ts";
import type { Data } from "../../skill/data.ts";
import { plainSchema } from "../../skill/plain-schema.ts";
import { hasFolder, type Skill } from "../../skill/skill.ts";
import type { Tool, ToolOwner } from "../../skill/tool.ts";
import { findToolsetFile, parseToolsetRef } from "../../skill/toolset-ref.ts";
import type { SkillCopy } from "../../source/digest.ts";
import { changed } from "../changed.ts";
import { hostTool } from "../host-tool.ts";
import { asNotice } from "../notice.ts";
import { watchOwnSkills } from "../own-skills.ts";
import { allSecrets } from "../secrets.ts";
import { homeOf } from "../workspace-access.ts";
import type { Offer, Start } from "./messages.ts";
import { startThread, type Thread } from "./thread.ts";
import { writeKnownTools } from "./tool-cache.ts";

export interface ToolsetRequest {
  skill: Skill;
  /** Its files as they were judged: these are imported. */
  copy: SkillCopy;
  /** What nobody is shown; all that is configured, when left out. */
  hiding?: Hiding;
  /** What its code prints. Nobody reads it when left out. */
  onPrinted?(text: string): void;
}

/** The tools that a skill brings. Where something is wrong with one of its toolsets, there are none. */
export interface OpenToolsets {
  readonly tools: readonly Tool[];
  readonly problems: readonly Notice[];
  /** Why they do not answer any more, where they do not. */
  ended(): string | undefined;
  close(): void;
}

/**
 * Imports what a skill declares under `toolsets`, in a thread of its own. The thread keeps accidents away from the program around it;
 * it is no sandbox, so that only code of the user's own and what was trusted is ever imported.
 */
export async function openToolsets(host: Host, request: ToolsetRequest): Promise<OpenToolsets> {
  const { skill, copy } = request;
  if (skill.manifest.toolsets.length === 0) return none([]);
  try {
    const judged = judge(host, skill, copy);
    if ("problems" in judged) return none(judged.problems);
    const start = startOf(host, skill, {
      root: realpathSync(storedAsJudged(copy, storeFolder(homeOf(host)))),
      digests: new Map([...copy.files].map(([path, { bytes }]) => [path, hash("sha256", bytes)])),
      toolsets: judged.toolsets,
    });
    const hiding = request.hiding ?? openHiding(allSecrets(new Map(), host));
    const { onPrinted } = request;
    const thread = await startThread(start, { env: envOf(host), name: skill.name, hide: hiding.text, onPrinted });
    if ("problem" in thread) return none([of(skill, thread.problem)]);
    const unusable = await schemaProblems(skill, thread.offers);
    if (unusable.length > 0) {
      thread.close();
      return none(unusable);
    }
    const most = host.settings.limits.toolOutput;
    const offers = thread.offers.map((offer) => ({
      ...offer,
      inputSchema: plainSchema(offer.inputSchema) ?? offer.inputSchema,
    }));
    const tools = offers.map((offer) =>
      hostTool(toolOf(offer, thread, { owner: start.given.skill, host }), most, hiding),
    );
    writeKnownTools(homeOf(host), copy.digest, tools);
    return { tools, problems: [], ended: () => thread.ended(), close: () => thread.close() };
  } catch (error) {
    return none([of(skill, asNotice(error))]);
  }
}

function none(problems: readonly Notice[]): OpenToolsets {
  return { tools: [], problems, ended: () => undefined, close: () => {} };
}

/** Whether its code may be imported, and which files it is: all that speaks against it at once. */
function judge(host: Host, skill: Skill, copy: SkillCopy): Pick<Start, "toolsets"> | { problems: readonly Notice[] } {
  const untrusted = isTrusted(skill, host);
  if (untrusted) return { problems: [untrusted].flat().map(({ code, message, fix }) => ({ code, message, fix })) };
  const changes = host.trust?.changesOf(skill, copy) ?? [];
  if (changes.length > 0) return { problems: [changed(skill, changes)] };
  const found = skill.manifest.toolsets.map((written) => toolsetOf(written, skill, copy));
  const problems = found.filter((one) => "code" in one);
  return problems.length > 0 ? { problems } : { toolsets: found.filter((one) => "file" in one) };
}

function toolsetOf(written: string, skill: Skill, { files }: SkillCopy): { file: string; export: string } | Notice {
  const ref = parseToolsetRef(written);
  const shown = oneLine(written, 120);
  if ("problem" in ref) {
    return of(skill, {
      code: "toolset-ref",
      message: `"${shown}" ${ref.problem}`,
      fix: "write it as toolsets/index:MyToolset: a file in the skill's folder, and what it exports",
    });
  }
  const isThere = (path: string) => hasFolder(skill.origin) && path !== "SKILL.md" && files.has(path);
  const file = findToolsetFile(ref, isThere);
  if (file !== undefined) return { file, export: ref.export };
  return of(skill, {
    code: "toolset-missing",
    message: `"${shown}" names a file that is not in the skill's folder`,
    fix: `add ${oneLine(ref.path, 120)}.ts, or correct the path`,
  });
}

function startOf(
  host: Host,
  skill: Skill,
  { root, digests, toolsets }: Pick<Start, "root" | "digests" | "toolsets">,
): Start {
  const owner = { name: skill.name, source: skill.origin.source, place: placeOf(skill) };
  return {
    root,
    digests,
    folder: skill.origin.folder ?? root,
    hasPackages: (host.trust?.standingOf(skill) ?? "own") === "own",
    toolsets,
    given: { skill: owner, ...defined({ workspace: host.workspace, caller: host.caller }) },
  };
}

/** What of the host's environment there is in the thread: nothing that could be a secret. */
const PASSED = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"] as const;

function envOf(host: Host): Record<string, string> {
  const env = host.env ?? process.env;
  return Object.fromEntries(PASSED.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

async function schemaProblems(skill: Skill, offers: readonly Offer[]): Promise<Notice[]> {
  const problems = await Promise.all(
    offers.map(async ({ name, inputSchema }) => ({ name, problem: await schemaProblem(inputSchema) })),
  );
  return problems.flatMap(({ name, problem }) => {
    if (problem === undefined) return [];
    const message = `its tool "${name}" has an \`inputSchema\` that cannot be used: ${problem}`;
    return of(skill, { code: "toolset-broken", message, fix: "give its `parameters` as a schema of zod" });
  });
}

/** A schema is read by models too. */
async function schemaProblem(schema: Data): Promise<string | undefined> {
  if (!plainSchema(schema)) return "it has hidden characters in names or values";
  return unusableSchema(schema);
}

const LONGEST_DESCRIPTION = 4096;

function toolOf(
  { name, description, inputSchema, hasEffect }: Offer,
  thread: Thread,
  { owner, host }: { owner: ToolOwner; host: Host },
): Tool {
  return {
    name: `${owner.name}.${name}`,
    description: spellHidden(description).text.slice(0, LONGEST_DESCRIPTION),
    category: "skills",
    inputSchema,
    owner,
    ...(hasEffect ? { effect: (input: unknown) => thread.effect(name, input) } : {}),
    execute: (input, options) => watchOwnSkills(host, () => thread.call(name, input, { ...options, skill: owner })),
  };
}

function of({ name }: Skill, { code, message, fix }: Notice): Notice {
  return { code, message: `Toolset of skill '${name}': ${message.replace(/^Its /, "its ")}`, fix };
}
