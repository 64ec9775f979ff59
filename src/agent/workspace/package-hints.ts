import { formatKeyPath } from "../../config/config-file.ts";
import type { Host } from "../../config/host.ts";
import { MAX_PACKAGES } from "../../config/key-types.ts";
import type { Problem } from "../../errors/problem.ts";
import type { Sandbox } from "../../host/sandbox-contract.ts";
import {
  isSystemPackageName,
  NPM_PACKAGE,
  normalizePythonName,
  PYTHON_PACKAGE,
  parseNpmDependencies,
  parseNpmSpecifier,
  parseRequirementsTxt,
  type Skill,
} from "../../skill/skill.ts";
import { mapAsync } from "../../util/async.ts";
import { quoteIfNeeded } from "../../util/text.ts";

type PackageKey = "python" | "npm" | "packages";

/** Packages that a file of a skill lists and that the user has not configured. Nothing is installed for it. */
export interface PackageProposal {
  key: Exclude<PackageKey, "packages">;
  file: string;
  wanted: string[];
  command: string;
}

const PACKAGE_FILES = [
  { name: "requirements.txt", key: "python", read: parseRequirementsTxt },
  { name: "package.json", key: "npm", read: parseNpmDependencies },
] as const;

/** Proposes the packages listed in `requirements.txt` and `package.json`, at the top of a skill's folder or in `scripts`. */
export async function proposePackages(skill: Skill, host: Pick<Host, "settings">): Promise<PackageProposal[]> {
  const paths = new Set((await skill.files()).files.map(({ path }) => path));
  const proposals = await mapAsync(PACKAGE_FILES, async ({ name, key, read }) => {
    const file = [name, `scripts/${name}`].find((path) => paths.has(path));
    const listed = file === undefined ? [] : read(await readSkillText(skill, file)).slice(0, MAX_PACKAGES);
    const wanted = listed.filter((one) => !isPackageGiven(key, one, skill, host));
    if (file === undefined || wanted.length === 0) return [];
    return [{ key, file, wanted, command: formatPackagesCommand(skill, host, key, wanted) }];
  });
  return proposals.flat();
}

/** Formats the command that adds packages to those configured for a skill. */
export function formatPackagesCommand(
  { name }: Pick<Skill, "name">,
  { settings }: Pick<Host, "settings">,
  key: PackageKey,
  wanted: readonly string[],
): string {
  const all = [...new Set([...(settings.skills.get(name)?.[key] ?? []), ...wanted])];
  // A specifier with a comma would be split into two items.
  const value = all.some((one) => one.includes(",")) ? JSON.stringify(all) : all.join(",");
  return `skillet config set ${quoteIfNeeded(formatKeyPath(["skills", name, key]))} ${quoteIfNeeded(value)}`;
}

/** Returns true if the user has configured this package for the skill, in any version. */
function isPackageGiven(
  key: PackageKey,
  specifier: string,
  { name }: Pick<Skill, "name">,
  { settings }: Pick<Host, "settings">,
): boolean {
  const configured = settings.skills.get(name)?.[key] ?? [];
  return configured.some((one) => getPackageName(key, one) === getPackageName(key, specifier));
}

/** Returns the name in a specifier. Packages are compared by name. */
function getPackageName(key: PackageKey, specifier: string): string {
  return key === "python"
    ? normalizePythonName(specifier)
    : key === "npm"
      ? parseNpmSpecifier(specifier).name
      : specifier;
}

async function readSkillText(skill: Skill, path: string): Promise<string> {
  try {
    return Buffer.from(await skill.read(path)).toString("utf8");
  } catch {
    return ""; // Too large, or removed: propose nothing.
  }
}

interface MissingPackage {
  key: PackageKey;
  /** The missing module or command. */
  asked: string;
  /** The package that contains it; undefined if unknown. */
  wanted: string | undefined;
  /** True if the package is known, not only guessed from the name. */
  isSure: boolean;
}

/** Names the missing package, with the command that adds it. Reads the error output of interpreters and shells. */
export async function suggestMissingPackage(
  { stderr, exitCode }: { stderr: string; exitCode: number | undefined },
  skill: Skill,
  host: Host,
  sandbox: Sandbox,
): Promise<Problem | undefined> {
  if (exitCode === 0 || exitCode === undefined || sandbox.by !== "bubblewrap") return undefined;
  const missing = await findMissingPackage(stderr, skill);
  if (!missing) return undefined;
  const { key, asked: requested, wanted, isSure } = missing;
  if (wanted !== undefined && isPackageGiven(key, wanted, skill, host)) return undefined;
  const proposal =
    wanted === undefined ? undefined : (await proposePackages(skill, host)).find((one) => one.key === key);
  const isListed =
    proposal?.wanted.some((one) => getPackageName(key, one) === getPackageName(key, wanted ?? "")) ?? false;
  const command =
    isListed && proposal ? proposal.command : formatPackagesCommand(skill, host, key, [wanted ?? "PACKAGE"]);
  const doubt = isSure || isListed ? "the user can add it with" : UNSURE_ADVICE[key];
  return {
    code: "package-hint",
    message: `${MISSING_KINDS[key]} '${requested}' is not in the sandbox of skill '${skill.name}'`,
    fix: `${doubt}: ${command}`,
  };
}

const MISSING_KINDS: Readonly<Record<PackageKey, string>> = {
  python: "The Python module",
  npm: "The npm package",
  packages: "The program",
};

const UNSURE_ADVICE: Readonly<Record<PackageKey, string>> = {
  python: "if its package has the same name, the user can add it with",
  npm: "the user can add it with",
  packages: "the user can add the Debian package that has it with",
};

interface MissingSign {
  pattern: RegExp;
  read(requested: string): Omit<MissingPackage, "asked"> | undefined;
}

/** Modules of the standard library that Debian ships in separate packages. */
const PYTHON_SYSTEM: ReadonlyMap<string, string> = new Map([
  ["tkinter", "python3-tk"],
  ["_tkinter", "python3-tk"],
  ["distutils", "python3-distutils"],
  ["ensurepip", "python3-venv"],
]);

/** Modules of well-known packages, with the same or another name. */
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

/** Programs, and the Debian packages that contain them. */
const COMMAND_PACKAGES: ReadonlyMap<string, string> = new Map([
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

/** Error output for missing packages, one row each. The first match counts. */
const MISSING_SIGNS: readonly MissingSign[] = [
  { pattern: /^(?:ModuleNotFoundError|ImportError): No module named '?([A-Za-z_]\w*)/m, read: readPythonModule },
  { pattern: /Cannot find (?:package|module) '((?:@[\w.~-]+\/)?[\w~][\w.~-]*)(?:\/[^']*)?'/, read: readNpmModule },
  {
    pattern: /\b(PDFInfoNotInstalledError|TesseractNotFoundError)\b/,
    read: (name) => toSystemPackage(PYTHON_EXCEPTIONS.get(name)),
  },
  { pattern: /(?:^|: )([\w+][\w.+-]*): (?:command )?not found$/m, read: readMissingCommand },
  { pattern: /\benv: ['‘]?([\w+][\w.+-]*)['’]?: No such file or directory/, read: readMissingCommand },
  {
    pattern: /FileNotFoundError: \[Errno 2\] No such file or directory: '([\w+][\w.+-]*)'/,
    read: (name) => toSystemPackage(COMMAND_PACKAGES.get(name)),
  },
  { pattern: /\bspawn(?:Sync)? ([\w+][\w.+-]*) ENOENT/, read: readMissingCommand },
];

async function findMissingPackage(stderr: string, skill: Skill): Promise<MissingPackage | undefined> {
  for (const { pattern, read } of MISSING_SIGNS) {
    const requested = pattern.exec(stderr)?.[1];
    const found = requested === undefined ? undefined : read(requested);
    if (requested === undefined || !found) continue;
    return found.key === "python" && (await isOwnModule(requested, skill)) ? undefined : { ...found, asked: requested };
  }
  return undefined;
}

/** Returns true for a module of the skill itself: it is missing for another reason. */
async function isOwnModule(name: string, skill: Skill): Promise<boolean> {
  return (await skill.files()).files.some(({ path }) =>
    path.split("/").some((part) => part === name || part === `${name}.py`),
  );
}

function readPythonModule(name: string): ReturnType<MissingSign["read"]> {
  const system = PYTHON_SYSTEM.get(name);
  if (system !== undefined) return toSystemPackage(system);
  const wanted = PYTHON_PACKAGES.get(name) ?? name;
  return PYTHON_PACKAGE.test(wanted) ? { key: "python", wanted, isSure: PYTHON_PACKAGES.has(name) } : undefined;
}

function readNpmModule(name: string): ReturnType<MissingSign["read"]> {
  return NPM_PACKAGE.test(name) ? { key: "npm", wanted: name, isSure: true } : undefined;
}

function readMissingCommand(name: string): ReturnType<MissingSign["read"]> {
  return toSystemPackage(COMMAND_PACKAGES.get(name)) ?? { key: "packages", wanted: undefined, isSure: false };
}

function toSystemPackage(wanted: string | undefined): ReturnType<MissingSign["read"]> {
  return wanted !== undefined && isSystemPackageName(wanted) ? { key: "packages", wanted, isSure: true } : undefined;
}

/** Exceptions that libraries raise when a program they call is missing. */
const PYTHON_EXCEPTIONS: ReadonlyMap<string, string> = new Map([
  ["PDFInfoNotInstalledError", "poppler-utils"],
  ["TesseractNotFoundError", "tesseract-ocr"],
]);
