import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../support/folder.ts";

const ANALYZE = "/usr/bin/systemd-analyze";

describe.skipIf(!existsSync(ANALYZE))("the service of docs/workers.md", () => {
  it("is valid for systemd", () => {
    const page = readFileSync(join(import.meta.dirname, "../../../docs/workers.md"), "utf8");
    const [, unit = ""] = /^```ini\n(.*?)^```$/ms.exec(page) ?? [];
    expect(unit).toContain("ExecStart=");
    const folder = temporaryFolder({ "skillet-worker@.service": unit.replace("User=skillet\n", "") });
    const file = join(folder, "skillet-worker@1.service");
    const link = join(folder, "skillet-worker@.service");
    const output = execFileSync(
      "/bin/sh",
      ["-c", `cp "${link}" "${file}"; ${ANALYZE} verify --man=no "${file}" 2>&1; echo "code $?"`],
      {
        encoding: "utf8",
      },
    );
    expect(output.split("\n").filter((line) => line.includes("skillet-worker"))).toEqual([]);
    expect(output).toContain("code 0");
  });
});
