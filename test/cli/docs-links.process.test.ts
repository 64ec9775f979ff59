import { chmodSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";

function homeWith(config: string, workspaceConfig = "") {
  const home = temporaryFolder({ ".skillet/config.toml": config, "work/.skillet/config.toml": workspaceConfig });
  chmodSync(`${home}/.skillet/config.toml`, 0o600);
  return { env: { HOME: home }, cwd: `${home}/work` };
}

const SITE = '[docs]\nurl = "https://docs.example.com/skillet/"\n';

describe("links to the documentation", () => {
  it("are printed below the code of an error, and in `docs` of its JSON", async () => {
    const { stderr } = await skillet(["show", "nothing"], homeWith(SITE));
    expect(stderr).toContain("[not-found]\n  https://docs.example.com/skillet/errors/not-found\n");
    const { stdout } = await skillet(["show", "nothing", "--json"], homeWith(SITE));
    expect(JSON.parse(stdout).error).toMatchObject({
      code: "not-found",
      docs: "https://docs.example.com/skillet/errors/not-found",
    });
  });

  it("are printed for findings, refusals and errors of options too", async () => {
    const place = homeWith(SITE);
    const { stdout } = await skillet(["run", "research", "x", "--dry-run", "--json"], place);
    expect(JSON.stringify(JSON.parse(stdout).checks)).toContain('/errors/missing-variable"');
    expect((await skillet(["run", "research", "x"], place)).stderr).toContain("/errors/missing-variable\n");
    expect((await skillet(["list", "--nope"], place)).stderr).toContain("/errors/usage\n");
  });

  it("are absent without `docs.url`, and a workspace cannot set it", async () => {
    const place = homeWith("# docs\n", SITE);
    const { stderr } = await skillet(["show", "nothing"], place);
    expect(stderr).toContain("[not-found]");
    expect(stderr).not.toContain("https:");
    const { stdout } = await skillet(["show", "nothing", "--json"], place);
    expect(JSON.parse(stdout).error).not.toHaveProperty("docs");
  });

  it("are absent for an address that is not a web address", async () => {
    const { stderr } = await skillet(["show", "nothing"], homeWith('[docs]\nurl = "javascript:alert(1)"\n'));
    expect(stderr).not.toContain("javascript:alert(1)/errors");
  });
});
