import { type ResolvedModel, resolveModel } from "../model/resolve.ts";
import { RUNBOOK } from "../model/runbook.ts";
import { SkillError } from "../shared/error.ts";
import type { Skill } from "../skill/skill.ts";
import type { Use } from "./use.ts";

/**
 * The caller's word over the configuration's, that over the skill's, and that over what whoever started it all asked for; but where they
 * asked for no language model, there is none. `inherit` is the model of whoever calls. A caller's alias that there is not is refused:
 * what they said must not go to another one.
 */
export async function modelFor(
  { name, manifest }: Skill,
  { host, request, chain }: Pick<Use, "host" | "request" | "chain">,
): Promise<ResolvedModel> {
  if (request.model !== undefined) return known(await resolveModel(host, request.model));
  if (chain.asked !== undefined) {
    const asked = await resolveModel(host, chain.asked);
    if (asked.model.name === RUNBOOK) return asked;
  }
  const own = manifest.model === "inherit" ? chain.model : manifest.model;
  return resolveModel(host, host.settings.skills.get(name)?.model ?? own ?? chain.asked);
}

/** Throws where an alias was not known. */
export function known(resolved: ResolvedModel): ResolvedModel {
  const unknown = resolved.warnings.find(({ code }) => code === "model-unknown");
  if (!unknown) return resolved;
  throw new SkillError(unknown.code, { message: unknown.message.replace(/: \S* is used$/s, ""), fix: unknown.fix });
}
