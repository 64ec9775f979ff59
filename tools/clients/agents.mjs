import { chmodSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { openHome, skillet, skilletCommand, writeFile } from "./home.mjs";
import { modelServer } from "./models/server.mjs";
import { runProgram } from "./process.mjs";

/** The answer, which only the instructions of the skill contain. */
const MARK = "marigold";
const LISTED = "Adds up the lines of ledgers.";
const SKILL = `---
name: sums
description: ${LISTED} Use when the user asks what a ledger adds up to.
triggers:
  keywords: [ledger]
---

# Sums

The answer to each question about a ledger is: ${MARK}.
`;
const TASKS = `version: 1
trials: 6
cases:
  - name: total
    prompt: What does the ledger in sales.csv add up to?
    files: { sales.csv: "1\\n2\\n" }
    graders:
      - answer: { contains: ${MARK} }
`;
const LETTERS = "---\nname: letters\ndescription: Writes letters to customers.\n---\n\nWrite a letter.\n";

/** A prompt for which the model uses the skill, one for which it misses the skill, and an unrelated one. */
const PROMPTS = [
  "What does the ledger in sales.csv add up to?",
  "Guess what the ledger of March adds up to.",
  "Good morning.",
];

/** The tool call that reads a skill, by client. */
const SKILL_CALLS = {
  Skill: { skill: "sums" },
  activate_skill: { name: "sums" },
  exec_command: { cmd: "cat ~/.codex/skills/sums/SKILL.md" },
  skill: { name: "sums" },
};

/** A model that reads the skill if it is listed, and knows the answer only then. */
function answerBySkill() {
  const problems = [];
  return {
    problems,
    next({ tools, results, body }) {
      const text = JSON.stringify(body);
      const isGuess = text.includes(PROMPTS[1]) || text.includes(PROMPTS[2]);
      if (!text.includes(LISTED) || isGuess) return { text: "It is 42." };
      if (results.length > 0)
        return { text: text.includes(MARK) ? `The total is ${MARK}.` : "The skill was not shown." };
      const tool = tools.find(({ name }) => name in SKILL_CALLS);
      // Side requests, such as one for a title.
      return tool ? { call: { id: "call_1", tool, input: SKILL_CALLS[tool.name] } } : { text: "A title" };
    },
  };
}

/** Runs a client on graded tasks as an arm of `skillet eval --agent`, with and without the skill. */
export async function measureAgent(client) {
  if (!client.agent) return { problems: [] };
  const home = openHome(client.name, {
    "work/skills/sums/SKILL.md": SKILL,
    "work/skills/sums/evals/tasks.yaml": TASKS,
  });
  const conversation = answerBySkill();
  const model = await modelServer(client.protocol, conversation);
  try {
    const { command, env, settings } = client.agent(model.url);
    if (settings) command[0] = wrapProgram(join(home.path, "bin", client.name), command[0], settings);
    const proxies = { HTTP_PROXY: model.url, HTTPS_PROXY: model.url, NO_PROXY: "127.0.0.1,localhost" };
    const { printed, problem } = await runProgram(
      skilletCommand("eval", "skills/sums", "--level", "task", "--trust", "--json", "--agent", quote(command)),
      { cwd: home.workspace, env: { ...home.env, ...proxies, ...env }, seconds: 600 },
    );
    const report = problem === undefined ? JSON.parse(printed.slice(printed.indexOf("{\n"))) : undefined;
    const [skill] = report?.skills ?? [];
    const passed = Object.fromEntries(skill?.rates.map(({ name, successes }) => [name, successes]) ?? []);
    const problems = [
      ...conversation.problems,
      problem,
      passed.none === 0 && passed.skill === 6 ? undefined : `the arms passed ${JSON.stringify(passed)}`,
      skill?.comparisons[0]?.verdict === "helps" ? undefined : "the verdict is not `helps`",
      report?.spent.inputTokens > 0 ? undefined : "its tokens were not read",
    ];
    return close(home, { problems, passed, spent: report?.spent, printed });
  } finally {
    model.close();
  }
}

/** Runs a client that uses a skill, misses it and does not need it, and checks the report of `skillet mine` on its transcripts. */
export async function measureTranscripts(client) {
  if (!client.transcripts) return { problems: [] };
  const home = openHome(client.name, {
    ".skillet/skills/sums/SKILL.md": SKILL,
    ".skillet/skills/letters/SKILL.md": LETTERS,
  });
  skillet(home, "export", "--to", client.name);
  const conversation = answerBySkill();
  const model = await modelServer(client.protocol, conversation);
  const problems = conversation.problems;
  try {
    for (const prompt of PROMPTS) {
      const { command: words, env } = client.agent(model.url);
      const command = words.map((word) => word.replace("{prompt}", prompt));
      const proxies = { HTTP_PROXY: model.url, HTTPS_PROXY: model.url, NO_PROXY: "127.0.0.1,localhost" };
      const { problem } = await runProgram(command, { cwd: home.workspace, env: { ...home.env, ...proxies, ...env } });
      if (problem !== undefined) problems.push(`${prompt}: ${problem}`);
    }
    const mined = JSON.parse(skillet(home, "mine", "sums", "letters", "--client", client.name, "--json"));
    const expected = [
      { skill: "letters", listed: 3, listedByName: 0, used: 0, missed: [] },
      { skill: "sums", listed: 3, listedByName: 0, used: 1, missed: [PROMPTS[1]] },
    ];
    if (JSON.stringify(mined.skills) !== JSON.stringify(expected))
      problems.push(`skillet mine reports ${JSON.stringify(mined)}`);
    const files = readTranscripts(join(home.path, client.transcripts), home.path);
    return close(home, { problems, mined, files });
  } finally {
    model.close();
  }
}

/** Returns the transcripts in chronological order, reduced, and without the folder of this run. */
function readTranscripts(folder, home) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".jsonl"))
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8").replaceAll(home, "/home/user"))
    .sort((a, b) => firstTime(a).localeCompare(firstTime(b)))
    .map(reduceTranscript);
}

/** Removes the lines with the client's built-in prompts, and all skills that are not part of this test from its lists. */
function reduceTranscript(text) {
  const lines = text.split("\n").filter((line) => line !== "" && isConversation(JSON.parse(line)));
  return lines.map((line) => `${JSON.stringify(mapTexts(JSON.parse(line), reduceText))}\n`).join("");
}

const isConversation = ({ type, attachment, payload }) =>
  ["user", "assistant"].includes(type) ||
  attachment?.type === "skill_listing" ||
  (type === "response_item" && payload.type !== "reasoning");

const MAX_TEXT = 300;

function reduceText(text) {
  if (text.length <= MAX_TEXT) return text;
  const lines = text.split("\n");
  return lines.filter((line) => /^- (?:letters|sums)\b|^<\/?\w+>$|^## Skills/.test(line)).join("\n");
}

function mapTexts(value, map) {
  if (typeof value === "string") return map(value);
  if (Array.isArray(value)) return value.map((one) => mapTexts(one, map));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, mapTexts(one, map)]));
}

const firstTime = (text) => /"timestamp":"([^"]+)"/.exec(text)?.[1] ?? "";

function close(home, { problems: found, ...measured }) {
  const problems = found.filter((problem) => problem !== undefined);
  if (problems.length > 0) return { ...measured, problems, folder: home.path };
  rmSync(home.path, { recursive: true, force: true });
  return { ...measured, problems };
}

/** Writes a program that adds settings to the home of its trial and then starts the agent. */
function wrapProgram(file, program, settings) {
  const lines = Object.entries(settings).map(
    ([path, text]) => `mkdir -p ~/${dirname(path)} && printf %s '${text}' > ~/${path}`,
  );
  writeFile(file, ["#!/bin/sh", ...lines, `exec '${program}' "$@"`, ""].join("\n"));
  chmodSync(file, 0o755);
  return file;
}

/** A command line as `--agent` splits it: quotes group words. */
function quote(command) {
  return command.map((word) => (/[\s"]/.test(word) ? `'${word}'` : word)).join(" ");
}
