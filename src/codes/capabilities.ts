import { type CodeRow, row } from "./row.ts";

/** What a skill asks the broker of its run for, who serves it, and who is signed in. */
export const CAPABILITIES = {
  // The request
  "no-socket": row(
    "There is no broker here, or not any more.",
    "capabilities are there while a skill runs that lists them",
  ),
  "broker-gone": row(
    "The broker cannot be reached, or ended the connection.",
    "ask again; look first whether a change was made",
  ),
  "broker-silent": row("The broker has not answered in time.", "ask again later; look first whether a change was made"),
  "broker-answer": row(
    "What the broker answered cannot be understood.",
    "look whether it was done before you do it again",
  ),
  "broker-failed": row("The broker could not do its own work.", "see the message, and tell the user"),
  "answer-too-large": row("The answer of the broker is larger than is read.", "ask for less"),
  "frame-invalid": row(
    "The request is none: no JSON, or something in it does not belong there.",
    "ask through `skillet-sb`",
  ),
  "frame-too-large": row("The request is larger than 1 MiB.", "send less at once"),
  "frame-timeout": row("The request did not arrive in time.", "send it whole, at once"),
  "frame-cut": row("The connection held no request.", "send one"),
  "token-missing": row("The request has no token.", "start the program with the variables of the run"),
  "token-invalid": row("The token is not one of this run.", "use the one that the run was started with"),
  "token-expired": row("The token has expired.", "the run is over: start another"),
  "nonce-used": row("The request was made before.", "make it anew"),
  "key-used": row("The key was used for another call.", "take another key for another call"),
  "quota-reached": row(
    "The run has asked as often as it may.",
    "finish with what there is; the limits are under [capabilities]",
  ),

  // What has to be true
  "capability-undeclared": row("The skill does not declare this capability.", "it can ask for those that it declares"),
  "context-denied": row("The capability is not there for this caller.", "tell the user"),
  "operation-unknown": row("The capability has no such operation.", "the message names those it has"),
  "scope-missing": row(
    "The operation needs more than was agreed to at sign-in.",
    "sign in again, with the scopes of the message",
  ),
  "approval-pending": row(
    "It waits for the user to agree; nothing was done yet.",
    "end here: the run goes on when there is a word",
  ),
  "approval-unknown": row(
    "Nobody has given this approval in this run.",
    "leave the approval out: the user is asked again",
  ),
  "approval-other": row("The approval was given for another call.", "leave the approval out: the user is asked again"),
  "approval-used": row(
    "The approval was used: one holds for one call.",
    "leave the approval out: the user is asked again",
  ),
  "request-withdrawn": row(
    "Nobody waits for the call any more, so it was not done.",
    "ask again, and wait for the answer",
  ),
  "output-invalid": row("What the provider gave is not what it says that it gives.", "tell the user"),
  "output-too-large": row("What the provider gave is larger than 1 MiB.", "ask for less: a limit, one item"),

  // Providers
  "auth-needed": row("Somebody has to sign in first, or again.", "the user runs `skillet auth login NAMESPACE`"),
  denied: row("The system behind the provider says no, or nobody signs in there.", "see the message"),
  conflict: row("Something else changed it first.", "read it again, then decide"),
  "rate-limited": row("The system behind the provider was asked too often.", "wait a while, then ask again"),
  unavailable: row(
    "The system behind the provider does not answer.",
    "try again later; look first whether a change was made",
  ),
  "provider-failed": row(
    "The provider failed otherwise, or crashed.",
    "`skillet capability check NAMESPACE` tries it by itself",
  ),
  "provider-missing": row(
    "The provider is not there, or cannot be started.",
    "correct it under [capabilities.providers] in config.toml",
  ),
  "provider-timeout": row(
    "The provider did not answer in time and was stopped.",
    "try again, or raise its timeout_seconds",
  ),
  "provider-answer": row(
    "What the provider answered is no answer.",
    "tell whoever made it; `skillet capability check` says which rule it breaks",
  ),
  "provider-invalid": row(
    "The definition of a provider lacks something, or cannot be used.",
    "define it as the message says, with `defineProvider`",
  ),
  unsupported: row("What a provider's program answers where nobody signs in.", "use it without signing in"),

  // Sign-ins
  "auth-unsupported": row(
    "Nobody signs in to this provider, or not this way.",
    "complete it with what the user brings back, or use it as it is",
  ),
  "auth-unfinished": row(
    "Nothing was pasted or piped in, so nobody is signed in.",
    "run it again at a terminal, or pipe it in",
  ),
  "flow-unknown": row("There is no such sign-in under way.", "begin it again; it holds for a few minutes"),
  "flow-used": row(
    "The sign-in is over: it was completed, or refused.",
    "go on if it was completed, else begin it again",
  ),
  "flow-expired": row("The sign-in was not finished in time.", "begin it again"),
  "state-mismatch": row(
    "What was pasted belongs to another sign-in.",
    "open the address of this one, and paste where it leads",
  ),
  "callback-invalid": row(
    "What was pasted is neither an address nor a code.",
    "paste the whole address, or the code, and nothing else",
  ),

  // What is kept
  "vault-unreadable": row(
    "The vault, or the key to it, cannot be read.",
    "see the message; without either, sign in again",
  ),
  "vault-full": row("The vault holds as much as it may.", "finish a sign-in that is under way, or wait"),
  "audit-unwritable": row(
    "The audit log cannot be written or read, so nothing is done for skills.",
    "check that it is a file of yours, and that there is room",
  ),
} as const satisfies Record<string, CodeRow>;
