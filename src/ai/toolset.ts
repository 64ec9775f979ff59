import { type JSONSchema7, jsonSchema, type ModelMessage, type Tool, tool } from "ai";
import { listWithin } from "../catalog/budget.ts";
import { openCatalog } from "../catalog/catalog.ts";
import { DEFAULTS } from "../catalog/defaults.ts";
import { promptListing } from "../catalog/listing.ts";
import type { Host } from "../host/host.ts";
import { openSession, type Session } from "../session/session.ts";
import type { Tool as SessionTool, ToolResult } from "../skill/tool.ts";
import { directorySource } from "../source/directory.ts";

/** What a session's tools are called: spelled out, so that `activeTools`, `toolApproval` and results know them beside your own. */
export type SkillToolName =
  | "list_skills"
  | "search_skills"
  | "load_skill"
  | "read_skill_resource"
  | "run_skill_script"
  | "validate_skill"
  | "lint_skill";

/** `use_skill` is there where the host says which models its sub-agents have. */
export type SkillTools = Record<SkillToolName, Tool<unknown, ToolResult>> & { use_skill?: Tool<unknown, ToolResult> };

export interface SkillToolset {
  /** The session's tools, for `generateText`, `streamText` and agents; yours go beside them: `{ ...skills.tools, mine }`. */
  tools: SkillTools;
  /** The same skills for every query, as a part of the instructions; empty when there are none. */
  readonly instructions: string;
  /** Instead of `instructions`, what to tell the model for this query: nothing, how many skills there are, a list, or full instructions. */
  instructionsFor(query: string): string;
  session: Session;
}

/** Skills for an agent of the AI SDK: one call for the tools and the instructions. Of two skills of one name the later folder's wins. */
export async function skillToolset(folders: readonly string[], host?: Partial<Host>): Promise<SkillToolset>;
/** The same for a session of your own, with its host. */
export async function skillToolset(session: Session): Promise<SkillToolset>;
export async function skillToolset(from: readonly string[] | Session, host: Partial<Host> = {}): Promise<SkillToolset> {
  const session = "call" in from ? from : await openFolders(from, host);
  return {
    tools: Object.fromEntries(session.tools.map((offered) => [offered.name, asTool(offered)])) as SkillTools,
    // A getter: the skills as they are now, also after a reload.
    get instructions() {
      const skills = session.visible();
      const listing = promptListing(skills);
      if (listing.length <= ROOM) return listing === "" ? "" : `${HEADING}\n\n${listing}`;
      const { text } = listWithin(skills, { room: ROOM, first: () => [], search: "search_skills" });
      return `${HEADING}\n\n${text}`;
    },
    // What is loaded stands in the messages of one call, which the next need not have: so it is told again.
    instructionsFor: (query) => session.disclose(query, { isLoaded: () => false }).text,
    session,
  };
}

/** How long a list of skills may be, in characters. */
const ROOM = DEFAULTS.budget * 4;
const HEADING =
  "Skills hold instructions for certain tasks. When one fits the request, load it with `load_skill` before you answer.";

async function openFolders(folders: readonly string[], host: Partial<Host>): Promise<Session> {
  const sources = folders.map((path) => directorySource({ path, scope: "user" }));
  return openSession(await openCatalog(sources), host);
}

function asTool({ description, category, inputSchema, execute }: SessionTool): Tool<unknown, ToolResult> {
  return tool({
    description,
    // No `validate`: the session takes other spellings than the schema's, and answers wrong input so that a model can mend it.
    inputSchema: jsonSchema<unknown>(inputSchema as JSONSchema7),
    metadata: { category },
    async execute(input, { messages, abortSignal }) {
      const options = abortSignal ? { signal: abortSignal } : {};
      const result = await execute(input, options);
      if (result.code !== "already-loaded") return result;
      // What the session has loaded is out of sight in a conversation that was shortened, or in another one of the same agent.
      const whole = await execute({ ...Object(input), again: true }, options);
      return isIn(messages, whole.content) ? result : whole;
    },
    toModelOutput: ({ output }) => ({ type: output.isError ? "error-text" : "text", value: output.content }),
  });
}

function isIn(messages: readonly ModelMessage[], text: string): boolean {
  return messages.some(
    ({ role, content }) =>
      role === "tool" &&
      content.some((part) => part.type === "tool-result" && part.output.type === "text" && part.output.value === text),
  );
}
