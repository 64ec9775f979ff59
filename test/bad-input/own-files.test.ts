import { execFileSync } from "node:child_process";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { replaceFile } from "../../src/store/locked-file.ts";
import { readRegularFile, readRegularText } from "../../src/util/file-access.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";

/** Files below `~/.skillet`, each with a command that reads it. */
const FILES: Readonly<Record<string, readonly string[]>> = {
  "config.toml": ["list"],
  "trust.json": ["show", "x"],
  "text-approvals.json": ["trust", "--list"],
  "grants.json": ["script", "x", "go"],
  "approvals.json": ["approve"],
  "installs.json": ["list", "--installed"],
  "signers.json": ["signers"],
  "statistics.db": ["stats"],
  "audit.jsonl": ["audit"],
  "audit.head": ["audit", "--verify"],
  "vault.json": ["auth", "list"],
  "vault.key": ["auth", "list"],
  "serve-token": ["serve", "--http", "127.0.0.1:0"],
  "signing-key.pem": ["sign", "skills/x"],
  "installed/skills.lock": ["list"],
  "cache/verified": ["verify"],
  "cache/sandbox.json": ["script", "x", "go"],
  "cache/scan": ["list"],
  live: ["config", "set", "limits.seconds", "60"],
  runs: ["runs"],
};

/** Replaces a file with one that never ends; for a folder, each of its files. */
const ENDLESS: Readonly<Record<string, (path: string) => void>> = {
  "a pipe": (path) => void execFileSync("mkfifo", [path]),
  "a link to an endless device": (path) => symlinkSync("/dev/zero", path),
  "a link to a pipe": (path) => {
    execFileSync("mkfifo", [`${path}.pipe`]);
    symlinkSync(`${path}.pipe`, path);
  },
};

const DEADLINE_MS = 60_000;

async function scene(isOrdinary: boolean) {
  const root = realpathSync(
    temporaryFolder({
      "home/.skillet/config.toml": '[skills.x]\nX_KEY = "a-value-of-x"\n',
      "home/.skillet/installed/readme": "",
      "project/skills/x/SKILL.md": skillText("x", { more: "env: [X_KEY]\n" }),
      "project/skills/x/scripts/go.sh": "#!/bin/sh\necho went\n",
    }),
  );
  const own = () => {
    if (isOrdinary && process.getuid?.() === 0) execFileSync("chown", ["-hR", String(ORDINARY_USER), root]);
  };
  chmodSync(join(root, "home/.skillet/config.toml"), 0o600);
  chmodSync(root, 0o755);
  own();
  const starting = {
    cwd: join(root, "project"),
    env: { HOME: join(root, "home") },
    isOrdinary,
    deadlineMs: DEADLINE_MS,
  };
  const trust = async (...args: string[]) =>
    expect(await skillet(["trust", ...args, "--yes"], starting)).toMatchObject({ code: 0 });
  return { root, own, trust, run: (args: readonly string[]) => runSkilletProcess(args, starting) };
}

describe.each([
  ["root", false],
  ["an ordinary user", true],
] as const)("for %s", (_, isOrdinary) => {
  const kinds = Object.keys(ENDLESS);
  it.each(kinds.map((kind, number) => [kind, number] as const))(
    "%s in place of one of skillet's own files hangs no command",
    async (kind, number) => {
      const put = ENDLESS[kind] as (path: string) => void;
      const { root, own, trust, run } = await scene(isOrdinary);
      await trust("x");
      await trust("--secrets", "x");
      own();
      expect(await run(["script", "x", "go"])).toMatchObject({ code: 0, stdout: "went\n" });
      const home = join(root, "home/.skillet");
      const hung: string[] = [];
      for (const [index, [file, command]] of Object.entries(FILES).entries()) {
        // One function opens all files: here each is one kind for root and another for a user, and all kinds in test:long.
        if (!IS_LONG && (index + Number(isOrdinary)) % kinds.length !== number) continue;
        const path = join(home, file);
        const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
        const places = isFolder ? readdirSync(path).map((name) => join(path, name)) : [path];
        for (const place of places) {
          mkdirSync(dirname(place), { recursive: true });
          rmSync(place, { force: true, recursive: true });
          put(place);
        }
        own();
        const { signal, stderr } = await run(command);
        if (signal !== null) hung.push(`${file}: ${command.join(" ")}`);
        expect(stderr, file).not.toMatch(/\n {4}at /);
        for (const place of places) rmSync(place, { force: true });
        if (file === "config.toml") writeFileSync(path, '[skills.x]\nX_KEY = "a-value-of-x"\n', { mode: 0o600 });
        if (file === "trust.json" || file === "config.toml") {
          await trust("x");
        }
      }
      expect(hung).toEqual([]);
    },
  );
});

describe("one of skillet's own files", () => {
  it("is read completely, also through a link, up to a size limit", () => {
    const folder = temporaryFolder({ file: "text", empty: "" });
    symlinkSync("file", join(folder, "link"));
    expect(readRegularText(join(folder, "link"))).toBe("text");
    expect(readRegularText(join(folder, "empty"))).toBe("");
    expect(readRegularText(join(folder, "file"), { limit: 4 })).toBe("text");
    expect(() => readRegularFile(join(folder, "file"), { limit: 3 })).toThrow("larger than");
    expect(() => readRegularFile(join(folder, "link"), { refusesLinks: true })).toThrow("ELOOP");
    expect(() => readRegularFile(join(folder, "none"))).toThrow("ENOENT");
    expect(() => readRegularFile(folder)).toThrow("not a regular file");
  });

  it("is never written through a link in its place to something that is not a file", () => {
    const folder = temporaryFolder();
    execFileSync("mkfifo", [join(folder, "pipe")]);
    symlinkSync("pipe", join(folder, "file"));
    expect(() => replaceFile(join(folder, "file"), "text")).toThrow("not a regular file");
    expect(lstatSync(join(folder, "pipe")).isFIFO()).toBe(true);
  });
});
