import { type CodeRow, row } from "./row.ts";

/** Skills from elsewhere: what names them, and what brings them here. */
export const SOURCES = {
  // Addresses
  "address-unknown": row(
    "The text names no place that skills come from.",
    "give a folder, an archive, owner/repository or an https address",
  ),
  "address-long": row("The address is too long to be one.", "check what was pasted"),
  "address-hidden": row("The address holds characters that nobody sees.", "type it again by hand"),
  "address-option": row(
    "The address begins with a hyphen, as options do.",
    "put ./ before the name of a folder like this",
  ),
  "address-transport": row("The address names a program that git would run.", "give the repository's https address"),
  "address-scheme": row("Nothing is fetched by this scheme.", "use https, ssh or file"),
  "address-insecure": row("What comes over plain http can be changed by anybody on the way.", "use https"),
  "address-host": row("The address names no host that can be asked.", "correct the host"),
  "address-incomplete": row("The address names a host of repositories, and no repository.", "add owner/repository"),
  "address-secret": row(
    "The address holds a password, a token or a query, which would be written into skills.lock.",
    "leave it out: git asks its credential helper, or use an ssh address",
  ),
  "address-ref": row("What follows the # is no branch, tag or commit.", "write it as in ADDRESS#main"),
  "address-subfolder": row(
    "What follows the // is no folder inside a source.",
    "name the folder by its path from the top",
  ),
  "address-part": row("This kind of source has no branches, or no folders.", "leave out what follows the # or the //"),

  // Folders and archives
  "source-missing": row("The folder or archive is not there.", "check the path"),
  "source-unreadable": row("The folder or archive cannot be read.", "give yourself read permission"),
  "source-kind": row(
    "The path leads to what is neither a folder nor an archive.",
    "name the folder that the skill is in",
  ),
  "source-folder-missing": row("The source has no such folder.", "the message names folders that hold skills"),
  "source-holds-target": row(
    "The folder holds the very folder that it would be copied into.",
    "name the folder of the skill itself",
  ),
  "source-too-large": row("The source is larger than is fetched.", "name the skills or the folder that you want"),
  "source-too-many": row(
    "The source holds more files, folders and links than are taken.",
    "name the folder that you want, or tell whoever made it",
  ),
  "source-gone": row(
    "The source does not have the skill any more, or has it at another place.",
    "look at the source; the message names the new place where there is one",
  ),
  "no-skills": row(
    "There is no skill in the source, or none that can be loaded.",
    "name the folder that holds a SKILL.md; `skillet check` says what is wrong with one",
  ),
  "name-twice": row(
    "Two skills of one name are to be put into one folder.",
    "name the folder that you mean: //FOLDER behind the source",
  ),

  // Downloads and sites
  "download-missing": row("There is nothing at the address.", "check the address"),
  "download-refused": row("The server answers with an error.", "check the address, and try again"),
  "download-unreachable": row("The server cannot be reached.", "check the address and the network, and try again"),
  "download-timeout": row("The download took too long.", "check the network, and try again"),
  "download-redirect": row(
    "The address leads on to another host, or leads on too often.",
    "if you trust that host, give its address yourself",
  ),
  "download-private-address": row(
    "A source named a private address: one of this machine, its networks or its cloud. It was not asked.",
    "if you trust the source, allow it with --allow-private-addresses",
  ),
  "download-insecure": row("The file is to be had only over plain http.", "only https is fetched from"),
  "download-encoding": row(
    "The server sends the file compressed, though that was not asked for.",
    "tell whoever runs it",
  ),
  "download-too-large": row("The file is larger than is fetched.", "nothing so large is fetched: use another source"),
  "fetch-aborted": row("Fetching was called off.", "nothing of it is left: try again"),
  "site-index": row(
    "The site's list of skills cannot be read.",
    "tell whoever runs the site, or add its skills from where they are kept",
  ),
  "site-version": row(
    "The site's list is of a version that is not understood.",
    "bring skillet up to date, or add its skills from where they are kept",
  ),
  "site-too-many": row("The site offers more skills than are looked at.", "add its skills from where they are kept"),
  "site-digest": row(
    "A file of the site is not the one that its list names.",
    "nothing of it was opened: tell whoever runs the site",
  ),

  // Repositories
  "git-missing": row(
    "git, or the ssh that it needs, is not on this machine or does not start.",
    "install it, or add the skills as an archive",
  ),
  "git-sign-in": row(
    "The repository is not there, or not for everybody, and git has no sign-in for it.",
    "check the address; sign git in, or use the ssh address",
  ),
  "git-host-key": row(
    "The host is not known to ssh, or is another one than before.",
    "connect to it once by hand, and compare its fingerprint with what it publishes",
  ),
  "git-empty": row("The repository has no default branch, or nothing in it.", "name a branch: ADDRESS#branch"),
  "git-ref-missing": row(
    "The repository has no such branch or tag.",
    "give a branch or a tag, or a commit with all of its 40 digits",
  ),
  "git-commit-missing": row(
    "The repository does not have the commit any more.",
    "look at what is there now before you add it again",
  ),
  "git-owner": row(
    "The repository belongs to another user, whose settings git does not follow.",
    "add it as a folder, by its path",
  ),
  "git-object-format": row(
    "The repository names its commits by SHA-256, which is not fetched.",
    "add it as a folder, or as an archive",
  ),
  "git-certificate": row(
    "The host has no certificate that git trusts.",
    "check the address; git's setting http.sslCAInfo names the certificates of a company",
  ),
  "git-not-found": row(
    "There is no repository at the address.",
    "check the address; a folder that is none is added by its path",
  ),
  "git-unreachable": row(
    "The host of the repository cannot be reached.",
    "check the address and the network, and try again",
  ),
  "git-timeout": row(
    "git heard nothing for too long and was stopped.",
    "check that the host can be reached, and try again",
  ),
  "git-broken": row(
    "The repository does not hold what it says that it holds.",
    "the repository is damaged: tell whoever keeps it",
  ),
  "git-failed": row(
    "git failed otherwise; the message has its last words.",
    "`git ls-remote` with the same address says whether git can reach it by itself",
  ),
} as const satisfies Record<string, CodeRow>;
