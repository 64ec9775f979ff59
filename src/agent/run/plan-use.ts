import type { Catalog } from "../../catalog/catalog.ts";
import { BUILT_IN_TOOLS, type Host, type HostOptions, tryCompleteHost } from "../../config/host.ts";
import type { Problem } from "../../errors/problem.ts";
import { listDeclaredVariables, type Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import { expandToolNames, isOtherClientTool, resolveEntryTool, toDottedToolName } from "../../skill/tool-names.ts";
import { estimateTokens, findNearest, formatCount, formatNumber } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findInstructionCommands, RUNBOOK_NAME } from "../models/runbook.ts";
import { canProvideTool, findFirstDenial, formatToolFix, isToolDisabled } from "../policy/skill-policies.ts";
import { formatSkillKey } from "../policy/trust-policy.ts";
import { createHostRedactor, createProblemRedactor } from "./redaction.ts";
import { readSkillSecrets, resolveRunLimits, resolveUseModel } from "./run-inputs.ts";
import { toProblem } from "./run-result.ts";
import { checkUse, ROOT_CONTEXT, type UseRequest } from "./use-skill.ts";

/** One check of a planned use. */
export interface PlanCheck {
  name: string;
  /** The finding when the check passes. */
  detail: string;
  /** The problems that would prevent the use. */
  refusals: readonly Problem[];
  /** True if the check did not run: the skill is hidden from this caller, and a hidden skill is not described. */
  isSkipped?: true;
}

export interface UsePlan {
  skill: string;
  checks: readonly PlanCheck[];
  warnings: readonly Problem[];
}

/**
 * Runs every check of a use at once. No code of the skill runs and no model is called; capability providers are asked
 * whether they are ready.
 */
export async function planUse(catalog: Catalog, given: HostOptions, request: UseRequest): Promise<UsePlan> {
  const { host, problem } = tryCompleteHost(given);
  if (problem) {
    const check = { name: "host", detail: "", refusals: [problem] };
    return { skill: sanitizeLine(String(request.skill), 64), checks: [check], warnings: [] };
  }
  const checked = await checkUse({ catalog, host, request, chain: ROOT_CONTEXT }).catch((error) => ({
    refusals: [toProblem(error)],
  }));
  const refusals = "refusals" in checked ? checked.refusals : [];
  const skill = catalog.find(String(request.skill));
  if (!skill)
    return {
      skill: sanitizeLine(String(request.skill), 64),
      checks: [{ name: "skill", detail: "", refusals: refusals.map(createProblemRedactor(createHostRedactor(host))) }],
      warnings: [],
    };
  await skill.fetch?.("all");
  const hidden = createProblemRedactor(createHostRedactor(host, readSkillSecrets(skill, host).secrets));
  const isHidden = findFirstDenial(skill, host)?.kind === "access";
  const rows = PLAN_ROWS.map(({ name, codes, detail, isOfHiding }): PlanCheck => {
    if (isHidden && !isOfHiding) return createSkippedCheck(name);
    const against = refusals.filter(({ code }) => codes.includes(code));
    return { name, detail: detail(skill, host, request), refusals: against };
  });
  const rest = isHidden
    ? { checks: RUN_CHECK_NAMES.map(createSkippedCheck), warnings: [] }
    : await checkRunResources(skill, host, request);
  const shown = new Set([...PLAN_ROWS.flatMap(({ codes }) => codes), ...rest.checks.flatMap(listRefusalCodes)]);
  const others = refusals.filter(({ code }) => !shown.has(code));
  const checks = [
    ...rows,
    ...rest.checks,
    ...(others.length > 0 ? [{ name: "machine", detail: "", refusals: others }] : []),
  ];
  return {
    skill: skill.name,
    checks: checks.map((check) => ({ ...check, refusals: check.refusals.map(hidden) })),
    warnings: rest.warnings.map(hidden),
  };
}

function listRefusalCodes({ refusals }: PlanCheck): string[] {
  return refusals.map(({ code }) => code);
}

function createSkippedCheck(name: string): PlanCheck {
  return { name, detail: "", refusals: [], isSkipped: true };
}

/** The names of the checks that `checkRunResources` runs. */
const RUN_CHECK_NAMES = ["model", "sandbox", "workspace", "network", "limits"];

async function checkRunResources(
  skill: Skill,
  host: Host,
  request: UseRequest,
): Promise<{ checks: PlanCheck[]; warnings: Problem[] }> {
  const { checkCodeAccess } = await import("./run-checks.ts");
  const model = await checkModel(skill, host, request);
  const code = await checkCodeAccess(skill, host);
  const limits = { name: "limits", detail: await formatLimits(skill, host, request), refusals: [] };
  return {
    checks: [model.check, ...code.checks, limits],
    warnings: [...model.warnings, ...(await warnMissingTools(skill, host)), ...code.warnings],
  };
}

interface PlanRow {
  name: string;
  codes: readonly string[];
  /** True if this check may be the one that hides the skill. */
  isOfHiding?: true;
  detail(skill: Skill, host: Host, request: UseRequest): string;
}

/** One row per check: the error codes that belong to it, and the detail when none of them occurred. */
const PLAN_ROWS: readonly PlanRow[] = [
  {
    name: "skill",
    codes: ["not-found"],
    isOfHiding: true,
    detail: ({ name, origin }) => `${name} from ${origin.source}`,
  },
  { name: "enabled", codes: ["disabled"], isOfHiding: true, detail: () => "enabled" },
  {
    name: "caller",
    codes: ["chat-type", "chat-id", "not-for-models", "not-for-users"],
    isOfHiding: true,
    detail: (_, { caller }) =>
      `${caller?.chatType ?? "no"} chat${caller?.chatId === undefined ? "" : ` ${caller.chatId}`}`,
  },
  {
    name: "trust",
    codes: ["untrusted", "changed"],
    detail: (skill, { trust }) => TRUST_DETAILS[trust?.getStatus(skill) ?? "own"] ?? "",
  },
  {
    name: "system",
    codes: [
      "unsupported-os",
      "sandbox-unavailable",
      "system-packages-missing",
      "script-interpreter",
      "missing-program",
    ],
    detail: ({ manifest: { packages } }) =>
      packages.length === 0 ? "all requirements are met" : `packages: ${packages.join(", ")}`,
  },
  {
    name: "tools",
    codes: ["missing-tool"],
    detail: ({ manifest: { tools } }) =>
      tools.allowed.length > 0 ? `only ${tools.allowed.join(", ")}` : "all available tools",
  },
  {
    name: "variables",
    codes: ["missing-variable", "variable-refused", "secret-other-source", "secret-not-approved", "grants-unreadable"],
    detail: (skill) => listDeclaredVariables(skill).join(", ") || "none",
  },
  {
    name: "capabilities",
    codes: ["capability-unavailable", "capability-not-granted", "capability-not-ready"],
    detail: ({ manifest: { capabilities } }) => capabilities.join(", ") || "none",
  },
  {
    name: "input",
    codes: ["input-invalid"],
    detail: ({ manifest: { inputSchema } }) => (inputSchema ? "matches its schema" : "no schema"),
  },
];

const TRUST_DETAILS: Record<string, string> = {
  own: "no approval needed",
  trusted: "you trusted it",
  untrusted: "",
};

async function checkModel(
  skill: Skill,
  host: Host,
  request: UseRequest,
): Promise<{ check: PlanCheck; warnings: readonly Problem[] }> {
  try {
    const { model, alias, warnings } = await resolveUseModel(skill, { host, request, chain: ROOT_CONTEXT });
    const detail = alias === model.name ? model.name : `${alias}: ${model.name}`;
    return {
      check: { name: "model", detail, refusals: [] },
      warnings: [...warnings, ...(await warnModelNeeded(skill, model.name))],
    };
  } catch (error) {
    return { check: { name: "model", detail: "", refusals: [toProblem(error)] }, warnings: [] };
  }
}

/**
 * Returns the problem of a use that passes every check, but needs a language model when none is
 * configured. A caller that asks for it before the use prints this problem instead of a failed run.
 */
export async function findModelProblem(
  catalog: Catalog,
  given: HostOptions,
  request: UseRequest,
): Promise<Problem | undefined> {
  const { host, problem } = tryCompleteHost(given);
  const skill = catalog.find(String(request.skill));
  if (problem || !skill) return undefined;
  const resolved = await resolveUseModel(skill, { host, request, chain: ROOT_CONTEXT }).catch(() => undefined);
  if (resolved?.model.name !== RUNBOOK_NAME) return undefined;
  const checked = await checkUse({ catalog, host, request, chain: ROOT_CONTEXT }).catch(() => undefined);
  return checked && "skill" in checked ? (await warnModelNeeded(checked.skill, RUNBOOK_NAME))[0] : undefined;
}

/** Warns that the runbook model cannot follow the skill: its instructions contain no commands. Each line fits in 80 columns. */
async function warnModelNeeded(skill: Skill, model: string): Promise<Problem[]> {
  if (
    model !== RUNBOOK_NAME ||
    findInstructionCommands(await skill.body(), { names: skill.manifest.arguments }).length > 0
  )
    return [];
  return [
    {
      code: "model-needed",
      message: `${sanitizeLine(skill.name, 64)} needs a language model: it contains no commands`,
      fix: "set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or add [models.default]",
    },
  ];
}

async function formatLimits(skill: Skill, host: Host, request: UseRequest): Promise<string> {
  const { iterations, seconds, tokens } = resolveRunLimits(skill.manifest.maxIterations, host, request);
  const bounds = [
    formatCount(iterations, "iteration"),
    formatCount(seconds, "second"),
    ...(tokens === undefined ? [] : [formatCount(tokens, "token")]),
  ];
  return `${bounds.join(", ")}; its instructions: about ${formatNumber(estimateTokens(await skill.body()))} tokens`;
}

/** Warns about tools under `allowed_tools` that no run of the skill can have here. Used before a run, in it, and when a skill is checked. */
export async function warnMissingTools(skill: Skill, host: Host): Promise<Problem[]> {
  const { allowed } = skill.manifest.tools;
  const isMissing = (entry: string) =>
    resolveEntryTool(entry) !== "*" && !isOtherClientTool(entry) && !canProvideTool(entry, host, skill);
  const findWarning = async (entry: string): Promise<Problem | Problem[]> => {
    const isClosed =
      resolveEntryTool(entry) === "web_fetch" && host.hasBuiltInTools !== false && !isToolDisabled("web_fetch", host);
    if (isClosed) return await warnClosedNetwork(skill);
    const meant = findNearest(
      resolveEntryTool(entry),
      BUILT_IN_TOOLS.map(({ name }) => name),
    );
    const isOurs = BUILT_IN_TOOLS.some(({ name }) => name === resolveEntryTool(entry));
    return {
      code: "tool-unmatched",
      message: `Skill '${skill.name}' lists ${sanitizeLine(entry, 64)}, which is not available`,
      fix: !isOurs && meant ? `did you mean ${meant}?` : formatToolFix(resolveEntryTool(entry), host, skill),
    };
  };
  return (await Promise.all(allowed.filter(isMissing).map(findWarning))).flat();
}

/** Warns about tools under `allowed_tools` that match no available tool and would be dropped silently. */
export async function warnUnmatchedTools(skill: Skill, names: readonly string[], host: Host): Promise<Problem[]> {
  const { name, manifest } = skill;
  const { tools } = manifest;
  const isOurs = (entry: string) => BUILT_IN_TOOLS.some((tool) => tool.name === resolveEntryTool(entry));
  const isMeant = (entry: string) =>
    expandToolNames([entry], names).some((one) => names.includes(resolveEntryTool(one)));
  const missing = tools.allowed.filter(
    (entry) =>
      resolveEntryTool(entry) !== "*" &&
      !isMeant(entry) &&
      !isOurs(entry) &&
      !isOtherClientTool(entry) &&
      canProvideTool(entry, host, skill),
  );
  const dynamic = missing.map((entry): Problem => {
    const bare = toDottedToolName(entry);
    const several = names.filter((one) => one.endsWith(`.${bare}`));
    const meant = findNearest(bare, names);
    const what = sanitizeLine(entry, 64);
    return several.length > 1
      ? {
          code: "tool-ambiguous",
          message: `Skill '${name}' lists ${what}, which is ambiguous: it matches ${several.join(" and ")}, and neither is offered`,
          fix: `use the full name, for example ${several[0]}`,
        }
      : {
          code: "tool-unmatched",
          message: `Skill '${name}' lists ${what}, which is not available`,
          fix: meant
            ? `did you mean ${meant}?`
            : "add an MCP server that provides it under [tools.mcp.NAME] in config.toml",
        };
  });
  return [...(await warnMissingTools(skill, host)), ...dynamic];
}

/** Warns about a closed network if the skill's code looks like it needs one. A required tool is refused elsewhere. */
export async function warnClosedNetwork(skill: Skill): Promise<Problem[]> {
  const { tools, compatibility = "" } = skill.manifest;
  if (tools.required.some(isWebFetch)) return [];
  const scripts = await readScriptTexts(skill);
  const code = [...scripts, ...findInstructionCommands(await skill.body(), {})];
  const isNamed = [...tools.allowed, ...tools.preapproved].some(isWebFetch);
  if (!isNamed && !code.some((text) => NETWORK_CALLS.test(text))) return [];
  const said = [compatibility, ...code].join("\n");
  const hosts = new Set(
    Array.from(said.matchAll(HOST_NAMES), ([, address, api]) => (address ?? api ?? "").toLowerCase()),
  );
  const wanted = [...hosts].slice(0, MAX_SUGGESTED_HOSTS).map((host) => `${host}:443`);
  return [
    {
      code: "network-blocked",
      message: `Skill '${skill.name}' ${isNamed ? "lists web_fetch" : "has code that uses the network"}, but has no network access`,
      fix: "run",
      commands: [`skillet config set ${formatSkillKey(skill, "network")} ${wanted.join(",") || "HOST:443"}`],
    },
  ];
}

const NETWORK_CALLS = /\b(?:curl|wget)\s|\burllib\.request\b|\brequests\.(?:get|post)\(|\bfetch\(|"node:https?"/;
const HOST_NAMES = /\bhttps:\/\/([a-z\d][a-z\d.-]*\.[a-z]{2,})|\b(api\.[a-z\d.-]+\.[a-z]{2,})\b/gi;
const MAX_SUGGESTED_HOSTS = 4;

export function isWebFetch(entry: string): boolean {
  return resolveEntryTool(entry) === "web_fetch";
}

async function readScriptTexts(skill: Skill): Promise<string[]> {
  const readText = async ({ path }: { path: string }) => {
    try {
      return [Buffer.from(await skill.read(path)).toString()];
    } catch {
      return []; // The file is gone; a run reports it.
    }
  };
  return (await Promise.all((await listSkillScripts(skill)).map(readText))).flat();
}
