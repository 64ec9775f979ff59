import { EXIT } from "../../src/cli/command-context.ts";
import { CODE_SECTIONS, type CodeSection } from "../../src/cli/commands/help.ts";
import { ERROR_EXIT_CODES } from "../../src/cli/main.ts";
import { FINDING_CODES, type FindingSeverity } from "../../src/errors/finding-codes.ts";
import { RENAMED_NAMES, type RenamedKind } from "../../src/errors/renamed-names.ts";
import { PROFILES } from "../../src/skill/skill.ts";

export function errorPage(): string {
  return `# Codes

This page lists every code of skillet, with its meaning and fix. It is generated from the tables in \`src/errors\`. The message of an actual
error names the file, the name or the limit, and its \`fix\` is more specific. Link to a code with \`errors.md#CODE\`.

- Problems of files on disk are findings. They are never thrown.
- A failed call throws a \`SkillError\` with a \`code\` to branch on, a \`message\` to read and a \`fix\` to try. \`ErrorCode\` is the type of all codes.
- A failed tool call of a model returns a result with a code.
- A failure is a \`Problem\`: \`{ code, message, fix, commands?, data? }\`. \`commands\` are command lines for the fix; \`formatProblem\` writes message, fix and commands as one text. With \`--json\`, a command that fails prints \`{ "error": Problem }\`.
- \`skillet help CODE\` prints the row of a code, offline.

Findings of the scanner have [their own ids](scan.md).

${[FINDINGS, ...CODE_SECTIONS.map(({ title }) => title), EXIT_CODES].map((title) => `- [${title}](#${anchorOf(title)})`).join("\n")}

## ${FINDINGS}

Discovery, \`check\` and \`doctor\` report these codes; only the severity differs by profile. In the profile \`load\`, \`error\` means that the file
is not loaded, and \`error, loaded\` that it is reported as an error but loaded. If a finding stops another operation (\`skill.body\`,
\`catalog.get\`, an export), it is thrown, or is the code of a result.

${table(["code", "meaning", "fix", ...PROFILES.map((profile) => `\`${profile}\``)], findingRows())}

${CODE_SECTIONS.map(sectionOf).join("\n\n")}

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
  field: "JSON key",
  code: "code",
};

const FINDINGS = "Findings";
const EXIT_CODES = "Exit codes";

function sectionOf({ title, about, pages = {}, codes }: CodeSection): string {
  const links = Object.entries(pages).map(([page, file]) => `[${page}](${file})`);
  const rows = Object.entries(codes).map(([code, { meaning, fix }]) => [anchored(code), meaning, fix]);
  return `## ${title}\n\n${about}${links.length > 0 ? ` ${links.join(", ")}.` : ""}\n\n${table(["code", "meaning", "fix"], rows)}`;
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
