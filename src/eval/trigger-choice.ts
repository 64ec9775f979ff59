import { createCostGuard } from "../agent/run/run-inputs.ts";
import { appendTurnContext, discloseTurn, formatTurnPrompt } from "../agent/session/conversation.ts";
import { openSession, type Session } from "../agent/session/session.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Host } from "../config/host.ts";
import { SkillError } from "../errors/problem.ts";
import type { Message, Model, ToolCall } from "../host/model-contract.ts";
import { isJsonObject } from "../util/objects.ts";
import { formatCount } from "../util/text.ts";
import { type EvalBudget, hasPrice } from "./eval-budget.ts";
import { createSkillReport, type EvalMiss, type EvalSkillReport, warnFewQueries } from "./eval-report.ts";
import { computeRate } from "./pair-statistics.ts";
import type { TriggerEvaluationSubject } from "./trigger-evaluation.ts";

export interface ChoiceOptions {
  session: Session;
  host: Host;
  model: Model;
  signal: AbortSignal;
}

/** The tools that only list skills. They are called for the model; every other call ends the choice. */
const LISTING_TOOLS = new Set(["list_skills", "search_skills"]);
const MAX_CALLS = 4;

/**
 * Asks a model what it does with a message of a user, in the prompt and with the tools of a conversation. Returns the skill that
 * it picks: the first that it loads, uses, reads or runs. Undefined if it answers itself. Instructions of skills are never in
 * the prompt, and the skill is not run.
 */
export async function chooseSkill(
  query: string,
  { session, host, model, signal }: ChoiceOptions,
): Promise<string | undefined> {
  const disclosure = await discloseTurn(session, host.settings, model, query, { instructions: false });
  const { instructions, context } = formatTurnPrompt(disclosure);
  const messages: Message[] = [{ role: "user", text: appendTurnContext(query, context) }];
  const tools = session.tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema }));
  for (let call = 0; call < MAX_CALLS; call++) {
    const { text, calls, raw } = await model.respond({
      ...{ instructions, messages, tools, task: { message: query }, signal },
      onText: () => {},
    });
    const picked = calls.map(getPickedSkill).find((name) => name !== undefined);
    if (picked !== undefined || calls.length === 0 || !calls.every(({ tool }) => LISTING_TOOLS.has(tool)))
      return picked;
    messages.push({ role: "assistant", text, calls, ...(raw === undefined ? {} : { raw }) });
    const results = await Promise.all(
      calls.map(async ({ id, tool, input }) => {
        const { text: content, isError } = await session.call(tool, input, { signal });
        return { id, tool, content, isError };
      }),
    );
    messages.push({ role: "tool", results });
  }
  return undefined;
}

/** Returns the skill that a call is about. A skill that is only checked is not picked. */
function getPickedSkill({ tool, input }: ToolCall): string | undefined {
  if (!PICKING_TOOLS.has(tool) || !isJsonObject(input)) return undefined;
  const { skill } = input;
  return typeof skill === "string" ? skill : undefined;
}

const PICKING_TOOLS = new Set(["use_skill", "load_skill", "read_skill_resource", "run_skill_script"]);

export interface ChoiceEvaluationOptions {
  catalog: Catalog;
  host: Host;
  subjects: readonly TriggerEvaluationSubject[];
  /** The number of times that each query is asked. */
  runs: number;
  concurrency?: number;
  model: Model;
  budget: EvalBudget;
  signal?: AbortSignal;
  onQuery?(done: number, total: number): void;
}

export interface ChoiceEvaluation {
  skills: EvalSkillReport[];
  /** The number of queries that were not asked often enough. */
  unfinished: number;
  stopped?: SkillError;
}

/** Measures how often a model picks a skill for the queries that it is for, and for those that it is not for. */
export async function evaluateChoices(options: ChoiceEvaluationOptions): Promise<ChoiceEvaluation> {
  const { catalog, host, subjects, runs, onQuery, budget } = options;
  const halt = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, halt.signal]) : halt.signal;
  const { prices } = host.settings;
  // The ceilings of `limits.cost` hold here as for a run.
  const guard = createCostGuard({
    ...{ host, skill: "", budget: { used: 0, max: undefined } },
    model: { name: options.model.name, isPriced: hasPrice(options.model.name, prices) },
  });
  const model = budget.meter(options.model, ({ dollars }) => void guard.record(dollars).catch(() => {}));
  const picks = new Map<object, (string | undefined)[]>();
  const queries = subjects.flatMap(({ queries: own }) => own);
  // Each query is asked once before any is asked again.
  const queue = Array.from({ length: runs }, () => queries).flat();
  const total = queue.length;
  let stopped: SkillError | undefined;
  let done = 0;

  async function work(): Promise<void> {
    for (let next = queue.shift(); next !== undefined && !signal.aborted; next = queue.shift()) {
      // A session for each query: nothing of an earlier one is in the prompt.
      const session = openSession(catalog, host);
      try {
        await guard.check();
        const picked = await chooseSkill(next.query, { session, host, model, signal });
        picks.set(next, [...(picks.get(next) ?? []), picked]);
        onQuery?.(++done, total);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof SkillError)) throw error;
        stopped ??= error;
        halt.abort();
      } finally {
        session.close();
      }
    }
  }

  await Promise.all(Array.from({ length: Math.max(1, options.concurrency ?? 1) }, work));
  const isAsked = (query: object) => picks.get(query)?.length === runs;
  return {
    skills: subjects.map((subject) => reportChoices(subject, picks, isAsked)),
    unfinished: queries.filter((query) => !isAsked(query)).length,
    ...(stopped ? { stopped } : {}),
  };
}

/** A query counts as picked if more than half of its runs picked the skill. */
function reportChoices(
  { skill: { name }, queries }: TriggerEvaluationSubject,
  picks: ReadonlyMap<object, readonly (string | undefined)[]>,
  isAsked: (query: object) => boolean,
): EvalSkillReport {
  const asked = queries.filter(isAsked);
  const misses: EvalMiss[] = [];
  let unsteady = 0;
  const count = (shouldTrigger: boolean) => {
    const own = asked.filter((query) => query.shouldTrigger === shouldTrigger);
    let picked = 0;
    for (const query of own) {
      const all = picks.get(query) ?? [];
      const times = all.filter((one) => one === name).length;
      if (times > 0 && times < all.length) unsteady++;
      const isPicked = times * 2 > all.length;
      if (isPicked) picked++;
      if (isPicked === shouldTrigger) continue;
      const takenBy = findMostFrequent(all.filter((one) => one !== undefined && one !== name));
      misses.push({ query: query.query, shouldTrigger, ...(takenBy === undefined ? {} : { takenBy }) });
    }
    return computeRate(picked, own.length);
  };
  const rates = [
    { name: "picked", ...count(true) },
    { name: "false triggers", ...count(false) },
  ];
  const warnings = [
    ...warnFewQueries(asked.length),
    ...(unsteady === 0
      ? []
      : [`${formatCount(unsteady, "query", "queries")} had different outcomes in different runs`]),
  ];
  return createSkillReport(name, { rates, misses, warnings });
}

function findMostFrequent(names: readonly (string | undefined)[]): string | undefined {
  const counts = [...Map.groupBy(names, (name) => name)].sort((a, b) => b[1].length - a[1].length);
  return counts[0]?.[0];
}
