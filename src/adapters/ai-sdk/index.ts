import { type JSONSchema7, jsonSchema, type ModelMessage, type Tool, tool } from "ai";
import { getDefaultContextWindow } from "../../agent/models/model-providers.ts";
import { listOfferedTools, openSession, type Session, type SessionToolOffer } from "../../agent/session/session.ts";
import { type Catalog, loadCatalog } from "../../catalog/catalog.ts";
import { formatPromptListing, isOfferedByDefault } from "../../catalog/listing.ts";
import { completeHost, type HostOptions } from "../../config/host.ts";
import type { Profile } from "../../skill/skill.ts";
import { createDirectorySource } from "../../skill/source/directory-source.ts";
import type { ToolResult } from "../../skill/tool.ts";
import { omitUndefined } from "../../util/objects.ts";

/** The names of a session's tools, as literals, so that `activeTools`, `toolApproval` and results know them next to your own tools. */
export type SkillToolName =
  | "list_skills"
  | "search_skills"
  | "load_skill"
  | "read_skill_resource"
  | "run_skill_script"
  | "validate_skill"
  | "lint_skill";

/**
 * The tools of a session. `use_skill` exists if the host has models for sub-agents, `call_skill_tool` if a skill provides tools. The tools of
 * loaded skills are included as `skill__tool`.
 */
export type SkillTools = Record<SkillToolName, Tool<unknown, ToolResult>> & {
  use_skill?: Tool<unknown, ToolResult>;
  call_skill_tool?: Tool<unknown, ToolResult>;
  /** The tools of loaded skills. */
  [name: `${string}__${string}`]: Tool<unknown, ToolResult>;
};

export interface SkillToolset {
  /** The session's current tools, for `generateText`, `streamText` and agents. Add your own: `{ ...skills.tools, mine }`. */
  readonly tools: SkillTools;
  /** The list of skills as a part of the instructions, the same for every query; empty without skills. */
  instructions(): Promise<string>;
  /** Returns the text for this query, instead of `instructions`: nothing, the number of skills, a list, or full instructions. */
  instructionsFor(query: string): Promise<string>;
  /**
   * Returns the same in two parts: `instructions` are the same for every query, so that a provider's prompt cache works, and `prompt` is the
   * query with its own context.
   */
  promptFor(query: string): Promise<{ instructions: string; prompt: string }>;
  session: Session;
}

/** Options for reading the folders of a toolset. */
export interface ToolsetOptions {
  /** The profile that a file must satisfy to be a skill. Defaults to `load`. */
  profile?: Profile;
  /** False scans the folders once, and does not find skills added later. Edited instructions are read again. Defaults to true. */
  live?: boolean;
}

/** Creates the tools and instructions of skills for an agent of the AI SDK. If two skills have the same name, the later folder wins. */
export async function createSkillToolset(
  folders: readonly string[],
  host?: HostOptions & ToolsetOptions,
): Promise<SkillToolset>;
/** Creates the same for your own session, with its host. */
export async function createSkillToolset(session: Session): Promise<SkillToolset>;
export async function createSkillToolset(
  from: readonly string[] | Session,
  host: HostOptions & ToolsetOptions = {},
): Promise<SkillToolset> {
  const session = "call" in from ? from : await createFolderSession(from, host);
  return {
    get tools() {
      return Object.fromEntries(listOfferedTools(session).map((tool) => [tool.name, toAiSdkTool(tool)])) as SkillTools;
    },
    async instructions() {
      const listing = await session.formatListing();
      if (listing === "" || session.disclosureMode === "static") return listing;
      const whole = formatPromptListing(session.listVisible().filter((skill) => isOfferedByDefault(skill)));
      return `${HEADING}\n\n${listing.endsWith(`\n${whole}`) ? whole : listing}`;
    },
    // Loaded skills are in the messages of one call, which the next may not have, so they are disclosed again.
    instructionsFor: async (query) => (await session.disclose(query, { isLoaded: () => false })).text,
    async promptFor(query) {
      const { prefix, suffix } = await session.disclose(query, { isLoaded: () => false, countInPrefix: true });
      const context = suffix.trimStart();
      return { instructions: prefix, prompt: context === "" ? query : `${query}\n\n${context}` };
    },
    session,
  };
}

const HEADING =
  "Skills contain instructions for certain tasks. When one fits the request, load it with `load_skill` before you answer.";

async function createFolderSession(
  folders: readonly string[],
  { profile, live = true, ...host }: HostOptions & ToolsetOptions,
): Promise<Session> {
  const sources = folders.map((path) => createDirectorySource({ path, scope: "user", ...omitUndefined({ profile }) }));
  const contextWindow = getDefaultContextWindow(completeHost(host));
  const catalog = await loadCatalog(sources);
  return openSession(live ? catalog : freezeCatalog(catalog), host, omitUndefined({ contextWindow }));
}

/** Returns a catalog that stays the same after a reload: nothing is scanned again. */
function freezeCatalog(catalog: Catalog): Catalog {
  const fixed: Catalog = { ...catalog, reload: async () => fixed };
  return fixed;
}

/** The options that the AI SDK passes to a call. All are optional: other frameworks may not pass them. */
interface AiSdkCallContext {
  messages?: readonly ModelMessage[];
  abortSignal?: AbortSignal | undefined;
}

function toAiSdkTool({ description, category, inputSchema, call }: SessionToolOffer): Tool<unknown, ToolResult> {
  return tool({
    description,
    // No `validate`: the session accepts other spellings than the schema, and answers invalid input so that a model can fix it.
    inputSchema: jsonSchema<unknown>(inputSchema as JSONSchema7),
    metadata: { category },
    async execute(input, { messages = [], abortSignal }: AiSdkCallContext = {}) {
      const options = abortSignal ? { signal: abortSignal } : {};
      const result = await call(input, options);
      if (result.code !== "already-loaded") return result;
      // Loaded instructions may be missing from a conversation that was shortened, or from another one of the same agent.
      const whole = await call({ ...Object(input), again: true }, options);
      return isInMessages(messages, whole.text) ? result : whole;
    },
    toModelOutput: (result) => toModelOutput(result as { output: ToolResult } | ToolResult),
  });
}

/** Converts a result for the model. The AI SDK passes the call and its output, other frameworks only the output. */
function toModelOutput(result: { output: ToolResult } | ToolResult): { type: "error-text" | "text"; value: string } {
  const { isError, text } = typeof result.output === "object" ? result.output : (result as ToolResult);
  return { type: isError ? "error-text" : "text", value: text };
}

function isInMessages(messages: readonly ModelMessage[], text: string): boolean {
  return messages.some(
    ({ role, content }) =>
      role === "tool" &&
      content.some((part) => part.type === "tool-result" && part.output.type === "text" && part.output.value === text),
  );
}
