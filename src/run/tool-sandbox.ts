import type { ToolSandbox } from "../skill/tool.ts";
import type { Enclosure } from "./enclosure.ts";

/** The sandbox of a run for the tools that skills bring: what they start has what any command of the run has. */
export function sandboxFor(enclosure: Enclosure): ToolSandbox {
  return {
    async run(argv, { stdin, seconds, signal } = {}) {
      const { ending, exitCode, stdout, stderr } = await enclosure.run(argv, {
        ...(stdin === undefined ? {} : { stdin }),
        ...(seconds === undefined ? {} : { seconds }),
        ...(enclosure.asksToWrite ? { access: "read" } : {}),
        signal,
      });
      return { ending, stdout, stderr, ...(exitCode === undefined || exitCode === null ? {} : { exitCode }) };
    },
  };
}
