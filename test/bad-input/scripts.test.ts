import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createServer as createSocketServer, type Server as SocketServer } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { runScript, type ScriptEvent, type ScriptResult } from "../../src/agent/run/run-script.ts";
import { createCapabilities } from "../../src/capabilities/configured-capabilities.ts";
import { FIXED_VARIABLES } from "../../src/host/sandbox-contract.ts";
import { findHostProcesses } from "../../src/sandbox/probe-host.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { grantValuesIn } from "../support/grant-values.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { PROGRAM, RUN } from "../support/program.ts";
import { createIdleProvider } from "../support/provider.ts";
import { withGrowingLimit } from "../support/wait-for.ts";

const isRoot = process.getuid?.() === 0;
/** Users to try the real command as: root, and another one; without root's rights only the user of the tests. */
const USERS = isRoot ? (["root", "an ordinary user"] as const) : (["an ordinary user"] as const);
type User = (typeof USERS)[number];

const PROBE = join(import.meta.dirname, "../fixtures/probe-skill");
const KEY = "probe-key-5f3a9c";

interface Started {
  child: ChildProcess;
  ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
}

interface StartOptions {
  home: string;
  as?: User;
  cwd?: string;
  env?: Record<string, string>;
  stdin?: string;
}

/** Starts the real command, as root or as an ordinary user. */
function start(args: readonly string[], { home, as, cwd = home, env = {}, stdin }: StartOptions): Started {
  const id = String(ORDINARY_USER);
  const drop =
    as === "an ordinary user" && isRoot
      ? ["/usr/bin/setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"]
      : [];
  const program = `import(${JSON.stringify(PROGRAM)}).then(({ run }) => { ${RUN} })`;
  const [file = "", ...rest] = [...drop, process.execPath, "--no-warnings", "-e", program, "skillet", ...args];
  const child = spawn(file, rest, { cwd, env: { PATH: "/usr/bin:/bin", HOME: home, ...env } });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (bytes) => {
    stdout += bytes;
  });
  child.stderr.on("data", (bytes) => {
    stderr += bytes;
  });
  child.stdin.end(stdin ?? "");
  const ended = new Promise<Awaited<Started["ended"]>>((resolve) => {
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
  return { child, ended };
}

/** A home with the user's own skills, which that user can read. */
function homeWith(files: Record<string, string>, as: User): string {
  const home = temporaryFolder();
  for (const [path, text] of Object.entries(files)) writeFiles(home, { [path]: text });
  grantValuesIn(home);
  give(home, as);
  return home;
}

function give(folder: string, as: User): void {
  if (as === "root" || !isRoot) return;
  spawnSync("/bin/chown", ["-R", `${ORDINARY_USER}:${ORDINARY_USER}`, folder]);
}

describe("a hostile skill", () => {
  /** Every attempt, in the order in which it is made. An attempt that is removed from the probe is missed here. */
  const ATTEMPTS = [
    ...["environ", "environ-of-host", "command-lines-of-host", "secret-on-a-command-line", "processes-of-host"],
    ...["roots-of-processes", "inherited-files", "secrets-of-host", "secrets-of-host-by-link", "homes", "passwords"],
    ...["keys", "tokens-of-services", "folders-of-host", "skillet-itself", "other-runs", "sockets-of-services"],
    ...["kernel-memory", "block-devices", "cgroups", "system-v-memory", "handles", "loopback-4", "loopback-any"],
    ...["loopback-other", "metadata-4", "loopback-6", "loopback-mapped", "metadata-6", "addresses-of-host", "internet"],
    ...["names", "multicast", "abstract-socket", "unix-socket", "vsock", "raw-4", "raw-6", "packet", "netlink"],
    ...["other-families", "devices", "ptrace", "process-memory", "descriptors-of-others", "mount", "bind-mount"],
    ...["remount", "umount", "pivot-root", "chroot", "open-tree", "fsopen", "mount-setattr", "unshare-user"],
    ...["unshare-mount", "unshare-network", "setns", "clone-user", "clone3", "keyctl", "add-key", "request-key", "bpf"],
    ...["io-uring", "userfaultfd", "perf", "modules", "kexec", "reboot", "kernel-log", "clock", "host-name", "swap"],
    ...["accounting", "quota", "handles-opened", "fanotify", "memory-policy", "old-calls", "x32-calls"],
    ...["terminal-input", "become-root", "capabilities", "gain-by-starting", "set-id-programs", "device-node"],
    ...[
      "own-root",
      "first-process",
      "memory-pressure",
      "kill-the-first",
      "writes",
      "writes-to-files",
      "writes-to-the-kernel",
      "hard-links",
    ],
    ...["renamed-skill", "raised-limits", "containers-of-its-own"],
  ];
  const SHELL_ATTEMPTS = [
    ...["sh-environ", "sh-home", "sh-shadow", "sh-docker", "sh-device", "sh-mount", "sh-write", "sh-dmesg", "sh-core"],
    "sh-trap",
  ];

  /** Files on the host for it to find, all of them readable for the user who runs it. */
  async function bait(as: User) {
    const token = `bait-${randomUUID()}`;
    const home = temporaryFolder();
    cpSync(PROBE, join(home, ".skillet/skills/probe"), { recursive: true });
    writeFiles(home, {
      ".skillet/config.toml": `[skills.probe]\nPROBE_KEY = "${KEY}"\n`,
      ".skillet/skills/other/SKILL.md": skillText("other"),
      ".skillet/skills/other/scripts/go.sh": `echo ${token}\n`,
      ".skillet/trust.json": `{"version":1,"skills":{}}`,
      ".ssh/id_ed25519": token,
      "project/.env": token,
    });
    chmodSync(join(home, ".skillet/config.toml"), 0o600);
    grantValuesIn(home);
    const inTmp = join(tmpdir(), token);
    writeFileSync(inTmp, token, { mode: 0o644 });
    give(home, as);
    let reached = 0;
    const servers: SocketServer[] = [];
    const listen = async (at: object) => {
      const server = createSocketServer((socket) => {
        reached++;
        socket.destroy();
      });
      servers.push(server);
      await new Promise((resolve) => server.once("listening", resolve).once("error", resolve).listen(at));
      return server.address();
    };
    const address = await listen({ host: "0.0.0.0", port: 0 });
    const port = typeof address === "object" && address ? address.port : 0;
    await listen({ host: "::1", port });
    const socket = join(tmpdir(), `${token.slice(0, 20)}.sock`);
    await listen({ path: socket });
    chmodSync(socket, 0o777);
    await listen({ path: `\0${token}` });
    const neighbour = spawn("/bin/sleep", ["60"], { argv0: token, env: { HOST_TOKEN: token }, stdio: "ignore" });
    onTestFinished(() => {
      neighbour.kill("SIGKILL");
      for (const server of servers) server.close();
      spawnSync("/bin/rm", ["-f", inTmp, socket]);
    });
    const store = as === "root" ? "/var/lib/skillet/store" : join(home, ".skillet/store");
    const input = {
      token,
      variables: [...Object.keys(FIXED_VARIABLES), "PROBE_KEY", "SKILL_DIR", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"],
      pids: [neighbour.pid, process.pid],
      secrets: [join(home, ".ssh/id_ed25519"), join(home, "project/.env"), inTmp, join(home, ".skillet/config.toml")],
      user: home,
      own: [join(home, ".skillet"), "/var/lib/skillet", import.meta.dirname],
      stores: [store],
      port,
      addresses: Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map((one) => one.address)),
      abstract: token,
      socket,
      limits: ["RLIMIT_FSIZE", "RLIMIT_CORE"],
    };
    return { home, token, input, reached: () => reached };
  }

  it.each(USERS)("[Q-01, Q-02, Q-13, Q-14] reaches nothing on the list, run by %s", async (as) => {
    const { home, token, input, reached } = await bait(as);
    const options = { home, as, cwd: join(home, "project"), env: { HOST_SECRET: token } };
    expect((await start(["script", "other", "go"], options).ended).stdout).toBe(`${token}\n`);
    const probed = await start(["script", "--stdin", "probe", "probe.py"], {
      ...options,
      stdin: JSON.stringify(input),
    }).ended;
    expect(probed.stdout.split("\n").filter((line) => !line.startsWith("refused "))).toEqual(["end", ""]);
    expect(probed.stdout.match(/^refused .*$/gm)?.map((line) => line.slice(8))).toEqual(ATTEMPTS);
    expect(probed.code).toBe(0);
    expect(reached()).toBe(0);
    const { stdout } = await start(["script", "probe", "probe.sh"], options).ended;
    expect(stdout.split("\n")).toEqual([...SHELL_ATTEMPTS.map((name) => `refused ${name}`), "end", ""]);
  });
});

interface Parts {
  more?: string;
  config?: string;
  files?: Record<string, string>;
}

/** One of the user's own skills, with one script. */
function scene(script: string, { more = "", config = "", files = {} }: Parts = {}, file = "scripts/go.sh") {
  return discoverIn({
    "home/.skillet/skills/x/SKILL.md": skillText("x", { more }),
    [`home/.skillet/skills/x/${file}`]: script,
    "home/.skillet/config.toml": config,
    "notes.txt": "",
    ...files,
  });
}

async function run(found: Scene, args: string[] = [], script = "go"): Promise<ScriptResult> {
  return runScript(found, { skill: found.skill("x"), script, args });
}

describe("a script that refuses to end", () => {
  it("[Q-15] is gone with every daemon it made, despite new sessions, names and ignored signals", async () => {
    const mark = `daemon-${randomUUID()}`;
    const daemon = `
import os, signal, sys, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
for depth in range(3):
    if os.fork(): 
        if depth == 0: break
        os._exit(0)
    os.setsid()
print("up", flush=True)
while True: time.sleep(1)
`;
    const result = await withGrowingLimit(
      async (seconds) => {
        const found = await scene(daemon, { config: `[scripts]\ntimeout_seconds = ${seconds}\n` }, "scripts/go.py");
        return run(found, [mark]);
      },
      ({ stdout }) => stdout === "up\nup\n",
      { from: 1 },
    );
    expect(result).toMatchObject({ ending: "timeout", exitCode: undefined, stdout: "up\nup\n" });
    expect(findHostProcesses(mark)).toEqual([]);
  });

  it("[Q-15] does not survive in a child that holds its output and writes to it", async () => {
    const mark = `child-${randomUUID()}`;
    const found = await scene('(setsid sh -c "while :; do echo more; done" "$1" &) ; echo done; exit 3');
    const result = await run(found, [mark]);
    expect(result.ending === "exit" ? result.exitCode : result.ending).toBeOneOf([3, "output"]);
    expect(findHostProcesses(mark)).toEqual([]);
  });

  it.each(USERS)("[Q-15] is gone with its network when its host is killed, run by %s", async (as) => {
    const mark = `left-${randomUUID()}`;
    const home = homeWith(
      {
        ".skillet/skills/x/SKILL.md": skillText("x"),
        ".skillet/skills/x/scripts/go.sh": `(setsid sh -c 'trap "" TERM HUP; sleep 300' "$1" &) ; echo going; sleep 300`,
        ".skillet/config.toml": '[skills.x]\nnetwork = ["127.0.0.1:9"]\n',
      },
      as,
    );
    const { child, ended } = start(["script", "x", "go", mark], { home, as });
    await new Promise((resolve) => child.stdout?.once("data", resolve));
    expect(findHostProcesses(mark)?.length).toBeGreaterThan(1);
    child.kill("SIGKILL");
    await ended;
    await expect.poll(() => findHostProcesses(mark)).toEqual([]);
  });
});

describe("a script that takes every resource", () => {
  it.each(USERS)("[Q-17] creates no more processes than allowed, and the host keeps working, run by %s", async (as) => {
    const mark = `bomb-${randomUUID()}`;
    const home = homeWith(
      {
        ".skillet/skills/x/SKILL.md": skillText("x"),
        ".skillet/skills/x/scripts/go.sh": 'bomb() { bomb "$1" | bomb "$1" & }; bomb "$1"; sleep 20',
        ".skillet/config.toml": "[sandbox]\nprocesses = 40\n[scripts]\ntimeout_seconds = 2\n",
      },
      as,
    );
    const { ended } = start(["script", "--json", "x", "go", mark], { home, as });
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, findHostProcesses(mark)?.length ?? 0);
    }, 50);
    const { stdout } = await ended;
    clearInterval(watch);
    expect(most).toBeGreaterThan(3);
    expect(most).toBeLessThan(60);
    const { ending, isolation } = JSON.parse(stdout);
    expect(ending).toBeOneOf(["timeout", "output", "exit"]);
    expect(isolation).toMatchObject({ level: "strong", bounds: expect.stringMatching(/^(?:tree|process)$/) });
    expect(spawnSync("/bin/true").status).toBe(0);
    expect(findHostProcesses(mark)).toEqual([]);
  });

  it("[Q-17] gets no 3 GB, in one process or in thirty", async () => {
    const found = await scene(
      `
import os, sys, time
def take(mib):
    return [bytearray(os.urandom(1)) * (1 << 20) for _ in range(mib)]
if sys.argv[1] == "one":
    held = take(3072)
    print("got it all", flush=True)
    sys.exit()
reading, writing = os.pipe()
os.set_blocking(reading, False)
children, said = set(), b""
for _ in range(30):
    child = os.fork()
    if child == 0:
        held = take(100)
        os.write(writing, f"{os.getpid()} ".encode())
        while True: time.sleep(9)
    children.add(child)
calm = 0
while calm < 25: # Until each of them has its memory or is gone, also one that is being killed just now.
    gone, _ = os.waitpid(-1, os.WNOHANG) if children else (0, 0)
    children.discard(gone)
    try: said += os.read(reading, 65536)
    except BlockingIOError: pass
    done = {int(text) for text in said.split()} & children
    calm = calm + 1 if gone == 0 and done == children else 0
    if gone == 0: time.sleep(0.02)
print("have it all:", len(done), flush=True)
for child in children: os.kill(child, 9)
`,
      { config: "[scripts]\ntimeout_seconds = 25\n" },
      "scripts/go.py",
    );
    const one = await run(found, ["one"]);
    expect(one).toMatchObject({ isError: true, stdout: "" });
    expect(one.ending === "memory" || /MemoryError/.test(one.stderr)).toBe(true);
    const many = await run(found, ["many"]);
    // Together they would have six times the limit of the whole tree.
    const together = Number(/have it all: (\d+)/.exec(many.stdout)?.[1] ?? 0);
    if (many.isolation?.bounds === "tree") expect(together).toBeLessThan(6);
    else expect(many.isolation?.bounds).toBe("process");
  });

  it("[Q-17] fills no folder beyond its limit, in one file or in many, and can report it", async () => {
    const found = await scene(
      `for place in /tmp /home/skill /dev/shm /run; do
  (head -c 100M /dev/zero > $place/big) 2>/dev/null
  i=0; while [ $i -lt 30 ]; do (head -c 1M /dev/zero > $place/$i) 2>/dev/null || break; i=$((i+1)); done
  echo "$place $(du -sm $place | cut -f1)"
  rm -rf $place/*
done`,
      { config: "[sandbox]\ndisk_mib = 8\n" },
    );
    const { stdout, ending } = await run(found);
    expect(ending).toBe("exit");
    const sizes = stdout
      .split("\n")
      .filter(Boolean)
      .map((line) => line.split(" "));
    expect(sizes.map(([place]) => place)).toEqual(["/tmp", "/home/skill", "/dev/shm", "/run"]);
    for (const [, size] of sizes) expect(Number(size)).toBeLessThanOrEqual(8);
  });
});

describe("a script that creates sparse files", () => {
  it.each(USERS)("[Q-17] is stopped before they take more memory than allowed, run by %s", async (as) => {
    const home = homeWith(
      {
        ".skillet/skills/x/SKILL.md": skillText("x"),
        ".skillet/skills/x/scripts/go.pl":
          'for my $d ("/tmp", "/home/skill", "/dev/shm") { for (1 .. 400000) { open(F, ">", "$d/$_") or last; close F } } print "made\\n"; sleep 99',
        ".skillet/config.toml": "[sandbox]\nmemory_mib = 128\n[scripts]\ntimeout_seconds = 50\n",
      },
      as,
    );
    const { stdout } = await start(["script", "--json", "x", "go"], { home, as }).ended;
    expect(JSON.parse(stdout)).toMatchObject({ ending: "memory", stdout: "" });
  });
});

describe("a script's output", () => {
  const collect = async (found: Scene, args: string[] = []) => {
    const events: ScriptEvent[] = [];
    const running = runScript(found, { skill: found.skill("x"), script: "go", args });
    for await (const event of running) events.push(event);
    return { result: await running, events: JSON.stringify(events) };
  };
  const declaring = (secret: string): Parts => ({
    more: "env: [API_KEY]\n",
    config: `[skills.x]\nAPI_KEY = ${JSON.stringify(secret)}\n`,
  });

  it.each([
    ["characters of a regular expression", "a.*(b|c)+[d]{2}^$\\?"],
    ["letters that are not ASCII", "pässwörd-密码-🔑-ключ"],
    ["quotes and shell expansions", "k$HOME`id`\"'\\;&|<>"],
    ["its own beginning repeated", "abababababababac"],
    ["text of its own replacement", "[API_KEY]-$1-$&"],
    ["spaces at its ends", "  spaced out  "],
  ])("[Q-22] shows no secret with %s, byte by byte and in every spelling", async (_, secret) => {
    const found = await scene(
      `
import base64, json, os, sys, time, urllib.parse
key = os.environ["API_KEY"]
raw = key.encode()
said = [raw, base64.b64encode(raw), base64.urlsafe_b64encode(raw), base64.b64encode(b"x" + raw + b"y"), raw.hex().encode(), raw.hex().upper().encode(),
  urllib.parse.quote(key, safe="").encode(), json.dumps(key).encode(), json.dumps(key, ensure_ascii=False).encode(), base64.encodebytes(b"p" * 50 + raw)]
for text in said:
    for byte in text:
        os.write(1, bytes([byte]))
    os.write(1, b"\\n")
    os.write(2, text + b"\\n")
`,
      declaring(secret),
      "scripts/go.py",
    );
    const { result, events } = await collect(found);
    expect(result.exitCode).toBe(0);
    const bare = secret.trim();
    const bytes = Buffer.from(bare);
    const forms = [
      bare,
      bytes.toString("base64").replace(/=+$/, "").slice(0, -1),
      bytes.toString("base64url").slice(0, -1),
      bytes.toString("hex"),
      encodeURIComponent(bare),
      JSON.stringify(bare).slice(1, -1),
    ];
    const all = `${result.stdout}${result.stderr}${events}${JSON.stringify(result)}`;
    // A secret that contains its own placeholder is shown as that.
    for (const form of forms) expect(all.replaceAll("[API_KEY]", "")).not.toContain(form);
    expect(result.stdout.match(/\[API_KEY\]/g)?.length).toBe(10);
    expect(result.stderr.match(/\[API_KEY\]/g)?.length).toBe(10);
  });

  it("[Q-22] shows no secret with embedded color codes, neither on a terminal nor in a result", async () => {
    const script = `printf 'a %s\\033[0m%s z\\n' "$(echo "$API_KEY" | cut -c1-5)" "$(echo "$API_KEY" | cut -c6-)"
printf 'b %s\\033[38;5;1' "$(echo "$API_KEY" | cut -c1-5)"; sleep 0.1; printf '96m%s z\\n' "$(echo "$API_KEY" | cut -c6-)"`;
    const { result, events } = await collect(await scene(script, declaring("hunter2-hunter2")));
    expect(result.stdout).toBe("a [API_KEY] z\nb [API_KEY] z\n");
    expect(events).not.toContain("unter2");
  });

  it("[Q-22] shows no part of a secret that is cut by the time or size limit", async () => {
    const late = await collect(
      await scene('printf "%s" "$API_KEY" | head -c 10; sleep 5', {
        ...declaring("hunter2-hunter2"),
        config: '[skills.x]\nAPI_KEY = "hunter2-hunter2"\n[scripts]\ntimeout_seconds = 1\n',
      }),
    );
    expect([late.result.ending, late.result.stdout, late.events.includes("hunter")]).toEqual(["timeout", "", false]);
    for (const room of [10, 12, 20]) {
      const cut = await collect(
        await scene('printf "0123456789%s" "$API_KEY"; printf "%s" "$API_KEY" >&2', {
          ...declaring("hunter2-hunter2"),
          config: `[skills.x]\nAPI_KEY = "hunter2-hunter2"\n[scripts]\noutput_bytes = ${room}\n`,
        }),
      );
      expect(`${cut.result.stdout}${cut.result.stderr}${cut.events}`).not.toMatch(/hunt/);
    }
  });

  it("[Q-22] shows no secret in the reason for not running it, nor in the requested name", async () => {
    const more = 'env: [API_KEY]\nscripts: ["scripts/hunter2-hunter2.zzz"]\n';
    const found = await scene("true", { ...declaring("hunter2-hunter2"), more }, "scripts/hunter2-hunter2.zzz");
    for (const script of ["scripts/hunter2-hunter2.zzz", "no-hunter2-hunter2"]) {
      const { refusals } = await run(found, [], script);
      expect(refusals).toHaveLength(1);
      expect(JSON.stringify(refusals)).not.toContain("hunter2");
    }
  });

  it("[Q-23] escapes any control sequence, however it is cut", async () => {
    const home = homeWith(
      {
        ".skillet/skills/x/SKILL.md": skillText("x"),
        ".skillet/skills/x/scripts/go.py": `
import os, time
for text in [b"\\x1b]52;c;ZXZpbA==\\x07", b"\\x1b]8;;http://evil\\x1b\\\\\\\\link\\x1b]8;;\\x1b\\\\\\\\", b"\\x1bP+q544e\\x1b\\\\\\\\", b"\\xc2\\x9b2J", b"\\x9b2J", b"\\x1b[2J\\x1b[H", b"\\x1bc", b"\\x07\\x08\\x0e\\x7f", b"ok\\rno", "\\u202eevil\\u2066".encode()]:
    for byte in text:
        os.write(1, bytes([byte]))
        os.write(2, bytes([byte]))
    os.write(1, b"\\n")
`,
      },
      "root",
    );
    const { stdout, stderr, code } = await start(["script", "x", "go"], { home, as: "root" }).ended;
    expect(code).toBe(0);
    for (const text of [stdout, stderr])
      expect(text).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
  });
});

describe("a script that is started where others can put programs", () => {
  it.each(USERS)("[Q-13] starts none of them, from the PATH, the folder or its node_modules, run by %s", async (as) => {
    const called = join(temporaryFolder(), "called");
    writeFileSync(called, "");
    chmodSync(called, 0o666);
    chmodSync(join(called, ".."), 0o777);
    const names = [
      "bwrap",
      "prlimit",
      "mkfifo",
      "python3",
      "python",
      "sh",
      "node",
      "setpriv",
      "uv",
      "apt-get",
      "dpkg-query",
    ];
    const fake = `#!/bin/sh\necho "$0" >> ${called}\nexit 1\n`;
    const home = homeWith(
      {
        ".skillet/skills/x/SKILL.md": skillText("x", { more: "packages: [bash]\n" }),
        ".skillet/skills/x/scripts/go.py": "print('ran')\n",
        ".skillet/skills/x/scripts/go.sh": "echo ran\n",
        ".skillet/skills/x/scripts/go.mjs": "console.log('ran')\n",
      },
      as,
    );
    const cwd = join(home, "project");
    for (const name of names)
      for (const folder of [cwd, join(cwd, "bin"), join(cwd, "node_modules/.bin")])
        writeFiles(folder, { [name]: fake });
    spawnSync("/bin/chmod", ["-R", "a+rx", cwd]);
    const PATH = [join(cwd, "bin"), ".", "", "node_modules/.bin", join(cwd, "node_modules/.bin"), "/usr/bin"].join(":");
    for (const script of ["go.py", "go.sh", "go.mjs"]) {
      const ran = await start(["script", "x", script], { home, as, cwd, env: { PATH } }).ended;
      expect([ran.stdout, ran.code, ran.stderr.split("\n")[0]]).toEqual([
        "ran\n",
        0,
        expect.stringContaining("exit 0"),
      ]);
    }
    expect(readFileSync(called, "utf8")).toBe("");
  });
});

describe("a host that is allowed for one skill", () => {
  /** Two servers of the host: an allowed one and another one. Each counts its clients. */
  async function servers() {
    const came = { open: 0, closed: 0 };
    const listen = async (name: keyof typeof came, host: string) => {
      const server: Server = createServer((_, response) => {
        came[name]++;
        response.end(name);
      });
      server.on("connect", (_, socket) => {
        came[name]++;
        socket.destroy();
      });
      await new Promise<void>((resolve) => server.listen(0, host, () => resolve()));
      onTestFinished(() => void server.close());
      const address = server.address();
      return typeof address === "object" && address ? address.port : 0;
    };
    return { came, open: await listen("open", "127.0.0.1"), closed: await listen("closed", "127.0.0.1") };
  }

  const TRICKS = `
import os, socket, sys
opened, closed = sys.argv[1], sys.argv[2]
tricks = {
  "opened": f"GET http://127.0.0.1:{opened}/ HTTP/1.1\\r\\nHost: 127.0.0.1:{opened}\\r\\n\\r\\n",
  "port": f"GET http://127.0.0.1:{closed}/ HTTP/1.1\\r\\nHost: 127.0.0.1:{closed}\\r\\n\\r\\n",
  "host": f"GET http://127.0.0.1:{closed}/ HTTP/1.1\\r\\nHost: 127.0.0.1:{opened}\\r\\n\\r\\n",
  "name": f"GET http://localhost:{closed}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
  "name-of-opened": f"CONNECT localhost:{opened} HTTP/1.1\\r\\n\\r\\n",
  "user": f"GET http://127.0.0.1:{opened}@127.0.0.1:{closed}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
  "connect": f"CONNECT 127.0.0.1:{closed} HTTP/1.1\\r\\nHost: 127.0.0.1:{opened}\\r\\n\\r\\n",
  "connect-zeros": f"CONNECT 127.0.0.1:0{closed} HTTP/1.1\\r\\n\\r\\n",
  "connect-short": f"CONNECT 127.1:{closed} HTTP/1.1\\r\\n\\r\\n",
  "connect-number": f"CONNECT 2130706433:{opened} HTTP/1.1\\r\\n\\r\\n",
  "connect-mapped": f"CONNECT [::ffff:127.0.0.1]:{opened} HTTP/1.1\\r\\n\\r\\n",
  "connect-zone": f"CONNECT [::1%25lo]:{closed} HTTP/1.1\\r\\n\\r\\n",
  "connect-space": f"CONNECT 127.0.0.1:{opened} 127.0.0.1:{closed} HTTP/1.1\\r\\n\\r\\n",
  "relative": f"GET / HTTP/1.1\\r\\nHost: 127.0.0.1:{closed}\\r\\n\\r\\n",
  "tls": f"GET https://127.0.0.1:{closed}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
  "file": "GET file:///etc/passwd HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
  "unix": "CONNECT unix:/var/run/docker.sock HTTP/1.1\\r\\n\\r\\n",
  "smuggled": f"POST http://127.0.0.1:{opened}/ HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n",
  "newline": f"GET http://127.0.0.1:{opened}/\\rHost:y HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
  "forwarded": f"GET http://127.0.0.1:{closed}/ HTTP/1.1\\r\\nHost: x\\r\\nX-Forwarded-Host: 127.0.0.1:{opened}\\r\\nX-Original-URL: http://127.0.0.1:{opened}/\\r\\n\\r\\n",
}
for name, text in tricks.items():
    made = socket.socket(socket.AF_UNIX); made.settimeout(3); made.connect("/run/skillet/network.sock")
    made.sendall(text.encode())
    try: answer = made.recv(4096).split(b"\\r\\n")[0].split(b" ")[1:2]
    except OSError: answer = [b"silence"]
    print(name, (answer or [b"closed"])[0].decode())
for port in (opened, closed):
    made = socket.socket(); made.settimeout(1)
    print("direct", made.connect_ex(("127.0.0.1", int(port))) != 0)
`;

  it("[Q-14] is that address and port alone, whatever a request calls it", async () => {
    const { came, open, closed } = await servers();
    const found = await scene(TRICKS, { config: `[skills.x]\nnetwork = ["127.0.0.1:${open}"]\n` }, "scripts/go.py");
    const { stdout, stderr } = await run(found, [String(open), String(closed)]);
    expect(stderr).toBe("");
    const said = new Map(
      stdout
        .split("\n")
        .filter(Boolean)
        .map((line) => line.split(" ") as [string, string]),
    );
    expect(said.get("opened")).toBe("200");
    said.delete("opened");
    for (const [name, answer] of said)
      expect([name, answer]).toEqual([name, expect.stringMatching(/^(?:400|403|True)$/)]);
    expect(said.size).toBe(20);
    expect(came).toEqual({ open: 1, closed: 0 });
  });

  it("[Q-14] is not allowed for another skill, by a similar name, or by the socket of a concurrent run", async () => {
    const { came, open } = await servers();
    const look = `ls -A /run /tmp; find / -name "*.sock" 2>/dev/null; env | grep -i proxy; true`;
    const found = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      "home/.skillet/skills/x/scripts/go.sh": "sleep 3; echo end\n",
      "home/.skillet/skills/y/SKILL.md": skillText("y"),
      "home/.skillet/skills/y/scripts/go.sh": look,
      "home/.skillet/config.toml": `[skills.x]\nnetwork = ["127.0.0.1:${open}"]\n[skills.Y]\nnetwork = ["127.0.0.1:${open}"]\n[skills."y@user"]\nnetwork = ["127.0.0.1:${open}"]\n`,
      "notes.txt": "",
    });
    const beside = run(found);
    await expect.poll(() => readdirSync(tmpdir()).some((name) => name.startsWith("skillet-net-"))).toBe(true);
    const { stdout } = await runScript(found, { skill: found.skill("y"), script: "go" });
    expect(stdout).toBe("/run:\n\n/tmp:\n");
    expect((await beside).stdout).toBe("end\n");
    expect(came).toEqual({ open: 0, closed: 0 });
  });
});

describe("a host without a sandbox", () => {
  it("[Q-13] never runs sensitive code or code with capabilities, even if the operator wants no sandbox", async () => {
    const config = '[sandbox]\nlevel = "none"\n';
    for (const more of ["sensitive: true\n", "capabilities: [mail.read]\n"]) {
      const found = await scene("echo ran > ran", { more, config });
      const capabilities = createCapabilities({ providers: [createIdleProvider("mail")], isGranted: () => true });
      const host = { ...found, caller: { chatType: "private" }, capabilities };
      expect(await run(host)).toMatchObject({ ending: "refused", refusals: [{ code: "isolation-too-weak" }] });
      expect(existsSync(join(found.root, "home/.skillet/skills/x/ran"))).toBe(false);
    }
  });
});
