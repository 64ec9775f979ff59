import { EXIT } from "../../src/cli/command-definition.ts";
import { ERROR_EXIT_CODES } from "../../src/cli/main.ts";
import { COMMAND_CODES, MCP_CODES, PROMPT_CODES } from "../../src/errors/error-codes.ts";
import { FINDING_CODES } from "../../src/errors/finding-codes.ts";
import type { CodeRow } from "../../src/errors/problem.ts";
import { ARCHIVE_ERROR_CODES, LOCK_CODES, SOURCE_CODES } from "../../src/errors/remote-codes.ts";
import { RUN_CODES, TOOL_CODES, USE_CODES } from "../../src/errors/run-codes.ts";
import { CAPABILITY_CODES, SCRIPT_CODES } from "../../src/errors/sandbox-codes.ts";
import { PROFILES } from "../../src/skill/diagnostics.ts";

interface Section {
  title: string;
  about: string;
  codes: Readonly<Record<string, CodeRow>>;
}

const SECTIONS: readonly Section[] = [
  {
    title: "Addresses and sources",
    about:
      "From `add`, `update`, `outdated` and `addSkills`: what names a source, and what brings it here. [Skills from elsewhere](supply.md).",
    codes: SOURCE_CODES,
  },
  {
    title: "Archives and their entries",
    about:
      "From the same. A source that breaks one of these rules is not taken at all, and nothing of it is on the disk.",
    codes: ARCHIVE_ERROR_CODES,
  },
  {
    title: "Locks, signatures and trust",
    about:
      "From the same, and from `verify`, `sign`, `signers`, `trust`, `remove` and `install`. [Signatures](signatures.md).",
    codes: LOCK_CODES,
  },
  {
    title: "Uses",
    about:
      "Why a skill is not loaded, used or run: `findDenials(skill, host)`, `refusals` of a run or a script, results of tools that take a skill. A run or script that is refused for one of these ends its command with 3. [Use](use.md).",
    codes: USE_CODES,
  },
  {
    title: "Runs, models and limits",
    about:
      "A run always resolves: these are the codes of its `error`, its `warnings`, and of how it ended where it is the result of a tool. `createRunStore`, `resumeRun`, `runs`, `resume`, `approve` and `cancel` throw those about runs. [Runs](runs.md), [models](models.md).",
    codes: RUN_CODES,
  },
  {
    title: "Scripts, sandboxes and packages",
    about:
      "From `script`, `run_skill_script`, `packages` and everything that runs code of a skill. [Scripts](scripts.md), [sandboxes](sandbox.md), [packages](packages.md).",
    codes: SCRIPT_CODES,
  },
  {
    title: "Tools and toolsets",
    about:
      "A session never throws: what `load` or a tool refuses is a result with `isError`, one of these codes, and what to do in its `content`. `skill.read` throws those that begin with `resource-`. A tool of a skill or of your program may have codes of its own. [Tools](tools.md), [toolsets](toolsets.md).",
    codes: TOOL_CODES,
  },
  {
    title: "Capabilities and providers",
    about:
      "What `skillet-sb` prints in a sandbox, what the audit log has as its outcome, and what `capability` and `auth` say. [In which order calls are checked](capabilities.md#what-has-to-be-true), [what a provider may answer](providers.md#codes).",
    codes: CAPABILITY_CODES,
  },
  {
    title: "MCP",
    about:
      'Servers whose tools runs have, and `serve` and `connect`. Clients of `skillet serve` find the code of a result in `_meta["skillet/code"]`. [MCP](mcp.md).',
    codes: MCP_CODES,
  },
  {
    title: "Prompts, copies and Claude",
    about:
      "Constructors that a programmer calls throw at once: a `PromptValidationError`, a `SkillRefError`, a `SkillInstallationError`, which are all `SkillError`s. [Prompts](prompts.md), [copies](export.md), [Claude](claude.md).",
    codes: PROMPT_CODES,
  },
  {
    title: "The command line",
    about: "Of every command, and of files that several parts write.",
    codes: COMMAND_CODES,
  },
];

const WEIGHTS: Record<string, string> = { e: "error", w: "warning", i: "hint", "-": "" };

export function errorPage(): string {
  return `# Codes

This page is made from the tables of codes: every code that skillet gives, what it means, and what to do. The message beside it says which
file, name or limit it is about, and its \`fix\` is more exact than what stands here. \`errors.md#CODE\` leads to a code.

What is found on disk is never thrown: it is a finding. What a caller asks for and cannot have is a \`SkillError\` with a \`code\` to branch on, a
\`message\` to read and a \`fix\` to try; \`ErrorCode\` is the type of all codes. What a model asks for and cannot have is a result with a code. With \`--json\`, a command
that fails prints \`{ "error": { code, message, fix } }\`; without, it prints the message and the fix. What the scanner says has
[ids of its own](scan.md).

${[FINDINGS, ...SECTIONS.map(({ title }) => title), EXIT_CODES].map((title) => `- [${title}](#${anchorOf(title)})`).join("\n")}

## ${FINDINGS}

Discovery, \`check\` and \`doctor\` all speak these; only the weight differs by profile. In the profile \`load\`, an error means exactly that the
file is not loaded. Where one stops something else (\`skill.body\`, \`catalog.get\`, an export), it is thrown, or is the code of a result.

${table(["code", "what it means", "what to do", ...PROFILES.map((profile) => `\`${profile}\``)], findingRows())}

${SECTIONS.map(sectionOf).join("\n\n")}

## ${EXIT_CODES}

An error that ends a command ends it with ${EXIT.findings}, and these with another code:

${table(["exit code", "codes"], exitRows())}
`;
}

const FINDINGS = "Findings";
const EXIT_CODES = "Exit codes";

function sectionOf({ title, about, codes }: Section): string {
  const rows = Object.entries(codes).map(([code, { means, fix }]) => [anchored(code), means, fix]);
  return `## ${title}\n\n${about}\n\n${table(["code", "what it means", "what to do"], rows)}`;
}

function findingRows(): string[][] {
  return Object.entries(FINDING_CODES).map(([code, { weigh, means, fix }]) => [
    ...[anchored(code), means, fix],
    ...[...weigh].map((letter) => WEIGHTS[letter] ?? ""),
  ]);
}

function exitRows(): string[][] {
  const thrown = (exit: number) =>
    linked(Object.keys(ERROR_EXIT_CODES).filter((code) => ERROR_EXIT_CODES[code] === exit));
  const limits = ["max-steps", "timeout", "budget", "script-timeout", "script-output", "script-memory", "tool-timeout"];
  return [
    [`${EXIT.usage}`, thrown(EXIT.usage)],
    [
      `${EXIT.refused}`,
      `${thrown(EXIT.refused)}, ${linked(["another-server", "keys-at-stake"])}; what refuses a run or a script before it begins ([uses](#uses)), or a copy: ${linked(["edited", "in-the-way", "last-copy"])}`,
    ],
    [`${EXIT.limit}`, `${linked(limits)}: what there was until then is printed`],
    [`${EXIT.waiting}`, linked(["waiting"])],
    [`${EXIT.interrupted}`, `${thrown(EXIT.interrupted)}, ${linked(["aborted", "script-abort"])}`],
  ];
}

function linked(codes: readonly string[]): string {
  return codes.map((code) => `[\`${code}\`](#${code})`).join(", ");
}

function anchored(code: string): string {
  return `<a id="${code}"></a>\`${code}\``;
}

/** As GitHub makes it of a heading. */
function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^a-z -]/g, "")
    .replaceAll(" ", "-");
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), `|${head.map(() => "---|").join("")}`, ...rows.map(line)].join("\n");
}
