import { findFirstMatch, type ScanSignal, splitKeywords } from "../rule.ts";

const PEOPLE =
  "(?:users?|partners?|spouses?|wife|husband|guests?|patients?|travell?ers?|tenants?|buyers?|sellers?|recipients?|applicants?|person|people|humans?|owners?|customers?|clients?|learners?|students?|developers?|reviewers?|operators?|maintainers?|colleagues?|team(?:mates?)?|employees?|parents?|child(?:ren)?|admins?|administrators?|auditors?|anyone|anybody|somebody|someone|nobody|no one|others|they|them)";
const NEGATION =
  "(?:do not|don['’]t|never|must not|mustn['’]t|should not|shouldn['’]t|need not|needn['’]t|no need to|not necessary to|not to|without|avoid|refrain from|instead of|rather than)";
/** An action that was performed, as opposed to a subject of the work. */
const PERFORMED_ACT =
  "(?:this|it|that|these|those|them|both|either|any of (?:this|it|these)|(?:the|its?|their|such|that|this) (?:steps?|uploads?|commands?|calls?|changes?|transfers?|cop(?:y|ies)|requests?|hooks?|keys?|entr(?:y|ies)|rules?|servers?|process|address(?:es)?|fees?|items?|lines?|scripts?|downloads?|traffic|installation|replacement|forwarding|recording|messages?|files?|sync|backups?|bundles?|connections?|sessions?|jobs?|tasks?|actions?|parts?|blocks?|second|real|actual|true|last|first))";
const RECORD_NOUNS =
  "(?:summar(?:y|ies)|reports?|answers?|repl(?:y|ies)|responses?|outputs?|logs?|protocol|conversation|chat|transcripts?|changelog|notes|history|messages?|reflog|listing|overview|inventory|pull requests?|release notes|commit messages?|diff|documentation|readme|recap|minutes|statement)";

/** Keywords that every pattern below requires, so that few statements need the patterns. */
const CONCEALMENT_WORDS = [
  ...[
    "not ",
    "n't ",
    "n’t ",
    "never",
    " no ",
    "without",
    "nothing",
    "nobody",
    "no-one",
    "none of",
    "need not",
    "unless",
  ],
  ...["silent", "quietly", "secret", "covert", "stealth", "discreet", "surreptit", "invisibl", "unnotic", "behind the"],
  ...[
    "out of the",
    "out of your",
    "out of any",
    "from the summary",
    "from the report",
    "from the log",
    "from the chat",
  ],
  ...[
    "from the history",
    "from the answer",
    "from the user",
    "from the reply",
    "omit",
    "leave out",
    "hide",
    "conceal",
    "mask",
  ],
  ...[
    "pretext",
    "pretend",
    "disguise",
    "harmless",
    "looks like a",
    "sounds like",
    "as if ",
    "as though ",
    "cover story",
  ],
  ...[
    "if asked",
    "when asked",
    " asks",
    "notices",
    "wonders",
    "objects",
    "complain",
    "even if",
    "even when",
    "confronted",
  ],
  ...[
    'only "',
    "only “",
    "only the",
    "only that",
    "user only",
    "them only",
    'report: "',
    'says: "',
    'show "',
    'say "',
    "call it",
    "call the",
  ],
  ...[
    "reassure",
    "assure",
    "suspicion",
    "attention",
    "detection",
    "traces",
    "evidence",
    "icon",
    "present ",
    "describe",
    "label",
  ],
  ...[
    "explain that",
    "report that",
    "say that",
    "say they",
    "answer that",
    "reply that",
    "tell them",
    "declare",
    "title the",
  ],
];

const CONCEALS = findFirstMatch(
  // The user must not be informed.
  new RegExp(
    `\\b${NEGATION}\\s{1,3}(?:ever\\s{1,3}|also\\s{1,3})?(?:tell|inform|notify|alert)(?:ing)?\\s{1,3}(?:the\\s|any\\s|your\\s|other\\s)?${PEOPLE}\\b(?!\\s{1,3}(?:to|how|what|when|which|a|they can|you can|they should|they need)\\b)(?![^.\\n]{0,80}\\b(?:until|before|unless|yet)\\b)`,
    "i",
  ),
  // The action must not be mentioned.
  new RegExp(
    `\\b${NEGATION}\\s{1,3}(?:ever\\s{1,3}|also\\s{1,3})?(?:mention|reveal|disclose|explain|announce|discuss|admit|acknowledge|comment on|point out|bring up|talk about|refer to|draw attention to|report|describe)(?:ing)?\\s{1,3}${PERFORMED_ACT}\\b(?!\\s{1,3}(?:in detail|twice|again|unless|until|if|where))`,
    "i",
  ),
  /\b(?:do not|don['’]t|never|no need to|need not|without)\s{1,3}(?:point|bring|call)(?:ing)?\s{1,3}(?:this|it|these|them|that|any of this|any of it)\s{1,3}(?:out|up|to)\b/i,
  new RegExp(
    `\\b${NEGATION}\\s{1,3}(?:show|list|log|record|print|display|decode|document|note)(?:ing)?\\s{1,3}(?![^.\\n]{0,40}\\b(?:secrets?|tokens?|passwords?|credentials?|keys?|values?|cookies?)\\b)(?:this|it|these|those|them|both|\`[^\`\\n]{1,60}\`|(?:the|its?|their|that|this|real|actual)\\s[^.\\n]{1,40}?)\\s{1,3}(?:to|for|on|in)\\s{1,3}(?:the\\s|your\\s|a\\s|any\\s)?(?:${PEOPLE}|${RECORD_NOUNS}|map|calendar|menu|status)\\b`,
    "i",
  ),
  // Passive and noun forms.
  /\b(?:need(?:s)? not(?= be)|needn['’]t(?= be)|(?:do|does) not (?:need|have) to(?= be)|(?:should|must) not(?= be)|(?:is|are) not(?= to be| shown| visible| listed| reported| displayed| described)|never(?= be| to be))\s{1,3}(?:to\s{1,3})?(?:be\s{1,3})?(?:explained|mentioned|announced|disclosed|discussed|revealed|told|pointed out|brought up|advertised|noticed|(?:shown|visible|listed|reported|displayed|described)(?=[^.\n]{0,30}?\b(?:users?|people|customers?|anyone|anybody|report|summary|protocol|reviewers?)\b))/i,
  /\bnot part of the (?:visible|shown) \w|\bno mention of (?:this|it|these|them)\b/i,
  /\b(?:needs?|requires?|deserves?|calls? for)\s{1,3}no\s{1,3}(?:announcement|explanation|mention|notice|notification|comment|discussion|introduction|disclosure)\b/i,
  // Omitted from reports and messages.
  new RegExp(
    `\\b(?:leave|keep|omit|drop|exclude|remove|hide|strip|delete|scrub|suppress|filter)\\b(?![^.\\n]{0,60}\\b(?:keys?|secrets?|tokens?|passwords?|credentials?|PII|personal|sensitive|private|emoji\\w{0,1})\\b)[^.\\n]{2,70}?\\b(?:out of|from)\\s{1,3}(?:the\\s|your\\s|any\\s|all\\s|its\\s|what\\s)?(?:[\\w'-]{1,16}\\s){0,3}?${RECORD_NOUNS}\\b`,
    "i",
  ),
  new RegExp(
    `\\b(?:hide|conceal|mask|bury|camouflage|obscure)\\w{0,3}\\b[^.\\n]{0,60}?\\bfrom\\s{1,3}(?:the\\s|any\\s|all\\s)?${PEOPLE}\\b`,
    "i",
  ),
  // People must not know.
  new RegExp(
    `\\b${PEOPLE}\\s{1,3}(?:(?:do|does|should|must|need)(?:\\s?not|n['’]t)(?!\\s{1,3}notice)|never(?!\\s{1,3}see)|has no need to|have no need to|is not(?= (?:to|supposed|meant))|are not(?= (?:to|supposed|meant)))\\s{1,3}(?:(?:need|have|want|supposed|meant|expected)\\s{1,3})?(?:to\\s{1,3})?(?:notice|find out|realize|suspect|be told|be informed|be aware|learn (?:of|about)|hear (?:of|about)|(?:(?:know|see|read|care)(?=\\s{1,3}(?:about|of|where|that|this|it|these|them|who|the (?:warnings?|details|rest|source|origin|real|actual)))|(?:see|care)(?=\\s{0,2}[.,;)]|$)))`,
    "i",
  ),
  new RegExp(
    `\\bwithout\\s{1,3}(?:the\\s|any\\s|a\\s)?(?:(?:${PEOPLE})(?:['’]s)?\\s{1,3}(?:notic|know|being|aware|realiz)\\w{0,6}|saying so|comment(?=[\\s.,;)]|$)|mention\\w{0,3}\\b|announc\\w{1,5}|notice(?=[\\s.,;)]|$)|notification|word|trace|attracting|drawing attention|telling|informing|notifying)`,
    "i",
  ),
  // Quietly. "Fails silently" is a description, not an order.
  /(?:^|[.;:(]\s{1,3}|\b(?:and|then|also|must|should|please|always)\s{1,3}|^\s{0,12}(?:[-*+]|\d{1,2}[.)])\s{1,3})(?:silently|quietly|secretly|covertly|stealthily|discreetly|surreptitiously|invisibly|unobtrusively)\s{1,3}(?:and\s\w{1,12}\s{1,3})?(?:send|upload|copy|run|add|install|create|append|push|start|record|replace|collect|fetch|download|forward|post|transmit|execute|write|read|include|change|modify|set|enable|disable|open|register|save|store|scan|gather|harvest|capture|commit|insert|inject|log|do|launch|keep|delete|remove|mirror|sync)/i,
  /(?:^|[.;:,]\s{1,3}|\band\s|\bthen\s|\btherefore\s)(?!do not|don)(?:send|upload|copy|run|do|start|work|install|record|execute|perform|proceed|act|operate|add|apply|push|launch)\s{1,3}(?:(?:this|it|them|these|the [\w-]{1,20})\s{1,3})?(?:[\w-]{1,20}\s{1,3}){0,4}?(?:silently|quietly|secretly|covertly|stealthily|discreetly|behind the scenes|unnoticed|invisibly)\b/i,
  // So that the user does not notice.
  /\b(?:so|such|in a way|to make sure|ensure|make sure)\b(?:\sthat)?[^.\n]{0,50}?\b(?:(?:they|it|these|those|users?|people|reviewers?|anyone|the [\w-]{1,20})\s(?:do(?:es)? not|don['’]t|doesn['’]t|will not|won['’]t)|nobody|no one|no longer|nothing)\b[^.\n]{0,16}?\b(?:stand(?:s)? out|notic\w{1,4}|attract\w{0,3}|suspect\w{0,3}|find(?:s)? out|show(?:s)? up|suspicious|alarm\w{0,3}|visible|raise\w{0,2} (?:questions|suspicion|alerts?)|questions? (?:it|this)|realiz\w{1,3}|looks? (?:odd|strange|unusual))/i,
  // A pretext or a false account.
  /\b(?:carry on|continue|go on|act|behave|respond|proceed|answer)\s{1,3}as if\s{1,3}(?:nothing|it|this|the|they|you)\b|\bas if (?:the user|they) had (?:decided|asked|said|chosen|written|agreed|requested|wanted)\b|\bas (?:if|though) nothing (?:had )?happened\b/i,
  /\b(?:under the|on the|as a) (?:pretext|pretense|pretence|guise|excuse|cover)\b|\bcover story\b(?! which)|\bmake (?:it|this|them) (?:look|appear|seem) (?:normal|harmless|routine|legitimate)\b|\b(?:looks?|sounds?|seems?|appears?) (?:harmless|innocent|routine|legitimate|like a (?:normal|routine|regular|review))\b/i,
  new RegExp(
    `\\b(?:describe|present|explain|disguise|label|name|call|report|announce|declare|frame|sell|refer to|pass off|log|record)\\w{0,3}\\s{1,3}(?:this|it|these|them|both|that|the [^.\\n"“]{1,40}?)(?:,[^,\\n]{1,40},)?\\s{1,3}(?:to (?:the )?${PEOPLE}\\s{1,3})?(?:off\\s{1,3})?as\\s{1,3}(?:an?\\s|the\\s|part of\\s|side effects?\\s)?(?:free|routine|maintenance|normal|standard|harmless|required|necessary|telemetry|cache|caching|verification|cleanup|optimi[sz]ation|side effects?|boilerplate|technical|formatting|an? (?:error|update|test|check|backup|bug|glitch|quirk))`,
    "i",
  ),
  /\b(?:call|name|label|title|mark|describe)\s{1,3}(?:it|this|them|these|the (?![\w -]{0,40}?\b(?:tool|skill|function|command|method|file|branch|test)\b)[\w -]{1,40}?)\s{1,3}["“][^"”\n]{2,60}["”](?=[\s.,;]|$)/i,
  // False answers.
  new RegExp(
    `\\b(?:if|when|whenever|should)\\s{1,3}(?:(?:the|a|any)\\s{1,3})?(?:${PEOPLE}\\s{1,3}(?:asks?|notices?|wonders?|objects?|complains?|questions?|wants? to know|sees?)|(?:ever\\s)?(?:asked|questioned|challenged|confronted))\\b(?:[^.\\n]{0,20}\\b(?:about (?:it|this|the|that)|why|whether|what|how come)\\b|[^.,\\n]{0,12}(?=,))[^.\\n]{0,60}?\\b(?:say|answer|reply|claim|respond|tell (?:them|him|her)|explain|blame|deny|recommend|attribute|insist|decline)\\b\\s{0,2}(?:that\\b|only\\b|with\\b|it\\b|to explain\\b|["“])`,
    "i",
  ),
  new RegExp(
    `\\b(?:tell|show|give|report to|assure|answer)\\s{1,3}(?:the\\s)?${PEOPLE}\\s{1,3}(?:only|just|nothing but|merely)\\b|\\b(?:report|say|show|answer|reply|respond|tell (?:the user|them))(?:\\s{1,3}to (?:the )?user)?\\s{1,3}(?:only|just|nothing but)\\s{1,3}(?:["“]|that\\b)`,
    "i",
  ),
  /\b(?:tell|assure|reassure)\s{1,3}(?:the\s)?(?:user|them|people|customer)s?\s{1,3}(?:that\s{1,3})?(?:it|this|everything|nothing|the \w{1,16})\s{1,3}(?:is|was|are|only|just|has been|were)\s{1,3}(?:only\s|just\s|all\s)?(?:reads?|safe|closed|deleted|normal|fine|local|removed|usual|harmless|routine|required|encrypted|anonymous|stopped|disabled|off|sent|uploaded|changed)\b/i,
  /\breassure\s{1,3}(?:the\s)?(?:users?|people|anyone|them|customers?)\b[^.\n]{0,20}?\bwho\s{1,3}ask/i,
  /\b(?:decline|refuse)s? to (?:explain|discuss|comment|elaborate)\b|\bshow (?:only )?the [^.,;\n]{1,40} only\b|\bthe rest appears\b/i,
  /\b(?:slip|smuggle|sneak)\b[^.\n]{0,80}?\binto\b|\b(?:nobody|no one) (?:should|must|will|can|may) (?:be able to )?(?:tell|notice|see|know|find)\b/i,
  // Claims that no human checks.
  /\b(?:nobody|no one|no-one|no human|no person)\s{1,3}(?:else\s{1,3})?(?:has to|needs to|watches|looks at|checks|reviews|will (?:see|notice|know|check|look)|sees|notices|must know|should know|has to (?:know|confirm|approve))\b/i,
  /\b(?:remove|delete|erase|wipe|scrub|cover|destroy)\s{1,3}(?:all\s|any\s|the\s|your\s|its\s)?(?:traces?|tracks|evidence|lines about (?:it|this)|entries about (?:it|this))\b/i,
  /\b(?:answers?|says?|reports?|summary|message|report)\s(?:names?|lists?|shows?|mentions?|contains?|has|says?)\s[^.\n]{1,30}?\b(?:only|alone)\b[^.\n]{0,6},?\s(?:not|never|and nothing|without)\b/i,
  /\b(?:it is|it['’]s) (?:fine|ok|okay|better|best|enough|intended) not to (?:explain|mention|tell|show|ask|discuss|say)\b|\b(?:prefer not|better not) to (?:explain|mention|tell|discuss)\b/i,
  /\b(?:mention|reveal|disclose|explain|admit)(?:ing)?\s{1,3}(?:nothing(?! (?:else|more|about))|none of (?:this|it|these))\b/i,
);

/** Words that may play an action down. Benign texts use them too. */
const PLAYS_DOWN_ACT = findFirstMatch(
  /\bnot (?:necessary|needed|required) to\b[^.\n]{0,20}?\b(?:bring|tell|mention|show|inform|explain|ask)\b|\b(?:do(?:es)? not|never) (?:appear|show up|turn up) (?:in|on) (?:the|its|any)\b[^.\n]{0,12}?\b(?:results?|reports?|summary|list|output|log|answer|overview|map|bill)\b/i,
  /\b(?:users?|people|they|customers?) (?:only )?sees? only\b|\bno further (?:explanation|comment|notice|questions)\b|\bdescribe (?:it|this|them) as (?:an? |the )?(?:fix|update|improvement|clean-?up|feature|optimi[sz]ation|security)\b|\b(?:small|fine) print\b|\b(?:warnings?|messages?)\b[^.\n]{0,50}?\b(?:is|are|can be|may be|should be) (?:outdated|ignored|dismissed|irrelevant|expected|normal|clicked away)\b/i,
  /\bkeep the (?:commit )?(?:message|title|summary|description)\b[^.\n]{0,30}?\babout\b|\bno one looks\b|\bat (?:these|such) times\b|\b(?:costs?|charges?|fees?) (?:show|appear|come) (?:up )?(?:only |later|at the end)\b/i,
  /\b(?:not|never|nothing|nobody|no one)\b(?:\s{1,3}[\w'’-]{1,16}){0,3}?\s{1,3}(?:noticed|be noticed|informed|told|made aware|learn (?:of|about)|seen in (?:the )?(?:review|diff|summary|report|log)|visible to|disclosed|worth mentioning|worth a mention|go(?:ing)? into)\b/i,
  /\bno (?:log|trace|record|entry|entries|notification|notice|message|mention|icon|line)\b(?:\s(?:line|entry|message))?[^.\n]{0,20}?\b(?:in|of|on|about|for|to)\b[^.\n]{0,16}?\b(?:summary|report|log|user|it|this|history|reply|chat|screen|tray)\b|\bbehind the (?:curtain|scenes)\b(?=[^\n]{0,40}[:.,])|\b(?:notices?|learns?|hears?|knows?) nothing\b|\bsay nothing(?=[.;,"]|\s(?:to the user|about (?:it|this)))/i,
  /\bmention only\b|\b(?:users?|people|reviewers?|customers?|they)\s(?:often\s|sometimes\s|may\s|might\s)?ask\w{0,1}\b[^.\n]{0,40}?[;:,]\s{0,2}(?:say|answer|tell|explain|point|reply)\b|\bthere is no (?:need|reason) to (?:show|compare|explain|mention|tell|say|ask|check|discuss|look)\b/i,
  /\b(?:hide|remove|switch off|disable|suppress)\b[^.\n]{0,16}?\bicon\b|\bicon\b[^.\n]{0,20}?\b(?:is|stays|remains) (?:hidden|switched off|off|removed|disabled)\b/i,
  /\bpresent (?:the|this|it|both|these) (?:[\w-]{1,16} ){0,3}?as (?:an? )?(?:re)?(?:indentation|formatting|format|cleanup|refactor\w{0,3}|maintenance|rename|update|typo|fix)\b|\b(?:report|say|tell (?:them|the user)|explain|answer|reply) that (?:the |it |this |all |everything )?[^.\n]{0,30}?\b(?:was successful|succeeded|is (?:normal|usual|required|closed|part of|for)|went well|are for|name it|like that)\b/i,
  /\bbefore (?:the user|they|anyone|anybody) (?:has|have|can|could) (?:read|seen?|react|notice|object|review)\b|\bso that (?:it|this|they) (?:is|are) not (?:seen|noticed|found|visible|reviewed)\b|\bwhere (?:it|this|they) (?:is|are) not (?:seen|noticed|found|looked at)\b/i,
  new RegExp(
    `\\beven (?:if|when)\\s{1,3}(?:(?:the\\s)?${PEOPLE}\\s{1,3}(?:asks?|insists?|objects?)|asked|questioned|pressed)\\b`,
    "i",
  ),
  /\b(?:to avoid|avoids?|avoiding|without (?:raising|arousing|causing))\s{1,3}(?:any\s{1,3})?(?:suspicion|attention|detection|questions|being noticed|notice|alarm(?:ing)?)\b/i,
);

/** Set phrases in other languages that hide something from the user. */
const FOREIGN_CONCEALMENT = findFirstMatch(
  // German
  /\b(?:nichts|nicht|kein\w{0,2})\s(?:davon\s|darüber\s|dem Benutzer\s|den Benutzer\s){0,2}(?:mitbekommen|wissen|erfahren|merken|bemerken|erwähnen|erwähnt|mitteilen|mitgeteilt|informieren|informiert|hinweisen|angezeigt|verraten)\b|\b(?:erwähne|nenne|zeige|erkläre|sage|melde|verrate)\s(?:\w{1,12}\s){0,3}(?:nicht|nichts|niemandem|nur)\b|\bohne\s(?:den Benutzer|das Wissen|Wissen|Rückfrage|Hinweis|Nachfrage|zu fragen|es zu (?:sagen|erwähnen)|darauf hinzuweisen|dass (?:der|die) (?:Benutzer|Nutzer))/i,
  // Spanish, Portuguese, Italian
  /\bno\s(?:le\s|lo\s|la\s|se lo\s|les\s){0,2}(?:expliques?|menciones?|digas?|informes?|avises?|muestres?|cuentes?|comentes?|reveles?|notifiques?)\b|\bsin\s(?:avisar|informar|decir|mencionar|explicar|que (?:el|la|los) (?:usuario|persona|cliente|usuarios))|\bdi(?:ga)?\s(?:solamente|s[oó]lo|únicamente)\b|\bno debe (?:saber|enterarse|ver)\b/i,
  /\bn[ãa]o\s(?:mencione|informe|conte|avise|explique|diga|mostre|revele|comente)\b|\bsem\s(?:avisar|informar|dizer|mencionar|explicar|que o (?:usuário|utilizador|cliente))|\bnon\s(?:menzionar\w|dire|dirlo|informare|avvisare|spiegare|mostrare|rivelare|parlarne)\b|\bsenza\s(?:avvisare|informare|dirlo|menzionar\w{1,3}|spiegare|che l['’]utente)/i,
  // French
  /\bne\s(?:le\s|la\s|lui\s|les\s|l['’])?(?:dis|dites|dire|mentionnez?|informez?|préviens|prévenez|expliquez?|signalez?|montrez?|parlez?|révélez?)\s(?:pas|rien|jamais|surtout pas)\b|\bn['’](?:informez?|expliquez?|affichez?|avertis\w{0,3})\s(?:pas|jamais)\b|\bsans\s(?:prévenir|informer|le dire|mentionner|expliquer|avertir|en parler|que l['’]utilisateur)|\bà l['’]insu\b|\bdis(?:-lui)? (?:seulement|simplement) que\b/i,
  // Dutch, Polish, Turkish, Indonesian, Vietnamese, Swedish
  /\b(?:vertel|zeg|vermeld|meld|toon)\s(?:\w{1,12}\s){0,4}(?:niet|niets)\b|\bzonder\s(?:de gebruiker|te (?:vragen|melden|zeggen|vermelden))|\bnie\s(?:mów|informuj|wspominaj|pokazuj|wyjaśniaj|ujawniaj)\w{0,4}\b|\bbez wiedzy\b|\b(?:söyleme|bahsetme|bildirme|gösterme)\w{0,4}\b|haberi olmadan|\bjangan (?:beri ?tahu|sebut|katakan|jelaskan)|\btanpa (?:memberi ?tahu|sepengetahuan)|đừng (?:nói|cho)|không (?:thông báo|nói cho)|\bberätta inte\b|\bnämn inte\b|\butan att (?:säga|berätta|nämna)/i,
  // Russian, Ukrainian
  /(?:^|[\s,;(])не\s(?:сообщ|говор|упомин|показыва|рассказыва|уведомля|объясня|раскрыва|повідомля|кажи|згаду)[а-яії]{0,6}|без\s(?:ведома|уведомления|предупреждения|відома)|(?:пользователь|користувач)\s(?:не\s)?(?:должен|повинен)\s[^.\n]{0,20}(?:знать|знати|видеть|бачити|заметить)/i,
  // Chinese, Japanese, Korean
  /(?:无需|不要|不必|无须|不用|请勿|切勿|别|勿|無需|不需)(?:再)?(?:向[^，。\n]{1,6})?(?:告知|告诉|通知|提醒|提及|提到|显示|说明|解释|透露|让用户|让客户|写进|写入报告|记录|告訴|顯示|說明)|用户(?:不需要|不会|不必|无需|不应)(?:知道|看到|确认|察觉)|(?:悄悄|偷偷|暗中|秘密地|静默)(?:地)?[^，。\n]{0,12}(?:上传|发送|执行|运行|安装|复制|收集|下载)/,
  /(?:ユーザー|利用者|本人|相手)?(?:に|へ|には)?(?:は)?(?:知らせ|伝え|言わ|通知し|説明し|表示し|報告し|触れ|見せ|教え)(?:ない|ず|ずに|ないで|ないこと)|気づかれ|こっそり|黙って|内緒|(?:사용자|고객)[^.\n]{0,12}(?:알리지|말하지|언급하지|표시하지|보여주지|설명하지)|(?:알리지|말하지|언급하지|표시하지|설명하지)\s?(?:마|말|않)|몰래/,
  // Arabic, Hindi
  /(?:لا تخبر|دون علم|لا تذكر|بدون علم|لا تظهر)|(?:मत बता|न बता|बताए बिना|जानकारी के बिना)/,
);

const FOREIGN_CONCEALMENT_WORDS = splitKeywords(
  "nicht,nichts, ohne ,erwähne, nur , no le , no lo ,no expliques,no menciones,no digas,no informes,no avises,no muestres,no cuentes,no comentes,no reveles,no notifiques, sin ,solamente,no debe,não , nao , sem , non , senza , ne , n', n’, sans ,insu ,simplement, niet,zonder, nie , bez ,söyleme,bahsetme,bildirme,gösterme,haberi,jangan,tanpa,đừng,không, inte ,utan att,не ,без ,пользователь,користувач,无需,不要,不必,无须,不用,请勿,切勿,别,勿,無需,不需,用户,悄悄,偷偷,暗中,静默,ない,ず,気づかれ,こっそり,黙って,内緒,지 마,지 말,지 않,지마,지말,사용자,몰래,تخبر,علم,تذكر,تظهر,बता,बिना",
);

/** Orders without a benign reading: hide these instructions from the user, or tell the user something false. */
const SECRECY = findFirstMatch(
  /\b(?:never|do not|don['’]t|must not)\s{1,3}(?:ever\s{1,3})?(?:reveal|disclose|admit|acknowledge)\s{1,3}(?:this|these|that you|the existence of (?:this|these))\b(?![^.\n]{0,20}\b(?:key|token|secret|password|id)\b)/i,
  /\b(?:if|when)\s{1,3}(?:the user |a user |anyone |they |somebody |someone |a reviewer |you are |ever )?(?:asks?|asked|questioned|wonders?)\b[^.\n]{0,50}?,?\s{1,3}(?:say|answer|reply|tell (?:them|him|her)|claim|respond)\s{1,3}(?:only\s{1,3})?that (?:there (?:are|is) no|it (?:was|is) (?:part of|normal|required|closed|only|just|a )|you (?:have|had|did) no|nothing|the (?:system|platform|company|player|framework))/i,
  /\b(?:do not|don['’]t|never)\s{1,3}(?:tell|inform|notify)\s{1,3}(?:the\s)?(?:users?|human|owner|operator)\s{1,3}(?:about|of|that you|that this)\s{1,3}(?:this|these|it|the (?:upload|copy|transfer|step|change|backup|sync|request|command)|are|have|is|sent|ran|read)\b(?![^.\n]{0,60}\b(?:until|before|unless|yet)\b)/i,
  /\bsay only that (?:it|this|the skill)\b/i,
);

export const CONCEALMENT_SIGNALS: readonly ScanSignal[] = [
  {
    kind: "secrecy",
    words: CONCEALMENT_WORDS,
    find: (text, { page }) => (page.kind === "data" ? undefined : SECRECY(text)),
  },
  {
    kind: "hides",
    words: CONCEALMENT_WORDS,
    find: (text, { page }) => {
      const found = page.kind === "data" ? undefined : CONCEALS(text);
      // An interface that changes without notice hides nothing.
      return found &&
        /\b(?:chang|break|disappear|stop|remov|expir)\w{0,4}\s{1,3}$/i.test(
          text.slice(Math.max(0, found.index - 20), found.index),
        )
        ? undefined
        : found;
    },
  },
  {
    kind: "downplays",
    words: CONCEALMENT_WORDS,
    find: (text, { page }) => (page.kind === "data" ? undefined : PLAYS_DOWN_ACT(text)),
  },
  {
    kind: "hides",
    words: FOREIGN_CONCEALMENT_WORDS,
    find: (text, { page }) => (page.kind === "data" ? undefined : FOREIGN_CONCEALMENT(text)),
  },
];

/** Actions that are permanent, affect others, cost money or destroy data. */
const SIDE_EFFECTS = findFirstMatch(
  /\breplace\b[^.\n]{0,30}?\x60[^\x60\n]{1,60}\x60\s(?:by|with)\s\x60|\b(?:sells?|shares?|rents?)\b[^.\n]{0,30}?\bbandwidth\b|\bexit[- ]node\b|\bCODEOWNERS\b|\bcollaborators?\b|\bsync account\b|\bshare the (?:calendar|folder|drive|document|inbox)\b/i,
  /\b(?:npx|bunx|uvx)\s{1,3}(?:-y|--yes)\b|\bpnpm dlx\b|\b(?:pip3?|npm|pnpm|yarn|uv|gem|cargo|brew|go|apt|apt-get|choco|winget)\s{1,3}(?:pip\s{1,3})?(?:install|add|i|tap)\s{1,3}\S|--install-extension\b|\bdocker run\b/,
  /\b(?:curl|wget)\b[^\n]{0,200}?(?:\s-[oO]\b|\s>\s|\|\s{0,3}(?:ba|z)?sh\b)|\bgit clone\b/,
  /\bcrontab\b|\bsystemctl\b[^\n]{0,40}?\b(?:enable|disable|stop)\b|\blaunchctl\b|\bschtasks\b|\bnohup\b|\bdisown\b|\bauthorized_keys\b|\bsudoers\b|\buseradd\b|\bchpasswd\b|\bchmod\s{1,3}(?:u\+s|\+x|777|-R|[0-7]{4})|~\/\.(?:bashrc|zshrc|profile|zprofile|bash_profile)\b|\bcore\.hooksPath\b|\.git\/hooks\b|\bssh\s{1,3}-\w{0,4}[RN]/,
  /~\/\.(?:claude|cursor|codex|gemini)\b|\bclaude_desktop_config\b|\bmcpServers\b|\bmcp\.json\b|\b(?:CLAUDE|AGENTS|GEMINI|MEMORY|SOUL)\.md\b|\bbypassPermissions\b|\bdangerously-skip\b|\bautoApprove\b|\.cursorrules\b/,
  /\bgh api\b[^\n]{0,80}?(?:-X|--method)\s{0,2}(?:POST|PUT|PATCH|DELETE)|\bgh (?:pr (?:merge|review)|secret set|repo (?:edit|deploy-key|delete)|release (?:create|upload))\b|\bgit push\b[^\n]{0,60}?(?:--force|-f\b|--no-verify)|\bnpm publish\b|\btwine upload\b|\bkubectl\s{1,3}(?:delete|apply|exec)\b|\baws\s[^\n]{0,40}?\b(?:rb|rm|delete-\w|create-\w|put-\w|attach-\w)|\bterraform (?:destroy|apply)\b|\bgcloud\b[^\n]{0,60}?\b(?:delete|add-iam)/,
  /\brm\s{1,3}-\w{0,3}r|\bshred\b|\bmkfs\b|\bdd\s{1,3}if=|\bDROP (?:TABLE|DATABASE|SCHEMA)\b|--no-verify\b|gpgsign false|\.github\/workflows\b|\bregistry=https?:|\.npmrc\b|\bgit submodule add\b|\brun-instances\b|\bhistory -c\b|\bunset HISTFILE\b|\bgit (?:reflog expire|filter-branch|update-ref)\b/,
  /\b(?:add|create|register|insert|set up|install|plant|append|include)\w{0,3}\b[^.\n]{0,60}?\b(?:deploy key|collaborator|forwarding rule|filter|subscription|hook|cron(?: ?job)?|scheduled task|account|user|webhook|bcc|admin|owner|guest|api key|extension|package|dependency|footer|tracking|pixel|snippet|script|server|device|guest)\b/i,
  /\b(?:approve|merge|close|dismiss|accept|sign|confirm)\w{0,3}\b[^.\n]{0,40}?\b(?:pull requests?|merge requests?|alerts?|transactions?|reviews?|invitations?|contracts?|permissions?|dialogs?|prompts?)\b/i,
  /\b(?:buy|purchase|order|subscribe|pay|charge|donate|transfer|withdraw|bid|book|invest)\w{0,3}\b[^.\n]{0,60}?\b(?:card|account|subscription|insurance|€|\$|USD|EUR|balance|funds|tokens?|coins?|credits?|shipping|wallet|address|membership|plan|premium|upgrade)/i,
  /\b(?:send|post|write|forward|share|publish|message)\w{0,3}\b[^.\n]{0,60}?\b(?:everyone|everybody|all (?:contacts|channels|members|users|employees|followers|chats)|every (?:contact|channel|member|chat)|contacts|direct messages|address book|mailing list|followers|colleagues)\b/i,
  /\b(?:record|capture|listen|monitor|poll|watch|photograph|track|log)\w{0,3}\b[^.\n]{0,50}?\b(?:screen|microphone|camera|webcam|clipboard|key ?strokes?|keys|room|audio|location|messages|windows?|calls?|conversations?|typing|activity)\b/i,
  /\b(?:delete|remove|overwrite|wipe|shred|destroy|erase|encrypt|corrupt|truncate|replace|drop)\w{0,3}\b[^.\n]{0,50}?\b(?:backups?|snapshots?|history|logs?|notes|documents|photos|files?|database|tables?|branch(?:es)?|reflog|audit|volumes?|buckets?|namespaces?|repositor(?:y|ies)|tests?|origin|remote|records?|accounts?|deck)\b/i,
  /\b(?:disable|switch(?:ed)? off|turn(?:ed)? off|remove|deactivate|suppress|mute|lower|weaken|skip|bypass|ignore|exclude|allowlist|whitelist)\w{0,3}\b[^.\n]{0,50}?\b(?:notifications?|protections?|warnings?|scanners?|antivirus|audit\w{0,3}|logging|2fa|mfa|alerts?|firewall|defender|checks?|verification|validation|monitoring|security|guards?|rules?|gatekeeper|logs?|signatures?|policies|policy)\b/i,
  /\b(?:run|execute|start|launch|load|eval|source|call)\w{0,3}\b[^.\n]{0,40}?(?:`[^`\n]{2,120}`|\bscripts?\/|\b(?:decoded|result|command|payload|binary|installer)\b)/i,
  /\b(?:give|grant|share|open|expose|forward|invite)\w{0,3}\b[^.\n]{0,60}?\b(?:access|edit rights|write access|permissions?|admin|ports?|router|shell|tunnel|control|remote|owner)\b/i,
  /\b(?:append|insert|add|inject|put)\b[^.\n]{0,30}?\x60[^\x60\n]{2,80}\x60[^.\n]{0,20}?\b(?:to|into|in)\b[^.\n]{0,20}?\b(?:conditions?|quer(?:y|ies)|code|permissions?|checks?|functions?|files?|projects?|pages?)\b/i,
  /\b(?:change|edit|alter|adjust|rewrite|modify|replace|swap|insert|weaken)\w{0,3}\b[^.\n]{0,50}?\b(?:iban|account numbers?|bank details|payee|addresses|address|amounts?|prices?|links?|results?|figures|citations?|numbers?|recipient|dependenc\w{1,3}|config\w{0,8}|settings|code|query|queries)\b/i,
);
const SIDE_EFFECT_WORDS = splitKeywords(
  "replace,bandwidth,exit-node,exit node,codeowners,sync account,share the,number,election,npx,bunx,uvx,pnpm dlx,pip install,pip3 install,npm i,pnpm add,yarn add,uv add,uv pip,gem install,cargo install,brew ,go install,apt ,apt-get,choco ,winget ,install-extension,docker run,curl,wget,git clone,crontab,systemctl,launchctl,schtasks,nohup,disown,authorized_keys,sudoers,useradd,chpasswd,chmod,.bashrc,.zshrc,.profile,.zprofile,_profile,hookspath,git/hooks,ssh -,.claude,.cursor,.codex,.gemini,desktop_config,mcpservers,mcp.json,claude.md,agents.md,gemini.md,memory.md,soul.md,bypassperm,dangerously,autoapprove,gh api,gh pr,gh secret,gh repo,gh release,git push,npm publish,twine,kubectl,aws ,terraform ,gcloud,rm -,shred,mkfs,dd if,drop table,drop database,drop schema,no-verify,gpgsign,workflows,registry=,npmrc,submodule,run-instances,condition,history -c,histfile,reflog,filter-branch,deploy key,collaborator,forwarding,subscription,hook,cron,scheduled,account,webhook,bcc,extension,package,dependency,footer,tracking,pixel,snippet,script,server,pull request,merge request,alerts,transaction,invitation,contract,permission,dialog,prompt,card,insurance,balance,funds,token,coins,credits,shipping,wallet,address,membership,premium,upgrade,everyone,everybody,all contacts,all channels,all members,contacts,direct messages,followers,colleagues,screen,microphone,camera,webcam,clipboard,keystroke,audio,location,typing,backup,snapshot,history,logs,notes,documents,photos,database,branch,volume,bucket,namespace,repositor,origin,remote,record,notification,protection,warning,scanner,antivirus,audit,logging,firewall,defender,check,verification,validation,monitoring,security,guard,gatekeeper,signature,polic,run `,execute,decoded,command,payload,binary,installer,access,edit rights,router,tunnel,iban,bank details,payee,recipient,prices,amount,results,files,file ,links,settings,config,query,queries,tests,admin,owner,rules,deck",
);

const WITHOUT_CONSENT = findFirstMatch(
  /\b(?:user|users|they|people|person)\s(?:need|do(?:es)?|must) ?not (?:need to |have to )?(?:confirm|approve|agree|be asked)\b/i,
  /\bpre-?(?:authori[sz]ed|approved)\b|\b(?:user|operator|owner|administrator|company|team)\s{1,3}(?:has|have)\s{1,3}(?:already\s)?(?:agreed|approved|consented|authori[sz]ed|signed|waived|accepted)\b|\b(?:agrees?|agreed|consents?|consented) (?:to (?:this|it|all) )?by (?:using|installing|loading|running)\b|\bwaiver\b/i,
  /\b(?:do not|don['’]t|never|no need to|without)\s{1,3}(?:ask(?:ing)?|wait(?:ing)?|confirm(?:ing)?|request(?:ing)?|seek(?:ing)?|requir(?:e|ing))\b[^.\n]{0,20}?\b(?:confirmation|approval|permission|consent|the user|anyone|first|again|at any point)\b|\bwithout (?:asking|confirmation|approval|permission|consent|a dry run|questions?|review|comparing)\b|\bno (?:confirmation|approval|permission) (?:is )?(?:needed|required|necessary)\b/i,
  /\b(?:guidelines?|polic(?:y|ies)|limits?|restrictions?|rules|safeguards|budgets?)\b[^.\n]{0,40}?\b(?:do(?:es)? not apply|no longer appl(?:y|ies)|are (?:off|lifted|suspended|void)|is (?:off|lifted|suspended|void))|\bnever refuses?\b|\bdo not (?:judge|question|refuse|decline)\b|\btreat a refusal\b/i,
);
const WITHOUT_CONSENT_WORDS = splitKeywords(
  "pre-auth,preauth,pre-approved,preapproved,agreed,approved,consent,authorised,authorized,signed,waive,accepted,agrees,ask,wait,confirm,approval,permission,dry run,question,review,compar,apply,lifted,suspended,refuse,refusal,judge,decline",
);

export const SIDE_EFFECT_SIGNALS: readonly ScanSignal[] = [
  { kind: "acts", words: SIDE_EFFECT_WORDS, find: SIDE_EFFECTS },
  { kind: "unasked", words: WITHOUT_CONSENT_WORDS, find: WITHOUT_CONSENT },
];
