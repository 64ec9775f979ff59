import { type AdviceMemory, createAdviceMemory } from "../../agent/session/advise.ts";
import { createSharedCatalog } from "../../agent/session/session-disclosure.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import { discover } from "../../config/discover.ts";
import type { HostOptions } from "../../config/host.ts";
import { adviseClient, HOOK_FORMATS, type HookAdvice, readHookInput } from "../../remote/clients/prompt-hook-config.ts";
import { type JsonObject, omitUndefined } from "../../util/objects.ts";

export type { ClaudeOptions, ClaudeResult, ClaudeSdk, IsolationOptions, SdkMessage } from "./claude-sdk.ts";
export { evaluateWithClaude } from "./evaluate-with-claude.ts";

export interface PromptHookOptions {
  /** The skills. Defaults to those that `discover` finds in the folder that the agent works in. */
  catalog?: Catalog;
  /** Its policies and trust decide which skills are considered. Defaults to what `discover` returns, or to no settings with a catalog. */
  host?: HostOptions;
  /** The memory of advice that conversations received. Defaults to a memory of this hook. */
  memory?: AdviceMemory;
  /** Tells the model how to load a skill of a shortlist, as the end of a sentence. Defaults to the `load_skill` tool of skillet's MCP server. */
  loadWith?: string;
  /** Called with each advice. */
  onAdvice?(advice: HookAdvice["advice"]): void;
  /** Called with errors. The prompt then continues without advice. */
  onError?(error: unknown): void;
}

/** A row of `hooks.UserPromptSubmit` in the options of the Claude Agent SDK's `query()`. */
export interface PromptHook {
  hooks: ((input: unknown) => Promise<JsonObject>)[];
}

/**
 * Creates a hook that adds the skills that fit to each prompt.
 *
 * ```ts
 * query({ prompt, options: { hooks: { UserPromptSubmit: [createPromptHook()] } } });
 * ```
 */
export function createPromptHook(options: PromptHookOptions = {}): PromptHook {
  const { memory = createAdviceMemory(), loadWith, onAdvice, onError } = options;
  const format = HOOK_FORMATS.claude;
  const skillsFor = createSkillLookup(options);
  return {
    hooks: [
      async (sent) => {
        try {
          const input = readHookInput(format, sent);
          if (!input) return format.neutral;
          const { conversation, cwd, isSummarized } = input;
          const more = omitUndefined({ conversation, loadWith, isSummarized });
          const { advice, answer } = await adviseClient(format, input.prompt, {
            ...(await skillsFor(cwd)),
            memory,
            ...more,
          });
          onAdvice?.(advice);
          return answer;
        } catch (error) {
          onError?.(error);
          return format.neutral;
        }
      },
    ],
  };
}

interface HookSkills {
  catalog: Catalog;
  host: HostOptions;
}

/** Returns a function that finds the current skills: those of the options, or those of a folder. */
function createSkillLookup({ catalog, host = {} }: PromptHookOptions): (cwd?: string) => Promise<HookSkills> {
  if (catalog) {
    const shared = createSharedCatalog(catalog);
    return async () => ({ catalog: await shared.catalog.reload(), host });
  }
  const known = new Map<string, ReturnType<typeof discoverSharedCatalog>>();
  return async (cwd = process.cwd()) => {
    const opening = known.get(cwd) ?? discoverSharedCatalog(cwd);
    known.set(cwd, opening);
    const { shared, found } = await opening;
    const { isBroken, diagnostics } = found.currentConfiguration();
    // Without valid settings, a disabled skill could be offered.
    if (isBroken) throw new Error(diagnostics.map(({ file, message }) => `${file} ${message}`).join("; "));
    return { catalog: await shared.catalog.reload(), host: { ...found, ...host } };
  };
}

async function discoverSharedCatalog(workspace: string) {
  const found = await discover({ workspace });
  return { found, shared: createSharedCatalog(found.catalog) };
}
