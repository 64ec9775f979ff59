import { listTool } from "../run/skill-tools.ts";
import type { Session } from "../session/session.ts";
import { skillTool as tool } from "../session/skill-tool.ts";
import { defined } from "../shared/defined.ts";
import { inLine } from "../shared/prompt.ts";
import { type Data, isData } from "../skill/data.ts";
import type { Tool, ToolResult } from "../skill/tool.ts";
import { adviseTool } from "./advise-tool.ts";
import { callTool } from "./call-tool.ts";
import { CHANGES, type Hints, READS, RUNS } from "./transform.ts";

/** How a tool of ours is listed, and what its result is for programs. */
export interface Row {
  title: string;
  annotations: Hints;
  output?: {
    schema: Data;
    of(result: ToolResult): Data | undefined;
    /** What a list says that is empty. */
    ifEmpty?: string;
  };
  /** Only for people who write skills. */
  isForAuthors?: true;
  /** Only for prompt hooks: listed to clients that call tools from hooks, and callable by all. */
  isForHooks?: true;
  /** What a model needs before it can think of the rest. */
  isAtHand?: true;
  /** What of its input means nothing here. */
  lacks?: string;
}

const TEXT = { type: "string" };
const SKILL = { skill: { type: "string", says: "the skill's name", isRequired: true, also: ["skill_name"] } } as const;

/** Every tool of ours, in the order in which it is listed. */
export const ROWS: Readonly<Record<string, Row>> = {
  list_skills: {
    title: "List skills",
    annotations: READS,
    isAtHand: true,
    output: listOf(
      { name: TEXT, description: TEXT, version: TEXT, tags: { type: "array", items: TEXT } },
      "there are no skills",
    ),
  },
  search_skills: {
    title: "Search skills",
    annotations: READS,
    isAtHand: true,
    output: listOf({ name: TEXT, description: TEXT, why: TEXT }, "nothing fits; list_skills shows what there is"),
  },
  // A server does not see what is in sight in a conversation, or whether it is the same one: so the instructions are given each time.
  load_skill: { title: "Load a skill", annotations: READS, isAtHand: true, lacks: "again" },
  activate_skills_for: { title: "Load the skills for a topic", annotations: READS },
  unload_skill: { title: "Unload a skill", annotations: READS },
  read_skill_resource: { title: "Read a file of a skill", annotations: READS },
  run_skill_script: { title: "Run a script of a skill", annotations: RUNS },
  use_skill: { title: "Hand a task to a skill", annotations: CHANGES },
  call_skill_tool: { title: "Call a tool of a loaded skill", annotations: CHANGES, isAtHand: true },
  validate_skill: { title: "Check a skill's structure", annotations: READS, isForAuthors: true, output: judgement() },
  lint_skill: { title: "Check a skill's style", annotations: READS, isForAuthors: true, output: judgement() },
  advise: { title: "Answer a prompt hook", annotations: READS, isForHooks: true },
};

/** The skills of a listing that is a JSON array; what stands in it without a name says how many more there are, or what was not looked at. */
function listOf(properties: Data, ifEmpty: string): NonNullable<Row["output"]> {
  const item = { type: "object", properties, required: ["name", "description"] };
  const skills = { type: "array", items: item };
  return {
    ifEmpty,
    schema: { type: "object", properties: { skills, note: TEXT, more: { type: "number" } }, required: ["skills"] },
    of({ content }) {
      const entries = JSON.parse(content) as Data[];
      const rest = entries.filter((entry) => entry["name"] === undefined);
      const skills = entries.filter((entry) => entry["name"] !== undefined);
      return Object.assign({ skills }, ...rest);
    },
  };
}

/** What was found in one skill, or in those of a folder. */
function judgement(): NonNullable<Row["output"]> {
  const finding = { rule: TEXT, severity: TEXT, line: { type: "number" }, message: TEXT, fix: TEXT };
  const findings = { type: "array", items: { type: "object", properties: finding, required: ["rule", "severity"] } };
  const one = { skill: TEXT, file: TEXT, profile: TEXT, isValid: { type: "boolean" }, findings };
  const skills = { type: "array", items: { type: "object", properties: one, required: ["skill", "findings"] } };
  return {
    schema: { type: "object", properties: { ...one, skills, more: { type: "number" } } },
    of: ({ content }) => JSON.parse(content),
  };
}

/** A listing with what is to be known besides. */
export function noted(result: ToolResult, ifEmpty: string, note: string | undefined): ToolResult {
  if (result.isError) return result;
  const entries = JSON.parse(result.content) as Data[];
  const notes = [entries.length === 0 ? ifEmpty : [], note ?? []].flat();
  if (notes.length === 0) return result;
  // A skill may have a note of its own.
  const isNote = (entry: Data) => entry["name"] === undefined && entry["note"] !== undefined;
  const [before] = entries.filter(isNote).map((entry) => entry["note"]);
  const rest = entries.filter((entry) => !isNote(entry));
  return { ...result, content: JSON.stringify([...rest, { note: [before ?? [], notes].flat().join(". ") }]) };
}

/** A schema without one of its properties. */
export function without(schema: Data, lacking: string | undefined): Data {
  const { properties } = schema;
  if (lacking === undefined || !isData(properties)) return schema;
  const { [lacking]: _, ...rest } = properties;
  return { ...schema, properties: rest };
}

export interface OwnOptions {
  /** Whether what is loaded is forgotten with the answer: then a call says which skill the tool is of. */
  isStateless?: boolean | undefined;
  /** Returns the name that the client gives itself. */
  clientName?(): string | undefined;
  /** Lists the skills within what the client takes. Defaults to the session's list. */
  list?(): Promise<ToolResult>;
}

/** The tools that only make sense to a client: what a conversation of ours does by itself. */
export function clientTools(session: Session, options: OwnOptions): readonly Tool[] {
  const { isStateless = false, clientName = () => undefined, list = () => session.list() } = options;
  return [
    listTool(list),
    adviseTool(session, clientName),
    tool(
      "activate_skills_for",
      "Loads the skills that a topic is about: gives their full instructions and the lists of their files. Follow them.",
      { topic: { type: "string", says: "what is to be done, in a few words", isRequired: true } },
      async ({ topic }, { signal }) => (await session.activate(topic, { again: true, ...defined({ signal }) })).result,
    ),
    ...(isStateless ? [] : [unloadTool(session)]),
    ...(session.isReadOnly ? [] : [callTool(session, isStateless)]),
  ];
}

function unloadTool(session: Session): Tool {
  const says = "Unloads a skill that is not needed any more: its tools are taken from the list.";
  return tool("unload_skill", says, SKILL, async ({ skill }) => unloaded(session, skill));
}

function unloaded(session: Session, name: string): ToolResult {
  const shown = inLine(name, 64);
  if (session.unload(name)) return { content: `Skill '${shown}' is unloaded.`, isError: false };
  const loaded = session.active.map((skill) => inLine(skill.name, 64)).join(", ");
  const content = `Skill '${shown}' is not loaded${loaded === "" ? "" : `; these are: ${loaded}`}.`;
  return { content, isError: false, code: "not-loaded" };
}
