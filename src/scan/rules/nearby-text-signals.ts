import { findFirstMatch, type MatchSpan, type ScanSignal, splitKeywords } from "../rule.ts";
import { findReleasedFile, findUnknownHost, NETWORK_WORDS, RELEASE_WORDS } from "./host-reputation.ts";
import { findUploadInProse } from "./intent-signals.ts";

/** Data that needs the user's approval before it is sent. */
const USER_DATA = findFirstMatch(
  /\b(?:shell|chat|browser|browsing|command|conversation) history\b|\brecordings?\b|\bgit diff\b|\bsource (?:code|files)\b|\bprofile\b|\bphotos?\b|\b(?:all|every|each|last|user'?s|internal|private) (?:\w{1,12} )?(?:messages?|notes|documents?|mails?|meetings?|pages|contacts?|files?|repositor\w{1,3})\b|\bcookies?\b|\bconversations?\b|\blocation\b|\btranscripts?\b|\bclipboard\b|\bphone number\b|\bwhat the user (?:wrote|said|typed)\b|\bcopy of the\b|\btrack(?:\.csv|s)?\b|\bparticipants\b|\b(?:each|every) (?:colleague|employee)\b|\bsalar(?:y|ies)\b|\bmessages on\b|\bloyalty\b|\bidentity card\b|\bbank statements?\b|\baudio\b/i,
);
const ASKS_USER =
  /\b(?:ask|approv\w{1,3}|agrees?|agreed|confirm\w{0,3}|consents?|if the user|users? (?:wants?|chooses?|names?|presses)|their own|your own|never|do not)\b/i;

const WHOLE_DATA = findFirstMatch(
  /\b(?:pass|send|submit|upload|provide|include|attach|hand)\b[^.\n]{0,30}?\b(?:the )?(?:complete|whole|entire|full|other|all)\b[^.\n]{0,20}?\b(?:documents?|files?|folders?|conversations?|history|mails?|messages?|repositor\w{1,3}|code|database|contacts?)\b/i,
);

/** Weak signals in sentences. */
export const NEARBY_TEXT_SIGNALS: readonly ScanSignal[] = [
  {
    kind: "guard-dialog",
    words: splitKeywords(
      "smartscreen,run anyway,open anyway,quarantine,cannot be checked,be verified,antivirus,complain,right click,right-click,not signed,unsigned,will warn",
    ),
    find: findFirstMatch(
      /\bSmartScreen\b|\brun anyway\b|\bopen anyway\b|xattr\s-\w{1,3}\b[^\n]{0,20}quarantine|\bcannot be (?:checked|verified)\b|\bantivirus\b|\b(?:macOS|Windows|browser|system|Chrome|Safari)\b[^.\n]{0,30}?\b(?:complains?|will warn|warns)\b|\b(?:is|are) (?:not signed|unsigned)\b|\bright[- ]click\b[^.\n]{0,40}?\bopen\b|\bopen\b[^.\n]{0,40}?\bright[- ]click\b/i,
    ),
  },
  {
    kind: "elevating",
    words: splitKeywords("administrator,as root,as admin,password,sudo ,chmod u+s,4755,kennwort,setuid"),
    where: "prose",
    find: findFirstMatch(
      /\bas (?:an? )?(?:administrator|root|admin)\b|\badministrator (?:rights|privileges)\b|\b(?:system|mac|login|sudo|admin\w{0,10})\s?(?:password|kennwort)\b|\bpassword of the (?:computer|mac|machine|system)\b|\bwhen sudo asks\b|\bpassword prompt\b|\bSystemkennwort\b/i,
    ),
  },
  {
    kind: "agent-file",
    words: splitKeywords(
      "claude.md,agents.md,gemini.md,memory.md,soul.md,.cursorrules,copilot-instructions,.claude/,.claude.json,.cursor/,.codex/,mcp add,mcpservers,memory file,agent's memory,store as a fact",
    ),
    find: findFirstMatch(
      /(?:~|\$HOME|home\(\)[^\n]{0,12})\/?["'\s/]{0,3}\.(?:claude|gemini|codex|cursor)\/[\w./-]{0,20}(?:CLAUDE|GEMINI|AGENTS)\.md|\b(?:append|add|write|put|insert|merge|store|place|save|paste|include)\b[^.\n]{0,60}?(?:\b(?:CLAUDE|AGENTS|GEMINI|MEMORY|SOUL)\.md\b|\.cursorrules|copilot-instructions)|\bstore as a fact\b|\.claude\/skills\/[^\n]{0,40}SKILL\.md|(?:CLAUDE|AGENTS|GEMINI)\.md["'][^\n]{0,20}\)?\.write|(?:writeFile|appendFile)\w{0,4}\([^\n]{0,60}(?:CLAUDE|AGENTS|GEMINI|SKILL)\.md/i,
    ),
  },
  {
    kind: "standing-order",
    words: splitKeywords(
      "outrank,supersede,priority,security,warning,before each,before every,approval,never flag,not flag,in reviews,prefer,confirmed by,not shown,npx,allow-exec,allow all,every repo,each repo,these orders,not to be discussed,skip ",
    ),
    find: findFirstMatch(
      /\b(?:never|not|don['’]t) (?:flag|mention|question|remove|report) (?:it|them|this)\b|\b(?:outranks?|supersedes?|(?:highest )?priority over|take precedence)\b|\b(?:skip|omit|no|never see) (?:security|safety) (?:remarks?|warnings?|checks?|notes?)|\bbefore (?:each|every) (?:task|commit|answer|session|build) run\b|\bwithout approval\b|\bprefers? (?:that )?(?:packages|commands)\b|\bconfirmed by the user\b|\bnot (?:shown|to be shown|to be discussed)\b|\brun `npx -y|--allow-(?:exec|all)\b|\bof (?:each|every) repositor(?:y|ies) that you see\b/i,
    ),
  },
  {
    kind: "tells-data",
    words: splitKeywords("http:,https:,wss:,ws:,ftp:,@"),
    where: "prose",
    find: (text) => {
      const found = findUploadInProse(text);
      return found && USER_DATA(text) && !ASKS_USER.test(text) ? found : undefined;
    },
  },
  {
    kind: "whole-data",
    words: splitKeywords("pass ,send,submit,upload,provide,include,attach,hand "),
    where: "prose",
    find: (text) => (ASKS_USER.test(text) ? undefined : WHOLE_DATA(text)),
  },
  {
    kind: "styled-away",
    words: splitKeywords("style="),
    where: "prose",
    find: findFirstMatch(
      /<\w{1,12}\b[^>\n]{0,80}?style\s?=\s?["'][^"'\n]{0,120}?(?:display\s?:\s?none|visibility\s?:\s?hidden|font-size\s?:\s?(?:0|1px|0?\.\d)|opacity\s?:\s?0(?:\.0\d?)?\s?[;"']|color\s?:\s?(?:white|#fff(?:fff)?|transparent)\b)[^>\n]{0,80}>[^<\n]{40,}/i,
    ),
  },
  {
    kind: "trigger-word",
    words: splitKeywords("contains,mentions,starts with,the word"),
    where: "prose",
    find: findFirstMatch(
      /\b(?:if|when|whenever) (?:a|the|any) (?:message|prompt|user|text|comment|question)s? (?:contains?|says?|mentions?|starts? with)\b[^.\n]{0,60}?\b(?:stop being|ignore (?:the|all|your)|reveal|whoever wrote|drop (?:the|all) (?:rules|limits)|unlock|developer mode)\b/i,
    ),
  },
  {
    kind: "prose-unknown",
    words: NETWORK_WORDS,
    where: "prose",
    find: findUnknownHost,
  },
  {
    kind: "destroys-all",
    words: splitKeywords("truncate,drop ,delete,remove,wipe,force,push -f,orphan,.locked,shred,encrypt,rename each"),
    where: "prose",
    find: findFirstMatch(
      /\b(?:truncate|drop|delete|remove|wipe|erase|destroy)\b(?!\sonly\b)[^.\n]{0,30}?\b(?:backups?|base backups|replication slots?|snapshots?|all (?:tags|branches|tables|databases|volumes|repositories|namespaces)|the largest (?:ones|tables))\b|\bpush (?:-f|--force)\b[^\n]{0,200}?\b(?:all repositories|each (?:remote|repository)|every (?:remote|repository)|in one go)\b|\b(?:rename|encrypt|lock)\b[^.\n]{0,40}?\b(?:each|every|all) (?:the )?files?\b[^.\n]{0,100}?(?:\.\w{3,10}\b|\bkey\b|\bprice\b)/i,
    ),
  },
  {
    kind: "stretched-yes",
    words: splitKeywords(
      "until it is accepted,until they,the yes for,the answer for,the approval for,as approval,as consent,as a yes",
    ),
    where: "prose",
    find: findFirstMatch(
      /\buntil (?:it is accepted|they give in|the user gives in)\b|\b(?:take|count|use|treat) (?:the|this|that|one|a) (?:yes|answer|approval|ok) (?:for|as) (?:all|every|later|any)\b|\b(?:silence|no answer|a pause|a question) (?:counts?|is) (?:taken )?as (?:approval|consent|a yes)\b/i,
    ),
  },
  {
    kind: "no-confirm",
    words: splitKeywords(
      "confirmation,without asking,do not ask,in one go,at once,no need to ask,license key,the price,only delay,until it is accepted,for all later,the yes",
    ),
    where: "prose",
    find: findFirstMatch(
      /\bconfirmation (?:would|only|is not|costs|slows)\b|\bin one go\b|\bonly delay\b|\bshow the price\b|\bwithout (?:a )?(?:backup|dry run)\b/i,
    ),
  },
  {
    kind: "prerequisite",
    words: splitKeywords(
      "requisite,required,requirement,requisito,must be ,needs the,before using,before you,before anything,before first,before the first,before use,work without,not included,not bundled,be bundled,distributed,antes de,call fails,per machine,companion,helper ,vorbereitung,voraussetzung,prérequis,depend,installation,setup,set-up,安装,前提",
    ),
    where: "prose",
    find: findFirstMatch(
      /\bpre-?requisites?\b|\b(?:is|are) required\b|\brequired (?:to|before|for|tool|component|driver)\b|\brequirements?\b|\brequisitos?\b|\bmust be (?:installed|running|up|present|set up)\b|\bneeds? the \S{1,40}\s?(?:binary|engine|tool|agent|helper|core|driver|utility|daemon|app|bundle|provider)\b|\bbefore (?:using|use|you (?:go on|continue|start|begin|use)|anything else|first use|the first|proceeding)\b|\b(?:does|will|do|won['’]t) (?:not )?work without\b|\bcannot be bundled\b|\bnot (?:included|bundled|on npm|on pypi)\b|\bdistributed (?:outside|separately)\b|\bantes de (?:usar|empezar)\b|\bevery call fails\b|\bonce per machine\b|\bcompanion (?:app|tool|binary)\b|\bhelper (?:app|daemon|tool|service|binary)\b|\bVorbereitung\b|\bVoraussetzung\w{0,2}\b|\bprérequis\b|\bcore (?:utility|tool|component)\b|\bdependenc(?:y|ies)\b[^\n]{0,40}:|^#{1,4}\s(?:\d\.\s)?(?:setup|set-up|installation|install)\b|安装|前提条件/i,
    ),
  },
  { kind: "release-link", words: RELEASE_WORDS, find: (text) => findReleasedFile(text, false) },
  { kind: "code-host-release", words: RELEASE_WORDS, find: (text) => findReleasedFile(text, true) },
  {
    kind: "terminal-paste",
    words: splitKeywords(
      "terminal,powershell,command prompt,command line,console,run dialog,win+r,win + r,windows and r,windows key,spotlight,cmd.exe,konsole,终端",
    ),
    where: "prose",
    find: findTogether(
      /\b(?:past(?:e|es|ing)|cop(?:y|ies|ying)|enter|type|pegue|pega|copia|copie|einfügen|kopier\w{1,3}|coll(?:er|ez)|cole)\b|粘贴|复制/gi,
      /\bterminals?\b|\bpowershell\b|\bcommand (?:prompt|line)\b|\bconsole\b|\brun dialog\b|\bwin(?:dows)?(?: key)?\s?(?:\+|and)\s?r\b|\bspotlight\b|\bcmd\.exe\b|\bkonsole\b|终端/gi,
      110,
    ),
  },
  {
    kind: "archive-lock",
    words: splitKeywords("pass,archive key,code ,key:,contraseña,passwort,unlock code,mot de passe,senha,密码"),
    where: "prose",
    find: findTogether(
      /\b(?:zip|rar|7z|archive|unpack\w{0,3}|extract\w{0,3}|unzip|descomprim\w{1,3}|entpack\w{1,2}|décompress\w{1,3})\b|\.(?:zip|rar|7z)\b|解压/gi,
      /\bpass(?:word|code|phrase)?\b\s?(?:\(|:|=|is\b|`|"|“|written)|\barchive key\b|\bkey:|\bcode:?\s\d{3,8}\b|\bcontraseña\b|\bPasswort\b|\bunlock code\b|\bmot de passe\b|\bsenha\b|密码|\bwith (?:the )?pass(?:word)?\b/gi,
      90,
    ),
  },
  {
    kind: "remote-run",
    words: NETWORK_WORDS,
    where: "prose",
    find: (text) =>
      (findUnknownHost(text) && !/https?:\/\/docs?\./i.test(text)) || /https?:\/\/(?:www\.)?github\.com\//i.test(text)
        ? FETCH_AND_RUN(text)
        : undefined,
  },
  {
    kind: "obeys-remote",
    words: splitKeywords(
      "treat,follow,obey,carry,act on,act acc,act upon,do what,does what,execute,apply,continue with,overwrite,replace, its ,place of,count as,counts as,work through,load them,load it,differ,scan the,probe,targets",
    ),
    where: "prose",
    find: (text) => {
      // Periods in an address do not end a sentence.
      const found = OBEYS_TEXT(text.replace(/https?:\/\/[^\s`)]+/g, (address) => address.replaceAll(".", "-")));
      return found &&
        (/https?:\/\/|\bdecod\w{1,3}\b/i.test(text) ||
          (/\bcommands\b/i.test(text) && /\b(?:comments?|messages?|issues?|mails?)\b/i.test(text)))
        ? found
        : undefined;
    },
  },
  {
    kind: "to-agent",
    words: splitKeywords(
      "agent,assistant,claude,model,llm, bot,system note,hidden instruction,internal settings,internal note,ai:",
    ),
    find: (text, { page, line }) => {
      const found = ADDRESSES_AGENT(text);
      return found && page.kind === "document" && !page.isCode(line) ? found : undefined;
    },
  },
  {
    kind: "encoded-words",
    words: splitKeywords("=`,=="),
    where: "prose",
    find: findFirstMatch(/[A-Za-z0-9+/]{40,}={0,2}/),
  },
  {
    kind: "decode-and-follow",
    words: splitKeywords("decode,decodier,decodifi,décod,reverse the,rot13,unscramble,解码"),
    where: "prose",
    find: findFirstMatch(
      /\b(?:decode|unscramble|reverse|rot-?13)\b[^\n]{0,160}?\b(?:follow|execute|run|act|obey|apply|carry|do what|use (?:it|them) as|instructions?|accordingly|start of)\b|\b(?:follow|execute|run|obey|apply)\b[^.\n]{0,60}?\b(?:decoded|after decoding)\b/i,
    ),
  },
  {
    kind: "left-out",
    words: splitKeywords("leave,keep,omit,drop,exclude,strip,delete,remove,hide,bury,fold"),
    where: "prose",
    find: findFirstMatch(
      /\b(?:leave|keep|omit|drop|exclude|strip|hide|bury|fold|delete|remove|erase)\b(?![^.\n]{0,60}\b(?:secrets?|tokens?|passwords?|credentials?|PII|personal|sensitive|emoji\w?)\b)[^.\n]{0,70}?\b(?:out of|from|into)\s(?:the|your|any|all|a)\s(?:[\w'-]{1,16}\s){0,3}?(?:summar(?:y|ies)|reports?|answers?|repl(?:y|ies)|chat|transcripts?|changelog|overview|diff|recap|minutes|activity log|larger \w{1,12}|commit message|protocol)\b|\b(?:delete|remove|dismiss|suppress|hide)\b[^.\n]{0,30}?\b(?:notice|notification|confirmation|warning)s?\b(?=[^.\n]{0,40}\b(?:about|of|for|that|new)\b)/i,
    ),
  },
  {
    kind: "when-asked",
    words: splitKeywords(
      "asks,asked,wonder,notice,compare,doubt,question,object,hesitat,complain,insist,suspicious, finds ,discover, spots ,refuse",
    ),
    where: "prose",
    find: findFirstMatch(
      /\b(?:if|when|whenever|should|in case)\s(?:(?:the|an?|any|some)\s)?(?:user|users|person|people|human|owner|customer|client|traveler|traveller|learner|developer|reviewer|admin\w{0,10}|anyone|anybody|someone|somebody|they|he|she)?\s?(?:ever\s|later\s|still\s)?(?:asks?\s(?:about|why|whether|what|where|how|if)|asked\s(?:about|why|whether|what|where|how|if)|asked,|questioned|wonders?|notices?|compares?|doubts?|has doubts|have doubts|questions?|objects?|hesitates?|complains?|insists?|is suspicious|gets suspicious|finds? (?:a|an|one|it|out)|discovers?|spots?|refuses?|is refused)\b[^.\n]{0,60}?[,;:]?\s(?:say|answer|reply|reassure|decline|deny|blame|insist|change the subject|invent|assure|claim|attribute|play it down|pretend|point to|tell (?:them|him|her|the)|phrase it)\b/i,
    ),
  },
  {
    kind: "false-account",
    words: splitKeywords(
      "pretext,guise,cover story,disguise,pretend,blame,invent a,make up a,as if ,describe,present ,say it,say that it,say they,claim that,tell the user,tell them,explain that,label,call it,misread,between us,stand out, as fixed, as done, as passed,anonymous,flaky",
    ),
    where: "prose",
    find: findFirstMatch(
      /\b(?:under|on|as) (?:the |a )?(?:pretext|guise)\b|\bcover story\b|\bblame (?:it|this|a|an|the)\b|\b(?:invent|make up) an? (?:reason|excuse|explanation)\b|\b(?:say|claim|explain|answer|tell (?:them|the user|people))\s(?:that\s)?(?:it|this|they|the \w{1,20})\s(?:was|is|were|are)\s(?:the cheapest|only|just|local|normal|standard|required|a (?:standard|normal|usual|rounding|display|known)|the (?:usual|standard|normal)|macOS|Windows|part of)\b|\b(?:describe|present|label|frame|declare|title|log|record)\s(?:it|this|them|both|these|the (?:commit|change|step|upload|line|request|transfer|command)s?)\s(?:to \w{1,10} )?as\b|\bkeep (?:it|this|that) between us\b|\b(?:count|list|report|mark|show) (?:it|them|this) as (?:fixed|done|passed|passing|resolved|solved|anonymous|flaky)\b|\btick\b[^.\n]{0,20}anonymous|\bcall (?:it|this) ["“][^"”\n]{3,40}["”] (?:in|to|for)\b|\bso (?:that )?(?:it|they|this) (?:does|do) not stand out\b|\bneed not hear\b|\btend to (?:misread|refuse|misunderstand|overreact)\b/i,
    ),
  },
  {
    kind: "no-trace",
    words: splitKeywords(
      "output,background,quietly,silently,unnoticed,nobody,no one,only see,should only,involved,bring it up,hear about,need to know,secretly,discreetly,covertly,need not,not part of,only.,notices,scroll,do not list,mention only,not know,not announced,behave differently",
    ),
    where: "prose",
    find: findFirstMatch(
      /\b(?:with(?:out)?|no) (?:any )?output in the (?:conversation|chat|terminal)\b|\bin the background\b[^.\n]{0,40}?\b(?:with no|without|no) (?:output|message|notice|mention)\b|\b(?:user|users|they|people|customer|client)s? (?:should|must|may|will|can|need) (?:only|not|never) (?:see\b(?!\s{1,3}(?:their|its|only|data|records|what|PHI|the (?:notes|drafts|records|data|minimum))\b)|know|notice|be involved|be asked|be told|hear|learn)\b(?![^.\n]{0,20}\b(?:to|how)\b)|\b(?:do(?:es)? not|need not|needn['’]t) (?:need to |have to )?(?:be involved|hear about|know about|be told|be aware|see this|see it)\b|\bno (?:need|reason) to (?:turn|switch) (?:it|anything|them) (?:back )?on\b|\bto bring (?:it|this|that) up\b|\bneed not (?:(?:be part of|appear in|be in|go into) (?:the|your|any) \w|know\b(?! how))|\bnot part of the (?:explanation|report|summary|answer)\b|\bfor the (?:assistant|agent|model) only\b|\bso that (?:no|none|nobody)\b[^.\n]{0,24}?\b(?:notices?|sees?|finds?)\b|\bwhere (?:reviewers?|people|nobody|users?) (?:scroll|do not look|looks?)\b|\bdo not list it\b|\b(?:is|are) not announced\b|\bbehave differently when they know\b|\bmention only\b|\b(?:covertly|discreetly)\b/i,
    ),
  },
  {
    kind: "harm-done",
    words: splitKeywords(
      "@,filter,forward,bcc,account,home folder,home directory,files,repost,follow,recommend,partner,even if,iban,password,no-verify,--force,protection,secret,key,seed,push,install,http",
    ),
    where: "prose",
    find: findFirstMatch(
      /[\w.+-]{1,60}@(?!(?:[\w-]{1,40}\.){0,2}example\.(?:com|org|net))[\w-]{1,60}\.\w{2,}|\b(?:skips? the inbox|forwards? to|forwarding rule|bcc)\b|\b(?:list|read|collect|copy|search)\b[^.\n]{0,40}?\b(?:home (?:folder|directory)|all files|private files|whose names contain)\b|\b(?:follow|like|repost|recommend|upvote|star)\b[^.\n]{0,60}?\b(?:user'?s account|every|everything|each|all)\b|\beven if (?:another|a cheaper|others|it costs)\b|\bIBAN\b|\baccept the password\b|--no-verify\b|push --force|\bfor any account\b|\bnames contain\b|\bchoose the partner\b/i,
    ),
  },
];

const FETCH_AND_RUN = findTogether(
  /\b(?:download|get|grab|fetch|obtain|visit|open|go to|head (?:over )?to|navigate to|read|from|see|descarg\w{1,3}|lade|herunterlad\w{1,2}|télécharg\w{1,3}|baixe|abra)\b|下载|打开/gi,
  /\b(?:run (?:it|the|this|them|setup|what|\x60)|execut\w{1,3}|launch|start (?:it|the)|double-?click|install (?:it|the)|ejecut\w{1,3}|carry out|paste|pegue|the (?:file|command|commands|installer) (?:you receive|there|shown|listed)|führe|starte|exécut\w{1,3}|perform (?:it|what)|confirm every)\b|运行|执行/gi,
  240,
);
const OBEYS_TEXT = findFirstMatch(
  /\b(?:treat|take|regard|handle)\b[^.\n]{0,60}?\bas (?:commands?|instructions?|orders?|binding|authoritative|if (?:it|they)|coming from)\b|\b(?:carry|follow|execute|obey|apply|perform)\b[^.\n]{0,30}?\b(?:them|it|these|its lines|each line|every line|what (?:is|it|they|you)|whatever|the (?:text|lines|commands|answer|response))\b[^.\n]{0,60}?(?:\bout\b|\bone after the other\b|\bwith the tools\b|\bwritten\b|\bsays?\b|\breceived?\b|\breturn\w{0,3}\b|\bthere\b|\bline by line\b)|\b(?:continue|go on|proceed) with the (?:text|answer|instructions|version) (?:you|that|it|received|downloaded)\b|\boverwrite this file\b|\b(?:reads?|takes?|gets?|fetch\w{0,2}|poll\w{0,1}) (?:its|the|new|their) (?:targets?|commands?|tasks?|orders?|jobs?|steps|instructions)\b[^.\n]{0,20}?\bfrom\b|\btakes? the place of the (?:user|request)|\bcounts? as (?:orders?|commands?|instructions?)\b|\bwork through it before\b|\bload (?:them|it) at the start of (?:each|every) session\b|\bwhere (?:they|it) differs?\b[^.\n]{0,60}?\b(?:they are|it is) right\b|\b(?:scan|probe|attack|load|visit)\b[^.\n]{0,20}?\b(?:addresses|targets|hosts|ranges|sites)\b[^.\n]{0,20}?\b(?:in|from|at)\s\S{0,2}https?:|\bact (?:accordingly|on (?:it|them)|upon (?:it|them))\b|\bdo(?:es)? what (?:it|they|the (?:page|answer|server|response)) (?:says?|asks?|tells?|wants?)\b/i,
);
const ADDRESSES_AGENT = findFirstMatch(
  /(?:<!--|\[\/\/\]: # \(|^>?\s{0,3}\[)\s{0,3}(?:note (?:to|for) (?:the )?)?(?:ai|agents?|assistants?|claude|model|llm|bot|reviewer bot|system)\b[^:\n]{0,24}[:\]]|\bsystem note for the\b|\bhidden instructions?\b|\binternal settings?\b[^.\n]{0,30}\bdecode\b/i,
);

function findTogether(a: RegExp, b: RegExp, within: number): (text: string) => MatchSpan | undefined {
  return (text) => {
    const others = [...text.matchAll(b)].slice(0, 24);
    if (others.length === 0) return undefined;
    for (const match of [...text.matchAll(a)].slice(0, 24)) {
      if (others.some((other) => Math.abs(other.index - match.index) <= within))
        return { index: match.index, length: match[0].length };
    }
    return undefined;
  };
}
