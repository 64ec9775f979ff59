import type { Catalog } from "../catalog/catalog.ts";
import { matcherOf } from "../catalog/disclose.ts";
import type { Host } from "../host/host.ts";
import { inLine } from "../shared/prompt.ts";
import { PROFILES, type Profile } from "../skill/diagnostic.ts";
import type { Skill } from "../skill/skill.ts";
import type { Tool, ToolResult } from "../skill/tool.ts";
import { judge } from "./judge.ts";
import { type Parameters, readInput, schemaOf, type Values } from "./parameters.ts";
import { resourceText } from "./resource.ts";
import { safely } from "./result.ts";
import type { By, LoadOptions } from "./session.ts";

/** What the tools need of the session they belong to. */
export interface Doors {
  catalog(): Catalog;
  reload(): Promise<Catalog>;
  find(name: string, by: By): Promise<Skill | { refusal: ToolResult }>;
  load(name: string, options: LoadOptions): Promise<ToolResult>;
  isVisible(skill: Skill): boolean;
  isForModel(skill: Skill): boolean;
  host: Host;
}

const SKILL = { type: "string", says: "the skill's name", isRequired: true, also: ["skill_name"] } as const;
const ONE_OF = {
  skill: { ...SKILL, isRequired: false, says: "a skill's name; or give a path or content" },
  path: { type: "string", says: "a skill's folder or file" },
  content: { type: "string", says: "the text of a SKILL.md" },
} as const;
const PROFILE = {
  type: "string",
  says: "what to check against; agentskills, the open standard, when left out",
  choices: PROFILES,
} as const;

/** The tools of a session, one row each. */
export function sessionTools(doors: Doors): readonly Tool[] {
  const { reload, find, load, isForModel } = doors;
  const scene = async () => ({ ...doors, catalog: await reload() });
  return [
    tool("list_skills", "Lists the skills there are: name, description, version and tags, as JSON.", {}, async () => {
      const skills = (await reload()).skills.filter(isForModel);
      return json(
        skills.map(({ name, description, manifest }) => ({
          name,
          description: inLine(manifest.whenToUse ? `${description} ${manifest.whenToUse}` : description),
          version: manifest.version,
          tags: manifest.tags,
        })),
      );
    }),
    tool(
      "search_skills",
      "Finds skills for a task, best first, also by what their instructions say. Use it when the list of skills is long or was cut.",
      {
        query: { type: "string", says: "what is to be done, in a few words", isRequired: true },
        limit: { type: "number", says: "how many at most; 10 when left out" },
      },
      async ({ query, limit = 10 }) => {
        const most = Math.min(50, Math.max(1, Math.floor(limit)));
        const { matches } = matcherOf(doors.catalog()).match(query, {
          bodies: true,
          limit: most,
          isVisible: isForModel,
          isCallable: isForModel,
        });
        return json(
          matches.slice(0, most).map(({ skill, reasons }) => ({
            name: skill.name,
            description: inLine(skill.manifest.briefDescription),
            why: reasons.map(({ kind, text }) => `${kind}: ${inLine(text, 200)}`).join("; "),
          })),
        );
      },
    ),
    tool(
      "load_skill",
      "Loads a skill: gives its full instructions and the list of its files. Follow them.",
      {
        skill: SKILL,
        arguments: { type: "string", says: "what the user wrote for the skill to work on, as they wrote it" },
        again: { type: "boolean", says: "give the instructions again although the skill is loaded" },
      },
      ({ skill, arguments: given, again }) =>
        load(skill, {
          ...(given === undefined ? {} : { arguments: given }),
          ...(again === undefined ? {} : { again }),
        }),
    ),
    tool(
      "read_skill_resource",
      "Reads a file of a skill: one of those that load_skill lists.",
      {
        skill: SKILL,
        resource: {
          type: "string",
          says: "the file's path as it is listed",
          isRequired: true,
          also: ["resource_name"],
        },
        offset: { type: "number", says: "where in a long file to go on" },
      },
      async ({ skill, resource, offset = 0 }) => {
        const found = await find(skill, "model");
        return "refusal" in found ? found.refusal : resourceText(found, resource, Math.max(0, Math.floor(offset)));
      },
    ),
    tool(
      "validate_skill",
      "Checks a skill's structure and metadata, and says what is wrong, where, and how to mend it.",
      { ...ONE_OF, profile: PROFILE },
      async ({ profile = "agentskills", ...what }) =>
        judge("structure", { ...what, profile: profile as Profile }, await scene()),
    ),
    tool(
      "lint_skill",
      "Checks the style of a skill's instructions: each finding with its rule, line and a way to mend it.",
      ONE_OF,
      async (what) => judge("style", { ...what, profile: "agentskills" }, await scene()),
    ),
  ];
}

function tool<P extends Parameters>(
  name: string,
  description: string,
  parameters: P,
  run: (values: Values<P>) => Promise<ToolResult>,
): Tool {
  return {
    name,
    description,
    category: "skills",
    inputSchema: schemaOf(parameters),
    async execute(input) {
      const values = readInput(parameters, input);
      return "refusal" in values ? (values.refusal as ToolResult) : safely(() => run(values as Values<P>));
    },
  };
}

function json(value: unknown): ToolResult {
  return { content: JSON.stringify(value), isError: false };
}
