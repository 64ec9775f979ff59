import { existsSync, mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { release } from "node:os";
import { dirname, join } from "node:path";
import { userHome } from "../host/home.ts";
import { systemProgram } from "../host/programs.ts";
import { LEVELS, type Level, type Sandbox } from "../host/sandbox.ts";
import type { Engine, SandboxSettings } from "../host/sandbox-settings.ts";
import { packageVersion } from "../package.ts";
import { SkillError } from "../shared/error.ts";
import { shortHash } from "../shared/hash.ts";
import { readRegularText } from "../shared/regular-file.ts";
import { bareSandbox } from "./bare.ts";
import { bubblewrapSandbox } from "./bubblewrap.ts";
import { furniture } from "./furniture.ts";
import { warmPipes } from "./pipes.ts";
import { isRoot, ownUser, sandboxFolder } from "./places.ts";
import { failedPromise, namespaceRemedy } from "./self-test.ts";

/** What a sandbox is opened with: the operator's settings, and skillet's own folder. */
export interface SandboxOptions {
  settings: SandboxSettings;
  home: string;
  /** Where this user's own programs are looked for; the home folder when left out. */
  userHome?: string;
}

/**
 * The sandbox that the operator chose, or the system's own, after it has shown that it holds. Throws a SkillError that says what to
 * do where there is none of the level: it never settles for less.
 */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { settings } = options;
  if (settings.level === "none") return bareSandbox();
  const engine = settings.engine ?? (process.platform === "darwin" ? "seatbelt" : "bubblewrap");
  const sandbox = await ENGINES[engine](options);
  const wanted: Level = settings.level ?? (process.platform === "darwin" ? "partial" : "strong");
  if (LEVELS.indexOf(sandbox.level) < LEVELS.indexOf(wanted)) {
    throw unavailable(
      `${engine} gives ${sandbox.level} isolation, and the configuration asks for ${wanted}`,
      'set [sandbox] engine = "docker" or "podman" with an image, or lower [sandbox] level, in config.toml',
    );
  }
  return sandbox;
}

const ENGINES: Record<Engine, (options: SandboxOptions) => Promise<Sandbox>> = {
  async bubblewrap({ home, userHome: own = userHome(process.env) }) {
    const program = systemProgram("bwrap");
    if (process.platform !== "linux") {
      throw unavailable(`bubblewrap is for Linux, not for ${process.platform}`, CONTAINER);
    }
    if (!program) throw unavailable("bubblewrap is not installed", "`skillet doctor --fix` installs it");
    warmPipes();
    const sandbox = bubblewrapSandbox({
      program,
      mounts: furniture(sandboxFolder(home), own),
      ...(isRoot() ? { user: ownUser } : {}),
    });
    await testOnce(sandbox, { parts: [program], home, remedy: () => namespaceRemedy() ?? CONTAINER });
    return sandbox;
  },
  docker: (options) => container("docker", options),
  podman: (options) => container("podman", options),
  async seatbelt({ home }) {
    const { seatbeltSandbox } = await import("./seatbelt.ts");
    const program = systemProgram("sandbox-exec");
    if (!program) throw unavailable("sandbox-exec is not there: it is macOS's own", CONTAINER);
    const sandbox = seatbeltSandbox({ program });
    await testOnce(sandbox, { parts: [program], home, remedy: () => CONTAINER });
    return sandbox;
  },
};

const CONTAINER = 'set [sandbox] engine = "docker" or "podman" with an image in config.toml';

async function container(engine: "docker" | "podman", { settings, home }: SandboxOptions): Promise<Sandbox> {
  const { containerSandbox } = await import("./container.ts");
  const program = settings.program ?? systemProgram(engine);
  if (!program || !existsSync(program)) {
    throw unavailable(
      program
        ? `${program}, which [sandbox] program names, is not there`
        : `${engine} is not installed where only root can change it`,
      `install ${engine}, or set [sandbox] program = "/path/to/${engine}", or remove [sandbox] engine, in config.toml`,
    );
  }
  if (settings.image === undefined) {
    throw unavailable(`${engine} has no image to run`, '[sandbox] image = "debian@sha256:…" in config.toml names one');
  }
  const sandbox = containerSandbox({ program, engine, image: settings.image });
  const { image } = settings;
  await testOnce(sandbox, {
    parts: [program, image],
    home,
    remedy(failed) {
      if (/no such image|image not known|unable to find image/i.test(failed)) return `run \`${engine} pull ${image}\``;
      return `start ${engine}, or remove [sandbox] engine from config.toml`;
    },
  });
  return sandbox;
}

interface Tested {
  /** What it is made of: its program, and more. */
  parts: readonly [program: string, ...string[]];
  home: string;
  /** What to do about a promise that failed. */
  remedy(failed: string): string;
}

/** Tried once for these parts, kernel and user; remembered, because trying costs as much as a run. */
async function testOnce(sandbox: Sandbox, { parts, home, remedy }: Tested): Promise<void> {
  const file = join(home, "cache", "sandbox.json");
  const stamp = shortHash([...parts, stampOf(parts[0]), release(), process.getuid?.(), packageVersion()].join("\0"));
  if (remembered(file) === stamp) return;
  const failed = await failedPromise(sandbox);
  if (failed !== undefined) throw unavailable(`The sandbox does not hold: ${failed}`, remedy(failed));
  try {
    mkdirSync(dirname(file), { recursive: true });
    // Never into what is there: a pipe would be waited for.
    const draft = `${file}.${process.pid}`;
    writeFileSync(draft, JSON.stringify({ passed: stamp }));
    renameSync(draft, file);
  } catch {
    // Then it is tried again the next time.
  }
}

function remembered(file: string): unknown {
  try {
    return JSON.parse(readRegularText(file)).passed;
  } catch {
    return undefined;
  }
}

function stampOf(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats ? `${stats.mtimeMs}:${stats.size}:${stats.ino}` : "";
}

function unavailable(message: string, fix: string): SkillError {
  return new SkillError("sandbox-unavailable", { message, fix });
}
