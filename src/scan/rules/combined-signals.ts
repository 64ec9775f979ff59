import type { ScanSignal, SignalKind, SignalRule } from "../signals.ts";
import { CONCEALMENT_SIGNALS } from "./concealment-signals.ts";
import { INTENT_SIGNALS } from "./intent-signals.ts";
import { NEARBY_CODE_SIGNALS } from "./nearby-code-signals.ts";
import { NEARBY_SIGNAL_RULES } from "./nearby-signals.ts";
import { NEARBY_TEXT_SIGNALS } from "./nearby-text-signals.ts";
import { PRIVATE_DATA_SIGNALS } from "./private-data-signals.ts";
import { SIDE_EFFECT_SIGNALS } from "./side-effect-signals.ts";
import { UPLOAD_SIGNALS } from "./upload-signals.ts";

export const SCAN_SIGNALS: readonly ScanSignal[] = [
  ...CONCEALMENT_SIGNALS,
  ...UPLOAD_SIGNALS,
  ...PRIVATE_DATA_SIGNALS,
  ...SIDE_EFFECT_SIGNALS,
  ...NEARBY_CODE_SIGNALS,
  ...NEARBY_TEXT_SIGNALS,
  ...INTENT_SIGNALS,
];

/** What is done to the user's data, money or protection, and what is said about the instructions: see `intent-signs.ts`. */
export const EFFECT_SIGNALS: ReadonlySet<SignalKind> = new Set([
  ...(["ships-out", "saves-and-runs", "begs-secret", "names-secrets", "takes-secrets"] as const),
  ...(["moves-money", "destroys", "opens-up", "fakes", "self-hiding", "overrides", "release-link"] as const),
]);
/** How it is done. They are looked for next to an effect only. */
export const INTENT_SIGNAL_KINDS: ReadonlySet<SignalKind> = new Set(["withholds", "overrules", "misleads"]);

/** Kinds of which each rule below has one list. Few texts have such a sign, so the others are looked for next to them only. */
export const LEADING_SIGNALS: ReadonlySet<SignalKind> = new Set([
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
  ...EFFECT_SIGNALS,
]);

/** An intent together with an effect. */
const INTENT_RULES: readonly SignalRule[] = [
  {
    id: "hides-itself",
    weight: "high",
    title: "has the model keep a part of these instructions from the user",
    why: "A skill that works for the user has nothing to hide from them.",
    fix: "take the passage out, or do not use the skill",
    all: [["self-hiding"]],
    within: 0,
  },
  {
    id: "sets-rules-aside",
    weight: "high",
    title: "puts its text, or a text from an address, above the user or the rules that hold for the model",
    why: "It is how a text takes over an agent.",
    fix: "do not use the skill",
    all: [["overrides"]],
    within: 0,
    isFallback: true,
  },
  {
    id: "answer-saved-and-run",
    weight: "high",
    title: "has the model save what an address of unknown owner answers, and run it",
    why: "Whoever owns the address decides what runs.",
    fix: "do not use the skill",
    all: [["saves-and-runs"], ["prose-unknown", "unknown-host", "ships-out"]],
    within: 3,
  },
  {
    id: "fake-reviews",
    weight: "high",
    title: "has accounts or reviews made up",
    why: "It deceives others in the user's name.",
    fix: "do not use the skill",
    all: [["fakes"]],
    within: 0,
  },
  {
    id: "concealed-effect",
    weight: "high",
    title: "has something done to the user's data, money or protection, and keeps that from them",
    why: "The user cannot object to what they do not know about.",
    fix: "do not use the skill, or take the passage out",
    all: [
      ["ships-out", "moves-money", "destroys", "opens-up", "takes-secrets", "begs-secret"],
      ["withholds", "hides", "no-trace", "left-out", "self-hiding"],
    ],
    within: 3,
  },
  {
    id: "unapproved-effect",
    weight: "high",
    title: "has something done to the user's data, money or protection without or against their decision",
    why: "What cannot be undone is for the user to decide.",
    fix: "have it ask first, or do not use the skill",
    all: [
      ["ships-out", "moves-money", "destroys", "opens-up"],
      ["overrules", "unasked", "no-confirm", "overrides"],
    ],
    within: 3,
  },
  {
    id: "excused-effect",
    weight: "high",
    title: "has something done to the user's data, money or protection, and gives a false account of it",
    why: "The user approves one thing, and another is done.",
    fix: "do not use the skill",
    all: [
      ["ships-out", "moves-money", "destroys", "opens-up", "begs-secret"],
      ["misleads", "false-account", "when-asked"],
    ],
    within: 4,
  },
  {
    id: "excused-download",
    weight: "high",
    title: "has a program from an unknown source installed, and gives a false reason for it",
    why: "It is how most malicious skills get their program onto the machine.",
    fix: "do not install it",
    all: [["release-link"], ["misleads", "withholds"]],
    within: 2,
  },
  {
    id: "secret-requested",
    weight: "high",
    title: "asks people for what opens their accounts, next to an address of unknown owner",
    why: "Whoever owns the address can then act as the user.",
    fix: "do not enter any of it",
    all: [["begs-secret"], ["ships-out", "prose-unknown", "unknown-host", "file-host", "drop-host", "moves-money"]],
    within: 4,
  },
  {
    id: "secrets-to-unknown",
    weight: "high",
    title: "names keys or key files next to an address of unknown owner that something is sent to",
    why: "The two together are what theft looks like.",
    fix: "follow the data to the address before you use it",
    all: [["names-secrets", "takes-secrets"], ["ships-out"]],
    within: 4,
  },
];

export const SIGNAL_RULES: readonly SignalRule[] = [
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
  ...NEARBY_SIGNAL_RULES,
  ...INTENT_RULES,
];
