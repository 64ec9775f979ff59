import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { brokenSkill, type Catalog } from "../catalog/catalog.ts";
import type { ErrorCode } from "../codes/codes.ts";
import type { Host } from "../host/host.ts";
import { isInside } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import type { Profile } from "../skill/diagnostic.ts";
import { RULES } from "../skill/lint.ts";
import { toSkillMd } from "../skill/render.ts";
import type { Skill } from "../skill/skill.ts";
import type { ToolResult } from "../skill/tool.ts";
import { type CheckedFile, checkPath, checkText } from "../source/check.ts";

export interface Judged {
  skill: string | undefined;
  path: string | undefined;
  content: string | undefined;
  profile: Profile;
}
type What = "structure" | "style";
export interface JudgeScene {
  host: Host;
  /** What speaks against a model's knowing of the skill. */
  refusalOf(skill: Skill): ToolResult | undefined;
}

const MOST = 50;

/** Checks a skill by its name, a path, or a text: its structure and metadata, or the style of its instructions. */
export function judge(what: What, request: Judged, catalog: Catalog, { host, refusalOf }: JudgeScene): ToolResult {
  const { skill, path, content, profile } = request;
  const skillsFolders = catalog.sources.flatMap((source) => source.path ?? []);
  if ([skill, path, content].filter((given) => given !== undefined).length !== 1)
    return refuse("input-invalid", 'Invalid input: give one of "skill", "path" and "content".');
  if (content !== undefined) return report([checkText(content, { profile })], what, profile);
  if (path !== undefined) {
    const found = allowedPath(path, catalog, host);
    if (found === undefined)
      return refuse(
        "path-outside",
        `"${inLine(path, 200)}" is not in the workspace or a folder of skills, or is not there.`,
      );
    return reportPath(found, what, { profile, skillsFolders });
  }
  const named = catalog.find(skill ?? "");
  const refusal = named && refusalOf(named);
  if (refusal) return refusal;
  if (named && named.origin.file === undefined)
    return report([checkText(toSkillMd(named), { profile })], what, profile);
  const file = named ? named.origin.file : brokenSkill(catalog, skill ?? "")?.file;
  if (file !== undefined) return reportPath(file, what, { profile, skillsFolders });
  const why = catalog.leftOut?.(skill ?? "");
  return why
    ? refuse(why.code, `${why.message}: ${why.fix}`)
    : refuse("not-found", `Skill '${inLine(skill ?? "", 64)}' not found`);
}

function reportPath(path: string, what: What, options: { profile: Profile; skillsFolders: string[] }): ToolResult {
  const { files, diagnostics } = checkPath(path, options);
  if (files.length > 0) return report(files, what, options.profile);
  return refuse("not-found", diagnostics.map(({ message }) => message).join("; ") || "There is no skill here.");
}

/** A model may name only what skills could be in: nothing else on this machine is read, or said to be there. */
function allowedPath(path: string, catalog: Catalog, host: Host): string | undefined {
  const roots = [host.workspace, ...catalog.sources.map((source) => source.path)].flatMap((root) => real(root) ?? []);
  for (const root of roots) {
    const found = real(resolve(root, path));
    if (found !== undefined && isInside(root, found)) return found;
  }
  return undefined;
}

function real(path: string | undefined): string | undefined {
  try {
    return path === undefined ? undefined : realpathSync(path);
  } catch {
    return undefined;
  }
}

function report(files: readonly CheckedFile[], what: What, profile: Profile): ToolResult {
  const rows = files.slice(0, MOST).map(({ file, name, diagnostics }) => {
    const findings = diagnostics.filter(({ code }) => code in RULES === (what === "style"));
    const isValid = findings.every(({ severity }) => severity !== "error");
    return {
      skill: inLine(name, 64),
      file: inLine(file, 4096),
      ...(what === "structure" ? { profile, isValid } : {}),
      findings: findings.map(({ code, severity, line, message, fix }) => ({
        rule: code,
        severity,
        line,
        message: inLine(message),
        fix,
      })),
    };
  });
  const content = JSON.stringify(
    rows.length === 1 ? rows[0] : { skills: rows, more: files.length - rows.length },
    null,
    2,
  );
  return { content, isError: false };
}

function refuse(code: ErrorCode, content: string): ToolResult {
  return { content, isError: true, code };
}
