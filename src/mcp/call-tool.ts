import { refusedResult } from "../run/result.ts";
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
      skill: {
        type: "string",
        says: "the skill that brings it; not needed with the name that load_skill gave",
        also: ["skill_name"],
      },
      tool: { type: "string", says: "the tool's name, as load_skill gave it", isRequired: true },
      input: { type: "object", says: "the tool's input" },
    },
    ({ tool, skill, input = {} }, options) =>
      call(session, { tool, input, skill: skill ?? skillBefore(session, tool), isStateless }, options),
  );
}

interface Called {
  tool: string;
  input: Data;
  skill: string;
  isStateless: boolean;
}

async function call(
  session: Session,
  { tool, input, skill, isStateless }: Called,
  options: CallOptions,
): Promise<ToolResult> {
  const isLoaded = session.active.some(({ name }) => name === skill);
  if (isStateless && !isLoaded) {
    // Nothing is loaded in a conversation that ends with this call: so the skill is, first.
    const loaded = await session.load(skill, defined({ signal: options.signal }));
    if (loaded.isError) return loaded;
  }
  await session.ready();
  const brought = session.tools.filter(({ owner }) => owner !== undefined);
  const called = brought.find((one) => isNamed(one, tool)) ?? brought.find(({ name }) => name === `${skill}.${tool}`);
  if (called) return session.call(called.name, input, options);
  const revoked = session.revocationOf(tool) ?? session.revocationOf(`${skill}.${tool}`);
  if (revoked) return refusedResult([revoked]);
  const problems = session.toolProblems(skill);
  if (problems.length > 0) return refusedResult(problems);
  const then = whatThen(session, brought, { tool, skill });
  return {
    content: `There is no tool "${inLine(tool, 128)}" that a skill brought: ${then}`,
    isError: true,
    code: "tool-unknown",
  };
}

/** What to do in place of calling what is not there. */
function whatThen(session: Session, brought: readonly Tool[], { tool, skill }: Pick<Called, "tool" | "skill">): string {
  if (session.tools.some(({ name }) => name === tool)) return "call it by itself, where it is among your tools";
  const why = session.catalog.leftOut?.(skill);
  if (why) return `${why.message}: ${why.fix}`;
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

/** The skill that a tool's name begins with: of `a` and `a.b`, the longer one. */
function skillBefore(session: Session, tool: string): string {
  const isBefore = ({ name }: Skill) => tool.startsWith(`${name}.`) || tool.startsWith(`${wireName(name)}__`);
  const [longest] = session
    .visible()
    .filter(isBefore)
    .sort((a, b) => b.name.length - a.name.length);
  return longest?.name ?? tool.split(/__|\./)[0] ?? "";
}
