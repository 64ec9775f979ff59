import type { Skill } from "../skill/skill.ts";
import { makeTool, type Tool, type ToolResult } from "../skill/tool.ts";
import { COMPLETE } from "./gate.ts";
import { resourceText } from "./resource.ts";
import type { UseRequest } from "./use.ts";

const CATEGORY = "skills";

/** How a model hands a task to a skill. */
export function useTool(use: (request: UseRequest) => Promise<ToolResult>): Tool {
  return makeTool(
    {
      name: "use_skill",
      description:
        "Hands a task to a skill, which does it on its own, with its own model, tools and limits, and gives back only the result. It does not see this conversation: pass along what it needs.",
      category: CATEGORY,
      parameters: {
        skill: { type: "string", says: "the skill's name", isRequired: true, also: ["skill_name"] },
        message: { type: "string", says: "what it is to do, in whole sentences" },
        context: { type: "string", says: "what it must know of this conversation to do it" },
        input: { type: "object", says: "input for a skill with an input schema" },
      },
    },
    ({ skill, message, context, input }, { signal }) =>
      use({
        skill,
        by: "model",
        ...(message === undefined ? {} : { message }),
        ...(context === undefined ? {} : { context }),
        ...(input === undefined ? {} : { input }),
        ...(signal === undefined ? {} : { signal }),
      }),
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

/** Reads the files of the one skill that a run follows. */
export function resourceTool(own: Skill): Tool {
  return makeTool(
    {
      name: "read_skill_resource",
      description: "Reads a file of the skill: one of those that its instructions list.",
      category: CATEGORY,
      parameters: {
        resource: {
          type: "string",
          says: "the file's path as it is listed",
          isRequired: true,
          also: ["resource_name"],
        },
        offset: { type: "number", says: "where in a long file to go on" },
        skill: { type: "string", says: "the skill's name; this one, when left out", also: ["skill_name"] },
      },
    },
    async ({ resource, offset = 0, skill = own.name }) => {
      if (skill !== own.name) {
        return {
          content: `Only files of skill '${own.name}' can be read here.`,
          isError: true,
          code: "resource-other",
        };
      }
      return resourceText(own, resource.replace(/^(?:\.\/)+/, ""), Math.max(0, Math.floor(offset)));
    },
  );
}
