// Reports the state of the git repository in the current folder, in at most 80 columns. Needs git; changes nothing.
import { execFileSync } from "node:child_process";
import { existsSync, lstatSync, readFileSync } from "node:fs";

const write = (text) => process.stdout.write(`${text}\n`);
const complain = (text) => process.stderr.write(`${text}\n`);

const COLUMNS = 80;
const OLD_BRANCH_DAYS = 90;
const LARGE_FILE = 5 * 1024 * 1024;
const MAX_SEARCHED_FILES = 20_000;
const MAX_SEARCHED_BYTES = 512 * 1024;
const DAY = 86_400;

/** THE list of settings that replace those of the repository, so that git starts no program that its configuration names. */
const SETTINGS = [
  ["core.fsmonitor", "false"],
  ["core.hooksPath", "/dev/null"],
  ["core.quotePath", "false"],
  ["log.showSignature", "false"],
];
/** The environment has no limit for the names of settings, which `-c` has. Git fetches nothing: a missing object may name a program too. */
function createGitEnvironment() {
  // The sandbox adds settings too.
  const from = Number(process.env.GIT_CONFIG_COUNT ?? 0);
  const entries = SETTINGS.flatMap(([key, value], index) => [
    [`GIT_CONFIG_KEY_${from + index}`, key],
    [`GIT_CONFIG_VALUE_${from + index}`, value],
  ]);
  const fixed = {
    GIT_OPTIONAL_LOCKS: "0",
    GIT_ALLOW_PROTOCOL: "none",
    GIT_CONFIG_COUNT: String(from + SETTINGS.length),
  };
  return { ...process.env, ...fixed, ...Object.fromEntries(entries) };
}
function git(...args) {
  const options = { encoding: "utf8", maxBuffer: 256 * 1024 * 1024, stdio: ["ignore", "pipe", "pipe"] };
  return execFileSync("git", args, { ...options, env: createGitEnvironment() });
}
/** Returns the output of git, or an empty text if the command fails. */
function tryGit(...args) {
  try {
    return git(...args).trimEnd();
  } catch {
    return "";
  }
}
const listLines = (text, separator = "\n") => text.split(separator).filter((line) => line !== "");

const clean = (text) => text.replace(/[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g, "·");
const count = (number, noun, plural = `${noun}s`) =>
  `${number.toLocaleString("en-US")} ${number === 1 ? noun : plural}`;
/** Wraps a text at the width of a terminal. Later lines begin below the text of the first. */
function wrap(text, indent) {
  const [first, ...rest] = text.split(" ");
  const lines = [first];
  for (const word of rest) {
    const line = lines.at(-1);
    if (line.length + word.length + 1 > COLUMNS && line.trim() !== "") lines.push(`${" ".repeat(indent)}${word}`);
    else lines.push(`${lines.pop()} ${word}`);
  }
  return lines.join("\n");
}
const print = (label, text) => write(wrap(`${label.padEnd(12)}${clean(text)}`, 12));
const warnings = [];
const warn = (text) => warnings.push(wrap(`! ${clean(text)}`, 2));
/** Names the first few of several. */
const some = (names, most = 3) =>
  `${names.slice(0, most).join(", ")}${names.length > most ? ` and ${names.length - most} more` : ""}`;

function formatSize(bytes) {
  return bytes >= 1024 * 1024 ? `${(bytes / 1024 / 1024).toFixed(1)} MB` : `${Math.ceil(bytes / 1024)} kB`;
}
function formatAge(seconds) {
  const days = Math.floor(seconds / DAY);
  return days < 1 ? "today" : days < 60 ? `${count(days, "day")} ago` : `${count(Math.floor(days / 30), "month")} ago`;
}

const now = Date.now() / 1000;

function requireRepository() {
  try {
    git("--version");
  } catch {
    fail("git is not installed on this machine.", "Install it, then run this skill again: apt-get install git");
  }
  if (!existsSync(".git"))
    fail(
      "This workspace is not the top folder of a git repository.",
      "Only the workspace is visible here: start skillet in the top folder.",
    );
  try {
    git("rev-parse", "--git-dir");
  } catch (error) {
    const reason =
      String(error.stderr ?? error.message)
        .trim()
        .split("\n")[0] ?? "";
    const fix = lstatSync(".git").isFile()
      ? "A worktree keeps its data in another folder, which is not visible here: start skillet in the main checkout."
      : "Check it with: git fsck";
    fail(`git cannot read this repository: ${clean(reason)}`, fix);
  }
}
/** A filter of the repository, which attributes of its files select, is a program too. */
function disableFilters() {
  for (const key of new Set(listLines(tryGit("config", "--name-only", "-z", "--get-regexp", "^filter\\."), "\0"))) {
    SETTINGS.push([key, key.endsWith(".required") ? "false" : ""]);
  }
}
function fail(...lines) {
  for (const line of lines) complain(line);
  process.exit(1);
}

function reportCommits() {
  const branch = tryGit("symbolic-ref", "--short", "HEAD") || "no branch (detached HEAD)";
  const commits = Number(tryGit("rev-list", "--count", "HEAD"));
  if (commits === 0) return print("Repository", `${branch}, no commits yet`);
  const last = Number(tryGit("log", "-1", "--format=%ct"));
  const people = new Set(listLines(tryGit("log", "--since=90.days", "--format=%ae"))).size;
  print(
    "Repository",
    `${branch}, ${count(commits, "commit")}, the last ${formatAge(now - last)}, ${count(people, "author")} in 90 days`,
  );
  if (now - last > 365 * DAY) warn(`nothing was committed for ${count(Math.floor((now - last) / DAY / 30), "month")}`);
}

function reportWorkingTree() {
  const entries = listLines(tryGit("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal"), "\0");
  const conflicts = entries.filter((entry) => /^(?:DD|AU|UD|UA|DU|AA|UU)/.test(entry));
  const untracked = entries.filter((entry) => entry.startsWith("??"));
  const changed = entries.length - conflicts.length - untracked.length;
  const stashes = listLines(tryGit("stash", "list", "--format=%ct"));
  const parts = [
    changed && `${changed} changed`,
    untracked.length && `${untracked.length} untracked`,
    stashes.length && count(stashes.length, "stash", "stashes"),
  ].filter(Boolean);
  print("Work", parts.join(", ") || "clean: everything is committed");
  if (conflicts.length > 0)
    warn(`${count(conflicts.length, "file")} in conflict: ${some(conflicts.map((entry) => entry.slice(3)))}`);
  const oldest = Math.min(...stashes.map(Number));
  if (now - oldest > OLD_BRANCH_DAYS * DAY) warn(`the oldest stash is from ${formatAge(now - oldest)}`);
}

function reportBranches() {
  const format = "%(refname:short)%00%(committerdate:unix)%00%(upstream:short)%00%(upstream:track)%00%(HEAD)";
  const branches = listLines(tryGit("for-each-ref", "refs/heads", `--format=${format}`)).map((line) => {
    const [name = "", time, upstream = "", track = "", head] = line.split("\0");
    return { name, age: now - Number(time), upstream, track, isCurrent: head === "*" };
  });
  const main =
    tryGit("symbolic-ref", "--short", "refs/remotes/origin/HEAD").replace(/^origin\//, "") ||
    branches.find(({ name }) => /^(main|master|trunk)$/.test(name))?.name;
  const merged = main
    ? listLines(tryGit("branch", "--format=%(refname:short)", "--merged", main)).filter((name) => name !== main)
    : [];
  const old = branches.filter(
    ({ name, age }) => name !== main && !merged.includes(name) && age > OLD_BRANCH_DAYS * DAY,
  );
  const others = branches.filter(({ name }) => name !== main && !branches.find((one) => one.name === name)?.isCurrent);
  const mergedOthers = merged.filter((name) => others.some((branch) => branch.name === name));
  if (branches.length > 0)
    print(
      "Branches",
      [
        count(branches.length, "branch", "branches"),
        mergedOthers.length && `${mergedOthers.length} merged into ${main}`,
        old.length && `${old.length} without commits for ${OLD_BRANCH_DAYS} days`,
      ]
        .filter(Boolean)
        .join(", "),
    );
  if (mergedOthers.length > 0) warn(`merged branches can be deleted: ${some(mergedOthers)}`);
  if (old.length > 0) warn(`old branches that are not merged: ${some(old.map(({ name }) => name))}`);
  const remotes = listLines(tryGit("remote"));
  const ahead = branches.filter(({ track }) => track.includes("ahead"));
  const current = branches.find(({ isCurrent }) => isCurrent);
  const state = current?.upstream
    ? `${current.upstream}, ${current.track.replace(/[[\]]/g, "") || "the same commits"}, as of the last fetch`
    : "none for this branch";
  if (branches.length > 0) print("Upstream", state);
  if (remotes.length === 0) warn("the repository has no remote: this is the only copy");
  if (ahead.length > 0)
    warn(`not pushed: ${some(ahead.map(({ name, track }) => `${name} (${track.replace(/[[\]]/g, "")})`))}`);
}

const SECRET_FILE =
  /(?:^|\/)(?:\.env(?:\.(?!example|sample|template|dist|test)[\w.-]+)?|id_(?:rsa|dsa|ecdsa|ed25519)|\.netrc|credentials(?:\.json)?|service-account[\w-]*\.json|[^/]+\.(?:pem|p12|pfx|key|keystore|jks|kdbx))$/i;
const SECRET_TEXT =
  /-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\r?\n[A-Za-z0-9+/=]{40}|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bxox[abprs]-[A-Za-z0-9-]{20,}|\bsk-ant-[A-Za-z0-9_-]{20,}|_authToken=(?!\$)\S{10,}/;
const MARKER = /^(?:<{7} .|>{7} .)/m;
const NOT_TEXT =
  /\.(?:png|jpe?g|gif|webp|ico|pdf|zip|gz|tgz|bz2|xz|zst|7z|jar|woff2?|ttf|otf|mp[34]|mov|wasm|so|dll|exe|bin|lock)$/i;

/** Returns an empty text for a file that this user cannot read. */
function readText(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function reportFiles() {
  const files = listLines(tryGit("ls-files", "-z"), "\0");
  const sizes = files.flatMap((path) => {
    const entry = lstatSync(path, { throwIfNoEntry: false });
    return entry?.isFile() ? [{ path, size: entry.size }] : [];
  });
  const total = sizes.reduce((sum, { size }) => sum + size, 0);
  const large = sizes.filter(({ size }) => size > LARGE_FILE).sort((a, b) => b.size - a.size);
  const pack = /size-pack: (\d+)/.exec(tryGit("count-objects", "-v"))?.[1];
  print(
    "Files",
    `${count(files.length, "file")}, ${formatSize(total)}${pack ? `; history ${formatSize(Number(pack) * 1024)}` : ""}`,
  );
  if (large.length > 0)
    warn(
      `larger than 5 MB: ${some(
        large.map(({ path, size }) => `${path} (${formatSize(size)})`),
        2,
      )}`,
    );

  const found = { secrets: [], keys: [], markers: [], notes: 0 };
  for (const { path, size } of sizes.slice(0, MAX_SEARCHED_FILES)) {
    if (SECRET_FILE.test(path)) found.secrets.push(path);
    if (size > MAX_SEARCHED_BYTES || NOT_TEXT.test(path)) continue;
    const text = readText(path);
    if (text.slice(0, 8000).includes("\0")) continue;
    if (SECRET_TEXT.test(text)) found.keys.push(path);
    if (MARKER.test(text) && /^={7}$/m.test(text)) found.markers.push(path);
    found.notes += text.match(/\b(?:TODO|FIXME)\b/g)?.length ?? 0;
  }
  if (found.notes > 0) print("Notes", `${count(found.notes, "TODO or FIXME", "TODO and FIXME")} in the tracked files`);
  if (found.secrets.length > 0) warn(`tracked, may hold secrets: ${some(found.secrets)}`);
  if (found.keys.length > 0) warn(`contain a private key or a token: ${some(found.keys)}`);
  if (found.markers.length > 0) warn(`conflict markers in ${some(found.markers)}`);
  if (files.some((path) => /(?:^|\/)node_modules\//.test(path))) warn("node_modules is tracked: add it to .gitignore");
  return files;
}

/** THE table of what a repository is expected to have. */
const EXPECTED = [
  ["README", (path) => /^readme(\.|$)/i.test(path)],
  ["license", (path) => /^(licen[cs]e|copying|unlicense)/i.test(path)],
  [
    "tests",
    (path) => /(?:^|\/)(tests?|spec|__tests__)\/|[._-](test|spec)\.\w+$|(?:^|\/)test_\w+\.py$|_test\.go$/i.test(path),
  ],
  [
    "CI",
    (path) =>
      /^(\.github\/workflows\/.|\.gitlab-ci\.yml|\.circleci\/|Jenkinsfile|azure-pipelines|\.ci\/|\.woodpecker|\.drone)/i.test(
        path,
      ),
  ],
  [".gitignore", (path) => path === ".gitignore"],
  ["changelog", (path) => /^(changelog|changes|history|news)(\.|$)/i.test(path)],
];

if (process.env.SKILL_DIR === "/skill" && process.cwd() !== "/workspace") {
  complain("The workspace is not visible in the sandbox. To see the reason, run: skillet run repo-health --dry-run");
  process.exit(1);
}
requireRepository();
disableFilters();
reportCommits();
reportWorkingTree();
reportBranches();
const files = reportFiles();
const has = EXPECTED.filter(([, test]) => files.some(test)).map(([name]) => name);
const missing = EXPECTED.filter(([name]) => !has.includes(name)).map(([name]) => name);
print("Has", has.join(", ") || "none of the usual files");
if (missing.length > 0) print("Missing", missing.join(", "));
if (existsSync(".gitmodules"))
  print(
    "Submodules",
    count(listLines(tryGit("config", "--file", ".gitmodules", "--get-regexp", "path$")).length, "submodule"),
  );
write(warnings.length === 0 ? "\nNothing needs attention." : `\n${warnings.join("\n")}`);
