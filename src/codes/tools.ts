import { type CodeRow, row } from "./row.ts";

/** Calls of tools: those of a session, of a run, of a skill's toolset. */
export const TOOLS = {
  "input-invalid": row("The input does not fit what is asked for.", "the message says what it takes"),
  "tool-blocked": row(
    "The skill may not use this tool, or not with this input; or the configuration disables the tool.",
    "use one of those that the message names",
  ),
  "tool-changed": row(
    "The tool was edited after it was listed and changes something now.",
    "call it again: the next call asks",
  ),
  "tool-failed": row("A program of the tool failed.", "see what it printed"),
  "tool-timeout": row("The call took too long.", "ask it for less, or raise limits.tool_timeout_seconds"),
  "tool-output": row("A program of the tool printed more than is kept and was stopped.", "ask it for less"),
  "tool-memory": row("A program of the tool used more memory than it may and was stopped.", "ask it for less"),
  "tool-abort": row("A program of the tool was interrupted.", "call it again if that was not meant"),
  "tool-collision": row(
    "A warning: two tools have one name, and the later one is left out.",
    "give one of them another name",
  ),
  "tool-ambiguous": row(
    "A warning: what a skill lists is in two servers, so it has neither.",
    "name the one that is meant",
  ),
  "tool-unmatched": row("A warning: what a skill lists is nowhere.", "correct the name, or add a server that has it"),
  "tool-invalid": row(
    "The definition of a tool lacks something, or cannot be used.",
    "define it as the message says, with `Tool.define`",
  ),
  "approval-needed": row(
    "Somebody has to agree to what the call changes, and nobody can be asked.",
    "agree to it beforehand, or call it where somebody can be asked",
  ),
  "not-approved": row("Somebody said no to what the call changes.", "do not ask for the same again; find another way"),
  "not-made": row("The call was not made: the run was completed before it.", "make it before `complete`"),
  "too-many-calls": row("The call was not made: too many were asked for at once.", "ask for fewer at once"),
  "read-only": row("Installed skills and their settings cannot be changed.", "write elsewhere"),

  // What a session's tools say; the first three are no errors
  "already-loaded": row(
    "Not an error: the instructions are in the conversation, unchanged.",
    "go on, or load it with again: true",
  ),
  "to-be-used": row("Not an error: the skill is followed on its own.", "hand the task over with `use_skill`"),
  "no-match": row("Not an error: no skill fits the topic.", "`list_skills` shows what there is"),
  "not-loaded": row("Not an error: the skill was not loaded, so it cannot be unloaded.", "go on"),
  "path-outside": row("The path leaves the folders that can be used, or is not there.", "name a path in them"),
  "path-missing": row("The path is not there.", "`list_files` shows what is"),
  "path-folder": row("The path is a folder.", "`list_files` shows what is in it"),
  "path-no-folder": row("The path is no folder.", "`read_file` reads a file"),
  "path-no-file": row("The path is no ordinary file.", "name another"),
  "path-closed": row("Tools may not read or write the path.", "let others read it, or name another"),
  "path-binary": row("The file is not text.", "a program that knows it can be run by `bash`"),
  "edit-missing": row(
    "The text to replace does not stand in the file.",
    "`read_file` shows what does; blanks and line ends count",
  ),
  "edit-ambiguous": row(
    "The text to replace stands in the file several times.",
    "give more of what stands around it, or set all to true",
  ),
  "pattern-invalid": row(
    "The pattern is no regular expression.",
    "correct it: a backslash takes a character's meaning away",
  ),
  "url-invalid": row("The text is no web address.", "write it whole, without a name and password"),
  "response-binary": row("What was fetched is not text.", "fetch something else"),
  "resource-unlisted": row("The path is not one of the skill's files.", "the message names those it has"),
  "resource-outside": row("A listed file leaves the skill's folder now.", "find the skills again: the folder changed"),
  "resource-not-found": row("A listed file is gone.", "find the skills again: the folder changed"),
  "resource-not-a-file": row("A listed file is no regular file any more.", "find the skills again: the folder changed"),
  "resource-link-loop": row(
    "A listed file is a link that leads back to itself.",
    "find the skills again: the folder changed",
  ),
  "resource-too-large": row("The file is larger than is read.", "split it"),
  "resource-unreadable": row("The file cannot be read.", "give yourself read permission"),
  "resource-binary": row("The file is not text.", "use it from the skill's folder"),
  "resource-script": row("The file is a script, which models run and do not read.", "`run_skill_script` runs it"),
  "resource-private": row("The file's name begins with a dot, so it is not for models.", "do without it"),
  "resource-other": row("Only files of the skill that is followed can be read.", "do without it"),

  // Toolsets
  "toolset-export": row(
    "The file has no such export, or it gives no tools.",
    "export it; the message names those that there are",
  ),
  "toolset-broken": row(
    "Importing the toolset failed, or a tool of it is none.",
    "mend it: importing must only define tools",
  ),
  "toolset-import": row(
    "The toolset imports what it may not, or what is not installed.",
    "import the skill's own files, node: modules, zod and skillet",
  ),
  "toolset-collision": row("Two tools of the toolset have one name.", "give one of them another name"),
  "toolset-timeout": row("Importing the toolset took too long.", "do in `execute` what takes long"),
  "toolset-ended": row("The toolset's code ended its thread.", "load the skill again: it begins anew"),
} as const satisfies Record<string, CodeRow>;
