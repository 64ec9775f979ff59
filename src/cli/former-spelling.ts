import { SkillError } from "../errors/problem.ts";
import { quoteIfNeeded } from "../util/shell-quote.ts";
import { findCommandIndex } from "./program.ts";

/**
 * Returns the error for a command line that meant something else in an earlier version, with the command that replaces it.
 * Contract: decides by the arguments alone. Nothing is read, fetched or written.
 */
export function findFormerSpelling(argv: readonly string[]): SkillError | undefined {
  const at = findCommandIndex(argv);
  const name = argv[at] ?? "";
  const find = Object.hasOwn(FORMER_SPELLINGS, name) ? FORMER_SPELLINGS[name] : undefined;
  const found = find?.(readArguments([...argv.slice(0, at), ...argv.slice(at + 1)]));
  return found && new SkillError("usage", found);
}

/** The arguments of a command line, before any command has defined its options. */
interface TypedArguments {
  names: readonly string[];
  flags: ReadonlySet<string>;
  /** All arguments, with former options replaced by those of `export`. */
  forExport: readonly string[];
}

const FORMER_SPELLINGS: Readonly<
  Record<string, (typed: TypedArguments) => { message: string; fix: string } | undefined>
> = { install: findFormerInstall, i: findFormerInstall, uninstall: findFormerUninstall };

/** `install` wrote copies for clients, as `export` does; now it adds skills from a source. */
function findFormerInstall({ names, flags, forExport }: TypedArguments) {
  const isCopy = flags.has("--to") || flags.has("--list");
  const isFormer = flags.has("--update") || (isCopy && !names.some(isSource));
  if (!isFormer || flags.has("--help")) return undefined; // The help is of `add`.
  return {
    message: "`install` adds skills from a source; `export` copies them to clients",
    fix: `Use: ${formatCommand(
      "skillet export",
      forExport.filter((arg) => arg !== "--all"),
    )}`,
  };
}

/** `uninstall` removed copies from clients. Other tools remove what was added, so it must not do either by itself. */
function findFormerUninstall({ names, flags, forExport }: TypedArguments) {
  const isWhole = names.length > 0 || flags.has("--all");
  const args = isWhole ? forExport : ["NAME", ...forExport];
  const removal = formatCommand("skillet export --remove", args);
  if (flags.has("--to") || flags.has("--all"))
    return { message: "`uninstall` was replaced by `export --remove`", fix: `Use: ${removal}` };
  return {
    message:
      "`uninstall` was replaced by `skillet remove`, for added skills, and `skillet export --remove`, for copies",
    fix: `Use: \`${formatCommand("skillet remove", args)}\`; to remove its copies from clients: \`${removal}\``,
  };
}

/** Returns true for an address of a source. Everything else, such as `name` and `name@source`, is the name of a skill. */
function isSource(text: string): boolean {
  if (/^[a-z][a-z0-9+.-]*:\/\/|^[^/:@]+@[^/:]+:.*\/|^(?:\.{1,2}|~)?(?:\/|$)/i.test(text)) return true;
  return /^[^@]+\//.test(text) || /\.(?:zip|skill|tar\.gz|tgz)$/i.test(text);
}

function readArguments(argv: readonly string[]): TypedArguments {
  const names: string[] = [];
  const flags = new Set<string>();
  const forExport: string[] = [];
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === "--") {
      names.push(...rest);
      forExport.push(...rest.splice(0));
    } else if (!word.startsWith("-")) {
      names.push(word);
      forExport.push(word);
    } else {
      // `--to=claude`, `-tclaude` and `-nl` are other spellings of `--to claude` and `-n -l`.
      const [, flag = "", inline] = /^(--[^=]*|-.)=?(.+)?$/s.exec(word) ?? [];
      const option = Object.hasOwn(TYPED_OPTIONS, flag) ? TYPED_OPTIONS[flag] : undefined;
      const isCluster = !option?.hasValue && !flag.startsWith("--") && inline !== undefined;
      if (isCluster) rest.unshift(`-${inline}`);
      if (option === undefined) continue;
      flags.add(option.name);
      forExport.push(option.name, ...(option.hasValue ? [inline ?? rest.shift() ?? "CLIENT"] : []));
    }
  }
  return { names, flags, forExport };
}

/** The options that `install` and `uninstall` had, with their names in `export`. Others are dropped. */
const TYPED_OPTIONS: Readonly<Record<string, { name: string; hasValue?: boolean }>> = {
  "--to": { name: "--to", hasValue: true },
  "-t": { name: "--to", hasValue: true },
  "--from": { name: "--to", hasValue: true },
  "--workspace": { name: "-C", hasValue: true },
  "-C": { name: "-C", hasValue: true },
  "--update": { name: "--update" },
  "--list": { name: "--list" },
  "-l": { name: "--list" },
  "--all": { name: "--all" },
  "-a": { name: "--all" },
  "--project": { name: "--project" },
  "--dry-run": { name: "--dry-run" },
  "-n": { name: "--dry-run" },
  "--force": { name: "--force" },
  "--json": { name: "--json" },
  "--help": { name: "--help" },
  "-h": { name: "--help" },
};

function formatCommand(command: string, args: readonly string[]): string {
  return [command, ...args.map(quoteIfNeeded)].join(" ");
}
