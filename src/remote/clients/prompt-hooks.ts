import { ADVICE_LIMIT, type Advice, type AdviseContext, advise } from "../../agent/session/advise.ts";
import { type ClientWith, getProgramTitle, type HookRules, listClientFacts } from "../../skill/clients.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";

/** The input and output format of a client's prompt hook. */
export interface HookFormat extends HookRules, Required<Pick<AdviseContext, "limit" | "counts" | "gives">> {
  title: string;
  counts: AdviseContext["counts"] & string;
  gives: AdviseContext["gives"] & string;
  /** The answer that adds nothing. */
  neutral: JsonObject;
}

/** The parts of a hook's input that are used. */
export interface HookInput {
  /** Empty for a prompt that no user wrote. */
  prompt: string;
  conversation?: string;
  cwd?: string;
  /** True if the client has summarized the conversation: the input is not about a prompt. */
  isSummarized?: true;
}

const HOOK_DEFAULTS = { limit: ADVICE_LIMIT, counts: "characters", gives: "instructions", neutral: {} } as const;

export type HookClient = ClientWith<"hook">;

/** Every client with a prompt hook, from THE table of clients. */
export const HOOK_FORMATS = Object.fromEntries(
  listClientFacts("hook").map(([name, rules]): [HookClient, HookFormat] => [
    name,
    { title: getProgramTitle(name), ...HOOK_DEFAULTS, ...rules },
  ]),
) as Readonly<Record<HookClient, HookFormat>>;

export function findHookFormat(client: string): HookFormat | undefined {
  return Object.hasOwn(HOOK_FORMATS, client) ? HOOK_FORMATS[client as HookClient] : undefined;
}

/**
 * Reads the input of a hook. Undefined without a prompt. A placeholder that the client left in place, such as
 * `${session_id}`, counts as absent.
 */
export function readHookInput(format: HookFormat, sent: unknown): HookInput | undefined {
  if (!isJsonObject(sent)) return undefined;
  const { input, summaries = [], nonUserSources: otherSources = [], quotesPrompt: quotes } = format;
  const textAt = (keys: readonly string[]) => {
    const values = keys.map((key) => (Object.hasOwn(sent, key) ? sent[key] : undefined));
    const texts = values.map((value) => (Array.isArray(value) ? value[0] : value));
    return texts.find((text): text is string => typeof text === "string" && text !== "" && !PLACEHOLDER.test(text));
  };
  const place = omitUndefined({ conversation: textAt(input.conversation), cwd: textAt(input.cwd) });
  if (summaries.includes(String(sent["hook_event_name"]))) return { prompt: "", isSummarized: true, ...place };
  const written = textAt(input.prompt);
  if (written === undefined) return undefined;
  const isFromUser = !otherSources.includes(String(sent["source"]));
  return { prompt: !isFromUser ? "" : quotes ? written.replace(QUOTED_PROMPT, "$1") : written, ...place };
}

const QUOTED_PROMPT = /^"([\s\S]*)"$/;
const PLACEHOLDER = /^\$\{\w+\}$/;

/** Returns the answer for the client; the neutral one for an empty text. */
export function createHookAnswer(format: HookFormat, text: string): JsonObject {
  const { neutral, answerKey, event, escapesAnswer: escapes } = format;
  if (text === "") return neutral;
  const shown = escapes ? text.replaceAll("&lt;", "\u2039") : text;
  if (answerKey === undefined)
    return { ...neutral, hookSpecificOutput: { hookEventName: event, additionalContext: shown } };
  return { ...neutral, [answerKey]: shown };
}

/** The advice on a client's prompt, and the answer that delivers it. */
export interface HookAdvice {
  advice: Advice;
  answer: JsonObject;
}

/** Advises on a prompt within a client's limits. */
export async function adviseClient(
  format: HookFormat,
  prompt: string,
  context: Omit<AdviseContext, "limit" | "counts" | "gives">,
): Promise<HookAdvice> {
  const { limit, counts, gives } = format;
  const advice = await advise(prompt, { ...context, limit, counts, gives });
  return { advice, answer: createHookAnswer(format, advice.text) };
}
