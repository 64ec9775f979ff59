import { isUtf8 } from "node:buffer";
import { basename, dirname, join } from "node:path";
import { namespaceOf } from "../../capability/open.ts";
import { promptListing } from "../../catalog/listing.ts";
import type { Discovered } from "../../host/discover.ts";
import { denials } from "../../policy/policy.ts";
import { givenPackages } from "../../run/given-packages.ts";
import { proposedPackages } from "../../run/proposed-packages.ts";
import { SkillError } from "../../shared/error.ts";
import { count, estimateTokens, oneLine } from "../../shared/text.ts";
import { type Diagnostic, diagnose } from "../../skill/diagnostic.ts";
import { unusableName } from "../../skill/name.ts";
import { declaredVariables } from "../../skill/needs.ts";
import { scriptsOf } from "../../skill/script.ts";
import { SIGNATURE_FILE, type Skill } from "../../skill/skill.ts";
import { statOf } from "../../source/file.ts";
import { displayPath } from "../../source/locations.ts";
import { RemoteSkill } from "../../source/remote-skill.ts";
import { EXIT } from "../exit.ts";
import { discoverToUse, type Found, printDiagnostic, warnOfConfiguration } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { Context } from "../program.ts";
import { giveCommand, holdingOf, servedBy, switchOn } from "../providers-found.ts";
import { signatureAsJson } from "../supply/json.ts";
import { sayOrigin } from "../supply/origin.ts";
import { Told } from "../told.ts";
import { printHanging } from "../wrap.ts";
import { addressOf } from "./address.ts";
import { describe } from "./list.ts";
import { placesOf } from "./places.ts";

interface ShowOptions {
  body?: boolean;
  sandbox?: boolean;
}

export async function show({ io, options, args }: Context<ShowOptions>): Promise<number> {
  const [name = "", file] = args;
  const found = await discoverToUse(io, options);
  const code = warnOfConfiguration(io, found) ? EXIT.fine : EXIT.usage;
  const skill = found.catalog.find(name);
  if (!skill) return explainMissing(io, found, name);
  if (options.sandbox) {
    if (file !== undefined) throw noFile(file);
    const { showSandbox } = await import("./show-sandbox.ts"); // Only who asks for it loads what runs code.
    await showSandbox(io, found, { skill, asJson: options.json ?? false, workspace: options.workspace });
    return code;
  }
  if (file !== undefined) await skill.fetch?.([file]);
  else if (options.body) await skill.fetch?.();
  const signed = file === undefined ? await signatureOf(skill, found) : undefined;
  if (file !== undefined) printFile(io, skill, file, options.json ?? false);
  else if (options.json)
    printJson(io.stdout, {
      ...factsOf(skill, found),
      ...(signed ? { signature: signatureAsJson(signed.state) } : {}),
      ...(options.body ? { body: skill.body() } : {}),
    });
  else if (options.body) printText(io, skill.body());
  else printFacts(io, skill, found, { workspace: options.workspace, signed: signed?.text });
  return code;
}

function noFile(file: string): SkillError {
  return new SkillError("usage", {
    message: `--sandbox is about the whole skill, and "${file}" names one of its files`,
    fix: "leave one of them out",
  });
}

/** A skill that did not load is not simply missing: say why. */
export function explainMissing(io: Io, { catalog, around, locations }: Discovered, name: string): never {
  const about = catalog.diagnostics.filter((diagnostic) => isAbout(diagnostic, name));
  const errors = about.filter(({ severity }) => severity === "error");
  const reasons = errors.length > 0 ? errors : about;
  if (reasons.length === 0) refuseEmptyFolder(name, locations, around);
  if (reasons.length === 0) catalog.get(name);
  const error = printer(io.stderr, io.env);
  error.line`${error.red("✗")} Skill '${name}' did not load:`;
  for (const diagnostic of reasons) printDiagnostic(error, diagnostic, around);
  const [{ message = "", fix = "" } = {}] = reasons;
  throw new Told("not-found", { message: `Skill '${name}' did not load: ${message}`, fix });
}

/** Throws a SkillError when a skills folder has a folder of this name that is not a skill. */
function refuseEmptyFolder(name: string, locations: Discovered["locations"], around: Discovered["around"]): void {
  if (unusableName(name)) return;
  const folder = locations.map(({ path }) => join(path, name)).find((path) => statOf(path)?.isDirectory());
  if (folder === undefined) return;
  throw new SkillError("not-found", {
    message: `${displayPath(folder, around)} is not a skill: it has no SKILL.md`,
    fix: "add a SKILL.md with a name, a description and instructions to it",
  });
}

function isAbout({ file }: Diagnostic, name: string): boolean {
  return basename(dirname(file)) === name || basename(file).replace(/\.[^.]*$/, "") === name;
}

function factsOf(skill: Skill, found: Found) {
  const { files, findings } = skill.files();
  const added = addedOf(skill, found);
  return {
    ...describe(skill),
    places: placesOf(skill, found.catalog),
    frontmatter: skill.manifest.data,
    tokens: { listed: estimateTokens(promptListing([skill])), full: fullTokens(skill) },
    files: files.map(({ path, size, executable }) => ({ path, bytes: size, isExecutable: executable })),
    scripts: scriptsOf(skill),
    packages: givenPackages(skill, found),
    proposed: proposedPackages(skill, found),
    trust: found.trust.standingOf(skill),
    ...(added ? { added } : {}),
    capabilities: standingsOf(skill, found),
    copies: found.catalog.copies(skill.name).map(describe),
    denials: denials(skill, found, "run"),
    diagnostics: diagnose([...skill.findings, ...findings], skill.origin.file ?? skill.name),
  };
}

/** Estimates the tokens of the instructions; by their size, where they are not on this machine. */
function fullTokens(skill: Skill): number {
  return skill instanceof RemoteSkill ? Math.ceil(skill.ownSize() / 4) : estimateTokens(skill.body());
}

/** Where an added skill came from, and whether it still is what was agreed to. */
function addedOf(skill: Skill, { trust }: Found) {
  const state = trust.lockStateOf(skill);
  if (state.is === "unlocked" || state.is === "unknown") return undefined;
  const { files: _files, upstream, ...from } = state.entry;
  return { ...from, state: state.is, isEdited: upstream !== undefined };
}

function sayAdded(skill: Skill, found: Found): string | undefined {
  const added = addedOf(skill, found);
  if (!added) return undefined;
  const is = added.state === "changed" ? "changed since: skillet verify" : "as its lock says";
  return `from ${sayOrigin(added)}; ${is}${added.isEdited ? ", with your changes" : ""}`;
}

/** Of each capability that it declares: who serves it, and whether the operator gave it to it. */
function standingsOf(skill: Skill, found: Found) {
  return skill.manifest.capabilities.map((id) => ({
    id,
    from: found.capabilities.providerOf(id, skill)?.from ?? null,
    ...holdingOf(id, skill, found),
  }));
}

/** What only has to be switched on stands together. */
function sayStandings(skill: Skill, found: Found, workspace: string | undefined): string[] {
  const off = new Map<string, string[]>();
  const others: string[] = [];
  for (const { id, from, ...holding } of standingsOf(skill, found)) {
    const command = from === null ? switchOn(found, namespaceOf(id)) : undefined;
    const served = from === null ? "nobody serves it" : servedBy({ from });
    const give = fromHere(giveCommand(id, skill.name, holding), workspace);
    const lacks = holding.givenTo === undefined ? "not given" : `given to the copy from ${holding.givenTo}`;
    if (command !== undefined) off.set(command, [...(off.get(command) ?? []), id]);
    else others.push(`${id} (${served}; ${holding.isGranted ? "given" : `${lacks}: ${give}`})`);
  }
  return [...[...off].map(([command, ids]) => `${ids.join(", ")}, switched off: ${command}`), ...others];
}

/** Returns who signed a skill, and whether that holds; undefined for one without a signature. */
async function signatureOf(skill: Skill, { home }: Found) {
  const { folder } = skill.origin;
  if (folder === undefined || !skill.files().files.some(({ path }) => path === SIGNATURE_FILE)) return undefined;
  const [{ checkSignature, saySignature }, { openSigners }] = await Promise.all([
    import("../../supply/signature.ts"),
    import("../../host/signers.ts"),
  ]);
  const state = checkSignature({ folder, name: skill.name, signers: openSigners(home) });
  return { state, text: state.state === "valid" ? `by ${state.signer} (${state.key})` : `it ${saySignature(state)}` };
}

interface PrintedFacts {
  workspace: string | undefined;
  signed: string | undefined;
}

function printFacts(io: Io, skill: Skill, found: Found, { workspace, signed }: PrintedFacts): void {
  const out = printer(io.stdout, io.env);
  const { manifest, origin } = skill;
  const { tokens, files, places, denials: denied, diagnostics } = factsOf(skill, found);
  const row = (label: string, value: string | undefined) => {
    if (value) printHanging(out, out.text`  ${out.dim(label.padEnd(9))} `, [value], { indent: 12 });
  };
  printHanging(out, out.text`${out.bold(skill.name)}  `, [oneLine(skill.description)], {
    indent: 2,
    start: skill.name.length + 2,
  });
  out.line``;
  row("version", manifest.version);
  row("tags", manifest.tags.join(", "));
  row("authors", manifest.authors.join(", "));
  row("model", manifest.model);
  row(
    "scripts",
    scriptsOf(skill)
      .map(({ path }) => path)
      .join(", "),
  );
  if (manifest.toolsets.length > 0) {
    row("toolsets", `${manifest.toolsets.join(", ")}; their tools: skillet tools ${skill.name}`);
    row("", "its tools run as you, without a sandbox");
  }
  const values = found.settings.skills.get(skill.name)?.variables;
  row(
    "env",
    declaredVariables(skill)
      .map((name) => `${name} (${values?.get(name) ? "set" : "missing"})`)
      .join(", "),
  );
  const given = givenPackages(skill, found);
  row("packages", given.system.join(", "));
  row("python", given.python.join(", "));
  row("npm", given.npm.join(", "));
  for (const { file, wanted, command } of proposedPackages(skill, found))
    row("proposed", `${file} lists ${oneLine(wanted.join(", "), 400)}; to add them: ${command}`);
  for (const text of sayStandings(skill, found, workspace)) row("may ask", text);
  row("network", (found.settings.skills.get(skill.name)?.network ?? []).join(", "));
  const standing = found.trust.standingOf(skill);
  row("trust", standing === "own" ? undefined : standing);
  for (const [kind, values] of Object.entries({ ...manifest.triggers, paths: manifest.paths })) {
    row(kind, oneLine(values.join(", "), 200));
  }
  row("path", origin.file && displayPath(origin.file, found.around));
  for (const { source, file = source } of places.slice(1)) row("also at", displayPath(file, found.around));
  row("inside", origin.parent && `the skill ${origin.parent}, whose files its own are too`);
  row(
    "server",
    origin.remote && `MCP server ${origin.remote.server}: its text is remote, and fetched when it is loaded`,
  );
  row("uri", origin.remote?.uri);
  row("digest", origin.remote?.digest);
  row("source", origin.source === origin.scope ? origin.scope : `${origin.source} (${origin.scope})`);
  row("added", sayAdded(skill, found));
  row("signed", signed);
  const length =
    skill instanceof RemoteSkill ? count(skill.ownSize(), "byte") : count(skill.body().split("\n").length, "line");
  row("tells", `~${tokens.listed} tokens in a list, ~${tokens.full} tokens in full (${length})`);
  // What hides it comes first: nobody asks for the rest before that is mended.
  const hidden = denied.filter(({ kind }) => kind === "access");
  for (const { message, fix } of hidden.length > 0 ? hidden : denied)
    row("denied", `${message}; ${fromHere(fix.replace(/\n\s*/g, " "), workspace)}`);
  const copies = found.catalog.copies(skill.name);
  if (copies.length > 1) {
    out.line`\n${out.bold("Copies")} ${out.dim("the first is used")}`;
    for (const copy of copies) out.line`  ${addressOf(copy, found)}`;
  }
  if (files.length > 0) out.line`\n${out.bold("Files")}`;
  for (const { path, bytes, isExecutable } of files) {
    out.line`  ${path}  ${out.dim(`${count(bytes, "byte")}${isExecutable ? ", executable" : ""}`)}`;
  }
  if (diagnostics.length > 0) out.line`\n${out.bold("Findings")}`;
  for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, found.around);
}

function printFile(io: Io, skill: Skill, path: string, asJson: boolean): void {
  const bytes = skill.read(path);
  if (!isUtf8(bytes) || bytes.includes(0)) {
    throw new SkillError("resource-binary", {
      message: `"${path}" is not text (${count(bytes.length, "byte")})`,
      fix: skill.origin.folder === undefined ? "only text is printed" : `it stands in ${skill.origin.folder}`,
    });
  }
  const text = Buffer.from(bytes).toString("utf8");
  if (asJson) printJson(io.stdout, { name: skill.name, path, text });
  else printText(io, text);
}

/** A text as it is, so that it can be copied: with its tabs, and without what could act on the terminal. */
function printText(io: Io, text: string): void {
  const out = printer(io.stdout, io.env);
  const lines = text.replace(/\r?\n$/, "").split(/\r?\n/);
  for (const line of lines) {
    const parts = line.split("\t").map((part) => out.text`${part}`.text);
    io.stdout.write(`${parts.join("\t")}\n`);
  }
}
