import { EXIT } from "../../src/cli/command-definition.ts";
import { ERROR_EXIT_CODES } from "../../src/cli/main.ts";
import { COMMAND_CODES, MCP_CODES, PROMPT_CODES } from "../../src/errors/error-codes.ts";
import { FINDING_CODES, type FindingSeverity } from "../../src/errors/finding-codes.ts";
import type { CodeRow } from "../../src/errors/problem.ts";
import { ARCHIVE_ERROR_CODES, LOCK_CODES, SOURCE_CODES } from "../../src/errors/remote-codes.ts";
import { RENAMED_NAMES, type RenamedKind } from "../../src/errors/renamed-names.ts";
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
      "From `add`, `update`, `outdated` and `addSkills`: addresses of sources, downloads and repositories. [Remote skills](supply.md).",
    codes: SOURCE_CODES,
  },
  {
    title: "Archives and their entries",
    about:
      "From the same commands. A source that violates one of these rules is rejected as a whole, and nothing is written to disk.",
    codes: ARCHIVE_ERROR_CODES,
  },
  {
    title: "Locks, signatures and trust",
    about:
      "From the same commands, and from `verify`, `sign`, `signers`, `trust`, `remove` and `export`. [Signatures](signatures.md).",
    codes: LOCK_CODES,
  },
  {
    title: "Uses",
    about:
      "Reasons why a skill is not loaded, used or run: from `findDenials(skill, host)`, `refusals` of a run or a script, and results of tools that take a skill. A command whose run or script is refused exits with 3. [Use](use.md).",
    codes: USE_CODES,
  },
  {
    title: "Runs, models and limits",
    about:
      "A run always resolves. These are the codes of its `error` and its `warnings`, and of its outcome where it is the result of a tool. `createRunStore`, `resumeRun`, `runs`, `resume`, `approve` and `cancel` throw the codes about runs. [Runs](runs.md), [models](models.md).",
    codes: RUN_CODES,
  },
  {
    title: "Scripts, sandboxes and packages",
    about:
      "From `script`, `run_skill_script`, `packages` and every other way to run code of a skill. [Scripts](scripts.md), [sandboxes](sandbox.md), [packages](packages.md).",
    codes: SCRIPT_CODES,
  },
  {
    title: "Tools and toolsets",
    about:
      "A session never throws: a refused `load` or tool call returns a result with `isError`, one of these codes, and the fix in its `content`. `skill.read` throws the codes that start with `resource-`. Tools of a skill or of your program can have their own codes. [Tools](tools.md), [toolsets](toolsets.md).",
    codes: TOOL_CODES,
  },
  {
    title: "Capabilities and providers",
    about:
      "Printed by `skillet-sb` in a sandbox, recorded as the outcome in the audit log, and printed by `capability` and `auth`. [Order of the checks](capabilities.md#what-has-to-be-true), [answers of a provider](providers.md#codes).",
    codes: CAPABILITY_CODES,
  },
  {
    title: "MCP",
    about:
      'From MCP servers that provide tools to runs, and from `serve` and `connect`. Clients of `skillet serve` find the code of a result in `_meta["skillet/code"]`. [MCP](mcp.md).',
    codes: MCP_CODES,
  },
  {
    title: "Prompts, copies and Claude",
    about:
      "Constructors throw immediately: a `PromptValidationError`, a `SkillRefError` or a `SkillInstallationError`, which are all `SkillError`s. [Prompts](prompts.md), [copies](export.md), [Claude](claude.md).",
    codes: PROMPT_CODES,
  },
  {
    title: "The command line",
    about: "From every command, and from files that several parts of skillet write.",
    codes: COMMAND_CODES,
  },
];

export function errorPage(): string {
  return `# Codes

This page lists every code of skillet, with its meaning and fix. It is generated from the tables in \`src/errors\`. The message of an actual
error names the file, the name or the limit, and its \`fix\` is more specific. Link to a code with \`errors.md#CODE\`.

- Problems of files on disk are findings. They are never thrown.
- A failed call throws a \`SkillError\` with a \`code\` to branch on, a \`message\` to read and a \`fix\` to try. \`ErrorCode\` is the type of all codes.
- A failed tool call of a model returns a result with a code.
- With \`--json\`, a command that fails prints \`{ "error": { code, message, fix } }\`; without it, the message and the fix.

Findings of the scanner have [their own ids](scan.md).

${[FINDINGS, ...SECTIONS.map(({ title }) => title), EXIT_CODES].map((title) => `- [${title}](#${anchorOf(title)})`).join("\n")}

## ${FINDINGS}

Discovery, \`check\` and \`doctor\` report these codes; only the severity differs by profile. In the profile \`load\`, \`error\` means that the file
is not loaded, and \`error, loaded\` that it is reported as an error but loaded. If a finding stops another operation (\`skill.body\`,
\`catalog.get\`, an export), it is thrown, or is the code of a result.

${table(["code", "meaning", "fix", ...PROFILES.map((profile) => `\`${profile}\``)], findingRows())}

${SECTIONS.map(sectionOf).join("\n\n")}

## ${EXIT_CODES}

A command that fails exits with ${EXIT.findings}, except for these codes:

${table(["exit code", "codes"], exitRows())}

## ${RENAMED}

Names of 0.1.0, and what they are called now. A configuration key by its former name still works, with a warning;
\`skillet config migrate\` renames it in your file and keeps everything else. Files in \`~/.skillet\` that contain a former name
are read as before. Programs that compare codes, stop reasons or event types have to use the name of today.

${table(["what", "0.1.0", "now"], renamedRows())}
`;
}

const RENAMED = "Renamed names";

function renamedRows(): string[][] {
  return (Object.keys(RENAMED_LABELS) as RenamedKind[]).flatMap((kind) =>
    Object.entries(RENAMED_NAMES[kind]).map(([old, name]) => [
      RENAMED_LABELS[kind],
      `\`${old}\``,
      kind === "code" ? `[\`${name}\`](#${name})` : `\`${name}\``,
    ]),
  );
}

const RENAMED_LABELS: Readonly<Record<RenamedKind, string>> = {
  config: "configuration key",
  command: "command",
  event: "event",
  stop: "stop reason",
  code: "code",
};

const FINDINGS = "Findings";
const EXIT_CODES = "Exit codes";

function sectionOf({ title, about, codes }: Section): string {
  const rows = Object.entries(codes).map(([code, { meaning, fix }]) => [anchored(code), meaning, fix]);
  return `## ${title}\n\n${about}\n\n${table(["code", "meaning", "fix"], rows)}`;
}

function findingRows(): string[][] {
  return Object.entries(FINDING_CODES).map(([code, { severities, meaning, fix }]) => [
    ...[anchored(code), meaning, fix],
    ...PROFILES.map((profile) => SEVERITY_LABELS[severities[profile] ?? severities.all]),
  ]);
}

const SEVERITY_LABELS: Readonly<Record<FindingSeverity, string>> = {
  error: "error",
  "reported-error": "error, loaded",
  warning: "warning",
  info: "hint",
  none: "",
};

function exitRows(): string[][] {
  const thrown = (exit: number) =>
    linked(Object.keys(ERROR_EXIT_CODES).filter((code) => ERROR_EXIT_CODES[code] === exit));
  const limits = [
    "max-iterations",
    "timeout",
    "budget",
    "script-timeout",
    "script-output",
    "script-memory",
    "tool-timeout",
  ];
  return [
    [`${EXIT.usage}`, thrown(EXIT.usage)],
    [
      `${EXIT.refused}`,
      `${thrown(EXIT.refused)}, ${linked(["server-name-taken", "unmanaged-keys"])}; a refused run or script ([uses](#uses)), or a refused copy: ${linked(["edited", "unmanaged-path", "last-copy"])}`,
    ],
    [`${EXIT.limit}`, `${linked(limits)}: partial output is printed`],
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

/** Returns the anchor that GitHub creates for a heading. */
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
