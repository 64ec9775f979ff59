import { SkillError } from "../../shared/error.ts";
import { grouped, oneLine } from "../../shared/text.ts";
import { type Data, isData } from "../../skill/data.ts";
import { TOOL_ID } from "../../skill/define-tool.ts";
import type { Tool } from "../../skill/tool.ts";
import type { Given } from "./messages.ts";

/** A toolset: the file that it stands in, and what it exports. */
export interface Exported {
  file: string;
  export: string;
}

const MOST_TOOLS = 64;
const LARGEST_SCHEMA = 64 * 1024;

/** The tools that an export is or gives. Throws a SkillError that says what is wrong with it. */
export async function toolsIn(module: object, at: Exported, given: Given): Promise<Tool[]> {
  const exported = ownExport(module, at);
  const list = await listOf(exported, at, given);
  if (list.length > MOST_TOOLS) {
    throw broken(at, `has ${list.length} tools, more than ${MOST_TOOLS}`, "leave out what is not needed");
  }
  if (list.length === 0) throw exportProblem(at, "gives no tools", `export const ${at.export} = [myTool]`);
  return list.map((item, index) => toolOf(item, at, index));
}

/** Two tools of one name are none: nobody could say which is meant. */
export function checkNames(tools: readonly Tool[]): void {
  const twice = tools.find(({ name }, index) => tools.findIndex((other) => other.name === name) !== index);
  if (!twice) return;
  throw new SkillError("toolset-collision", {
    message: `Two of its tools are called "${twice.name}"`,
    fix: "give one of them another name",
  });
}

/** Of an older module, what it assigned to `module.exports` counts too. */
function ownExport(module: object, at: Exported): unknown {
  const whole = (module as Data)["default"];
  const places = [module, ...(isData(whole) ? [whole] : [])] as Data[];
  const found = places.find((place) => Object.keys(place).includes(at.export));
  if (found) return found[at.export];
  const there = [...new Set(places.flatMap((place) => Object.keys(place)))].filter((name) => name !== "module.exports");
  throw new SkillError("toolset-export", {
    message: `${at.file} has no export "${at.export}"`,
    fix: there.length === 0 ? "it exports nothing" : `it exports: ${oneLine(there.join(", "), 300)}`,
  });
}

async function listOf(exported: unknown, at: Exported, given: Given): Promise<readonly unknown[]> {
  if (Array.isArray(exported)) return exported;
  if (typeof exported === "function" && exported.prototype !== undefined) {
    const toolset: unknown = new (exported as new (given: Given) => unknown)(given);
    const own = Object(toolset) as { tools?: unknown; [Symbol.iterator]?: unknown };
    const tools = Array.isArray(toolset) ? toolset : await (typeof own.tools === "function" ? own.tools() : own.tools);
    if (Array.isArray(tools)) return tools;
    if (typeof own[Symbol.iterator] === "function") return [...(toolset as Iterable<unknown>)];
    throw exportProblem(
      at,
      "is a class whose instances have no `tools`",
      "give it `tools`: an array, a getter or a method",
    );
  }
  throw exportProblem(at, "is neither an array of tools nor a class", `export const ${at.export} = [myTool]`);
}

function toolOf(item: unknown, at: Exported, index: number): Tool {
  const { name, description, inputSchema, execute } = Object(item) as Partial<Tool>;
  const which = typeof name === "string" ? `its tool "${oneLine(name, 64)}"` : `item ${index + 1}`;
  const lacks = (what: string) => broken(at, `${which} ${what}`, "make it with Tool.define from @agent/tools");
  if (typeof name !== "string" || typeof execute !== "function") throw lacks("is no tool");
  // The dot is between the skill's name and this one: with another, two could be one.
  if (!TOOL_ID.test(name) || name.includes(".")) throw lacks("has a name that is none for a tool of a skill");
  if (typeof description !== "string" || description.trim() === "") throw lacks("has no description");
  if (!isData(inputSchema) || inputSchema["type"] !== "object")
    throw lacks("has no JSON Schema of an object as `inputSchema`");
  const text = jsonOf(inputSchema);
  if (text === undefined) throw lacks("has an `inputSchema` that is no JSON");
  if (text.length > LARGEST_SCHEMA)
    throw lacks(`has an \`inputSchema\` of more than ${grouped(LARGEST_SCHEMA)} characters`);
  return item as Tool;
}

export function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

function broken({ file, export: name }: Exported, what: string, fix: string): SkillError {
  return new SkillError("toolset-broken", { message: `${file}: ${name}: ${what}`, fix });
}

function exportProblem({ file, export: name }: Exported, what: string, fix: string): SkillError {
  return new SkillError("toolset-export", { message: `${file}: ${name} ${what}`, fix });
}
