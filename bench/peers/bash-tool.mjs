import { experimental_createSkillTool } from "bash-tool";

const { skills } = await experimental_createSkillTool({ skillsDirectory: process.argv[2] });
process.stdout.write(`${skills.length}\n`);
