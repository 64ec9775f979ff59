import type { Session } from "../session/session.ts";
import { skillTool as tool } from "../session/skill-tool.ts";
import { defined } from "../shared/defined.ts";
import { inLine } from "../shared/prompt.ts";
import { nearest } from "../shared/text.ts";
import type { Data } from "../skill/data.ts";
import type { Skill } from "../skill/skill.ts";
import type { CallOptions, Tool, ToolResult } from "../skill/tool.ts";
import { wireName } from "../skill/wire-name.ts";

/** How a client reaches what a skill brings, where its list does not show it. */
export function callTool(session: Session, isStateless: boolean): Tool {
  return tool(
    "call_skill_tool",
    isStateless
      ? "Calls a tool that a skill brings: one of those that load_skill named."
      : "Calls a tool that a loaded skill brought and that is not among your tools: one of those that load_skill named.",
    {
      ...(isStateless
        ? { skill: { type: "string", says: "the skill that brings it", also: ["skill_name"] } as const }
        : {}),
      tool: { type: "string", says: "the tool's name, as load_skill gave it", isRequired: true },
      input: { type: "object", says: "the tool's input" },
    },
    (given, options) => (isStateless ? callLoading : call)(session, given as Called, options),
  );
}

interface Called {
  tool: string;
  skill?: string;
  input?: Data;
}

async function call(session: Session, { tool, input = {} }: Called, options: CallOptions): Promise<ToolResult> {
  await session.ready();
  const brought = session.tools.filter(({ owner }) => owner !== undefined);
  if (brought.some((candidate) => isNamed(candidate, tool))) return session.call(tool, input, options);
  const content = `There is no tool "${inLine(tool, 128)}" that a skill brought: ${whatThen(session, brought, tool)}`;
  return { content, isError: true, code: "tool-unknown" };
}

/** What to do in place of calling what is not there. */
function whatThen(session: Session, brought: readonly Tool[], tool: string): string {
  if (session.tools.some(({ name }) => name === tool)) return "call it by itself, where it is among your tools";
  const skill = skillBefore(session, tool);
  const isLoaded = session.active.some(({ name }) => name === skill);
  if (!isLoaded && session.visible().some(({ name }) => name === skill)) return `load_skill ${inLine(skill, 64)} first`;
  const names = brought.map(({ name }) => wireName(name));
  const near = nearest(tool, names);
  if (near !== undefined) return `did you mean ${near}?`;
  return names.length === 0 ? "no skill is loaded that brings tools" : `there are ${names.join(", ")}`;
}

function isNamed({ name }: Tool, written: string): boolean {
  return name === written || wireName(name) === written;
}

/** Nothing is loaded in a conversation that ends with this call: so the skill is, first. */
async function callLoading(session: Session, called: Called, options: CallOptions): Promise<ToolResult> {
  const name = called.skill ?? skillBefore(session, called.tool);
  if (!session.active.some((active) => active.name === name)) {
    const loaded = await session.load(name, defined({ signal: options.signal }));
    if (loaded.isError) return loaded;
  }
  const isWhole = session.tools.some((tool) => isNamed(tool, called.tool));
  return call(session, { ...called, tool: isWhole ? called.tool : `${name}.${called.tool}` }, options);
}

/** The skill that a tool's name begins with: of `a` and `a.b`, the longer one. */
function skillBefore(session: Session, tool: string): string {
  const isBefore = ({ name }: Skill) => tool.startsWith(`${name}.`) || tool.startsWith(`${wireName(name)}__`);
  const [longest] = session
    .visible()
    .filter(isBefore)
    .sort((a, b) => b.name.length - a.name.length);
  return longest?.name ?? tool.split(/__|\./)[0] ?? "";
}
