// Remote skills, reviewed, locked and found: npx node examples/13-add-skills.ts FOLDER SOURCE [name …]
import { discover } from "skillet";
import { addSkills, type PendingSkill, verifySkills } from "skillet/remote";

const [folder = "agent-home", source = `${import.meta.dirname}/skills`, ...names] = process.argv.slice(2);
const env = { ...process.env, SKILLET_HOME: folder }; // the program's own folder, not the user's ~/.skillet

/** Your rule: ask a user, or use the findings of the scanner. */
function approve(coming: readonly PendingSkill[]): boolean {
  for (const { name, is, prepared } of coming) {
    process.stderr.write(`? ${is} ${name} ${prepared.digest.slice(0, 15)}\n`);
    for (const { weight, file, message } of prepared.findings)
      process.stderr.write(`  ${weight}: ${file} ${message}\n`);
  }
  return coming.every(({ prepared }) => prepared.findings.every(({ weight }) => weight === "low"));
}

const { outcome, additions } = await addSkills({ source, names, env, approve }); // a folder, an archive, owner/repository, a site: all or nothing
if (outcome === "declined") process.stderr.write("✗ nothing was added\n");
else for (const { name, is } of additions) process.stderr.write(`✓ ${name}: ${is}\n`);

const { catalog } = await discover({ env });
const installed = catalog.skills.filter(({ origin }) => origin.scope === "installed");
const states = verifySkills({ env }).map(({ name, is }) => `${name} is ${is}`);
process.stdout.write(`found: ${installed.map(({ name }) => name).join(", ")}; ${states.join(", ")}\n`);
process.exitCode = outcome === "declined" ? 3 : 0;
