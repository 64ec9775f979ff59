import { chmodSync, cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";
import { openTerminal } from "../support/terminal.ts";

const NOTES = join(import.meta.dirname, "../../examples/notes");

/** The folder of the tour: the example as a workspace, and a home whose configuration names its provider. */
function tour() {
  const root = temporaryFolder({
    "home/.skillet/config.toml": `[capabilities.providers.notes]\ncommand = [${JSON.stringify(process.execPath)}, ${JSON.stringify(join(NOTES, "provider.ts"))}]\n`,
  });
  cpSync(join(NOTES, "skills"), join(root, "project/skills"), { recursive: true });
  chmodSync(root, 0o755);
  const home = join(root, "home");
  const cwd = join(root, "project");
  const run = (...args: string[]) => skillet(args, { env: { HOME: home, PATH: process.env["PATH"] ?? "" }, cwd });
  return { home, cwd, run, log: join(home, ".skillet/audit.jsonl") };
}

describe("the tour of the notes", () => {
  it("[Q-21] lists, asks with the exact input, adds once, rejects the approval a second time, and is audited", async () => {
    const { home, cwd, run, log } = tour();
    await run("trust", "note-taker", "--yes");
    const refused = await run("run", "note-taker", "buy milk");
    expect(refused.code).toBe(3);
    expect(refused.stderr).toContain("skillet capability grant note-taker notes.notes");
    expect((await run("capability", "grant", "note-taker", "notes.notes", "--yes")).code).toBe(0);

    const there = openTerminal(["run", "note-taker", '"buy milk"'], { home, cwd });
    await there.sees("notes.notes.add wants to change something outside the workspace");
    await there.sees("│ title: buy milk");
    await there.sees("[y] yes, this once  [n] no");
    there.type("y\n");
    expect(await there.ended).toBe(0);
    expect(there.written()).toMatch(/approval: apr_\w+: used up, it covers no other call/);
    expect(there.written()).toContain('"title": "buy milk"');
    const [approval = ""] = /apr_\w+/.exec(there.written()) ?? [];

    const again = join(cwd, "skills/again");
    const ask = `skillet-sb capability invoke -c notes.notes -o add --input '{"title": "buy milk", "text": ""}' --approval ${approval}`;
    cpSync(join(cwd, "skills/note-taker"), again, { recursive: true });
    const text =
      "---\nname: again\ndescription: Uses a word again.\ncapabilities: [notes.notes]\nallowed_tools: [bash]\n---\n";
    writeFileSync(join(again, "SKILL.md"), `${text}\n\`\`\`sh\n${ask}\n\`\`\`\n`);
    await run("trust", "again", "--yes");
    await run("capability", "grant", "again", "notes.notes", "--yes");
    const second = await run("run", "again");
    expect(second.stdout + second.stderr).toContain("code: approval-unknown");

    expect(await run("audit", "verify")).toMatchObject({ code: 0, stdout: expect.stringContaining("intact") });
    const lines = readFileSync(log, "utf8").trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line).outcome)).toEqual(
      expect.arrayContaining(["begun", "ok", "approval-unknown"]),
    );
    expect(lines.join("\n")).not.toContain("buy milk");
    writeFileSync(
      log,
      `${lines.map((line, index) => (index === 2 ? line.replace("note-taker", "note-maker") : line)).join("\n")}\n`,
    );
    const found = await run("audit", "verify");
    expect(found.code).toBe(1);
    expect(found.stdout + found.stderr).toMatch(/line 3/);
  });

  it("[S-22] prints the setup steps for `skillet run gog` without any setup", async () => {
    const { run, home } = tour();
    const off = await run("run", "gog", "what is new");
    expect(off.code).toBe(3);
    expect(off.stderr).toContain("skillet enable gog\n");
    writeFileSync(join(home, ".skillet/config.toml"), "[skills.gog]\nenabled = true\n");
    const missing = await run("run", "gog", "what is new");
    expect(missing.code).toBe(3);
    expect(missing.stderr).toMatch(
      /\n {2}1\. .*gogcli.*\n {2}2\. .*config set capabilities\.providers\.gog\.command.*\n {2}3\. .*skillet auth login gog\n/,
    );
  });
});
