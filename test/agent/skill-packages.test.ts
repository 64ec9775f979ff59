import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runScript } from "../../src/agent/run/run-script.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { cachedBase, canBuild, lackedPackages, places } from "../sandbox/packages/place.ts";
import { skillet } from "../support/command.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { HAS_ORDINARY_USER, ORDINARY_USER } from "../support/ordinary-user.ts";
import {
  npmRegistry,
  type PackageServer,
  pythonIndex,
  type ServedPackage,
  wheelOf,
} from "../support/package-servers.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";

const WORDS: ServedPackage = { name: "words", version: "2.1", files: { "words.py": "HELLO = 'hello'\n" } };
const GREETING: ServedPackage = {
  name: "greeting",
  version: "1.0",
  files: {
    "greeting.py": "import words\ndef hello(name): return words.HELLO + ' ' + name\ndef main(): print(hello('tool'))\n",
  },
  requires: ["words>=2"],
  programs: ["greet = greeting:main"],
};
const LINES: ServedPackage = {
  name: "lines",
  version: "1.2.0",
  files: {
    "index.js": "module.exports = (text) => text.split('\\n').length;\n",
    "cli.js": "#!/usr/bin/env node\nconsole.log('cli');\n",
  },
  manifest: {
    main: "index.js",
    bin: { "count-lines": "cli.js" },
    scripts: { postinstall: "touch /tmp/skillet-ran-an-install-script; echo ran > ran.txt" },
  },
  entries: [{ name: "package/passwd", type: "2", target: "/etc/passwd" }],
};

let index: PackageServer;
let registry: PackageServer;
beforeAll(async () => {
  index = await pythonIndex(WORDS, GREETING);
  registry = await npmRegistry(LINES);
});
afterAll(() => {
  index.close();
  registry.close();
});

interface PackagesScene extends Scene {
  packages: string;
  env: Record<string, string>;
}

async function scene(
  config: string,
  files: Record<string, string>,
  more: Record<string, string> = {},
): Promise<PackagesScene> {
  const packages = temporaryFolder(); // As root, the machine's default cache would be used.
  chmodSync(packages, 0o755);
  const given = { PIP_INDEX_URL: index.url, npm_config_registry: registry.url, SKILLET_PACKAGES: packages };
  const variables = { PATH: process.env["PATH"] ?? "", ...given, ...more };
  const found = await discoverIn(
    {
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      ...Object.fromEntries(Object.entries(files).map(([path, text]) => [`home/.skillet/skills/x/${path}`, text])),
      "home/.skillet/config.toml": config,
    },
    variables,
  );
  chmodSync(found.root, 0o755);
  return { ...found, packages, env: { HOME: join(found.root, "home"), ...variables } };
}

const run = (found: Scene, script: string, args: string[] = []) =>
  runScript(found, { skill: found.skill("x"), script, args });
const commandLine = ({ env, root }: PackagesScene, ...args: string[]) => skillet(args, { env, cwd: root });

function lockIn({ packages }: PackagesScene) {
  const [file = ""] = readdirSync(join(packages, "locks"));
  return JSON.parse(readFileSync(join(packages, "locks", file), "utf8"));
}

function layersIn({ packages }: PackagesScene): string[] {
  return readdirSync(join(packages, "libraries"))
    .filter((name) => !name.startsWith("."))
    .map((name) => join(packages, "libraries", name));
}

const SCRIPTS = {
  "scripts/go.py": "import greeting, sys\nprint(greeting.hello(sys.argv[1]))\n",
  "scripts/go.mjs": 'import lines from "lines";\nconsole.log(lines("a\\nb"));\n',
  "scripts/go.cjs": 'console.log(require("lines")("a"));\n',
};

describe("Python packages that a user adds to a skill", { timeout: 60_000 }, () => {
  it("[S-45] are locked with hashes, work offline after the first build, and leave the skill's bytes unchanged", async () => {
    const found = await scene('[skills.x]\npython = ["greeting>=1"]\n', { ...SCRIPTS, "scripts/tool.sh": "greet" });
    const before = (await copySkill(found.skill("x"))).digest;
    const first = run(found, "go.py", ["you"]);
    const events: string[] = [];
    for await (const event of first) events.push(event.type);
    expect(await first).toMatchObject({ stdout: "hello you\n", exitCode: 0, refusals: [] });
    expect(events).toContain("packages-built");
    const sha256 = (one: ServedPackage) => `sha256-${createHash("sha256").update(wheelOf(one)).digest("base64")}`;
    expect(lockIn(found)).toMatchObject({
      version: 1,
      kind: "python",
      wanted: ["greeting>=1"],
      packages: [
        { name: "greeting", version: "1.0", file: "greeting-1.0-py3-none-any.whl", integrity: sha256(GREETING) },
        { name: "words", version: "2.1", integrity: sha256(WORDS) },
      ],
    });
    const { length } = index.asked;
    expect(await run(found, "go.py", ["again"])).toMatchObject({ stdout: "hello again\n", exitCode: 0 });
    expect(await run(found, "tool.sh")).toMatchObject({ stdout: "hello tool\n", exitCode: 0 });
    expect(index.asked, "nothing is requested again").toHaveLength(length);
    expect((await copySkill(found.skill("x"))).digest).toBe(before);
  });

  it("[S-45][Q-18] are refused when a file of the layer changed, and `packages build` restores them from the lock", async () => {
    const found = await scene('[skills.x]\npython = ["words"]\n', {
      "scripts/w.py": "import words; print(words.HELLO)",
    });
    expect((await run(found, "w.py")).stdout).toBe("hello\n");
    const [layer = ""] = layersIn(found);
    const [python = ""] = readdirSync(join(layer, "files/lib"));
    appendFileSync(join(layer, "files/lib", python, "site-packages/words.py"), "print('tampered')\n");
    expect(await run(found, "w.py")).toMatchObject({
      ending: "refused",
      refusals: [{ code: "library-tampered", commands: [expect.stringContaining("skillet packages build")] }],
    });
    const lock = lockIn(found);
    expect((await commandLine(found, "packages", "build", "x")).code).toBe(0);
    expect((await run(found, "w.py")).stdout).toBe("hello\n");
    expect(lockIn(found)).toEqual(lock);
  });

  it("[S-45][Q-18] are refused when the index serves a file that differs from the lock, until `--update`", async () => {
    const found = await scene('[skills.x]\npython = ["words"]\n', {
      "scripts/w.py": "import words; print(words.HELLO)",
    });
    const own = await pythonIndex(WORDS);
    try {
      found.env["PIP_INDEX_URL"] = own.url;
      expect((await commandLine(found, "packages", "build", "x")).code).toBe(0);
      const lock = lockIn(found);
      for (const layer of layersIn(found)) rmSync(layer, { recursive: true });
      own.serve({ ...WORDS, files: { "words.py": "HELLO = 'tampered'\n" } });
      const refused = await commandLine(found, "packages", "build", "x");
      expect(refused.code).toBe(1);
      expect(refused.stderr).toContain("library-tampered");
      expect(layersIn(found)).toEqual([]);
      expect(lockIn(found)).toEqual(lock);
      own.serve({ ...WORDS, version: "2.2", files: { "words.py": "HELLO = 'new'\n" } });
      expect((await commandLine(found, "packages", "build", "x", "--update")).code).toBe(0);
      expect(lockIn(found).packages).toMatchObject([{ name: "words", version: "2.2" }]);
      expect((await run(found, "w.py")).stdout).toBe("new\n");
    } finally {
      own.close();
    }
  });

  it("[S-45] can be built for the first time by several concurrent runs", async () => {
    const found = await scene('[skills.x]\npython = ["words"]\n', {
      "scripts/w.py": "import words; print(words.HELLO)",
    });
    const results = await Promise.all([1, 2].map(() => run(found, "w.py")));
    expect(results.map(({ stdout }) => stdout)).toEqual(["hello\n", "hello\n"]);
    expect(layersIn(found)).toHaveLength(1);
  });

  it("[S-45] must be wheels: a source package is refused, since building it would run its code", async () => {
    index.serve(WORDS, GREETING, { name: "source", version: "1.0", isSource: true, files: { "setup.py": "exit(3)" } });
    const found = await scene('[skills.x]\npython = ["source"]\n', SCRIPTS);
    const [refusal] = (await run(found, "go.py")).refusals;
    expect(refusal).toMatchObject({
      code: "library-unresolved",
      fix: expect.stringContaining("building one would run its code"),
    });
    expect(index.asked).toContain("/simple/source/");
    expect(index.asked.filter((path) => path.endsWith(".tar.gz"))).toEqual([]);
    expect(readdirSync(join(found.packages, "libraries"))).toEqual([]);
  });

  it("[S-45] are refused when a dependency is a URL: it is neither fetched nor run", async () => {
    const source = temporaryFolder();
    chmodSync(source, 0o777);
    const ran = join(source, "ran");
    writeFileSync(
      join(source, "setup.py"),
      `open(${JSON.stringify(ran)}, "w")\nfrom setuptools import setup\nsetup(name="evil", version="1.0")\n`,
    );
    const elsewhere = await pythonIndex(WORDS);
    const urls = [
      `file://${source}`,
      "git+https://127.0.0.1:1/evil.git",
      `${elsewhere.url}/files/words-2.1-py3-none-any.whl`,
    ];
    try {
      for (const [at, url] of sampleRows(urls, 1).entries()) {
        index.serve(WORDS, GREETING, { name: `leads${at}`, version: "1.0", files: {}, requires: [`evil @ ${url}`] });
        const found = await scene(`[skills.x]\npython = ["leads${at}"]\n`, { "scripts/s.py": "" });
        const [refusal] = (await run(found, "s.py")).refusals;
        expect(refusal).toMatchObject({ code: "library-unresolved" });
        expect(refusal?.message).toContain("a dependency is a URL, which is refused");
      }
    } finally {
      elsewhere.close();
      index.serve(WORDS, GREETING);
    }
    expect(elsewhere.asked).toEqual([]);
    expect(existsSync(ran)).toBe(false);
  });

  it("[S-27][S-45] include the packages that a script declares when uv is missing", async () => {
    const inline = '# /// script\n# dependencies = ["greeting>=1"]\n# ///\n';
    const found = await scene("", {
      "scripts/go.py": `${inline}${SCRIPTS["scripts/go.py"]}`,
      "scripts/other.sh": "ls -d /opt/skillet/venv; echo other",
    });
    const { length } = index.asked;
    expect(await run(found, "other.sh"), "it declares none, so none are fetched").toMatchObject({
      stdout: "other\n",
      warnings: [],
    });
    expect(index.asked).toHaveLength(length);
    expect(await run(found, "go.py", ["inline"])).toMatchObject({ stdout: "hello inline\n", exitCode: 0 });
    expect((await run(found, "other.sh")).stdout, "but it uses existing ones").toBe("/opt/skillet/venv\nother\n");
  });
});

describe("npm packages that a user adds to a skill", { timeout: 60_000 }, () => {
  it("[S-45] resolve with import and require, work offline after the first build, and run no install script", async () => {
    const found = await scene('[skills.x]\nnpm = ["lines@^1"]\n', {
      ...SCRIPTS,
      "scripts/tool.sh": "count-lines; ls -a /node_modules/lines",
    });
    expect(await run(found, "go.mjs")).toMatchObject({ stdout: "2\n", exitCode: 0, refusals: [] });
    const { length } = registry.asked;
    expect(await run(found, "go.cjs")).toMatchObject({ stdout: "1\n", exitCode: 0 });
    const { stdout } = await run(found, "tool.sh");
    expect(stdout.split("\n").slice(0, -1)).toEqual(["cli", ".", "..", "cli.js", "index.js", "package.json"]);
    expect(registry.asked).toHaveLength(length);
    expect(lockIn(found)).toMatchObject({
      kind: "npm",
      wanted: ["lines@^1"],
      packages: [
        {
          name: "lines",
          version: "1.2.0",
          integrity: expect.stringMatching(/^sha512-/),
          places: ["node_modules/lines"],
        },
      ],
    });
  });

  it("[S-45][Q-18] are refused when the registry serves a file that differs from the lock, or the layer changed", async () => {
    const found = await scene('[skills.x]\nnpm = ["lines"]\n', SCRIPTS);
    const own = await npmRegistry(LINES);
    try {
      found.env["npm_config_registry"] = own.url;
      expect((await commandLine(found, "packages", "build", "x")).code).toBe(0);
      const [layer = ""] = layersIn(found);
      appendFileSync(join(layer, "files/lines/index.js"), "console.log('tampered');\n");
      expect((await run(found, "go.mjs")).refusals).toMatchObject([{ code: "library-tampered" }]);
      own.serve({ ...LINES, files: { "index.js": "module.exports = () => 'tampered';\n" } });
      const refused = await commandLine(found, "packages", "build", "x");
      expect(refused.code).toBe(1);
      expect(refused.stderr).toContain("library-tampered");
    } finally {
      own.close();
    }
  });

  it("[S-45] are refused when a dependency is not from a registry", async () => {
    const own = await npmRegistry({ ...LINES, manifest: { dependencies: { other: "git+file:///nowhere/other.git" } } });
    try {
      const found = await scene('[skills.x]\nnpm = ["lines"]\n', SCRIPTS, { npm_config_registry: own.url });
      expect((await run(found, "go.mjs")).refusals).toMatchObject([{ code: "library-unresolved" }]);
    } finally {
      own.close();
    }
  });

  it("[S-45][Q-18] are refused when their lock names options, or files and folders outside the layer", async () => {
    const found = await scene('[skills.x]\nnpm = ["lines"]\n', SCRIPTS);
    expect((await commandLine(found, "packages", "build", "x")).code).toBe(0);
    const [name = ""] = readdirSync(join(found.packages, "locks"));
    const file = join(found.packages, "locks", name);
    const lock = readFileSync(file, "utf8");
    const edits = [
      ["node_modules/lines", "node_modules/../../x"],
      ["node_modules/lines", "/etc"],
      ["lines-1.2.0.tgz", "../lines-1.2.0.tgz"],
      ["sha512-", "sha1-"],
      ['"name": "lines"', '"name": "--prefix=/"'],
      ['"version": "1.2.0"', '"version": "1.2.0 --registry=http://x"'],
    ] as const;
    for (const [from, to] of sampleRows(edits, 3)) {
      expect(lock).toContain(from);
      writeFileSync(file, lock.replace(from, to));
      expect((await run(found, "go.mjs")).refusals, to).toMatchObject([{ code: "library-lock" }]);
    }
    expect((await commandLine(found, "packages", "build", "x", "--update")).code).toBe(0);
    expect((await run(found, "go.mjs")).exitCode).toBe(0);
  });

  it("[S-45] are listed with the skills that use them, and pruned when none does; their lock stays", async () => {
    const found = await scene('[skills.x]\nnpm = ["lines"]\n', SCRIPTS);
    expect((await commandLine(found, "packages", "build", "x")).stdout).toContain(
      "lines  npm packages, ready, 1 package",
    );
    const listed = JSON.parse((await commandLine(found, "packages", "list", "--json")).stdout);
    expect(listed.libraries).toMatchObject([
      { kind: "npm", wanted: ["lines"], skills: ["x"], isCurrent: true, isOwn: true },
    ]);
    const prune = async () => JSON.parse((await commandLine(found, "packages", "prune", "--yes", "--json")).stdout);
    expect((await prune()).libraries).toEqual([]);
    const lock = lockIn(found);
    expect((await commandLine(found, "config", "unset", "skills.x.npm")).code).toBe(0);
    expect((await prune()).libraries).toMatchObject([{ wanted: ["lines"] }]);
    expect(layersIn(found)).toEqual([]);
    expect(lockIn(found)).toEqual(lock);
  });

  it("[S-45] come from the registry that the user's npm is configured for", async () => {
    // Keeps the npm configuration of the user who runs the tests: registry, proxy, certificates.
    const { HOME: _, SKILLET_PACKAGES: __, ...own } = process.env as Record<string, string>;
    const registryHere = own["npm_config_registry"] ?? "https://registry.npmjs.org/";
    const found = await scene(
      '[skills.x]\nnpm = ["ms@2.1.3"]\n',
      { "scripts/ms.mjs": 'import ms from "ms";\nconsole.log(ms("2 days"));\n' },
      { ...own, npm_config_registry: registryHere, npm_config_userconfig: join(homedir(), ".npmrc") },
    );
    expect(await run(found, "ms.mjs")).toMatchObject({ stdout: "172800000\n", exitCode: 0, refusals: [] });
  });
});

describe.skipIf(!HAS_ORDINARY_USER)("packages of an ordinary user", { timeout: 60_000 }, () => {
  it("[S-45] of both kinds are built in the user's home and used from there", async () => {
    const found = await scene('[skills.x]\npython = ["greeting"]\nnpm = ["lines"]\n', SCRIPTS);
    const { SKILLET_PACKAGES: _, ...env } = found.env;
    if (process.getuid?.() === 0) execFileSync("/bin/chown", ["-R", `${ORDINARY_USER}`, found.root]);
    const start = (...args: string[]) => runSkilletProcess(args, { cwd: found.root, env, isOrdinary: true });
    expect(await start("script", "x", "go.py", "you")).toMatchObject({ code: 0, stdout: "hello you\n" });
    const asked = [index.asked.length, registry.asked.length];
    expect(await start("script", "x", "go.mjs")).toMatchObject({ code: 0, stdout: "2\n" });
    expect([index.asked.length, registry.asked.length]).toEqual(asked);
    expect(readdirSync(join(found.root, "home/.skillet/packages/libraries"))).toHaveLength(2);
  });
});

describe.skipIf(!canBuild)("system packages that a user adds to a skill", { timeout: 240_000 }, () => {
  it("[S-26][S-45] are in its sandbox together with its npm packages, though the skill declares none", async () => {
    await cachedBase();
    const [lacked = ""] = lackedPackages(1);
    const { own } = places();
    const found = await scene(
      `[skills.x]\nnpm = ["lines"]\npackages = ["${lacked}"]\n`,
      { ...SCRIPTS, "scripts/has.sh": `dpkg -s ${lacked} | grep ^Status; node /skill/scripts/go.cjs` },
      { SKILLET_PACKAGES: own },
    );
    expect(await run(found, "has.sh")).toMatchObject({
      stdout: "Status: install ok installed\n1\n",
      exitCode: 0,
      refusals: [],
    });
    expect(found.skill("x").manifest.packages).toEqual([]);
  });
});
