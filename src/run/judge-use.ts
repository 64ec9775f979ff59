import { brokenSkill, type Catalog, replacedCopy } from "../catalog/catalog.ts";
import { CODES } from "../codes/findings.ts";
import type { Host } from "../host/host.ts";
import type { Notice } from "../host/sandbox.ts";
import type { ResolvedModel } from "../model/resolve.ts";
import { denials, firstDenial } from "../policy/policy.ts";
import { inLine } from "../shared/prompt.ts";
import { openHiding, type Secrets } from "../shared/redact.ts";
import { nearest } from "../shared/text.ts";
import { isFor, type Skill, withBody } from "../skill/skill.ts";
import { copySkill, type SkillCopy, withCopy } from "../source/digest.ts";
import { chainDenial } from "./chain.ts";
import { changed } from "./changed.ts";
import { readUseInput } from "./input.ts";
import { modelFor } from "./model-for.ts";
import { asNotice, hide } from "./notice.ts";
import { allSecrets, ownSecrets } from "./secrets.ts";
import type { Use, UseRequest } from "./use.ts";

export interface Judged extends ResolvedModel {
  skill: Skill;
  copy: SkillCopy;
  /** The values of its variables. */
  secrets: Secrets;
  /** Everything that nobody is shown. */
  hidden: Secrets;
  input: unknown;
  /** Whether what was passed as context is the input. */
  hasTakenContext: boolean;
}

/** Whether a skill may be used so: which is meant, then everything that speaks against it at once. */
export async function judgeUse(
  use: Pick<Use, "catalog" | "host" | "request" | "chain"> & Partial<Pick<Use, "signal">>,
  /** What was taken when it began, where it began before: the request is kept without secrets, and fits no schema any more. */
  taken?: Pick<Judged, "input" | "hasTakenContext">,
): Promise<Judged | { refusals: readonly Notice[] }> {
  const { catalog, host, request, chain } = use;
  const found = catalog.find(String(request.skill));
  if (!found) {
    const isHidden = hide(openHiding(allSecrets(new Map(), host)));
    return { refusals: [isHidden(notFound(String(request.skill), catalog, host))] };
  }
  if (found.fetch) {
    const early = denials(found, host, "use");
    if (early.length > 0) return { refusals: early.map(hide(openHiding(allSecrets(new Map(), host)))) };
    await found.fetch("all");
  }
  const skill = withBody(found);
  const { secrets, problem } = ownSecrets(skill, host);
  const hidden = allSecrets(secrets, host);
  const refuse = (refusals: readonly Notice[]) => ({ refusals: refusals.map(hide(openHiding(hidden))) });
  const denied = denials(skill, host, "use");
  // What is hidden from this caller is not described to it: its input, for one.
  const hiding = denied.filter(({ kind }) => kind === "access");
  if (hiding.length > 0) return refuse(hiding);
  const read = taken ? { ...taken, value: taken.input } : await readUseInput(skill, request);
  const resolved = await modelFor(skill, use).catch(asNotice);
  const refusals = [
    ...invocationDenial(skill, request.by),
    ...chainDenial(chain, skill, host),
    ...denied,
    ...(denied.length === 0 && problem !== undefined ? [asNotice(problem)] : []),
    ...("problem" in read ? [invalidInput(read.problem, skill)] : []),
    ...("code" in resolved ? [resolved] : []),
  ];
  if (refusals.length > 0 || "problem" in read || "code" in resolved) return refuse(refusals);
  const unready = await unreadyOf(skill, use);
  // Who was stopped did not say that it is not ready.
  if (unready.length > 0 && !use.signal?.aborted) return refuse(unready);
  const copy = copySkill(skill);
  const changes = host.trust?.changesOf(skill, copy) ?? [];
  if (changes.length > 0) return refuse([changed(skill, changes)]);
  const { value: input, hasTakenContext = false } = read;
  const warnings = [...resolved.warnings, ...replacedNotice(skill, catalog), ...leftOutNotice(skill)];
  // From here on only the copy is read: code of the run may put anything in the place of the skill's folder.
  return { skill: withCopy(skill, copy), copy, secrets, hidden, input, hasTakenContext, ...resolved, warnings };
}

/** Warns that a nearer copy of the skill does not load. */
function replacedNotice({ name }: Skill, catalog: Catalog): Notice[] {
  const { code, file, message, fix = "" } = replacedCopy(catalog, name) ?? {};
  return code === undefined ? [] : [{ code, message: `${file} ${message}`, fix }];
}

/** Warns that a file is no part of the copy that the run works with. */
function leftOutNotice(skill: Skill): Notice[] {
  const found = skill.files().findings.find(({ code }) => code === "hard-link-outside");
  if (!found) return [];
  return [{ code: found.code, message: `Skill '${skill.name}': ${found.message}`, fix: CODES[found.code].fix }];
}

/** Last, since whoever serves a capability has to be asked. */
async function unreadyOf(
  skill: Skill,
  { host, request, signal = request.signal }: Pick<Use, "host" | "request"> & Partial<Pick<Use, "signal">>,
): Promise<Notice[]> {
  const { capabilities, caller } = host;
  if (!capabilities || skill.manifest.capabilities.length === 0) return [];
  const { unready } = await import("../capability/ready.ts"); // Only who has any loads what it needs.
  return unready(capabilities, skill, { caller, signal: signal ?? new AbortController().signal });
}

/** There is none of this name: since it was left out, or is broken; or the nearest that may be known of is meant. */
export function notFound(name: string, catalog: Catalog, host: Host): Notice {
  const why = catalog.leftOut?.(name) ?? brokenOf(name, catalog);
  if (why) return why;
  const { skills } = catalog;
  const isKnown = (skill: Skill) => isFor("model", skill) && firstDenial(skill, host)?.kind !== "access";
  const visible = skills.filter(isKnown).map((skill) => skill.name);
  const meant = nearest(name, visible);
  return {
    code: "not-found",
    message: `Skill '${inLine(name, 64)}' not found`,
    fix: meant ? `did you mean '${inLine(meant, 64)}'?` : "",
  };
}

/** Nothing of the file is quoted. */
function brokenOf(name: string, catalog: Catalog): Notice | undefined {
  const broken = brokenSkill(catalog, name);
  if (!broken) return undefined;
  const place = broken.line === undefined ? "" : ` (line ${broken.line})`;
  return {
    code: "not-found",
    message: `Skill '${inLine(name, 64)}' is there, but cannot be loaded: its file ${inLine(broken.message, 300)}${place}`,
    fix: broken.fix ?? "",
  };
}

/** What a skill says about who may invoke it. */
export function invocationDenial(skill: Skill, by: UseRequest["by"]): Notice[] {
  if (by === undefined || isFor(by, skill)) return [];
  return by === "model"
    ? [
        {
          code: "not-for-models",
          message: `Skill '${skill.name}' is for the user to call, by name`,
          fix: "it says disable-model-invocation: tell the user",
        },
      ]
    : [
        {
          code: "not-for-users",
          message: `Skill '${skill.name}' is for models to call, not for users`,
          fix: "it says user-invocable: false",
        },
      ];
}

function invalidInput(problem: string, { manifest: { inputSchema } }: Skill): Notice {
  const properties = inputSchema?.["properties"];
  const names = properties !== null && typeof properties === "object" ? Object.keys(properties) : [];
  return {
    code: "input-invalid",
    message: problem,
    fix: names.length === 0 ? "give it as its input_schema says" : `its input takes: ${inLine(names.join(", "), 300)}`,
  };
}
