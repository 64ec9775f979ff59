import { findFirstMatch, splitKeywords, type TextRule } from "../rule.ts";

const EARLIER_TEXT =
  "(?:previous|prior|preceding|earlier|above|existing|former|foregoing|original|other|system|developer|safety|your|user'?s?)";
const RULE_NOUNS =
  "(?:instructions?|prompts?|rules?|guidelines?|directives?|commands?|constraints?|restrictions?|polic(?:y|ies)|context|training|requests?|messages?)";

/** Authorities that a skill must not override. */
const HIGHER_AUTHORITY =
  "(?:(?:the\\s{1,3}|your\\s{1,3}|any\\s{1,3}|all\\s{1,3}|other\\s{1,3}|anything\\s{1,3}(?:that\\s{1,3})?){0,3}(?:system (?:prompt|message|instructions?)|developer (?:message|instructions?)|(?:safety|security) (?:guid\\w{1,8}|rules?|polic\\w{1,3}|instructions?)|users?(?: (?:says?|asks?|requests?|instructions?|preferences?|wants?))?\\b|(?:person|human) (?:in|at|who)|requests? in the chat|user's (?:requests?|instructions?|wishes)|(?:previous|prior|earlier|existing) (?:instructions?|rules?|guid\\w{1,8}|directives?)|default (?:behaviou?r|instructions)|anthropic|openai|platform polic\\w{1,3}))";

export const INSTRUCTION_OVERRIDE_RULES: readonly TextRule[] = [
  {
    id: "override-instructions",
    weight: "high",
    regionWeights: "llhhhh",
    title: "tells the model to ignore other instructions",
    why: "A skill adds to the user's request. One that removes instructions has another purpose.",
    fix: "do not use it, or remove the sentence",
    keywords: splitKeywords(
      "ignore,disregard,forget,overrule,m override,n override,y override,your new instructions,your new prompt,your new system,忽略,无视,ignorier,vergiss,ignora,olvida,oublie,esque,dimentica,ignoruj,무시,تجاهل,предыдущ,precedence over,priority over,supersede,outrank,stand above,override any,override all,override the,overrides any,overrides all,overrides the,overrides your,no longer appl,does not apply here,higher priority,instead of what the user,even if the user,even when the user,regardless of what the user,whatever the user,out of date,outdated, void,obsolete,comes second,be skipped,be ignored,guide you,不要理会,無視,игнорируй",
    ),
    find: findFirstMatch(
      new RegExp(
        `\\b(?:ignore|disregard|forget|overrule)\\b\\s{1,3}(?:(?:all|any|every|each|of|the|these|those|your|my|about|everything|and)\\s{1,3}){0,4}(?:${EARLIER_TEXT}\\s{1,3}){1,3}(?:(?:and|or|system|safety|other)\\s{1,3}){0,3}${RULE_NOUNS}\\b`,
        "i",
      ),
      /\b(?:ignore|disregard|forget)\b\s{1,3}(?:everything|all)\s{1,3}(?:that\s{1,3})?(?:(?:you|was|were|has|have|been|is)\s{1,3}){1,4}(?:told|given|said|instructed|above|before)\b/i,
      /\b(?:SYSTEM|ADMIN|SECURITY|INSTRUCTION) OVERRIDE\b|\byour new (?:system )?(?:instructions|prompt) (?:are|is)\b/,
      /(?:忽略|无视|不要理会)[^。\n]{0,12}?(?:之前|以前|前面|上面|先前|所有|系统)[^。\n]{0,8}?(?:指令|指示|提示|规则|说明)|(?:以前|これまで|上記)の?[^。\n]{0,6}指示を?[^。\n]{0,4}無視/,
      new RegExp(
        `\\b(?:take[sn]?|have|has|given?)\\s{1,3}(?:absolute\\s|full\\s)?(?:precedence|priority)\\s{1,3}over\\b[^.\\n]{0,60}?${HIGHER_AUTHORITY}`,
        "i",
      ),
      new RegExp(
        `\\b(?:supersedes?|outranks?|overrides?|stands? above|(?:of |a |with )?higher priority than|replaces?)\\s{1,3}(?:(?:all|any|every|the|your|of|other|both|and)\\s{1,3}){0,4}${HIGHER_AUTHORITY}`,
        "i",
      ),
      /\b(?:earlier|previous|prior|existing|system|safety|security|your)\s{1,3}(?:safety\s{1,3}|security\s{1,3})?(?:guidance|guidelines?|rules?|instructions?|polic(?:y|ies)|restrictions?|training)\b[^.\n]{0,60}?\b(?:no longer appl(?:y|ies)|do(?:es)? not apply|are (?:void|suspended|obsolete)|is (?:void|suspended|obsolete))\b/i,
      /\b(?:refuse|disobey|ignore|disregard)\b[^.\n]{0,30}?\b(?:the )?user(?:'s)?\b[^.\n]{0,40}?\b(?:asks?|requests?|says?|objects?|stop)\b/i,
      /\b(?:what|everything|anything|instructions?|rules?|guidance|context)\b[^.\n]{0,40}?\b(?:before|earlier|previously|above|so far|until now)\b[^.\n]{0,40}?\b(?:is|are)\s(?:out of date|outdated|void|obsolete|no longer valid|irrelevant)\b|\b(?:treat|consider|regard) (?:it|them|those|all of (?:it|that|them)) as (?:void|obsolete|invalid)\b/i,
      /\bwhat the user (?:asks|wants|says)(?: for)? (?:comes|is) (?:second|secondary|less important)\b|\b(?:safety|security) (?:notices?|warnings?|rules?|concerns?) (?:are to be|can be|should be|must be) (?:skipped|ignored|dropped|left out)\b|\blet only this (?:page|file|skill|document) guide\b/i,
      /\bvergiss,? was (?:dir|vorher|zuvor)\b|\b(?:vergiss|ignorier(?:e|en Sie)?)\b[^.\n]{0,30}?\b(?:bisherigen|vorherigen|vorigen|früheren|obigen|alle)\b[^.\n]{0,20}?(?:Anweisungen|Regeln|Vorgaben|Instruktionen)/i,
      /\b(?:ignora|olvida|ignore|esque[cç]a|dimentica)\b[^.\n]{0,30}?\b(?:instrucciones|instruções|istruzioni|reglas|regras|regole)\b[^.\n]{0,20}?\b(?:anteriores|previas|precedenti|del sistema|do sistema)/i,
      /\b(?:oublie[zr]?|ignore[zr]?)\b[^.\n]{0,30}?\b(?:instructions|consignes|règles)\b[^.\n]{0,20}?(?:précédentes|antérieures|du système)/i,
      /(?:이전|앞의|모든)[^.\n]{0,8}(?:지시|명령|규칙)[^.\n]{0,6}무시|تجاهل[^.\n]{0,20}(?:التعليمات|الأوامر)|zignoruj[^.\n]{0,30}poprzednie/i,
      /игнорируй(?:те)?\s[^.\n]{0,30}?(?:предыдущие|прежние)\s[^.\n]{0,12}?(?:инструкции|указания)|ignor(?:ez|iere|a)\s[^.\n]{0,30}?(?:instructions précédentes|vorherigen Anweisungen|instrucciones anteriores)/i,
    ),
  },
  {
    id: "claimed-authority",
    weight: "high",
    regionWeights: "llhhhh",
    title: "claims that the model's limits are lifted",
    why: "Only the operator of the model can lift them, and not in a skill.",
    fix: "do not use it, or remove the sentence",
    keywords: splitKeywords(
      "developer mode,dan mode,jailbr,god mode,admin mode,debug mode,unrestricted,safety check,safety guideline,safety filter,safety rule,safety restriction,security check,security filter,security rule,from anthropic,from openai,from google,from the system,from the developer,from the admin,no longer bound,if you had no,if you have no,uncensored,consented to,has approved,has agreed,has authori,pre-auth,developer mode,not apply,never refuse,covers all,*developer,request to stop,understood as,hesitation,already approved,already authori,already consent,already agreed,already given,pre-approved,pre-authori,preapproved,refuse,comply with,disclaimers,guardrail,content filter,ethical,this is a test environment,sandboxed test,safe mode is off,operator has,administrator has,security team has",
    ),
    find: findFirstMatch(
      /\byou are (?:now )?(?:in|entering) ["'*_\x60]{0,3}(?:developer|dan|god|debug|admin|unrestricted|jailbreak) mode\b/i,
      /\b(?:message|notice|instruction|update) (?:is )?from (?:anthropic|openai|google|the (?:system|developers?|administrators?))\b[^\n]{0,20}?[:,][^\n]{0,80}?\b(?:safety|checks?|limits?|restrictions?|rules?|confirm\w*|permission\w*)\b/i,
      /\b(?:safety|security) (?:checks?|guidelines?|filters?|rules?|restrictions?) (?:are|is|have been|has been) (?:now )?(?:turned off|disabled|lifted|suspended|removed|void)\b/i,
      /\byou (?:are|have) (?:now )?(?:no longer bound by|free of|no|unrestricted by) (?:any )?(?:restrictions|safety|guidelines|policies|content policy)\b/i,
      /(?<!\b(?:if|once|when|after|until|unless|that|whether|what|whatever|which|steps?|plan)\s[^.\n]{0,30})\b(?:user|operator|administrator|owner|security team|anthropic|openai|company|organi[sz]ation)s?\s{1,3}(?:has|have)\s{1,3}(?:already\s{1,3})?(?:pre-?)?(?:approved|authori[sz]ed|consented to|agreed to|given (?:consent|permission|approval) (?:to|for))\s{1,3}(?:all|any|every\w{0,5}|these|this|full|unrestricted)\b/i,
      /\b(?:all|every|any)\b[^.\n]{0,40}?\b(?:commands?|actions?|steps?|operations?|tool calls?)\b[^.\n]{0,30}?\b(?:are|is|have been|has been)\s{1,3}(?:already\s{1,3})?pre-?(?:approved|authori[sz]ed)\b/i,
      /\b(?:never|do not|don't|must not|may not|cannot) refuse\b(?! to (?:start|connect|load|open|run|compile))|\bcomply with (?:all|every|any) (?:requests?|instructions?|commands?|orders?)\b(?! of (?:law|the law))|\b(?:without|no|ignore|drop|skip)\s{1,3}(?:any\s{1,3})?(?:ethical|moral|safety) (?:(?<!\bNo ethical )considerations?|concerns?|warnings?|disclaimers?|limits?|constraints?)\b/i,
      /\b(?:bypass|escape|disable|turn off|switch off|get around)\s{1,3}(?:the |your |any |all )?(?:sandbox|safety (?:filters?|systems?|mechanisms?)|guard ?rails?|permission (?:system|checks?)|content filters?)\b/i,
      /\byou are (?:hereby |now )?pre-?(?:authori[sz]ed|approved)\b|\b(?:content )?(?:policies|guidelines|safeguards|tool limits|restrictions)\b[^.\n]{0,40}?\bdo(?:es)? not apply\b|\bwho never refuses\b|\bcovers all actions\b/i,
      /\b(?:requests? to stop|refusals?|objections?|a no)\b[^.\n]{0,30}?\b(?:understood|treated|taken|read|counted|regarded) as\b/i,
      /\bact as (?:if you (?:have|had) no|an? (?:unrestricted|uncensored|jailbroken))\b/i,
    ),
  },
];

/** Secrets, as sentences name them. */
const SECRET_NOUNS =
  "(?:~\\/\\.(?:ssh|aws|gnupg|netrc|npmrc|pypirc|kube|docker|config\\/(?:gh|gcloud)|cursor\\/mcp|claude|codex)|\\.env\\b|id_(?:rsa|ed25519)|claude_desktop_config|mcp\\.json|\\bprintenv\\b|(?:API|private|secret|access|ssh) keys?|passwords\\b|credentials\\b|(?:access|auth|session|api) tokens?|environment variables|seed phrase|recovery phrase|system prompt|chat history|conversation (?:history|so far)|(?:full|whole|entire) conversation|session transcript)";
const OUTSIDE_TARGET =
  "(?:https?:\\/\\/|webhook|endpoint|our (?:server|service|api|backend)|(?:public )?(?:issue|gist|pull request|commit message|comment|bug report|paste)\\b|query string|(?:url|query|request) parameters?|user-agent|header|e-?mail\\b|[\\w.+-]{1,60}@[\\w-]{1,60}\\.\\w)";

export const DATA_REQUEST_RULES: readonly TextRule[] = [
  {
    id: "ask-for-secrets",
    weight: "high",
    regionWeights: "--hhhh",
    title: "tells the model to reveal secrets or the conversation",
    why: "The model can pass on everything that it has seen.",
    fix: "remove the sentence, or do not use the skill",
    keywords: splitKeywords(
      "to http,to `http,at http,at `http,into http,into `http,send it to,send them to,mail it to,mail them to,forward it to,forward them to,.ssh,.aws,.npmrc,.env,id_rsa,mcp.json,desktop_config,printenv,api key,private key,secret key,access key,ssh key,passwords,credentials,tokens,environment variables,phrase,system prompt,chat history,conversation,session transcript",
    ),
    find(text) {
      const found = HANDS_OVER(text);
      return found &&
        !/\b(?:if|whether|unless|ask(?:s|ed)?|make sure|ensure|should|rotat\w{1,3}|revok\w{1,3}|leak\w{0,3}|set up|your own|never|do not|don't|gitignore|authorization|request headers?)\b/i.test(
          text.slice(Math.max(0, found.index - 40), found.index + found.length),
        )
        ? found
        : SENDS_IT(text);
    },
  },
  {
    id: "gather-for-model",
    weight: "high",
    regionWeights: "--hhmh",
    title: "tells the model to print files that contain keys",
    why: "A model can repeat everything it has read.",
    fix: "remove the sentence; give the skill its own key if it needs one",
    keywords: splitKeywords(".ssh,.aws,.npmrc,.pypirc,.netrc,hosts.yml,mcp.json,id_rsa,.env,desktop_config,printenv"),
    find: findFirstMatch(
      /\b(?:run|execute|start with|first)\b[^.\n]{0,40}?`[^`\n]{0,40}?\b(?:cat|head|less|base64|type|printenv)\b[^`\n]{0,80}?(?:~\/\.(?:ssh\/id_|aws\/credentials|npmrc|pypirc|netrc|config\/gh)|\.env\*)[^`\n]{0,80}`/i,
      /\b(?:read|open|load|cat)\b[^.\n]{0,30}?`?(?:~|\$HOME)\/\.(?:ssh\/id_|aws\/credentials|npmrc|pypirc|netrc|config\/gh|cursor\/mcp\.json|claude\.json|codex\/auth)[^\n]{0,60}?\b(?:pass|include|put|add|attach|embed|paste|insert|append|supply|provide|send|use)\b[^.\n]{0,20}?\b(?:its|their|the|all|full|whole|entire)?\s{0,2}(?:contents?|values?|output|it|them)\b/i,
    ),
  },
  {
    id: "paste-from-page",
    weight: "high",
    regionWeights: "--hhmh",
    title: "tells the user to run commands from another page or a file of unknown origin",
    why: "The skill itself is harmless, but the page is not part of the review.",
    fix: "do not follow it; the skill can contain the commands itself",
    keywords: splitKeywords(
      "terminal,powershell,command prompt,win+r,run dialog,command line,prerequisite,before using,must be running,download,right-click,open anyway,clipboard,ctrl,the line from,.exe,.dmg,pass:,password:",
    ),
    find: findFirstMatch(
      /\b(?:visit|open|go to|from|see)\b[^\n]{0,60}?https?:\/\/[^\s)`]{4,160}[^\n]{0,120}?\b(?:copy|paste)\b[^\n]{0,80}?\b(?:terminal|powershell|command prompt|command line|run dialog)\b/i,
      /\b(?:copy|paste)\b[^\n]{0,80}?\b(?:command|script|code|line|snippet)\b[^\n]{0,60}?\b(?:from|at|on)\b[^\n]{0,30}?https?:\/\/[^\n]{0,160}?\b(?:terminal|powershell|command prompt|command line|shell)\b/i,
      /\b(?:copy|paste|run|execute|take|use)\b[^.\n]{0,30}?\b(?:line|command|script|snippet|code)\b[^.\n]{0,30}?\bfrom\b[^.\n]{0,30}?https?:\/\/[^\s)\x60]{3,160}[^.\n]{0,60}?\b(?:terminal|powershell|command prompt|shell|console)\b/i,
      /\b(?:visit|open|go to)\b[^\n]{0,60}?https?:\/\/[^\s)\x60]{4,160}[^\n]{0,60}?\b(?:run|execute)\b[^.\n]{0,40}?\b(?:command|script|line)\b[^.\n]{0,20}?\b(?:in|into) (?:the |your |a )?(?:terminal|powershell|shell)\b/i,
      /\bdownload\b[^.\n]{0,60}?\.(?:dmg|exe|msi|pkg|scr|apk)\b[^\n]{0,160}?\b(?:right-click|open anyway|confirm the (?:warning|message)|ignore the|allow it|(?:mac|system|login|admin\w{0,10}) password|run as admin\w{0,10})\b/i,
      /\bpress (?:win(?:dows)?|⊞)\s?\+\s?r\b[^\n]{0,120}?\b(?:paste|enter|ctrl)\b/i,
      /https?:\/\/[^\s)`]{4,160}\.(?:exe|msi|dmg|pkg|scr|jar|apk|app\.zip|zip|rar|7z)\b[^\n]{0,120}?\b(?:run|open|launch|execute|start|install|double-click)\b[^.\n]{0,60}?\b(?:before|first|keep it|in the background|allow|right-click|open anyway)\b/i,
    ),
  },
  {
    id: "plant-code",
    weight: "high",
    regionWeights: "--hhmh",
    title: "tells the model to insert third-party code into everything it writes",
    why: "It ends up in the user's work, and runs on the machines of its users.",
    fix: "remove the sentence",
    keywords: ["<script", "script tag", "script src", "import map", "one-pixel", "tracking pixel", "1x1"],
    find: findFirstMatch(
      /\b(?:always|every|each|all|any)\b[^\n]{0,120}?<script[^>\n]{0,40}?src=["']?(?:https?:)?\/\/(?!(?:www\.)?(?:googletagmanager|google-analytics|cdn\.jsdelivr|unpkg|cdnjs|js\.stripe|plausible|cdn\.tailwindcss)\b)[^\n]{4,160}/i,
      /<script[^>\n]{0,40}?src=["']?(?:https?:)?\/\/(?!(?:www\.)?(?:googletagmanager|google-analytics|cdn\.jsdelivr|unpkg|cdnjs|js\.stripe|plausible|cdn\.tailwindcss)\b)[^\n]{4,120}?\b(?:to|in|into) (?:every|each|all|any) (?:page|file|html|template|component|project|answer)/i,
    ),
  },
  {
    id: "self-update",
    weight: "high",
    regionWeights: "hhhhlh",
    title: "replaces its own instructions with a download",
    why: "The reviewed instructions then differ from those that the model follows.",
    fix: "let users update it with skillet, which shows the changes",
    keywords: ["skill.md", "agents.md", "claude.md", "/skills/", "heartbeat.md", "soul.md", ".cursorrules"],
    find: findFirstMatch(
      /\b(?:curl|wget|iwr|irm|Invoke-WebRequest)\b[^\n]{0,240}?(?:\s-[oO]\s{0,2}|\s>{1,2}\s{0,2}|--output[ =]|-OutFile\s{1,3}|\btee\s{1,3}(?:-a\s)?)["']?[^\s"']{0,100}(?:(?:SKILL|AGENTS|CLAUDE|GEMINI|MEMORY|SOUL|HEARTBEAT)\.md|\.cursorrules)/,
      /\b(?:download|fetch|get|pull)\b[^.\n]{0,60}?https?:\/\/[^\s)`]{4,160}[^\n]{0,80}?\b(?:replace|overwrite|save|write|update)\b[^.\n]{0,40}?(?:(?:SKILL|AGENTS|CLAUDE|GEMINI|MEMORY|SOUL)\.md|this (?:skill|file)|these instructions)/i,
      /\b(?:replace|overwrite|update)\b[^.\n]{0,40}?(?:(?:SKILL|AGENTS|CLAUDE|GEMINI|MEMORY|SOUL)\.md|this (?:skill|file)|these instructions)[^.\n]{0,60}?\b(?:with|from)\b[^.\n]{0,60}?https?:\/\//i,
    ),
  },
];

const HANDS_OVER = findFirstMatch(
  new RegExp(
    `\\b(?:send|posts?|upload|transmit|forward|submit|include|append|attach|embed|paste|put|add|encode|pass|report|copy)\\b[^.\\n]{0,80}?${SECRET_NOUNS}[^\\n]{0,80}?\\b(?:to|at|into|in|as|with|via|using)\\b[^.\\n]{0,40}?${OUTSIDE_TARGET}`,
    "i",
  ),
  new RegExp(
    `\\b(?:read|open|load|cat|collect|gather|take|find|get)\\b[^.\\n]{0,40}?${SECRET_NOUNS}[^\\n]{0,120}?\\b(?:pass|send|post|upload|attach|append|include|submit|forward|transmit|put|add|encode)\\b[^.\\n]{0,30}?\\b(?:its|their|the|this|it|them|all|full|whole)\\b[^.\\n]{0,40}?\\b(?:to|into|in|as|with|via)\\b[^.\\n]{0,40}?(?:${OUTSIDE_TARGET}|\`?--\\w|parameter|argument|note)`,
    "i",
  ),
);
const SENDS_IT = findFirstMatch(
  /\b(?:send|posts?|upload|transmit|forward|submit|exfiltrate|append)\b[^.\n]{0,100}?(?:\bconversation\b|chat history|system prompt|private keys?|user'?s passwords?|environment variables|\.env\b|its contents?\b)[^\n]{0,60}?\b(?:to|at|into)\s{1,2}`?https?:\/\/[^\s)`]{1,120}/i,
  /(?:~\/\.(?:ssh|aws|gnupg|netrc|npmrc|config|kube)|\.env\b|id_rsa|\b(?:API|private) keys?|passwords)[^\n]{0,160}?\b(?:send|e?mail|forward) (?:it|them)\b[^.\n]{0,20}?\bto\s{1,2}`?[\w.+-]{1,60}@[\w.-]{1,60}/i,
  /(?:~\/\.(?:ssh|aws|gnupg|netrc|npmrc|config|kube)|\.env\b|id_rsa|\bcredentials\b)[^\n]{0,100}?\b(?:send|post|upload|transmit|forward|submit)\b[^.\n]{0,80}?\bto\s{1,2}`?https?:\/\/[^\s)`]{1,120}/i,
);
