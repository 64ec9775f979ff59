import { join } from "node:path";
import { main } from "../../src/cli/main.ts";
import { listCommandPaths } from "../../src/cli/program.ts";

const ROOT = join(import.meta.dirname, "../..");

export async function commandPage(): Promise<string> {
  const sections: string[] = [];
  for (const command of await listCommandPaths()) {
    sections.push(`## ${`skillet ${command}`.trim()}\n\n\`\`\`text\n${await helpOf(command)}\n\`\`\``);
  }
  return `# The command line

This page is made from the program's own help.

Data goes to stdout, everything else to stderr. Exit codes: 0 fine, 1 findings or failure, 2 usage or a configuration that cannot be
read, 3 refused, 4 a limit was reached, 5 waiting for approval, 130 interrupted. [Which code of an error ends with which](errors.md#exit-codes).

${sections.join("\n\n")}
`;
}

async function helpOf(command: string): Promise<string> {
  let text = "";
  const stream = { write: (part: string) => (text += part), columns: 100 };
  const args = command === "" ? [] : command.split(" ");
  await main([...args, "--help"], { stdout: stream, stderr: stream, env: {}, cwd: "." });
  return text.replaceAll(ROOT, "node_modules/skillet").trimEnd();
}
