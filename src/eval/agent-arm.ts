import { accessSync, chmodSync, constants, mkdirSync, statSync, writeFileSync } from "node:fs";
import { basename, delimiter, dirname, isAbsolute, join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import { runProgram } from "../sandbox/process.ts";
import { getClientProgram } from "../skill/clients.ts";
import type { Skill } from "../skill/skill.ts";
import { CLIENT_IDS, getSkillClient } from "../skill/source/locations.ts";
import { copySkill, withRunCopy } from "../skill/source/skill-copy.ts";
import type { Usage } from "../skill/tool.ts";
import { createFolder } from "../util/file-access.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../util/objects.ts";
import { truncateLine } from "../util/text.ts";
import type { TrialOutcome } from "./graders.ts";
import { type EvalArm, hashText } from "./trials.ts";

/** The variables of the user that an agent gets: how to reach its model. No other variable is passed on. */
const AGENT_VARIABLES = [
  ...["PATH", "LANG", "LC_ALL", "TERM", "TZ"],
  ...["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"],
  ...["OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY"],
  ...["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"],
  ...[
    "COPILOT_GITHUB_TOKEN",
    "COPILOT_PROVIDER_BASE_URL",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_MODEL",
    "COPILOT_OFFLINE",
  ],
  ...["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"],
  ...["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"],
];

const DEFAULT_SECONDS = 900;

export interface AgentArmOptions {
  /** The command line: `claude -p {prompt}`. Without `{prompt}`, the prompt is the last argument. */
  command: string;
  /** The skill in the agent's folder. Defaults to none. */
  skill?: Skill;
  /** The user's environment. */
  env: Readonly<Record<string, string | undefined>>;
}

/**
 * Creates an arm that is another agent's command line. Each trial has its own home, with nothing of the user's except the
 * variables that lead to a model, and the skill in the agent's folder. The agent itself is not sandboxed.
 */
export async function createAgentArm(name: string, { command, skill, env }: AgentArmOptions): Promise<EvalArm> {
  const [program = "", ...args] = splitCommand(command);
  const path = findAgentProgram(program, env["PATH"]);
  const copy = skill && (await withRunCopy(skill, await copySkill(skill))).copy;
  return {
    name,
    digest: hashText(JSON.stringify([command, copy?.digest ?? null])),
    async attempt({ case: { prompt, context, limits }, workspace, signal, onSpent }) {
      const home = join(dirname(workspace), "home");
      mkdirSync(home, { mode: 0o700 });
      const folder = join(home, getAgentFolder(program));
      createFolder(folder);
      for (const [file, { bytes, executable }] of skill && copy ? copy.files : []) {
        const target = join(folder, skill?.name ?? "", file);
        createFolder(dirname(target));
        writeFileSync(target, bytes);
        if (executable) chmodSync(target, 0o755);
      }
      // A case belongs to a skill: its prompt is never an option of the agent, which may lift its limits.
      const text = (context === undefined ? prompt : `${prompt}\n\n${context}`).replace(/^-/, " -");
      const isPlaced = args.some((arg) => arg.includes("{prompt}"));
      const argv = args.map((arg) => arg.replaceAll("{prompt}", () => text));
      const clock = AbortSignal.timeout((limits.seconds ?? DEFAULT_SECONDS) * 1000);
      const start = performance.now();
      const variables = Object.fromEntries(AGENT_VARIABLES.map((variable) => [variable, env[variable]]));
      try {
        const { code, stdout, tail } = await runProgram(path, isPlaced ? argv : [...argv, text], {
          env: { ...(omitUndefined(variables) as Record<string, string>), HOME: home },
          folder: workspace,
          signal: AbortSignal.any([signal, clock]),
        });
        if (code !== 0 && stdout.trim() === "")
          throw new SkillError("agent-failed", {
            message: `${program} ended with ${code}: ${truncateLine(tail, 300)}`,
            fix: "run the command by hand; its keys must be in the environment",
          });
        const { answer, usage, dollars } = readAgentOutput(stdout);
        onSpent({ usage, ...omitUndefined({ dollars }) });
        return createOutcome({
          answer,
          usage,
          dollars,
          start,
          stop: code === 0 ? "answer" : "failed",
          problem: code === 0 ? undefined : `it ended with ${code}`,
        });
      } catch (error) {
        if (!clock.aborted || signal.aborted) throw error;
        return createOutcome({
          answer: "",
          usage: NO_TOKENS,
          dollars: undefined,
          start,
          stop: "timeout",
          problem: "its time was up",
        });
      }
    },
  };
}

const NO_TOKENS: Usage = { inputTokens: 0, outputTokens: 0, cachedTokens: 0 };

interface OutcomeParts extends Pick<TrialOutcome, "answer" | "usage" | "stop"> {
  dollars: number | undefined;
  problem: string | undefined;
  start: number;
}

/** Returns the folder of skills of an agent, by the name of its program. Unknown agents get the shared folder. */
function getAgentFolder(program: string): string {
  const id = CLIENT_IDS.find((client) => getClientProgram(client) === basename(program)) ?? "agents";
  return getSkillClient(id).user[0]?.path ?? "";
}

/** The calls of another agent are not known: graders of tools do not pass. */
function createOutcome({ answer, usage, dollars, start, stop, problem }: OutcomeParts): TrialOutcome {
  return {
    answer,
    usage,
    stop,
    calls: [],
    ms: Math.round(performance.now() - start),
    ...omitUndefined({ dollars, problem }),
  };
}

export interface AgentOutput {
  answer: string;
  usage: Usage;
  dollars?: number;
}

/** Reads the output of an agent: one of the JSON forms of the table, or text. */
export function readAgentOutput(stdout: string): AgentOutput {
  const values = readJsonValues(stdout);
  for (const read of AGENT_OUTPUTS) {
    const output = read(values);
    if (output) return output;
  }
  return { answer: stdout.trim(), usage: NO_TOKENS };
}

/** Reads a JSON document, or one on each line. A document that is a list counts as its items. */
function readJsonValues(text: string): JsonObject[] {
  const parse = (part: string): unknown[] => {
    try {
      return [JSON.parse(part) as unknown].flat();
    } catch {
      return []; // It is text.
    }
  };
  const whole = parse(text);
  return (whole.length > 0 ? whole : text.split("\n").flatMap(parse)).filter(isJsonObject);
}

/** THE table of outputs: each reader returns undefined if the values are not of its agent. */
const AGENT_OUTPUTS: readonly ((values: readonly JsonObject[]) => AgentOutput | undefined)[] = [
  // `claude -p --output-format json` and `stream-json`.
  (values) => {
    const result = values.findLast((one) => typeof one["result"] === "string");
    if (!result) return undefined;
    const { result: answer, usage, total_cost_usd: cost } = result;
    const cachedTokens = readCount(usage, "cache_read_input_tokens");
    const inputTokens =
      readCount(usage, "input_tokens") + readCount(usage, "cache_creation_input_tokens") + cachedTokens;
    return {
      answer: String(answer),
      usage: { inputTokens, outputTokens: readCount(usage, "output_tokens"), cachedTokens },
      ...(typeof cost === "number" ? { dollars: cost } : {}),
    };
  },
  // `codex exec --json`.
  (values) => {
    const turns = values.filter(({ type }) => type === "turn.completed");
    if (turns.length === 0) return undefined;
    const messages = values.map(({ item }) => readObject(item)).filter(({ type }) => type === "agent_message");
    const sum = (key: string) => turns.reduce((total, { usage }) => total + readCount(usage, key), 0);
    return {
      answer: String(messages.at(-1)?.["text"] ?? ""),
      usage: {
        inputTokens: sum("input_tokens"),
        outputTokens: sum("output_tokens"),
        cachedTokens: sum("cached_input_tokens"),
      },
    };
  },
  // `gemini --output-format json`.
  ([value]) => {
    if (typeof value?.["response"] !== "string" || !isJsonObject(value["stats"])) return undefined;
    const models = Object.values(readObject(value["stats"]["models"]));
    const sum = (key: string) =>
      models.reduce<number>((total, one) => total + readCount(readObject(one)["tokens"], key), 0);
    return {
      answer: value["response"],
      usage: {
        inputTokens: sum("prompt"),
        outputTokens: sum("candidates") + sum("thoughts"),
        cachedTokens: sum("cached"),
      },
    };
  },
];

function readObject(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

function readCount(counts: unknown, key: string): number {
  const count = readObject(counts)[key];
  return typeof count === "number" ? count : 0;
}

/** Splits a command line into words. Quotes group words; there is no shell. */
export function splitCommand(command: string): string[] {
  return Array.from(
    command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g),
    ([, double, single, plain]) => double ?? single ?? plain ?? "",
  );
}

/** Finds the program that the user named: at its path, or in the absolute folders of the user's PATH. */
function findAgentProgram(program: string, path = ""): string {
  if (isAbsolute(program) && isExecutableFile(program)) return program;
  const folders = program.includes("/") ? [] : path.split(delimiter).filter((folder) => isAbsolute(folder));
  const found = folders.map((folder) => join(folder, program)).find(isExecutableFile);
  if (found !== undefined) return found;
  throw new SkillError("agent-failed", {
    message: `The program "${program}" of --agent was not found`,
    fix: "install it, or use its absolute path",
  });
}

function isExecutableFile(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
