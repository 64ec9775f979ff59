import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import { compileLinearPattern } from "../catalog/search/pattern-index.ts";
import { findFrontmatter, readFullYaml } from "../skill/frontmatter.ts";
import { resolveEntryTool } from "../skill/tool-names.ts";
import { readRegularText } from "../util/file-access.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../util/objects.ts";
import { quoteShellArgument } from "../util/text.ts";
import {
  createEvalFileError,
  type EvalCase,
  type EvalSuite,
  findCaseFile,
  type Grader,
  readDataFile,
  readEvalCases,
  resolveCasePath,
} from "./eval-cases.ts";

/** A format of another program. */
interface CaseFormat {
  name: string;
  /** Returns the file or folder of the cases, if there is one. */
  find(skillFolder: string): string | undefined;
  read(path: string, skillFolder: string): EvalSuite;
}

/** THE table of foreign formats, in the order in which they are looked for. */
const CASE_FORMATS: readonly CaseFormat[] = [
  {
    name: "evals.json of Anthropic's skill-creator",
    find: (folder) => findFile(folder, "evals/evals.json"),
    read: readAnthropicEvals,
  },
  { name: "cases of `claude plugin eval`", find: findClaudeCases, read: readClaudeCases },
  { name: "eval.yaml of skillgrade", find: (folder) => findFile(folder, "eval.yaml"), read: readSkillgradeTasks },
];

/** Reads the cases of a skill: in the own format, otherwise in the first foreign one that is found. Undefined without any. */
export async function readSkillCases(skillFolder: string): Promise<EvalSuite | undefined> {
  const own = findCaseFile(skillFolder);
  if (own !== undefined) return readEvalCases(own);
  for (const { find, read, name } of CASE_FORMATS) {
    const path = find(skillFolder);
    if (path === undefined) continue;
    const suite = read(path, skillFolder);
    if (suite.cases.length === 0) throw createEvalFileError(path, `has no usable case (${name})`);
    return { ...suite, format: name, notes: [...new Set(suite.notes)] };
  }
  return undefined;
}

function findFile(folder: string, path: string): string | undefined {
  const file = join(folder, path);
  return existsSync(file) ? file : undefined;
}

type Note = (text: string) => void;

function createNotes(file: string): { notes: string[]; note: Note } {
  const notes: string[] = [];
  return { notes, note: (text) => notes.push(`${basename(file)}: ${text}`) };
}

const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : value === undefined ? [] : [value]);
const asText = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value : undefined;
const asNumber = (value: unknown): number | undefined => (typeof value === "number" && value > 0 ? value : undefined);

/** Adds what every case needs. A case without graders is left out, with a note. */
function addCase(
  cases: EvalCase[],
  note: Note,
  { name, prompt, ...rest }: Pick<EvalCase, "graders"> & Partial<EvalCase> & { name: string },
): void {
  if (prompt === undefined) note(`the case ${name} has no prompt and is left out`);
  else if (rest.graders.length === 0) note(`the case ${name} has no usable grader and is left out`);
  else cases.push({ files: {}, copies: {}, limits: {}, name, prompt, ...rest });
}

function readAnthropicEvals(file: string, skillFolder: string): EvalSuite {
  const { notes, note } = createNotes(file);
  const cases: EvalCase[] = [];
  for (const [at, one] of asList(readDataFile(file)["evals"]).entries()) {
    if (!isJsonObject(one)) continue;
    const name = asText(one["name"]) ?? String(one["id"] ?? at + 1);
    const checks = [...asList(one["expectations"]), ...asList(one["assertions"]), ...asList(one["expected_behavior"])];
    const graders = checks.flatMap((check) => readAssertion(check, name, note));
    const expected = asText(one["expected_output"]);
    if (expected !== undefined && graders.length === 0) graders.push({ kind: "rubric", text: expected });
    else if (expected !== undefined) note("expected_output is not a grader if there are expectations");
    const copies: Record<string, string> = {};
    for (const path of asList(one["files"]).flatMap((value) => asText(value) ?? [])) {
      const base = existsSync(join(skillFolder, path)) ? skillFolder : dirname(file);
      copies[basename(path)] = resolveCasePath(base, path, file);
    }
    addCase(cases, note, {
      name,
      graders,
      copies,
      ...omitUndefined({ prompt: asText(one["prompt"]) ?? asText(one["query"]) }),
    });
  }
  return { file, format: "", folder: dirname(file), cases, notes };
}

function readAssertion(check: unknown, name: string, note: Note): Grader[] {
  const text = asText(check);
  if (text !== undefined) return [{ kind: "rubric", text }];
  if (!isJsonObject(check)) return [];
  const { type, value } = check;
  const label = omitUndefined({ name: asText(check["name"]) });
  if (type === "contains" && typeof value === "string")
    return [{ ...label, kind: "answer", conditions: { contains: [value] } }];
  if (type === "not_contains" && typeof value === "string")
    return [{ ...label, kind: "answer", conditions: { notContains: [value] } }];
  const rubric = asText(check["text"]) ?? asText(check["description"]);
  if (rubric !== undefined) return [{ ...label, kind: "rubric", text: rubric }];
  note(`an assertion of the case ${name} has the unknown type "${String(type)}" and is left out`);
  return [];
}

function findClaudeCases(skillFolder: string): string | undefined {
  const folder = join(skillFolder, "evals");
  return listClaudeCases(folder).length > 0 ? folder : undefined;
}

function listClaudeCases(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isDirectory())
    .filter((path) => ["case.yaml", "prompt.md"].some((name) => existsSync(join(path, name))))
    .sort();
}

/** Keys of a case that say nothing about its task. */
const IGNORED_CASE_KEYS = new Set(["schema_version", "name", "description", "tags", "graders", "execution", "runs"]);
const USED_EXECUTION_KEYS = new Set(["prompt", "max_turns", "timeout_seconds", "runs", "tags"]);

function readClaudeCases(folder: string): EvalSuite {
  const { notes, note } = createNotes(folder);
  const cases: EvalCase[] = [];
  for (const path of listClaudeCases(folder)) {
    const file = join(path, "case.yaml");
    const data = existsSync(file) ? readDataFile(file) : {};
    const written = existsSync(join(path, "prompt.md"))
      ? readMarkdown(join(path, "prompt.md"))
      : { data: {}, body: "" };
    const execution = isJsonObject(data["execution"]) ? data["execution"] : {};
    const settings: JsonObject = { ...data, ...execution, ...written.data };
    for (const key of Object.keys(settings))
      if (!IGNORED_CASE_KEYS.has(key) && !USED_EXECUTION_KEYS.has(key))
        note(`"${key}" has no counterpart and is ignored`);
    const listed = asList(data["graders"]).filter(isJsonObject);
    const graderFolder = join(path, "graders");
    for (const name of existsSync(graderFolder) ? readdirSync(graderFolder).sort() : []) {
      if (!name.endsWith(".md")) continue;
      const { data: grader, body } = readMarkdown(join(graderFolder, name));
      listed.push({ name: basename(name, ".md"), body: body.trim(), ...grader });
    }
    if (existsSync(join(path, "mocks"))) note("mocks of MCP servers have no counterpart and are ignored");
    const name = asText(data["name"]) ?? basename(path);
    const setup = existsSync(join(path, "scaffold.sh"))
      ? `sh "$SKILLET_EVALS"/${quoteShellArgument(`${basename(path)}/scaffold.sh`)}`
      : undefined;
    addCase(cases, note, {
      ...{ name, graders: listed.flatMap((grader) => readClaudeGrader(grader, note)) },
      limits: omitUndefined({
        seconds: asNumber(settings["timeout_seconds"]),
        iterations: asNumber(settings["max_turns"]),
      }),
      ...omitUndefined({
        prompt: asText(execution["prompt"]) ?? asText(written.body),
        setup,
        trials: asNumber(settings["runs"]),
      }),
    });
  }
  return { file: folder, format: "", folder, cases, notes };
}

function readMarkdown(file: string): { data: JsonObject; body: string } {
  const found = findFrontmatter(readRegularText(file));
  if (!("start" in found) || !found.closed) return { data: {}, body: readRegularText(file) };
  const { text, start, end, bodyStart } = found;
  const { data, findings } = readFullYaml(text.slice(start, end), 1);
  const [first] = findings;
  if (first) throw createEvalFileError(file, first.message);
  return { data, body: text.slice(bodyStart) };
}

function readClaudeGrader(fields: JsonObject, note: Note): Grader[] {
  const { type } = fields;
  const name = asText(fields["name"]);
  const label = omitUndefined({ name });
  const leave = (why: string): Grader[] => {
    note(`the grader ${name ?? String(type)} ${why} and is left out`);
    return [];
  };
  if (fields["weight"] !== undefined) note("weights have no counterpart: every grader must pass");
  const body = asText(fields["body"]);
  switch (type) {
    case "regex": {
      const flags = asText(fields["flags"])?.replace(/[^ims]/g, "") ?? "";
      const pattern = `${flags === "" ? "" : `(?${flags})`}${asText(fields["pattern"]) ?? body ?? ""}`;
      if (!isLinearPattern(pattern))
        return leave("has a pattern with lookarounds or backreferences, which RE2 does not have");
      const conditions = fields["match"] === "not_contains" ? { notMatches: [pattern] } : { matches: [pattern] };
      const { target = "last_message" } = fields;
      if (target === "last_message") return [{ ...label, kind: "answer", conditions }];
      const path = isJsonObject(target) ? asText(target["path"]) : undefined;
      if (path !== undefined) return [{ ...label, kind: "file", path, exists: true, conditions }];
      return leave(`looks at the ${String(target)}, which has no counterpart,`);
    }
    case "tool_used": {
      const tool = String(fields["tool"]);
      if (tool === "Skill") return leave("checks that a skill is chosen, which `--level trigger` measures,");
      const max = typeof fields["max"] === "number" ? fields["max"] : undefined;
      const min = typeof fields["min"] === "number" ? fields["min"] : max === 0 ? 0 : 1;
      const input = asText(fields["input_match"]);
      if (input !== undefined && !isLinearPattern(input)) return leave("has an input_match that RE2 does not have");
      return [{ ...label, kind: "tool_used", tool: resolveEntryTool(tool), min, max, ...omitUndefined({ input }) }];
    }
    case "tool_order": {
      const order = [fields["first"] ?? fields["before"], fields["second"] ?? fields["then"] ?? fields["after"]];
      const tools = (Array.isArray(fields["tools"]) ? fields["tools"] : order).flatMap((tool) => asText(tool) ?? []);
      if (tools.length < 2) return leave("names no order of tools");
      return [{ ...label, kind: "tool_order", tools: tools.map(resolveEntryTool) }];
    }
    case "file_exists": {
      const path = asText(fields["path"]) ?? asText(fields["pattern"]) ?? asText(fields["glob"]);
      if (path === undefined || /[*?[{]/.test(path)) return leave("has a glob, which has no counterpart,");
      return [{ ...label, kind: "file", path, exists: true, conditions: {} }];
    }
    case "llm": {
      const rubric = asText(fields["rubric"]) ?? asText(fields["criteria"]) ?? asText(fields["prompt"]) ?? body;
      return rubric === undefined ? leave("has no rubric") : [{ ...label, kind: "rubric", text: rubric }];
    }
    default:
      return leave(`has the type "${String(type)}", which has no counterpart,`);
  }
}

function isLinearPattern(pattern: string): boolean {
  try {
    compileLinearPattern(pattern);
    return pattern !== "";
  } catch {
    return false;
  }
}

const SKILLGRADE_TASK_KEYS = new Set([
  "name",
  "instruction",
  "workspace",
  "graders",
  "trials",
  "timeout",
  "expected",
  "metadata",
]);
const SKILLGRADE_DEFAULT_KEYS = new Set(["trials", "timeout", "threshold"]);
const DEFAULT_SCORE = 0.8;

function readSkillgradeTasks(file: string): EvalSuite {
  const { notes, note } = createNotes(file);
  const folder = dirname(file);
  const data = readDataFile(file);
  const defaults = isJsonObject(data["defaults"]) ? data["defaults"] : {};
  for (const key of Object.keys(defaults))
    if (!SKILLGRADE_DEFAULT_KEYS.has(key)) note(`defaults.${key} has no counterpart and is ignored`);
  const cases: EvalCase[] = [];
  for (const [at, task] of asList(data["tasks"]).entries()) {
    if (!isJsonObject(task)) continue;
    if (task["$import"] !== undefined) {
      note("$import has no counterpart: its tasks are left out");
      continue;
    }
    const name = asText(task["name"]) ?? String(at + 1);
    for (const key of Object.keys(task))
      if (!SKILLGRADE_TASK_KEYS.has(key)) note(`"${key}" of a task has no counterpart and is ignored`);
    const copies: Record<string, string> = {};
    for (const one of asList(task["workspace"]).filter(isJsonObject)) {
      const [src, dest] = [asText(one["src"]), asText(one["dest"])];
      if (src === undefined || dest === undefined || isAbsolute(dest))
        note(`a file of the case ${name} is outside the workspace and is left out`);
      else copies[dest] = resolveCasePath(folder, src, file);
      if (one["chmod"] !== undefined) note("chmod has no counterpart: files keep their mode");
    }
    const score = asNumber(defaults["threshold"]) ?? DEFAULT_SCORE;
    const graders = asList(task["graders"])
      .filter(isJsonObject)
      .flatMap((grader) => readSkillgradeGrader(grader, { task, name, folder, score, note }));
    addCase(cases, note, {
      ...{ name, graders, copies },
      limits: omitUndefined({ seconds: asNumber(task["timeout"]) ?? asNumber(defaults["timeout"]) }),
      ...omitUndefined({
        prompt: readTextOrFile(folder, task["instruction"]),
        trials: asNumber(task["trials"]) ?? asNumber(defaults["trials"]),
      }),
    });
  }
  return { file, format: "", folder, cases, notes };
}

interface SkillgradeContext {
  task: JsonObject;
  name: string;
  folder: string;
  /** The score from which on a grader passes. */
  score: number;
  note: Note;
}

function readSkillgradeGrader(grader: JsonObject, { task, name, folder, score, note }: SkillgradeContext): Grader[] {
  if (grader["weight"] !== undefined)
    note(`weights have no counterpart: every grader must pass, with a score of at least ${score}`);
  if (grader["setup"] !== undefined) note("setup of a grader has no counterpart and is ignored");
  if (grader["type"] === "llm_rubric") {
    const text = readTextOrFile(folder, grader["rubric"]);
    return text === undefined ? [] : [{ kind: "rubric", text }];
  }
  const run = asText(grader["run"]);
  if (grader["type"] !== "deterministic" || run === undefined) {
    note(`a grader of the case ${name} has the unknown type "${String(grader["type"])}" and is left out`);
    return [];
  }
  // The program stages scripts of graders into the workspace, and starts them there.
  const scripts = run
    .split(/\s+/)
    .filter((word) => /^[\w./-]+$/.test(word) && !isAbsolute(word) && existsSync(join(folder, word)));
  const staged = scripts.map(
    (path) =>
      `mkdir -p ${quoteShellArgument(dirname(path))} && cp -R "$SKILLET_EVALS"/${quoteShellArgument(path)} ${quoteShellArgument(path)}`,
  );
  const { expected, metadata } = task;
  const input = JSON.stringify({ task: name, trial: 1, ...omitUndefined({ expected, metadata }) });
  const schema: JsonObject = {
    type: "object",
    required: ["score"],
    properties: { score: { type: "number", minimum: score } },
  };
  const lines = [`export SKILLGRADE_INPUT=${quoteShellArgument(input)}`, ...staged, readTextOrFile(folder, run) ?? run];
  return [{ kind: "command", run: lines.join("\n"), exit: 0, conditions: { schema } }];
}

/** A text, or the content of the file that it names. */
function readTextOrFile(folder: string, value: unknown): string | undefined {
  const text = asText(value);
  if (text === undefined || text.length > 500 || /[\n\s]/.test(text.trim()) || isAbsolute(text)) return text;
  const file = join(folder, text);
  return existsSync(file) && statSync(file).isFile() ? readRegularText(file) : text;
}
