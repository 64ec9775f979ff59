import { FINDING_CODES } from "./finding-codes.ts";
import { type CodeRow, defineCode } from "./problem.ts";
import { ARCHIVE_ERROR_CODES, LOCK_CODES, SOURCE_CODES } from "./remote-codes.ts";
import { RUN_CODES, TOOL_CODES, USE_CODES } from "./run-codes.ts";
import { CAPABILITY_CODES, SCRIPT_CODES } from "./sandbox-codes.ts";

/** Servers whose tools runs have, and clients that are told of this one. */
export const MCP_CODES = {
  "mcp-failed": defineCode(
    "The server could not be had, refused the call, or died.",
    "`skillet doctor --tools` says how it is",
  ),
  "mcp-timeout": defineCode("The server did not answer in time.", "ask it for less, or raise its timeout_seconds"),
  "mcp-disabled": defineCode("The server is switched off.", "set enabled = true under [tools.mcp.NAME]"),
  "mcp-many": defineCode(
    "A warning: the server has more tools than are given to runs.",
    "name those that are needed under [tools.mcp.NAME]",
  ),
  "mcp-schema": defineCode(
    "A warning: a tool is left out, since its schema is too large or hides something.",
    "ask whoever makes the server to mend it",
  ),
  "mcp-tool": defineCode(
    "A warning: the server does not have a tool that the configuration names.",
    "correct [tools.mcp.NAME]",
  ),
  "remote-mismatch": defineCode(
    "The server sent other content for a skill than it listed: another size, digest or frontmatter. It is not used.",
    "run `skillet list --refresh` to read its listing again",
  ),
  "remote-not-fetched": defineCode(
    "A file of a remote skill was read before it was fetched.",
    "await skill.fetch() first; sessions and commands do so",
  ),
  "remote-export": defineCode(
    "A skill of an MCP server is not copied into the folders of clients, where it would pass for one of yours.",
    "connect the client to the server",
  ),
  "not-loadable": defineCode(
    "The skill works on its own, so it cannot be loaded when the server starts.",
    "leave it out: clients call it with `use_skill`",
  ),
  "server-connected": defineCode(
    "Skills cannot be mounted on a server that is connected and declares no tools.",
    "call mountSkills before connect",
  ),
  "another-server": defineCode(
    "The client's configuration has another server of this name.",
    "choose another with --name, or take it out first",
  ),
  "keys-at-stake": defineCode(
    "The client's configuration has keys of yours at this name, which would be lost.",
    "take them out first, or choose another with --name",
  ),
  "another-hook": defineCode(
    "A file in the place of skillet's hook was not written by skillet.",
    "rename it, or connect with --no-hook",
  ),
  "changed-meanwhile": defineCode(
    "A client's file changed between the plan and the change; nothing was written.",
    "run the command again",
  ),
  "connections-unreadable": defineCode(
    "The record of changed client files cannot be read, so nothing was written.",
    "delete it: `connect --remove` then still removes its entries",
  ),
  "client-key-consent": defineCode(
    "A use would spend an API key that the client passed to the server, and the user has not allowed that.",
    "`skillet config set mcp.use_client_key true`, or configure a model",
  ),
  "connection-broken": defineCode(
    "A client is connected, and its server or hook does not answer.",
    "`skillet connect claude` writes both again; likewise for other clients",
  ),
} as const satisfies Record<string, CodeRow>;

/** Prompts that are written in code, copies of skills in other clients' folders, and the Claude Agent SDK. */
export const PROMPT_CODES = {
  "definition-invalid": defineCode(
    "A skill, section or prompt that is defined in code cannot be what it says.",
    "mend it as the message says",
  ),
  "template-invalid": defineCode("A $ in a template begins no placeholder.", "write $$ for a dollar sign"),
  "parameter-missing": defineCode(
    "A value that the template takes is missing.",
    "give it with `bind` or `defaultParams`",
  ),
  "parameter-type": defineCode(
    "A value is neither a text, a number nor a boolean.",
    "say it as a text before it is bound",
  ),
  "section-unbound": defineCode("Nothing of what a section takes is bound.", "give values with `bind`"),
  "section-unknown": defineCode("There is no section of that key to open.", "open one of those that the message names"),
  "override-unknown": defineCode(
    "There is no section or tool of that name to put another text into.",
    "correct the name",
  ),
  "override-refused": defineCode("The section takes no other text.", "let it, where it is defined"),
  "ref-not-found": defineCode(
    "The folder that a prompt refers to does not exist.",
    "correct the path; a relative one begins at basePath",
  ),
  "ref-not-directory": defineCode("What a prompt refers to is no folder.", "name the folder that holds SKILL.md"),
  "ref-missing-skill-md": defineCode(
    "The folder that a prompt refers to has no SKILL.md that can be read.",
    "write one, with name and description at its head",
  ),
  "ref-invalid-frontmatter": defineCode(
    "The head of that SKILL.md is not as it must be, or names another skill than before.",
    "`skillet check` on the folder says what is wrong",
  ),

  // Copies for other clients
  "installation-failed": defineCode(
    "A skill could not be put into a folder, or taken out of it; `cause` says why.",
    "check that the folder can be written to; nothing was left half-written",
  ),
  "no-home": defineCode("The home folder or workspace to install into is not there.", "set HOME, or check --workspace"),
  "target-outside": defineCode(
    "A link leads out of the workspace; nothing was written.",
    "put a folder or file in the place of the link",
  ),
  unreachable: defineCode(
    "The folder to install into cannot be reached.",
    "check the folder, and the links on the way to it",
  ),
  "not-copied": defineCode("A file of the skill cannot be copied as it is.", "mend what the message says"),
  "not-installed": defineCode(
    "There is no copy of the skill in that client's folder.",
    "`skillet export --list` shows all copies",
  ),
  "up-to-date": defineCode("Not an error: the copy is as skillet would write it.", "nothing is to be done"),
  outdated: defineCode("The original has changed since the copy was made.", "`skillet export --update`"),
  removed: defineCode("The copy was removed by hand.", "`skillet export --remove` removes it from the list"),
  "original-gone": defineCode(
    "What the copy was made from is gone, so the copy counts as a skill itself.",
    "keep it, or remove it",
  ),
  "original-broken": defineCode("What the copy was made from did not load.", "`skillet check` on it says why"),
  "switched-off": defineCode(
    "The skill is switched off here, and the client still uses its copy.",
    "`skillet export --remove` removes the copy",
  ),
  elsewhere: defineCode(
    "What the copy was made from is none of the skills found here, so it counts as one itself.",
    "nothing is to be done",
  ),
  "already-there": defineCode("The skill is in the client's folder itself.", "nothing is to be done"),
  "last-copy": defineCode(
    "What the copy was made from is gone, so it may be the last one.",
    "keep it somewhere else, then --force removes it",
  ),
  "inside-skill": defineCode("The place to write to is in the skill's own folder.", "name another place with --output"),
  "auth-file": defineCode(
    "A file to be signed in with cannot be brought into the home.",
    "name a regular file in that home, by its path in it",
  ),
  "home-left": defineCode(
    "A home that was made for an agent could not be removed.",
    "end what still writes there; it is tried again",
  ),

  // Claude
  "claude-sdk-missing": defineCode(
    "The Claude Agent SDK is not installed.",
    "`npm install @anthropic-ai/claude-agent-sdk`",
  ),
  "claude-sdk-broken": defineCode("The Claude Agent SDK cannot be loaded.", "install it again"),
  "claude-failed": defineCode("Claude Code ended without an answer.", "see the message; `claude doctor` says more"),
  "cwd-missing": defineCode("The working folder is not there.", "make it, or name another as `cwd`"),
  "skills-not-installed": defineCode(
    "A warning: without isolation, skills are not installed for Claude.",
    "evaluate it with `isolation: true`",
  ),
  "skills-changed": defineCode(
    "The installed skills were changed while the prompt was evaluated.",
    "do not trust what came of it",
  ),
  "claude-sandbox-missing": defineCode(
    "Claude Code has no sandbox for commands on this machine: a program that it needs is not installed.",
    "install the package that the message names, or leave `Bash` out of `tools`",
  ),
} as const satisfies Record<string, CodeRow>;

/** The command line itself, and files that several parts write. */
export const COMMAND_CODES = {
  "token-file": defineCode(
    "The file with the token of `skillet serve --http` cannot be used.",
    "remove it, and start the server again: it creates a new token",
  ),
  usage: defineCode(
    "The command line, or what was piped in, is not as it must be.",
    "see the message, and `skillet COMMAND --help`",
  ),
  "not-agreed": defineCode(
    "Somebody said no, or there was nobody who could say yes.",
    "run it at a terminal, or say --yes where there is one",
  ),
  "config-unreadable": defineCode(
    "A configuration file cannot be read, and the command does nothing where defaults would stand in.",
    "mend the line that is named",
  ),
  bug: defineCode("Something that skillet did not expect.", "please report it with the command you ran"),
  interrupted: defineCode("Ctrl-C ended it.", "run it again if that was not meant"),
  exists: defineCode(
    "What is to be written is there already.",
    "choose another name or place, or --force where there is one",
  ),
  "install-failed": defineCode(
    "A package manager could not install packages.",
    "run the command of the message yourself",
  ),
  unwritable: defineCode(
    "A file or folder cannot be written.",
    "check that it can be written to, and that there is room",
  ),
  locked: defineCode(
    "Another skillet has held a file for too long.",
    "wait for it to end; if none runs, remove the lock that the message names",
  ),
  "config-edit": defineCode(
    "A configuration writes this in a way that only a person can change; nothing was written.",
    "change the line by hand",
  ),
} as const satisfies Record<string, CodeRow>;

/** Every code that skillet gives, each in one table. Import the types alone: the words are for docs/errors.md. */
export const ERROR_CODES = {
  ...{
    ...FINDING_CODES,
    ...SOURCE_CODES,
    ...ARCHIVE_ERROR_CODES,
    ...LOCK_CODES,
    ...USE_CODES,
    ...RUN_CODES,
    ...SCRIPT_CODES,
  },
  ...{ ...TOOL_CODES, ...CAPABILITY_CODES, ...MCP_CODES, ...PROMPT_CODES, ...COMMAND_CODES },
} as const;

/** Where code of others may bring codes of its own (results of tools, events), a code is any text. */
export type ErrorCode = keyof typeof ERROR_CODES;
