import { type CodeRow, row } from "./row.ts";

/** Prompts that are written in code, copies of skills in other clients' folders, and the Claude Agent SDK. */
export const PROMPTS = {
  "definition-invalid": row(
    "A skill, section or prompt that is defined in code cannot be what it says.",
    "mend it as the message says",
  ),
  "template-invalid": row("A $ in a template begins no placeholder.", "write $$ for a dollar sign"),
  "parameter-missing": row("A value that the template takes is missing.", "give it with `bind` or `defaultParams`"),
  "parameter-type": row("A value is neither a text, a number nor a boolean.", "say it as a text before it is bound"),
  "section-unbound": row("Nothing of what a section takes is bound.", "give values with `bind`"),
  "section-unknown": row("There is no section of that key to open.", "open one of those that the message names"),
  "override-unknown": row("There is no section or tool of that name to put another text into.", "correct the name"),
  "override-refused": row("The section takes no other text.", "let it, where it is defined"),
  "ref-not-found": row(
    "The folder that a prompt refers to does not exist.",
    "correct the path; a relative one begins at basePath",
  ),
  "ref-not-directory": row("What a prompt refers to is no folder.", "name the folder that holds SKILL.md"),
  "ref-missing-skill-md": row(
    "The folder that a prompt refers to has no SKILL.md that can be read.",
    "write one, with name and description at its head",
  ),
  "ref-invalid-frontmatter": row(
    "The head of that SKILL.md is not as it must be, or names another skill than before.",
    "`skillet check` on the folder says what is wrong",
  ),

  // Copies for other clients
  "installation-failed": row(
    "A skill could not be put into a folder, or taken out of it; `cause` says why.",
    "check that the folder can be written to; nothing was left half-written",
  ),
  "no-home": row("The home folder or workspace to install into is not there.", "set HOME, or check --workspace"),
  "target-outside": row(
    "A link leads out of the workspace; nothing was written.",
    "put a folder or file in the place of the link",
  ),
  unreachable: row("The folder to install into cannot be reached.", "check the folder, and the links on the way to it"),
  "not-copied": row("A file of the skill cannot be copied as it is.", "mend what the message says"),
  "not-installed": row(
    "There is no copy of the skill in that client's folder.",
    "`skillet export --list` shows all copies",
  ),
  "up-to-date": row("Not an error: the copy is as skillet would write it.", "nothing is to be done"),
  outdated: row("The original has changed since the copy was made.", "`skillet export --update`"),
  removed: row("The copy was removed by hand.", "`skillet export --remove` removes it from the list"),
  "original-gone": row(
    "What the copy was made from is gone, so the copy counts as a skill itself.",
    "keep it, or remove it",
  ),
  "original-broken": row("What the copy was made from did not load.", "`skillet check` on it says why"),
  "switched-off": row(
    "The skill is switched off here, and the client still uses its copy.",
    "`skillet export --remove` removes the copy",
  ),
  elsewhere: row(
    "What the copy was made from is none of the skills found here, so it counts as one itself.",
    "nothing is to be done",
  ),
  "already-there": row("The skill is in the client's folder itself.", "nothing is to be done"),
  "last-copy": row(
    "What the copy was made from is gone, so it may be the last one.",
    "keep it somewhere else, then --force removes it",
  ),
  "inside-skill": row("The place to write to is in the skill's own folder.", "name another place with --output"),
  "auth-file": row(
    "A file to be signed in with cannot be brought into the home.",
    "name a regular file in that home, by its path in it",
  ),
  "home-left": row(
    "A home that was made for an agent could not be removed.",
    "end what still writes there; it is tried again",
  ),

  // Claude
  "claude-sdk-missing": row("The Claude Agent SDK is not installed.", "`npm install @anthropic-ai/claude-agent-sdk`"),
  "claude-sdk-broken": row("The Claude Agent SDK cannot be loaded.", "install it again"),
  "claude-failed": row("Claude Code ended without an answer.", "see the message; `claude doctor` says more"),
  "cwd-missing": row("The working folder is not there.", "make it, or name another as `cwd`"),
  "skills-not-installed": row(
    "A warning: without isolation, skills are not installed for Claude.",
    "evaluate it with `isolation: true`",
  ),
  "skills-changed": row(
    "The installed skills were changed while the prompt was evaluated.",
    "do not trust what came of it",
  ),
  "claude-sandbox-missing": row(
    "Claude Code has no sandbox for commands on this machine: a program that it needs is not installed.",
    "install the package that the message names, or leave `Bash` out of `tools`",
  ),
} as const satisfies Record<string, CodeRow>;
