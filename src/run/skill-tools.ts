import { defined } from "../shared/defined.ts";
import type { Skill } from "../skill/skill.ts";
import { type CallOptions, makeTool, type Tool, type ToolResult } from "../skill/tool.ts";
import { COMPLETE } from "./gate.ts";
import type { RunTool, Within } from "./loop-options.ts";
import { resourceText } from "./resource.ts";
import { makeRunTool } from "./run-tool.ts";
import type { UseRequest } from "./use.ts";

const CATEGORY = "skills";
const SKILL = { type: "string", says: "the skill's name", isRequired: true, also: ["skill_name"] } as const;

/** Lists skills, each with a note where a nearer copy of it does not load. */
export function listTool(list: () => Promise<ToolResult>): Tool {
  return makeTool(
    {
      name: "list_skills",
      description: "Lists the skills there are: name, description, version and tags, as JSON.",
      category: CATEGORY,
      parameters: {},
    },
    list,
  );
}

/** How a model hands a task to a skill. */
export function useTool(
  use: (request: UseRequest, within: Within | undefined, options: CallOptions) => Promise<ToolResult>,
): RunTool {
  return makeRunTool(
    {
      name: "use_skill",
      description:
        "Hands a task to a skill, which does it on its own, with its own model, tools and limits, and gives back only the result. It does not see this conversation: pass along what it needs.",
      category: CATEGORY,
      parameters: {
        skill: SKILL,
        message: { type: "string", says: "what it is to do, in whole sentences" },
        context: { type: "string", says: "what it must know of this conversation to do it" },
        input: { type: "object", says: "input for a skill with an input schema" },
      },
    },
    ({ skill, message, context, input }, options, within) =>
      use({ skill, by: "model", ...defined({ message, context, input, signal: options.signal }) }, within, options),
  );
}

/** How a sub-agent ends its run. */
export function completeTool(): Tool {
  return makeTool(
    {
      name: COMPLETE,
      description: "Ends the task with its result. Nothing else is passed on.",
      category: CATEGORY,
      parameters: {
        result: {
          type: "string",
          says: "the whole result; when it failed, what is missing and what was tried",
          isRequired: true,
        },
        failed: { type: "boolean", says: "true when the task could not be done" },
      },
    },
    async ({ result }) => ({ content: result, isError: false }),
  );
}

/** Reads the files of skills. `find` says of which; where there is only one, its name may be left out. */
export function resourceTool(
  find: (name: string | undefined) => Promise<Skill | { refusal: ToolResult }>,
  only?: Skill,
): Tool {
  return makeTool(
    {
      name: "read_skill_resource",
      description: "Reads a file of a skill: one of those that load_skill lists.",
      category: CATEGORY,
      parameters: {
        skill: only ? { ...SKILL, says: `the skill's name; ${only.name}, when left out`, isRequired: false } : SKILL,
        resource: {
          type: "string",
          says: "the file's path as it is listed",
          isRequired: true,
          also: ["resource_name"],
        },
        offset: { type: "number", says: "where in a long file to go on" },
      },
    },
    async ({ skill, resource, offset = 0 }) => {
      const found = await find(skill);
      if ("refusal" in found) return found.refusal;
      const path = resource.replace(/^(?:\.\/)+/, "");
      await found.fetch?.([path]);
      return resourceText(found, path, Math.max(0, Math.floor(offset)));
    },
  );
}
