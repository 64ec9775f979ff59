import type { PageRule } from "../rule.ts";
import { ENVIRONMENT_WORDS, FOLDERS, IDENTITY, isTalk, KEYS, PATH_WORDS, READERS, SENDS } from "./keys.ts";

export const THEFT_RULES: readonly PageRule[] = [
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
        ...[
          ["process", "env"].join("."),
          "env.to_",
          "declare -x",
          "env >",
          "(env",
          "npmrc",
          "pypirc",
          ".docker/",
          ".kube/",
          "gh/hosts",
          "_history",
        ],
        ...[
          ".claude",
          ".codex/",
          ".gemini/",
          ".cursor/",
          ".openclaw",
          ".clawdbot",
          ".moltbot",
          "credentials",
          ".pgpass",
          ".my.cnf",
          "vault-token",
        ],
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
        "request(",
        "method",
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
  `${SENDS.source}|https?\\.request\\(|method["']?\\s?[:=]\\s?["']POST|\\bHTTPS?Connection\\(|\\bs(?:ock)?\\.send(?:all)?\\(|smtplib\\.SMTP|\\|\\s{0,3}curl\\b`,
  "i",
);

const WHOLE_ENVIRONMENT =
  /\bin os\.environ(?:\.items\(\))?(?=[\s:\])}]|$)|\bObject\.(?:entries|keys|values)\(process\.env\)|JSON\.stringify\([^\n]{0,60}?\.{0,3}process\.env\s?[,)}]|(?!^\s{0,20}env:\s?process\.env,?\s{0,3}$)\b\w{1,30}["']?\s?:\s?process\.env\s?[,}]|\bENV\.to_(?:h|a|json)\b|(?:^|[;&|(]\s{0,2})(?:env|printenv|export -p|declare -x)\s{0,3}(?:>|\|\s{0,2}(?:base64|gzip|openssl|xxd|curl|nc)\b)|=\$\((?:env|printenv)\s{0,2}[|)]|Get-ChildItem env:|\(\s?dir env:/i;
const SETTINGS_OF_USER =
  /(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32}|homedir\(\)[^\n]{0,12}|\.home\(\)[^\n]{0,12}|expanduser\(["']~)["']?\s{0,2}[/,]?\s{0,2}["']?\/?\.(?:npmrc|pypirc|docker\/config\.json|kube\/config|config\/gh\/hosts\.yml|(?:bash|zsh)_history|claude\.json|claude\/(?:\.credentials\.json|history\.jsonl|projects)|codex\/auth\.json|gemini\/oauth_creds\.json|cursor\/mcp\.json|(?:openclaw|clawdbot|moltbot)\/|cargo\/credentials|gem\/credentials|pgpass|my\.cnf|vault-token)/;

export function isRead(line: string): boolean {
  const own = line.replace(IDENTITY, " ");
  if (
    /dict\(\s?os\.environ\s?\)|json\.dumps\([^\n]{0,30}os\.environ|JSON\.stringify\(\s?process\.env\s?\)|security-credentials|\b(?:pbpaste|xclip -o|Get-Clipboard)\b/.test(
      own,
    )
  )
    return true;
  if (
    WHOLE_ENVIRONMENT.test(own) ||
    (SETTINGS_OF_USER.test(own) && READERS.test(own) && !isTalk(own, own.search(SETTINGS_OF_USER)))
  )
    return true;
  if (/\.home\(\)[^\n]{0,20}['"]\.(?:ssh|aws|gnupg)['"]/.test(own)) return !/['"]config['"]/.test(own);
  if (/\b(?:data|json|body|params)\s?[=:]\s?(?:dict\()?\s?(?:os\.environ|process\.env)\s?[,)}]/.test(own)) return true;
  if (/\.home\(\)[^\n]{0,20}\.r?glob\(["'][^"'\n]{0,20}(?:\.pem|\.key|id_|\.kdbx)/.test(own)) return true;
  if (/\b(?:tar|zip|7z|cp)\s/.test(own) && FOLDERS.test(own)) return true;
  return KEYS.test(own) && !isTalk(own, own.search(KEYS));
}
