import { type Found, first, type TextRule } from "../rule.ts";
import { findOutside, isOutside } from "./hosts.ts";

const NUMERIC = /\b(?:https?|ftp):\/\/((?:\d{1,3}\.){3}\d{1,3})(?=[:/?#\s"'`)]|$)/g;
const FETCHES =
  /\b(?:curl|wget|iwr|irm|Invoke-WebRequest|Invoke-RestMethod|Start-BitsTransfer|urlopen|urlretrieve|requests\.get|httpx\.get|fetch|axios|git\s{1,3}clone|pip3?\s{1,3}install|npm\s{1,3}i(?:nstall)?|docker\s{1,3}(?:pull|run)|aria2c|DownloadFile|DownloadString|ADD|bitsadmin|certutil|download|get|install|load|visit|open)\b/i;
const PROGRAM =
  /\.(?:sh|bash|exe|msi|jar|vsix|deb|rpm|pkg|dmg|apk|appimage|bin|run|ps1|bat|whl|crx|xpi|dll|so|dylib|py|elf)(?=[\s"'`?)]|$)/i;

/** Software from where nobody answers for it. */
export const PACKAGE_RULES: readonly TextRule[] = [
  {
    id: "numeric-host",
    weight: "high",
    weigh: "hhhmlh",
    title: "downloads from a host that has no name",
    why: "Vendors have names and certificates. A number on the internet belongs to whoever rents it today.",
    fix: "do not use it; take the software from its maker's site",
    words: ["http:", "https:", "ftp:"],
    find(text) {
      for (const match of text.matchAll(NUMERIC)) {
        if (isOutside(match[1] ?? "") && FETCHES.test(text.slice(Math.max(0, match.index - 160), match.index)))
          return { index: match.index, length: match[0].length };
      }
      return undefined;
    },
  },
  {
    id: "plain-download",
    weight: "high",
    weigh: "hhhllm",
    title: "downloads a program over a connection that anybody can change",
    why: "Anyone on the way can put another program in its place.",
    fix: "use https, and check a digest",
    words: ["http:"],
    find(text) {
      const match = /\bhttp:\/\/[^\s"'`)|;<>]{4,200}/.exec(text);
      if (!match || !PROGRAM.test(match[0]) || findOutside(match[0]) === undefined) return undefined;
      return FETCHES.test(text.slice(Math.max(0, match.index - 160), match.index))
        ? { index: match.index, length: match[0].length }
        : undefined;
    },
  },
  {
    id: "install-command",
    weight: "high",
    weigh: "hhhmlh",
    title: "has a package run a command from the network, or an unreadable one, while it is installed",
    why: "Installing is not using: nobody expects the command to run then.",
    fix: "do not install it; look at the command",
    words: ["install", '"prepare', ".prepare"],
    find: first(
      /\b(?:pre|post)?(?:install|prepare)["']?\s?[:=]\s?["'][^\n]{0,80}?(?:\bcurl\b|\bwget\b|https?:|require\(\\?['"]https?|node -e|python3? -c|sh -c|base64|powershell|\beval\b|fetch\()/i,
    ),
  },
  {
    id: "unverified-packages",
    weight: "high",
    weigh: "hhhmhh",
    title: "has packages come from a source that is not verified",
    why: "Every package that is installed from there is what that source says it is.",
    fix: "take the setting out; use the registry of the language, or that of your company over https",
    words: [
      "index-url",
      "index_url",
      "registry",
      "goproxy",
      "gonosum",
      "goinsecure",
      "trusted-host",
      "gemsource",
      "gem sources",
      "replace-with",
      "brew tap",
      "--no-quarantine",
      "sparse+",
    ],
    find(text) {
      const found = UNVERIFIED(text);
      return found && findOutside(text.slice(Math.max(0, found.index - 20), found.index + 240)) !== undefined
        ? found
        : SWITCHED(text);
    },
  },
  {
    id: "near-miss-package",
    weight: "high",
    weigh: "hhhlhl",
    title: "installs a package whose name is nearly that of a well-known one",
    why: "Harmful packages wait under names that are typed by mistake.",
    fix: "compare the name with the one that was meant, letter by letter",
    words: [
      "install ",
      "npm i ",
      "pnpm add",
      "yarn add",
      "uv add",
      "bun add",
      "cargo add",
      "npx ",
      "dependencies",
      '": "^',
      '": "~',
      "==",
      ">=",
    ],
    find: (text, { page }) => findNearMiss(text, /(?:package\.json|requirements[\w.-]{0,20}\.txt)$/.test(page.path)),
  },
  {
    id: "foreign-tunnel",
    weight: "high",
    weigh: "hhhmlh",
    title: "joins the machine to a network or an account of somebody else",
    why: "Whoever owns that account reaches this machine from then on.",
    fix: "do not run it; accounts and keys are the user's own",
    words: [
      "authkey",
      "auth-key",
      "cloudflared",
      "--setup-key",
      "residential",
      "accept-traffic",
      "x11vnc",
      "permitrootlogin yes",
      "tcp://0.0.0.0",
      "tcp-listen",
      "ngrok ",
      "chpasswd",
      "-r 0:",
      "earnapp",
      "honeygain",
      "pawns",
      "peer2profit",
      "traffmonetizer",
      "packetstream",
      "repocket",
    ],
    find: first(
      /\btailscale\s{1,3}up\b[^\n]{0,120}?--auth-?key[ =]["']?tskey-[\w-]{8,}|\bcloudflared\b[^\n]{0,80}?--token[ =]["']?ey[\w-]{10,}|\bnetbird\s{1,3}up\b[^\n]{0,80}?--setup-key[ =]["']?[\w-]{10,}|\bngrok\s{1,3}config\s{1,3}add-authtoken\s{1,3}\w{10,}/,
      /\bx11vnc\b[^\n]{0,120}?-(?:forever|nopw)|PermitRootLogin yes(?!\/)[^\n]{0,120}?sshd?\b|\bdockerd\b[^\n]{0,60}?tcp:\/\/0\.0\.0\.0|\bsocat\b[^\n]{0,60}?TCP-LISTEN[^\n]{0,80}?EXEC:/i,
      /\bdocker\s{1,3}run\b[^\n]{0,240}?(?:--accept-traffic|residential|earnapp|honeygain|pawns(?:-cli|app)|peer2profit|traffmonetizer|packetstream|repocket)/i,
      /\buseradd\b[^\n]{0,80}?\b(?:sudo|wheel|admin)\b[^\n]{0,80}?\bchpasswd\b|\becho\s{1,3}["'][\w-]{1,32}:[^"'\n$]{3,60}["']\s{0,3}\|\s{0,3}(?:sudo\s{1,3})?chpasswd\b/,
    ),
  },
];

const UNVERIFIED = first(
  /(?:--(?:extra-)?index-url|(?:^|\s)-i|index_url|index-url|--registry|registry)["']?[ =:]{1,3}["']?(?:sparse\+)?http:\/\/[^\s"'`]{3,120}/i,
  /\bGOPROXY=["']?http:\/\/[^\s"']{3,120}/,
  /--trusted-host[ =]["']?[\w.-]{4,80}[^\n]{0,120}?https?:\/\/|https?:\/\/[^\n]{0,120}?--trusted-host[ =]["']?[\w.-]{4,80}/,
  /\bgem\s{1,3}sources?\s[^\n]{0,40}?http:\/\/[^\s"']{3,120}/,
  /\bbrew\s{1,3}tap\s{1,3}[\w-]{1,60}\/[\w-]{1,60}\s{1,3}https?:\/\/(?!github\.com|gitlab\.com)[^\s"']{3,120}/,
);
const SWITCHED = first(
  /\bGO(?:NOSUMDB|NOSUMCHECK|INSECURE|FLAGS)=["']?(?:\*|1|off|-insecure)[^\n]{0,80}?\bgo\s{1,3}(?:install|get)\b/,
  /\bbrew\s{1,3}install\b[^\n]{0,80}?--no-quarantine\b[^\n]{0,80}?\w\/\w[\w-]{0,40}\/\w/,
);

/** Names that are often typed. A name at a distance of one change from them is looked at. */
const POPULAR =
  "requests numpy pandas scipy matplotlib django flask fastapi pydantic sqlalchemy beautifulsoup4 selenium scrapy pillow opencv-python tensorflow pytorch torchvision transformers scikit-learn pytest cryptography paramiko boto3 botocore urllib3 pyyaml jinja2 setuptools virtualenv colorama python-dateutil python-dotenv openai anthropic langchain playwright httpx aiohttp redis celery gunicorn uvicorn psycopg2 pymongo websockets openpyxl pdfplumber streamlit discord.py telethon web3 express lodash axios chalk commander react react-dom typescript webpack eslint prettier nodemon dotenv mongoose cross-env puppeteer electron jquery moment socket.io next-auth tailwindcss babel-core body-parser bcrypt jsonwebtoken nodemailer sequelize ethers hardhat tokio serde clap reqwest anyhow".split(
    " ",
  );
const KNOWN = new Set([
  ...POPULAR,
  ..."preact torch request request2 flash clap-rs click cli clack chalks mockttp numba panda3d pillow-heif react-dnd ethers5 moments dot-env aioredis fastapi-users pytests esprima httpx2 jinja web3py axios-mock-adapter".split(
    " ",
  ),
]);
const PACKAGES =
  /\b(?:pip3?|uv|npm|pnpm|yarn|bun|cargo|npx|poetry|pipx)\s{1,3}(?:pip\s{1,3})?(?:install|i|add)\s{1,3}((?:(?:-\S{1,40}|[@\w./~^=<>[\],"'-]{1,80})\s{0,3}){1,20})/g;
const LISTED = /^\s{0,8}"?([A-Za-z][\w.-]{3,40})(?:"\s{0,3}:\s{0,3}"[\^~\d]|\s{0,2}(?:==|>=|~=))/;

function findNearMiss(text: string, isList: boolean): Found | undefined {
  for (const match of text.matchAll(PACKAGES)) {
    for (const word of (match[1] ?? "").split(/\s+/)) {
      const name = word
        .replace(/^["']|["',]+$/g, "")
        .replace(/(?<=.)(?:[@=<>~[]).*$/, "")
        .toLowerCase();
      if (isNearMiss(name)) return { index: match.index, length: match[0].length };
    }
  }
  const [line, listed = ""] = (isList && LISTED.exec(text)) || [];
  return line !== undefined && isNearMiss(listed.toLowerCase()) ? { index: 0, length: line.length } : undefined;
}

/** One letter left out, doubled, changed or swapped with its neighbor, in a name of at least six. */
function isNearMiss(name: string): boolean {
  if (name.length < 5 || name.length > 40 || !/^[a-z][\w.-]*$/.test(name) || KNOWN.has(name)) return false;
  return POPULAR.some(
    (known) => known.length >= 6 && Math.abs(known.length - name.length) <= 1 && isOneChange(name, known),
  );
}

function isOneChange(a: string, b: string): boolean {
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  let [endA, endB] = [a.length, b.length];
  while (endA > from && endB > from && a[endA - 1] === b[endB - 1]) {
    endA--;
    endB--;
  }
  const [left, right] = [a.slice(from, endA), b.slice(from, endB)];
  if (/\d/.test(left + right) || from === 0) return false;
  if (left.length + right.length === 1) return true;
  return left.length === 2 && right.length === 2 && left[0] === right[1] && left[1] === right[0];
}
