import { type ExportFormat, exportPath, exportSkill, FORMATS } from "../../install/export.ts";
import { quoted } from "../../policy/trust.ts";
import { count, grouped } from "../../shared/text.ts";
import { displayPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { printHanging } from "../wrap.ts";
import { explainMissing } from "./show.ts";

interface ExportOptions {
  format: ExportFormat;
  output?: string;
  force?: boolean;
}

/** Writes a skill as a file or folder that others take. Nothing of it is run, so it need not be trusted. */
export async function exportCommand({ io, options, args: [name = ""] }: Context<ExportOptions>): Promise<number> {
  const { format, output, force = false } = options;
  const found = await discoverFor(io, options);
  const code = warnOfConfiguration(io, found) ? EXIT.fine : EXIT.usage;
  const skill = found.catalog.find(name);
  if (!skill) return explainMissing(io, found, name);
  const path = exportPath(skill, format, { cwd: io.cwd, ...(output === undefined ? {} : { output }) });
  const exported = exportSkill({ skill, format, path, isForced: force });
  if (options.json) {
    const { path: place, ...written } = exported;
    printJson(io.stdout, { name: skill.name, source: skill.origin.source, format, place, ...written });
    return code;
  }
  const shown = displayPath(path, { ...found.around, workspace: io.cwd });
  const out = printer(io.stdout, io.env);
  const size = `${count(exported.files.length, "file")}, ${grouped(exported.bytes)} bytes`;
  out.line`${out.green("✓")} ${shown} ${out.dim(size)}`;
  const error = printer(io.stderr, io.env);
  for (const said of exported.leftOut)
    printHanging(error, error.text`${error.yellow("!")} `, [`left out: ${said}`], { indent: 2 });
  for (const note of exported.notes) printHanging(error, error.text`${error.dim("·")} `, [note], { indent: 2 });
  error.line`  ${FORMATS[format].next(quoted(shown) === shown ? shown : quoted(path))}`;
  return code;
}
