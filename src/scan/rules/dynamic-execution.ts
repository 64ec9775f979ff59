import type { SourceMatch, SourceRule } from "../rule.ts";
import { findDataFlow, type SourceText } from "../source-text.ts";
import { isFromVendor, isVendorAddress, mentionsOutsideHost } from "./host-reputation.ts";

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
      [
        ...[
          "fetch(",
          "axios",
          "got(",
          "got.get",
          "urlopen",
          "urlretrieve",
          "requests.",
          "httpx.",
          "http.get",
          "https.get",
        ],
        ...[
          "net::http",
          "uri.open",
          "download",
          " irm ",
          "(irm ",
          " iwr ",
          "(iwr ",
          "invoke-",
          "start-bits",
          "curl",
          "wget",
          "=txt",
          " txt",
          "resolvetxt",
          "dns.resolver",
        ],
        ...["file_get_contents", "lwp::", "clone"],
      ],
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
      [
        ...[
          ".bashrc",
          ".zshrc",
          ".kshrc",
          ".vimrc",
          "profile",
          "_login",
          "_logout",
          "zshenv",
          "tmux.conf",
          "config.fish",
        ],
        ...[
          "launchagents",
          "launchdaemons",
          "autostart",
          "cron.d",
          "rc.local",
          "ld.so.preload",
          "authorized_keys",
          "sudoers",
        ],
        ...["customize.py", ".pth", "systemd/user", "hooks", ".ssh/rc", "start menu", "startup", "workflows"],
      ],
      [
        "write_",
        "writefile",
        "createwrite",
        "open(",
        "appendfile",
        "symlink",
        "shutil.",
        "copyfile",
        "copy-item",
        "-content",
        "out-file",
      ],
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
