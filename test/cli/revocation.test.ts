import { chmodSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { skillet } from "../support/command.ts";
import { DESK } from "../support/desk.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { type ModelRequest, type Reply, startModelServer, type Turn } from "../support/model-server.ts";
import { openTerminal } from "../support/terminal.ts";
import { waitUntilUnchanged } from "../support/unchanged.ts";
import { modelConfig } from "../support/use.ts";

const SOON = { timeout: 45_000, interval: 20 };
const own = (name: string, options: Parameters<typeof skillText>[1] = {}) => ({
  [`.skillet/skills/${name}/SKILL.md`]: skillText(name, options),
});

/** A chat at a terminal, and a runner for other commands of the same user. */
async function chatWith(turn: Turn, files: Record<string, string>, config = "") {
  const model = await startModelServer("openai", turn);
  const home = temporaryFolder({
    ".skillet/config.toml": `${modelConfig("openai", model)}\n${config}`,
    "project/README.md": "",
    ...files,
  });
  const file = join(home, ".skillet/config.toml");
  chmodSync(file, 0o600);
  chmodSync(home, 0o755);
  const cwd = join(home, "project");
  const chat = openTerminal(["chat"], { home, cwd });
  await chat.sees("> ");
  return {
    ...chat,
    home,
    file,
    config: () => readFileSync(file, "utf8"),
    /** Replaces the configuration file. */
    configure(text: string) {
      writeFileSync(`${file}.new`, text, { mode: 0o600 });
      renameSync(`${file}.new`, file);
    },
    async command(...args: string[]) {
      const { code, stdout, stderr } = await skillet(args, { cwd, env: { HOME: home } });
      expect(code, stderr).toBe(0);
      return stdout;
    },
    /** Sends a message, and waits for the answer. */
    async say(text: string, answer: string) {
      chat.type(`${text}\r`);
      await chat.sees(answer);
      await chat.sees("> ");
    },
  };
}

/** Calls a tool once, and returns the outcome. */
const calling =
  (tool: string, input: object) =>
  ({ results, said }: ModelRequest): Reply => {
    const isAnswered = results.length >= said.filter((text) => text.startsWith("Go ")).length;
    return isAnswered ? `It came to: ${results.at(-1)?.content}` : [{ tool, input }];
  };

describe("an active chat", { timeout: 120_000 }, () => {
  it("[S-10] refuses a skill that is disabled, and has it again when it is enabled", async () => {
    const asked: ModelRequest[] = [];
    const load = calling("load_skill", { skill: "tidy", again: true });
    const { say, command, screen, type, ended } = await chatWith(
      (request) => {
        asked.push(request);
        return load(request);
      },
      own("tidy", { body: "Tidy up." }),
    );
    await say("Go one", "Tidy up.");
    expect(asked[0]?.instructions).toContain("tidy");
    // A busy machine may take longer than a command waits, and then it reports that.
    await vi.waitFor(async () => {
      await command("enable", "tidy");
      expect(await command("disable", "tidy")).toContain("in effect in 1 running chat; a run under way is denied");
    }, SOON);
    const before = asked.length;
    await say("Go two", "Skill 'tidy' is disabled");
    expect(asked[before]?.instructions).not.toContain("tidy");
    await say("/tidy now", "Skill 'tidy' is disabled");
    await say("/skills", "summarize");
    expect(screen().split("/skills")[1]).not.toContain("tidy");
    await command("enable", "tidy");
    await say("Go three", "Tidy up.");
    type("\u0004");
    expect(await ended).toBe(0);
  });

  it("[Q-19, S-23] asks a provider only for capabilities that are granted at the time", async () => {
    const use = calling("use_skill", { skill: "helper", message: "List them." });
    const list = ({ results, tools }: ModelRequest): Reply => {
      const tool = Object.keys(tools).find((name) => name.includes("tickets")) ?? "";
      return results.length > 0 ? `There is ${results[0]?.content}` : [{ tool, input: {} }];
    };
    const more = "capabilities: [desk.tickets]\nallowed_tools: [desk.tickets.list]\n";
    const { say, command, config, configure, home } = await chatWith(
      (request) => (request.prompt.includes("List them.") ? list(request) : use(request)),
      { ...own("helper", { more }), "desk.cjs": DESK },
    );
    await say("Go one", "which has no configured provider");
    const provider = JSON.stringify([process.execPath, join(home, "desk.cjs")]);
    configure(`${config()}\n[capabilities.providers.desk]\ncommand = ${provider}\n`);
    await command("capability", "grant", "helper", "desk.tickets", "--yes");
    await say("Go two", "ticket 7");
    expect(await command("capability", "ungrant", "helper", "desk.tickets")).toContain(
      "a run under way is denied it at its next call",
    );
    await say("Go three", "was not granted");
    expect(readFileSync(join(home, "asked"), "utf8")).toBe("asked\n");
  });

  it("uses the current model and workspace configuration, and keeps the last valid one while a file is broken", async () => {
    const other = await startModelServer("openai", () => "said by the other");
    const chat = await chatWith(() => "said by the first", own("tidy"));
    const { say, command, config, configure, screen } = chat;
    await say("one", "said by the first");
    await command("config", "set", "models.default.base_url", other.url);
    await say("two", "said by the other");
    await command("disable", "tidy", "--project");
    await say("/tidy now", "Skill 'tidy' is disabled");
    await command("enable", "tidy", "--project");
    const valid = config();
    configure(`${valid}\n[skills.tidy\n`);
    await waitUntilUnchanged(200, chat.file);
    await say("three", "said by the other");
    await say("four", "said by the other");
    expect(
      screen()
        .replace(/\s+/g, " ")
        .match(/config\.toml:\d+:\d+ is not valid TOML/g),
      "said once",
    ).toHaveLength(1);
    configure(valid);
    await waitUntilUnchanged(200, chat.file);
    await say("five", "is valid again");
  });
});
