import { accessSync, constants, existsSync } from "node:fs";
import { clientViews } from "../../host/client-views.ts";
import { type Discovered, undeclaredSettings } from "../../host/discover.ts";
import type { ModelAlias } from "../../model/resolve.ts";
import { packageVersion } from "../../package.ts";
import { uvPrograms } from "../../sandbox/uv.ts";
import { count } from "../../shared/text.ts";
import { displayPath, type Location, shortPath } from "../../source/locations.ts";
import { codeWaiting } from "../code-waiting.ts";
import { EXIT } from "../exit.ts";
import { discoverToUse, printDiagnostic } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { waitingFor } from "../progress.ts";
import { sayNotice } from "../say.ts";
import { sayServers, serversOf } from "../servers.ts";
import { printHanging } from "../wrap.ts";
import { verdictFacts } from "./audit.ts";
import { fileFacts } from "./config.ts";
import { usualSandbox } from "./config-defaults.ts";
import type { CapabilityFacts } from "./doctor-capabilities.ts";

interface DoctorOptions {
  sandbox?: boolean;
  tools?: boolean;
  fix?: boolean;
  yes?: boolean;
}

/** Where skills are looked for and what is found there, the configuration, the machine, and what is wrong. */
export async function doctor({ io, options }: Context<DoctorOptions>): Promise<number> {
  if (options.fix) return (await import("./fix.ts")).fix(io, options);
  const found = await discoverToUse(io, options);
  if (options.sandbox) return (await import("./safety-card.ts")).safetyCard(io, options, found);
  if (options.tools) return (await import("./doctor-tools.ts")).doctorTools(io, options, found);
  const { checkAliases } = await import("../../model/resolve.ts");
  const models = await checkAliases(found);
  const { capabilityFacts, printCapabilities } = await import("./doctor-capabilities.ts");
  const capabilities = await waitingFor(io, "asking who serves capabilities", () => capabilityFacts(io, found));
  const { printSupply, supplyFacts, supplyProblems } = await import("./doctor-supply.ts");
  const supply = supplyFacts(found);
  const { connectionFacts, printConnections } = await import("./doctor-connections.ts");
  const connections = await connectionFacts(io, found);
  const facts = { ...factsOf(found), models, capabilities, supply, connections };
  const problems = [...connections.flatMap((one) => one.problems), ...capabilities.problems, ...supplyProblems(supply)];
  const isAskable = models.every(({ problem }) => problem === undefined);
  const printMore = (out: Printer) => {
    printConnections(out, connections);
    printCapabilities(out, capabilities, found);
    printSupply(out, supply);
  };
  if (options.json) printJson(io.stdout, { ...facts, capabilities: asJson(capabilities) });
  else printFacts(io, found, facts, { printMore, problems });
  if (found.configuration.isBroken) return EXIT.usage;
  const isWrong = facts.diagnostics.some(({ severity }) => severity === "error") || problems.length > 0 || !isAskable;
  return isWrong ? EXIT.findings : EXIT.fine;
}

function asJson({ audit: { verdict, ...audit }, ...capabilities }: CapabilityFacts): object {
  return { ...capabilities, audit: { ...audit, ...(verdict ? { verdict: verdictFacts(verdict) } : {}) } };
}

function factsOf(found: Discovered) {
  const { catalog, around, configuration } = found;
  const places: Location[] = [...found.locations];
  const extra = configuration.settings.sources.map(({ name, path }) => ({
    scope: "user" as const,
    name,
    path,
    asks: false,
  }));
  places.splice(
    places.findIndex(({ scope }) => scope === "workspace"),
    0,
    ...extra,
  );
  return {
    skillet: packageVersion(),
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    executable: process.execPath,
    workspace: around.workspace,
    home: around.skilletHome,
    clients: clientViews(found).map(({ id, title, skills }) => ({ id, title, skills: skills.length })),
    folders: places.map(({ path: folder, asks, skillsFolders: _, ...place }) => ({
      ...place,
      folder,
      needsTrust: asks,
      isThere: existsSync(folder),
      skills: catalog.sources.find(({ name, path }) => name === place.name && path === folder)?.skills ?? 0,
    })),
    code: codeFacts(found),
    servers: serversOf(found),
    configuration: configuration.files.map(fileFacts),
    diagnostics: [...configuration.diagnostics, ...undeclaredSettings(found), ...catalog.diagnostics],
  };
}

/** What there is to run code with, and what waits. */
function codeFacts(found: Discovered) {
  const { settings, system, around } = found;
  const missing = system.missingEngine();
  const usual = usualSandbox(system.platform);
  const waiting = codeWaiting(found);
  return {
    level: settings.sandbox.level ?? usual.level,
    engine: settings.sandbox.engine ?? usual.engine,
    missing: missing ?? null,
    hasUv: uvPrograms(around.home).has("uv"),
    waitingForTrust: waiting?.skills ?? 0,
    trustCommand: waiting?.command ?? null,
    ownFolders: found.trust.own.list().map(([folder]) => folder),
  };
}

function printCode(
  out: Printer,
  { level, engine, missing, hasUv, waitingForTrust, trustCommand, ownFolders }: ReturnType<typeof codeFacts>,
): void {
  out.line`\n${out.bold("Code")} ${out.dim("`skillet doctor --sandbox` tries what it promises")}`;
  if (level === "none") out.line`  ${out.red('✗ nothing keeps code apart: level = "none" under [sandbox]')}`;
  else if (missing !== null)
    out.line`  ${out.red(`✗ ${missing} is not installed, so no code runs`)}: skillet doctor --fix`;
  else out.line`  ${level} isolation by ${engine}`;
  out.line`  uv ${hasUv ? "is there" : "is not there: pip fetches Python packages; `uv run` and `uvx` do not work"}`;
  if (waitingForTrust > 0)
    printHanging(out, "  ", [`the code of ${count(waitingForTrust, "skill")} waits for trust: ${trustCommand ?? ""}`], {
      indent: 2,
    });
  if (ownFolders.length > 0)
    out.line`  ${count(ownFolders.length, "folder")} trusted as yours: edits there keep the trust (skillet trust --list)`;
}

function printModels(out: Printer, models: readonly ModelAlias[], configuration: string): void {
  out.line`\n${out.bold("Models")} ${out.dim("by what skills may call them")}`;
  const byModel = new Map<string, ModelAlias[]>();
  for (const alias of models) byModel.set(alias.model, [...(byModel.get(alias.model) ?? []), alias]);
  for (const [model, aliases] of byModel) {
    const isDefault = aliases.some((alias) => alias.isDefault);
    const problem = aliases.find((alias) => alias.problem)?.problem;
    const mark = problem ? out.red("✗") : isDefault ? out.green("✓") : " ";
    out.line`  ${mark} ${model}  ${out.dim(aliases.map(({ alias }) => alias).join(", "))}`;
    if (problem) printHanging(out, "    ", [problem.message, ...problem.fix.split("\n")], { indent: 4 });
  }
  if (models.every(({ model }) => model === "runbook"))
    out.line`    no language model: set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama,\n    or add [models.default] to ${configuration}`;
}

function printFacts(
  io: Io,
  found: Discovered,
  facts: ReturnType<typeof factsOf> & { models: readonly ModelAlias[] },
  { printMore, problems }: { printMore: (out: Printer) => void; problems: CapabilityFacts["problems"] },
): void {
  const out = printer(io.stdout, io.env);
  const { around } = found;
  const { folders, diagnostics } = facts;
  out.line`${out.bold("Machine")}`;
  out.line`  skillet ${facts.skillet}, Node ${facts.node} on ${facts.platform}`;
  out.line`  ${shortPath(facts.home, around.home)} ${out.dim(stateOf(facts.home))}`;
  out.line`\n${out.bold("Folders")} ${out.dim("far to near: a later one overrides")}`;
  // Most machines have few clients: their folders that are not there are one line.
  const shown = folders.filter(({ client, isThere }) => client === undefined || isThere);
  const widest = Math.max(...shown.map(({ name }) => name.length));
  for (const { scope, name, folder, isThere, skills, sameAs } of shown) {
    const state =
      sameAs !== undefined ? `the same folder as ${sameAs}` : isThere ? count(skills, "skill") : "not there";
    const where = displayPath(folder, around) === name ? "" : `  ${shortPath(folder, around.home)}`;
    const row = out.text`  ${scope.padEnd(9)}  ${name.padEnd(widest)}  ${state}${out.dim(where)}`;
    out.line`${isThere ? row : out.dim(row)}`;
  }
  const missing = folders.length - shown.length;
  if (missing > 0)
    out.line`  ${out.dim(`${count(missing, "other folder")} of clients ${missing === 1 ? "is" : "are"} not there: skillet doctor --json lists them`)}`;
  out.line`\n${out.bold("Clients")} ${out.dim("`skillet list --by client` shows which skills each finds by itself")}`;
  for (const { title, skills } of facts.clients) {
    const line = out.text`  ${title}  ${count(skills, "skill")}`;
    out.line`${skills > 0 ? line : out.dim(line)}`;
  }
  printCode(out, facts.code);
  printModels(out, facts.models, displayPath(facts.configuration[0]?.file ?? "", around));
  if (facts.servers.length > 0) {
    out.line`\n${out.bold("Servers of tools")} ${out.dim("`skillet doctor --tools` starts them, and shows what they have")}`;
    out.line`  ${sayServers(found)}`;
  }
  printMore(out);
  out.line`\n${out.bold("Configuration")}`;
  for (const { file, isThere } of facts.configuration) {
    out.line`  ${displayPath(file, around)}  ${out.dim(isThere ? "read" : "not there")}`;
  }
  out.line`\n${out.bold("Findings")}`;
  for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, around);
  for (const { message, fix } of problems) sayNotice(out, out.red("✗"), message, `  ${fix}`);
  const errors = problems.length + diagnostics.filter(({ severity }) => severity === "error").length;
  const findings = problems.length + diagnostics.length;
  if (findings === 0) out.line`${out.green("✓ nothing is wrong")}`;
  else out.line`\n${count(findings, "finding")}, ${count(errors, "error")}`;
}

function stateOf(folder: string): string {
  if (!existsSync(folder)) return "is made when first needed";
  try {
    accessSync(folder, constants.W_OK);
    return "can be written to";
  } catch {
    return "cannot be written to: nothing is remembered between starts";
  }
}
