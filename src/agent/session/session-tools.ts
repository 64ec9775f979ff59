import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { type Catalog, findBrokenSkill } from "../../catalog/catalog.ts";
import { describeSkill } from "../../catalog/describe-skill.ts";
import { getMatcher } from "../../catalog/search/matcher.ts";
import { QUERY_CUT_NOTE } from "../../catalog/search/query.ts";
import type { Host } from "../../config/host.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { formatProblem, type Problem } from "../../errors/problem.ts";
import { sanitizeSchema } from "../../skill/define-tool.ts";
import { toSkillMd } from "../../skill/frontmatter.ts";
import { LINT_RULES } from "../../skill/lint.ts";
import { isInvocableBy, PROFILES, type Profile, type Skill } from "../../skill/skill.ts";
import { listSkillScripts, type SkillScript } from "../../skill/skill-code.ts";
import { type CheckedFile, checkPath, checkText } from "../../skill/source/check-skills.ts";
import { type CallOptions, createTool, type Tool, type ToolEffect, type ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import { isInside } from "../../util/safe-path.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findDenials, isToolDisabled } from "../policy/skill-policies.ts";
import { createRefusalResult } from "../run/run-result.ts";
import type { ScriptRequest } from "../run/run-script.ts";
import { findInvocationDenials, type UseRequest } from "../run/use-skill.ts";
import {
  createListTool,
  createResourceTool,
  createSubRunTool,
  createUseTool,
  createSkillTool as tool,
} from "../tools/skill-tools.ts";
import {
  createScriptEffect,
  describeScriptView,
  needsWriteApproval,
  WRITES_PARAMETER,
} from "../workspace/sandbox-permissions.ts";
import type { Invoker } from "./session.ts";
import { createSkillListResult } from "./session-disclosure.ts";
import type { SessionState } from "./session-state.ts";

const SKILLS_CATEGORY = "skills";
const SKILL_NAME_PARAMETER = {
  type: "string",
  description: "the skill's name",
  isRequired: true,
  aliases: ["skill_name"],
} as const;
const SUBJECT_PARAMETERS = {
  skill: { ...SKILL_NAME_PARAMETER, isRequired: false, description: "a skill's name; or pass a path or content" },
  path: { type: "string", description: "a skill's folder or file" },
  content: { type: "string", description: "the text of a SKILL.md" },
} as const;
const PROFILE_PARAMETER = {
  type: "string",
  description: "the rules to check against; defaults to agentskills, the open standard",
  choices: PROFILES,
} as const;

/** Creates the tools of a session, one row each. The returned function filters them by the current configuration. */
export function createSessionTools(state: SessionState): () => readonly Tool[] {
  const tools = createAllTools(state);
  const isThere = ({ name }: Tool) => !isToolDisabled(name, state.host) && (name !== "use_skill" || state.canUse);
  return () => tools.filter(isThere);
}

/** Formats the tools of a skill that was just loaded, for the model, or the reason why it has none. */
export function formatToolLines({ tools, problems, isLoading = false }: LoadedTools): string[] {
  const wrong = problems.map((problem) => sanitizeLine(formatProblem(problem), 512));
  if (wrong.length > 0) return [`[Its tools are not available: ${wrong.join("; ")}]`];
  const names = tools.map(({ name }) => formatWireName(name)).join(", ");
  return [
    ...(tools.length === 0 ? [] : [`[It provides these tools: ${names}]`]),
    ...(isLoading ? ["[The tools of its toolsets are still loading]"] : []),
  ];
}

export interface LoadedTools {
  tools: readonly Tool[];
  problems: readonly Problem[];
  /** True if the toolsets are still being imported, so more tools may follow. */
  isLoading?: boolean;
}

function createAllTools(state: SessionState): readonly Tool[] {
  const { isForModel } = state;
  return [
    createListTool(() => state.list()),
    tool(
      "search_skills",
      "Finds skills for a task, best first, also by the text of their instructions. Use it when the list of skills is long or was cut.",
      {
        query: { type: "string", description: "the task, in a few words", isRequired: true },
        limit: { type: "number", description: "maximum number of results; defaults to 10" },
      },
      async ({ query, limit = 10 }) => {
        const max = Math.min(50, Math.max(1, Math.floor(limit)));
        const { matches, isCut } = await getMatcher(await state.reload()).match(query, {
          bodies: true,
          limit: max,
          isVisible: isForModel,
          isCallable: isForModel,
        });
        const skills = matches.slice(0, max).map(({ skill, reasons }) => ({
          name: sanitizeLine(skill.name, 64),
          description: describeSkill(skill),
          reason: reasons
            .slice(0, 10)
            .map(({ kind, text, weak }) => `${weak ? "weak " : ""}${kind}: ${sanitizeLine(text, 200)}`)
            .join("; "),
          isTriggered: reasons[0] !== undefined && reasons[0].kind !== "words" && !reasons[0].weak,
        }));
        return createSkillListResult({ skills, ...(isCut ? { note: QUERY_CUT_NOTE } : {}) });
      },
    ),
    createSubRunTool(
      {
        name: "load_skill",
        description: "Loads a skill: returns its full instructions and the list of its files. Follow them.",
        category: SKILLS_CATEGORY,
        parameters: {
          skill: SKILL_NAME_PARAMETER,
          arguments: { type: "string", description: "the user's input for the skill, verbatim" },
          again: { type: "boolean", description: "return the instructions again even if the skill is loaded" },
        },
      },
      ({ skill, arguments: values, again }, call, parent) =>
        state.load(skill, { call, ...omitUndefined({ arguments: values, again, signal: call.signal }) }, parent),
    ),
    createUseTool((request, parent, options) => state.use(request, parent, options)),
    createResourceTool((name = "") => state.find(name, "model")),
    ...(state.isReadOnly ? [] : [createRunScriptTool(state)]),
    tool(
      "validate_skill",
      "Checks a skill's structure and metadata. Reports each problem, its position and a fix.",
      { ...SUBJECT_PARAMETERS, profile: PROFILE_PARAMETER },
      async ({ profile = "agentskills", ...what }) =>
        await checkSkillForModel("structure", { ...what, profile: profile as Profile }, await state.reload(), state),
    ),
    tool(
      "lint_skill",
      "Checks the style of a skill's instructions. Reports each finding with its rule, line and fix.",
      SUBJECT_PARAMETERS,
      async (what) =>
        await checkSkillForModel("style", { ...what, profile: "agentskills" }, await state.reload(), state),
    ),
  ];
}

function createRunScriptTool(state: SessionState): Tool {
  return createTool(
    {
      name: "run_skill_script",
      description: `Runs a script of a skill in its own sandbox and returns its output. load_skill lists the scripts. ${describeScriptView(state.host)}`,
      category: SKILLS_CATEGORY,
      parameters: {
        skill: SKILL_NAME_PARAMETER,
        script: { type: "string", description: "the script's path or name, as listed", isRequired: true },
        args: { type: "strings", description: "the arguments, one per item; they are not passed through a shell" },
        stdin: { type: "string", description: "text for its standard input" },
        ...WRITES_PARAMETER,
      },
      effect: ({ skill, script, args, writes }) =>
        findScriptChange(state, { skill, script, ...omitUndefined({ args, writes }) }),
    },
    ({ skill, script, ...rest }, options) => state.runScript({ skill, script, ...omitUndefined(rest) }, options),
  );
}

/** Answers a load that changes nothing. */
export function createLoadedResult({ name }: Skill, tools: readonly string[]): ToolResult {
  const content = `Skill '${sanitizeLine(name, 64)}' is already loaded in this conversation, and has not changed. If you no longer see its instructions, load it with again: true.`;
  return { text: [content, ...tools].join("\n"), isError: false, code: "already-loaded" };
}

/** Tells a model to hand the task to a skill that runs in a sub-agent. */
export function createHandOverResult({ name }: Skill, written: string | undefined): ToolResult {
  const task = written === undefined ? "" : `, with this task:\n\n${written}`;
  const content = `Skill '${sanitizeLine(name, 64)}' runs in a sub-agent: hand the task over with use_skill${task}`;
  return { text: content, isError: false, code: "runs-as-subagent" };
}

const OWN_TOOL_CATEGORY = "skills";

/** Creates the tools of a loaded skill other than its toolsets: one for each script, and one that hands a task to it. */
export async function createOwnTools(skill: Skill, state: SessionState): Promise<readonly Tool[]> {
  const scripts = await createScriptTools(skill, state);
  const run =
    isInvocableBy("model", skill) && !scripts.some(({ name }) => name === getRunToolName(skill))
      ? [createOwnRunTool(skill, state)]
      : [];
  return [...scripts, ...run];
}

/** Returns the tools that are currently permitted: trust and configuration may have changed since the skill was loaded. */
export function filterPermittedTools(
  tools: readonly Tool[],
  skill: Skill,
  { host, canUse }: SessionState,
): readonly Tool[] {
  const isOff = { run: isToolDisabled("run_skill_script", host), use: !canUse };
  const stopped = (["run", "use"] as const).filter((one) => isOff[one] || findDenials(skill, host, one).length > 0);
  return tools.filter(({ starts }) => !stopped.includes(starts === "script" ? "run" : "use"));
}

/** The tools of a skill other than its toolsets. */
export interface OwnTools {
  skill: string;
  tools: readonly Tool[];
}

/** Groups tools by skill: first the tools of its toolsets, then its other tools. */
export function joinToolsBySkill(toolsets: readonly Tool[], own: readonly OwnTools[]): readonly Tool[] {
  const skills = new Set<string | undefined>(own.map(({ skill }) => skill));
  const grouped = own.flatMap(({ skill, tools }) => {
    const contributed = toolsets.filter(({ owner }) => owner?.name === skill);
    return [...contributed, ...tools.filter(({ name }) => !contributed.some((tool) => tool.name === name))];
  });
  return [...toolsets.filter(({ owner }) => !skills.has(owner?.name)), ...grouped];
}

async function createScriptTools(skill: Skill, state: SessionState): Promise<Tool[]> {
  const scripts = await listSkillScripts(skill);
  const counts = Map.groupBy(scripts.flatMap(listScriptNames), (name) => name);
  return scripts.map((script) => {
    const name = listScriptNames(script).find((name) => counts.get(name)?.length === 1) ?? script.path;
    return createOwnScriptTool(skill, script, `${skill.name}.${name}`, state);
  });
}

/** Lists the possible names of a script's tool, best first. The first unique one is used. */
function listScriptNames(script: SkillScript): string[] {
  return [...new Set([script.name, getPathName(script), script.path])];
}

/** Returns the path as a name: `scripts/a/x.py` and `scripts/b/x.py` have the same file name. */
function getPathName({ path }: SkillScript): string {
  return path.replace(/^scripts\//, "").replace(/[^\w-]/g, "_");
}

function createOwnScriptTool(
  skill: Skill,
  { path, description }: SkillScript,
  name: string,
  state: SessionState,
): Tool {
  const usage = `Runs ${sanitizeLine(path, 200)} of the skill '${sanitizeLine(skill.name, 64)}' in a sandbox and returns its output. ${describeScriptView(state.host, skill)}`;
  const tool = createTool(
    {
      name,
      description: description === undefined ? usage : `${sanitizeLine(description)} ${usage}`,
      category: OWN_TOOL_CATEGORY,
      parameters: {
        args: { type: "strings", description: "the arguments, one per item; they are not passed through a shell" },
        stdin: { type: "string", description: "text for its standard input" },
        ...WRITES_PARAMETER,
      },
      effect: ({ args, writes }) =>
        findScriptChange(state, { skill: getCopyName(skill, state), script: path, ...omitUndefined({ args, writes }) }),
    },
    ({ args, stdin, writes }, options) =>
      state.runScript(
        { skill: getCopyName(skill, state), script: path, ...omitUndefined({ args, stdin, writes }) },
        options,
      ),
  );
  return { ...tool, owner: getToolOwner(skill), starts: "script" };
}

/** Returns the workspace change that a script with `writes` asks for, if it needs approval. */
function findScriptChange(
  { catalog, host }: SessionState,
  { skill, script, args = [], writes }: Omit<ScriptRequest, "skill"> & { skill: string },
): ToolEffect | undefined {
  const found = catalog.find(skill);
  // An unknown skill is looked up again when the script runs.
  return writes && (!found || needsWriteApproval(host, found)) ? createScriptEffect(script, args) : undefined;
}

function createOwnRunTool(skill: Skill, state: SessionState): Tool {
  const { inputSchema } = skill.manifest;
  const use = (request: Omit<UseRequest, "skill">, options: CallOptions): Promise<ToolResult> =>
    state.use(
      { skill: getCopyName(skill, state), by: "model", ...request, ...omitUndefined({ signal: options.signal }) },
      undefined,
      options,
    );
  const tool = createTool(
    {
      name: getRunToolName(skill),
      description: `Hands a task to the skill '${sanitizeLine(skill.name, 64)}', which runs as a sub-agent with its own model, tools and limits, and returns only the result. It does not see this conversation: include the information it needs.`,
      category: OWN_TOOL_CATEGORY,
      parameters: {
        message: { type: "string", description: "the task, in complete sentences" },
        context: { type: "string", description: "the parts of this conversation that it needs" },
        ...(inputSchema ? { input: { type: "object", description: "its input", isRequired: true } as const } : {}),
      },
    },
    (request, options) => use(omitUndefined(request), options),
  );
  return {
    ...tool,
    inputSchema: addInputSchema(tool.inputSchema, inputSchema),
    owner: getToolOwner(skill),
    starts: "use",
  };
}

/** Adds the input schema of the skill, if a model may read it. */
function addInputSchema(schema: JsonObject, input: JsonObject | undefined): JsonObject {
  const shown = input && sanitizeSchema(input);
  return shown ? { ...schema, properties: { ...(schema["properties"] as JsonObject), input: shown } } : schema;
}

/** Returns the name of this copy. It includes the source if other copies have the same name. */
function getCopyName({ name, origin }: Skill, { catalog }: SessionState): string {
  return catalog.copies(name).length > 1 ? `${name}@${origin.source}` : name;
}

function getRunToolName({ name }: Skill): string {
  return `${name}.run`;
}

function getToolOwner({ name, origin: { source, folder, file } }: Skill): NonNullable<Tool["owner"]> {
  return { name, source, location: folder ?? file ?? "" };
}

interface CheckToolRequest {
  skill: string | undefined;
  path: string | undefined;
  content: string | undefined;
  profile: Profile;
}
type CheckKind = "structure" | "style";
interface CheckToolContext {
  host: Host;
  /** Returns the reason why a model must not know the skill. */
  findRefusal(skill: Skill): ToolResult | undefined;
}

const MAX_CHECKED_FILES = 50;

/** Checks a skill by its name, a path, or a text: its structure and metadata, or the style of its instructions. */
async function checkSkillForModel(
  kind: CheckKind,
  request: CheckToolRequest,
  catalog: Catalog,
  { host, findRefusal: refusalOf }: CheckToolContext,
): Promise<ToolResult> {
  const { skill, path, content, profile } = request;
  const skillsFolders = catalog.sources.flatMap((source) => source.path ?? []);
  if ([skill, path, content].filter((value) => value !== undefined).length !== 1)
    return createCheckRefusal("input-invalid", 'Invalid input: pass exactly one of "skill", "path" and "content".');
  if (content !== undefined) return createCheckReport([checkText(content, { profile })], kind, profile);
  if (path !== undefined) {
    const found = resolveAllowedPath(path, catalog, host);
    if (found === undefined)
      return createCheckRefusal(
        "path-outside",
        `"${sanitizeLine(path, 200)}" does not exist, or is not in the workspace or a skills folder.`,
      );
    return createPathReport(found, kind, { profile, skillsFolders });
  }
  const named = catalog.find(skill ?? "");
  const refusal = named && refusalOf(named);
  if (refusal) return refusal;
  if (named && named.origin.file === undefined)
    return createCheckReport([checkText(await toSkillMd(named), { profile })], kind, profile);
  const file = named ? named.origin.file : findBrokenSkill(catalog, skill ?? "")?.file;
  if (file !== undefined) return createPathReport(file, kind, { profile, skillsFolders });
  const why = catalog.explainExclusion?.(skill ?? "");
  return why
    ? createCheckRefusal(why.code, formatProblem(why))
    : createCheckRefusal("not-found", `Skill '${sanitizeLine(skill ?? "", 64)}' not found`);
}

function createPathReport(
  path: string,
  kind: CheckKind,
  options: { profile: Profile; skillsFolders: string[] },
): ToolResult {
  const { files, diagnostics } = checkPath(path, options);
  if (files.length > 0) return createCheckReport(files, kind, options.profile);
  return createCheckRefusal(
    "not-found",
    diagnostics.map(({ message }) => message).join("; ") || "No skill found at this path.",
  );
}

/** Resolves a path from a model. Only paths that may contain skills are allowed: nothing else on this machine is read or revealed. */
function resolveAllowedPath(path: string, catalog: Catalog, host: Host): string | undefined {
  const roots = [host.workspace, ...catalog.sources.map((source) => source.path)].flatMap(
    (root) => findRealPath(root) ?? [],
  );
  for (const root of roots) {
    const found = findRealPath(resolve(root, path));
    if (found !== undefined && isInside(root, found)) return found;
  }
  return undefined;
}

function findRealPath(path: string | undefined): string | undefined {
  try {
    return path === undefined ? undefined : realpathSync(path);
  } catch {
    return undefined;
  }
}

function createCheckReport(files: readonly CheckedFile[], kind: CheckKind, profile: Profile): ToolResult {
  const rows = files.slice(0, MAX_CHECKED_FILES).map(({ file, name, diagnostics }) => {
    const findings = diagnostics.filter(({ code }) => code in LINT_RULES === (kind === "style"));
    const isValid = findings.every(({ severity }) => severity !== "error");
    return {
      skill: sanitizeLine(name, 64),
      file: sanitizeLine(file, 4096),
      ...(kind === "structure" ? { profile, isValid } : {}),
      findings: findings.map(({ code, severity, line, message, fix }) => ({
        rule: code,
        severity,
        line,
        message: sanitizeLine(message),
        fix,
      })),
    };
  });
  const data: JsonObject = rows.length === 1 && rows[0] ? rows[0] : { skills: rows, more: files.length - rows.length };
  return { text: JSON.stringify(data, null, 2), data, isError: false };
}

function createCheckRefusal(code: ErrorCode, content: string): ToolResult {
  return { text: content, isError: true, code };
}

/** Returns the reason to refuse a skill. `by` is undefined if its instructions are already in the conversation. */
export function findSessionDenial(skill: Skill, host: Host, by: Invoker | undefined): ToolResult | undefined {
  const refusals = [...findDenials(skill, host), ...findInvocationDenials(skill, by)];
  return refusals.length === 0 ? undefined : createRefusalResult(refusals);
}
