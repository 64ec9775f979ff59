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
import { API_KEY, MODEL, modelServer, type Turn } from "./model-server.ts";

export interface Simulation {
  /** The probability of a pass without the skill, and with it. */
  baseline: number;
  arm: number;
  suites: number;
  pairs: number;
  seed?: number;
}

/** A model server that succeeds with these probabilities: it sees the skill only in the instructions of a request. */
export function succeedAtRandom({ baseline, arm }: Pick<Simulation, "baseline" | "arm">, seed: number): Turn {
  let state = seed;
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296;
  };
  return ({ instructions }) =>
    random() < (instructions.includes("The trick is known.") ? arm : baseline) ? "right" : "wrong";
}

/** Evaluates a skill against a model server as often as there are suites, and returns each comparison. */
export async function simulateSuites({ suites, pairs, seed = 1, ...chances }: Simulation): Promise<ArmComparison[]> {
  const server = await modelServer("openai", succeedAtRandom(chances, seed));
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
  const suite: EvalSuite = {
    ...{ file: "", format: "skillet", folder: "/", notes: [] },
    cases: [
      {
        ...{ name: "guess", prompt: "Guess.", files: {}, copies: {}, limits: {} },
        graders: [{ kind: "answer", conditions: { equals: "right" } }],
      },
    ],
  };
  const compared: ArmComparison[] = [];
  for (let at = 0; at < suites; at++) {
    const { skills } = await evaluateTasks({
      subjects: [{ skill: "trick", suite, arms, host }],
      ...{ trials: pairs, concurrency: 4, model, budget: createEvalBudget({ prices: new Map() }) },
    });
    compared.push(skills[0]?.comparisons[0] as ArmComparison);
  }
  return compared;
}
