import type { Page } from "../page.ts";
import { type Found, first } from "../rule.ts";
import { findOutside } from "./hosts.ts";
import { isVendor } from "./vendors.ts";

/** Places for texts and files of anybody, and addresses that only collect what is sent to them. */
export const FILE_HOST =
  /(?:^|[/.@\s"'`(<])(?:rentry\.(?:co|org)|glot\.io|pastebin\.com|hastebin\.com|paste\.(?:rs|ee|sh|org|mozilla\.org)|0x0\.st|transfer\.sh|termbin\.com|ix\.io|dpaste\.(?:com|org)|ghostbin\.\w{2,4}|telegra\.ph|t\.me\/\w{2,40}|mega\.nz|mediafire\.com|gofile\.io|anonfiles?\.\w{2,4}|bashupload\.com|file\.io|catbox\.moe|files\.catbox\.moe|litterbox\.catbox\.moe|wetransfer\.com|we\.tl|cdn\.discordapp\.com|justpaste\.it|controlc\.com|privatebin\.\w{2,4}|pixeldrain\.com|workupload\.com|sendspace\.com|tmpfiles\.org|oshi\.at|temp\.sh|uguu\.se|sprunge\.us|clbin\.com|zippyshare\.com|filebin\.net|paste\.c-net\.org|pst\.moe|bpa\.st|cl1p\.net|textbin\.net|pastes\.io|snippet\.host)\b/i;
export const DROP_HOST =
  /\b(?:webhook\.site|pipedream\.net|requestbin\.\w{2,4}|requestcatcher\.com|requestrepo\.com|beeceptor\.com|hookbin\.com|webhook\.cool|interact\.sh|interactsh\.\w{2,6}|oast\.(?:fun|live|me|online|pro|site)|oastify\.com|burpcollaborator\.net|dnslog\.\w{2,4}|ceye\.io|canarytokens\.\w{2,4}|dnsbin\.\w{2,4}|ngrok(?:-free)?\.(?:io|app|dev)|trycloudflare\.com|serveo\.net|loca\.lt|localtunnel\.me|discord(?:app)?\.com\/api\/(?:v\d{1,2}\/)?webhooks\/\d|api\.telegram\.org\/bot\d|hooks\.slack\.com\/services\/T\w{6}|script\.google\.com\/macros\/s\/\w{8})/i;

export const SENDS =
  /\bcurl(?:\.exe)?\b[^\n]{0,240}?(?:\s-(?:d|F|T)\b|\s-[a-zA-Z]{0,5}[dF]\s|\s-[a-zA-Z]{0,5}T\s|--data|--form\b|--upload-file|--json\b|-X\s?["']?(?:POST|PUT))|\bwget\b[^\n]{0,200}?--(?:post|body)|\b(?:requests|httpx|session|client|axios|https?|ky|got|aiohttp|net|superagent|needle)\.(?:post|put|patch|Post|PostForm)\(|urlopen\([^)\n]{0,160},|\bRequest\([^)\n]{0,200},|\.request\(\s?["'](?:POST|PUT)|\bmethod["']?\s?[:=]\s?["'](?:POST|PUT)\b|sendBeacon\(|new WebSocket\(|websockets?\.(?:connect|create_connection)\(|Invoke-(?:RestMethod|WebRequest)\b[^\n]{0,160}?-(?:Body|InFile|Method)|\b(?:irm|iwr)\b[^\n]{0,160}?-(?:Body|InFile|Method)|Upload(?:String|File|Data)\(|\|\s?(?:nc|ncat|netcat|mail|mutt|sendmail)\s|sendall\(|Net::HTTP\.post|HTTParty\.post|Faraday\.post|CURLOPT_POST|stream_context_create|smtplib\.|HttpClient\(\)\.Post|PostAsync\(|Client::new\(\)\s?\.post\(|\bhttp\.Post/;
export const FETCHES =
  /\bcurl\b|\bwget\b|\burlopen\b|\burlretrieve\b|\brequests\.get\b|\bhttpx\.get\b|\bfetch\(|\bhttps?\.get\(|\)\.get\(\s?["'\x60]https?:|\baxios\b|URI\.open|Net::HTTP|\birm\b|\biwr\b|Invoke-WebRequest|Invoke-RestMethod|DownloadString|DownloadFile|http\.Get\(|\bLWP\b|reqwest::|file_get_contents\(\s?["']https?:|\bgit clone\b|\baria2c\b|\bbitsadmin\b|\bcertutil\b/;

/** Several signs ask this of one statement. */
let last: { text: string; found: Found | undefined } = { text: "", found: undefined };

/** An address in the text that is neither a service, nor a vendor, nor local; or one that only collects what it gets. */
export function findUnknown(text: string): Found | undefined {
  if (last.text !== text) last = { text, found: unknownIn(text) };
  return last.found;
}

function unknownIn(text: string): Found | undefined {
  const address = findOutside(text);
  if (address !== undefined && !isVendor(text.slice(text.indexOf(address)).split(/[\s"'`)]/, 1)[0] ?? ""))
    return { index: text.indexOf(address), length: address.length };
  return first(DROP_HOST)(text);
}

/** A file that runs, or holds such files, at an unknown address; on request, one that anybody can release on a code host. */
export function findRelease(text: string, isOnCodeHost: boolean): Found | undefined {
  const match =
    /https?:\/\/[^\s)`"'>\]]{4,200}?(?:\.(?:zip|exe|dmg|pkg|msi|rar|7z|jar|scr|appimage|bat|ps1|vsix|apk|command|iso|scpt)\b|\/releases\/(?:download|latest)\b)/i.exec(
      text,
    );
  if (!match) return undefined;
  if (isVendor(match[0])) return undefined;
  const isCodeHost = /^https?:\/\/(?:www\.)?(?:github|gitlab)\.com\//i.test(match[0]);
  const isUnknown = findUnknown(match[0]) !== undefined || FILE_HOST.test(match[0]);
  return (isOnCodeHost ? isCodeHost : isUnknown) ? { index: match.index, length: match[0].length } : undefined;
}

const NUMERIC =
  /(?:\b(?:https?|ftp|wss?|tcp):\/\/(?:[\w:]{1,40}@)?|\/dev\/(?:tcp|udp)\/|\b(?:nc|ncat|netcat|telnet)\s(?:-\w{1,6}\s){0,3})((?:\d{1,3}\.){3}\d{1,3})\b/;
export function findNumeric(text: string): Found | undefined {
  const match = NUMERIC.exec(text);
  const host = `${match?.[1] ?? "0"}.`;
  if (
    !match ||
    /^(?:0|10|127|169\.254|192\.168|172\.(?:1[6-9]|2\d|3[01]|4\d)|1\.1\.1|1\.0\.0|8\.8|9\.9\.9)\./.test(host)
  )
    return undefined;
  return { index: match.index, length: match[0].length };
}

/** Whether the page identifies itself to a server, as the client of an interface does. */
const IDENTIFIES =
  /\bauthorization\b|\bbearer\b|api[-_]?key|x-[\w-]{0,20}(?:key|token)|access[-_]?token|_TOKEN\b|\bauth\s?=|client_secret|--user\b|\s-u\s/i;

const clients = new WeakMap<Page, boolean>();

/** Whether code of the page names an unknown address, and nothing in it identifies itself. */
export function isUnnamedClient(page: Page): boolean {
  const known = clients.get(page);
  if (known !== undefined) return known;
  const is =
    page.lines.some(
      (line, at) => (page.isCode(at) || line.includes("`")) && findUnknown(line.slice(0, 1000)) !== undefined,
    ) && !page.lines.some((line) => IDENTIFIES.test(line.slice(0, 1000)));
  clients.set(page, is);
  return is;
}

/** Words that are separated by commas. Blanks count. */
export function words(text: string): readonly string[] {
  return text.split(",");
}

export const RELEASE_WORDS = words(
  ".zip,.exe,.dmg,.pkg,.msi,.rar,.7z,.jar,.scr,.appimage,.bat,.ps1,.vsix,.apk,/releases/,.command,.iso,.scpt",
);
export const SEND_WORDS = words(
  "curl,wget,.post,.put(,.patch(,urlopen,request(,method,sendbeacon,websocket,invoke-,irm ,iwr ,upload,nc ,ncat,netcat,sendmail,mutt,| mail,sendall,stream_context,curlopt_post,smtplib",
);
export const NETWORK_WORDS = ["http:", "https:", "ws:", "wss:", "ftp:"];
