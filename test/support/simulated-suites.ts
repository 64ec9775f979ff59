import { resolveModel } from "../../src/agent/models/resolve-model.ts";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import { completeHost } from "../../src/config/host.ts";
import { createEvalBudget } from "../../src/eval/eval-budget.ts";
import type { EvalSuite } from "../../src/eval/eval-cases.ts";
import type { ArmComparison } from "../../src/eval/eval-report.ts";
import { evaluateTasks } from "../../src/eval/task-evaluation.ts";
import { createBaselineArm, createSkillArm } from "../../src/eval/trials.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { createInlineSource } from "../../src/skill/skill.ts";
import { API_KEY, MODEL, startModelServer, type Turn } from "./model-server.ts";
import { createRandom } from "./random.ts";

export interface Simulation {
  /** The probability of a pass without the skill, and with it. */
  baseline: number;
  arm: number;
  suites: number;
  pairs: number;
  seed?: number;
}

/** The suites that run at once: while one waits for its files, another uses the processor. */
const CONCURRENT_SUITES = 4;

/** Evaluates a skill against a model server as often as there are suites, and returns each comparison. */
export async function simulateSuites({ suites, pairs, seed = 1, ...chances }: Simulation): Promise<ArmComparison[]> {
  const server = await startModelServer("openai", succeedAtRandom(chances, seed));
  const host = completeHost({
    hasBuiltInTools: false,
    settings: {
      models: new Map([
        ["default", { provider: "openai-compatible", model: MODEL, baseUrl: server.url, apiKey: API_KEY } as const],
      ]),
    },
  });
  const { model } = await resolveModel(host, undefined);
  const skill = defineSkill({ name: "trick", description: "Knows it.", instructions: "The trick is known." });
  const catalog = await loadCatalog([createInlineSource([skill])]);
  const arms = [await createBaselineArm(host), await createSkillArm("skill", { skill, catalog, host })] as const;
  const compared: ArmComparison[] = [];
  let next = 0;
  const work = async () => {
    for (let at = next++; at < suites; at = next++) {
      const { skills } = await evaluateTasks({
        subjects: [{ skill: "trick", suite: createGuessSuite(at), arms, host }],
        ...{ trials: pairs, model, budget: createEvalBudget({ prices: new Map() }) },
      });
      compared[at] = skills[0]?.comparisons[0] as ArmComparison;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_SUITES }, work));
  return compared;
}

/**
 * A model server that succeeds with these probabilities: it sees the skill only in the instructions of a request. Each arm of a
 * suite has its own random numbers, so that the outcomes do not depend on the order in which the requests arrive.
 */
function succeedAtRandom({ baseline, arm }: Pick<Simulation, "baseline" | "arm">, seed: number): Turn {
  const streams = new Map<string, () => number>();
  return ({ instructions, prompt }) => {
    const hasSkill = instructions.includes("The trick is known.");
    const [, suite = ""] = /^Guess (\d+)\.$/.exec(prompt) ?? [];
    const key = `${suite} ${hasSkill}`;
    const random = streams.get(key) ?? createRandom(seed * 1e6 + Number(suite) * 2 + Number(hasSkill));
    streams.set(key, random);
    return random() < (hasSkill ? arm : baseline) ? "right" : "wrong";
  };
}

function createGuessSuite(number: number): EvalSuite {
  return {
    ...{ file: "", format: "skillet", folder: "/", notes: [] },
    cases: [
      {
        ...{ name: "guess", prompt: `Guess ${number}.`, files: {}, copies: {}, limits: {} },
        graders: [{ kind: "answer", conditions: { equals: "right" } }],
      },
    ],
  };
}
