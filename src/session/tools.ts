import { describeSkill } from "../catalog/describe-skill.ts";
import { matcherOf } from "../catalog/disclose.ts";
import { CUT_NOTE } from "../catalog/query.ts";
import type { Notice } from "../host/sandbox.ts";
import { isDisabled } from "../policy/tools.ts";
import { makeRunTool } from "../run/run-tool.ts";
import { describeScriptView, SCRIPT_WRITES } from "../run/script-view.ts";
import { allSecrets } from "../run/secrets.ts";
import { listTool, resourceTool, useTool } from "../run/skill-tools.ts";
import { defined } from "../shared/defined.ts";
import { inLine } from "../shared/prompt.ts";
import { openHiding } from "../shared/redact.ts";
import { PROFILES, type Profile } from "../skill/diagnostic.ts";
import { makeTool, type Tool, type ToolResult } from "../skill/tool.ts";
import { wireName } from "../skill/wire-name.ts";
import { judge } from "./judge.ts";
import { changeOf } from "./own-tools.ts";
import { skillTool as tool } from "./skill-tool.ts";
import type { State } from "./state.ts";

const CATEGORY = "skills";
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

/** The tools of a session, one row each: those that the configuration leaves to it when they are asked for. */
export function sessionTools(state: State): () => readonly Tool[] {
  const tools = allTools(state);
  const isThere = ({ name }: Tool) => !isDisabled(name, state.host) && (name !== "use_skill" || state.canUse);
  return () => tools.filter(isThere);
}

/** What a skill that was just loaded brings, for the model; or why it brings nothing. */
export function toolLines({ tools, problems, isLoading = false }: BroughtTools): string[] {
  const wrong = problems.map(({ message, fix }) => inLine(fix === "" ? message : `${message}: ${fix}`, 512));
  if (wrong.length > 0) return [`[Its tools cannot be called now: ${wrong.join("; ")}]`];
  const names = tools.map(({ name }) => wireName(name)).join(", ");
  return [
    ...(tools.length === 0 ? [] : [`[It brought these tools: ${names}]`]),
    ...(isLoading ? ["[The tools of its toolsets are still loading]"] : []),
  ];
}

export interface BroughtTools {
  tools: readonly Tool[];
  problems: readonly Notice[];
  /** True if there will be more: its toolsets are being imported, and which tools they have is not known. */
  isLoading?: boolean;
}

function allTools(state: State): readonly Tool[] {
  const { isForModel } = state;
  return [
    listTool(() => state.list()),
    tool(
      "search_skills",
      "Finds skills for a task, best first, also by what their instructions say. Use it when the list of skills is long or was cut.",
      {
        query: { type: "string", says: "what is to be done, in a few words", isRequired: true },
        limit: { type: "number", says: "how many at most; 10 when left out" },
      },
      async ({ query, limit = 10 }) => {
        const most = Math.min(50, Math.max(1, Math.floor(limit)));
        const { matches, isCut } = matcherOf(await state.reload()).match(query, {
          bodies: true,
          limit: most,
          isVisible: isForModel,
          isCallable: isForModel,
        });
        const found: object[] = matches.slice(0, most).map(({ skill, reasons }) => ({
          name: inLine(skill.name, 64),
          description: describeSkill(skill),
          why: reasons
            .slice(0, 10)
            .map(({ kind, text, weak }) => `${weak ? "weak " : ""}${kind}: ${inLine(text, 200)}`)
            .join("; "),
        }));
        if (isCut) found.push({ note: CUT_NOTE });
        return json(found);
      },
    ),
    makeRunTool(
      {
        name: "load_skill",
        description: "Loads a skill: gives its full instructions and the list of its files. Follow them.",
        category: CATEGORY,
        parameters: {
          skill: SKILL,
          arguments: { type: "string", says: "what the user wrote for the skill to work on, as they wrote it" },
          again: { type: "boolean", says: "give the instructions again although the skill is loaded" },
        },
      },
      ({ skill, arguments: given, again }, call, within) =>
        state.load(skill, { call, ...defined({ arguments: given, again, signal: call.signal }) }, within),
    ),
    useTool((request, within, options) => state.use(request, within, options)),
    withoutSecrets(
      resourceTool((name = "") => state.find(name, "model")),
      state,
    ),
    ...(state.isReadOnly ? [] : [scriptTool(state)]),
    tool(
      "validate_skill",
      "Checks a skill's structure and metadata, and says what is wrong, where, and how to mend it.",
      { ...ONE_OF, profile: PROFILE },
      async ({ profile = "agentskills", ...what }) =>
        judge("structure", { ...what, profile: profile as Profile }, await state.reload(), state),
    ),
    tool(
      "lint_skill",
      "Checks the style of a skill's instructions: each finding with its rule, line and a way to mend it.",
      ONE_OF,
      async (what) => judge("style", { ...what, profile: "agentskills" }, await state.reload(), state),
    ),
  ];
}

/** What the user configured may stand in a file too. */
function withoutSecrets(tool: Tool, { host }: State): Tool {
  return {
    ...tool,
    async execute(input, options) {
      const result = await tool.execute(input, options);
      return { ...result, content: openHiding(allSecrets(new Map(), host)).text(result.content) };
    },
  };
}

function scriptTool(state: State): Tool {
  return makeTool(
    {
      name: "run_skill_script",
      description: `Runs a script of a skill in its own sandbox, and gives what it printed: one of those that load_skill lists. ${describeScriptView(state.host)}`,
      category: CATEGORY,
      parameters: {
        skill: SKILL,
        script: { type: "string", says: "the script's path or name as it is listed", isRequired: true },
        args: { type: "strings", says: "its arguments, one each; no shell reads them" },
        stdin: { type: "string", says: "what it reads from its standard input" },
        ...SCRIPT_WRITES,
      },
      effect: ({ skill, script, args, writes }) => changeOf(state, { skill, script, ...defined({ args, writes }) }),
    },
    ({ skill, script, ...given }, options) => state.script({ skill, script, ...defined(given) }, options),
  );
}

function json(value: unknown): ToolResult {
  return { content: JSON.stringify(value), isError: false };
}
