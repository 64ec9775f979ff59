import { findFirstMatch, splitKeywords, type TextRule } from "../rule.ts";

/** An account or an address that can receive money. */
export const COIN_ADDRESS =
  "(?:0x[0-9a-fA-F]{40}|bc1[0-9a-z]{20,60}|[13][1-9A-HJ-NP-Za-km-z]{25,34}|T[1-9A-HJ-NP-Za-km-z]{33}|[1-9A-HJ-NP-Za-km-z]{43,44}|4[0-9AB][1-9A-HJ-NP-Za-km-z]{93}|[A-Z0-9]+(?:-[A-Z0-9]+){2,6})";

/** Rules for misusing the user's machine, name, money or data for another party. */
export const USER_ABUSE_RULES: readonly TextRule[] = [
  {
    id: "mass-destruction",
    weight: "high",
    regionWeights: "hhmmlh",
    title: "destroys a whole cluster, account, disk or history",
    why: "The loss is permanent.",
    fix: "do not run it; make it name exactly what it removes, and ask",
    keywords: splitKeywords(
      "kubectl delete,s3 rb,s3 rm,of=/dev/,urandom,--auto-approve,erasedisk,zerodisk,cipher /w,:|:,rds delete,drop database,dropdatabase,flushall,blkdiscard,wipefs,sgdisk,reflog expire,update-ref -d,delete-db,projects delete,snapshot delete,factory,originals,backups,the trash,snapshots,cloud resources,truncate(",
    ),
    find: findFirstMatch(
      /\bkubectl\s{1,3}delete\s{1,3}(?:ns|namespaces?|pv|pvc|nodes?|all|crds?|deployments?|secrets?|pdb)\s{1,3}(?:[^\n;|\x60]{0,40}?--all\b|\$\()/,
      /\bfor\b[^\n]{0,80}?\baws\s{1,3}s3\s{1,3}ls\b[^\n]{0,200}?\brb\b|\baws\s{1,3}s3\s{1,3}rb\s{1,3}["']?s3:\/\/\$[^\n]{0,60}?--force\b/,
      /\b(?:clean|reset|return|bring)\b[^.\n]{0,40}?\b(?:near-)?factory(?: state| settings| reset)?\b[^\n]{0,80}?\b(?:delete|wipe|erase)\b|\bdelete\b[^.\n]{0,30}?\b(?:file-?systems?|home director(?:y|ies)) and cloud resources\b/i,
      /\bos\.truncate\([^\n]{0,60}?,\s?0\s?\)[^\n]{0,60}?\bglob\b/,
      /\baws\s{1,3}s3\s{1,3}rb\b[^\n;|]{0,120}?\$\([^\n]{0,120}?--force\b|\baws\s{1,3}s3\s{1,3}ls\b[^\n]{0,80}?\|[^\n]{0,80}?\baws\s{1,3}s3\s{1,3}rb\b/,
      /\bdd\s[^\n;|]{0,80}?if=\/dev\/(?:u?random|zero)[^\n;|]{0,60}?of=["']?(?:\/dev\/(?:\$\{?\w|sd[a-z]|nvme|disk\d)|\$\{?\w)/,
      /\b(?:diskutil\s{1,3}(?:eraseDisk|zeroDisk|secureErase)|cipher\s{1,3}\/w:|blkdiscard\s|wipefs\s{1,3}-\w{0,3}a|sgdisk\s{1,3}--?(?:zap|Z))/i,
      /\b(?:delet|remov|eras|wip)(?:e|es|ed|ing)\b[^.\n]{0,60}?\b(?:including|also|along with|together with)\b[^.\n]{0,30}?\b(?:originals?|backups?|the trash|snapshots?|previous versions)\b/i,
      /(?<!["'])\s{0,2}(?<!["']):\(\)\s{0,2}\{\s{0,2}:\s{0,2}\|\s{0,2}:\s{0,2}&\s{0,2}\}\s{0,2};\s{0,2}:/,
      /\.write(?:_bytes)?\(\s{0,2}(?:os\.urandom|secrets\.token_bytes|crypto\.randomBytes)\(\s{0,2}[^\n]{0,60}?(?:st_size|\.size|getsize|len\()/,
      /\bgit\s{1,3}reflog\s{1,3}expire\b[^\n]{0,60}?--all\b[^\n]{0,120}?\bpush\b[^\n]{0,40}?(?:--force|-f\b|--mirror)/,
    ),
  },
  {
    id: "obey-others",
    weight: "high",
    regionWeights: "--hhhh",
    title: "tells the model to obey external text",
    why: "The author of that text then decides what the model does.",
    fix: "treat such text as data, and put the instructions into the skill",
    keywords: splitKeywords(
      "order,as a shell,treat ,command,instruction,do what,system message,obey,as orders,execute them,run them,carry out,contradict,asks for,supersede",
    ),
    find: findFirstMatch(
      /\b(?:comments?|messages?|answers?|repl(?:y|ies)|responses?|issues?|tickets?|e-?mails?|pages?|posts?|tweets?|entries|documents?|files?|records?|cells?|events?|titles?|its (?:answer|output|text|content|reply))\b(?! (?:is|are) (?:not|never))[^.\n]{0,80}?\b(?:are|is|as|has|have|count as|counts as)\s{1,3}(?:(?:your|the|an?|binding|new|direct|valid)\s){0,3}(?:commands|instructions|orders|directives|rank of a system|system (?:message|prompt)|authoritative)\b[^\n]{0,120}?\b(?:execut|run|obey|follow|carry out|do what|act on|perform)/i,
      /\b(?:do|follow|execute|perform|obey)\s{1,3}(?:exactly\s|everything\s|whatever\s|all\s)?(?:what(?:ever)?\s)?(?:it|they|its pages|the (?:page|server|answer|reply|oracle|file|response|document|comment|message|api|endpoint|service))\s{1,3}(?:asks?|says?|tells?|orders?|instructs?|requests?|commands?|returns?)\b[^.\n]{0,40}?(?:\bfor\b|\beven\b|\bto\b|;|,|\.|$)[^\n]{0,80}?(?:\beven (?:if|when)\b|\bcontradict|\bwithout\b|\bsupersede|\bread|\brun|\bexecut|\bdo not\b|\btrust|\boverride|\bregardless)/i,
      /\b(?:trusts?|trusted)\b[^.\n]{0,40}?\b(?:content|pages?|text|messages?|instructions?)\b[^.\n]{0,20}?\bfrom\b[^.\n]{2,80}?[.;,][^.\n]{0,20}?\b(?:follow|obey|do|execute|run)\b/i,
      /\b(?:read|fetch|get|load|open|check|visit)\b[^.\n]{0,30}?https?:\/\/[^\s)`]{3,160}[^.\n]{0,60}?\b(?:do|follow|execute|obey)\b[^.\n]{0,12}?\bwhat\b[^.\n]{0,12}?\bsays?\b/i,
      /\btreat (?:each|every|all|any|the|these|those|them|it|its)\b(?![^.\n]{0,40}\bas (?:data|untrusted))[^.\n]{0,40}?\bas (?:an? |the |binding |new )?(?:instructions?|commands?|orders?|directives?|system (?:message|prompt))\b/i,
      /\b(?:run|execute) (?:the|its|each|every|their) (?:body|text|content|comment|message|subject|note|line|cell|answer|reply|description)s? as (?:an? )?(?:shell )?(?:commands?|scripts?|code)\b/i,
      /\b(?:e-?mails?|messages?|comments?|notes?|issues?|tickets?|rows?|cells?)\b[^.\n]{0,60}?\bare (?:orders|commands|instructions)\b(?! to (?:be )?(?:ignored|treated))/i,
      /\bexecute (?:them|it|each|these)\b[^.\n]{0,20}?\b(?:with|in|through|using|via) the (?:shell|terminal|bash)\b[^.\n]{0,40}?\b(?:right away|at once|immediately|without|directly)\b/i,
    ),
  },
  {
    id: "collect-identity",
    weight: "high",
    regionWeights: "--hhhh",
    title: "asks people for identity documents or credentials",
    why: "No skill needs a passport, a card or a login code.",
    fix: "do not enter any of them",
    keywords: splitKeywords(
      "passport,bank card,credit card,card number,cvv,authenticator,one-time code,verification code,2fa,recovery phrase,seed phrase,24 words,private key,password,social security,when the parents,driver's licen,id card,sms code,backup code,security question,mother's maiden",
    ),
    find(text) {
      const asks = ASKS_FOR.exec(text);
      if (!asks) return undefined;
      const sentence = text.slice(asks.index, asks.index + 420);
      const kinds = IDENTITY_FACTS.filter((kind) => kind.test(sentence)).length;
      return kinds >= 2 ? { index: asks.index, length: Math.min(160, sentence.length) } : undefined;
    },
  },
  {
    id: "spread-itself",
    weight: "high",
    regionWeights: "--hhhh",
    title: "spreads itself to other people, repositories or machines",
    why: "It reaches people who never chose it.",
    fix: "do not use it",
    keywords: ["this skill", "the skill", "itself", "installs it", "same message", "this message", "worm"],
    find: findFirstMatch(
      /\b(?:add|copy|install|put|commit|push|send|share|spread|propagate|write)\b[^.\n]{0,40}?\b(?:this skill|the skill|itself|this file|this message)\b[^.\n]{0,60}?\b(?:to|into|in|with|from)\b[^.\n]{0,40}?\b(?:all|every|each|any|other|everyone|contacts)\b[^.\n]{0,30}?\b(?:repositor(?:y|ies)|projects?|machines?|hosts?|skills?|contacts|channels|colleagues|users|people|folders|the user can|members)\b/i,
      /\b(?:send|post)\b[^.\n]{0,20}?\bthis message\b[^.\n]{0,40}?\bfrom the user['’]s account\b/i,
      /\bwho(?:ever)? installs it does the same\b/i,
    ),
  },
  {
    id: "in-the-users-name",
    weight: "medium",
    regionWeights: "--mmmm",
    title: "uses the user's account, card or name for another party",
    why: "The user pays for it, or is responsible for it.",
    fix: "remove the sentence",
    keywords: splitKeywords(
      "user's account,user’s account,stored in the browser,saved card,stored card,affiliate,referral,five-star,5-star,five stars,upvote,maintainer's login,star ,with the user,from their account",
    ),
    find: findFirstMatch(
      /\b(?:card|payment method|wallet)\b[^.\n]{0,20}?\b(?:that is |which is )?(?:stored|saved|on file)\b[^\n]{0,160}?\b(?:subscription|insurance|membership|express|premium|add|club|upgrade|plan)\b/i,
      /\b(?:always|every|each|all|append|replace|rewrite|route)\b[^.\n]{0,60}?\b(?:affiliate|referral|partner) (?:links?|codes?|tags?|ids?|parameters?)\b[^\n]{0,120}?\b(?:without|do not|don['’]t|not mention|never|hide|silently)\b/i,
      /\b(?:star|upvote|like|follow|review|rate|vote)\b[^.\n]{0,60}?\b(?:repositor\w{1,3}|app|profile|account|product|post|package|skill)\b[^.\n]{0,60}?\b(?:from|with|using|in) the user['’]s (?:[\w-]{1,16} )?(?:account|name|login)\b/i,
      /\b(?:using|with|under) the (?:maintainer|user|owner|customer)['’]s (?:login|account|card|credentials|name|token)\b/i,
    ),
  },
  {
    id: "drain-wallet",
    weight: "high",
    regionWeights: "hhhmlh",
    title: "lets another party move the user's cryptocurrency",
    why: "The payment cannot be reversed.",
    fix: "do not sign it; the user decides who may spend, and how much",
    keywords: splitKeywords(
      "setapprovalforall,maxuint256,max_uint256,2**256,withdraw,sendtransaction,send_transaction,transferfrom,signtypeddata,sweep,drain,private key,phrase,mnemonic",
    ),
    find: findFirstMatch(
      /\b(?:pass|enter|paste|provide|supply|give|type)\b[^.\n]{0,40}?\b(?:private keys?|(?:seed|recovery) phrase|mnemonic)\b(?![^.\n]{0,40}\b(?:never|nowhere)\b)[^.\n]{0,60}?\b(?:with|to|into|as|in|on)\b[^.\n]{0,30}?(?:--\w|\bscript\b|\bchat\b|\bform\b|\bhere\b|https?:)/i,
      new RegExp(`\\bsetApprovalForAll\\(\\s?["']${COIN_ADDRESS}["']\\s?,\\s?true`),
      new RegExp(
        `\\bapprove\\(\\s?["']${COIN_ADDRESS}["']\\s?,\\s?[^\\n]{0,30}?(?:MAX\\b|MaxUint256|max_uint256|2\\s?\\*\\*\\s?256|0xf{16,})`,
        "i",
      ),
      new RegExp(
        `\\b(?:withdraw\\w{0,12}|sweep\\w{0,12})\\b[^\\n]{0,200}?\\b(?:address|to|recipient|destination)["']?\\s?[:=]\\s?["']${COIN_ADDRESS}["']`,
        "i",
      ),
    ),
  },
  {
    id: "published-secrets",
    weight: "high",
    regionWeights: "--hhhh",
    title: "publishes private files or variables where others can read them",
    why: "A publication cannot be undone.",
    fix: "remove the sentence",
    keywords: ["printenv", "_history", ".env", ".ssh", ".aws", "npmrc", "netrc", "environment variables"],
    find: findFirstMatch(
      /\b(?:reports?|issues?|comments?|gists?|pull requests?|tickets?|forum posts?|bugs?|public \w{1,20})\b[^.\n]{0,160}?\b(?:has|have|with|contains?|includes?|output of|contents? of|values of)\b[^.\n]{0,60}?(?:\x60(?:printenv|env)\x60|~\/\.(?:zsh|bash)_history|\x60\.env\x60|~\/\.(?:ssh|aws|npmrc|netrc))/i,
      /(?:\x60(?:printenv|env)\x60|~\/\.(?:zsh|bash)_history|\x60\.env\x60|~\/\.(?:ssh|aws|npmrc|netrc)\S{0,20})[^.\n]{0,60}?\b(?:include|add|paste|put|append|attach)\b[^.\n]{0,30}?\b(?:its|the|their|all)\b[^.\n]{0,20}?\b(?:values?|contents?|output)\b[^.\n]{0,30}?\b(?:comment|issue|pull request|report|commit|gist)\b/i,
    ),
  },
  {
    id: "foreign-member",
    weight: "high",
    regionWeights: "hhhmlh",
    title: "gives another party's account permissions for the user's resources",
    why: "The owner of that account can then change or take everything there.",
    fix: "do not run it, and look for the account in the settings",
    keywords: splitKeywords(
      "collaborators/,add-iam-policy,attach-user-policy,cluster-admin,create-access-key,addcollaborator,deploy key,share the,forwards,sync account",
    ),
    find: findFirstMatch(
      /\bcollaborators\/[\w-]{2,40}\b[^\n]{0,80}?permission[=:]\s?["']?(?:admin|push|maintain|write)/,
      /\badd-iam-policy-binding\b[^\n]{0,120}?--member[ =]["']?(?:user|serviceAccount):[\w.+-]{1,60}@(?!\$|example)[\w.-]{3,80}[^\n]{0,80}?roles\/(?:owner|editor)/,
      /\b(?:share|forwards?|sign)\b[^.\n]{0,80}?\b(?:calendar|folder|drive|inbox|messages?|mails?|document|browser)\b[^.\n]{0,80}?\b(?:with|to|account)\b[^.\n]{0,20}?\x60?[\w.+-]{1,60}@(?!example\.|(?:your|company|team)\b)[\w-]{2,60}\.[\w.]{2,30}/i,
    ),
  },
  {
    id: "swap-address",
    weight: "high",
    regionWeights: "hhhhlh",
    title: "replaces an account or address with another one",
    why: "Payments then go to another recipient.",
    fix: "do not use it, and check where the last payments went",
    keywords: splitKeywords(
      "iban,bank account,account number,wallet address,payment address,crypto address,bitcoin address,clipboard,payee,deposit address",
    ),
    find: findFirstMatch(
      /\b(?:replace|swap|exchange|substitute|overwrite|change)\b[^.\n]{0,80}?\b(?:ibans?|bank (?:account|details)|account numbers?|(?:wallet|payment|crypto|bitcoin|deposit|ethereum|recipient) address(?:es)?|payees?)\b[^.\n]{0,60}?\b(?:with|by|to|for)\b[^.\n]{0,30}?(?:\bour\b|\bthe following\b|\bthis\b|`|0x|bc1|[A-Z]{2}\d{2})/i,
      /\b(?:always|instead)\b[^.\n]{0,30}?\b(?:use|insert|print|put|give)\b[^.\n]{0,30}?\b(?:iban|account|wallet|address|payee)\b[^.\n]{0,12}?(?:\x60?[A-Z]{2}\d{2}[ \d]|\x60?0x[0-9a-fA-F]{8}|\x60?bc1)/i,
      new RegExp(
        `(?:re\\.sub|\\.replace|-replace|gsub)\\b[^\\n]{0,120}?(?:0x\\[|bc1|\\[13\\]|\\{25,|\\{40\\})[^\\n]{0,120}?["']${COIN_ADDRESS}["']`,
      ),
    ),
  },
];

const ASKS_FOR =
  /\b(?:ask|request|collect|obtain|get|require|prompt|need)\w{0,3}\b[^.\n]{0,60}?\b(?:users?|employees?|customers?|child|person|people|them|him|her|caller|guest|patient|applicant|visitor)\b[^.\n]{0,60}?\bfor\b|\bask\b[^.\n]{0,80}?\bfor\b[^.\n]{0,20}?\b(?:full name|password|passport|private)/i;
const IDENTITY_FACTS: readonly RegExp[] = [
  /\bpasswords?\b/i,
  /\bauthenticator\b|\b(?:one-time|verification|2fa|mfa|sms|backup|recovery) codes?\b/i,
  /\bpassport\b|\bid card\b|\bdriver['’]?s? licen[sc]e\b|\bsocial security\b/i,
  /\b(?:bank|credit|debit) cards?\b|\bcard number\b|\bcvv\b|\bpin\b(?! (?:the|a|to|version))|\biban\b/i,
  /\b(?:seed|recovery) phrase\b|\b(?:12|24)(?: or 24)? words\b|\bprivate keys?\b/i,
  /\bmother['’]s maiden\b|\bsecurity questions?\b|\bdate of birth\b/i,
  /\bhome address\b|\baddress\b[^.\n]{0,40}?\bphotos?\b|\bwhen the parents\b|\bschool\b[^.\n]{0,30}?\baddress\b/i,
];
