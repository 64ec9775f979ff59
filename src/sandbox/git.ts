import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { omitUndefined } from "../util/objects.ts";
import { findSystemProgram } from "../util/system.ts";
import { truncateLine } from "../util/text.ts";
import { escapeLine } from "../util/untrusted-text.ts";
import { killProcessGroup, SYSTEM_ENV } from "./process.ts";

/** git with its own environment, for one private repository without a work tree: nothing is ever checked out. */
export interface Git {
  /**
   * Runs a command and resolves with its result, whatever the exit code. Rejects if it cannot be started, prints too
   * much, prints nothing for too long or is canceled.
   */
  run(args: readonly string[], signal?: AbortSignal): Promise<GitResult>;
  /** Returns the address to which the server of a repository redirects, or undefined. Does not follow it. */
  findRedirect(url: string): Promise<string | undefined>;
  /** Yields the output of a command as it arrives. Ends the command if the caller stops reading. Throws if it fails. */
  stream(args: readonly string[], input: string): AsyncGenerator<Buffer, void, undefined>;
}

export interface GitResult {
  code: number | null;
  stdout: Buffer;
  /** The end of its error output. */
  stderr: string;
}

export interface GitOptions {
  /** The user's own environment variables. */
  env: Readonly<Record<string, string | undefined>>;
  /** The absolute path of the repository, in an existing folder. */
  repository: string;
  /** The only protocol that git may use. */
  protocol: GitProtocol;
  signal?: AbortSignal | undefined;
  /** Seconds that a command may take without any output. */
  timeoutSeconds?: number;
}

/**
 * The environment variables and settings that each protocol takes from the user. A private repository needs the user's
 * keys or credential helper, and a company's network its proxies and certificates. No other git setting is read,
 * neither the user's nor the machine's.
 */
const GIT_PROTOCOLS = {
  file: { variables: [], settings: undefined },
  http: { variables: [], settings: undefined },
  https: {
    variables: [
      ...["HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"],
      ...["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"],
      ...["SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"],
    ],
    // Certificates are always verified and redirects are never followed, even if the user's settings say otherwise.
    settings: /^(?:credential|http)\.(?!.*(?:sslverify|followredirects)$)/i,
  },
  ssh: { variables: ["HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK"], settings: undefined },
} as const satisfies Record<string, { variables: readonly string[]; settings: RegExp | undefined }>;

export type GitProtocol = keyof typeof GIT_PROTOCOLS;

const TIMEOUT_SECONDS = 120;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
const MAX_TAIL_LENGTH = 32_768;

/** Creates the git runner. Throws a SkillError if git is not installed. */
export async function createGit({
  env,
  repository,
  protocol,
  signal,
  timeoutSeconds: seconds = TIMEOUT_SECONDS,
}: GitOptions): Promise<Git> {
  const program = findSystemProgram("git");
  if (program === undefined) throw createMissingGitError();
  const { settings } = GIT_PROTOCOLS[protocol];
  const variables = {
    ...createGitEnv(env, protocol, repository),
    ...(settings ? await readUserSettings(program, settings, env) : {}),
  };
  const start = (args: readonly string[], input?: string, more = {}) =>
    startGit(program, [...GIT_SETTINGS, ...args], { ...variables, ...more }, input);
  return {
    run: (args, other) => collectGitResult(start(args), { seconds, signal: combineSignals(signal, other) }),
    async findRedirect(url) {
      const traced = start(["ls-remote", "--quiet", "--", url], undefined, TRACE_VARIABLES);
      const { stderr } = await collectGitResult(traced, { seconds, signal });
      return [...stderr.matchAll(/<= Recv header: location: (\S+)/gi)].at(-1)?.[1];
    },
    stream: (args, input) => streamGitOutput(() => start(args, input), { seconds, signal }),
  };
}

// Settings for every command. There is no work tree, so most of them could not act anyway. `fsckObjects` is not
// enabled: it mostly rejects old mistakes in dates and modes of honest repositories. Names and symlinks are checked
// when files are written.
const GIT_SETTINGS = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.symlinks=false",
  "core.askPass=false",
  "submodule.recurse=false",
  "fetch.recurseSubmodules=false",
  "filter.lfs.smudge=",
  "filter.lfs.process=",
  "filter.lfs.required=false",
  // A server could redirect to any other host: the caller checks the target and fetches from there.
  "http.followRedirects=false",
  "protocol.ext.allow=never",
  "protocol.fd.allow=never",
  "init.defaultBranch=none",
  "advice.detachedHead=false",
  "gc.auto=0",
  "maintenance.auto=false",
  // The repository is deleted soon, so there is no need to wait for the disk.
  "core.fsync=none",
  // One pack, however few objects there are: it is read at once.
  "fetch.unpackLimit=1",
].flatMap((setting) => ["-c", setting]);

/** Prints the received headers, with credentials redacted. */
const TRACE_VARIABLES = { GIT_TRACE_CURL: "1", GIT_TRACE_CURL_NO_DATA: "1", GIT_TRACE_REDACT: "1" };

const NEUTRAL_ENV = { PATH: SYSTEM_ENV["PATH"] ?? "", LC_ALL: "C" };

function createGitEnv(
  env: Readonly<Record<string, string | undefined>>,
  protocol: GitProtocol,
  repository: string,
): Record<string, string> {
  const variables: Record<string, string> = {
    ...NEUTRAL_ENV,
    GIT_DIR: repository,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "false",
    // Also applies to the remote end of `file`, which reads the settings of an untrusted repository.
    GIT_ALLOW_PROTOCOL: protocol,
    GIT_NO_LAZY_FETCH: "1",
    GIT_LFS_SKIP_SMUDGE: "1",
    GIT_LITERAL_PATHSPECS: "1",
    GIT_SSH_VARIANT: "ssh",
    GIT_SSH_COMMAND: `${findSystemProgram("ssh") ?? "ssh"} -oBatchMode=yes -oForwardAgent=no -oForwardX11=no -oPermitLocalCommand=no`,
  };
  for (const name of GIT_PROTOCOLS[protocol].variables) {
    const value = env[name];
    if (value !== undefined) variables[name] = value;
  }
  return variables;
}

/**
 * Returns the user's settings as environment variables, which only the user can read. Every user can read arguments,
 * and a setting may hold a token.
 */
async function readUserSettings(
  program: string,
  wanted: RegExp,
  { HOME, XDG_CONFIG_HOME }: Readonly<Record<string, string | undefined>>,
): Promise<Record<string, string>> {
  const variables = { ...NEUTRAL_ENV, GIT_DIR: "/dev/null", ...omitUndefined({ HOME, XDG_CONFIG_HOME }) };
  const child = startGit(program, ["config", "--null", "--list"], variables);
  const { code, stdout } = await collectGitResult(child, { seconds: 10 });
  if (code !== 0) return {};
  const found = stdout
    .toString()
    .split("\0")
    .map((entry) => {
      const end = entry.indexOf("\n");
      return end === -1 ? { key: entry, value: "true" } : { key: entry.slice(0, end), value: entry.slice(end + 1) };
    })
    .filter(({ key }) => wanted.test(key));
  const numbered = found.flatMap(({ key, value }, index) => [
    [`GIT_CONFIG_KEY_${index}`, key],
    [`GIT_CONFIG_VALUE_${index}`, value],
  ]);
  return { GIT_CONFIG_COUNT: String(found.length), ...Object.fromEntries(numbered) };
}

// Starts git in a new process group, without a terminal: nothing it starts can prompt the user, and all
// of it ends together.
function startGit(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  input?: string,
): ChildProcess {
  const stdin = input === undefined ? "ignore" : "pipe";
  const child = spawn(program, args, { env, cwd: "/", detached: true, stdio: [stdin, "pipe", "pipe"] });
  child.stdin?.on("error", () => {}).end(input); // The exit of git explains why it stopped reading.
  return child;
}

interface GitBounds {
  seconds: number;
  signal?: AbortSignal | undefined;
}

async function collectGitResult(child: ChildProcess, bounds: GitBounds): Promise<GitResult> {
  const watched = watchGit(child, bounds);
  const pieces: Buffer[] = [];
  let bytes = 0;
  child.stdout?.on("data", (piece: Buffer) => {
    watched.heard();
    bytes += piece.length;
    if (bytes > MAX_OUTPUT_BYTES) watched.stop(createGitOutputError());
    else pieces.push(piece);
  });
  const code = await watched.end;
  return { code, stdout: Buffer.concat(pieces), stderr: watched.tail() };
}

async function* streamGitOutput(begin: () => ChildProcess, bounds: GitBounds): AsyncGenerator<Buffer, void, undefined> {
  const child = begin();
  const watched = watchGit(child, bounds);
  watched.end.catch(() => {}); // It is awaited below, or the caller stopped reading.
  try {
    for await (const piece of child.stdout as Readable) {
      watched.heard();
      yield piece as Buffer;
    }
    const code = await watched.end;
    if (code === 0) return;
    throw new SkillError("git-failed", {
      message: `git could not read the fetched objects: ${truncateLine(escapeLine(watched.tail().trim()), 300)}`,
      fix: "try again; if it fails again, the repository is damaged",
    });
  } finally {
    watched.stop();
  }
}

interface WatchedGit {
  end: Promise<number | null>;
  tail(): string;
  /** Restarts the timeout after output. */
  heard(): void;
  /** Kills git and everything it started; `end` then rejects with `reason`. */
  stop(reason?: Error): void;
}

function watchGit(child: ChildProcess, { seconds, signal }: GitBounds): WatchedGit {
  let tail = "";
  let failure: Error | undefined;
  const stop = (reason?: Error) => {
    failure ??= reason;
    if (child.exitCode === null && child.signalCode === null) killProcessGroup(child);
  };
  const onAbort = () => stop(createGitCancelError(signal));
  const timer = setTimeout(() => stop(createGitTimeoutError(seconds)), seconds * 1000);
  const onOutput = () => void timer.refresh();
  child.stderr?.on("data", (piece: Buffer) => {
    onOutput();
    tail = (tail + piece.toString()).slice(-MAX_TAIL_LENGTH);
  });
  if (signal?.aborted) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  const end = new Promise<number | null>((resolve, reject) => {
    child.once("error", (error) => reject(createGitStartError(error)));
    child.once("close", (code) => (failure ? reject(failure) : resolve(code)));
  }).finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  });
  return { end, tail: () => tail, heard: onOutput, stop };
}

function combineSignals(one: AbortSignal | undefined, other: AbortSignal | undefined): AbortSignal | undefined {
  return one && other ? AbortSignal.any([one, other]) : (one ?? other);
}

function createMissingGitError(): SkillError {
  return new SkillError("git-missing", {
    message: "git is not installed, and fetching skills from a repository needs it",
    fix: "install it (`sudo apt-get install git`), or download the repository as an archive and add the archive",
  });
}

function createGitStartError(error: unknown): SkillError {
  return new SkillError("git-missing", {
    message: `git could not be started: ${getErrorMessage(error)}`,
    fix: "run `git --version` to check that it works",
    cause: error,
  });
}

/** Returns the reason of the signal if it is a SkillError. */
function createGitCancelError(signal: AbortSignal | undefined): Error {
  if (signal?.reason instanceof SkillError) return signal.reason;
  return new SkillError("fetch-aborted", {
    message: "the fetch was canceled",
    fix: "nothing was kept: add it again",
    cause: signal?.reason,
  });
}

function createGitTimeoutError(seconds: number): SkillError {
  return new SkillError("git-timeout", {
    message: `git received nothing for ${seconds} seconds and was stopped`,
    fix: "check that the host is reachable, and try again",
  });
}

function createGitOutputError(): SkillError {
  return new SkillError("source-too-large", {
    message: "the repository has too many files to list",
    fix: "add the folder that contains the skills: ADDRESS//folder",
  });
}
