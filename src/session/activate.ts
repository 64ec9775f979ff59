import { DEFAULTS } from "../catalog/defaults.ts";
import { matcherOf } from "../catalog/disclose.ts";
import { isSelected, type Match } from "../catalog/match.ts";
import { defined } from "../shared/defined.ts";
import { inLine } from "../shared/prompt.ts";
import type { ToolResult } from "../skill/tool.ts";
import type { Activation, LoadOptions } from "./session.ts";
import type { State } from "./state.ts";

/** Loads what a topic is about. */
export async function activate(state: State, topic: string, options: LoadOptions = {}): Promise<Activation> {
  const { settings } = state.host;
  const most = settings.disclosure.maxSkills ?? DEFAULTS.maxSkills;
  const { isForModel } = state;
  const { matches } = matcherOf(await state.reload()).match(topic, {
    limit: most,
    isVisible: isForModel,
    isCallable: isForModel,
  });
  const names = meant(matches)
    .slice(0, most)
    .map(({ skill }) => skill.name);
  const results: { name: string; result: ToolResult }[] = [];
  for (const name of names) results.push({ name, result: await state.load(name, { ...options, task: topic }) });
  const loaded = results.filter(({ result }) => !result.isError).map(({ name }) => name);
  if (results.length === 0) return { skills: [], result: nothingFits(topic) };
  const content = results.map(({ result }) => result.content).join("\n\n");
  return { skills: loaded, result: { content, isError: loaded.length === 0, ...defined({ code: codeOf(results) }) } };
}

/** Who names a topic asks for skills: where none is triggered, those that its words fit at least half as well as the best. */
function meant(matches: readonly Match[]): readonly Match[] {
  const triggered = matches.filter(isSelected);
  if (triggered.length > 0) return triggered;
  const best = matches[0]?.score ?? 0;
  return matches.filter(({ score }) => score > 0 && score >= best / 2);
}

function codeOf(results: readonly { result: ToolResult }[]): string | undefined {
  return results.every(({ result }) => result.isError) ? results[0]?.result.code : undefined;
}

function nothingFits(topic: string): ToolResult {
  const content = `No skill fits "${inLine(topic, 200)}". list_skills shows what there is.`;
  return { content, isError: false, code: "no-match" };
}
