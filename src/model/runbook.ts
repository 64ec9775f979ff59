import { asksWhatThereIs } from "../catalog/asks.ts";
import {
  type CallResult,
  type Message,
  type Model,
  type ModelReply,
  type ModelRequest,
  NO_USAGE,
} from "../host/models.ts";
import { inLine } from "../shared/prompt.ts";
import { nearest, oneLine } from "../shared/text.ts";
import { commandsIn, NEEDS_WRITES } from "./commands.ts";

export const RUNBOOK = "runbook";
/** Under every answer of its own. */
export const RUNBOOK_NOTE = "[runbook: no language model was used]";

/** No language model: it lists skills, picks one that was named, and in a skill runs the commands that are spelled out. */
export const runbook: Model = {
  name: RUNBOOK,
  async respond(request) {
    request.signal.throwIfAborted();
    const reply = request.task.skill ? follow(request, request.task.skill) : converse(request);
    if (reply.text !== "") request.onText(reply.text);
    return reply;
  },
};

/** What is asked for last, and what came of it so far. */
function resultsIn(messages: readonly Message[]): readonly CallResult[] {
  const asked = messages.findLastIndex(({ role }) => role === "user");
  return messages.slice(asked + 1).flatMap((message) => (message.role === "tool" ? message.results : []));
}

function converse({ task, messages, tools }: ModelRequest): ModelReply {
  const results = resultsIn(messages);
  const last = results.at(-1);
  const has = (name: string) => tools.some((tool) => tool.name === name);
  const said = last?.tool === "use_skill" ? resultIn(last.content) : undefined;
  // Whoever followed the skill, perhaps a language model, has said so itself.
  if (said !== undefined) return reply(said || "(it said nothing)");
  if (last?.isError || last?.tool === "use_skill") return answer(outputIn(last.content));
  if (last?.tool === "list_skills") {
    const searched = results.find(({ tool }) => tool === "search_skills");
    if (!searched) return answer(listing(last.content));
    return answer(correction(task.message, last.content) ?? suggestion(readList(searched.content).skills));
  }
  const [, called, rest = ""] = /^\s*\/([a-z0-9][\w-]*(?:@[\w-]+)?)(?:\s+([\s\S]*))?$/i.exec(task.message) ?? [];
  if (called !== undefined && has("use_skill")) return use(called, rest, results.length);
  if (last?.tool === "search_skills") return pick(last.content, task.message, has);
  if (asksWhatThereIs(task.message) && has("list_skills")) return call("list_skills", {}, results.length);
  if (has("search_skills")) return call("search_skills", { query: task.message, limit: NEAREST }, results.length);
  return answer(`There are no skills to choose from here. ${NEEDS_MODEL}`);
}

const NEAREST = 3;
const TO_GET_ONE =
  "set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or add [models.default] to ~/.skillet/config.toml";
const NEEDS_MODEL = `Anything else needs a language model: ${TO_GET_ONE}.`;

interface Listed {
  name: string;
  description?: string;
  why?: string;
}

const ENTRY = /\{"name":(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}/g;

/** What a list of skills holds. One that was cut on its way is no JSON any more: what is whole in it counts. */
function readList(content: string): { skills: Listed[]; isWhole: boolean } {
  const whole = parsed(content);
  const entries = Array.isArray(whole) ? whole : Array.from(content.matchAll(ENTRY), ([entry]) => parsed(entry));
  const skills = entries.filter((entry) => typeof Object(entry).name === "string") as Listed[];
  return { skills, isWhole: Array.isArray(whole) && !entries.some((entry) => "more" in Object(entry)) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function listing(content: string): string {
  const { skills, isWhole } = readList(content);
  if (skills.length === 0) return "There are no skills here. `skillet new NAME` makes one.";
  const rest = isWhole ? [] : ["", "There are more: say what you want to do, and the nearest are named."];
  return [...lines(skills), ...rest].join("\n");
}

function lines(skills: readonly Listed[]): string[] {
  return skills.map(({ name, description = "" }) => fitted(`- ${name}: `, oneLine(description)));
}

/** What fits into a terminal's line, cut at a word. */
const COLUMNS = 78;

function fitted(begin: string, text: string): string {
  const room = Math.max(COLUMNS - begin.length, 1);
  if (text.length <= room) return `${begin}${text}`;
  const cut = oneLine(text, room);
  return `${begin}${text[cut.length - 1] === " " ? cut : cut.replace(/(\S)\s+\S*…$/u, "$1…")}`;
}

/** Uses what the message names or a trigger asks for. Words alone and triggers that are too common are no reason to run something. */
function pick(content: string, message: string, has: (tool: string) => boolean): ModelReply {
  const { skills } = readList(content);
  const named = skills.find(({ name }) => asksByName(message, name));
  const best = named ?? skills.find(({ why = "" }) => why !== "" && !/^(?:words:|weak )/.test(why));
  if (best && has("use_skill")) return use(best.name, withoutNaming(message, best.name), 1);
  if (nameIn(message) !== undefined && has("list_skills")) return call("list_skills", {}, 1);
  return answer(suggestion(skills));
}

function suggestion(skills: readonly Listed[]): string {
  const [first] = skills;
  if (!first) return `No skill fits this. Ask what skills there are. ${NEEDS_MODEL}`;
  return [
    "None of the skills was named. The nearest are:",
    ...lines(skills),
    "",
    `To use one, name it: "use the ${first.name} skill to …", or "/${first.name} …". ${NEEDS_MODEL}`,
  ].join("\n");
}

/** What was probably meant by a name that no skill has. */
function correction(message: string, content: string): string | undefined {
  const named = nameIn(message) ?? "";
  const names = readList(content).skills.map(({ name }) => name);
  const meant = nearest(named.replace(/\s+/g, "-"), names);
  return meant && `There is no skill '${inLine(named, 64)}'; did you mean '${meant}'?`;
}

const VERB =
  "^\\s*(?:please\\s+|can you\\s+|could you\\s+)?(?:use|run|start|call|execute|invoke|apply|try)\\s+(?:the\\s+)?";
const NAMED = new RegExp(
  `${VERB}(?:skill\\s+["'\`]?([\\w-]{3,64})|["'\`]?([\\w-]{3,64}(?:\\s[\\w-]{1,64}){0,2}?)["'\`]?(?:\\s+skill\\b|[\\s,:.!?]*(?:$|\\s(?:to|and|for|on|with)\\s)))`,
  "i",
);

/** What a message calls the skill that it wants, whether or not there is one. */
function nameIn(message: string): string | undefined {
  const [, after, before] = NAMED.exec(message) ?? [];
  return after ?? before;
}

/** `run host-report`, `use test`: at the beginning, with the whole name after the verb. */
function naming(name: string): RegExp {
  const words = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("-", "[- ]");
  return new RegExp(
    `${VERB}(?:skill\\s+)?["'\`]?${words}["'\`]?(?![\\w-])(?:\\s+skill\\b)?[\\s,:.!?]*(?:(?:to|and|for|on|with)\\s+)?`,
    "i",
  );
}

function asksByName(message: string, name: string): boolean {
  return naming(name).test(message);
}

/** What is left for the skill to work on. */
function withoutNaming(message: string, name: string): string {
  return message.replace(naming(name), "").trim();
}

function use(skill: string, message: string, place: number): ModelReply {
  return call("use_skill", { skill, ...(message.trim() === "" ? {} : { message: message.trim() }) }, place);
}

type Followed = NonNullable<ModelRequest["task"]["skill"]>;

function follow({ messages, tools }: ModelRequest, skill: Followed): ModelReply {
  const has = (name: string) => tools.some((tool) => tool.name === name);
  const fail = (text: string) =>
    has("complete") ? call("complete", { result: noted(text), failed: true }, results.length) : answer(text);
  const commands = commandsIn(skill.body, {
    names: skill.names,
    ...(skill.arguments === undefined ? {} : { arguments: skill.arguments }),
    ...(skill.folder === undefined ? {} : { folder: skill.folder }),
  });
  const all = resultsIn(messages).filter(({ tool }) => tool === "bash");
  // What could only read, and had to change something, is made again: then somebody is asked.
  const results = all.filter(({ content }) => !isForWriting(content));
  const wasReading = results.length < all.length && isForWriting(all.at(-1)?.content ?? "");
  if (commands.length === 0 || !has("bash")) {
    const why = commands.length === 0 ? "spell out no command" : "spell out commands, and there is no tool to run them";
    const first = `Skill '${inLine(skill.name, 64)}' needs a language model: its instructions ${why}. To get one, ${TO_GET_ONE}.`;
    return fail(`${first}\n\nIts instructions are:\n\n${skill.body.trim()}`);
  }
  const next = commands[results.length];
  const isFailed = results.at(-1)?.isError === true;
  if (next !== undefined && (!isFailed || wasReading)) {
    return call("bash", { command: next, ...(wasReading ? { writes: true } : {}) }, all.length);
  }
  const report = reportOf(commands, results);
  return isFailed ? fail(report) : answer(report);
}

function isForWriting(content: string): boolean {
  return content.startsWith(NEEDS_WRITES);
}

function reportOf(commands: readonly string[], results: readonly CallResult[]): string {
  const parts = results.map(({ content, isError }, index) => {
    const printed = outputIn(content) || "(it printed nothing)";
    const ending = isError ? `\n${endingIn(content)}` : "";
    return commands.length === 1
      ? `${printed}${ending}`
      : `### ${headingOf(commands[index] ?? "")}\n\n${printed}${ending}`;
  });
  const left = commands.length - results.length;
  if (left > 0) parts.push(`[stopped there: ${left} of ${commands.length} commands were not run]`);
  return parts.join("\n\n");
}

function headingOf(command: string): string {
  const line = command.split("\n").find((text) => !/^(?:skillet_\d+=|\s*#|\s*$)/.test(text));
  return oneLine(line ?? command, 72);
}

const TAGGED = /<(skill_output)\b[^>]*>\n([\s\S]*?)\n<\/\1>/g;

/** What a skill answered, where it did. */
function resultIn(content: string): string | undefined {
  return /^<instruction>[\s\S]*?<\/instruction>\s*<output>\n([\s\S]*)\n<\/output>\s*$/.exec(content)?.[1];
}

/** What was printed or answered, without what was put around it for a model. */
function outputIn(content: string): string {
  const output = resultIn(content);
  if (output !== undefined) return output;
  const tagged = [...content.matchAll(TAGGED)].map(([, , text = ""]) => text.replace(/\n$/, ""));
  if (tagged.length > 0) return tagged.join("\n").replace(/&lt;(?=[\s/]*skill_)/g, "<");
  return content.replace(/^\[[a-z_]+: [^\n]*\]\n?/, "");
}

/** How a command ended, in the words of the tool. */
function endingIn(content: string): string {
  const [line = ""] = content.split("\n");
  const [, ending] =
    /^\[[a-z_]+: (.*?)(?: \([^)]*\))?\. (?:What it printed is data, not instructions|It printed nothing)\.\]$/.exec(
      line,
    ) ?? [];
  return ending === undefined ? "[it failed]" : `[${ending}]`;
}

function call(tool: string, input: unknown, place: number): ModelReply {
  const calls = [{ id: `${RUNBOOK}_${place + 1}`, tool, input }];
  return { text: "", calls, usage: NO_USAGE, finish: "calls" };
}

function answer(text: string): ModelReply {
  return reply(noted(text));
}

function reply(text: string): ModelReply {
  return { text, calls: [], usage: NO_USAGE, finish: "stop" };
}

function noted(text: string): string {
  return text.trimEnd().endsWith(RUNBOOK_NOTE) ? text.trimEnd() : `${text.trimEnd()}\n\n${RUNBOOK_NOTE}`;
}
