import { userHome } from "../../host/home.ts";
import { applyFix, planFix, thisMachine, toolStates } from "../../sandbox/system.ts";
import { uvPrograms } from "../../sandbox/uv.ts";
import { SkillError } from "../../shared/error.ts";
import { EXIT } from "../exit.ts";
import { type Io, isAgreed, printer, printJson } from "../io.ts";

/** Installs what the machine lacks, after showing the commands and asking. */
export async function fix(io: Io, { yes = false, json = false }: { yes?: boolean; json?: boolean }): Promise<number> {
  const error = printer(io.stderr, io.env);
  if (process.platform !== "linux") {
    error.line`nothing can be installed here: code runs in a sandbox of ${process.platform === "darwin" ? "macOS's own" : "a container"}`;
    if (json) printJson(io.stdout, { installed: [], missing: [], failed: null, userWithoutRange: null });
    return EXIT.fine;
  }
  const missing = toolStates().filter(({ path }) => path === undefined);
  const { commands, left } = planFix(toolStates(), thisMachine());
  for (const { tool } of missing) error.line`${error.yellow("!")} ${tool.program} is missing: it ${tool.purpose}`;
  // No package manager brings it.
  if (!uvPrograms(userHome(io.env)).has("uv"))
    error.line`${error.dim("·")} uv is not there: uv run and uvx need it (https://docs.astral.sh/uv)`;
  for (const command of commands) error.line`  ${error.cyan(command.join(" "))}`;
  if (commands.length > 0 && !yes && !(await isAgreed(io, "Run these commands?"))) {
    const fix = "run the commands above, or `skillet doctor --fix --yes`";
    throw new SkillError("not-agreed", { message: "nothing was installed", fix });
  }
  const failed = await applyFix(commands, (line) => error.line`${error.dim(line)}`);
  const still = toolStates().flatMap(({ tool, path }) => (path === undefined ? [tool.program] : []));
  const user = thisMachine().userWithoutRange;
  if (json)
    printJson(io.stdout, {
      installed: missing.map(({ tool }) => tool.program).filter((name) => !still.includes(name)),
      missing: still,
      failed: failed ?? null,
      userWithoutRange: user ?? null,
    });
  if (failed) error.line`${error.red("✗")} this command failed: ${failed.join(" ")}`;
  if (still.length > 0)
    error.line`${error.red("✗")} still missing: ${still.join(", ")}${left.length > 0 ? "; install it with your system's package manager, as root" : ""}`;
  if (user !== undefined) error.line`${error.red("✗")} ${withoutRange(user)}`;
  if (failed || still.length > 0 || user !== undefined) return EXIT.findings;
  error.line`${error.green("✓")} everything is there that sandboxes and packages need`;
  return EXIT.fine;
}

function withoutRange(user: string | number): string {
  return typeof user === "number"
    ? `user ${user} has no name here, so no range of ids can be given to it: let root build packages`
    : `user ${user} has no range of ids in /etc/subuid and /etc/subgid: let root add one with usermod, or build packages`;
}
