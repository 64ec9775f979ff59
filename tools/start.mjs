// `npm start`: installs missing programs, lists the skills, runs one of them, and prints the next commands. Arguments after
// `npm start --` are passed to the program instead.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { styleText } from "node:util";
import { setUp, TO_RUN } from "./set-up.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const WIDTH = 80;
const SHOWN = 12;
/** The exit code of a refused run: here, because the machine has no sandbox. */
const REFUSED = 3;

const USED = `
That was a complete run: the skill was found and checked, and its script ran in
a sandbox without network access that can read only this folder.
\`runbook\` is not a language model: it runs the commands written in a skill.
To use a language model, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or run Ollama.`;

const NOT_USED = `
This machine has no sandbox for the code of skills, so no code was run.
The commands below need no sandbox. To see what is missing, run
\`npx skillet doctor --sandbox\`.`;

/** The next commands. `runs` is true if the command runs code. */
const NEXT = [
  { command: 'chat "is my disk full?"', what: "let an agent find and use the skill", runs: true },
  { command: 'explain "is my disk full?"', what: "show what a model sees, and why" },
  { command: "connect", what: "use your skills in other clients" },
  { command: "new my-skill", what: "create your own skill" },
  { command: "doctor", what: "show the skill folders and the models" },
];

const given = process.argv.slice(2);
process.exitCode = given.length > 0 ? skillet("inherit", ...given).status : await tour();

async function tour() {
  await setUp(TO_RUN);
  const list = skillet(["ignore", "pipe", "inherit"], "list", "--json");
  if (list.stdout === "") return list.status; // The program printed the reason.
  const { skills } = JSON.parse(list.stdout);
  heading(`${skills.length} skills found`, "list");
  await printSkills(skills);
  console.log("");
  const use = ["run", "host-report", "--model", "runbook"];
  heading("Running one of them", use.join(" "));
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

/** Returns the first sentence, or the words of it that fit. */
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
