import { findFirstMatch, type SourceRule, type TextRule } from "../rule.ts";
import type { SourceText } from "../source-text.ts";

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
    keywords: [
      "id_rsa",
      "id_ed25519",
      "credentials",
      ".npmrc",
      ".pypirc",
      ".netrc",
      "hosts.yml",
      ".kube",
      ".gnupg",
      ".aws",
      ".ssh",
      "login data",
      "wallet",
    ],
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
    keywords: [
      ...[
        "gh auth token",
        "print-access-token",
        "print-identity-token",
        "export-credentials",
        "get-session-token",
        "get-secret-value",
      ],
      ...[
        "with-decryption",
        "get-access-token",
        "kubectl get secret",
        "export-secret-key",
        "npm token",
        "vault kv get",
        "op read",
      ],
      ...[
        "op item get",
        "bw get",
        "bw export",
        "pass show",
        "find-generic-password",
        "find-internet-password",
        "state pull",
      ],
      ...["terraform output", "heroku config", "doppler secrets"],
    ],
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
      [
        ...["id_rsa", "id_ed25519", ".ssh", "credentials", "login data", "wallet.dat"],
        "npmrc",
        "pypirc",
        "netrc",
        "hosts.yml",
        ".kube",
        ".gnupg",
        ".aws",
        "gcloud",
        "key4.db",
        "solana",
        "_history",
        ".env",
        "keystore",
      ],
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
