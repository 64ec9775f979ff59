import { findFirstMatch, type MatchSpan, type SourceRule, splitKeywords, type TextRule } from "../rule.ts";
import type { SourceText } from "../source-text.ts";

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
export const ENVIRONMENT_WORDS = splitKeywords("env |,env|,printenv,export -p,set |,set|,os.environ,.env,env:");

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
    keywords: splitKeywords("id_rsa,*.pem,*.key,*.kdbx,/.ssh,/.aws,/.gnupg,/.kube,/.password-store,/.mozilla"),
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
    keywords: splitKeywords(
      "dump-keychain,find-generic-password,find-internet-password,secret-tool,cryptunprotectdata,vaultcmd,mimikatz,git credential,docker-credential,aws configure get,export-secret-key",
    ),
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
    keywords: splitKeywords(
      "169.254.1,metadata.google.internal,security-credentials,100.100.100.200,container_credentials,computemetadata,identity/oauth2",
    ),
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

/** Paths where programs and people store credentials, one pattern per group. */
const CREDENTIAL_PLACES: readonly RegExp[] = [
  /\.ssh(?:["']?\s{0,2}[/\\,]\s{0,2}["']?(?:id_|\*)(?![\w*]{0,20}\.pub\b)|\/?(?=["'\s)\]},]|$))|\bid_(?:rsa|ed25519|ecdsa)\b(?!\.pub)/,
  /\.aws(?:["']?\s{0,2}[/\\,]\s{0,2}["']?credentials|\/?(?=["'\s)\]},]|$))/,
  /\.(?:npmrc|yarnrc(?:\.yml)?|pypirc)\b|\.(?:cargo|gem)\/credentials/,
  /\.netrc\b|\.git-credentials\b|gh["']?\s{0,2}[/\\,]\s{0,2}["']?hosts\.yml/,
  /\.docker["']?\s{0,2}[/\\,]\s{0,2}["']?config\.json|\.kube["']?\s{0,2}[/\\,]\s{0,2}["']?config\b/,
  /\.gnupg\b|\.password-store\b|\.pgpass\b|\.my\.cnf\b|\.vault-token\b|\.kdbx\b/,
  /\.config["']?\s{0,2}[/\\,]\s{0,2}["']?gcloud\b|application_default_credentials|\.azure\b|\.terraform\.d\/credentials|rclone\.conf\b/,
  /Login\\? Data\b|\bkey4\.db\b|\blogins\.json\b|\b[Cc]ookies\.sqlite\b|Local Extension Settings|\bLocal State\b/,
  /\bwallet\.dat\b|\.electrum\b|\.config\/solana|\bkeystore\b|\b[Ee]xodus\b|\bnkbihfbeogaeaoehlefnkodbefgpgknn\b/,
  /\.(?:bash|zsh)_history\b|\.claude\/(?:history|projects)|\.claude\.json|\.claude\/\.credentials|\.codex\/auth\.json|\.gemini\/oauth/,
  /(?:^|[\s"'@/<=(*])\.env(?:\*|\.\w{1,12})?(?=$|[\s"')|;`,\]])/,
];
const READ_CALLS =
  /\b(?:cat|cp|tar|zip|7z|base64|rsync|scp|open|read_text|read_bytes|readfile(?:sync)?|copyfile|copytree|copy|get-content|copy-item|glob|for|read)\b|<\s/i;
/** Words of a rule that protects these paths, or searches them for leaked secrets. */
const GUARDING_WORDS =
  /\b(?:deny|denied|block(?:ed|list)?|forbid\w{0,5}|ignore|exclude|protect\w{0,3}|sensitive|refuse\w{0,2}|redact\w{0,3}|never|guard)\b/i;

/** Commands that print a secret. */
const SECRET_PRINTING_COMMANDS =
  /\bgh auth token\b|\bgcloud auth (?:application-default )?print-(?:access|identity)-token\b|\baws (?:configure export-credentials|sts get-session-token|secretsmanager get-secret-value|ssm get-parameters?\b[^\n]{0,80}--with-decryption)|\baz account get-access-token\b|\bkubectl get secrets?\b[^\n]{0,80}-o\s?(?:yaml|json)|\bgpg\b[^\n]{0,40}--export-secret-keys?\b|\bnpm token (?:list|create)\b|\bvault kv get\b|\bop (?:read|item get)\b|\bbw (?:get|export|list)\b|\bpass show\b|\bsecurity find-(?:generic|internet)-password\b|\bterraform (?:output -json|state pull)\b|\bheroku config\b|\bdoppler secrets\b/;
const HEADER_OPTIONS = /(?:-H|--header|-u|--user)[ =]?(?:"[^"\n]{0,300}"|'[^'\n]{0,300}')/g;
const SENDS_AWAY =
  /\bcurl\b|\bwget\b|(?:\||^|[;&]\s{0,2})\s{0,3}n(?:c|cat|etcat)\s|\bgh (?:gist|issue|pr) (?:create|comment)\b|\|\s{0,3}(?:mail|mutt|sendmail)\b|\b(?:scp|sftp)\s|\|\s{0,3}ssh\s/;

export const CREDENTIAL_COLLECTION_RULES: readonly TextRule[] = [
  {
    id: "several-secrets",
    weight: "high",
    regionWeights: "hhmmlh",
    title: "reads several kinds of keys at once",
    why: "A task needs the one key for its service. Reading all of them is typical of theft.",
    fix: "do not use it unless you know why it needs each of them",
    keywords: splitKeywords(
      "id_rsa,id_ed25519,credentials,.npmrc,.pypirc,.netrc,hosts.yml,.kube,.gnupg,.aws,.ssh,login data,wallet",
    ),
    find(text) {
      if (!READ_CALLS.test(text) || GUARDING_WORDS.test(text)) return undefined;
      const found = CREDENTIAL_PLACES.map((place) => place.exec(text)).filter((match) => match !== null);
      const [one] = found;
      return one && found.length >= 3 ? { index: one.index, length: one[0].length } : undefined;
    },
  },
  {
    id: "secret-command",
    weight: "high",
    regionWeights: "hhmmlh",
    title: "asks a tool for a secret and sends the result",
    why: "These commands print the user's credentials, which do not belong in any message.",
    fix: "do not use it unless you know the recipient and why it needs the secret",
    keywords: splitKeywords(
      "gh auth token,print-access-token,print-identity-token,export-credentials,get-session-token,get-secret-value,with-decryption,get-access-token,kubectl get secret,export-secret-key,npm token,vault kv get,op read,op item get,bw get,bw export,pass show,find-generic-password,find-internet-password,state pull,terraform output,heroku config,doppler secrets",
    ),
    find(text) {
      const own = text.replace(HEADER_OPTIONS, (header) => " ".repeat(header.length));
      const told = SECRET_PRINTING_COMMANDS.exec(own);
      return told && SENDS_AWAY.test(own) ? { index: told.index, length: told[0].length } : undefined;
    },
  },
  {
    id: "all-secrets",
    weight: "high",
    regionWeights: "hhmmmh",
    title: "reads all secrets of a repository at once",
    why: "A workflow names the secrets that it needs; one that reads all of them can leak them.",
    fix: "do not add it; name each secret where it is used",
    keywords: ["tojson(secrets", "tojson( secrets", "runner.worker", "actions_id_token_request_token"],
    find: findFirstMatch(
      /\$\{\{\s{0,3}toJSON\(\s?secrets\s?\)\s{0,3}\}\}/i,
      /Runner\.Worker[^\n]{0,120}?\/mem\b|\/proc\/[^\n]{0,40}\/mem\b[^\n]{0,80}?Runner\.Worker/,
    ),
  },
  {
    id: "memory-read",
    weight: "high",
    regionWeights: "hhllll",
    title: "reads the memory of other programs",
    why: "Memory contains keys and passwords in plain text.",
    fix: "do not use it",
    keywords: ["/mem", "gcore ", "minidump", "procdump", "lsass", "lazagne", "pypykatz"],
    find: findFirstMatch(
      /\/proc\/[^\s/"']{1,40}\/mem\b|\bcomsvcs\.dll\b[^\n]{0,40}MiniDump|\bprocdump\b[^\n]{0,60}lsass|\blazagne\b[^\n]{0,20}\ball\b|\bpypykatz\b/i,
    ),
  },
  {
    id: "hunts-secrets",
    weight: "high",
    regionWeights: "hhh-lh",
    title: "searches for secrets outside of its task",
    why: "A search through the home folder or the disk finds the keys of everything the user does.",
    fix: "limit the search to the project",
    keywords: [
      "trufflehog",
      "gitleaks",
      "grep -",
      "rg -",
      "find /",
      "find ~",
      "find $home",
      'find "$home',
      "browser_cookie3",
      "pycookiecheat",
      ...["env |", "env|", "set |"],
    ],
    find: findFirstMatch(
      /\b(?:trufflehog\s{1,3}filesystem|gitleaks\s[^\n]{0,60}?(?:--source|-s|dir))[ =]{1,3}["']?(?:\/(?=["'\s]|$)|~\/?(?=["'\s]|$)|\$\{?HOME\}?\/?(?=["'\s]|$))/,
      /\b(?:grep|rg)\s{1,3}-[^\n|;]{0,80}?(?:passw|secret|token|api[_-]?key|private key|AKIA|mnemonic|seed)[^\n|;]{0,80}?\s["']?(?:~\/?|\$\{?HOME\}?\/?|\/(?:home|Users|root)\/?)(?=["'\s*]|$)/i,
      /\bfind\s{1,3}["']?(?:\/|~\/?|\$\{?HOME\}?\/?|\/(?:home|Users|root)\/?)["']?\s[^\n]{0,160}?-i?name\s{1,3}["']?(?:\*?\.?(?:env|pem|key|kdbx|p12|pfx|ppk)\b|id_\w|\*?(?:wallet|credential|secret|passw|mnemonic|seed))/i,
      /(?:^|[\s;&|("'`])(?:env|printenv|set)\s{0,2}\|\s{0,2}(?:e?grep|rg)\s[^\n]{0,30}?(?:token|secret|passw|key)\w{0,6}\\?\|[^\n]{0,30}?(?:token|secret|passw|key)/i,
      /\bbrowser_cookie3\.\w{2,12}\(|\bpycookiecheat\b/,
    ),
  },
  {
    id: "blind-copy",
    weight: "high",
    regionWeights: "hmhhlh",
    title: "sends a copy of every message to an address in the skill",
    why: "The sender does not see the additional recipient.",
    fix: "remove the address, or let the user enter it",
    keywords: ["bcc", "blind copy", "blind carbon", "forwarding"],
    find: findFirstMatch(
      /\bbcc["']?\]?\s{0,2}(?:[:=]|,|\.push\(|\.append\()\s{0,2}\[?\s?["'][^"'\s@{$<]{1,60}@(?!example\.(?:com|org)\b)[\w.-]{3,80}["']/i,
      /--bcc[ =]["']?[^"'\s@{$<]{1,60}@(?!example\.(?:com|org)\b)[\w.-]{3,80}/i,
      /\b(?:always|every|each|all|any|quietly|silently)\b[^.\n]{0,80}?\b(?:bcc|blind (?:carbon )?copy)\b[^\n]{0,40}?[\w.+-]{1,60}@[\w.-]{3,80}/i,
      /\b(?:bcc|blind (?:carbon )?copy)\b[^\n]{0,60}?[\w.+-]{1,60}@[\w.-]{3,80}[^.\n]{0,60}?\b(?:every|each|all|any|always)\b/i,
    ),
  },
  {
    id: "push-elsewhere",
    weight: "medium",
    regionWeights: "mlmllh",
    title: "pushes a whole repository to another owner's host",
    why: "The whole history goes with it.",
    fix: "ask who owns the target, and push there yourself",
    keywords: ["push --mirror", "push --all", "--mirror", "visibility public", "visibility=public"],
    find: findFirstMatch(
      /\bgit\b[^\n;|&]{0,40}?\bpush\b[^\n;|&]{0,40}?(?:--mirror|--all)\s{1,3}["']?(?:https?:\/\/|ssh:\/\/|git@)[^\s"'$<]{4,160}/,
      /\bgit\b[^\n;|&]{0,40}?\bpush\s[^\n;|&]{0,40}?["']?(?:https?:\/\/|ssh:\/\/|git@)[^\s"'$<]{4,160}[^\n;|&]{0,20}?--(?:mirror|all)\b/,
      /\bgh repo edit\b[^\n]{0,120}?--visibility[ =]public\b/,
    ),
  },
  {
    id: "set-address",
    weight: "medium",
    regionWeights: "mll-l-",
    title: "sends to a chat whose key is in the skill",
    why: "The user decides where messages go; a key that comes with the skill belongs to its author.",
    fix: "let the user enter the address, and check what is sent",
    keywords: ["/api/webhooks/", "api.telegram.org/bot"],
    find: findFirstMatch(
      /discord(?:app)?\.com\/api\/webhooks\/\d{6,}\/[\w-]{16,}|api\.telegram\.org\/bot\d{6,}:[\w-]{16,}/i,
    ),
  },
];

export const CREDENTIAL_COLLECTION_SOURCE_RULES: readonly SourceRule[] = [
  {
    id: "list-of-secrets",
    weight: "high",
    title: "has a list of paths where keys are stored",
    why: "A task needs the one key for its service; such lists are typical of credential theft.",
    fix: "check what it does with them",
    keywordGroups: [
      splitKeywords(
        "id_rsa,id_ed25519,.ssh,credentials,login data,wallet.dat,npmrc,pypirc,netrc,hosts.yml,.kube,.gnupg,.aws,gcloud,key4.db,solana,_history,.env,keystore",
      ),
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const lines = page.lines.map((line, at) => (page.placeAt(at) === "code" ? line.slice(0, 1000) : ""));
      if (lines.some((line) => GUARDING_WORDS.test(line)) || !lines.some((line) => READ_CALLS.test(line)))
        return undefined;
      const rows = CREDENTIAL_PLACES.map((place) => lines.findIndex((line) => place.test(line))).filter(
        (row) => row !== -1,
      );
      const line = Math.min(...rows);
      return rows.length >= 3 ? { line, seen: getSeenLine(page, line) } : undefined;
    },
  },
];

function getSeenLine(page: SourceText, line: number): string {
  return page.lines[line] ?? "";
}
