// Prints what `trySkills` saw as JSON. It is bundled by each bundler that the tests know, from the packed package.
import { trySkills } from "./skills.mjs";

const [home, workspace] = process.argv.slice(2);
trySkills(home, workspace).then(
  (seen) => process.stdout.write(JSON.stringify(seen)),
  (error) => {
    process.stderr.write(`${error.stack}\n`);
    process.exitCode = 1;
  },
);
