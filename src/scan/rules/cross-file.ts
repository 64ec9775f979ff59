import { type ScanRule, type SourceMatch, splitKeywords } from "../rule.ts";
import { findDataFlow, type SourceText } from "../source-text.ts";
import { SEND_COMMANDS } from "./credential-access.ts";
import { readsCredentials } from "./exfiltration.ts";
import { findUnknownHost, isOutsideHost, SENDS_DATA } from "./host-reputation.ts";

/** A rule over all code of a skill: one file may read what another one sends or runs. */
export interface CrossFileRule extends ScanRule {
  /** Keyword lists: the files of the skill must contain one keyword of each list. */
  all: readonly (readonly string[])[];
  find(pages: readonly SourceText[]): (SourceMatch & { file: string }) | undefined;
}

const MAX_LINE_LENGTH = 1000;

/** Returns the first line of code that passes the test, in the pages that are code. */
function findLine(
  pages: readonly SourceText[],
  test: (line: string, page: SourceText) => boolean,
): (SourceMatch & { file: string }) | undefined {
  for (const page of pages) {
    if (page.kind !== "code") continue;
    const line = page.lines.findIndex(
      (text, at) => page.placeAt(at) === "code" && test(text.slice(0, MAX_LINE_LENGTH), page),
    );
    if (line !== -1) return { file: page.path, line, seen: page.lines[line] ?? "" };
  }
  return undefined;
}

const SENDS_MORE =
  /\bhttps?\.request\(|\bHTTPS?Connection\(|\bNet::(?:SMTP|HTTP|FTP)\b|\.send_message\b|\bsmtplib\b|\bftplib\b|\bsocket\.(?:socket|create_connection)\(|\bs(?:ock)?\.send(?:all)?\(|\bparamiko\b|nodemailer|\bnet\.(?:connect|createConnection|Socket)\(|\bTCPSocket\b|\bdgram\b|\bUploadFile|\bboto3\b|\bfetch\(|\baxios\b|\burlopen\(|\bcurl_exec\b|\bHttpClient\b/;
/** A host without a scheme, as an argument or a field. */
const BARE_HOST =
  /(?:\bhost(?:name)?["']?\s?[:=]\s?|Connection\(\s?|SMTP(?:\.start)?\(\s?|\bconnect\(\s?\(?\s?|create_connection\(\s?\(?\s?|\bnew\(\s?|\bFTP\(\s?|TCPClient\(\s?)["']((?:[\w-]{1,60}\.){1,4}[a-z]{2,12})["']/i;

/** Cheap tests that run before the others, on every line of code. */
const MAY_NAME_HOST = /:\/\/|["'][\w-]+\.[\w.-]+["']/;
const MAY_NAME_KEYS =
  /ssh|aws|kube|gnupg|azure|docker|netrc|credential|npmrc|pypirc|token|Login|ookies|key4|logins|keychain|wallet|keystore|gcloud|\.pem|\.key|kdbx|history|environ|\benv\b|ENV|claude|codex|gemini|cursor|clip|shadow|pgpass|electrum|solana/;

const unknownHostCache = new WeakMap<SourceText, boolean>();

/** Returns true if code of the page names an unknown host, with or without a scheme. */
function mentionsUnknownHost(page: SourceText): boolean {
  let is = page.kind === "code" ? unknownHostCache.get(page) : false;
  if (is === undefined) {
    is = page.lines.some((line, at) => {
      if (!MAY_NAME_HOST.test(line) || page.placeAt(at) !== "code") return false;
      const text = line.slice(0, MAX_LINE_LENGTH);
      return (
        (/https?:|wss?:|ftp:/i.test(text) && findUnknownHost(text) !== undefined) ||
        isOutsideHost(BARE_HOST.exec(text)?.[1] ?? "")
      );
    });
    unknownHostCache.set(page, is);
  }
  return is;
}

function findSendToUnknown(pages: readonly SourceText[]): (SourceMatch & { file: string }) | undefined {
  return findLine(
    pages.filter(mentionsUnknownHost),
    (line) => SENDS_DATA.test(line) || SENDS_MORE.test(line) || SEND_COMMANDS.test(line),
  );
}

const KEY_PIECES =
  /\[\s?["']\.(?:aws|ssh|azure|kube|gnupg|docker)["']\s?,\s?["'][\w.]{2,40}["']\s?\]|\bmsal_token_cache\b|kubernetes\.io\/serviceaccount\/token|\.kube\/config\b|["']\.(?:pem|key|kdbx|ppk|p12)["']\s?,/;

/** Code that walks through all files of the user. */
const WALKS_USER_FILES =
  /(?:home\(\)|homedir\(\)|expanduser\(["']~["']\)|\$HOME|\$env:USERPROFILE|Dir\.home)[^\n]{0,40}?(?:\.r?glob\(|os\.walk|readdir|Get-ChildItem|\*\*)|os\.walk\(\s?(?:os\.path\.expanduser|Path\.home|home)|\bfind\s["']?(?:~|\$HOME|\$\{HOME\}|\/home|\/Users)["'/]?[^\n]{0,60}?(?:-type f|-name|-exec)|Get-ChildItem\s[^\n]{0,40}?\$(?:HOME|env:USERPROFILE)[^\n]{0,40}?-Recurse|\brglob\(["']\*["']\)|\b(?:tar|zip)\s[^\n]{0,60}?(?:~|\$HOME)\/?["']?(?:\s|$)/i;

const READS_DATA =
  /\bjson\.loads?\(|JSON\.parse\(|\brequire\(["'][^"'\n]{1,80}\.json["']|\bjq\s|yaml\.(?:safe_)?load\(|\bconfigparser\b|tomllib\.load|\breadFile(?:Sync)?\([^\n]{0,80}?\.(?:json|ya?ml|txt|md|dat|cfg|csv|ini|toml)\b|\bopen\([^\n]{0,80}?\.(?:json|ya?ml|txt|md|dat|cfg|csv|ini|toml)["']|\b(?:cat|sed|awk|grep|tail|head|cut)\s[^\n]{0,80}?\.(?:json|ya?ml|txt|md|dat|cfg|csv|ini|toml|svg)\b|\bConvertFrom-Json\b/;
const RUNS_DATA: readonly RegExp[] = [
  /(?:^|[\s;=(])(?:eval|exec|os\.system|os\.popen|execSync|shell_exec|system)\(\s{0,2}(?!["'`f])([^\n]{0,200})/,
  /(?:^|[;&|({\s])eval\s{1,3}["']?(\$[^\n]{0,160})/,
  /subprocess\.\w{3,12}\(\s{0,2}([\w.[\]"']{1,80})[^\n]{0,120}shell\s?=\s?True/,
  /\b(?:(?:ba|z|da)?sh|python[\d.]{0,4}|node|perl)\s{1,3}-\w{0,3}[ce]\s{1,3}["']?(\$[^\n]{0,120})/,
  /((?:\bjq\s|\bsed\s|\bawk\s|\bcut\s|\btail\s|\bgrep\s|\becho\s["']?\$)[^\n]{0,160})\|\s{0,3}(?:ba|z|da)?sh\b/,
  /\b(?:iex|Invoke-Expression)\s{0,3}([$(][^\n]{0,160})/i,
  /\bnew Function\(([^\n]{0,160})/,
];
/** The content of a data file from which code takes commands. */
const COMMAND_IN_DATA =
  /\b(?:curl|wget|iwr|irm|bash|sh|python3?|powershell|nc)\b[^\n]{0,200}?(?:https?:\/\/|\/dev\/tcp|\|\s?["']?,?\s?["']?(?:ba)?sh\b)|["'\s](?:Y3VybC|d2dldC|aW1wb3J0I|IyEvYmlu|ZXZhbC)[A-Za-z0-9+/]{16}/;

/** The target file of a download command. */
const DOWNLOADED =
  /\b(?:curl|wget|aria2c)\b[^\n]{0,300}?(?:\s-[a-zA-Z]{0,6}[oO]\s?|--output(?:-document)?[ =]|\s>\s?)["']?([^\s"'|;&)]{2,160})|\b(?:urlretrieve|DownloadFile)\([^,\n]{1,200},\s{0,3}["']([^"'\n]{2,160})|-OutFile\s{1,3}["']?([^\s"']{2,160})/i;
const RUNNER_COMMAND =
  "(?:(?:^|[;&|({]\\s{0,3})(?:\\.|source|(?:ba|z|da)?sh|python[\\d.]{0,4}|node|perl|ruby|exec|sudo|nohup|chmod\\s\\+x|open|osascript)\\s{1,3}(?:-\\w{1,4}\\s{1,3}){0,2}|\\b(?:subprocess\\.\\w{3,12}|os\\.system|os\\.startfile|runpy\\.run_path|spawn|execFile(?:Sync)?|execSync|dofile|loadfile)\\(\\[?[^\\n]{0,40}?|\\bStart-Process\\s{1,3})";

/** Finds a file that one script downloads and another one runs, by its name or by a variable that holds the name. */
function findSplitRun(pages: readonly SourceText[]): (SourceMatch & { file: string }) | undefined {
  const names = new Map<string, SourceText>();
  for (const page of pages) {
    if (page.kind !== "code") continue;
    for (const [at, line] of page.lines.entries()) {
      if (page.placeAt(at) !== "code" || !/curl|wget|aria2c|urlretrieve|DownloadFile|-OutFile/i.test(line)) continue;
      const target = DOWNLOADED.exec(line.slice(0, MAX_LINE_LENGTH))?.slice(1).find(Boolean) ?? "";
      const name = target.slice(target.lastIndexOf("/") + 1).replace(/[^\w.-]/g, "");
      if (name.length >= 3 && name !== "null" && names.size < 20) names.set(name, page);
    }
  }
  for (const [name, from] of names) {
    const escaped = name.replace(/[.\\-]/g, "\\$&");
    const direct = new RegExp(`${RUNNER_COMMAND}["']?[^\\s"']{0,120}${escaped}\\b`);
    const given = new RegExp(`(?:^|[\\s;])\\$?(\\w{1,40})\\s?=\\s?[^\\n]{0,120}${escaped}\\b`);
    for (const page of pages) {
      if (page === from) continue;
      const text = page.lines;
      const variables = text.flatMap((line) => given.exec(line.slice(0, MAX_LINE_LENGTH))?.[1] ?? []);
      const runs = [direct, ...variables.map((variable) => new RegExp(`${RUNNER_COMMAND}["']?\\$?\\{?${variable}\\b`))];
      const found = findLine([page], (line) => runs.some((pattern) => pattern.test(line)));
      if (found) return found;
    }
  }
  return undefined;
}

const SEND_LISTS = splitKeywords(
  "http:,https:,smtp,socket,curl,wget,.post(,.put(,request(,urlopen,fetch(,axios,upload,connection(,paramiko,nodemailer,invoke-, nc ,scp ,net::,ftp",
);

export const CROSS_FILE_RULES: readonly CrossFileRule[] = [
  {
    id: "keys-and-upload",
    weight: "high",
    title: "reads keys or credentials in one place, and sends something to an unknown host in another",
    why: "The combination is typical of credential theft, even across files.",
    fix: "check where the data goes before you use the skill",
    all: [
      splitKeywords(
        ".ssh,.aws,.kube,.gnupg,.azure,.docker,netrc,git-credentials,npmrc,pypirc,serviceaccount,msal_token,login data,key4.db,logins.json,keychain,wallet.dat,keystore,.config/gcloud,'gcloud',.pem,.key',.key\",.kdbx,_history,os.environ,printenv,env |,.claude/,.codex/,env.to_",
      ).concat(["process", "env"].join(".")),
      SEND_LISTS,
    ],
    find(pages) {
      const read = findLine(
        pages,
        (line) => MAY_NAME_KEYS.test(line) && (readsCredentials(line) || KEY_PIECES.test(line)),
      );
      return read && findSendToUnknown(pages) ? read : undefined;
    },
  },
  {
    id: "files-and-upload",
    weight: "high",
    title: "reads all files of the user, and sends something to an unknown host",
    why: "The user decides where data goes.",
    fix: "check where the data goes before you use the skill",
    all: [
      splitKeywords(
        "rglob,os.walk,home(),homedir(),$home,expanduser,userprofile,find ~,/home,/users,dir.home,tar ,zip ",
      ),
      SEND_LISTS,
    ],
    find(pages) {
      const walk = findLine(pages, (line) => WALKS_USER_FILES.test(line));
      return walk && findSendToUnknown(pages) ? walk : undefined;
    },
  },
  {
    id: "split-run",
    weight: "high",
    title: "downloads a file in one script, and runs it in another",
    why: "The owner of the address decides what runs, and the code is never reviewed.",
    fix: "put the code into the skill, or pin its digest",
    all: [splitKeywords("curl,wget,aria2c,urlretrieve,downloadfile,-outfile")],
    find: findSplitRun,
  },
  {
    id: "command-from-data",
    weight: "high",
    title: "runs a command that it reads from a data file",
    why: "Data files are rarely reviewed for commands.",
    fix: "put the command into the script, where it can be reviewed",
    all: [
      splitKeywords(
        'eval,exec(,execsync,os.system,os.popen,shell_exec,system(,shell=true,sh -c,-c "$,| sh,| bash,|sh,|bash,iex,invoke-exp,function(',
      ),
      splitKeywords("json,jq ,yaml,toml,.txt,.md,.dat,.cfg,.csv,.ini,.svg,config"),
    ],
    find(pages) {
      const held = pages.find(
        (page) =>
          page.kind !== "code" &&
          page.path !== "SKILL.md" &&
          page.lines.some((line) => COMMAND_IN_DATA.test(line.slice(0, 4000))),
      );
      if (!held) return undefined;
      for (const page of pages) {
        if (page.kind !== "code") continue;
        const line = findDataFlow(page, { source: READS_DATA, sinks: RUNS_DATA });
        if (line !== undefined) return { file: page.path, line, seen: page.lines[line] ?? "" };
      }
      return undefined;
    },
  },
];

/** Keys that code uses for one service and sends to a second, unknown host. */
const OWN_SECRET =
  /\b_authToken\b|\bprivate_key\b|\bclient_secret\b|\brefresh_token\b|headers\.authorization\b|headers\[["'](?:authorization|x-api-key)["']\]|\bmnemonic\b|\bprivateKey\b|process\.env\.\w{0,40}(?:KEY|TOKEN|SECRET|PASSWORD)\b|os\.(?:environ\[|environ\.get\(|getenv\()["']\w{0,40}(?:KEY|TOKEN|SECRET|PASSWORD)|\bpassword\b|\bcookies?\b/;
/** Secrets that do not belong to a single host. */
const SESSION_SECRET =
  /\bstorageState\(|\bdocument\.cookie\b|\bcontext\.cookies\(|\bbrowser_cookie3\b|\b_authToken\b|\bmnemonic\b|headers\.authorization\b/;
const KNOWN_HOST = /https?:\/\/([\w.-]{3,100})/gi;

/** Returns the line, from 0, on which a key that belongs to one service goes to another host. */
export function findSecondHost(page: SourceText): number | undefined {
  const hosts = new Set<string>();
  for (const [at, line] of page.lines.entries()) {
    if (page.placeAt(at) !== "code") continue;
    for (const [, host = ""] of line.slice(0, MAX_LINE_LENGTH).matchAll(KNOWN_HOST)) hosts.add(host.toLowerCase());
  }
  const outside = [...hosts].filter(isOutsideHost);
  if (outside.length === 0) return undefined;
  const source = outside.length === hosts.size ? SESSION_SECRET : OWN_SECRET;
  for (const host of outside.slice(0, 8)) {
    const sink = new RegExp(`${host.replace(/[.\\-]/g, "\\$&")}([^\\n]{0,400})`, "i");
    const line = findDataFlow(page, { source, sinks: [sink] });
    if (line !== undefined) return line;
  }
  return undefined;
}
