import { ADVICE_LIMIT, type Advice, type AdviseContext, advise } from "../../agent/session/advise.ts";
import { getProgramTitle } from "../../skill/clients.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";

/** The input and output format of a client's prompt hook. */
export interface HookFormat extends Required<Pick<AdviseContext, "limit" | "counts" | "gives">> {
  title: string;
  /** The client's event. */
  event: string;
  /** Keys of the input; the first with a text counts. A list counts with its first entry. */
  input: { prompt: readonly string[]; conversation: readonly string[]; cwd: readonly string[] };
  /** Values of the key `hook_event_name` for the events that summarize a conversation. */
  summaries?: readonly string[];
  /** True if the client may put quotation marks around the prompt. */
  quotesPrompt?: true;
  /**
   * Values of the key `source` for prompts that no user wrote, such as the result of a background task: their text
   * selects no skill.
   */
  nonUserSources?: readonly string[];
  /** The answer that adds nothing. */
  neutral: JsonObject;
  /** The answer that adds this text. */
  answer(text: string): JsonObject;
  /** True if the client escapes `<` and `&` itself, so that a model would read them escaped twice. */
  escapesAnswer?: true;
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

const CLAUDE_INPUT = { prompt: ["prompt"], conversation: ["session_id"], cwd: ["cwd"] };
const INSTRUCTION_LIMITS = { limit: ADVICE_LIMIT, counts: "characters", gives: "instructions" } as const;

/** Every client with a prompt hook, one row each. */
export const HOOK_FORMATS = {
  claude: {
    title: getProgramTitle("claude"),
    event: "UserPromptSubmit",
    input: CLAUDE_INPUT,
    ...INSTRUCTION_LIMITS, // Above 10,000 characters the model gets a preview.
    summaries: ["PreCompact", "PostCompact"],
    nonUserSources: ["system", "poll_event"],
    neutral: {},
    answer: createNestedAnswer("UserPromptSubmit"),
  },
  codex: {
    title: getProgramTitle("codex"),
    event: "UserPromptSubmit",
    input: CLAUDE_INPUT,
    ...INSTRUCTION_LIMITS,
    counts: "bytes", // About 2,500 tokens, estimated from the bytes.
    neutral: {},
    answer: createNestedAnswer("UserPromptSubmit"),
  },
  gemini: {
    title: getProgramTitle("gemini"),
    event: "BeforeAgent",
    input: CLAUDE_INPUT,
    ...INSTRUCTION_LIMITS,
    gives: "shortlist", // Its system prompt declares text from hooks to be data, not instructions.
    escapesAnswer: true,
    summaries: ["PreCompress"],
    neutral: {},
    answer: createNestedAnswer("BeforeAgent"),
  },
  opencode: {
    title: getProgramTitle("opencode"),
    event: "chat.message",
    input: { prompt: ["prompt"], conversation: ["sessionID"], cwd: ["cwd"] },
    ...INSTRUCTION_LIMITS,
    quotesPrompt: true,
    neutral: {},
    answer: (additionalContext) => ({ additionalContext }),
  },
  copilot: {
    title: getProgramTitle("copilot"),
    event: "userPromptSubmitted",
    input: { prompt: ["prompt"], conversation: ["sessionId"], cwd: ["cwd"] },
    ...INSTRUCTION_LIMITS,
    neutral: {},
    answer: (additionalContext) => ({ additionalContext }), // It drops the nested form.
  },
  cursor: {
    title: getProgramTitle("cursor"),
    event: "beforeSubmitPrompt",
    input: { prompt: ["prompt"], conversation: ["conversation_id"], cwd: ["cwd", "workspace_roots"] },
    ...INSTRUCTION_LIMITS, // Above 10,000 characters nothing is added.
    neutral: { continue: true },
    answer: (text) => ({ continue: true, additional_context: text }),
  },
} satisfies Record<string, HookFormat>;

export type HookClient = keyof typeof HOOK_FORMATS;

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
export function createHookAnswer({ neutral, answer, escapesAnswer: escapes }: HookFormat, text: string): JsonObject {
  if (text === "") return neutral;
  return answer(escapes ? text.replaceAll("&lt;", "\u2039") : text);
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

function createNestedAnswer(hookEventName: string): (text: string) => JsonObject {
  return (additionalContext) => ({ hookSpecificOutput: { hookEventName, additionalContext } });
}
