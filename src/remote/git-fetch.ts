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
import { listGitTree, listSubmodules, readGitEntries } from "./git-tree.ts";
import {
  type FetchedSource,
  type FetchSourceOptions,
  quoteSourcePath,
  SOURCE_LIMITS,
  type SourceAddress,
} from "./remote-source.ts";
import { isSameHost, parseGitRef } from "./source-address.ts";

export type GitSourceAddress = Extract<SourceAddress, { kind: "git" }>;

/** More than a repository of skills ever is, also with all its versions. */
const MAX_FETCHED_BYTES = 2 * SOURCE_LIMITS.bytes;

/**
 * Fetches a repository, without ever checking it out: its files are read from its objects, so that nothing in it (hooks, filters,
 * attributes, submodules, links) is acted on.
 */
export async function fetchGit(
  address: GitSourceAddress,
  options: FetchSourceOptions,
  most = MAX_FETCHED_BYTES,
): Promise<FetchedSource> {
  const { to, env, signal } = options;
  const { namesake } = address;
  checkGitAddress(address, options.commit);
  const repository = join(to, ".repository");
  const git = await createGit({ env, repository, protocol: getGitProtocol(address.url), signal });
  try {
    await runGitChecked(git, ["init", "--bare", "--quiet", "--template="], address);
    const bound = limitObjectSize(join(repository, "objects"), most, address);
    const commit = await fetchCommit(git, address, options.commit, bound.signal).finally(bound.stop);
    bound.signal.throwIfAborted();
    const rows = await listGitTree(git, commit, address.inside);
    if (!rows)
      throw createNoFolderError(address.inside ?? "", (await listGitTree(git, commit))?.map(({ path }) => path) ?? []);
    const fetched = await extractSource(address, readGitEntries(git, rows), options);
    const notes = [...fetched.notes, ...describeSubmodules(listSubmodules(rows))];
    if (namesake !== undefined)
      notes.push(`It is from ${quoteSourcePath(address.url)}: for the folder here write ${namesake}`);
    return { ...fetched, commit, notes };
  } catch (error) {
    if (namesake === undefined || !(error instanceof SkillError)) throw error;
    const { code, message, fix } = error;
    throw new SkillError(code, { message, fix: `for the folder here write ${namesake}; else ${fix}`, cause: error });
  } finally {
    rmSync(repository, { recursive: true, force: true });
  }
}

/** The commit that a repository's branch or tag leads to now. Nothing is fetched. */
export async function readRemoteCommit(
  address: GitSourceAddress,
  { env, signal }: Pick<FetchSourceOptions, "env" | "signal">,
): Promise<string> {
  const { url, ref = "HEAD" } = address;
  checkGitAddress(address);
  if (isCommitHash(ref)) return ref.toLowerCase();
  const git = await createGit({ env, repository: "/dev/null", protocol: getGitProtocol(url), signal });
  // In the order in which git itself looks for a name; what an annotated tag is of comes right after it.
  const names = [ref, `refs/${ref}`, `refs/tags/${ref}`, `refs/heads/${ref}`];
  const found = await listRemote(git, address, [], [...names, `refs/tags/${ref}^{}`]);
  const name = names.find((candidate) => found.has(candidate));
  const commit = name === undefined ? undefined : (found.get(`${name}^{}`) ?? found.get(name));
  if (commit === undefined) throw createGitError(`couldn't find remote ref ${ref}`, address);
  return commit;
}

/** What a lock says may have been written by anybody. */
function checkGitAddress(address: GitSourceAddress, commit?: string): void {
  if (address.ref !== undefined) parseGitRef(address.ref);
  if (commit !== undefined && !isCommitHash(commit)) throw createCommitMissingError(quoteSourcePath(commit), address);
}

const FETCHED_REF = "refs/skillet/fetched";
const ALL_REFSPECS = ["+refs/heads/*:refs/skillet/heads/*", "+refs/tags/*:refs/skillet/tags/*"];

/** A name of 40 hexadecimal digits is a commit and never a branch that is called so. */
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
  // A server that gives out only what its branches and tags lead to: then all of that.
  const all = await fetch([], ALL_REFSPECS);
  if (all.code !== 0) throw createGitError(all.stderr, address);
  return resolveFetchedCommit(git, wanted, wanted, address);
}

/** A server of files only knows no part of a history. */
const NO_SHALLOW_PATTERN = /dumb http transport|does not support (?:shallow|--depth)/i;
const UNADVERTISED_PATTERN =
  /not our ref|unadvertised object|unable to find|couldn't find remote ref|missing|bad object|corrupt/i;

/** Contract: `name` is a ref of ours, or a commit's whole id. */
async function resolveFetchedCommit(
  git: Git,
  wanted: string | undefined,
  name: string,
  address: GitSourceAddress,
): Promise<string> {
  const { code, stdout } = await git.run(["rev-parse", name, `${name}^{commit}`]);
  const [came = "", commit = ""] = code === 0 ? stdout.toString().split("\n") : [];
  // An annotated tag may be asked for by its own id.
  const isIt = wanted === undefined || came === wanted || commit === wanted;
  if (commit === "" || !isIt) throw createCommitMissingError(wanted ?? address.ref ?? "HEAD", address);
  return commit;
}

/** What is missing, with the name that may have been meant. */
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

/** Asks a server, and again where it leads on to, as long as it stays itself. */
async function retryRedirected(git: Git, url: string, ask: (at: string) => Promise<GitResult>): Promise<GitResult> {
  let at = url;
  for (let redirects = 0; ; redirects++) {
    const result = await ask(at);
    if (result.code === 0 || !REDIRECT_PATTERN.test(result.stderr) || redirects === MAX_REDIRECTS) return result;
    const to = URL.parse((await git.leadsTo(at)) ?? "", `${at.replace(/\/$/, "")}${INFO_REFS_PATH}`);
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

/** Who sends may go on for ever: what comes in is looked at meanwhile. */
function limitObjectSize(
  objects: string,
  most: number,
  { url }: GitSourceAddress,
): { signal: AbortSignal; stop(): void } {
  const controller = new AbortController();
  const look = () => {
    if (measureFolder(join(objects, "pack")) <= most) return;
    controller.abort(
      new SkillError("source-too-large", {
        message: `${quoteSourcePath(url)} has more than ${formatNumber(most)} bytes`,
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
    return 0; // It is not there yet.
  }
}

function describeSubmodules(paths: readonly string[]): string[] {
  return paths.map((path) => `${quoteSourcePath(path)} is another repository (a submodule), and was not fetched`);
}

/** What was asked for when git failed. */
interface GitRequest {
  url: string;
  /** The branch, tag or commit; the default branch when left out. */
  ref?: string | undefined;
}

interface GitFailureRule {
  said: RegExp;
  code: ErrorCode;
  message(asked: GitRequest): string;
  fix: string;
}

const NOT_FOUND_FIX =
  "check the address; for a private repository sign git in (a credential helper, `gh auth setup-git`), or use its ssh address";

/** What git says, and what is to be said of it. The first that fits counts. */
const GIT_FAILURES: readonly GitFailureRule[] = [
  {
    said: /ssh: (?:command )?not found|cannot run .*ssh/i,
    code: "git-missing",
    message: ({ url }) => `ssh is needed for ${quoteSourcePath(url)}, and is not on this machine`,
    fix: "install it (`sudo apt-get install openssh-client`), or use the repository's https address",
  },
  {
    said: /could not read (?:Username|Password)|Authentication failed|Access denied|returned error: 40[13]|Permission denied \(/i,
    code: "git-sign-in",
    message: ({ url }) => `${quoteSourcePath(url)} is not there, or not for everybody, and git has no sign-in for it`,
    fix: NOT_FOUND_FIX,
  },
  {
    said: /returned error: 30[1278]/i,
    code: "download-redirect",
    message: ({ url }) => `${quoteSourcePath(url)} leads on to another address`,
    fix: "give the address that it leads to at last",
  },
  {
    said: /Host key verification failed/i,
    code: "git-host-key",
    message: ({ url }) => `The host of ${quoteSourcePath(url)} is not known to ssh, or is another one than before`,
    fix: "connect to it once by hand (`ssh -T git@HOST`) and compare its fingerprint with what it publishes",
  },
  {
    said: /couldn't find remote ref HEAD|Remote HEAD refers to nonexistent ref/i,
    code: "git-empty",
    message: ({ url }) => `${quoteSourcePath(url)} has no default branch, or nothing in it`,
    fix: "name a branch: ADDRESS#branch",
  },
  {
    said: /couldn't find remote ref|no such remote ref/i,
    code: "git-ref-missing",
    message: ({ url, ref = "" }) => `${quoteSourcePath(url)} has no branch and no tag ${quoteSourcePath(ref)}`,
    fix: "give a branch or a tag, or a commit with all of its 40 digits",
  },
  {
    said: /dubious ownership/i,
    code: "git-owner",
    message: ({ url }) => `${quoteSourcePath(url)} belongs to another user, whose settings git does not follow`,
    fix: "add it as a folder, by its path",
  },
  {
    said: /mismatched algorithms|object format|hash algorithm/i,
    code: "git-object-format",
    message: ({ url }) => `${quoteSourcePath(url)} names its commits by SHA-256, which is not fetched`,
    fix: "add it as a folder, or as an archive",
  },
  {
    said: /certificate|SSL|TLS/,
    code: "git-certificate",
    message: ({ url }) => `The host of ${quoteSourcePath(url)} has no certificate that git trusts`,
    fix: "check the address; git's own setting http.sslCAInfo names the certificates of a company",
  },
  {
    said: /returned error: 404|does not appear to be a git repository|repository .*(?:not found|does not exist)|not found|no such file/i,
    code: "git-not-found",
    message: ({ url }) => `There is no repository at ${quoteSourcePath(url)}`,
    fix: "check the address; a folder that is none is added by its path",
  },
  {
    said: /Could not resolve|Failed to connect|Connection (?:refused|reset|timed out|closed)|unable to access|network is unreachable/i,
    code: "git-unreachable",
    message: ({ url }) => `The host of ${quoteSourcePath(url)} cannot be reached`,
    fix: "check the address and the network, and try again",
  },
];

/** What git said, as an error with one sentence to read and one thing to try. */
function createGitError(stderr: string, asked: GitRequest): SkillError {
  const known = GIT_FAILURES.find(({ said }) => said.test(stderr));
  if (known) return new SkillError(known.code, { message: known.message(asked), fix: known.fix });
  return new SkillError("git-failed", {
    message: `git cannot fetch ${quoteSourcePath(asked.url)}: ${excerptStderr(stderr)}`,
    fix: "`git ls-remote` with the same address says whether git can reach it by itself",
  });
}

function createCommitMissingError(commit: string, { url }: GitRequest): SkillError {
  return new SkillError("git-commit-missing", {
    message: `${quoteSourcePath(url)} has no commit ${commit}`,
    fix: "it may have been taken back there: look at what is there now before you add it again",
  });
}

const MAX_STDERR_LENGTH = 300;

/** Its last line that says what is wrong, without what signs somebody in. */
function excerptStderr(stderr: string): string {
  const lines = stderr
    .replace(/\/\/[^/@\s]*@/g, "//")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const last = lines.findLast((line) => /^(?:fatal|error|remote|ssh):/i.test(line)) ?? lines.at(-1);
  return last === undefined ? "it gave no reason" : truncateLine(escapeLine(last), MAX_STDERR_LENGTH);
}
