import { cpSync, existsSync, lstatSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Argument } from "commander";
import { SkillError } from "../../errors/problem.ts";
import { packageRoot } from "../../package.ts";
import { formatDisplayPath, listLocations } from "../../skill/source/locations.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { resolveCommandEnvironment } from "../command-host.ts";
import { createPrinter, printJson } from "../output.ts";

/** `skillet types`. */
export const typesCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Write the types for toolsets next to your skills")
      .addArgument(
        new Argument("[folder]", "A skill folder, or a folder of skills").default(undefined, "<workspace>/skills"),
      )
      .addHelpText("after", formatExamples("skillet types", "skillet types ~/.skillet/skills")),
  run: writeTypes,
};

async function writeTypes({ io, options, args: [path] }: CommandContext<object>): Promise<number> {
  const around = resolveCommandEnvironment(io, options);
  const given = path === undefined ? (listLocations(around).at(-1)?.path ?? "") : resolve(io.cwd, path);
  if (!existsSync(given) || !statSync(given).isDirectory()) {
    throw new SkillError("not-found", {
      message: `${formatDisplayPath(given, around)} is not a folder`,
      fix: "name a skill folder, or a folder of skills",
      commands: ["skillet types skills/NAME"],
    });
  }
  const { folder, written, kept } = writeToolsetTypes(existsSync(join(given, "SKILL.md")) ? dirname(given) : given);
  if (options.json) printJson(io.stdout, { folder, written, kept });
  else {
    const out = createPrinter(io.stdout, io.env);
    const here = { ...around, workspace: io.cwd };
    for (const name of written) out.line`${out.green("✓")} ${formatDisplayPath(join(folder, name), here)}`;
    for (const name of kept)
      out.line`${out.dim("·")} ${formatDisplayPath(join(folder, name), here)} is already installed and was not changed`;
  }
  return EXIT.fine;
}

/** The modules that a toolset can import without installing anything. */
const TYPED_PACKAGES = ["@agent/tools", "skillet", "zod"] as const;

interface ToolsetTypes {
  /** The folder of the declarations. */
  folder: string;
  written: readonly string[];
  /** Packages installed there with their own types, which are not changed. */
  kept: readonly string[];
}

/**
 * Writes the declarations of the modules that toolsets import into `node_modules` of a folder of skills, where compilers and editors find
 * them. Git ignores them.
 */
export function writeToolsetTypes(skillsFolder: string): ToolsetTypes {
  const from = join(packageRoot() ?? "", "dist", "toolset-types");
  const folder = join(skillsFolder, "node_modules");
  try {
    if (lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink()) throw new Error("it is a symlink");
    const isNew = !existsSync(folder);
    const kept = TYPED_PACKAGES.filter((name) => !isWrittenBySkillet(join(folder, name)));
    const written = TYPED_PACKAGES.filter((name) => !kept.includes(name));
    mkdirSync(folder, { recursive: true });
    if (isNew) writeFileSync(join(folder, ".gitignore"), "*\n");
    for (const name of written) {
      rmSync(join(folder, name), { recursive: true, force: true });
      cpSync(join(from, name), join(folder, name), { recursive: true });
    }
    return { folder, written, kept };
  } catch (cause) {
    throw new SkillError("unwritable", {
      message: `The declarations cannot be written to ${folder}`,
      fix: "check that it is a writable folder",
      cause,
    });
  }
}

/** Returns true if the folder is missing or was written by an earlier call. */
function isWrittenBySkillet(folder: string): boolean {
  if (lstatSync(folder, { throwIfNoEntry: false }) === undefined) return true;
  try {
    const { description } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return String(description).includes("skillet types");
  } catch {
    return false;
  }
}
