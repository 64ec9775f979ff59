// Audits the dependencies of the current folder offline: what is locked, pinned, from a registry, and runs code when it is installed.
// Changes nothing. Reads at most 4 levels of folders.
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

const write = (text) => process.stdout.write(`${text}\n`);
const complain = (text) => process.stderr.write(`${text}\n`);

const COLUMNS = 80;
const MAX_DEPTH = 4;
const MAX_FOLDERS = 5000;
const MAX_BYTES = 64 * 1024 * 1024;
const SKIPPED_FOLDERS = new Set([
  "node_modules",
  ".git",
  "vendor",
  "dist",
  "build",
  "target",
  ".venv",
  "venv",
  "__pycache__",
  "testdata",
  "fixtures",
]);

const clean = (text) => String(text).replace(/[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g, "·");
const count = (number, noun, plural = `${noun}s`) =>
  `${number.toLocaleString("en-US")} ${number === 1 ? noun : plural}`;
const some = (names, most = 3) =>
  `${names.slice(0, most).map(clip).join(", ")}${names.length > most ? ` and ${names.length - most} more` : ""}`;
/** Files may have values of any type where a text is expected. */
const textOf = (value, fallback = "?") => (typeof value === "string" ? value : fallback);
const clip = (text) => (text.length <= 100 ? text : `${text.slice(0, 99)}…`);
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
const facts = [];
const warnings = [];
const print = (label, text) => facts.push(wrap(`${label.padEnd(12)}${clean(text)}`, 12));
const warn = (text) => warnings.push(wrap(`! ${clean(text)}`, 2));

/** Returns all files that may name dependencies, relative to the current folder. */
function findFiles() {
  const found = [];
  let folders = 0;
  const visit = (folder, depth) => {
    if (++folders > MAX_FOLDERS) return;
    let entries = [];
    try {
      entries = readdirSync(folder || ".", { withFileTypes: true });
    } catch {
      return;
    }
    for (const entry of entries) {
      const path = join(folder, entry.name);
      if (entry.isDirectory() && depth < MAX_DEPTH && !SKIPPED_FOLDERS.has(entry.name)) visit(path, depth + 1);
      else if (entry.isFile()) found.push(path);
    }
  };
  visit("", 0);
  return found.sort();
}

function read(path) {
  try {
    if (lstatSync(path).size <= MAX_BYTES) return readFileSync(path, "utf8").replace(/^\uFEFF/, "");
    warn(`${path} is too large and was not read`);
  } catch {
    warn(`${path} cannot be read`);
  }
  return undefined;
}
function readJson(path) {
  try {
    const value = JSON.parse(read(path) ?? "null");
    return value !== null && typeof value === "object" ? value : undefined;
  } catch {
    warn(`${path} is not valid JSON`);
    return undefined;
  }
}

if (process.env.SKILL_DIR === "/skill" && process.cwd() !== "/workspace") {
  complain(
    "The workspace is not visible in the sandbox. To see the reason, run: skillet run dependency-audit --dry-run",
  );
  process.exit(1);
}
const files = findFiles();
const known = new Set(files);
const has = (folder, ...names) => names.find((name) => known.has(join(folder, name)));

const DEPENDENCY_KEYS = ["dependencies", "devDependencies", "optionalDependencies"];
const IS_REMOTE = /^(?:git|https?|github|gitlab|bitbucket|ssh)[+:]|^[\w.-]+\/[\w.-]+(?:#|$)/;
const IS_REGISTRY = /^https:\/\/[^/]+\/(?:.+\/)?-\/[^/]+\.tgz/;

const lockFolders = files
  .filter((file) => /(?:^|\/)(package-lock\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?)$/.test(file))
  .map((file) => dirname(file));

function auditNpm(path) {
  const manifest = readJson(path);
  if (!manifest) return;
  const folder = dirname(path) === "." ? "" : dirname(path);
  const wanted = DEPENDENCY_KEYS.flatMap((key) =>
    Object.entries(Object(manifest[key])).map(([name, range]) => ({ key, name, range: clip(textOf(range)) })),
  );
  if (wanted.length === 0) return;
  const numberOf = (key) => wanted.filter((one) => one.key === key).length;
  const lockName = has(
    folder,
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
  );
  const isMember =
    !lockName && folder !== "" && lockFolders.some((locked) => locked === "." || `${folder}/`.startsWith(`${locked}/`));
  const lock = lockName?.endsWith(".json") ? readJson(join(folder, lockName)) : undefined;
  const locked = Object.entries(Object(lock?.packages)).filter(
    ([place, entry]) => place !== "" && entry !== null && typeof entry === "object",
  );
  print(
    "npm",
    `${path}: ${count(numberOf("dependencies"), "dependency", "dependencies")}, ${numberOf("devDependencies")} for development${locked.length > 0 ? `; ${locked.length} locked` : lockName ? `; ${lockName}` : ""}`,
  );
  if (!lockName && !isMember) warn(`${path} has no lock file: each install may get other code`);
  const open = wanted.filter(({ range }) => /^(?:\*|x|latest|next|>=?[^<]*|)$/.test(range.trim()));
  if (open.length > 0)
    warn(`any version is accepted: ${some(open.map(({ name, range }) => `${name}@${range || "*"}`))}`);
  const remote = wanted.filter(({ range }) => IS_REMOTE.test(range));
  if (remote.length > 0)
    warn(
      `not from a registry: ${some(
        remote.map(({ name, range }) => `${name} (${range})`),
        2,
      )}`,
    );
  if (lock) auditNpmLock(path, wanted, lock, locked);
}

function auditNpmLock(path, wanted, lock, locked) {
  if (locked.length === 0)
    return void (
      Number(lock.lockfileVersion) < 2 && warn(`${path}: the lock file has an old format; run npm install to renew it`)
    );
  const nameOf = (place, entry) =>
    textOf(entry.name, place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length));
  const remote = locked.filter(
    ([, entry]) =>
      !entry.link &&
      entry.resolved !== undefined &&
      !IS_REGISTRY.test(textOf(entry.resolved)) &&
      !textOf(entry.resolved).startsWith("file:"),
  );
  const external = locked.filter(([place, entry]) => place.includes("node_modules/") && !entry.link && !entry.inBundle);
  const named = (entries) => entries.map(([place, entry]) => `${nameOf(place, entry)}@${textOf(entry.version)}`);
  const scripts = external.filter(([, entry]) => entry.hasInstallScript);
  const old = external.filter(([, entry]) => typeof entry.deprecated === "string");
  const isRemote = new Set(remote.map(([, entry]) => entry));
  const unchecked = external.filter(([, entry]) => entry.integrity === undefined && !isRemote.has(entry));
  const placed = new Set(locked.map(([place]) => place.slice(place.lastIndexOf("node_modules/"))));
  const missing = wanted.filter(
    ({ name, key }) => key !== "optionalDependencies" && !placed.has(`node_modules/${name}`),
  );
  const where = dirname(path) === "." ? "" : `${dirname(path)}: `;
  if (remote.length > 0) warn(`${where}locked to a place that is not a registry: ${some(named(remote))}`);
  if (scripts.length > 0) warn(`${where}run a script when installed: ${some(named(scripts))}`);
  if (unchecked.length > 0) warn(`${where}locked without a checksum: ${some(named(unchecked))}`);
  if (missing.length > 0) warn(`in ${path} but not in its lock file: ${some(missing.map(({ name }) => name))}`);
  if (old.length > 0) warn(`${where}deprecated: ${some(named(old))}`);
  const versions = new Map();
  for (const [place, entry] of external)
    versions.set(nameOf(place, entry), (versions.get(nameOf(place, entry)) ?? new Set()).add(entry.version));
  const several = [...versions].filter(([, all]) => all.size > 1);
  if (several.length > 0)
    print("", `${count(several.length, "package")} in more than one version: ${some(several.map(([name]) => name))}`);
}

function auditRequirements(path) {
  const lines = (read(path) ?? "")
    .replace(/\\\r?\n/g, " ")
    .split(/\r?\n/)
    .map((line) => line.replace(/(?:^|\s)#.*/, "").trim())
    .filter(Boolean);
  const packages = lines.filter((line) => !line.startsWith("-"));
  const open = packages.filter((line) => !/===?\s*[\w.!+-]+/.test(line) && !/:\/\//.test(line));
  const remote = lines.filter(
    (line) => /:\/\//.test(line) && !/^(?:-i|--index-url|--extra-index-url|--find-links|-f)\b/.test(line),
  );
  const extra = lines.filter((line) => /^--(?:extra-index-url|trusted-host)\b/.test(line));
  print(
    "Python",
    `${path}: ${count(packages.length, "package")}${packages.length > 0 && packages.every((line) => line.includes("--hash=")) ? ", with checksums" : ""}`,
  );
  if (open.length > 0) warn(`${path}: not pinned with ==: ${some(open.map((line) => line.split(/[\s;]/)[0]))}`);
  if (remote.length > 0) warn(`${path}: not from an index: ${some(remote, 1)}`);
  if (extra.length > 0) warn(`${path}: ${some(extra, 1)} lets another server replace a package`);
}

/** THE table of manifests that are locked as a whole: the manifest, the label, the lock files that serve, and a pattern of dependencies. */
const MANIFESTS = [
  {
    file: "pyproject.toml",
    label: "Python",
    locks: ["uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "requirements.txt"],
    has: /^[ \t]*(?:dependencies\s*=\s*\[\s*\S|\[tool\.poetry\.dependencies)/m,
  },
  { file: "Pipfile", label: "Python", locks: ["Pipfile.lock"], has: /^\[packages\]/m },
  { file: "Cargo.toml", label: "Rust", locks: ["Cargo.lock"], has: /^\[(?:[\w.'"()-]+\.)?dependencies/m },
  { file: "go.mod", label: "Go", locks: ["go.sum"], has: /^require\b/m },
  { file: "Gemfile", label: "Ruby", locks: ["Gemfile.lock"], has: /^[ \t]*gem\s/m },
  { file: "composer.json", label: "PHP", locks: ["composer.lock"], has: /"require"/ },
];

function auditManifest(path, { label, locks, has: pattern }) {
  const text = read(path) ?? "";
  if (!pattern.test(text)) return;
  const folders = dirname(path)
    .split("/")
    .map((_, index, parts) => parts.slice(0, index + 1).join("/"))
    .reverse();
  const lock = [...folders, ""].map((folder) => has(folder === "." ? "" : folder, ...locks)).find(Boolean);
  print(label, `${path}: ${lock ?? "no lock file"}`);
  if (!lock) warn(`${path} has no lock file (${locks[0]}): each install may get other code`);
  const replaced = /^[ \t]*replace\s.+=>[ \t]*(\S+)/m.exec(text)?.[1];
  if (label === "Go" && replaced) warn(`${path} replaces a module with ${replaced}`);
  if (/\bgit\s*=\s*"/.test(text)) warn(`${path} takes a dependency from a git repository`);
}

const FULL_COMMIT = /@[0-9a-f]{40}$/;

function auditWorkflows(paths) {
  const uses = paths.flatMap((path) =>
    [...(read(path) ?? "").matchAll(/^[ \t]*(?:-[ \t]*)?uses:[ \t]*["']?([^\s"'#]+)/gm)].map(([, name = ""]) => name),
  );
  const remote = [...new Set(uses.filter((name) => !name.startsWith("./") && !name.startsWith("docker://")))];
  const open = remote.filter((name) => !FULL_COMMIT.test(name));
  if (paths.length > 0)
    print("Actions", `${count(paths.length, "workflow")}, ${count(remote.length, "remote action")}`);
  if (open.length > 0) warn(`actions not pinned to a commit: ${some(open)}`);
}

function auditContainerFile(path) {
  const text = read(path) ?? "";
  const from = text.split("\n").flatMap((line) => (/^FROM\s/i.test(line) ? [line.trim().split(/\s+/).slice(1)] : []));
  const stages = new Set(
    from.flatMap((words) => (/^as$/i.test(words.at(-2) ?? "") ? [words.at(-1)?.toLowerCase()] : [])),
  );
  const images = from
    .map((words) => words.find((word) => !word.startsWith("--")) ?? "")
    .filter((image) => image !== "" && !stages.has(image.toLowerCase()) && image !== "scratch" && !image.includes("$"));
  const open = images.filter((image) => !image.includes("@sha256:"));
  print("Container", `${path}: ${some(images) || "no fixed base image"}`);
  if (open.length > 0) warn(`${path}: image not pinned to a digest: ${some(open, 2)}`);
  const isPiped = text.split("\n").some((line) => {
    const [first = "", ...commands] = line.split("|");
    return [first, ...commands].some(
      (command, index) =>
        /\b(?:curl|wget)\b/.test(command) && /^\s*(?:sudo\s+)?(?:ba|z)?sh\b/.test(commands[index] ?? ""),
    );
  });
  if (isPiped) warn(`${path} pipes a download into a shell`);
}

for (const path of files) {
  const name = basename(path);
  if (name === "package.json") auditNpm(path);
  else if (/^requirements[\w.-]*\.txt$/.test(name)) auditRequirements(path);
  else if (/^(?:Dockerfile|Containerfile)(?:\.[\w-]+)?$/.test(name)) auditContainerFile(path);
  const manifest = MANIFESTS.find(({ file }) => file === name);
  if (manifest) auditManifest(path, manifest);
}
auditWorkflows(files.filter((path) => /^\.github\/workflows\/[^/]+\.ya?ml$/.test(path)));
if (facts.length === 0) {
  write(
    "No dependencies found: no manifest of npm, Python, Rust, Go, Ruby or PHP,\nno workflow and no container file.",
  );
} else {
  write(facts.join("\n"));
  write(`\n${warnings.length === 0 ? "Nothing needs attention." : warnings.join("\n")}`);
  write("\nKnown vulnerabilities were not looked up: this report is made offline.");
}
