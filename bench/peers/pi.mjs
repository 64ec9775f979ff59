import { loadSkills } from "@earendil-works/pi-coding-agent";

const { skills } = loadSkills({ cwd: process.cwd(), skillPaths: [process.argv[2]], includeDefaults: false });
process.stdout.write(`${skills.length}\n`);
