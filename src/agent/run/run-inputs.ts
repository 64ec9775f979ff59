import type { Host } from "../../config/host.ts";
import type { CostCeilings } from "../../config/limits.ts";
import { resolveReference } from "../../config/settings.ts";
import { getErrorMessage, SkillError } from "../../errors/problem.ts";
import { findSchemaProblem, formatInvalidInput } from "../../host/json-schema.ts";
import { listDeclaredVariables, type Skill } from "../../skill/skill.ts";
import { SPENDING_PERIODS, type SpendingFilter } from "../../store/spending.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import type { Secrets } from "../../util/redact.ts";
import { truncateLine } from "../../util/text.ts";
import { type ResolvedModel, resolveModel } from "../models/resolve-model.ts";
import { RUNBOOK_NAME } from "../models/runbook.ts";
import type { TokenBudget } from "./agent-loop.ts";
import type { UseContext, UseRequest } from "./use-skill.ts";

interface UseInput {
  input?: unknown;
  message?: string | undefined;
  context?: string | undefined;
}

const MAX_INPUT_LENGTH = 256 * 1024;

/** Validates the input against the skill's schema and fills in defaults; or returns the problem. */
export async function readUseInput(
  { manifest: { inputSchema } }: Skill,
  given: UseInput,
): Promise<{ value: unknown; hasTakenContext?: boolean } | { problem: string }> {
  const read = given.input === undefined ? { value: undefined } : parseInput(given.input);
  if ("problem" in read) return read;
  let { value } = read;
  if (inputSchema === undefined) return { value };
  value ??= fillTextInput(inputSchema, given);
  const problem = await findSchemaProblem(inputSchema, value);
  if (problem !== undefined) return { problem };
  const hasTakenContext = given.input === undefined && given.message === undefined && given.context !== undefined;
  return { value, hasTakenContext: hasTakenContext && Object.values(value as object).includes(given.context) };
}

/** Converts the input to plain JSON data. */
function parseInput(input: unknown): { value: unknown } | { problem: string } {
  let text: string | undefined;
  try {
    text = JSON.stringify(input);
  } catch (error) {
    return formatInvalidInput(
      error instanceof RangeError ? TOO_DEEP_MESSAGE : `it is not JSON: ${truncateLine(getErrorMessage(error), 100)}`,
    );
  }
  if (text === undefined) return formatInvalidInput("it is not JSON");
  if (text.length > MAX_INPUT_LENGTH) return formatInvalidInput("it is larger than 256 KiB");
  const value: unknown = JSON.parse(text);
  return isDeeperThan(value, MAX_INPUT_DEPTH) ? formatInvalidInput(TOO_DEEP_MESSAGE) : { value };
}

const MAX_INPUT_DEPTH = 100;
const TOO_DEEP_MESSAGE = `it is nested more than ${MAX_INPUT_DEPTH} deep`;

function isDeeperThan(value: unknown, max: number): boolean {
  let level = [value];
  for (let depth = 0; depth <= max && level.length > 0; depth++) {
    level = level.flatMap((item) => (item !== null && typeof item === "object" ? Object.values(item) : []));
  }
  return level.length > 0;
}

/** Fills the only required field if it is a text and only a text was passed. */
function fillTextInput(schema: JsonObject, { message, context }: UseInput): JsonObject {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const properties = isJsonObject(schema["properties"]) ? schema["properties"] : {};
  const [only] = required;
  const text = message ?? context;
  const wanted = typeof only === "string" && Object.hasOwn(properties, only) ? properties[only] : undefined;
  if (required.length !== 1 || text === undefined || !isJsonObject(wanted) || wanted["type"] !== "string") return {};
  return { [only]: text };
}

/**
 * Resolves the model of a use. Precedence: the caller, the configuration, the skill, then the caller of the outermost run; but if
 * that one requested no language model, none is used. `inherit` is the model of the calling skill. An unknown alias of a caller is
 * refused: its text must not go to another model.
 */
export async function resolveUseModel(
  { name, manifest }: Skill,
  { host, request, chain }: Pick<UseContext, "host" | "request" | "chain">,
): Promise<ResolvedModel> {
  if (request.model !== undefined) return requireKnownModel(await resolveModel(host, request.model));
  if (chain.requestedModel !== undefined) {
    const asked = await resolveModel(host, chain.requestedModel);
    if (asked.model.name === RUNBOOK_NAME) return asked;
  }
  const own = manifest.model === "inherit" ? chain.parentModel : manifest.model;
  return resolveModel(host, host.settings.skills.get(name)?.model ?? own ?? chain.requestedModel);
}

/** Returns the model, or throws if its alias was unknown. */
export function requireKnownModel(resolved: ResolvedModel): ResolvedModel {
  const unknown = resolved.warnings.find(({ code }) => code === "model-unknown");
  if (!unknown) return resolved;
  throw new SkillError(unknown.code, { message: `Unknown model '${unknown.data?.["model"]}'`, fix: unknown.fix });
}

/** Resolves the limits of a use: a skill and a caller can lower the limits of the settings, never raise them. */
export function resolveRunLimits(
  /** The limit in the skill's manifest, if any. */
  wanted: number | undefined,
  { settings: { limits } }: Host,
  request: Pick<UseRequest, "maxIterations" | "seconds" | "tokens">,
): { iterations: number; seconds: number; tokens?: number } {
  const iterations = pickSmallestLimit(wanted ?? limits.iterations, limits.iterationCap, request.maxIterations);
  return {
    iterations: Math.max(1, Math.floor(iterations ?? 1)),
    seconds: pickSmallestLimit(limits.seconds, request.seconds) ?? limits.seconds,
    ...omitUndefined({ tokens: pickSmallestLimit(limits.tokens, request.tokens) }),
  };
}

/** Returns the smallest valid limit. */
function pickSmallestLimit(...given: (number | undefined)[]): number | undefined {
  const bounds = given.filter((bound) => bound !== undefined && Number.isFinite(bound) && bound > 0) as number[];
  return bounds.length === 0 ? undefined : Math.min(...bounds);
}

/** The values of a skill's variables, and the error if they could not be resolved. */
export interface SkillSecrets {
  secrets: Secrets;
  problem?: unknown;
}

export function readSkillSecrets(skill: Skill, host: Host): SkillSecrets {
  try {
    return { secrets: resolveVariables(skill, host) };
  } catch (problem) {
    return { secrets: new Map(), problem };
  }
}

/** Resolves the variables that a skill declares from the configuration. Throws a SkillError if one cannot be resolved. */
export function resolveVariables(skill: Skill, host: Host): Secrets {
  const configured = host.settings.skills.get(skill.name)?.variables;
  return new Map(
    listDeclaredVariables(skill).map((name) => {
      const value = resolveReference(configured?.get(name) ?? "", host, (why) => {
        throw new SkillError("missing-variable", {
          message: `Skill '${skill.name}' needs ${name}, and ${why}`,
          fix: "correct the value in config.toml, or what it refers to",
        });
      });
      return [name, value];
    }),
  );
}

/** The cost ceilings of one agent: its run, and what others have spent in the same day and month. */
export interface CostGuard {
  /** Throws a SkillError if the next model call may not be made. */
  check(): Promise<void>;
  /** Records what a model call cost; undefined if its price is unknown. */
  record(dollars: number | undefined): Promise<void>;
}

interface CostGuardOptions {
  host: Pick<Host, "settings" | "caller" | "spending">;
  skill: string;
  /** The name of the model, and whether its price is known. */
  model: { name: string; isPriced: boolean };
  budget: TokenBudget;
}

/** One set of ceilings, whose spending counts, and the key that sets it. */
interface CeilingRow {
  ceilings: CostCeilings | undefined;
  filter: SpendingFilter;
  key: string;
}

/** Creates the guard of an agent. Contract: reads the settings at each check, so that a change applies to a run under way. */
export function createCostGuard({ host, skill, model, budget }: CostGuardOptions): CostGuard {
  const listRows = (): CeilingRow[] => {
    const { limits, skills, serving } = host.settings;
    const { userId: user, tenant } = host.caller ?? {};
    const rows: CeilingRow[] = [
      { ceilings: limits.cost, filter: {}, key: "limits.cost" },
      { ceilings: skills.get(skill)?.cost, filter: { skill }, key: `skills.${skill}.limits.cost` },
    ];
    if (user !== undefined)
      rows.push({
        ceilings: serving.people?.get(user)?.cost,
        filter: { user },
        key: `server.people.${user}.limits.cost`,
      });
    if (tenant !== undefined)
      rows.push({
        ceilings: serving.tenants?.get(tenant)?.cost,
        filter: { tenant },
        key: `server.tenants.${tenant}.limits.cost`,
      });
    return rows.filter(({ ceilings }) => ceilings && Object.keys(ceilings).length > 0);
  };
  return {
    async check() {
      const rows = listRows();
      const [first] = rows;
      if (!first) return;
      // Without a price, nothing would ever be counted.
      if (!model.isPriced && model.name !== "runbook") throw createPriceError(model.name, first.key);
      for (const { ceilings = {}, filter, key } of rows) {
        if (ceilings.run !== undefined && (budget.cost ?? 0) >= ceilings.run)
          throw createCeilingError("run", ceilings.run, `${key}.run`);
        for (const period of SPENDING_PERIODS) {
          const max = ceilings[period];
          if (max === undefined || !host.spending) continue;
          if ((await host.spending.total(period, filter)) >= max)
            throw createCeilingError(period, max, `${key}.${period}`);
        }
      }
    },
    async record(dollars) {
      if (dollars === undefined || !host.spending) return;
      const { userId: user, tenant } = host.caller ?? {};
      try {
        await host.spending.add({ dollars, skill, ...omitUndefined({ user, tenant }) });
      } catch (error) {
        if (listRows().length > 0) throw error; // What is not recorded would not count against the ceiling.
      }
    },
  };
}

function createCeilingError(period: keyof CostCeilings, dollars: number, key: string): SkillError {
  const what = { run: "The run has cost", day: "Today's runs have cost", month: "This month's runs have cost" }[period];
  return new SkillError("cost-limit", {
    message: `${what} $${dollars} or more, the limit of ${key}`,
    fix:
      period === "run"
        ? `raise ${key} in config.toml`
        : `wait for the next ${period} (UTC), or raise ${key} in config.toml`,
  });
}

function createPriceError(model: string, key: string): SkillError {
  const name = model.slice(model.indexOf("/") + 1);
  return new SkillError("price-missing", {
    message: `${key} limits the cost, and the price of ${model} is unknown`,
    fix: "set its prices in dollars per million tokens",
    commands: [
      `skillet config set prices.${JSON.stringify(name)}.input 3`,
      `skillet config set prices.${JSON.stringify(name)}.output 15`,
    ],
  });
}
