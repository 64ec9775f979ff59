// Builds dist/: the library with its types (tsc), and the command as one file, because reading one file instead of sixty is
// most of what its start costs.
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const shell = process.platform === "win32";

/** Packages that most starts do without: each a file of its own beside the command's. */
const APART = { "js-yaml": "yaml.cjs", "smol-toml": "toml.cjs", re2js: "re2.cjs" };
/** Packages that are taken from where they are installed: what they do takes far longer than loading them. */
const INSTALLED = ["chokidar", "ai", "@ai-sdk/*", "ajv", "ajv-formats"];

const shared = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node22",
  minify: true,
  legalComments: "none",
  logLevel: "warning",
};

const startsFast = {
  name: "starts-fast",
  setup(build) {
    build.onResolve({ filter: /^(?:js-yaml|smol-toml|re2js)$/ }, ({ path }) => ({
      path: `./${APART[path]}`,
      external: true,
    }));
    // commander can start sub-commands that are programs of their own. None here is, and loading what it would need costs a
    // tenth of the command's start.
    build.onResolve({ filter: /^node:child_process$/ }, ({ importer }) =>
      /[\\/]commander[\\/]/.test(importer) ? { path: "none", namespace: "nothing" } : undefined,
    );
    build.onLoad({ filter: /^none$/, namespace: "nothing" }, () => ({ contents: "export default {};" }));
  },
};

rmSync(join(root, "dist"), { recursive: true, force: true });
const tsc = spawnSync("tsc", ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit", shell });
if (tsc.error) console.error(`tsc could not be started: ${tsc.error.message} (run it as \`npm run prepare\`)`);
if (tsc.status !== 0) process.exit(tsc.status ?? 1);
await build({
  ...shared,
  entryPoints: ["src/cli/bin.ts"],
  outfile: "dist/cli.cjs",
  external: INSTALLED,
  define: { "import.meta.dirname": "__dirname", SKILLET_VERSION: JSON.stringify(version) },
  plugins: [startsFast],
});
for (const [name, file] of Object.entries(APART)) {
  await build({
    ...shared,
    stdin: { contents: `export * from "${name}";`, resolveDir: root },
    outfile: join("dist", file),
  });
}
