import { applyFix, planFix, thisMachine, toolStates } from "../../sandbox/system.ts";
import { EXIT } from "../exit.ts";
import { type Io, printer, printJson } from "../io.ts";

/** Installs what the machine lacks, after showing the commands and asking. */
export async function fix(io: Io, { yes = false, json = false }: { yes?: boolean; json?: boolean }): Promise<number> {
  const error = printer(io.stderr, io.env);
  if (process.platform !== "linux") {
    error.line`nothing can be installed here: code runs in a sandbox of ${process.platform === "darwin" ? "macOS's own" : "a container"}`;
    return EXIT.fine;
  }
  const missing = toolStates().filter(({ path }) => path === undefined);
  const { commands, left } = planFix(toolStates(), thisMachine());
  for (const { tool } of missing) error.line`${error.yellow("!")} ${tool.program} is missing: it ${tool.purpose}`;
  for (const command of commands) error.line`  ${error.cyan(command.join(" "))}`;
  if (commands.length > 0 && !yes && !(await isAgreed(io))) {
    error.line`nothing was installed: run the commands above, or \`skillet doctor --fix --yes\``;
    return EXIT.refused;
  }
  const failed = await applyFix(commands, (line) => error.line`${error.dim(line)}`);
  const still = toolStates().flatMap(({ tool, path }) => (path === undefined ? [tool.program] : []));
  if (json)
    printJson(io.stdout, {
      installed: missing.map(({ tool }) => tool.program).filter((name) => !still.includes(name)),
      missing: still,
    });
  if (failed) error.line`${error.red("✗")} this command failed: ${failed.join(" ")}`;
  if (still.length === 0) error.line`${error.green("✓")} everything is there that sandboxes and packages need`;
  else
    error.line`${error.red("✗")} still missing: ${still.join(", ")}${left.length > 0 ? "; install it with your system's package manager, as root" : ""}`;
  return still.length === 0 ? EXIT.fine : EXIT.findings;
}

async function isAgreed(io: Io): Promise<boolean> {
  const answer = (await io.ask?.("Run these commands? [y/N] ")) ?? "";
  return /^y(?:es)?$/i.test(answer.trim());
}
