import { editConfig, tomlValue } from "../../host/config-edit.ts";
import { dotted, type Entry, judge } from "../../host/config-file.ts";
import { type Discovered, undeclaredSettings } from "../../host/discover.ts";
import { keyParts, rowOf } from "../../host/find-key.ts";
import { TYPES } from "../../host/key-types.ts";
import { KEYS, type Key } from "../../host/keys.ts";
import { resolved } from "../../host/reference.ts";
import { loadSettings, userConfig } from "../../host/settings.ts";
import { SkillError } from "../../shared/error.ts";
import { CODES } from "../../skill/codes.ts";
import type { Finding } from "../../skill/diagnostic.ts";
import { displayPath, type Surroundings } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, printDiagnostic, surroundingsFor } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";

interface SecretOptions {
  showSecrets?: boolean;
}

/** A value as it is shown: one of a secret only when it was asked for. */
interface Shown {
  key: string;
  value: unknown;
  from: "default" | Entry["owner"];
  file?: string;
  line?: number;
  isSecret?: true;
  /** Something stands for the value. */
  isHidden?: true;
  /** What keeps a reference from standing for anything; null when it stands for something. */
  problem?: string | null;
}

/** Everything that holds, and where it comes from. */
export async function showConfig({ io, options }: Context<SecretOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  const { files, entries, overruled, isBroken } = found.configuration;
  const show = (entry: Entry) => shownEntry(entry, found, options.showSecrets ?? false);
  const diagnostics = [...found.configuration.diagnostics, ...undeclaredSettings(found)];
  const facts = {
    files,
    set: entries.map(show),
    overruled: overruled.map(show),
    defaults: defaults(entries),
    diagnostics,
  };
  if (options.json) printJson(io.stdout, facts);
  else {
    const out = printer(io.stdout, io.env);
    out.line`${out.bold("Files")}`;
    for (const { path, exists } of files)
      out.line`  ${displayPath(path, found.around)}  ${out.dim(exists ? "read" : "not there")}`;
    printValues(out, "Set", facts.set, found);
    printValues(out, "Set by the workspace in vain: yours is lower, or off", facts.overruled, found);
    printValues(out, "Defaults", facts.defaults, found);
    if (diagnostics.length > 0) out.line`\n${out.bold("Findings")}`;
    for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, found.around);
  }
  if (isBroken) return EXIT.usage;
  return diagnostics.some(({ severity }) => severity === "error") ? EXIT.findings : EXIT.fine;
}

export async function getConfig({ io, options, args: [written = ""] }: Context<SecretOptions>): Promise<number> {
  const around = surroundingsFor(io, options);
  const { entries, isBroken, diagnostics } = await loadSettings(around);
  if (isBroken) {
    for (const diagnostic of diagnostics) printDiagnostic(printer(io.stderr, io.env), diagnostic, around);
    return EXIT.usage;
  }
  const parts = keyParts(written);
  const row = known(parts);
  const entry = entries.find((one) => dotted(one.parts) === dotted(parts));
  if (row.isSecret && entry && !REFERENCE.test(String(entry.value)) && !options.showSecrets) {
    const error = printer(io.stderr, io.env);
    error.line`${error.red("✗")} ${dotted(parts)} is a secret`;
    error.line`  to print it: ${`skillet config get ${dotted(parts)} --show-secrets`}`;
    return EXIT.refused;
  }
  const value = entry ? entry.value : row.default;
  if (value === undefined) {
    throw new SkillError("not-found", {
      message: `${dotted(parts)} is not set`,
      fix: `to set it: skillet config set ${dotted(parts)}${row.isSecret ? "" : " VALUE"}`,
    });
  }
  if (options.json) {
    const place = entry ? { from: entry.owner, file: entry.file, line: entry.line } : { from: "default" };
    printJson(io.stdout, { key: dotted(parts), value, ...place });
  } else {
    const text = typeof value === "string" ? value : tomlValue(value);
    // A file gets what was written, to the character; a terminal what cannot act on it.
    if (io.stdout.isTTY) printer(io.stdout, io.env).line`${text}`;
    else io.stdout.write(`${text}\n`);
  }
  return EXIT.fine;
}

export async function setConfig({ io, options, args: [written = "", given] }: Context<object>): Promise<number> {
  const around = surroundingsFor(io, options);
  const parts = keyParts(written);
  const row = known(parts);
  const text = row.isSecret ? await secretText(io, parts, given) : given;
  if (text === undefined) {
    throw new SkillError("usage", {
      message: `${dotted(parts)} needs a value: ${TYPES[row.type].say}`,
      fix: `skillet config set ${dotted(parts)} VALUE`,
    });
  }
  const value = TYPES[row.type].read(text);
  const judged = judge(parts, value, "user");
  if ("code" in judged) throw unusable(judged);
  const file = userConfig(around);
  const isChanged = await editConfig(file, { parts, value, isSecret: row.isSecret ?? false });
  say(io, options.json, around, { key: dotted(parts), file, isChanged, did: isChanged ? "set" : "was so already" });
  return EXIT.fine;
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
  say(io, options.json, around, { key: dotted(parts), file, isChanged, did: "taken out" });
  return EXIT.fine;
}

export async function configPath({ io, options }: Context<object>): Promise<number> {
  const { files } = await loadSettings(surroundingsFor(io, options));
  if (options.json) printJson(io.stdout, { files });
  else printer(io.stdout, io.env).line`${files[0]?.path ?? ""}`;
  return EXIT.fine;
}

function shownEntry({ row, parts, value, owner, file, line }: Entry, host: Discovered, showSecrets: boolean): Shown {
  const place = { key: dotted(parts), from: owner, file, line };
  if (!row.isSecret) return { ...place, value };
  const shown = { ...place, isSecret: true } as const;
  if (REFERENCE.test(String(value))) return { ...shown, value, problem: problemOf(String(value), host) };
  return showSecrets ? { ...shown, value } : { ...shown, value: maskOf(parts), isHidden: true };
}

const REFERENCE = /^(?:env|file):./s;

/** As it is shown wherever else it turns up. */
function maskOf(parts: readonly string[]): string {
  return parts[0] === "skills" ? `[${parts.at(-1)}]` : "(set)";
}

function problemOf(value: string, host: Discovered): string | null {
  let problem: string | null = null;
  try {
    resolved(value, host, (why) => {
      problem = why;
      throw new Error(why);
    });
  } catch (error) {
    problem ??= String(error);
  }
  return problem;
}

function defaults(entries: readonly Entry[]): Shown[] {
  const set = new Set(entries.map(({ row }) => row));
  const rows = KEYS.filter((row) => !row.path.includes("*") && !set.has(row));
  return rows.map((row) => ({ key: row.path, value: row.default ?? null, from: "default" }));
}

function printValues(out: Printer, title: string, values: readonly Shown[], { around }: Discovered): void {
  if (values.length === 0) return;
  out.line`\n${out.bold(title)}`;
  for (const { key, value, file, line, isHidden, problem } of values) {
    const text = value === null ? out.dim("not set") : isHidden ? String(value) : tomlValue(value);
    const state = problem === undefined ? "" : problem === null ? out.green("  resolves") : out.red(`  ${problem}`);
    const place = file === undefined ? "" : `  ${displayPath(file, around)}:${line}`;
    out.line`  ${key} = ${text}${state}${out.dim(place)}`;
  }
}

/** The row of a key that was given. Throws a SkillError, with the nearest, when there is none. */
function known(parts: readonly string[]): Key {
  const judged = rowOf(parts) ?? judge(parts, undefined, "user");
  if (!("code" in judged)) return judged;
  throw unusable({ fix: "`skillet config` shows the keys; docs/config.md says what each is for", ...judged });
}

function unusable({ code, message, fix = CODES[code].fix }: Finding): SkillError {
  return new SkillError("usage", {
    message,
    fix: fix ?? "docs/config.md lists every key; `skillet config` those that hold",
  });
}

/** A secret is read from where nobody else sees it: a command line stays in a shell's history, and others can list it. */
async function secretText(io: Io, parts: readonly string[], given: string | undefined): Promise<string | undefined> {
  if (given !== undefined && REFERENCE.test(given)) return given;
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
}

function say(io: Io, asJson: boolean | undefined, around: Surroundings, { key, file, isChanged, did }: Done): void {
  const out = printer(io.stdout, io.env);
  if (asJson) printJson(io.stdout, { key, file, isChanged });
  else out.line`${out.green("✓")} ${key} ${did} in ${displayPath(file, around)}`;
}
