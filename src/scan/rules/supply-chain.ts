import { findFirstMatch, type MatchSpan, type SourceRule, splitKeywords, type TextRule } from "../rule.ts";
import { findOutsideAddress, isOutsideHost } from "./host-reputation.ts";

const NUMERIC_HOST = /\b(?:https?|ftp):\/\/((?:\d{1,3}\.){3}\d{1,3})(?=[:/?#\s"'`)]|$)/g;
const DOWNLOADS =
  /\b(?:curl|wget|iwr|irm|Invoke-WebRequest|Invoke-RestMethod|Start-BitsTransfer|urlopen|urlretrieve|requests\.get|httpx\.get|fetch|axios|git\s{1,3}clone|pip3?\s{1,3}install|npm\s{1,3}i(?:nstall)?|docker\s{1,3}(?:pull|run)|aria2c|DownloadFile|DownloadString|ADD|bitsadmin|certutil|download|get|install|load|visit|open)\b/i;
const PROGRAM_ENDING =
  /\.(?:sh|bash|exe|msi|jar|vsix|deb|rpm|pkg|dmg|apk|appimage|bin|run|ps1|bat|whl|crx|xpi|dll|so|dylib|py|elf)(?=[\s"'`?)]|$)/i;

/** Rules for software from unverified sources. */
export const PACKAGE_RULES: readonly TextRule[] = [
  {
    id: "numeric-host",
    weight: "high",
    regionWeights: "hhhmlh",
    title: "downloads from an IP address without a host name",
    why: "Vendors have names and certificates. The tenant of an IP address can change at any time.",
    fix: "do not use it; download the software from its vendor's site",
    keywords: ["http:", "https:", "ftp:"],
    find(text) {
      for (const match of text.matchAll(NUMERIC_HOST)) {
        if (isOutsideHost(match[1] ?? "") && DOWNLOADS.test(text.slice(Math.max(0, match.index - 160), match.index)))
          return { index: match.index, length: match[0].length };
      }
      return undefined;
    },
  },
  {
    id: "plain-download",
    weight: "high",
    regionWeights: "hhhllm",
    title: "downloads a program over an unencrypted connection",
    why: "Anyone on the network path can replace the program.",
    fix: "use https, and check a digest",
    keywords: ["http:"],
    find(text) {
      const match = /\bhttp:\/\/[^\s"'`)|;<>]{4,200}/.exec(text);
      if (!match || !PROGRAM_ENDING.test(match[0]) || findOutsideAddress(match[0]) === undefined) return undefined;
      return DOWNLOADS.test(text.slice(Math.max(0, match.index - 160), match.index))
        ? { index: match.index, length: match[0].length }
        : undefined;
    },
  },
  {
    id: "install-command",
    weight: "high",
    regionWeights: "hhhmlh",
    title: "has a package that runs a remote or unreadable command during installation",
    why: "Users do not expect an installation to run such a command.",
    fix: "do not install it; check the command",
    keywords: ["install", '"prepare', ".prepare"],
    find: findFirstMatch(
      /\b(?:pre|post)?(?:install|prepare)["']?\s?[:=]\s?["'][^\n]{0,80}?(?:\bcurl\b|\bwget\b|https?:|require\(\\?['"]https?|node -e|python3? -c|sh -c|base64|powershell|\beval\b|fetch\()/i,
    ),
  },
  {
    id: "unverified-packages",
    weight: "high",
    regionWeights: "hhhmhh",
    title: "installs packages from an unverified source",
    why: "The source can deliver any code under any package name.",
    fix: "remove the setting; use the language's registry, or your company's over https",
    keywords: splitKeywords(
      "index-url,index_url,registry,goproxy,gonosum,goinsecure,trusted-host,gemsource,gem sources,replace-with,brew tap,--no-quarantine,sparse+",
    ),
    find(text) {
      const found = UNVERIFIED_SOURCE(text);
      return found && findOutsideAddress(text.slice(Math.max(0, found.index - 20), found.index + 240)) !== undefined
        ? found
        : SWITCHED_CHECKS(text);
    },
  },
  {
    id: "near-miss-package",
    weight: "high",
    regionWeights: "hhhlhl",
    title: "installs a package whose name is almost that of a well-known one",
    why: "Malicious packages use names that result from typing errors.",
    fix: "compare the name with the intended one, letter by letter",
    keywords: [
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
    find: (text, { page }) => findTyposquat(text, /(?:package\.json|requirements[\w.-]{0,20}\.txt)$/.test(page.path)),
  },
  {
    id: "foreign-tunnel",
    weight: "high",
    regionWeights: "hhhmlh",
    title: "joins the machine to a network or account of another owner",
    why: "The owner of that account can then reach this machine.",
    fix: "do not run it; use the user's own accounts and keys",
    keywords: splitKeywords(
      "authkey,auth-key,cloudflared,--setup-key,residential,accept-traffic,x11vnc,permitrootlogin yes,tcp://0.0.0.0,tcp-listen,ngrok ,chpasswd,-r 0:,earnapp,honeygain,pawns,peer2profit,traffmonetizer,packetstream,repocket",
    ),
    find: findFirstMatch(
      /\btailscale\s{1,3}up\b[^\n]{0,120}?--auth-?key[ =]["']?tskey-[\w-]{8,}|\bcloudflared\b[^\n]{0,80}?--token[ =]["']?ey[\w-]{10,}|\bnetbird\s{1,3}up\b[^\n]{0,80}?--setup-key[ =]["']?[\w-]{10,}|\bngrok\s{1,3}config\s{1,3}add-authtoken\s{1,3}\w{10,}/,
      /\bx11vnc\b[^\n]{0,120}?-(?:forever|nopw)|PermitRootLogin yes(?!\/)[^\n]{0,120}?sshd?\b|\bdockerd\b[^\n]{0,60}?tcp:\/\/0\.0\.0\.0|\bsocat\b[^\n]{0,60}?TCP-LISTEN[^\n]{0,80}?EXEC:/i,
      /\bdocker\s{1,3}run\b[^\n]{0,240}?(?:--accept-traffic|residential|earnapp|honeygain|pawns(?:-cli|app)|peer2profit|traffmonetizer|packetstream|repocket)/i,
      /\buseradd\b[^\n]{0,80}?\b(?:sudo|wheel|admin)\b[^\n]{0,80}?\bchpasswd\b|\becho\s{1,3}["'][\w-]{1,32}:[^"'\n$]{3,60}["']\s{0,3}\|\s{0,3}(?:sudo\s{1,3})?chpasswd\b/,
    ),
  },
];

const UNVERIFIED_SOURCE = findFirstMatch(
  /(?:--(?:extra-)?index-url|(?:^|\s)-i|index_url|index-url|--registry|registry)["']?[ =:]{1,3}["']?(?:sparse\+)?http:\/\/[^\s"'`]{3,120}/i,
  /\bGOPROXY=["']?http:\/\/[^\s"']{3,120}/,
  /--trusted-host[ =]["']?[\w.-]{4,80}[^\n]{0,120}?https?:\/\/|https?:\/\/[^\n]{0,120}?--trusted-host[ =]["']?[\w.-]{4,80}/,
  /\bgem\s{1,3}sources?\s[^\n]{0,40}?http:\/\/[^\s"']{3,120}/,
  /\bbrew\s{1,3}tap\s{1,3}[\w-]{1,60}\/[\w-]{1,60}\s{1,3}https?:\/\/(?!github\.com|gitlab\.com)[^\s"']{3,120}/,
);
const SWITCHED_CHECKS = findFirstMatch(
  /\bGO(?:NOSUMDB|NOSUMCHECK|INSECURE|FLAGS)=["']?(?:\*|1|off|-insecure)[^\n]{0,80}?\bgo\s{1,3}(?:install|get)\b/,
  /\bbrew\s{1,3}install\b[^\n]{0,80}?--no-quarantine\b[^\n]{0,80}?\w\/\w[\w-]{0,40}\/\w/,
);

/** Popular package names. A name that differs from one of them by one change is suspicious. */
const POPULAR_PACKAGES =
  "requests numpy pandas scipy matplotlib django flask fastapi pydantic sqlalchemy beautifulsoup4 selenium scrapy pillow opencv-python tensorflow pytorch torchvision transformers scikit-learn pytest cryptography paramiko boto3 botocore urllib3 pyyaml jinja2 setuptools virtualenv colorama python-dateutil python-dotenv openai anthropic langchain playwright httpx aiohttp redis celery gunicorn uvicorn psycopg2 pymongo websockets openpyxl pdfplumber streamlit discord.py telethon web3 express lodash axios chalk commander react react-dom typescript webpack eslint prettier nodemon dotenv mongoose cross-env puppeteer electron jquery moment socket.io next-auth tailwindcss babel-core body-parser bcrypt jsonwebtoken nodemailer sequelize ethers hardhat tokio serde clap reqwest anyhow".split(
    " ",
  );
const KNOWN_PACKAGES = new Set([
  ...POPULAR_PACKAGES,
  ..."preact torch request request2 flash clap-rs click cli clack chalks mockttp numba panda3d pillow-heif react-dnd ethers5 moments dot-env aioredis fastapi-users pytests esprima httpx2 jinja web3py axios-mock-adapter".split(
    " ",
  ),
]);
const INSTALLED_PACKAGES =
  /\b(?:pip3?|uv|npm|pnpm|yarn|bun|cargo|npx|poetry|pipx)\s{1,3}(?:pip\s{1,3})?(?:install|i|add)\s{1,3}((?:(?:-\S{1,40}|[@\w./~^=<>[\],"'-]{1,80})\s{0,3}){1,20})/g;
const LISTED_PACKAGE = /^\s{0,8}"?([A-Za-z][\w.-]{3,40})(?:"\s{0,3}:\s{0,3}"[\^~\d]|\s{0,2}(?:==|>=|~=))/;

function findTyposquat(text: string, isList: boolean): MatchSpan | undefined {
  for (const match of text.matchAll(INSTALLED_PACKAGES)) {
    for (const word of (match[1] ?? "").split(/\s+/)) {
      const name = word
        .replace(/^["']|["',]+$/g, "")
        .replace(/(?<=.)(?:[@=<>~[]).*$/, "")
        .toLowerCase();
      if (isTyposquat(name)) return { index: match.index, length: match[0].length };
    }
  }
  const [line, listed = ""] = (isList && LISTED_PACKAGE.exec(text)) || [];
  return line !== undefined && isTyposquat(listed.toLowerCase()) ? { index: 0, length: line.length } : undefined;
}

/** Returns true if one letter is missing, doubled, changed or swapped, in a name of at least six letters. */
function isTyposquat(name: string): boolean {
  if (name.length < 5 || name.length > 40 || !/^[a-z][\w.-]*$/.test(name) || KNOWN_PACKAGES.has(name)) return false;
  return POPULAR_PACKAGES.some(
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

const blankOut = (text: string) => " ".repeat(text.length);
/** The separators in a command that is written as a list. */
const LIST_SEPARATOR = /["'],\s{0,3}["']/g;
const DEPENDENCIES =
  /(?:^|\/)(?:package\.json|requirements[\w.-]{0,40}\.txt|pyproject\.toml|setup\.(?:py|cfg)|environment\.ya?ml)$/;

export const INSTALL_RULES: readonly TextRule[] = [
  {
    id: "install-from-address",
    weight: "medium",
    regionWeights: "mmmmm-",
    title: "installs a package from an address outside of any registry",
    why: "Packages run code during installation, and this one can change without a new version.",
    fix: "install it from a registry with a pinned version, or from a reviewed commit",
    keywords: [
      "pip install",
      "pip3 install",
      "uv add",
      "uv pip",
      "npm install",
      "npm i ",
      "pnpm add",
      "yarn add",
      "gem install",
      "go install",
      ...['"install"', "'install'", '": "http', '": "git+', "@ http", "@ git+", "git+http"],
    ],
    find(text, { page }) {
      const isList = DEPENDENCIES.test(page.path);
      const plain = text.replace(INDEX_OPTION, blankOut).replace(LIST_SEPARATOR, blankOut);
      return ADDRESS_INSTALL(plain) ?? (isList ? ADDRESS_DEPENDENCY(text) : undefined);
    },
  },
  {
    id: "address-of-repository",
    weight: "low",
    regionWeights: "ll----",
    title: "installs a package directly from a repository",
    why: "A branch can change at any time.",
    fix: "pin a commit",
    keywords: ["git+https", "github:", "git+ssh"],
    find: findFirstMatch(
      /\b(?:install|add|i|npx|uvx|--from)\s[^\n;|&]{0,120}?(?:git\+(?:https|ssh):\/\/|\bgithub:)[^\s"'`]{1,120}/,
    ),
  },
  {
    id: "other-registry",
    weight: "medium",
    regionWeights: "mll---",
    title: "installs packages from another registry over an unencrypted connection",
    why: "The registry, or anyone on the network path, can deliver any code.",
    fix: "remove the line; use a company registry over https, set up by the company",
    keywords: ["registry", "index-url", "index_url", "extra-index"],
    find: findFirstMatch(
      /\b(?:npm|pnpm|yarn|pip3?|uv)\b[^\n]{0,120}?(?:registry|index-url|index_url)["']?[ =:]{1,3}["']?http:\/\/(?!localhost|127\.|\[::1\])[^\s"'`]{1,120}/i,
    ),
  },
];

const ADDRESS_INSTALL = findFirstMatch(
  /\b(?:pip3?|uv(?: pip)?|npm|pnpm|yarn)\s{1,6}(?:install|i|add)\b[^\n;|&]{0,160}?(?:\bhttp:\/\/|\b(?:git\+)?https:\/\/(?!(?:[\w.-]{1,60}@)?(?:www\.|codeload\.|raw\.)?(?:github|gitlab|bitbucket|codeberg|githubusercontent|pytorch|huggingface|pypi|nvidia)\.|download\.pytorch|pypi\.|(?:[\w-]{1,30}\.){1,3}(?:pytorch|nvidia|pypi)\.|registry\.|files\.pythonhosted)|git\+ssh:\/\/\d)[^\s"'`]{1,120}/i,
);
/** Options that set the package index, as opposed to a package. */
const INDEX_OPTION = /\s(?:-i|-f|--(?:extra-)?index-url|--find-links|--index|--registry)[ =]\S{1,200}/g;
const CODE_HOSTS =
  "(?:www\\.|codeload\\.|raw\\.)?(?:github|gitlab|bitbucket|codeberg|githubusercontent|pytorch|huggingface|nvidia)\\.";
const ADDRESS_DEPENDENCY = findFirstMatch(
  new RegExp(
    `"[@\\w/.-]{1,100}"\\s{0,3}:\\s{0,3}"(?:http:\\/\\/|https:\\/\\/(?!${CODE_HOSTS}|registry\\.)[^\\s"]{1,160}\\.(?:tgz|tar\\.gz|zip)\\b|git\\+(?:http:|https:\\/\\/(?!${CODE_HOSTS})|ssh:\\/\\/(?!git@${CODE_HOSTS})))[^\\s"]{0,160}`,
  ),
  new RegExp(
    `(?:^|["'])[\\w.-]{1,80}(?:\\[[\\w,-]{1,60}\\])?\\s{0,3}@\\s{0,3}(?:http:\\/\\/|(?:git\\+)?https:\\/\\/(?!${CODE_HOSTS}|files\\.pythonhosted|download\\.pytorch))[^\\s"']{1,160}`,
  ),
  new RegExp(
    `^\\s{0,4}(?:-e\\s{1,3})?(?:git\\+)?(?:http:\\/\\/|https:\\/\\/(?!${CODE_HOSTS}|files\\.pythonhosted|download\\.pytorch))[^\\s"']{1,160}\\.(?:whl|tar\\.gz|zip|git)\\b`,
  ),
  /^\s{0,4}--(?:extra-)?index-url[ =]http:\/\/(?!localhost|127\.)[^\s]{1,120}/,
);

export const INSTALL_SOURCE_RULES: readonly SourceRule[] = [
  {
    id: "install-script",
    weight: "medium",
    title: "runs code during the installation of its packages",
    why: "Users do not expect an installation to run code of the skill.",
    fix: "install with --ignore-scripts, and check the script",
    keywordGroups: [['install"', '"prepare"', "install-cmd", "cmdclass"]],
    find(page) {
      const kind = INSTALL_HOOK_FILES.find(({ path }) => path.test(page.path));
      const line = kind ? page.lines.findIndex((text) => kind.runs.test(text.slice(0, 2000))) : -1;
      const seen = kind?.runs.exec((page.lines[line] ?? "").slice(0, 2000))?.[0];
      if (kind === undefined || seen === undefined) return undefined;
      const isHeavy = kind.heavy.test(kind.isWhole ? page.lines.join("\n").slice(0, 20_000) : seen);
      return { line, seen, weight: isHeavy ? "medium" : "low" };
    },
  },
];

/** Install hooks by file: the commands that run, and those that make the finding more than a hint. */
const INSTALL_HOOK_FILES: readonly { path: RegExp; runs: RegExp; heavy: RegExp; isWhole?: boolean }[] = [
  {
    path: /(?:^|\/)package\.json$/,
    runs: /"(?:(?:pre|post)?install|(?:pre|post)?prepare)"\s{0,3}:\s{0,3}"(?:[^"\\]|\\.){1,300}/,
    // Builds run after the installation. A legitimate skill does not need its own code before it.
    heavy:
      /curl|wget|https?[:.']|(?:node|bun|deno) -e|-c |eval|base64|powershell|"preinstall"[^\n]{0,12}(?:node|bun|sh|bash|python3?|\.\/)\s?[\w./-]{1,80}|&>?\s{0,2}\/dev\/null|2>&1 &|nohup/,
  },
  {
    path: /(?:^|\/)composer\.json$/,
    runs: /"(?:pre|post)-(?:install|update|autoload)-(?:cmd|dump)"\s{0,3}:\s{0,3}\[?\s{0,3}"?(?:[^"\\]|\\.){0,300}/,
    heavy: /curl|wget|https?:|php -r|eval|base64/,
  },
  {
    path: /(?:^|\/)setup\.py$/,
    runs: /\bcmdclass\b[^\n]{0,200}/,
    heavy: /\bos\.system\(|\bsubprocess\.|\burlopen\(|\brequests\.|\bexec\(|\beval\(|\bsocket\./,
    isWhole: true,
  },
];
