import { execFile } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { DEFAULT_SANDBOX_SETTINGS, type SandboxSettings } from "../../src/config/limits.ts";
import { createSandbox } from "../../src/sandbox/create-sandbox.ts";
import { findSystemProgram } from "../../src/util/system.ts";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";
import { describeWithBubblewrap } from "./contract.ts";

const open = (settings: Partial<SandboxSettings> = {}, home = temporaryFolder()) =>
  createSandbox({ settings: { ...DEFAULT_SANDBOX_SETTINGS, ...settings }, home });
const isRoot = process.getuid?.() === 0;

/** A program that opens a sandbox and reports the outcome. */
const OPENS = `
  const { createSandbox } = await import(${JSON.stringify(moduleOf("sandbox/create-sandbox"))});
  const { DEFAULT_SANDBOX_SETTINGS } = await import(${JSON.stringify(moduleOf("config/limits"))});
  const told = await createSandbox({ settings: DEFAULT_SANDBOX_SETTINGS, home: process.argv[1] }).then(
    ({ level, by }) => ({ level, by }),
    ({ code, message, fix, commands }) => ({ code, message, fix, commands }),
  );
  process.stdout.write(JSON.stringify(told));`;

/** Opens one in another process, on a changed machine: bubblewrap itself can simulate that. */
async function openedWhere({
  change = [],
  env = {},
  cwd = "/",
}: {
  change?: string[];
  env?: Record<string, string>;
  cwd?: string;
}) {
  const node = [process.execPath, "--input-type=module", "-e", OPENS, temporaryFolder()];
  const bwrap = change.length === 0 ? [] : [findSystemProgram("bwrap") ?? "", "--dev-bind", "/", "/", ...change, "--"];
  const [file = "", ...args] = [...bwrap, ...node];
  const { stdout } = await promisify(execFile)(file, args, { cwd, env: { PATH: "/usr/bin:/bin", ...env } });
  return JSON.parse(stdout);
}

describe("opening a sandbox", () => {
  it("[Q-13] runs code without one only if the operator allows that", async () => {
    expect(await open({ level: "none" })).toMatchObject({ level: "none", by: "none" });
    for (const engine of ["docker", "podman", "seatbelt"] as const) {
      const opened = await open({ engine }).catch((error) => error);
      expect(opened.level).not.toBe("none");
    }
  });

  if (process.platform === "darwin") {
    it("[Q-13] refuses a level that is higher than the engine's", async () => {
      await expect(open({ level: "strong", engine: "seatbelt" })).rejects.toMatchObject({
        code: "sandbox-unavailable",
        message: expect.stringContaining("partial"),
      });
    });
  } else {
    it("[Q-13] refuses an engine that this system lacks, and takes no other", async () => {
      await expect(open({ engine: "seatbelt" })).rejects.toMatchObject({
        code: "sandbox-unavailable",
        fix: expect.stringContaining("config.toml"),
      });
    });
  }

  it("[Q-13] refuses a container without an image from the operator", async () => {
    for (const engine of ["docker", "podman"] as const) {
      await expect(open({ engine })).rejects.toMatchObject({ code: "sandbox-unavailable", fix: expect.any(String) });
    }
  });

  it("[Q-13] uses the client that the operator names, and explains the fix when it does not work", async () => {
    const client = (text: string) => {
      const program = join(temporaryFolder({ client: `#!/bin/sh\n${text}\n` }), "client");
      chmodSync(program, 0o755);
      return program;
    };
    const says = (line: string) => ({ program: client(`echo "${line}" >&2; exit 125`), image: "debian" });
    await expect(open({ engine: "docker", ...says("Cannot connect to the daemon") })).rejects.toMatchObject({
      message: expect.stringContaining("Cannot connect to the daemon"),
      fix: "start docker, or remove [sandbox] engine from config.toml",
    });
    await expect(open({ engine: "podman", ...says("Error: debian: image not known") })).rejects.toMatchObject({
      fix: "run `podman pull debian`",
    });
    await expect(open({ engine: "docker", program: "/no/such/docker", image: "debian" })).rejects.toMatchObject({
      message: expect.stringContaining("/no/such/docker"),
      fix: expect.stringContaining("[sandbox] program"),
    });
  });

  it("[Q-13] tests a container again when its client changed", async () => {
    const folder = temporaryFolder();
    const program = join(folder, "client");
    const home = temporaryFolder();
    const holds = "printf 'nonewprivs 1\\nseccomp 2\\nend\\n'";
    const write = (text: string) => {
      writeFileSync(program, `#!/bin/sh\n${text}\n`);
      chmodSync(program, 0o755);
    };
    const again = () => open({ engine: "docker", program, image: "debian" }, home);
    write(holds);
    expect(await again()).toMatchObject({ level: "strong", by: "docker", system: "own" });
    write("exit 1 # Of another length.");
    await expect(again()).rejects.toMatchObject({ code: "sandbox-unavailable" });
  });
});

describeWithBubblewrap("opening bubblewrap", () => {
  it("[Q-13] uses the strong level, also for a lower request", async () => {
    expect(await open()).toMatchObject({ level: "strong", by: "bubblewrap" });
    expect(await open({ level: "partial" })).toMatchObject({ level: "strong", by: "bubblewrap" });
  });

  it("[Q-13] refuses with the fix if bubblewrap is not installed", async () => {
    const masked = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"]
      .filter((path) => existsSync(path))
      .slice(0, 1);
    const told = await openedWhere({ change: masked.flatMap((path) => ["--ro-bind", "/dev/null", path]) });
    expect(told).toEqual({
      code: "sandbox-unavailable",
      message: "bubblewrap is not installed",
      fix: "to install it",
      commands: [expect.stringContaining("skillet doctor --fix")],
    });
  });

  it("[Q-13] refuses with the fix if bubblewrap is installed and cannot work", async () => {
    const told = await openedWhere({ change: ["--unshare-user", "--disable-userns"] });
    expect(told).toMatchObject({ code: "sandbox-unavailable", fix: expect.any(String) });
    expect(told.message).toMatch(/failed its self-test/);
  });

  it("[Q-13] does not use a bubblewrap that is first in the PATH or in the working folder", async () => {
    const mark = join(temporaryFolder(), "called");
    const fake = temporaryFolder({ bwrap: `#!/bin/sh\necho "$@" >> ${mark}\nexec /usr/bin/bwrap "$@"\n` });
    chmodSync(fake, 0o755);
    chmodSync(join(fake, "bwrap"), 0o755);
    const told = await openedWhere({ env: { PATH: `${fake}:.:/usr/bin:/bin` }, cwd: fake });
    expect(told).toEqual({ level: "strong", by: "bubblewrap" });
    expect(existsSync(mark)).toBe(false);
  });

  it("[Q-13] tests a sandbox once, and again when the stored result belongs to another one", async () => {
    const home = temporaryFolder();
    const file = join(home, "cache/sandbox.json");
    await open({}, home);
    const remembered = readFileSync(file, "utf8");
    for (const other of ["", "{", '{"passed":"x"}', "null"]) {
      writeFileSync(file, other);
      await open({}, home);
      expect(readFileSync(file, "utf8")).toBe(remembered);
    }
  });

  it("[Q-13] opens even if nothing can be stored", async () => {
    const home = temporaryFolder({ cache: "a file" });
    if (isRoot) expect(await open({}, home)).toMatchObject({ level: "strong" });
  });
});

describe("a system program", () => {
  const folderWith = (mode: number, folderMode = 0o755) => {
    const folder = join(temporaryFolder(), "bin");
    mkdirSync(folder);
    writeFileSync(join(folder, "tool"), "#!/bin/sh\n");
    chmodSync(join(folder, "tool"), mode);
    chmodSync(folder, folderMode);
    return folder;
  };

  if (isRoot) {
    it("[Q-13] is one that only root can have installed", () => {
      const good = folderWith(0o755);
      expect(findSystemProgram("tool", [good])).toBe(join(good, "tool"));
      const bad = [
        folderWith(0o775),
        folderWith(0o757),
        folderWith(0o644),
        folderWith(0o755, 0o777),
        folderWith(0o755, 0o775),
      ];
      const ofAnother = folderWith(0o755);
      chownSync(join(ofAnother, "tool"), 12345, 12345);
      const inAnothers = folderWith(0o755);
      chownSync(inAnothers, 12345, 12345);
      expect(findSystemProgram("tool", [...bad, ofAnother, inAnothers])).toBeUndefined();
      expect(findSystemProgram("tool", [...bad, good])).toBe(join(good, "tool"));
    });
  } else {
    it("[Q-13] is not one of an ordinary user", () => {
      expect(findSystemProgram("tool", [folderWith(0o755)])).toBeUndefined();
    });
  }
});
