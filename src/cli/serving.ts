import { basename, join } from "node:path";
import { createSkillServer, type SkillServer } from "../adapters/mcp-server/skill-server.ts";
import { findFirstDenial } from "../agent/policy/skill-policies.ts";
import { createAuditLog } from "../capabilities/audit-log.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { DiscoverResult } from "../config/discover.ts";
import type { Host } from "../config/host.ts";
import { announceProcess, readConfigFingerprint } from "../config/live-settings.ts";
import { SkillError } from "../errors/problem.ts";
import type { SkillEvent } from "../host/events.ts";
import { findNamesListedByClient } from "../remote/clients/native-clients.ts";
import type { Skill } from "../skill/skill.ts";
import type { Watcher } from "../skill/source/watch-folders.ts";
import { createFileMailbox } from "../store/mailbox.ts";
import { SERVER_TOKENS_FILE } from "../store/server-tokens.ts";
import { formatCount, quoteIfNeeded, truncateLine } from "../util/text.ts";
import {
  type CallerOptions,
  type CommandContext,
  type CommandHost,
  createConfigurationWarner,
} from "./command-context.ts";
import { type CommandIo, createPrinter, printProblem } from "./output.ts";
import type { TraceSink } from "./progress.ts";
import { createApprovingHost } from "./run-output.ts";

/** The options of `skillet serve`. */
export interface ServeCommandOptions extends CallerOptions {
  http?: string;
  /** `false`: `--no-token`. */
  token?: string | boolean;
  accessLog?: string;
  allowHost?: string[];
  allowOrigin?: string[];
  only?: string[];
  all?: boolean;
  load?: string[];
  authoring?: boolean;
  readOnly?: boolean;
  /** `--no-use`. */
  use?: boolean;
  yes?: boolean;
}

export interface ServeContext extends Omit<CommandContext<ServeCommandOptions>, "args"> {
  found: CommandHost;
  traces: TraceSink | undefined;
}

/** Skills that are served, and the host that sessions have. */
export interface Serving {
  serving: SkillServer;
  host: Host;
}

/** Creates the server of the skills found in one workspace. `observe`: called with every event, in addition to the traces. */
export function createServing(
  { io, options, found, traces }: ServeContext,
  observe: (event: SkillEvent) => void = () => {},
): Serving {
  // There is no terminal: approvals are requested from the client's user, or wait.
  const { ask: _, ...nonInteractive } = io;
  const { host: approving } = createApprovingHost(nonInteractive, found, { yes: options.yes === true });
  // Over HTTP, the user starts the server; otherwise a client does.
  const host: Host = {
    ...approving,
    isClientEnv: options.http === undefined,
    onEvent(event) {
      traces?.record(event);
      observe(event);
    },
  };
  const serving = explainUsageError(() =>
    createSkillServer(found.catalog, host, {
      ...(options.only ? { only: options.only } : {}),
      ...(options.load ? { load: options.load } : {}),
      authoring: options.authoring === true,
      isReadOnly: options.readOnly === true,
      allowsSubAgents: options.use !== false,
      // Over HTTP, the client may run on another machine or in another folder.
      ...(options.all || options.http !== undefined
        ? {}
        : { listedByClient: (client, catalog) => findNamesListedByClient({ ...found, catalog }, client) }),
      ...(options.http === undefined ? {} : { mailbox: found.mailbox ?? createFileMailbox(found.home) }),
      onNotice: (text) => printServerLine(io, text),
    }),
  );
  printUntrustedWorkspace(io, serving, found);
  return { serving, host };
}

/** Turns errors about the requested skills into usage errors. */
function explainUsageError<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    throw new SkillError("usage", error.problem);
  }
}

/** Returns a function that notifies clients of changes, and prints skills that became untrusted. */
export function createRefresher(io: CommandIo, serving: SkillServer, found: DiscoverResult): () => Promise<void> {
  const namesOf = () => serving.untrusted.map(({ name }) => name).join();
  let text = namesOf();
  return async () => {
    await serving.refresh();
    if (namesOf() !== text) printUntrustedWorkspace(io, serving, found);
    text = namesOf();
  };
}

function printUntrustedWorkspace(io: CommandIo, { untrusted }: SkillServer, { workspace }: DiscoverResult): void {
  const [first, another] = untrusted;
  if (!first) return;
  const out = createPrinter(io.stderr, io.env);
  const names = truncateLine(untrusted.map(({ name }) => name).join(", "), 200);
  const isHere = untrusted.every(({ origin }) => origin.scope === "workspace");
  const command = isHere ? `--text ${quoteIfNeeded(workspace)}` : another ? "NAME" : quoteIfNeeded(first.name);
  const message = `${formatCount(untrusted.length, "skill")} not served until ${isHere ? "approved" : "trusted"}: ${names}`;
  const fix = `review ${another ? "them" : "it"}, then run`;
  printProblem(out, out.yellow("!"), { message, fix, commands: [`skillet trust ${command}`] });
}

/** Prints the skills that are hidden because no chat was stated. */
export function printHiddenSkills(io: CommandIo, serving: SkillServer, found: DiscoverResult): void {
  const isOfChat = (skill: Skill) => /^chat-/.test(findFirstDenial(skill, found)?.code ?? "");
  const hidden = serving.catalog.skills.filter(isOfChat).map(({ name }) => name);
  if (hidden.length === 0) return;
  printServerLine(
    io,
    `${formatCount(hidden.length, "skill")} not for this chat: ${hidden.join(", ")} (set --chat-type and --chat-id)`,
  );
}

/** Watches the folders, the trust and the configuration. Starts half a second later, after the client's first answer. */
export function watchForChanges(
  io: CommandIo,
  found: DiscoverResult,
  onChange: () => Promise<void>,
  { onTokens = () => {} }: { onTokens?: () => void } = {},
): Watcher {
  const over = new AbortController();
  const onError = (error: unknown) => printServerLine(io, String(error));
  const changed = () => void onChange().catch(onError);
  const warn = createConfigurationWarner(io, found);
  let known = fingerprintTrust(found);
  const announcement = announceProcess(found, "server", () => known.files);
  let folders: Promise<Watcher | undefined> = Promise.resolve(undefined);
  const watchFolders = async (before: Promise<Watcher | undefined>, catalog: Promise<Catalog>) => {
    await (await before)?.close();
    const { watchCatalog } = await import("../config/live-settings.ts");
    return over.signal.aborted ? undefined : watchCatalog(await catalog, changed, { onError });
  };
  const follow = (catalog: Promise<Catalog>) => {
    folders = watchFolders(folders, catalog).catch((error) => void onError(error));
  };
  const audit = createAuditLog(found.home);
  const look = () => {
    const now = fingerprintTrust(found);
    const changedFiles = listChangedFiles(known, now);
    if (now.configuration !== known.configuration) warn();
    onTokens(); // Also without a change: a token may have expired.
    if (now.sources !== known.sources) {
      follow(found.catalog.reload());
      void folders.then(changed); // Picks up changes made before the new folders were watched.
    }
    if (now.configuration !== known.configuration || now.trust !== known.trust) changed();
    known = now;
    announcement.update();
    // The line shows when the change took effect here.
    for (const account of changedFiles)
      audit.add({ ...NO_RUN, method: "server.apply", account, outcome: "ok" }).catch(onError);
  };
  const timers = [
    setTimeout(() => follow(Promise.resolve(found.catalog)), SERVE_POLL_MS).unref(),
    setInterval(() => {
      try {
        look();
      } catch (error) {
        onError(error); // The server continues, and looks again.
      }
    }, SERVE_POLL_MS).unref(),
  ];
  return {
    async close() {
      over.abort();
      announcement.close();
      for (const timer of timers) clearTimeout(timer);
      await (await folders)?.close();
    },
  };
}

const SERVE_POLL_MS = 500;

/** Returns the state of the configuration and of the files that decide who may do what. */
function fingerprintTrust({ home, settings, currentConfiguration }: DiscoverResult) {
  const files = Object.fromEntries(
    FOLLOWED_FILES.map((name) => [join(home, name), readConfigFingerprint(join(home, name))]),
  );
  return {
    configuration: currentConfiguration(),
    sources: settings.sources,
    trust: ["trust.json", "text-approvals.json"].map((name) => files[join(home, name)]).join(),
    files,
  };
}

function listChangedFiles(
  before: ReturnType<typeof fingerprintTrust>,
  now: ReturnType<typeof fingerprintTrust>,
): readonly string[] {
  const changed = Object.keys(now.files).filter((file) => now.files[file] !== before.files[file]);
  const applied = ({ configuration }: typeof now) =>
    configuration.files.map(({ path, fingerprint = "" }) => [path, fingerprint] as const);
  const known = new Map(applied(before));
  // An empty fingerprint: the file was still being written when it was read.
  const configs = applied(now).filter(([path, is]) => is !== "" && known.get(path) !== "" && known.get(path) !== is);
  return [...changed, ...configs.map(([path]) => path)].map((path) => basename(path));
}

/** The subject of an audit line that is about no run. */
export const NO_RUN = { run: "", skill: "", source: "" };

/** Every request reads their current content; the fingerprints show commands that a change has been noticed. */
const FOLLOWED_FILES = ["trust.json", "text-approvals.json", "grants.json", SERVER_TOKENS_FILE];

/** Prints a line for the operator to stderr. */
export function printServerLine(io: CommandIo, text: string): void {
  const out = createPrinter(io.stderr, io.env);
  out.line`${out.dim("·")} ${truncateLine(text, 300)}`;
}
