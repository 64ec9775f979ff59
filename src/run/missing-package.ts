import type { Host } from "../host/host.ts";
import type { Notice, Sandbox } from "../host/sandbox.ts";
import { isPackageName } from "../skill/needs.ts";
import { NPM_PACKAGE, PYTHON_PACKAGE } from "../skill/package-specifier.ts";
import type { Skill } from "../skill/skill.ts";
import { giveCommand, isGiven, type PackageKey, packageName, proposedPackages } from "./proposed-packages.ts";

interface Missing {
  key: PackageKey;
  /** What the program asked for: a module or a command. */
  asked: string;
  /** The package that has it; nothing where that is not known. */
  wanted: string | undefined;
  /** Whether that is known, and not only likely by its name. */
  isSure: boolean;
}

/** Names the package that code failed without, with the command that adds it. Reads what interpreters and shells print. */
export function missingPackage(
  { stderr, exitCode }: { stderr: string; exitCode: number | undefined },
  skill: Skill,
  host: Host,
  sandbox: Sandbox,
): Notice | undefined {
  if (exitCode === 0 || exitCode === undefined || sandbox.by !== "bubblewrap") return undefined;
  const missing = findMissing(stderr, skill);
  if (!missing) return undefined;
  const { key, asked, wanted, isSure } = missing;
  if (wanted !== undefined && isGiven(key, wanted, skill, host)) return undefined;
  const proposal = wanted === undefined ? undefined : proposedPackages(skill, host).find((one) => one.key === key);
  const isListed = proposal?.wanted.some((one) => packageName(key, one) === packageName(key, wanted ?? "")) ?? false;
  const command = isListed && proposal ? proposal.command : giveCommand(skill, host, key, [wanted ?? "PACKAGE"]);
  const doubt = isSure || isListed ? "the user can add it with" : UNSURE[key];
  return {
    code: "package-hint",
    message: `${KINDS[key]} '${asked}' is not in the sandbox of skill '${skill.name}'`,
    fix: `${doubt}: ${command}`,
  };
}

const KINDS: Readonly<Record<PackageKey, string>> = {
  python: "The Python module",
  npm: "The npm package",
  packages: "The program",
};

const UNSURE: Readonly<Record<PackageKey, string>> = {
  python: "if its package has the same name, the user can add it with",
  npm: "the user can add it with",
  packages: "the user can add the Debian package that has it with",
};

interface Sign {
  pattern: RegExp;
  read(asked: string): Omit<Missing, "asked"> | undefined;
}

/** What programs print when something is missing, one row each. The first that fits counts. */
const SIGNS: readonly Sign[] = [
  { pattern: /^(?:ModuleNotFoundError|ImportError): No module named '?([A-Za-z_]\w*)/m, read: pythonModule },
  { pattern: /Cannot find (?:package|module) '((?:@[\w.~-]+\/)?[\w~][\w.~-]*)(?:\/[^']*)?'/, read: npmModule },
  { pattern: /\b(PDFInfoNotInstalledError|TesseractNotFoundError)\b/, read: (name) => known(EXCEPTIONS.get(name)) },
  { pattern: /(?:^|: )([\w+][\w.+-]*): (?:command )?not found$/m, read: command },
  { pattern: /\benv: ['‘]?([\w+][\w.+-]*)['’]?: No such file or directory/, read: command },
  {
    pattern: /FileNotFoundError: \[Errno 2\] No such file or directory: '([\w+][\w.+-]*)'/,
    read: (name) => known(COMMANDS.get(name)),
  },
  { pattern: /\bspawn(?:Sync)? ([\w+][\w.+-]*) ENOENT/, read: command },
];

function findMissing(stderr: string, skill: Skill): Missing | undefined {
  for (const { pattern, read } of SIGNS) {
    const asked = pattern.exec(stderr)?.[1];
    const found = asked === undefined ? undefined : read(asked);
    if (asked === undefined || !found) continue;
    return found.key === "python" && isOwnModule(asked, skill) ? undefined : { ...found, asked };
  }
  return undefined;
}

/** A module that the skill has itself is not found for another reason. */
function isOwnModule(name: string, skill: Skill): boolean {
  return skill.files().files.some(({ path }) => path.split("/").some((part) => part === name || part === `${name}.py`));
}

function pythonModule(name: string): ReturnType<Sign["read"]> {
  const system = PYTHON_SYSTEM.get(name);
  if (system !== undefined) return known(system);
  const wanted = PYTHON_PACKAGES.get(name) ?? name;
  return PYTHON_PACKAGE.test(wanted) ? { key: "python", wanted, isSure: PYTHON_PACKAGES.has(name) } : undefined;
}

function npmModule(name: string): ReturnType<Sign["read"]> {
  return NPM_PACKAGE.test(name) ? { key: "npm", wanted: name, isSure: true } : undefined;
}

function command(name: string): ReturnType<Sign["read"]> {
  return known(COMMANDS.get(name)) ?? { key: "packages", wanted: undefined, isSure: false };
}

function known(wanted: string | undefined): ReturnType<Sign["read"]> {
  return wanted !== undefined && isPackageName(wanted) ? { key: "packages", wanted, isSure: true } : undefined;
}

/** Modules of well-known packages: those that have another name than their package, and those that have the same. */
const PYTHON_PACKAGES: ReadonlyMap<string, string> = new Map([
  ["PIL", "pillow"],
  ["yaml", "pyyaml"],
  ["cv2", "opencv-python-headless"],
  ["docx", "python-docx"],
  ["pptx", "python-pptx"],
  ["bs4", "beautifulsoup4"],
  ["sklearn", "scikit-learn"],
  ["skimage", "scikit-image"],
  ["fitz", "pymupdf"],
  ["pymupdf", "pymupdf"],
  ["dateutil", "python-dateutil"],
  ["dotenv", "python-dotenv"],
  ["Crypto", "pycryptodome"],
  ["OpenSSL", "pyopenssl"],
  ["jwt", "pyjwt"],
  ["magic", "python-magic"],
  ["git", "gitpython"],
  ["github", "pygithub"],
  ["googleapiclient", "google-api-python-client"],
  ["serial", "pyserial"],
  ["usb", "pyusb"],
  ["markdown", "markdown"],
  ["attr", "attrs"],
  ["tabula", "tabula-py"],
  ["slugify", "python-slugify"],
  ["Levenshtein", "levenshtein"],
  ["MySQLdb", "mysqlclient"],
  ["psycopg2", "psycopg2-binary"],
  ["win32com", "pywin32"],
  ...[
    ...["pypdf", "pdfplumber", "pdf2image", "reportlab", "openpyxl", "xlsxwriter", "pandas", "numpy", "scipy"],
    ...["matplotlib", "seaborn", "requests", "httpx", "lxml", "jinja2", "pytesseract", "markitdown", "anthropic"],
    ...["openai", "pydantic", "rich", "click", "tqdm", "networkx", "sympy", "imageio", "playwright", "mcp"],
  ].map((name): [string, string] => [name, name]),
]);

/** Modules of Python's own that Debian has in packages of their own. */
const PYTHON_SYSTEM: ReadonlyMap<string, string> = new Map([
  ["tkinter", "python3-tk"],
  ["_tkinter", "python3-tk"],
  ["distutils", "python3-distutils"],
  ["ensurepip", "python3-venv"],
]);

/** What libraries raise when a program is missing that they call. */
const EXCEPTIONS: ReadonlyMap<string, string> = new Map([
  ["PDFInfoNotInstalledError", "poppler-utils"],
  ["TesseractNotFoundError", "tesseract-ocr"],
]);

/** Programs, and the Debian packages that have them. */
const COMMANDS: ReadonlyMap<string, string> = new Map([
  ...["pdftotext", "pdftoppm", "pdftocairo", "pdfinfo", "pdfimages", "pdfunite", "pdfseparate", "pdffonts"].map(
    (name): [string, string] => [name, "poppler-utils"],
  ),
  ...["convert", "magick", "identify", "mogrify", "montage", "composite"].map((name): [string, string] => [
    name,
    "imagemagick",
  ]),
  ...["soffice", "libreoffice", "lowriter"].map((name): [string, string] => [name, "libreoffice"]),
  ["qpdf", "qpdf"],
  ["pdftk", "pdftk-java"],
  ["gs", "ghostscript"],
  ["ffmpeg", "ffmpeg"],
  ["ffprobe", "ffmpeg"],
  ["sox", "sox"],
  ["tesseract", "tesseract-ocr"],
  ["ocrmypdf", "ocrmypdf"],
  ["pandoc", "pandoc"],
  ["pdflatex", "texlive-latex-base"],
  ["xelatex", "texlive-xetex"],
  ["wkhtmltopdf", "wkhtmltopdf"],
  ["weasyprint", "weasyprint"],
  ["dot", "graphviz"],
  ["jq", "jq"],
  ["rg", "ripgrep"],
  ["fd", "fd-find"],
  ["curl", "curl"],
  ["wget", "wget"],
  ["git", "git"],
  ["zip", "zip"],
  ["unzip", "unzip"],
  ["7z", "p7zip-full"],
  ["xmllint", "libxml2-utils"],
  ["xmlstarlet", "xmlstarlet"],
  ["exiftool", "libimage-exiftool-perl"],
  ["sqlite3", "sqlite3"],
  ["psql", "postgresql-client"],
  ["rsvg-convert", "librsvg2-bin"],
  ["inkscape", "inkscape"],
  ["file", "file"],
  ["make", "make"],
  ["gcc", "gcc"],
  ["ruby", "ruby"],
  ["perl", "perl"],
  ["php", "php-cli"],
  ["python3", "python3"],
  ["python", "python3"],
  ["shellcheck", "shellcheck"],
  ["gifsicle", "gifsicle"],
  ["optipng", "optipng"],
  ["cwebp", "webp"],
  ["antiword", "antiword"],
  ["catdoc", "catdoc"],
]);
