import { type CodeRow, row } from "./row.ts";

/** The command line itself, and files that several parts write. */
export const COMMAND = {
  "token-file": row(
    "The file with the token of `skillet serve --http` cannot be used.",
    "remove it, and start the server again: it creates a new token",
  ),
  usage: row(
    "The command line, or what was piped in, is not as it must be.",
    "see the message, and `skillet COMMAND --help`",
  ),
  "not-agreed": row(
    "Somebody said no, or there was nobody who could say yes.",
    "run it at a terminal, or say --yes where there is one",
  ),
  "config-unreadable": row(
    "A configuration file cannot be read, and the command does nothing where defaults would stand in.",
    "mend the line that is named",
  ),
  bug: row("Something that skillet did not expect.", "please report it with the command you ran"),
  interrupted: row("Ctrl-C ended it.", "run it again if that was not meant"),
  exists: row("What is to be written is there already.", "choose another name or place, or --force where there is one"),
  "install-failed": row("A package manager could not install packages.", "run the command of the message yourself"),
  unwritable: row("A file or folder cannot be written.", "check that it can be written to, and that there is room"),
  locked: row(
    "Another skillet has held a file for too long.",
    "wait for it to end; if none runs, remove the lock that the message names",
  ),
  "config-edit": row(
    "A configuration writes this in a way that only a person can change; nothing was written.",
    "change the line by hand",
  ),
} as const satisfies Record<string, CodeRow>;
