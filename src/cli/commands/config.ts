import { CODES } from "../../codes/findings.ts";
import { editConfig } from "../../host/config-edit.ts";
import { dotted, type Entry, judge } from "../../host/config-file.ts";
import { undeclaredSettings } from "../../host/discover.ts";
import { keyParts, rowOf } from "../../host/find-key.ts";
import { TYPES } from "../../host/key-types.ts";
import type { Key } from "../../host/keys.ts";
import { isReference } from "../../host/reference.ts";
import { loadSettings, userConfig } from "../../host/settings.ts";
import { placeOf } from "../../host/trust.ts";
import { quoted } from "../../policy/trust.ts";
import { SkillError } from "../../shared/error.ts";
import type { Finding } from "../../skill/diagnostic.ts";
import { displayPath, type Surroundings } from "../../source/locations.ts";
import { chooseCopy } from "../choose-copy.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, printDiagnostic, surroundingsFor } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";
import { reachedFacts, sayReached, waitUntilApplied } from "../reached.ts";
import { printHanging } from "../wrap.ts";
import { printValue, type Shown, shownDefaults, shownEntry } from "./config-show.ts";

export interface SecretOptions {
  showSecrets?: boolean;
}

/** Everything that holds, and where it comes from. */
export async function showConfig({ io, options }: Context<SecretOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  const { files, entries, overruled, isBroken } = found.configuration;
  const show = (entry: Entry) => shownEntry(entry, found.around, options.showSecrets ?? false);
  const diagnostics = [...found.configuration.diagnostics, ...undeclaredSettings(found)];
  const facts = {
    files: files.map(fileFacts),
    set: entries.map(show),
    overruled: overruled.map(show),
    defaults: shownDefaults(entries),
    diagnostics,
  };
  if (options.json) printJson(io.stdout, facts);
  else {
    const out = printer(io.stdout, io.env);
    out.line`${out.bold("Files")}`;
    for (const { path, exists } of files)
      out.line`  ${displayPath(path, found.around)}  ${out.dim(exists ? "read" : "not there")}`;
    printValues(out, "Set", facts.set, found.around);
    printValues(out, "Set by the workspace in vain: yours is lower, or off", facts.overruled, found.around);
    printValues(out, "Defaults", facts.defaults, found.around);
    if (diagnostics.length > 0) out.line`\n${out.bold("Findings")}`;
    for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, found.around);
  }
  if (isBroken) return EXIT.usage;
  return diagnostics.some(({ severity }) => severity === "error") ? EXIT.findings : EXIT.fine;
}

export async function setConfig(context: Context<{ for?: string }>): Promise<number> {
  const {
    io,
    options,
    args: [written = "", given],
  } = context;
  const around = surroundingsFor(io, options);
  const parts = keyParts(written);
  const row = known(parts);
  const giving = isGiving(parts) ? await openGiving(io, options, parts) : undefined;
  if (!giving && options.for !== undefined) {
    throw new SkillError("usage", {
      message: `${dotted(parts)} is not given to a copy of a skill, so --for has no meaning`,
      fix: "leave --for out",
    });
  }
  const text = row.isSecret ? await secretText(io, parts, given) : given;
  if (text === undefined) {
    throw new SkillError("usage", {
      message: `${dotted(parts)} needs a value: ${TYPES[row.type].say}`,
      fix: `skillet config set ${dotted(parts)} VALUE`,
    });
  }
  const type: { example?: string; read(written: string): unknown } = TYPES[row.type];
  const value = type.read(text);
  const judged = judge(parts, value, "user");
  if ("code" in judged) throw unusable(judged, type.example);
  const file = userConfig(around);
  giving?.give(); // First: a value without a copy would be refused, and one of another copy must not be given away.
  const isChanged = await editConfig(file, { parts, value, isSecret: row.isSecret ?? false });
  await say(io, options.json, around, {
    key: dotted(parts),
    file,
    isChanged,
    did: isChanged ? "set" : "was so already",
    ...(giving ? { giving } : {}),
  });
  return EXIT.fine;
}

/** Keys of a skill's table that give it what not every skill has. */
const GIVING: ReadonlySet<string> = new Set([
  ...["network", "workspace", "dynamic_commands", "capabilities", "capability_provider"],
]);

function isGiving([table, name, key = ""]: readonly string[]): boolean {
  return table === "skills" && name !== "defaults" && (GIVING.has(key) || /^[A-Z]/.test(key));
}

interface Giving {
  /** Which copy of the skill gets the value. */
  said: string;
  copy: { source: string; place: string } | null;
  isWarning: boolean;
  give(): void;
}

/** Chooses, before anything is written, which copy of a skill a value is for. */
async function openGiving(
  io: Io,
  options: CommonOptions & { for?: string },
  parts: readonly string[],
): Promise<Giving> {
  const found = await discoverFor(io, options);
  const [, name = ""] = parts;
  const command = `skillet config set ${quoted(dotted(parts))} --for`;
  const choice = await chooseCopy(io, found, { name, copy: options.for, command });
  const trust = `skillet trust --secrets ${quoted(name)}`;
  const { grants, around } = found;
  const where = ({ source, place }: { source: string; place: string }) =>
    place === "" ? source : displayPath(place, around);
  if (choice.is === "none") {
    const said = `no skill '${name}' is found from here, so no copy is given it: the next run asks, or ${trust}`;
    return { said, copy: null, isWarning: true, give: () => {} };
  }
  if (choice.is === "kept") {
    const { source, place } = choice.owner;
    const here = found.catalog.find(name);
    const isOther = here !== undefined && !grants.isOwner(here, choice.owner);
    const said = `for the copy from ${where(choice.owner)}${isOther ? `, and not for the one found here; to give all values to that: ${trust}` : ""}`;
    return { said, copy: { source, place }, isWarning: isOther, give: () => {} };
  }
  const { skill } = choice;
  const before = grants.ownerOf(name);
  const isMoved = before !== undefined && !grants.isOwner(skill, before);
  const copy = { source: skill.origin.source, place: placeOf(skill) };
  const said = `for the copy from ${where(copy)}${isMoved ? `; what was configured before is for that one too, and no longer for ${where(before)}` : ""}`;
  return { said, copy, isWarning: isMoved, give: () => grants.grant(skill) };
}

export async function unsetConfig({ io, options, args: [written = ""] }: Context<object>): Promise<number> {
  const around = surroundingsFor(io, options);
  const parts = keyParts(written);
  const file = userConfig(around);
  const isChanged = await editConfig(file, { parts });
  if (!isChanged) {
    known(parts);
    throw new SkillError("not-found", {
      message: `${dotted(parts)} is not set in ${displayPath(file, around)}`,
      fix: "`skillet config` shows what is set, and where",
    });
  }
  await say(io, options.json, around, { key: dotted(parts), file, isChanged, did: "taken out" });
  return EXIT.fine;
}

export async function configPath({ io, options }: Context<object>): Promise<number> {
  const { files } = await loadSettings(surroundingsFor(io, options));
  if (options.json) printJson(io.stdout, { files: files.map(fileFacts) });
  else printer(io.stdout, io.env).line`${files[0]?.path ?? ""}`;
  return EXIT.fine;
}

/** A file of the configuration, for programs. */
export function fileFacts({ path, exists }: { path: string; exists: boolean }) {
  return { file: path, isThere: exists };
}

function printValues(out: Printer, title: string, values: readonly Shown[], around: Surroundings): void {
  if (values.length === 0) return;
  out.line`\n${out.bold(title)}`;
  for (const value of values) printValue(out, value, around);
}

/** The row of a key that was given. Throws a SkillError, with the nearest, when there is none. */
export function known(parts: readonly string[]): Key {
  const judged = rowOf(parts) ?? judge(parts, undefined, "user");
  if (!("code" in judged)) return judged;
  throw unusable({ fix: "`skillet config` shows the keys; docs/config.md says what each is for", ...judged });
}

function unusable({ code, message, fix = CODES[code].fix }: Finding, example?: string): SkillError {
  return new SkillError("usage", {
    message: example === undefined ? message : `${message}, as in ${example}`,
    fix: fix ?? "docs/config.md lists every key; `skillet config` those that hold",
  });
}

/** A secret is read from where nobody else sees it: a command line stays in a shell's history, and others can list it. */
async function secretText(io: Io, parts: readonly string[], given: string | undefined): Promise<string | undefined> {
  if (given !== undefined && isReference(given)) return given;
  const key = dotted(parts);
  if (given !== undefined) {
    throw new SkillError("usage", {
      message: `${key} is a secret, and a command line can be seen by others and stays in your shell's history`,
      fix: `pipe it in: skillet config set ${key} < FILE; or leave it out, and you are asked for it`,
    });
  }
  const ask = io.askHidden ?? io.ask;
  const text = io.stdin ? ((await io.stdin()) ?? "").replace(/\r?\n$/, "") : await ask?.(`${key}: `);
  if (text) return text;
  throw new SkillError("usage", {
    message: `There is no value for ${key}`,
    fix: `pipe it in: skillet config set ${key} < FILE`,
  });
}

interface Done {
  key: string;
  file: string;
  isChanged: boolean;
  did: string;
  giving?: Giving;
}

async function say(io: Io, asJson: boolean | undefined, around: Surroundings, done: Done): Promise<void> {
  const { key, file, isChanged, did, giving } = done;
  const out = printer(io.stdout, io.env);
  const reached = isChanged ? await waitUntilApplied(file, around) : undefined;
  if (asJson) return printJson(io.stdout, { key, file, isChanged, copy: giving?.copy, ...reachedFacts(reached) });
  out.line`${out.green("✓")} ${key} ${did} in ${displayPath(file, around)}`;
  if (giving) {
    const mark = giving.isWarning ? out.yellow("!") : out.dim("·");
    printHanging(out, out.text`${mark} `, [giving.said], { indent: 2 });
  }
  sayReached(io, reached, { runs: "keeps its model, limits, sandbox and secrets" });
}
