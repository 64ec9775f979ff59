import { isUtf8 } from "node:buffer";
import { getRemoteAttributes } from "../../catalog/skill-content.ts";
import { isPrivateFile, type Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import {
  type CallOptions,
  createTool,
  type ParameterValues,
  type Tool,
  type ToolParameters,
  type ToolResult,
} from "../../skill/tool.ts";
import { omitUndefined } from "../../util/objects.ts";
import { formatCount, formatNumber } from "../../util/text.ts";
import { sanitizeLine, wrapInTag } from "../../util/untrusted-text.ts";
import { COMPLETE_TOOL } from "../run/tool-policy.ts";
import type { ParentRun, UseRequest } from "../run/use-skill.ts";

const SKILL_TOOL_CATEGORY = "skills";
const SKILL_PARAMETER = {
  type: "string",
  description: "the skill's name",
  isRequired: true,
  aliases: ["skill_name"],
} as const;

/** Creates the tool that lists skills, with a note if a nearer copy of one does not load. */
export function createListTool(list: () => Promise<ToolResult>): Tool {
  return createTool(
    {
      name: "list_skills",
      description: "Lists the available skills: name, description, version and tags, as JSON.",
      category: SKILL_TOOL_CATEGORY,
      isReadOnly: true,
      parameters: {},
    },
    list,
  );
}

/** Creates the tool with which a model delegates a task to a skill. */
export function createUseTool(
  use: (request: UseRequest, within: ParentRun | undefined, options: CallOptions) => Promise<ToolResult>,
): SubRunTool {
  return createSubRunTool(
    {
      name: "use_skill",
      description:
        "Delegates a task to a skill, which runs as a sub-agent with its own model, tools and limits and returns only the result. It does not see this conversation: pass the information it needs.",
      category: SKILL_TOOL_CATEGORY,
      parameters: {
        skill: SKILL_PARAMETER,
        message: { type: "string", description: "the task, in complete sentences" },
        context: { type: "string", description: "the facts from this conversation that it needs" },
        input: { type: "object", description: "input for a skill with an input schema" },
      },
    },
    ({ skill, message, context, input }, options, within) =>
      use(
        { skill, by: "model", ...omitUndefined({ message, context, input, signal: options.signal }) },
        within,
        options,
      ),
  );
}

/** Creates the tool with which a sub-agent ends its run. */
export function createCompleteTool(): Tool {
  return createTool(
    {
      name: COMPLETE_TOOL,
      description: "Ends the task with its result. Nothing else is passed on.",
      category: SKILL_TOOL_CATEGORY,
      parameters: {
        result: {
          type: "string",
          description: "the complete result; on failure, name the missing parts and what you tried",
          isRequired: true,
        },
        failed: { type: "boolean", description: "true if the task could not be done" },
      },
    },
    async ({ result }) => ({ text: result, isError: false }),
  );
}

/** Creates the tool that reads files of skills. `find` resolves the skill; if there is only one, its name is optional. */
export function createResourceTool(
  find: (name: string | undefined) => Promise<Skill | { refusal: ToolResult }>,
  only?: Skill,
): Tool {
  return createTool(
    {
      name: "read_skill_resource",
      description: "Reads a file of a skill, as listed by load_skill.",
      category: SKILL_TOOL_CATEGORY,
      isReadOnly: true,
      parameters: {
        skill: only
          ? { ...SKILL_PARAMETER, description: `the skill's name; defaults to ${only.name}`, isRequired: false }
          : SKILL_PARAMETER,
        resource: {
          type: "string",
          description: "the file's path, as listed",
          isRequired: true,
          aliases: ["resource_name"],
        },
        offset: { type: "number", description: "the character offset at which to continue a long file" },
      },
    },
    async ({ skill, resource, offset = 0 }) => {
      const found = await find(skill);
      if ("refusal" in found) return found.refusal;
      const path = resource.replace(/^(?:\.\/)+/, "");
      await found.fetch?.([path]);
      return await readResource(found, path, Math.max(0, Math.floor(offset)));
    },
  );
}

/** A tool whose call is a nested run with its own steps and limits. */
interface SubRunTool extends Tool {
  executeInRun(input: unknown, options: CallOptions, within: ParentRun): Promise<ToolResult>;
}

export function isSubRunTool(tool: Tool): tool is SubRunTool {
  return "executeInRun" in tool;
}

/** Creates a tool whose call is a nested run. `within` is the calling run, or undefined outside of a run. */
export function createSubRunTool<P extends ToolParameters>(
  head: ToolHead<P>,
  run: (values: ParameterValues<P>, options: CallOptions, within: ParentRun | undefined) => Promise<ToolResult>,
): SubRunTool {
  const bound = (within: ParentRun | undefined) => createTool(head, (values, options) => run(values, options, within));
  return {
    ...bound(undefined),
    executeInRun: (input, options, within) => bound(within).execute(input, options),
  };
}

type ToolHead<P extends ToolParameters> = { name: string; description: string; category: string; parameters: P };

/** Creates a tool of the category `skills` from a table of its parameters. */
export function createSkillTool<P extends ToolParameters>(
  name: string,
  description: string,
  parameters: P,
  run: (values: ParameterValues<P>, options: CallOptions) => Promise<ToolResult>,
): Tool {
  return createTool({ name, description, category: "skills", parameters }, run);
}

/** The maximum number of characters of a file per call. */
const MAX_RESOURCE_CHARACTERS = 48_000;

/** Reads a file of a skill for a model. Throws a SkillError for a file that the skill does not list. */
async function readResource(skill: Skill, path: string, offset: number): Promise<ToolResult> {
  if ((await listSkillScripts(skill)).some((script) => script.path === path)) {
    const content = `"${sanitizeLine(path)}" of skill '${sanitizeLine(skill.name, 64)}' is a script: run it with run_skill_script; scripts cannot be read.`;
    return { text: content, isError: true, code: "resource-script" };
  }
  const bytes = await skill.read(path);
  if (isPrivateFile(path)) {
    const content = `"${sanitizeLine(path)}" of skill '${sanitizeLine(skill.name, 64)}' is private: its name starts with a dot.`;
    return { text: content, isError: true, code: "resource-private" };
  }
  if (!isUtf8(bytes) || bytes.includes(0)) {
    const content = `"${sanitizeLine(path)}" of skill '${sanitizeLine(skill.name, 64)}' is ${describeFileKind(bytes)} of ${formatCount(bytes.length, "byte")}, not text.`;
    return { text: content, isError: true, code: "resource-binary" };
  }
  const text = Buffer.from(bytes).toString("utf8");
  const portion = text.slice(offset, offset + MAX_RESOURCE_CHARACTERS).replace(/[\ud800-\udbff]$/, "");
  const end = offset + portion.length;
  const more =
    end < text.length
      ? `\n[${formatCount(end, "character")} of ${formatNumber(text.length)}; continue with offset ${end}]`
      : "";
  return {
    text: `${wrapInTag("skill_resource", { skill: skill.name, path, ...getRemoteAttributes(skill) }, portion)}${more}`,
    output: portion,
    isError: false,
  };
}

/** The first bytes of known file types. */
const FILE_SIGNATURES: readonly (readonly [kind: string, start: readonly number[], at?: number])[] = [
  ["a PNG image", [0x89, 0x50, 0x4e, 0x47]],
  ["a JPEG image", [0xff, 0xd8, 0xff]],
  ["a GIF image", [0x47, 0x49, 0x46, 0x38]],
  ["a WebP image", [0x57, 0x45, 0x42, 0x50], 8],
  ["a PDF document", [0x25, 0x50, 0x44, 0x46]],
  ["a ZIP archive (also .docx, .xlsx, .pptx, .jar)", [0x50, 0x4b, 0x03, 0x04]],
  ["a gzip archive", [0x1f, 0x8b]],
  ["an xz archive", [0xfd, 0x37, 0x7a, 0x58, 0x5a]],
  ["a zstd archive", [0x28, 0xb5, 0x2f, 0xfd]],
  ["a 7z archive", [0x37, 0x7a, 0xbc, 0xaf]],
  ["a tar archive", [0x75, 0x73, 0x74, 0x61, 0x72], 257],
  ["an ELF program", [0x7f, 0x45, 0x4c, 0x46]],
  ["a Windows program", [0x4d, 0x5a]],
  ["a Mach-O program", [0xcf, 0xfa, 0xed, 0xfe]],
  ["WebAssembly", [0x00, 0x61, 0x73, 0x6d]],
  ["a SQLite database", [0x53, 0x51, 0x4c, 0x69, 0x74, 0x65]],
  ["an Ogg recording", [0x4f, 0x67, 0x67, 0x53]],
  ["an MP3 recording", [0x49, 0x44, 0x33]],
  ["a RIFF file (WAV or AVI)", [0x52, 0x49, 0x46, 0x46]],
  ["an MP4 video", [0x66, 0x74, 0x79, 0x70], 4],
  ["a font", [0x77, 0x4f, 0x46]],
  ["a TrueType font", [0x00, 0x01, 0x00, 0x00]],
  ["UTF-16 text", [0xff, 0xfe]],
  ["UTF-16 text", [0xfe, 0xff]],
];

/** Describes the type of bytes that are not text. */
export function describeFileKind(bytes: Uint8Array): string {
  const kind = FILE_SIGNATURES.find(([, start, at = 0]) => start.every((byte, index) => bytes[at + index] === byte));
  return kind?.[0] ?? "binary data";
}
