import { type CodeRow, row } from "./row.ts";

/** Code of skills: scripts, the sandbox around them, the workspace in it, and packages. */
export const SCRIPTS = {
  // Scripts
  "script-unknown": row("The skill has no such script.", "the message names those it has"),
  "script-interpreter": row(
    "Nothing says what runs the script, or that is not there.",
    "give it a first line or an ending, or give the skill the package: `skillet config set skills.NAME.packages PACKAGE`",
  ),
  "script-arguments": row(
    "The script was given more arguments, or longer ones, than the limits allow.",
    "give it on standard input",
  ),
  "script-failed": row("The script ended with an exit code other than 0.", "see what it printed"),
  "script-timeout": row(
    "The script took too long and was stopped.",
    "ask it for less, or raise [scripts] timeout_seconds",
  ),
  "script-output": row(
    "The script printed more than is kept and was stopped.",
    "let it print less, or raise [scripts] output_bytes",
  ),
  "script-memory": row(
    "The script used more memory than it may and was stopped.",
    "let it use less, or raise [sandbox] memory_mib",
  ),
  "script-abort": row("The script was interrupted.", "start it again if that was not meant"),
  "skill-too-large": row("The skill's files are more than are copied.", "keep what it does not need out of its folder"),

  // The sandbox
  "sandbox-unavailable": row(
    "Nothing here keeps code apart as asked.",
    "`skillet doctor --fix` installs what is missing",
  ),
  "sandbox-start": row("The sandbox could not be started.", "`skillet doctor --sandbox` says what is missing"),
  "sandbox-missing": row(
    "A tool wants to start a program, and there is no sandbox around it.",
    "call the tool from a run of a skill",
  ),
  "sandbox-packages": row(
    "Packages cannot be added to a sandbox of this kind.",
    "install them on the machine or in the image, or use bubblewrap",
  ),
  "sandbox-left": row("A warning: a container could not be removed.", "remove it by hand, as the message says"),
  "isolation-too-weak": row(
    "The skill is sensitive or has capabilities, and nothing keeps its code apart here.",
    'remove [sandbox] level = "none"',
  ),
  "not-isolated": row("A warning: nothing kept this code apart.", 'remove [sandbox] level = "none"'),
  "mount-unusable": row("A sandbox cannot be given a folder with such a path.", "rename the folder"),
  "variable-unusable": row(
    "A container cannot be given a variable with such a value.",
    "set it to one line, or let bubblewrap be the engine",
  ),
  "socket-path": row("The path of a socket would be too long.", "set TMPDIR to a shorter folder"),
  "network-endpoint": row("An entry under `network` is no host with a port.", 'write it as "api.example.com:443"'),
  "network-closed": row(
    "Code or a tool asked for a host that is not open to it.",
    "the operator can add it to `network` in config.toml",
  ),

  // The workspace
  "workspace-missing": row("The workspace is not there.", "name another with --workspace"),
  "workspace-too-wide": row(
    "The workspace holds your home folder or skillet's own, so code is not let into it, and its text is not approved as a whole.",
    "work in a folder of its own",
  ),
  "workspace-private": row(
    "The workspace is in a hidden folder of your home, where programs keep keys and settings, so code does not see it by default.",
    'work in another folder, or set workspace = "read" under [skills.NAME]',
  ),
  "workspace-read-only": row(
    "A warning: the script could only read the workspace, and tried to change it or asked to.",
    "`skillet script --write`, or `writes: true` in a call; or set `workspace` as the message says",
  ),
  "argument-outside": row(
    "A warning: an argument names a file that the script cannot see.",
    "copy it into the workspace, or choose its folder with `--workspace`",
  ),
  "workspace-closed": row(
    "Code never runs as root, and nobody else may use the workspace.",
    "give the folder to an ordinary user, and run skillet as that user",
  ),
  "workspace-own": row(
    "The workspace is in a folder whose code needs no trust, so no code may write to it.",
    'work elsewhere, or set workspace = "read"',
  ),
  "workspace-link": row(
    "A sensitive path of the workspace is a symlink that cannot be protected.",
    'put what it leads to in its place, or set workspace = "read"',
  ),
  "workspace-protected": row(
    "Code changed sensitive paths of the workspace; the changes are held until they are approved.",
    "`skillet approve ID` shows the complete diff and applies it; with --deny it removes the held change",
  ),
  "workspace-unwatchable": row(
    "The workspace has more sensitive files than can be compared before and after a run.",
    'work in a smaller folder, or set workspace = "read"',
  ),
  "workspace-sockets": row(
    "The workspace has sockets or named pipes that cannot be masked.",
    'remove them, or set workspace = "none"; where another command may move them, try again when it has ended',
  ),
  "held-conflict": row(
    "The workspace has changed since the change was held.",
    "compare both, change the file yourself, then remove the held change with --deny",
  ),
  "held-unapplied": row(
    "A held change could not be written.",
    "check the folder's permissions, and that there is room",
  ),

  // Packages
  "packages-missing": row(
    "The skill needs system packages that are not there, or cannot be had here.",
    "`skillet packages build`, or use a sandbox that has them",
  ),
  "package-count": row("The skill asks for more system packages than it may.", "name only what its scripts call"),
  "package-system": row(
    "System packages need Linux with apt, and this is another system.",
    "install the programs yourself, or use a Debian machine or container",
  ),
  "package-tools": row("A program that builds packages is missing.", "`skillet doctor --fix`"),
  "package-range": row(
    "The user has no range of ids to build packages with.",
    "`skillet doctor --fix`, or let root build",
  ),
  "package-sandbox": row("The sandbox for building packages cannot be started.", "`skillet doctor` says what stops it"),
  "package-unresolved": row(
    "The release has no such package, or it cannot be installed with the others.",
    "check it with `apt-cache policy NAME`",
  ),
  "package-download": row("The archive of packages cannot be reached.", "`sudo apt-get update` shows why"),
  "package-tampered": row(
    "A package is not what the signed index says.",
    "nothing was installed: try again, or another mirror",
  ),
  "package-install": row("A package's own script failed, perhaps for want of a network.", "use another package"),
  "package-place": row(
    "Others can write to the folder that packages are built in.",
    "`chmod go-w` it, or name another in SKILLET_PACKAGES",
  ),
  "package-room": row("There is no room to build packages.", "make room, or name another folder in SKILLET_PACKAGES"),
  "package-aborted": row("Building packages was called off.", "nothing of it is left: build again"),
  "library-tools": row(
    "pip or npm, which fetch packages, is missing, or its configuration cannot be used.",
    "install it or change its configuration, as the message says",
  ),
  "library-unresolved": row(
    "A Python or npm package cannot be had: it is unknown, has no wheel, or its index cannot be reached.",
    "check its name and version, and your own configuration of pip or npm",
  ),
  "library-private-address": row(
    "A Python or npm package, its index or a dependency names a private address. It was not requested.",
    "choose another package; if that host is your own, add it as an index to your configuration of pip or npm",
  ),
  "library-install": row("A Python or npm package could not be installed.", "choose another version of it"),
  "library-tampered": row(
    "A Python or npm package is not the file that its lock names, or what was installed has changed.",
    "`skillet packages build` builds it again by its lock; with `--update` it is resolved again",
  ),
  "library-lock": row("A lock file of Python or npm packages cannot be read.", "`skillet packages build --update`"),
  "library-specifier": row(
    "A script declares a Python package in a way that only uv can read.",
    "install uv, or give the package by name: skillet config set skills.NAME.python PACKAGE",
  ),
  "package-hint": row(
    "A warning: the code failed because a package is missing in its sandbox.",
    "the message has the command that adds it",
  ),
  "python-packages": row(
    "The Python packages that the script declares cannot be had.",
    "check what it declares, and [sandbox] python_index",
  ),
} as const satisfies Record<string, CodeRow>;
