import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createChangeFeed, watchStores } from "../../adapters/studio/studio-changes.ts";
import { loadStudioAssets, serveStudio } from "../../adapters/studio/studio-server.ts";
import { SkillError } from "../../errors/problem.ts";
import { createFolder } from "../../util/file-access.ts";
import { isLoopbackHost } from "../../util/http.ts";
import { openOnDesktop, packageRoot } from "../../util/system.ts";
import {
  type CommandContext,
  type CommandDefinition,
  EXIT,
  formatExamples,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { type CommandIo, createInterruptSignal, createPrinter, printJsonLine } from "../output.ts";
import { createStudioRedactor, createStudioRoutes, openStudioHost } from "../studio-routes.ts";
import { parseCountOption } from "./runs.ts";

/** `skillet studio`. */
export const studioCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Open a local page that shows skills, runs, approvals and evaluations")
      .option("--port <number>", `Listen on this port; 0 for any. Defaults to ${DEFAULT_PORT}, or any if it is in use.`)
      .option("--host <address>", "Listen on this address. Defaults to 127.0.0.1, which only this machine can reach.")
      .option(
        "--no-open",
        "Only print the link. Otherwise it is also opened in a browser, if this terminal is on a desktop.",
      )
      .option("--read-only", "Show everything, and approve, resume and cancel nothing")
      .addHelpText("after", formatExamples("skillet studio", "skillet studio --port 8080 --no-open --read-only")),
  run: runStudio,
};

const DEFAULT_PORT = 7410;
const DEFAULT_HOST = "127.0.0.1";

interface StudioCommandOptions {
  port?: string;
  host?: string;
  open: boolean;
  readOnly?: boolean;
}

/** Serves the page until the command is interrupted. */
async function runStudio({ io, options }: CommandContext<StudioCommandOptions>): Promise<number> {
  const { skilletHome } = resolveCommandEnvironment(io, options);
  const { host: address = DEFAULT_HOST, readOnly: isReadOnly = false } = options;
  const assets = loadStudioAssets(join(packageRoot() ?? "", "dist", "studio"));
  const feed = createChangeFeed();
  const signal = createInterruptSignal(io);
  const host = openStudioHost(io, options, feed);
  const server = await listenOnFreePort(options, {
    ...{ host: address, isReadOnly, assets, feed },
    routes: createStudioRoutes({ io, options, host, feed, isReadOnly, signal }),
    createRedactor: () => createStudioRedactor(host),
    onError: (error) => printStudioLine(io, String(error)),
  });
  const stores = watchStores(skilletHome, feed);
  const timer = setInterval(() => stores.refresh(), REFRESH_MS).unref();
  if (options.json)
    printJsonLine(io.stdout, { type: "serving", url: server.url, link: server.createLink(), isReadOnly });
  else {
    const link = server.createLink();
    printLink(io, link);
    if (options.open && io.stdout.isTTY) openLink(io, link, skilletHome);
    if (!isLoopbackHost(address))
      printStudioLine(io, "other machines can open the page with the link; put TLS in front of it");
    void printMoreLinks(io, signal, server.createLink);
  }
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  clearInterval(timer);
  stores.close();
  await Promise.all([server.close(), host.close()]);
  return EXIT.fine;
}

const REFRESH_MS = 2000;

type ServerOptions = Parameters<typeof serveStudio>[0];

/** Uses the default port, or any if it is in use: only a port that the user named is required. */
async function listenOnFreePort({ port }: StudioCommandOptions, options: Omit<ServerOptions, "port">) {
  if (port !== undefined) return serveStudio({ ...options, port: parsePort(port) });
  try {
    return await serveStudio({ ...options, port: DEFAULT_PORT });
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    return serveStudio({ ...options, port: 0 });
  }
}

function parsePort(value: string): number {
  const port = parseCountOption("--port", value);
  if (port <= 65_535) return port;
  throw new SkillError("usage", {
    message: `--port is ${value}, and the largest port is 65535`,
    fix: "choose another one",
  });
}

/**
 * Opens the link in the browser of the desktop, through a file that only the user can read: every user of the machine can see the
 * arguments of a program. The link works once, so the file is useless afterwards.
 */
function openLink(io: CommandIo, link: string, skilletHome: string): void {
  const file = join(skilletHome, "studio.html");
  try {
    createFolder(skilletHome, 0o700);
    writeFileSync(file, `<!doctype html><meta http-equiv="refresh" content="0; url=${link}" />\n`, { mode: 0o600 });
    chmodSync(file, 0o600);
    openOnDesktop(file, io.env);
  } catch {} // A home that cannot be written to: the link is printed.
}

function printLink(io: CommandIo, link: string): void {
  const out = createPrinter(io.stdout, io.env);
  out.line`${link}`;
}

/** Prints a new link for each Enter: a link works once, and another browser needs its own. */
async function printMoreLinks(io: CommandIo, signal: AbortSignal, createLink: () => string): Promise<void> {
  if (!io.ask) return printStudioLine(io, "the link works once; press Ctrl-C to stop");
  printStudioLine(io, "the link works once; press Enter for another one, Ctrl-C to stop");
  while ((await io.ask("", signal)) !== undefined) printLink(io, createLink());
}

function printStudioLine(io: CommandIo, text: string): void {
  const out = createPrinter(io.stderr, io.env);
  out.line`${out.dim("·")} ${text}`;
}
