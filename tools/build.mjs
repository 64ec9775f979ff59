// Builds dist/: the library (esbuild) with its types (tsc), and the command (esbuild): a small file that loads the others, three with the
// command's own code, because reading one file instead of sixty is most of what its start costs, and packages that only some commands
// need. `npm ci` runs it as `postprepare`: npm warns about a `prepare` script wherever a packed package is installed, and would run it again
// for the first `npx skillet` of a clone. Also builds build/, the library module by module, which the tests import and nobody publishes.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build as bundle, transform } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { version, exports: published, peerDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const shell = process.platform === "win32";

/** Packages that most starts do without: each a file of its own beside the command's. `takes`: what of it, where the sources do not import it by name. */
const APART = {
  "js-yaml": { file: "yaml", takes: "*", isLate: true },
  "smol-toml": { file: "toml", takes: "*" },
  re2js: { file: "re2", takes: "*", isLate: true },
  chokidar: { file: "chokidar", takes: "{ watch }" },
  "ajv/dist/2020.js": { file: "ajv", takes: "{ Ajv2020 }" },
  "ajv-formats": { file: "ajv-formats", takes: "{ default }", footer: "module.exports = module.exports.default;" },
  jose: { file: "jose", takes: "{ SignJWT, jwtVerify, errors }" },
  ai: { file: "ai", takes: "{ streamText, wrapLanguageModel, jsonSchema }" },
  "@ai-sdk/anthropic": { file: "anthropic", takes: "{ createAnthropic }" },
  "@ai-sdk/openai": { file: "openai", takes: "{ createOpenAI }" },
  "@ai-sdk/openai-compatible": { file: "openai-compatible", takes: "{ createOpenAICompatible }" },
  "@modelcontextprotocol/client": { file: "mcp-client", takes: "{ Client, StreamableHTTPClientTransport }" },
  "@modelcontextprotocol/client/stdio": { file: "mcp-stdio", takes: "{ StdioClientTransport }" },
};

/** What serves is one file, which shares nothing: each file costs some of its start, and so does what only others need of what is shared. */
const SERVER = {
  file: "mcp-server",
  packages: [
    "@modelcontextprotocol/server",
    "@modelcontextprotocol/server/stdio",
    "@modelcontextprotocol/server/ext/skills",
  ],
};

/** Files of the command's own code, and the commands that need no later one: those that are started again and again, and do little. */
const PACKS = [
  { file: "start.cjs", commands: ["list"] },
  { file: "everyday.cjs", commands: ["show", "check", "explain"] },
  { file: "rest.cjs" },
];

/** What of Node takes milliseconds to load, and most starts never call. */
const LATE_OF_NODE = ["node:crypto"];

/** The code of a toolset's thread, as a file for the command. */
const WORKER = "toolset-worker.cjs";

/** What a toolset can import in a build, where nothing has a file; src/agent/toolsets/own-modules.ts has those of the sources. */
const OWN_MODULES = {
  "@agent/tools": "./src/agent/toolsets/tool-exports.ts",
  skillet: "./src/index.ts",
  "skillet/sandbox": "./src/sandbox/index.ts",
  zod: "./node_modules/zod/index.js",
  "zod/v4": "./node_modules/zod/v4/index.js",
  "zod/v4/core": "./node_modules/zod/v4/core/index.js",
  "zod/mini": "./node_modules/zod/mini/index.js",
  "zod/v4-mini": "./node_modules/zod/v4-mini/index.js",
  "zod/v3": "./node_modules/zod/v3/index.js",
};

/** The file with the licenses of the packages whose code is in dist/. */
const LICENSES = "THIRD-PARTY-LICENSES.txt";
/** The folders of those packages, collected while dist/ is built. */
const bundledPackages = new Set();

const COMMANDER = /[\\/]commander[\\/]/;

/** Parts of packages that nothing here uses, and what stands in for them. */
const UNUSED = {
  // commander can start sub-commands that are programs of their own. None here is, and loading what it would need costs a tenth
  // of the command's start.
  "node:child_process": { by: COMMANDER, is: "export default {};" },
  "node:fs": { by: COMMANDER, is: "export default {};" },
  "node:path": { by: COMMANDER, is: "export default {};" },
  // Another name for what every module has. esbuild would copy it, property by property.
  "node:process": { by: COMMANDER, is: "export default process;" },
  // What the AI SDK asks where a model is only named. Here all are opened.
  "@ai-sdk/gateway": {
    by: /[\\/]ai[\\/]/,
    is: `const no = { isInstance: () => false };
         export { no as GatewayAuthenticationError, no as GatewayError };
         export const gateway = undefined, createGateway = undefined;`,
  },
  // zod's messages in fifty languages.
  "../locales/index.js": { by: /[\\/]zod[\\/]/, is: "export {};" },
};

const shared = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  target: "node22",
  minify: true,
  charset: "ascii", // The loader counts on it: see `escaped`.
  legalComments: "none",
  logLevel: "warning",
};
// As `require`: it goes through the loader, and Node does not search the file for what it exports.
const plain = { format: "cjs", supported: { "dynamic-import": false } };

for (const folder of ["dist", "build"]) rmSync(join(root, folder), { recursive: true, force: true });
const tsc = spawnSync("tsc", ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit", shell });
if (tsc.error) console.error(`tsc could not be started: ${tsc.error.message} (run it as \`npm run build\`)`);
if (tsc.status !== 0) process.exit(tsc.status ?? 1);
writeToolsetTypes();
keepPublicTypes();
const inlined = await inlineModules();
await buildLibrary();
await buildApart();
await buildServer();
await buildCommand();
await build({
  ...shared,
  ...plain,
  entryPoints: ["src/cli/load.ts"],
  outfile: "dist/cli.cjs",
  define: {
    "import.meta.dirname": "__dirname",
    SKILLET_BUILD: JSON.stringify(digest()),
    SKILLET_PACKS: JSON.stringify(PACKS.map(({ file }) => `./${file}`)),
  },
});
escapeFile("cli.cjs");
writeLicenses();

/** Runs esbuild, and records the packages that end up in its output. */
async function build(options) {
  const result = await bundle({ ...options, metafile: true });
  const used = Object.values(result.metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? path : [])),
  );
  for (const path of used) {
    const folder = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
    if (folder !== undefined) bundledPackages.add(folder);
  }
  return result;
}

/** Writes the licenses of the bundled packages into one file. Fails when a package declares none. */
function writeLicenses() {
  const texts = [...bundledPackages].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    const file = readdirSync(join(root, folder)).find((entry) => /^licen[cs]e(\.|$)/i.test(entry));
    if (!license) throw new Error(`${name} declares no license, and its code is in dist/`);
    const text = file ? readFileSync(join(root, folder, file), "utf8").trim() : "The package ships no license text.";
    return `${name} ${version} (${license})\n\n${text}\n`;
  });
  writeFileSync(join(root, "dist", LICENSES), texts.sort().join(`\n${"-".repeat(80)}\n\n`));
}

/** What several of them share is a file too, so that nothing is loaded twice; only modules of the newer kind can be split so. */
async function buildApart() {
  const { outputFiles } = await build({
    ...shared,
    format: "esm",
    splitting: true,
    write: false,
    outdir: "dist",
    outExtension: { ".js": ".cjs" },
    chunkNames: "shared-[hash]",
    entryPoints: Object.entries(APART).map(([name, { file }]) => ({ in: `apart:${name}`, out: file })),
    plugins: [entries(), without()],
  });
  for (const { path, text } of outputFiles) {
    const { footer } = Object.values(APART).find(({ file }) => `${file}.cjs` === basename(path)) ?? {};
    const options = { platform: "node", target: "node22", minify: true, charset: "ascii", logLevel: "warning" };
    const { code } = await transform(text, { ...options, ...plain, ...(footer ? { footer } : {}) });
    writeFileSync(path, escaped(code));
  }
}

/**
 * The command in a few files, by who needs them. Every part of a file costs some of its start, also what is never
 * called; and so does every file.
 */
async function buildCommand() {
  const { outputFiles, metafile } = await build({
    ...shared,
    format: "esm",
    splitting: true,
    write: false,
    metafile: true,
    outdir: "dist",
    outExtension: { ".js": ".cjs" },
    chunkNames: "part-[hash]",
    entryNames: "part-[name]",
    entryPoints: ["src/cli/bin.ts"],
    define: {
      "import.meta.dirname": "__dirname",
      SKILLET_IS_PROGRAM: "true",
      SKILLET_VERSION: JSON.stringify(version),
    },
    plugins: [inline(inlined.command), late(), apart(), without()],
  });
  const sourcesOf = (commands) => ["src/cli/bin.ts", ...commands.map((name) => `src/cli/commands/${name}.ts`)];
  const packs = PACKS.map(({ file, commands }) => {
    const needed = commands && reached(metafile.outputs, sourcesOf(commands));
    return { file, parts: [], takes: (name) => needed?.has(name) ?? true };
  });
  for (const { path, text } of outputFiles) {
    const name = `dist/${basename(path)}`;
    const options = { platform: "node", target: "node22", minify: true, charset: "ascii", logLevel: "warning" };
    const { code } = await transform(text, { ...options, ...plain });
    const part = `exports["./${basename(path)}"]=function(exports,require,module,__filename,__dirname){${await withGetters(code, options)}};`;
    packs.find(({ takes }) => takes(name)).parts.push(part);
  }
  for (const { file, parts } of packs)
    writeFileSync(join(root, "dist", file), `(function(exports){${escaped(parts.join("\n"))}\n})`);
}

/**
 * What a part exports, as one object. esbuild defines each export twice, one by one, so that it can be taken for a module of either kind:
 * a third of what it takes to load those of a command.
 */
async function withGetters(code, options) {
  const whole = /var ([\w$]+)=\{\};(?:[\w$]+\(\1,\{([^}]*)\}\);)?module\.exports=[\w$]+\(\1\);/;
  const [found, , defined = ""] = whole.exec(code) ?? [];
  const getters = defined.replace(/([\w$]+):\(\)=>([\w$.]+)/g, "get $1(){return $2}");
  if (found === undefined || getters.includes("=>")) throw new Error(`exports of another form: ${code.slice(0, 900)}`);
  const names = /0&&\(module\.exports=\{[\w$,]*\}\);\s*$/; // Said for Node's own loader.
  const own = code.replace(whole, () => `module.exports={__esModule:!0,${getters}};`).replace(names, "");
  return (await transform(own, { ...options, treeShaking: true })).code;
}

/** What these sources load as they are loaded themselves. */
function reached(outputs, sources) {
  const found = new Set();
  const follow = (path) => {
    if (found.has(path) || !outputs[path]) return;
    found.add(path);
    for (const { path: next, kind } of outputs[path].imports) if (kind === "import-statement") follow(next);
  };
  for (const [path, { entryPoint }] of Object.entries(outputs)) if (sources.includes(entryPoint)) follow(path);
  return found;
}

/**
 * The library: an entry point for each export of package.json, and files that they share. It holds the packages that it needs, so that
 * nothing is installed with it; those that are optional are imported from the program that uses it.
 */
async function buildLibrary() {
  const entries = Object.values(published).flatMap(({ types, default: file }) =>
    types === undefined
      ? []
      : { in: types.replace("dist/types", "src").replace(/\.d\.ts$/, ".ts"), out: basename(file, ".js") },
  );
  const { metafile } = await build({
    ...shared,
    format: "esm",
    splitting: true,
    metafile: true,
    outdir: "dist",
    chunkNames: "lib/[name]-[hash]",
    entryPoints: entries,
    external: Object.keys(peerDependencies).flatMap((name) => [name, `${name}/*`]),
    define: { SKILLET_VERSION: JSON.stringify(version) },
    plugins: [inline(inlined.library), late(), named(), without()],
  });
  return metafile;
}

/** Modules that cannot be files of a bundle, by their paths, as what each kind of build has in their place. */
async function inlineModules() {
  const sources = await evaluated("src/capabilities/sb-source.ts");
  const texts = Object.entries(sources).map(([name, text]) => `export const ${name} = ${JSON.stringify(text)};`);
  const everywhere = { "src/capabilities/sb-source.ts": texts.join("\n") };
  const entry = "src/agent/toolsets/worker-entry.ts";
  const { outputFiles } = await build({
    ...shared,
    format: "cjs",
    write: false,
    entryPoints: ["src/agent/toolsets/toolset-worker.ts"],
    external: Object.keys(peerDependencies),
    define: {
      SKILLET_VERSION: JSON.stringify(version),
      "import.meta.dirname": "undefined",
      "import.meta.url": "undefined",
    },
    plugins: [
      inline({
        ...everywhere,
        [entry]: `import { workerData } from "node:worker_threads";
          export const workerEntry = async () => workerData.entry;`,
        "src/agent/toolsets/own-modules.ts": ownModules(),
      }),
      late(),
      named(),
    ],
  });
  const worker = escaped(outputFiles[0].text);
  writeFileSync(join(root, "dist", WORKER), worker);
  // Tests of toolsets run the thread that is published.
  const forTests = join("build", dirname(relative("src", entry)));
  const file = `join(import.meta.dirname, ${JSON.stringify(join(relative(forTests, "dist"), WORKER))})`;
  writeFileSync(
    join(root, forTests, "worker-entry.js"),
    `import { join } from "node:path";\nexport const workerEntry = async () => ({ file: ${file} });\n`,
  );
  return {
    library: {
      ...everywhere,
      [entry]: `export const workerEntry = async () => ({ code: (await import("inlined:worker")).default });`,
      "inlined:worker": `export default ${JSON.stringify(worker)};`,
    },
    command: {
      ...everywhere,
      [entry]: `import { join } from "node:path";
        export const workerEntry = async () => ({ file: join(import.meta.dirname, "${WORKER}") });`,
    },
  };
}

/** The modules that a toolset can import, in the code of its thread: each is run when it is first imported. */
function ownModules() {
  const rows = Object.entries(OWN_MODULES).map(([name, path]) => `${JSON.stringify(name)}: () => require("${path}")`);
  return `const MODULES = { ${rows.join(", ")} }, SCHEME = "skillet-own:", KEY = "skillet.own-modules";
    const loaded = new Map();
    const load = (name) => loaded.get(name) ?? (loaded.set(name, MODULES[name]()), loaded.get(name));
    globalThis[Symbol.for(KEY)] = load;
    export const ownModuleUrl = (name) => (Object.hasOwn(MODULES, name) ? SCHEME + name : undefined);
    export function ownModuleSource(url, isRequired) {
      const name = url.startsWith(SCHEME) ? url.slice(SCHEME.length) : undefined;
      if (name === undefined) return undefined;
      const module = "globalThis[Symbol.for(" + JSON.stringify(KEY) + ")](" + JSON.stringify(name) + ")";
      if (isRequired) return "module.exports = " + module;
      const names = Object.keys(load(name)).map((key) => JSON.stringify(key));
      const taken = names.map((key, index) => "const _" + index + " = module[" + key + "];");
      return "const module = " + module + ";" + taken.join("") + "export {" + names.map((key, index) => "_" + index + " as " + key) + "}";
    }
    export const ownParent = () => undefined;
    export const isOwnCode = () => false;`;
}

/** What a module of texts exports, as it is once it was built. */
async function evaluated(path) {
  const { outputFiles } = await build({ ...shared, format: "cjs", write: false, entryPoints: [path] });
  const module = { exports: {} };
  new Function("module", "exports", "require", outputFiles[0].text)(module, module.exports, process.getBuiltinModule);
  return module.exports;
}

/** Declarations that no export of the package leads to are of no use to anybody. */
function keepPublicTypes() {
  const types = join(root, "dist", "types");
  const files = Object.values(published).flatMap(({ types: file }) => (file === undefined ? [] : join(root, file)));
  const reached = declarations(files);
  for (const path of readdirSync(types, { recursive: true, withFileTypes: true }))
    if (path.isFile() && !reached.has(join(path.parentPath, path.name))) rmSync(join(path.parentPath, path.name));
}

/**
 * What `skillet types` puts next to skills: the declarations of the modules that a toolset can import, as packages. A program that wants more
 * of skillet's installs the package.
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
  copy(declarations([tools]), types, "@agent/tools");
  writeFileSync(join(to, "@agent/tools", "index.d.ts"), 'export * from "./agent/toolsets/tool-exports.ts";\n');
  mkdirSync(join(to, "skillet"));
  writeFileSync(join(to, "skillet", "index.d.ts"), 'export * from "@agent/tools";\n');
  const entries = Object.entries(OWN_MODULES).filter(([name]) => name.startsWith("zod"));
  const paths = entries.map(([name, path]) => [
    name.replace("zod", "."),
    path.replace("/node_modules/zod", "").replace(/\.js$/, ".d.ts"),
  ]);
  copy(declarations(paths.map(([, path]) => join(zod, path))), zod, "zod");
  copyFileSync(join(zod, "LICENSE"), join(to, "zod", "LICENSE"));
  for (const name of ["@agent/tools", "skillet"]) writePackage(name, { ".": { types: "./index.d.ts" } });
  writePackage("zod", Object.fromEntries(paths.map(([name, path]) => [name, { types: path }])));
}

/** The files that these declarations lead to, and they themselves. */
function declarations(files) {
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

async function buildServer() {
  const contents = SERVER.packages.map((name) => `export { ${taken(name).join(", ")} } from "${name}";`).join("\n");
  const outfile = `dist/${SERVER.file}.cjs`;
  await build({ ...shared, ...plain, stdin: { contents, resolveDir: root }, outfile, plugins: [without()] });
  escapeFile(basename(outfile));
}

/**
 * Escapes what is not ASCII: esbuild leaves it in regular expressions and tagged templates, and the loader would read each of its bytes as
 * a character. An escape means the same wherever our code can have such a character.
 */
function escaped(code) {
  if (/\\[^\0-\x7f]/.test(code)) throw new Error("a character that is not ASCII stands behind a backslash");
  return code.replace(/[^\0-\x7f]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function escapeFile(name) {
  const file = join(root, "dist", name);
  writeFileSync(file, escaped(readFileSync(file, "utf8")));
}

/** Of all files that the command loads. */
function digest() {
  const hash = createHash("sha256");
  const dist = join(root, "dist");
  for (const name of readdirSync(dist).sort()) {
    if (name.endsWith(".cjs")) hash.update(name).update(readFileSync(join(dist, name)));
  }
  return hash.digest("hex").slice(0, 12);
}

/** What the command's sources import of a package by name. */
function taken(name) {
  const source = join(root, "src");
  const files = readdirSync(source, { recursive: true }).filter((path) => path.endsWith(".ts"));
  const imported = files.flatMap((path) => [
    ...readFileSync(join(source, path), "utf8").matchAll(new RegExp(`^import \\{([^}]*)\\} from "${name}"`, "gm")),
  ]);
  const names = imported.flatMap(([, list]) => list.split(",").map((item) => item.trim().split(" as ")[0]));
  return [...new Set(names)].filter((item) => item !== "" && !item.startsWith("type ")).sort();
}

function entries() {
  return {
    name: "entries",
    setup(build) {
      build.onResolve({ filter: /^apart:/ }, ({ path }) => ({ path: path.slice("apart:".length), namespace: "apart" }));
      build.onLoad({ filter: /.*/, namespace: "apart" }, ({ path }) => ({
        contents: `export ${APART[path].takes ?? `{ ${taken(path).join(", ")} }`} from "${path}";`,
        resolveDir: root,
      }));
    },
  };
}

/** Packages of the older kind have no named exports where they are imported when they are needed: here they have those that are taken. */
function named() {
  const older = ["ajv/dist/2020.js", "ajv-formats"];
  return {
    name: "named",
    setup(build) {
      build.onResolve({ filter: /^ajv/ }, ({ path, namespace }) =>
        older.includes(path) && namespace !== "named" ? { path, namespace: "named" } : undefined,
      );
      build.onLoad({ filter: /.*/, namespace: "named" }, ({ path }) => ({
        contents: `export ${APART[path].takes} from "${path}";`,
        resolveDir: root,
      }));
    },
  };
}

function apart() {
  const files = new Map(Object.entries(APART).map(([name, { file }]) => [name, file]));
  for (const name of SERVER.packages) files.set(name, SERVER.file);
  return {
    name: "apart",
    setup(build) {
      build.onResolve({ filter: /^[^./]/ }, ({ path }) =>
        files.has(path) ? { path: `./${files.get(path)}.cjs`, external: true } : undefined,
      );
    },
  };
}

/** Puts other contents in the place of modules. */
function inline(modules) {
  return {
    name: "inline",
    setup(build) {
      build.onResolve({ filter: /^inlined:/ }, ({ path }) => ({ path, namespace: "inlined" }));
      build.onLoad({ filter: /.*/, namespace: "inlined" }, ({ path }) => ({ contents: modules[path] }));
      build.onLoad({ filter: /[\\/](?:sb-source|worker-entry|own-modules)\.ts$/ }, ({ path }) => {
        const contents = modules[relative(root, path).replaceAll("\\", "/")];
        return contents === undefined ? undefined : { contents, resolveDir: root };
      });
    },
  };
}

/** Loads what is late when something of it is first asked for, not with the module that imports it. */
function late() {
  // In the library Node's own modules have no other loader than this one, which no bundler follows.
  const asked = (path) => (path.startsWith("node:") ? `process.getBuiltinModule("${path}")` : `require("${path}")`);
  const isLate = (path) => APART[path]?.isLate === true || LATE_OF_NODE.includes(path);
  return {
    name: "late",
    setup(build) {
      build.onResolve({ filter: /^[^./]/ }, ({ path, namespace }) =>
        isLate(path) && namespace !== "late" ? { path, namespace: "late" } : undefined,
      );
      build.onLoad({ filter: /.*/, namespace: "late" }, async ({ path }) => {
        const names = Object.keys(await import(path)).filter((name) => name !== "default");
        return {
          contents: `let loaded; for (const name of ${JSON.stringify(names)})
            Object.defineProperty(exports, name, { enumerable: true, get: () => (loaded ??= ${asked(path)})[name] });`,
          resolveDir: root,
        };
      });
    },
  };
}

function without() {
  return {
    name: "without",
    setup(build) {
      const names = Object.keys(UNUSED).map((name) => name.replace(/[./]/g, "\\$&"));
      build.onResolve({ filter: new RegExp(`^(?:${names.join("|")})$`) }, ({ path, importer }) =>
        UNUSED[path].by.test(importer) ? { path, namespace: "unused" } : undefined,
      );
      build.onLoad({ filter: /.*/, namespace: "unused" }, ({ path }) => ({ contents: UNUSED[path].is }));
      // To look up a class of Unicode takes as long as the rest of an option, and all of ours are of plain letters.
      build.onLoad({ filter: /[\\/]commander[\\/]lib[\\/]option\.js$/ }, ({ path }) => {
        const contents = readFileSync(path, "utf8").replace(
          "\\p{ID_Continue}\\.\\.\\.[>\\]]$/u",
          "\\w\\.\\.\\.[>\\]]$/",
        );
        if (contents.includes("ID_Continue")) throw new Error("commander reads options in another way");
        return { contents };
      });
    },
  };
}
