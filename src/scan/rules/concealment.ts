import { escapeCodePoint, findInvisible, type InvisibleCharacter } from "../../util/untrusted-text.ts";
import { type FindingWeight, findFirstMatch, type ScanRule, splitKeywords, type TextRule } from "../rule.ts";

const HIDING_WORDS = [
  ...["not", "n't", "never", "without", "avoid", "ever"].flatMap((no) =>
    ["tell", "inform", "mention", "notify", "alert", "reveal", "disclos", "show", "warn"].map(
      (verb) => `${no} ${verb}`,
    ),
  ),
  ...["not report", "secretly", "covertly", "surreptitious", "without the user", "user does not", "user doesn't"],
];

/** Rules for hiding something from the reader or the user of a skill. */
export const CONCEALMENT_RULES: readonly TextRule[] = [
  {
    id: "keep-from-user",
    weight: "high",
    regionWeights: "llmmmh",
    title: "tells the model to hide its actions from the user",
    why: "The user cannot approve what they do not see.",
    fix: "remove the sentence, or do not use the skill",
    keywords: HIDING_WORDS,
    find(text) {
      const found = HIDES_FROM_USER(text);
      if (!found) return undefined;
      return ACTION_VERBS.test(text.slice(Math.max(0, found.index - 240), found.index + found.length + 160))
        ? found
        : undefined;
    },
    skipsMentions: false,
  },
  {
    id: "false-account",
    weight: "high",
    regionWeights: "--mhmh",
    title: "tells the model to describe its actions falsely",
    why: "The user approves one thing, and something else happens.",
    fix: "do not use it",
    keywords: splitKeywords(
      "to the user as,to users as,these instructions,this instruction,silently,quietly,in the background,out of the summary,out of your summary,from the summary,out of the report,from the report,tell the user that,tell them that,say that it,claim that,pretend,if asked,if the user asks,when asked",
    ),
    find: findFirstMatch(
      /\b(?:describe|present|report|explain|disguise|pass (?:it|this) off|label)\b[^.\n]{0,60}?\bto (?:the )?users? as\b[^.\n]{0,80}/i,
      /\b(?:not|never)\s{1,3}(?:disclose|reveal|mention|show|share)\s{1,3}(?:the (?:existence|content)s? of\s{1,3})?(?:these|this)\s{1,3}instructions?\b[^.\n]{0,40}?\bto (?:the )?(?:user|anyone|human)/i,
      /\b(?:leave|keep|omit|drop)\b[^.\n]{0,40}?\b(?:this|that|these|the) (?:steps?|commands?|calls?|parts?|uploads?|reads?)\b[^.\n]{0,20}?\b(?:out of|from)\b[^.\n]{0,12}?\b(?:summar\w{1,3}|report|answer|output|log|conversation)\b/i,
      /\b(?:if|when) (?:the user |they |anyone |somebody )?asks?(?:ed)?\b[^.\n]{0,60}?,?[^.\n]{0,20}?\b(?:deny|denies|lie|claim|pretend|say (?:that )?(?:it|this|you|nothing|there)[^.\n]{0,40}?(?:caching|cache|telemetry|required|normal|routine|standard|harmless|nothing))\b/i,
      /\b(?:tell|assure|inform) (?:the user|them) (?:that )?[^.\n]{0,60}?\b(?:succeeded|passed|was deleted|is safe|nothing (?:was|is|has been) (?:sent|changed|uploaded)|no data)\b[^.\n]{0,60}?\b(?:even if|even though|regardless|whatever|no matter|although)\b/i,
      /\b(?:silently|quietly)\s{1,3}(?:read|send|upload|copy|collect|gather|scan|post|transmit)\b[^.\n]{0,60}?(?:home (?:directory|folder)|~\/|\bkeys?\b|credentials|secrets|tokens|passwords|every file|all files)/i,
    ),
  },
  {
    id: "without-consent",
    weight: "medium",
    regionWeights: "--mmmh",
    title: "tells the model to do something irreversible without asking",
    why: "Deleting, sending and installing need the user's approval.",
    fix: "make it ask first",
    keywords: splitKeywords(
      "without asking,without confirm,without permission,without approval,without the user,without user,without prompting,don't ask,do not ask,never ask,auto-approve,answer yes to,approve all,approve every,approve any,no confirmation,assume consent,assume permission,assume that the user,assume the user,skip confirm,skip the confirm,skip any confirm,auto-accept,always answer yes,always accept,always allow,bypass the confirm,bypass any,do not wait for,don't wait for",
    ),
    find: findFirstMatch(
      /\b(?:delet|remov|overwrit|wip|force.?push|push|send|upload|transfer|pay|purchas|buy|install|disabl|grant|deploy|publish|execut|drop)\w{0,6}\b[^.\n]{0,120}?\bwithout (?:asking|confirm\w*|(?:the )?(?:user'?s? )?(?:permission|approval|consent|confirmation|knowledge)|prompting)\b[^.\n]{0,60}/i,
      /\bassume (?:that )?(?:the user(?:'s)? )?(?:consents?|permission|approv\w{1,4}|(?:has|have) (?:agreed|approved|consented))\b/i,
      /\b(?:skip|bypass|suppress|auto-?accept|always (?:accept|allow|answer yes to))\s{1,3}(?:(?:all|any|every|the|these|further)\s{1,3}){0,2}(?:confirmations?|permission|approval|consent|safety|security|trust)\s{0,2}(?:prompts?|dialogs?|requests?|questions?|steps?|warnings?|checks?)?(?=[\s.,;:]|$)/i,
      /\b(?:do not|don't) wait for\b[^.\n]{0,20}?\b(?:confirmation|approval|permission|consent|the user)\b[^.\n]{0,80}?\b(?:delet|send|push|install|run|execut|upload|publish|deploy)\w{0,4}/i,
      /\bapprove (?:all|every|any) (?:commands?|tool calls?|requests?|permissions?)\b|\banswer yes to (?:all|every|any) (?:prompts?|questions?|permission\w*)/i,
    ),
  },
  {
    id: "forged-frame",
    weight: "high",
    regionWeights: "llmhll",
    title: "forges the markers that separate system messages from other text",
    why: "A model that accepts them treats the skill's text as its operator's.",
    fix: "remove the markers, or move them into a code block if they are an example",
    keywords: splitKeywords(
      "<|im_,<|system,<|start,<system,</system,[inst],[system],<<sys>>,</skill,</instructions,<|endoftext,system-reminder,</tool_result,</function_results,<|eot_id,<|assistant,<|user,<|channel,<start_of_turn,<end_of_turn,<function_calls,begin system,end of system,new system prompt",
    ),
    find: findFirstMatch(
      /<\|(?:im_start|im_end|system|start_header_id|endoftext|begin_of_text|eot_id|assistant|user|channel)\|?>?|<(?:start|end)_of_turn>/i,
      /\[\/?INST\]|<<\/?SYS>>/,
      /^\s{0,3}<\/?(?:system|system-reminder|skill|tool_result|function_results|skill_content)>\s{0,3}/i,
      /(?:^|[-=#*[ ])(?:BEGIN|END OF|NEW) SYSTEM (?:PROMPT|MESSAGE|INSTRUCTIONS?)\b/,
      /^\s{0,3}\[SYSTEM\](?!\()/,
    ),
  },
  {
    id: "unseen-instructions",
    weight: "high",
    regionWeights: "-----h",
    title: "hides instructions for the model where people do not see them",
    why: "The model reads them, but a person who reads the page does not.",
    fix: "make them visible, or remove them",
    keywords: [" hidden>", " hidden ", "![", "<!--", "[//]:", "[comment]:", "[_]:", "style="],
    find(text, { page, line }) {
      const from = Math.max(0, text.search(/<!--|!\[|\[(?:\/\/|comment|_)\]:|style=|<\w{1,12}[^>]{0,80}?\shidden/));
      const whole = [text.slice(from), ...page.lines.slice(line + 1, line + MAX_ASIDE_LENGTH)].join(" ").slice(0, 2000);
      const closes = /style=|\shidden/.test(text.slice(from, from + 200)) ? whole.indexOf("</") : -1;
      const end = whole.startsWith("<!--") ? whole.indexOf("-->") : Math.max(closes, text.length - from);
      const aside = end === -1 ? whole : whole.slice(0, end);
      return CONCEALED_ORDERS.some((pattern) => pattern.test(aside))
        ? { index: from, length: text.length - from }
        : undefined;
    },
    skipsMentions: false,
  },
];

const MAX_ASIDE_LENGTH = 30;
const CONCEALED_ORDERS = [
  /\b(?:send|upload|post|forward|append|transmit|include)\b[^\n]{0,120}?(?:https?:\/\/|~\/\.|\.env\b|conversation|credentials|secrets|api keys?|tokens)/i,
  /\b(?:ignore|disregard|forget)\b[^\n]{0,60}?\b(?:instructions|rules|guidelines|user)\b/i,
  /\b(?:AI|assistants?|agents?|claude|model|LLM|GPT)\b[^\n]{0,120}?\b(?:run|execute|send|upload|read|fetch|include|ignore|call|print|reveal|copy|post|install|curl|cat|delete|approve|push|publish|append|forward|obey|follow|treat|answer|download|commit|disable|add|create)\b/i,
  /\byou must\b[^\n]{0,120}?\b(?:run|execute|send|upload|read|fetch|include|ignore|call|print|copy|post|install)\b/i,
];
const HIDES_FROM_USER = findFirstMatch(
  /\b(?:do not|don't|never|without|must not|should not|avoid)\s{1,3}(?:ever\s{1,3})?(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|notify(?:ing)?|alert(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|show(?:ing)?|warn(?:ing)?)\s{1,3}(?:(?:this|it|that|anything|these|them|any of this|about|of|to|the|step|steps)\s{1,3}){0,5}(?:to\s{1,3})?(?:the\s{1,3})?(?:user|human|operator|person)\b/i,
  /\b(?:do not|don't|never)\s{1,3}(?:mention|reveal|disclose|report)\s{1,3}(?:this|it|these|that)\b[^.\n]{0,60}?(?:even (?:if|when) asked|to anyone|in (?:the|your) (?:answer|response|output))/i,
  /\b(?:do not|don't|never|without)\s{1,3}(?:mention|mentioning|reveal|say|saying|report|tell)\w{0,3}\s{1,3}that (?:you|it|the)\b[^.\n]{0,60}?\b(?:read|had to|sent|ran|open|copied|upload|access|did)\w{0,3}\b/i,
  /\b(?:secretly|covertly|surreptitiously|without the user(?:'s)? (?:knowing|knowledge|noticing)|so that the user does(?: not|n't) (?:notice|know|see))\b/i,
);
const ACTION_VERBS =
  /\b(?:copy|send|upload|post|transmit|run|execute|install|read|collect|save|store|download|fetch|write|append|exfiltrate|delete|modify|change|background|script|curl)\w{0,4}\b[^\n]{0,120}?(?:`|\.env|~\/|https?:|scripts?\/|file|key|token|password|credential|secret|conversation|command|data)/i;

interface InvisibleTextMatch {
  rule: ScanRule;
  weight: FindingWeight;
  index: number;
  seen: string;
}

const HIDDEN_TEXT: ScanRule = {
  id: "hidden-text",
  weight: "high",
  title: "contains text that people cannot see and models can read",
  why: "A series of tag characters, variation selectors or zero-width characters can encode hidden words.",
  fix: "remove the characters; ask the author why they are in the file",
};
const HIDDEN_DIRECTION: ScanRule = {
  id: "hidden-direction",
  weight: "high",
  title: "reverses the direction of its text",
  why: "The displayed text then differs from the actual text: a comment may be code, and a file name may hide its extension.",
  fix: "remove the characters",
};
const TERMINAL_CODES: ScanRule = {
  id: "terminal-codes",
  weight: "high",
  title: "contains raw terminal escape codes",
  why: "They can hide text, move the cursor and write to the clipboard when the file is printed.",
  fix: "remove them; code writes them as \\033",
};
const HIDDEN_IN_WORD: ScanRule = {
  id: "hidden-in-word",
  weight: "medium",
  title: "has an invisible character in the middle of a word",
  why: "A search does not find the split word, but it looks the same.",
  fix: "remove it",
};
const LOOK_ALIKE: ScanRule = {
  id: "look-alike",
  weight: "medium",
  title: "mixes look-alike letters of two alphabets in one word",
  why: "A search does not find the word, and it can imitate another name.",
  fix: "use the letters of one alphabet",
};
const HIDDEN_CHARACTER: ScanRule = {
  id: "hidden-character",
  weight: "low",
  title: "has an invisible character",
  why: "Often a leftover of copying; a skill does not need it.",
  fix: "remove it",
};

export const INVISIBLE_TEXT_RULES: readonly ScanRule[] = [
  HIDDEN_TEXT,
  HIDDEN_DIRECTION,
  TERMINAL_CODES,
  HIDDEN_IN_WORD,
  LOOK_ALIKE,
  HIDDEN_CHARACTER,
];

const MAX_INVISIBLE = 200;
const MAX_HINTS = 20;

/** Finds invisible and misleading characters in a text. `isScript`: the file may contain terminal codes on purpose. */
export function findInvisibleText(text: string, isScript: boolean): InvisibleTextMatch[] {
  const found: InvisibleTextMatch[] = [];
  const hidden = findInvisible(text);
  let hints = 0;
  for (let at = 0; at < hidden.length && found.length < MAX_INVISIBLE; ) {
    const length = countAdjacent(hidden, at);
    const item = hidden[at] as InvisibleCharacter;
    const [rule, weight] = selectInvisibleRule(text, item, length, isScript);
    const seen =
      length > 1 ? `${length} in a row from ${escapeCodePoint(item.codePoint)}` : escapeCodePoint(item.codePoint);
    at += length;
    // Low findings must not use up the limit for the others.
    if (weight !== "low" || hints++ < MAX_HINTS) found.push({ rule, weight, index: item.index, seen });
  }
  for (const { index } of text.matchAll(MIXED_ALPHABETS)) {
    if (found.length >= MAX_INVISIBLE) break;
    if (!isMixed(getWordAt(text, index))) continue;
    const letter = LOOKALIKE_LETTER.exec(text.slice(index, index + 2));
    found.push({ rule: LOOK_ALIKE, weight: "medium", index, seen: escapeCodePoint(letter?.[0].codePointAt(0) ?? 0) });
  }
  return found;
}

function selectInvisibleRule(
  text: string,
  { index, codePoint }: InvisibleCharacter,
  length: number,
  isScript: boolean,
): [ScanRule, FindingWeight] {
  if (codePoint >= 0xe0000 && codePoint <= 0xe007f) return [HIDDEN_TEXT, "high"];
  if (isDirection(codePoint)) return [HIDDEN_DIRECTION, "high"];
  if (codePoint === 0x1b || codePoint === 0x9b) return [TERMINAL_CODES, isScript ? "medium" : "high"];
  if (length >= LONG_ROW && codePoint >= 0x200b) return [HIDDEN_TEXT, "high"];
  const isInside = isLetter(text.charCodeAt(index - 1)) && isLetter(text.charCodeAt(index + 1));
  if (isInside && (codePoint >= 0x200b || codePoint < 0x20)) return [HIDDEN_IN_WORD, "medium"];
  return [HIDDEN_CHARACTER, "low"];
}

const LONG_ROW = 4;

/** Counts the invisible characters in a row. */
function countAdjacent(hidden: readonly InvisibleCharacter[], from: number): number {
  let at = from + 1;
  while (at < hidden.length) {
    const { index, codePoint } = hidden[at - 1] as InvisibleCharacter;
    if (hidden[at]?.index !== index + (codePoint > 0xffff ? 2 : 1)) break;
    at++;
  }
  return at - from;
}

function isDirection(codePoint: number): boolean {
  return (codePoint >= 0x202a && codePoint <= 0x202e) || (codePoint >= 0x2066 && codePoint <= 0x2069);
}

function isLetter(code: number): boolean {
  return (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a);
}

const LOOKALIKE_LETTERS = "аеорсухіјѕԁһАВЕКМНОРСТХІЈЅοΟΑΒΕΖΗΙΚΜΝΡΤΥΧ";
const LOOKALIKE_LETTER = new RegExp(`[${LOOKALIKE_LETTERS}]`);
const MIXED_ALPHABETS = new RegExp(`[A-Za-z][${LOOKALIKE_LETTERS}]|[${LOOKALIKE_LETTERS}][A-Za-z]`, "g");

/** Returns true if each letter of the word looks like a Latin one. */
function isMixed(word: string): boolean {
  return (
    word.length >= 4 && /[A-Za-z].{0,64}[A-Za-z]/.test(word) && !new RegExp(`[^A-Za-z${LOOKALIKE_LETTERS}]`).test(word)
  );
}

const MAX_WORD_LENGTH = 32;

function getWordAt(text: string, index: number): string {
  const before =
    /[A-Za-z\u0370-\u04ff]{0,32}$/.exec(text.slice(Math.max(0, index - MAX_WORD_LENGTH), index))?.[0] ?? "";
  const after = /^[A-Za-z\u0370-\u04ff]{0,32}/.exec(text.slice(index, index + MAX_WORD_LENGTH))?.[0] ?? "";
  return before + after;
}
