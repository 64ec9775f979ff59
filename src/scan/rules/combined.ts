import type { CombinedRule, Sign, SignKind } from "../sign.ts";
import { ACT_SIGNS } from "./act-signs.ts";
import { HIDE_SIGNS } from "./hide-signs.ts";
import { INTENT_RULES } from "./intent-rules.ts";
import { INTENT_SIGNS } from "./intent-signs.ts";
import { NEAR_RULES } from "./near-rules.ts";
import { NEAR_SENTENCES } from "./near-sentences.ts";
import { NEAR_SIGNS } from "./near-signs.ts";
import { PRIVATE_SIGNS } from "./private-signs.ts";
import { SEND_SIGNS } from "./send-signs.ts";

export const SIGNS: readonly Sign[] = [
  ...HIDE_SIGNS,
  ...SEND_SIGNS,
  ...PRIVATE_SIGNS,
  ...ACT_SIGNS,
  ...NEAR_SIGNS,
  ...NEAR_SENTENCES,
  ...INTENT_SIGNS,
];

/** What is done to the user's data, money or protection, and what is said about the instructions: see `intent-signs.ts`. */
export const EFFECTS: ReadonlySet<SignKind> = new Set([
  ...(["ships-out", "saves-and-runs", "begs-secret", "names-secrets", "takes-secrets"] as const),
  ...(["moves-money", "destroys", "opens-up", "fakes", "self-hiding", "overrides", "release-link"] as const),
]);
/** How it is done. They are looked for next to an effect only. */
export const INTENTS: ReadonlySet<SignKind> = new Set(["withholds", "overrules", "misleads"]);

/** Kinds of which each rule below has one list. Few texts have such a sign, so the others are looked for next to them only. */
export const LEADING: ReadonlySet<SignKind> = new Set([
  ...(["secrecy", "hides", "downplays", "sends", "tells", "unknown-host", "sends-unknown", "unnamed-client"] as const),
  ...([
    "numeric-address",
    "file-host",
    "drop-host",
    "env-dump",
    "from-pieces",
    "release-link",
    "code-host-release",
  ] as const),
  ...(["terminal-paste", "archive-lock", "remote-run", "obeys-remote", "to-agent", "decode-and-follow"] as const),
  ...(["text-record", "name-lookup", "mining", "guard-off", "left-out", "when-asked", "no-trace"] as const),
  ...(["hidden-place", "watching", "agent-file", "package-address", "shell-socket", "grants-rights"] as const),
  ...([
    "fixed-spender",
    "destroys-all",
    "no-confirm",
    "tells-data",
    "styled-away",
    "whole-data",
    "trigger-word",
    "deletes-home",
    "stretched-yes",
    "false-account",
    "script-decoding",
  ] as const),
  ...EFFECTS,
]);

export const COMBINED_RULES: readonly CombinedRule[] = [
  {
    id: "sworn-to-secrecy",
    weight: "high",
    title: "has the model keep its instructions or what it does from the user",
    why: "A skill that works for the user has nothing to hide from them.",
    fix: "take the sentence out, or do not use the skill",
    all: [["secrecy"]],
    within: 0,
  },
  {
    id: "hidden-upload",
    weight: "high",
    title: "sends something to a fixed address and keeps that from the user",
    why: "An upload that the user may not know about is not made for the user.",
    fix: "do not use it",
    all: [["hides", "downplays"], ["sends"]],
    within: 12,
  },
  {
    id: "hidden-action",
    weight: "high",
    title: "does something and keeps that from the user",
    why: "The user cannot approve what they do not know about.",
    fix: "take the sentence out, or do not use the skill",
    all: [["hides"], ["acts", "private", "personal"]],
    within: 6,
  },
  {
    id: "played-down-action",
    weight: "medium",
    title: "does something that it may not want the user to notice",
    why: "The user cannot approve what they do not know about.",
    fix: "read the sentences around it",
    all: [["downplays"], ["acts", "private", "personal"]],
    within: 2,
  },
  {
    id: "private-upload",
    weight: "high",
    title: "reads something private and sends something to a fixed address",
    why: "The two together are what theft looks like.",
    fix: "follow the data to the address before you use it",
    all: [["private"], ["sends"]],
    within: 6,
  },
  {
    id: "collected-upload",
    weight: "high",
    title: "asks people for what opens their accounts, and sends it to a fixed address",
    why: "Whoever has that address can then act as the user.",
    fix: "do not enter any of it",
    all: [["asks"], ["sends"]],
    within: 3,
  },
  {
    id: "intimate-upload",
    weight: "high",
    title: "has something intimate sent to a fixed address",
    why: "No work needs it there.",
    fix: "do not use it",
    all: [["intimate"], ["tells"]],
    within: 0,
  },
  {
    id: "unasked-upload",
    weight: "medium",
    title: "sends something to a fixed address and leaves out the user's approval",
    why: "Where data goes is for the user to decide.",
    fix: "have it ask first",
    all: [["unasked"], ["sends"]],
    within: 8,
  },
  ...NEAR_RULES,
  ...INTENT_RULES,
];
