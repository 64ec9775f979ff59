import { relative, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { CODES, type Code } from "../codes/findings.ts";
import { packageVersion } from "../package.ts";
import { reveal } from "../shared/hidden.ts";
import { isInside } from "../shared/inside.ts";
import type { Diagnostic, Severity } from "../skill/diagnostic.ts";
import type { Io } from "./io.ts";

const LEVELS: Record<Severity, "error" | "warning" | "note"> = { error: "error", warning: "warning", info: "note" };

/** What `check` finds, as SARIF. */
export function sarifOf(diagnostics: readonly Diagnostic[], root: string): object {
  const results = diagnostics.map(({ code, severity, message, fix, file, line, column }) => ({
    ...{ rule: code, level: LEVELS[severity], text: `${message}. To mend it: ${fix}`, file },
    ...(line === undefined ? {} : { line }),
    ...(column === undefined ? {} : { column }),
  }));
  return sarifLog(results, (code) => rule(code as Code), root);
}

export interface SarifResult {
  rule: string;
  level: "error" | "warning" | "note";
  text: string;
  /** An absolute path. */
  file: string;
  line?: number;
  column?: number;
}

/** SARIF 2.1.0, as code scanning takes it. `describe`: a rule by its id. */
export function sarifLog(results: readonly SarifResult[], describe: (rule: string) => object, root: string): object {
  const rules = [...new Set(results.map(({ rule }) => rule))].sort();
  return {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: {
          driver: {
            name: "skillet",
            semanticVersion: packageVersion(),
            rules: rules.map(describe),
          },
        },
        originalUriBaseIds: { ROOT: { uri: `${pathToFileURL(root).href}/` } },
        columnKind: "utf16CodeUnits",
        results: results.map((result) => ({
          ruleId: result.rule,
          ruleIndex: rules.indexOf(result.rule),
          level: result.level,
          message: { text: result.text },
          locations: [{ physicalLocation: { artifactLocation: artifact(result.file, root), ...region(result) } }],
        })),
      },
    ],
  };
}

/** What files are named from. GitHub reads names from the top of what it checked out, wherever in it the program was started. */
export function reportRoot(env: Io["env"], workspace: string): string {
  const top = env["GITHUB_WORKSPACE"];
  return top && isInside(resolve(top), workspace) ? resolve(top) : workspace;
}

/** Workflow commands: GitHub shows each on the line it is about. */
export function githubLines(diagnostics: readonly Diagnostic[], root: string): string {
  const lines = diagnostics.map(({ severity, file, line, column, code, message, fix }) => {
    const properties = {
      file: isInside(root, file) ? relative(root, file).split(sep).join("/") : file,
      ...(line === undefined ? {} : { line }),
      ...(column === undefined ? {} : { col: column }),
      title: `skillet ${code}`,
    };
    const list = Object.entries(properties).map(([key, value]) => `${key}=${escapeProperty(String(value))}`);
    return `::${severity === "info" ? "notice" : severity} ${list.join(",")}::${escapeData(message)}%0A${escapeData(fix)}\n`;
  });
  return lines.join("");
}

function rule(code: Code): object {
  const { means, fix } = CODES[code];
  return { id: code, shortDescription: { text: means }, help: { text: `To mend it: ${fix}.` } };
}

function artifact(file: string, root: string): object {
  if (!isInside(root, file)) return { uri: pathToFileURL(file).href };
  const uri = relative(root, file).split(sep).map(encodeURIComponent).join("/");
  return { uri: uri === "" ? "." : uri, uriBaseId: "ROOT" };
}

function region({ line, column }: Pick<SarifResult, "line" | "column">): object {
  if (line === undefined) return {};
  return { region: { startLine: line, ...(column === undefined ? {} : { startColumn: column }) } };
}

function escapeData(text: string): string {
  return reveal(text).replaceAll("%", "%25");
}

function escapeProperty(text: string): string {
  return escapeData(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
