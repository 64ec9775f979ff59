// Builds dist/: the library with its types (tsc), and the command as one file, because reading one file instead of sixty is
// most of what its start costs.
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
rmSync(join(root, "dist"), { recursive: true, force: true });
const tsc = spawnSync("tsc", ["-p", "tsconfig.build.json"], {
  cwd: root,
  stdio: "inherit",
  shell: process.platform === "win32",
});
if (tsc.status !== 0) process.exit(tsc.status ?? 1);

// commander can start sub-commands that are programs of their own. None here is, and loading what it would need costs a tenth
// of the command's start.
const withoutPrograms = {
  name: "without-programs",
  setup(build) {
    build.onResolve({ filter: /^node:child_process$/ }, ({ importer }) =>
      /[\\/]commander[\\/]/.test(importer) ? { path: "none", namespace: "without-programs" } : undefined,
    );
    build.onLoad({ filter: /^none$/, namespace: "without-programs" }, () => ({ contents: "export default {};" }));
  },
};

await build({
  absWorkingDir: root,
  entryPoints: ["src/cli/bin.ts"],
  outfile: "dist/cli.cjs",
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node22",
  minify: process.env.SKILLET_PLAIN === undefined,
  legalComments: "none",
  define: { "import.meta.dirname": "__dirname", SKILLET_VERSION: JSON.stringify(version) },
  external: ["chokidar"],
  plugins: [withoutPrograms],
  logLevel: "warning",
});
