import { denials } from "../policy/policy.ts";
import { isDisabled } from "../policy/tools.ts";
import type { ScriptRequest } from "../run/script.ts";
import { asksToWrite, describeScriptView, SCRIPT_WRITES, scriptEffect } from "../run/script-view.ts";
import type { UseRequest } from "../run/use.ts";
import { defined } from "../shared/defined.ts";
import { inLine } from "../shared/prompt.ts";
import type { Data } from "../skill/data.ts";
import { plainSchema } from "../skill/plain-schema.ts";
import { type SkillScript, scriptsOf } from "../skill/script.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import { type CallOptions, makeTool, type Tool, type ToolEffect, type ToolResult } from "../skill/tool.ts";
import type { State } from "./state.ts";

const CATEGORY = "skills";

/** What a loaded skill is besides its toolsets: a tool for each of its scripts, and one that hands a task to it. */
export function ownTools(skill: Skill, state: State): readonly Tool[] {
  const scripts = scriptTools(skill, state);
  const run =
    isFor("model", skill) && !scripts.some(({ name }) => name === runName(skill)) ? [runTool(skill, state)] : [];
  return [...scripts, ...run];
}

/** Those of them that nothing speaks against now: trust, and the configuration, may be others than when the skill was loaded. */
export function permitted(tools: readonly Tool[], skill: Skill, { host, canUse }: State): readonly Tool[] {
  const isOff = { run: isDisabled("run_skill_script", host), use: !canUse };
  const stopped = (["run", "use"] as const).filter((one) => isOff[one] || denials(skill, host, one).length > 0);
  return tools.filter(({ starts }) => !stopped.includes(starts === "script" ? "run" : "use"));
}

/** What a skill is besides its toolsets. */
export interface Own {
  skill: string;
  tools: readonly Tool[];
}

/** The tools of skills, each skill's together: what its toolsets bring goes before what it is otherwise. */
export function joined(toolsets: readonly Tool[], own: readonly Own[]): readonly Tool[] {
  const skills = new Set<string | undefined>(own.map(({ skill }) => skill));
  const grouped = own.flatMap(({ skill, tools }) => {
    const brought = toolsets.filter(({ owner }) => owner?.name === skill);
    return [...brought, ...tools.filter(({ name }) => !brought.some((tool) => tool.name === name))];
  });
  return [...toolsets.filter(({ owner }) => !skills.has(owner?.name)), ...grouped];
}

function scriptTools(skill: Skill, state: State): Tool[] {
  const scripts = scriptsOf(skill);
  const counts = Map.groupBy(scripts.flatMap(callNames), (name) => name);
  return scripts.map((script) => {
    const name = callNames(script).find((name) => counts.get(name)?.length === 1) ?? script.path;
    return scriptTool(skill, script, `${skill.name}.${name}`, state);
  });
}

/** What a script may be called: the first of these that no other may be called too. */
function callNames(script: SkillScript): string[] {
  return [...new Set([script.name, pathName(script), script.path])];
}

/** `scripts/a/x.py` and `scripts/b/x.py` have one name. */
function pathName({ path }: SkillScript): string {
  return path.replace(/^scripts\//, "").replace(/[^\w-]/g, "_");
}

function scriptTool(skill: Skill, { path, description }: SkillScript, name: string, state: State): Tool {
  const says = `Runs ${inLine(path, 200)} of the skill '${inLine(skill.name, 64)}' in a sandbox, and gives what it printed. ${describeScriptView(state.host, skill)}`;
  const tool = makeTool(
    {
      name,
      description: description === undefined ? says : `${inLine(description)} ${says}`,
      category: CATEGORY,
      parameters: {
        args: { type: "strings", says: "its arguments, one each; no shell reads them" },
        stdin: { type: "string", says: "what it reads from its standard input" },
        ...SCRIPT_WRITES,
      },
      effect: ({ args, writes }) =>
        changeOf(state, { skill: copyOf(skill, state), script: path, ...defined({ args, writes }) }),
    },
    ({ args, stdin, writes }, options) =>
      state.script({ skill: copyOf(skill, state), script: path, ...defined({ args, stdin, writes }) }, options),
  );
  return { ...tool, owner: ownerOf(skill), starts: "script" };
}

/** Returns the change of the workspace that a script asks to make, where it has to be approved. */
export function changeOf(
  { catalog, host }: State,
  { skill, script, args = [], writes }: Omit<ScriptRequest, "skill"> & { skill: string },
): ToolEffect | undefined {
  const found = catalog.find(skill);
  // One that is not known yet is looked for again when it runs.
  return writes && (!found || asksToWrite(host, found)) ? scriptEffect(script, args) : undefined;
}

function runTool(skill: Skill, state: State): Tool {
  const { inputSchema } = skill.manifest;
  const use = (given: Omit<UseRequest, "skill">, options: CallOptions): Promise<ToolResult> =>
    state.use(
      { skill: copyOf(skill, state), by: "model", ...given, ...defined({ signal: options.signal }) },
      undefined,
      options,
    );
  const tool = makeTool(
    {
      name: runName(skill),
      description: `Hands a task to the skill '${inLine(skill.name, 64)}', which does it on its own, with its own model, tools and limits, and gives back only the result. It does not see this conversation: pass along what it needs.`,
      category: CATEGORY,
      parameters: {
        message: { type: "string", says: "what it is to do, in whole sentences" },
        context: { type: "string", says: "what it must know of this conversation to do it" },
        ...(inputSchema ? { input: { type: "object", says: "its input", isRequired: true } as const } : {}),
      },
    },
    (given, options) => use(defined(given), options),
  );
  return { ...tool, inputSchema: withInput(tool.inputSchema, inputSchema), owner: ownerOf(skill), starts: "use" };
}

/** With the schema that the skill itself gives, where a model may read it. */
function withInput(schema: Data, input: Data | undefined): Data {
  const shown = input && plainSchema(input);
  return shown ? { ...schema, properties: { ...(schema["properties"] as Data), input: shown } } : schema;
}

/** What this copy is called by, where others have its name. */
function copyOf({ name, origin }: Skill, { catalog }: State): string {
  return catalog.copies(name).length > 1 ? `${name}@${origin.source}` : name;
}

function runName({ name }: Skill): string {
  return `${name}.run`;
}

function ownerOf({ name, origin: { source, folder, file } }: Skill): NonNullable<Tool["owner"]> {
  return { name, source, place: folder ?? file ?? "" };
}
