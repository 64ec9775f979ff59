/** The first line of the plugin: a file without it was not written by skillet. */
export const PLUGIN_MARK = "// Written by `skillet connect opencode`. To delete it: skillet connect opencode --remove";

/**
 * Formats the plugin, since OpenCode has no configuration for hooks. It adds the text as a part of the message:
 * `experimental.chat.system.transform` would add it to the request for a title too. Parts are ordered by id.
 */
export function formatOpencodePlugin(command: readonly string[], timeoutSeconds: number): string {
  return `${PLUGIN_MARK}
import { spawn } from "node:child_process";

const [PROGRAM, ...ARGUMENTS] = ${JSON.stringify(command)};
const TIMEOUT_MS = ${timeoutSeconds * 1000};

export const SkilletAdvice = async ({ directory }) => ({
  "chat.message": async (input, output) => {
    const texts = output.parts.filter((part) => part.type === "text" && !part.synthetic);
    const prompt = texts.map((part) => part.text).join("\\n");
    if (prompt.trim() === "") return;
    const { sessionID } = input;
    const text = await advise({ sessionID, cwd: directory, prompt });
    if (text === undefined) return;
    const id = \`\${output.parts.at(-1).id}_skillet\`;
    output.parts.push({ id, sessionID, messageID: output.message.id, type: "text", text, synthetic: true });
  },
});

/** Returns the advice for a prompt, or undefined. Never throws: a prompt does not fail over it. */
function advise(request) {
  return new Promise((resolve) => {
    const chunks = [];
    const child = spawn(PROGRAM, ARGUMENTS, { stdio: ["pipe", "pipe", "ignore"] });
    const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT_MS);
    child.on("error", () => resolve(undefined));
    child.stdin.on("error", () => {});
    child.stdout.on("data", (chunk) => chunks.push(chunk));
    child.on("close", () => {
      clearTimeout(timer);
      try {
        resolve(JSON.parse(Buffer.concat(chunks).toString("utf8")).additionalContext || undefined);
      } catch {
        resolve(undefined);
      }
    });
    child.stdin.end(JSON.stringify(request));
  });
}
`;
}
