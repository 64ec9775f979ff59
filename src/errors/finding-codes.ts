import type { CodeRow } from "./problem.ts";

/** The severity of a finding in one profile. `reported-error` is an error that does not stop the skill from loading; `none` is not reported. */
export type FindingSeverity = "error" | "reported-error" | "warning" | "info" | "none";

/** The severity of a finding by profile. `all` applies to every profile that the row does not name. */
export interface FindingSeverities {
  readonly all: FindingSeverity;
  readonly load?: FindingSeverity;
  readonly agentskills?: FindingSeverity;
  readonly shipped?: FindingSeverity;
  readonly "claude-upload"?: FindingSeverity;
  readonly vscode?: FindingSeverity;
}

export interface FindingRow extends CodeRow {
  severities: FindingSeverities;
}

// Contract: in the profile `load`, `error` means exactly that the file is not loaded as a skill.
const FINDING_ROWS = {
  // The file
  "not-found": {
    severities: { all: "error" },
    meaning: "No file, folder or skill has this name or path.",
    fix: "check the name or the path; `skillet list` shows the skills",
  },
  unreadable: {
    severities: { all: "error" },
    meaning: "The file or folder cannot be read.",
    fix: "give yourself read permission: `chmod u+r PATH`",
  },
  "not-a-file": {
    severities: { all: "error" },
    meaning: "The path is a folder, pipe, socket or device, not a regular file.",
    fix: "replace it with a regular file",
  },
  "not-a-folder": {
    severities: { all: "error" },
    meaning: "The path is a file, not a folder of skills.",
    fix: "replace it with a folder",
  },
  "symlink-broken": {
    severities: { all: "error" },
    meaning: "The target of a symlink does not exist.",
    fix: "remove the symlink, or restore its target",
  },
  "symlink-loop": {
    severities: { all: "error" },
    meaning: "A symlink points back to itself.",
    fix: "remove the symlink",
  },
  "symlink-outside": {
    severities: { all: "warning", shipped: "error", vscode: "error" },
    meaning: "A symlink points outside the skill's folder; the file is not served.",
    fix: "copy the file into the skill's folder",
  },
  "hard-link-outside": {
    severities: { all: "warning", shipped: "error", vscode: "error" },
    meaning: "A file of a workspace skill has a hard link outside the skill's folder; it is not served.",
    fix: "replace it with a copy: cp FILE FILE.new && mv FILE.new FILE",
  },
  "skill-file-hard-link": {
    severities: { all: "error" },
    meaning: "The skill file of a workspace skill has a hard link outside the skill's folder; it is not read.",
    fix: "replace it with a copy: cp FILE FILE.new && mv FILE.new FILE",
  },
  "file-skipped": {
    severities: { all: "warning", shipped: "error", vscode: "error" },
    meaning: "An entry in the skill's folder is not a readable regular file; it is not served.",
    fix: "remove it, or replace it with a regular file",
  },
  "file-too-large": {
    severities: { all: "error" },
    meaning: "The skill file is larger than 1 MiB.",
    fix: "move most of its content to other files in the folder",
  },
  "not-utf8": {
    severities: { all: "error" },
    meaning: "The file is not UTF-8 text.",
    fix: "save it as UTF-8 (`--fix` converts UTF-16)",
  },
  "body-encoding": {
    severities: { all: "error", load: "warning" },
    meaning: "The instructions are not valid UTF-8; invalid bytes are replaced.",
    fix: "save the file as UTF-8",
  },
  "not-written": {
    severities: { all: "error" },
    meaning: "A file could not be fixed in place.",
    fix: "give yourself write permission for its folder",
  },
  "fix-refused": {
    severities: { all: "warning" },
    meaning: "A fix would change more than it reports; the file was not written.",
    fix: "fix it by hand",
  },
  "file-case": {
    severities: { all: "error", load: "warning" },
    meaning: "The file is not named exactly SKILL.md, so other clients do not find it.",
    fix: "rename it to SKILL.md",
  },
  "file-name": {
    severities: { all: "error", load: "warning" },
    meaning: "The folder has no SKILL.md, but a file with a similar name.",
    fix: "rename it to SKILL.md",
  },
  "file-mode": {
    severities: { all: "warning", shipped: "error", vscode: "error" },
    meaning: "A file has the set-user-ID or set-group-ID bit set.",
    fix: "run `chmod ug-s FILE`",
  },
  "too-many-files": {
    severities: { all: "warning", shipped: "error", vscode: "error" },
    meaning: "The skill's folder has more files than the limit; the rest are not listed.",
    fix: "keep only the files that the skill needs",
  },
  "nearer-copy-broken": {
    severities: { all: "warning" },
    meaning: "The nearest copy of a skill does not load, so a copy farther away is used.",
    fix: "fix the file, or remove it",
  },
  "nested-skill": {
    severities: { all: "info" },
    meaning: "A skill is inside the folder of another skill; both load, and its files also belong to the outer one.",
    fix: "no action needed; to separate them, move its folder next to the other one",
  },
  "nested-skipped": {
    severities: { all: "info" },
    meaning:
      "A nested SKILL.md is not loaded because it is in `tests`, `fixtures`, `examples` or `templates`, or has no frontmatter.",
    fix: "no action needed; move its folder next to the other one to load it",
  },
  "remote-unavailable": {
    severities: { all: "warning" },
    meaning: "The skills of an MCP server could not be listed; its last listing is used, if there is one.",
    fix: "start the server, or correct [tools.mcp.NAME]; then run `skillet list --refresh`",
  },
  "remote-entry": {
    severities: { all: "warning" },
    meaning: "An MCP server lists a skill that is invalid, unverifiable or too large; it is not used.",
    fix: "report it to its maintainer",
  },
  "remote-limit": {
    severities: { all: "warning" },
    meaning: "An MCP server lists more skills than the limit; the rest are not read.",
    fix: "report it to its maintainer",
  },
  "remote-name-taken": {
    severities: { all: "info" },
    meaning: "A skill of an MCP server has the same name as another skill, which keeps the name.",
    fix: "use `name@mcp:SERVER` to refer to the skill of the server",
  },
  "source-failed": {
    severities: { all: "error" },
    meaning: "A source of skills could not be read at all.",
    fix: "fix the cause that the message gives",
  },
  "too-deep": {
    severities: { all: "warning" },
    meaning: "Folders are nested deeper than the search goes.",
    fix: "move the skills closer to the top folder",
  },
  "too-many-skills": {
    severities: { all: "warning" },
    meaning: "The folder has more entries than the search limit; the rest are not read.",
    fix: "split the folder, or add its subfolders as separate sources",
  },

  // Frontmatter delimiters and YAML
  "byte-order-mark": {
    severities: { all: "warning", load: "info" },
    meaning: "The file starts with a byte order mark, which keeps many loaders from finding the frontmatter.",
    fix: "save it without one (`--fix` removes it)",
  },
  "line-endings": {
    severities: { all: "warning", load: "info" },
    meaning: "The file has Windows line endings (CRLF).",
    fix: "save it with LF line endings (`--fix` does)",
  },
  "leading-blank-lines": {
    severities: { all: "error", load: "warning" },
    meaning: "There are blank lines before the frontmatter.",
    fix: "start the file with --- (`--fix` does)",
  },
  "leading-comment": {
    severities: { all: "error", load: "warning" },
    meaning: "A comment or label line before the frontmatter keeps other loaders from finding it.",
    fix: "start the file with --- (`--fix` removes the line)",
  },
  "delimiter-whitespace": {
    severities: { all: "warning", load: "info" },
    meaning: "A --- line has trailing spaces.",
    fix: "remove them (`--fix` does)",
  },
  "frontmatter-missing": {
    severities: { all: "error" },
    meaning: "The file does not start with a --- line, so it has no frontmatter.",
    fix: "start it with ---, description: …, ---",
  },
  "frontmatter-unclosed": {
    severities: { all: "error" },
    meaning: "The frontmatter has no closing --- line.",
    fix: "add a line --- before the instructions",
  },
  "frontmatter-language": {
    severities: { all: "error" },
    meaning: "The opening line names a language; only YAML is read, and nothing is executed.",
    fix: "write the opening line as ---",
  },
  "frontmatter-too-large": {
    severities: { all: "error" },
    meaning: "The frontmatter is larger than 64 KiB.",
    fix: "move text to the instructions or to other files",
  },
  "frontmatter-type": {
    severities: { all: "error" },
    meaning: "The frontmatter is not a YAML mapping of keys to values.",
    fix: "write it as `key: value` lines",
  },
  "yaml-syntax": {
    severities: { all: "error" },
    meaning: "The frontmatter is not valid YAML.",
    fix: "fix the line; quote values with special characters",
  },
  "yaml-repaired": {
    severities: { all: "error", load: "warning" },
    meaning: "A value needed quotes and was read as text; other loaders reject the file.",
    fix: "quote the value (`--fix` does)",
  },
  "yaml-duplicate": {
    severities: { all: "error", load: "warning" },
    meaning: "A key is duplicated; the last value is used.",
    fix: "remove one of them",
  },
  "yaml-alias": {
    severities: { all: "error" },
    meaning: "YAML anchors and aliases are not supported.",
    fix: "write the value out",
  },
  "yaml-tag": { severities: { all: "error" }, meaning: "YAML tags are not supported.", fix: "remove the tag" },
  "yaml-limit": {
    severities: { all: "error" },
    meaning: "The frontmatter is nested deeper than 16 levels, or has more than 256 keys in one mapping.",
    fix: "move details below the frontmatter, or into another file of the skill",
  },
  "yaml-documents": { severities: { all: "error" }, meaning: "The file has several YAML documents.", fix: "keep one" },
  "value-truncated": {
    severities: { all: "warning" },
    meaning: "A # after a space starts a comment, so the rest of the line is not part of the value.",
    fix: "quote the value if the # belongs to it",
  },
  "control-character": {
    severities: { all: "error" },
    meaning: "The frontmatter contains a control character.",
    fix: "delete it at the place in the message",
  },
  "hidden-text": {
    severities: { all: "error" },
    meaning: "The frontmatter contains invisible or direction-changing characters.",
    fix: "delete them at the place in the message, and type the text again",
  },

  // Fields
  "name-missing": {
    severities: { all: "error", load: "none" },
    meaning: "The skill has no name; the folder or file name is used.",
    fix: "add name: with the folder's name (`--fix` does)",
  },
  "name-type": { severities: { all: "error", load: "warning" }, meaning: "The name is not text.", fix: "quote it" },
  "name-invalid": {
    severities: { all: "error", load: "warning" },
    meaning: "The name is invalid; the folder or file name is used.",
    fix: "use lowercase letters, digits and hyphens",
  },
  "no-valid-name": {
    severities: { all: "error" },
    meaning: "Neither the name nor the folder or file name is valid.",
    fix: "add a name of lowercase letters, digits and hyphens",
  },
  "name-reserved": {
    severities: { all: "error", load: "warning" },
    meaning: "The name is reserved.",
    fix: "choose another name",
  },
  "name-lookalike": {
    severities: { all: "error", load: "warning" },
    meaning: "The name mixes scripts, or uses letters that look like other letters.",
    fix: "write it with plain letters a to z",
  },
  "name-format": {
    severities: { all: "error", load: "info" },
    meaning: "The name is not made of lowercase letters, digits and single hyphens.",
    fix: "rename it, for example `my-skill`",
  },
  "name-device": {
    severities: { all: "error", load: "none", agentskills: "warning", "claude-upload": "warning" },
    meaning: "The name is a reserved device name on Windows, where the folder cannot exist.",
    fix: "choose another name",
  },
  "name-vendor": {
    severities: { all: "none", "claude-upload": "error" },
    meaning: "Uploads to Claude reject names that contain `claude` or `anthropic`.",
    fix: "choose another name",
  },
  "name-mismatch": {
    severities: { all: "error", load: "info", "claude-upload": "warning" },
    meaning: "The name differs from the folder name; some clients reject the skill.",
    fix: "make them equal (`--fix` uses the folder name where the profile rejects the other)",
  },
  "name-case-collision": {
    severities: { all: "warning" },
    meaning: "The names of two skills differ only in case; they collide on some file systems.",
    fix: "rename one",
  },
  "description-missing": {
    severities: { all: "error" },
    meaning: "The skill has no description, so a model cannot tell when to use it.",
    fix: "add description: the purpose of the skill and when to use it",
  },
  "description-type": {
    severities: { all: "error", load: "warning" },
    meaning: "The description is not text.",
    fix: "write it as one quoted sentence",
  },
  "description-too-long": {
    severities: { all: "error", load: "reported-error" },
    meaning: "The description is longer than 1024 characters.",
    fix: "shorten it, and move details to the instructions",
  },
  "description-long": {
    severities: { all: "warning" },
    meaning: "The description is longer than 500 characters, and every client includes it in every conversation.",
    fix: "shorten it",
  },
  "description-markup": {
    severities: { all: "warning", load: "info", "claude-upload": "error" },
    meaning: "The description contains angle brackets.",
    fix: "write it as plain text",
  },
  "compatibility-too-long": {
    severities: { all: "error", load: "none", "claude-upload": "warning" },
    meaning: "compatibility is longer than 500 characters.",
    fix: "shorten it",
  },
  "body-missing": {
    severities: { all: "error" },
    meaning: "The skill has no instructions.",
    fix: "write them below the closing --- line",
  },
  "field-type": {
    severities: { all: "error", load: "warning" },
    meaning: "A field has the wrong type and is ignored.",
    fix: "write a value of the type in the message; `skillet schema frontmatter` lists the types",
  },
  "field-value": {
    severities: { all: "error", load: "warning" },
    meaning: "The value of a field is out of range and is ignored.",
    fix: "write a value that the message allows; `skillet schema frontmatter` lists them",
  },
  "key-unknown": {
    severities: { all: "error", load: "info", vscode: "warning" },
    meaning: "No client reads this key; it is kept as data.",
    fix: "move it under metadata:",
  },
  "key-misspelled": {
    severities: { all: "error", load: "warning" },
    meaning: "The key looks misspelled and has no effect.",
    fix: "rename it (`--fix --rename KEY`)",
  },
  "duplicate-field": {
    severities: { all: "warning" },
    meaning: "A field is written with two spellings; the preferred spelling is used.",
    fix: "keep one",
  },
  "key-client": {
    severities: { all: "none", agentskills: "error", "claude-upload": "error" },
    meaning: "The key is not in the standard; only some clients read it.",
    fix: "keep it only for those clients",
  },
  "key-extension": {
    severities: { all: "error", load: "none", shipped: "none", vscode: "warning" },
    meaning: "The key is a skillet extension of the standard.",
    fix: "move it under metadata:",
  },
  "key-other-client": {
    severities: { all: "error", load: "none", shipped: "none", vscode: "warning" },
    meaning: "The key is an extension that some clients read at the top level only; under metadata it has no effect.",
    fix: "keep it for those clients, or remove it for others",
  },
  "key-top-level": {
    severities: { all: "error", load: "none", shipped: "none", vscode: "warning" },
    meaning: "The key is a skillet extension that is read at the top level only; under metadata it has no effect.",
    fix: "keep it for skillet, or remove it for clients that reject unknown keys",
  },
  "key-author": {
    severities: { all: "error", load: "none", vscode: "warning" },
    meaning: "The author is at the top level; shipped skills have it under metadata.",
    fix: "move it under metadata:",
  },
  "version-missing": {
    severities: { all: "none", shipped: "error" },
    meaning: "The skill has no version under metadata.",
    fix: "add metadata: version: 1.0.0",
  },
  "version-format": {
    severities: { all: "warning", load: "info", shipped: "error", vscode: "info" },
    meaning: "The version is not major.minor.patch.",
    fix: "write it like 1.0.0",
  },
  "tags-missing": {
    severities: { all: "none", shipped: "error" },
    meaning: "The skill has no tags under metadata.",
    fix: "add metadata: tags: [a, b]",
  },
  "capability-format": {
    severities: { all: "error", load: "reported-error" },
    meaning: "A capability id has no namespace, so no host can grant it.",
    fix: "write it like gog.email",
  },
  "provider-wiring": {
    severities: { all: "warning" },
    meaning: "The skill configures a provider; this is ignored, because only the user can do that.",
    fix: "remove it; the user chooses the provider in config.toml",
  },
  "trigger-pattern": {
    severities: { all: "error", load: "warning" },
    meaning: "A pattern under triggers is invalid, or cannot be matched in linear time; it is ignored.",
    fix: "correct the pattern in the message; the other triggers still work",
  },
  "trigger-broad": {
    severities: { all: "warning" },
    meaning: "A trigger matches most queries, for example a common word; alone it never loads the instructions.",
    fix: "use a phrase of two or more words that is specific to the skill",
  },
  "trigger-unusable": {
    severities: { all: "error", load: "warning" },
    meaning: "A keyword, verb or cue under triggers has no words or too many; it is ignored.",
    fix: "use a word or a short phrase",
  },
  "trigger-limit": {
    severities: { all: "error", load: "warning" },
    meaning: "The skill has more triggers than the limit; the rest are ignored.",
    fix: "keep the triggers that distinguish the skill from others",
  },
  "variable-name": {
    severities: { all: "error", load: "warning" },
    meaning:
      "A name under env is not a valid variable name, or controls how programs start; the skill's code cannot run.",
    fix: "rename the variable",
  },
  "package-name": {
    severities: { all: "error", load: "warning" },
    meaning: "A name under packages is not the exact name of a system package; the skill's code cannot run.",
    fix: "write the plain name, for example jq or g++, without a version, pattern, path or option",
  },
  "toolset-ref": {
    severities: { all: "error", load: "warning" },
    meaning: "An entry under toolsets does not name a file of the skill and an export; its tools are missing.",
    fix: "write a file in the skill's folder and its export, as in toolsets/index:MyToolset",
  },
  "schema-reference": {
    severities: { all: "error", load: "warning" },
    meaning: "input_schema refers to a remote schema; it is never fetched, so input_schema is ignored.",
    fix: "write the referenced schema under $defs",
  },

  // The configuration
  "config-ash": {
    severities: { all: "info" },
    meaning: "The configuration of ash is used where skillet's configuration does not set a key.",
    fix: "move its keys to ~/.skillet/config.toml",
  },
  "config-syntax": {
    severities: { all: "error" },
    meaning:
      "A configuration file cannot be parsed, so defaults or the last valid values are used and the file is not edited.",
    fix: "fix the line that the message names",
  },
  "config-renamed": {
    severities: { all: "warning" },
    meaning: "The configuration has a key of an earlier version; it still has its effect.",
    fix: "run `skillet config migrate` to rename it in the file",
  },
  "config-unknown": {
    severities: { all: "warning" },
    meaning: "The configuration has an unknown key.",
    fix: "correct the key as in docs/config.md, or remove it",
  },
  "config-type": {
    severities: { all: "warning" },
    meaning:
      "A configuration value has the wrong type; it is ignored, or a running server or chat keeps the previous value.",
    fix: "write a value of the type in the message; `skillet config set KEY VALUE` checks it",
  },
  "config-refused": {
    severities: { all: "error" },
    meaning: "The configuration of a workspace is not allowed to set this key.",
    fix: "remove it, or set it in your own config.toml",
  },
  "config-undeclared": {
    severities: { all: "warning" },
    meaning: "The configuration sets a variable that the skill does not declare; the skill does not get it.",
    fix: "add it to the skill's env:, or remove it",
  },
  "config-skill": {
    severities: { all: "info" },
    meaning: "The configuration names a skill that is not found here.",
    fix: "correct the name; ignore this for a skill of another workspace",
  },
  "config-source": {
    severities: { all: "warning" },
    meaning: "A source of skills in the configuration has no path, or its folder does not exist.",
    fix: "correct its path, or remove it",
  },
  "config-world-readable": {
    severities: { all: "warning" },
    meaning: "Other users can read a configuration file that contains values for skills.",
    fix: "run `chmod 600 ~/.skillet/config.toml`",
  },
  "exports-unreadable": {
    severities: { all: "warning" },
    meaning: "The record of exported copies cannot be read, so copies are treated as skills.",
    fix: "fix it, or delete it to start over",
  },
  "lock-unreadable": {
    severities: { all: "warning" },
    meaning: "The lock file of a skills folder cannot be used, so no skill in the folder is used.",
    fix: "restore it from version control, or remove it and add the skills again",
  },

  // Style of the instructions
  "hidden-text-body": {
    severities: { all: "warning", shipped: "error", vscode: "error" },
    meaning: "The instructions contain invisible or direction-changing characters.",
    fix: "delete them at the place in the message, and type the text again",
  },
  "dead-link": {
    severities: { all: "warning", shipped: "error" },
    meaning: "A link in the instructions points to a file that does not exist.",
    fix: "correct the link or add the file",
  },
  "link-outside-skill": {
    severities: { all: "info", shipped: "warning" },
    meaning:
      "A link in the instructions points outside the skill's folder; copies of the skill do not contain that file.",
    fix: "copy the file into the skill's folder, or link to a web address",
  },
  "script-missing": {
    severities: { all: "warning", shipped: "error" },
    meaning: "A script that the skill declares is not in its folder.",
    fix: "correct the path, or add the file",
  },
  "toolset-missing": {
    severities: { all: "warning", shipped: "error" },
    meaning: "A toolset that the skill declares is not in its folder, so its tools are missing.",
    fix: "correct the path, or add the file",
  },
  tab: { severities: { all: "info" }, meaning: "A line is indented with tabs.", fix: "indent with spaces" },
  "long-line": { severities: { all: "info" }, meaning: "A line is longer than 500 characters.", fix: "break it" },
  "todo-found": {
    severities: { all: "warning", shipped: "error" },
    meaning: "The instructions contain a TODO.",
    fix: "finish or remove it",
  },
  "template-unedited": {
    severities: { all: "warning", shipped: "error" },
    meaning: "The description or the instructions are still text of the template that `skillet new` wrote.",
    fix: "replace it with what the skill does and how",
  },
  "use-when-missing": {
    severities: { all: "info", shipped: "warning" },
    meaning: "The description does not say when to use the skill.",
    fix: 'add "Use when …"',
  },
  "description-overlap": {
    severities: { all: "warning" },
    meaning: "Two skills compete for the same queries: their descriptions have the same distinctive words.",
    fix: "say in the description what this skill is for and the other one is not, or merge them",
  },
  "body-long": {
    severities: { all: "warning", load: "info" },
    meaning: "The instructions are longer than 500 lines or about 5,000 tokens.",
    fix: "move details to files that the instructions refer to",
  },
  "absolute-path": {
    severities: { all: "warning", load: "info" },
    meaning: "The instructions contain a path that exists on one machine only.",
    fix: "use a path relative to the skill's folder",
  },
  "tool-unknown": {
    severities: { all: "info" },
    meaning: "The tool name is unknown.",
    fix: "check the spelling: docs/tools.md has the names",
  },
} as const satisfies Record<string, FindingRow>;

export type FindingCode = keyof typeof FINDING_ROWS;

export const FINDING_CODES: Readonly<Record<FindingCode, FindingRow>> = FINDING_ROWS;
