import { flowIn } from "../flow.ts";
import type { PageRule } from "../rule.ts";
import { seenAt } from "./flow.ts";
import { findSecondHost } from "./skill-wide.ts";
import { findUnknown } from "./unknown-hosts.ts";

/** Where coins go when they are sent: a fixed address there is not one that the user chose. */
const FIXED_PAYEE = /["'\x60](?:0x[0-9a-fA-F]{38,40}|bc1[0-9a-z]{25,60}|[1-9A-HJ-NP-Za-km-z]{43,44})["'\x60]/;
const PAYS: readonly RegExp[] = [
  /\bsend(?:Transaction|Raw\w{0,16}|_transaction|Coins?)?\(\s{0,2}\{[^}\n]{0,80}?\bto["']?\s{0,2}:\s{0,2}(\w[\w.]{0,60})[^}\n]{0,80}?\bvalue\b/,
  /["']to["']\s{0,2}:\s{0,2}(\w[\w.]{0,60})[^}\n]{0,80}?["']value["']/,
  /\btoPubkey\s{0,2}:\s{0,2}([^,}\n]{1,80})/,
];

/** What comes in over a connection. */
const RECEIVES =
  /\.recv(?:from)?\(|\bon\(\s?["'](?:data|message)["']|\bonmessage\b|\.get(?:s|line)\b|\$\w{1,20}\.Read(?:Line)?\(|\breadline\(\)/;
const RUNS_COMMAND: readonly RegExp[] = [
  /\b(?:subprocess\.(?:getoutput|getstatusoutput|run|Popen|check_output|call)|os\.(?:popen|system)|execSync|child.process\.exec|(?:^|[^.\w])exec|system|shell_exec|Invoke-Expression|iex|IO\.popen)[\s(]{1,3}\[?\s{0,2}(?!["'])([\w$.]{1,80})/,
  /(?:`|%x[({[]|\bqx[({[/])\s?[#$]\{?(\w{1,40})/,
  /\b(?:subprocess\.\w{3,12}|spawn|execFile)\(\s{0,2}\[?["'](?:\/bin\/)?(?:ba)?sh["'][^\n]{0,40}?,\s{0,2}\[?["']-\w?c["']\s?,\s{0,2}([\w$.]{1,80})/,
];
const CONNECTS =
  /\.connect\(|create_connection\(|net\.(?:connect|createConnection)\(|new WebSocket\(|TCPSocket|TCPClient|websockets?\.connect|fsockopen\(/;

/** A table that is named by a value, not by its name. */
const EMPTIES_EACH =
  /\b(?:DROP (?:TABLE|SCHEMA|DATABASE)|TRUNCATE(?: TABLE)?|DELETE FROM)\b[^\n]{0,40}?(?:\$\{|%I|%s|["']\s?\+|\{\w|#\{|\|\|)/i;
const ASKED_OR_TEST =
  /\btest(?:s|ing|_db)?\b|\blocalhost\b|\bconfirm|\bread -r?p\b|\binput\(|\bprompt\(|--yes\b|\bdev(?:elopment)?\b/i;
/** Every file of the user is changed. */
const REWRITES =
  /\b\w{0,20}(?:encrypt|cipher|lock|seal)\w{0,12}\(|\.rename\([^\n]{0,80}?["']\.\w{3,12}["']|\bos\.rename\([^\n]{0,80}?["']\.\w{3,12}["']|\bopenssl enc -|\bgpg (?:-c|--symmetric|-e)\b/i;
const RANSOM =
  /\b(?:bitcoin|monero|BTC|XMR|USDT|ransom|pay \d|0\.\d{1,3} ?(?:BTC|ETH|XMR))\b|(?:RESTORE|RECOVER|DECRYPT|GET_FILES_BACK|READ_?ME_TO|HOW_TO)[\w]{0,30}\.(?:txt|html)/i;
const ALL_FILES =
  /\.rglob\(\s?["']\*|os\.walk\(|Get-ChildItem[^\n]{0,60}-Recurse|\bfind\s["']?(?:~|\$HOME|\/home|\/Users)|readdir\w{0,4}\([^\n]{0,60}recursive|glob\w{0,4}\(["'`][^"'`\n]{0,40}\*\*/;

/** Rules over one file of code: what it takes, and what it does with it. */
export const BEHAVIOR_PAGE_RULES: readonly PageRule[] = [
  {
    id: "socket-to-shell",
    weight: "high",
    title: "runs commands that come in over a connection that it opens",
    why: "Whoever is at the other end can type commands here.",
    fix: "do not run it",
    all: [
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
      [
        ".connect(",
        "create_connection",
        "net.connect",
        "createconnection",
        "websocket",
        "tcpsocket",
        "tcpclient",
        "fsockopen",
      ],
    ],
    find(page) {
      if (page.kind !== "code" || !page.lines.some((line) => CONNECTS.test(line.slice(0, 1000)))) return undefined;
      const line = flowIn(page, { source: RECEIVES, sinks: RUNS_COMMAND });
      return line === undefined ? undefined : seenAt(page, line);
    },
  },
  {
    id: "tables-emptied",
    weight: "high",
    title: "drops or empties every table that it finds",
    why: "There is no way back.",
    fix: "do not run it against data that you need",
    all: [
      ["pg_tables", "information_schema", "show tables", "sqlite_master", "pg_class", "sys.tables"],
      ["drop table", "truncate", "delete from", "drop schema", "drop database"],
    ],
    find(page) {
      if (page.kind !== "code" || page.lines.some((line) => ASKED_OR_TEST.test(line.slice(0, 400)))) return undefined;
      const line = page.lines.findIndex(
        (text, at) => page.placeAt(at) === "code" && EMPTIES_EACH.test(text.slice(0, 1000)),
      );
      return line === -1 ? undefined : seenAt(page, line);
    },
  },
  {
    id: "files-held",
    weight: "high",
    title: "changes all files of the user so that they cannot be opened, and asks for money",
    why: "There is no way back without the key.",
    fix: "do not run it",
    all: [
      ["rglob", "os.walk", "-recurse", "find ~", "find $", "find /", "readdir", "glob"],
      ["encrypt", "cipher", "lock", "seal", "rename", "openssl enc", "gpg "],
      [
        "bitcoin",
        "monero",
        "btc",
        "xmr",
        "usdt",
        "ransom",
        "pay ",
        "restore",
        "recover",
        "decrypt",
        "files_back",
        "readme",
        "read_me",
        "how_to",
      ],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const has = (pattern: RegExp) =>
        page.lines.findIndex((line, at) => page.placeAt(at) === "code" && pattern.test(line.slice(0, 1000)));
      const line = has(REWRITES);
      return line !== -1 && has(ALL_FILES) !== -1 && has(RANSOM) !== -1 ? seenAt(page, line) : undefined;
    },
  },
  {
    id: "second-host",
    weight: "high",
    title: "uses a key for one service, and sends it to another host of unknown owner",
    why: "A key is for the service that gave it out.",
    fix: "do not use it, and replace the key if you have",
    all: [
      ["http:", "https:"],
      [
        ...["_authtoken", "private_key", "client_secret", "refresh_token", "authorization", "x-api-key", "mnemonic"],
        ...["privatekey", "storagestate", "_key", "_token", "_secret", "_password", "password", "cookie"],
      ],
    ],
    find(page) {
      const line = page.kind === "code" ? findSecondHost(page) : undefined;
      return line === undefined ? undefined : seenAt(page, line);
    },
  },
  {
    id: "coins-to-fixed-address",
    weight: "high",
    title: "sends the user's coins to an address that is written in the code",
    why: "The user chooses who is paid.",
    fix: "do not use it",
    all: [
      ["0x", "bc1", "pubkey"],
      ["sendtransaction", "send_transaction", "sendcoin", "topubkey", '"value"', "'value'"],
    ],
    find(page) {
      const line = page.kind === "code" ? flowIn(page, { source: FIXED_PAYEE, sinks: PAYS }) : undefined;
      return line === undefined ? undefined : seenAt(page, line);
    },
  },
  {
    id: "index-from-variable",
    weight: "high",
    title: "installs packages from a registry of unknown owner",
    why: "Packages run code while they are installed.",
    fix: "use the registry that the package is published in",
    all: [
      [
        "index-url",
        "--registry",
        "index_url",
        "extra_index",
        "npm_config_registry",
        "registry.npmjs.org",
        "find-links",
      ],
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
              findUnknown(other.slice(0, 1000)) !== undefined,
          );
        const isReplaced =
          /registry\.npmjs\.org|pypi\.org/.test(text) &&
          /replace|sed\s|gsub/.test(text) &&
          findUnknown(text) !== undefined;
        if (isGiven || isReplaced) return seenAt(page, at);
      }
      return undefined;
    },
  },
];
