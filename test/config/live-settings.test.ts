import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { followSettings, type LiveSettings } from "../../src/config/live-settings.ts";
import { getSettingsRevision } from "../../src/config/settings.ts";
import { temporaryFolder, writeFiles } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";

const SOON = { timeout: 45_000, interval: 10 };
const OFF = "[skills.x]\nenabled = false\n";
const [USER, WORKSPACE] = ["home/config.toml", "work/.skillet/config.toml"];

/** Settings that follow the configuration files of a home and a workspace. */
async function following(files: Record<string, string> = {}) {
  const root = temporaryFolder({ "home/readme": "", "work/readme": "", ...files });
  const around = { workspace: join(root, "work"), home: root, skilletHome: join(root, "home"), env: {} };
  const live = await followSettings(around);
  const file = (path: string) => join(root, path);
  return {
    ...live,
    file,
    isEnabled: (name = "x") => live.settings.skills.get(name)?.enabled,
    /** Written in place. */
    write: (path: string, text: string) => writeFiles(root, { [path]: text }),
    /** Replaced as a whole, as editors and skillet itself do. */
    replace(path: string, text: string) {
      writeFiles(root, { [`${path}.new`]: text });
      renameSync(file(`${path}.new`), file(path));
    },
  };
}

/** Resolves when the current files have been read. */
async function settled({ current }: Pick<LiveSettings, "current">, ...paths: string[]): Promise<void> {
  for (const path of paths) {
    const { ctimeMs } = statSync(path);
    await vi.waitFor(() => {
      const known = current().files.find((file) => file.path === path);
      expect(known?.fingerprint).toContain(String(ctimeMs));
    }, SOON);
  }
}

describe("settings that follow their files", () => {
  it("contain what the user and the workspace write, change and remove, in the same object", async () => {
    const { isEnabled, replace, write, settings, file } = await following();
    const { limits } = settings;
    expect(isEnabled()).toBeUndefined();
    replace(USER, OFF);
    await vi.waitFor(() => expect(isEnabled()).toBe(false), SOON);
    write(USER, "[limits]\ntool_output = 5000\n");
    await vi.waitFor(() => expect(settings.limits.toolOutput).toBe(5000), SOON);
    expect(isEnabled()).toBeUndefined();
    expect(limits.toolOutput, "its former copies stay").not.toBe(5000);
    write(WORKSPACE, OFF);
    await vi.waitFor(() => expect(isEnabled()).toBe(false), SOON);
    expect(settings.skills.get("x")?.enabledBy).toBe("workspace");
    rmSync(file(WORKSPACE));
    await vi.waitFor(() => expect(isEnabled()).toBeUndefined(), SOON);
    rmSync(file(USER));
    await vi.waitFor(() => expect(settings.limits).toEqual(limits), SOON);
  });

  it("can be copied, and are the same while nothing in them changes", async () => {
    const live = await following({ [USER]: OFF });
    const { settings, replace, current } = live;
    await settled(live, live.file(USER));
    const [first, copy, { sandbox, skills }] = [getSettingsRevision(settings), { ...settings }, settings];
    expect(Object.keys(copy)).toEqual(Object.keys(first));
    expect(copy).toEqual(first);
    replace(USER, `# Another text.\n${OFF}`);
    await settled(live, live.file(USER));
    expect(getSettingsRevision(settings), "another text with the same meaning").toBe(first);
    replace(USER, "[skills.x]\nenabled = true\n");
    await vi.waitFor(() => expect(getSettingsRevision(settings)).not.toBe(first), SOON);
    expect(settings.skills).not.toBe(skills);
    expect(settings.sandbox, "the unchanged part is the same object").toBe(sandbox);
    expect(copy.skills.get("x")?.enabled, "a copy is unchanged").toBe(false);
    expect(current()).toBe(current());
  });

  it("never contain half of a file: one that is being written counts when it is complete", async () => {
    const long = `${"# A comment.\n".repeat(2000)}${OFF}`;
    const live = await following({ [USER]: long });
    const { isEnabled, file } = live;
    await settled(live, file(USER));
    const halves: [string, () => void][] = [
      ["emptied", () => truncateSync(file(USER))],
      ["cut", () => truncateSync(file(USER), 4000)],
      ["gone", () => rmSync(file(USER))],
    ];
    for (const [what, halve] of halves) {
      for (let tries = 0; ; tries++) {
        halve();
        const end = Date.now() + 60;
        const seen = new Set<unknown>();
        while (Date.now() < end) seen.add(isEnabled());
        writeFileSync(file(USER), long);
        // A busy machine may have left it incomplete for too long: that proves nothing.
        const isTooLate = Date.now() > end + 30;
        await settled(live, file(USER));
        if (isTooLate && tries < 50) continue;
        expect([...seen], what).toEqual([false]);
        break;
      }
    }
  });

  it("keep the last valid values while a file is unreadable, name the error's line, and recover", async () => {
    const live = await following({
      [USER]: `${OFF}[limits]\ntool_output = 5000\n`,
      [WORKSPACE]: "[skills.y]\nenabled = false\n",
    });
    const { isEnabled, settings, replace, current, file } = live;
    const before = getSettingsRevision(settings);
    replace(USER, "[limits]\ntool_output = 9000\n[skills.x\nenabled = true\n");
    await vi.waitFor(() => expect(current().isBroken).toBe(true), SOON);
    expect(current().diagnostics).toMatchObject([
      {
        severity: "error",
        code: "config-syntax",
        file: file(USER),
        line: 3,
        message: expect.stringContaining("stays in effect"),
      },
    ]);
    expect(getSettingsRevision(settings)).toBe(before);
    expect([isEnabled("x"), isEnabled("y")]).toEqual([false, false]);
    replace(WORKSPACE, "[skills.z]\nenabled = false\n");
    await vi.waitFor(() => expect(isEnabled("z"), "the other file still counts").toBe(false), SOON);
    expect([isEnabled("x"), isEnabled("y")]).toEqual([false, undefined]);
    rmSync(file(USER));
    mkdirSync(file(USER));
    await vi.waitFor(() => expect(current().diagnostics[0]?.message).toContain("not a regular file"), SOON);
    expect(isEnabled()).toBe(false);
    rmSync(file(USER), { recursive: true });
    replace(USER, "[skills.x]\nenabled = true\n");
    await vi.waitFor(() => expect(current().isBroken).toBe(false), SOON);
    expect(current().diagnostics).toEqual([]);
    expect(isEnabled()).toBe(true);
  });

  it("keep the value of a key that was set to an invalid one, and apply the rest of the file", async () => {
    const live = await following({ [USER]: `${OFF}capabilities = ["notes.notes"]\n` });
    const { isEnabled, settings, replace, current, file } = live;
    replace(USER, '[skills.x]\nenabled = "false"\ncapabilities = []\n[skills.y]\nenabled = "no"\n');
    await vi.waitFor(() => expect(settings.skills.get("x")?.capabilities).toEqual([]), SOON);
    expect(isEnabled("x"), "it was disabled").toBe(false);
    expect(isEnabled("y"), "it was not reported before").toBeUndefined();
    expect(current().diagnostics).toMatchObject([
      {
        code: "config-type",
        file: file(USER),
        line: 2,
        message: expect.stringContaining("the previous value stays in effect"),
      },
      { code: "config-type", line: 5, message: expect.not.stringContaining("stays in effect") },
    ]);
    replace(USER, "[skills.x]\n");
    await vi.waitFor(() => expect(isEnabled("x"), "a removed key is gone").toBeUndefined(), SOON);
    expect(current().diagnostics).toEqual([]);
  });

  it("read a file only when it changed, however often they are requested", async () => {
    const large = `${"# A comment.\n".repeat(20_000)}${OFF}`;
    const root = temporaryFolder({ "home/config.toml": large, "asks.mjs": ASKS });
    chmodSync(root, 0o755);
    const printed = execFileSync(process.execPath, [join(root, "asks.mjs"), moduleOf("config/live-settings"), root]);
    const { asked, unchanged, changed } = JSON.parse(printed.toString());
    expect(asked).toBeGreaterThan(1000);
    expect(unchanged, "bytes read while nothing changes").toBeLessThan(large.length / 10);
    expect(changed, "bytes read after one change").toBeGreaterThan(large.length);
    expect(changed, "once").toBeLessThan(large.length * 2);
  });
});

/** A process that follows a home, and counts the bytes that it reads, as the kernel does. */
const ASKS = `
import { appendFileSync, readFileSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
const [module, root] = process.argv.slice(2);
const { followSettings } = await import(module);
const around = { workspace: root + "/work", home: root, skilletHome: root + "/home", env: {} };
while (Date.now() - statSync(around.skilletHome + "/config.toml").ctimeMs < 200) await sleep(20);
const { settings } = await followSettings(around);
const bytes = () => Number(/rchar: (\\d+)/.exec(readFileSync("/proc/self/io", "utf8"))[1]);
let asked = 0;
const ask = async () => {
  for (let look = 0; look < 10; look++) {
    for (let time = 0; time < 1000; time++, asked++) settings.skills.get("x");
    await sleep(60); // Longer than what was looked at counts as of now. Longer still does no harm.
  }
};
await ask();
const start = bytes();
await ask();
const unchanged = bytes() - start;
appendFileSync(root + "/home/config.toml", "# One more.\\n");
await ask();
console.log(JSON.stringify({ asked, unchanged, changed: bytes() - start - unchanged }));
`;
