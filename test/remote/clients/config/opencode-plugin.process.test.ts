import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { formatOpencodePlugin, PLUGIN_MARK } from "../../../../src/remote/clients/prompt-hook-config.ts";
import { skillText, temporaryFolder } from "../../../support/folder.ts";
import { PROGRAM, RUN } from "../../../support/program.ts";

interface Part {
  id: string;
  sessionID: string;
  messageID: string;
  type: string;
  text: string;
  synthetic?: boolean;
}

/** Sends prompts through the plugin, as OpenCode does. */
async function plugin(command: readonly string[], timeoutSeconds = 60) {
  const folder = temporaryFolder({ "skillet.mjs": formatOpencodePlugin(command, timeoutSeconds) });
  const { SkilletAdvice } = await import(pathToFileURL(join(folder, "skillet.mjs")).href);
  const hooks = await SkilletAdvice({ directory: folder });
  expect(Object.keys(hooks), "not the hook that also runs for titles").toEqual(["chat.message"]);
  return async (text: string, sessionID = "ses_1"): Promise<Part[]> => {
    const parts: Part[] = [{ id: "prt_1", sessionID, messageID: "msg_1", type: "text", text }];
    await hooks["chat.message"]({ sessionID }, { message: { id: "msg_1" }, parts });
    return parts;
  };
}

describe("the plugin for OpenCode", () => {
  it("[A-07] adds the advice of `skillet hook opencode` as a part of the message, once per conversation", async () => {
    const home = temporaryFolder({
      "start.mjs": `import { run } from ${JSON.stringify(PROGRAM)};\n${RUN}\n`,
      ".skillet/skills/solana/SKILL.md": skillText("solana", {
        more: 'triggers:\n  keywords: ["solana"]\n',
        body: "Check signers.",
      }),
    });
    vi.stubEnv("HOME", home);
    const send = await plugin([process.execPath, join(home, "start.mjs"), "hook", "opencode"]);
    const parts = await send("audit my solana program");
    expect(parts).toEqual([
      expect.objectContaining({ id: "prt_1" }),
      {
        id: "prt_1_skillet",
        sessionID: "ses_1",
        messageID: "msg_1",
        type: "text",
        text: expect.stringContaining("Check signers."),
        synthetic: true,
      },
    ]);
    expect(await send("audit my solana program"), "it was already added").toHaveLength(1);
    vi.unstubAllEnvs();
  });

  it("[A-07] adds nothing when the program fails, prints something else, or takes too long", async () => {
    const node = (code: string) => [process.execPath, "-e", code];
    expect(await (await plugin(["/no/such/program"]))("hello")).toHaveLength(1);
    expect(await (await plugin(node("console.log('no JSON')")))("hello")).toHaveLength(1);
    expect(await (await plugin(node("process.exit(3)")))("hello")).toHaveLength(1);
    expect(await (await plugin(node("console.log('{}')")))("hello")).toHaveLength(1);
    expect(await (await plugin(node("setInterval(() => {}, 1000)"), 0.2))("hello")).toHaveLength(1);
    expect(await (await plugin(node("throw 1")))("   "), "no prompt, no process").toHaveLength(1);
  });

  it("starts with a line that names its owner", () => {
    expect(formatOpencodePlugin(["x"], 1).startsWith(PLUGIN_MARK)).toBe(true);
  });
});
