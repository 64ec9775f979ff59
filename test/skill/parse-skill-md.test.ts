import { describe, expect, it } from "vitest";
import { parseSkillMd } from "../../src/skill/document.ts";

describe("parseSkillMd", () => {
  it("[P-26] splits a file into frontmatter and body, with --- safe in values and in the body", () => {
    const text =
      "---\nname: a\ndescription: first --- second\nmetadata:\n  version: 1.0.0\n---\n\n# A\n\n---\n\nmore\n";
    expect(parseSkillMd(text)).toEqual({
      frontmatter: { name: "a", description: "first --- second", metadata: { version: "1.0.0" } },
      body: "# A\n\n---\n\nmore",
      findings: [],
    });
  });

  it.each([
    ["plain text", "# A page\n\nwith text\n", "frontmatter-missing"],
    ["Windows line ends and a byte order mark", "\ufeffone\r\ntwo\r\n", "frontmatter-missing"],
    ["a frontmatter that is never closed", "---\nname: a\n\ntext\n", "frontmatter-unclosed"],
    ["another language", "---js\n({})\n---\ntext\n", "frontmatter-language"],
    ["nothing", "", "frontmatter-missing"],
  ])("[P-26] returns an empty mapping and the whole text, unchanged, for %s", (_, text, code) => {
    const { frontmatter, body, findings } = parseSkillMd(text);
    expect(Object.keys(frontmatter)).toEqual([]);
    expect(body).toBe(text);
    expect(findings.map((finding) => finding.code)).toContain(code);
  });

  it("[P-26] reports unreadable content, and never throws", () => {
    const { frontmatter, body, findings } = parseSkillMd("---\n- a\n- list\n---\ntext\n");
    expect(Object.keys(frontmatter)).toEqual([]);
    expect(body).toBe("text");
    expect(findings).toMatchObject([{ code: "frontmatter-type" }]);
  });
});
