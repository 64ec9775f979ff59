import { type CodeRow, defineCode } from "./problem.ts";

/** Skills from elsewhere: what names them, and what brings them here. */
export const SOURCE_CODES = {
  // Addresses
  "address-unknown": defineCode(
    "The text names no place that skills come from.",
    "give a folder, an archive, owner/repository or an https address",
  ),
  "address-long": defineCode("The address is too long to be one.", "check what was pasted"),
  "address-hidden": defineCode("The address holds characters that nobody sees.", "type it again by hand"),
  "address-option": defineCode(
    "The address begins with a hyphen, as options do.",
    "put ./ before the name of a folder like this",
  ),
  "address-transport": defineCode(
    "The address names a program that git would run.",
    "give the repository's https address",
  ),
  "address-scheme": defineCode("Nothing is fetched by this scheme.", "use https, ssh or file"),
  "address-insecure": defineCode("What comes over plain http can be changed by anybody on the way.", "use https"),
  "address-host": defineCode("The address names no host that can be asked.", "correct the host"),
  "address-incomplete": defineCode(
    "The address names a host of repositories, and no repository.",
    "add owner/repository",
  ),
  "address-secret": defineCode(
    "The address holds a password, a token or a query, which would be written into skills.lock.",
    "leave it out: git asks its credential helper, or use an ssh address",
  ),
  "address-ref": defineCode("What follows the # is no branch, tag or commit.", "write it as in ADDRESS#main"),
  "address-subfolder": defineCode(
    "What follows the // is no folder inside a source.",
    "name the folder by its path from the top",
  ),
  "address-part": defineCode(
    "This kind of source has no branches, or no folders.",
    "leave out what follows the # or the //",
  ),

  // Folders and archives
  "source-missing": defineCode("The folder or archive is not there.", "check the path"),
  "source-unreadable": defineCode("The folder or archive cannot be read.", "give yourself read permission"),
  "source-kind": defineCode(
    "The path leads to what is neither a folder nor an archive.",
    "name the folder that the skill is in",
  ),
  "source-folder-missing": defineCode("The source has no such folder.", "the message names folders that hold skills"),
  "source-holds-target": defineCode(
    "The folder holds the very folder that it would be copied into.",
    "name the folder of the skill itself",
  ),
  "source-too-large": defineCode(
    "The source is larger than is fetched.",
    "name the skills or the folder that you want",
  ),
  "source-too-many": defineCode(
    "The source holds more files, folders and links than are taken.",
    "name the folder that you want, or tell whoever made it",
  ),
  "source-gone": defineCode(
    "The source does not have the skill any more, or has it at another place.",
    "look at the source; the message names the new place where there is one",
  ),
  "no-skills": defineCode(
    "There is no skill in the source, or none that can be loaded.",
    "name the folder that holds a SKILL.md; `skillet check` says what is wrong with one",
  ),
  "name-twice": defineCode(
    "Two skills of one name are to be put into one folder.",
    "name the folder that you mean: //FOLDER behind the source",
  ),

  // Downloads and sites
  "download-missing": defineCode("There is nothing at the address.", "check the address"),
  "download-refused": defineCode("The server answers with an error.", "check the address, and try again"),
  "download-unreachable": defineCode(
    "The server cannot be reached.",
    "check the address and the network, and try again",
  ),
  "download-timeout": defineCode("The download took too long.", "check the network, and try again"),
  "download-redirect": defineCode(
    "The address leads on to another host, or leads on too often.",
    "if you trust that host, give its address yourself",
  ),
  "download-private-address": defineCode(
    "A source named a private address: one of this machine, its networks or its cloud. It was not asked.",
    "if you trust the source, allow it with --allow-private-addresses",
  ),
  "download-insecure": defineCode("The file is to be had only over plain http.", "only https is fetched from"),
  "download-encoding": defineCode(
    "The server sends the file compressed, though that was not asked for.",
    "tell whoever runs it",
  ),
  "download-too-large": defineCode(
    "The file is larger than is fetched.",
    "nothing so large is fetched: use another source",
  ),
  "fetch-aborted": defineCode("Fetching was called off.", "nothing of it is left: try again"),
  "site-index": defineCode(
    "The site's list of skills cannot be read.",
    "tell whoever runs the site, or add its skills from where they are kept",
  ),
  "site-version": defineCode(
    "The site's list is of a version that is not understood.",
    "bring skillet up to date, or add its skills from where they are kept",
  ),
  "site-too-many": defineCode(
    "The site offers more skills than are looked at.",
    "add its skills from where they are kept",
  ),
  "site-digest": defineCode(
    "A file of the site is not the one that its list names.",
    "nothing of it was opened: tell whoever runs the site",
  ),

  // Repositories
  "git-missing": defineCode(
    "git, or the ssh that it needs, is not on this machine or does not start.",
    "install it, or add the skills as an archive",
  ),
  "git-sign-in": defineCode(
    "The repository is not there, or not for everybody, and git has no sign-in for it.",
    "check the address; sign git in, or use the ssh address",
  ),
  "git-host-key": defineCode(
    "The host is not known to ssh, or is another one than before.",
    "connect to it once by hand, and compare its fingerprint with what it publishes",
  ),
  "git-empty": defineCode("The repository has no default branch, or nothing in it.", "name a branch: ADDRESS#branch"),
  "git-ref-missing": defineCode(
    "The repository has no such branch or tag.",
    "give a branch or a tag, or a commit with all of its 40 digits",
  ),
  "git-commit-missing": defineCode(
    "The repository does not have the commit any more.",
    "look at what is there now before you add it again",
  ),
  "git-owner": defineCode(
    "The repository belongs to another user, whose settings git does not follow.",
    "add it as a folder, by its path",
  ),
  "git-object-format": defineCode(
    "The repository names its commits by SHA-256, which is not fetched.",
    "add it as a folder, or as an archive",
  ),
  "git-certificate": defineCode(
    "The host has no certificate that git trusts.",
    "check the address; git's setting http.sslCAInfo names the certificates of a company",
  ),
  "git-not-found": defineCode(
    "There is no repository at the address.",
    "check the address; a folder that is none is added by its path",
  ),
  "git-unreachable": defineCode(
    "The host of the repository cannot be reached.",
    "check the address and the network, and try again",
  ),
  "git-timeout": defineCode(
    "git heard nothing for too long and was stopped.",
    "check that the host can be reached, and try again",
  ),
  "git-broken": defineCode(
    "The repository does not hold what it says that it holds.",
    "the repository is damaged: tell whoever keeps it",
  ),
  "git-failed": defineCode(
    "git failed otherwise; the message has its last words.",
    "`git ls-remote` with the same address says whether git can reach it by itself",
  ),
} as const satisfies Record<string, CodeRow>;

const INSPECT_FIRST = "look into it before you trust it, and tell whoever made it";

/** What stops a source from being taken: how its archive is made, or one entry of it. */
export const ARCHIVE_ERROR_CODES = {
  "archive-unknown": defineCode("The file is neither a zip nor a tar that gzip compressed.", INSPECT_FIRST),
  "archive-broken": defineCode("The archive cannot be read to its end, or a header of it is wrong.", INSPECT_FIRST),
  "archive-too-large": defineCode("The archive is larger than is read.", "take what is no skill out of it"),
  "archive-bomb": defineCode("The archive becomes far larger than it is.", INSPECT_FIRST),
  "archive-encrypted": defineCode("An entry of the archive is encrypted.", "unpack it yourself, and add the folder"),
  "archive-method": defineCode(
    "An entry is packed in a way that is not read here.",
    "unpack it yourself, and add the folder",
  ),
  "archive-parts": defineCode("The archive is one part of several.", "put the parts together first"),
  "archive-zip64": defineCode("The archive is of the large kind of zip (ZIP64), which no skill needs.", INSPECT_FIRST),
  "archive-ambiguous": defineCode(
    "The archive says two things at once, so programs would read it differently.",
    INSPECT_FIRST,
  ),
  "archive-disagrees": defineCode(
    "The archive says one thing of an entry in one place and another in another.",
    INSPECT_FIRST,
  ),
  "archive-overlap": defineCode("Two entries of the archive are in one place.", INSPECT_FIRST),
  "archive-stray": defineCode("The archive holds bytes that belong to nothing.", INSPECT_FIRST),
  "archive-nested": defineCode(
    "The source holds an archive with code in it, or one that nobody can look into.",
    INSPECT_FIRST,
  ),
  "entry-absolute": defineCode("An entry is a path from the root, outside the folder.", INSPECT_FIRST),
  "entry-parent": defineCode('An entry has ".." in its path, which leads out of the folder.', INSPECT_FIRST),
  "entry-through-link": defineCode("An entry leads through a link.", INSPECT_FIRST),
  "entry-through-file": defineCode("An entry leads through what is a file.", INSPECT_FIRST),
  "entry-repository": defineCode(
    "An entry is of the inner state of a repository, whose settings can start programs.",
    INSPECT_FIRST,
  ),
  "entry-kind": defineCode("An entry is neither a file, a folder nor a link.", INSPECT_FIRST),
  "entry-backslash": defineCode("A name holds a backslash, which divides folders on Windows.", INSPECT_FIRST),
  "entry-colon": defineCode("A name holds a colon: on Windows, a drive or what hides behind a file.", INSPECT_FIRST),
  "entry-control": defineCode("A name holds a control character.", INSPECT_FIRST),
  "entry-hidden": defineCode("A name holds an invisible character.", INSPECT_FIRST),
  "entry-encoding": defineCode("A name is not UTF-8.", INSPECT_FIRST),
  "entry-empty": defineCode('A path has an empty part or "." in it.', INSPECT_FIRST),
  "entry-ending": defineCode("A part of a path ends in a dot or a space, which Windows takes away.", INSPECT_FIRST),
  "entry-device": defineCode("A name is that of a device on Windows.", INSPECT_FIRST),
  "entry-long": defineCode("A name, a path or what a link leads to is too long.", INSPECT_FIRST),
  "entry-deep": defineCode("An entry is too many folders deep.", INSPECT_FIRST),
  "entry-clash": defineCode("Two entries are one and the same on some disks.", INSPECT_FIRST),
  "entry-twice": defineCode("An entry is there twice.", INSPECT_FIRST),
  "entry-size": defineCode(
    "An entry has not as many bytes as the source says, or changed while it was read.",
    INSPECT_FIRST,
  ),
  "entry-damaged": defineCode("An entry cannot be unpacked, or has not the sum that the archive says.", INSPECT_FIRST),
  "entry-too-large": defineCode("A file of the source is larger than is taken.", INSPECT_FIRST),
  "entry-unwritable": defineCode(
    "A file of the source cannot be written here.",
    "check that there is room, and that the disk takes such a name",
  ),
} as const satisfies Record<string, CodeRow>;

/** What was added, as the lock has it; who signed it; whose code may run. */
export const LOCK_CODES = {
  "lock-version": defineCode("The lock is of a version that this skillet does not know.", "bring skillet up to date"),
  "lock-edited": defineCode(
    "A digest in the lock is not that of the files that stand there: it was edited.",
    "take the lock from your version control, or add the skill again",
  ),
  "lock-missing": defineCode(
    "There is no lock to go by.",
    "take it from your version control, or add the skills without --frozen",
  ),
  "lock-differs": defineCode(
    "What the source has is not what the lock says.",
    "look at what changed: `skillet update --dry-run`",
  ),
  "lock-too-large": defineCode(
    "The lock would be too large to be read again.",
    "add fewer skills, or remove some first",
  ),
  "lock-odd-file": defineCode(
    "A file of an added skill is a link, a device, or cannot be read; nobody can agree to that.",
    "put a file in its place, or remove it",
  ),
  "other-source": defineCode(
    "A skill of this name was added from another source.",
    "look at both; --force puts this one in its place",
  ),
  edited: defineCode(
    "What skillet put there was changed by hand since, and would be lost.",
    "keep your changes somewhere else, then say --force",
  ),
  "no-source": defineCode(
    "The skill was adopted, and where it came from is not known.",
    "set a source: `skillet adopt PATH --from SOURCE`",
  ),
  "skill-ambiguous": defineCode("Several folders have a managed skill of this name.", "name one: NAME@FOLDER"),
  "already-managed": defineCode("The skill is managed already: it was added, adopted or exported.", "use it as it is"),
  "not-adoptable": defineCode(
    "What is there cannot be adopted as a skill.",
    "adopt the folder of one skill, with a SKILL.md and the skill's name",
  ),
  "owned-by-others": defineCode(
    "A file belongs to another user, or other users can change it.",
    "make it yours alone: chown, and chmod go-w",
  ),
  "skill-repository": defineCode(
    "The skill's folder is itself a git repository, which every git command changes.",
    "let git manage it (`git pull`, then `skillet trust NAME`), or adopt a copy without .git",
  ),
  "adopted-unreadable": defineCode(
    "The record of folders with adopted skills cannot be read.",
    "fix it, or remove it and adopt the skills again",
  ),
  "in-the-way": defineCode(
    "Something stands there that skillet did not put there.",
    "move it away if you do not need it",
  ),
  "merge-broken": defineCode(
    "What comes of your changes and theirs is no skill.",
    "mend your SKILL.md, or say --conflicts mine or --conflicts theirs",
  ),
  "resource-changed": defineCode(
    "The skill's files changed while they were looked at or copied.",
    "try again when nobody works on it",
  ),
  "not-signed": defineCode(
    "The skill has no signature that counts, and one was asked for.",
    "ask whoever wrote it for one, and add their key: `skillet signers add`",
  ),
  unsignable: defineCode("The skill cannot be signed as it is.", "mend what the message says"),
  "signing-key": defineCode(
    "The key to sign with is missing, locked, in the way, or no such key.",
    "see the message; `skillet sign --new-key` makes one",
  ),
  "signer-key": defineCode(
    "What was given is no public key of a signer.",
    "give the key that `skillet sign` shows to whoever signs",
  ),
  "signer-taken": defineCode(
    "The signer is known with another key, or the key under another name.",
    "ask them which one holds, then `skillet signers remove` the other",
  ),
  "signers-unreadable": defineCode(
    "The list of signers cannot be read.",
    "mend it, or remove it to start anew: then nobody's signature counts",
  ),
  "trust-unreadable": defineCode(
    "The record of what you trusted cannot be read.",
    "mend it, or remove it to start anew: then nothing is trusted",
  ),
  "trust-own": defineCode("The skill is your own and needs no trust.", "use it"),
  "trust-added": defineCode(
    "The skill was agreed to when it was added, so there is no trust to take back.",
    "switch it off with `skillet disable`, or remove it",
  ),
} as const satisfies Record<string, CodeRow>;
