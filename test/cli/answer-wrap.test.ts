import { describe, expect, it } from "vitest";
import { createAnswerWrapper, wrapAnswer } from "../../src/cli/run-output.ts";

const WORDS = "one two three four five six seven eight nine ten";

describe("wrapping an answer", () => {
  it.each([
    ["prose", WORDS, "one two three four\nfive six seven eight\nnine ten"],
    ["a list item", `- ${WORDS}`, "- one two three four\n  five six seven\n  eight nine ten"],
    [
      "a nested item",
      `    1. ${WORDS}`,
      "    1. one two three\n       four five six\n       seven eight\n       nine ten",
    ],
    ["a quote", `> ${WORDS}`, "> one two three four\n> five six seven\n> eight nine ten"],
    ["a word that is wider", `see https://example.com/a/long/path now`, "see\nhttps://example.com/a/long/path\nnow"],
    ["wide characters", "éé éé éé éé éé éé", "éé éé éé éé\néé éé"],
    ["a backtick without a second one", `\`${WORDS}`, "`one two three four\nfive six seven eight\nnine ten"],
  ])("wraps %s between words", (_, text, wrapped) => {
    expect(wrapAnswer(text, 20)).toBe(wrapped);
    expect(wrapAnswer(`${text}\n\n${text}\n`, 20)).toBe(`${wrapped}\n\n${wrapped}\n`);
  });

  it.each([
    ["a code block", `\`\`\`sh\n${WORDS} \`x\n\n  ${WORDS}\n\`\`\``],
    ["indented code", `    ${WORDS}`],
    ["a table", `| ${WORDS} |`],
    ["aligned columns", `name   ${WORDS}`],
    ["tabs", `name\t${WORDS}`],
    ["JSON", `{"a": "${WORDS}"}`],
    ["a command", `$ ${WORDS}`],
  ])("leaves %s unchanged", (_, text) => {
    expect(wrapAnswer(text, 20)).toBe(text);
    expect(wrapAnswer(`${text}\n${WORDS}`, 20)).toBe(`${text}\n${wrapAnswer(WORDS, 20)}`);
  });

  it("never cuts a command or a regular expression in backticks", () => {
    expect(wrapAnswer("now run `git log -n 3 --oneline` or search /a/ with `^a (b|c) d$` here", 20)).toBe(
      "now run\n`git log -n 3 --oneline`\nor search /a/ with\n`^a (b|c) d$` here",
    );
    expect(wrapAnswer("`git log -n 3 --oneline` shows three commits", 20)).toBe(
      "`git log -n 3 --oneline`\nshows three commits",
    );
  });

  it("wraps a text that arrives in any pieces the same way", () => {
    const text = `# A\n\n${WORDS} \`a b c\` ${WORDS}\n- ${WORDS}\n\`\`\`\n${WORDS}\n\`\`\`\na  ${WORDS}\n${WORDS}`;
    for (const size of [1, 2, 3, 7]) {
      const wrapper = createAnswerWrapper(20);
      const parts = text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
      expect(parts.map(wrapper.write).join("") + wrapper.end(), `${size}`).toBe(wrapAnswer(text, 20));
    }
  });

  it("changes nothing if the output is not a terminal", () => {
    const text = `  ${WORDS} \`a \n\t${WORDS}  `;
    expect(wrapAnswer(text, Number.POSITIVE_INFINITY)).toBe(text);
  });
});
