import { describe, expect, it } from "vitest";
import {
  applyHostToolFix,
  HOST_TOOLS,
  type HostToolState,
  listHostTools,
  planHostToolFix,
} from "../../../src/sandbox/host-tools.ts";

const missing = (...programs: string[]): HostToolState[] =>
  HOST_TOOLS.map((tool) => ({ tool, path: programs.includes(tool.program) ? undefined : `/usr/bin/${tool.program}` }));

describe("the system tools", () => {
  it.each(["dnf", "pacman", "apk", undefined] as const)("do not require apt-get if %s installs", (manager) => {
    const programs = listHostTools({ isRoot: false, manager }).map(({ tool }) => tool.program);
    expect(programs).toEqual(["bwrap", "prlimit", "newuidmap"]);
    expect(planHostToolFix(missing("apt-get"), { manager, isRoot: true, hasSudo: true })).toEqual({
      commands: [],
      left: [],
    });
  });

  it("need no plan when nothing is missing", () => {
    const machine = { manager: "apt-get", isRoot: true, hasSudo: false } as const;
    expect(planHostToolFix(missing(), machine)).toEqual({ commands: [], left: [] });
  });

  it("have a plan for each package manager, with sudo if it is needed", () => {
    const wanted = missing("bwrap", "newuidmap");
    expect(planHostToolFix(wanted, { manager: "apt-get", isRoot: true, hasSudo: true }).commands).toEqual([
      ["apt-get", "update"],
      ["apt-get", "install", "-y", "--no-install-recommends", "--", "bubblewrap", "uidmap"],
    ]);
    expect(planHostToolFix(wanted, { manager: "dnf", isRoot: false, hasSudo: true }).commands).toEqual([
      ["sudo", "dnf", "install", "-y", "bubblewrap", "shadow-utils"],
    ]);
    expect(planHostToolFix(wanted, { manager: "pacman", isRoot: true, hasSudo: true }).commands).toEqual([
      ["pacman", "-S", "--needed", "--noconfirm", "bubblewrap", "shadow"],
    ]);
    expect(planHostToolFix(wanted, { manager: "apk", isRoot: true, hasSudo: true }).commands).toEqual([
      ["apk", "add", "bubblewrap", "shadow-subids"],
    ]);
  });

  it("include a range of ids for a user without one", () => {
    const machine = { manager: "apt-get", isRoot: false, hasSudo: true, userWithoutRange: "ann" } as const;
    expect(planHostToolFix(missing(), machine).commands).toEqual([
      ["sudo", "usermod", "--add-subuids", "524288-589823", "--add-subgids", "524288-589823", "--", "ann"],
    ]);
    expect(planHostToolFix(missing(), { ...machine, userWithoutRange: 12345 }).commands, "usermod takes names").toEqual(
      [],
    );
  });

  it("include those that no command can install", () => {
    expect(planHostToolFix(missing("bwrap"), { manager: "apt-get", isRoot: false, hasSudo: false })).toEqual({
      commands: [],
      left: ["bwrap"],
    });
    expect(planHostToolFix(missing("bwrap"), { manager: undefined, isRoot: true, hasSudo: false }).left).toEqual([
      "bwrap",
    ]);
  });

  it("are installed by commands in order, with their output, up to the first failure", async () => {
    const lines: string[] = [];
    const commands = [["echo", "one"], ["false"], ["echo", "two"]];
    expect(await applyHostToolFix(commands, (line) => lines.push(line))).toEqual(["false"]);
    expect(lines).toEqual(["one"]);
    expect(await applyHostToolFix([["printf", "a\\nb"]], (line) => lines.push(line))).toBeUndefined();
    expect(lines).toEqual(["one", "a", "b"]);
    expect(await applyHostToolFix([["no-such-program"]], () => {})).toEqual(["no-such-program"]);
  });
});
