import { useSkill } from "../agent/run/use-skill.ts";
import { discover } from "../config/discover.ts";
import { omitUndefined } from "../util/objects.ts";

/** The options of a provider in a promptfoo configuration: `config` of the provider. */
export interface PromptfooProviderOptions {
  id?: string;
  config?: {
    /** The skill that answers. */
    skill?: string;
    /** The alias of a model. */
    model?: string;
    /** Defaults to the working directory. */
    workspace?: string;
    maxIterations?: number;
    seconds?: number;
    tokens?: number;
  };
}

/** What promptfoo reads of an answer. */
export interface PromptfooResponse {
  output?: string;
  error?: string;
  tokenUsage?: { total: number; prompt: number; completion: number; cached: number };
  cost?: number;
  metadata?: Record<string, unknown>;
}

/**
 * A provider for promptfoo that runs a skill with each prompt, so that existing suites can test it:
 *
 * ```js
 * // skillet.mjs, used as `providers: [{ id: "file://skillet.mjs", config: { skill: "deploy" } }]`
 * export { PromptfooProvider as default } from "skillet/eval";
 * ```
 */
export class PromptfooProvider {
  readonly #options: PromptfooProviderOptions;

  constructor(options: PromptfooProviderOptions = {}) {
    this.#options = options;
  }

  id(): string {
    return this.#options.id ?? `skillet:${this.#options.config?.skill ?? ""}`;
  }

  /** Contract: never throws. */
  async callApi(prompt: string): Promise<PromptfooResponse> {
    const { skill, workspace, ...limits } = this.#options.config ?? {};
    if (skill === undefined) return { error: "The provider needs config.skill: the name of a skill" };
    try {
      const found = await discover({ follow: false, ...omitUndefined({ workspace }) });
      // A suite must not wait for approvals, and its runs are not recorded.
      const { runs: _, ...host } = found;
      const result = await useSkill(found.catalog, host, { ...limits, skill, message: prompt });
      const { usage, cost, content, isError, run, stop, model } = result;
      return {
        ...(isError ? { error: content } : { output: content }),
        tokenUsage: {
          total: usage.inputTokens + usage.outputTokens,
          ...{ prompt: usage.inputTokens, completion: usage.outputTokens, cached: usage.cachedTokens },
        },
        ...omitUndefined({ cost }),
        metadata: { run, stop, ...omitUndefined({ model }) },
      };
    } catch (error) {
      return { error: error instanceof Error ? error.message : String(error) };
    }
  }
}
