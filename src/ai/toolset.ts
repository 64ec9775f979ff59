import { type JSONSchema7, jsonSchema, type ToolSet, tool } from "ai";
import { openCatalog } from "../catalog/catalog.ts";
import { promptListing } from "../catalog/listing.ts";
import type { Host } from "../host/host.ts";
import { NO_SETTINGS } from "../host/settings.ts";
import { openSession, type Session } from "../session/session.ts";
import type { Tool, ToolResult } from "../skill/tool.ts";
import { directorySource } from "../source/directory.ts";

export interface SkillToolset {
  /** The session's tools, for `generateText`, `streamText` and agents. */
  tools: ToolSet;
  /** The same skills for every query, as a part of the instructions; empty when there are none. */
  instructions: string;
  /** What to tell the model for this query: nothing, how many skills there are, a list, or full instructions. */
  instructionsFor(query: string): string;
  session: Session;
}

/** Skills for an agent of the AI SDK, from folders or from a session: one call for the tools and the instructions. */
export async function skillToolset(from: readonly string[] | Session, host: Partial<Host> = {}): Promise<SkillToolset> {
  const session = "call" in from ? from : await openFolders(from, host);
  const listing = promptListing(session.visible());
  return {
    tools: Object.fromEntries(session.tools.map((offered) => [offered.name, asTool(offered)])),
    instructions: listing === "" ? "" : `${HEADING}\n\n${listing}`,
    instructionsFor: (query) => session.disclose(query).text,
    session,
  };
}

const HEADING =
  "Skills hold instructions for certain tasks. When one fits the request, load it with `load_skill` before you answer.";

async function openFolders(folders: readonly string[], host: Partial<Host>): Promise<Session> {
  // Later folders win, as a program's own skills win over shipped ones.
  const sources = folders.map((path) => directorySource({ path, scope: "user" }));
  return openSession(await openCatalog(sources), { settings: NO_SETTINGS, ...host });
}

function asTool({ description, category, inputSchema, execute }: Tool): ToolSet[string] {
  return tool({
    description,
    inputSchema: jsonSchema(inputSchema as JSONSchema7),
    metadata: { category },
    execute: (input: unknown) => execute(input),
    toModelOutput: ({ output }: { output: ToolResult }) => ({
      type: output.isError ? "error-text" : "text",
      value: output.content,
    }),
  });
}
