import { randomUUID } from "node:crypto";
import { type Host, notifyHost } from "../../config/host.ts";
import type { SkillExpandedEvent } from "../../host/events.ts";
import { findSchemaProblem } from "../../host/json-schema.ts";
import type { Message } from "../../host/model-contract.ts";
import { type CallOptions, catchToolErrors, type Tool, type ToolResult } from "../../skill/tool.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { createDefinitionError, OPEN_SECTIONS } from "./prompt-section.ts";
import {
  createOpenSectionsTool,
  type Prompt,
  type RenderedPrompt,
  VisibilityExpansionRequired,
} from "./prompt-template.ts";
import type { RenderedSection } from "./render-sections.ts";

export interface PromptSessionOptions extends Pick<Host, "onEvent" | "statistics"> {
  /** What events say of it; a new one when left out. */
  id?: string;
  /** Dotted keys of what was opened before. */
  expanded?: readonly string[] | ReadonlySet<string>;
  /** What was said before, as `messages` of an earlier session has it. */
  messages?: readonly Message[];
  /** Whether the skills that can be installed are: then they are left out of the prompt. */
  isInstalled?: boolean;
}

/** One evaluation of a prompt: what a model has opened of it, and the tools that it has by that. */
export interface PromptSession {
  readonly id: string;
  readonly prompt: Prompt;
  /** Dotted keys of what was opened, in order. */
  readonly expanded: readonly string[];
  /** What was said in earlier evaluations with this session. Plain data. */
  readonly messages: readonly Message[];
  /** Keeps what an evaluation opened and said, for the next one. */
  remember(kept: { expanded: readonly string[]; messages: readonly Message[] }): void;
  /** The prompt as it is now. */
  render(): RenderedPrompt;
  /** The tools as they are now. What `open_sections` asks for is done, and its result is what it opened. */
  readonly tools: readonly Tool[];
  /**
   * Shows these sections in full from now on, and gives what is new. Those that are open already, or not there, change nothing. Throws a
   * SkillRefError or PromptValidationError when one cannot be shown, and then all is as it was.
   */
  expand(keys: readonly string[]): readonly RenderedSection[];
  /** Contract: a refusal or failure is a result, never an exception. */
  call(tool: string, input: unknown, options?: CallOptions): Promise<ToolResult>;
}

/** Begins to evaluate a prompt. Throws a PromptValidationError when it cannot be rendered. */
export function createPromptSession(prompt: Prompt, options: PromptSessionOptions = {}): PromptSession {
  const { id = randomUUID(), isInstalled = false } = options;
  if (typeof Object(prompt).render !== "function")
    throw createDefinitionError("The prompt", "it is none that can be rendered", "bind it first: template.bind({ … })");
  let expanded: ReadonlySet<string> = new Set(options.expanded);
  const opening = (tool: Tool): Tool => ({ ...tool, execute: (input) => catchToolErrors(() => open(input)) });
  // By what is shown now: whoever holds the tool of an earlier rendering may ask again, or for what that brought.
  const open = async (input: unknown): Promise<ToolResult> => {
    try {
      return await createOpenSectionsTool(now.rendered.sections).execute(input);
    } catch (signal) {
      if (!(signal instanceof VisibilityExpansionRequired)) throw signal;
      const shown = session.expand(signal.sectionKeys);
      return shown.length > 0 ? createOpenedResult(shown) : open(input); // Another call was faster: it is open by now, or gone.
    }
  };
  const renderWith = (keys: ReadonlySet<string>) => {
    const rendered = prompt.render({ expanded: keys, isInstalled });
    return { rendered, tools: rendered.tools.map((tool) => (tool.name === OPEN_SECTIONS ? opening(tool) : tool)) };
  };
  let now = renderWith(expanded);
  let messages: readonly Message[] = [...(options.messages ?? [])];
  const session: PromptSession = {
    id,
    prompt,
    get expanded() {
      return [...expanded];
    },
    get messages() {
      return messages;
    },
    remember(kept) {
      expanded = new Set([...expanded, ...kept.expanded]);
      messages = [...kept.messages];
    },
    render() {
      now = renderWith(expanded); // Whether a section is on is asked anew.
      return now.rendered;
    },
    get tools() {
      return now.tools;
    },
    expand(keys) {
      const wanted = new Set(keys);
      const opened = now.rendered.summarized.flatMap(({ key }) => (wanted.has(key) ? key : []));
      if (opened.length === 0) return [];
      const more = new Set([...expanded, ...opened]);
      now = renderWith(more);
      expanded = more;
      // One that was switched off since it was last rendered is not among them.
      const shown = now.rendered.sections.filter(({ key }) =>
        opened.some((one) => key === one || key.startsWith(`${one}.`)),
      );
      for (const { key, skill } of shown) {
        if (skill !== undefined && opened.includes(key)) notifyHost(options, createExpandedEvent(session, key, skill));
      }
      return shown;
    },
    async call(name, input, callOptions) {
      // Also when nothing is left to open: a model may ask again for what is.
      if (name === OPEN_SECTIONS) return catchToolErrors(() => open(input));
      const tool = now.tools.find((one) => one.name === name);
      return tool ? callPromptTool(tool, input, callOptions) : createUnknownToolResult(name, now.rendered);
    },
  };
  return session;
}

/** What was opened, as a model reads it: the text, and which tools it has now. */
function createOpenedResult(shown: readonly RenderedSection[]): ToolResult {
  const tools = shown.flatMap((section) => (section.visibility === "FULL" ? section.tools : []));
  const names = [...new Set(tools.map(({ name }) => name))].join(", ");
  const text = shown.map((section) => section.text).join("\n\n");
  return { content: names === "" ? text : `${text}\n\n[Tools that are available now: ${names}]`, isError: false };
}

/** Tools of JSON Schema leave it to whoever calls to hold input to it. */
function callPromptTool(tool: Tool, input: unknown, options?: CallOptions): Promise<ToolResult> {
  return catchToolErrors(async () => {
    const problem = await findSchemaProblem(tool.inputSchema, input ?? {}, "lenient");
    if (problem !== undefined) return { content: problem, isError: true, code: "input-invalid" };
    return tool.execute(input, options);
  });
}

function createUnknownToolResult(name: string, { summarized }: RenderedPrompt): ToolResult {
  const holder = summarized.find(({ tools }) => tools.some((tool) => tool.name === name));
  const fix = holder ? `: open section "${holder.key}" first, with ${OPEN_SECTIONS}` : "";
  return { content: `There is no tool "${sanitizeLine(name, 80)}" now${fix}.`, isError: true, code: "tool-unknown" };
}

function createExpandedEvent({ id, prompt }: PromptSession, skillKey: string, skillName: string): SkillExpandedEvent {
  return Object.freeze({
    type: "skill-expanded",
    skillName,
    skillKey,
    promptNs: prompt.ns,
    promptKey: prompt.key,
    sessionId: id,
    createdAt: new Date().toISOString(),
    eventId: randomUUID(),
  });
}
