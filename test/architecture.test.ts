import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { describe, expect, it } from "vitest";
import { listTestFiles, RUNS_CODE } from "./support/tiers.ts";

const root = join(import.meta.dirname, "..");
const source = join(root, "src");

/** Each layer may import from those before it, and from itself. */
const LAYERS = [
  ["errors"],
  ["util"],
  ["skill"],
  ["scan"],
  ["catalog"],
  ["host"],
  ["store"],
  ["config"],
  ["sandbox"],
  ["capabilities"],
  ["agent"],
  ["remote/clients"],
  ["remote"],
  ["eval"],
  ["adapters"],
  ["testing"],
  ["cli", "index.ts"],
];

/** The only files that may import a package. */
const ONLY: Record<string, RegExp> = {
  diff: /^util\/diff\.ts$/,
  "js-yaml": /^skill\/frontmatter\.ts$/,
  "smol-toml": /^config\/config-file\.ts$/,
  chokidar: /^skill\/source\/watch-folders\.ts$/,
  commander: /^cli\//,
  re2js: /^catalog\/search\/pattern-index\.ts$/,
  stemmer: /^catalog\/search\/tokenizer\.ts$/,
  ai: /^adapters\/ai-sdk\/|^agent\/(?:models|run)\/|^util\/peer-packages\.ts$/,
  "@ai-sdk/anthropic": /^util\/peer-packages\.ts$/,
  "@ai-sdk/openai": /^util\/peer-packages\.ts$/,
  "@ai-sdk/openai-compatible": /^util\/peer-packages\.ts$/,
  pg: /^util\/peer-packages\.ts$|^adapters\/postgres\/(?:database|dispatcher)\.ts$/,
  "@dbos-inc/dbos-sdk": /^util\/peer-packages\.ts$|^adapters\/postgres\/dispatcher\.ts$/,
  "@dbos-inc/dbos-sdk/internal/system_database": /^util\/peer-packages\.ts$/,
  "@dbos-inc/dbos-sdk/internal/sysdb_migrations/internal/migrations": /^util\/peer-packages\.ts$/,
  "@dbos-inc/dbos-sdk/internal/utils": /^util\/peer-packages\.ts$/,
  ajv: /^host\/json-schema\.ts$/,
  "ajv/dist/2020.js": /^host\/json-schema\.ts$/,
  "ajv-formats": /^host\/json-schema\.ts$/,
  jose: /^capabilities\/capability-broker\.ts$|^adapters\/mcp-server\/oauth\.ts$/,
  "@modelcontextprotocol/client":
    /^config\/mcp-connection\.ts$|^config\/skills-server\.ts$|^agent\/mcp-client\/|^util\/peer-packages\.ts$/,
  "@modelcontextprotocol/client/ext/skills": /^config\/skills-server\.ts$|^util\/peer-packages\.ts$/,
  "@modelcontextprotocol/client/stdio": /^util\/peer-packages\.ts$/,
  "@modelcontextprotocol/server": /^adapters\/mcp-server\//,
  "@modelcontextprotocol/server/ext/skills": /^adapters\/mcp-server\//,
  "@modelcontextprotocol/server/stdio": /^adapters\/mcp-server\//,
};

interface Import {
  from: string;
  to: string;
}

const files = readdirSync(source, { recursive: true, encoding: "utf8" })
  .map((path) => path.replaceAll("\\", "/"))
  .filter((path) => path.endsWith(".ts"));
const textOf = (path: string) => readFileSync(join(source, path), "utf8");
const imports: Import[] = files.flatMap((from) =>
  [...textOf(from).matchAll(/(?:^import |^} from |^(?:import|export) .* from |\bimport\()"([^"\s]+)"/gm)].map(
    ([, to = ""]) => ({ from, to }),
  ),
);

const layerOf = (path: string) => {
  const [folder = "", subfolder] = path.split("/");
  const nested = LAYERS.findIndex((names) => names.includes(`${folder}/${subfolder}`));
  return nested >= 0 ? nested : LAYERS.findIndex((names) => names.includes(folder));
};
const resolved = ({ from, to }: Import) => posix.normalize(posix.join(posix.dirname(from), to));

/** Lists the files that a file imports when it starts: neither types alone, nor with `import()`. */
function listValueImports(from: string): string[] {
  const statements = textOf(from).matchAll(/^(?:import|export)\s(?!type\b)(?:([^;"]*?)\sfrom\s)?"(\.[^"]+)"/gm);
  return [...statements].flatMap(([, names = "", to = ""]) => {
    const inner = /^\s*\{([^}]*)\}\s*$/.exec(names)?.[1];
    const isOfTypes = inner?.split(",").every((name) => name.trim() === "" || name.trim().startsWith("type "));
    return isOfTypes ? [] : resolved({ from, to });
  });
}

describe("architecture", () => {
  it("names only existing files and folders in the list of tests that run code", () => {
    const paths = listTestFiles().map((path) => path.replace(/^test\//, ""));
    expect(RUNS_CODE.filter((start) => !paths.some((path) => path.startsWith(start)))).toEqual([]);
  });

  it("puts every file into a layer, in at most 16 folders", () => {
    expect(files.filter((path) => layerOf(path) === -1)).toEqual([]);
    const folders = new Set(files.filter((path) => path.includes("/")).map((path) => path.split("/")[0]));
    expect(folders.size).toBeLessThanOrEqual(16);
  });

  it("lets a layer import only from those below it", () => {
    const wrong = imports.filter((entry) => entry.to.startsWith(".") && layerOf(resolved(entry)) > layerOf(entry.from));
    expect(wrong).toEqual([]);
  });

  it("has no file that imports itself through others", () => {
    const graph = new Map(files.map((from): [string, string[]] => [from, listValueImports(from)]));
    // Files that import nothing that is left, and then those that import only these.
    for (let before = -1; before !== graph.size; ) {
      before = graph.size;
      for (const [from, to] of graph) if (!to.some((path) => graph.has(path))) graph.delete(from);
    }
    expect([...graph.keys()]).toEqual([]);
  });

  it("separates layers of one rank", () => {
    const wrong = imports.filter((entry) => {
      const [own, other] = [entry.from.split("/")[0], resolved(entry).split("/")[0]];
      return (
        entry.to.startsWith(".") &&
        own !== other &&
        own !== "index.ts" &&
        layerOf(resolved(entry)) === layerOf(entry.from)
      );
    });
    expect(wrong).toEqual([]);
  });

  it("imports a package only in its own module", () => {
    const packages = imports.filter(({ to }) => !to.startsWith(".") && !to.startsWith("node:"));
    expect(packages.filter(({ from, to }) => !ONLY[to]?.test(from))).toEqual([]);
  });

  it("does no input or output in modules that decide", () => {
    const pure = /^(?:skill\/(?!source\/)|scan\/|catalog\/)/;
    expect(imports.filter(({ from, to }) => pure.test(from) && to.startsWith("node:"))).toEqual([]);
    const clock = files.filter(
      (path) => pure.test(path) && /\bprocess\.|Date\.now|new Date\(|Math\.random/.test(textOf(path)),
    );
    expect(clock).toEqual([]);
  });

  it("writes to the terminal only from the command line, and never ends the process", () => {
    // Two files hold the text of a program that runs inside a sandbox.
    const own = files.filter((path) => !/^sandbox\/(?:sandbox-network|probe-program)\.ts$/.test(path));
    const wrong = own.filter(
      (path) => !path.startsWith("cli/") && /\bconsole\.|process\.std(?:out|err)/.test(textOf(path)),
    );
    expect(wrong).toEqual([]);
    expect(own.filter((path) => /process\.exit\(/.test(textOf(path)))).toEqual([]);
  });

  it("starts processes only in the sandbox modules", () => {
    // One file holds the text of a plugin that OpenCode runs.
    const own = (path: string) =>
      !path.startsWith("sandbox/") && path !== "util/system.ts" && path !== "remote/clients/prompt-hook-config.ts";
    const starting = imports.filter(({ to }) => to === "node:child_process").map(({ from }) => from);
    expect(starting.length).toBeGreaterThan(0);
    expect(starting.filter(own)).toEqual([]);
    expect(files.filter((path) => own(path) && /child_process/.test(textOf(path)))).toEqual([]);
  });

  it("compares paths only in the path guard", () => {
    const wrong = files.filter(
      (path) => path !== "util/safe-path.ts" && /startsWith\([^)]*(?:\bsep\b|[rR]oot|[fF]older)/.test(textOf(path)),
    );
    expect(wrong).toEqual([]);
  });

  it("keeps files short enough to read", () => {
    // Tables of keys and codes are read by their rows.
    const own = files.filter((path) => !/^(?:config\/config-keys|errors\/finding-codes)\.ts$/.test(path));
    expect(own.filter((path) => textOf(path).split("\n").length > 451)).toEqual([]);
  });

  it("gives each exported type, and each file, a unique name", () => {
    const types = files.flatMap((path) =>
      [...textOf(path).matchAll(/^export (?:interface|type|(?:abstract )?class) (\w+)/gm)].map(([, name = ""]) => name),
    );
    expect(types.length).toBeGreaterThan(400);
    expect(types.filter((name, index) => types.indexOf(name) !== index)).toEqual([]);
    const names = files
      .filter((path) => !path.startsWith("cli/commands/"))
      .map((path) => posix.basename(path))
      .filter((name) => name !== "index.ts");
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it("names exported functions by what they do, not by a bare participle", () => {
    const exported = files.flatMap((path) =>
      [...textOf(path).matchAll(/^export (?:async )?function (\w+)/gm)].map(([, name = ""]) => name),
    );
    expect(exported.length).toBeGreaterThan(900);
    const participle = /^(?!embed$|feed$|need$|markdown$)[a-z]+(?:ed|aid|old|ept|ade|ought|iven|aken|oken|own)$/;
    expect(exported.filter((name) => participle.test(name))).toEqual([]);
  });

  it("loads nothing heavy when the library is imported", () => {
    const script = `import { registerHooks } from "node:module";
      const seen = [];
      registerHooks({ load: (url, context, next) => { seen.push(url); return next(url, context); } });
      await import(${JSON.stringify(join(source, "index.ts"))});
      console.log(JSON.stringify([...seen, ...process.moduleLoadList]));`;
    const loaded = execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect(loaded, "the list exists").toMatch(/NativeModule fs.*/);
    expect(loaded, "packages are in it").toMatch(/\/node_modules\/js-yaml\//);
    expect(loaded).not.toMatch(/NativeModule http2|NativeModule sqlite|NativeModule worker_threads"/);
    expect(loaded).not.toMatch(/\/node_modules\/(?:ai|@ai-sdk|zod|@modelcontextprotocol|@anthropic-ai)\//);
  });
});
