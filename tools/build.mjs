// Builds dist/: the library and the command (esbuild), and the declarations (tsc). Also builds build/: the sources module by module, which
// the tests import and the package does not contain. `npm ci` runs it as `postprepare`: npm warns about a `prepare` script wherever a packed
// package is installed, and would run it again for the first `npx skillet` of a clone.
import "./pinned-node.mjs";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";
import * as yaml from "js-yaml";

// An older Node, which runs this again with the right one, cannot import it.
const { default: writeSandboxCommand, bundleSandboxCommand } = await import("./sandbox-command.ts");
const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { version, exports: entries, peerDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** The modules of a start: `skillet list` needs no others. */
const START = ["src/cli/main.ts", "src/cli/commands/list.ts"];

/** The file of the command with js-yaml. */
const YAML_FILE = "js-yaml.cjs";

/** Declarations that `skillet types` writes next to skills: zod's entries. */
const ZOD_ENTRIES = ["index", "v4/index", "v4/core/index", "mini/index", "v4-mini/index", "v3/index"];

/** The packages of workers, which are installed next to the command where they are needed. */
const ENGINE_PACKAGES = ["pg", "@dbos-inc/dbos-sdk", "@dbos-inc/dbos-sdk/*"];

const OPTIONS = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  target: "node22",
  minify: true,
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
};
const SKILLET_VERSION = JSON.stringify(version);

/** The folders of the packages whose code is in dist/. */
const bundledPackages = new Set();

for (const folder of ["dist", "build"]) rmSync(join(root, folder), { recursive: true, force: true });
compileTypes();
writeToolsetTypes();
removeInternalTypes();
const SKILLET_SB_CODE = JSON.stringify(await bundleSandboxCommand());
await writeSandboxCommand();
const worker = await buildToolsetWorker();
await buildLibrary();
await buildCommand();
await buildStudio();
writeLicenses();

/** Runs esbuild, and records the packages that end up in its output. */
async function build(options) {
  const result = await esbuild.build({ ...OPTIONS, ...options });
  for (const { inputs } of Object.values(result.metafile.outputs)) {
    for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
      const folder = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
      if (folder !== undefined && bytesInOutput > 0) bundledPackages.add(folder);
    }
  }
  return result;
}

function compileTypes() {
  const options = { cwd: root, stdio: "inherit", shell: process.platform === "win32" };
  const { error, status } = spawnSync("tsc", ["-p", "tsconfig.build.json"], options);
  if (error) console.error(`tsc could not be started: ${error.message} (run it as \`npm run build\`)`);
  if (status !== 0) process.exit(status ?? 1);
}

/**
 * Builds the library: an entry for each export of package.json, and files that they share. It contains the packages that it needs, so that
 * nothing is installed with it; optional ones are imported from the program that uses it.
 */
async function buildLibrary() {
  const sources = Object.values(entries).flatMap(({ types, default: file }) =>
    types === undefined
      ? []
      : { in: types.replace("dist/types", "src").replace(/\.d\.ts$/, ".ts"), out: basename(file, ".js") },
  );
  await build({
    format: "esm",
    splitting: true,
    outdir: "dist",
    chunkNames: "lib/[name]-[hash]",
    entryPoints: sources,
    external: Object.keys(peerDependencies).flatMap((name) => [name, `${name}/*`]),
    // A bundler that makes the library part of another program would lose the file.
    define: { SKILLET_VERSION, SKILLET_SB_CODE, SKILLET_WORKER_CODE: JSON.stringify(worker) },
    plugins: [evaluateYamlLater()],
  });
}

/** Builds the toolset thread, and returns its code. */
async function buildToolsetWorker() {
  const { outputFiles } = await build({
    format: "cjs",
    write: false,
    entryPoints: ["src/agent/toolsets/toolset-worker.ts"],
    external: Object.keys(peerDependencies),
    define: {
      SKILLET_VERSION,
      SKILLET_SB_CODE,
      "import.meta.dirname": "undefined",
      "import.meta.filename": "undefined",
      "import.meta.url": "undefined",
    },
  });
  const file = join(root, "dist/toolset-worker.cjs");
  writeFileSync(join(root, "dist/toolset-code.cjs"), outputFiles[0].contents);
  // The thread starts with this file, so that it uses the compiled code of its process.
  const start = `const { compileCache } = require("node:worker_threads").workerData;
if (compileCache) require("node:module").enableCompileCache(compileCache);
require("./toolset-code.cjs");
`;
  writeFileSync(file, start);
  // Tests of toolsets run the thread that is published.
  const entry = `export const workerEntry = () => (${JSON.stringify({ file })});\n`;
  writeFileSync(join(root, "build/agent/toolsets/worker-entry.js"), entry);
  return outputFiles[0].text;
}

/**
 * Builds the command in dist/cli/, with bin.cjs as its entry: CommonJS with code splitting, which esbuild only has for ES modules. CommonJS
 * loads faster: importing a module of Node as an ES module evaluates all that it exports.
 */
async function buildCommand() {
  const { outputFiles } = await build({
    format: "esm",
    splitting: true,
    write: false,
    outdir: "dist/cli",
    outExtension: { ".js": ".cjs" },
    chunkNames: "[name]-[hash]",
    entryPoints: [{ in: "./src/cli/bin.ts", out: "bin" }],
    external: [...ENGINE_PACKAGES, `./${YAML_FILE}`],
    define: {
      SKILLET_VERSION,
      SKILLET_SB_CODE,
      SKILLET_IS_PROGRAM: "true",
      "import.meta.dirname": "__dirname",
      "import.meta.filename": "__filename",
    },
    plugins: [importStartFirst(), evaluateYamlLater(`./${YAML_FILE}`), omitChildProcess(), omitLocales()],
  });
  // A separate file: Node's compile cache keeps what it compiled of a whole file, and a start seldom needs this part.
  await build({ format: "cjs", entryPoints: ["js-yaml"], outfile: `dist/cli/${YAML_FILE}` });
  for (const { path, text } of outputFiles) {
    const { code } = await esbuild.transform(text, {
      format: "cjs",
      platform: "node",
      target: "node22",
      minify: true,
      supported: { "dynamic-import": false },
    });
    writeFileSync(path, code);
  }
}

/**
 * Builds the page of `skillet studio` in dist/studio/: static files whose names have a hash of their content, and index.html, which names
 * them. Charts and the Markdown renderer are parts that the page imports when it needs them.
 */
async function buildStudio() {
  const outdir = "dist/studio";
  const { metafile } = await build({
    format: "esm",
    splitting: true,
    platform: "browser",
    target: ["chrome120", "firefox121", "safari17"],
    outdir,
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    entryPoints: ["studio/main.tsx"],
    jsx: "automatic",
    jsxImportSource: "preact",
  });
  const [path, { cssBundle }] = Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint);
  const head = [
    `<link rel="stylesheet" href="/assets/${basename(cssBundle)}" />`,
    `<script type="module" src="/assets/${basename(path)}"></script>`,
  ];
  const page = readFileSync(join(root, "studio/index.html"), "utf8");
  writeFileSync(join(root, outdir, "index.html"), page.replace("</head>", `  ${head.join("\n    ")}\n  </head>`));
  copyFileSync(join(root, "studio/icon.svg"), join(root, outdir, "icon.svg"));
}

/**
 * Makes the command and every part that it imports later import the modules of a start first. They then have the same importers, and esbuild
 * puts them into one chunk instead of about fifty, one for each set of commands that shares them.
 */
function importStartFirst() {
  const imports = START.map((path) => `import "./${path}";`).join("");
  return {
    name: "import-start-first",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^\..*\.ts$/ }, ({ path, kind, resolveDir }) =>
        kind === "import-statement" ? undefined : { path: join(resolveDir, path), namespace: "part" },
      );
      onLoad({ filter: /.*/, namespace: "part" }, ({ path }) => ({
        contents: `${imports} export * from ${JSON.stringify(path)};`,
        resolveDir: root,
      }));
    },
  };
}

/** Evaluates js-yaml when it is first used: most skills need no full YAML parser, and js-yaml compiles large regular expressions. */
function evaluateYamlLater(file = "js-yaml") {
  const getters = Object.keys(yaml).map((name) => `get ${name}() { return require("${file}").${name}; }`);
  return {
    name: "evaluate-yaml-later",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^js-yaml$/ }, ({ path, kind }) =>
        kind === "import-statement" ? { path, namespace: "later" } : undefined,
      );
      onLoad({ filter: /.*/, namespace: "later" }, () => ({
        contents: `module.exports = { ${getters.join(", ")} };`,
        resolveDir: root,
      }));
    },
  };
}

/**
 * Gives commander an empty `node:child_process`, whose loading is a fifth of Node's own start: commander needs it for sub-commands that are
 * programs, and skillet has none.
 */
function omitChildProcess() {
  return {
    name: "omit-child-process",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^node:child_process$/ }, ({ path, importer }) =>
        /[\\/]commander[\\/]/.test(importer) ? { path, namespace: "empty" } : undefined,
      );
      onLoad({ filter: /.*/, namespace: "empty" }, () => ({ contents: "export default {};" }));
    },
  };
}

/** Leaves out zod's translations: the command prints none, and they are 0.3 MB. Toolsets have all of them. */
function omitLocales() {
  return {
    name: "omit-locales",
    setup({ onLoad }) {
      const filter = /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/;
      onLoad({ filter }, () => ({ contents: 'export { default as en } from "./en.js";' }));
    },
  };
}

/** Writes the licenses of the bundled packages into one file. Fails if a package declares none. */
function writeLicenses() {
  const texts = [...bundledPackages].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    const file = readdirSync(join(root, folder)).find((entry) => /^licen[cs]e(\.|$)/i.test(entry));
    if (!license) throw new Error(`${name} declares no license, and its code is in dist/`);
    const text = file ? readFileSync(join(root, folder, file), "utf8").trim() : "The package ships no license text.";
    return `${name} ${version} (${license})\n\n${text}\n`;
  });
  writeFileSync(join(root, "dist/THIRD-PARTY-LICENSES.txt"), texts.sort().join(`\n${"-".repeat(80)}\n\n`));
}

/** Removes declarations that no export of the package leads to. */
function removeInternalTypes() {
  const types = join(root, "dist", "types");
  const files = Object.values(entries).flatMap(({ types: file }) => (file === undefined ? [] : join(root, file)));
  const reached = findDeclarations(files);
  for (const path of readdirSync(types, { recursive: true, withFileTypes: true }))
    if (path.isFile() && !reached.has(join(path.parentPath, path.name))) rmSync(join(path.parentPath, path.name));
}

/** Removes declarations that are the same as those of `en`, and makes the index of the folder export those: a small file takes a block of the disk. */
function shareDeclarations(folder) {
  const [index, shared] = [join(folder, "index.d.ts"), join(folder, "en.d.ts")];
  const text = readFileSync(shared, "utf8");
  const isSame = (name) => readFileSync(join(folder, `${name}.d.ts`), "utf8") === text;
  const exported = readFileSync(index, "utf8").replace(/(?<= from "\.\/)([\w-]+)(?=\.js")/g, (name) => {
    if (name === "en" || !isSame(name)) return name;
    rmSync(join(folder, `${name}.d.ts`));
    return "en";
  });
  writeFileSync(index, exported);
}

/**
 * Writes what `skillet types` puts next to skills: the declarations of the modules that a toolset can import, as packages. A program that
 * wants more of skillet's installs the package.
 */
function writeToolsetTypes() {
  const to = join(root, "dist", "toolset-types");
  const [types, zod] = [join(root, "dist", "types"), join(root, "node_modules", "zod")];
  const writePackage = (name, files) => {
    const description = "Declarations for toolsets, written by `skillet types`.";
    const manifest = { name, version, description, type: "module", types: "./index.d.ts", exports: files };
    writeFileSync(join(to, name, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  };
  const copy = (files, from, name) => {
    for (const file of files) {
      mkdirSync(dirname(join(to, name, relative(from, file))), { recursive: true });
      copyFileSync(file, join(to, name, relative(from, file)));
    }
  };
  const tools = join(types, "agent", "toolsets", "tool-exports.d.ts");
  copy(findDeclarations([tools]), types, "@agent/tools");
  writeFileSync(join(to, "@agent/tools", "index.d.ts"), 'export * from "./agent/toolsets/tool-exports.ts";\n');
  mkdirSync(join(to, "skillet"));
  writeFileSync(join(to, "skillet", "index.d.ts"), 'export * from "@agent/tools";\n');
  const paths = ZOD_ENTRIES.map((entry) => [join(".", entry), `./${entry}.d.ts`]);
  copy(findDeclarations(paths.map(([, path]) => join(zod, path))), zod, "zod");
  shareDeclarations(join(to, "zod/v4/locales"));
  copyFileSync(join(zod, "LICENSE"), join(to, "zod", "LICENSE"));
  for (const name of ["@agent/tools", "skillet"]) writePackage(name, { ".": { types: "./index.d.ts" } });
  writePackage(
    "zod",
    Object.fromEntries(paths.map(([entry, path]) => [`./${entry}`.replace(/\/index$/, ""), { types: path }])),
  );
}

/** Returns these declarations and all files that they lead to. */
function findDeclarations(files) {
  const reached = new Set();
  const follow = (file) => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const [, path] of readFileSync(file, "utf8").matchAll(/(?:from |import\()"(\.[^"]+)\.[jt]s"/g))
      follow(join(dirname(file), `${path}.d.ts`));
  };
  for (const file of files) follow(file);
  return reached;
}
