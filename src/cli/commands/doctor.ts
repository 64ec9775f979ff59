import { accessSync, constants, existsSync } from "node:fs";
import { undeclaredVariables } from "../../host/discover.ts";
import { packageVersion } from "../../package.ts";
import { count } from "../../shared/text.ts";
import { displayPath, type Location } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, printDiagnostic } from "../found.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";

/** Where skills are looked for and what is found there, the configuration, the machine, and what is wrong. */
export async function doctor({ io, options }: Context<object>): Promise<number> {
  const found = await discoverFor(io, options);
  const { catalog, around, configuration } = found;
  const places: Location[] = [...found.locations];
  const nearest = places.findIndex(({ scope }) => scope === "workspace");
  places.splice(
    nearest,
    0,
    ...configuration.settings.sources.map(({ name, path }) => ({ scope: "user" as const, name, path })),
  );
  const folders = places.map((location) => ({
    ...location,
    exists: existsSync(location.path),
    skills: catalog.sources.find(({ name, path }) => name === location.name && path === location.path)?.skills ?? 0,
  }));
  const diagnostics = [...configuration.diagnostics, ...undeclaredVariables(found), ...catalog.diagnostics];
  const errors = diagnostics.filter(({ severity }) => severity === "error");
  const code = configuration.isBroken ? EXIT.usage : errors.length > 0 ? EXIT.findings : EXIT.fine;
  const machine = {
    skillet: packageVersion(),
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    executable: process.execPath,
  };
  if (options.json) {
    printJson(io.stdout, {
      ...machine,
      workspace: around.workspace,
      home: around.skilletHome,
      folders,
      configuration: configuration.files,
      diagnostics,
    });
    return code;
  }
  const out = printer(io.stdout, io.env);
  out.line`${out.bold("Machine")}`;
  out.line`  skillet ${machine.skillet}, Node ${machine.node} on ${machine.platform}`;
  out.line`  ${around.skilletHome} ${out.dim(stateOf(around.skilletHome))}`;
  out.line`\n${out.bold("Folders")} ${out.dim("far to near: a later one overrides")}`;
  const widest = Math.max(...folders.map(({ name }) => name.length));
  for (const { scope, name, path, exists, skills, sameAs } of folders) {
    const state = sameAs !== undefined ? `the same folder as ${sameAs}` : exists ? count(skills, "skill") : "not there";
    const shown = out.text`  ${scope.padEnd(9)}  ${name.padEnd(widest)}  ${state}  ${out.dim(displayPath(path, around) === name ? "" : path)}`;
    out.line`${exists ? shown : out.dim(shown)}`;
  }
  out.line`\n${out.bold("Configuration")}`;
  for (const { path, exists } of configuration.files)
    out.line`  ${displayPath(path, around)}  ${out.dim(exists ? "read" : "not there")}`;
  out.line`\n${out.bold("Findings")}`;
  for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, around);
  out.line`${diagnostics.length === 0 ? out.green("✓ nothing is wrong") : out.text`\n${count(diagnostics.length, "finding")}, ${count(errors.length, "error")}`}`;
  return code;
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
