import { resolve } from "node:path";
import { Argument } from "commander";
import { SkillError } from "../../errors/problem.ts";
import { applyNodePackages, planNodePackages } from "../../sandbox/host-tools.ts";
import { formatPeers, PEER_GROUPS } from "../../util/peer-packages.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { createPrinter, printJson } from "../output.ts";

/** The sets of packages. Repeated here because every command loads this file. */
const SETUP_NAMES = ["anthropic", "openai", "openai-compatible", "mcp", "postgres"] as const;

/** `skillet setup`. */
export const setupCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Install optional packages for a program that imports skillet")
      .addArgument(new Argument("<name>", "The set of packages").choices(SETUP_NAMES))
      .option("-n, --dry-run", "Print the command without running it")
      .addHelpText("after", formatExamples("skillet setup anthropic", "skillet setup mcp --dry-run")),
  run: installOptionalPackages,
};

interface SetupOptions {
  dryRun?: boolean;
}

async function installOptionalPackages({
  io,
  options,
  args: [name = ""],
}: CommandContext<SetupOptions>): Promise<number> {
  const packages = formatPeers(PEER_GROUPS[name as keyof typeof PEER_GROUPS]).split(" ");
  const plan = planNodePackages(resolve(io.cwd, options.workspace ?? "."), packages);
  if (plan === undefined) {
    throw new SkillError("not-found", {
      message: "No package.json was found here or above: the packages are for a program that imports skillet",
      fix: "the skillet command has them built in; run this in the folder of your program",
    });
  }
  const command = plan.command.join(" ");
  const isApplied = options.dryRun !== true;
  const code = isApplied ? await applyNodePackages(plan, { ...io.env }) : 0;
  if (code !== 0) {
    throw new SkillError("install-failed", {
      message:
        code === undefined
          ? `${plan.command[0]} could not be started`
          : `${plan.command[0]} failed with exit code ${code}`,
      fix: `run it yourself in ${plan.project}: ${command}`,
    });
  }
  if (options.json) printJson(io.stdout, { folder: plan.project, command: plan.command, isDryRun: !isApplied });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${isApplied ? out.green("✓") : out.dim("·")} ${command} ${out.dim(`(in ${plan.project})`)}`;
  }
  return EXIT.fine;
}
