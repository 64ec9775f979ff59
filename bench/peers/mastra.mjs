import { Workspace } from "@mastra/core/workspace";

const skills = await new Workspace({ skills: [process.argv[2]] }).skills.list();
process.stdout.write(`${skills.length}\n`);
