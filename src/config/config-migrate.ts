import { isDeepStrictEqual } from "node:util";
import { type Problem, SkillError } from "../errors/problem.ts";
import { replaceFile, withFileLock } from "../store/locked-file.ts";
import { readConfigText, renameTomlKey } from "./config-edit.ts";
import { findRenamedKey, formatKeyPath, loadTomlParser, type TomlLeaf } from "./config-file.ts";
import { createLineFinder, findLineEnd, parseTomlStatements } from "./toml-statements.ts";

/** The keys of earlier versions in a configuration file, and the text with the keys of today. */
export interface ConfigMigration {
  file: string;
  before: string;
  after: string;
  renames: readonly { old: string; name: string; line: number }[];
  /** Keys that have to be edited manually. */
  problems: readonly Problem[];
  /** The changed lines: `@@`, `-` and `+`. They contain no secret. */
  diff: readonly string[];
}

/**
 * Plans the renaming of old keys in a configuration file. Values, comments and all other bytes stay. Throws a SkillError if the file
 * cannot be read or parsed.
 */
export async function planConfigMigration(file: string): Promise<ConfigMigration> {
  const parse = await loadTomlParser();
  const { text: before } = readConfigText(file);
  const leavesOf = (text: string): TomlLeaf[] => {
    const read = parse(text);
    return "problem" in read ? [] : read.leaves;
  };
  const read = parse(before);
  if ("problem" in read) {
    const { line = 1, message } = read.problem;
    const fix = "fix the line first: nothing was written";
    throw new SkillError("config-syntax", { message: `${file}:${line} ${message}`, fix });
  }
  const lineOf = createLineFinder(parseTomlStatements(before));
  const renames: ConfigMigration["renames"][number][] = [];
  const problems: Problem[] = [];
  const diff: string[] = [];
  let after = before;
  for (const [parts] of read.leaves) {
    const renamed = findRenamedKey(parts);
    if (renamed === undefined) continue;
    const [old, name, line] = [formatKeyPath(parts), formatKeyPath(renamed), lineOf(parts)];
    const next = read.leaves.some(([other]) => isDeepStrictEqual(other, renamed))
      ? undefined
      : renameTomlKey(after, { parts, name: renamed.at(-1) ?? "" }, leavesOf);
    if (next === undefined) {
      problems.push({
        code: "config-renamed",
        message: `${file}:${line} has ${old}, which is now ${name}`,
        fix: `remove ${old}, or rename it in an editor`,
      });
      continue;
    }
    renames.push({ old, name, line });
    diff.push(`@@ line ${line} @@`, `-${readKeyLine(after, parts) ?? old}`, `+${readKeyLine(next, renamed) ?? name}`);
    after = next;
  }
  return { file, before, after, renames, problems, diff };
}

/** Writes a planned migration. Throws a SkillError if the file was edited since it was planned; then nothing is written. */
export function applyConfigMigration({ file, before, after }: ConfigMigration): void {
  if (after === before) return;
  withFileLock(file, () => {
    const { text, mode } = readConfigText(file);
    if (text !== before) {
      throw new SkillError("concurrent-change", {
        message: `${file} changed while its keys were renamed; nothing was written`,
        fix: "run the command again",
      });
    }
    replaceFile(file, after, mode);
  });
}

/** Returns the line of a key, or undefined for a key in an inline table, whose line may contain secrets of other keys. */
function readKeyLine(text: string, parts: readonly string[]): string | undefined {
  const found = parseTomlStatements(text).find((one) => !one.isTable && isDeepStrictEqual(one.parts, parts));
  return found && text.slice(found.start, findLineEnd(text, found.start)).trimEnd();
}
