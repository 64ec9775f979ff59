// `npm start`: installs what the machine lacks, shows the skills that are here, uses one of them, and says what to do next. Whatever
// follows `npm start --` goes to the program instead.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { styleText } from "node:util";
import { setUp, TO_RUN } from "./set-up.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const WIDTH = 80;
const SHOWN = 12;
/** What the program ends with when it refuses: here, because nothing keeps code apart. */
const REFUSED = 3;

const USED = `
That was the whole path: the skill was found and checked, its script ran in a
sandbox that has no network and sees nothing of yours but this folder.
\`runbook\` is no language model: it runs the commands that a skill spells out.
With ANTHROPIC_API_KEY, OPENAI_API_KEY or Ollama, a language model does it.`;

const NOT_USED = `
Nothing on this machine keeps the code of skills apart, so no code is run. What
is below works all the same; \`npx skillet doctor --sandbox\` says what is missing.`;

/** `runs`: whether it runs code. */
const NEXT = [
  { command: 'chat "is my disk full?"', what: "an agent that finds the skill itself", runs: true },
  { command: 'explain "is my disk full?"', what: "what a model is told then, and why" },
  { command: "connect", what: "your skills in Claude Code, Codex, …" },
  { command: "new my-skill", what: "a skill of your own, to begin with" },
  { command: "doctor", what: "where skills and models are looked for" },
];

const given = process.argv.slice(2);
process.exitCode = given.length > 0 ? skillet("inherit", ...given).status : await tour();

async function tour() {
  await setUp(TO_RUN);
  const list = skillet(["ignore", "pipe", "inherit"], "list", "--json");
  if (list.stdout === "") return list.status; // It has said why.
  const { skills } = JSON.parse(list.stdout);
  heading(`${skills.length} skills found`, "list");
  await printSkills(skills);
  console.log("");
  const use = ["run", "host-report", "--model", "runbook"];
  heading("One of them, used", use.join(" "));
  const { status } = skillet(["ignore", "inherit", "inherit"], ...use);
  if (status === 0) console.log(USED);
  if (status === REFUSED) console.log(NOT_USED);
  console.log(`\n${styleText("bold", "Next")}  in this folder; everywhere after \`npm install --global .\``);
  for (const { command, what, runs } of NEXT)
    if (status === 0 || !runs) console.log(`  ${styleText("cyan", `npx skillet ${command}`.padEnd(38))}  ${what}`);
  return status === REFUSED ? 0 : status;
}

function heading(title, command) {
  console.log(`${styleText("bold", title)}  ${styleText("cyan", `npx skillet ${command}`)}`);
}

async function printSkills(skills) {
  const { escapeLine } = await import("../build/util/untrusted-text.js");
  const shown = skills.slice(0, SHOWN);
  const widest = Math.max(0, ...shown.map(({ name }) => name.length));
  for (const { name, description } of shown)
    console.log(
      `  ${styleText("bold", escapeLine(name).padEnd(widest))}  ${cut(escapeLine(description), WIDTH - widest - 4)}`,
    );
  if (skills.length > SHOWN) console.log(`  … and ${skills.length - SHOWN} more`);
}

/** The first sentence, or as many words of it as fit. */
function cut(text, width) {
  const [sentence] = /^.*?(?:[.!?](?= |$)|$)/.exec(text);
  return sentence.length <= width ? sentence : `${sentence.slice(0, width - 1).replace(/\s\S*$/, "")} …`;
}

function skillet(stdio, ...args) {
  const program = join(root, "bin", "skillet.cjs");
  const { status, stdout } = spawnSync(process.execPath, [program, ...args], {
    stdio,
    encoding: "utf8",
    maxBuffer: Number.POSITIVE_INFINITY,
  });
  return { status: status ?? 1, stdout };
}
