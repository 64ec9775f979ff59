import { defined } from "../shared/defined.ts";
import { type Data, isData } from "../skill/data.ts";
import { ADVICE_LIMIT, type Advice, type AdviseContext, advise } from "./advise.ts";

/** How a client's prompt hook is read and answered. */
export interface HookFormat extends Required<Pick<AdviseContext, "limit" | "counts" | "gives">> {
  title: string;
  /** The client's event. */
  event: string;
  /** Keys of the input, the first that has a text counts. A list counts with its first entry. */
  input: { prompt: readonly string[]; conversation: readonly string[]; cwd: readonly string[] };
  /** Values of the key `hook_event_name` for the events that summarize a conversation. */
  summaries?: readonly string[];
  /** The client may put quotation marks around the prompt. */
  quotes?: true;
  /** Values of the key `source` for prompts that no person wrote, such as the result of a background task: their text selects no skill. */
  otherSources?: readonly string[];
  /** The answer that adds nothing. */
  neutral: Data;
  /** The answer that adds this text. */
  answer(text: string): Data;
  /** The client escapes `<` and `&` itself, so that a model would read them escaped twice. */
  escapes?: true;
}

/** What a client sends to its hook, as far as it is used. */
export interface HookInput {
  /** Empty for a prompt that no person wrote. */
  prompt: string;
  conversation?: string;
  cwd?: string;
  /** The client has summarized the conversation: the input is not about a prompt. */
  isSummarized?: true;
}

const CLAUDE_INPUT = { prompt: ["prompt"], conversation: ["session_id"], cwd: ["cwd"] };
const INSTRUCTIONS = { limit: ADVICE_LIMIT, counts: "characters", gives: "instructions" } as const;

/** Every client with a prompt hook, one row each. */
export const HOOK_FORMATS = {
  claude: {
    title: "Claude Code",
    event: "UserPromptSubmit",
    input: CLAUDE_INPUT,
    ...INSTRUCTIONS, // Above 10,000 characters the model gets a preview.
    summaries: ["PreCompact", "PostCompact"],
    otherSources: ["system", "poll_event"],
    neutral: {},
    answer: nested("UserPromptSubmit"),
  },
  codex: {
    title: "Codex",
    event: "UserPromptSubmit",
    input: CLAUDE_INPUT,
    ...INSTRUCTIONS,
    counts: "bytes", // About 2,500 tokens, which it estimates from the bytes.
    neutral: {},
    answer: nested("UserPromptSubmit"),
  },
  gemini: {
    title: "Gemini CLI",
    event: "BeforeAgent",
    input: CLAUDE_INPUT,
    ...INSTRUCTIONS,
    gives: "shortlist", // Its system prompt says that what a hook adds is data, not instructions.
    escapes: true,
    summaries: ["PreCompress"],
    neutral: {},
    answer: nested("BeforeAgent"),
  },
  opencode: {
    title: "OpenCode",
    event: "chat.message",
    input: { prompt: ["prompt"], conversation: ["sessionID"], cwd: ["cwd"] },
    ...INSTRUCTIONS,
    quotes: true,
    neutral: {},
    answer: (additionalContext) => ({ additionalContext }),
  },
  copilot: {
    title: "GitHub Copilot CLI",
    event: "userPromptSubmitted",
    input: { prompt: ["prompt"], conversation: ["sessionId"], cwd: ["cwd"] },
    ...INSTRUCTIONS,
    neutral: {},
    answer: (additionalContext) => ({ additionalContext }), // It drops the nested form.
  },
  cursor: {
    title: "Cursor",
    event: "beforeSubmitPrompt",
    input: { prompt: ["prompt"], conversation: ["conversation_id"], cwd: ["cwd", "workspace_roots"] },
    ...INSTRUCTIONS, // Above 10,000 characters nothing is added.
    neutral: { continue: true },
    answer: (text) => ({ continue: true, additional_context: text }),
  },
} satisfies Record<string, HookFormat>;

export type HookClient = keyof typeof HOOK_FORMATS;

export function findHookFormat(client: string): HookFormat | undefined {
  return Object.hasOwn(HOOK_FORMATS, client) ? HOOK_FORMATS[client as HookClient] : undefined;
}

/** Reads what a client sends. Undefined without a prompt. A placeholder that the client left in place, such as `${session_id}`, counts as absent. */
export function readHookInput(format: HookFormat, sent: unknown): HookInput | undefined {
  if (!isData(sent)) return undefined;
  const { input, summaries = [], otherSources = [], quotes } = format;
  const textAt = (keys: readonly string[]) => {
    const values = keys.map((key) => (Object.hasOwn(sent, key) ? sent[key] : undefined));
    const texts = values.map((value) => (Array.isArray(value) ? value[0] : value));
    return texts.find((text): text is string => typeof text === "string" && text !== "" && !PLACEHOLDER.test(text));
  };
  const place = defined({ conversation: textAt(input.conversation), cwd: textAt(input.cwd) });
  if (summaries.includes(String(sent["hook_event_name"]))) return { prompt: "", isSummarized: true, ...place };
  const written = textAt(input.prompt);
  if (written === undefined) return undefined;
  const isFromUser = !otherSources.includes(String(sent["source"]));
  return { prompt: !isFromUser ? "" : quotes ? written.replace(QUOTED, "$1") : written, ...place };
}

const QUOTED = /^"([\s\S]*)"$/;
const PLACEHOLDER = /^\$\{\w+\}$/;

/** Returns the answer for the client; the neutral one for an empty text. */
export function writeHookAnswer({ neutral, answer, escapes }: HookFormat, text: string): Data {
  if (text === "") return neutral;
  return answer(escapes ? text.replaceAll("&lt;", "\u2039") : text);
}

/** The advice on a client's prompt, and the answer that delivers it. */
export interface HookAdvice {
  advice: Advice;
  answer: Data;
}

/** Advises on a prompt within a client's limits. */
export async function adviseClient(
  format: HookFormat,
  prompt: string,
  context: Omit<AdviseContext, "limit" | "counts" | "gives">,
): Promise<HookAdvice> {
  const { limit, counts, gives } = format;
  const advice = await advise(prompt, { ...context, limit, counts, gives });
  return { advice, answer: writeHookAnswer(format, advice.text) };
}

function nested(hookEventName: string): (text: string) => Data {
  return (additionalContext) => ({ hookSpecificOutput: { hookEventName, additionalContext } });
}
