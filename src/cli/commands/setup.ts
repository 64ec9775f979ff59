import { resolve } from "node:path";
import { formatPeers, PEER_GROUPS } from "../../host/peers.ts";
import { applyInstall, planInstall } from "../../sandbox/install-packages.ts";
import { SkillError } from "../../shared/error.ts";
import { EXIT } from "../exit.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";

interface SetupOptions {
  dryRun?: boolean;
}

export async function setup({ io, options, args: [name = ""] }: Context<SetupOptions>): Promise<number> {
  const packages = formatPeers(PEER_GROUPS[name as keyof typeof PEER_GROUPS]).split(" ");
  const plan = planInstall(resolve(io.cwd, options.workspace ?? "."), packages);
  if (plan === undefined) {
    throw new SkillError("not-found", {
      message: "There is no package.json here or above: the packages are for a program that imports skillet",
      fix: "the skillet command has them built in; run this in the folder of your program",
    });
  }
  const command = plan.command.join(" ");
  const isApplied = options.dryRun !== true;
  const code = isApplied ? await applyInstall(plan, { ...io.env }) : 0;
  if (code !== 0) {
    throw new SkillError("install-failed", {
      message: code === undefined ? `${plan.command[0]} could not be started` : `${plan.command[0]} ended with ${code}`,
      fix: `run it yourself in ${plan.project}: ${command}`,
    });
  }
  if (options.json) printJson(io.stdout, { folder: plan.project, command: plan.command, isDryRun: !isApplied });
  else {
    const out = printer(io.stdout, io.env);
    out.line`${isApplied ? out.green("✓") : out.dim("·")} ${command} ${out.dim(`(in ${plan.project})`)}`;
  }
  return EXIT.fine;
}
