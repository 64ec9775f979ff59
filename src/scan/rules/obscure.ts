import { first, type TextRule } from "../rule.ts";

const BLANKS = " ".repeat(80);
const UNREADABLE = first(
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

export const OBSCURE_RULES: readonly TextRule[] = [
  {
    id: "obfuscated-code",
    weight: "high",
    weigh: "hmmlll",
    title: "holds code that a tool made unreadable",
    why: "Code is made unreadable so that nobody sees what it does.",
    fix: "do not use it; ask for its source",
    words: ["_0x", "function(p,a,c,k", "[]+[]", "\\x", "\\u00", "pyarmor", "[char]", "^o^", "^e^", "^r^"],
    find(text) {
      const made = text.match(/\b_0x[0-9a-f]{1,8}\b/g) ?? [];
      return made.length >= 5 ? { index: text.indexOf("_0x"), length: 60 } : UNREADABLE(text);
    },
  },
  {
    id: "out-of-sight",
    weight: "high",
    weigh: "hhlm-h",
    title: "has something far to the right, where nobody looks",
    why: "Whoever reads the file sees the line end long before.",
    fix: "look at the end of the line",
    words: [BLANKS],
    find: first(/\S[ \t]{100,}(?=[^\s|#/*\\])(?=[^\n]{0,200}[\w)]{3})/),
  },
  {
    id: "runs-a-document",
    weight: "high",
    weigh: "hhmllh",
    title: "runs a file that its name says is no program",
    why: "Nobody reads pictures and notes for code, which is why it was put there.",
    fix: "look at the file; have code stand in files that are named so",
    words: [
      ...[
        "| sh",
        "| bash",
        "|sh",
        "|bash",
        ".png",
        ".jpg",
        ".jpeg",
        ".gif",
        ".webp",
        ".ico",
        ".bmp",
        ".pdf",
        ".woff",
        ".ttf",
        ".otf",
      ],
      ...[".mp3", ".mp4", ".wav", ".dat", ".bin"],
    ],
    find: first(
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
