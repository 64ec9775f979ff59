import { type CodeRow, row } from "./row.ts";

/** Why a skill may not be loaded, used or have its code run, here and by whoever asks. */
export const USE = {
  "host-invalid": row(
    "A part of the host that the program gives is not what it must be.",
    "correct the part that the message names, or leave it out",
  ),
  "settings-invalid": row(
    "A key of the settings that a program creates is not known, or has a value of the wrong type.",
    "correct the keys that the message names",
  ),
  disabled: row("The skill is switched off.", "`skillet enable NAME`"),
  untrusted: row("Nobody has said yet that the skill's code may run.", "look at it, then run `skillet trust`"),
  changed: row("The skill is not what was trusted or added.", "look at the difference, then run `skillet trust`"),
  "not-for-models": row("The skill is for a person to call, by name.", "tell the user"),
  "not-for-users": row("The skill is for models to call, not for people.", "let a model use it"),
  "policy-denied": row(
    "A rule of the embedding program does not allow it.",
    "see the message: the program's operator decides",
  ),
  "chat-type": row("The skill is not for this kind of chat.", "use it in one of those that the message names"),
  "chat-id": row(
    "The skill is not for this chat, or nobody said which chat it is.",
    "say it with --chat-id, or add the chat to allow_chat_ids",
  ),
  "missing-tool": row(
    "The skill needs a tool that is not there.",
    "see the message: a server, a setting or a program brings it",
  ),
  "missing-variable": row(
    "A variable that the skill needs has no value, or what it refers to is not there.",
    "set it under [skills.NAME] in config.toml",
  ),
  "variable-refused": row(
    "The skill declares a variable that decides how programs start.",
    "give the variable another name in the skill",
  ),
  "missing-program": row(
    "A program that the skill needs is not installed.",
    "install it, or give the skill its package: `skillet config set skills.NAME.packages PACKAGE`",
  ),
  "package-missing": row(
    "An optional package that skillet needs for this is not installed next to your program.",
    "run the `npm install` command of the message",
  ),
  "other-system": row("The skill is for another operating system.", "use it there"),
  "secret-other-source": row(
    "What the configuration has for this name was given to the skill from another source.",
    "look at it, then run `skillet trust --secrets NAME`",
  ),
  "secret-not-given": row(
    "What the configuration has for this name was not given to a copy of the skill yet.",
    "look at it, then run `skillet trust --secrets NAME`",
  ),
  "grants-unreadable": row(
    "The record of which copy of a skill has its values cannot be read.",
    "fix it, or remove it: then the next run of each skill with values asks which copy gets them",
  ),
  "capability-unavailable": row(
    "Nobody serves a capability that the skill needs, or not in this chat.",
    "name a provider under [capabilities.providers] in config.toml",
  ),
  "capability-not-granted": row(
    "The skill was not given a capability that it needs.",
    "look at what it does, then run `skillet capability grant`",
  ),
  "capability-not-ready": row("The provider of a capability cannot serve yet.", "do the steps of the message"),
  cycle: row(
    "The skill is at work already, further up in the chain of skills that use skills.",
    "do it without calling it again",
  ),
  "nested-too-deep": row(
    "Skills would use skills more deeply than is allowed.",
    "do it without another skill; the limit is [limits] nesting",
  ),
  "model-needed": row(
    "The skill spells out no commands for `runbook`, so a language model is needed.",
    "set a key of a provider, or add [models.default] to config.toml",
  ),
  "network-wanted": row(
    "A warning: the skill's code asks the network, which is closed to it.",
    "open it with `network` under [skills.NAME] in config.toml",
  ),
} as const satisfies Record<string, CodeRow>;
