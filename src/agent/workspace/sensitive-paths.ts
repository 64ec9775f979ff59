import { listProtectedNames } from "../../skill/clients.ts";

/**
 * THE table of sensitive paths of a workspace: other programs read them automatically, so code with write access could leave instructions
 * or commands there. Names match at every depth, ignoring case. `*` matches any text, and `a/b` is `b` in a folder `a`.
 */
export interface SensitiveRow {
  group: string;
  names: readonly string[];
  /** Existing ones are mounted read-only. Otherwise code may change them in its sandbox, and the change is held until it is approved. */
  isClosed?: true;
  /** Only the parts of a package manifest that package managers run. */
  isManifest?: true;
  /** Also matches below `node_modules`, where all other names are files of packages. */
  isEverywhere?: true;
  /** Only its identity is compared: its content cannot be read. */
  isOpaque?: true;
}

export const SENSITIVE_PATHS: readonly SensitiveRow[] = [
  {
    group: "repositories",
    names: [".git", ".hg", ".jj", ".svn", ".bzr"],
    isClosed: true,
    isEverywhere: true,
  },
  { group: "repositories", names: [".gitmodules", ".gitattributes", ".gitconfig", ".lfsconfig", ".hgrc", ".hgsub"] },
  {
    group: "agents",
    names: [...listProtectedNames("closed"), ...[".skillet", ".agent", ".ash", ".windsurf"]],
    isClosed: true,
  },
  {
    group: "agents",
    names: [
      ...listProtectedNames("held"),
      ...["QWEN.md", "CRUSH.md", "WARP.md", "JULES.md", "SKILL.md", ".windsurfrules"],
      ...[".clinerules", ".cline", ".roo", ".roorules*", ".roomodes", ".kilocode", ".kilocodemodes", ".rules"],
      ...[".continue", ".continuerules", ".aider.conf.yml", ".goosehints", ".goose", ".junie", ".kiro", ".amazonq"],
      ...[".augment", ".augment-guidelines", ".trae", ".qwen", ".crush", "crush.json", ".crush.json", ".factory"],
      ...[".amp", ".openhands", ".openhands_instructions", ".pi", ".serena", ".tabnine", ".devin"],
    ],
  },
  { group: "editors", names: [".vscode", ".idea", ".zed", ".devcontainer"], isClosed: true },
  {
    group: "editors",
    names: [
      ...[".devcontainer.json", "*.code-workspace", "*.sublime-project", ".vs", ".fleet", ".nova", ".helix"],
      ...[".exrc", ".vimrc", ".gvimrc", ".lvimrc", ".vim", ".nvimrc", ".nvim.lua", ".nvim", ".dir-locals.el"],
      ...[".dir-locals-2.el", ".emacs", ".emacs.d", ".projectile", ".kakrc", ".gitpod.yml", ".externalToolBuilders"],
    ],
  },
  {
    group: "hooks",
    names: [".husky", ".githooks", ".pre-commit-config.yaml"],
    isClosed: true,
  },
  {
    group: "hooks",
    names: [
      ...["lefthook.*", ".lefthook.*", "lefthook-local.*", ".lefthook", ".lefthook-local", ".overcommit.yml"],
      ...[".pre-commit-hooks.yaml", ".lintstagedrc*", "lint-staged.config.*", ".simple-git-hooks.*", ".huskyrc*"],
    ],
  },
  {
    group: "continuous integration",
    names: [
      ...[".github", ".gitlab", ".gitlab-ci.yml", ".gitlab-ci.yaml", ".circleci", "Jenkinsfile*", ".travis.yml"],
      ...["azure-pipelines*.yml", "azure-pipelines*.yaml", ".azure-pipelines", "bitbucket-pipelines.yml"],
      ...[".drone.yml", ".drone.star", ".woodpecker", ".woodpecker.yml", ".woodpecker.yaml", ".buildkite"],
      ...["appveyor.yml", ".appveyor.yml", ".semaphore", ".teamcity", ".forgejo", ".gitea", ".cirrus.yml"],
      ...[".tekton", "cloudbuild.yaml", "cloudbuild.yml", "buildspec.yml", "netlify.toml", "vercel.json", ".builds"],
      ...[".build.yml", ".readthedocs.yaml", ".readthedocs.yml", "renovate.json", ".renovaterc*"],
    ],
  },
  { group: "shells and environments", names: [".envrc", ".mise.toml", "mise.toml"], isClosed: true },
  {
    group: "shells and environments",
    names: [
      ...[".env", ".env.*", "mise.*.toml", ".mise.*.toml", ".mise", "mise/config*.toml", ".rtx.toml", ".tool-versions"],
      ...[".autoenv", ".autoenv.zsh", ".direnvrc", ".bashrc", ".bash_profile", ".bash_login"],
      ...[".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"],
      ...[".kshrc", ".inputrc", "fish/config.fish", ".tmux.conf", ".ssh", ".gnupg", ".devenv.nix", ".shadowenv.d"],
    ],
  },
  { group: "package managers", names: [".npmrc", ".yarnrc.yml", ".cargo"], isClosed: true },
  {
    group: "package managers",
    names: [
      ...[".yarnrc", ".yarn/releases", ".yarn/plugins", ".yarn/sdks", ".pnpmfile.cjs", ".pnpmfile.mjs", "pnpmfile.js"],
      ...["pnpm-workspace.yaml", "bunfig.toml", ".bunfig.toml", "pip.conf", "pip.ini", ".pypirc", ".condarc"],
      ...["uv.toml", ".pdbrc", "rust-toolchain", "rust-toolchain.toml", ".bundle", ".gemrc", ".irbrc", ".pryrc"],
      ...[".mvn", "nuget.config", ".netrc", ".curlrc", ".wgetrc", ".gdbinit", ".lldbinit"],
    ],
  },
  { group: "package managers", names: ["package.json"], isManifest: true },
];

/** A folder with these parts is a repository regardless of its name: git reads its `config` and `hooks`. */
export const REPOSITORY_SHAPE: SensitiveRow = {
  group: "repositories",
  names: ["a folder with HEAD, objects and refs"],
  isClosed: true,
  isEverywhere: true,
};

/** A folder whose path is too long for programs to access its content: it can only be kept or moved as a whole. */
export const TOO_DEEP_ROW: SensitiveRow = {
  group: "unreadable folders",
  names: ["a folder with a path of more than 3,000 bytes"],
  isEverywhere: true,
  isOpaque: true,
};

/** A folder whose skills need no trust. */
export const OWN_SOURCE_ROW: SensitiveRow = { group: "sources of skills", names: [], isClosed: true };

/** The parts of a repository, in lower case. The first ones identify it: `HEAD` with `objects` and `refs`, or with `commondir`. */
export const REPOSITORY_PARTS: ReadonlySet<string> = new Set([
  ...["head", "objects", "refs", "commondir", "config", "config.worktree", "hooks", "info", "gitdir", "packed-refs"],
  ...["modules", "worktrees", "index"],
]);

/** Returns true if git treats a folder with these parts as a repository. */
export function isRepository(parts: ReadonlySet<string>): boolean {
  return parts.has("head") && ((parts.has("objects") && parts.has("refs")) || parts.has("commondir"));
}

/** Returns true if a sensitive folder is a git repository. A folder of another row that gets those parts is not: programs read all of it. */
export function isGitFolder(row: SensitiveRow, names: readonly string[]): boolean {
  return row.isEverywhere === true && isRepository(new Set(names.map((name) => name.toLowerCase())));
}

/** Parts of a repository that git writes in daily work and that do not control it. */
const VOLATILE_PARTS = new Set([
  ...["objects", "refs", "logs", "index", "head", "orig_head", "fetch_head", "merge_head", "commit_editmsg", "lfs"],
  ...["packed-refs", "rr-cache", "shallow", "description", "gc.log", "auto_merge", "fsmonitor--daemon"],
]);

/** Returns true for a path within a repository that does not control git. */
export function isVolatilePart(inner: string): boolean {
  return VOLATILE_PARTS.has(inner.split("/")[0]?.toLowerCase() ?? "") || inner.endsWith(".lock");
}

/** Example files for users to copy. No program reads them. */
const EXAMPLE_FILES = new Set([".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults.example"]);

const EXACT_NAMES = new Map<string, SensitiveRow>();
const NESTED_NAMES = new Map<string, { parent: string; row: SensitiveRow }[]>();
/** Folders that only match together with a name in them. */
export const PARENT_FOLDERS = new Map<string, SensitiveRow>();
interface NamePattern {
  start: string;
  end: string;
  row: SensitiveRow;
  parent?: string;
}
/** By first character, or by the empty string if the pattern has none: every name of a large workspace is looked up here. */
const NAME_PATTERNS = new Map<string, NamePattern[]>();
for (const row of SENSITIVE_PATHS) {
  for (const written of row.names) {
    const parts = written.toLowerCase().split("/");
    const name = parts.at(-1) ?? "";
    const parent = parts.length > 1 ? { parent: parts[0] ?? "" } : {};
    if (parent.parent !== undefined) PARENT_FOLDERS.set(parent.parent, row);
    const [start = "", end] = name.split("*");
    const first = start.charAt(0);
    if (end !== undefined)
      NAME_PATTERNS.set(first, [...(NAME_PATTERNS.get(first) ?? []), { start, end, row, ...parent }]);
    else if (parent.parent === undefined) EXACT_NAMES.set(name, row);
    else NESTED_NAMES.set(name, [...(NESTED_NAMES.get(name) ?? []), { parent: parent.parent, row }]);
  }
}

/** Returns the row of a name in a folder named `parent`. Contract: `small` is the name in lower case. */
export function findLowercaseRow(small: string, parent: string): SensitiveRow | undefined {
  const exact = EXACT_NAMES.get(small);
  if (exact) return exact;
  const nested = NESTED_NAMES.get(small)?.find((one) => one.parent === parent.toLowerCase());
  if (nested) return nested.row;
  return (
    matchPatterns(NAME_PATTERNS.get(small.charAt(0)), small, parent) ??
    matchPatterns(NAME_PATTERNS.get(""), small, parent)
  );
}

export function findSensitiveRow(name: string, parent: string): SensitiveRow | undefined {
  return findLowercaseRow(name.toLowerCase(), parent);
}

function matchPatterns(
  patterns: readonly NamePattern[] | undefined,
  small: string,
  parent: string,
): SensitiveRow | undefined {
  for (const { start, end, row, parent: wanted } of patterns ?? []) {
    if (!small.startsWith(start) || !small.endsWith(end) || small.length < start.length + end.length) continue;
    if ((wanted === undefined || wanted === parent.toLowerCase()) && !EXAMPLE_FILES.has(small)) return row;
  }
  return undefined;
}

/** Parts of a `package.json` that package managers and hook managers run or obey. */
export const MANIFEST_PARTS = [
  ...["scripts", "gypfile", "packageManager", "pnpm", "trustedDependencies", "husky", "lint-staged"],
  ...["simple-git-hooks", "pre-commit", "pre-push", "gitHooks", "devEngines"],
] as const;

/** Returns the sensitive parts of a manifest as comparable text; empty if it has none. An invalid manifest counts as a whole. */
export function readManifestParts(text: string): string {
  try {
    const manifest = JSON.parse(text.replace(/^\uFEFF/, ""));
    if (Object(manifest) !== manifest) return "";
    const found = MANIFEST_PARTS.filter((part) => Object.hasOwn(manifest, part) && !isEmptyPart(manifest[part]));
    return found.length === 0 ? "" : JSON.stringify(found.map((part) => [part, manifest[part]]));
  } catch {
    return text.trim() === "" ? "" : `unparsed:${text}`;
  }
}

function isEmptyPart(value: unknown): boolean {
  return value === null || value === false || (Object(value) === value && Object.keys(value as object).length === 0);
}
