import { findFirstMatch, type MatchSpan } from "../rule.ts";
import type { ScanSignal } from "../signals.ts";
import { findOutsideAddress, isOutsideHost, mentionsOutsideHost } from "./host-reputation.ts";

const MAIL_ADDRESS = /[\w.+-]{1,60}@([\w-]{1,60}(?:\.[\w-]{1,30}){1,4})/g;

/** Commands and calls that send something. */
const UPLOAD_CALLS = findFirstMatch(
  /\burlopen\(\s?f?["']https?:[^"'\n]{0,160}(?:\{|["']\s?\+)|\brequests\.get\(\s?f?["']https?:[^"'\n]{0,160}(?:\{|["']\s?\+)|\bfetch\(\s?["'\x60]https?:[^\n]{0,160}?\?[^\n]{0,40}?(?:\$\{|["']\s?\+)|\b(?:curl|wget)\b[^\n]{0,120}?https?:[^\s"']{0,120}\?[^\s"']{0,40}\$/,
  /\bcurl(?:\.exe)?\b[^\n]{0,300}?(?:\s-(?:d|F|T)\b|\s-\w{0,6}[dFT]\s|--data|--form|--upload-file|--json|-X\s{0,2}["']?(?:POST|PUT)|--url-query)/,
  /\bwget\b[^\n]{0,300}?(?:--post|--body|--header[ =]["'][^"'\n]{0,60}\$)/,
  /\b(?:requests|httpx|session|client|axios|http|ky|got|superagent|aiohttp|s|c)\.(?:post|put|patch|request)\(/,
  /\burlopen\(\s?(?:\w{1,40}|["'][^"'\n]{1,200}["'])\s?,\s?(?:data\s?=\s?)?\w|\bRequest\([^\n]{0,200}?\bdata\s?=|\burlopen\([^\n]{0,200}?data\s?=/,
  /\bfetch\([^\n]{0,300}?method["']?\s?:\s?["'](?:POST|PUT)|^\s{0,20}method["']?\s?:\s?["'](?:POST|PUT)["']|\bhttps?\.request\(|sendBeacon\(|new WebSocket\(|websockets?\.(?:connect|create_connection)\(/,
  /\bInvoke-(?:WebRequest|RestMethod)\b[^\n]{0,200}?-(?:Body|InFile|Method\s{1,3}["']?(?:Post|Put))|\b(?:irm|iwr)\b[^\n]{0,160}?-(?:Body|InFile|Method)|UploadString\(|UploadFile\(|UploadData\(/i,
  /(?:\||^|[;&]\s{0,2})\s{0,3}n(?:c|cat|etcat)\s{1,3}(?:-\w{1,8}\s{1,3}){0,4}[\w.-]{4,80}\s{1,3}\d{2,5}|\bsock(?:et)?\.(?:send|sendall|sendto)\(|\bs\.sendall\(|>\s{0,2}\/dev\/(?:tcp|udp)\//,
  /\bsmtplib\.SMTP|\|\s{0,3}(?:mail|mutt|mailx|sendmail)\s/,
);
const GIT_PUSH =
  /\bgit\b[^\n;|&]{0,40}?\b(?:push|remote\s{1,3}(?:add|set-url))\b[^\n;|&]{0,60}?(?:https?:\/\/|ssh:\/\/|git@)(?:[^\s@"'`]{1,80}@)?([\w.-]{3,80})/;
const REMOTE_COPY =
  /\b(?:scp|rsync|sftp|rclone)\b[^\n;|&]{0,200}?\s["']?(?:[\w.-]{1,40}@)?([\w-]{1,60}(?:\.[\w-]{1,30}){1,5}):/;
/** Sentences that send something. The address must follow. */
const UPLOAD_SENTENCE =
  /\b(?!login|logged|logging)(?:send|hand|upload|post|forward|submit|transmit|push|deliver|report|register|stream|mirror|copy|sync|share|pass|append|attach|fill|give|publish|back up|hand over|enter|paste|e-?mail|mail|cc|bcc|invite|add|sign|ship|export|dump|relay|log|notify|transfer|include)\w{0,4}\b[^\n]{0,200}?(?=(?:https?|wss?|ftp):\/\/|[\w.+-]{1,60}@[\w-])/gi;

function findUpload(text: string): MatchSpan | undefined {
  const call = UPLOAD_CALLS(text);
  if (call && (findOutsideAddress(text) !== undefined || hasOutsideAddress(text))) return call;
  for (const pattern of [GIT_PUSH, REMOTE_COPY]) {
    const match = pattern.exec(text);
    if (match && isOutsideHost(match[1] ?? "")) return { index: match.index, length: match[0].length };
  }
  return undefined;
}

/** Returns true for a numeric address without a scheme, as in `nc 203.0.113.5 4444`. */
function hasOutsideAddress(text: string): boolean {
  const [, host = ""] = /(?:\s|\/tcp\/|["'@])((?:\d{1,3}\.){3}\d{1,3})(?=[\s:/"',)]|$)/.exec(text) ?? [];
  return isOutsideHost(host);
}

/** Returns the part of a sentence that sends something to an outside address. */
export function findUploadInProse(text: string): MatchSpan | undefined {
  for (const match of text.matchAll(UPLOAD_SENTENCE)) {
    // The address in an option is the input of the command.
    if (/--[\w-]{1,20}[ =]["']?$/.test(match[0])) continue;
    const after = text.slice(match.index + match[0].length, match.index + match[0].length + 160);
    const target = after.split(/[\s`")\]]/, 1)[0] ?? "";
    const mail = [...target.matchAll(MAIL_ADDRESS)][0];
    if (
      target.includes("://")
        ? findOutsideAddress(target) !== undefined
        : mail !== undefined && isOutsideHost(mail[1] ?? "")
    )
      return { index: match.index, length: Math.min(120, match[0].length + target.length) };
  }
  return undefined;
}

const UPLOAD_WORDS = [
  ...[
    "curl",
    "wget",
    ".post(",
    ".put(",
    ".patch(",
    ".request(",
    "urlopen",
    "request(",
    "fetch(",
    "method",
    "sendbeacon",
  ],
  ...[
    "websocket",
    "invoke-",
    "irm ",
    "iwr ",
    "upload",
    "nc ",
    "ncat ",
    "netcat",
    "send(",
    "sendall",
    "sendto",
    "/dev/tcp",
  ],
  ...[
    "/dev/udp",
    "smtplib",
    "| mail",
    "sendmail",
    "git push",
    "git remote",
    "push ",
    "scp ",
    "rsync ",
    "sftp ",
    "rclone ",
  ],
];

/** Signals of data that goes to an address in the skill. */
export const UPLOAD_SIGNALS: readonly ScanSignal[] = [
  { kind: "sends", words: UPLOAD_WORDS, find: findUpload },
  {
    kind: "sends",
    words: ["method", ".post(", ".put(", "urlopen", "request(", "sendall", "invoke-", "websocket"],
    find: (text, { page }) => (mentionsOutsideHost(page) ? UPLOAD_CALLS(text) : undefined),
    where: "code",
  },
  { kind: "sends", words: ["http:/", "https:/", "wss:/", "ws:/", "ftp:/", "@"], find: findUploadInProse },
  {
    kind: "tells",
    words: ["http:/", "https:/", "wss:/", "ws:/", "ftp:/", "@"],
    find: (text, { page, line }) => (page.kind === "data" || page.isCode(line) ? undefined : findUploadInProse(text)),
  },
];
