import { findFirstMatch, type MatchSpan, type TextRule } from "../rule.ts";

function findSentSecret(text: string): MatchSpan | undefined {
  const own = text.replace(KEY_OPTIONS, (used) => " ".repeat(used.length));
  const key = CREDENTIAL_FILES.exec(own) ?? CREDENTIAL_FOLDERS.exec(own);
  if (key) return { index: key.index, length: key[0].length };
  const settings = CREDENTIAL_SETTINGS.exec(own);
  if (settings && TAKEN_FILE.test(own.slice(Math.max(0, settings.index - 80), settings.index + 2)))
    return { index: settings.index, length: settings[0].length };
  const environment = ENVIRONMENT_DUMP.exec(own);
  return environment ? { index: environment.index, length: environment[0].length } : undefined;
}

export const CREDENTIAL_PATH_WORDS = [
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
const CREDENTIAL_SETTING_WORDS = ["npmrc", "pypirc", ".docker/", ".kube/", "gh/hosts", "_history", ".env"];
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

export const CREDENTIAL_ACCESS_RULES: readonly TextRule[] = [
  {
    id: "send-secrets",
    weight: "high",
    regionWeights: "hhhhlh",
    title: "sends keys, credentials or the environment to another host",
    why: "The recipient can then do everything that the user can do.",
    fix: "do not use it unless you know the recipient and why it needs them",
    keywords: [...CREDENTIAL_PATH_WORDS, ...CREDENTIAL_SETTING_WORDS, ...ENVIRONMENT_WORDS, "169.254.169.254"],
    find(text) {
      const secret = findSentSecret(text);
      return secret && SEND_COMMANDS.test(text.replace(KEY_OPTIONS, "")) ? secret : undefined;
    },
  },
  {
    id: "send-passwords",
    weight: "high",
    regionWeights: "hhllll",
    title: "sends a list of passwords",
    why: "The recipient can sign in to all those accounts.",
    fix: "do not use it; compare passwords locally",
    keywords: ["password"],
    find: findFirstMatch(
      /\b(?:json|data|body|params)\s?[=:]\s?[^\n]{0,100}?\[["']password["']\][^\n]{0,60}?\bfor\s{1,3}\w{1,20}\s{1,3}in\b|\b(?:rows|entries|logins|accounts|items)\.map\([^\n]{0,80}?\.password\b[^\n]{0,80}?(?:fetch|post|body)/,
    ),
  },
  {
    id: "credential-read",
    weight: "medium",
    regionWeights: "mml---",
    title: "reads a file that holds keys or passwords",
    why: "A skill that needs access should get its own key, not read those of other programs.",
    fix: "ask why it needs the file; give the skill its own key instead",
    keywords: CREDENTIAL_PATH_WORDS,
    find(text) {
      const own = text.replace(KEY_OPTIONS, (used) => " ".repeat(used.length));
      const key = CREDENTIAL_FILES.exec(own);
      return key && (READ_COMMANDS.test(own) || CREDENTIAL_STORES.test(key[0])) && !isOnlyNamed(own, key.index)
        ? { index: key.index, length: key[0].length }
        : undefined;
    },
  },
  {
    id: "credential-folder",
    weight: "medium",
    regionWeights: "mml---",
    title: "packs or copies a folder of keys",
    why: "The copy is outside of the protection of the original.",
    fix: "ask why it needs the folder",
    keywords: [
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
    find: findFirstMatch(
      /(?:\b(?:tar|zip|7z)\s[^\n;|]{0,160}?|\bcp\s{1,3}-\w{0,4}[ra]\w{0,4}\s{1,3}["']?)(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32})\/\.(?:ssh|aws|gnupg|kube|password-store|mozilla)\/?(?=[\s"']|$)/,
      /\bfind\s[^\n|]{0,160}?(?:id_rsa|\*\.pem|\*\.key|\*\.kdbx)[^\n]{0,80}?(?:\bxargs\b|-exec\b)[^\n]{0,20}?\b(?:tar|zip|cp|cat|curl|scp|mv|base64)\b/,
    ),
  },
  {
    id: "keychain-read",
    weight: "medium",
    regionWeights: "mml---",
    title: "reads passwords from the system's keychain",
    why: "All programs of the user store their passwords there.",
    fix: "ask which entry it needs, and why",
    keywords: [
      "dump-keychain",
      "find-generic-password",
      "find-internet-password",
      "secret-tool",
      "cryptunprotectdata",
      "vaultcmd",
      "mimikatz",
      ...["git credential", "docker-credential", "aws configure get", "export-secret-key"],
    ],
    find: findFirstMatch(
      /\bgit\s{1,3}credential(?:-\w{1,20})?\s{1,3}(?:fill|get)\b|\bdocker-credential-\w{1,20}\s{1,3}get\b|\baws configure get \w{0,20}secret|--export-secret-keys?\b/,
      /\bsecurity\s{1,3}(?:dump-keychain|find-(?:generic|internet)-password[^\n]{0,60}?(?:Chrome|Safari|Firefox|Brave|login))[^\n]{0,80}|secret-tool\s{1,3}search\s{1,3}--all|CryptUnprotectData|\bmimikatz\b|vaultcmd\s{1,3}\/list/i,
    ),
  },
  {
    id: "settings-read",
    weight: "medium",
    regionWeights: "ml----",
    title: "reads a settings file that contains tokens",
    why: "Tokens of package registries and clusters allow others to publish and deploy in the user's name.",
    fix: "ask why it needs the file",
    keywords: CREDENTIAL_SETTING_WORDS,
    find: findFirstMatch(
      /\b(?:cat|grep|awk|sed|tee|cp|base64|open|readfile(?:sync)?|get-content)\b[^\n|;]{0,80}?(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32})\/\.(?:npmrc|pypirc|docker\/config\.json|kube\/config|config\/gh\/hosts\.yml|(?:bash|zsh)_history)\b/i,
    ),
  },
  {
    id: "credential-path",
    weight: "low",
    regionWeights: "llllll",
    title: "names a path where keys or passwords are stored",
    why: "Often legitimate; check what it does there.",
    fix: "read the surrounding lines",
    keywords: CREDENTIAL_PATH_WORDS,
    find(text) {
      const found = CREDENTIAL_FILES.exec(text) ?? CREDENTIAL_FOLDERS.exec(text);
      return found ? { index: found.index, length: found[0].length } : undefined;
    },
    skipsMentions: false,
  },
  {
    id: "cloud-metadata",
    weight: "medium",
    regionWeights: "mmllll",
    title: "requests credentials from a cloud metadata service",
    why: "They give access to the account that the machine runs in.",
    fix: "use the provider's own tools with a dedicated role",
    keywords: [
      "169.254.1",
      "metadata.google.internal",
      "security-credentials",
      "100.100.100.200",
      "container_credentials",
      "computemetadata",
      "identity/oauth2",
    ],
    find: findFirstMatch(
      /\biam\/security-credentials\b|computeMetadata\/v1\/[^\s"'`]{0,80}\/(?:token|identity|ssh-keys)\b|metadata\/identity\/oauth2\/token|(?:169\.254\.170\.2|100\.100\.100\.200)[^\n]{0,80}?(?:CREDENTIALS|ram\/security)|AWS_CONTAINER_CREDENTIALS_(?:RELATIVE|FULL)_URI[^\n]{0,60}?(?:curl|urlopen|fetch|requests)|(?:curl|urlopen|fetch|requests)[^\n]{0,80}?AWS_CONTAINER_CREDENTIALS/,
      /(?:169\.254\.169\.254|metadata\.google\.internal|169\.254\.170\.2)[^\s"'`]{0,120}?(?:security-credentials|service-accounts\/[\w@.-]{1,60}\/token|identity\/oauth2\/token|user-data)/i,
    ),
  },
];

/** Files that contain only secrets. */
export const CREDENTIAL_FILES =
  /(?:\.ssh['"]?\s{0,2}[/\\,]?\s{0,2}['"]?(?:id_(?:rsa|dsa|ecdsa|ed25519)\b(?!\.pub|\.\w{1,4}\b)|id_\*(?!\.pub)|\*(?!\.pub))|\.aws['"]?\s{0,2}[/\\,]?\s{0,2}['"]?credentials\b|(?:~|\$HOME|home|\/root)[^\s]{0,40}\.netrc\b|\.git-credentials\b|\.gnupg\/(?:private|secring)|\/etc\/(?:g?shadow)\b|\/proc\/[^\s/]{1,20}\/environ\b|login\.keychain|Login\\? Data\b|(?:Chrome|Chromium|Firefox|Brave|Edge|Profiles?|Default)[^\n]{0,60}?\b[Cc]ookies(?:\.sqlite)?\b|\bkey4\.db\b|\blogins\.json\b|\.config\/solana\/id\.json|\bwallet\.dat\b|\.ethereum\/keystore|\.electrum\b|application_default_credentials\.json|\bgcloud\/(?:credentials|access_tokens)\.db|\.claude\/\.credentials\.json|\.codex\/auth\.json|\.gemini\/oauth_creds\.json|\.(?:cargo|gem)\/credentials\b|\.terraform\.d\/credentials|\.vault-token\b|\.pgpass\b|kubernetes\.io\/serviceaccount\/token\b|\.azure\/(?:msal_token_cache|accessTokens))/;
/** Settings files that contain secrets among other values. */
const CREDENTIAL_SETTINGS =
  /(?:\.npmrc\b|\.pypirc\b|\.docker\/config\.json|\.kube\/config\b|\.config\/gh\/hosts\.yml|\.(?:bash|zsh)_history\b|(?:^|[\s"'@/<=(])\.env(?:\.(?:local|production|prod))?(?=$|[\s"')|;]))/;
/** Credential stores that only their own program needs to read. */
const CREDENTIAL_STORES = /Login\\? Data|[Cc]ookies|key4\.db|logins\.json|wallet\.dat|keystore/;
export const CREDENTIAL_FOLDERS =
  /(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32})\/\.(?:ssh|aws|gnupg|kube|config|mozilla|password-store)\/?(?=[\s"')|;]|$)/;
export const READ_COMMANDS =
  /\b(?:cat|less|more|head|tail|cp|mv|tar|zip|base64|xxd|strings|grep|awk|tee|type|openssl|gc|get-content|copy-item|open|read_text|read_bytes|readfile(?:sync)?|read|connect|copyfile|security|tr|sed|rsync|scp)\b|<\s/i;
/** Options that use a key, as opposed to reading it. */
export const KEY_OPTIONS =
  /(?:\s-i\s{1,3}|--(?:key|cert|cacert|private-key|identity|netrc-file|kubeconfig|env-file)[ =]|IdentityFile[ =]|ssh-(?:add|keygen)[^\n;|]{0,60}?)["']?[^\s"']{1,120}/g;

export const SEND_COMMANDS =
  /\bcurl\b[^\n]{0,300}?(?:\s-(?:d|F|T)\b|\s-\w{0,6}[dFT]\s|--data|--form|--upload-file|--json|-X\s{0,2}(?:POST|PUT)|\?\w{0,20}=?[^\s]{0,60}\$\()|\bwget\b[^\n]{0,300}?(?:--post|--body|\$\()|(?:\||^|[;&]\s{0,2})\s{0,3}n(?:c|cat|etcat)\s|\b(?:scp|sftp)\s|\brsync\b[^\n]{0,200}\w:|\b(?:requests|httpx|session|client|axios)\.(?:post|put|patch|request)\(|urlopen\([^\n]{0,200}?data\s?=|fetch\([^\n]{0,300}?method["']?\s?:\s?["'](?:POST|PUT)|sendBeacon\(|Invoke-(?:WebRequest|RestMethod)[^\n]{0,200}?-(?:Body|InFile)|\bftp\s|\bgh gist create\b|\brclone\s{1,3}(?:copy|sync|move)|\baws s3 (?:cp|mv|sync)\b|\bgsutil\s{1,3}(?:-m\s{1,3})?cp\b|\bssh\s[^\n|;]{0,120}?<\s|\|\s{0,3}ssh\s|\|\s{0,3}(?:mail|mutt|sendmail)\b|fetch\([^\n]{0,200}?\$\{[^\n]{0,80}?(?:readFile|process\.env\s?[)}])|openssl s_client|>\s{0,2}\/dev\/tcp\/|\b(?:nslookup|dig|host|ping)\b[^\n]{0,60}?(?:\$\(|`)/i;
const ENVIRONMENT_DUMP =
  /(?:^|[\s;&|("'`])(?:env|printenv|export -p|set)\s{0,3}(?:\||>|\)|$)|dict\(\s?os\.environ\s?\)|json\.dumps\([^\n]{0,30}os\.environ|JSON\.stringify\(\s?process\.env\s?\)|Object\.entries\(process\.env\)|Get-ChildItem env:/;
const TAKEN_FILE =
  /(?:@|\bcat\s{1,3}(?:-\w\s)?|<\s{0,2}|\bbase64\s{1,3}(?:-\w\d{0,2}\s{1,3})?|\bscp\b[^\n]{0,120}?\s|\btar\b[^\n]{0,120}?\s|(?:open|read_text|read_bytes|readFile(?:Sync)?|Path)\(\s?['"])["'~/$\w{}.]{0,40}/;

/** Returns true if the path is only named: in a list, a pattern or a message. */
export function isOnlyNamed(text: string, index: number): boolean {
  return /\b(?:echo|printf|print|warn|console\.\w{1,6}|re\.compile|pattern)\b[^\n]{0,60}$/i.test(
    text.slice(Math.max(0, index - 80), index),
  );
}
