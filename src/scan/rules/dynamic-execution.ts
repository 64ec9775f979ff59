import {
  findFirstMatch,
  type MatchSpan,
  type SourceMatch,
  type SourceRule,
  splitKeywords,
  type TextRule,
} from "../rule.ts";
import { findDataFlow, type SourceText } from "../source-text.ts";
import { findOutsideAddress, isFromVendor, isVendorAddress, mentionsOutsideHost } from "./host-reputation.ts";

const REQUESTS_DATA =
  /\bfetch\(\s?["'`\w$]|\baxios\b|\bgot(?:\.get)?\(|urlopen\(|\brequests\.(?:get|post|request)\(|\bhttpx\.(?:get|post)\(|\bhttps?\.get\(|Net::HTTP|URI\.open|\bDownload(?:String|Data|File)\b|urlretrieve\(|\b(?:irm|iwr|Invoke-(?:WebRequest|RestMethod))\b|\bStart-BitsTransfer\b|(?:\$\(|`|<\(|^|["'\s])(?:curl|wget)\s|["'](?:curl|wget)["']\s?,|\bdig\s[^\n]{0,60}\btxt\b|nslookup\s[^\n]{0,20}=txt|resolveTxt\(|dns\.resolver\.|file_get_contents\(\s?["']https?:|\bLWP::|["']git["']\s?,\s?["']clone["']/i;
const DECODES_DATA =
  /\bb(?:16|32|64|85)decode\(|\batob\(|\bBuffer\.from\([^\n]{0,400}?["'](?:base64|hex)|\bfromhex\(|\bunhexlify\(|\bbase(?:32|64)\s{1,3}(?:-d|-D|--decode)\b|FromBase64String|\bdecompress\(|\bmarshal\.loads|\bcodecs\.decode\(|rot_?13|\bgzinflate\(|\bxxd\s{1,3}-r|["'\])]\[::-1\]|bytes\([^\n]{0,40}\^|(?:["'][^"'\n]{1,8}["']\s?\+\s?){3}|["']{2}\.join\(\[|\]\.join\(["']{2}\)|\.split\(["']{2}\)\.reverse\(\)|\bString\.fromCharCode|\bchr\([^\n]{0,40}\^|charCodeAt\([^\n]{0,40}\^|\bcreateDecipheriv\(|\bFernet\(|\bunescape\(["']%|(?:^|[;&|(]\s{0,3})rev\s{0,3}(?:<<<|\||$)|\|\s{0,3}rev\b|\btr\s['"][^'"\n]{4,60}['"]\s['"][^'"\n]{4,60}['"]/;

const CALL_START = "(?:^|[\\s;=(,>!{&|]|child.process\\.|\\bcp\\.)";
const FIRST_NAME = "\\(\\s{0,2}\\[?\\s{0,2}(?:str\\(|String\\(|os\\.fspath\\(|\\$)?([\\w$][\\w$.]{0,80})";

/** Calls that run text as code. */
const RUNS_TEXT: readonly RegExp[] = [
  new RegExp(`${CALL_START}(?:eval|Function|instance_eval|loadstring|create_function)\\(([^\\n]{0,240})`),
  new RegExp(`${CALL_START}exec\\(\\s{0,2}((?!["'\`f])[^\\n]{0,240})`),
  /\b(?:runIn(?:This|New)?Context|vm\.Script|vm\.compileFunction|_compile|InvokeScript|Assembly\]::Load)\(([^\n]{0,240})/,
  new RegExp(`${CALL_START}(?:os\\.system|os\\.popen|execSync|shell_exec|system|passthru|popen)${FIRST_NAME}`),
  new RegExp(`subprocess\\.\\w{3,12}${FIRST_NAME}[^\\n]{0,120}shell\\s?=\\s?True`),
  /["'](?:-c|-e|-Command|\/c|-r)["']\s{0,2},\s{0,2}([\w$.]{1,80})/,
  /\b(?:ba|z)?sh["'][^\n]{0,80}\binput\s?=\s?([\w.]{1,80})/,
  /(?:^|[;&|({\s])eval\s{1,3}["']?(\$[^\n]{0,120})/,
  /\b(?:(?:ba|z|da)?sh|python[\d.]{0,4}|node|perl|ruby)\s{1,3}-\w{0,3}[ce]\s{1,3}["']?(\$[^\n]{0,80})/,
  /\b(?:(?:ba|z|da)?sh|python[\d.]{0,4}|node)\b[^\n;|]{0,20}<<<\s{0,2}["']?(\$\{?\w{1,60})/,
  /(?:\b(?:echo|printf)\s([^|\n]{0,160})|(\$\w{1,60})\s{0,3})\|\s{0,3}(?:iex|invoke-expression|(?:ba|z|da)?sh|python[\d.]{0,4}|node)(?=\s{0,3}(?:$|[;&)]|-(?:\s|$)))/i,
  /\b(?:iex|invoke-expression)\s{0,3}(?:-\w{1,12}\s{1,3})?([$(][^\n]{0,160})/i,
  /scriptblock\]::Create\(([^\n]{0,160})/i,
  /((?:^|[;&(]\s{0,3})(?:rev|base(?:32|64)|xxd|tr|openssl)\s[^|\n]{0,200}(?:\|[^|\n]{0,80}){0,3})\|\s{0,3}(?:ba|z|da)?sh(?=\s|$|["'`);])/,
  /(?:^|[\s=(,])(?:load|loadstring|assert\(load)\(\s{0,2}((?!["'{])\w[\w.]{0,60})\s{0,2}[),]/,
  /(?:^|[;&|{]\s{0,3}|\bthen\s|\bdo\s)(?:\.|source)\s{1,3}["']?(\$\{?\w{1,60})/,
];
/** Calls that run a file, or load it as code. */
const RUNS_FILE: readonly RegExp[] = [
  new RegExp(
    `(?:subprocess\\.(?:run|call|Popen|check_call|check_output)|${CALL_START}(?:spawn|spawnSync|execFile|execFileSync))${FIRST_NAME}`,
  ),
  /["'](?:(?:ba|z)?sh|python[\d.]{0,4}|node|sudo)["']\s?,\s{0,2}(?:str\()?([\w.]{1,80})|\bsys\.executable\s?,\s{0,2}(?:str\()?([\w.]{1,80})/,
  /\b(?:runpy\.run_path|os\.startfile|os\.exec\w{1,4}|importlib\.import_module|SourceFileLoader)\(([^\n]{0,120})/,
  /(?:spawn|spawnSync|execFile|execFileSync|Popen|subprocess\.\w{3,12})\(\s{0,2}\[?\s?["'](?:[\w.~-]{0,40}\/){1,8}([\w.-]{1,80})["']/,
  /\bspec_from_file_location\(([^\n]{0,120})/,
  /\bStart-Process\s{1,3}(?:-FilePath\s{1,3})?["']?(\$\w{1,60})/i,
  /^\s{0,12}&\s{0,2}(\$\w{1,60})/,
];
const VERIFIES_DIGEST = /sha(?:256|512)|hashlib|createHash|gpg\s{1,3}--verify|minisign|cosign|Get-FileHash/i;

/** Paths whose content runs or loads automatically. */
const AUTORUN_PLACES =
  /["'/\\](?:\.(?:bashrc|bash_profile|bash_login|bash_logout|zshrc|zshenv|zprofile|profile|xprofile|kshrc|tmux\.conf|vimrc|Rprofile)|config\.fish|LaunchAgents|LaunchDaemons|autostart|cron\.d|rc\.local|ld\.so\.preload|authorized_keys|sudoers(?:\.d)?|(?:site|user)customize\.py|[\w-]{1,60}\.pth)["'/\\]|systemd\/user|\.git\/hooks|\.git["'], ["']hooks|\.ssh\/rc\b|Start Menu\\|\\Startup\\|\bshell:startup\b|profile_default\/startup|\.github\/workflows\/|["']\.github["'], ["']workflows/;
const WRITES_FILE: readonly RegExp[] = [
  /((?:^|[\s(=;])[^\n]{0,200}?)\.(?:write_text|write_bytes|symlink_to)\(/,
  /\bopen\(([^\n]{0,160}?),\s{0,2}(?:mode\s?=\s?)?["'][aw]b?\+?["']/,
  /\b(?:writeFile|appendFile|createWriteStream|symlink)(?:Sync)?\(([^\n]{0,160})/,
  /\bshutil\.(?:copy\w{0,4}|move)\([^,\n]{1,120},([^\n]{0,120})|\bcopyFile(?:Sync)?\([^,\n]{1,120},([^\n]{0,120})/,
  /\b(?:Add-Content|Set-Content|Out-File|Copy-Item)\b([^\n]{0,160})/i,
];

const RUN_WORDS = [
  ...[
    "eval",
    "exec(",
    "execsync",
    "function(",
    "context(",
    "vm.",
    "_compile",
    "invokescript",
    "::load(",
    "system(",
    "popen",
  ],
  ...[
    "subprocess",
    "sh -",
    "python -c",
    "python3 -c",
    "node -e",
    "'-c'",
    '"-c"',
    '"-e"',
    "'-e'",
    '"/c"',
    "<<<",
    "| sh",
    "| bash",
  ],
  ...[
    "|sh",
    "|bash",
    "| python",
    "| node",
    "| iex",
    "|iex",
    "iex ",
    "iex(",
    "invoke-expression",
    "::create(",
    "loadstring",
  ],
  ...[
    "create_function",
    "instance_eval",
    "shell_exec",
    "passthru",
    " load(",
    "=load(",
    "(load(",
    "source $",
    'source "$',
    '. "$',
    ". $",
  ],
];

export const DYNAMIC_EXECUTION_RULES: readonly SourceRule[] = [
  {
    id: "answer-to-code",
    weight: "high",
    title: "runs the response of a server as code",
    why: "The owner of the server decides what runs, and can change it at any time.",
    fix: "accept data from servers, never code",
    keywordGroups: [
      splitKeywords(
        "fetch(,axios,got(,got.get,urlopen,urlretrieve,requests.,httpx.,http.get,https.get,net::http,uri.open,download, irm ,(irm , iwr ,(iwr ,invoke-,start-bits,curl,wget,=txt, txt,resolvetxt,dns.resolver,file_get_contents,lwp::,clone",
      ),
      [
        ...RUN_WORDS,
        ...[
          "spawn",
          "execfile",
          "run_path",
          "startfile",
          "import_module",
          "sourcefileloader",
          "spec_from",
          "start-process",
          "& $",
        ],
      ],
    ],
    find(page) {
      if (findAddresses(page).every(isVendorAddress) && findAddresses(page).length > 0) return undefined;
      const text = findDataFlow(page, { source: REQUESTS_DATA, sinks: RUNS_TEXT });
      if (text !== undefined && !isFromVendor(page.lines[text] ?? "")) return createSourceMatch(page, text);
      const file = findDataFlow(page, { source: REQUESTS_DATA, sinks: RUNS_FILE });
      if (file === undefined) return undefined;
      return {
        ...createSourceMatch(page, file),
        weight: page.lines.some((line) => VERIFIES_DIGEST.test(line.slice(0, 400)))
          ? "low"
          : mentionsOutsideHost(page)
            ? "high"
            : "medium",
      };
    },
  },
  {
    id: "decoded-to-code",
    weight: "high",
    title: "decodes something, and runs it later",
    why: "Encoding hides code from review.",
    fix: "decode it, read it, and put it into the skill as plain text",
    keywordGroups: [
      [
        ...[
          ...['" + "', "' + '", '"+"', "'+'", "join("],
          "decode",
          "atob(",
          "buffer.from",
          "fromhex",
          "unhexlify",
          "frombase64",
          "decompress",
          "marshal",
          "rot13",
          "rot_13",
        ],
        ...[
          "gzinflate",
          "xxd",
          "::-1",
          "reverse()",
          "fromcharcode",
          "chr(",
          "charcodeat",
          "decipher",
          "fernet",
          "unescape",
          "base64 -d",
          "base32 -d",
          ...["rev <", "rev|", "rev |", "| rev", "|rev", "tr '", 'tr "'],
        ],
      ],
      RUN_WORDS,
    ],
    find(page) {
      const line = findDataFlow(page, { source: DECODES_DATA, sinks: RUNS_TEXT });
      return line === undefined ? undefined : createSourceMatch(page, line);
    },
  },
  {
    id: "runs-by-itself",
    weight: "high",
    title: "writes to a path whose content runs automatically",
    why: "It keeps running without approval after the skill is removed.",
    fix: "check what it writes, and add it yourself if you want it",
    keywordGroups: [
      splitKeywords(
        ".bashrc,.zshrc,.kshrc,.vimrc,profile,_login,_logout,zshenv,tmux.conf,config.fish,launchagents,launchdaemons,autostart,cron.d,rc.local,ld.so.preload,authorized_keys,sudoers,customize.py,.pth,systemd/user,hooks,.ssh/rc,start menu,startup,workflows",
      ),
      splitKeywords(
        "write_,writefile,createwrite,open(,appendfile,symlink,shutil.,copyfile,copy-item,-content,out-file",
      ),
    ],
    find(page) {
      const line =
        page.kind === "code" ? findDataFlow(page, { source: AUTORUN_PLACES, sinks: WRITES_FILE }) : undefined;
      return line === undefined ? undefined : createSourceMatch(page, line);
    },
  },
];

export function createSourceMatch(page: SourceText, line: number): SourceMatch {
  return { line, seen: page.lines[line] ?? "" };
}

function findAddresses(page: SourceText): string[] {
  return page.lines.flatMap((line, at) =>
    page.isCode(at) ? (line.slice(0, 1000).match(/\bhttps?:\/\/[^\s"'`)|;<>]{1,300}/g) ?? []) : [],
  );
}

const PIPE_TO_INTERPRETER =
  /\|\s{0,8}(?:sudo\b[^|;\n]{0,40}?\s)?(?:env\s)?(?:[\w/.-]{0,20}\/)?(?:(?:(?:ba|z|da|k|fi|a)?sh|source)\b(?!\w|\.\w|-)|\$[({]?SHELL\b|(?:python[\d.]{0,4}|perl|ruby|node|php|deno|bun|lua|osascript|pwsh|powershell|ash)(?:\s{1,3}-(?=\s|$)|\s{0,3}(?:$|[;&|)"'`]))|(?:iex|invoke-expression)\b)/gi;
const FETCH_COMMAND =
  /(?:\b|\\n)(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod|aria2c|lynx|xh|https?ie|dig|nslookup|drill|ncat|netcat|nc(?=\s{1,3}[-\w])|openssl s_client|gh api|DownloadString)\b/i;
const MAX_PIPE_LENGTH = 400;
const RUNS_IT = findFirstMatch(
  /(?:^|[\s;&|("'`])(?:eval|exec|source|\.|(?:ba|z|da|k|fi)?sh(?:\s{1,3}-\w{1,4}){0,3}|(?:python[\d.]{0,4}|node|perl|ruby|php)(?:\s{1,3}-[cer])?)\s{1,3}["']?(?:<|\$)?\(\s{0,3}(?:curl|wget|dig|nslookup|lynx)\b[^\n]{0,300}/,
  /(?:^|[\s;&|(])(?:eval|(?:ba|z|da)?sh\s{1,3}-c)\s{1,3}["']?`(?:curl|wget)\b[^\n]{0,300}/,
  /\b(?:iex|invoke-expression)\b[^\n]{0,160}?(?:downloadstring|\biwr\b|\birm\b|invoke-webrequest|invoke-restmethod)[^\n]{0,160}/i,
  /\b(?:exec|eval|compile)\s?\([^\n]{0,200}?(?:urlopen|urlretrieve|requests?\.get|httpx\.get)\b[^\n]{0,120}/,
  /\beval\s?\([^\n]{0,200}?(?:\bfetch\(|axios\.get|https?\.get)[^\n]{0,120}/,
  /\bfetch\([^\n]{0,300}?\.then\(\s{0,2}(?:eval\b|[^\n]{0,60}?(?:\beval\(|new Function\())[^\n]{0,60}/,
  /\beval\b[^\n]{0,40}?(?:\bget\s?\(?\s?["']https?:|Net::HTTP|URI\.open|HTTP\.get)[^\n]{0,120}/,
  /\b(?:curl|wget)\b[^\n]{0,200}?(?:\s-[oO]\s{0,2}|\s>\s{0,2})([\w./~-]{2,60})[^\n]{0,120}?(?:;|&&)\s{0,3}\(?\s{0,2}(?:(?:ba|z)?sh\s|sudo\s|nohup\s)?\1(?=[\s;&"']|$)/,
  /\bscriptblock\]::Create\([^\n]{0,160}?(?:downloadstring|\biwr\b|\birm\b|invoke-webrequest|invoke-restmethod)[^\n]{0,160}/i,
  /\bDownloadString\([^\n]{0,200}?\|\s{0,3}(?:iex|invoke-expression)\b/i,
  /\b(?:system|popen|Popen|run|call|check_call|check_output|execSync|exec)\(\s{0,2}(?:requests\.get|httpx\.get|urlopen|urllib\.request\.urlopen)\([^\n]{0,200}/,
  /\bpickle\.loads?\([^\n]{0,120}?(?:requests\.|urlopen|httpx\.)[^\n]{0,120}/,
  /\bcertutil\b[^\n]{0,60}?-urlcache\b[^\n]{0,160}|\bbitsadmin\b[^\n]{0,60}?\/transfer\b[^\n]{0,160}|\bmsiexec\b[^\n]{0,60}?https?:[^\n]{0,120}|\b(?:mshta|rundll32|regsvr32|wscript|cscript)\b[^\n]{0,80}?(?:https?:|javascript:)[^\n]{0,120}/i,
  /\b(?:npx|bunx|pnpm dlx|yarn dlx|uvx|pipx run|deno run)\s{1,3}(?:-\S{1,20}\s{1,3}){0,4}["']?https?:\/\/(?!(?:www\.)?(?:github|gitlab)\.com|deno\.land|jsr\.io)[^\s"'`]{1,200}/,
);

/** Caches the last result: two rules run this expensive search on the same statement in succession. */
let lastFetch: { text: string; found: MatchSpan | undefined } = { text: "", found: undefined };

function findFetch(text: string): MatchSpan | undefined {
  if (lastFetch.text !== text) lastFetch = { text, found: findFetchAndRun(text) };
  return lastFetch.found;
}

function findFetchAndRun(text: string): MatchSpan | undefined {
  for (const end of text.matchAll(PIPE_TO_INTERPRETER)) {
    const before = text.slice(Math.max(0, end.index - MAX_PIPE_LENGTH), end.index);
    const command = before.slice(before.lastIndexOf(";") + 1);
    const begin = FETCH_COMMAND.exec(command);
    if (!begin) continue;
    const index = end.index - command.length + begin.index;
    // Without an address it only describes a download.
    if (/:\/\/|\$|\w\.\w{2,}|\{\w|["']\s?\+/.test(text.slice(index, end.index)))
      return { index, length: end.index + end[0].length - index };
  }
  return RUNS_IT(text);
}

/** Returns the fetch command with the rest of its code. */
const getFetchContext = (text: string, { index, length }: MatchSpan) =>
  text.slice(index, index + length) + (text.slice(index + length, index + length + 200).split("`", 1)[0] ?? "");

export const DOWNLOAD_RULES: readonly TextRule[] = [
  {
    id: "fetch-and-execute",
    weight: "high",
    regionWeights: "hhhhlh",
    title: "runs downloaded code without a review",
    why: "The owner of the address decides what runs, and can change it after this scan.",
    fix: "download it, read it, pin its digest, and put the needed parts into the skill",
    keywords: splitKeywords(
      "curl,wget,iex,invoke-expression,urlopen,requests.get,httpx.get,axios,fetch(,lwp,npx,bunx, dlx,uvx,pipx,deno run,net::http,uri.open,certutil,bitsadmin,mshta,rundll32,regsvr32,downloadstring,aria2c,lynx,dig ,nslookup,drill ,ncat ,nc -,s_client,gh api,msiexec,cscript,wscript",
    ),
    find(text) {
      const found = findFetch(text);
      return found && !isFromVendor(getFetchContext(text, found)) ? found : undefined;
    },
  },
  {
    id: "known-installer",
    weight: "low",
    regionWeights: "llll--",
    title: "runs the installer of a known vendor from the network",
    why: "Common, but the server still decides what runs.",
    fix: "prefer a package manager, or pin the version",
    keywords: ["curl", "wget", "iex"],
    find(text) {
      const found = findFetch(text);
      return found && isFromVendor(getFetchContext(text, found)) ? found : undefined;
    },
  },
  {
    id: "locked-archive",
    weight: "high",
    regionWeights: "hhhhlh",
    title: "downloads a password-protected archive",
    why: "A password that is published next to the archive only stops scanners.",
    fix: "do not use it",
    keywords: [".zip", ".rar", ".7z", "archive", "unzip -p", "7z x -p", "unrar x -p"],
    find: findFirstMatch(
      /https?:\/\/[^\s)`]{1,160}\.(?:zip|rar|7z)\b[^\n]{0,120}?\bpass(?:word|code|phrase)?\b(?!\s(?:the|it|them|a|an|to|on)\b)[^\n]{0,120}/i,
      /\barchive\b[^.\n]{0,30}?\b(?:has|needs|opens with|is protected (?:by|with))\b[^.\n]{0,20}?\bpassword\b[^.\n]{0,30}?[\x60"'(][^\n]{1,40}?[\x60"')][^\n]{0,120}?\b(?:antivirus|scanners?|false|mistake|browsers?)\b/i,
      /\b(?:curl|wget)\b[^\n]{0,240}?(?:&&|;)[^\n]{0,80}?\b(?:unzip\s{1,3}-\w{0,3}P|7z\s{1,3}x\s{1,3}-p|unrar\s{1,3}x\s{1,3}-p)\s{0,2}["']?\w/,
    ),
  },
  {
    id: "remote-instructions",
    weight: "high",
    regionWeights: "--hhmh",
    title: "tells the model to follow instructions from another location",
    why: "Those instructions can change after the review, and the model follows them as part of the skill.",
    fix: "put the instructions into the skill",
    keywords: splitKeywords(
      "as if they,as if it,as though,continuation of,part of these,follow the,follow its,follow all,follow any,follow every,obey,carry out,execute the,execute all,execute any,execute every,what it says,what it tells,whatever it,what they say,what it returns,what is written there,what you find there,as it says,as instructions,as your instructions,as part of this skill,as authoritative",
    ),
    find: findFirstMatch(
      /\b(?:fetch|download|open|load|read|visit|get|retrieve|curl|browse to|go to)\b[^.\n]{0,60}?https?:\/\/[^\s)`]{1,160}[^\n]{0,60}?\b(?:follow|obey|execute|carry out|run)\b[^.\n]{0,40}?\b(?:instructions?|commands?|steps|orders|directives)\b/i,
      /https?:\/\/[^\s)`]{1,160}[^\n]{0,100}?\b(?:do|follow|apply|obey|execute|run)\b[^.\n]{0,20}?\b(?:what(?:ever)?|everything|anything|exactly|as)\b[^.\n]{0,30}?\b(?:says?|tells?|there|contains?|returns?|listed|written)\b/i,
      /https?:\/\/[^\s)`]{1,160}[^\n]{0,100}?\b(?:treat|take|use)\b[^.\n]{0,40}?\bas (?:your |additional |further |authoritative |binding |part of (?:this skill|these) ?){0,3}(?:instructions?|skill|rules|orders|directives)\b/i,
      /\b(?:carry|follow|execute|obey|perform|do)\b[^.\n]{0,12}?\b(?:them|it|these)\b[^.\n]{0,12}?\bas (?:if|though) (?:they|it) (?:were|was)\b/i,
      /\b(?:fetch|read|load|get)\b[^.\n]{0,20}?https?:\/\/[^\s)\x60]{1,160}[^.\n]{0,30}?\b(?:as|is) (?:a |the )?(?:continuation|part|extension) of (?:these|this|the) (?:steps|skill|instructions|page)\b/i,
      /\bfollow the (?:new|newest|latest|current|downloaded|updated) (?:version|text|instructions|copy)\b/i,
      /\b(?:follow|obey|execute|carry out)\b[^.\n]{0,40}?\b(?:instructions?|commands?|steps|orders|directives)\b[^.\n]{0,40}?\b(?:at|from|found at|returned by)\s{1,3}`?https?:\/\/[^\s)`]{1,160}/i,
    ),
  },
];

const TARGET =
  /(?:\s-o\s{0,2}|\s--output[ =]|\btee\s{1,3}(?:-a\s{1,3})?|\s-O\s{1,2}|\s>\s{0,2}|-OutFile\s{1,3})["']?([\w./~${}-]{2,80})/;
const RUNNERS =
  /^(?:sudo|nohup|exec|env|command|setsid|(?:ba|z|da|k)?sh|python[\d.]*|perl|ruby|node|source|\.|&|start|open|powershell|start-process|invoke-item|cmd|\/c|cscript|wscript|msiexec|java|-jar|-FilePath)$/i;
const CHECKS_DIGEST = /\b(?:sha(?:256|512)sum|shasum|sha256|gpg\s{1,3}--verify|minisign|cosign|Get-FileHash)\b/;
const MAX_LINE_DISTANCE = 15;

export const DOWNLOAD_SOURCE_RULES: readonly SourceRule[] = [
  {
    id: "download-then-run",
    weight: "high",
    title: "downloads a file and runs it later",
    why: "The downloaded code runs without a review.",
    fix: "compare the file with a digest in the skill before running it",
    keywordGroups: [["curl", "wget", "outfile", "urlretrieve", "add http"]],
    find(page) {
      for (const [line, text] of page.lines.entries()) {
        if (!page.isCode(line) || text.length > 1000 || !/\b(?:curl|wget|iwr|invoke-webrequest)\b|^ADD\s/i.test(text))
          continue;
        if (isFromVendor(text)) continue;
        const name =
          TARGET.exec(text)?.[1] ??
          /^ADD\s{1,3}(?:--\S{1,60}\s{1,3}){0,3}https?:\/\/\S{1,300}\s{1,3}(\S{2,120})/.exec(text)?.[1] ??
          (/\bwget\b|\s-\w{0,8}O\b|--remote-name/.test(text) ? findTargetFile(text) : undefined);
        if (name === undefined || name.startsWith("/dev/")) continue;
        const after = [getCommandsAfterFetch(text), ...page.lines.slice(line + 1, line + MAX_LINE_DISTANCE)];
        const at = after.findIndex((later) => runsFile(later.slice(0, 400), name));
        if (at === -1) continue;
        const isChecked = after.slice(0, at + 1).some((later) => CHECKS_DIGEST.test(later.slice(0, 400)));
        return {
          line,
          seen: text,
          weight: isChecked ? "low" : findOutsideAddress(text) === undefined ? "medium" : "high",
        };
      }
      return undefined;
    },
  },
  {
    id: "eval-of-answer",
    weight: "high",
    title: "requests text from a server and runs text as code",
    why: "The owner of the server decides what runs.",
    fix: "accept data from servers, never code",
    keywordGroups: [
      ["fetch(", "axios", "urlopen", "requests.get", "httpx.get", "https.get"],
      ["eval(", "new function(", "exec(", "runinthiscontext"],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const asks = findLineWith(
        page.lines,
        /\bfetch\(|axios\.get|urlopen\(|requests\.get\(|httpx\.get\(|https?\.get\(/,
      );
      const runs = findLineWith(
        page.lines,
        /(?:^|[\s;=(,>])(?:eval|exec)\(\s{0,2}[\w.]{1,40}\s{0,2}[,)]|new Function\(\s{0,2}\w{1,40}\s{0,2}\)\s?\(|runInThisContext\(/,
      );
      if (asks === undefined || runs === undefined || page.placeAt(runs) !== "code") return undefined;
      return { line: runs, seen: page.lines[runs] ?? "" };
    },
  },
];

function findLineWith(lines: readonly string[], pattern: RegExp): number | undefined {
  const at = lines.findIndex((line) => pattern.test(line.slice(0, 1000)));
  return at === -1 ? undefined : at;
}

/** Returns the commands of a line after the one that fetches. */
function getCommandsAfterFetch(text: string): string {
  const [, ...later] = text.slice(text.search(/\b(?:curl|wget|iwr|invoke-webrequest)\b/i)).split(/&&|\|\||[;|]/);
  return later.join(";");
}

function findTargetFile(text: string): string | undefined {
  return /https?:\/\/[^\s"'`?]{1,200}\/([\w.-]{2,60})/.exec(text)?.[1];
}

function runsFile(text: string, name: string): boolean {
  return text.split(/&&|\|\||[;|]/).some((command) => {
    const words = command
      .trim()
      .split(/\s+/)
      .map((word) => word.replace(/^["']|["']$/g, ""));
    let at = 0;
    while (at < words.length && (RUNNERS.test(words[at] ?? "") || /^-\w$/.test(words[at] ?? ""))) at++;
    const word = words[at] ?? "";
    const isStarted = at > 0 || word.includes("/");
    if (name.includes("/bin/") && word !== "" && name.endsWith(`/bin/${word}`)) return true;
    return isStarted && word.replace(/^\.\//, "") === name.replace(/^\.\//, "");
  });
}
