import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "./support/folder.ts";

const page = readFileSync(join(import.meta.dirname, "../docs/operating.md"), "utf8");

describe("the page for operators", () => {
  it("has a unit that systemd accepts", ({ skip }) => {
    if (!existsSync("/usr/bin/systemd-analyze")) return skip("this machine has no systemd-analyze");
    const [, unit = ""] = /```ini\n([\s\S]*?)```/.exec(page) ?? [];
    expect(unit).toContain("ExecStart=/usr/local/bin/skillet serve --http");
    // The program and the user are those of the operator's machine.
    const here = unit
      .replace("/usr/local/bin/skillet", process.execPath)
      .replace("User=skillet", "User=root")
      .replace("/srv/skillet", "/");
    const file = join(temporaryFolder(), "skillet.service");
    writeFileSync(file, here);
    const verify = () =>
      execFileSync("/usr/bin/systemd-analyze", ["verify", "--man=no", file], { encoding: "utf8", stdio: "pipe" });
    expect(verify()).toBe("");
    writeFileSync(file, here.replace("[Service]", "[Service]\nExecStart=relative/path"));
    expect(verify).toThrow();
  });
});
