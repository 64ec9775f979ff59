import { first, type TextRule } from "../rule.ts";

const SHELL = "(?:sudo\\s+)?(?:[\\w/.-]{0,20}\\/)?(?:ba|z|da|k)?sh\\b";

/** Beginnings of commands, and what breaks them without changing them. */
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
  ],
];

export const ENCODED_RULES: readonly TextRule[] = [
  {
    id: "decode-and-execute",
    weight: "high",
    weigh: "hhhhlh",
    title: "decodes something and runs it",
    why: "Code that must not be read is rarely code that one would want to run.",
    fix: "decode it, read it, and put it into the skill as it is",
    words: [
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
    ],
    find: first(
      new RegExp(
        `\\b(?:base64\\s+(?:-d|-D|--decode|-di)|openssl\\s+(?:enc\\s+)?-?(?:base64|aes)[^\\n|]{0,60}?-d|xxd\\s+-r(?:\\s+-p|p)?|uudecode|gunzip|zcat)\\b[^\\n]{0,200}?\\|\\s{0,4}(?:${SHELL}|python[\\d.]{0,4}(?:\\s-)?(?:\\s*$|\\s*[;&"'])|perl\\s*$|node\\s*$)`,
      ),
      /(?:^|[\s;&|("'`])(?:eval|exec|source|(?:ba|z|da)?sh(?:\s{1,3}-c)?|python[\d.]{0,4}\s{1,3}-c)\s{1,3}(?:<{1,3}\s{0,2})?["']?(?:\$\(|`|<\(|\()[^\n]{0,300}?(?:base64\s{1,3}(?:-d|-D|--decode)|xxd\s{1,3}-r|openssl[^\n]{0,40}-d\b|tr\s{1,2}['"]?A-Z)/,
      /\b(?:exec|eval|compile)\s?\(\s{0,2}[^\n]{0,120}?(?:b(?:64|32|85)decode|fromhex|unhexlify|decompress|marshal\.loads|codecs\.decode|rot13)/,
      /\b(?:eval|Function|setTimeout|runInThisContext|execSync|exec)\s?\(\s{0,2}(?:atob|unescape|decodeURIComponent\(escape|Buffer\.from)\s?\(/,
      /\b(?:system|popen|Popen|check_output|check_call|subprocess\.(?:run|call)|execSync|spawnSync)\([^\n]{0,80}?(?:b64decode|fromhex|unhexlify|decompress|\batob\(|Buffer\.from\([^\n]{0,200}?["'](?:base64|hex))/,
      /\b(?:iex|invoke-expression)\b[^\n]{0,200}?FromBase64String|FromBase64String[^\n]{0,200}?\|\s{0,3}iex\b/i,
      /`echo\s[^`\n]{8,300}\|\s{0,3}base64\s{1,3}(?:-d|-D|--decode)`/,
    ),
  },
  {
    id: "encoded-powershell",
    weight: "high",
    weigh: "hhhlll",
    title: "starts PowerShell with a command that cannot be read",
    why: "The switch is there so that a command need not be shown.",
    fix: "decode it and write it as it is",
    words: ["powershell", "pwsh"],
    find: first(
      /\b(?:powershell|pwsh)(?:\.exe)?\b[^\n]{0,120}?\s-e(?:nc?|c|ncodedcommand)?\s{1,3}["']?[A-Za-z0-9+/=]{16,}/i,
    ),
  },
  {
    id: "spelled-out-code",
    weight: "high",
    weigh: "hhhlll",
    title: "puts code together from the numbers of its characters",
    why: "Nobody writes a program like that who wants it to be read.",
    fix: "have it written as text",
    words: ["chr(", "fromcharcode", "\\x", "\\u00", "\\1", "string.char("],
    find: first(
      /(?:chr\(\s?\d{1,3}\s?\)\s{0,2}[+.,&]\s{0,2}){7,}/i,
      /fromCharCode\(\s{0,2}(?:(?:0x)?[0-9a-f]{1,4}\s{0,2},\s{0,2}){9,}/i,
      /(?:printf|echo\s{1,3}-\w{0,3}e\w?)\s{1,3}['"]?(?:\\x?[0-9a-fA-F]{2,3}){6,}[^\n]{0,200}?\|\s{0,4}(?:ba|z|da)?sh\b/,
      /(?:eval|exec|system)\b[^\n]{0,30}?['"](?:\\x[0-9a-fA-F]{2}){8,}/,
      /\$'(?:\\x?[0-9a-fA-F]{2,3}){4,}'/,
    ),
  },
  {
    id: "split-command",
    weight: "high",
    weigh: "hhhlll",
    title: "writes a command so that it cannot be searched for",
    why: "Quotes in the middle of a word change nothing but how it reads.",
    fix: "have it written plainly",
    words: SPLIT_WORDS,
    find: first(
      /(?:^|[\s;&|(`])(?:c(?:''|""|\\)u(?:''|""|\\)?r(?:''|""|\\)?l|cu(?:''|""|\\)r(?:''|""|\\)?l|cur(?:''|""|\\)l|w(?:''|""|\\)get|wg(?:''|""|\\)et|wge(?:''|""|\\)t|b(?:''|""|\\)ash|ba(?:''|""|\\)sh|bas(?:''|""|\\)h|ev(?:''|""|\\)al|e(?:''|""|\\)val|s(?:''|""|\\)h|ba(?:''|""|\\)se64|n(?:''|""|\\)c)(?=[\s"'\\])/,
      /\b(?:cat|curl|wget|nc|bash|sh|rm|ls|ping|echo)\$\{?IFS\}?/,
      /\|\s{0,3}rev\s{0,3}\|\s{0,3}(?:ba|z|da)?sh\b|(?:eval|(?:ba)?sh\s-c)\s{1,3}["']?\$\(\s?rev\s?<<</,
    ),
  },
  {
    id: "eval-of-variable",
    weight: "low",
    weigh: "l-----",
    title: "runs text that is put together while it runs",
    why: "What runs cannot be read here.",
    fix: "look where the text comes from",
    words: ['eval "$', "eval $", "eval '$", "eval(", "exec(", "new function("],
    find: first(
      /(?:^|[\s;&|(])eval\s{1,3}["']?\$\{?\w|(?:^|[\s=(])(?:eval|exec)\(\s?[a-z_]\w{0,40}\s?[,)]|new Function\(/,
    ),
  },
];
