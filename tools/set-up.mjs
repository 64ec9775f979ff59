// Installs missing programs, as `skillet doctor --fix` does: `npm start` and `npm test` begin with it.
/** Number of printed lines of a failed command: the last ones have the reason. */
const LAST_LINES = 6;

/** The programs that running a skill needs. Building the packages that a skill declares needs more. */
export const TO_RUN = ["bwrap", "prlimit"];

/**
 * Installs the missing ones of these programs. Defaults to all programs. Prints nothing if none is missing. Contract: returns false if one
 * is still missing, after printing it.
 */
export async function setUp(programs) {
  // Other systems use their own sandboxes, or a container.
  if (process.platform !== "linux") return true;
  const { applyHostToolFix, planHostToolFix, detectMachine, listHostTools } = await import(
    "../build/sandbox/host-tools.js"
  );
  const states = () => listHostTools().filter(({ tool }) => programs?.includes(tool.program) ?? true);
  const look = () => {
    const { userWithoutRange, ...machine } = detectMachine();
    return programs ? machine : { ...machine, userWithoutRange };
  };
  const missing = () => states().flatMap(({ tool, path }) => (path === undefined ? [tool] : []));
  for (const { program, purpose } of missing()) say(`! ${program} is missing: it ${purpose}`);
  const { commands } = planHostToolFix(states(), look());
  if (commands.length > 0) await install(commands, applyHostToolFix);
  else if (missing().length > 0) sayByHand(look(), planHostToolFix(states(), { ...look(), isRoot: true }));
  const { userWithoutRange: user } = look();
  if (user !== undefined) say(`✗ user ${user} has no range of ids in /etc/subuid: it cannot build packages of skills`);
  return missing().length === 0 && user === undefined;
}

async function install(commands, applyHostToolFix) {
  say(`  installing: ${commands.map((command) => command.join(" ")).join("\n              ")}`);
  const begin = performance.now();
  const printed = [];
  const failed = await applyHostToolFix(commands, (line) => printed.push(line));
  if (failed === undefined) return say(`✓ installed (${Math.ceil((performance.now() - begin) / 1000)} s)`);
  say(`✗ this failed: ${failed.join(" ")}`);
  for (const line of printed.slice(-LAST_LINES)) say(`  │ ${line}`);
}

function sayByHand({ manager }, { commands }) {
  if (manager === undefined) return say("✗ nothing was installed: no package manager is known here");
  say("✗ nothing was installed: you are not root, and there is no sudo. Let root run:");
  for (const command of commands) say(`    ${command.join(" ")}`);
}

function say(line) {
  process.stderr.write(`${line}\n`);
}
