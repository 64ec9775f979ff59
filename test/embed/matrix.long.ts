import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { writeFiles } from "../support/folder.ts";
import { createProject, type EmbeddingProject, PRINTED } from "./project.ts";

let project: EmbeddingProject;
beforeEach(() => {
  project = createProject();
});
afterEach(() => project.remove());

const bin = (name: string) => join(project.folder, "node_modules", ".bin", name);

interface Bundler {
  name: string;
  packages: readonly string[];
  files?: Record<string, string>;
  command: readonly [string, ...string[]];
  /** The started file, in the folder `out`. */
  entry: string;
}

const ROLLUP_CONFIG = `import resolve from "@rollup/plugin-node-resolve";
import commonjs from "@rollup/plugin-commonjs";
export default {
  input: "app.mjs",
  output: { dir: "out", format: "esm", entryFileNames: "app.mjs", chunkFileNames: "[name]-[hash].mjs" },
  plugins: [resolve({ preferBuiltins: true, exportConditions: ["node"] }), commonjs()],
};
`;
const VITE_CONFIG = `export default {
  build: { ssr: "app.mjs", outDir: "out", rolldownOptions: { output: { entryFileNames: "app.mjs" } } },
  ssr: { noExternal: true },
};
`;
const WEBPACK_CONFIG = `module.exports = {
  mode: "production",
  target: "node22",
  entry: "./app.mjs",
  output: { path: __dirname + "/out", filename: "app.cjs" },
};
`;
const ESBUILD = ["app.mjs", "--bundle", "--platform=node", "--minify", "--keep-names"];

const BUNDLERS: readonly Bundler[] = [
  {
    name: "esbuild (ESM)",
    packages: ["esbuild@0.28.2"],
    command: ["esbuild", ...ESBUILD, "--format=esm", "--outfile=out/app.mjs"],
    entry: "app.mjs",
  },
  {
    name: "esbuild (ESM, split)",
    packages: ["esbuild@0.28.2"],
    command: ["esbuild", ...ESBUILD, "--format=esm", "--splitting", "--outdir=out", "--out-extension:.js=.mjs"],
    entry: "app.mjs",
  },
  {
    name: "esbuild (CommonJS)",
    packages: ["esbuild@0.28.2"],
    command: ["esbuild", ...ESBUILD, "--format=cjs", "--outfile=out/app.cjs"],
    entry: "app.cjs",
  },
  {
    name: "Rollup",
    packages: ["rollup@4", "@rollup/plugin-node-resolve", "@rollup/plugin-commonjs"],
    files: { "rollup.config.mjs": ROLLUP_CONFIG },
    command: ["rollup", "-c", "rollup.config.mjs", "--silent"],
    entry: "app.mjs",
  },
  {
    name: "Vite (SSR)",
    packages: ["vite@8.3.5", "rolldown@1.2.15"],
    files: { "vite.config.mjs": VITE_CONFIG },
    command: ["vite", "build", "--logLevel", "warn"],
    entry: "app.mjs",
  },
  {
    name: "webpack",
    packages: ["webpack@5", "webpack-cli@6"],
    files: { "webpack.config.cjs": WEBPACK_CONFIG },
    command: ["webpack"],
    entry: "app.cjs",
  },
];

describe("a program in one bundle, without the package", () => {
  it.each(BUNDLERS)("finds, discloses, uses and loads skills: $name", ({ packages, files = {}, command, entry }) => {
    writeFiles(project.folder, files);
    project.install(...packages);
    const [program, ...args] = command;
    project.run(bin(program), ...args);
    expect(project.runBundled("out", entry)).toEqual({ ...PRINTED, names: ["rates"] });
  });

  it("finds, discloses, uses and loads skills in a server of Next.js", async () => {
    const args = ["home", "workspace"].map((name) => JSON.stringify(join(project.folder, name))).join(", ");
    writeFiles(project.folder, {
      "app/layout.jsx": "export default ({ children }) => <html><body>{children}</body></html>;\n",
      "app/api/route.js": `import { trySkills } from "../../skills.mjs";
        export const dynamic = "force-dynamic";
        export const GET = async () => Response.json(await trySkills(${args}));\n`,
    });
    project.install("next@16", "react@19", "react-dom@19");
    project.run(bin("next"), "build");
    const server = spawn(bin("next"), ["start", "--port", "0", "--hostname", "127.0.0.1"], {
      cwd: project.folder,
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      let said = "";
      for await (const piece of server.stdout) {
        said += piece;
        if (/Ready in/.test(said)) break;
      }
      const [url = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(said) ?? [];
      const answer = await (await fetch(`${url}/api`)).json();
      expect(answer).toEqual({ ...PRINTED, names: ["rates"] });
    } finally {
      server.kill();
    }
  });

  // esbuild keeps an import of a missing package: it fails when it is needed.
  it("includes the model's SDK if it is installed, in one copy", () => {
    project.install("esbuild@0.28.2", "ai@7.0.100", "@ai-sdk/anthropic@4");
    const copies = project.run("npm", "ls", "ai", "--all", "--parseable").trim().split("\n");
    expect(copies).toHaveLength(1);
    project.run(bin("esbuild"), ...ESBUILD, "--format=esm", "--outfile=out/app.mjs", "--metafile=meta.json");
    expect(project.run("cat", "meta.json")).toContain("node_modules/ai/dist/");
    expect(project.runBundled("out", "app.mjs")).toEqual({ ...PRINTED, names: ["rates"] });
  });
});

describe("the types of the package", () => {
  const VERSIONS = ["5.4", "5.5", "5.9", "6", "7"];
  const MODES = [
    ["node16", "node16"],
    ["nodenext", "nodenext"],
    ["esnext", "bundler"],
  ];
  it.each(VERSIONS)("resolve without skipLibCheck with TypeScript %s", (version) => {
    project.install(`typescript@${version}`, "@types/node@22");
    for (const [module = "", resolution = ""] of MODES) {
      const options = ["--noEmit", "--strict", "--target", "es2022", "--types", "node"];
      project.run(bin("tsc"), ...options, "--module", module, "--moduleResolution", resolution, "types.mts");
    }
  });

  it.each(VERSIONS)("of modules that need the SDKs have no error of skillet with TypeScript %s", (version) => {
    project.install(`typescript@${version}`, "@types/node@22", "ai@7", "@modelcontextprotocol/server@2", "zod@4");
    const program = `import { createSkillToolset } from "skillet/ai";
      import { createMcpServer } from "skillet/mcp";
      export const modules = [createSkillToolset, createMcpServer];\n`;
    writeFileSync(join(project.folder, "sdks.mts"), program);
    const options = ["--noEmit", "--strict", "--target", "es2022", "--types", "node", "--lib", "es2024,dom"];
    let said = "";
    try {
      project.run(bin("tsc"), ...options, "--module", "nodenext", "--pretty", "false", "sdks.mts");
    } catch (error) {
      said = (error as Error).message;
    }
    // Errors in the SDKs' own declarations for another compiler do not count.
    expect(said.split("\n").filter((line) => /^(?:node_modules\/skillet\/|sdks\.mts)/.test(line))).toEqual([]);
  });
});
