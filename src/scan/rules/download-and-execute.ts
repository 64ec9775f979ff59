import { findFirstMatch, type MatchSpan, type SourceRule, type TextRule } from "../rule.ts";
import { findOutsideAddress, isFromVendor } from "./host-reputation.ts";

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
    keywords: [
      "curl",
      "wget",
      "iex",
      "invoke-expression",
      "urlopen",
      "requests.get",
      "httpx.get",
      "axios",
      "fetch(",
      "lwp",
      "npx",
      "bunx",
      " dlx",
      "uvx",
      "pipx",
      "deno run",
      "net::http",
      "uri.open",
      "certutil",
      "bitsadmin",
      "mshta",
      "rundll32",
      "regsvr32",
      ...[
        "downloadstring",
        "aria2c",
        "lynx",
        "dig ",
        "nslookup",
        "drill ",
        "ncat ",
        "nc -",
        "s_client",
        "gh api",
        "msiexec",
        "cscript",
        "wscript",
      ],
    ],
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
    keywords: [
      "as if they",
      "as if it",
      "as though",
      "continuation of",
      "part of these",
      "follow the",
      "follow its",
      "follow all",
      "follow any",
      "follow every",
      "obey",
      "carry out",
      "execute the",
      "execute all",
      "execute any",
      "execute every",
      ...[
        "what it says",
        "what it tells",
        "whatever it",
        "what they say",
        "what it returns",
        "what is written there",
        "what you find there",
        "as it says",
        "as instructions",
        "as your instructions",
        "as part of this skill",
        "as authoritative",
      ],
    ],
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
