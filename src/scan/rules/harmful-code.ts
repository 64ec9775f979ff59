import { type SourceRule, splitKeywords } from "../rule.ts";
import { findDataFlow } from "../source-text.ts";
import { findSecondHost } from "./cross-file.ts";
import { createSourceMatch } from "./dynamic-execution.ts";
import { findUnknownHost } from "./host-reputation.ts";
import { COIN_ADDRESS } from "./user-abuse.ts";

/** A fixed payment address: not one that the user chose. */
const FIXED_PAYEE = /["'\x60](?:0x[0-9a-fA-F]{38,40}|bc1[0-9a-z]{25,60}|[1-9A-HJ-NP-Za-km-z]{43,44})["'\x60]/;
const PAYS_COINS: readonly RegExp[] = [
  /\bsend(?:Transaction|Raw\w{0,16}|_transaction|Coins?)?\(\s{0,2}\{[^}\n]{0,80}?\bto["']?\s{0,2}:\s{0,2}(\w[\w.]{0,60})[^}\n]{0,80}?\bvalue\b/,
  /["']to["']\s{0,2}:\s{0,2}(\w[\w.]{0,60})[^}\n]{0,80}?["']value["']/,
  /\btoPubkey\s{0,2}:\s{0,2}([^,}\n]{1,80})/,
];

/** Calls that receive data from a connection. */
const RECEIVES_DATA =
  /\.recv(?:from)?\(|\bon\(\s?["'](?:data|message)["']|\bonmessage\b|\.get(?:s|line)\b|\$\w{1,20}\.Read(?:Line)?\(|\breadline\(\)/;
const RUNS_COMMAND: readonly RegExp[] = [
  /\b(?:subprocess\.(?:getoutput|getstatusoutput|run|Popen|check_output|call)|os\.(?:popen|system)|execSync|child.process\.exec|(?:^|[^.\w])exec|system|shell_exec|Invoke-Expression|iex|IO\.popen)[\s(]{1,3}\[?\s{0,2}(?!["'])([\w$.]{1,80})/,
  /(?:`|%x[({[]|\bqx[({[/])\s?[#$]\{?(\w{1,40})/,
  /\b(?:subprocess\.\w{3,12}|spawn|execFile)\(\s{0,2}\[?["'](?:\/bin\/)?(?:ba)?sh["'][^\n]{0,40}?,\s{0,2}\[?["']-\w?c["']\s?,\s{0,2}([\w$.]{1,80})/,
];
const OPENS_CONNECTION =
  /\.connect\(|create_connection\(|net\.(?:connect|createConnection)\(|new WebSocket\(|TCPSocket|TCPClient|websockets?\.connect|fsockopen\(/;

/** A statement that empties a table named by a variable. */
const EMPTIES_EACH =
  /\b(?:DROP (?:TABLE|SCHEMA|DATABASE)|TRUNCATE(?: TABLE)?|DELETE FROM)\b[^\n]{0,40}?(?:\$\{|%I|%s|["']\s?\+|\{\w|#\{|\|\|)/i;
const ASKED_OR_TEST =
  /\btest(?:s|ing|_db)?\b|\blocalhost\b|\bconfirm|\bread -r?p\b|\binput\(|\bprompt\(|--yes\b|\bdev(?:elopment)?\b/i;
/** Code that changes every file of the user. */
const REWRITES_FILES =
  /\b\w{0,20}(?:encrypt|cipher|lock|seal)\w{0,12}\(|\.rename\([^\n]{0,80}?["']\.\w{3,12}["']|\bos\.rename\([^\n]{0,80}?["']\.\w{3,12}["']|\bopenssl enc -|\bgpg (?:-c|--symmetric|-e)\b/i;
const RANSOM_NOTE =
  /\b(?:bitcoin|monero|BTC|XMR|USDT|ransom|pay \d|0\.\d{1,3} ?(?:BTC|ETH|XMR))\b|(?:RESTORE|RECOVER|DECRYPT|GET_FILES_BACK|READ_?ME_TO|HOW_TO)[\w]{0,30}\.(?:txt|html)/i;
const ALL_FILES =
  /\.rglob\(\s?["']\*|os\.walk\(|Get-ChildItem[^\n]{0,60}-Recurse|\bfind\s["']?(?:~|\$HOME|\/home|\/Users)|readdir\w{0,4}\([^\n]{0,60}recursive|glob\w{0,4}\(["'`][^"'`\n]{0,40}\*\*/;

/** Rules over a single code file: the data it reads, and the use of the data. */
export const HARMFUL_CODE_RULES: readonly SourceRule[] = [
  {
    id: "socket-to-shell",
    weight: "high",
    title: "runs commands that it receives over a connection",
    why: "The other end can run commands on this machine.",
    fix: "do not run it",
    keywordGroups: [
      [
        ".recv",
        "on('data",
        'on("data',
        "on('message",
        'on("message',
        "onmessage",
        ".gets",
        "getline",
        "readline",
        ".read(",
      ],
      ["getoutput", "popen", "system(", "exec", "spawn", "subprocess", "invoke-expression", "iex", "`#{", "%x", "qx"],
      splitKeywords(".connect(,create_connection,net.connect,createconnection,websocket,tcpsocket,tcpclient,fsockopen"),
    ],
    find(page) {
      if (page.kind !== "code" || !page.lines.some((line) => OPENS_CONNECTION.test(line.slice(0, 1000))))
        return undefined;
      const line = findDataFlow(page, { source: RECEIVES_DATA, sinks: RUNS_COMMAND });
      return line === undefined ? undefined : createSourceMatch(page, line);
    },
  },
  {
    id: "tables-emptied",
    weight: "high",
    title: "drops or empties every table it finds",
    why: "The loss is permanent.",
    fix: "do not run it against data that you need",
    keywordGroups: [
      ["pg_tables", "information_schema", "show tables", "sqlite_master", "pg_class", "sys.tables"],
      ["drop table", "truncate", "delete from", "drop schema", "drop database"],
    ],
    find(page) {
      if (page.kind !== "code" || page.lines.some((line) => ASKED_OR_TEST.test(line.slice(0, 400)))) return undefined;
      const line = page.lines.findIndex(
        (text, at) => page.placeAt(at) === "code" && EMPTIES_EACH.test(text.slice(0, 1000)),
      );
      return line === -1 ? undefined : createSourceMatch(page, line);
    },
  },
  {
    id: "files-held",
    weight: "high",
    title: "makes all files of the user unreadable, and demands money",
    why: "The files cannot be recovered without the key.",
    fix: "do not run it",
    keywordGroups: [
      ["rglob", "os.walk", "-recurse", "find ~", "find $", "find /", "readdir", "glob"],
      ["encrypt", "cipher", "lock", "seal", "rename", "openssl enc", "gpg "],
      splitKeywords("bitcoin,monero,btc,xmr,usdt,ransom,pay ,restore,recover,decrypt,files_back,readme,read_me,how_to"),
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const has = (pattern: RegExp) =>
        page.lines.findIndex((line, at) => page.placeAt(at) === "code" && pattern.test(line.slice(0, 1000)));
      const line = has(REWRITES_FILES);
      return line !== -1 && has(ALL_FILES) !== -1 && has(RANSOM_NOTE) !== -1
        ? createSourceMatch(page, line)
        : undefined;
    },
  },
  {
    id: "second-host",
    weight: "high",
    title: "uses a key for one service, and sends it to another, unknown host",
    why: "A key is for the service that issued it.",
    fix: "do not use it; if you already used it, replace the key",
    keywordGroups: [
      ["http:", "https:"],
      [
        ...["_authtoken", "private_key", "client_secret", "refresh_token", "authorization", "x-api-key", "mnemonic"],
        ...["privatekey", "storagestate", "_key", "_token", "_secret", "_password", "password", "cookie"],
      ],
    ],
    find(page) {
      const line = page.kind === "code" ? findSecondHost(page) : undefined;
      return line === undefined ? undefined : createSourceMatch(page, line);
    },
  },
  {
    id: "coins-to-fixed-address",
    weight: "high",
    title: "sends the user's cryptocurrency to an address in the code",
    why: "The user decides who is paid.",
    fix: "do not use it",
    keywordGroups: [
      ["0x", "bc1", "pubkey"],
      ["sendtransaction", "send_transaction", "sendcoin", "topubkey", '"value"', "'value'"],
    ],
    find(page) {
      const line = page.kind === "code" ? findDataFlow(page, { source: FIXED_PAYEE, sinks: PAYS_COINS }) : undefined;
      return line === undefined ? undefined : createSourceMatch(page, line);
    },
  },
  {
    id: "index-from-variable",
    weight: "high",
    title: "installs packages from an unknown registry",
    why: "Packages run code during installation.",
    fix: "use the registry where the package is published",
    keywordGroups: [
      splitKeywords("index-url,--registry,index_url,extra_index,npm_config_registry,registry.npmjs.org,find-links"),
      ["http:", "https:"],
    ],
    find(page) {
      for (const [at, line] of page.lines.entries()) {
        const text = line.slice(0, 1000);
        if (!page.isCode(at) || !/index|registry|find-links/i.test(text)) continue;
        const [, name] =
          /(?:index-url|--registry|--find-links)["']?[\s=,]{1,3}["']?[${]{1,2}(\w{1,60})/.exec(text) ?? [];
        const isGiven =
          name !== undefined &&
          page.lines.some(
            (other) =>
              new RegExp(`\\b${name}\\s{0,2}=`).test(other.slice(0, 200)) &&
              findUnknownHost(other.slice(0, 1000)) !== undefined,
          );
        const isReplaced =
          /registry\.npmjs\.org|pypi\.org/.test(text) &&
          /replace|sed\s|gsub/.test(text) &&
          findUnknownHost(text) !== undefined;
        if (isGiven || isReplaced) return createSourceMatch(page, at);
      }
      return undefined;
    },
  },
];

const HOME_FOLDER = "(?:~|\\$\\{?HOME\\}?|Path\\.home\\(\\)|homedir\\(\\)|expanduser\\([\"']~)";

const ENCODES_DATA =
  /\.hex\(\)|\bhexlify\(|\bb(?:32|64)encode\(|\bbase(?:32|64)\b|\bxxd\b|\btoString\(\s?["'](?:hex|base64)["']|\bbtoa\(|\bod -A|\bhexdump\b|ToBase64String|\bBitConverter\b/;
const LOOKS_UP =
  /\b(?:gethostbyname|getaddrinfo|resolve[46]?|resolves|lookup|resolver|query|nslookup|dig|host|drill|ping|Resolve-DnsName)\b/i;
const HOST_LABEL =
  /\{[^{}\n]{1,60}\}\.(?:\{\w|[\w-]{1,60}\.\w)|\$\{?\w{1,40}\}?\.(?:\$\{?\w|[\w-]{1,60}\.\w)|\+\s?["'`]\.[\w-]{1,60}\.\w|%s\.(?:%s|[\w-]{1,60}\.\w)/;

export const USER_ABUSE_SOURCE_RULES: readonly SourceRule[] = [
  {
    id: "encoded-lookup",
    weight: "high",
    title: "encodes data and looks it up as a host name",
    why: "DNS lookups work even without other network access, so they can leak data.",
    fix: "do not use it",
    keywordGroups: [
      ["gethostbyname", "getaddrinfo", "resolve", "lookup", "nslookup", "dig ", "host ", "drill ", "ping "],
      splitKeywords(".hex(),hexlify,b32encode,b64encode,base32,base64,xxd,tostring(,btoa(,od -a,hexdump,bitconverter"),
    ],
    find(page) {
      const lines = page.lines.map((line, at) => (page.isCode(at) ? line.slice(0, 600) : ""));
      if (!lines.some((line) => ENCODES_DATA.test(line))) return undefined;
      const line = lines.findIndex(
        (text, at) =>
          HOST_LABEL.test(text) &&
          LOOKS_UP.test(text) &&
          lines.slice(Math.max(0, at - 12), at + 13).some((near) => ENCODES_DATA.test(near)),
      );
      return line === -1 ? undefined : { line, seen: page.lines[line] ?? "" };
    },
  },
  {
    id: "deletes-home",
    weight: "high",
    title: "deletes the files that it finds in the user's home folder",
    why: "The loss is permanent.",
    fix: "do not run it; make it name exactly what it removes",
    keywordGroups: [
      ["walk(", "rglob(", "glob(", "readdir", "find ", "iterdir("],
      [".home()", "homedir", "expanduser", "$home", "~"],
      ["unlink", "os.remove", "rmtree", "rmsync", "-delete"],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const lines = page.lines.map((line, at) => (page.isCode(at) ? line.slice(0, 600) : ""));
      const at = lines.findIndex((line) => WALKS_HOME.test(line));
      if (at === -1) return undefined;
      const near = lines.slice(at, at + 6);
      const isGuarded = near.some((text) => /\bif\b|endswith|suffix|fnmatch|\bconfirm/.test(text));
      const line = near.findIndex((text) => /\bunlink\(|os\.remove\(|rmtree\(|rmSync\(/.test(text));
      return line === -1 || isGuarded ? undefined : { line: at + line, seen: page.lines[at + line] ?? "" };
    },
  },
  {
    id: "swaps-clipboard",
    weight: "high",
    title: "watches the clipboard for payment addresses and writes to it",
    why: "It can replace the address that the user pastes.",
    fix: "do not use it",
    keywordGroups: [
      ["pyperclip", "clipboard", "pbcopy", "xclip", "wl-copy"],
      ["bc1", "0x[", "{25,", "{40}", "{33}"],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const at = (pattern: RegExp) =>
        page.lines.findIndex((line, row) => page.isCode(row) && pattern.test(line.slice(0, 600)));
      const writes = at(
        /\bpyperclip\.copy\(|clipboard\.(?:write\w{0,8}|set\w{0,8}|copy)\(|\bpbcopy\b|Set-Clipboard|\bwl-copy\b|\bxclip\b(?![^\n]{0,40}-o\b)/i,
      );
      const matches = at(/bc1[^\n]{0,60}\{\d|0x\[[^\n]{0,30}\{40|\[13\][^\n]{0,40}\{\d/);
      return writes === -1 || matches === -1 ? undefined : { line: writes, seen: page.lines[writes] ?? "" };
    },
  },
  {
    id: "fixed-payee",
    weight: "high",
    title: "withdraws or transfers money to an address in the code",
    why: "The payment cannot be reversed.",
    fix: "do not run it; the user decides who is paid",
    keywordGroups: [
      ["withdraw", "sendtransaction", "send_transaction", "sweep", "transfer("],
      ["address", "to=", "to:", "recipient", "destination"],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const lines = page.lines.map((line, at) => (page.isCode(at) ? line.slice(0, 600) : ""));
      const line = lines.findIndex(
        (text, at) =>
          FIXED_RECIPIENT.test(text) && lines.slice(Math.max(0, at - 3), at + 2).some((near) => WITHDRAWS.test(near)),
      );
      return line === -1 ? undefined : { line, seen: page.lines[line] ?? "" };
    },
  },
  {
    id: "encrypts-files",
    weight: "high",
    title: "encrypts or overwrites the user's files, and removes the originals",
    why: "Ransomware works this way.",
    fix: "do not run it",
    keywordGroups: [
      ["fernet", "aes", "urandom", "encrypt", "openssl enc", "gpg ", "7z a -p", "random"],
      [".home()", "homedir", "expanduser", "$home", "~/", "userprofile", "documents"],
      ["unlink", "remove(", "rename", "shred", "rm ", "rmsync", "write_bytes", "remove-item"],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const lines = page.lines.map((line, at) => (page.isCode(at) ? line.slice(0, 600) : ""));
      const walks = lines.findIndex((line) => WALKS_HOME_FILES.test(line));
      if (walks === -1) return undefined;
      const near = lines.slice(walks, walks + 15);
      const line = near.findIndex((text) => ENCRYPTS_DATA.test(text));
      const isGone = near.some((text) =>
        /\bunlink\(|\bremove\(|\brename\(|\bshred\b|\brm\s|rmSync\(|Remove-Item|write_bytes\(/.test(text),
      );
      return line !== -1 && isGone ? { line: walks + line, seen: page.lines[walks + line] ?? "" } : undefined;
    },
  },
];

const FIXED_RECIPIENT = new RegExp(
  `\\b(?:address|to|recipient|destination|payee)["']?\\s?[:=]\\s?["']${COIN_ADDRESS}["']`,
  "i",
);
const WITHDRAWS = /\bwithdraw\b|\/withdraw|\bsendTransaction\(|\bsend_transaction\(|\bsweep\w{0,12}\(|\btransfer\(/i;
const WALKS_HOME_FILES = new RegExp(
  `(?:rglob|os\\.walk|glob|\\bwalk|find\\s|readdir\\w{0,4}|Get-ChildItem|for\\s)[^\\n]{0,80}?(?:${HOME_FOLDER}|\\bDocuments\\b|USERPROFILE)|(?:${HOME_FOLDER})[^\\n]{0,60}?\\.(?:rglob|glob|iterdir)\\(`,
);
const WALKS_HOME =
  /\bos\.walk\(\s?(?:os\.path\.expanduser\(\s?["']~\/?["']\s?\)|Path\.home\(\)|["']\/["'])|\bPath\.home\(\)\.(?:rglob|glob)\(\s?["']\*|\bPath\.home\(\)\.iterdir\(|\breaddir\w{0,4}\(\s?(?:os\.)?homedir\(\)\s?[,)]/;
const ENCRYPTS_DATA =
  /\bencrypt\(|\bFernet\(|createCipheriv|\bopenssl\s{1,3}enc\b|\bgpg\b[^\n]{0,40}?(?:-c\b|--symmetric)|os\.urandom\(|token_bytes\(|randomBytes\(|\b7z\s{1,3}a\s{1,3}-p/;
