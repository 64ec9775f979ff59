import { findFirstMatch, type RegionWeights, type ScanRule, splitKeywords, type TextRule } from "../rule.ts";

const BLANKS = " ".repeat(80);
const UNREADABLE = findFirstMatch(
  /\beval\(function\(p,a,c,k,e,[dr]\)/,
  /\[[[\]()!+]{40,}/,
  /(?:["'](?:\\x[0-9a-fA-F]{2}){3,40}["'],\s{0,3}){3}/,
  /["'](?:\\x[2-7][0-9a-fA-F]){10,}["']/,
  /["'](?:\\u00[2-7][0-9a-fA-F]){8,}["']/,
  /\b__pyarmor__\b|\bpyarmor_runtime\b/,
  /(?:\[char\]\s?(?:0x)?[0-9a-f]{2,3}\s?[+,]\s?){5,}/i,
  /(?:^|[\s;|&])(?:[a-z]\^){3,20}[a-z]/i,
);
const NOT_CODE = "png|jpe?g|gif|webp|bmp|ico|svg|pdf|woff2?|ttf|otf|mp[34]|wav|md|txt|dat|bin|csv|log|tmp";

export const OBFUSCATION_RULES: readonly TextRule[] = [
  {
    id: "obfuscated-code",
    weight: "high",
    regionWeights: "hmmlll",
    title: "contains obfuscated code",
    why: "Obfuscation hides what the code does.",
    fix: "do not use it; ask for its source",
    keywords: ["_0x", "function(p,a,c,k", "[]+[]", "\\x", "\\u00", "pyarmor", "[char]", "^o^", "^e^", "^r^"],
    find(text) {
      const made = text.match(/\b_0x[0-9a-f]{1,8}\b/g) ?? [];
      return made.length >= 5 ? { index: text.indexOf("_0x"), length: 60 } : UNREADABLE(text);
    },
  },
  {
    id: "out-of-sight",
    weight: "high",
    regionWeights: "hhlm-h",
    title: "has text far to the right, outside of the visible area",
    why: "In an editor the line appears to end long before.",
    fix: "read the end of the line",
    keywords: [BLANKS],
    find: findFirstMatch(/\S[ \t]{100,}(?=[^\s|#/*\\])(?=[^\n]{0,200}[\w)]{3})/),
  },
  {
    id: "runs-a-document",
    weight: "high",
    regionWeights: "hhmllh",
    title: "runs a file whose name does not look like a program",
    why: "Reviewers do not expect code in pictures and notes.",
    fix: "inspect the file; move code to files with the right extension",
    keywords: splitKeywords(
      "| sh,| bash,|sh,|bash,.png,.jpg,.jpeg,.gif,.webp,.ico,.bmp,.pdf,.woff,.ttf,.otf,.mp3,.mp4,.wav,.dat,.bin",
    ),
    find: findFirstMatch(
      new RegExp(
        `\\b(?:tail|head|sed|awk|grep|cut|strings|dd|cat|tac|rev|tr)\\s[^|\\n]{0,120}?\\.(?:${NOT_CODE})\\b[^\\n]{0,160}?\\|\\s{0,3}(?:sudo\\s{1,3})?(?:ba|z|da)?sh(?=\\s{0,3}(?:$|[;&)"'\`]|-(?:s\\b|\\s|$)))`,
      ),
      /(?:^|[;&|(`]\s{0,3}|\bRun\s{1,3}`)(?:sudo\s{1,3})?(?:(?:ba|z|da)?sh|python[\d.]{0,4}|node|perl|ruby|source)\s{1,3}["']?[\w./~${}-]{1,80}\.(?:png|jpe?g|gif|webp|bmp|ico|pdf|woff2?|ttf|otf|mp[34]|wav|dat)(?=["'\s`;)]|$)/,
      new RegExp(
        `\\b(?:exec|eval)\\([^\\n]{0,60}?\\b(?:open|read\\w{0,12}|Path)\\([^\\n]{0,80}?\\.(?:${NOT_CODE})["']`,
      ),
    ),
  },
];

const SHELL_PROGRAM = "(?:\\$[({]?SHELL\\b|(?:sudo\\s+)?(?:[\\w/.-]{0,20}\\/)?(?:ba|z|da|k)?sh\\b)";

/** The beginnings of commands, and the characters that split them without changing them. */
const SPLIT_WORDS = [
  ...["c", "cu", "cur", "w", "wg", "wge", "b", "ba", "bas", "e", "ev", "s", "n"].flatMap((start) => [
    `${start}''`,
    `${start}""`,
  ]),
  ...[
    "c\\u",
    "cu\\r",
    "cur\\l",
    "w\\g",
    "wg\\e",
    "b\\a",
    "ba\\s",
    "bas\\h",
    "{ifs}",
    "$ifs",
    "| rev",
    "|rev",
    "rev <<<",
    "rev<<<",
    ...[
      "getattr(",
      "globals()[",
      "__builtins__",
      "globalthis[",
      "window[",
      "global[",
      "require(",
      "__import__(",
      "import_module(",
      "import(",
    ],
    ...["$(echo", "$(printf", "$a$", "$b$", "$c$", "$x$", "$d$"],
  ],
];

export const ENCODING_RULES: readonly TextRule[] = [
  {
    id: "decode-and-execute",
    weight: "high",
    regionWeights: "hhhhlh",
    title: "decodes something and runs it",
    why: "Encoding hides code from review.",
    fix: "decode it, read it, and put it into the skill as plain text",
    keywords: [
      "base64",
      "b64decode",
      "b32decode",
      "b85decode",
      "atob",
      "xxd",
      "fromhex",
      "unhexlify",
      "decompress",
      "marshal",
      "gunzip",
      "openssl enc",
      "rot13",
      "'hex'",
      '"hex"',
      "frombase64string",
      "uudecode",
      "tr 'a-z",
      ...[
        "| sh",
        "| bash",
        "|sh",
        "|bash",
        "pickle.load",
        ...[
          'eval "${',
          "eval ${",
          '-c "${',
          "[char[]]",
          "webclient",
          '}" -f',
          "}' -f",
          'import("data',
          "import('data",
          "import(\x60data",
        ],
        "decode the",
        "decode this",
        "decode it",
        "decode and",
        "decoding",
      ],
    ],
    find: findFirstMatch(
      new RegExp(
        `\\b(?:base64\\s+(?:-d|-D|--decode|-di)|openssl\\s+(?:enc\\s+)?-?(?:base64|aes)[^\\n|]{0,60}?-d|xxd\\s+-r(?:\\s+-p|p)?|uudecode|gunzip|zcat)\\b[^\\n]{0,200}?\\|\\s{0,4}(?:${SHELL_PROGRAM}|python[\\d.]{0,4}(?:\\s-)?(?:\\s*$|\\s*[;&"'])|perl\\s*$|node\\s*$)`,
      ),
      /(?:^|[\s;&|("'`])(?:eval|exec|source|(?:ba|z|da)?sh(?:\s{1,3}-c)?|python[\d.]{0,4}\s{1,3}-c)\s{1,3}(?:<{1,3}\s{0,2})?["']?(?:\$\(|`|<\(|\()[^\n]{0,300}?(?:base64\s{1,3}(?:-d|-D|--decode)|xxd\s{1,3}-r|openssl[^\n]{0,40}-d\b|tr\s{1,2}['"]?A-Z)/,
      /\b(?:exec|eval|compile)\s?\(\s{0,2}[^\n]{0,120}?(?:b(?:64|32|85)decode|fromhex|unhexlify|decompress|marshal\.loads|codecs\.decode|rot13)/,
      /\b(?:eval|Function|setTimeout|runInThisContext|execSync|exec)\s?\(\s{0,2}(?:atob|unescape|decodeURIComponent\(escape|Buffer\.from)\s?\(/,
      /\b(?:system|popen|Popen|check_output|check_call|subprocess\.(?:run|call)|execSync|spawnSync)\([^\n]{0,80}?(?:b64decode|fromhex|unhexlify|decompress|\batob\(|Buffer\.from\([^\n]{0,200}?["'](?:base64|hex))/,
      /\b(?:iex|invoke-expression)\b[^\n]{0,200}?FromBase64String|FromBase64String[^\n]{0,200}?\|\s{0,3}iex\b/i,
      /\b(?:echo|printf)\s{1,3}(?:-\w{1,3}\s{1,3})?["']?[A-Za-z0-9+/=_%\\-]{24,}["']?\s{0,3}\|[^\n]{1,160}?\|\s{0,3}(?:sudo\s{1,3})?(?:ba|z|da)?sh\b/,
      /\|\s{0,3}(?:tr\s{1,3}["']?[A-Za-z][^\n|]{3,60}|base32\s{1,3}(?:-d|--decode)|gzip\s{1,3}-\w{0,3}d\w{0,3}|(?:b|x)?zcat|perl\s{1,3}-\w{0,3}pe\s[^\n|]{1,80}|openssl[^\n|]{0,60}?-d[^\n|]{0,40})\s{0,3}\|\s{0,3}(?:sudo\s{1,3})?(?:ba|z|da)?sh(?=\s{0,3}(?:$|[;&)"'`-]))/,
      /(?:^|[\s;&|])(?:eval|(?:ba|z)?sh\s{1,3}-c)\s{1,3}["']?\$\{\w{1,40}\/\/?[^}\n]{1,40}\}/,
      /\[char\[\]\]\s?\(\s?\d{2,3}(?:\s?,\s?\d{2,3}){2,}|&\s?\(?\$\w{1,20}\)?\s{1,3}\(New-Object\s{1,3}Net\.WebClient|\(\s?["'](?:\{\d\}){2,}["']\s?-f\s/i,
      /\bimport\(\s{0,2}["'\x60]data:(?:text|application)\/javascript/,
      /\bpickle\.loads?\([^\n]{0,60}?(?:b64decode|fromhex|unhexlify|decompress)/,
      /\bdecod(?:e|ing)\b[^.\n]{0,80}?\b(?:base64|base32|hex|rot13|morse|cipher|encoded|string|text|block|blob|line|value|comment)\b[^\n]{0,80}?\b(?:follow|execute|run|obey|carry out|do what|act on|apply)\b[^.\n]{0,40}?\b(?:it|them|says?|result|instructions?|commands?|output|decoded)\b/i,
      /`echo\s[^`\n]{8,300}\|\s{0,3}base64\s{1,3}(?:-d|-D|--decode)`/,
    ),
  },
  {
    id: "encoded-powershell",
    weight: "high",
    regionWeights: "hhhlll",
    title: "starts PowerShell with an encoded command",
    why: "The option hides the command.",
    fix: "decode it and write it as plain text",
    keywords: ["powershell", "pwsh"],
    find: findFirstMatch(
      /\b(?:powershell|pwsh)(?:\.exe)?\b[^\n]{0,120}?\s-e(?:nc?|c|ncodedcommand)?\s{1,3}["']?[A-Za-z0-9+/=]{16,}/i,
    ),
  },
  {
    id: "spelled-out-code",
    weight: "high",
    regionWeights: "hhhlll",
    title: "assembles code from character codes",
    why: "Readable code does not need this.",
    fix: "write it as text",
    keywords: ["chr(", "fromcharcode", "\\x", "\\u00", "\\1", "string.char(", "map(chr", "bytes([", ":1}${"],
    find: findFirstMatch(
      /(?:chr\(\s?\d{1,3}\s?\)\s{0,2}[+.,&]\s{0,2}){7,}/i,
      /fromCharCode\(\s{0,2}(?:(?:0x)?[0-9a-f]{1,4}\s{0,2},\s{0,2}){9,}/i,
      /(?:printf|echo\s{1,3}-\w{0,3}e\w?)\s{1,3}['"]?(?:\\x?[0-9a-fA-F]{2,3}){6,}[^\n]{0,200}?\|\s{0,4}(?:ba|z|da)?sh\b/,
      /(?:eval|exec|system)\b[^\n]{0,30}?['"](?:\\x[0-9a-fA-F]{2}){8,}/,
      /\$'(?:\\x?[0-9a-fA-F]{2,3}){4,}'/,
      /\bmap\(\s?chr\s?,\s?[[(]\s?(?:\d{2,3}\s?,\s?){7,}|\bbytes\(\s?\[\s?(?:(?:0x)?[0-9a-f]{2,3}\s?,\s?){11,}/i,
      /(?:\$\{\w{1,30}:\d{1,3}:\d{1,3}\}){4,}/,
    ),
  },
  {
    id: "split-command",
    weight: "high",
    regionWeights: "hhhlll",
    title: "splits a command so that a search does not find it",
    why: "Quotes inside a word do not change the command, only its appearance.",
    fix: "write it without the quotes",
    keywords: SPLIT_WORDS,
    find: findFirstMatch(
      /(?:^|[\s;&|(`])(?:c(?:''|""|\\)u(?:''|""|\\)?r(?:''|""|\\)?l|cu(?:''|""|\\)r(?:''|""|\\)?l|cur(?:''|""|\\)l|w(?:''|""|\\)get|wg(?:''|""|\\)et|wge(?:''|""|\\)t|b(?:''|""|\\)ash|ba(?:''|""|\\)sh|bas(?:''|""|\\)h|ev(?:''|""|\\)al|e(?:''|""|\\)val|s(?:''|""|\\)h|ba(?:''|""|\\)se64|n(?:''|""|\\)c)(?=[\s"'\\])/,
      /\b(?:cat|curl|wget|nc|bash|sh|rm|ls|ping|echo)\$\{?IFS\}?/,
      /(?:\bgetattr\(|\bglobals\(\)\[|__builtins__|\b(?:globalThis|window|global|self)\[|\brequire\(|\bimport\(|__import__\(|import_module\()[^\n]{0,40}?["']\w{1,12}["']\s?\+\s?["']\w{1,12}["']/,
      /(?:^|[;&|]\s{0,3})\$\{?[a-z]\}?\$\{?[a-z]\}?(?=[\s$"'])|(?:\$\(|[;&|]\s{0,3})(?:\$\{?\w{1,3}\}?){3,}(?=\s)/,
      /(?:^|[;&|]\s{0,3})["']?\$\((?:echo|printf)\s[^)\n]{0,200}\|\s{0,3}(?:base64|xxd|tr|rev)\b/,
      /\|\s{0,3}rev\s{0,3}\|\s{0,3}(?:ba|z|da)?sh\b|(?:eval|(?:ba)?sh\s-c)\s{1,3}["']?\$\(\s?rev\s?<<</,
    ),
  },
  {
    id: "eval-of-variable",
    weight: "low",
    regionWeights: "l-----",
    title: "runs text that is assembled at run time",
    why: "The code that runs is not visible here.",
    fix: "check where the text comes from",
    keywords: ['eval "$', "eval $", "eval '$", "eval(", "exec(", "new function("],
    find: findFirstMatch(
      /(?:^|[\s;&|(])eval\s{1,3}["']?\$\{?\w|(?:^|[\s=(])(?:eval|exec)\(\s?[a-z_]\w{0,40}\s?[,)]|new Function\(/,
    ),
  },
];

export const ENCODED_COMMAND_RULE: ScanRule & { weigh: RegionWeights } = {
  id: "encoded-command",
  weight: "high",
  weigh: "hhhhlh",
  title: "contains a command in base64 or hex",
  why: "Encoding hides code from review.",
  fix: "decode it, read it, and put it into the skill as plain text",
};

const MAX_ENCODED_LENGTH = 4096;
const DECODED_COMMAND =
  /\b(?:curl|wget)\s|\bbash\b|\/bin\/(?:ba)?sh|\bpowershell\b|\biwr\b|\biex\b|\bimport (?:os|socket|subprocess|urllib)|\bsubprocess\b|\bos\.system|\brm -rf\b|\beval\(|\bexec\(|\brequire\(['"]|\bfetch\(|\bnc -|\/dev\/tcp|ignore (?:all|previous)/i;

/** Decodes a run of characters, and returns the text if it is a command. */
export function decodeCommand(run: string): string | undefined {
  const text = run.slice(0, MAX_ENCODED_LENGTH);
  for (const decode of [decodeHex, decodeBase64, decodeReversed]) {
    const decoded = decode(text);
    if (decoded !== undefined && isReadable(decoded) && DECODED_COMMAND.test(decoded)) return decoded;
  }
  return undefined;
}

function decodeHex(text: string): string | undefined {
  return /^(?:[0-9a-fA-F]{2})+$/.test(text) ? Buffer.from(text, "hex").toString("latin1") : undefined;
}

function decodeBase64(text: string): string {
  const decoded = Buffer.from(text.replace(/^[=/+]+/, ""), "base64").toString("latin1");
  return decoded.length > 3 && decoded[1] === "\0" && decoded[3] === "\0" ? decoded.replaceAll("\0", "") : decoded;
}

/** Decodes reversed base64, which starts with the padding and which no decoder accepts. */
function decodeReversed(text: string): string | undefined {
  return /^={1,2}[A-Za-z0-9+/]/.test(text) ? decodeBase64([...text].reverse().join("")) : undefined;
}

function isReadable(text: string): boolean {
  return text.length >= 12 && !/[^\t\n\r\x20-\x7e]/.test(text);
}
