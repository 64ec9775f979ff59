import { calculateCost, findPrice } from "../agent/models/model-providers.ts";
import { SkillError } from "../errors/problem.ts";
import type { Model, ModelPrice, ModelReply, ModelRequest } from "../host/model-contract.ts";
import type { Usage } from "../skill/tool.ts";
import { omitUndefined } from "../util/objects.ts";
import type { EvalSpending } from "./eval-report.ts";

/** A model call that was paid for. */
export interface SpentCall {
  usage: Usage;
  dollars?: number;
}

/** The money of an evaluation. All of its model calls go through `meter`. */
export interface EvalBudget {
  readonly spent: EvalSpending;
  /** True once a call was refused. */
  readonly isExhausted: boolean;
  /** Wraps a model: each call waits for its share of the budget. `onSpent` is called after each call. */
  meter(model: Model, onSpent?: (call: SpentCall) => void): Model;
  /** Throws a SkillError if the ceiling is reached. */
  check(): void;
  /** Counts a call that was made before: by an earlier process, or by another agent. */
  add(call: SpentCall): void;
}

export interface EvalBudgetOptions {
  /** In US dollars. Defaults to no ceiling. */
  ceiling?: number | undefined;
  prices: ReadonlyMap<string, ModelPrice>;
  /** The maximum output tokens of one reply. */
  maxOutput?: number | undefined;
}

/** The output limit of a model whose settings have none: the highest of current models. */
const DEFAULT_MAX_OUTPUT = 64_000;

/**
 * Creates the budget of an evaluation. Before a call, the most that it can cost is reserved: its bytes as input tokens, since
 * no token is shorter, and the longest reply. A call whose reservation does not fit waits until no other one is running, and
 * then starts if the ceiling is not reached. So at most one call exceeds the ceiling, however many are made at once.
 */
export function createEvalBudget({ ceiling, prices, maxOutput = DEFAULT_MAX_OUTPUT }: EvalBudgetOptions): EvalBudget {
  const spent = { calls: 0, inputTokens: 0, outputTokens: 0, dollars: 0 };
  let isPriced = true;
  let isExhausted = false;
  let reserved = 0;
  let running = 0;
  let waiting: (() => void)[] = [];
  const priceDates: string[] = [];

  const count = ({ usage, dollars }: SpentCall) => {
    spent.calls++;
    spent.inputTokens += usage.inputTokens;
    spent.outputTokens += usage.outputTokens;
    if (dollars === undefined) isPriced = false;
    spent.dollars += dollars ?? 0;
  };

  async function reserve(amount: number): Promise<void> {
    if (ceiling === undefined) return;
    for (;;) {
      if (spent.dollars >= ceiling) {
        isExhausted = true;
        throw createCeilingError(ceiling);
      }
      if (running === 0 || spent.dollars + reserved + amount <= ceiling) break;
      await new Promise<void>((resolve) => waiting.push(resolve));
    }
    running++;
    reserved += amount;
  }

  function release(amount: number): void {
    if (ceiling === undefined) return;
    running--;
    reserved -= amount;
    const all = waiting;
    waiting = [];
    for (const resume of all) resume();
  }

  return {
    get spent() {
      const { dollars, ...tokens } = spent;
      const [priceDate] = priceDates.sort();
      return {
        ...tokens,
        ...(isPriced ? { dollars, ...omitUndefined({ priceDate }) } : {}),
        ...omitUndefined({ ceiling }),
      };
    },
    get isExhausted() {
      return isExhausted;
    },
    check() {
      if (ceiling === undefined || spent.dollars < ceiling) return;
      isExhausted = true;
      throw createCeilingError(ceiling);
    },
    add: count,
    meter: (model, onSpent) => ({
      name: model.name,
      ...omitUndefined({ supportsEffort: model.supportsEffort, contextWindow: model.contextWindow }),
      async respond(request: ModelRequest): Promise<ModelReply> {
        const most = { inputTokens: countBytes(request), outputTokens: maxOutput, cachedTokens: 0 };
        const price = (usage: Usage) => calculateCost(usage, model.name, prices);
        const amount = price(most) ?? 0;
        await reserve(amount);
        let written = 0;
        const spend = (reported?: Usage) => {
          const isReported = reported !== undefined && reported.inputTokens + reported.outputTokens > 0;
          const usage = isReported ? reported : estimateUsage(most.inputTokens, written);
          const dollars = price(usage);
          const { date } = findPrice(model.name, prices) ?? {};
          if (date !== undefined && !priceDates.includes(date)) priceDates.push(date);
          const call = { usage, ...(dollars === undefined ? {} : { dollars }) };
          count(call);
          onSpent?.(call);
        };
        const onText = (text: string) => {
          written += text.length;
          request.onText(text);
        };
        try {
          const reply = await model.respond({ ...request, onText });
          spend(reply.usage);
          return reply;
        } catch (error) {
          // A stopped reply is paid for, and its usage is not reported.
          if (written > 0 || request.signal.aborted) spend();
          throw error;
        } finally {
          release(amount);
        }
      },
    }),
  };
}

const CHARACTERS_PER_TOKEN = 4;

function estimateUsage(bytes: number, written: number): Usage {
  const estimate = (size: number) => Math.ceil(size / CHARACTERS_PER_TOKEN);
  return { inputTokens: estimate(bytes), outputTokens: estimate(written), cachedTokens: 0 };
}

/** Returns true if calls of a model can be priced. */
export function hasPrice(name: string, prices: ReadonlyMap<string, ModelPrice>): boolean {
  return calculateCost({ inputTokens: 1, outputTokens: 1, cachedTokens: 0 }, name, prices) !== undefined;
}

function countBytes({ instructions, messages, tools }: ModelRequest): number {
  return Buffer.byteLength(instructions) + Buffer.byteLength(JSON.stringify([messages, tools]));
}

function createCeilingError(ceiling: number): SkillError {
  return new SkillError("eval-ceiling", {
    message: `The ceiling of $${ceiling} is reached`,
    fix: "raise it with --max-cost and continue with --resume",
  });
}
