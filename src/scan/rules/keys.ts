/** Files that hold nothing but what nobody else may have. */
export const KEYS =
  /(?:\.ssh['"]?\s{0,2}[/\\,]?\s{0,2}['"]?(?:id_(?:rsa|dsa|ecdsa|ed25519)\b(?!\.pub|\.\w{1,4}\b)|id_\*(?!\.pub)|\*(?!\.pub))|\.aws['"]?\s{0,2}[/\\,]?\s{0,2}['"]?credentials\b|(?:~|\$HOME|home|\/root)[^\s]{0,40}\.netrc\b|\.git-credentials\b|\.gnupg\/(?:private|secring)|\/etc\/(?:g?shadow)\b|\/proc\/[^\s/]{1,20}\/environ\b|login\.keychain|Login\\? Data\b|(?:Chrome|Chromium|Firefox|Brave|Edge|Profiles?|Default)[^\n]{0,60}?\b[Cc]ookies(?:\.sqlite)?\b|\bkey4\.db\b|\blogins\.json\b|\.config\/solana\/id\.json|\bwallet\.dat\b|\.ethereum\/keystore|\.electrum\b|application_default_credentials\.json|\bgcloud\/(?:credentials|access_tokens)\.db|\.claude\/\.credentials\.json|\.codex\/auth\.json|\.gemini\/oauth_creds\.json|\.(?:cargo|gem)\/credentials\b|\.terraform\.d\/credentials|\.vault-token\b|\.pgpass\b|kubernetes\.io\/serviceaccount\/token\b|\.azure\/(?:msal_token_cache|accessTokens))/;
/** Files that hold such things beside others. */
export const SETTINGS =
  /(?:\.npmrc\b|\.pypirc\b|\.docker\/config\.json|\.kube\/config\b|\.config\/gh\/hosts\.yml|\.(?:bash|zsh)_history\b|(?:^|[\s"'@/<=(])\.env(?:\.(?:local|production|prod))?(?=$|[\s"')|;]))/;
/** What no program but its own has a use for. */
export const STORES = /Login\\? Data|[Cc]ookies|key4\.db|logins\.json|wallet\.dat|keystore/;
export const FOLDERS =
  /(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32})\/\.(?:ssh|aws|gnupg|kube|config|mozilla|password-store)\/?(?=[\s"')|;]|$)/;
export const READERS =
  /\b(?:cat|less|more|head|tail|cp|mv|tar|zip|base64|xxd|strings|grep|awk|tee|type|openssl|gc|get-content|copy-item|open|read_text|read_bytes|readfile(?:sync)?|read|connect|copyfile|security|tr|sed|rsync|scp)\b|<\s/i;
/** What a key is used as, rather than read. */
export const IDENTITY =
  /(?:\s-i\s{1,3}|--(?:key|cert|cacert|private-key|identity|netrc-file|kubeconfig|env-file)[ =]|IdentityFile[ =]|ssh-(?:add|keygen)[^\n;|]{0,60}?)["']?[^\s"']{1,120}/g;

export const SENDS =
  /\bcurl\b[^\n]{0,300}?(?:\s-(?:d|F|T)\b|\s-\w{0,6}[dFT]\s|--data|--form|--upload-file|--json|-X\s{0,2}(?:POST|PUT)|\?\w{0,20}=?[^\s]{0,60}\$\()|\bwget\b[^\n]{0,300}?(?:--post|--body|\$\()|(?:\||^|[;&]\s{0,2})\s{0,3}n(?:c|cat|etcat)\s|\b(?:scp|sftp)\s|\brsync\b[^\n]{0,200}\w:|\b(?:requests|httpx|session|client|axios)\.(?:post|put|patch|request)\(|urlopen\([^\n]{0,200}?data\s?=|fetch\([^\n]{0,300}?method["']?\s?:\s?["'](?:POST|PUT)|sendBeacon\(|Invoke-(?:WebRequest|RestMethod)[^\n]{0,200}?-(?:Body|InFile)|\bftp\s|\bgh gist create\b|\brclone\s{1,3}(?:copy|sync|move)|\baws s3 (?:cp|mv|sync)\b|\bgsutil\s{1,3}(?:-m\s{1,3})?cp\b|\bssh\s[^\n|;]{0,120}?<\s|\|\s{0,3}ssh\s|\|\s{0,3}(?:mail|mutt|sendmail)\b|fetch\([^\n]{0,200}?\$\{[^\n]{0,80}?(?:readFile|process\.env\s?[)}])|openssl s_client|>\s{0,2}\/dev\/tcp\/|\b(?:nslookup|dig|host|ping)\b[^\n]{0,60}?(?:\$\(|`)/i;
export const ENVIRONMENT =
  /(?:^|[\s;&|("'`])(?:env|printenv|export -p|set)\s{0,3}(?:\||>|\)|$)|dict\(\s?os\.environ\s?\)|json\.dumps\([^\n]{0,30}os\.environ|JSON\.stringify\(\s?process\.env\s?\)|Object\.entries\(process\.env\)|Get-ChildItem env:/;
export const TAKEN =
  /(?:@|\bcat\s{1,3}(?:-\w\s)?|<\s{0,2}|\bbase64\s{1,3}(?:-\w\d{0,2}\s{1,3})?|\bscp\b[^\n]{0,120}?\s|\btar\b[^\n]{0,120}?\s|(?:open|read_text|read_bytes|readFile(?:Sync)?|Path)\(\s?['"])["'~/$\w{}.]{0,40}/;

export const PATH_WORDS = [
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
  ...[
    ".claude/.cred",
    "codex/auth",
    "oauth_creds",
    "/credentials",
    "vault-token",
    ".pgpass",
    "serviceaccount/token",
    ".azure/",
  ],
];
export const SETTING_WORDS = ["npmrc", "pypirc", ".docker/", ".kube/", "gh/hosts", "_history", ".env"];
export const ENVIRONMENT_WORDS = [
  "env |",
  "env|",
  "printenv",
  "export -p",
  "set |",
  "set|",
  "os.environ",
  ".env",
  "env:",
];

/** A list of names, a pattern, or a message that only names the path. */
export function isTalk(text: string, index: number): boolean {
  return /\b(?:echo|printf|print|warn|console\.\w{1,6}|re\.compile|pattern)\b[^\n]{0,60}$/i.test(
    text.slice(Math.max(0, index - 80), index),
  );
}
