import { isUtf8 } from "node:buffer";
import { basename, dirname, join } from "node:path";
import { Option } from "commander";
import { findDenials } from "../../agent/policy/skill-policies.ts";
import { proposePackages } from "../../agent/workspace/package-hints.ts";
import { listSkillPackages } from "../../agent/workspace/sandbox-permissions.ts";
import { getCapabilityNamespace } from "../../capabilities/configured-capabilities.ts";
import { formatPromptListing } from "../../catalog/listing.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { SkillError } from "../../errors/problem.ts";
import {
  type Diagnostic,
  diagnose,
  findNameProblem,
  listDeclaredVariables,
  SIGNATURE_FILE,
  type Skill,
} from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import { RemoteSkill } from "../../skill/source/remote-skill.ts";
import { statIfExists } from "../../util/file-access.ts";
import { estimateTokens, formatCount, truncateLine } from "../../util/text.ts";
import { formatEnableCommand, formatGrantCommand, formatProviderOrigin, readHolding } from "../capability-providers.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommandHost,
  discoverWithCapabilities,
  EXIT,
  findSkillLocations,
  formatExamples,
  printConfigurationWarnings,
  printDiagnostic,
  ReportedError,
} from "../command-context.ts";
import { addWorkspaceOption, formatOrigin, formatSkillAddress, toSignatureJson } from "../format.ts";
import { type CommandIo, createPrinter, printFix, printHanging, printJson, printTriggerRow } from "../output.ts";
import { toSkillJson } from "./list.ts";

/** `skillet show`. */
export const showCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Show the cost, origin, files and findings of a skill")
      .argument("<skill>", "The skill, or `name@source` for a shadowed copy")
      .argument("[resource]", "A file of the skill to print")
      .addOption(new Option("--body", "Print the instructions").conflicts("sandbox"))
      .option("--sandbox", "Print the sandbox of its scripts: paths, network, variables, packages, limits")
      .addHelpText(
        "after",
        formatExamples(
          "skillet show skillmaker",
          "skillet show skillmaker --sandbox",
          "skillet show skillmaker@bundled",
          "skillet show skillmaker quality-checklist.md",
        ),
      ),
  run: showSkill,
};

interface ShowOptions {
  body?: boolean;
  sandbox?: boolean;
}

async function showSkill({ io, options, args }: CommandContext<ShowOptions>): Promise<number> {
  const [name = "", file] = args;
  const found = await discoverWithCapabilities(io, options);
  const code = printConfigurationWarnings(io, found) ? EXIT.fine : EXIT.usage;
  const skill = found.catalog.find(name);
  if (!skill) return failMissingSkill(io, found, name);
  if (options.sandbox) {
    if (file !== undefined) throw createNoFileError(file);
    const { showSandbox } = await import("./sandbox-views.ts"); // Loads the code for sandboxes only on request.
    await showSandbox(io, found, { skill, asJson: options.json ?? false, workspace: options.workspace });
    return code;
  }
  if (file !== undefined) await skill.fetch?.([file]);
  else if (options.body) await skill.fetch?.();
  if (file !== undefined) await printSkillFile(io, skill, file, options.json ?? false);
  else if (options.json) printJson(io.stdout, await toShowJson(skill, found, { hasBody: options.body === true }));
  else if (options.body) printSkillText(io, await skill.body());
  else {
    const signed = await readSignatureState(skill, found);
    await printSkillFacts(io, skill, found, { workspace: options.workspace, signed: signed?.text });
  }
  return code;
}

function createNoFileError(file: string): SkillError {
  return new SkillError("usage", {
    message: `--sandbox applies to the whole skill, not to the file "${file}"`,
    fix: "omit one of them",
  });
}

/** Throws for a missing skill. If it did not load, prints the reasons. */
export function failMissingSkill(
  io: CommandIo,
  { catalog, around: environment, locations }: DiscoverResult,
  name: string,
): never {
  const about = catalog.diagnostics.filter((diagnostic) => isAboutSkill(diagnostic, name));
  const errors = about.filter(({ severity }) => severity === "error");
  const reasons = errors.length > 0 ? errors : about;
  if (reasons.length === 0) refuseEmptyFolder(name, locations, environment);
  if (reasons.length === 0) catalog.get(name);
  const error = createPrinter(io.stderr, io.env);
  error.line`${error.red("✗")} Skill '${name}' did not load:`;
  for (const diagnostic of reasons) printDiagnostic(error, diagnostic, environment);
  const [{ message = "", ...problem } = {}] = reasons;
  throw new ReportedError("not-found", { ...problem, message: `Skill '${name}' did not load: ${message}` });
}

/** Throws a SkillError if a skills folder has a folder of this name that is not a skill. */
function refuseEmptyFolder(
  name: string,
  locations: DiscoverResult["locations"],
  environment: DiscoverResult["around"],
): void {
  if (findNameProblem(name)) return;
  const folder = locations.map(({ path }) => join(path, name)).find((path) => statIfExists(path)?.isDirectory());
  if (folder === undefined) return;
  throw new SkillError("not-found", {
    message: `${formatDisplayPath(folder, environment)} is not a skill: it has no SKILL.md`,
    fix: "add a SKILL.md with a name, a description and instructions to it",
  });
}

function isAboutSkill({ file }: Diagnostic, name: string): boolean {
  return basename(dirname(file)) === name || basename(file).replace(/\.[^.]*$/, "") === name;
}

/** Returns the value of `show --json`. */
export async function toShowJson(skill: Skill, found: CommandHost, { hasBody = false } = {}) {
  const signed = await readSignatureState(skill, found);
  return {
    ...(await collectSkillFacts(skill, found)),
    ...(signed ? { signature: toSignatureJson(signed.state) } : {}),
    ...(hasBody ? { body: await skill.body() } : {}),
  };
}

async function collectSkillFacts(skill: Skill, found: CommandHost) {
  const { files, findings } = await skill.files();
  const added = readAddedFacts(skill, found);
  return {
    ...toSkillJson(skill),
    locations: await findSkillLocations(skill, found.catalog),
    frontmatter: skill.manifest.data,
    tokens: await countSkillTokens(skill),
    files: files.map(({ path, size, executable }) => ({ path, bytes: size, isExecutable: executable })),
    scripts: await listSkillScripts(skill),
    packages: listSkillPackages(skill, found),
    proposed: await proposePackages(skill, found),
    trust: found.trust.getStatus(skill),
    ...(added ? { added } : {}),
    capabilities: readTrustFacts(skill, found),
    copies: found.catalog.copies(skill.name).map(toSkillJson),
    denials: findDenials(skill, found, "run"),
    diagnostics: diagnose([...skill.findings, ...findings], skill.origin.file ?? skill.name),
  };
}

/** Estimates the tokens of a skill in a list, and of its instructions. */
export async function countSkillTokens(skill: Skill) {
  return { listed: estimateTokens(formatPromptListing([skill])), full: await countFullTokens(skill) };
}

/** Estimates the tokens of the instructions, by their size if they are remote. */
async function countFullTokens(skill: Skill): Promise<number> {
  return skill instanceof RemoteSkill ? Math.ceil(skill.ownSize() / 4) : estimateTokens(await skill.body());
}

/** Returns the source of an added skill and its lock state. */
function readAddedFacts(skill: Skill, { trust }: CommandHost) {
  const state = trust.getLockState(skill);
  if (state.is === "unlocked" || state.is === "unknown") return undefined;
  const { files: _files, upstream, ...from } = state.entry;
  return { ...from, state: state.is, isEdited: upstream !== undefined };
}

function formatAdded(skill: Skill, found: CommandHost): string | undefined {
  const added = readAddedFacts(skill, found);
  if (!added) return undefined;
  const is = added.state === "changed" ? "changed since: skillet verify" : "matches its lock file";
  return `from ${formatOrigin(added)}; ${is}${added.isEdited ? ", with your changes" : ""}`;
}

/** Returns the provider and the grant state of each declared capability. */
function readTrustFacts(skill: Skill, found: CommandHost) {
  return skill.manifest.capabilities.map((id) => ({
    id,
    from: found.capabilities.findProvider(id, skill)?.from ?? null,
    ...readHolding(id, skill, found),
  }));
}

/** Formats the capabilities. Those with a disabled provider are grouped. */
function formatTrust(skill: Skill, found: CommandHost, workspace: string | undefined): string[] {
  const off = new Map<string, string[]>();
  const others: string[] = [];
  for (const { id, from, ...holding } of readTrustFacts(skill, found)) {
    const command = from === null ? formatEnableCommand(found, getCapabilityNamespace(id)) : undefined;
    const served = from === null ? "no provider" : formatProviderOrigin({ from });
    const give = addWorkspaceOption(formatGrantCommand(id, skill.name, holding), workspace);
    const lacks = holding.givenTo === undefined ? "not granted" : `granted to the copy from ${holding.givenTo}`;
    if (command !== undefined) off.set(command, [...(off.get(command) ?? []), id]);
    else others.push(`${id} (${served}; ${holding.isGranted ? "granted" : `${lacks}: ${give}`})`);
  }
  return [...[...off].map(([command, ids]) => `${ids.join(", ")}, provider disabled: ${command}`), ...others];
}

/** Returns the signer of a skill and the state of the signature; undefined without a signature. */
async function readSignatureState(skill: Skill, { home }: CommandHost) {
  const { folder } = skill.origin;
  if (folder === undefined || !(await skill.files()).files.some(({ path }) => path === SIGNATURE_FILE))
    return undefined;
  const [{ checkSignature, formatSignature }, { createSignerStore }] = await Promise.all([
    import("../../remote/signature.ts"),
    import("../../store/signers.ts"),
  ]);
  const state = checkSignature({ folder, name: skill.name, signers: createSignerStore(home) });
  return {
    state,
    text: state.state === "valid" ? `by ${state.signer} (${state.key})` : `it ${formatSignature(state)}`,
  };
}

interface PrintedFacts {
  workspace: string | undefined;
  signed: string | undefined;
}

async function printSkillFacts(
  io: CommandIo,
  skill: Skill,
  found: CommandHost,
  { workspace, signed }: PrintedFacts,
): Promise<void> {
  const out = createPrinter(io.stdout, io.env);
  const { manifest, origin } = skill;
  const { tokens, files, locations, denials: denied, diagnostics } = await collectSkillFacts(skill, found);
  const row = (label: string, value: string | undefined) => {
    if (value) printHanging(out, out.text`  ${out.dim(label.padEnd(9))} `, [value], { indent: 12 });
  };
  printHanging(out, out.text`${out.bold(skill.name)}  `, [truncateLine(skill.description)], {
    indent: 2,
    start: skill.name.length + 2,
  });
  out.line``;
  row("version", manifest.version);
  row("tags", manifest.tags.join(", "));
  row("authors", manifest.authors.join(", "));
  row("model", manifest.model);
  row("scripts", (await listSkillScripts(skill)).map(({ path }) => path).join(", "));
  if (manifest.toolsets.length > 0) {
    row("toolsets", `${manifest.toolsets.join(", ")}; their tools: skillet tools ${skill.name}`);
    row("", "its tools run as you, without a sandbox");
  }
  const values = found.settings.skills.get(skill.name)?.variables;
  row(
    "env",
    listDeclaredVariables(skill)
      .map((name) => `${name} (${values?.get(name) ? "set" : "missing"})`)
      .join(", "),
  );
  const packages = listSkillPackages(skill, found);
  row("packages", packages.system.join(", "));
  row("python", packages.python.join(", "));
  row("npm", packages.npm.join(", "));
  for (const { file, wanted, command } of await proposePackages(skill, found))
    row("proposed", `${file} lists ${truncateLine(wanted.join(", "), 400)}; to add them: ${command}`);
  for (const text of formatTrust(skill, found, workspace)) row("may use", text);
  row("network", (found.settings.skills.get(skill.name)?.network ?? []).join(", "));
  const statuses = found.trust.getStatus(skill);
  row("trust", statuses === "own" ? undefined : statuses);
  for (const [kind, values] of Object.entries({ ...manifest.triggers, paths: manifest.paths })) {
    printTriggerRow(out, kind, kind === "patterns" ? values : [truncateLine(values.join(", "), 200)]);
  }
  row("path", origin.file && formatDisplayPath(origin.file, found.around));
  for (const { source, file = source } of locations.slice(1)) row("also at", formatDisplayPath(file, found.around));
  row("inside", origin.parent && `the skill ${origin.parent}, which includes its files`);
  row("server", origin.remote && `MCP server ${origin.remote.server}: its text is remote, and fetched on load`);
  row("uri", origin.remote?.uri);
  row("digest", origin.remote?.digest);
  row("source", origin.source === origin.scope ? origin.scope : `${origin.source} (${origin.scope})`);
  row("added", formatAdded(skill, found));
  row("signed", signed);
  const length =
    skill instanceof RemoteSkill
      ? formatCount(skill.ownSize(), "byte")
      : formatCount((await skill.body()).split("\n").length, "line");
  row("size", `~${tokens.listed} tokens in a list, ~${tokens.full} tokens in full (${length})`);
  // Reasons that hide the skill come first: the others matter only after those are fixed.
  const hidden = denied.filter(({ kind }) => kind === "access");
  for (const denial of hidden.length > 0 ? hidden : denied) {
    row("denied", denial.message);
    printFix(out, denial, { indent: 12, workspace });
  }
  const copies = found.catalog.copies(skill.name);
  if (copies.length > 1) {
    out.line`\n${out.bold("Copies")} ${out.dim("the first is used")}`;
    for (const copy of copies) out.line`  ${formatSkillAddress(copy, found)}`;
  }
  if (files.length > 0) out.line`\n${out.bold("Files")}`;
  for (const { path, bytes, isExecutable } of files) {
    out.line`  ${path}  ${out.dim(`${formatCount(bytes, "byte")}${isExecutable ? ", executable" : ""}`)}`;
  }
  if (diagnostics.length > 0) out.line`\n${out.bold("Findings")}`;
  for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, found.around);
}

async function printSkillFile(io: CommandIo, skill: Skill, path: string, asJson: boolean): Promise<void> {
  const file = await toSkillFileJson(skill, path);
  if (asJson) printJson(io.stdout, file);
  else printSkillText(io, file.text);
}

/** Returns the value of `show SKILL FILE --json`. Throws a SkillError for a file that is not text. */
export async function toSkillFileJson(skill: Skill, path: string) {
  const bytes = await skill.read(path);
  if (!isUtf8(bytes) || bytes.includes(0)) {
    throw new SkillError("resource-binary", {
      message: `"${path}" is not text (${formatCount(bytes.length, "byte")})`,
      fix: skill.origin.folder === undefined ? "only text is printed" : `it is in ${skill.origin.folder}`,
    });
  }
  return { name: skill.name, path, text: Buffer.from(bytes).toString("utf8") };
}

/** Prints text unchanged, so that it can be copied: tabs are kept, control characters are escaped. */
function printSkillText(io: CommandIo, text: string): void {
  const out = createPrinter(io.stdout, io.env);
  const lines = text.replace(/\r?\n$/, "").split(/\r?\n/);
  for (const line of lines) {
    const parts = line.split("\t").map((part) => out.text`${part}`.text);
    io.stdout.write(`${parts.join("\t")}\n`);
  }
}
