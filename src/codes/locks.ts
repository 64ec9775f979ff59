import { type CodeRow, row } from "./row.ts";

/** What was added, as the lock has it; who signed it; whose code may run. */
export const LOCKS = {
  "lock-version": row("The lock is of a version that this skillet does not know.", "bring skillet up to date"),
  "lock-edited": row(
    "A digest in the lock is not that of the files that stand there: it was edited.",
    "take the lock from your version control, or add the skill again",
  ),
  "lock-missing": row(
    "There is no lock to go by.",
    "take it from your version control, or add the skills without --frozen",
  ),
  "lock-differs": row(
    "What the source has is not what the lock says.",
    "look at what changed: `skillet update --dry-run`",
  ),
  "lock-too-large": row("The lock would be too large to be read again.", "add fewer skills, or remove some first"),
  "lock-odd-file": row(
    "A file of an added skill is a link, a device, or cannot be read; nobody can agree to that.",
    "put a file in its place, or remove it",
  ),
  "other-source": row(
    "A skill of this name was added from another source.",
    "look at both; --force puts this one in its place",
  ),
  edited: row(
    "What skillet put there was changed by hand since, and would be lost.",
    "keep your changes somewhere else, then say --force",
  ),
  "no-source": row(
    "The skill was adopted, and where it came from is not known.",
    "set a source: `skillet adopt PATH --from SOURCE`",
  ),
  "skill-ambiguous": row("Several folders have a managed skill of this name.", "name one: NAME@FOLDER"),
  "already-managed": row("The skill is managed already: it was added, adopted or exported.", "use it as it is"),
  "not-adoptable": row(
    "What is there cannot be adopted as a skill.",
    "adopt the folder of one skill, with a SKILL.md and the skill's name",
  ),
  "owned-by-others": row(
    "A file belongs to another user, or other users can change it.",
    "make it yours alone: chown, and chmod go-w",
  ),
  "skill-repository": row(
    "The skill's folder is itself a git repository, which every git command changes.",
    "let git manage it (`git pull`, then `skillet trust NAME`), or adopt a copy without .git",
  ),
  "adopted-unreadable": row(
    "The record of folders with adopted skills cannot be read.",
    "fix it, or remove it and adopt the skills again",
  ),
  "in-the-way": row("Something stands there that skillet did not put there.", "move it away if you do not need it"),
  "merge-broken": row(
    "What comes of your changes and theirs is no skill.",
    "mend your SKILL.md, or say --conflicts mine or --conflicts theirs",
  ),
  "resource-changed": row(
    "The skill's files changed while they were looked at or copied.",
    "try again when nobody works on it",
  ),
  "not-signed": row(
    "The skill has no signature that counts, and one was asked for.",
    "ask whoever wrote it for one, and add their key: `skillet signers add`",
  ),
  unsignable: row("The skill cannot be signed as it is.", "mend what the message says"),
  "signing-key": row(
    "The key to sign with is missing, locked, in the way, or no such key.",
    "see the message; `skillet sign --new-key` makes one",
  ),
  "signer-key": row(
    "What was given is no public key of a signer.",
    "give the key that `skillet sign` shows to whoever signs",
  ),
  "signer-taken": row(
    "The signer is known with another key, or the key under another name.",
    "ask them which one holds, then `skillet signers remove` the other",
  ),
  "signers-unreadable": row(
    "The list of signers cannot be read.",
    "mend it, or remove it to start anew: then nobody's signature counts",
  ),
  "trust-unreadable": row(
    "The record of what you trusted cannot be read.",
    "mend it, or remove it to start anew: then nothing is trusted",
  ),
  "trust-own": row("The skill is your own and needs no trust.", "use it"),
  "trust-added": row(
    "The skill was agreed to when it was added, so there is no trust to take back.",
    "switch it off with `skillet disable`, or remove it",
  ),
} as const satisfies Record<string, CodeRow>;
