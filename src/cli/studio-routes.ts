import { createHash } from "node:crypto";
import { type ChangeFeed, createRunPoll } from "../adapters/studio/studio-changes.ts";
import type { StudioRequest, StudioRoute } from "../adapters/studio/studio-server.ts";
import { createHostRedactor } from "../agent/run/redaction.ts";
import type { ListingClient } from "../catalog/client-listings.ts";
import { TIERS } from "../catalog/disclose.ts";
import { watchCatalog } from "../config/live-settings.ts";
import { SkillError } from "../errors/problem.ts";
import type { ApprovalRequest } from "../host/approval.ts";
import type { Skill } from "../skill/skill.ts";
import type { Watcher } from "../skill/source/watch-folders.ts";
import { isFinishedState, type RunSummary, requireKnownFormat } from "../store/run-rules.ts";
import { createRedactor } from "../util/redact.ts";
import { packageVersion } from "../util/system.ts";
import { type CommandHost, type CommonOptions, discoverForRun } from "./command-context.ts";
import type { CommandIo } from "./output.ts";

export interface StudioContext {
  io: CommandIo;
  options: CommonOptions;
  host: StudioHost;
  feed: ChangeFeed;
  isReadOnly: boolean;
  /** Aborted when the command ends. */
  signal: AbortSignal;
}

/**
 * Creates the routes of the page. Each answers with the value that a command prints with `--json`, from the same function; only that
 * function is imported, when it is first needed.
 */
export function createStudioRoutes(context: StudioContext): StudioRoute[] {
  const { host } = context;
  const read = (path: string, answer: (found: CommandHost, request: StudioRequest) => unknown): StudioRoute => ({
    method: "GET",
    path,
    answer: async (request) => answer(await host.found(), request),
  });
  /** For what starts processes: a page of another origin could make a browser send a GET. */
  const start = (path: string, answer: (found: CommandHost) => unknown): StudioRoute => ({
    method: "POST",
    path,
    answer: async () => answer(await host.found()),
  });
  const change = (path: string, answer: (found: CommandHost, request: StudioRequest) => unknown): StudioRoute => ({
    ...read(path, answer),
    method: "POST",
    isChange: true,
  });
  return [
    read("/api/studio", (found) => describeStudio(context, found)),
    read("/api/skills", async (found) => (await import("./commands/list.ts")).toListJson(found, { isAll: true })),
    read("/api/tokens", countAllTokens),
    read("/api/skills/:name", showSkillDetails),
    read("/api/skills/:name/files/:index", showSkillFile),
    read("/api/clients", async (found) => {
      const { listClientViews } = await import("../remote/clients/native-clients.ts");
      return { clients: listClientViews(found) };
    }),
    read("/api/explain", explainQuery),
    read("/api/explain/tiers", explainTiers),
    read("/api/runs", listRuns),
    read("/api/runs/:id", async (found, { params: { id = "" } }) => {
      const summary = await findRun(found, id);
      const { createRunReport } = await import("../store/run-timeline.ts");
      return createRunReport(summary, await found.runs.read(summary.id));
    }),
    read("/api/approvals", listApprovals),
    read("/api/evals", async ({ home }) => {
      const { readEvalReports } = await import("../eval/eval-report.ts");
      return { reports: readEvalReports(home) };
    }),
    read("/api/stats", async (found) => {
      const { collectStatistics, toStatsJson } = await import("./commands/stats.ts");
      return toStatsJson(await collectStatistics(found));
    }),
    start("/api/doctor", async (found) => {
      const { collectDoctorFacts, toDoctorJson } = await import("./commands/doctor.ts");
      return toDoctorJson(await collectDoctorFacts(createQuietIo(context.io), found));
    }),
    start("/api/sandbox", async (found) =>
      (await import("./commands/sandbox-views.ts")).toSafetyJson(found, context.signal),
    ),
    change("/api/approvals/:id", (found, request) => answerRun(context, found, request)),
    change("/api/held/:id", decideHeldChanges),
    change("/api/runs/:id/resume", async (found, { params: { id = "" } }) =>
      resumeInBackground(context, await findRun(found, id)),
    ),
    change("/api/runs/:id/cancel", async (found, { params: { id = "" } }) => {
      const { cancelStoredRun } = await import("./commands/resume.ts");
      const { owner } = await cancelStoredRun(found, (await findRun(found, id)).id);
      return { run: id, ...(owner === undefined ? {} : { owner }) };
    }),
  ];
}

/** Removes the secrets that the configuration holds, as runs do. */
export function createStudioRedactor({ current }: StudioHost) {
  const found = current();
  return found === undefined ? createRedactor(new Map()) : createHostRedactor(found);
}

function describeStudio({ isReadOnly }: StudioContext, { around: environment }: CommandHost) {
  return { skillet: packageVersion(), workspace: environment.workspace, home: environment.home, isReadOnly };
}

/** Counts the tokens of every skill, as `show` does. Reads each body, so other requests are answered in between. */
async function countAllTokens(found: CommandHost) {
  const { countSkillTokens } = await import("./commands/show.ts");
  const tokens: Record<string, Awaited<ReturnType<typeof countSkillTokens>>> = {};
  for (const [at, skill] of found.catalog.skills.entries()) {
    if (at % SLICE_SIZE === SLICE_SIZE - 1) await new Promise(setImmediate);
    try {
      tokens[skill.name] = await countSkillTokens(skill);
    } catch {} // Its file was just removed.
  }
  return { tokens };
}

const SLICE_SIZE = 100;

function findSkill({ catalog }: CommandHost, name: string): Skill {
  return catalog.find(name) ?? catalog.get(name); // `get` throws with the nearest name.
}

async function showSkillDetails(found: CommandHost, { params: { name = "" } }: StudioRequest) {
  const skill = findSkill(found, name);
  const [{ toShowJson }, { collectExportedCopies }] = await Promise.all([
    import("./commands/show.ts"),
    import("./commands/export-manage.ts"),
  ]);
  await skill.fetch?.();
  const shown = await toShowJson(skill, found, { hasBody: true });
  return { ...shown, exports: (await collectExportedCopies(found, skill.name)).installed };
}

/** Shows a file by its number in the list of files: no path of the client is read. */
async function showSkillFile(found: CommandHost, { params: { name = "", index = "" } }: StudioRequest) {
  const skill = findSkill(found, name);
  const file = /^\d{1,5}$/.test(index) ? (await skill.files()).files[Number(index)] : undefined;
  if (!file) throw new SkillError("not-found", { message: `${name} has no file ${index}`, fix: "reload the page" });
  await skill.fetch?.([file.path]);
  return (await import("./commands/show.ts")).toSkillFileJson(skill, file.path);
}

async function explainQuery(found: CommandHost, { query }: StudioRequest) {
  const { collectExplanation, explainSkill, LISTING_CLIENTS, toExplainJson } = await import("./commands/explain.ts");
  const text = query.get("query") ?? "";
  const [name, client] = [query.get("skill"), query.get("as")];
  if (client !== null) {
    const known = LISTING_CLIENTS.find((id) => id === client) satisfies ListingClient | undefined;
    if (!known) throw new SkillError("usage", { message: `Unknown client "${client}"`, fix: "choose one of the list" });
    return (await import("./commands/explain-client.ts")).collectClientFacts(text, found, known);
  }
  const facts = await collectExplanation(text, found);
  return name === null ? toExplainJson(facts) : explainSkill(facts, findSkill(found, name));
}

/** What a model would get at each tier: what `explain --tier` prints. */
async function explainTiers(found: CommandHost, { query }: StudioRequest) {
  const { collectExplanation, toExplainJson } = await import("./commands/explain.ts");
  const text = query.get("query") ?? "";
  const tiers = TIERS.map(async (tier) => toExplainJson(await collectExplanation(text, found, { tier })));
  return {
    tiers: (await Promise.all(tiers)).map(({ tier, tokens, prefix, suffix }) => ({ tier, tokens, prefix, suffix })),
  };
}

const MAX_RUNS = 1000;

async function listRuns({ runs }: CommandHost) {
  const { toRunListJson } = await import("./commands/runs.ts");
  const { searchRuns } = await import("../store/run-rules.ts");
  const { runs: newest, total } = await searchRuns(runs, { limit: MAX_RUNS });
  return toRunListJson(newest, total);
}

/** Finds a run by its whole id. */
async function findRun({ runs }: CommandHost, id: string): Promise<RunSummary> {
  const run = await runs.find(id);
  if (run.id === id) return run;
  throw new SkillError("run-unknown", { message: `Unknown run ${id}`, fix: "see the list of runs" });
}

/** All that waits, with a digest of each request: an answer repeats it, so that it is for what was shown. */
async function listApprovals({ runs, approvals, home }: CommandHost) {
  const [{ toApproveJson }, { listHeldChanges }] = await Promise.all([
    import("./commands/approve.ts"),
    import("../agent/workspace/held-changes.ts"),
  ]);
  const facts = await toApproveJson({ runs, approvals, held: listHeldChanges(home) });
  const entries = [
    ...facts.waiting.map(({ id, approvalRequest: request }) => [id, digestOf(request)] as const),
    ...facts.held.map((held) => [held.id, digestOf(held)] as const),
  ];
  return { ...facts, digests: Object.fromEntries(entries) };
}

function digestOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

/** Answers exactly the request that the page showed, and resumes the run if no process works on it. */
async function answerRun(context: StudioContext, found: CommandHost, { params: { id = "" }, body }: StudioRequest) {
  const { answerRequest, createApproval, isAsking } = await import("./commands/approve.ts");
  const { createNotWaitingError } = await import("../store/run-rules.ts");
  const run = requireKnownFormat(await findRun(found, id));
  const { approvalRequest: request } = run;
  if (!isAsking(run) || !request) throw createNotWaitingError(run);
  requireSameRequest(request, body["digest"], id);
  const approval = createApproval(parseDecision(context, body), request);
  await answerRequest(found, { ...run, approvalRequest: request }, approval);
  context.feed.report("approvals");
  const answer = { run: id, approvalRequest: request, ...approval };
  if (run.owner !== undefined) return { ...answer, owner: run.owner };
  return { ...answer, ...(await resumeInBackground(context, await findRun(found, id))) };
}

function requireSameRequest(shown: ApprovalRequest | object, digest: unknown, id: string): void {
  if (digestOf(shown) === digest) return;
  throw new SkillError("no-pending-approval", {
    message: `${id} now asks for a different approval`,
    fix: "review the new request",
  });
}

/** The answers of the page: `once`, `run`, `always`, or `deny` with a reason, which is redacted because the model receives it. */
function parseDecision({ host }: StudioContext, { decision, reason }: StudioRequest["body"]) {
  if (decision === "deny") return { deny: createStudioRedactor(host).redact(typeof reason === "string" ? reason : "") };
  if (decision === "once" || decision === "run" || decision === "always") return { [decision]: true };
  throw new SkillError("usage", {
    message: "Unknown answer: only once, run, always and deny exist",
    fix: "reload the page",
  });
}

async function decideHeldChanges({ home }: CommandHost, { params: { id = "" }, body }: StudioRequest) {
  const { applyHeldChanges, discardHeldChanges, listHeldChanges } = await import("../agent/workspace/held-changes.ts");
  const { toHeldChangesJson } = await import("./commands/approve.ts");
  const held = listHeldChanges(home).find((one) => one.id === id);
  if (!held) throw new SkillError("not-found", { message: `No changes are held as ${id}`, fix: "reload the page" });
  requireSameRequest(toHeldChangesJson(held), body["digest"], id);
  const isApproved = body["decision"] === "apply";
  if (isApproved) applyHeldChanges(home, held);
  else discardHeldChanges(home, held.id);
  return { held: toHeldChangesJson(held), isApproved };
}

/** Resumes a run in this process. Its next request waits in its journal, where the page shows it. */
async function resumeInBackground({ io, options, feed }: StudioContext, run: RunSummary) {
  const { discoverForResume, refuseEnded } = await import("./commands/resume.ts");
  refuseEnded(run);
  const quiet = createQuietIo(io);
  const found = await discoverForResume(quiet, run, options);
  const resume =
    run.kind === "use"
      ? (await import("../agent/run/resume-run.ts")).resumeRun
      : (await import("../agent/session/conversation.ts")).resumeChat;
  // The run records its own end. Only a run that cannot be resumed has nothing to record.
  const resumed = resume(found.catalog, found, run.id);
  void Promise.resolve(resumed).finally(() => {
    feed.report("runs", [run.id]);
    feed.report("approvals");
  });
  return { run: run.id, isResumed: !isFinishedState(run.state) };
}

/** Without a terminal: nothing that the page starts may ask or print there. */
function createQuietIo({ env, cwd }: CommandIo): CommandIo {
  const silent = { write: () => true };
  return { env, cwd, stdout: silent, stderr: silent };
}

/** The discovery result of a page: its catalog follows the folders. */
interface StudioHost {
  /** Rejects if the discovery failed. */
  found(): Promise<CommandHost>;
  /** Returns the present result, if the discovery is done. */
  current(): CommandHost | undefined;
  close(): Promise<void>;
}

/** Starts the discovery, and follows changes of the folders and the configuration. */
export function openStudioHost(io: CommandIo, options: CommonOptions, feed: ChangeFeed): StudioHost {
  let current: CommandHost | undefined;
  let watching: Promise<Watcher | undefined> = Promise.resolve(undefined);
  let isClosed = false;
  const timers: NodeJS.Timeout[] = [];
  const onError = () => {}; // A folder that cannot be read is a diagnostic of the next catalog.
  /** Watches the folders of the catalog. Contract: a change made while the watchers start is found by a reload. */
  const follow = async (host: CommandHost) => {
    const watcher = await watchCatalog(
      host.catalog,
      ({ catalog, added, changed, removed }) => {
        current = { ...host, catalog };
        feed.report(
          "skills",
          [...added, ...changed, ...removed].map(({ name }) => name),
        );
      },
      { onError },
    );
    current = { ...host, catalog: await host.catalog.reload() };
    feed.report("skills");
    return watcher;
  };
  const restart = (host: CommandHost) => {
    watching = watching
      .then((watcher) => watcher?.close())
      .then(async () => (isClosed ? undefined : follow({ ...host, catalog: await host.catalog.reload() })))
      .catch(() => undefined);
  };
  const first = discoverForRun(io, options).then((host) => {
    current = host;
    let { sources } = host.settings;
    let configuration = host.currentConfiguration();
    const look = () => {
      if (configuration === host.currentConfiguration()) return;
      configuration = host.currentConfiguration();
      if (sources !== host.settings.sources) restart(host);
      ({ sources } = host.settings);
      feed.report("skills");
    };
    if (isClosed) return host;
    // The page is shown first: a watcher for each of thousands of folders takes a while.
    timers.push(setTimeout(() => restart(host), START_MS).unref(), setInterval(look, POLL_MS).unref());
    timers.push(setInterval(createRunPoll(host, feed), RUNS_POLL_MS).unref());
    return host;
  });
  first.catch(() => {}); // Each request reports it.
  return {
    found: async () => current ?? (await first),
    current: () => current,
    async close() {
      isClosed = true;
      for (const timer of timers) clearTimeout(timer);
      await (await watching)?.close();
    },
  };
}

const START_MS = 500;
const POLL_MS = 500;
/** For runs in a database: one small query while a page is open. */
const RUNS_POLL_MS = 1000;
