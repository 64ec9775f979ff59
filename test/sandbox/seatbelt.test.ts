import { chmodSync, existsSync, readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Mount, SandboxCommand } from "../../src/host/sandbox-contract.ts";
import { findFailedPromise } from "../../src/sandbox/create-sandbox.ts";
import { mapSandboxPath } from "../../src/sandbox/sandbox-folders.ts";
import { createSeatbeltSandbox, formatSeatbeltProfile } from "../../src/sandbox/seatbelt.ts";
import { temporaryFolder } from "../support/folder.ts";
import { describeSandbox } from "./contract.ts";

const PLACES = { home: "/private/var/run1/home", temporary: "/private/var/run1/tmp", node: "/Users/me/.nvm/bin/node" };
const NETWORK = { socket: "/private/var/run1/net/proxy.sock", port: 4000 };
const MOUNTS: Mount[] = [
  { from: "/Users/me/work/skills/a", to: "/skill", access: "read" },
  { from: "/Users/me/work", to: "/workspace", access: "read-write" },
];

type Form = string | { text: string } | Form[];

/** Parses a profile in its own language: lists, words, strings. */
function read(profile: string): Form[] {
  const tokens = [...profile.matchAll(/\s*(?:([()])|"((?:[^"\\]|\\[\s\S])*)"|([^\s()"]+)|($))/gy)];
  if (tokens.map(([all]) => all).join("") !== profile) throw new Error("a string does not end");
  const stack: Form[][] = [[]];
  for (const [, bracket, text, word] of tokens) {
    const top = stack.at(-1) as Form[];
    if (bracket === "(") stack.push([]);
    else if (bracket === ")") (stack.at(-2) as Form[]).push(stack.pop() as Form[]);
    else if (text !== undefined) top.push({ text: text.replace(/\\([\s\S])/g, "$1") });
    else if (word !== undefined) top.push(word);
  }
  if (stack.length !== 1) throw new Error("a list does not end");
  return stack[0] as Form[];
}

describe("a profile for sandbox-exec (without one to read it)", () => {
  it("[Q-13] denies by default, and allows what programs need to start", () => {
    expect(formatSeatbeltProfile({ mounts: [] }, PLACES)).toContain(BASE);
  });

  it("[Q-02, Q-14] lets a run write to its own folders and the workspace, and reach only the proxy", () => {
    const profile = formatSeatbeltProfile({ mounts: MOUNTS }, { ...PLACES, ...NETWORK });
    expect(profile.slice(profile.indexOf("(allow file-write*"))).toBe(WRITES_AND_NETWORK);
    expect(formatSeatbeltProfile({ mounts: MOUNTS }, PLACES)).not.toMatch(/network|socket/);
  });

  it("[Q-02] allows reading the system and the mounts, and nothing else in users' folders", () => {
    const forms = read(formatSeatbeltProfile({ mounts: MOUNTS }, PLACES)) as Form[][];
    const readable = forms.filter(([action, operation]) => action === "allow" && operation === "file-read*").flat(2);
    const paths = readable.flatMap((form) => (typeof form === "object" && "text" in form ? [form.text] : []));
    expect(paths.filter((path) => /^\/(?:Users|private\/var\/run1)/.test(path))).toEqual([
      "/Users/me/work/skills/a",
      "/Users/me/work",
      PLACES.home,
      PLACES.temporary,
      PLACES.node,
    ]);
    for (const wide of [
      "/",
      "/System",
      "/System/Volumes",
      "/Library",
      "/private",
      "/private/var",
      "/private/tmp",
      "/Users",
      "/usr",
      "/Volumes",
      "/opt",
    ]) {
      expect(paths).not.toContain(wide);
    }
  });

  it("[Q-13] keeps a path a string, whatever it contains", () => {
    const piece = fc.constantFrom(
      '"',
      "\\",
      ")",
      "(",
      "(allow default)",
      ";",
      "#",
      " ",
      "\n",
      "a",
      "ü",
      "\0",
      '\\"',
      '"))(allow network*)',
    );
    const path = fc.array(fc.oneof(piece, fc.string()), { maxLength: 8 }).map((pieces) => `/${pieces.join("")}`);
    const shape = (form: Form): unknown =>
      Array.isArray(form) ? form.map(shape) : typeof form === "string" ? form : "text";
    const rules = (from: string) =>
      read(formatSeatbeltProfile({ mounts: [{ from, to: "/skill", access: "read-write" }] }, PLACES));
    // The parents of a path are named too: the same number of rules, and no new one.
    const heads = (forms: Form[]) => forms.map((form) => (form as Form[]).slice(0, 2).map(shape));
    const usual = heads(rules("/a"));
    fc.assert(
      fc.property(path, (from) => {
        try {
          const forms = rules(from);
          expect(heads(forms)).toEqual(usual);
          expect(JSON.stringify(forms)).toContain(JSON.stringify(["subpath", { text: from }]));
        } catch (error) {
          expect(error).toMatchObject({ code: "mount-unusable" });
          expect(from).toMatch(/[\u0000-\u001f\u007f]|[\ud800-\udfff]/);
        }
      }),
      { numRuns: 500 },
    );
  });

  it.each(["", "relative", "/a\nb", "/a\0", "/a\u007f", "/\ud800"])("[Q-13] refuses an invalid path: %j", (from) => {
    expect(() => formatSeatbeltProfile({ mounts: [{ from, to: "/skill", access: "read" }] }, PLACES)).toThrow(
      "must be absolute",
    );
  });
});

/** In place of sandbox-exec: records its arguments, and starts the command. It isolates nothing. */
const PROGRAM = `#!/bin/sh
printf '%s' "$2" > "$(dirname "$0")/profile"
shift 3
exec "$@"
`;

function scene() {
  const folder = temporaryFolder({ "sandbox-exec": PROGRAM, "skill/a.txt": "content" });
  const own = temporaryFolder();
  chmodSync(join(folder, "sandbox-exec"), 0o755);
  const sandbox = createSeatbeltSandbox({ program: join(folder, "sandbox-exec"), folder: own });
  const command: SandboxCommand = {
    argv: ["/bin/sh", "-c", 'pwd; cat a.txt; echo "$KEY"; echo "$HOME" "$TMPDIR"; echo x > "$HOME/y"; exit 4'],
    env: { KEY: "value" },
    folder: "/skill",
    mounts: [{ from: join(folder, "skill"), to: "/skill", access: "read" }],
    network: [],
    limits: { seconds: 5, output: 1024, memory: 1e9, processes: 10, disk: 1e6 },
  };
  const run = async (more: Partial<SandboxCommand> = {}) => {
    let output = "";
    const onOutput = (_: string, bytes: Buffer) => {
      output += bytes;
      return true;
    };
    return { ...(await sandbox.run({ ...command, ...more }, { onOutput })), output };
  };
  return { folder, own, sandbox, command, run };
}

describe("a run under a profile (with a program of the test in place of macOS)", () => {
  it("[Q-01, Q-13] starts in the real folder, with a separate temporary home, and reports its isolation", async () => {
    const { folder, own, sandbox, command, run } = scene();
    const { output, ...outcome } = await run();
    expect(outcome).toMatchObject({
      exitCode: 4,
      ending: "exit",
      isolation: { level: "partial", by: "seatbelt", bounds: "none" },
    });
    const [at, content, , places = ""] = output.replace("content", "content\n").split("\n");
    expect([at, content]).toEqual([realpathSync(join(folder, "skill")), "content"]);
    expect(places).toMatch(/\/skillet-\w+\/home \S+\/skillet-\w+\/tmp$/);
    expect([existsSync(places.split(" ")[0] ?? ""), readdirSync(own)]).toEqual([false, []]);
    expect(mapSandboxPath(sandbox, command.mounts, "/skill/scripts/a.py")).toBe(join(folder, "skill/scripts/a.py"));
    expect(readFileSync(join(folder, "profile"), "utf8")).toContain(
      `(subpath "${realpathSync(join(folder, "skill"))}")`,
    );
  });

  it("[Q-14] reaches allowed hosts by the forwarder's port, which the profile names", async () => {
    const server = createServer((_, response) => response.end("hello"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { folder, own, run } = scene();
    const network = [{ host: "127.0.0.1", port }];
    const script = `echo $HTTP_PROXY; curl -s http://127.0.0.1:${port}/; curl -s http://127.0.0.1:1/`;
    const { output, notices } = await run({ argv: ["/bin/sh", "-c", script], network });
    expect(notices).toMatchObject([{ message: "it tried to reach 127.0.0.1:1, which is not allowed" }]);
    const [, proxy, said] = /^http:\/\/127\.0\.0\.1:(\d+)\n([\s\S]*)$/.exec(output) ?? [];
    expect(said).toBe('hellonot allowed: the operator can add "127.0.0.1:1" to network in config.toml\n');
    expect(readFileSync(join(folder, "profile"), "utf8")).toContain(
      `(allow network-outbound (remote ip "localhost:${proxy}"))`,
    );
    expect(readdirSync(own)).toEqual([]);
  });

  it("[Q-13, Q-15] ends at its time limit, and refuses packages", async () => {
    const { own, command, run } = scene();
    const limits = { ...command.limits, seconds: 0.2 };
    expect(await run({ argv: ["/bin/sh", "-c", "sleep 60 & wait"], limits })).toMatchObject({ ending: "timeout" });
    await expect(run({ root: "/layer" })).rejects.toMatchObject({ code: "sandbox-packages" });
    expect(readdirSync(own)).toEqual([]);
  });

  it("[Q-13] is not trusted when code can write to the system, or it does not start", async () => {
    const { sandbox, folder } = scene();
    expect(await findFailedPromise(sandbox)).toMatch(/^code /); // The test's own program isolates nothing.
    writeFileSync(join(folder, "sandbox-exec"), "#!/bin/sh\nexit 71\n");
    expect(await findFailedPromise(sandbox)).toBe("the test ended with exit, exit 71");
    writeFileSync(join(folder, "sandbox-exec"), "#!/bin/sh\necho end\n");
    expect(await findFailedPromise(sandbox)).toBeUndefined();
  });
});

const BASE = `(version 1)
(deny default)
(allow process-fork)
(allow process-exec)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "kern.os")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.bootargs")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.iossupportversion")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "kern.willshutdown")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg"))
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow ipc-posix-sem)
(allow file-read-data (literal "/"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom") (literal "/dev/zero"))
(allow file-read* (literal "/dev/stdin") (literal "/dev/stdout") (literal "/dev/stderr"))
(allow file-read* file-write-data (subpath "/dev/fd"))
(allow file-read* file-write-data file-ioctl (literal "/dev/null") (literal "/dev/dtracehelper"))`;

const WRITES_AND_NETWORK = `(allow file-write*
  (subpath "/private/var/run1/home")
  (subpath "/private/var/run1/tmp")
  (subpath "/Users/me/work"))
(deny file-write*
  (subpath "/Users/me/work/skills/a"))
(allow system-socket (socket-domain AF_UNIX))
(allow network-outbound (remote unix-socket (path-literal "/private/var/run1/net/proxy.sock")))
(allow network-bind network-inbound (local ip "localhost:4000"))
(allow network-outbound (remote ip "localhost:4000"))
`;

if (process.platform === "darwin") {
  describeSandbox("a profile of macOS", "partial", async () =>
    createSeatbeltSandbox({ program: "/usr/bin/sandbox-exec" }),
  );
}
