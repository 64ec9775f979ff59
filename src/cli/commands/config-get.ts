import { tomlValue } from "../../host/config-edit.ts";
import { dotted, type Entry } from "../../host/config-file.ts";
import { isTableKey, keyParts } from "../../host/find-key.ts";
import { isReference } from "../../host/reference.ts";
import { loadSettings } from "../../host/settings.ts";
import { SkillError } from "../../shared/error.ts";
import type { Surroundings } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { printDiagnostic, surroundingsFor, unreadableConfiguration } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { known, type SecretOptions } from "./config.ts";
import { usual } from "./config-defaults.ts";
import { printValue, shownDefaults, shownEntry } from "./config-show.ts";

/** One value, or all that is in a table. */
export async function getConfig({ io, options, args: [written = ""] }: Context<SecretOptions>): Promise<number> {
  const around = surroundingsFor(io, options);
  const { entries, isBroken, diagnostics } = await loadSettings(around);
  if (isBroken) {
    for (const diagnostic of diagnostics) printDiagnostic(printer(io.stderr, io.env), diagnostic, around);
    throw unreadableConfiguration(diagnostics);
  }
  const parts = keyParts(written);
  if (isTableKey(parts)) return getTable(io, parts, { entries, around, ...options });
  const row = known(parts);
  const entry = entries.find((one) => dotted(one.parts) === dotted(parts));
  if (row.isSecret && entry && !isReference(entry.value) && !options.showSecrets) {
    throw new SkillError("not-agreed", {
      message: `${dotted(parts)} is a secret`,
      fix: `to print it: skillet config get ${dotted(parts)} --show-secrets`,
    });
  }
  const { value, says } = entry ? { value: entry.value } : usual(row);
  if (value === undefined) {
    throw new SkillError("not-found", {
      message: `${dotted(parts)} is not set${says === undefined ? "" : `: ${says}`}`,
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

interface Table extends SecretOptions {
  entries: readonly Entry[];
  around: Surroundings;
  json?: boolean;
}

function getTable(io: Io, parts: readonly string[], { entries, around, json, showSecrets = false }: Table): number {
  const isBelow = (key: readonly string[]) => parts.every((part, index) => key[index] === part);
  const set = entries.filter((entry) => isBelow(entry.parts)).map((entry) => shownEntry(entry, around, showSecrets));
  const values = [...set, ...shownDefaults(entries).filter(({ key }) => isBelow(key.split(".")))];
  if (values.length === 0) {
    throw new SkillError("not-found", {
      message: `Nothing is set below ${dotted(parts)}`,
      fix: "`skillet config` shows what is set, and where",
    });
  }
  if (json) printJson(io.stdout, { key: dotted(parts), values });
  else for (const value of values) printValue(printer(io.stdout, io.env), value);
  return EXIT.fine;
}
