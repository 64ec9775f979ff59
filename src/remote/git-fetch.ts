import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { ErrorCode } from "../errors/error-codes.ts";
import { SkillError } from "../errors/problem.ts";
import { createGit, type Git, type GitProtocol, type GitResult } from "../sandbox/git.ts";
import { findNearest, formatNumber, truncateLine } from "../util/text.ts";
import { escapeLine } from "../util/untrusted-text.ts";
import { createDownloadRedirectError } from "./download.ts";
import { createNoFolderError } from "./entry-path.ts";
import { extractSource } from "./extract.ts";
import {
  type FetchedSource,
  type FetchSourceOptions,
  listGitTree,
  listSubmodules,
  quoteSourcePath,
  readGitEntries,
  SOURCE_LIMITS,
  type SourceAddress,
} from "./remote-source.ts";
import { isSameHost, parseGitRef } from "./source-address.ts";

export type GitSourceAddress = Extract<SourceAddress, { kind: "git" }>;

/** Larger than any repository of skills, even with all its versions. */
const MAX_FETCHED_BYTES = 2 * SOURCE_LIMITS.bytes;

/**
 * Fetches a repository without checking it out: files are read from its objects, so that nothing in it (hooks, filters,
 * attributes, submodules, symlinks) takes effect.
 */
export async function fetchGit(
  address: GitSourceAddress,
  options: FetchSourceOptions,
  max = MAX_FETCHED_BYTES,
): Promise<FetchedSource> {
  const { to, env, signal } = options;
  const { namesake } = address;
  checkGitAddress(address, options.commit);
  const repository = join(to, ".repository");
  const git = await createGit({ env, repository, protocol: getGitProtocol(address.url), signal });
  try {
    await runGitChecked(git, ["init", "--bare", "--quiet", "--template="], address);
    const bound = limitObjectSize(join(repository, "objects"), max, address);
    const commit = await fetchCommit(git, address, options.commit, bound.signal).finally(bound.stop);
    bound.signal.throwIfAborted();
    const rows = await listGitTree(git, commit, address.inside);
    if (!rows)
      throw createNoFolderError(address.inside ?? "", (await listGitTree(git, commit))?.map(({ path }) => path) ?? []);
    const fetched = await extractSource(address, readGitEntries(git, rows), options);
    const notes = [...fetched.notes, ...describeSubmodules(listSubmodules(rows))];
    if (namesake !== undefined)
      notes.push(`It is from ${quoteSourcePath(address.url)}: to add the local folder, use ${namesake}`);
    return { ...fetched, commit, notes };
  } catch (error) {
    if (namesake === undefined || !(error instanceof SkillError)) throw error;
    const { code, message, fix } = error;
    throw new SkillError(code, {
      message,
      fix: `to add the local folder, use ${namesake}; otherwise ${fix}`,
      cause: error,
    });
  } finally {
    rmSync(repository, { recursive: true, force: true });
  }
}

/** Reads the commit that a repository's branch or tag currently points to. Fetches nothing. */
export async function readRemoteCommit(
  address: GitSourceAddress,
  { env, signal }: Pick<FetchSourceOptions, "env" | "signal">,
): Promise<string> {
  const { url, ref = "HEAD" } = address;
  checkGitAddress(address);
  if (isCommitHash(ref)) return ref.toLowerCase();
  const git = await createGit({ env, repository: "/dev/null", protocol: getGitProtocol(url), signal });
  // In git's own lookup order; the commit of an annotated tag comes right after the tag.
  const names = [ref, `refs/${ref}`, `refs/tags/${ref}`, `refs/heads/${ref}`];
  const found = await listRemote(git, address, [], [...names, `refs/tags/${ref}^{}`]);
  const name = names.find((candidate) => found.has(candidate));
  const commit = name === undefined ? undefined : (found.get(`${name}^{}`) ?? found.get(name));
  if (commit === undefined) throw createGitError(`couldn't find remote ref ${ref}`, address);
  return commit;
}

/** The content of a lock file is untrusted. */
function checkGitAddress(address: GitSourceAddress, commit?: string): void {
  if (address.ref !== undefined) parseGitRef(address.ref);
  if (commit !== undefined && !isCommitHash(commit)) throw createCommitMissingError(quoteSourcePath(commit), address);
}

const FETCHED_REF = "refs/skillet/fetched";
const ALL_REFSPECS = ["+refs/heads/*:refs/skillet/heads/*", "+refs/tags/*:refs/skillet/tags/*"];

/** A name of 40 hexadecimal digits is always a commit, never a branch of that name. */
function isCommitHash(ref: string | undefined): ref is string {
  return ref !== undefined && /^[0-9a-f]{40}$/i.test(ref);
}

async function fetchCommit(
  git: Git,
  address: GitSourceAddress,
  pinned: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  const { url, ref } = address;
  const wanted = (pinned ?? (isCommitHash(ref) ? ref : undefined))?.toLowerCase();
  const fetch = (how: readonly string[], what: readonly string[]) =>
    retryRedirected(git, url, (at) =>
      git.run(["fetch", "--progress", "--no-tags", "--no-recurse-submodules", ...how, "--", at, ...what], signal),
    );
  const only = [`+${wanted ?? ref ?? "HEAD"}:${FETCHED_REF}`];
  let result = await fetch(["--depth=1"], only);
  if (result.code !== 0 && NO_SHALLOW_PATTERN.test(result.stderr)) result = await fetch([], only);
  if (result.code === 0) return resolveFetchedCommit(git, wanted, FETCHED_REF, address);
  if (wanted === undefined || !UNADVERTISED_PATTERN.test(result.stderr))
    throw await explainGitFailure(git, result.stderr, address);
  // The server allows only commits that its branches and tags point to: fetch all of them.
  const all = await fetch([], ALL_REFSPECS);
  if (all.code !== 0) throw createGitError(all.stderr, address);
  return resolveFetchedCommit(git, wanted, wanted, address);
}

/** A server of static files does not support shallow fetches. */
const NO_SHALLOW_PATTERN = /dumb http transport|does not support (?:shallow|--depth)/i;
const UNADVERTISED_PATTERN =
  /not our ref|unadvertised object|unable to find|couldn't find remote ref|missing|bad object|corrupt/i;

/** Contract: `name` is a ref in the private repository, or a full commit ID. */
async function resolveFetchedCommit(
  git: Git,
  wanted: string | undefined,
  name: string,
  address: GitSourceAddress,
): Promise<string> {
  const { code, stdout } = await git.run(["rev-parse", name, `${name}^{commit}`]);
  const [fetched = "", commit = ""] = code === 0 ? stdout.toString().split("\n") : [];
  // An annotated tag may be requested by its own ID.
  const isWanted = wanted === undefined || fetched === wanted || commit === wanted;
  if (commit === "" || !isWanted) throw createCommitMissingError(wanted ?? address.ref ?? "HEAD", address);
  return commit;
}

/** Explains a failure, with a suggestion for a misspelled branch or tag. */
async function explainGitFailure(git: Git, stderr: string, address: GitSourceAddress): Promise<SkillError> {
  const failure = createGitError(stderr, address);
  if (failure.code !== "git-ref-missing" || address.ref === undefined) return failure;
  const { ref } = address;
  const found = await listRemote(git, address, ["--heads", "--tags", "--refs"]).catch(() => undefined);
  const meant = findNearest(
    ref,
    [...(found?.keys() ?? [])].map((name) => name.replace(/^refs\/(?:heads|tags)\//, "")),
  );
  if (meant === undefined) return failure;
  return new SkillError(failure.code, { message: failure.message, fix: `did you mean ${quoteSourcePath(meant)}?` });
}

async function listRemote(
  git: Git,
  address: GitSourceAddress,
  how: readonly string[],
  names: readonly string[] = [],
): Promise<Map<string, string>> {
  const { code, stdout, stderr } = await retryRedirected(git, address.url, (at) =>
    git.run(["ls-remote", "--quiet", ...how, "--", at, ...names]),
  );
  if (code !== 0) throw createGitError(stderr, address);
  const lines = stdout.toString().split("\n").filter(Boolean);
  return new Map(
    lines.map((line) => {
      const [id = "", name = ""] = line.split("\t");
      return [name, id];
    }),
  );
}

const MAX_REDIRECTS = 5;
const REDIRECT_PATTERN = /returned error: 30[1278]/;
const INFO_REFS_PATH = "/info/refs";

/** Sends a request to a server, and again to its redirect target on the same host. */
async function retryRedirected(git: Git, url: string, ask: (at: string) => Promise<GitResult>): Promise<GitResult> {
  let at = url;
  for (let redirects = 0; ; redirects++) {
    const result = await ask(at);
    if (result.code === 0 || !REDIRECT_PATTERN.test(result.stderr) || redirects === MAX_REDIRECTS) return result;
    const to = URL.parse((await git.findRedirect(at)) ?? "", `${at.replace(/\/$/, "")}${INFO_REFS_PATH}`);
    if (!to?.pathname.endsWith(INFO_REFS_PATH)) return result;
    const from = new URL(at);
    to.pathname = to.pathname.slice(0, -INFO_REFS_PATH.length);
    to.search = "";
    if (!isSameHost(from, to)) throw createDownloadRedirectError(at, to);
    Object.assign(to, { username: from.username, password: "" });
    at = to.href;
  }
}

async function runGitChecked(git: Git, args: readonly string[], address: GitSourceAddress): Promise<void> {
  const { code, stderr } = await git.run(args);
  if (code !== 0) throw createGitError(stderr, address);
}

function getGitProtocol(url: string): GitProtocol {
  const scheme = /^(file|https?|ssh):\/\//.exec(url)?.[1];
  return (scheme ?? "ssh") as GitProtocol;
}

/** Aborts if the fetched objects become too large: the server could send forever. */
function limitObjectSize(
  objects: string,
  max: number,
  { url }: GitSourceAddress,
): { signal: AbortSignal; stop(): void } {
  const controller = new AbortController();
  const look = () => {
    if (measureFolder(join(objects, "pack")) <= max) return;
    controller.abort(
      new SkillError("source-too-large", {
        message: `${quoteSourcePath(url)} has more than ${formatNumber(max)} bytes`,
        fix: "add the skills as an archive, or from a smaller repository",
      }),
    );
  };
  const timer = setInterval(look, SIZE_POLL_MS);
  const stop = () => {
    clearInterval(timer);
    look();
  };
  return { signal: controller.signal, stop };
}

const SIZE_POLL_MS = 200;

function measureFolder(folder: string): number {
  try {
    return readdirSync(folder)
      .map((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0)
      .reduce((sum, size) => sum + size, 0);
  } catch {
    return 0; // It does not exist yet.
  }
}

function describeSubmodules(paths: readonly string[]): string[] {
  return paths.map((path) => `${quoteSourcePath(path)} is a submodule, and was not fetched`);
}

/** The request for which git failed. */
interface GitRequest {
  url: string;
  /** The branch, tag or commit. Defaults to the default branch. */
  ref?: string | undefined;
}

interface GitFailureRule {
  pattern: RegExp;
  code: ErrorCode;
  message(request: GitRequest): string;
  fix: string;
}

const NOT_FOUND_FIX =
  "check the address; for a private repository sign git in (a credential helper, `gh auth setup-git`), or use its ssh address";

/** Patterns of git's error output, with the error to report. The first match counts. */
const GIT_FAILURES: readonly GitFailureRule[] = [
  {
    pattern: /ssh: (?:command )?not found|cannot run .*ssh/i,
    code: "git-missing",
    message: ({ url }) => `ssh is not installed, and ${quoteSourcePath(url)} needs it`,
    fix: "install it (`sudo apt-get install openssh-client`), or use the repository's https address",
  },
  {
    pattern:
      /could not read (?:Username|Password)|Authentication failed|Access denied|returned error: 40[13]|Permission denied \(/i,
    code: "git-sign-in",
    message: ({ url }) => `${quoteSourcePath(url)} does not exist or is private, and git has no credentials for it`,
    fix: NOT_FOUND_FIX,
  },
  {
    pattern: /returned error: 30[1278]/i,
    code: "download-redirect",
    message: ({ url }) => `${quoteSourcePath(url)} redirects to another address`,
    fix: "use the final address",
  },
  {
    pattern: /Host key verification failed/i,
    code: "git-host-key",
    message: ({ url }) => `The host of ${quoteSourcePath(url)} is not known to ssh, or its host key changed`,
    fix: "connect to it once (`ssh -T git@HOST`) and compare its fingerprint with the published one",
  },
  {
    pattern: /couldn't find remote ref HEAD|Remote HEAD refers to nonexistent ref/i,
    code: "git-empty",
    message: ({ url }) => `${quoteSourcePath(url)} has no default branch, or is empty`,
    fix: "name a branch: ADDRESS#branch",
  },
  {
    pattern: /couldn't find remote ref|no such remote ref/i,
    code: "git-ref-missing",
    message: ({ url, ref = "" }) => `${quoteSourcePath(url)} has no branch or tag ${quoteSourcePath(ref)}`,
    fix: "use a branch, a tag, or a commit with all 40 digits",
  },
  {
    pattern: /dubious ownership/i,
    code: "git-owner",
    message: ({ url }) => `${quoteSourcePath(url)} belongs to another user, and git does not use that user's settings`,
    fix: "add it as a folder, by its path",
  },
  {
    pattern: /mismatched algorithms|object format|hash algorithm/i,
    code: "git-object-format",
    message: ({ url }) => `${quoteSourcePath(url)} uses SHA-256 commit IDs, which are not supported`,
    fix: "add it as a folder, or as an archive",
  },
  {
    pattern: /certificate|SSL|TLS/,
    code: "git-certificate",
    message: ({ url }) => `The host of ${quoteSourcePath(url)} has no certificate that git trusts`,
    fix: "check the address; for company certificates set http.sslCAInfo in git",
  },
  {
    pattern:
      /returned error: 404|does not appear to be a git repository|repository .*(?:not found|does not exist)|not found|no such file/i,
    code: "git-not-found",
    message: ({ url }) => `There is no repository at ${quoteSourcePath(url)}`,
    fix: "check the address; add a folder that is not a repository by its path",
  },
  {
    pattern:
      /Could not resolve|Failed to connect|Connection (?:refused|reset|timed out|closed)|unable to access|network is unreachable/i,
    code: "git-unreachable",
    message: ({ url }) => `The host of ${quoteSourcePath(url)} is unreachable`,
    fix: "check the address and the network, and try again",
  },
];

/** Converts git's error output into an error with one message and one fix. */
function createGitError(stderr: string, request: GitRequest): SkillError {
  const known = GIT_FAILURES.find(({ pattern }) => pattern.test(stderr));
  if (known) return new SkillError(known.code, { message: known.message(request), fix: known.fix });
  return new SkillError("git-failed", {
    message: `git cannot fetch ${quoteSourcePath(request.url)}: ${excerptStderr(stderr)}`,
    fix: "run `git ls-remote` with the same address to check that git can reach it",
  });
}

function createCommitMissingError(commit: string, { url }: GitRequest): SkillError {
  return new SkillError("git-commit-missing", {
    message: `${quoteSourcePath(url)} has no commit ${commit}`,
    fix: "it may have been removed: review the current content before you add it again",
  });
}

const MAX_STDERR_LENGTH = 300;

/** Returns the last line that describes the error, without credentials. */
function excerptStderr(stderr: string): string {
  const lines = stderr
    .replace(/\/\/[^/@\s]*@/g, "//")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const last = lines.findLast((line) => /^(?:fatal|error|remote|ssh):/i.test(line)) ?? lines.at(-1);
  return last === undefined ? "it gave no reason" : truncateLine(escapeLine(last), MAX_STDERR_LENGTH);
}
