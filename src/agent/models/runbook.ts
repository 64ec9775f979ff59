import { type ArgumentSubstitutions, createShellValues, substituteArguments } from "../../catalog/skill-content.ts";
import {
  type Message,
  type Model,
  type ModelReply,
  type ModelRequest,
  NO_USAGE,
  type ToolCallResult,
} from "../../host/model-contract.ts";
import { findNearest, truncateLine } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";

export const RUNBOOK_NAME = "runbook";
/** The note below each answer of the runbook model. */
export const RUNBOOK_NOTE = "[runbook: no language model was used]";

/** A model without a language model: it lists skills, runs a skill that is named, and runs the commands written in its instructions. */
export const runbookModel: Model = {
  name: RUNBOOK_NAME,
  async respond(request) {
    request.signal.throwIfAborted();
    const reply = request.task.skill ? followSkill(request, request.task.skill) : await respondInConversation(request);
    if (reply.text !== "") request.onText(reply.text);
    return reply;
  },
};

/** Returns the results of all calls since the last user message. */
function listCallResults(messages: readonly Message[]): readonly ToolCallResult[] {
  const asked = messages.findLastIndex(({ role }) => role === "user");
  return messages.slice(asked + 1).flatMap((message) => (message.role === "tool" ? message.results : []));
}

async function respondInConversation({ task, messages, tools }: ModelRequest): Promise<ModelReply> {
  const results = listCallResults(messages);
  const last = results.at(-1);
  const has = (name: string) => tools.some((tool) => tool.name === name);
  if (last?.tool === "use_skill" && last.output !== undefined) {
    // The model that followed the skill has added its own note.
    return createReply(last.output || "(no answer)");
  }
  if (last?.isError || last?.tool === "use_skill") return createAnswerReply(getOutput(last));
  if (last?.tool === "list_skills") {
    const searched = results.find(({ tool }) => tool === "search_skills");
    if (!searched) return createAnswerReply(formatSkillList(last));
    return createAnswerReply(suggestSkillName(task.message, last) ?? formatSuggestion(listFoundSkills(searched)));
  }
  const [, called, rest = ""] = /^\s*\/([a-z0-9][\w-]*(?:@[\w-]+)?)(?:\s+([\s\S]*))?$/i.exec(task.message) ?? [];
  if (called !== undefined && has("use_skill")) return createUseCall(called, rest, results.length);
  if (last?.tool === "search_skills") return chooseSkill(last, task.message, has);
  const { isListIntent } = await import("../../catalog/listing.ts"); // Loads the search, which following a skill does not need.
  if (isListIntent(task.message) && has("list_skills")) return createCallReply("list_skills", {}, results.length);
  if (has("search_skills"))
    return createCallReply("search_skills", { query: task.message, limit: MAX_SUGGESTIONS }, results.length);
  return createAnswerReply(`No skills are available here. ${NEEDS_MODEL_NOTE}`);
}

const MAX_SUGGESTIONS = 3;
const MODEL_SETUP_HINT =
  "set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or add [models.default] to ~/.skillet/config.toml";
const NEEDS_MODEL_NOTE = `Anything else needs a language model: ${MODEL_SETUP_HINT}.`;

interface RunbookSkill {
  name: string;
  description?: string;
  isTriggered?: boolean;
}

/** Returns the skills in the result of `list_skills` or `search_skills`. */
function listFoundSkills({ data }: ToolCallResult): readonly RunbookSkill[] {
  const { skills } = Object(data) as { skills?: readonly RunbookSkill[] };
  return skills ?? [];
}

function formatSkillList(result: ToolCallResult): string {
  const skills = listFoundSkills(result);
  if (skills.length === 0) return "There are no skills here. `skillet new NAME` creates one.";
  const isWhole = result.data?.["more"] === undefined;
  const rest = isWhole ? [] : ["", "There are more: describe your task to see the best matches."];
  return [...formatSkillLines(skills), ...rest].join("\n");
}

function formatSkillLines(skills: readonly RunbookSkill[]): string[] {
  return skills.map(({ name, description = "" }) => fitToLine(`- ${name}: `, truncateLine(description)));
}

/** The width of a line in a terminal. */
const COLUMNS = 78;

function fitToLine(begin: string, text: string): string {
  const room = Math.max(COLUMNS - begin.length, 1);
  if (text.length <= room) return `${begin}${text}`;
  const cut = truncateLine(text, room);
  return `${begin}${text[cut.length - 1] === " " ? cut : cut.replace(/(\S)\s+\S*…$/u, "$1…")}`;
}

/** Uses a skill that the message names or that has a matching trigger. Keywords and weak triggers alone do not run a skill. */
function chooseSkill(result: ToolCallResult, message: string, has: (tool: string) => boolean): ModelReply {
  const skills = listFoundSkills(result);
  const named = skills.find(({ name }) => namesSkill(message, name));
  const best = named ?? skills.find(({ isTriggered }) => isTriggered);
  if (best && has("use_skill")) return createUseCall(best.name, removeSkillName(message, best.name), 1);
  if (extractSkillName(message) !== undefined && has("list_skills")) return createCallReply("list_skills", {}, 1);
  return createAnswerReply(formatSuggestion(skills));
}

function formatSuggestion(skills: readonly RunbookSkill[]): string {
  const [first] = skills;
  if (!first) return `No skill matches this. Ask which skills are available. ${NEEDS_MODEL_NOTE}`;
  return [
    "No skill was named. The best matches are:",
    ...formatSkillLines(skills),
    "",
    `To use one, name it: "use the ${first.name} skill to …", or "/${first.name} …". ${NEEDS_MODEL_NOTE}`,
  ].join("\n");
}

/** Suggests a skill for a name that does not exist. */
function suggestSkillName(message: string, listed: ToolCallResult): string | undefined {
  const named = extractSkillName(message) ?? "";
  const names = listFoundSkills(listed).map(({ name }) => name);
  const meant = findNearest(named.replace(/\s+/g, "-"), names);
  return meant && `Unknown skill '${sanitizeLine(named, 64)}'; did you mean '${meant}'?`;
}

const USE_VERB =
  "^\\s*(?:please\\s+|can you\\s+|could you\\s+)?(?:use|run|start|call|execute|invoke|apply|try)\\s+(?:the\\s+)?";
const NAMED_SKILL_PATTERN = new RegExp(
  `${USE_VERB}(?:skill\\s+["'\`]?([\\w-]{3,64})|["'\`]?([\\w-]{3,64}(?:\\s[\\w-]{1,64}){0,2}?)["'\`]?(?:\\s+skill\\b|[\\s,:.!?]*(?:$|\\s(?:to|and|for|on|with)\\s)))`,
  "i",
);

/** Returns the name of the requested skill in a message, which may not exist. */
function extractSkillName(message: string): string | undefined {
  const [, after, before] = NAMED_SKILL_PATTERN.exec(message) ?? [];
  return after ?? before;
}

/** Creates a pattern for `run host-report` or `use test`: at the beginning, with the full name after the verb. */
function createNamePattern(name: string): RegExp {
  const words = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("-", "[- ]");
  return new RegExp(
    `${USE_VERB}(?:skill\\s+)?["'\`]?${words}["'\`]?(?![\\w-])(?:\\s+skill\\b)?[\\s,:.!?]*(?:(?:to|and|for|on|with)\\s+)?`,
    "i",
  );
}

function namesSkill(message: string, name: string): boolean {
  return createNamePattern(name).test(message);
}

/** Returns the rest of a message, which is the task of the skill. */
function removeSkillName(message: string, name: string): string {
  return message.replace(createNamePattern(name), "").trim();
}

function createUseCall(skill: string, message: string, index: number): ModelReply {
  return createCallReply("use_skill", { skill, ...(message.trim() === "" ? {} : { message: message.trim() }) }, index);
}

type FollowedSkill = NonNullable<ModelRequest["task"]["skill"]>;

function followSkill({ messages, tools }: ModelRequest, skill: FollowedSkill): ModelReply {
  const has = (name: string) => tools.some((tool) => tool.name === name);
  const fail = (result: string) =>
    has("complete") ? createCallReply("complete", { result, failed: true }, results.length) : createReply(result);
  const commands = findInstructionCommands(skill.body, {
    names: skill.names,
    ...(skill.arguments === undefined ? {} : { arguments: skill.arguments }),
    ...(skill.folder === undefined ? {} : { folder: skill.folder }),
  });
  const all = listCallResults(messages).filter(({ tool }) => tool === "bash");
  // A command that could only read but had to write is repeated with `writes`, which may need approval.
  const results = all.filter((result) => !needsWriteAccess(result));
  const wasReading = results.length < all.length && needsWriteAccess(all.at(-1));
  if (commands.length === 0 || !has("bash")) {
    const why = commands.length === 0 ? "contain no commands" : "contain commands, but no tool can run them";
    const cause = `Skill '${sanitizeLine(skill.name, 64)}' needs a language model: its instructions ${why}.`;
    // Without the note of an answer: these two lines say the same, and what to do.
    return fail(`${cause}\nTo get one, ${MODEL_SETUP_HINT}.`);
  }
  const next = commands[results.length];
  const isFailed = results.at(-1)?.isError === true;
  if (next !== undefined && (!isFailed || wasReading)) {
    return createCallReply("bash", { command: next, ...(wasReading ? { writes: true } : {}) }, all.length);
  }
  const report = formatCommandReport(commands, results);
  return isFailed ? fail(addRunbookNote(report)) : createAnswerReply(report);
}

function needsWriteAccess(result: ToolCallResult | undefined): boolean {
  return result?.data?.["needsWriteAccess"] === true;
}

function formatCommandReport(commands: readonly string[], results: readonly ToolCallResult[]): string {
  const parts = results.map((result, index) => {
    const printed = getOutput(result) || "(no output)";
    const ending = result.isError ? `\n[${String(result.data?.["ending"] ?? "failed")}]` : "";
    return commands.length === 1
      ? `${printed}${ending}`
      : `### ${formatCommandHeading(commands[index] ?? "")}\n\n${printed}${ending}`;
  });
  const left = commands.length - results.length;
  if (left > 0) parts.push(`[stopped: ${left} of ${commands.length} commands were not run]`);
  return parts.join("\n\n");
}

function formatCommandHeading(command: string): string {
  const line = command.split("\n").find((text) => !/^(?:skillet_\d+=|\s*#|\s*$)/.test(text));
  return truncateLine(line ?? command, 72);
}

/** Returns the output of a call, or its text if it has none, such as a refusal. */
function getOutput({ output, content }: ToolCallResult): string {
  return output ?? content;
}

function createCallReply(tool: string, input: unknown, index: number): ModelReply {
  const calls = [{ id: `${RUNBOOK_NAME}_${index + 1}`, tool, input }];
  return { text: "", calls, usage: NO_USAGE, finish: "calls" };
}

function createAnswerReply(text: string): ModelReply {
  return createReply(addRunbookNote(text));
}

function createReply(text: string): ModelReply {
  return { text, calls: [], usage: NO_USAGE, finish: "stop" };
}

function addRunbookNote(text: string): string {
  return text.trimEnd().endsWith(RUNBOOK_NOTE) ? text.trimEnd() : `${text.trimEnd()}\n\n${RUNBOOK_NOTE}`;
}

/** Returns the commands in instructions, in order, with the arguments filled in. */
export function findInstructionCommands(
  body: string,
  substitutions: Omit<ArgumentSubstitutions, "replace" | "addsUnused">,
): string[] {
  const values = createShellValues();
  const commands = findCommandBlocks(body).map(({ start, end }) => ({
    end,
    put: values.createReplacer(body.slice(start, end), start),
    start,
  }));
  let next = 0;
  const filled = substituteArguments(body, {
    ...substitutions,
    addsUnused: false,
    // Placeholders come in order. Placeholders outside commands stay as they are.
    replace(value, placeholder) {
      while ((commands[next]?.end ?? body.length + 1) <= placeholder.at) next++;
      const command = commands[next];
      return command && command.start <= placeholder.at ? command.put(value, placeholder) : placeholder.written;
    },
  });
  return findCommandBlocks(filled).map(({ text }) => values.prependVariables(text));
}

interface FoundCommand {
  start: number;
  end: number;
  text: string;
}

const FENCE = /^[ \t]*(`{3,}|~{3,})[ \t]*([^\s`{]*)/;
const SHELL_LANGUAGES = new Set(["sh", "bash", "shell", "zsh"]);
const SESSION_LANGUAGES = new Set(["console", "shell-session", "shellsession", "terminal"]);
const RUN_LINE = /^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\*\*|__)?Run:(?:\*\*|__)?[ \t]+(.*\S)[ \t]*$/;

/** Finds fenced shell blocks, and `Run:` lines outside all blocks. */
function findCommandBlocks(body: string): FoundCommand[] {
  const found: FoundCommand[] = [];
  let block: { fence: string; language: string; start: number; lines: string[] } | undefined;
  let isComment = false;
  let start = 0;
  for (const whole of body.split("\n")) {
    const line = whole.replace(/\r$/, "");
    const end = start + whole.length;
    const [, fence = "", language = ""] = isComment ? [] : (FENCE.exec(line) ?? []);
    if (block) {
      if (fence.startsWith(block.fence) && language === "") {
        addBlock(found, block, start);
        block = undefined;
      } else block.lines.push(line);
    } else if (fence !== "") block = { fence, language: language.toLowerCase(), start: end + 1, lines: [] };
    else {
      isComment = line.lastIndexOf("<!--") > line.lastIndexOf("-->") || (isComment && !line.includes("-->"));
      const [, run = ""] = isComment ? [] : (RUN_LINE.exec(line) ?? []);
      const text = /^(`{1,3}) ?(.+?) ?\1(?!`)/.exec(run)?.[2] ?? run;
      if (text !== "") found.push({ start: start + line.lastIndexOf(text), end, text });
    }
    start = end + 1;
  }
  if (block) addBlock(found, block, body.length);
  return found;
}

function addBlock(
  found: FoundCommand[],
  block: { language: string; start: number; lines: string[] },
  end: number,
): void {
  const isSession = SESSION_LANGUAGES.has(block.language);
  if (!isSession && !SHELL_LANGUAGES.has(block.language)) return;
  const lines = removeIndent(block.lines);
  const hasPrompts = lines.some((line) => SHELL_PROMPT.test(line));
  const text = (hasPrompts ? selectTypedLines(lines) : isSession ? [] : lines).join("\n").trim();
  if (text.split("\n").some((line) => line.trim() !== "" && !/^\s*#/.test(line))) {
    found.push({ start: block.start, end, text });
  }
}

const SHELL_PROMPT = /^\s*\$ /;

/** Selects the typed lines of a session: those after a prompt, and their continuations. Output is dropped. */
function selectTypedLines(lines: readonly string[]): string[] {
  const kept: string[] = [];
  let goesOn = false;
  for (const line of lines) {
    if (!goesOn && !SHELL_PROMPT.test(line)) continue;
    kept.push(line.replace(goesOn ? /^> ?/ : SHELL_PROMPT, ""));
    goesOn = line.endsWith("\\");
  }
  return kept;
}

/** Removes the indentation of a block inside a list. */
function removeIndent(lines: readonly string[]): string[] {
  const depths = lines.filter((line) => line.trim() !== "").map((line) => /^[ \t]*/.exec(line)?.[0].length ?? 0);
  const depth = depths.length === 0 ? 0 : Math.min(...depths);
  return lines.map((line) => line.slice(depth));
}
