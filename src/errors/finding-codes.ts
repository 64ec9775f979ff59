import type { CodeRow } from "./problem.ts";

/** One row a code. `weigh` has a letter a profile (load, agentskills, shipped, claude-upload, vscode): e, w, i or - for not said; E is an error that is only reported. */
export interface FindingRow extends CodeRow {
  weigh: string;
}

// In the first column, `e` means exactly that the file is not loaded as a skill.
export const FINDING_CODES = {
  // The file
  "not-found": defineFinding("eeeee", "Nothing of that name or path is there.", "check the name or the path"),
  unreadable: defineFinding("eeeee", "The file or folder cannot be read.", "give yourself read permission"),
  "not-a-file": defineFinding(
    "eeeee",
    "The name belongs to a folder, pipe, socket or device.",
    "put a regular file in its place",
  ),
  "not-a-folder": defineFinding(
    "eeeee",
    "The name belongs to a file, not to a folder of skills.",
    "put a folder in its place",
  ),
  "link-broken": defineFinding("eeeee", "A link points to nothing.", "remove the link or restore what it points to"),
  "link-loop": defineFinding("eeeee", "A link leads back to itself.", "remove the link"),
  "link-outside": defineFinding(
    "wwewe",
    "A link in the skill's folder leaves it; the file is not served.",
    "copy the file into the skill's folder",
  ),
  "hard-link-outside": defineFinding(
    "wwewe",
    "A file of a skill in the workspace has another name outside of the skill's folder; it is not served.",
    "put a copy in its place: cp FILE FILE.new && mv FILE.new FILE",
  ),
  "skill-file-shared": defineFinding(
    "eeeee",
    "The file of a skill in the workspace has another name outside of the skill's folder; it is not read.",
    "put a copy in its place: cp FILE FILE.new && mv FILE.new FILE",
  ),
  "file-skipped": defineFinding(
    "wwewe",
    "Something in the skill's folder is no readable regular file; it is not served.",
    "remove it, or put a regular file in its place",
  ),
  "file-too-large": defineFinding("eeeee", "A skill file is larger than 1 MiB.", "move the bulk into files beside it"),
  "not-utf8": defineFinding("eeeee", "The file is not UTF-8 text.", "save it as UTF-8 (`--fix` converts UTF-16)"),
  "body-encoding": defineFinding(
    "weeee",
    "The instructions are not UTF-8 text; what cannot be read is replaced.",
    "save the file as UTF-8",
  ),
  "not-written": defineFinding(
    "eeeee",
    "A file could not be fixed in place.",
    "give yourself write permission to its folder",
  ),
  "fix-refused": defineFinding(
    "wwwww",
    "A fix would change more than it reports; the file was not written.",
    "fix it by hand",
  ),
  "file-case": defineFinding(
    "weeee",
    "The file is not called exactly SKILL.md, so other clients do not see it.",
    "rename it to SKILL.md",
  ),
  "file-name": defineFinding(
    "weeee",
    "A folder has no SKILL.md but a file that looks like it was meant to be one.",
    "rename it to SKILL.md",
  ),
  "file-mode": defineFinding("wwewe", "A file has its set-user-id or set-group-id bit set.", "clear it: chmod ug-s"),
  "too-many-files": defineFinding(
    "wwewe",
    "The skill's folder holds more files than are listed.",
    "keep only what the skill needs beside SKILL.md",
  ),
  "nearer-copy-broken": defineFinding(
    "wwwww",
    "A file that would be the nearest copy of a skill does not load, so a farther copy of the same name is used in its place.",
    "fix the file, or remove it",
  ),
  "nested-skill": defineFinding(
    "iiiii",
    "A skill is inside the folder of another one. It loads under its own name, and its files are files of the other one too.",
    "no action needed; move its folder next to the other one to keep them apart",
  ),
  "nested-skipped": defineFinding(
    "iiiii",
    "A SKILL.md inside the folder of a skill is not loaded: it is below `tests`, `fixtures`, `examples` or `templates`, or has no frontmatter.",
    "no action needed; move its folder next to the other one to load it",
  ),
  "remote-unavailable": defineFinding(
    "wwwww",
    "The skills of an MCP server could not be listed. Those of its last listing are used, if there is one.",
    "start the server, or correct [tools.mcp.NAME]; then run `skillet list --refresh`",
  ),
  "remote-entry": defineFinding(
    "wwwww",
    "An MCP server lists a skill that cannot be used: it is not valid, cannot be verified, or is too large.",
    "report it to its maintainer",
  ),
  "remote-limit": defineFinding(
    "wwwww",
    "An MCP server lists more skills than are read.",
    "report it to its maintainer",
  ),
  "remote-name-taken": defineFinding(
    "iiiii",
    "A skill of an MCP server has the name of another skill. The other one keeps the name.",
    "use `name@mcp:SERVER` to name this one",
  ),
  "source-failed": defineFinding("eeeee", "A source of skills could not be read at all.", "see the message"),
  "too-deep": defineFinding(
    "wwwww",
    "Folders are nested deeper than the search goes.",
    "move the skills nearer to the top",
  ),
  "too-many-skills": defineFinding(
    "wwwww",
    "The folder holds more than the search takes.",
    "split it, or name its parts as sources of their own",
  ),

  // The frontmatter's frame
  "byte-order-mark": defineFinding(
    "iwwww",
    "The file starts with a byte order mark; many loaders then see no frontmatter.",
    "save it without one (`--fix` removes it)",
  ),
  "line-ends": defineFinding("iwwww", "Lines end the Windows way.", "save it with plain line feeds (`--fix` does)"),
  "leading-blank": defineFinding(
    "weeee",
    "Blank lines stand before the frontmatter.",
    "start the file with --- (`--fix` does)",
  ),
  "leading-comment": defineFinding(
    "weeee",
    "A comment or label line is before the frontmatter; other loaders then see no frontmatter.",
    "start the file with --- (`--fix` removes the line)",
  ),
  "delimiter-blanks": defineFinding("iwwww", "A --- line has blanks after it.", "remove them (`--fix` does)"),
  "frontmatter-missing": defineFinding(
    "eeeee",
    "The file does not start with a --- line, so it has no frontmatter.",
    "start it with ---, description: …, ---",
  ),
  "frontmatter-unclosed": defineFinding(
    "eeeee",
    "The frontmatter has no closing --- line.",
    "add a line --- before the instructions",
  ),
  "frontmatter-language": defineFinding(
    "eeeee",
    "The opening line names a language; only YAML is read and nothing is ever run.",
    "write the opening line as ---",
  ),
  "frontmatter-too-large": defineFinding(
    "eeeee",
    "The frontmatter is larger than 64 KiB.",
    "move text into the instructions or into files",
  ),
  "frontmatter-type": defineFinding(
    "eeeee",
    "The frontmatter is not a list of `key: value` lines.",
    "write it as key: value lines",
  ),
  "yaml-syntax": defineFinding(
    "eeeee",
    "The YAML cannot be read.",
    "mend the line; quote values with special characters",
  ),
  "yaml-repaired": defineFinding(
    "weeee",
    "A value needed quotes; it was read as text, but other loaders refuse the file.",
    "quote the value (`--fix` does)",
  ),
  "yaml-duplicate": defineFinding("weeee", "A key stands twice; the last one counts.", "remove one of them"),
  "yaml-alias": defineFinding("eeeee", "Anchors and aliases are not accepted.", "write the value out"),
  "yaml-tag": defineFinding("eeeee", "YAML tags are not accepted.", "remove the tag"),
  "yaml-limit": defineFinding(
    "eeeee",
    "The frontmatter is nested deeper than 16 levels or has more than 256 keys in one place.",
    "make it smaller",
  ),
  "yaml-documents": defineFinding("eeeee", "The file holds several YAML documents.", "keep one"),
  "value-cut": defineFinding(
    "wwwww",
    "A # after a blank starts a comment, so the rest of the line is not part of the value.",
    "quote the value if the # belongs to it",
  ),
  "control-character": defineFinding("eeeee", "The frontmatter holds a control character.", "remove it"),
  "hidden-text": defineFinding(
    "eeeee",
    "The frontmatter holds invisible or direction-changing characters.",
    "remove them",
  ),

  // Fields
  "name-missing": defineFinding(
    "-eeee",
    "There is no name; the folder or file name serves.",
    "add name: with the folder's name (`--fix` does)",
  ),
  "name-type": defineFinding("weeee", "The name is not text.", "quote it"),
  "name-unusable": defineFinding(
    "weeee",
    "The name cannot be used; the folder or file name serves in its place.",
    "use lower-case letters, digits and hyphens",
  ),
  "name-none": defineFinding(
    "eeeee",
    "Neither the name nor the folder or file name can be used.",
    "add a name of lower-case letters, digits and hyphens",
  ),
  "name-reserved": defineFinding("weeee", "The name is reserved.", "choose another name"),
  "name-lookalike": defineFinding(
    "weeee",
    "The name mixes scripts or uses letters that look like others.",
    "write it with plain letters a to z",
  ),
  "name-format": defineFinding(
    "ieeee",
    "The name is not lower-case letters, digits and single hyphens.",
    "rename it, for example `my-skill`",
  ),
  "name-device": defineFinding(
    "-wewe",
    "The name is a device on Windows, so the folder cannot exist there.",
    "choose another name",
  ),
  "name-vendor": defineFinding(
    "---e-",
    "Uploads refuse names that hold `claude` or `anthropic`.",
    "choose another name",
  ),
  "name-differs": defineFinding(
    "ieewe",
    "The name differs from the folder's; some clients refuse the skill.",
    "make them equal (`--fix` takes the folder's name where the profile refuses the other)",
  ),
  "name-case-clash": defineFinding(
    "wwwww",
    "Two skills' names differ only in capitals; they collide on some file systems.",
    "rename one",
  ),
  "description-missing": defineFinding(
    "eeeee",
    "There is no description, so no model could know when to use the skill.",
    "add description: what it does and when to use it",
  ),
  "description-type": defineFinding("weeee", "The description is not text.", "write it as one quoted sentence"),
  "description-too-long": defineFinding(
    "Eeeee",
    "The description is longer than 1024 characters.",
    "shorten it; details belong in the instructions",
  ),
  "description-long": defineFinding(
    "wwwww",
    "The description is longer than 500 characters; every client pays for it in every conversation.",
    "shorten it",
  ),
  "description-markup": defineFinding("iwwew", "The description holds angle brackets.", "write it as plain text"),
  "compatibility-too-long": defineFinding("-eewe", "compatibility is longer than 500 characters.", "shorten it"),
  "body-missing": defineFinding("eeeee", "There are no instructions.", "write them below the closing --- line"),
  "field-type": defineFinding("weeee", "A field has the wrong type and is left out.", "write it as the message says"),
  "field-value": defineFinding(
    "weeee",
    "A field's value is out of range and is left out.",
    "write it as the message says",
  ),
  "key-unknown": defineFinding(
    "ieeew",
    "No client reads this key in a skill; it is kept as data.",
    "put it under metadata:",
  ),
  "key-misspelled": defineFinding(
    "weeee",
    "The key looks misspelled and has no effect.",
    "rename it (`--fix --rename KEY`)",
  ),
  "key-twice": defineFinding(
    "wwwww",
    "Two spellings of one field stand in the file; the first in order of preference counts.",
    "keep one",
  ),
  "key-client": defineFinding(
    "-e-e-",
    "Some clients know the key, but not the standard.",
    "keep it for those clients alone",
  ),
  "key-extension": defineFinding("-e-ew", "The key is skillet's extension of the standard.", "put it under metadata:"),
  "key-other-client": defineFinding(
    "-e-ew",
    "The key is an extension that some clients read, at the top level only: under metadata it has no effect.",
    "keep it for those clients, or leave it out for others",
  ),
  "key-top-level": defineFinding(
    "-e-ew",
    "The key is skillet's extension of the standard, and is read only at the top level: under metadata it has no effect.",
    "keep it for skillet, or leave it out for clients that refuse other keys",
  ),
  "key-author": defineFinding(
    "-eeew",
    "The author is at the top level: shipped skills have it under metadata.",
    "put it there",
  ),
  "version-missing": defineFinding("--e--", "There is no version under metadata.", "add metadata: version: 1.0.0"),
  "version-format": defineFinding("iwewi", "The version is not major.minor.patch.", "write it like 1.0.0"),
  "tags-missing": defineFinding("--e--", "There are no tags under metadata.", "add metadata: tags: [a, b]"),
  "capability-format": defineFinding(
    "Eeeee",
    "Capability ids have no namespace: no host can grant them.",
    "write it like gog.email",
  ),
  "provider-wiring": defineFinding(
    "wwwww",
    "Provider wiring in a skill is never read: it belongs to whoever runs the skill.",
    "remove it; whoever runs the skill says in their configuration which provider serves it",
  ),
  "trigger-pattern": defineFinding(
    "weeee",
    "A pattern under triggers cannot be matched in linear time, or not at all; it is left out.",
    "write it as the message says; the other triggers work",
  ),
  "trigger-broad": defineFinding(
    "wwwww",
    "A trigger fits every query or most of them: a common word, a glob for most files, a pattern without a word. Alone it never gives a model the instructions.",
    "use a phrase of two or more words that the skill is for",
  ),
  "trigger-unusable": defineFinding(
    "weeee",
    "A keyword, verb or cue under triggers holds no word, or too many; it is left out.",
    "use a word or a short phrase",
  ),
  "trigger-limit": defineFinding(
    "weeee",
    "There are more triggers than are looked at; the rest is left out.",
    "keep those that tell the skill from others",
  ),
  "variable-name": defineFinding(
    "weeee",
    "A name under env is none of a variable, or decides how programs start; the skill's code cannot run with it.",
    "give the variable another name",
  ),
  "package-name": defineFinding(
    "weeee",
    "A name under packages is no exact name of a system package; the skill's code cannot run.",
    "write the plain name, as jq or g++: no version, pattern, path or option",
  ),
  "toolset-ref": defineFinding(
    "weeee",
    "An entry under toolsets names no file of the skill with an export; the skill's tools are not there.",
    "write it as toolsets/index:MyToolset: a file in the skill's folder, and what it exports",
  ),
  "schema-reference": defineFinding(
    "weeee",
    "input_schema refers to another address; nothing is ever fetched, so the schema is left out.",
    "write the referenced schema under $defs",
  ),

  // The configuration
  "config-ash": defineFinding(
    "iiiii",
    "The configuration of ash is read, below that of skillet.",
    "move its keys there",
  ),
  "config-syntax": defineFinding(
    "eeeee",
    "A configuration file cannot be read as what it should be; defaults are used in its place, or in a running server or chat what was in effect before, and nothing is written to it.",
    "mend the line",
  ),
  "config-unknown": defineFinding("wwwww", "The configuration has no such key.", "remove or correct it"),
  "config-type": defineFinding(
    "wwwww",
    "A configuration value has the wrong type and is left out; a running server or chat keeps the value from before.",
    "write it as the message says",
  ),
  "config-refused": defineFinding(
    "eeeee",
    "A workspace's configuration may not set this.",
    "remove it; what you want for yourself, put into your own config.toml",
  ),
  "config-undeclared": defineFinding(
    "wwwww",
    "A variable is set for a skill that does not declare it; it is not given to the skill.",
    "add it to the skill's env:, or remove it",
  ),
  "config-skill": defineFinding(
    "iiiii",
    "The configuration is about a skill that is not found here.",
    "correct its name; one of another workspace is fine",
  ),
  "config-source": defineFinding(
    "wwwww",
    "A source of skills in the configuration has no folder, or one that is not there.",
    "correct its path, or remove it",
  ),
  "config-readable": defineFinding(
    "wwwww",
    "A configuration file with values of skills can be read by other users.",
    "chmod 600 it",
  ),
  "installs-unreadable": defineFinding(
    "wwwww",
    "The record of installed copies cannot be read, so they count as skills.",
    "mend it, or remove it to start anew",
  ),
  "lock-unreadable": defineFinding(
    "wwwww",
    "The lock of a folder of skills cannot be used, so none of the skills in it is.",
    "take it from your version control, or remove it and add the skills again",
  ),

  // Style of the instructions
  "hidden-text-body": defineFinding(
    "wwewe",
    "The instructions hold invisible or direction-changing characters.",
    "remove them",
  ),
  "dead-link": defineFinding(
    "wweww",
    "A link in the instructions points to a file that is not there.",
    "correct the link or add the file",
  ),
  "link-outside-skill": defineFinding(
    "iiwii",
    "A link in the instructions points to a file outside of the skill's folder; a copy of the skill does not have it.",
    "copy the file into the skill's folder, or link to its address on the web",
  ),
  "script-missing": defineFinding(
    "wweww",
    "A script that the skill declares is not in its folder.",
    "correct the path, or add the file",
  ),
  "toolset-missing": defineFinding(
    "wweww",
    "A toolset that the skill declares is not in its folder; the skill's tools are not there.",
    "correct the path, or add the file",
  ),
  tab: defineFinding("iiiii", "A line is indented with tabs.", "indent with spaces"),
  "long-line": defineFinding("iiiii", "A line is longer than 500 characters.", "break it"),
  "open-task": defineFinding("wweww", "The instructions still hold a TODO.", "finish or remove it"),
  "no-cue": defineFinding("iiwii", "The description does not say when to use the skill.", 'add "Use when …"'),
  "body-long": defineFinding(
    "iwwww",
    "The instructions are longer than 500 lines or about 5,000 tokens.",
    "move details into files that the instructions name",
  ),
  "absolute-path": defineFinding(
    "iwwww",
    "The instructions name a path of one machine.",
    "use a path relative to the skill's folder",
  ),
  "tool-unknown": defineFinding("iiiii", "There is no tool of this name.", "check the spelling"),
} as const satisfies Record<string, FindingRow>;

export type FindingCode = keyof typeof FINDING_CODES;

function defineFinding(weigh: string, means: string, fix: string): FindingRow {
  return { weigh, means, fix };
}
