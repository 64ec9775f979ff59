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
export const FINDING_CODES = {
  // The file
  "not-found": defineFinding(
    { all: "error" },
    "No file, folder or skill has this name or path.",
    "check the name or the path",
  ),
  unreadable: defineFinding({ all: "error" }, "The file or folder cannot be read.", "give yourself read permission"),
  "not-a-file": defineFinding(
    { all: "error" },
    "The path is a folder, pipe, socket or device, not a regular file.",
    "replace it with a regular file",
  ),
  "not-a-folder": defineFinding(
    { all: "error" },
    "The path is a file, not a folder of skills.",
    "replace it with a folder",
  ),
  "symlink-broken": defineFinding(
    { all: "error" },
    "The target of a symlink does not exist.",
    "remove the symlink, or restore its target",
  ),
  "symlink-loop": defineFinding({ all: "error" }, "A symlink points back to itself.", "remove the symlink"),
  "symlink-outside": defineFinding(
    { all: "warning", shipped: "error", vscode: "error" },
    "A symlink points outside the skill's folder; the file is not served.",
    "copy the file into the skill's folder",
  ),
  "hard-link-outside": defineFinding(
    { all: "warning", shipped: "error", vscode: "error" },
    "A file of a workspace skill has a hard link outside the skill's folder; it is not served.",
    "replace it with a copy: cp FILE FILE.new && mv FILE.new FILE",
  ),
  "skill-file-hard-link": defineFinding(
    { all: "error" },
    "The skill file of a workspace skill has a hard link outside the skill's folder; it is not read.",
    "replace it with a copy: cp FILE FILE.new && mv FILE.new FILE",
  ),
  "file-skipped": defineFinding(
    { all: "warning", shipped: "error", vscode: "error" },
    "An entry in the skill's folder is not a readable regular file; it is not served.",
    "remove it, or replace it with a regular file",
  ),
  "file-too-large": defineFinding(
    { all: "error" },
    "The skill file is larger than 1 MiB.",
    "move most of its content to other files in the folder",
  ),
  "not-utf8": defineFinding(
    { all: "error" },
    "The file is not UTF-8 text.",
    "save it as UTF-8 (`--fix` converts UTF-16)",
  ),
  "body-encoding": defineFinding(
    { all: "error", load: "warning" },
    "The instructions are not valid UTF-8; invalid bytes are replaced.",
    "save the file as UTF-8",
  ),
  "not-written": defineFinding(
    { all: "error" },
    "A file could not be fixed in place.",
    "give yourself write permission for its folder",
  ),
  "fix-refused": defineFinding(
    { all: "warning" },
    "A fix would change more than it reports; the file was not written.",
    "fix it by hand",
  ),
  "file-case": defineFinding(
    { all: "error", load: "warning" },
    "The file is not named exactly SKILL.md, so other clients do not find it.",
    "rename it to SKILL.md",
  ),
  "file-name": defineFinding(
    { all: "error", load: "warning" },
    "The folder has no SKILL.md, but a file with a similar name.",
    "rename it to SKILL.md",
  ),
  "file-mode": defineFinding(
    { all: "warning", shipped: "error", vscode: "error" },
    "A file has the set-user-ID or set-group-ID bit set.",
    "clear it: chmod ug-s",
  ),
  "too-many-files": defineFinding(
    { all: "warning", shipped: "error", vscode: "error" },
    "The skill's folder has more files than the limit; the rest are not listed.",
    "keep only the files that the skill needs",
  ),
  "nearer-copy-broken": defineFinding(
    { all: "warning" },
    "The nearest copy of a skill does not load, so a copy farther away is used.",
    "fix the file, or remove it",
  ),
  "nested-skill": defineFinding(
    { all: "info" },
    "A skill is inside the folder of another skill; both load, and its files also belong to the outer one.",
    "no action needed; to separate them, move its folder next to the other one",
  ),
  "nested-skipped": defineFinding(
    { all: "info" },
    "A nested SKILL.md is not loaded because it is in `tests`, `fixtures`, `examples` or `templates`, or has no frontmatter.",
    "no action needed; move its folder next to the other one to load it",
  ),
  "remote-unavailable": defineFinding(
    { all: "warning" },
    "The skills of an MCP server could not be listed; its last listing is used, if there is one.",
    "start the server, or correct [tools.mcp.NAME]; then run `skillet list --refresh`",
  ),
  "remote-entry": defineFinding(
    { all: "warning" },
    "An MCP server lists a skill that is invalid, unverifiable or too large; it is not used.",
    "report it to its maintainer",
  ),
  "remote-limit": defineFinding(
    { all: "warning" },
    "An MCP server lists more skills than the limit; the rest are not read.",
    "report it to its maintainer",
  ),
  "remote-name-taken": defineFinding(
    { all: "info" },
    "A skill of an MCP server has the same name as another skill, which keeps the name.",
    "use `name@mcp:SERVER` to refer to the skill of the server",
  ),
  "source-failed": defineFinding(
    { all: "error" },
    "A source of skills could not be read at all.",
    "fix the cause that the message gives",
  ),
  "too-deep": defineFinding(
    { all: "warning" },
    "Folders are nested deeper than the search goes.",
    "move the skills closer to the top folder",
  ),
  "too-many-skills": defineFinding(
    { all: "warning" },
    "The folder has more entries than the search limit; the rest are not read.",
    "split the folder, or add its subfolders as separate sources",
  ),

  // Frontmatter delimiters and YAML
  "byte-order-mark": defineFinding(
    { all: "warning", load: "info" },
    "The file starts with a byte order mark, which keeps many loaders from finding the frontmatter.",
    "save it without one (`--fix` removes it)",
  ),
  "line-endings": defineFinding(
    { all: "warning", load: "info" },
    "The file has Windows line endings (CRLF).",
    "save it with LF line endings (`--fix` does)",
  ),
  "leading-blank-lines": defineFinding(
    { all: "error", load: "warning" },
    "There are blank lines before the frontmatter.",
    "start the file with --- (`--fix` does)",
  ),
  "leading-comment": defineFinding(
    { all: "error", load: "warning" },
    "A comment or label line before the frontmatter keeps other loaders from finding it.",
    "start the file with --- (`--fix` removes the line)",
  ),
  "delimiter-whitespace": defineFinding(
    { all: "warning", load: "info" },
    "A --- line has trailing spaces.",
    "remove them (`--fix` does)",
  ),
  "frontmatter-missing": defineFinding(
    { all: "error" },
    "The file does not start with a --- line, so it has no frontmatter.",
    "start it with ---, description: …, ---",
  ),
  "frontmatter-unclosed": defineFinding(
    { all: "error" },
    "The frontmatter has no closing --- line.",
    "add a line --- before the instructions",
  ),
  "frontmatter-language": defineFinding(
    { all: "error" },
    "The opening line names a language; only YAML is read, and nothing is executed.",
    "write the opening line as ---",
  ),
  "frontmatter-too-large": defineFinding(
    { all: "error" },
    "The frontmatter is larger than 64 KiB.",
    "move text to the instructions or to other files",
  ),
  "frontmatter-type": defineFinding(
    { all: "error" },
    "The frontmatter is not a YAML mapping of keys to values.",
    "write it as `key: value` lines",
  ),
  "yaml-syntax": defineFinding(
    { all: "error" },
    "The frontmatter is not valid YAML.",
    "fix the line; quote values with special characters",
  ),
  "yaml-repaired": defineFinding(
    { all: "error", load: "warning" },
    "A value needed quotes and was read as text; other loaders reject the file.",
    "quote the value (`--fix` does)",
  ),
  "yaml-duplicate": defineFinding(
    { all: "error", load: "warning" },
    "A key is duplicated; the last value is used.",
    "remove one of them",
  ),
  "yaml-alias": defineFinding({ all: "error" }, "YAML anchors and aliases are not supported.", "write the value out"),
  "yaml-tag": defineFinding({ all: "error" }, "YAML tags are not supported.", "remove the tag"),
  "yaml-limit": defineFinding(
    { all: "error" },
    "The frontmatter is nested deeper than 16 levels, or has more than 256 keys in one mapping.",
    "make it smaller",
  ),
  "yaml-documents": defineFinding({ all: "error" }, "The file has several YAML documents.", "keep one"),
  "value-truncated": defineFinding(
    { all: "warning" },
    "A # after a space starts a comment, so the rest of the line is not part of the value.",
    "quote the value if the # belongs to it",
  ),
  "control-character": defineFinding({ all: "error" }, "The frontmatter contains a control character.", "remove it"),
  "hidden-text": defineFinding(
    { all: "error" },
    "The frontmatter contains invisible or direction-changing characters.",
    "remove them",
  ),

  // Fields
  "name-missing": defineFinding(
    { all: "error", load: "none" },
    "The skill has no name; the folder or file name is used.",
    "add name: with the folder's name (`--fix` does)",
  ),
  "name-type": defineFinding({ all: "error", load: "warning" }, "The name is not text.", "quote it"),
  "name-invalid": defineFinding(
    { all: "error", load: "warning" },
    "The name is invalid; the folder or file name is used.",
    "use lowercase letters, digits and hyphens",
  ),
  "no-valid-name": defineFinding(
    { all: "error" },
    "Neither the name nor the folder or file name is valid.",
    "add a name of lowercase letters, digits and hyphens",
  ),
  "name-reserved": defineFinding({ all: "error", load: "warning" }, "The name is reserved.", "choose another name"),
  "name-lookalike": defineFinding(
    { all: "error", load: "warning" },
    "The name mixes scripts, or uses letters that look like other letters.",
    "write it with plain letters a to z",
  ),
  "name-format": defineFinding(
    { all: "error", load: "info" },
    "The name is not made of lowercase letters, digits and single hyphens.",
    "rename it, for example `my-skill`",
  ),
  "name-device": defineFinding(
    { all: "error", load: "none", agentskills: "warning", "claude-upload": "warning" },
    "The name is a reserved device name on Windows, where the folder cannot exist.",
    "choose another name",
  ),
  "name-vendor": defineFinding(
    { all: "none", "claude-upload": "error" },
    "Uploads to Claude reject names that contain `claude` or `anthropic`.",
    "choose another name",
  ),
  "name-mismatch": defineFinding(
    { all: "error", load: "info", "claude-upload": "warning" },
    "The name differs from the folder name; some clients reject the skill.",
    "make them equal (`--fix` uses the folder name where the profile rejects the other)",
  ),
  "name-case-collision": defineFinding(
    { all: "warning" },
    "The names of two skills differ only in case; they collide on some file systems.",
    "rename one",
  ),
  "description-missing": defineFinding(
    { all: "error" },
    "The skill has no description, so a model cannot tell when to use it.",
    "add description: the purpose of the skill and when to use it",
  ),
  "description-type": defineFinding(
    { all: "error", load: "warning" },
    "The description is not text.",
    "write it as one quoted sentence",
  ),
  "description-too-long": defineFinding(
    { all: "error", load: "reported-error" },
    "The description is longer than 1024 characters.",
    "shorten it, and move details to the instructions",
  ),
  "description-long": defineFinding(
    { all: "warning" },
    "The description is longer than 500 characters, and every client includes it in every conversation.",
    "shorten it",
  ),
  "description-markup": defineFinding(
    { all: "warning", load: "info", "claude-upload": "error" },
    "The description contains angle brackets.",
    "write it as plain text",
  ),
  "compatibility-too-long": defineFinding(
    { all: "error", load: "none", "claude-upload": "warning" },
    "compatibility is longer than 500 characters.",
    "shorten it",
  ),
  "body-missing": defineFinding(
    { all: "error" },
    "The skill has no instructions.",
    "write them below the closing --- line",
  ),
  "field-type": defineFinding(
    { all: "error", load: "warning" },
    "A field has the wrong type and is ignored.",
    "write it as the message says",
  ),
  "field-value": defineFinding(
    { all: "error", load: "warning" },
    "The value of a field is out of range and is ignored.",
    "write it as the message says",
  ),
  "key-unknown": defineFinding(
    { all: "error", load: "info", vscode: "warning" },
    "No client reads this key; it is kept as data.",
    "move it under metadata:",
  ),
  "key-misspelled": defineFinding(
    { all: "error", load: "warning" },
    "The key looks misspelled and has no effect.",
    "rename it (`--fix --rename KEY`)",
  ),
  "duplicate-field": defineFinding(
    { all: "warning" },
    "A field is written with two spellings; the preferred spelling is used.",
    "keep one",
  ),
  "key-client": defineFinding(
    { all: "none", agentskills: "error", "claude-upload": "error" },
    "The key is not in the standard; only some clients read it.",
    "keep it only for those clients",
  ),
  "key-extension": defineFinding(
    { all: "error", load: "none", shipped: "none", vscode: "warning" },
    "The key is a skillet extension of the standard.",
    "move it under metadata:",
  ),
  "key-other-client": defineFinding(
    { all: "error", load: "none", shipped: "none", vscode: "warning" },
    "The key is an extension that some clients read at the top level only; under metadata it has no effect.",
    "keep it for those clients, or remove it for others",
  ),
  "key-top-level": defineFinding(
    { all: "error", load: "none", shipped: "none", vscode: "warning" },
    "The key is a skillet extension that is read at the top level only; under metadata it has no effect.",
    "keep it for skillet, or remove it for clients that reject unknown keys",
  ),
  "key-author": defineFinding(
    { all: "error", load: "none", vscode: "warning" },
    "The author is at the top level; shipped skills have it under metadata.",
    "move it under metadata:",
  ),
  "version-missing": defineFinding(
    { all: "none", shipped: "error" },
    "The skill has no version under metadata.",
    "add metadata: version: 1.0.0",
  ),
  "version-format": defineFinding(
    { all: "warning", load: "info", shipped: "error", vscode: "info" },
    "The version is not major.minor.patch.",
    "write it like 1.0.0",
  ),
  "tags-missing": defineFinding(
    { all: "none", shipped: "error" },
    "The skill has no tags under metadata.",
    "add metadata: tags: [a, b]",
  ),
  "capability-format": defineFinding(
    { all: "error", load: "reported-error" },
    "A capability id has no namespace, so no host can grant it.",
    "write it like gog.email",
  ),
  "provider-wiring": defineFinding(
    { all: "warning" },
    "The skill configures a provider; this is ignored, because only the user can do that.",
    "remove it; the user chooses the provider in config.toml",
  ),
  "trigger-pattern": defineFinding(
    { all: "error", load: "warning" },
    "A pattern under triggers is invalid, or cannot be matched in linear time; it is ignored.",
    "correct it as the message says; the other triggers still work",
  ),
  "trigger-broad": defineFinding(
    { all: "warning" },
    "A trigger matches most queries, for example a common word; alone it never loads the instructions.",
    "use a phrase of two or more words that is specific to the skill",
  ),
  "trigger-unusable": defineFinding(
    { all: "error", load: "warning" },
    "A keyword, verb or cue under triggers has no words or too many; it is ignored.",
    "use a word or a short phrase",
  ),
  "trigger-limit": defineFinding(
    { all: "error", load: "warning" },
    "The skill has more triggers than the limit; the rest are ignored.",
    "keep the triggers that distinguish the skill from others",
  ),
  "variable-name": defineFinding(
    { all: "error", load: "warning" },
    "A name under env is not a valid variable name, or controls how programs start; the skill's code cannot run.",
    "rename the variable",
  ),
  "package-name": defineFinding(
    { all: "error", load: "warning" },
    "A name under packages is not the exact name of a system package; the skill's code cannot run.",
    "write the plain name, for example jq or g++, without a version, pattern, path or option",
  ),
  "toolset-ref": defineFinding(
    { all: "error", load: "warning" },
    "An entry under toolsets does not name a file of the skill and an export; its tools are missing.",
    "write a file in the skill's folder and its export, as in toolsets/index:MyToolset",
  ),
  "schema-reference": defineFinding(
    { all: "error", load: "warning" },
    "input_schema refers to a remote schema; it is never fetched, so input_schema is ignored.",
    "write the referenced schema under $defs",
  ),

  // The configuration
  "config-ash": defineFinding(
    { all: "info" },
    "The configuration of ash is used where skillet's configuration does not set a key.",
    "move its keys to skillet's config.toml",
  ),
  "config-syntax": defineFinding(
    { all: "error" },
    "A configuration file cannot be parsed, so defaults or the last valid values are used and the file is not edited.",
    "fix the line",
  ),
  "config-renamed": defineFinding(
    { all: "warning" },
    "The configuration has a key of an earlier version; it still has its effect.",
    "run `skillet config migrate` to rename it in the file",
  ),
  "config-unknown": defineFinding({ all: "warning" }, "The configuration has an unknown key.", "remove or correct it"),
  "config-type": defineFinding(
    { all: "warning" },
    "A configuration value has the wrong type; it is ignored, or a running server or chat keeps the previous value.",
    "write it as the message says",
  ),
  "config-refused": defineFinding(
    { all: "error" },
    "The configuration of a workspace is not allowed to set this key.",
    "remove it, or set it in your own config.toml",
  ),
  "config-undeclared": defineFinding(
    { all: "warning" },
    "The configuration sets a variable that the skill does not declare; the skill does not get it.",
    "add it to the skill's env:, or remove it",
  ),
  "config-skill": defineFinding(
    { all: "info" },
    "The configuration names a skill that is not found here.",
    "correct the name; ignore this for a skill of another workspace",
  ),
  "config-source": defineFinding(
    { all: "warning" },
    "A source of skills in the configuration has no path, or its folder does not exist.",
    "correct its path, or remove it",
  ),
  "config-world-readable": defineFinding(
    { all: "warning" },
    "Other users can read a configuration file that contains values for skills.",
    "chmod 600 it",
  ),
  "exports-unreadable": defineFinding(
    { all: "warning" },
    "The record of exported copies cannot be read, so copies are treated as skills.",
    "fix it, or delete it to start over",
  ),
  "lock-unreadable": defineFinding(
    { all: "warning" },
    "The lock file of a skills folder cannot be used, so no skill in the folder is used.",
    "restore it from version control, or remove it and add the skills again",
  ),

  // Style of the instructions
  "hidden-text-body": defineFinding(
    { all: "warning", shipped: "error", vscode: "error" },
    "The instructions contain invisible or direction-changing characters.",
    "remove them",
  ),
  "dead-link": defineFinding(
    { all: "warning", shipped: "error" },
    "A link in the instructions points to a file that does not exist.",
    "correct the link or add the file",
  ),
  "link-outside-skill": defineFinding(
    { all: "info", shipped: "warning" },
    "A link in the instructions points outside the skill's folder; copies of the skill do not contain that file.",
    "copy the file into the skill's folder, or link to a web address",
  ),
  "script-missing": defineFinding(
    { all: "warning", shipped: "error" },
    "A script that the skill declares is not in its folder.",
    "correct the path, or add the file",
  ),
  "toolset-missing": defineFinding(
    { all: "warning", shipped: "error" },
    "A toolset that the skill declares is not in its folder, so its tools are missing.",
    "correct the path, or add the file",
  ),
  tab: defineFinding({ all: "info" }, "A line is indented with tabs.", "indent with spaces"),
  "long-line": defineFinding({ all: "info" }, "A line is longer than 500 characters.", "break it"),
  "todo-found": defineFinding(
    { all: "warning", shipped: "error" },
    "The instructions contain a TODO.",
    "finish or remove it",
  ),
  "template-unedited": defineFinding(
    { all: "warning", shipped: "error" },
    "The description or the instructions are still text of the template that `skillet new` wrote.",
    "replace it with what the skill does and how",
  ),
  "use-when-missing": defineFinding(
    { all: "info", shipped: "warning" },
    "The description does not say when to use the skill.",
    'add "Use when …"',
  ),
  "description-overlap": defineFinding(
    { all: "warning" },
    "Two skills compete for the same queries: their descriptions have the same distinctive words.",
    "say in the description what this skill is for and the other one is not, or merge them",
  ),
  "body-long": defineFinding(
    { all: "warning", load: "info" },
    "The instructions are longer than 500 lines or about 5,000 tokens.",
    "move details to files that the instructions refer to",
  ),
  "absolute-path": defineFinding(
    { all: "warning", load: "info" },
    "The instructions contain a path that exists on one machine only.",
    "use a path relative to the skill's folder",
  ),
  "tool-unknown": defineFinding({ all: "info" }, "The tool name is unknown.", "check the spelling"),
} as const satisfies Record<string, FindingRow>;

export type FindingCode = keyof typeof FINDING_CODES;

function defineFinding(severities: FindingSeverities, meaning: string, fix: string): FindingRow {
  return { severities, meaning, fix };
}
