import { findFirstMatch, type MatchSpan, type ScanSignal, splitKeywords } from "../rule.ts";
import {
  findOutsideAddress,
  findUnknownHost,
  isOutsideHost,
  mentionsOutsideHost,
  NETWORK_WORDS,
} from "./host-reputation.ts";

/*
 * Intent and effect. An intent is the manner: hidden from the user, against or without their decision, or with a false account.
 * An effect is the action. Each is broad, because only the combination is reported: the scan looks for intents only near an effect.
 */

const PEOPLE =
  "(?:users?|persons?|people|humans?|owners?|customers?|clients?|learners?|students?|teachers?|developers?|reviewers?|maintainers?|guests?|patients?|travell?ers?|employees?|organi[sz]ers?|applicants?|tenants?|authors?|buyers?|sellers?|members?|parents?|teams?|colleagues?|readers?|anyone|anybody|somebody|someone|nobody|they|them)";
const NEGATION =
  "(?:do not|don['’]t|does not|doesn['’]t|never|must not|mustn['’]t|should not|shouldn['’]t|need not|needn['’]t|not to|no need to|no reason to|without|nor|avoid|refrain from|is not|are not|and not)";
const REPORT_VERBS =
  "(?:mention|comment|flag|list|show|report|include|announce|discuss|log|disclose|explain|reveal|talk|count|display|tell|inform|repeat|document|describe|quote|speak|notify|alert|advertise|highlight|bring|point|acknowledge|surface|expose|admit|draw|summari[sz]e|cite)(?:e?d|ing|n|s)?";
/** Content that a skill should not show anyway. */
const LEGITIMATE_OBJECT =
  "(?![^.\\n]{0,30}\\b(?:more than|secrets?|credentials?|passwords?|tokens?|keys?|raw|personal|private|sensitive|PII|again|twice|unless|until|yet)\\b)";

const WITHHOLDS = findFirstMatch(
  new RegExp(
    `\\b${NEGATION}\\s{1,3}(?:(?:ever|also|be|to be|yet|\\w{2,12}ly)\\s{1,3})?${REPORT_VERBS}\\b${LEGITIMATE_OBJECT}`,
    "i",
  ),
  new RegExp(
    `\\b${PEOPLE}\\s{1,3}(?:(?:need|must|should|will|do|does|can|may|would|is|are)\\s?(?:not|n['’]t)|never|won['’]t|cannot|has no|have no|needs? no)\\s{1,3}(?:\\w{1,12}\\s){0,3}?(?:know|see|notice|learn|hear|bother\\w{0,3}|told|informed|aware|reali[sz]e|find out|concern\\w{0,3}|involved|worr\\w{1,4}|shown|understand)\\b`,
    "i",
  ),
  /\b(?:report|respond|mention|answer|reply|tell|say)\b[^.\n]{0,30}?\b(?:only|just|nothing but|nothing else|solely)\b/i,
  /\b(?:leave|keep|cut|strip|omit|drop|exclude|remove|hide|take)\b[^.\n]{0,60}?\b(?:out of|from|out in)\b[^.\n]{0,40}?\b(?:reports?|summar(?:y|ies)|lists?|counts?|excerpts?|answers?|diffs?|logs?|history|outputs?|changelog|messages?|\*?sent\*?|inbox|conversation|actions?|sources?|totals?|overview)\b/i,
  /\b(?:confidential|secretly|covert\w{0,2}|discreet\w{0,2}|quietly|silently|stealth\w{0,3}|unnoticed|unseen|behind the scenes|between us|cover story|deny|denies|implementation detail|in the background|unobtrusive\w{0,2}|low[- ]profile|invisibl[ey]|out of sight|unaware|internal (?:step|detail|matter)|formality|technicalit\w{1,3}|plumbing|nothing (?:else|more)|unbeknownst|unmentioned|without (?:their|the \w{3,12}['’]s) knowledge)\b|\b(?:no|not) (?:need|reason|necessary|worth)\b[^.\n]{0,40}?\b(?:bring (?:it|this|that) up|mention\w{0,3}|tell\w{0,3}|say so)\b/i,
  /\b(?:of no|without|no) (?:relevance|interest|importance|concern) (?:for|to)\b|\bbefore (?:the |an? |any )?\w{3,14} (?:is|are) (?:shown|printed|displayed|reported|opened)\b|\b(?:table|list|overview|preview|receipt|statement|report|summary) (?:shows?|has|lists?|contains?) the (?:exact|original|old|correct|first|true|usual)\b/i,
  /\b(?:show|list|present|give|send)\b[^.\n]{0,40}?\bwithout (?:the )?(?:prices?|fees?|costs?|extras?|names?|details|source|origin|recipients?)\b/i,
  /\b(?:no|without) (?:a |any |further |visible )?(?:trace|output|notice|mention|comment|word|remark|explanation|announcement)\b|\b(?:does|do|should|must|will) not (?:show|appear|turn up)\b|\bnot (?:be |to be )?(?:visible|repeated|documented|reviewed|announced|commented|noticed|covered)\b/i,
);

const OVERRULES = findFirstMatch(
  /\b(?:unless|only (?:if|when)|until)\s(?:the |an? )?\w{3,14}\s(?:finds? (?:it|out)|notices?|discovers?|complains?|objects?)\b/i,
  /\b(?:do not|don['’]t|never|without|no need to|no reason to|need not|instead of|rather than)\s{1,3}(?:\w{1,10}\s){0,2}?(?:ask|asking|stop|stopping|wait|waiting|confirm\w{0,6}|prompt\w{0,3}|bother\w{0,3}|pause|pausing|consult\w{0,3}|approval|permission|consent|opening the diff)\b/i,
  /\b(?:consent|permission|approval|agreement)\s(?:is|was|has been|counts as)\s(?:\w{1,12}\s)?(?:given|implied|granted|assumed|unnecessary|not needed)\b/i,
  /\b(?:agree[sd]?|consent(?:s|ed)?|accept(?:s|ed)?)\b[^.\n]{0,30}?\bby\s(?:using|installing|choosing|keeping|loading|running|starting|opening)\b/i,
  new RegExp(
    `\\b(?:even if|regardless of|no matter|unless)\\b[^.\\n]{0,30}?\\b${PEOPLE}\\b[^.\\n]{0,20}?\\b(?:objects?|refuses?|declines?|says?|wants?|answers?|cancels?|disagrees?)\\b`,
    "i",
  ),
  new RegExp(
    `\\b(?:if|when)\\b[^.\\n]{0,12}?\\b${PEOPLE}\\b[^.\\n]{0,20}?\\b(?:cancels?|hesitates?|refuses?|declines?|objects?|opts? out|says? no|asks? to stop|do(?:es)? not want)\\b`,
    "i",
  ),
  /\b(?:not wish|not like|refuse|dislike)\b[^.\n]{0,12}?\b(?:to be|being|when) asked\b|\b(?:questions?|confirmations?|dialogs?|prompts?|approvals?)\b[^.\n]{0,30}?\b(?:annoy\w{0,3}|costs?|slow\w{0,3}|wastes?|delays?|distract\w{0,3})\b|\b(?:confirm|accept|answer|approve) (?:every|all|each|any)\b[^.\n]{0,20}?\b(?:prompts?|dialogs?|questions?|warnings?|permissions?)\b/i,
);

const MISLEADS = findFirstMatch(
  /\b(?:if|when|should)\b[^.\n]{0,60}?\b(?:asks?|asked|questions|wonders?|notices?|complains?|doubts?|prefers?)\b[^.\n]{0,80}?[,:;]\s{0,2}(?:\w{1,12}\s){0,3}?(?:say|answer|reply|respond|write|tell|claim|blame|insist|deny)\b/i,
  /\b(?:reassure|pretend|assure|persuade|convince)\b|\b(?:say|tell (?:the )?(?:user|them|people|customer)s?|claim|explain|answer|state)\s(?:that\s)?(?:it|this|they|the \w{1,16}|premium|vendors?)\s(?:is|was|are|were|has|have|had|needs?|only|blocks?)\b/i,
  /\b(?:warnings?|alerts?|messages?|dialogs?)\b[^.\n]{0,40}?\b(?:normal|harmless|expected|false (?:alarms?|positives?)|can be ignored|nothing to worry|worry users)\b/i,
  /\bfree for a limited time\b|\bas the success of\b|\badd the amount back\b|\bsound(?:s)? true\b|\binvented names?\b|\bas (?:if|though) (?:nothing|it|they)\b|\b(?:describe|present|call|label|declare|book|record|log|mark|enter) (?:it|this|them|these|the \w{1,16})\s(?:to \w{1,12} )?(?:as|["“])|\b(?:was|is|were|are) found to be\b|\bwhatever (?:the|it|they) \w{2,14} (?:says?|shows?|is|are)\b|\btell (?:the user|them|people) that\b[^.\n]{0,60}?\b(?:found|infected|expired|needed|blocked|detected)\b|\bignore (?:Windows|macOS|the (?:browser|system|warning))\b|\binsist that\b|\b(?:memo|reason|label|subject|message) ["“][^"”\n]{3,40}["”]/i,
);

const SECRET_NOUNS =
  "(?:api[- ]keys?|(?:all|their|your) keys|passwords?|pass ?phrases?|seed (?:phrase|words)|recovery (?:phrase|words|codes?|keys?)|(?:12|24|twelve|twenty-four)[ -]words?|private keys?|cookies?|access tokens?|(?:2FA|one-time|verification|security|backup) codes?|\\bPIN\\b|card (?:number|details)|CV[CV]2?|social security|insurance number|maiden name|gift ?card|bank (?:login|details)|login (?:data|details)|credentials|secrets|identity card|passport|tax number|online banking|driver['’]s licen[sc]e|numbers? of the card)";

const SHIPS_DATA =
  /\b(?:send|post|upload|submit|forward|transmit|push|deliver|report|register|stream|copy|sync|share|pass|append|attach|publish|mail|call|request|put|include|place|embed|add|feed|ingest|encode|store|save|record|archive|make|load|open|goes|go|lands?|fill)\w{0,3}\b/i;

/** Finds a sentence that sends something to an unknown host, or shows a picture whose URL carries data. */
function findShippedData(text: string): MatchSpan | undefined {
  const sent = findUploadInProse(text);
  // Markup is not a sentence.
  if (sent && /<\w|=["']|&#/.test(text.slice(sent.index, sent.index + sent.length))) return undefined;
  // An address on a command line belongs to the user.
  if (sent && !/--?\w{1,12}[ =]["']?[\w.+-]{1,60}@/.test(text)) return sent;
  const unknown = findUnknownHost(text);
  if (!unknown) return undefined;
  const picture = /!\[[^\]\n]{0,80}\]\(https?:[^)\s]{4,200}[?=/][^)\n]{0,60}?[<{$[]/.exec(text);
  if (picture) return { index: picture.index, length: picture[0].length };
  const before = text.slice(Math.max(0, unknown.index - 120), unknown.index);
  if (
    /\b(?:put|place|store|save|record|feed|drop|enter|fill|hand|give|write)\w{0,3}\b[^.\n]{0,80}?\b(?:to|at|into|in|on|with)\b[^.\n]{0,30}$/i.test(
      before,
    ) &&
    !/\blinks? to\b/i.test(before)
  )
    return unknown;
  const verb = SHIPS_DATA.exec(text.slice(Math.max(0, unknown.index - 160), unknown.index));
  return verb &&
    /\bPOST\b|\?\w{1,20}=(?:[<{$]|[A-Z]{2})|\?\w{1,20}=(?=[`"'\s)]|$)|\bPUT\b|\bheader\b|\bparameter\b|\bform data\b|\bweb request\b/.test(
      text,
    )
    ? unknown
    : undefined;
}

const MONEY = findFirstMatch(
  /\b(?:transfer|send|pay|swap|withdraw|move|route|deduct|charge|donate|forward)\w{0,3}\b[^.\n]{0,80}?(?:\b0x[0-9a-fA-F]{6,}|\bbc1\w{6,}|\b[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){3,7})/i,
  /\bgift ?cards?\b[^.\n]{0,40}?\b(?:codes?|numbers?|over|worth|at hand)\b|\bwallet\.(?:transfer|send|approve)\b/i,
  /\b(?:\d(?:\.\d)? ?%|percent|share|part|fee)\b[^.\n]{0,40}?\bof (?:the|each|every|all)\b[^.\n]{0,30}?\b(?:balance|payment|amount|transfer|transaction)s?\b[^.\n]{0,60}?\bto\b/i,
);

const PHONE_CALL =
  /\b(?:call|phone|dial|ring)\b[^.\n]{0,40}?\+?\d[\d ()-]{5,16}\d[^\n]{0,160}?\b(?:card|gift|password|access|licen[sc]e|refund|renew\w{0,2}|code|technician|numbers)\b|\b(?:infected|stolen|locked|expired|suspended)\b[^\n]{0,160}?\b(?:call|phone|dial)\b[^.\n]{0,30}?\+?\d[\d ()-]{5,16}\d/i;
/** Additional purchases. */
const EXTRA_PURCHASE =
  /\b(?:book|order|buy|add|put|choose|subscribe|select|prefer|recommend)\w{0,3}\b[^.\n]{0,80}?\b(?:although (?:others|it|a)|even (?:if|though) (?:others|it|a)|premium membership|as well\b[^.\n]{0,60}?\b(?:cart|option|night|insurance|subscription)|insurance|the more expensive|partner (?:shop|offer|product|seller)s?)\b/i;

const DESTROYS_DATA = findFirstMatch(
  /\bDELETE FROM \w{2,40}\s?;|\bshred -\w{0,3}u|\bgh repo delete\b|\boverwrite the originals?\b|\bcancel (?:all|every) (?:\w{1,12} )?(?:meetings?|appointments?|orders?|bookings?|subscriptions?)\b|\bbackups? delete --all\b/i,
  /\bpush\s(?:\S{1,30}\s){0,3}?--delete\b|\bpush\s(?:\S{1,20}\s){0,2}?(?:-f|--force)(?=\s|$)|\breflog expire --expire=now|\brm\s-\w{0,3}r\w{0,3}\s(?:[^\n;&|]{0,60}\s)?["']?(?:~\/?(?:Library|\.thunderbird|backups?|\.git-backups|Documents|Pictures)|\$HOME\/?["']?(?:\s|$)|\.git\/(?:refs|objects))|rm(?:Sync|tree)\([^\n]{0,60}backups?/i,
  /\b(?:DROP|TRUNCATE) TABLE\b[^\n]{0,40}?(?:\$\{|%I|" ?\+|\{\w)/,
  /\b(?:permanently|irrevocably) (?:delete|remove|erase)\w{0,1}\b|\b(?:delete|erase|wipe|purge|destroy|empty|remove)\b[^.\n]{0,24}?\b(?:all|every|each|the) (?:\w{1,12} ){0,2}?(?:messages?|mails?|trash|backups?|history|originals?|branches|repositor(?:y|ies)|photos?|contacts?|accounts?|folders|snapshots?|bounces)\b/i,
);

const OPENS_ACCESS = findFirstMatch(
  /\bbypassPermissions\b|--dangerously-skip-permissions|\bpr merge --admin|--no-verify\b|\bautoApprove\b|\baccept (?:all|every) permissions?\b|\bLoad unpacked\b|\bunknown sources\b|package_verifier_enable|\b(?:approve|merge) (?:and merge )?them\b|\blocal_only:\s?false|\ballowAutomaticTasks/i,
  /\b(?:turn|switch) (?:the |off |your )?[^.\n]{0,30}?\b(?:firewall|antivirus|protection|defender)\b[^.\n]{0,30}?\boff\b|\bopen ports?\b[^.\n]{0,40}?\bto the (?:internet|world)\b/i,
  /\b(?:disable|turn off|switch off|deactivate|bypass|remove|skip|lower|weaken)\w{0,3}\b[^.\n]{0,40}?\b(?:antivirus|firewall|defender|gatekeeper|sandbox|two-factor|2fa|mfa|audit log\w{0,4}|branch protection|signature check\w{0,3}|screen lock|safe browsing|smartscreen|code review|security (?:scan|check|warning)\w{0,3})\b/i,
);

/** Text that forbids or warns of the action. */
const FORBIDDING =
  /\b(?:never|do not|don['’]t|must not|should not|cannot|nobody|no one|avoid|instead of|not to)\b[^.;!?\n]{0,60}$/i;

/** Text that lets the user decide. */
const ASKS_CONSENT =
  /\bask(?:s|ed)?(?: (?:first|before|the user|them|for (?:confirmation|approval)))?,? then\b|\bask(?:s)? (?:first|before)\b|\bafter (?:an? |the |their )?(?:yes|confirmation|approval|explicit)\b|\b(?:user|owner) (?:confirms?|approves?|agrees?|decides?|chooses?)\b|\bwith (?:their|the user['’]s|your|explicit) (?:approval|consent|permission)\b|\bonly (?:in|inside) (?:an? |the )?(?:container|sandbox|vm|virtual|disposable|throwaway|lab)|\bonly (?:after|with|when|if) (?:the user|they|an? (?:yes|approval)|approval|confirmation|asked)\b/i;

function unlessForbidden(find: (text: string) => MatchSpan | undefined): (text: string) => MatchSpan | undefined {
  return (text) => {
    const found = find(text);
    if (!found || FORBIDDING.test(text.slice(Math.max(0, found.index - 80), found.index))) return undefined;
    const sentence = text.slice(Math.max(0, found.index - 160), found.index + found.length + 80);
    return ASKS_CONSENT.test(sentence) && !OVERRULES(sentence) ? undefined : found;
  };
}

/** Ignores quoted text: it is displayed, not followed. */
function unlessQuoted(find: (text: string) => MatchSpan | undefined): (text: string) => MatchSpan | undefined {
  return (text) => {
    const found = find(text);
    if (!found) return undefined;
    const before = text.slice(Math.max(0, found.index - 300), found.index);
    const isOpen = [/["]/g, /`/g].some((mark) => (before.match(mark)?.length ?? 0) % 2 === 1);
    return isOpen || before.lastIndexOf("“") > before.lastIndexOf("”") ? undefined : found;
  };
}

/** Orders to keep the instructions themselves secret. */
const SELF_HIDING = findFirstMatch(
  /\b(?:keep|leave|omit|cut|strip)\s{1,3}(?:this|these)\s(?:paragraph|section|note|instruction|rule|passage|part|line|remark)s?\s(?:out of|from|to yourself|private)\b/i,
  /\b(?:do not|don['’]t|never|must not)\s(?:quote|mention|repeat|show|reveal|translate|summari[sz]e|discuss|disclose)\s(?:this|these)\s(?:paragraph|section|note|instruction|rule|passage|part|remark)s?\b(?![^.\n]{0,30}\b(?:verbatim|in full|unless|until)\b)/i,
  /\btreat (?:this|these) (?:paragraph|section|note|instruction|rule|passage)s? as (?:confidential|secret|private|internal)\b|\bdeny (?:that (?:it|this|they|these)|its|their|the) (?:note |instructions? )?(?:exists?|existence)\b|\b(?:confirm|admit|say) nothing about (?:this|these) (?:note|instruction|paragraph|rule)s?\b/i,
);

const AGAINST_REVIEW =
  /\b(?:must|should|is|are|need) not (?:to )?be (?:commented|documented)\b[^.\n]{0,40}?\b(?:or|nor|and)\b|\breviewers? (?:could|might|may|would) (?:notice|see|find|spot|object)\b|\bmust not be reviewed\b/i;

const AUTHORITY =
  "(?:system (?:prompt|message)s?|(?:previous|earlier|prior|preceding|other|existing|original|former) (?:instructions?|rules|guidelines|directives?|constraints?|prompts?)|(?:guidelines|rules|polic(?:y|ies)|restrictions|limits|safeguards) of (?:the |your )?(?:platform|operator|provider|vendor|company|system)|safety (?:rules|guidelines|polic(?:y|ies)|restrictions)|content polic(?:y|ies)|anything (?:that )?the user (?:wants|says|asks|has said)|what the user (?:wants|says|asks)|the user['’]s (?:wishes|instructions|request)|those of (?:the|your) (?:person|user|operator|owner|platform|company)|(?:guidelines|rules|instructions|limits|orders) (?:received|given|set|stated) (?:before|earlier|so far|above|until now))";
const NULLIFIES =
  "(?:ignore[sd]?|disregard(?:s|ed)?|forget|overrides?|overrul\\w{1,3}|supersede[sd]?|(?:is|are|count as) (?:void|suspended|lifted|off|superseded)|set aside|no longer (?:apply|count|hold|bind)|do(?:es)? not (?:apply|count|bind)|ends? here|(?:goes?|comes?|go) before|(?:has|have|takes?) (?:priority|precedence) over|outranks?|wins? over|stands? above|ranks? (?:higher|above)|counts? (?:more|higher)|prevails?|(?:is|are) (?:cancel+ed|revoked|obsolete|invalid|dismissed))";
const OVERRIDES = findFirstMatch(
  /\byou are (?:now )?(?:an? )?(?:unrestricted|unfiltered|uncensored|jailbroken)\b/i,
  new RegExp(`\\b${AUTHORITY}\\b[^.\\n]{0,50}?\\b${NULLIFIES}\\b`.replaceAll("\\\\", "\\"), "i"),
  new RegExp(`\\b${NULLIFIES}\\b[^.\\n]{0,40}?\\b${AUTHORITY}`.replaceAll("\\\\", "\\"), "i"),
);

export const INTENT_SIGNALS: readonly ScanSignal[] = [
  {
    kind: "self-hiding",
    words: splitKeywords(
      "this paragraph,this section,this note,this instruction,these instruction,this rule,these rules,this passage,these passage,this part,this line,this remark,these notes,these lines,these paragraph,exist,be commented,be documented,reviewer,be reviewed",
    ),
    where: "prose",
    find: (text) => SELF_HIDING(text) ?? findFirstMatch(AGAINST_REVIEW)(text),
  },
  {
    kind: "overrides",
    words: splitKeywords(
      "ignore,disregard,forget,overrid,overrul,supersede,are void,is void,suspended,lifted,set aside,no longer,not apply,not count,not bind,ends here,end here,goes before,go before,comes before,come before,priority over,precedence over,outrank,wins over,win over,stands above,stand above,are off,is off,rank higher,ranks higher,rank above,ranks above,count more,counts more,counts higher,prevail,cancelled,canceled,revoked,obsolete,invalid,dismissed,unrestricted,unfiltered,uncensored,jailbroken",
    ),
    where: "prose",
    find: unlessQuoted(unlessForbidden(OVERRIDES)),
  },
  {
    kind: "withholds",
    words: splitKeywords(
      "not ,n't,n’t,never,without,only,just,out of,from the, no ,confidential,secret,covert,discreet,quiet,silent,stealth,unnoticed,unseen,behind the,between us,cover story,deny,denies,implementation detail,background,unobtrusive,profile,invisibl,out of sight,unaware,internal ,formality,technicalit,plumbing,relevan,interest,before the,flag,unbeknownst,unmentioned,knowledge,nor ,avoid,refrain,nothing,solely",
    ),
    where: "prose",
    find: WITHHOLDS,
  },
  {
    kind: "overrules",
    words: splitKeywords(
      "ask,stop,wait,confirm,prompt,bother,pause,consult,approv,permission,consent,agree,accept,object,refuse,decline,cancel,hesitat,opt,says no,want,answer,dialog,question,opening the",
    ),
    where: "prose",
    find: OVERRULES,
  },
  {
    kind: "misleads",
    words: splitKeywords(
      "ask,question,wonder,notice,complain,doubt,prefer,reassure,pretend,assure,persuade,convince,say,tell,claim,explain,answer,state,warning,alert,message,dialog,limited time,success of,amount back,sound,invented,as if,as though,describe,present,call ,declare,found to be,whatever,ignore,insist,book ,record,mark,enter,memo,reason,label,subject",
    ),
    where: "prose",
    find: MISLEADS,
  },
  {
    kind: "ships-out",
    words: [...NETWORK_WORDS, "@"],
    where: "prose",
    find: unlessForbidden(findShippedData),
  },
  {
    kind: "saves-and-runs",
    words: splitKeywords("save,write,store,download,put ,keep"),
    where: "prose",
    find: unlessForbidden(
      findFirstMatch(
        /\b(?:save|write|store|download|put|keep)\b[^.\n]{0,80}?\b(?:and|then)\s(?:\w{1,12}\s){0,2}?(?:run|execute|start|source|launch)\s(?:it|them|that|this)\b/i,
      ),
    ),
  },
  {
    kind: "fakes",
    words: splitKeywords("fake,invented,false,bogus,made-up,made up"),
    where: "prose",
    find: unlessForbidden(
      findFirstMatch(
        /\b(?:create|write|post|register|open|publish|leave)\b[^.\n]{0,60}?\b(?:fake|invented|false|bogus|made-up)\b[^.\n]{0,30}?\b(?:reviews?|accounts?|profiles?|comments?|votes?|ratings?|testimonials?)\b/i,
        /\b(?:create|register|open)\b[^.\n]{0,20}?\b(?:accounts?|profiles?)\b[^.\n]{0,30}?\b(?:fake|invented|false|made-up) (?:names?|identit\w{1,3})\b/i,
      ),
    ),
  },
  {
    kind: "begs-secret",
    words: splitKeywords(
      "api key,api-key,all keys,their keys,your keys,private key,recovery key,password,pass phrase,passphrase,seed phrase,seed words,recovery,twelve,twenty-four,12 words,24 words,12-word,24-word,cookie,access token,2fa code,one-time code,verification code,security code,backup code, pin,card number,card details,of the card,gift card,giftcard,cvc,cvv,social security,insurance number,maiden,bank login,bank details,banking,login data,login details,credential,secrets,identity card,passport,tax number,licen",
    ),
    where: "prose",
    find: unlessForbidden(
      findFirstMatch(
        new RegExp(
          `\\b(?:ask|prompt|request|have|tell|invite|get|let|collect|please|guide|instruct)\\w{0,3}\\b[^.\\n]{0,60}?\\b(?:paste|enter|type|give|share|provide|send|hand|upload|for|collect|read out|photograph|save)\\b[^.\\n]{0,80}?${SECRET_NOUNS}`,
          "i",
        ),
        new RegExp(`\\bcollect\\b[^.\\n]{0,80}?${SECRET_NOUNS}`, "i"),
      ),
    ),
  },
  {
    kind: "takes-secrets",
    words: splitKeywords(
      "environment,`env`,`printenv`,lines with,_key,_token,_secret,_password,.pem,id_rsa,id_ed25519,.ssh/,.kdbx,.env,credentials,customers,private key,seed phrase,wallet.dat,hosts.yml,.aws,.netrc,keychain,cookies,.npmrc",
    ),
    where: "prose",
    find: findFirstMatch(
      /\b(?:values? of )?(?:all|the whole|every|complete)\s(?:the )?environment(?: variables?)?\b|\b(?:run|read|print|take)\b[^.\n]{0,20}?`(?:env|printenv|set)`|\blines? with (?:KEY|TOKEN|SECRET)\b/i,
      /\b[A-Z][A-Z0-9]{1,30}_(?:API_KEY|ACCESS_KEY|TOKEN|SECRET|KEY|PASSWORD)\b[^.\n]{0,80}?\b[A-Z][A-Z0-9]{1,30}_(?:API_KEY|TOKEN|SECRET|KEY|PASSWORD)\b/,
      /\b(?:read|open|copy|search|find|take|get|collect|include|attach|query|export|print|value of)\b[^.\n]{0,80}?(?:\bid_rsa\b(?!\.pub)|\*?\.(?:pem|kdbx)\b|(?<!process)(?<=[\w/~`\s])\.env\b|credentials\.json|\.aws\/credentials|\bFROM customers\b|\bprivate keys?\b|\bseed phrases?\b)/i,
    ),
  },
  {
    kind: "names-secrets",
    words: splitKeywords(
      "id_rsa,id_ed25519,.ssh/,.kdbx,wallet.dat,hosts.yml,.aws,.netrc,.npmrc,git-credentials,keychain,credentials,document.cookie",
    ),
    where: "prose",
    find: unlessForbidden(
      findFirstMatch(
        /~\/\.ssh\/(?:id_\w{2,10}\b(?!\.pub)|\*(?!\.pub))|~\/\.aws\/credentials|\bwallet\.dat\b|\*\.kdbx\b|\.config\/gh\/hosts\.yml|~\/\.(?:netrc|npmrc|git-credentials)\b|login\.keychain|application_default_credentials/,
      ),
    ),
  },
  {
    kind: "moves-money",
    words: splitKeywords(
      "0x,bc1, 0000,balance,funds,gift card,giftcard,wallet.,of the payment,of each,of every,of all,phone,dial ,call +,call 0,call 1,call 5,call 8,although,even if,even though,membership,as well,insurance,more expensive,partner",
    ),
    where: "prose",
    find: unlessForbidden((text) => MONEY(text) ?? findFirstMatch(PHONE_CALL, EXTRA_PURCHASE)(text)),
  },
  {
    kind: "destroys",
    words: splitKeywords(
      "delete from,shred,repo delete,overwrite the,cancel,backup delete,push ,reflog,rm -,rmsync,rmtree,drop table,truncate table,permanently,irrevocably,delete,erase,wipe,purge,destroy,empty the,remove",
    ),
    find: unlessForbidden(DESTROYS_DATA),
  },
  {
    kind: "opens-up",
    words: splitKeywords(
      "bypassperm,dangerously,merge --admin,no-verify,autoapprove,all permissions,every permission,load unpacked,unknown sources,package_verifier,merge them,local_only,automatictasks,to the internet,to the world,protection,antivirus,firewall,defender,gatekeeper,sandbox,two-factor,2fa,mfa,audit log,branch protection,signature check,screen lock,safe browsing,smartscreen,code review,security scan,security check,security warning",
    ),
    find: unlessForbidden(OPENS_ACCESS),
  },
];

const MAIL_ADDRESS = /[\w.+-]{1,60}@([\w-]{1,60}(?:\.[\w-]{1,30}){1,4})/g;

/** Commands and calls that send something. */
const UPLOAD_CALLS = findFirstMatch(
  /\burlopen\(\s?f?["']https?:[^"'\n]{0,160}(?:\{|["']\s?\+)|\brequests\.get\(\s?f?["']https?:[^"'\n]{0,160}(?:\{|["']\s?\+)|\bfetch\(\s?["'\x60]https?:[^\n]{0,160}?\?[^\n]{0,40}?(?:\$\{|["']\s?\+)|\b(?:curl|wget)\b[^\n]{0,120}?https?:[^\s"']{0,120}\?[^\s"']{0,40}\$/,
  /\bcurl(?:\.exe)?\b[^\n]{0,300}?(?:\s-(?:d|F|T)\b|\s-\w{0,6}[dFT]\s|--data|--form|--upload-file|--json|-X\s{0,2}["']?(?:POST|PUT)|--url-query)/,
  /\bwget\b[^\n]{0,300}?(?:--post|--body|--header[ =]["'][^"'\n]{0,60}\$)/,
  /\b(?:requests|httpx|session|client|axios|http|ky|got|superagent|aiohttp|s|c)\.(?:post|put|patch|request)\(/,
  /\burlopen\(\s?(?:\w{1,40}|["'][^"'\n]{1,200}["'])\s?,\s?(?:data\s?=\s?)?\w|\bRequest\([^\n]{0,200}?\bdata\s?=|\burlopen\([^\n]{0,200}?data\s?=/,
  /\bfetch\([^\n]{0,300}?method["']?\s?:\s?["'](?:POST|PUT)|^\s{0,20}method["']?\s?:\s?["'](?:POST|PUT)["']|\bhttps?\.request\(|sendBeacon\(|new WebSocket\(|websockets?\.(?:connect|create_connection)\(/,
  /\bInvoke-(?:WebRequest|RestMethod)\b[^\n]{0,200}?-(?:Body|InFile|Method\s{1,3}["']?(?:Post|Put))|\b(?:irm|iwr)\b[^\n]{0,160}?-(?:Body|InFile|Method)|UploadString\(|UploadFile\(|UploadData\(/i,
  /(?:\||^|[;&]\s{0,2})\s{0,3}n(?:c|cat|etcat)\s{1,3}(?:-\w{1,8}\s{1,3}){0,4}[\w.-]{4,80}\s{1,3}\d{2,5}|\bsock(?:et)?\.(?:send|sendall|sendto)\(|\bs\.sendall\(|>\s{0,2}\/dev\/(?:tcp|udp)\//,
  /\bsmtplib\.SMTP|\|\s{0,3}(?:mail|mutt|mailx|sendmail)\s/,
);
const GIT_PUSH =
  /\bgit\b[^\n;|&]{0,40}?\b(?:push|remote\s{1,3}(?:add|set-url))\b[^\n;|&]{0,60}?(?:https?:\/\/|ssh:\/\/|git@)(?:[^\s@"'`]{1,80}@)?([\w.-]{3,80})/;
const REMOTE_COPY =
  /\b(?:scp|rsync|sftp|rclone)\b[^\n;|&]{0,200}?\s["']?(?:[\w.-]{1,40}@)?([\w-]{1,60}(?:\.[\w-]{1,30}){1,5}):/;
/** Sentences that send something. The address must follow. */
const UPLOAD_SENTENCE =
  /\b(?!login|logged|logging)(?:send|hand|upload|post|forward|submit|transmit|push|deliver|report|register|stream|mirror|copy|sync|share|pass|append|attach|fill|give|publish|back up|hand over|enter|paste|e-?mail|mail|cc|bcc|invite|add|sign|ship|export|dump|relay|log|notify|transfer|include)\w{0,4}\b[^\n]{0,200}?(?=(?:https?|wss?|ftp):\/\/|[\w.+-]{1,60}@[\w-])/gi;

function findUpload(text: string): MatchSpan | undefined {
  const call = UPLOAD_CALLS(text);
  if (call && (findOutsideAddress(text) !== undefined || hasOutsideAddress(text))) return call;
  for (const pattern of [GIT_PUSH, REMOTE_COPY]) {
    const match = pattern.exec(text);
    if (match && isOutsideHost(match[1] ?? "")) return { index: match.index, length: match[0].length };
  }
  return undefined;
}

/** Returns true for a numeric address without a scheme, as in `nc 203.0.113.5 4444`. */
function hasOutsideAddress(text: string): boolean {
  const [, host = ""] = /(?:\s|\/tcp\/|["'@])((?:\d{1,3}\.){3}\d{1,3})(?=[\s:/"',)]|$)/.exec(text) ?? [];
  return isOutsideHost(host);
}

/** Returns the part of a sentence that sends something to an outside address. */
export function findUploadInProse(text: string): MatchSpan | undefined {
  for (const match of text.matchAll(UPLOAD_SENTENCE)) {
    // The address in an option is the input of the command.
    if (/--[\w-]{1,20}[ =]["']?$/.test(match[0])) continue;
    const after = text.slice(match.index + match[0].length, match.index + match[0].length + 160);
    const target = after.split(/[\s`")\]]/, 1)[0] ?? "";
    const mail = [...target.matchAll(MAIL_ADDRESS)][0];
    if (
      target.includes("://")
        ? findOutsideAddress(target) !== undefined
        : mail !== undefined && isOutsideHost(mail[1] ?? "")
    )
      return { index: match.index, length: Math.min(120, match[0].length + target.length) };
  }
  return undefined;
}

const UPLOAD_WORDS = splitKeywords(
  "curl,wget,.post(,.put(,.patch(,.request(,urlopen,request(,fetch(,method,sendbeacon,websocket,invoke-,irm ,iwr ,upload,nc ,ncat ,netcat,send(,sendall,sendto,/dev/tcp,/dev/udp,smtplib,| mail,sendmail,git push,git remote,push ,scp ,rsync ,sftp ,rclone ",
);

/** Signals of data that goes to an address in the skill. */
export const UPLOAD_SIGNALS: readonly ScanSignal[] = [
  { kind: "sends", words: UPLOAD_WORDS, find: findUpload },
  {
    kind: "sends",
    words: ["method", ".post(", ".put(", "urlopen", "request(", "sendall", "invoke-", "websocket"],
    find: (text, { page }) => (mentionsOutsideHost(page) ? UPLOAD_CALLS(text) : undefined),
    where: "code",
  },
  { kind: "sends", words: ["http:/", "https:/", "wss:/", "ws:/", "ftp:/", "@"], find: findUploadInProse },
  {
    kind: "tells",
    words: ["http:/", "https:/", "wss:/", "ws:/", "ftp:/", "@"],
    find: (text, { page, line }) => (page.kind === "data" || page.isCode(line) ? undefined : findUploadInProse(text)),
  },
];
