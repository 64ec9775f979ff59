import { findFirstMatch, type SourceRule, splitKeywords, type TextRule } from "../rule.ts";
import {
  CREDENTIAL_FILES,
  CREDENTIAL_FOLDERS,
  CREDENTIAL_PATH_WORDS,
  ENVIRONMENT_WORDS,
  isOnlyNamed,
  KEY_OPTIONS,
  READ_COMMANDS,
  SEND_COMMANDS,
} from "./credential-access.ts";
import { findOutsideAddress } from "./host-reputation.ts";

export const EXFILTRATION_RULES: readonly TextRule[] = [
  {
    id: "drop-host",
    weight: "high",
    regionWeights: "hmllll",
    title: "sends to an anonymous, publicly readable service",
    why: "Such addresses are made for a single use and do not identify their owner.",
    fix: "ask where the data goes, and why not to a host of the author",
    keywords: splitKeywords(
      "webhook.site,requestbin,pipedream.net,requestcatcher,burpcollaborator,oastify,interact.sh,interactsh,.oast.,dnslog.cn,ceye.io,beeceptor,canarytokens,hookbin",
    ),
    find: findFirstMatch(
      /(?:[\w-]{1,63}\.)?(?:webhook\.site|requestbin\.(?:com|net)|m\.pipedream\.net|requestcatcher\.com|burpcollaborator\.net|oastify\.com|interact(?:sh|\.sh)[\w.]{0,10}|oast\.(?:pro|live|site|online|fun|me)|dnslog\.cn|ceye\.io|beeceptor\.com|canarytokens\.com|hookbin\.com)/i,
    ),
  },
  {
    id: "paste-upload",
    weight: "high",
    regionWeights: "hmmlll",
    title: "uploads to an anonymous file host",
    why: "Anyone with the address can read the upload.",
    fix: "ask what it uploads, and use your own storage",
    keywords: splitKeywords(
      "transfer.sh,0x0.st,file.io,termbin,paste.rs,ix.io,bashupload,temp.sh,catbox.moe,gofile.io,pastebin.com,dpaste,hastebin,filebin.net,tmpfiles.org,uguu.se,oshi.at,gist create",
    ),
    find: findFirstMatch(
      /\bgh gist create\b[^\n]{0,120}?(?:--public|-p)\b[^\n]{0,120}?(?:\.env|\$\(|~\/)/,
      /\b(?:curl|wget|requests\.post|fetch)\b[^\n]{0,200}?\b(?:pastebin\.com|dpaste\.\w{2,4}|hastebin\.com|filebin\.net|tmpfiles\.org|uguu\.se|oshi\.at)\b/i,
      /\b(?:curl|wget|nc|requests\.post|fetch)\b[^\n]{0,200}?\b(?:transfer\.sh|0x0\.st|file\.io|termbin\.com|paste\.rs|ix\.io|bashupload\.com|temp\.sh|catbox\.moe|gofile\.io)\b|\|\s{0,3}nc\s{1,3}termbin\.com/i,
    ),
  },
  {
    id: "name-lookup-leak",
    weight: "high",
    regionWeights: "hhmlll",
    title: "puts the output of a command into a host name",
    why: "DNS lookups work even without other network access, so they can leak data.",
    fix: "do not use it unless the author documents which data goes to whom",
    keywords: [
      "nslookup",
      "dig ",
      "ping -",
      "ping $",
      "ping `",
      'ping "',
      "host $",
      "host `",
      'host "',
      "drill ",
      "gethostbyname",
    ],
    find: findFirstMatch(
      /\b(?:nslookup|dig|ping|host|drill)\b[^\n;|&]{0,60}?(?:\$\(|`)[^\n]{2,200}?(?:\)|`)["']?\.[\w$]/,
      /\bping\b[^\n]{0,60}?\s-p\s{1,3}["']?\$/,
      /\bgethostbyname\([^\n]{0,80}?(?:b64|hex|encode|environ|secret|token|data)/i,
    ),
  },
  {
    id: "picture-leak",
    weight: "high",
    regionWeights: "-hhhhh",
    title: "tells the model to put data into the URL of a picture",
    why: "Displaying the picture requests the URL, which sends the data without the user's consent.",
    fix: "remove the picture",
    keywords: ["![", "<img"],
    find: (text) => (text.includes("img.shields.io") ? undefined : DATA_IN_PICTURE(text)),
  },
  {
    id: "file-upload",
    weight: "high",
    regionWeights: "hhhl--",
    title: "uploads a file to a fixed address",
    why: "The owner of the address receives the file.",
    fix: "check what it uploads; let the user enter the address",
    keywords: ["curl", "files=", "--post-file", "-infile", "uploadfile"],
    find(text) {
      const found = UPLOAD_COMMANDS(text);
      // An upload with credentials goes to the user's own account.
      if (!found || /authorization|x-api-key|\s-u\s|\btoken\b/i.test(text)) return undefined;
      return findOutsideAddress(text) === undefined ? undefined : found;
    },
  },
  {
    id: "piped-upload",
    weight: "high",
    regionWeights: "hhhhlh",
    title: "pipes local data to a fixed address",
    why: "The owner of the address receives data from this machine.",
    fix: "check what it sends; let the user enter the address",
    keywords: ["curl", "| nc ", "|nc "],
    find(text) {
      const match = PIPED_UPLOAD.exec(text);
      if (!match || WRITTEN_TEXT.test(match[1] ?? "")) return undefined;
      return findOutsideAddress(text.slice(match.index)) === undefined
        ? undefined
        : { index: match.index, length: match[0].length };
    },
  },
  {
    id: "key-in-query",
    weight: "low",
    regionWeights: "l-----",
    title: "puts a key into a URL",
    why: "URLs end up in the logs of servers and proxies.",
    fix: "send it in a header",
    keywords: ["key=$", "token=$", "key={", "token={", "key=${"],
    find: findFirstMatch(/https?:\/\/[^\s"'`]{1,120}[?&](?:api_?key|key|token|access_token)=\$?\{?\w{1,40}/i),
  },
];

const DATA_IN_PICTURE = findFirstMatch(
  /!\[[^\]\n]{0,80}\]\(https?:\/\/(?!img\.shields|raw\.github|github\.com|via\.placeholder|placehold|picsum|quickchart|api\.qrserver)[^\s)"']{1,120}?[?&]\w{1,16}=(?!USER|REPO|OWNER|NAME|YOUR)[A-Z][A-Z0-9_]{3,40}\)/,
  /(?:!\[[^\]\n]{0,80}\]\(|<img[^>\n]{0,80}?src=["']?)https?:\/\/[^\s)"']{1,120}?[?&/=](?:\{\{?|<|\[|\$\{|%)\s?[\w -]{0,30}?(?:secret|token|key|password|conversation|history|summary|context|prompt|environ|env|user|message|chat|content|encoded|base64|answer)[\w -]{0,30}/i,
);

const UPLOAD_COMMANDS = findFirstMatch(
  /\bcurl\b[^\n|]{0,200}?(?:\s-T\s{0,2}["']?[\w./~$"'{}*-]{2,80}|\s-\w{0,4}F\s{0,2}["']?\w{1,20}=@[\w./~$"'{}*-]{2,80}|--form\s{1,3}["']?\w{1,20}=@|--data-binary\s{1,3}["']?@[\w./~$"'{}*-]{2,80}|--upload-file\s{1,3}\S)/,
  /\brequests\.(?:post|put)\([^\n]{0,200}?\bfiles\s?=\s?\{|\bwget\b[^\n]{0,200}?--post-file|-InFile\s{1,3}\S|\.UploadFile\(/,
);

/** The text before the pipe, and the upload. */
const PIPED_UPLOAD =
  /([^\n|;&`]{2,200})\|\s{0,3}(?:(?:gzip|base64|xz|openssl|gpg|zstd|xxd|tr|head|tail|jq|grep|sort|sed|awk)\b[^\n|]{0,80}\|\s{0,3}){0,4}curl\b[^\n|]{0,200}?(?:-T\s{0,2}-|(?:-d|--data|--data-binary|--data-raw|--data-urlencode)[ =]{0,2}["']?(?:\w{1,20}=)?@-|-F\s{0,2}["']?\w{1,20}=@-|--upload-file\s{0,2}-)/;
/** A literal text in the command itself. */
const WRITTEN_TEXT = /^\s{0,12}(?:echo|printf|jq\s{1,3}-n)\b(?![^\n]{0,200}(?:\$\(|#!))/;

export const EXFILTRATION_SOURCE_RULES: readonly SourceRule[] = [
  {
    id: "read-and-send",
    weight: "high",
    title: "reads keys, credentials or the whole environment, and sends something",
    why: "The combination is typical of credential theft, even with other lines in between.",
    fix: "check where the data goes before you use the skill",
    keywordGroups: [
      [
        ...CREDENTIAL_PATH_WORDS,
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
      splitKeywords(
        "curl,wget,.post(,.put(,urlopen,fetch(,http.request,https.request,request(,method,sendbeacon,socket,invoke-,smtp, nc ,scp ",
      ),
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const isCode = (line: number) => page.placeAt(line) === "code";
      const reads = page.lines.findIndex((line, at) => isCode(at) && readsCredentials(line.slice(0, 1000)));
      if (reads === -1) return undefined;
      const sends = page.lines.some(
        (line, at) => isCode(at) && SENDING_CODE.test(line.slice(0, 1000).replace(KEY_OPTIONS, "")),
      );
      return sends ? { line: reads, seen: page.lines[reads] ?? "" } : undefined;
    },
  },
];

const SENDING_CODE = new RegExp(
  `${SEND_COMMANDS.source}|https?\\.request\\(|method["']?\\s?[:=]\\s?["']POST|\\bHTTPS?Connection\\(|\\bs(?:ock)?\\.send(?:all)?\\(|smtplib\\.SMTP|\\|\\s{0,3}curl\\b`,
  "i",
);

const WHOLE_ENVIRONMENT =
  /\bin os\.environ(?:\.items\(\))?(?=[\s:\])}]|$)|\bObject\.(?:entries|keys|values)\(process\.env\)|JSON\.stringify\([^\n]{0,60}?\.{0,3}process\.env\s?[,)}]|(?!^\s{0,20}env:\s?process\.env,?\s{0,3}$)\b\w{1,30}["']?\s?:\s?process\.env\s?[,}]|\bENV\.to_(?:h|a|json)\b|(?:^|[;&|(]\s{0,2})(?:env|printenv|export -p|declare -x)\s{0,3}(?:>|\|\s{0,2}(?:base64|gzip|openssl|xxd|curl|nc)\b)|=\$\((?:env|printenv)\s{0,2}[|)]|Get-ChildItem env:|\(\s?dir env:/i;
const USER_SETTINGS =
  /(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32}|homedir\(\)[^\n]{0,12}|\.home\(\)[^\n]{0,12}|expanduser\(["']~)["']?\s{0,2}[/,]?\s{0,2}["']?\/?\.(?:npmrc|pypirc|docker\/config\.json|kube\/config|config\/gh\/hosts\.yml|(?:bash|zsh)_history|claude\.json|claude\/(?:\.credentials\.json|history\.jsonl|projects)|codex\/auth\.json|gemini\/oauth_creds\.json|cursor\/mcp\.json|(?:openclaw|clawdbot|moltbot)\/|cargo\/credentials|gem\/credentials|pgpass|my\.cnf|vault-token)/;

export function readsCredentials(line: string): boolean {
  const own = line.replace(KEY_OPTIONS, " ");
  if (
    /dict\(\s?os\.environ\s?\)|json\.dumps\([^\n]{0,30}os\.environ|JSON\.stringify\(\s?process\.env\s?\)|security-credentials|\b(?:pbpaste|xclip -o|Get-Clipboard)\b/.test(
      own,
    )
  )
    return true;
  if (
    WHOLE_ENVIRONMENT.test(own) ||
    (USER_SETTINGS.test(own) && READ_COMMANDS.test(own) && !isOnlyNamed(own, own.search(USER_SETTINGS)))
  )
    return true;
  if (/\.home\(\)[^\n]{0,20}['"]\.(?:ssh|aws|gnupg)['"]/.test(own)) return !/['"]config['"]/.test(own);
  if (/\b(?:data|json|body|params)\s?[=:]\s?(?:dict\()?\s?(?:os\.environ|process\.env)\s?[,)}]/.test(own)) return true;
  if (/\.home\(\)[^\n]{0,20}\.r?glob\(["'][^"'\n]{0,20}(?:\.pem|\.key|id_|\.kdbx)/.test(own)) return true;
  if (/\b(?:tar|zip|7z|cp)\s/.test(own) && CREDENTIAL_FOLDERS.test(own)) return true;
  return CREDENTIAL_FILES.test(own) && !isOnlyNamed(own, own.search(CREDENTIAL_FILES));
}
