import { type CodeRow, defineCode } from "./problem.ts";

/** Code of skills: scripts, the sandbox around them, the workspace in it, and packages. */
export const SCRIPT_CODES = {
  // Scripts
  "script-unknown": defineCode("The skill has no such script.", "the message names those it has"),
  "script-interpreter": defineCode(
    "Nothing says what runs the script, or that is not there.",
    "give it a first line or an ending, or give the skill the package: `skillet config set skills.NAME.packages PACKAGE`",
  ),
  "script-arguments": defineCode(
    "The script was given more arguments, or longer ones, than the limits allow.",
    "give it on standard input",
  ),
  "script-failed": defineCode("The script ended with an exit code other than 0.", "see what it printed"),
  "script-timeout": defineCode(
    "The script took too long and was stopped.",
    "ask it for less, or raise [scripts] timeout_seconds",
  ),
  "script-output": defineCode(
    "The script printed more than is kept and was stopped.",
    "let it print less, or raise [scripts] output_bytes",
  ),
  "script-memory": defineCode(
    "The script used more memory than it may and was stopped.",
    "let it use less, or raise [sandbox] memory_mib",
  ),
  "script-abort": defineCode("The script was interrupted.", "start it again if that was not meant"),
  "skill-too-large": defineCode(
    "The skill's files are more than are copied.",
    "keep what it does not need out of its folder",
  ),

  // The sandbox
  "sandbox-unavailable": defineCode(
    "Nothing here keeps code apart as asked.",
    "`skillet doctor --fix` installs what is missing",
  ),
  "sandbox-start": defineCode("The sandbox could not be started.", "`skillet doctor --sandbox` says what is missing"),
  "sandbox-missing": defineCode(
    "A tool wants to start a program, and there is no sandbox around it.",
    "call the tool from a run of a skill",
  ),
  "sandbox-packages": defineCode(
    "Packages cannot be added to a sandbox of this kind.",
    "install them on the machine or in the image, or use bubblewrap",
  ),
  "sandbox-left": defineCode("A warning: a container could not be removed.", "remove it by hand, as the message says"),
  "isolation-too-weak": defineCode(
    "The skill is sensitive or has capabilities, and nothing keeps its code apart here.",
    'remove [sandbox] level = "none"',
  ),
  "not-isolated": defineCode("A warning: nothing kept this code apart.", 'remove [sandbox] level = "none"'),
  "mount-unusable": defineCode("A sandbox cannot be given a folder with such a path.", "rename the folder"),
  "variable-unusable": defineCode(
    "A container cannot be given a variable with such a value.",
    "set it to one line, or let bubblewrap be the engine",
  ),
  "socket-path": defineCode("The path of a socket would be too long.", "set TMPDIR to a shorter folder"),
  "network-endpoint": defineCode(
    "An entry under `network` is no host with a port.",
    'write it as "api.example.com:443"',
  ),
  "network-closed": defineCode(
    "Code or a tool asked for a host that is not open to it.",
    "the operator can add it to `network` in config.toml",
  ),

  // The workspace
  "workspace-missing": defineCode("The workspace is not there.", "name another with --workspace"),
  "workspace-too-wide": defineCode(
    "The workspace holds your home folder or skillet's own, so code is not let into it, and its text is not approved as a whole.",
    "work in a folder of its own",
  ),
  "workspace-private": defineCode(
    "The workspace is in a hidden folder of your home, where programs keep keys and settings, so code does not see it by default.",
    'work in another folder, or set workspace = "read" under [skills.NAME]',
  ),
  "workspace-read-only": defineCode(
    "A warning: the script could only read the workspace, and tried to change it or asked to.",
    "`skillet script --write`, or `writes: true` in a call; or set `workspace` as the message says",
  ),
  "argument-outside": defineCode(
    "A warning: an argument names a file that the script cannot see.",
    "copy it into the workspace, or choose its folder with `--workspace`",
  ),
  "workspace-closed": defineCode(
    "Code never runs as root, and nobody else may use the workspace.",
    "give the folder to an ordinary user, and run skillet as that user",
  ),
  "workspace-own": defineCode(
    "The workspace is in a folder whose code needs no trust, so no code may write to it.",
    'work elsewhere, or set workspace = "read"',
  ),
  "workspace-link": defineCode(
    "A sensitive path of the workspace is a symlink that cannot be protected.",
    'put what it leads to in its place, or set workspace = "read"',
  ),
  "workspace-protected": defineCode(
    "Code changed sensitive paths of the workspace; the changes are held until they are approved.",
    "`skillet approve ID` shows the complete diff and applies it; with --deny it removes the held change",
  ),
  "workspace-unwatchable": defineCode(
    "The workspace has more sensitive files than can be compared before and after a run.",
    'work in a smaller folder, or set workspace = "read"',
  ),
  "workspace-sockets": defineCode(
    "The workspace has sockets or named pipes that cannot be masked.",
    'remove them, or set workspace = "none"; where another command may move them, try again when it has ended',
  ),
  "held-conflict": defineCode(
    "The workspace has changed since the change was held.",
    "compare both, change the file yourself, then remove the held change with --deny",
  ),
  "held-unapplied": defineCode(
    "A held change could not be written.",
    "check the folder's permissions, and that there is room",
  ),

  // Packages
  "packages-missing": defineCode(
    "The skill needs system packages that are not there, or cannot be had here.",
    "`skillet packages build`, or use a sandbox that has them",
  ),
  "package-count": defineCode(
    "The skill asks for more system packages than it may.",
    "name only what its scripts call",
  ),
  "package-system": defineCode(
    "System packages need Linux with apt, and this is another system.",
    "install the programs yourself, or use a Debian machine or container",
  ),
  "package-tools": defineCode("A program that builds packages is missing.", "`skillet doctor --fix`"),
  "package-range": defineCode(
    "The user has no range of ids to build packages with.",
    "`skillet doctor --fix`, or let root build",
  ),
  "package-sandbox": defineCode(
    "The sandbox for building packages cannot be started.",
    "`skillet doctor` says what stops it",
  ),
  "package-unresolved": defineCode(
    "The release has no such package, or it cannot be installed with the others.",
    "check it with `apt-cache policy NAME`",
  ),
  "package-download": defineCode("The archive of packages cannot be reached.", "`sudo apt-get update` shows why"),
  "package-tampered": defineCode(
    "A package is not what the signed index says.",
    "nothing was installed: try again, or another mirror",
  ),
  "package-install": defineCode("A package's own script failed, perhaps for want of a network.", "use another package"),
  "package-place": defineCode(
    "Others can write to the folder that packages are built in.",
    "`chmod go-w` it, or name another in SKILLET_PACKAGES",
  ),
  "package-room": defineCode(
    "There is no room to build packages.",
    "make room, or name another folder in SKILLET_PACKAGES",
  ),
  "package-aborted": defineCode("Building packages was called off.", "nothing of it is left: build again"),
  "library-tools": defineCode(
    "pip or npm, which fetch packages, is missing, or its configuration cannot be used.",
    "install it or change its configuration, as the message says",
  ),
  "library-unresolved": defineCode(
    "A Python or npm package cannot be had: it is unknown, has no wheel, or its index cannot be reached.",
    "check its name and version, and your own configuration of pip or npm",
  ),
  "library-private-address": defineCode(
    "A Python or npm package, its index or a dependency names a private address. It was not requested.",
    "choose another package; if that host is your own, add it as an index to your configuration of pip or npm",
  ),
  "library-install": defineCode("A Python or npm package could not be installed.", "choose another version of it"),
  "library-tampered": defineCode(
    "A Python or npm package is not the file that its lock names, or what was installed has changed.",
    "`skillet packages build` builds it again by its lock; with `--update` it is resolved again",
  ),
  "library-lock": defineCode(
    "A lock file of Python or npm packages cannot be read.",
    "`skillet packages build --update`",
  ),
  "library-specifier": defineCode(
    "A script declares a Python package in a way that only uv can read.",
    "install uv, or give the package by name: skillet config set skills.NAME.python PACKAGE",
  ),
  "package-hint": defineCode(
    "A warning: the code failed because a package is missing in its sandbox.",
    "the message has the command that adds it",
  ),
  "python-packages": defineCode(
    "The Python packages that the script declares cannot be had.",
    "check what it declares, and [sandbox] python_index",
  ),
} as const satisfies Record<string, CodeRow>;

/** What a skill asks the broker of its run for, who serves it, and who is signed in. */
export const CAPABILITY_CODES = {
  // The request
  "no-socket": defineCode(
    "There is no broker here, or not any more.",
    "capabilities are there while a skill runs that lists them",
  ),
  "broker-gone": defineCode(
    "The broker cannot be reached, or ended the connection.",
    "ask again; look first whether a change was made",
  ),
  "broker-silent": defineCode(
    "The broker has not answered in time.",
    "ask again later; look first whether a change was made",
  ),
  "broker-answer": defineCode(
    "What the broker answered cannot be understood.",
    "look whether it was done before you do it again",
  ),
  "broker-failed": defineCode("The broker could not do its own work.", "see the message, and tell the user"),
  "answer-too-large": defineCode("The answer of the broker is larger than is read.", "ask for less"),
  "frame-invalid": defineCode(
    "The request is none: no JSON, or something in it does not belong there.",
    "ask through `skillet-sb`",
  ),
  "frame-too-large": defineCode("The request is larger than 1 MiB.", "send less at once"),
  "frame-timeout": defineCode("The request did not arrive in time.", "send it whole, at once"),
  "frame-cut": defineCode("The connection held no request.", "send one"),
  "token-missing": defineCode("The request has no token.", "start the program with the variables of the run"),
  "token-invalid": defineCode("The token is not one of this run.", "use the one that the run was started with"),
  "token-expired": defineCode("The token has expired.", "the run is over: start another"),
  "nonce-used": defineCode("The request was made before.", "make it anew"),
  "key-used": defineCode("The key was used for another call.", "take another key for another call"),
  "quota-reached": defineCode(
    "The run has asked as often as it may.",
    "finish with what there is; the limits are under [capabilities]",
  ),

  // What has to be true
  "capability-undeclared": defineCode(
    "The skill does not declare this capability.",
    "it can ask for those that it declares",
  ),
  "context-denied": defineCode("The capability is not there for this caller.", "tell the user"),
  "operation-unknown": defineCode("The capability has no such operation.", "the message names those it has"),
  "scope-missing": defineCode(
    "The operation needs more than was agreed to at sign-in.",
    "sign in again, with the scopes of the message",
  ),
  "approval-pending": defineCode(
    "It waits for the user to agree; nothing was done yet.",
    "end here: the run goes on when there is a word",
  ),
  "approval-unknown": defineCode(
    "Nobody has given this approval in this run.",
    "leave the approval out: the user is asked again",
  ),
  "approval-other": defineCode(
    "The approval was given for another call.",
    "leave the approval out: the user is asked again",
  ),
  "approval-used": defineCode(
    "The approval was used: one holds for one call.",
    "leave the approval out: the user is asked again",
  ),
  "request-withdrawn": defineCode(
    "Nobody waits for the call any more, so it was not done.",
    "ask again, and wait for the answer",
  ),
  "output-invalid": defineCode("What the provider gave is not what it says that it gives.", "tell the user"),
  "output-too-large": defineCode("What the provider gave is larger than 1 MiB.", "ask for less: a limit, one item"),

  // Providers
  "auth-needed": defineCode("Somebody has to sign in first, or again.", "the user runs `skillet auth login NAMESPACE`"),
  denied: defineCode("The system behind the provider says no, or nobody signs in there.", "see the message"),
  conflict: defineCode("Something else changed it first.", "read it again, then decide"),
  "rate-limited": defineCode("The system behind the provider was asked too often.", "wait a while, then ask again"),
  unavailable: defineCode(
    "The system behind the provider does not answer.",
    "try again later; look first whether a change was made",
  ),
  "provider-failed": defineCode(
    "The provider failed otherwise, or crashed.",
    "`skillet capability check NAMESPACE` tries it by itself",
  ),
  "provider-missing": defineCode(
    "The provider is not there, or cannot be started.",
    "correct it under [capabilities.providers] in config.toml",
  ),
  "provider-timeout": defineCode(
    "The provider did not answer in time and was stopped.",
    "try again, or raise its timeout_seconds",
  ),
  "provider-answer": defineCode(
    "What the provider answered is no answer.",
    "tell whoever made it; `skillet capability check` says which rule it breaks",
  ),
  "provider-invalid": defineCode(
    "The definition of a provider lacks something, or cannot be used.",
    "define it as the message says, with `defineProvider`",
  ),
  unsupported: defineCode("What a provider's program answers where nobody signs in.", "use it without signing in"),

  // Sign-ins
  "auth-unsupported": defineCode(
    "Nobody signs in to this provider, or not this way.",
    "complete it with what the user brings back, or use it as it is",
  ),
  "auth-unfinished": defineCode(
    "Nothing was pasted or piped in, so nobody is signed in.",
    "run it again at a terminal, or pipe it in",
  ),
  "flow-unknown": defineCode("There is no such sign-in under way.", "begin it again; it holds for a few minutes"),
  "flow-used": defineCode(
    "The sign-in is over: it was completed, or refused.",
    "go on if it was completed, else begin it again",
  ),
  "flow-expired": defineCode("The sign-in was not finished in time.", "begin it again"),
  "state-mismatch": defineCode(
    "What was pasted belongs to another sign-in.",
    "open the address of this one, and paste where it leads",
  ),
  "callback-invalid": defineCode(
    "What was pasted is neither an address nor a code.",
    "paste the whole address, or the code, and nothing else",
  ),

  // What is kept
  "vault-unreadable": defineCode(
    "The vault, or the key to it, cannot be read.",
    "see the message; without either, sign in again",
  ),
  "vault-full": defineCode("The vault holds as much as it may.", "finish a sign-in that is under way, or wait"),
  "audit-unwritable": defineCode(
    "The audit log cannot be written or read, so nothing is done for skills.",
    "check that it is a file of yours, and that there is room",
  ),
} as const satisfies Record<string, CodeRow>;
