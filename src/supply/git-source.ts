import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { type Git, type GitProtocol, type GitResult, openGit } from "../sandbox/git.ts";
import { SkillError } from "../shared/error.ts";
import { grouped, nearest } from "../shared/text.ts";
import { staysAt } from "./address-hosts.ts";
import { judgedRef } from "./address-parts.ts";
import { type Address, type Fetched, type FetchOptions, SOURCE_LIMITS } from "./contract.ts";
import { leadsOn } from "./download.ts";
import { commitMissing, gitFailure } from "./git-failure.ts";
import { gitEntries, gitTree, submodulesOf } from "./git-tree.ts";
import { noSuchFolder } from "./inside-source.ts";
import { shown } from "./refusal.ts";
import { writeSource } from "./write-source.ts";

export type GitAddress = Extract<Address, { kind: "git" }>;

/** More than a repository of skills ever is, also with all its versions. */
const MOST_FETCHED = 2 * SOURCE_LIMITS.bytes;

/**
 * Fetches a repository, without ever checking it out: its files are read from its objects, so that nothing in it (hooks, filters,
 * attributes, submodules, links) is acted on.
 */
export async function fetchGit(address: GitAddress, options: FetchOptions, most = MOST_FETCHED): Promise<Fetched> {
  const { to, env, signal } = options;
  const { namesake } = address;
  judge(address, options.commit);
  const repository = join(to, ".repository");
  const git = await openGit({ env, repository, protocol: protocolOf(address.url), signal });
  try {
    await expectFine(git, ["init", "--bare", "--quiet", "--template="], address);
    const bound = boundSize(join(repository, "objects"), most, address);
    const commit = await bring(git, address, options.commit, bound.signal).finally(bound.stop);
    bound.signal.throwIfAborted();
    const rows = await gitTree(git, commit, address.inside);
    if (!rows) throw noSuchFolder(address.inside ?? "", (await gitTree(git, commit))?.map(({ path }) => path) ?? []);
    const fetched = await writeSource(address, gitEntries(git, rows), options);
    const notes = [...fetched.notes, ...submoduleNotes(submodulesOf(rows))];
    if (namesake !== undefined) notes.push(`It is from ${shown(address.url)}: for the folder here write ${namesake}`);
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
export async function remoteCommit(
  address: GitAddress,
  { env, signal }: Pick<FetchOptions, "env" | "signal">,
): Promise<string> {
  const { url, ref = "HEAD" } = address;
  judge(address);
  if (isCommit(ref)) return ref.toLowerCase();
  const git = await openGit({ env, repository: "/dev/null", protocol: protocolOf(url), signal });
  // In the order in which git itself looks for a name; what an annotated tag is of comes right after it.
  const names = [ref, `refs/${ref}`, `refs/tags/${ref}`, `refs/heads/${ref}`];
  const found = await listRemote(git, address, [], [...names, `refs/tags/${ref}^{}`]);
  const name = names.find((candidate) => found.has(candidate));
  const commit = name === undefined ? undefined : (found.get(`${name}^{}`) ?? found.get(name));
  if (commit === undefined) throw gitFailure(`couldn't find remote ref ${ref}`, address);
  return commit;
}

/** What a lock says may have been written by anybody. */
function judge(address: GitAddress, commit?: string): void {
  if (address.ref !== undefined) judgedRef(address.ref);
  if (commit !== undefined && !isCommit(commit)) throw commitMissing(shown(commit), address);
}

const FETCHED = "refs/skillet/fetched";
const EVERYTHING = ["+refs/heads/*:refs/skillet/heads/*", "+refs/tags/*:refs/skillet/tags/*"];

/** A name of 40 hexadecimal digits is a commit and never a branch that is called so. */
function isCommit(ref: string | undefined): ref is string {
  return ref !== undefined && /^[0-9a-f]{40}$/i.test(ref);
}

async function bring(git: Git, address: GitAddress, pinned: string | undefined, signal: AbortSignal): Promise<string> {
  const { url, ref } = address;
  const wanted = (pinned ?? (isCommit(ref) ? ref : undefined))?.toLowerCase();
  const fetch = (how: readonly string[], what: readonly string[]) =>
    asking(git, url, (at) =>
      git.run(["fetch", "--progress", "--no-tags", "--no-recurse-submodules", ...how, "--", at, ...what], signal),
    );
  const only = [`+${wanted ?? ref ?? "HEAD"}:${FETCHED}`];
  let result = await fetch(["--depth=1"], only);
  if (result.code !== 0 && IS_PLAIN.test(result.stderr)) result = await fetch([], only);
  if (result.code === 0) return fetchedCommit(git, wanted, FETCHED, address);
  if (wanted === undefined || !IS_WITHHELD.test(result.stderr)) throw await explain(git, result.stderr, address);
  // A server that gives out only what its branches and tags lead to: then all of that.
  const all = await fetch([], EVERYTHING);
  if (all.code !== 0) throw gitFailure(all.stderr, address);
  return fetchedCommit(git, wanted, wanted, address);
}

/** A server of files only knows no part of a history. */
const IS_PLAIN = /dumb http transport|does not support (?:shallow|--depth)/i;
const IS_WITHHELD =
  /not our ref|unadvertised object|unable to find|couldn't find remote ref|missing|bad object|corrupt/i;

/** Contract: `name` is a ref of ours, or a commit's whole id. */
async function fetchedCommit(git: Git, wanted: string | undefined, name: string, address: GitAddress): Promise<string> {
  const { code, stdout } = await git.run(["rev-parse", name, `${name}^{commit}`]);
  const [came = "", commit = ""] = code === 0 ? stdout.toString().split("\n") : [];
  // An annotated tag may be asked for by its own id.
  const isIt = wanted === undefined || came === wanted || commit === wanted;
  if (commit === "" || !isIt) throw commitMissing(wanted ?? address.ref ?? "HEAD", address);
  return commit;
}

/** What is missing, with the name that may have been meant. */
async function explain(git: Git, stderr: string, address: GitAddress): Promise<SkillError> {
  const failure = gitFailure(stderr, address);
  if (failure.code !== "git-ref-missing" || address.ref === undefined) return failure;
  const { ref } = address;
  const found = await listRemote(git, address, ["--heads", "--tags", "--refs"]).catch(() => undefined);
  const meant = nearest(
    ref,
    [...(found?.keys() ?? [])].map((name) => name.replace(/^refs\/(?:heads|tags)\//, "")),
  );
  if (meant === undefined) return failure;
  return new SkillError(failure.code, { message: failure.message, fix: `did you mean ${shown(meant)}?` });
}

async function listRemote(
  git: Git,
  address: GitAddress,
  how: readonly string[],
  names: readonly string[] = [],
): Promise<Map<string, string>> {
  const { code, stdout, stderr } = await asking(git, address.url, (at) =>
    git.run(["ls-remote", "--quiet", ...how, "--", at, ...names]),
  );
  if (code !== 0) throw gitFailure(stderr, address);
  const lines = stdout.toString().split("\n").filter(Boolean);
  return new Map(
    lines.map((line) => {
      const [id = "", name = ""] = line.split("\t");
      return [name, id];
    }),
  );
}

const MOST_REDIRECTS = 5;
const IS_SENT_ON = /returned error: 30[1278]/;
const ASKED_FOR = "/info/refs";

/** Asks a server, and again where it leads on to, as long as it stays itself. */
async function asking(git: Git, url: string, ask: (at: string) => Promise<GitResult>): Promise<GitResult> {
  let at = url;
  for (let redirects = 0; ; redirects++) {
    const result = await ask(at);
    if (result.code === 0 || !IS_SENT_ON.test(result.stderr) || redirects === MOST_REDIRECTS) return result;
    const to = URL.parse((await git.leadsTo(at)) ?? "", `${at.replace(/\/$/, "")}${ASKED_FOR}`);
    if (!to?.pathname.endsWith(ASKED_FOR)) return result;
    const from = new URL(at);
    to.pathname = to.pathname.slice(0, -ASKED_FOR.length);
    to.search = "";
    if (!staysAt(from, to)) throw leadsOn(at, to);
    Object.assign(to, { username: from.username, password: "" });
    at = to.href;
  }
}

async function expectFine(git: Git, args: readonly string[], address: GitAddress): Promise<void> {
  const { code, stderr } = await git.run(args);
  if (code !== 0) throw gitFailure(stderr, address);
}

function protocolOf(url: string): GitProtocol {
  const scheme = /^(file|https?|ssh):\/\//.exec(url)?.[1];
  return (scheme ?? "ssh") as GitProtocol;
}

/** Who sends may go on for ever: what comes in is looked at meanwhile. */
function boundSize(objects: string, most: number, { url }: GitAddress): { signal: AbortSignal; stop(): void } {
  const controller = new AbortController();
  const look = () => {
    if (bytesIn(join(objects, "pack")) <= most) return;
    controller.abort(
      new SkillError("source-too-large", {
        message: `${shown(url)} has more than ${grouped(most)} bytes`,
        fix: "add the skills as an archive, or from a smaller repository",
      }),
    );
  };
  const timer = setInterval(look, LOOK_MS);
  const stop = () => {
    clearInterval(timer);
    look();
  };
  return { signal: controller.signal, stop };
}

const LOOK_MS = 200;

function bytesIn(folder: string): number {
  try {
    return readdirSync(folder)
      .map((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0)
      .reduce((sum, size) => sum + size, 0);
  } catch {
    return 0; // It is not there yet.
  }
}

function submoduleNotes(paths: readonly string[]): string[] {
  return paths.map((path) => `${shown(path)} is another repository (a submodule), and was not fetched`);
}
