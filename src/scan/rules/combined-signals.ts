import type { ScanSignal, SignalKind, SignalRule } from "../rule.ts";
import { CONCEALMENT_SIGNALS, SIDE_EFFECT_SIGNALS } from "./concealment-signals.ts";
import { INTENT_SIGNALS, UPLOAD_SIGNALS } from "./intent-signals.ts";
import { NEARBY_CODE_SIGNALS } from "./nearby-code-signals.ts";
import { NEARBY_SIGNAL_RULES } from "./nearby-signals.ts";
import { NEARBY_TEXT_SIGNALS } from "./nearby-text-signals.ts";
import { PRIVATE_DATA_SIGNALS } from "./private-data-signals.ts";

export const SCAN_SIGNALS: readonly ScanSignal[] = [
  ...CONCEALMENT_SIGNALS,
  ...UPLOAD_SIGNALS,
  ...PRIVATE_DATA_SIGNALS,
  ...SIDE_EFFECT_SIGNALS,
  ...NEARBY_CODE_SIGNALS,
  ...NEARBY_TEXT_SIGNALS,
  ...INTENT_SIGNALS,
];

/** Effects on the user's data, money or protection, and statements about the instructions: see `intent-signals.ts`. */
export const EFFECT_SIGNALS: ReadonlySet<SignalKind> = new Set([
  ...(["ships-out", "saves-and-runs", "begs-secret", "names-secrets", "takes-secrets"] as const),
  ...(["moves-money", "destroys", "opens-up", "fakes", "self-hiding", "overrides", "release-link"] as const),
]);
/** Intents: the manner in which an effect is produced. The scan looks for them only near an effect. */
export const INTENT_SIGNAL_KINDS: ReadonlySet<SignalKind> = new Set(["withholds", "overrules", "misleads"]);

/** Signals of which every rule below requires one. They are rare, so the scan looks for the other signals only near them. */
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

/** Rules that combine an intent with an effect. */
const INTENT_RULES: readonly SignalRule[] = [
  {
    id: "hides-itself",
    weight: "high",
    title: "tells the model to hide part of these instructions from the user",
    why: "A skill that works for the user has nothing to hide from them.",
    fix: "remove the passage, or do not use the skill",
    all: [["self-hiding"]],
    within: 0,
  },
  {
    id: "sets-rules-aside",
    weight: "high",
    title: "places its own text, or a text from an address, above the user or the model's rules",
    why: "This is how prompt injection takes over an agent.",
    fix: "do not use the skill",
    all: [["overrides"]],
    within: 0,
    isFallback: true,
  },
  {
    id: "answer-saved-and-run",
    weight: "high",
    title: "tells the model to save a response from an unknown host and run it",
    why: "The owner of the host decides what runs.",
    fix: "do not use the skill",
    all: [["saves-and-runs"], ["prose-unknown", "unknown-host", "ships-out"]],
    within: 3,
  },
  {
    id: "fake-reviews",
    weight: "high",
    title: "tells the model to create fake accounts or reviews",
    why: "It deceives other people in the user's name.",
    fix: "do not use the skill",
    all: [["fakes"]],
    within: 0,
  },
  {
    id: "concealed-effect",
    weight: "high",
    title: "changes the user's data, money or protection, and hides it from them",
    why: "The user cannot object to an action that they do not know about.",
    fix: "do not use the skill, or remove the passage",
    all: [
      ["ships-out", "moves-money", "destroys", "opens-up", "takes-secrets", "begs-secret"],
      ["withholds", "hides", "no-trace", "left-out", "self-hiding"],
    ],
    within: 3,
  },
  {
    id: "unapproved-effect",
    weight: "high",
    title: "changes the user's data, money or protection without or against their decision",
    why: "Only the user should decide on irreversible actions.",
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
    title: "changes the user's data, money or protection, and gives a false account of it",
    why: "The user approves one thing, and something else happens.",
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
    title: "requires a program from an unknown source, and gives a false reason for it",
    why: "Most malicious skills get their program onto the machine this way.",
    fix: "do not install it",
    all: [["release-link"], ["misleads", "withholds"]],
    within: 2,
  },
  {
    id: "secret-requested",
    weight: "high",
    title: "asks people for credentials, next to an unknown host",
    why: "The owner of the host can then act as the user.",
    fix: "do not enter any credentials",
    all: [["begs-secret"], ["ships-out", "prose-unknown", "unknown-host", "file-host", "drop-host", "moves-money"]],
    within: 4,
  },
  {
    id: "secrets-to-unknown",
    weight: "high",
    title: "names keys or key files near an upload to an unknown host",
    why: "The combination is typical of credential theft.",
    fix: "check which data goes to the host before you use the skill",
    all: [["names-secrets", "takes-secrets"], ["ships-out"]],
    within: 4,
  },
];

export const SIGNAL_RULES: readonly SignalRule[] = [
  {
    id: "sworn-to-secrecy",
    weight: "high",
    title: "tells the model to hide its instructions or actions from the user",
    why: "A skill that works for the user has nothing to hide from them.",
    fix: "remove the sentence, or do not use the skill",
    all: [["secrecy"]],
    within: 0,
  },
  {
    id: "hidden-upload",
    weight: "high",
    title: "sends something to a fixed address and hides that from the user",
    why: "An upload that the user must not know about does not serve the user.",
    fix: "do not use it",
    all: [["hides", "downplays"], ["sends"]],
    within: 12,
  },
  {
    id: "hidden-action",
    weight: "high",
    title: "does something and hides that from the user",
    why: "The user cannot approve an action that they do not know about.",
    fix: "remove the sentence, or do not use the skill",
    all: [["hides"], ["acts", "private", "personal"]],
    within: 6,
  },
  {
    id: "played-down-action",
    weight: "medium",
    title: "may hide an action from the user",
    why: "The user cannot approve an action that they do not know about.",
    fix: "read the surrounding sentences",
    all: [["downplays"], ["acts", "private", "personal"]],
    within: 2,
  },
  {
    id: "private-upload",
    weight: "high",
    title: "reads private data and sends something to a fixed address",
    why: "The combination is typical of data theft.",
    fix: "check which data goes to the address before you use the skill",
    all: [["private"], ["sends"]],
    within: 6,
  },
  {
    id: "collected-upload",
    weight: "high",
    title: "asks people for credentials, and sends them to a fixed address",
    why: "The owner of the address can then act as the user.",
    fix: "do not enter any credentials",
    all: [["asks"], ["sends"]],
    within: 3,
  },
  {
    id: "intimate-upload",
    weight: "high",
    title: "sends intimate data to a fixed address",
    why: "No task needs this data there.",
    fix: "do not use it",
    all: [["intimate"], ["tells"]],
    within: 0,
  },
  {
    id: "unasked-upload",
    weight: "medium",
    title: "sends something to a fixed address without the user's approval",
    why: "The user decides where data goes.",
    fix: "make it ask first",
    all: [["unasked"], ["sends"]],
    within: 8,
  },
  ...NEARBY_SIGNAL_RULES,
  ...INTENT_RULES,
];
