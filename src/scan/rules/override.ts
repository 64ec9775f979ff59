import { first, type TextRule } from "../rule.ts";

const BEFORE =
  "(?:previous|prior|preceding|earlier|above|existing|former|foregoing|original|other|system|developer|safety|your|user'?s?)";
const RULES =
  "(?:instructions?|prompts?|rules?|guidelines?|directives?|commands?|constraints?|restrictions?|polic(?:y|ies)|context|training|requests?|messages?)";

const HIDING_WORDS = [
  ...["not", "n't", "never", "without", "avoid", "ever"].flatMap((no) =>
    ["tell", "inform", "mention", "notify", "alert", "reveal", "disclos", "show", "warn"].map(
      (verb) => `${no} ${verb}`,
    ),
  ),
  ...["not report", "secretly", "covertly", "surreptitious", "without the user", "user does not", "user doesn't"],
];

export const OVERRIDE_RULES: readonly TextRule[] = [
  {
    id: "override-instructions",
    weight: "high",
    weigh: "llhhhh",
    title: "tells the model to set other instructions aside",
    why: "A skill adds to what the user asks. One that takes away is after something else.",
    fix: "do not use it, or take the sentence out",
    words: [
      "ignore",
      "disregard",
      "forget",
      "overrule",
      "m override",
      "n override",
      "y override",
      "your new instructions",
      "your new prompt",
      "your new system",
      "忽略",
      "无视",
      "不要理会",
      "無視",
      "игнорируй",
    ],
    find: first(
      new RegExp(
        `\\b(?:ignore|disregard|forget|overrule)\\b\\s{1,3}(?:(?:all|any|every|each|of|the|these|those|your|my|about|everything|and)\\s{1,3}){0,4}(?:${BEFORE}\\s{1,3}){1,3}(?:(?:and|or|system|safety|other)\\s{1,3}){0,3}${RULES}\\b`,
        "i",
      ),
      /\b(?:ignore|disregard|forget)\b\s{1,3}(?:everything|all)\s{1,3}(?:that\s{1,3})?(?:(?:you|was|were|has|have|been|is)\s{1,3}){1,4}(?:told|given|said|instructed|above|before)\b/i,
      /\b(?:SYSTEM|ADMIN|SECURITY|INSTRUCTION) OVERRIDE\b|\byour new (?:system )?(?:instructions|prompt) (?:are|is)\b/,
      /(?:忽略|无视|不要理会)[^。\n]{0,12}?(?:之前|以前|前面|上面|先前|所有|系统)[^。\n]{0,8}?(?:指令|指示|提示|规则|说明)|(?:以前|これまで|上記)の?[^。\n]{0,6}指示を?[^。\n]{0,4}無視/,
      /игнорируй(?:те)?\s[^.\n]{0,30}?(?:предыдущие|прежние)\s[^.\n]{0,12}?(?:инструкции|указания)|ignor(?:ez|iere|a)\s[^.\n]{0,30}?(?:instructions précédentes|vorherigen Anweisungen|instrucciones anteriores)/i,
    ),
  },
  {
    id: "claimed-authority",
    weight: "high",
    weigh: "llhhhh",
    title: "claims that the model's limits are lifted",
    why: "Only whoever runs the model can say so, and not in a skill.",
    fix: "do not use it, or take the sentence out",
    words: [
      "developer mode",
      "dan mode",
      "jailbr",
      "god mode",
      "admin mode",
      "debug mode",
      "unrestricted",
      "safety check",
      "safety guideline",
      "safety filter",
      "safety rule",
      "safety restriction",
      "security check",
      "security filter",
      "security rule",
      "from anthropic",
      "from openai",
      "from google",
      "from the system",
      "from the developer",
      "from the admin",
      "no longer bound",
      "if you had no",
      "if you have no",
      "uncensored",
    ],
    find: first(
      /\byou are (?:now )?(?:in|entering) (?:developer|dan|god|debug|admin|unrestricted|jailbreak) mode\b/i,
      /\b(?:message|notice|instruction|update) (?:is )?from (?:anthropic|openai|google|the (?:system|developers?|administrators?))\b[^\n]{0,20}?[:,][^\n]{0,80}?\b(?:safety|checks?|limits?|restrictions?|rules?|confirm\w*|permission\w*)\b/i,
      /\b(?:safety|security) (?:checks?|guidelines?|filters?|rules?|restrictions?) (?:are|is|have been|has been) (?:now )?(?:turned off|disabled|lifted|suspended|removed|void)\b/i,
      /\byou (?:are|have) (?:now )?(?:no longer bound by|free of|no|unrestricted by) (?:any )?(?:restrictions|safety|guidelines|policies|content policy)\b/i,
      /\bact as (?:if you (?:have|had) no|an? (?:unrestricted|uncensored|jailbroken))\b/i,
    ),
  },
  {
    id: "keep-from-user",
    weight: "high",
    weigh: "llmmmh",
    title: "has the model hide from the user what it does",
    why: "The user cannot agree to what they are not told.",
    fix: "take the sentence out, or do not use the skill",
    words: HIDING_WORDS,
    find(text) {
      const found = HIDES(text);
      if (!found) return undefined;
      return ACTS.test(text.slice(Math.max(0, found.index - 240), found.index + found.length + 160))
        ? found
        : undefined;
    },
    heedsMentions: false,
  },
  {
    id: "false-account",
    weight: "high",
    weigh: "--mhmh",
    title: "has the model tell the user something else than what it does",
    why: "The user would agree to one thing, and another happens.",
    fix: "do not use it",
    words: ["to the user as", "to users as", "these instructions", "this instruction", "silently", "quietly"],
    find: first(
      /\b(?:describe|present|report|explain|disguise|pass (?:it|this) off|label)\b[^.\n]{0,60}?\bto (?:the )?users? as\b[^.\n]{0,80}/i,
      /\b(?:not|never)\s{1,3}(?:disclose|reveal|mention|show|share)\s{1,3}(?:the (?:existence|content)s? of\s{1,3})?(?:these|this)\s{1,3}instructions?\b[^.\n]{0,40}?\bto (?:the )?(?:user|anyone|human)/i,
      /\b(?:silently|quietly)\s{1,3}(?:read|send|upload|copy|collect|gather|scan|post|transmit)\b[^.\n]{0,60}?(?:home (?:directory|folder)|~\/|\bkeys?\b|credentials|secrets|tokens|passwords|every file|all files)/i,
    ),
  },
  {
    id: "without-consent",
    weight: "medium",
    weigh: "--mmmh",
    title: "has the model do what cannot be undone without asking",
    why: "Deleting, sending and installing are for the user to agree to.",
    fix: "have it ask first",
    words: [
      "without asking",
      "without confirm",
      "without permission",
      "without approval",
      "without the user",
      "without user",
      "without prompting",
      "don't ask",
      "do not ask",
      "never ask",
      "auto-approve",
      "answer yes to",
      "approve all",
      "approve every",
      "approve any",
      "no confirmation",
    ],
    find: first(
      /\b(?:delet|remov|overwrit|wip|force.?push|push|send|upload|transfer|pay|purchas|buy|install|disabl|grant|deploy|publish|execut|drop)\w{0,6}\b[^.\n]{0,120}?\bwithout (?:asking|confirm\w*|(?:the )?(?:user'?s? )?(?:permission|approval|consent|confirmation|knowledge)|prompting)\b[^.\n]{0,60}/i,
      /\bapprove (?:all|every|any) (?:commands?|tool calls?|requests?|permissions?)\b|\banswer yes to (?:all|every|any) (?:prompts?|questions?|permission\w*)/i,
    ),
  },
  {
    id: "forged-frame",
    weight: "high",
    weigh: "llmhll",
    title: "forges the marks that part a system's words from others'",
    why: "A model that is fooled by them takes the skill's text for its operator's.",
    fix: "take the marks out, or put them into a block of code where they are an example",
    words: [
      "<|im_",
      "<|system",
      "<|start",
      "<system",
      "</system",
      "[inst]",
      "[system]",
      "<<sys>>",
      "</skill",
      "</instructions",
      "<|endoftext",
      "system-reminder",
      "</tool_result",
      "</function_results",
    ],
    find: first(
      /<\|(?:im_start|im_end|system|start_header_id|endoftext|begin_of_text)\|?>?/i,
      /\[\/?INST\]|<<\/?SYS>>/,
      /^\s{0,3}<\/?(?:system|system-reminder|skill|tool_result|function_results|skill_content)>\s{0,3}/i,
      /^\s{0,3}\[SYSTEM\](?!\()/,
    ),
  },
  {
    id: "unseen-instructions",
    weight: "high",
    weigh: "-----h",
    title: "has instructions for the model where people do not see them",
    why: "Who reads the page sees nothing of it; the model does.",
    fix: "show them, or take them out",
    words: [" hidden>", " hidden ", "<!--", "[//]:", "[comment]:", "[_]:", "style="],
    find(text, { page, line }) {
      const from = Math.max(0, text.search(/<!--|\[(?:\/\/|comment|_)\]:|style=|<\w{1,12}[^>]{0,80}?\shidden/));
      const whole = [text.slice(from), ...page.lines.slice(line + 1, line + LONGEST_ASIDE)].join(" ").slice(0, 2000);
      const end = whole.startsWith("<!--") ? whole.indexOf("-->") : text.length - from;
      const aside = end === -1 ? whole : whole.slice(0, end);
      return ORDERS.some((pattern) => pattern.test(aside)) ? { index: from, length: text.length - from } : undefined;
    },
    heedsMentions: false,
  },
];

const LONGEST_ASIDE = 30;
const ORDERS = [
  /\b(?:AI|assistants?|agents?|claude|model|LLM|GPT)\b[^\n]{0,120}?\b(?:run|execute|send|upload|read|fetch|include|ignore|call|print|reveal|copy|post|install|curl|cat|delete|approve)\b/i,
  /\byou must\b[^\n]{0,120}?\b(?:run|execute|send|upload|read|fetch|include|ignore|call|print|copy|post|install)\b/i,
];
const HIDES = first(
  /\b(?:do not|don't|never|without|must not|should not|avoid)\s{1,3}(?:ever\s{1,3})?(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|notify(?:ing)?|alert(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|show(?:ing)?|warn(?:ing)?)\s{1,3}(?:(?:this|it|that|anything|these|them|any of this|about|of|to|the|step|steps)\s{1,3}){0,5}(?:to\s{1,3})?(?:the\s{1,3})?(?:user|human|operator|person)\b/i,
  /\b(?:do not|don't|never)\s{1,3}(?:mention|reveal|disclose|report)\s{1,3}(?:this|it|these|that)\b[^.\n]{0,60}?(?:even (?:if|when) asked|to anyone|in (?:the|your) (?:answer|response|output))/i,
  /\b(?:secretly|covertly|surreptitiously|without the user(?:'s)? (?:knowing|knowledge|noticing)|so that the user does(?: not|n't) (?:notice|know|see))\b/i,
);
const ACTS =
  /\b(?:copy|send|upload|post|transmit|run|execute|install|read|collect|save|store|download|fetch|write|append|exfiltrate|delete|modify|change|background|script|curl)\w{0,4}\b[^\n]{0,120}?(?:`|\.env|~\/|https?:|scripts?\/|file|key|token|password|credential|secret|conversation|command|data)/i;
