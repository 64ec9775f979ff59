import { isUtf8 } from "node:buffer";
import { denials } from "../../policy/policy.ts";
import { SkillError } from "../../shared/error.ts";
import { count, estimateTokens, oneLine } from "../../shared/text.ts";
import { diagnose } from "../../skill/diagnostic.ts";
import type { Skill } from "../../skill/skill.ts";
import { displayPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, printDiagnostic, warnOfConfiguration } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { describe } from "./list.ts";

export async function show({ io, options, args }: Context<{ body?: boolean }>): Promise<number> {
  const [name = "", file] = args;
  const found = await discoverFor(io, options);
  warnOfConfiguration(io, found);
  const { catalog, around } = found;
  const skill = catalog.get(name);
  if (file !== undefined) return printFile(io, skill, file);
  const body = skill.body();
  const copies = catalog.copies(skill.name);
  const files = skill.files();
  const diagnostics = diagnose([...skill.findings, ...files.findings], skill.origin.file ?? skill.name);
  const denied = denials(skill, found);
  const tokens = {
    listed: estimateTokens(`- ${skill.name}: ${skill.manifest.briefDescription}`),
    full: estimateTokens(body),
  };
  if (options.json) {
    const others = copies.map(describe);
    printJson(io.stdout, {
      ...describe(skill),
      frontmatter: skill.manifest.data,
      tokens,
      files: files.files,
      copies: others,
      denials: denied,
      diagnostics,
      ...(options.body ? { body } : {}),
    });
    return EXIT.fine;
  }
  const out = printer(io.stdout, io.env);
  if (options.body) {
    printText(io, body);
    return EXIT.fine;
  }
  const { manifest, origin } = skill;
  const row = (label: string, value: string | number | undefined) => {
    if (value !== undefined && value !== "") out.line`  ${out.dim(label.padEnd(9))} ${value}`;
  };
  out.line`${out.bold(skill.name)}  ${oneLine(skill.description)}\n`;
  row("version", manifest.version);
  row("tags", manifest.tags.join(", "));
  row("authors", manifest.authors.join(", "));
  row("model", manifest.model);
  row("path", origin.file && displayPath(origin.file, around));
  row("source", origin.source === origin.scope ? origin.scope : `${origin.source} (${origin.scope})`);
  row(
    "tells",
    `~${tokens.listed} tokens in a list, ~${tokens.full} tokens in full (${count(body.split("\n").length, "line")})`,
  );
  for (const denial of denied) row("denied", `${denial.message}; ${denial.fix}`);
  if (copies.length > 1) {
    out.line`\n${out.bold("Copies")} ${out.dim("the first is used")}`;
    for (const copy of copies)
      out.line`  ${copy.name}@${copy.origin.source}  ${out.dim(copy.origin.file ? displayPath(copy.origin.file, around) : "")}`;
  }
  if (files.files.length > 0) {
    out.line`\n${out.bold("Files")}`;
    for (const { path, size, executable } of files.files)
      out.line`  ${path}  ${out.dim(`${size} bytes${executable ? ", executable" : ""}`)}`;
  }
  if (diagnostics.length > 0) out.line`\n${out.bold("Findings")}`;
  for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, around);
  return EXIT.fine;
}

function printFile(io: Io, skill: Skill, path: string): number {
  const bytes = skill.read(path);
  if (!isUtf8(bytes) || bytes.includes(0)) {
    throw new SkillError("resource-binary", {
      message: `"${path}" is not text (${count(bytes.length, "byte")})`,
      fix: `it stands in ${skill.origin.folder}`,
    });
  }
  printText(io, Buffer.from(bytes).toString("utf8"));
  return EXIT.fine;
}

/** A text as it is, so that it can be copied: with its tabs, and without what could act on the terminal. */
function printText(io: Io, text: string): void {
  const out = printer(io.stdout, io.env);
  const lines = text.replace(/\r?\n$/, "").split(/\r?\n/);
  for (const line of lines)
    io.stdout.write(
      `${line
        .split("\t")
        .map((part) => out.text`${part}`.text)
        .join("\t")}\n`,
    );
}
