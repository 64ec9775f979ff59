import { chmodSync, chownSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runScript, type ScriptResult } from "../../src/agent/run/run-script.ts";
import { SANDBOX_SKILL_FOLDER } from "../../src/skill/skill-code.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";
import { withGrowingLimit } from "../support/wait-for.ts";

const SECRET = "s3cret-Value+123/=";

interface Parts {
  more?: string;
  config?: string;
  files?: Record<string, string>;
}

/** One of the user's own skills, with one script. */
function scene(
  script: string,
  { more = "", config = "", files = {} }: Parts = {},
  file = "scripts/go.sh",
): Promise<Scene> {
  return discoverIn({
    "home/.skillet/skills/x/SKILL.md": skillText("x", { more }),
    [`home/.skillet/skills/x/${file}`]: script,
    "home/.skillet/config.toml": config,
    ...files,
  });
}

async function run(found: Scene, args: string[] = [], script = "go", stdin?: string): Promise<ScriptResult> {
  return runScript(found, { skill: found.skill("x"), script, args, ...(stdin === undefined ? {} : { stdin }) });
}

const ran = async (script: string, parts?: Parts, args?: string[]) => run(await scene(script, parts), args);

describe("a script", () => {
  it("[T-14] runs in a sandbox, in the skill's folder, and reports its exit and its isolation", async () => {
    const result = await ran('pwd; ls; echo "$0"; echo oh >&2; exit 3\n', {}, ["one"]);
    expect(result).toMatchObject({
      skill: "x",
      script: "scripts/go.sh",
      isError: true,
      refusals: [],
      exitCode: 3,
      ending: "exit",
      stdout: `${SANDBOX_SKILL_FOLDER}\nSKILL.md\nscripts\n${SANDBOX_SKILL_FOLDER}/scripts/go.sh\n`,
      stderr: "oh\n",
      isTruncated: false,
      isolation: { level: "strong", by: "bubblewrap" },
      limits: { seconds: 60, output: 1024 * 1024, arguments: 100, argumentBytes: 4096 },
    });
    expect(result.ms).toBeGreaterThan(0);
  });

  it.each([
    ["sh", 'echo "sh $1"', "sh"],
    ["py", "import sys; print('py', sys.argv[1])", "py"],
    ["js", "console.log('js', process.argv[2])", "js"],
    ["ts", "const said: string = process.argv[2]!; console.log('ts', said)", "ts"],
    ["pl", 'print "pl $ARGV[0]\\n"', "pl"],
    ["mjs", "import { argv } from 'node:process'; console.log('mjs', argv[2])", "mjs"],
  ])("[T-14] ending in .%s needs no first line and no execute bit", async (ending, text, says) => {
    const found = await scene(text, {}, `scripts/go.${ending}`);
    expect(await run(found, ["a b"])).toMatchObject({ stdout: `${says} a b\n`, stderr: "", exitCode: 0 });
  });

  it("[T-14] names the missing interpreter", async () => {
    const found = await scene("#!/usr/bin/env no-such-language\n");
    const { refusals, ending } = await run(found);
    expect(ending).toBe("refused");
    expect(refusals).toMatchObject([
      { code: "script-interpreter", message: expect.stringContaining("no-such-language") },
    ]);
    expect(refusals[0]?.fix).toContain("packages");
  });

  it("[T-14] without a first line or a known ending is refused with the fix", async () => {
    const found = await scene("echo", { more: "scripts: [tool.xyz]\n" }, "tool.xyz");
    expect((await run(found, [], "tool.xyz")).refusals).toMatchObject([{ code: "script-interpreter" }]);
  });

  it("[T-14] with Windows line ends in its first line runs", async () => {
    expect(await ran("#!/usr/bin/env python3\r\nprint('fine')\r\n")).toMatchObject({ stdout: "fine\n", exitCode: 0 });
  });

  it("[T-14] that does not exist is refused with a list of the existing ones", async () => {
    const found = await scene("true");
    const [refusal] = (await run(found, [], "og.sh")).refusals;
    expect(refusal).toMatchObject({ code: "script-unknown", fix: "it has: scripts/go.sh" });
    expect((await run(found, [], "../../../etc/passwd")).refusals).toMatchObject([{ code: "script-unknown" }]);
  });

  it("reads its input on standard input, also by path", async () => {
    const found = await scene("cat; cat /dev/stdin; echo end > /dev/stdout; echo oh > /dev/stderr");
    expect(await run(found, [], "go", "héllo\n")).toMatchObject({ stdout: "héllo\nhéllo\nend\n", stderr: "oh\n" });
  });

  it("[T-14] gets its arguments unchanged, without a shell", async () => {
    const args = ["$(id)", "a b", "'", '"', "*", "`x`", "", "-n", "line\nbreak", "é"];
    const result = await ran('for arg in "$@"; do printf "<%s>" "$arg"; done', {}, args);
    expect(result.stdout).toBe(args.map((arg) => `<${arg}>`).join(""));
  });

  it.each([
    ["101 arguments", Array(101).fill("x"), "101 arguments"],
    ["4,097 bytes of them", ["x".repeat(4095), "é"], "4,097 bytes"],
    ["a NUL character", ["a\0b"], "NUL"],
  ])("[T-14][Q-16] is not run with %s", async (_, args, says) => {
    const { ending, refusals, stdout } = await ran("echo ran", {}, args);
    expect({ ending, stdout }).toEqual({ ending: "refused", stdout: "" });
    expect(refusals).toMatchObject([{ code: "script-arguments", message: expect.stringContaining(says) }]);
  });

  it("[T-14] is run with 100 arguments of 4,096 bytes", async () => {
    const args = [...Array(99).fill("x"), "y".repeat(4096 - 99)];
    expect((await ran('echo "$#"', {}, args)).stdout).toBe("100\n");
  });

  it("[T-14][Q-15] is stopped at its time limit with all its processes, and its output is kept", async () => {
    const script = "trap '' TERM; (setsid sleep 4242.17 &); echo before; sleep 4242.17";
    const result = await withGrowingLimit(
      async (seconds) => run(await scene(script, { config: `[scripts]\ntimeout_seconds = ${seconds}\n` })),
      ({ stdout }) => stdout !== "",
      { from: 1 },
    );
    expect(result).toMatchObject({ ending: "timeout", isError: true, stdout: "before\n", exitCode: undefined });
    expect(processesWith("4242.17")).toEqual([]);
  });

  it("[T-14][Q-16] is stopped at 1 MiB of output, both streams together, and reports that", async () => {
    const result = await ran("yes out & yes err >&2");
    expect(result).toMatchObject({ ending: "output", isTruncated: true, isError: true });
    expect(Buffer.byteLength(result.stdout) + Buffer.byteLength(result.stderr)).toBe(1024 * 1024);
  });

  it("[Q-16] that prints exactly 1 MiB is not cut", async () => {
    const result = await ran("head -c 1048576 /dev/zero | tr '\\0' x");
    expect(result).toMatchObject({ ending: "exit", isTruncated: false, exitCode: 0 });
    expect(result.stdout).toHaveLength(1024 * 1024);
  });

  it("[Q-16] that prints binary output gives valid text of at most 1 MiB", async () => {
    const result = await ran("head -c 3000000 /dev/urandom");
    const bytes = Buffer.from(result.stdout);
    expect(bytes.length).toBeLessThanOrEqual(1024 * 1024);
    expect(bytes.toString("utf8")).toBe(result.stdout);
    expect(result.stdout.isWellFormed()).toBe(true);
    expect(result.isTruncated).toBe(true);
  });

  it("[Q-16] that is cut within a character leaves no half of it", async () => {
    const found = await scene("printf 'aé'", { config: "[scripts]\noutput_bytes = 2\n" });
    expect(await run(found)).toMatchObject({ stdout: "a", isTruncated: true });
  });

  it("streams its output", async () => {
    // It continues once its output has arrived.
    const heard = (word: string) => `until [ -e /workspace/${word} ]; do sleep 0.02; done`;
    const found = await scene(`echo one; ${heard("one")}; echo two >&2; ${heard("two")}; echo three`, {
      config: '[skills.x]\nworkspace = "read"\n',
      files: { "notes.txt": "" },
    });
    for (const folder of [found.root, found.workspace]) chmodSync(folder, 0o755);
    const seen: string[] = [];
    const going = runScript(found, { skill: found.skill("x"), script: "go" });
    for await (const event of going) {
      if (event.type !== "script-printed") continue;
      seen.push(`${event.stream} ${event.text.trim()}`);
      writeFileSync(join(found.workspace, event.text.trim()), "");
    }
    expect(seen).toEqual(["stdout one", "stderr two", "stdout three"]);
    expect((await going).stdout).toBe("one\nthree\n");
  });

  it("[Q-15] can be aborted, and nothing of it is left", async () => {
    const found = await scene("echo started; sleep 4343.17");
    const going = runScript(found, { skill: found.skill("x"), script: "go" });
    for await (const event of going) if (event.type === "script-printed") going.abort();
    expect(await going).toMatchObject({ ending: "abort", stdout: "started\n", isError: true });
    expect(processesWith("4343.17")).toEqual([]);
    expect(
      await runScript(found, { skill: found.skill("x"), script: "go", signal: AbortSignal.abort() }),
    ).toMatchObject({
      ending: "abort",
    });
  });

  it("[Q-17] is stopped at its memory limit, and the result names the limit", async () => {
    const found = await scene(
      "x = 'a' * (400 << 20)\nprint(len(x))\n",
      { config: "[sandbox]\nmemory_mib = 128\n" },
      "scripts/go.py",
    );
    const result = await run(found);
    expect(result.isError).toBe(true);
    expect(result.stdout).toBe("");
    expect(result.isolation?.bounds).toBe(result.ending === "memory" ? "tree" : "process");
  });

  it("does not change its skill, nor sees changes while it runs", async () => {
    const found = await scene("echo x > /skill/new && echo wrote; rm -rf /skill/scripts; ls /skill/scripts; exit 0");
    const { stdout } = await run(found);
    expect(stdout).toBe("go.sh\n");
  });
});

describe("a script's variables", () => {
  const more = "env: [API_KEY]\n";
  const config = `[skills.x]\nAPI_KEY = "${SECRET}"\nOTHER = "undeclared-value"\n[skills.y]\nY_KEY = "another-secret"\n`;

  it("[Q-01][Q-22] are those that it declares, and nothing outside the script sees them", async () => {
    const script = `
      [ "$API_KEY" = "${SECRET}" ] && echo seen
      echo "raw $API_KEY"; echo "$API_KEY" | base64; printf %s "$API_KEY" | od -An -tx1 | tr -d ' \\n'; echo
      python3 -c 'import os,urllib.parse,json; k=os.environ["API_KEY"]; print(urllib.parse.quote(k,safe="")); print(json.dumps(k))'
      printf "s3cret-V"; sleep 0.2; printf "alue+123/=\\n"; echo "$API_KEY" >&2; env | cut -d= -f1 | sort | tr '\\n' ' '`;
    const found = await scene(script, { more, config });
    const events: unknown[] = [];
    const going = runScript(found, { skill: found.skill("x"), script: "go" });
    for await (const event of going) events.push(event);
    const result = await going;
    expect(result.stdout).toContain("seen\nraw [API_KEY]\n");
    expect(result.stdout.split("[API_KEY]").length - 1).toBe(6);
    expect(result.stderr).toBe("[API_KEY]\n");
    expect(result.stdout).toContain(
      "API_KEY HOME LANG OLDPWD PATH PWD SHLVL SKILL_DIR TMPDIR _"
        .replace(" OLDPWD", "")
        .replace(" SHLVL", "")
        .replace(" _", ""),
    );
    for (const form of [
      SECRET,
      Buffer.from(SECRET).toString("hex"),
      encodeURIComponent(SECRET),
      "undeclared-value",
      "another-secret",
    ]) {
      expect(JSON.stringify([events, result])).not.toContain(form);
    }
    expect(JSON.stringify([events, result])).not.toContain(Buffer.from(SECRET).toString("base64").slice(0, 20));
  });

  it("[Q-22] do not appear at a cut in the output", async () => {
    const found = await scene(`printf "xx$API_KEY"`, { more, config: `${config}[scripts]\noutput_bytes = 12\n` });
    const { stdout } = await run(found);
    expect(stdout).toBe("xx[API_KEY]");
    const cut = await withGrowingLimit(
      async (seconds) => {
        const parts = { more, config: `${config}[scripts]\ntimeout_seconds = ${seconds}\n` };
        return run(await scene(`printf "x${SECRET.slice(0, 9)}"; sleep 99`, parts));
      },
      (result) => result.stdout !== "",
      { from: 1 },
    );
    expect(cut).toMatchObject({ ending: "timeout", stdout: "x" });
  });

  it("can refer to a variable or a file of the host, and are refused when that is missing", async () => {
    const parts = {
      more: "env: [A, B]\n",
      config: '[skills.x]\nA = "env:HOST_A"\nB = "file:b.txt"\n',
      files: { "home/.skillet/b.txt": "from-file\n" },
    };
    const found = await discoverIn(
      {
        "home/.skillet/skills/x/SKILL.md": skillText("x", { more: parts.more }),
        "home/.skillet/skills/x/scripts/go.sh": '[ "$A$B" = from-hostfrom-file ] && echo both',
        "home/.skillet/config.toml": parts.config,
        ...parts.files,
      },
      { HOST_A: "from-host" },
    );
    expect((await run(found)).stdout).toBe("both\n");
    const { refusals } = await ran("true", { more: "env: [A]\n", config: '[skills.x]\nA = "env:NOT_SET_ANYWHERE"\n' });
    expect(refusals).toMatchObject([
      { code: "missing-variable", message: expect.stringContaining("env:NOT_SET_ANYWHERE") },
    ]);
  });

  it("without a value in the configuration are named, with the section to add them to, even if the host has them", async () => {
    const found = await discoverIn(
      { "home/.skillet/skills/x/SKILL.md": skillText("x", { more }), "home/.skillet/skills/x/scripts/go.sh": "env" },
      { API_KEY: "of-the-host" },
    );
    const { refusals, ending } = await run(found);
    expect(ending).toBe("refused");
    expect(refusals).toEqual([
      {
        code: "missing-variable",
        message: "Skill 'x' needs API_KEY",
        commands: ["skillet config set skills.x.API_KEY"],
        fix: `run\nor add to ~/.skillet/config.toml:\n  [skills.x]\n  API_KEY = "…"`,
      },
    ]);
  });

  it.each([
    "PATH",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "BASH_ENV",
    "A=B",
    "1X",
    "GLIBC_TUNABLES",
    "http_proxy",
    "PYTHONSTARTUP",
  ])("cannot be %s", async (name) => {
    const found = await scene("env", {
      more: `env: ["${name}"]\n`,
      config: `[skills.x]\n"${name}" = "/tmp/evil.so"\n`,
    });
    expect((await run(found)).refusals).toMatchObject([{ code: "variable-refused" }]);
  });
});

describe("a script's workspace", () => {
  const go = (config: string, script: string) =>
    scene(script, { config, files: { "notes.txt": "mine", ".git/config": "[core]", ".git/hooks/pre-commit": "true" } });
  const open = (found: Scene) => {
    chmodSync(found.root, 0o755);
    for (const path of ["", ".git", ".git/hooks"]) chmodSync(join(found.workspace, path), 0o777);
    return found;
  };

  it("is missing when the operator disables it", async () => {
    const script = "ls /workspace 2>&1; find / -name notes.txt 2>/dev/null; pwd";
    const found = open(await go('[skills.x]\nworkspace = "none"\n', script));
    const { stdout, view } = await run(found);
    expect(stdout).not.toContain("notes.txt\n");
    expect(stdout).toContain(`${SANDBOX_SKILL_FOLDER}\n`);
    expect(view).toEqual({ folder: SANDBOX_SKILL_FOLDER, skill: SANDBOX_SKILL_FOLDER });
  });

  it("is readable or writable, as the settings say", async () => {
    const script = "cat /workspace/notes.txt; echo new > /workspace/new.txt && echo wrote";
    const reading = open(await go('[sandbox]\nworkspace = "read"\n', script));
    expect((await run(reading)).stdout).toBe("mine");
    const writing = open(await go('[skills.x]\nworkspace = "read-write"\n', script));
    expect((await run(writing)).stdout).toBe("minewrote\n");
    expect(readFileSync(join(writing.workspace, "new.txt"), "utf8")).toBe("new\n");
  });

  it.runIf(process.getuid?.() === 0)(
    "is used as its owner if the caller is root, and as an unprivileged user if root owns it",
    async () => {
      const script = "touch /workspace/made && echo wrote";
      const found = await go('[sandbox]\nworkspace = "read-write"\n', script);
      chmodSync(found.root, 0o755);
      expect((await run(found)).refusals).toMatchObject([{ code: "workspace-inaccessible" }]);
      chownSync(found.workspace, 12345, 12345);
      expect((await run(found)).stdout).toBe("wrote\n");
      expect(statSync(join(found.workspace, "made"))).toMatchObject({ uid: 12345, gid: 12345 });
    },
  );

  it("[Q-04] masks files that other programs run or obey", async () => {
    const script =
      "echo evil > /workspace/.git/hooks/pre-commit; echo evil >> /workspace/.git/config; touch /workspace/fine";
    const found = open(await go('[sandbox]\nworkspace = "read-write"\n', script));
    await run(found);
    expect(existsSync(join(found.workspace, "fine"))).toBe(true);
    expect(readFileSync(join(found.workspace, ".git/hooks/pre-commit"), "utf8")).toBe("true");
    expect(readFileSync(join(found.workspace, ".git/config"), "utf8")).toBe("[core]");
  });

  it("[Q-04] that contains skillet's own folder is not mounted at all", async () => {
    const found = await go('[sandbox]\nworkspace = "read-write"\n', "true");
    const wide = { ...found, workspace: found.root };
    const { refusals } = await runScript(wide, { skill: found.skill("x"), script: "go" });
    expect(refusals).toMatchObject([{ code: "workspace-too-wide" }]);
  });
});

describe("state that a script leaves behind", () => {
  it("[Q-02] is invisible to the next script", async () => {
    const found = await scene(
      "ls -A /tmp /home/skill /dev/shm /run; for f in /tmp /home/skill /dev/shm; do touch $f/left; done",
    );
    const first = await run(found);
    expect((await run(found)).stdout).toBe(first.stdout);
    expect(first.stdout).not.toContain("left");
  });

  it("[Q-02] is invisible to a concurrent script", async () => {
    const found = await scene('echo "$1" > "/tmp/$1"; sleep 0.5; ls /tmp; cat /proc/[0-9]*/cmdline | tr "\\0" "\\n"');
    const [one, two] = await Promise.all([run(found, ["first-run"]), run(found, ["second-run"])]);
    expect(one?.stdout).toContain("first-run");
    expect(two?.stdout).toContain("second-run");
    expect(one?.stdout).not.toContain("second-run");
    expect(two?.stdout).not.toContain("first-run");
  });

  it("is a copy of its files that others can read, without set-user-ID bits", async () => {
    const found = await scene("ls -ln /skill/scripts/go.sh /skill/scripts/tool | cut -c1-10", {
      files: { "home/.skillet/skills/x/scripts/tool": "#!/bin/sh\n" },
    });
    const tool = join(found.root, "home/.skillet/skills/x/scripts/tool");
    chmodSync(tool, 0o4755);
    chmodSync(join(found.root, "home/.skillet/skills/x/scripts/go.sh"), 0o600);
    expect(statSync(tool).mode & 0o4000).toBe(0o4000);
    expect((await run(found)).stdout).toBe("-rw-r--r--\n-rwxr-xr-x\n");
  });
});

function processesWith(text: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(text);
    } catch {
      return false;
    }
  });
}
