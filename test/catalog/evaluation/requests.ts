import { FOREIGN_REQUESTS } from "./foreign.ts";
import { PASTES } from "./pastes.ts";
import { EVALUATION_SKILLS } from "./skills.ts";

export type RequestKind = "short" | "long" | "paste" | "typos" | "german" | "spanish" | "japanese" | "chinese";

export interface EvaluationRequest {
  kind: RequestKind;
  skill: string;
  query: string;
  /** True for a set that only measures. The others may be inspected when the ranking changes. */
  isHeldOut: boolean;
}

const LANGUAGES: Record<string, RequestKind> = { de: "german", es: "spanish", ja: "japanese", zh: "chinese" };

/** Every request with the skill it is for, the same ones every time. Half of them, by a hash of the request, are held out. */
export const EVALUATION_REQUESTS: readonly EvaluationRequest[] = [
  ...EVALUATION_SKILLS.flatMap(({ name, requests: [short, long] }, number) => [
    requestOf("short", name, short),
    requestOf("long", name, long),
    requestOf("typos", name, withTypos(number % 2 === 0 ? short : long)),
    requestOf("paste", name, withPaste(short, number)),
  ]),
  ...FOREIGN_REQUESTS.map(([language, skill, query]) => requestOf(LANGUAGES[language] ?? "short", skill, query)),
];

function requestOf(kind: RequestKind, skill: string, query: string): EvaluationRequest {
  return { kind, skill, query, isHeldOut: hashOf(`${skill} ${query}`) % 2 === 0 };
}

/** A request with two pastes after it, or before it. */
function withPaste(request: string, number: number): string {
  const pastes = [PASTES[number % PASTES.length], PASTES[(number * 3 + 1) % PASTES.length]];
  return (number % 3 === 0 ? [...pastes, request] : [request, ...pastes]).join("\n\n");
}

/** Swaps, drops or doubles a letter in about every second longer word. File names stay. */
function withTypos(text: string): string {
  return text.replace(/(?<![\w./])[a-z]{5,}(?![\w./])/gi, (word) => {
    const hash = hashOf(word);
    const at = 1 + (hash % (word.length - 2));
    if (hash % 2 === 0) return word;
    if (hash % 3 === 0) return word.slice(0, at) + word.slice(at + 1);
    if (hash % 3 === 1) return word.slice(0, at) + word[at + 1] + word[at] + word.slice(at + 2);
    return word.slice(0, at) + word[at] + word.slice(at);
  });
}

function hashOf(text: string): number {
  let hash = 2166136261;
  for (const character of text) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 16777619);
  return (hash ^ (hash >>> 13)) >>> 0;
}
