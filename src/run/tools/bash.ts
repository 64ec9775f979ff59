import { NEEDS_WRITES } from "../../model/commands.ts";
import { makeTool, type Tool, type ToolResult } from "../../skill/tool.ts";
import { isKeptFromWriting } from "../script-view.ts";
import { commandText } from "./command-text.ts";
import { CHANGE, type ToolScene } from "./tool-scene.ts";

/** The command is one argument, and no part of a program of ours. An image may have no bash. */
const PROGRAM = 'command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec sh -c "$1"';

export function bashTool(scene: ToolScene): Tool {
  const { enclosure, host } = scene;
  const { asksToWrite } = enclosure;
  const parameters = {
    command: { type: "string", says: "the command, as bash takes it", isRequired: true },
    timeout_seconds: {
      type: "number",
      says: `when to end it, with all that it started; at most ${host.settings.scripts.seconds}, also when left out`,
    },
    writes: {
      type: "boolean",
      says: "true for a command that changes files of the workspace: the user may be asked first; else it can only read them",
    },
  } as const;
  return makeTool(
    {
      name: "bash",
      description: `Runs a shell command in a sandbox and gives what it printed. ${sayPlace(scene)} Each command has a sandbox of its own: files outside of the workspace, processes and variables are gone when it ends. There is ${sayNetwork(scene)}.`,
      category: "workspace",
      parameters: asksToWrite ? parameters : readOnly(parameters),
      // Where nothing keeps code apart, any command can write.
      effect: ({ command, writes }) =>
        asksToWrite && (writes || enclosure.sandbox.level === "none") ? { ...CHANGE, what: command } : undefined,
    },
    async ({ command, timeout_seconds: seconds, writes }, { signal }) => {
      const isReading = asksToWrite && writes !== true;
      if (command.includes("\0")) return invalid("A command holds no NUL character.");
      if (Buffer.byteLength(command) > LONGEST)
        return invalid("A command is at most 100,000 bytes: write a file first.");
      const outcome = await enclosure.run(["sh", "-c", PROGRAM, "sh", command], {
        ...(seconds === undefined ? {} : { seconds: Math.max(seconds, SHORTEST) }),
        ...(isReading ? { access: "read" } : {}),
        signal,
      });
      const result = commandText("bash", outcome, scene);
      if (!isReading || !isKeptFromWriting(outcome.stderr, enclosure, { access: "read" })) return result;
      return { ...result, content: `${NEEDS_WRITES}\n${result.content}` };
    },
  );
}

const SHORTEST = 0.1;
/** In bytes. A system takes a little more for one argument. */
const LONGEST = 100_000;

/** Where nobody is asked there is nothing to say of it. */
function readOnly<P extends { writes: unknown }>({ writes: _, ...rest }: P): P {
  return rest as P;
}

function invalid(content: string): ToolResult {
  return { content, isError: true, code: "input-invalid" };
}

function sayPlace({ enclosure: { folder, access, places } }: ToolScene): string {
  const workspace = access === "read" ? "the workspace, which can be read but not changed" : "the workspace";
  const skill = places.skill === undefined ? "" : ` The skill's files are in ${places.skill} (SKILL_DIR).`;
  if (access === "none") return `It starts in ${folder}; there is no workspace.${skill}`;
  return `It starts in ${folder}, ${workspace}.${skill}`;
}

function sayNetwork({ enclosure: { network } }: ToolScene): string {
  if (network.length === 0) return "no network";
  return `a network only to ${network.map(({ host, port }) => `${host}:${port}`).join(", ")}, through the proxy that HTTPS_PROXY names`;
}
