import { type CodeRow, defineCode } from "./problem.ts";

/** Codes of scripts, of their sandbox and workspace, and of packages. */
export const SCRIPT_CODES = {
  // Scripts
  "script-unknown": defineCode("The skill has no such script.", "use one of the scripts in the message"),
  "script-interpreter": defineCode(
    "The script's interpreter is unknown or not installed.",
    "add a shebang line or a file extension, or add the package: `skillet config set skills.NAME.packages PACKAGE`",
  ),
  "script-arguments": defineCode(
    "The arguments of the script are too many or too long.",
    "pass the data on standard input",
  ),
  "script-failed": defineCode("The script ended with a non-zero exit code.", "read its output"),
  "script-timeout": defineCode(
    "The script reached its time limit and was stopped.",
    "request less, or raise [scripts] timeout_seconds",
  ),
  "script-output": defineCode(
    "The script exceeded the output limit and was stopped.",
    "make it print less, or raise [scripts] output_bytes",
  ),
  "script-memory": defineCode(
    "The script exceeded the memory limit and was stopped.",
    "make it use less memory, or raise [sandbox] memory_mib",
  ),
  "script-abort": defineCode("The script was interrupted.", "start it again if that was not intended"),
  "skill-too-large": defineCode(
    "The skill's files exceed the copy limit.",
    "remove files that it does not need from its folder",
  ),

  // The sandbox
  "sandbox-unavailable": defineCode(
    "No sandbox with the required isolation level is available.",
    "run `skillet doctor --fix` to install the missing programs",
  ),
  "sandbox-start-failed": defineCode(
    "The sandbox could not be started.",
    "run `skillet doctor --sandbox` to find the cause",
  ),
  "sandbox-missing": defineCode(
    "A tool tried to start a program outside a sandbox.",
    "call the tool from the run of a skill",
  ),
  "sandbox-packages": defineCode(
    "This kind of sandbox does not support packages.",
    "install them on the host or in the image, or use bubblewrap",
  ),
  "sandbox-not-removed": defineCode(
    "A warning: a container could not be removed.",
    "run the command in the message: it removes the container",
  ),
  "isolation-too-weak": defineCode(
    "The skill is sensitive or has capabilities, and its code would run without isolation.",
    'remove [sandbox] level = "none"',
  ),
  "not-isolated": defineCode("A warning: this code ran without isolation.", 'remove [sandbox] level = "none"'),
  "mount-unusable": defineCode("A folder with this path cannot be mounted in a sandbox.", "rename the folder"),
  "variable-unusable": defineCode(
    "A container does not accept an environment variable with this value.",
    "set it to a single line, or use bubblewrap",
  ),
  "socket-path": defineCode("The path of a socket is too long.", "set TMPDIR to a shorter path"),
  "network-endpoint": defineCode(
    "An entry under `network` is not a host with a port.",
    'write it as "api.example.com:443"',
  ),
  "network-not-allowed": defineCode(
    "Code or a tool requested a host that is not on its allowlist.",
    "ask the operator to add it to `network` in config.toml",
  ),

  // The workspace
  "workspace-missing": defineCode("The workspace does not exist.", "choose another one with --workspace"),
  "workspace-too-wide": defineCode(
    "The workspace contains your home folder or skillet's own folder, so code and blanket approvals are not allowed.",
    "work in a separate folder, or name one with --workspace",
  ),
  "workspace-private": defineCode(
    "The workspace is in a hidden folder of your home, so code cannot read it by default.",
    'work in another folder, or set workspace = "read" under [skills.NAME]',
  ),
  "workspace-read-only": defineCode(
    "A warning: the script had read-only access to the workspace, and tried or asked to change it.",
    "use `skillet script --write`, or `writes: true` in a call; or run `skillet config set skills.NAME.workspace read-write`",
  ),
  "argument-outside": defineCode(
    "A warning: an argument names a file that is not visible to the script.",
    "copy it into the workspace, or select its folder with `--workspace`",
  ),
  "workspace-inaccessible": defineCode(
    "Code never runs as root, and other users cannot access the workspace.",
    "make a regular user the owner of the folder, and run skillet as that user",
  ),
  "workspace-trusted-code": defineCode(
    "The workspace is in a folder whose code is always trusted, so no code may write to it.",
    'work in another folder, or set workspace = "read"',
  ),
  "workspace-symlink": defineCode(
    "A sensitive path of the workspace is a symlink that cannot be protected.",
    'replace it with its target, or set workspace = "read"',
  ),
  "workspace-protected": defineCode(
    "Code changed sensitive paths of the workspace; the changes wait for approval.",
    "run `skillet approve ID` to see the complete diff and apply it, or add --deny to discard it",
  ),
  "workspace-unwatchable": defineCode(
    "The workspace has too many sensitive files to compare before and after a run.",
    'work in a smaller folder, or set workspace = "read"',
  ),
  "workspace-sockets": defineCode(
    "The workspace has sockets or named pipes that cannot be masked.",
    'remove them, or set workspace = "none"; if another command moves them, try again when it has ended',
  ),
  "held-conflict": defineCode(
    "The workspace has changed since the change was held for approval.",
    "compare both, edit the file manually, then discard the held change with --deny",
  ),
  "held-unapplied": defineCode(
    "A held change could not be written.",
    "check the permissions of the folder and the free disk space",
  ),

  // Packages
  "system-packages-missing": defineCode(
    "System packages that the skill needs are not built, or not available.",
    "run `skillet packages build`, or use a sandbox that has them",
  ),
  "package-limit": defineCode(
    "The skill declares more system packages than the limit.",
    "declare only the packages that its scripts call",
  ),
  "package-unsupported-os": defineCode(
    "System packages need Linux with apt, which this system is not.",
    "install the programs yourself, or use a Debian machine or container",
  ),
  "package-tools": defineCode("A program that is needed to build packages is missing.", "run `skillet doctor --fix`"),
  "package-subid-range": defineCode(
    "The user has no subordinate id range, which is needed to build packages.",
    "run `skillet doctor --fix`, or build as root",
  ),
  "package-sandbox": defineCode(
    "The sandbox for building packages cannot start.",
    "run `skillet doctor` to find the cause",
  ),
  "package-unresolved": defineCode(
    "The release does not have the package, or it conflicts with the others.",
    "check it with `apt-cache policy NAME`",
  ),
  "package-download": defineCode(
    "The package archive cannot be reached.",
    "run `sudo apt-get update` to find the cause",
  ),
  "package-tampered": defineCode(
    "A package does not match the signed index; nothing was installed.",
    "try again, or use another mirror",
  ),
  "package-install": defineCode(
    "A package's install script failed, possibly because it needs the network.",
    "use another package",
  ),
  "package-folder-permissions": defineCode(
    "Other users can write to the folder in which packages are built.",
    "run `chmod go-w` on it, or set SKILLET_PACKAGES to another folder",
  ),
  "package-disk-space": defineCode(
    "There is not enough disk space to build packages.",
    "free disk space, or set SKILLET_PACKAGES to another folder",
  ),
  "package-aborted": defineCode("Building packages was canceled; no partial files remain.", "build again"),
  "library-tools": defineCode(
    "pip or npm is missing, or its configuration cannot be used.",
    "install the program, or change the setting, that the message names",
  ),
  "library-unresolved": defineCode(
    "A Python or npm package is unknown, has no wheel, or its index cannot be reached.",
    "check its name and version, and your pip or npm configuration",
  ),
  "library-private-address": defineCode(
    "A Python or npm package, its index or a dependency uses a private address; no request was made.",
    "choose another package; if the host is yours, add it as an index to your pip or npm configuration",
  ),
  "library-install": defineCode("A Python or npm package could not be installed.", "choose another version"),
  "library-tampered": defineCode(
    "A Python or npm package does not match its lock file, or its installed files have changed.",
    "run `skillet packages build` to build from the lock file, or add `--update` to resolve again",
  ),
  "library-lock": defineCode(
    "A lock file of Python or npm packages cannot be read.",
    "run `skillet packages build --update`",
  ),
  "library-specifier": defineCode(
    "A script declares a Python package with syntax that only uv supports.",
    "install uv, or add the package by name: skillet config set skills.NAME.python PACKAGE",
  ),
  "package-hint": defineCode(
    "A warning: the code failed because a package is missing in its sandbox.",
    "run the command in the message to add it",
  ),
  "python-packages": defineCode(
    "The Python packages that the script declares are not available.",
    "check the declaration, and [sandbox] python_index",
  ),
} as const satisfies Record<string, CodeRow>;

/** Codes of capability requests, of providers and of sign-ins. */
export const CAPABILITY_CODES = {
  // The request
  "broker-missing": defineCode(
    "No broker is available: none was started, or the run has ended.",
    "use capabilities only while a skill that lists them runs",
  ),
  "broker-unreachable": defineCode(
    "The broker cannot be reached, or closed the connection.",
    "check whether the change was made before you try again",
  ),
  "broker-timeout": defineCode(
    "The broker did not answer in time.",
    "check whether the change was made before you try again",
  ),
  "broker-answer-invalid": defineCode(
    "The answer of the broker is invalid.",
    "check whether the change was made before you try again",
  ),
  "broker-failed": defineCode("The broker failed internally.", "report the message to the user"),
  "answer-too-large": defineCode("The answer of the broker is larger than the limit.", "request less"),
  "request-invalid": defineCode(
    "The request is not valid JSON, or has an unexpected field.",
    "send it with `skillet-sb`",
  ),
  "request-too-large": defineCode("The request is larger than 1 MiB.", "send less at once"),
  "request-timeout": defineCode("The request did not arrive in time.", "send the complete request at once"),
  "request-missing": defineCode("The connection contained no request.", "send a request"),
  "token-missing": defineCode(
    "The request has no token.",
    "start the program with the environment variables of the run",
  ),
  "token-invalid": defineCode("The token does not belong to this run.", "use the token that the run was started with"),
  "token-expired": defineCode("The token has expired because the run is over.", "start another run"),
  "nonce-reused": defineCode("The request was already sent.", "send a new request with a new nonce"),
  "idempotency-key-reused": defineCode(
    "The idempotency key was already used for a different call.",
    "use a new key for each call",
  ),
  "quota-exceeded": defineCode(
    "The run has reached its limit of capability calls.",
    "finish with the results so far, or raise the limits under [capabilities]",
  ),

  // Checks of a call
  "capability-undeclared": defineCode(
    "The skill does not declare this capability.",
    "use only capabilities that the skill declares",
  ),
  "context-denied": defineCode("The capability is not available to this caller.", "report it to the user"),
  "operation-unknown": defineCode("The capability has no such operation.", "use one of the operations in the message"),
  "scope-missing": defineCode(
    "The operation needs scopes that were not approved at sign-in.",
    "sign in again with the scopes in the message",
  ),
  "approval-pending": defineCode(
    "The call waits for the user's approval; nothing was changed yet.",
    "stop here: the run resumes after the approval",
  ),
  "approval-unknown": defineCode(
    "This run has no approval with this id.",
    "omit the approval: the user is asked again",
  ),
  "approval-mismatch": defineCode(
    "The approval was given for another call.",
    "omit the approval: the user is asked again",
  ),
  "approval-used": defineCode(
    "The approval was already used; each one is valid for one call.",
    "omit the approval: the user is asked again",
  ),
  "request-withdrawn": defineCode(
    "The caller disconnected, so the call was not made.",
    "send it again, and wait for the answer",
  ),
  "output-invalid": defineCode("The output of the provider does not match its output schema.", "report it to the user"),
  "output-too-large": defineCode(
    "The output of the provider is larger than 1 MiB.",
    "request less: set a limit, or ask for one item",
  ),

  // Providers
  "auth-needed": defineCode(
    "The user has to sign in first, or again.",
    "ask the user to run `skillet auth login NAMESPACE`",
  ),
  denied: defineCode(
    "The provider's backend denied the request, or the provider has no sign-in.",
    "correct the problem in the message",
  ),
  conflict: defineCode("Another change was made first.", "read the current state, then decide"),
  "rate-limited": defineCode("The provider's backend has received too many requests.", "wait, then try again"),
  unavailable: defineCode(
    "The provider's backend does not respond.",
    "check whether the change was made before you try again",
  ),
  "provider-failed": defineCode(
    "The provider failed for another reason, or crashed.",
    "run `skillet capability check NAMESPACE` to test it",
  ),
  "provider-missing": defineCode(
    "The provider's program is missing or cannot be started.",
    "correct it under [capabilities.providers] in config.toml",
  ),
  "provider-timeout": defineCode(
    "The provider did not answer in time and was stopped.",
    "try again, or raise its timeout_seconds",
  ),
  "provider-answer-invalid": defineCode(
    "The provider's answer is invalid.",
    "run `skillet capability check` to find the violated rule, and report it to the author",
  ),
  "provider-invalid": defineCode(
    "The definition of a provider is incomplete or invalid.",
    "correct the field that the message names, in `defineProvider`",
  ),
  unsupported: defineCode("A provider's program returns this code if it has no sign-in.", "use it without signing in"),

  // Sign-ins
  "auth-unsupported": defineCode(
    "The provider has no sign-in, or not of this kind.",
    "complete it with the code or address from the user, or use the provider without signing in",
  ),
  "auth-unfinished": defineCode(
    "No input was pasted or piped, so the sign-in is incomplete.",
    "run the command again in a terminal, or pipe the input",
  ),
  "flow-unknown": defineCode("No such sign-in is in progress.", "start it again, and finish it within a few minutes"),
  "flow-used": defineCode(
    "The sign-in has already been completed or refused.",
    "continue if it was completed, otherwise start it again",
  ),
  "flow-expired": defineCode("The sign-in was not finished in time.", "start it again"),
  "state-mismatch": defineCode(
    "The pasted text belongs to another sign-in.",
    "open the address of this sign-in, and paste the address that it redirects to",
  ),
  "callback-invalid": defineCode(
    "The pasted text is neither an address nor a code.",
    "paste only the complete address or the code",
  ),

  // Vault and audit log
  "vault-unreadable": defineCode(
    "The vault or its key cannot be read.",
    "read the message; if either is lost, sign in again",
  ),
  "vault-full": defineCode("The vault has reached its limit.", "finish a sign-in that is in progress, or wait"),
  "audit-unwritable": defineCode(
    "The audit log cannot be written or read, so capability calls are blocked.",
    "check that you own the file, and the free disk space",
  ),
} as const satisfies Record<string, CodeRow>;
