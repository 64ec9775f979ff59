import { type CodeRow, defineCode } from "./problem.ts";

/** Reasons why a caller may not load or use a skill, or run its code. */
export const USE_CODES = {
  "catalog-invalid": defineCode(
    "The value that the program passes in place of a catalog is not a catalog.",
    "pass the catalog of `discover()`, or the result of `loadCatalog()`",
  ),
  "host-invalid": defineCode(
    "A part of the host object that the program passes is invalid.",
    "correct the part that the message names, or omit it",
  ),
  "settings-invalid": defineCode(
    "A key of the settings that a program creates is unknown, or its value has the wrong type.",
    "correct the keys that the message names",
  ),
  disabled: defineCode("The skill is disabled.", "run `skillet enable NAME`"),
  untrusted: defineCode("The skill's code is not trusted yet.", "review it, then run `skillet trust`"),
  changed: defineCode(
    "The skill has changed since it was trusted or added.",
    "review the changes, then run `skillet trust`",
  ),
  "not-for-models": defineCode("Only users can invoke the skill, by name.", "ask the user to invoke it"),
  "not-for-users": defineCode("Only models can invoke the skill.", "let a model use it"),
  "policy-denied": defineCode(
    "A policy of the embedding program does not allow it.",
    "ask the operator of the program",
  ),
  "chat-type": defineCode(
    "The skill is not allowed in this type of chat.",
    "use it in one of the chat types in the message",
  ),
  "chat-id": defineCode(
    "The skill is not allowed in this chat, or the chat id is unknown.",
    "set it with --chat-id, or add the chat to allow_chat_ids",
  ),
  "missing-tool": defineCode(
    "A tool that the skill needs is not available.",
    "add the server, the setting or the program that the message names",
  ),
  "missing-variable": defineCode(
    "An environment variable that the skill needs has no value, or its reference cannot be resolved.",
    "set it under [skills.NAME] in config.toml",
  ),
  "variable-refused": defineCode(
    "The skill declares a variable that controls how programs start.",
    "rename the variable in the skill",
  ),
  "missing-program": defineCode(
    "A program that the skill needs is not installed.",
    "install it, or add its package: `skillet config set skills.NAME.packages PACKAGE`",
  ),
  "optional-package-missing": defineCode(
    "An optional package that skillet needs for this is not installed.",
    "run the `npm install` command in the message",
  ),
  "unsupported-os": defineCode("The skill is for another operating system.", "use it on that system"),
  "secret-other-source": defineCode(
    "The values in the configuration were approved for a skill with this name from another source.",
    "review the skill, then run `skillet trust --secrets NAME`",
  ),
  "secret-not-approved": defineCode(
    "The values in the configuration are not approved for any copy of the skill yet.",
    "review the skill, then run `skillet trust --secrets NAME`",
  ),
  "grants-unreadable": defineCode(
    "The record of the skill copies that may use configured values cannot be read.",
    "fix it, or delete it: then the next run of each skill with values asks for approval",
  ),
  "capability-unavailable": defineCode(
    "No provider serves a capability that the skill needs, or not in this chat.",
    "add a provider under [capabilities.providers] in config.toml",
  ),
  "capability-not-granted": defineCode(
    "A capability that the skill needs is not granted to it.",
    "review the skill, then run `skillet capability grant`",
  ),
  "capability-not-ready": defineCode("The provider of a capability is not ready.", "follow the steps in the message"),
  cycle: defineCode(
    "The skill is already running further up in the chain of skills that call skills.",
    "continue without calling it again",
  ),
  "nested-too-deep": defineCode(
    "Skills call skills more deeply than the limit.",
    "continue without another skill, or raise [limits] nesting",
  ),
  "model-needed": defineCode(
    "The skill has no explicit commands for the `runbook` model, so it needs a language model.",
    "set the API key of a provider, or add [models.default] to config.toml",
  ),
  "network-blocked": defineCode(
    "A warning: the skill's code tried to use the network, which is blocked.",
    "allow hosts with `network` under [skills.NAME] in config.toml",
  ),
} as const satisfies Record<string, CodeRow>;

/** Codes of runs and conversations, of models, and of the journals of runs. */
export const RUN_CODES = {
  "cost-limit": defineCode(
    "The run stopped because a cost ceiling of the run, day or month was reached.",
    "raise the ceiling that the message names, or wait for the next day or month",
  ),
  "price-missing": defineCode(
    "A cost ceiling is set, and the price of the model is unknown.",
    "set the prices of the model under [prices.MODEL]",
  ),
  "spending-unusable": defineCode(
    "The record of costs cannot be read or written.",
    "check that you own the file and that the disk is not full",
  ),
  aborted: defineCode("The run was interrupted.", "start it again if that was not intended"),
  refused: defineCode(
    "The run was refused before it started; `refusals` has the reasons.",
    "fix the problems in `refusals`",
  ),
  "max-iterations": defineCode(
    "The run reached its iteration limit.",
    "request less, or raise [limits] max_iterations",
  ),
  budget: defineCode("The run reached its token limit.", "request less, or raise [limits] tokens"),
  waiting: defineCode("The run is waiting for approval.", "run `skillet approve` to review the request"),
  error: defineCode("The run failed; `error` has the reason.", "read `error`, fix the cause, and start the run again"),
  timeout: defineCode("The run reached its time limit.", "request less, or raise [limits] timeout_seconds"),
  failed: defineCode(
    "The sub-agent reported failure, or code of the host, of a tool or of skillet threw an error.",
    "try again; if it fails again, report a bug in that code",
  ),
  "system-error": defineCode(
    "The operating system refused access to a file, a folder or a process.",
    "check the folders that it needs and the free disk space",
  ),
  "answer-truncated": defineCode(
    "A warning: the model reached its output limit.",
    "raise max_tokens of the model, or request less at once",
  ),
  "arguments-too-large": defineCode(
    "The instructions repeat the arguments so often that the text would be too large.",
    "use shorter arguments",
  ),
  "not-supported": defineCode(
    "A warning: the skill requests a sub-agent feature that is not supported.",
    "use `model` and `allowed_tools` instead",
  ),
  "secret-too-short": defineCode("A warning: a secret value is too short to redact in output.", "use a longer value"),

  // Models
  "model-unknown": defineCode(
    "The model name is unknown; for a skill that requests it, the default model is used.",
    "use a model from the message, or add it to [models]",
  ),
  "model-missing": defineCode(
    "The embedding program configured no models, no `env` and no configuration.",
    "pass `models` to the host, or use the model `runbook`",
  ),
  "model-key-missing": defineCode("The model has no usable API key.", "add the lines in the message to config.toml"),
  "model-settings": defineCode(
    "[models.*] or an environment variable is incomplete, or its address is invalid.",
    "add the lines in the message to config.toml",
  ),
  "model-refused": defineCode(
    "The provider rejected the API key or the request, or does not have the model.",
    "correct the problem in the message, or use another model",
  ),
  "model-unreachable": defineCode(
    "The model cannot be reached, is rate-limited, returned a server error, or dropped the connection.",
    "check that it is running, and try again",
  ),
  "model-timeout": defineCode("The model did not answer in time.", "try again, or raise timeout_seconds of the model"),
  "model-broken": defineCode(
    "The response of the model is invalid or does not end.",
    "check base_url, set max_tokens, or use another model",
  ),
  "model-empty": defineCode("The model returned an empty response.", "try again, or use another model"),

  // Recorded runs
  "run-unknown": defineCode(
    "The run does not exist, its id is ambiguous, or runs are not recorded here.",
    "run `skillet runs` to list runs",
  ),
  "run-ended": defineCode("The run has ended.", "run `skillet runs show ID` to see its result"),
  "run-cancelled": defineCode("The run was canceled.", "start it again: `skillet run NAME`"),
  "run-busy": defineCode(
    "Another process is working on the run.",
    "wait for it to end, or cancel it: `skillet cancel ID`",
  ),
  "run-changed": defineCode(
    "The skill has changed since the run started.",
    "start the run again, or restore the skill",
  ),
  "run-other-workspace": defineCode(
    "The run was started in another workspace.",
    "resume it there: `skillet resume ID -C FOLDER`",
  ),
  "run-skill-missing": defineCode(
    "The skill of the run no longer exists.",
    "restore the skill, or cancel the run: `skillet cancel ID`",
  ),
  "run-workspace-missing": defineCode(
    "The workspace of the run no longer exists.",
    "restore the workspace, or cancel the run: `skillet cancel ID`",
  ),
  "no-pending-approval": defineCode(
    "The run does not need this approval, or not any more.",
    "check the current request: `skillet approve ID`",
  ),
  halted: defineCode(
    "The run stopped for now: it waits for approval, or its journal cannot be written.",
    "resume it: `skillet resume ID`",
  ),
  "journal-corrupt": defineCode(
    "The journal of the run is corrupt.",
    "start the run again; `skillet runs show ID` shows the readable part",
  ),
  "journal-unwritable": defineCode(
    "The journal of the run cannot be written.",
    "free disk space, then run `skillet resume ID`",
  ),
  "runs-unreadable": defineCode(
    "The folder of runs, or a file in it, cannot be read.",
    "check its permissions, and that it is a regular folder or file",
  ),
  "approvals-unreadable": defineCode(
    "The record of permanent approvals cannot be read.",
    "fix it, or delete it to start over: then skillet asks again",
  ),

  // Statistics and traces
  "statistics-unusable": defineCode(
    "The statistics cannot be read or written, or have another version.",
    "read the message; delete the file to reset the statistics",
  ),
  "traces-unsent": defineCode("A warning: traces could not be sent.", "check OTEL_EXPORTER_OTLP_ENDPOINT"),
  "traces-protocol": defineCode(
    "A warning: OTEL_EXPORTER_OTLP_PROTOCOL names an unsupported protocol; http/json is used.",
    "set the endpoint to the HTTP port of the collector",
  ),
  "traces-headers": defineCode(
    "A warning: OTEL_EXPORTER_OTLP_HEADERS cannot be read.",
    "write name=value,name=value, percent-encoded",
  ),
} as const satisfies Record<string, CodeRow>;

/** Codes of tool calls in sessions, in runs and in toolsets of skills. */
export const TOOL_CODES = {
  "input-invalid": defineCode("The input does not match the schema.", "correct the fields that the message names"),
  "tool-blocked": defineCode(
    "The skill may not use this tool or this input, or the configuration disables the tool.",
    "use one of the tools in the message",
  ),
  "tool-changed": defineCode(
    "The tool was edited after it was listed, and now has side effects.",
    "call it again: the next call asks for approval",
  ),
  "tool-failed": defineCode("A program that the tool started failed.", "read its output"),
  "tool-timeout": defineCode("The tool call timed out.", "request less, or raise limits.tool_timeout_seconds"),
  "tool-output": defineCode(
    "A program that the tool started exceeded the output limit and was stopped.",
    "request less",
  ),
  "tool-memory": defineCode(
    "A program that the tool started exceeded the memory limit and was stopped.",
    "request less",
  ),
  "tool-abort": defineCode(
    "A program that the tool started was interrupted.",
    "call the tool again if that was not intended",
  ),
  "tool-collision": defineCode(
    "A warning: two tools have the same name, and the later one is omitted.",
    "rename one of them",
  ),
  "tool-ambiguous": defineCode(
    "A warning: two servers have a tool that the skill lists, so the skill gets neither.",
    "name the server of the tool that you want",
  ),
  "tool-unmatched": defineCode(
    "A warning: no server has a tool that the skill lists.",
    "correct the name, or add a server that has it",
  ),
  "tool-invalid": defineCode(
    "The definition of a tool is incomplete or invalid.",
    "correct the field that the message names, in `Tool.define`",
  ),
  "approval-needed": defineCode(
    "The call has side effects that need approval, and no user can be asked.",
    "approve it beforehand, or call it where a user can be asked",
  ),
  "not-approved": defineCode("The user did not approve the call.", "do not request the same again; find another way"),
  "call-skipped": defineCode(
    "The call was not made, because the run was completed first.",
    "call it before `complete`",
  ),
  "too-many-calls": defineCode(
    "The call was not made, because one response requested too many calls.",
    "request fewer calls at once",
  ),
  "read-only": defineCode("Installed skills and their settings are read-only.", "write to another path"),

  // Tools of a session; the first four are not errors
  "already-loaded": defineCode(
    "Not an error: the instructions are already in the conversation, unchanged.",
    "continue, or load it with again: true",
  ),
  "runs-as-subagent": defineCode("Not an error: the skill runs as a sub-agent.", "delegate the task with `use_skill`"),
  "no-match": defineCode("Not an error: no skill matches the topic.", "call `list_skills` to see all skills"),
  "not-loaded": defineCode("Not an error: the skill is not loaded, so it cannot be unloaded.", "continue"),
  "path-outside": defineCode("The path is outside the allowed folders, or does not exist.", "use a path inside them"),
  "path-missing": defineCode("The path does not exist.", "call `list_files` to see the existing files"),
  "path-is-folder": defineCode("The path is a folder.", "call `list_files` to see its files"),
  "path-not-a-folder": defineCode("The path is not a folder.", "call `read_file` to read a file"),
  "path-not-a-file": defineCode("The path is not a regular file.", "use another path"),
  "path-denied": defineCode("Tools may not read or write the path.", "change its permissions, or use another path"),
  "path-binary": defineCode("The file is not text.", "use `bash` to run a program that reads this format"),
  "edit-missing": defineCode(
    "The text to replace is not in the file.",
    "call `read_file` to see the text; spaces and line endings must match",
  ),
  "edit-ambiguous": defineCode(
    "The text to replace occurs in the file several times.",
    "include more of the surrounding text, or set all to true",
  ),
  "pattern-invalid": defineCode(
    "The pattern is not a valid regular expression.",
    "correct it; escape special characters with a backslash",
  ),
  "url-invalid": defineCode(
    "The text is not a web address.",
    "write the complete address, without a user name and password",
  ),
  "response-binary": defineCode("The response is not text.", "fetch another address"),
  "resource-unlisted": defineCode("The path is not one of the skill's files.", "use one of the files in the message"),
  "resource-outside": defineCode(
    "A listed file is now outside the skill's folder.",
    "discover the skills again: the folder changed",
  ),
  "resource-not-found": defineCode("A listed file no longer exists.", "discover the skills again: the folder changed"),
  "resource-not-a-file": defineCode(
    "A listed file is not a regular file any more.",
    "discover the skills again: the folder changed",
  ),
  "resource-symlink-loop": defineCode(
    "A listed file is now a symlink that points back to itself.",
    "discover the skills again: the folder changed",
  ),
  "resource-too-large": defineCode("The file is larger than the limit.", "split it into smaller files"),
  "resource-unreadable": defineCode("The file cannot be read.", "give yourself read permission: `chmod u+r PATH`"),
  "resource-binary": defineCode("The file is not text.", "use it from the skill's folder"),
  "resource-script": defineCode(
    "The file is a script, which models run instead of reading it.",
    "call `run_skill_script` to run it",
  ),
  "resource-private": defineCode("The file name starts with a dot, so models cannot read it.", "continue without it"),
  "resource-other-skill": defineCode(
    "Models can only read files of the skill that they follow.",
    "continue without it",
  ),

  // Toolsets
  "toolset-export": defineCode(
    "The file has no such export, or the export has no tools.",
    "export it, or use one of the exports in the message",
  ),
  "toolset-broken": defineCode(
    "Importing the toolset failed, or one of its tools is invalid.",
    "fix the toolset: importing it must only define tools",
  ),
  "toolset-import": defineCode(
    "The toolset imports a module that is not allowed or not installed.",
    "import only the skill's own files, node: modules, zod and skillet",
  ),
  "toolset-collision": defineCode("Two tools of the toolset have the same name.", "rename one of them"),
  "toolset-timeout": defineCode("Importing the toolset took too long.", "move slow work to `execute`"),
  "toolset-exited": defineCode("The toolset's code ended its worker thread.", "load the skill again to restart it"),
} as const satisfies Record<string, CodeRow>;

/** Codes of the database that several machines share. */
export const ENGINE_CODES = {
  "engine-missing": defineCode(
    "The command needs a database that several machines share, and none is configured.",
    "run `skillet config set engine.url env:DATABASE_URL`",
  ),
  "queue-key-reused": defineCode(
    "The key of a queued run was used for a different request.",
    "use another key, or show the run in the message",
  ),
  "skill-not-on-worker": defineCode(
    "A worker gave a queued run back: it has no such skill, or another copy of it.",
    "install the copy that the run began with on a worker",
  ),
  "run-poisonous": defineCode(
    "A queued run is stuck: the worker ended each time it worked on the run.",
    "find out what the run does, then run `skillet resume`",
  ),
  "engine-unavailable": defineCode(
    "The database of the engine does not answer.",
    "check that it is running and reachable: `skillet engine check`",
  ),
  "engine-failed": defineCode(
    "The database of the engine refused a connection or a statement.",
    "run `skillet engine check`",
  ),
  "engine-outdated": defineCode(
    "The tables in the database and this skillet have different versions.",
    "run `skillet engine init`, or update skillet",
  ),
  "engine-sealed": defineCode(
    "The database stores encrypted texts, and this machine does not have their key.",
    "set engine.seal_key to the key of the other machines",
  ),
  "engine-altered": defineCode(
    "Lines that skillet sealed in the database were edited, moved, repeated, removed or added.",
    "find out who writes to the database, and restore it from a backup",
  ),
} as const satisfies Record<string, CodeRow>;
