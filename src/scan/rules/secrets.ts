import { type Found, first, type PageRule, type TextRule } from "../rule.ts";

/** Files that hold nothing but what nobody else may have. */
const KEYS =
  /(?:\.ssh['"]?\s{0,2}[/\\,]?\s{0,2}['"]?(?:id_(?:rsa|dsa|ecdsa|ed25519)\b(?!\.pub|\.\w{1,4}\b)|id_\*|\*)|\.aws['"]?\s{0,2}[/\\,]?\s{0,2}['"]?credentials\b|(?:~|\$HOME|home|\/root)[^\s]{0,40}\.netrc\b|\.git-credentials\b|\.gnupg\/(?:private|secring)|\/etc\/(?:g?shadow)\b|\/proc\/[^\s/]{1,20}\/environ\b|login\.keychain|Login\\? Data\b|(?:Chrome|Chromium|Firefox|Brave|Edge|Profiles?|Default)[^\n]{0,60}?\b[Cc]ookies(?:\.sqlite)?\b|\bkey4\.db\b|\blogins\.json\b|\.config\/solana\/id\.json|\bwallet\.dat\b|\.ethereum\/keystore|\.electrum\b|application_default_credentials\.json|\bgcloud\/(?:credentials|access_tokens)\.db)/;
/** Files that hold such things beside others. */
const SETTINGS =
  /(?:\.npmrc\b|\.pypirc\b|\.docker\/config\.json|\.kube\/config\b|\.config\/gh\/hosts\.yml|\.(?:bash|zsh)_history\b|(?:^|[\s"'@/<=(])\.env(?:\.(?:local|production|prod))?(?=$|[\s"')|;]))/;
/** What no program but its own has a use for. */
const STORES = /Login\\? Data|[Cc]ookies|key4\.db|logins\.json|wallet\.dat|keystore/;
const FOLDERS =
  /(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32})\/\.(?:ssh|aws|gnupg|kube|config|mozilla|password-store)\/?(?=[\s"')|;]|$)/;
const READERS =
  /\b(?:cat|less|more|head|tail|cp|mv|tar|zip|base64|xxd|strings|grep|awk|tee|type|openssl|gc|get-content|copy-item|open|read_text|read_bytes|readfile(?:sync)?|read|connect|copyfile|security|tr|sed|rsync|scp)\b|<\s/i;
/** What a key is used as, rather than read. */
const IDENTITY =
  /(?:\s-i\s{1,3}|--(?:key|cert|cacert|private-key|identity|netrc-file|kubeconfig|env-file)[ =]|IdentityFile[ =]|ssh-(?:add|keygen)[^\n;|]{0,60}?)["']?[^\s"']{1,120}/g;

const SENDS =
  /\bcurl\b[^\n]{0,300}?(?:\s-(?:d|F|T)\b|\s-\w{0,6}[dFT]\s|--data|--form|--upload-file|--json|-X\s{0,2}(?:POST|PUT)|\?\w{0,20}=?[^\s]{0,60}\$\()|\bwget\b[^\n]{0,300}?(?:--post|--body|\$\()|(?:\||^|[;&]\s{0,2})\s{0,3}n(?:c|cat|etcat)\s|\b(?:scp|sftp)\s|\brsync\b[^\n]{0,200}\w:|\b(?:requests|httpx|session|client|axios)\.(?:post|put|patch|request)\(|urlopen\([^\n]{0,200}?data\s?=|fetch\([^\n]{0,300}?method["']?\s?:\s?["'](?:POST|PUT)|sendBeacon\(|Invoke-(?:WebRequest|RestMethod)[^\n]{0,200}?-(?:Body|InFile)|\bftp\s|\bgh gist create\b|\brclone\s{1,3}(?:copy|sync|move)|\baws s3 (?:cp|mv|sync)\b|\bgsutil\s{1,3}(?:-m\s{1,3})?cp\b|\bssh\s[^\n|;]{0,120}?<\s|\|\s{0,3}ssh\s|\|\s{0,3}(?:mail|mutt|sendmail)\b|fetch\([^\n]{0,200}?\$\{[^\n]{0,80}?(?:readFile|process\.env\s?[)}])|openssl s_client|>\s{0,2}\/dev\/tcp\/|\b(?:nslookup|dig|host|ping)\b[^\n]{0,60}?(?:\$\(|`)/i;
const ENVIRONMENT =
  /(?:^|[\s;&|("'`])(?:env|printenv|export -p|set)\s{0,3}(?:\||>|\)|$)|dict\(\s?os\.environ\s?\)|json\.dumps\([^\n]{0,30}os\.environ|JSON\.stringify\(\s?process\.env\s?\)|Object\.entries\(process\.env\)|Get-ChildItem env:/;
const TAKEN =
  /(?:@|\bcat\s{1,3}(?:-\w\s)?|<\s{0,2}|\bbase64\s{1,3}(?:-\w\d{0,2}\s{1,3})?|\bscp\b[^\n]{0,120}?\s|\btar\b[^\n]{0,120}?\s|(?:open|read_text|read_bytes|readFile(?:Sync)?|Path)\(\s?['"])["'~/$\w{}.]{0,40}/;

function secretIn(text: string): Found | undefined {
  const own = text.replace(IDENTITY, (used) => " ".repeat(used.length));
  const key = KEYS.exec(own) ?? FOLDERS.exec(own);
  if (key) return { index: key.index, length: key[0].length };
  const settings = SETTINGS.exec(own);
  if (settings && TAKEN.test(own.slice(Math.max(0, settings.index - 80), settings.index + 2)))
    return { index: settings.index, length: settings[0].length };
  const environment = ENVIRONMENT.exec(own);
  return environment ? { index: environment.index, length: environment[0].length } : undefined;
}

const PATH_WORDS = [
  ".ssh",
  ".aws",
  "netrc",
  "git-credentials",
  ".gnupg",
  "/etc/shadow",
  "/etc/gshadow",
  "/environ",
  "keychain",
  "login data",
  "login\\ data",
  "cookies",
  "key4.db",
  "logins.json",
  "solana",
  "wallet.dat",
  "ethereum",
  "electrum",
  "gcloud/",
  "application_default",
];
const SETTING_WORDS = ["npmrc", "pypirc", ".docker/", ".kube/", "gh/hosts", "_history", ".env"];
const ENVIRONMENT_WORDS = ["env |", "env|", "printenv", "export -p", "set |", "set|", "os.environ", ".env", "env:"];

export const SECRET_RULES: readonly TextRule[] = [
  {
    id: "send-secrets",
    weight: "high",
    weigh: "hhhhlh",
    title: "sends keys, credentials or the environment to somewhere",
    why: "Whoever receives them can do what the user can do.",
    fix: "do not use it unless you know the receiver and why it needs them",
    words: [...PATH_WORDS, ...SETTING_WORDS, ...ENVIRONMENT_WORDS, "169.254.169.254"],
    find(text) {
      const secret = secretIn(text);
      return secret && SENDS.test(text.replace(IDENTITY, "")) ? secret : undefined;
    },
  },
  {
    id: "ask-for-secrets",
    weight: "high",
    weigh: "--hhhh",
    title: "has the model hand over secrets or the conversation",
    why: "A model does what a skill says with all that it has seen.",
    fix: "take the sentence out, or do not use the skill",
    words: [
      ...["to http", "to `http", "at http", "at `http", "into http", "into `http"],
      ...["send it to", "send them to", "mail it to", "mail them to", "forward it to", "forward them to"],
    ],
    find: first(
      /\b(?:send|posts?|upload|transmit|forward|submit|exfiltrate|append)\b[^.\n]{0,100}?(?:\bconversation\b|chat history|system prompt|private keys?|user'?s passwords?|environment variables|\.env\b|its contents?\b)[^\n]{0,60}?\b(?:to|at|into)\s{1,2}`?https?:\/\/[^\s)`]{1,120}/i,
      /(?:~\/\.(?:ssh|aws|gnupg|netrc|npmrc|config|kube)|\.env\b|id_rsa|\b(?:API|private) keys?|passwords)[^\n]{0,160}?\b(?:send|e?mail|forward) (?:it|them)\b[^.\n]{0,20}?\bto\s{1,2}`?[\w.+-]{1,60}@[\w.-]{1,60}/i,
      /(?:~\/\.(?:ssh|aws|gnupg|netrc|npmrc|config|kube)|\.env\b|id_rsa|\bcredentials\b)[^\n]{0,100}?\b(?:send|post|upload|transmit|forward|submit)\b[^.\n]{0,80}?\bto\s{1,2}`?https?:\/\/[^\s)`]{1,120}/i,
    ),
  },
  {
    id: "credential-read",
    weight: "medium",
    weigh: "mml---",
    title: "reads a file that holds keys or passwords",
    why: "A skill that needs access gets a key of its own; it has no business in those of others.",
    fix: "ask what it needs the file for; give it a key of its own in place of it",
    words: PATH_WORDS,
    find(text) {
      const own = text.replace(IDENTITY, (used) => " ".repeat(used.length));
      const key = KEYS.exec(own);
      return key && (READERS.test(own) || STORES.test(key[0])) && !isTalk(own, key.index)
        ? { index: key.index, length: key[0].length }
        : undefined;
    },
  },
  {
    id: "credential-folder",
    weight: "medium",
    weigh: "mml---",
    title: "packs up or copies a folder of keys",
    why: "It is then somewhere else, where nobody looks after it.",
    fix: "ask what it needs the folder for",
    words: [
      "id_rsa",
      "*.pem",
      "*.key",
      "*.kdbx",
      "/.ssh",
      "/.aws",
      "/.gnupg",
      "/.kube",
      "/.password-store",
      "/.mozilla",
    ],
    find: first(
      /(?:\b(?:tar|zip|7z)\s[^\n;|]{0,160}?|\bcp\s{1,3}-\w{0,4}[ra]\w{0,4}\s{1,3}["']?)(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32})\/\.(?:ssh|aws|gnupg|kube|password-store|mozilla)\/?(?=[\s"']|$)/,
      /\bfind\s[^\n|]{0,160}?(?:id_rsa|\*\.pem|\*\.key|\*\.kdbx)[^\n]{0,80}?(?:\bxargs\b|-exec\b)[^\n]{0,20}?\b(?:tar|zip|cp|cat|curl|scp|mv|base64)\b/,
    ),
  },
  {
    id: "keychain-read",
    weight: "medium",
    weigh: "mml---",
    title: "takes passwords out of the system's keychain",
    why: "All programs of the user keep theirs there.",
    fix: "ask which entry it needs, and why",
    words: [
      "dump-keychain",
      "find-generic-password",
      "find-internet-password",
      "secret-tool",
      "cryptunprotectdata",
      "vaultcmd",
      "mimikatz",
    ],
    find: first(
      /\bsecurity\s{1,3}(?:dump-keychain|find-(?:generic|internet)-password[^\n]{0,60}?(?:Chrome|Safari|Firefox|Brave|login))[^\n]{0,80}|secret-tool\s{1,3}search\s{1,3}--all|CryptUnprotectData|\bmimikatz\b|vaultcmd\s{1,3}\/list/i,
    ),
  },
  {
    id: "settings-read",
    weight: "medium",
    weigh: "ml----",
    title: "reads a file of settings for the tokens in it",
    why: "Tokens of package registries and clusters let others publish and deploy in the user's name.",
    fix: "ask what it needs the file for",
    words: SETTING_WORDS,
    find: first(
      /\b(?:cat|grep|awk|sed|tee|cp|base64|open|readfile(?:sync)?|get-content)\b[^\n|;]{0,80}?(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32})\/\.(?:npmrc|pypirc|docker\/config\.json|kube\/config|config\/gh\/hosts\.yml|(?:bash|zsh)_history)\b/i,
    ),
  },
  {
    id: "credential-path",
    weight: "low",
    weigh: "llllll",
    title: "names a place where keys or passwords are kept",
    why: "Often for good reasons; look what it does there.",
    fix: "read the lines around it",
    words: PATH_WORDS,
    find(text) {
      const found = KEYS.exec(text) ?? FOLDERS.exec(text);
      return found ? { index: found.index, length: found[0].length } : undefined;
    },
    heedsMentions: false,
  },
  {
    id: "cloud-metadata",
    weight: "medium",
    weigh: "mmllll",
    title: "asks a cloud machine for its credentials",
    why: "What is answered there gives access to the account that the machine runs in.",
    fix: "use the provider's own tools with a role of its own",
    words: ["169.254.169.254", "metadata.google.internal", "169.254.170.2", "fd00:ec2::254"],
    find: first(
      /(?:169\.254\.169\.254|metadata\.google\.internal|169\.254\.170\.2)[^\s"'`]{0,120}?(?:security-credentials|service-accounts\/[\w@.-]{1,60}\/token|identity\/oauth2\/token|user-data)/i,
    ),
  },
];

/** A list of names, a pattern, or a message that only names the path. */
function isTalk(text: string, index: number): boolean {
  return /\b(?:echo|printf|print|warn|console\.\w{1,6}|re\.compile|pattern)\b[^\n]{0,60}$/i.test(
    text.slice(Math.max(0, index - 80), index),
  );
}

export const SECRET_PAGE_RULES: readonly PageRule[] = [
  {
    id: "read-and-send",
    weight: "high",
    title: "reads keys, credentials or the whole environment, and sends something",
    why: "The two together are what a theft looks like, whatever stands between them.",
    fix: "follow what is read to where it goes before you use it",
    all: [
      [
        ...PATH_WORDS,
        ...ENVIRONMENT_WORDS,
        "169.254.169.254",
        "*.pem",
        "*.key",
        "*.kdbx",
        "pbpaste",
        "xclip",
        "get-clipboard",
      ],
      [
        "curl",
        "wget",
        ".post(",
        ".put(",
        "urlopen",
        "fetch(",
        "http.request",
        "https.request",
        "sendbeacon",
        "socket",
        "invoke-",
        "smtp",
        " nc ",
        "scp ",
      ],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const isCode = (line: number) => page.placeAt(line) === "code";
      const reads = page.lines.findIndex((line, at) => isCode(at) && isRead(line.slice(0, 1000)));
      if (reads === -1) return undefined;
      const sends = page.lines.some(
        (line, at) => isCode(at) && SENDING.test(line.slice(0, 1000).replace(IDENTITY, "")),
      );
      return sends ? { line: reads, seen: page.lines[reads] ?? "" } : undefined;
    },
  },
];

const SENDING = new RegExp(
  `${SENDS.source}|https?\\.request\\(|method["']?\\s?:\\s?["']POST|\\bs(?:ock)?\\.send(?:all)?\\(|smtplib\\.SMTP|\\|\\s{0,3}curl\\b`,
  "i",
);

function isRead(line: string): boolean {
  const own = line.replace(IDENTITY, " ");
  if (
    /dict\(\s?os\.environ\s?\)|json\.dumps\([^\n]{0,30}os\.environ|JSON\.stringify\(\s?process\.env\s?\)|security-credentials|\b(?:pbpaste|xclip -o|Get-Clipboard)\b/.test(
      own,
    )
  )
    return true;
  if (/\.home\(\)[^\n]{0,20}['"]\.(?:ssh|aws|gnupg)['"]/.test(own)) return !/['"]config['"]/.test(own);
  if (/\b(?:data|json|body|params)\s?[=:]\s?(?:dict\()?\s?(?:os\.environ|process\.env)\s?[,)}]/.test(own)) return true;
  if (/\.home\(\)[^\n]{0,20}\.r?glob\(["'][^"'\n]{0,20}(?:\.pem|\.key|id_|\.kdbx)/.test(own)) return true;
  if (/\b(?:tar|zip|7z|cp)\s/.test(own) && FOLDERS.test(own)) return true;
  return KEYS.test(own) && !isTalk(own, own.search(KEYS));
}
