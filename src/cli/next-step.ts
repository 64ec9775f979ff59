import { quoted } from "../policy/trust.ts";

/** What to do next, as it is done from where somebody stands who named another workspace: its commands name it too. */
export function fromHere(text: string, workspace: string | undefined): string {
  return workspace === undefined ? text : text.replace(OF_WORKSPACE, (command) => `${command} -C ${quoted(workspace)}`);
}

/** Those that look for skills. */
const OF_WORKSPACE =
  /(?<![\w/.-])skillet (?:capability (?:grant|ungrant|list)|trust|show|list|packages \w+|tools|add|update|remove|verify|outdated)(?![\w-])/g;
