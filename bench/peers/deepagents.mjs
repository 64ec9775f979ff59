import { listSkills } from "deepagents";

process.stdout.write(`${listSkills({ projectSkillsDir: process.argv[2] }).length}\n`);
