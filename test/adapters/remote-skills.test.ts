import { SkillsClient } from "@modelcontextprotocol/client/ext/skills";
import { afterEach, describe, expect, it } from "vitest";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { closeMcpServers } from "../../src/util/system.ts";
import { discoverIn } from "../support/discover.ts";
import { connectTo, ERAS, servingOf } from "../support/mcp-client.ts";
import { listedText, startSkillsServer } from "../support/skills-over-mcp.ts";

afterEach(closeMcpServers);

const PDF = {
  "SKILL.md": listedText("pdf", "Fill in the form."),
  "references/forms.md": "Forms have fields.\n",
};

describe.each(ERAS)("skills of an MCP server, served again to a client of %s", (era) => {
  it("[A-10] are listed once they are trusted, are fetched when the client reads them, and verify there too", async () => {
    const upstream = await startSkillsServer({ pdf: PDF, other: { "SKILL.md": listedText("other", "Do it.") } });
    const scene = await discoverIn({
      "home/.skillet/config.toml": `[tools.mcp.docs]\nurl = ${JSON.stringify(upstream.url)}\nskills = true\n`,
    });
    const skill = scene.skill("pdf");
    await skill.fetch?.("all");
    scene.trust.grant([{ skill, copy: await copySkill(skill) }]);
    const reads = () => upstream.requests.filter((request) => request.startsWith("resources/read")).length;
    const before = reads();

    const { client, call } = await connectTo(servingOf(scene), { era });
    const skills = new SkillsClient(client);
    const { skills: listed } = await skills.list();
    const entry = listed.find(({ frontmatter }) => frontmatter.name === "pdf");
    expect(listed.map(({ frontmatter }) => frontmatter.name)).not.toContain("other");
    expect(await skills.read(entry as never)).toMatchObject({ verified: true, text: PDF["SKILL.md"] });
    const forms = await skills.read(entry as never, "references/forms.md");
    expect(forms).toMatchObject({ verified: true, text: PDF["references/forms.md"] });
    const loaded = await call("load_skill", { skill: "pdf" });
    expect(loaded.text).toContain('origin="remote, MCP server docs"');
    expect(await call("load_skill", { skill: "other" })).toMatchObject({ isError: true });
    expect(reads()).toBe(before);
  });
});
