import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { resumeRun } from "../../src/agent/run/resume-run.ts";
import type { Approval } from "../../src/host/approval.ts";
import { Tool } from "../../src/skill/tool.ts";
import { RUN_DRIVERS, scenesOver } from "../support/run-drivers.ts";
import { answerApprovals, eventsOf, type Parts, useScene } from "../support/use.ts";
import { withGrowingLimit } from "../support/wait-for.ts";

const INPUT = { type: "object", properties: { to: { type: "string" } }, required: ["to"] };

/** Mail that a run sends, and the list of sent mail. */
function mail() {
  const sent: string[] = [];
  const tool = Tool.define("send_mail", {
    description: "Sends a mail.",
    parameters: INPUT,
    effect: ({ to }) => ({
      on: "outside",
      what: `send a mail to ${to}`,
      where: "mail.example.com",
      isReversible: false,
    }),
    execute: ({ to }, { key }) => {
      sent.push(`${to} ${key}`);
      return "sent";
    },
  });
  return { tool, sent };
}

const write = (path: string) => ({ tool: "write_file", input: { path, content: "x" } });
const send = (to: string) => ({ tool: "send_mail", input: { to } });

async function scene(calls: readonly object[], parts: Partial<Parts> = {}) {
  const results: string[] = [];
  const made = await useScene({
    skills: { x: {} },
    turns: [
      () => calls as never,
      (request) => {
        results.push(...request.results.map(({ content }) => content));
        return "done";
      },
    ],
    ...parts,
  });
  return { ...made, results };
}

describe("approval of side effects", () => {
  it("is requested once per run for workspace files, and never for reading", async () => {
    const { use, found } = await scene([
      { tool: "read_file", input: { path: "README.md" } },
      { tool: "bash", input: { command: "ls" } },
      write("a.txt"),
      write("b.txt"),
      { tool: "bash", input: { command: "echo c > c.txt", writes: true } },
      { tool: "edit_file", input: { path: "a.txt", old: "x", new: "yy" } },
    ]);
    const { asked, approve } = answerApprovals({ isApproved: true });
    const { events } = await use({ skill: "x" }, { approve });
    expect(asked).toEqual([
      {
        run: expect.any(String),
        skill: "x",
        source: "~/.skillet/skills",
        location: join(found.root, "home/.skillet/skills/x"),
        digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        tool: "write_file",
        input: { path: "a.txt", content: "x" },
        on: "workspace",
        what: "write a.txt",
        where: found.workspace,
        amount: "1 character",
        reason: "it changes files of the workspace",
      },
    ]);
    expect(readFileSync(join(found.workspace, "a.txt"), "utf8")).toBe("yy");
    expect(existsSync(join(found.workspace, "c.txt"))).toBe(true);
    expect(eventsOf(events, "approval-requested")).toHaveLength(1);
    expect(eventsOf(events, "approval-decided")).toMatchObject([{ isApproved: true, tool: "write_file", step: 1 }]);
  });

  it("blocks the call when the user denies it, and the model reads the reason", async () => {
    const { use, found, results } = await scene([write("a.txt"), send("Ada")]);
    const { tool, sent } = mail();
    const { approve } = answerApprovals({ isApproved: false, reason: "not here" }, { isApproved: false });
    const { events } = await use({ skill: "x" }, { approve, tools: [tool] });
    expect(existsSync(join(found.workspace, "a.txt"))).toBe(false);
    expect(sent).toEqual([]);
    expect(results).toEqual([
      "Tool 'write_file' was not approved: it changes files of the workspace. Reason: not here",
      expect.stringContaining("Tool 'send_mail' was not approved"),
    ]);
    expect(eventsOf(events, "tool-blocked").map(({ code }) => code)).toEqual(["not-approved", "not-approved"]);
  });

  it("is requested for every external effect unless the user approves it for the run", async () => {
    const { tool, sent } = mail();
    const { use } = await scene([send("Ada"), send("Bob"), send("Cy"), send("Dee")]);
    const { asked, approve } = answerApprovals({ isApproved: true }, { isApproved: true, scope: "run" });
    await use({ skill: "x" }, { approve, tools: [tool] });
    expect(asked.map(({ what }) => what)).toEqual(["send a mail to Ada", "send a mail to Bob"]);
    expect(sent.map((line) => line.split(" ")[0])).toEqual(["Ada", "Bob", "Cy", "Dee"]);
  });

  it("is remembered for this skill from this location, and can be revoked", async () => {
    const { tool, sent } = mail();
    const parts = { skills: { x: {}, y: {} } };
    const first = await scene([send("Ada")], parts);
    const { asked, approve } = answerApprovals({ isApproved: true, scope: "always" });
    await first.use({ skill: "x" }, { approve, tools: [tool] });
    expect(asked).toHaveLength(1);
    const { approvals } = await first.found.again();
    const place = join(first.found.root, "home/.skillet/skills/x");
    const effect = {
      skill: "x",
      source: "~/.skillet/skills",
      location: place,
      tool: "send_mail",
      on: "outside" as const,
    };
    expect(await approvals.isAlwaysApproved(effect)).toBe(true);
    for (const other of [{ skill: "y" }, { location: "/elsewhere/x" }, { tool: "pay" }, { on: "workspace" as const }]) {
      expect(await approvals.isAlwaysApproved({ ...effect, ...other })).toBe(false);
    }
    expect(await approvals.list()).toEqual([
      { skill: "x", source: "~/.skillet/skills", location: place, allowed: ["tool:send_mail"] },
    ]);
    expect(await approvals.forget("x")).toBe(1);
    expect(await approvals.isAlwaysApproved(effect)).toBe(false);
    expect(sent).toHaveLength(1);
  });

  it("is not requested again once it is permanent, even if there is no user to ask", async () => {
    const { tool, sent } = mail();
    const { found, use } = await scene([send("Ada")]);
    const place = join(found.root, "home/.skillet/skills/x");
    await found.approvals.add({
      skill: "x",
      source: "~/.skillet/skills",
      location: place,
      tool: "send_mail",
      on: "outside",
    });
    expect((await use({ skill: "x" }, { tools: [tool] })).result.stop).toBe("answer");
    expect(sent).toHaveLength(1);
  });

  it("is not requested for workspace writes that a skill declares, unlike external effects", async () => {
    const { tool, sent } = mail();
    const { use, found } = await scene([write("a.txt"), send("Ada")], {
      skills: { x: { more: "allowed-tools: Write send_mail\n" } },
    });
    const { asked, approve } = answerApprovals({ isApproved: true });
    await use({ skill: "x" }, { approve, tools: [tool] });
    expect(asked.map(({ tool: name }) => name)).toEqual(["send_mail"]);
    expect(existsSync(join(found.workspace, "a.txt"))).toBe(true);
    expect(sent).toHaveLength(1);
  });

  it("[Q-22] shows no value of a secret", async () => {
    const { tool } = mail();
    const { use, found } = await scene([send("me@hunter2hunter2.example")], {
      skills: { x: { more: "env: [SOME_KEY]\n" } },
      config: '[skills.x]\nSOME_KEY = "hunter2hunter2"\n',
      turns: [() => [send("me@hunter2hunter2.example")] as never],
    });
    const { result } = await use({ skill: "x", message: "mail hunter2hunter2" }, { tools: [tool] });
    expect(result).toMatchObject({
      stop: "waiting",
      approvalRequest: { what: "send a mail to me@[SOME_KEY].example" },
    });
    const journal = readFileSync(join(found.home, "runs", `${result.run}.jsonl`), "utf8");
    expect(journal).toContain("mail [SOME_KEY]");
    expect(journal).not.toContain("hunter2");
  });

  it("is requested for a tool that cannot describe its effect", async () => {
    const sent: string[] = [];
    const tool = Tool.define("odd", {
      description: "x",
      parameters: INPUT,
      effect: () => {
        throw new Error("who knows");
      },
      execute: () => {
        sent.push("x");
        return "";
      },
    });
    const { use } = await scene([{ tool: "odd", input: { to: "Ada" } }]);
    const { asked, approve } = answerApprovals({ isApproved: false });
    await use({ skill: "x" }, { approve, tools: [tool] });
    expect(asked).toMatchObject([{ on: "outside", tool: "odd" }]);
    expect(sent).toEqual([]);
  });

  it("does not count the user's thinking time toward the time limit of a run", async () => {
    const run = async (seconds: number) => {
      const { use } = await scene([send("Ada")], {
        turns: ({ results }) => (results.length > 0 ? "done" : [send("Ada")]),
      });
      const approve = async (): Promise<Approval> => {
        await sleep(seconds * 1100); // Longer than the run's time limit.
        return { isApproved: true };
      };
      const { result } = await use({ skill: "x", seconds }, { approve, tools: [mail().tool], hasBuiltInTools: false });
      return result.stop;
    };
    expect(await withGrowingLimit(run, (stop) => stop === "answer", { from: 2, most: 8 })).toBe("answer");
  });

  it("is denied when the approval callback throws", async () => {
    const { tool, sent } = mail();
    const { use, results } = await scene([send("Ada")]);
    const approve = async () => {
      throw new Error("the dialog is gone");
    };
    expect((await use({ skill: "x" }, { approve, tools: [tool] })).result.stop).toBe("answer");
    expect(results[0]).toMatch(/was not approved: .*asking for approval failed: the dialog is gone/);
    expect(sent).toEqual([]);
  });
});

describe.each(RUN_DRIVERS)("a run that waits for approval, with runs in %s", (driver) => {
  const useScene = scenesOver(driver);

  it("ends as waiting, and resumes after the approval without repeating a step", async () => {
    const { tool, sent } = mail();
    const { found, use, server } = await useScene({
      skills: { x: {} },
      turns: [() => [send("Ada")] as never, () => [send("Bob")] as never, () => "All sent."],
    });
    const { result } = await use({ skill: "x", message: "Send them." }, { tools: [tool] });
    expect(result).toMatchObject({
      stop: "waiting",
      isError: true,
      iterations: 1,
      usage: { inputTokens: 10 },
      approvalRequest: { tool: "send_mail", what: "send a mail to Ada" },
    });
    expect(await found.runs.find(result.run)).toMatchObject({
      state: "waiting",
      approvalRequest: { what: "send a mail to Ada" },
    });
    await found.runs.answer(result.run, { isApproved: true });
    const second = await resumeRun(found.catalog, { ...found, tools: [tool] }, result.run);
    expect(second).toMatchObject({ stop: "waiting", approvalRequest: { what: "send a mail to Bob" }, iterations: 2 });
    await found.runs.answer(result.run, { isApproved: false, reason: "Bob has left" });
    const third = await resumeRun(found.catalog, { ...found, tools: [tool] }, result.run);
    expect(third).toMatchObject({ stop: "answer", content: "All sent.", iterations: 3, run: result.run });
    expect(server.requests).toHaveLength(3);
    expect(server.requests[2]?.results.at(-1)?.content).toContain("Reason: Bob has left");
    expect(sent).toEqual([`Ada ${result.run}:1.1`]);
    expect(await found.runs.find(result.run)).toMatchObject({ state: "ended", end: { stop: "answer", iterations: 3 } });
  });

  it("waits as a whole when an inner skill waits", async () => {
    const { tool, sent } = mail();
    const { found, use } = await useScene({
      skills: { outer: {}, inner: {} },
      turns: [
        () => [{ tool: "use_skill", input: { skill: "inner", message: "Send." } }],
        () => [send("Ada")] as never,
        () => "Sent.",
        ({ results }) => {
          expect(results[0]?.content).toContain("Sent.");
          return "Done.";
        },
      ],
    });
    const { result, events } = await use({ skill: "outer" }, { tools: [tool] });
    expect(result).toMatchObject({ stop: "waiting", skill: "outer", approvalRequest: { skill: "inner" } });
    expect(eventsOf(events, "run-ended")).toMatchObject([{ skill: "outer", stop: "waiting" }]);
    await found.runs.answer(result.run, { isApproved: true });
    const more = await resumeRun(found.catalog, { ...found, tools: [tool] }, result.run);
    expect(more).toMatchObject({ stop: "answer", content: "Done." });
    expect(sent).toHaveLength(1);
  });

  it("is refused when the skill has changed meanwhile", async () => {
    const { tool } = mail();
    const { found, use } = await useScene({ skills: { x: {} }, turns: [() => [send("Ada")] as never] });
    const { result } = await use({ skill: "x" }, { tools: [tool] });
    const file = join(found.root, "home/.skillet/skills/x/SKILL.md");
    const { writeFileSync } = await import("node:fs");
    writeFileSync(file, readFileSync(file, "utf8").replace("Do x.", "Do another thing."));
    await found.runs.answer(result.run, { isApproved: true });
    const again = await found.again();
    const more = await resumeRun(again.catalog, { ...again, tools: [tool] }, result.run);
    expect(more).toMatchObject({ stop: "refused", refusals: [{ code: "run-changed" }] });
    expect((await again.runs.find(result.run)).state).toBe("interrupted");
  });
});
