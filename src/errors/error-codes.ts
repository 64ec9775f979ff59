import { FINDING_CODES } from "./finding-codes.ts";
import { type CodeRow, defineCode } from "./problem.ts";
import { ARCHIVE_ERROR_CODES, LOCK_CODES, SOURCE_CODES } from "./remote-codes.ts";
import { ENGINE_CODES, RUN_CODES, TOOL_CODES, USE_CODES } from "./run-codes.ts";
import { CAPABILITY_CODES, SCRIPT_CODES } from "./sandbox-codes.ts";

/** Codes of MCP servers that provide tools to runs, and of clients that connect to skillet. */
export const MCP_CODES = {
  "mcp-failed": defineCode(
    "The MCP server could not be reached, rejected the call, or exited.",
    "run `skillet doctor --tools` to check it",
  ),
  "mcp-timeout": defineCode("The server did not answer in time.", "request less, or raise its timeout_seconds"),
  "mcp-disabled": defineCode("The server is disabled.", "set enabled = true under [tools.mcp.NAME]"),
  "mcp-too-many-tools": defineCode(
    "A warning: the server has more tools than a run can use; the rest are omitted.",
    "list the tools that you need under [tools.mcp.NAME]",
  ),
  "mcp-tool-schema": defineCode(
    "A warning: a tool is omitted because its schema is too large or contains hidden text.",
    "ask the maintainer of the server to fix it",
  ),
  "mcp-tool-unknown": defineCode(
    "A warning: the configuration names a tool that the server does not have.",
    "correct the name of the tool under [tools.mcp.NAME]",
  ),
  "remote-mismatch": defineCode(
    "The server sent content whose size, digest or frontmatter differs from its listing; the skill is not used.",
    "run `skillet list --refresh` to read its listing again",
  ),
  "remote-not-fetched": defineCode(
    "A file of a remote skill was read before it was fetched.",
    "await skill.fetch() first, as sessions and commands do",
  ),
  "remote-export": defineCode(
    "A skill of an MCP server cannot be exported to a client, where it would look like your own skill.",
    "connect the client to the server",
  ),
  "tenant-busy": defineCode(
    "The tenant of the caller has reached its limit of calls.",
    "try again later, or raise the limit under [server.tenants.NAME]",
  ),
  "token-scope": defineCode(
    "The token of the caller does not have the scope that the call needs.",
    "ask the operator for a token with the scope: `skillet token create NAME --scope SCOPE`",
  ),
  "not-loadable": defineCode(
    "The skill runs as a sub-agent, so it cannot be loaded when the server starts.",
    "remove it from the list; clients call it with `use_skill`",
  ),
  "server-connected": defineCode(
    "Skills cannot be mounted on a connected server that declares no tools.",
    "call mountSkills before connect",
  ),
  "server-name-taken": defineCode(
    "The client's configuration has a different server with this name.",
    "choose another name with --name, or remove that server first",
  ),
  "unmanaged-keys": defineCode(
    "The client's entry for this name contains your own keys, which would be lost.",
    "remove them first, or choose another name with --name",
  ),
  "unmanaged-hook": defineCode(
    "The file at the path of skillet's hook was not written by skillet.",
    "rename it, or connect with --no-hook",
  ),
  "concurrent-change": defineCode(
    "A client's file changed while skillet prepared its edit; nothing was written.",
    "run the command again",
  ),
  "connections-unreadable": defineCode(
    "The record of changed client files cannot be read, so nothing was written.",
    "delete it; `connect --remove` can still remove the entries",
  ),
  "client-key-consent": defineCode(
    "The run would use an API key that the client passed to the server, without permission from the user.",
    "run `skillet config set mcp.use_client_key true`, or configure a model",
  ),
  "connection-broken": defineCode(
    "A client is connected, but its server or hook does not respond.",
    "run `skillet connect claude`, or the same for another client, to write both again",
  ),
} as const satisfies Record<string, CodeRow>;

/** Codes of `skillet studio`. */
export const STUDIO_CODES = {
  "studio-session": defineCode(
    "The page has no session, or it ended with the process of `skillet studio`.",
    "open the link that `skillet studio` prints; each link works once",
  ),
  "studio-origin": defineCode(
    "The request came from another page, or to a name that is not one of `skillet studio`.",
    "use the address that `skillet studio` prints",
  ),
  "studio-read-only": defineCode(
    "The page is read-only: it approves, resumes and cancels nothing.",
    "start `skillet studio` without --read-only",
  ),
  "studio-not-built": defineCode(
    "The files of the page are missing: this is a clone that was not built.",
    "run `npm run build`",
  ),
} as const satisfies Record<string, CodeRow>;

/** Codes of prompts that are defined in code, of exported copies of skills, and of the Claude Agent SDK. */
export const PROMPT_CODES = {
  "definition-invalid": defineCode(
    "A skill, section or prompt defined in code is invalid.",
    "correct the field that the message names",
  ),
  "template-invalid": defineCode("A $ in a template does not start a placeholder.", "write $$ for a dollar sign"),
  "parameter-missing": defineCode("A template parameter has no value.", "set it with `bind` or `defaultParams`"),
  "parameter-type": defineCode(
    "A value is not a string, number or boolean.",
    "convert it to a string before you bind it",
  ),
  "section-unbound": defineCode("None of the parameters of a section are bound.", "set values with `bind`"),
  "section-unknown": defineCode(
    "There is no section with this key to open.",
    "open one of the sections in the message",
  ),
  "override-unknown": defineCode("There is no section or tool with this name to override.", "correct the name"),
  "override-refused": defineCode(
    "The section cannot be overridden.",
    "allow overrides in the definition of the section",
  ),
  "ref-not-found": defineCode(
    "The folder that a prompt refers to does not exist.",
    "correct the path; relative paths start at basePath",
  ),
  "ref-not-directory": defineCode(
    "The path that a prompt refers to is not a folder.",
    "use the path of the folder that contains SKILL.md",
  ),
  "ref-missing-skill-md": defineCode(
    "The folder that a prompt refers to has no readable SKILL.md.",
    "create one with name and description in its frontmatter",
  ),
  "ref-invalid-frontmatter": defineCode(
    "The frontmatter of the SKILL.md is invalid, or its name has changed.",
    "run `skillet check` on the folder",
  ),

  // Copies for other clients
  "installation-failed": defineCode(
    "A skill could not be written to a folder or removed from it; `cause` has the reason.",
    "check that the folder is writable; no partial copy was left",
  ),
  "no-home": defineCode(
    "The home folder or workspace to install into does not exist.",
    "set HOME, or check --workspace",
  ),
  "target-outside": defineCode(
    "A symlink points outside the workspace; nothing was written.",
    "replace the symlink with a folder or file",
  ),
  "target-unreachable": defineCode(
    "The folder to install into cannot be opened.",
    "check the folder and the symlinks in its path",
  ),
  "not-copied": defineCode("A file of the skill cannot be copied unchanged.", "fix the file that the message names"),
  "not-exported": defineCode(
    "There is no copy of the skill in that client's folder.",
    "run `skillet export --list` to list all copies",
  ),
  "up-to-date": defineCode("Not an error: the copy is up to date.", "no action needed"),
  outdated: defineCode("The original has changed since the copy was made.", "run `skillet export --update`"),
  removed: defineCode("The copy was deleted manually.", "run `skillet export --remove` to remove it from the list"),
  "original-missing": defineCode(
    "The original of the copy no longer exists, so the copy is treated as a skill.",
    "keep the copy, or remove it",
  ),
  "original-broken": defineCode("The original of the copy did not load.", "run `skillet check` on the original"),
  "original-disabled": defineCode(
    "The skill is disabled here, but the client still uses its copy.",
    "run `skillet export --remove` to remove the copy",
  ),
  "original-not-listed": defineCode(
    "The original of the copy is not among the skills found here, so the copy is treated as a skill.",
    "no action needed",
  ),
  "already-present": defineCode("The original of the skill is in the client's folder.", "no action needed"),
  "last-copy": defineCode(
    "The original of the copy no longer exists, so this may be the last copy.",
    "save it in another folder, then remove it with --force",
  ),
  "output-inside-skill": defineCode(
    "The output path is inside the skill's own folder.",
    "choose another path with --output",
  ),
  "auth-file": defineCode(
    "A sign-in file cannot be copied to the home folder of the agent.",
    "use the path of a regular file, relative to that home folder",
  ),
  "home-not-removed": defineCode(
    "A home folder that was created for an agent could not be removed.",
    "end the processes that still write to it; removal is retried",
  ),

  // Claude
  "claude-sdk-missing": defineCode(
    "The Claude Agent SDK is not installed.",
    "run `npm install @anthropic-ai/claude-agent-sdk`",
  ),
  "claude-sdk-broken": defineCode("The Claude Agent SDK cannot be loaded.", "install it again"),
  "claude-failed": defineCode(
    "Claude Code ended without an answer.",
    "read the message, and run `claude doctor` for details",
  ),
  "cwd-missing": defineCode("The working directory does not exist.", "create it, or set another one as `cwd`"),
  "skills-not-installed": defineCode(
    "A warning: without isolation, skills are not installed for Claude.",
    "evaluate the prompt with `isolation: true`",
  ),
  "skills-changed": defineCode(
    "The installed skills changed while the prompt was evaluated.",
    "do not trust the result; evaluate the prompt again",
  ),
  "claude-sandbox-missing": defineCode(
    "A program that Claude Code needs for its command sandbox is not installed.",
    "install the package that the message names, or remove `Bash` from `tools`",
  ),
} as const satisfies Record<string, CodeRow>;

/** Codes of the command line, and of files that several parts of skillet write. */
export const COMMAND_CODES = {
  "eval-invalid": defineCode(
    "A file with cases of an evaluation cannot be read.",
    "correct it; `skillet schema evals` prints the JSON Schema",
  ),
  "eval-empty": defineCode(
    "No skill has cases for this level of evaluation.",
    "write the file that the message names; docs/eval.md describes the formats",
  ),
  "eval-ceiling": defineCode(
    "The evaluation reached its cost ceiling. What was finished is reported.",
    "raise --max-cost, and continue with --resume",
  ),
  "eval-unpriced": defineCode(
    "A ceiling in dollars needs the price of the model.",
    "add a table [prices.MODEL] to config.toml",
  ),
  "replay-differs": defineCode(
    "A replayed run differs from the recorded one.",
    "read the difference; if it is intended, record the run again with `skillet run --record`",
  ),
  "agent-failed": defineCode(
    "The command of `--agent` could not be run, or ended without an answer.",
    "run the command by hand; its keys must be in the environment",
  ),
  "eval-running": defineCode("Another process runs the evaluation that is to be resumed.", "wait for it, or end it"),
  "token-file": defineCode(
    "The token file of `skillet serve --http` cannot be used.",
    "remove it, and start the server again to create a new token",
  ),
  "tokens-unreadable": defineCode(
    "The file with the tokens of people cannot be read, so none of them counts.",
    "fix the file, or remove it and create the tokens again",
  ),
  usage: defineCode(
    "The command line or the piped input is invalid.",
    "read the message, and run `skillet COMMAND --help`",
  ),
  "not-confirmed": defineCode(
    "The user declined, or the command ran non-interactively and could not ask.",
    "run it in a terminal, or with --yes if the command has it",
  ),
  "config-unreadable": defineCode(
    "A configuration file cannot be read, and the command does not fall back to defaults.",
    "fix the line in the message",
  ),
  "internal-error": defineCode("skillet failed with an unexpected error.", "report it with the command that you ran"),
  interrupted: defineCode("The command was interrupted with Ctrl-C.", "run it again if that was not intended"),
  exists: defineCode(
    "The file or folder to write already exists.",
    "choose another name or path, or use --force if the command has it",
  ),
  "install-failed": defineCode(
    "A package manager could not install packages.",
    "run the command in the message yourself",
  ),
  unwritable: defineCode("A file or folder cannot be written.", "check its permissions and the free disk space"),
  locked: defineCode(
    "Another skillet process has locked a file for too long.",
    "wait for it to end; if none is running, remove the lock file that the message names",
  ),
  "config-edit": defineCode(
    "The configuration contains syntax that skillet cannot edit safely; nothing was written.",
    "edit the line manually",
  ),
} as const satisfies Record<string, CodeRow>;

/** Every code of skillet, each in one table. Import only the types: the texts are for docs/errors.md and `skillet help`. */
export const ERROR_CODES = {
  ...{
    ...FINDING_CODES,
    ...SOURCE_CODES,
    ...ARCHIVE_ERROR_CODES,
    ...LOCK_CODES,
    ...USE_CODES,
    ...RUN_CODES,
    ...ENGINE_CODES,
    ...SCRIPT_CODES,
  },
  ...{ ...TOOL_CODES, ...CAPABILITY_CODES, ...MCP_CODES, ...STUDIO_CODES, ...PROMPT_CODES, ...COMMAND_CODES },
} as const;

/** Results of tools and events may contain other codes of third-party code, so they type a code as `string`. */
export type ErrorCode = keyof typeof ERROR_CODES;
