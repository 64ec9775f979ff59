import { type CodeRow, row } from "./row.ts";

/** Runs and conversations, what they ask models, and what is written down of them. */
export const RUNS = {
  aborted: row("It was interrupted.", "start it again if that was not meant"),
  refused: row("The run was refused before it began; `refusals` say why.", "see them"),
  "max-steps": row("The run reached its limit of iterations.", "ask for less, or raise [limits] max_iterations"),
  budget: row("The run reached its limit of tokens.", "ask for less, or raise [limits] tokens"),
  waiting: row("The run waits for somebody to agree.", "`skillet approve` shows to what"),
  error: row("The run broke; `error` says why.", "see it"),
  timeout: row("The time limit of the run was reached.", "ask for less, or raise [limits] timeout_seconds"),
  failed: row(
    "The sub-agent says that it could not be done; or code of the host, of a tool or of skillet threw.",
    "try again; if it stays so, it is a bug of that code",
  ),
  machine: row(
    "The machine refused something: a file, a folder, a process.",
    "check the folders that it needs, and that there is room",
  ),
  "answer-cut": row(
    "A warning: the model reached the limit of what it may say at once.",
    "raise max_tokens of the model, or ask for less at once",
  ),
  "arguments-too-large": row(
    "The instructions take the arguments so often that the text would be too large.",
    "give shorter arguments",
  ),
  "not-supported": row(
    "A warning: the skill asks for something of a sub-agent that is not there.",
    "say it with `model` and `allowed_tools`",
  ),
  "secret-short": row(
    "A warning: a value is too short to be told from other text, so it is not hidden in output.",
    "use a longer value",
  ),

  // Models
  "model-unknown": row(
    "There is no model of that name; where a skill asks for it, the default is used.",
    "name one of those of the message, or add it to [models]",
  ),
  "model-missing": row(
    "A program gave no models, no `env` and no configuration.",
    "give the host `models`, or the model `runbook`",
  ),
  "model-key-missing": row("The model has no key that can be used.", "add the lines of the message to config.toml"),
  "model-settings": row(
    "[models.*] or a variable says too little, or no address that can be asked.",
    "add the lines of the message to config.toml",
  ),
  "model-refused": row(
    "The provider refused the key or the request, or does not have the model.",
    "correct what the message says, or use another model",
  ),
  "model-unreachable": row(
    "No connection, too many requests, a failure of the server, or an answer that broke off.",
    "check that it is there, and try again",
  ),
  "model-timeout": row("The model did not answer in time.", "try again, or raise timeout_seconds of the model"),
  "model-broken": row(
    "The answer of the model cannot be read, or does not end.",
    "check base_url, set max_tokens, or use another model",
  ),
  "model-empty": row("The model gave no answer.", "try again, or use another model"),

  // Runs that are written down
  "run-unknown": row(
    "There is no such run, several have an id like it, or runs are not written down here.",
    "`skillet runs` lists them",
  ),
  "run-ended": row("The run has ended.", "`skillet runs show ID` says how"),
  "run-cancelled": row("The run was called off.", "start it anew"),
  "run-busy": row("Another process is at the run.", "wait for it to end, or call it off: `skillet cancel ID`"),
  "run-changed": row("The skill has changed since the run began.", "start it anew, or put the skill back as it was"),
  "run-elsewhere": row("The run began in another workspace.", "go on with it there"),
  "skill-gone": row("The skill that the run follows is not found any more.", "put it back, or call the run off"),
  "workspace-gone": row(
    "The workspace that the run began in is not there any more.",
    "put it back, or call the run off",
  ),
  "nothing-asked": row("The run asks for nothing, or for another thing by now.", "look again: `skillet approve ID`"),
  halted: row(
    "The run goes no further for now: it waits for a word, or cannot be written down.",
    "go on with it: `skillet resume ID`",
  ),
  "journal-corrupt": row(
    "The journal of the run is not what was written.",
    "start it anew; `skillet runs show ID` shows what can be read",
  ),
  "journal-unwritable": row("The journal of the run cannot be written.", "make room, then `skillet resume ID` goes on"),
  "runs-unreadable": row(
    "The folder of runs, or a file in it, cannot be read.",
    "check its mode, and what stands in its place",
  ),
  "approvals-unreadable": row(
    "The record of what you always agree to cannot be read.",
    "mend it, or remove it to start anew: then you are asked again",
  ),

  // What is counted and traced
  "statistics-unusable": row(
    "The statistics cannot be read or written, or are of another version.",
    "see the message; without the file they begin anew",
  ),
  "traces-unsent": row("A warning: traces could not be sent.", "check OTEL_EXPORTER_OTLP_ENDPOINT"),
  "traces-protocol": row(
    "A warning: OTEL_EXPORTER_OTLP_PROTOCOL asks for what is not there; http/json is used.",
    "let the endpoint be the collector's HTTP port",
  ),
  "traces-headers": row(
    "A warning: OTEL_EXPORTER_OTLP_HEADERS cannot be read.",
    "write name=value,name=value, percent-encoded",
  ),
} as const satisfies Record<string, CodeRow>;
