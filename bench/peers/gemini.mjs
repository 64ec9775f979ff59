import { loadSkillsFromDir } from "@google/gemini-cli-core";

const skills = await loadSkillsFromDir(process.argv[2]);
process.stdout.write(`${skills.length}\n`);
