import type { PageRule } from "../rule.ts";
import { COINS } from "./abuse.ts";

const HOME = "(?:~|\\$\\{?HOME\\}?|Path\\.home\\(\\)|homedir\\(\\)|expanduser\\([\"']~)";

const ENCODES =
  /\.hex\(\)|\bhexlify\(|\bb(?:32|64)encode\(|\bbase(?:32|64)\b|\bxxd\b|\btoString\(\s?["'](?:hex|base64)["']|\bbtoa\(|\bod -A|\bhexdump\b|ToBase64String|\bBitConverter\b/;
const LOOKS_UP =
  /\b(?:gethostbyname|getaddrinfo|resolve[46]?|resolves|lookup|resolver|query|nslookup|dig|host|drill|ping|Resolve-DnsName)\b/i;
const LABEL =
  /\{[^{}\n]{1,60}\}\.(?:\{\w|[\w-]{1,60}\.\w)|\$\{?\w{1,40}\}?\.(?:\$\{?\w|[\w-]{1,60}\.\w)|\+\s?["'`]\.[\w-]{1,60}\.\w|%s\.(?:%s|[\w-]{1,60}\.\w)/;

export const ABUSE_PAGE_RULES: readonly PageRule[] = [
  {
    id: "encoded-lookup",
    weight: "high",
    title: "encodes data and looks it up as the name of a host",
    why: "Names are looked up even where nothing else gets out, so this is a way out for data.",
    fix: "do not use it",
    all: [
      ["gethostbyname", "getaddrinfo", "resolve", "lookup", "nslookup", "dig ", "host ", "drill ", "ping "],
      [
        ".hex()",
        "hexlify",
        "b32encode",
        "b64encode",
        "base32",
        "base64",
        "xxd",
        "tostring(",
        "btoa(",
        "od -a",
        "hexdump",
        "bitconverter",
      ],
    ],
    find(page) {
      const lines = page.lines.map((line, at) => (page.isCode(at) ? line.slice(0, 600) : ""));
      if (!lines.some((line) => ENCODES.test(line))) return undefined;
      const line = lines.findIndex(
        (text, at) =>
          LABEL.test(text) &&
          LOOKS_UP.test(text) &&
          lines.slice(Math.max(0, at - 12), at + 13).some((near) => ENCODES.test(near)),
      );
      return line === -1 ? undefined : { line, seen: page.lines[line] ?? "" };
    },
  },
  {
    id: "deletes-home",
    weight: "high",
    title: "walks through the user's home and deletes what it finds",
    why: "There is no way back.",
    fix: "do not run it; have it name exactly what it removes",
    all: [
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
    why: "The address that the user pastes is then another one.",
    fix: "do not use it",
    all: [
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
    title: "withdraws or transfers money to an address of its own",
    why: "What is sent there cannot be had back.",
    fix: "do not run it; the user says who is paid",
    all: [
      ["withdraw", "sendtransaction", "send_transaction", "sweep", "transfer("],
      ["address", "to=", "to:", "recipient", "destination"],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const lines = page.lines.map((line, at) => (page.isCode(at) ? line.slice(0, 600) : ""));
      const line = lines.findIndex(
        (text, at) => PAYEE.test(text) && lines.slice(Math.max(0, at - 3), at + 2).some((near) => PAYS.test(near)),
      );
      return line === -1 ? undefined : { line, seen: page.lines[line] ?? "" };
    },
  },
  {
    id: "encrypts-files",
    weight: "high",
    title: "encrypts or overwrites the files of the user, and removes the originals",
    why: "It is how data is held to ransom.",
    fix: "do not run it",
    all: [
      ["fernet", "aes", "urandom", "encrypt", "openssl enc", "gpg ", "7z a -p", "random"],
      [".home()", "homedir", "expanduser", "$home", "~/", "userprofile", "documents"],
      ["unlink", "remove(", "rename", "shred", "rm ", "rmsync", "write_bytes", "remove-item"],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const lines = page.lines.map((line, at) => (page.isCode(at) ? line.slice(0, 600) : ""));
      const walks = lines.findIndex((line) => WALKS.test(line));
      if (walks === -1) return undefined;
      const near = lines.slice(walks, walks + 15);
      const line = near.findIndex((text) => SCRAMBLES.test(text));
      const isGone = near.some((text) =>
        /\bunlink\(|\bremove\(|\brename\(|\bshred\b|\brm\s|rmSync\(|Remove-Item|write_bytes\(/.test(text),
      );
      return line !== -1 && isGone ? { line: walks + line, seen: page.lines[walks + line] ?? "" } : undefined;
    },
  },
];

const PAYEE = new RegExp(`\\b(?:address|to|recipient|destination|payee)["']?\\s?[:=]\\s?["']${COINS}["']`, "i");
const PAYS = /\bwithdraw\b|\/withdraw|\bsendTransaction\(|\bsend_transaction\(|\bsweep\w{0,12}\(|\btransfer\(/i;
const WALKS = new RegExp(
  `(?:rglob|os\\.walk|glob|\\bwalk|find\\s|readdir\\w{0,4}|Get-ChildItem|for\\s)[^\\n]{0,80}?(?:${HOME}|\\bDocuments\\b|USERPROFILE)|(?:${HOME})[^\\n]{0,60}?\\.(?:rglob|glob|iterdir)\\(`,
);
const WALKS_HOME =
  /\bos\.walk\(\s?(?:os\.path\.expanduser\(\s?["']~\/?["']\s?\)|Path\.home\(\)|["']\/["'])|\bPath\.home\(\)\.(?:rglob|glob)\(\s?["']\*|\bPath\.home\(\)\.iterdir\(|\breaddir\w{0,4}\(\s?(?:os\.)?homedir\(\)\s?[,)]/;
const SCRAMBLES =
  /\bencrypt\(|\bFernet\(|createCipheriv|\bopenssl\s{1,3}enc\b|\bgpg\b[^\n]{0,40}?(?:-c\b|--symmetric)|os\.urandom\(|token_bytes\(|randomBytes\(|\b7z\s{1,3}a\s{1,3}-p/;
