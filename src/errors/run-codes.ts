import { type CodeRow, defineCode } from "./problem.ts";

/** Why a skill may not be loaded, used or have its code run, here and by whoever asks. */
export const USE_CODES = {
  "host-invalid": defineCode(
    "A part of the host that the program gives is not what it must be.",
    "correct the part that the message names, or leave it out",
  ),
  "settings-invalid": defineCode(
    "A key of the settings that a program creates is not known, or has a value of the wrong type.",
    "correct the keys that the message names",
  ),
  disabled: defineCode("The skill is switched off.", "`skillet enable NAME`"),
  untrusted: defineCode("Nobody has said yet that the skill's code may run.", "look at it, then run `skillet trust`"),
  changed: defineCode(
    "The skill is not what was trusted or added.",
    "look at the difference, then run `skillet trust`",
  ),
  "not-for-models": defineCode("The skill is for a person to call, by name.", "tell the user"),
  "not-for-users": defineCode("The skill is for models to call, not for people.", "let a model use it"),
  "policy-denied": defineCode(
    "A rule of the embedding program does not allow it.",
    "see the message: the program's operator decides",
  ),
  "chat-type": defineCode("The skill is not for this kind of chat.", "use it in one of those that the message names"),
  "chat-id": defineCode(
    "The skill is not for this chat, or nobody said which chat it is.",
    "say it with --chat-id, or add the chat to allow_chat_ids",
  ),
  "missing-tool": defineCode(
    "The skill needs a tool that is not there.",
    "see the message: a server, a setting or a program brings it",
  ),
  "missing-variable": defineCode(
    "A variable that the skill needs has no value, or what it refers to is not there.",
    "set it under [skills.NAME] in config.toml",
  ),
  "variable-refused": defineCode(
    "The skill declares a variable that decides how programs start.",
    "give the variable another name in the skill",
  ),
  "missing-program": defineCode(
    "A program that the skill needs is not installed.",
    "install it, or give the skill its package: `skillet config set skills.NAME.packages PACKAGE`",
  ),
  "package-missing": defineCode(
    "An optional package that skillet needs for this is not installed next to your program.",
    "run the `npm install` command of the message",
  ),
  "other-system": defineCode("The skill is for another operating system.", "use it there"),
  "secret-other-source": defineCode(
    "What the configuration has for this name was given to the skill from another source.",
    "look at it, then run `skillet trust --secrets NAME`",
  ),
  "secret-not-given": defineCode(
    "What the configuration has for this name was not given to a copy of the skill yet.",
    "look at it, then run `skillet trust --secrets NAME`",
  ),
  "grants-unreadable": defineCode(
    "The record of which copy of a skill has its values cannot be read.",
    "fix it, or remove it: then the next run of each skill with values asks which copy gets them",
  ),
  "capability-unavailable": defineCode(
    "Nobody serves a capability that the skill needs, or not in this chat.",
    "name a provider under [capabilities.providers] in config.toml",
  ),
  "capability-not-granted": defineCode(
    "The skill was not given a capability that it needs.",
    "look at what it does, then run `skillet capability grant`",
  ),
  "capability-not-ready": defineCode("The provider of a capability cannot serve yet.", "do the steps of the message"),
  cycle: defineCode(
    "The skill is at work already, further up in the chain of skills that use skills.",
    "do it without calling it again",
  ),
  "nested-too-deep": defineCode(
    "Skills would use skills more deeply than is allowed.",
    "do it without another skill; the limit is [limits] nesting",
  ),
  "model-needed": defineCode(
    "The skill spells out no commands for `runbook`, so a language model is needed.",
    "set a key of a provider, or add [models.default] to config.toml",
  ),
  "network-wanted": defineCode(
    "A warning: the skill's code asks the network, which is closed to it.",
    "open it with `network` under [skills.NAME] in config.toml",
  ),
} as const satisfies Record<string, CodeRow>;

/** Runs and conversations, what they ask models, and what is written down of them. */
export const RUN_CODES = {
  aborted: defineCode("It was interrupted.", "start it again if that was not meant"),
  refused: defineCode("The run was refused before it began; `refusals` say why.", "see them"),
  "max-steps": defineCode("The run reached its limit of iterations.", "ask for less, or raise [limits] max_iterations"),
  budget: defineCode("The run reached its limit of tokens.", "ask for less, or raise [limits] tokens"),
  waiting: defineCode("The run waits for somebody to agree.", "`skillet approve` shows to what"),
  error: defineCode("The run broke; `error` says why.", "see it"),
  timeout: defineCode("The time limit of the run was reached.", "ask for less, or raise [limits] timeout_seconds"),
  failed: defineCode(
    "The sub-agent says that it could not be done; or code of the host, of a tool or of skillet threw.",
    "try again; if it stays so, it is a bug of that code",
  ),
  machine: defineCode(
    "The machine refused something: a file, a folder, a process.",
    "check the folders that it needs, and that there is room",
  ),
  "answer-cut": defineCode(
    "A warning: the model reached the limit of what it may say at once.",
    "raise max_tokens of the model, or ask for less at once",
  ),
  "arguments-too-large": defineCode(
    "The instructions take the arguments so often that the text would be too large.",
    "give shorter arguments",
  ),
  "not-supported": defineCode(
    "A warning: the skill asks for something of a sub-agent that is not there.",
    "say it with `model` and `allowed_tools`",
  ),
  "secret-short": defineCode(
    "A warning: a value is too short to be told from other text, so it is not hidden in output.",
    "use a longer value",
  ),

  // Models
  "model-unknown": defineCode(
    "There is no model of that name; where a skill asks for it, the default is used.",
    "name one of those of the message, or add it to [models]",
  ),
  "model-missing": defineCode(
    "A program gave no models, no `env` and no configuration.",
    "give the host `models`, or the model `runbook`",
  ),
  "model-key-missing": defineCode(
    "The model has no key that can be used.",
    "add the lines of the message to config.toml",
  ),
  "model-settings": defineCode(
    "[models.*] or a variable says too little, or no address that can be asked.",
    "add the lines of the message to config.toml",
  ),
  "model-refused": defineCode(
    "The provider refused the key or the request, or does not have the model.",
    "correct what the message says, or use another model",
  ),
  "model-unreachable": defineCode(
    "No connection, too many requests, a failure of the server, or an answer that broke off.",
    "check that it is there, and try again",
  ),
  "model-timeout": defineCode("The model did not answer in time.", "try again, or raise timeout_seconds of the model"),
  "model-broken": defineCode(
    "The answer of the model cannot be read, or does not end.",
    "check base_url, set max_tokens, or use another model",
  ),
  "model-empty": defineCode("The model gave no answer.", "try again, or use another model"),

  // Runs that are written down
  "run-unknown": defineCode(
    "There is no such run, several have an id like it, or runs are not written down here.",
    "`skillet runs` lists them",
  ),
  "run-ended": defineCode("The run has ended.", "`skillet runs show ID` says how"),
  "run-cancelled": defineCode("The run was called off.", "start it anew"),
  "run-busy": defineCode("Another process is at the run.", "wait for it to end, or call it off: `skillet cancel ID`"),
  "run-changed": defineCode(
    "The skill has changed since the run began.",
    "start it anew, or put the skill back as it was",
  ),
  "run-elsewhere": defineCode("The run began in another workspace.", "go on with it there"),
  "skill-gone": defineCode("The skill that the run follows is not found any more.", "put it back, or call the run off"),
  "workspace-gone": defineCode(
    "The workspace that the run began in is not there any more.",
    "put it back, or call the run off",
  ),
  "nothing-asked": defineCode(
    "The run asks for nothing, or for another thing by now.",
    "look again: `skillet approve ID`",
  ),
  halted: defineCode(
    "The run goes no further for now: it waits for a word, or cannot be written down.",
    "go on with it: `skillet resume ID`",
  ),
  "journal-corrupt": defineCode(
    "The journal of the run is not what was written.",
    "start it anew; `skillet runs show ID` shows what can be read",
  ),
  "journal-unwritable": defineCode(
    "The journal of the run cannot be written.",
    "make room, then `skillet resume ID` goes on",
  ),
  "runs-unreadable": defineCode(
    "The folder of runs, or a file in it, cannot be read.",
    "check its mode, and what stands in its place",
  ),
  "approvals-unreadable": defineCode(
    "The record of what you always agree to cannot be read.",
    "mend it, or remove it to start anew: then you are asked again",
  ),

  // What is counted and traced
  "statistics-unusable": defineCode(
    "The statistics cannot be read or written, or are of another version.",
    "see the message; without the file they begin anew",
  ),
  "traces-unsent": defineCode("A warning: traces could not be sent.", "check OTEL_EXPORTER_OTLP_ENDPOINT"),
  "traces-protocol": defineCode(
    "A warning: OTEL_EXPORTER_OTLP_PROTOCOL asks for what is not there; http/json is used.",
    "let the endpoint be the collector's HTTP port",
  ),
  "traces-headers": defineCode(
    "A warning: OTEL_EXPORTER_OTLP_HEADERS cannot be read.",
    "write name=value,name=value, percent-encoded",
  ),
} as const satisfies Record<string, CodeRow>;

/** Calls of tools: those of a session, of a run, of a skill's toolset. */
export const TOOL_CODES = {
  "input-invalid": defineCode("The input does not fit what is asked for.", "the message says what it takes"),
  "tool-blocked": defineCode(
    "The skill may not use this tool, or not with this input; or the configuration disables the tool.",
    "use one of those that the message names",
  ),
  "tool-changed": defineCode(
    "The tool was edited after it was listed and changes something now.",
    "call it again: the next call asks",
  ),
  "tool-failed": defineCode("A program of the tool failed.", "see what it printed"),
  "tool-timeout": defineCode("The call took too long.", "ask it for less, or raise limits.tool_timeout_seconds"),
  "tool-output": defineCode("A program of the tool printed more than is kept and was stopped.", "ask it for less"),
  "tool-memory": defineCode("A program of the tool used more memory than it may and was stopped.", "ask it for less"),
  "tool-abort": defineCode("A program of the tool was interrupted.", "call it again if that was not meant"),
  "tool-collision": defineCode(
    "A warning: two tools have one name, and the later one is left out.",
    "give one of them another name",
  ),
  "tool-ambiguous": defineCode(
    "A warning: what a skill lists is in two servers, so it has neither.",
    "name the one that is meant",
  ),
  "tool-unmatched": defineCode(
    "A warning: what a skill lists is nowhere.",
    "correct the name, or add a server that has it",
  ),
  "tool-invalid": defineCode(
    "The definition of a tool lacks something, or cannot be used.",
    "define it as the message says, with `Tool.define`",
  ),
  "approval-needed": defineCode(
    "Somebody has to agree to what the call changes, and nobody can be asked.",
    "agree to it beforehand, or call it where somebody can be asked",
  ),
  "not-approved": defineCode(
    "Somebody said no to what the call changes.",
    "do not ask for the same again; find another way",
  ),
  "not-made": defineCode("The call was not made: the run was completed before it.", "make it before `complete`"),
  "too-many-calls": defineCode("The call was not made: too many were asked for at once.", "ask for fewer at once"),
  "read-only": defineCode("Installed skills and their settings cannot be changed.", "write elsewhere"),

  // What a session's tools say; the first three are no errors
  "already-loaded": defineCode(
    "Not an error: the instructions are in the conversation, unchanged.",
    "go on, or load it with again: true",
  ),
  "to-be-used": defineCode("Not an error: the skill is followed on its own.", "hand the task over with `use_skill`"),
  "no-match": defineCode("Not an error: no skill fits the topic.", "`list_skills` shows what there is"),
  "not-loaded": defineCode("Not an error: the skill was not loaded, so it cannot be unloaded.", "go on"),
  "path-outside": defineCode("The path leaves the folders that can be used, or is not there.", "name a path in them"),
  "path-missing": defineCode("The path is not there.", "`list_files` shows what is"),
  "path-folder": defineCode("The path is a folder.", "`list_files` shows what is in it"),
  "path-no-folder": defineCode("The path is no folder.", "`read_file` reads a file"),
  "path-no-file": defineCode("The path is no ordinary file.", "name another"),
  "path-closed": defineCode("Tools may not read or write the path.", "let others read it, or name another"),
  "path-binary": defineCode("The file is not text.", "a program that knows it can be run by `bash`"),
  "edit-missing": defineCode(
    "The text to replace does not stand in the file.",
    "`read_file` shows what does; blanks and line ends count",
  ),
  "edit-ambiguous": defineCode(
    "The text to replace stands in the file several times.",
    "give more of what stands around it, or set all to true",
  ),
  "pattern-invalid": defineCode(
    "The pattern is no regular expression.",
    "correct it: a backslash takes a character's meaning away",
  ),
  "url-invalid": defineCode("The text is no web address.", "write it whole, without a name and password"),
  "response-binary": defineCode("What was fetched is not text.", "fetch something else"),
  "resource-unlisted": defineCode("The path is not one of the skill's files.", "the message names those it has"),
  "resource-outside": defineCode(
    "A listed file leaves the skill's folder now.",
    "find the skills again: the folder changed",
  ),
  "resource-not-found": defineCode("A listed file is gone.", "find the skills again: the folder changed"),
  "resource-not-a-file": defineCode(
    "A listed file is no regular file any more.",
    "find the skills again: the folder changed",
  ),
  "resource-link-loop": defineCode(
    "A listed file is a link that leads back to itself.",
    "find the skills again: the folder changed",
  ),
  "resource-too-large": defineCode("The file is larger than is read.", "split it"),
  "resource-unreadable": defineCode("The file cannot be read.", "give yourself read permission"),
  "resource-binary": defineCode("The file is not text.", "use it from the skill's folder"),
  "resource-script": defineCode(
    "The file is a script, which models run and do not read.",
    "`run_skill_script` runs it",
  ),
  "resource-private": defineCode("The file's name begins with a dot, so it is not for models.", "do without it"),
  "resource-other": defineCode("Only files of the skill that is followed can be read.", "do without it"),

  // Toolsets
  "toolset-export": defineCode(
    "The file has no such export, or it gives no tools.",
    "export it; the message names those that there are",
  ),
  "toolset-broken": defineCode(
    "Importing the toolset failed, or a tool of it is none.",
    "mend it: importing must only define tools",
  ),
  "toolset-import": defineCode(
    "The toolset imports what it may not, or what is not installed.",
    "import the skill's own files, node: modules, zod and skillet",
  ),
  "toolset-collision": defineCode("Two tools of the toolset have one name.", "give one of them another name"),
  "toolset-timeout": defineCode("Importing the toolset took too long.", "do in `execute` what takes long"),
  "toolset-ended": defineCode("The toolset's code ended its thread.", "load the skill again: it begins anew"),
} as const satisfies Record<string, CodeRow>;
