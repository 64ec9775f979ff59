import { foldText, tokenize } from "./search/tokenizer.ts";

/** Queries that ask for the list of skills. Polite and filler words are removed from both sides before the comparison. */
export const LIST_INTENT_PHRASES: readonly string[] = [
  "skills",
  "skills list",
  "list skills",
  "list of skills",
  "show skills",
  "show list of skills",
  "name skills",
  "give a list of skills",
  "what skills",
  "what skills are",
  "what skills are there",
  "what skills do you have",
  "what skills can you use",
  "what skills you have",
  "what are your skills",
  "which skills",
  "which skills are",
  "which skills are there",
  "which skills do you have",
  "which skills can you use",
  "which skills you have",
  "tell about your skills",
  "tell what skills you have",
  "tell which skills you have",
  "do you have skills",
  "do you have any skills",
  "are there skills",
  "are there any skills",
  "are any skills",
  "what skills can I use",
  "which skills can I use",
  "tell what skills are",
  "tell which skills are",
  "tell what skills there are",
  "what can you do",
  "what else can you do",
  "what can you help with",
  "what are you able to do",
  "what are you capable of",
  "what are your capabilities",
  "what do you know how to do",
  "how can you help",
  "tell what you can do",
  "show what you can do",
  "list capabilities",
  "list your abilities",
  "was kannst du",
  "was kannst du tun",
  "was kannst du für mich tun",
  "was können Sie",
  "welche skills gibt es",
  "welche skills hast du",
  "welche fähigkeiten hast du",
  "zeig skills",
  "zeige skills",
  "liste skills auf",
  "que sais-tu faire",
  "que peux-tu faire",
  "que pouvez-vous faire",
  "que savez-vous faire",
  "qu'est-ce que tu sais faire",
  "qu'est-ce que tu peux faire",
  "quelles sont tes compétences",
  "quelles compétences as-tu",
  "quelles compétences avez-vous",
  "liste les compétences",
  "qué puedes hacer",
  "qué puedes hacer por mí",
  "qué sabes hacer",
  "qué habilidades tienes",
  "lista las habilidades",
  "o que você pode fazer",
  "o que você sabe fazer",
  "o que você consegue fazer",
  "liste as habilidades",
  "cosa sai fare",
  "cosa puoi fare",
  "wat kun je",
  "wat kan je doen",
  "что ты умеешь",
  "что ты умеешь делать",
  "что вы умеете",
  "что вы умеете делать",
  "что ты можешь",
  "какие у тебя навыки",
  "何ができますか",
  "何ができる",
  "スキル一覧",
  "スキルを一覧",
  "どんなスキルがありますか",
  "どんなスキルがある",
  "你会什么",
  "你会做什么",
  "你能做什么",
  "你可以做什么",
  "列出技能",
  "列出所有技能",
  "有哪些技能",
  "你有哪些技能",
  "你有什么技能",
  "뭐 할 수 있어",
  "무엇을 할 수 있나요",
  "어떤 스킬이 있나요",
  "스킬 목록",
];

const FILLER_WORDS = new Set(
  "a all alle alles available bitte current currently denn doch eigentlich exactly exist existing hello hey hi installed just kindly mal me mir my now of ok okay our please por favor right so stp svp the then tous toutes us well your".split(
    " ",
  ),
);
const POLITE_OPENING =
  /^(?:can|could|would|will) you (?=show|tell|name|give|list)|^i want to (?=know|see) |^i'?d like to (?=know|see) /;
const POLITE_CLOSING = / (?:for (?:me|us)|to you|here)$/;
const MAX_INTENT_LENGTH = 200;

/** Returns true if the query asks for the list of skills, and nothing else. */
export function isListIntent(query: string, more: readonly string[] = []): boolean {
  if (query.length > MAX_INTENT_LENGTH) return false;
  const intent = normalizeIntent(query);
  if (intent === "") return false;
  return getOwnPhrases(intent).has(intent) || more.some((phrase) => normalizeIntent(phrase) === intent);
}

/** Returns the phrases to compare with. Without accents, a query in a Latin script is ASCII; a long query matches none. */
function getOwnPhrases(intent: string): ReadonlySet<string> {
  if (intent.length > MAX_PHRASE_LENGTH) return NO_PHRASES;
  if (ASCII.test(intent)) {
    latinPhrases ??= new Set(LIST_INTENT_PHRASES.filter((phrase) => IN_LATIN.test(phrase)).map(normalizeIntent));
    return latinPhrases;
  }
  ownPhrases ??= new Set(LIST_INTENT_PHRASES.map(normalizeIntent));
  return ownPhrases;
}

const NO_PHRASES: ReadonlySet<string> = new Set();
const MAX_PHRASE_LENGTH = 64;
const ASCII = /^[\0-\x7f]*$/;
const IN_LATIN = /^[\0-\u024f]*$/;
let ownPhrases: ReadonlySet<string> | undefined;
let latinPhrases: ReadonlySet<string> | undefined;

function normalizeIntent(text: string): string {
  const words = tokenize(foldText(removeAccents(text.trim()))).flatMap((unit) => (unit.isSymbol ? [] : unit.text));
  const kept = words.join(" ").replace(POLITE_OPENING, "").replace(POLITE_CLOSING, "").split(" ");
  return kept.filter((word) => !FILLER_WORDS.has(word)).join(" ");
}

// Users often omit accents: "que puedes hacer".
function removeAccents(text: string): string {
  return ASCII.test(text)
    ? text
    : text
        .normalize("NFD")
        .replace(/(?<=[a-z])[\u0300-\u036f]+/gi, "")
        .normalize("NFC");
}
