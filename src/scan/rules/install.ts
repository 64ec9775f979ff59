import { first, type PageRule, type TextRule } from "../rule.ts";

const blank = (text: string) => " ".repeat(text.length);
/** What stands between the words of a command that is written as a list. */
const BETWEEN = /["'],\s{0,3}["']/g;
const DEPENDENCIES =
  /(?:^|\/)(?:package\.json|requirements[\w.-]{0,40}\.txt|pyproject\.toml|setup\.(?:py|cfg)|environment\.ya?ml)$/;

export const INSTALL_RULES: readonly TextRule[] = [
  {
    id: "install-from-address",
    weight: "medium",
    weigh: "mmmmm-",
    title: "installs a package from an address that no registry stands behind",
    why: "Packages run code while they are installed, and this one can change without a new version.",
    fix: "take it from a registry with its version pinned, or from a commit that was read",
    words: [
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
      const plain = text.replace(INDEX, blank).replace(BETWEEN, blank);
      return INSTALLS(plain) ?? (isList ? DEPENDS(text) : undefined);
    },
  },
  {
    id: "address-of-repository",
    weight: "low",
    weigh: "ll----",
    title: "installs a package straight from a repository",
    why: "A branch can change at any time.",
    fix: "pin a commit",
    words: ["git+https", "github:", "git+ssh"],
    find: first(
      /\b(?:install|add|i|npx|uvx|--from)\s[^\n;|&]{0,120}?(?:git\+(?:https|ssh):\/\/|\bgithub:)[^\s"'`]{1,120}/,
    ),
  },
  {
    id: "other-registry",
    weight: "medium",
    weigh: "mll---",
    title: "has packages come from another registry, over a connection that anybody can change",
    why: "Every package that is installed from then on is what that registry says it is.",
    fix: "take the line out; registries of a company are reached by https, and set up by its people",
    words: ["registry", "index-url", "index_url", "extra-index"],
    find: first(
      /\b(?:npm|pnpm|yarn|pip3?|uv)\b[^\n]{0,120}?(?:registry|index-url|index_url)["']?[ =:]{1,3}["']?http:\/\/(?!localhost|127\.|\[::1\])[^\s"'`]{1,120}/i,
    ),
  },
];

const INSTALLS = first(
  /\b(?:pip3?|uv(?: pip)?|npm|pnpm|yarn)\s{1,6}(?:install|i|add)\b[^\n;|&]{0,160}?(?:\bhttp:\/\/|\b(?:git\+)?https:\/\/(?!(?:[\w.-]{1,60}@)?(?:www\.|codeload\.|raw\.)?(?:github|gitlab|bitbucket|codeberg|githubusercontent|pytorch|huggingface|pypi|nvidia)\.|download\.pytorch|pypi\.|(?:[\w-]{1,30}\.){1,3}(?:pytorch|nvidia|pypi)\.|registry\.|files\.pythonhosted)|git\+ssh:\/\/\d)[^\s"'`]{1,120}/i,
);
/** Where packages are looked for, rather than one of them. */
const INDEX = /\s(?:-i|-f|--(?:extra-)?index-url|--find-links|--index|--registry)[ =]\S{1,200}/g;
const FORGES =
  "(?:www\\.|codeload\\.|raw\\.)?(?:github|gitlab|bitbucket|codeberg|githubusercontent|pytorch|huggingface|nvidia)\\.";
const DEPENDS = first(
  new RegExp(
    `"[@\\w/.-]{1,100}"\\s{0,3}:\\s{0,3}"(?:http:\\/\\/|https:\\/\\/(?!${FORGES}|registry\\.)[^\\s"]{1,160}\\.(?:tgz|tar\\.gz|zip)\\b|git\\+(?:http:|https:\\/\\/(?!${FORGES})|ssh:\\/\\/(?!git@${FORGES})))[^\\s"]{0,160}`,
  ),
  new RegExp(
    `(?:^|["'])[\\w.-]{1,80}(?:\\[[\\w,-]{1,60}\\])?\\s{0,3}@\\s{0,3}(?:http:\\/\\/|(?:git\\+)?https:\\/\\/(?!${FORGES}|files\\.pythonhosted|download\\.pytorch))[^\\s"']{1,160}`,
  ),
  new RegExp(
    `^\\s{0,4}(?:-e\\s{1,3})?(?:git\\+)?(?:http:\\/\\/|https:\\/\\/(?!${FORGES}|files\\.pythonhosted|download\\.pytorch))[^\\s"']{1,160}\\.(?:whl|tar\\.gz|zip|git)\\b`,
  ),
  /^\s{0,4}--(?:extra-)?index-url[ =]http:\/\/(?!localhost|127\.)[^\s]{1,120}/,
);

export const INSTALL_PAGE_RULES: readonly PageRule[] = [
  {
    id: "install-script",
    weight: "medium",
    title: "runs code while its packages are installed",
    why: "Installing is not using: nobody expects code of the skill to run then.",
    fix: "install with --ignore-scripts, and look at the script",
    all: [['install"', '"prepare"', "install-cmd", "cmdclass"]],
    find(page) {
      const kind = KINDS.find(({ path }) => path.test(page.path));
      const line = kind ? page.lines.findIndex((text) => kind.runs.test(text.slice(0, 2000))) : -1;
      const seen = kind?.runs.exec((page.lines[line] ?? "").slice(0, 2000))?.[0];
      if (kind === undefined || seen === undefined) return undefined;
      const isHeavy = kind.heavy.test(kind.isWhole ? page.lines.join("\n").slice(0, 20_000) : seen);
      return { line, seen, weight: isHeavy ? "medium" : "low" };
    },
  },
];

/** By the file that says it: what is run, and what makes it more than a hint. */
const KINDS: readonly { path: RegExp; runs: RegExp; heavy: RegExp; isWhole?: boolean }[] = [
  {
    path: /(?:^|\/)package\.json$/,
    runs: /"(?:(?:pre|post)?install|(?:pre|post)?prepare)"\s{0,3}:\s{0,3}"(?:[^"\\]|\\.){1,300}/,
    // Building belongs after installing; what has to run before it is there has no honest need of the skill's own code.
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
