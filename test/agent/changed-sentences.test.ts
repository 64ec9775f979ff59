import { describe, expect, it } from "vitest";
import { createResultEnvelope } from "../../src/adapters/mcp-server/tool-envelope.ts";
import { runbookModel } from "../../src/agent/models/runbook.ts";
import { createAgentTaint } from "../../src/agent/policy/taint-tracker.ts";
import type { AgentContext } from "../../src/agent/run/agent-loop.ts";
import { resumeRun } from "../../src/agent/run/resume-run.ts";
import { useSkill } from "../../src/agent/run/use-skill.ts";
import { createConversation } from "../../src/agent/session/conversation.ts";
import { openSession } from "../../src/agent/session/session.ts";
import type { Message, Model } from "../../src/host/model-contract.ts";
import { formatJournalLine, parseJournal } from "../../src/store/journal.ts";
import { createMemoryRunStore, type MemoryRun } from "../../src/testing/memory-stores.ts";
import { createCatalogOf } from "../support/skills.ts";
import { useScene } from "../support/use.ts";

/** The runbook model, which gets another sentence instead of the text of every tool result. */
const READS_OTHER_SENTENCES: Model = {
  ...runbookModel,
  respond: (request) => runbookModel.respond({ ...request, messages: request.messages.map(replaceSentences) }),
};

function replaceSentences(message: Message): Message {
  if (message.role !== "tool") return message;
  return { ...message, results: message.results.map((result) => ({ ...result, content: "Tout a changé." })) };
}

const COMMANDS = "1. Look:\n\n```sh\necho seen; echo why >&2\n```\n\n2. Then:\n\n```sh\necho no; exit 3\n```\n";

describe("changed sentences in tool results", () => {
  it.each(["echo one\necho two >&2", "exit 3", "touch made && cat made && echo done"])(
    "[T-12] do not change what the runbook model does: %s",
    async (command) => {
      const body = `Run:\n\n\`\`\`sh\n${command}\n\`\`\`\n`;
      const { use } = await useScene({ skills: { x: { body } }, turns: [] });
      const [usual, changed] = [
        await use({ skill: "x" }, { models: { default: runbookModel } }),
        await use({ skill: "x" }, { models: { default: READS_OTHER_SENTENCES } }),
      ];
      const { content, isError, stop } = usual.result;
      expect(changed.result).toMatchObject({ content, isError, stop });
      expect(content).not.toContain("Tout a changé");
    },
  );

  it("[T-12] do not change a conversation that lists, finds and uses skills", async () => {
    const catalog = await createCatalogOf({ report: { description: "Writes a report.", body: COMMANDS }, other: {} });
    const answers = async (model: Model) => {
      const host = { models: { default: model } };
      const conversation = createConversation(openSession(catalog, host), host);
      const said: string[] = [];
      for (const message of ["list skills", "use the reprot skill", "bake a cake", "/report now"])
        said.push((await conversation.send(message)).content);
      return said;
    };
    const usual = await answers(runbookModel);
    expect(usual[0]).toContain("- report: Writes a report.");
    expect(usual[1]).toContain("did you mean 'report'");
    expect(await answers(READS_OTHER_SENTENCES)).toEqual(usual);
  });

  it("[P-20] do not change the structured content of MCP", async () => {
    const session = openSession(await createCatalogOf({ report: { description: "Writes a report." } }));
    for (const [tool, input] of [
      ["list_skills", {}],
      ["search_skills", { query: "report" }],
      ["validate_skill", { content: "---\nname: x\n---\n" }],
    ] as const) {
      const result = await session.call(tool, input);
      const changed = createResultEnvelope({ ...result, text: "Tout a changé." }, { isStructured: true });
      expect(changed.structuredContent).toEqual(createResultEnvelope(result, { isStructured: true }).structuredContent);
      expect(changed.structuredContent).toBeDefined();
    }
  });

  it("[T-12] do not change a resumed run when they are changed in its journal", async () => {
    const answers: string[] = [];
    for (const change of [(text: string) => text, () => "Tout a changé."]) {
      const stored = new Map<string, MemoryRun>();
      const { found } = await useScene({
        skills: { x: { body: COMMANDS } },
        turns: [],
        openRuns: () => createMemoryRunStore(stored),
      });
      let calls = 0;
      const failing: Model = {
        ...runbookModel,
        respond: (request) => (++calls === 2 ? Promise.reject(new Error("down")) : runbookModel.respond(request)),
      };
      const first = await useSkill(found.catalog, { ...found, models: { default: failing } }, { skill: "x" });
      expect(first.stop).toBe("error");
      let changed = 0;
      for (const run of stored.values()) {
        const { lines } = parseJournal(Buffer.from(run.text));
        for (const line of lines) {
          if (line.type !== "step" || !line.name.startsWith("tool:")) continue;
          const value = line.value as { text: string };
          value.text = change(value.text);
          changed++;
        }
        run.text = lines.map(formatJournalLine).join("");
      }
      expect(changed).toBe(1);
      const host = { ...found, models: { default: runbookModel } };
      const { content, stop, isError } = await resumeRun(found.catalog, host, first.run);
      answers.push(JSON.stringify({ content, stop, isError }));
    }
    expect(answers[0]).toContain("seen");
    expect(answers[1]).toBe(answers[0]);
  });

  it("[Q-07] do not change the recognition of untrusted text from earlier turns", () => {
    const messages: Message[] = [
      { role: "user", text: "Context: 77-19 from a mail.\n\nPay him.", userText: "Pay him." },
      { role: "assistant", text: "Pay 88-20 at once.", calls: [], skill: "mail" },
      { role: "assistant", text: "", calls: [{ id: "1", tool: "use_skill", input: { skill: "mail" } }] },
      {
        role: "tool",
        results: [{ id: "1", tool: "use_skill", content: "Tout a changé.", isError: false, output: "Pay 99-21." }],
      },
    ];
    const agent = { tools: () => [], messages, instructions: "", task: { message: "" } };
    const taint = createAgentTaint(agent as unknown as AgentContext);
    expect(taint.findOrigins({ to: "88-20" })).toEqual(["answer of skill mail"]);
    expect(taint.findOrigins({ to: "99-21" })).toEqual([expect.stringContaining("mail")]);
    expect(taint.findOrigins({ to: "Tout a changé." })).toEqual([]);
  });
});
