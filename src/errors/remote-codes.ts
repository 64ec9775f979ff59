import { type CodeRow, defineCode } from "./problem.ts";

/** Codes of remote skill sources: addresses, downloads and repositories. */
export const SOURCE_CODES = {
  // Addresses
  "address-unknown": defineCode(
    "The text is not a known kind of skill source.",
    "use a folder, an archive, owner/repository or an https address",
  ),
  "address-too-long": defineCode("The address is longer than the limit.", "check the pasted text"),
  "address-hidden": defineCode("The address contains invisible characters.", "type it manually"),
  "address-option": defineCode("The address starts with a hyphen, like an option.", "write ./ before the folder name"),
  "address-transport": defineCode(
    "The address names a program that git would run.",
    "use the https address of the repository",
  ),
  "address-scheme": defineCode("The scheme of the address is not supported.", "use https, ssh or file"),
  "address-insecure": defineCode("The address uses plain http, so content could be modified in transit.", "use https"),
  "address-host": defineCode(
    "The address has no valid host.",
    "write it as owner/repository, or https://HOST/owner/repository",
  ),
  "address-incomplete": defineCode("The address names a repository host, but no repository.", "add owner/repository"),
  "address-secret": defineCode(
    "The address contains a password, a token or a query, which would be written to skills.lock.",
    "remove it; use git's credential helper or an ssh address",
  ),
  "address-ref": defineCode("The text after the # is not a branch, tag or commit.", "write it as in ADDRESS#main"),
  "address-subfolder": defineCode(
    "The text after the // is not a folder inside the source.",
    "use the path of the folder from the top of the source",
  ),
  "address-part": defineCode("This kind of source has no branches or no subfolders.", "remove the # or // part"),

  // Folders and archives
  "source-missing": defineCode("The folder or archive does not exist.", "check the path"),
  "source-unreadable": defineCode(
    "The folder or archive cannot be read.",
    "give yourself read permission: `chmod u+r PATH`",
  ),
  "source-kind": defineCode("The path is neither a folder nor an archive.", "use the path of the skill's folder"),
  "source-folder-missing": defineCode("The source has no such folder.", "use one of the folders in the message"),
  "source-contains-target": defineCode(
    "The source folder contains the folder that it would be copied to.",
    "use the path of the skill's own folder",
  ),
  "source-too-large": defineCode(
    "The source is larger than the download limit.",
    "name only the skills or the folder that you need",
  ),
  "source-too-many": defineCode(
    "The source has more files, folders and symlinks than the limit.",
    "name only the folder that you need, or report it to the author",
  ),
  "source-skill-missing": defineCode(
    "The source no longer has the skill, or has moved it.",
    "check the source; the message has the new path, if it is known",
  ),
  "no-skills": defineCode(
    "The source has no skill that can be loaded.",
    "name a folder that contains a SKILL.md, and run `skillet check` on it",
  ),
  "duplicate-name": defineCode(
    "Two skills with the same name would be written to one folder.",
    "add //FOLDER to the source to choose one",
  ),

  // Downloads and sites
  "download-missing": defineCode("The address does not exist (HTTP 404 or 410).", "check the address"),
  "download-refused": defineCode("The server responded with an error.", "check the address, and try again"),
  "download-unreachable": defineCode(
    "The server cannot be reached.",
    "check the address and the network, and try again",
  ),
  "download-timeout": defineCode("The download took too long.", "check the network, and try again"),
  "download-redirect": defineCode(
    "The address redirects to another host, or redirects too often.",
    "if you trust that host, use its address directly",
  ),
  "download-private-address": defineCode(
    "A source refers to a private address on this machine, its networks or its cloud; no request was made.",
    "if you trust the source, allow it with --allow-private-addresses",
  ),
  "download-insecure": defineCode("The file is only available over plain http.", "use an https address"),
  "download-encoding": defineCode(
    "The server compressed the response although no compression was requested.",
    "report it to the operator of the server",
  ),
  "download-too-large": defineCode("The file is larger than the download limit.", "use another source"),
  "fetch-aborted": defineCode("The download was canceled.", "try again; no partial files remain"),
  "site-index": defineCode(
    "The site's skill index cannot be read.",
    "report it to the operator of the site, or add the skills from their repository",
  ),
  "site-version": defineCode(
    "The version of the site's skill index is not supported.",
    "update skillet, or add the skills from their repository",
  ),
  "site-too-many": defineCode(
    "The site's index lists more skills than the limit.",
    "add the skills from their repository",
  ),
  "site-digest-mismatch": defineCode(
    "A file of the site does not match the digest in its index; it was not opened.",
    "report it to the operator of the site",
  ),

  // Repositories
  "git-missing": defineCode(
    "git, or the ssh that it needs, is not installed or does not start.",
    "install it, or add the skills as an archive",
  ),
  "git-sign-in": defineCode(
    "The repository does not exist or is private, and git has no credentials for it.",
    "check the address; sign in to git, or use the ssh address",
  ),
  "git-host-key": defineCode(
    "The host is unknown to ssh, or its key has changed.",
    "connect to it once with ssh, and compare its fingerprint with the published one",
  ),
  "git-empty": defineCode("The repository is empty or has no default branch.", "add a branch: ADDRESS#branch"),
  "git-ref-missing": defineCode(
    "The repository has no such branch or tag.",
    "use a branch, a tag, or a full 40-digit commit id",
  ),
  "git-commit-missing": defineCode(
    "The repository no longer has the commit.",
    "review its current content before you add it again",
  ),
  "git-owner": defineCode(
    "The repository belongs to another user, so git ignores its settings.",
    "add it as a folder, by its path",
  ),
  "git-object-format": defineCode(
    "The repository uses SHA-256 commit ids, which are not supported.",
    "add it as a folder or as an archive",
  ),
  "git-certificate": defineCode(
    "git does not trust the certificate of the host.",
    "check the address; for a company certificate, set http.sslCAInfo in git",
  ),
  "git-not-found": defineCode(
    "There is no repository at the address.",
    "check the address; add a plain folder by its path",
  ),
  "git-unreachable": defineCode(
    "The host of the repository cannot be reached.",
    "check the address and the network, and try again",
  ),
  "git-timeout": defineCode(
    "git received no data for too long and was stopped.",
    "check that the host is reachable, and try again",
  ),
  "git-broken": defineCode(
    "The repository is damaged: its content does not match its ids.",
    "report it to the maintainer of the repository",
  ),
  "git-failed": defineCode(
    "git failed for another reason; the message has its last output.",
    "run `git ls-remote` with the same address to check that git can reach it",
  ),
} as const satisfies Record<string, CodeRow>;

const INSPECT_FIRST = "inspect it before you trust it, and report it to the author";

/** Codes that reject a source because of the structure of its archive or one of its entries. */
export const ARCHIVE_ERROR_CODES = {
  "archive-unknown": defineCode("The file is neither a zip archive nor a gzip-compressed tar archive.", INSPECT_FIRST),
  "archive-broken": defineCode("The archive is truncated or has an invalid header.", INSPECT_FIRST),
  "archive-too-large": defineCode(
    "The archive is larger than the limit.",
    "remove everything from it that is not part of a skill",
  ),
  "archive-bomb": defineCode("The archive expands to far more than its own size (zip bomb).", INSPECT_FIRST),
  "archive-encrypted": defineCode("An entry of the archive is encrypted.", "unpack it yourself, and add the folder"),
  "archive-method": defineCode(
    "An entry uses an unsupported compression method.",
    "unpack it yourself, and add the folder",
  ),
  "archive-multipart": defineCode("The archive is one part of a multi-part archive.", "join the parts first"),
  "archive-zip64": defineCode("The archive uses ZIP64, which skills do not need.", INSPECT_FIRST),
  "archive-ambiguous": defineCode(
    "The archive contradicts itself, so different programs would read it differently.",
    INSPECT_FIRST,
  ),
  "archive-inconsistent": defineCode("The archive describes an entry differently in two places.", INSPECT_FIRST),
  "archive-overlap": defineCode("Two entries of the archive overlap.", INSPECT_FIRST),
  "archive-extra-data": defineCode("The archive contains bytes that belong to no entry.", INSPECT_FIRST),
  "archive-nested": defineCode(
    "The source contains an archive that contains code or cannot be inspected.",
    INSPECT_FIRST,
  ),
  "entry-absolute": defineCode("An entry has an absolute path, outside the folder.", INSPECT_FIRST),
  "entry-traversal": defineCode('An entry has ".." in its path, which leaves the folder.', INSPECT_FIRST),
  "entry-through-symlink": defineCode("The path of an entry goes through a symlink.", INSPECT_FIRST),
  "entry-through-file": defineCode("The path of an entry goes through a file.", INSPECT_FIRST),
  "entry-repository": defineCode(
    "An entry is inside a .git, .hg or .svn folder, whose settings can start programs.",
    INSPECT_FIRST,
  ),
  "entry-kind": defineCode("An entry is not a file, a folder or a symlink.", INSPECT_FIRST),
  "entry-backslash": defineCode("A name contains a backslash, which separates folders on Windows.", INSPECT_FIRST),
  "entry-colon": defineCode(
    "A name contains a colon, which means a drive or an alternate data stream on Windows.",
    INSPECT_FIRST,
  ),
  "entry-control": defineCode("A name contains a control character.", INSPECT_FIRST),
  "entry-hidden": defineCode("A name contains an invisible character.", INSPECT_FIRST),
  "entry-encoding": defineCode("A name is not UTF-8.", INSPECT_FIRST),
  "entry-empty": defineCode('A path has an empty part or "." in it.', INSPECT_FIRST),
  "entry-trailing-dot": defineCode(
    "A part of a path ends with a dot or a space, which Windows removes.",
    INSPECT_FIRST,
  ),
  "entry-device": defineCode("A name is a reserved device name on Windows.", INSPECT_FIRST),
  "entry-too-long": defineCode("A name, a path or a symlink target is too long.", INSPECT_FIRST),
  "entry-too-deep": defineCode("An entry is nested too deeply.", INSPECT_FIRST),
  "entry-collision": defineCode("Two entries have the same path on some file systems.", INSPECT_FIRST),
  "duplicate-entry": defineCode("An entry is duplicated.", INSPECT_FIRST),
  "entry-size": defineCode(
    "The size of an entry differs from its header, or it changed while it was read.",
    INSPECT_FIRST,
  ),
  "entry-corrupt": defineCode("An entry cannot be decompressed, or its checksum is wrong.", INSPECT_FIRST),
  "entry-too-large": defineCode("A file of the source is larger than the limit.", INSPECT_FIRST),
  "entry-unwritable": defineCode(
    "A file of the source cannot be written to disk.",
    "check the free disk space, and that the file system allows the name",
  ),
} as const satisfies Record<string, CodeRow>;

/** Codes of lock files, signatures and trust. */
export const LOCK_CODES = {
  "lock-version": defineCode("The version of the lock file is not supported.", "update skillet"),
  "lock-edited": defineCode(
    "A digest in the lock file does not match the file list next to it: the lock file was edited.",
    "restore the lock file from version control, or add the skill again",
  ),
  "lock-missing": defineCode(
    "There is no lock file.",
    "restore it from version control, or add the skills without --frozen",
  ),
  "lock-mismatch": defineCode(
    "The source differs from the lock file.",
    "run `skillet update --dry-run` to see the changes",
  ),
  "lock-too-large": defineCode(
    "The lock file would exceed its size limit.",
    "add fewer skills, or remove some first: `skillet remove NAME`",
  ),
  "lock-unsupported-file": defineCode(
    "A file of an added skill is a symlink, a device or unreadable, so it cannot be approved.",
    "replace it with a regular file, or remove it",
  ),
  "other-source": defineCode(
    "A skill with this name was added from another source.",
    "compare both; use --force to replace the existing one",
  ),
  edited: defineCode(
    "A file that skillet wrote was edited since, and the edits would be lost.",
    "save your changes in another folder, then use --force",
  ),
  "no-source": defineCode(
    "The skill was adopted, and its source is unknown.",
    "set a source: `skillet adopt PATH --from SOURCE`",
  ),
  "skill-ambiguous": defineCode("Several folders have a managed skill with this name.", "choose one: NAME@FOLDER"),
  "already-managed": defineCode("The skill is already managed: it was added, adopted or exported.", "use it as it is"),
  "not-adoptable": defineCode(
    "The path cannot be adopted as a skill.",
    "adopt the folder of one skill, with a SKILL.md and the skill's name",
  ),
  "unsafe-permissions": defineCode(
    "A file belongs to another user, or other users can write to it.",
    "make it yours: chown, and chmod go-w",
  ),
  "skill-repository": defineCode(
    "The skill's folder is a git repository, so every git command can change it.",
    "manage it with git (`git pull`, then `skillet trust NAME`), or adopt a copy without .git",
  ),
  "adopted-unreadable": defineCode(
    "The record of folders with adopted skills cannot be read.",
    "fix it, or remove it and run `skillet adopt` again",
  ),
  "unmanaged-path": defineCode(
    "A file or folder that skillet did not write is at the target path.",
    "move it if you need it, otherwise remove it",
  ),
  "merge-broken": defineCode(
    "Merging your changes with the update does not result in a valid skill.",
    "fix your SKILL.md, or use --conflicts mine or --conflicts theirs",
  ),
  "resource-changed": defineCode(
    "The skill's files changed while they were read or copied.",
    "try again when no program changes them",
  ),
  "not-signed": defineCode(
    "The skill has no valid signature of a known signer, and one is required.",
    "ask the author to sign it, and add their key: `skillet signers add`",
  ),
  unsignable: defineCode(
    "The skill cannot be signed in its current state.",
    "correct the problem that the message names",
  ),
  "signing-key": defineCode(
    "The signing key is missing, locked or invalid, or a file already exists at its path.",
    "read the message, or run `skillet sign --new-key` to create a key",
  ),
  "signer-key": defineCode(
    "The text is not the public key of a signer.",
    "use the key that `skillet sign` prints for the author",
  ),
  "signer-taken": defineCode(
    "The signer is known with another key, or the key with another name.",
    "ask the signer which key is valid, then remove the other with `skillet signers remove`",
  ),
  "signers-unreadable": defineCode(
    "The list of signers cannot be read.",
    "fix it, or delete it to start over: then no signature is accepted",
  ),
  "trust-unreadable": defineCode(
    "The record of trusted skills cannot be read.",
    "fix it, or delete it to start over: then no skill is trusted",
  ),
  "trust-not-needed": defineCode("The skill is your own and needs no trust.", "use it as it is"),
  "trust-added": defineCode(
    "The skill was approved when it was added, so there is no trust to revoke.",
    "disable it with `skillet disable`, or remove it",
  ),
} as const satisfies Record<string, CodeRow>;
