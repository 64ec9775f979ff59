import type { Catalog } from "../catalog/catalog.ts";
import { type HostOptions, readHost } from "../host/complete-host.ts";
import type { Host } from "../host/host.ts";
import type { Notice } from "../host/sandbox.ts";
import { commandsIn } from "../model/commands.ts";
import { RUNBOOK } from "../model/runbook.ts";
import { firstDenial } from "../policy/policy.ts";
import { shownPath } from "../policy/shown-path.ts";
import { inLine } from "../shared/prompt.ts";
import { openHiding } from "../shared/redact.ts";
import { count, estimateTokens, grouped } from "../shared/text.ts";
import { declaredVariables } from "../skill/needs.ts";
import type { Skill } from "../skill/skill.ts";
import { boundsOf } from "./bounds.ts";
import { TOP } from "./chain.ts";
import { judgeUse } from "./judge-use.ts";
import { modelFor } from "./model-for.ts";
import { asNotice, hide } from "./notice.ts";
import { allSecrets, ownSecrets } from "./secrets.ts";
import { missingTools } from "./unmatched.ts";
import type { UseRequest } from "./use.ts";

/** One thing that a use goes through. */
export interface Check {
  name: string;
  /** What holds. */
  detail: string;
  /** What speaks against it. */
  refusals: readonly Notice[];
  /** Nobody looked: the skill is hidden from this caller, and what is hidden is not described. */
  isSkipped?: true;
}

export interface UsePlan {
  skill: string;
  checks: readonly Check[];
  warnings: readonly Notice[];
}

/** Every check of a use at once, with what it would be given. Nothing of the skill is run, and no model is asked; who serves a capability is asked whether it is ready. */
export async function planUse(catalog: Catalog, given: HostOptions, request: UseRequest): Promise<UsePlan> {
  const { host, problem } = readHost(given);
  if (problem) {
    const check = { name: "host", detail: "", refusals: [problem] };
    return { skill: inLine(String(request.skill), 64), checks: [check], warnings: [] };
  }
  const judged = await judgeUse({ catalog, host, request, chain: TOP }).catch((error) => ({
    refusals: [asNotice(error)],
  }));
  const refusals = "refusals" in judged ? judged.refusals : [];
  const skill = catalog.find(String(request.skill));
  if (!skill)
    return {
      skill: inLine(String(request.skill), 64),
      checks: [{ name: "skill", detail: "", refusals }],
      warnings: [],
    };
  await skill.fetch?.("all");
  const hidden = hide(openHiding(allSecrets(ownSecrets(skill, host).secrets, host)));
  const isHidden = firstDenial(skill, host)?.kind === "access";
  const rows = ROWS.map(({ name, codes, detail, isOfHiding }): Check => {
    if (isHidden && !isOfHiding) return skipped(name);
    const against = refusals.filter(({ code }) => codes.includes(code));
    return { name, detail: detail(skill, host, request), refusals: against };
  });
  const rest = isHidden ? { checks: LAST.map(skipped), warnings: [] } : await checksOfRun(skill, host, request);
  const shown = new Set([...ROWS.flatMap(({ codes }) => codes), ...rest.checks.flatMap(codesIn)]);
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

function codesIn({ refusals }: Check): string[] {
  return refusals.map(({ code }) => code);
}

function skipped(name: string): Check {
  return { name, detail: "", refusals: [], isSkipped: true };
}

/** What `checksOfRun` looks at. */
const LAST = ["model", "sandbox", "workspace", "network", "limits"];

async function checksOfRun(
  skill: Skill,
  host: Host,
  request: UseRequest,
): Promise<{ checks: Check[]; warnings: Notice[] }> {
  const { codeChecks } = await import("./plan-code.ts");
  const model = await modelCheck(skill, host, request);
  const code = await codeChecks(skill, host);
  const limits = { name: "limits", detail: sayLimits(skill, host, request), refusals: [] };
  return {
    checks: [model.check, ...code.checks, limits],
    warnings: [...model.warnings, ...missingTools(skill, host), ...code.warnings],
  };
}

interface Row {
  name: string;
  codes: readonly string[];
  /** Whether it may be what hides the skill. */
  isOfHiding?: true;
  detail(skill: Skill, host: Host, request: UseRequest): string;
}

/** One row a check: the refusals that belong to it, and what is said when there is none. */
const ROWS: readonly Row[] = [
  {
    name: "skill",
    codes: ["not-found"],
    isOfHiding: true,
    detail: ({ name, origin }) => `${name} from ${origin.source}`,
  },
  { name: "enabled", codes: ["disabled"], isOfHiding: true, detail: () => "it is switched on" },
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
    detail: (skill, { trust }) => TRUSTED[trust?.standingOf(skill) ?? "own"] ?? "",
  },
  {
    name: "system",
    codes: ["other-system", "sandbox-unavailable", "packages-missing", "script-interpreter", "missing-program"],
    detail: ({ manifest: { packages } }) =>
      packages.length === 0 ? "it asks for nothing that is missing" : `packages: ${packages.join(", ")}`,
  },
  {
    name: "tools",
    codes: ["missing-tool"],
    detail: ({ manifest: { tools } }) =>
      tools.allowed.length > 0 ? `only ${tools.allowed.join(", ")}` : "all that there are",
  },
  {
    name: "variables",
    codes: ["missing-variable", "variable-refused", "secret-other-source", "secret-not-given", "grants-unreadable"],
    detail: (skill) => declaredVariables(skill).join(", ") || "none",
  },
  {
    name: "capabilities",
    codes: ["capability-unavailable", "capability-not-granted", "capability-not-ready"],
    detail: ({ manifest: { capabilities } }) => capabilities.join(", ") || "none",
  },
  {
    name: "input",
    codes: ["input-invalid"],
    detail: ({ manifest: { inputSchema } }) => (inputSchema ? "fits its schema" : "it has no schema"),
  },
];

const TRUSTED: Record<string, string> = {
  own: "it needs no word of yours",
  trusted: "you trusted it",
  untrusted: "",
};

async function modelCheck(
  skill: Skill,
  host: Host,
  request: UseRequest,
): Promise<{ check: Check; warnings: readonly Notice[] }> {
  try {
    const { model, alias, warnings } = await modelFor(skill, { host, request, chain: TOP });
    const detail = alias === model.name ? model.name : `${alias}: ${model.name}`;
    return {
      check: { name: "model", detail, refusals: [] },
      warnings: [...warnings, ...needsModel(skill, model.name, host)],
    };
  } catch (error) {
    return { check: { name: "model", detail: "", refusals: [asNotice(error)] }, warnings: [] };
  }
}

/** Who has no language model gets what the skill says, and nothing done. */
function needsModel(skill: Skill, model: string, host: Host): Notice[] {
  if (model !== RUNBOOK || commandsIn(skill.body(), { names: skill.manifest.arguments }).length > 0) return [];
  const file = `${host.home === undefined ? "~/.skillet" : shownPath(host.home, host)}/config.toml`;
  return [
    {
      code: "model-needed",
      message:
        "runbook runs commands that a skill spells out, and this one spells out none: a language model is needed",
      fix: `set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or add [models.default] to ${file}`,
    },
  ];
}

function sayLimits(skill: Skill, host: Host, request: UseRequest): string {
  const { iterations, seconds, tokens } = boundsOf(skill.manifest.maxSteps, host, request);
  const bounds = [
    count(iterations, "iteration"),
    count(seconds, "second"),
    ...(tokens === undefined ? [] : [count(tokens, "token")]),
  ];
  return `${bounds.join(", ")}; its instructions: about ${grouped(estimateTokens(skill.body()))} tokens`;
}
