// Writes the pages of the site to .pages: those of docs/, the benchmarks, one page per code, and the API from the types.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Application } from "typedoc";

const docs = join(import.meta.dirname, "..");
const root = join(docs, "..");
const pages = join(import.meta.dirname, ".pages");
const names = readdirSync(docs).filter((name) => name.endsWith(".md"));

/** The columns of findings: what each profile reports. */
const SEVERITIES = new Set(["load", "agentskills", "shipped", "claude-upload", "vscode"].map((name) => `\`${name}\``));

rmSync(pages, { recursive: true, force: true });
mkdirSync(pages);
for (const name of names) {
  const text = readFileSync(join(docs, name), "utf8");
  if (name === "README.md") write("index.md", adaptLinks(`${readIntroduction()}\n${text.replace(/^# .*\n/, "")}`));
  else write(name, adaptLinks(text));
}
write("methods.md", adaptLinks(readFileSync(join(root, "bench/README.md"), "utf8").replaceAll("](../docs/", "](")));
write("contributing.md", adaptLinks(readFileSync(join(root, "CONTRIBUTING.md"), "utf8")));
write("reporting.md", adaptLinks(readFileSync(join(root, "SECURITY.md"), "utf8")));
for (const folder of readdirSync(docs, { withFileTypes: true }))
  if (folder.isDirectory() && folder.name !== "site")
    cpSync(join(docs, folder.name), join(pages, folder.name), { recursive: true });
const codes = writeErrorPages();
await writeApi();
process.stdout.write(`${names.length + 1} pages and ${codes} codes\n`);

function write(path, text) {
  mkdirSync(join(pages, path, ".."), { recursive: true });
  writeFileSync(join(pages, path), text);
}

/** The first screen of the site is that of the README: what skillet is, its commands, a picture and four claims. */
function readIntroduction() {
  const text = readFileSync(join(root, "README.md"), "utf8");
  const introduction = text.slice(0, text.indexOf("\n## You use agents")).replace("## Why", "## Why skillet");
  return introduction.replace(" [All pages](docs/README.md)", ""); // They follow below it.
}

/** Links to files outside of docs/ become their text: the site does not have them. */
function adaptLinks(text) {
  return text
    .replaceAll("](../bench/README.md", "](methods.md")
    .replaceAll(/\]\((?:\.\.\/)?CONTRIBUTING\.md/g, "](contributing.md")
    .replaceAll(/\]\((?:\.\.\/)?SECURITY\.md/g, "](reporting.md")
    .replaceAll("](docs/", "](")
    .replace(/(?<!!)\[([^\]]+)\]\((?:\.\.\/|[A-Z]+\.md|peers|[\w-]+\/)[^)]*\)/g, (link, label) =>
      /\]\((?:diagrams|screens|studio)\//.test(link) ? link : label,
    )
    .replaceAll(/\]\(README\.md/g, "](index.md");
}

/** One page per code, with the row of the table: people open them from messages. */
function writeErrorPages() {
  const text = readFileSync(join(docs, "errors.md"), "utf8");
  let columns = [];
  let count = 0;
  for (const line of text.split("\n")) {
    if (!line.startsWith("| ")) continue;
    const cells = line.slice(2, -2).split(/(?<!\\) \| ?/);
    const [, code] = /^<a id="([^"]+)"><\/a>/.exec(cells[0]) ?? [];
    if (code === undefined) {
      if (!/^-+/.test(cells[0])) columns = cells;
      continue;
    }
    const fields = cells.map((cell, index) => [(columns[index] ?? "").trim(), cell.trim()]).slice(1);
    const isText = ([name]) => !SEVERITIES.has(name);
    const rows = fields.filter(isText).flatMap(([name, cell]) => (cell === "" ? [] : [`**${title(name)}**: ${cell}`]));
    const severities = fields.filter((field) => !isText(field)).map(([name, cell]) => `| ${name} | ${cell} |`);
    if (severities.length > 0) rows.push(`| profile of \`check\` | severity |\n|---|---|\n${severities.join("\n")}`);
    const help = `\`\`\`sh\nskillet help ${code}     # this page, offline\n\`\`\``;
    write(
      `errors/${code}.md`,
      `---\nprev: false\nnext: false\n---\n\n# ${code}\n\n${rows.join("\n\n")}\n\n${help}\n\n[All codes](../errors.md)\n`,
    );
    count += 1;
  }
  return count;
}

function title(column = "") {
  const text = column.replaceAll("`", "").trim();
  return text === "" ? "Meaning" : text[0].toUpperCase() + text.slice(1);
}

/** The public API, from the entry points of the package. */
async function writeApi() {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const entryPoints = Object.values(exports)
    .flatMap(({ types }) => types ?? [])
    .map((types) => join(root, types.replace("./dist/types/", "src/").replace(/\.d\.ts$/, ".ts")))
    .filter((path) => existsSync(path));
  const app = await Application.bootstrapWithPlugins({
    entryPoints,
    tsconfig: join(import.meta.dirname, "tsconfig.json"),
    plugin: ["typedoc-plugin-markdown"],
    out: join(pages, "api"),
    readme: "none",
    name: "API",
    skipErrorChecking: true,
    excludeInternal: true,
    excludePrivate: true,
    excludeExternals: true,
    disableSources: true,
    hideBreadcrumbs: true,
    entryFileName: "index",
    outputFileStrategy: "modules",
    logLevel: "Error",
  });
  const project = await app.convert();
  if (!project) throw new Error("TypeDoc found no API");
  await app.generateOutputs(project);
  // The search is for guides: thousands of symbols would come before them.
  for (const name of readdirSync(join(pages, "api"), { recursive: true }))
    if (name.endsWith(".md"))
      write(join("api", name), `---\nsearch: false\n---\n\n${readFileSync(join(pages, "api", name), "utf8")}`);
}
