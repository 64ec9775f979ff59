import {
  type FileRule,
  findFirstMatch,
  type ScannedFile,
  type SourceRule,
  splitKeywords,
  type TextRule,
} from "../rule.ts";
import { findDataFlow, type SourceText } from "../source-text.ts";

/** Rules for tricking people out of secrets and money, and for reporting on their machine. */
export const DECEPTION_RULES: readonly TextRule[] = [
  {
    id: "password-dialog",
    weight: "high",
    regionWeights: "hhhhlh",
    title: "asks the user for a password or a recovery phrase that no skill needs",
    why: "The skill receives everything that the user enters.",
    fix: "do not use it; programs that need more permissions ask for them directly",
    keywords: splitKeywords(
      "display dialog,hidden answer,authonly,promptforcredential,get-credential,zenity,kdialog,askstring,sudo -s,seed phrase,recovery phrase,mnemonic,one-time code,2fa code,card number,cvv,account password,login password,master password",
    ),
    find: findFirstMatch(
      /\bdisplay dialog\b[^\n]{0,200}?(?:hidden answer|password)/i,
      /\bdscl\b[^\n]{0,40}?-?authonly\b|\bPromptForCredential\(|\b(?:zenity|kdialog)\b[^\n]{0,80}?--password\b|\baskstring\([^\n]{0,120}?show\s?=/i,
      /\bread\s{1,3}-\w{0,3}s\w{0,3}\s[^\n]{0,120}?\|\s{0,3}sudo\s{1,3}-S\b|\becho\s{1,3}["']?\$\{?\w{1,40}\}?["']?\s{0,3}\|\s{0,3}sudo\s{1,3}-S\b/,
      /\b(?:ask|prompt|request|get)\b[^.\n]{0,40}?\b(?:seed phrase|recovery phrase|mnemonic|one-time code|2fa code|card number|cvv|(?:account|login|master|sudo|mac|system) password)\b/i,
    ),
  },
  {
    id: "hidden-window",
    weight: "high",
    regionWeights: "hhhllh",
    title: "starts a program with a hidden window",
    why: "The user does not see that it runs.",
    fix: "make it run visibly",
    keywords: ["hidden", "-w h", "create_no_window", "sw_hide"],
    find: findFirstMatch(
      /\b(?:powershell|pwsh)(?:\.exe)?\b[^\n]{0,120}?\s-w(?:in\w{0,12})?\s{1,3}["']?h(?:idden)?\b|\bStart-Process\b[^\n]{0,160}?-WindowStyle\s{1,3}["']?hidden\b/i,
    ),
  },
  {
    id: "set-payee",
    weight: "high",
    regionWeights: "mmhhlh",
    title: "sends money to an address in the skill",
    why: "The payment cannot be reversed.",
    fix: "let the user enter the recipient and the amount",
    keywords: ["0x", "bc1", "wallet", "payment", "transfer", "donat"],
    find: findFirstMatch(
      /\b(?:send|transfer|pay|forward|donate|tip|replace|swap)\b[^.\n]{0,100}?\b(?:0x[0-9a-fA-F]{40}|bc1[0-9a-z]{20,60}|[13][1-9A-HJ-NP-Za-km-z]{25,34}|[A-HJ-NP-Za-km-z1-9]{43,44})\b/i,
    ),
  },
  {
    id: "sends-machine",
    weight: "high",
    regionWeights: "hhhllh",
    title: "reports the identity of the machine to a server",
    why: "Authors of malicious packages find out this way whom they reached.",
    fix: "ask why it needs this",
    keywords: ["whoami", "hostname", "uname", "$user", "ifconfig", "ipconfig", "tar ", "zip "],
    find: findFirstMatch(
      /\b(?:curl|wget|iwr|irm|Invoke-\w{3,12})\b[^\n]{0,200}?(?:https?:\/\/[^\s"']{0,160}|\s(?:-d|-F|-H|-A|--data[\w-]{0,12}|--header|-Body)[ =]{1,2}["']?[^"'\n]{0,120}?)(?:\$\(|`)\s?(?:whoami|hostname|uname|id|pwd|ifconfig|ip a)\b/i,
      /\b(?:whoami|hostname|uname -a|ifconfig|ipconfig|ps aux|history)\b[^\n]{0,120}?\|\s{0,3}curl\b[^\n]{0,160}?(?:-d|--data|-F|-T|--upload)/,
      /\b(?:tar|zip)\s[^\n|]{0,120}\|[^\n]{0,120}?\bcurl\b[^\n]{0,160}?(?:-T|--upload-file|--data-binary|-F)\b/,
    ),
  },
];

/** Key names of services, and the hosts that each key is for. */
const KEY_OWNERS: readonly (readonly [key: RegExp, hosts: RegExp])[] = [
  [/\bOPENAI_API_KEY\b/, /openai|azure|openrouter|localhost|127\.0/i],
  [/\bANTHROPIC_API_KEY\b/, /anthropic|claude|openrouter|localhost|127\.0/i],
  [/\b(?:GITHUB_TOKEN|GH_TOKEN|GITHUB_PAT)\b/, /github|ghcr|localhost/i],
  [/\bAWS_(?:SECRET_ACCESS_KEY|SESSION_TOKEN)\b/, /amazonaws|aws|minio|localhost|cloudflarestorage/i],
  [/\b(?:NPM_TOKEN|NODE_AUTH_TOKEN)\b/, /npmjs|registry|npm\.|github|localhost/i],
  [/\b(?:STRIPE_SECRET_KEY|STRIPE_API_KEY)\b/, /stripe/i],
  [/\b(?:HF_TOKEN|HUGGINGFACE_TOKEN)\b/, /huggingface|hf\.co/i],
];
const REQUEST_CALLS: readonly RegExp[] = [
  /\b(?:requests|httpx|axios|session|client)\.(?:get|post|put|patch|request)\(([^\n]{0,800})/,
  /\b(?:fetch|urlopen|axios|got|Request)\(([^\n]{0,800})/,
  /\b(?:curl|wget)\s([^\n]{0,800})/,
];
const MACHINE_FACTS: readonly RegExp[] = [
  /\bos\.hostname\(|\bsocket\.gethostname\(|\bplatform\.node\(|\$\(hostname\)|\bos\.uname\(/,
  /\bos\.userInfo\(|\bgetpass\.getuser\(|\bos\.getlogin\(|\$\(whoami\)/,
  /\bos\.homedir\(|process\.cwd\(\)|\bos\.getcwd\(|\b__dirname\b/,
  /\bos\.networkInterfaces\(|\bdns\.getServers\(|api\.ipify\.org|ifconfig\.me|ipinfo\.io|git config (?:--global )?user\.email/,
];
const SENDS_REQUEST =
  /method["']?\s?:\s?["']POST|\b(?:requests|httpx|axios)\.(?:post|put)\(|https?\.request\(|urlopen\([^\n]{0,200}?data|\bcurl\b[^\n]{0,200}?(?:-d|--data|-F|-T)\s/;

export const DECEPTION_SOURCE_RULES: readonly SourceRule[] = [
  {
    id: "key-elsewhere",
    weight: "high",
    title: "sends the key of one service to another",
    why: "A key is for the service that issued it; any other recipient can misuse it.",
    fix: "ask why that host needs the key",
    keywordGroups: [
      splitKeywords(
        "openai_api,anthropic_api,github_token,gh_token,github_pat,aws_se,npm_token,node_auth,stripe_,hf_token,huggingface_token",
      ),
    ],
    find(page) {
      const hosts = findHosts(page);
      if (hosts.length === 0) return undefined;
      for (const [key, own] of KEY_OWNERS) {
        if (hosts.some((host) => own.test(host))) continue;
        const line = findDataFlow(page, { source: key, sinks: REQUEST_CALLS, isPlain: true });
        if (line !== undefined) return { line, seen: page.lines[line] ?? "" };
      }
      return undefined;
    },
  },
  {
    id: "tells-of-machine",
    weight: "medium",
    title: "collects the identity of the machine, and sends something",
    why: "Authors of malicious packages find out this way whom they reached.",
    fix: "ask why it needs this",
    keywordGroups: [
      ["hostname", "platform.node", "uname("],
      ["userinfo", "getuser", "getlogin", "whoami"],
      ["post", "request(", "urlopen", "curl"],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const lines = page.lines.map((line, at) => (page.isCode(at) ? line.slice(0, 1000) : ""));
      const kinds = MACHINE_FACTS.filter((pattern) => lines.some((line) => pattern.test(line)));
      const line = lines.findIndex((text) => SENDS_REQUEST.test(text));
      return kinds.length >= 3 && line !== -1 ? { line, seen: page.lines[line] ?? "" } : undefined;
    },
  },
];

function findHosts(page: SourceText): string[] {
  return page.lines.flatMap((line, at) =>
    page.isCode(at)
      ? [...line.slice(0, 1000).matchAll(/\bhttps?:\/\/([\w.-]{3,100})/g)].map(([, host = ""]) => host)
      : [],
  );
}

const MAGIC: readonly (readonly [kind: string, pattern: RegExp])[] = [
  ["a Linux program", /^\x7fELF/],
  ["a Windows program", /^MZ[\s\S]/],
  ["a macOS program", /^(?:\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe)/],
  ["a WebAssembly module", /^\0asm/],
  ["a zip", /^PK\x03\x04/],
  ["a gzip", /^\x1f\x8b/],
  ["a 7z archive", /^7z\xbc\xaf\x27\x1c/],
  ["a rar archive", /^Rar!\x1a\x07/],
  ["an xz archive", /^\xfd7zXZ/],
  ["a script", /^#!|^\s{0,20}<\?php|^\s{0,20}<script\b/i],
];
const PROGRAMS = /program$/;
const ARCHIVES = /^a (?:zip|7z archive|rar archive|gzip)$|^an xz/;

/** Extensions of media files, which are viewed and never run. */
const MEDIA_ENDINGS = /\.(?:png|jpe?g|gif|webp|bmp|ico|tiff?|mp[34]|wav|ogg|webm|mov|pdf|woff2?|ttf|otf|eot)$/i;
const TEXT_ENDINGS = /\.(?:md|txt|json|csv|ya?ml|toml|html?|css|rst|svg|xml)$/i;
/** Formats that are zip archives. */
const ZIP_FORMAT_ENDINGS =
  /\.(?:docx|xlsx|pptx|dotx|xltx|potx|odt|ods|odp|epub|sketch|fig|key|pages|numbers|mscz|kra|3mf|skill|whl|nupkg|vsix|usdz|drawio)$/i;
const CODE_NAME =
  /\.(?:sh|bash|zsh|py|pyc|js|mjs|cjs|ts|rb|pl|ps1|psm1|bat|cmd|exe|dll|so|dylib|jar|class|vbs|app|scr|lua|php)$/i;

export const DISGUISED_FILE_RULES: readonly FileRule[] = [
  {
    id: "false-ending",
    weight: "high",
    title: "has a file whose content does not match its name",
    why: "A misleading name hides the file from reviewers.",
    fix: "do not use it; inspect the file with a tool that shows its bytes",
    find({ path, kind }) {
      if (kind === undefined) return undefined;
      const isRunnable = PROGRAMS.test(kind) || kind === "a script";
      if (MEDIA_ENDINGS.test(path) && (isRunnable || kind === "a zip"))
        return { weight: isRunnable ? "high" : "medium", seen: kind };
      return TEXT_ENDINGS.test(path) && PROGRAMS.test(kind) ? { seen: kind } : undefined;
    },
  },
  {
    id: "double-ending",
    weight: "medium",
    title: "has a program that is named like a document",
    why: "Many systems hide the last extension.",
    fix: "do not open it",
    find({ path }) {
      const match =
        /\.(?:pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|txt|csv|mp[34]|html?)\.(?:exe|scr|bat|cmd|com|sh|ps1|vbs|js|jar|app|py|lnk|command)$/i.exec(
          path,
        );
      return match ? { seen: match[0] } : undefined;
    },
  },
  {
    id: "compiled",
    weight: "medium",
    title: "contains a compiled program",
    why: "Its behavior is not visible in readable files.",
    fix: "build it from its source, or remove it",
    find({ path, kind }) {
      if (kind !== undefined && (PROGRAMS.test(kind) || kind === "a WebAssembly module"))
        return { weight: PROGRAMS.test(kind) ? "medium" : "low", seen: kind };
      if (/\.(?:pyc|pyo|class|jar)$/i.test(path))
        return { weight: /__pycache__\//.test(path) ? "low" : "medium", seen: "compiled code" };
      return undefined;
    },
  },
  {
    id: "archive",
    weight: "medium",
    title: "contains an archive",
    why: "The scan does not look into archives.",
    fix: "put its files into the skill directly",
    find({ path, bytes, kind }) {
      if (kind === undefined || !ARCHIVES.test(kind) || MEDIA_ENDINGS.test(path)) return undefined;
      if (kind !== "a zip") {
        if (kind === "a gzip" && !/\.(?:tgz|tar\.gz)$/i.test(path)) return undefined;
        return { seen: kind };
      }
      const { names, isLocked } = listZipNames(bytes);
      const code = names.find((name) => CODE_NAME.test(name));
      const isMacro = names.some((name) => name.endsWith("vbaProject.bin"));
      if (isMacro) return { seen: "a document with macros" };
      if (ZIP_FORMAT_ENDINGS.test(path)) return undefined;
      if (isLocked) return { seen: "a zip with a password" };
      return code === undefined ? { weight: "low", seen: "a zip" } : { seen: `a zip with code in it, ${code}` };
    },
  },
];

/** Returns the type that a file's first bytes indicate, or undefined for plain text and pictures. */
export function detectMagic(bytes: Uint8Array): string | undefined {
  if (!FIRST_BYTES.has(bytes[0] ?? 0)) return undefined;
  const start = String.fromCharCode(...bytes.subarray(0, 32));
  return MAGIC.find(([, pattern]) => pattern.test(start))?.[0];
}

const FIRST_BYTES = new Set([...Buffer.from("\x7fM\xfe\xce\xcf\xca\0P\x1f7R\xfd#< \t\n\r", "latin1")]);

const MAX_ZIP_NAMES = 2000;

/** Returns the file names in a zip archive, from its local file headers. */
function listZipNames(bytes: Uint8Array): { names: string[]; isLocked: boolean } {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const names: string[] = [];
  let isLocked = false;
  for (
    let at = buffer.indexOf(ZIP_FILE_HEADER);
    at !== -1 && at + 30 <= buffer.length && names.length < MAX_ZIP_NAMES;
  ) {
    isLocked ||= (buffer.readUInt16LE(at + 6) & 1) === 1;
    names.push(buffer.toString("utf8", at + 30, at + 30 + Math.min(512, buffer.readUInt16LE(at + 26))));
    at = buffer.indexOf(ZIP_FILE_HEADER, at + 30);
  }
  return { names, isLocked };
}

const ZIP_FILE_HEADER = "PK\x03\x04";

/** Returns true if the bytes are not readable text. */
export function isBinaryFile({ bytes }: Pick<ScannedFile, "bytes">): boolean {
  return bytes.subarray(0, 8192).includes(0);
}
