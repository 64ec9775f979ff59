import { describe, expect, it } from "vitest";
import { suggestMissingPackage } from "../../src/agent/workspace/package-hints.ts";
import type { Sandbox } from "../../src/host/sandbox-contract.ts";
import { skillet } from "../support/command.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";
import { createRunTools } from "../support/run-tools.ts";

const NODE = "Error [ERR_MODULE_NOT_FOUND]: Cannot find package";

/** What programs print on a real machine, and the command that the hint names. */
const PRINTED: readonly (readonly [stderr: string, command: string | undefined])[] = [
  ["Traceback:\nModuleNotFoundError: No module named 'pypdf'\n", "skills.x.python pypdf"],
  ["ModuleNotFoundError: No module named 'PIL'", "skills.x.python pillow"],
  ["ModuleNotFoundError: No module named 'yaml'", "skills.x.python pyyaml"],
  ["ModuleNotFoundError: No module named 'cv2'", "skills.x.python opencv-python-headless"],
  ["ModuleNotFoundError: No module named 'docx.shared'", "skills.x.python python-docx"],
  ["ModuleNotFoundError: No module named 'bs4'", "skills.x.python beautifulsoup4"],
  ["ModuleNotFoundError: No module named 'sklearn'", "skills.x.python scikit-learn"],
  ["ModuleNotFoundError: No module named 'fitz'", "skills.x.python pymupdf"],
  ["ModuleNotFoundError: No module named 'odd_one'", "skills.x.python odd_one"],
  ["ModuleNotFoundError: No module named 'tkinter'", "skills.x.packages python3-tk"],
  ["ModuleNotFoundError: No module named 'helper'", undefined], // A file of the skill.
  [`${NODE} 'docx' imported from /skill/scripts/a.mjs`, "skills.x.npm docx"],
  [`${NODE} '@scope/thing' imported from /skill/a.mjs`, "skills.x.npm @scope/thing"],
  ["Error: Cannot find module 'sharp/lib/index.js'\nRequire stack:", "skills.x.npm sharp"],
  ["Error: Cannot find module './lib.js'", undefined],
  ["Error: Cannot find module '/skill/scripts/lib.js'", undefined],
  ["/skill/scripts/c.sh: 1: pdftotext: not found", "skills.x.packages poppler-utils"],
  ["bash: line 1: convert: command not found", "skills.x.packages imagemagick"],
  ["/usr/bin/env: ‘ruby’: No such file or directory", "skills.x.packages ruby"],
  ["FileNotFoundError: [Errno 2] No such file or directory: 'soffice'", "skills.x.packages libreoffice"],
  ["FileNotFoundError: [Errno 2] No such file or directory: 'notes.md'", undefined],
  ["Error: spawn ffmpeg ENOENT", "skills.x.packages ffmpeg"],
  ["pdf2image.exceptions.PDFInfoNotInstalledError: Unable to get page count.", "skills.x.packages poppler-utils"],
  ["sh: 1: some-tool: not found", "skills.x.packages PACKAGE"],
  ["ValueError: 3", undefined],
];

describe("a hint for a missing package", () => {
  it("[S-45] names the key and the command, for modules and programs by the names of their packages", async () => {
    const found = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      "home/.skillet/skills/x/scripts/helper.py": "",
    });
    const hint = async (stderr: string, by = "bubblewrap", exitCode = 1) =>
      await suggestMissingPackage({ stderr, exitCode }, found.skill("x"), found, { by } as Sandbox);
    for (const [stderr, command] of PRINTED) {
      const notice = await hint(stderr);
      expect(notice?.fix.replace(/^.*?: skillet config set /, ""), stderr).toBe(command);
    }
    const [[pypdf = ""] = []] = PRINTED;
    expect(await hint(pypdf, "docker"), "an image has its own packages").toBeUndefined();
    expect(await hint(pypdf, "bubblewrap", 0)).toBeUndefined();
  });

  it("[S-45] keeps configured packages, and proposes the versions that the skill's files list", async () => {
    const found = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      "home/.skillet/skills/x/requirements.txt":
        "# needed\n-r other.txt\nPyPDF==5.1  # reads\nlxml\nhttps://example.org/a.whl\n./local\nuvloop; sys_platform == 'linux'\n",
      "home/.skillet/config.toml": '[skills.x]\npython = ["requests"]\n',
    });
    const hint = async (name: string) =>
      await suggestMissingPackage(
        { stderr: `ModuleNotFoundError: No module named '${name}'`, exitCode: 1 },
        found.skill("x"),
        found,
        { by: "bubblewrap" } as Sandbox,
      );
    expect((await hint("pypdf"))?.fix).toContain("skillet config set skills.x.python 'requests,PyPDF==5.1,lxml'");
    expect((await hint("numpy"))?.fix).toContain("skillet config set skills.x.python requests,numpy");
    expect(await hint("requests"), "it is configured").toBeUndefined();
  });

  it("[S-45] is in the result of a script, as text and JSON, and in that of a command in a run", async () => {
    const files = {
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      "home/.skillet/skills/x/scripts/a.py": "import pypdf_is_not_here\n",
    };
    const { root } = await discoverIn(files);
    const env = { HOME: `${root}/home` };
    const command = "skillet config set skills.x.python pypdf_is_not_here";
    expect(await skillet(["script", "x", "a.py"], { env })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(command),
    });
    const { stdout } = await skillet(["script", "--json", "x", "a.py"], { env });
    expect(JSON.parse(stdout).warnings).toMatchObject([
      { code: "package-hint", fix: expect.stringContaining(command) },
    ]);
    const { call } = await createRunTools({ files });
    const result = await call("bash", { command: "python3 /skill/scripts/a.py" });
    expect(result.text).toContain(`${command}]`);
  });
});

describe("packages in the configuration", () => {
  it("[S-45] are lists of names with versions: nothing else reaches pip, npm or apt", async () => {
    const { root } = await discoverIn({ "home/.skillet/skills/x/SKILL.md": skillText("x") });
    const set = async (key: string, ...items: string[]) =>
      (await skillet(["config", "set", `skills.x.${key}`, JSON.stringify(items)], { env: { HOME: `${root}/home` } }))
        .code;
    const taken = {
      python: ["pypdf", "Pillow>=10", "a.b_c-d==1.*", "markitdown[all,pdf]~=0.1", "x>=1,<2", "numpy >= 1.26"],
      npm: ["docx", "@scope/name@^1.2.3", "x@latest", "y@>=1 <2", "z@1.x"],
      packages: ["poppler-utils", "g++"],
    };
    const refused = {
      python: [
        ...["", "-e .", "--index-url=x", "-rfile", "./x", "/x", "a @ https://x", "https://x/a.whl", "git+ssh://x"],
        ...["a;b", "a; os_name=='x'", "a===1", "a b", "a[", "a[../x]", "a\n--pre", "a>=1 --hash=x", "ä"],
      ],
      npm: [
        ...["", "-g", "--x", "./x", "/x", "../x", "a/b", "github:a/b", "x@npm:y", "x@file:.", "x@https://y", "X"],
        ...["x@git+ssh://y", "@a", "@a/", "a\nb", "x@", "x@a/b", ".x"],
      ],
      packages: ["", "jq=1.6", "apt-", "lib.*ssl", "./x.deb", "a b"],
    };
    for (const [key, items] of Object.entries(taken)) expect(await set(key, ...items), key).toBe(0);
    for (const [key, items] of Object.entries(refused)) {
      for (const item of items) expect(await set(key, item), `${key}: ${item}`).toBe(2);
    }
    expect(await set("python", ...Array.from({ length: 33 }, (_, at) => `a${at}`))).toBe(2);
  });

  it("[S-45][Q-26] are refused in a workspace's file, with file and line", async () => {
    const found = await discoverIn({
      ".skillet/config.toml": '[skills.x]\nenabled = true\npython = ["a"]\nnpm = ["b"]\npackages = ["cc"]\n',
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
    });
    const refused = found.configuration.diagnostics.filter(({ code }) => code === "config-refused");
    expect(refused.map(({ file, line }) => [file.endsWith("project/.skillet/config.toml"), line])).toEqual([
      [true, 3],
      [true, 4],
      [true, 5],
    ]);
    expect(found.settings.skills.get("x")).not.toHaveProperty("python");
  });

  it("[S-45] are proposed by `show` and `packages build` when files of the skill list them, and not installed", async () => {
    const { root } = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      "home/.skillet/skills/x/scripts/package.json":
        '{"dependencies": {"docx": "^9.0.0", "own": "file:../own", "repo": "github:a/b", "plain": "*"}, "devDependencies": {"dev": "1"}}',
    });
    const env = { HOME: `${root}/home` };
    const command = "skillet config set skills.x.npm 'docx@^9.0.0,plain'";
    const { stdout } = await skillet(["show", "x"], { env, columns: 300 });
    expect(stdout).toContain(`scripts/package.json lists docx@^9.0.0, plain; to add them: ${command}`);
    const { proposed } = JSON.parse((await skillet(["show", "--json", "x"], { env })).stdout);
    expect(proposed).toEqual([{ key: "npm", file: "scripts/package.json", wanted: ["docx@^9.0.0", "plain"], command }]);
    const built = await skillet(["packages", "build", "--json", "x"], { env });
    expect(JSON.parse(built.stdout)).toMatchObject({ libraries: [], problems: [] });
    expect((await skillet(["packages", "build", "x"], { env, columns: 300 })).stderr).toContain(command);
  });
});
