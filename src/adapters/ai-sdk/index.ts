import { type JSONSchema7, jsonSchema, type ModelMessage, type Tool, tool } from "ai";
import { getDefaultContextWindow } from "../../agent/models/model-providers.ts";
import { listOfferedTools, type SessionToolOffer } from "../../agent/session/agent-tools.ts";
import { openSession, type Session } from "../../agent/session/session.ts";
import { type Catalog, loadCatalog } from "../../catalog/catalog.ts";
import { formatPromptListing, isOfferedByDefault } from "../../catalog/listing.ts";
import { completeHost, type HostOptions } from "../../config/host.ts";
import type { Profile } from "../../skill/diagnostics.ts";
import { createDirectorySource } from "../../skill/source/directory-source.ts";
import type { ToolResult } from "../../skill/tool.ts";
import { omitUndefined } from "../../util/objects.ts";

/** What a session's tools are called: spelled out, so that `activeTools`, `toolApproval` and results know them beside your own. */
export type SkillToolName =
  | "list_skills"
  | "search_skills"
  | "load_skill"
  | "read_skill_resource"
  | "run_skill_script"
  | "validate_skill"
  | "lint_skill";

/**
 * `use_skill` is there where the host says which models its sub-agents have, `call_skill_tool` where a skill brings tools. Those of the
 * skills that are loaded are there too, as `skill__tool`.
 */
export type SkillTools = Record<SkillToolName, Tool<unknown, ToolResult>> & {
  use_skill?: Tool<unknown, ToolResult>;
  call_skill_tool?: Tool<unknown, ToolResult>;
  /** Those that loaded skills bring. */
  [name: `${string}__${string}`]: Tool<unknown, ToolResult>;
};

export interface SkillToolset {
  /** The session's tools as they are now, for `generateText`, `streamText` and agents; yours go beside them: `{ ...skills.tools, mine }`. */
  readonly tools: SkillTools;
  /** The same skills for every query, as a part of the instructions; empty when there are none. */
  readonly instructions: string;
  /** Instead of `instructions`, what to tell the model for this query: nothing, how many skills there are, a list, or full instructions. */
  instructionsFor(query: string): string;
  /**
   * The same in two parts: `instructions` are the same for every query, so that a provider's prompt cache holds, and `prompt` is the
   * query with what is for it alone.
   */
  promptFor(query: string): { instructions: string; prompt: string };
  session: Session;
}

/** How a toolset reads its folders. */
export interface ToolsetOptions {
  /** The profile that a file must satisfy to be a skill. Defaults to `load`. */
  profile?: Profile;
  /** False: the folders are scanned once, and what is added later is not found. Edited instructions are read again. Defaults to true. */
  live?: boolean;
}

/** Skills for an agent of the AI SDK: one call for the tools and the instructions. Of two skills of one name the later folder's wins. */
export async function createSkillToolset(
  folders: readonly string[],
  host?: HostOptions & ToolsetOptions,
): Promise<SkillToolset>;
/** The same for a session of your own, with its host. */
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
    // A getter: the skills as they are now, also after a reload.
    get instructions() {
      const listing = session.listing();
      if (listing === "" || session.disclosureMode === "static") return listing;
      const whole = formatPromptListing(session.visible().filter((skill) => isOfferedByDefault(skill)));
      return `${HEADING}\n\n${listing.endsWith(`\n${whole}`) ? whole : listing}`;
    },
    // What is loaded stands in the messages of one call, which the next need not have: so it is told again.
    instructionsFor: (query) => session.disclose(query, { isLoaded: () => false }).text,
    promptFor(query) {
      const { prefix, suffix } = session.disclose(query, { isLoaded: () => false, countInPrefix: true });
      const context = suffix.trimStart();
      return { instructions: prefix, prompt: context === "" ? query : `${query}\n\n${context}` };
    },
    session,
  };
}

const HEADING =
  "Skills hold instructions for certain tasks. When one fits the request, load it with `load_skill` before you answer.";

async function createFolderSession(
  folders: readonly string[],
  { profile, live = true, ...host }: HostOptions & ToolsetOptions,
): Promise<Session> {
  const sources = folders.map((path) => createDirectorySource({ path, scope: "user", ...omitUndefined({ profile }) }));
  const contextWindow = getDefaultContextWindow(completeHost(host));
  const catalog = await loadCatalog(sources);
  return openSession(live ? catalog : freezeCatalog(catalog), host, omitUndefined({ contextWindow }));
}

/** A catalog that is the same after a reload: nothing is scanned again. */
function freezeCatalog(catalog: Catalog): Catalog {
  const fixed: Catalog = { ...catalog, reload: async () => fixed };
  return fixed;
}

/** What the AI SDK passes to a call, all of it optional: other frameworks need not pass the same. */
interface AiSdkCallContext {
  messages?: readonly ModelMessage[];
  abortSignal?: AbortSignal | undefined;
}

function toAiSdkTool({ description, category, inputSchema, call }: SessionToolOffer): Tool<unknown, ToolResult> {
  return tool({
    description,
    // No `validate`: the session takes other spellings than the schema's, and answers wrong input so that a model can mend it.
    inputSchema: jsonSchema<unknown>(inputSchema as JSONSchema7),
    metadata: { category },
    async execute(input, { messages = [], abortSignal }: AiSdkCallContext = {}) {
      const options = abortSignal ? { signal: abortSignal } : {};
      const result = await call(input, options);
      if (result.code !== "already-loaded") return result;
      // What the session has loaded is out of sight in a conversation that was shortened, or in another one of the same agent.
      const whole = await call({ ...Object(input), again: true }, options);
      return isInMessages(messages, whole.content) ? result : whole;
    },
    toModelOutput: (given) => toModelOutput(given as { output: ToolResult } | ToolResult),
  });
}

/** The AI SDK passes what a call was and its output, other frameworks that take its tools the output itself. */
function toModelOutput(given: { output: ToolResult } | ToolResult): { type: "error-text" | "text"; value: string } {
  const { isError, content } = "output" in given ? given.output : given;
  return { type: isError ? "error-text" : "text", value: content };
}

function isInMessages(messages: readonly ModelMessage[], text: string): boolean {
  return messages.some(
    ({ role, content }) =>
      role === "tool" &&
      content.some((part) => part.type === "tool-result" && part.output.type === "text" && part.output.value === text),
  );
}
