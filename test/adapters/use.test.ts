import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { discoverIn } from "../support/discover.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { connectTo, ERAS, type Era, servingOf } from "../support/mcp-client.ts";
import { useScene } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

const HOME = "home/.skillet/skills";

/** A tool that writes into a ledger when it is called, and declares a change. */
function ledger(file: string): string {
  return `import { appendFileSync } from "node:fs";
import { z } from "zod";
import { Tool } from "@agent/tools";
export const Tools = [
  Tool.define("pay", {
    description: "Pays",
    parameters: z.object({ to: z.string() }),
    effect: ({ to }) => ({ on: "outside", what: "pay somebody", where: to }),
    execute: async ({ to }) => { appendFileSync(${JSON.stringify(file)}, to + "\\n"); return "paid " + to; },
  }),
];
`;
}

async function bank(): Promise<{ scene: Awaited<ReturnType<typeof discoverIn>>; paid(): string[] }> {
  const scene = await discoverIn({ [`${HOME}/bank/SKILL.md`]: skillText("bank") });
  const file = join(scene.root, "ledger");
  writeFiles(scene.root, {
    [`${HOME}/bank/SKILL.md`]: skillText("bank", { more: 'toolsets:\n  - "toolsets/index:Tools"\n' }),
    [`${HOME}/bank/toolsets/index.ts`]: ledger(file),
  });
  const paid = () => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : []);
  return { scene: await scene.again(), paid };
}

type Answer = { action: "accept" | "decline" | "cancel"; content?: Record<string, string> };

/** A client whose user gives these answers, one after the other. */
async function answering(serving: ReturnType<typeof servingOf>, era: Era, answers: readonly Answer[]) {
  const asked: string[] = [];
  const connected = await connectTo(serving, { era, capabilities: { elicitation: { form: {} } } });
  connected.client.setRequestHandler("elicitation/create", async ({ params }) => {
    asked.push(params.message);
    return answers[asked.length - 1] ?? { action: "cancel" };
  });
  return { ...connected, asked };
}

describe.each(ERAS)("approval for a client of %s", (era) => {
  it("is requested from the client's user, who sees the effect, the target and the origin", async () => {
    const { scene, paid } = await bank();
    const yes: Answer = { action: "accept", content: { decision: "yes, this once" } };
    const { call, asked } = await answering(servingOf(scene), era, [yes]);
    await call("load_skill", { skill: "bank" });
    expect((await call("bank__pay", { to: "Ada" })).text).toContain("paid Ada");
    expect(paid()).toEqual(["Ada"]);
    expect(asked).toHaveLength(1);
    for (const says of ["bank.pay", "pay somebody", "Ada", "the skill bank"]) expect(asked[0]).toContain(says);
  });

  it("[Q-28] shows the whole input, or is impossible there: a run then waits, a call is refused", async () => {
    const { scene, paid } = await bank();
    const yes: Answer = { action: "accept", content: { decision: "yes, this once" } };
    const { call, asked } = await answering(servingOf(scene), era, [yes]);
    await call("load_skill", { skill: "bank" });
    const fits = { a_note: "all is well. ".repeat(200), to: "Ada", zz_in_truth: "eve@evil.example" };
    await call("bank__pay", fits);
    expect(asked[0]).toContain(JSON.stringify(fits));
    const refused = await call("bank__pay", { ...fits, a_note: "all is well. ".repeat(1000) });
    expect(refused).toMatchObject({ isError: true });
    expect(refused.text).toContain("its input is too long to be shown in full here");
    expect([asked.length, paid().length]).toEqual([1, 1]);
  });

  it("is required, and the reason of a denial reaches the model", async () => {
    const { scene, paid } = await bank();
    const noes: Answer[] = [
      { action: "accept", content: { decision: "no", reason: "too much" } },
      { action: "decline" },
      { action: "cancel" },
      { action: "accept", content: { decision: "maybe" } },
      { action: "accept" },
    ];
    const { call } = await answering(servingOf(scene), era, noes);
    await call("load_skill", { skill: "bank" });
    const results = [];
    for (const [index] of noes.entries()) results.push(await call("bank__pay", { to: `n${index}` }));
    expect(results.map(({ isError }) => isError)).toEqual([true, true, true, true, true]);
    expect(results[0]?.text).toContain("too much");
    expect(paid()).toEqual([]);
  });

  it("is requested each time, unless the answer was always", async () => {
    const { scene, paid } = await bank();
    const always: Answer = { action: "accept", content: { decision: "always for this tool, whatever its input" } };
    const once: Answer = { action: "accept", content: { decision: "yes, this once" } };
    const { call, asked } = await answering(servingOf(scene), era, [once, always]);
    await call("load_skill", { skill: "bank" });
    for (const to of ["a", "b", "c"]) await call("call_skill_tool", { tool: "bank__pay", input: { to } });
    expect(asked).toHaveLength(2);
    expect(paid()).toEqual(["a", "b", "c"]);
  });

  it("is refused, with the reason, when the client cannot ask its user", async () => {
    const { scene, paid } = await bank();
    const { call } = await connectTo(servingOf(scene), { era });
    await call("load_skill", { skill: "bank" });
    const { text, isError, meta } = await call("bank__pay", { to: "Ada" });
    expect({ isError, code: meta["skillet/code"] }).toEqual({ isError: true, code: "approval-needed" });
    expect(text).toContain("no user can be asked here");
    expect(paid()).toEqual([]);
  });
});

describe.each(ERAS)("use_skill for a client of %s", (era) => {
  it("delegates the task, reports progress, and names the model", async () => {
    const { found } = await useScene({
      skills: { helper: {} },
      turns: [
        () => [{ tool: "read_file", input: { path: "README.md" } }],
        ({ results }) => `It says: ${results[0]?.content.includes("A project.")}`,
      ],
    });
    const { client } = await connectTo(servingOf(found), { era });
    const progress: { progress: number; message?: string | undefined }[] = [];
    const result = await client.callTool(
      { name: "use_skill", arguments: { skill: "helper", message: "Read it." } },
      { onprogress: (told) => void progress.push(told) },
    );
    const [part] = result.content;
    const text = part?.type === "text" ? part.text : "";
    expect(text).toContain("It says: true");
    expect(text).toContain("[Followed by the model");
    expect(text).toContain(", asked 2 times]");
    expect(result._meta?.["skillet/use"]).toMatchObject({ iterations: 2, stop: "answer" });
    expect(progress.map(({ progress: number }) => number)).toEqual(progress.map((_, index) => index + 1));
    const messages = progress.map(({ message }) => message);
    expect(messages[0]).toMatch(/^helper: started with /);
    expect(messages).toContain("helper: calls read_file (step 1)");
  });

  it("reports that no language model was used", async () => {
    const { found } = await useScene({
      skills: {
        steps: { more: "model: runbook\n", body: "Run this:\n\n```sh\necho It is done\n```\n" },
        vague: { more: "model: runbook\n", body: "Think hard." },
      },
      turns: () => "never asked",
    });
    const { call } = await connectTo(servingOf(found), { era });
    const { text } = await call("use_skill", { skill: "steps", message: "Do it." });
    expect(text).toContain("It is done");
    expect(text).toContain("[Followed by runbook, which is not a language model");
    const vague = await call("use_skill", { skill: "vague", message: "Do it." });
    expect(vague).toMatchObject({
      isError: true,
      text: expect.stringContaining("load it with load_skill, and follow it yourself"),
    });
  });

  it("ends its processes when the client cancels", async () => {
    let isAsked = false;
    const { found } = await useScene({
      skills: { slow: {} },
      turns: () => {
        isAsked = true;
        return [{ tool: "bash", input: { command: "sleep 61.25" } }];
      },
    });
    const events: string[] = [];
    const onEvent = (event: { type: string }) => void events.push(event.type);
    const { client } = await connectTo(servingOf(found, {}, { onEvent }), { era });
    const controller = new AbortController();
    const call = client.callTool(
      { name: "use_skill", arguments: { skill: "slow", message: "Wait." } },
      { signal: controller.signal },
    );
    const ended = expect(call).rejects.toThrow();
    await waitFor(() => expect(isAsked && isRunning("sleep 61.25")).toBe(true));
    controller.abort();
    await ended;
    await waitFor(() => expect(isRunning("sleep 61.25")).toBe(false));
    await waitFor(() => expect(events).toContain("run-ended"));
  });

  it("asks the client's user during a run, and continues with the answer", async () => {
    const { found } = await useScene({
      skills: { writer: {} },
      turns: [
        () => [{ tool: "write_file", input: { path: "made.txt", content: "made" } }],
        ({ results }) => `Result: ${results[0]?.content}`,
      ],
    });
    const yes: Answer = { action: "accept", content: { decision: "yes, for this run" } };
    const { call, asked } = await answering(servingOf(found), era, [yes]);
    const { isError } = await call("use_skill", { skill: "writer", message: "Make it." });
    expect(isError).toBe(false);
    expect(asked).toHaveLength(1);
    expect(asked[0]).toContain("write_file would change files of the workspace");
    expect(readFileSync(join(found.root, "project/made.txt"), "utf8")).toBe("made");
  });

  it.each([
    ["no user can be asked", {}, "made"],
    ["[Q-28] a form cannot show all of the input", { elicitation: { form: {} } }, "made ".repeat(2000)],
  ])("waits in its journal if %s, and explains how to continue", async (_, capabilities, content) => {
    const { found } = await useScene({
      skills: { writer: {} },
      turns: [() => [{ tool: "write_file", input: { path: "made.txt", content } }]],
    });
    const { call, client } = await connectTo(servingOf(found), { era, capabilities });
    if ("elicitation" in capabilities) client.setRequestHandler("elicitation/create", () => ({ action: "accept" }));
    const { text, isError, meta } = await call("use_skill", { skill: "writer", message: "Make it." });
    expect({ isError, code: meta["skillet/code"] }).toEqual({ isError: true, code: "waiting" });
    const [run] = await found.runs.list();
    expect(run?.state).toBe("waiting");
    expect(text).toContain(`skillet approve ${run?.id}`);
    expect(existsSync(join(found.root, "project/made.txt"))).toBe(false);
  });
});

describe("the output of a use", () => {
  it("[Q-22] contains no secret in any form", async () => {
    const secret = "hunter2-hunter2-hunter2";
    const { found } = await useScene({
      skills: {
        keeper: {
          more: "env: [TOKEN]\n",
          files: {
            "notes.md": `The key is ${secret}.`,
            ".env": "OTHER=not-configured-anywhere",
            "scripts/show.sh": '#!/bin/sh\necho "$TOKEN" | base64\necho "$TOKEN"\n',
          },
        },
      },
      config: `[skills.keeper]\nTOKEN = "${secret}"\n`,
      turns: [
        () => [{ tool: "bash", input: { command: "echo $TOKEN; printf %s $TOKEN | base64" } }],
        ({ results }) => `I saw ${results[0]?.content}`,
      ],
    });
    const heard: string[] = [];
    const { client, call } = await connectTo(servingOf(found));
    await call("load_skill", { skill: "keeper" });
    const results = [
      await call("load_skill", { skill: "keeper" }),
      await call("read_skill_resource", { skill: "keeper", resource: "notes.md" }),
      await call("read_skill_resource", { skill: "keeper", resource: ".env" }),
      await call("read_skill_resource", { skill: "keeper", resource: "./.env" }),
      await call("keeper__show"),
      await call("run_skill_script", { skill: "keeper", script: "show" }),
      await client.callTool(
        { name: "use_skill", arguments: { skill: "keeper", message: secret } },
        { onprogress: (told) => void heard.push(JSON.stringify(told)) },
      ),
    ];
    const all = JSON.stringify([results, heard]);
    expect(all).toContain("[TOKEN]");
    expect(all).toContain("resource-private");
    for (const said of ["not-configured-anywhere", "- .env"]) expect(all).not.toContain(said);
    for (const form of [secret, Buffer.from(secret).toString("base64"), Buffer.from(secret).toString("hex")])
      expect(all).not.toContain(form);
  });

  it("[S-25] gives a skill no access to the host: it can call only its own tools", async () => {
    const { scene } = await bank();
    const { call, tools } = await connectTo(servingOf(scene));
    const before = await tools();
    await call("load_skill", { skill: "bank" });
    expect((await tools()).filter((name) => !before.includes(name))).toEqual(["bank__pay", "bank__run"]);
    for (const tool of ["approve", "host", "session.load", "__proto__", "bank.__proto__", "bank__constructor", "bash"])
      expect((await call("call_skill_tool", { tool, input: {} })).meta).toMatchObject({
        "skillet/code": "tool-unknown",
      });
  });
});

function isRunning(command: string): boolean {
  return readdirSync("/proc").some((id) => {
    if (!/^\d+$/.test(id)) return false;
    try {
      return readFileSync(`/proc/${id}/cmdline`, "utf8").replaceAll("\0", " ").trim() === command;
    } catch {
      return false;
    }
  });
}

/** A sub-agent that pays two people, one after the other, each with its own approval. */
async function twoPayments(): Promise<Awaited<ReturnType<typeof bank>>> {
  const { found } = await useScene({
    skills: { bank: { more: 'toolsets:\n  - "toolsets/index:Tools"\n' } },
    turns: ({ results }) => {
      const to = results.length === 0 ? "Ada" : "Mallory";
      return results.length < 2 ? [{ tool: "bank__pay", input: { to } }] : "Both are paid.";
    },
  });
  const file = join(found.root, "ledger");
  writeFiles(found.root, { [`${HOME}/bank/toolsets/index.ts`]: ledger(file) });
  const paid = () => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : []);
  return { scene: await found.again(), paid };
}

describe("a client that declares forms, and fails to show one", () => {
  it("has no hanging call: it reads the reason, and continues", async () => {
    const { scene, paid } = await bank();
    const { client, call } = await connectTo(servingOf(scene), { capabilities: { elicitation: { form: {} } } });
    client.setRequestHandler("elicitation/create", async () => {
      throw new Error("no window");
    });
    await call("load_skill", { skill: "bank" });
    const { text, meta } = await call("bank__pay", { to: "Ada" });
    expect(text).toContain("the client could not ask the user: no window");
    expect(meta["skillet/code"]).toBe("not-approved");
    expect(paid()).toEqual([]);
  });
});

describe("a call that asks twice", () => {
  it("accepts an approval only for the question that it answers, however often it is sent", async () => {
    const { scene, paid } = await twoPayments();
    const { client, close } = await connectTo(servingOf(scene), {
      era: "2026-07-28",
      capabilities: { elicitation: { form: {} } },
      inputRequired: { autoFulfill: false },
    });
    const params = { name: "use_skill", arguments: { skill: "bank", message: "Pay." } };
    const send = async (more: object) =>
      (await client.callTool({ ...params, ...more }, { allowInputRequired: true } as never)) as Record<string, unknown>;
    const { requestState } = await send({});
    const yes = {
      requestState,
      inputResponses: { word: { action: "accept", content: { decision: "yes, this once" } } },
    };
    expect(JSON.stringify(await send(yes))).toContain("Mallory");
    expect(await send(yes)).toMatchObject({ isError: true, _meta: { "skillet/code": "call-gone" } });
    expect(paid()).toEqual(["Ada"]);
    await close();
    // The waiting run is recorded when it has ended: not in a folder that is gone.
    await waitFor(async () => expect(await scene.statistics.recent(1)).toEqual(["bank"]));
  });

  it.each(ERAS)("reports progress to a client of %s after an answer too", async (era) => {
    const { scene, paid } = await twoPayments();
    const yes: Answer = { action: "accept", content: { decision: "yes, this once" } };
    const { client } = await answering(servingOf(scene), era, [yes, yes]);
    const astray: string[] = [];
    client.onerror = ({ message }) => void astray.push(message);
    const messages: (string | undefined)[] = [];
    await client.callTool(
      { name: "use_skill", arguments: { skill: "bank", message: "Pay." } },
      { onprogress: ({ message }) => void messages.push(message) },
    );
    expect(paid()).toEqual(["Ada", "Mallory"]);
    expect(messages).toContain("bank: calls bank.pay (step 2)");
    expect(astray).toEqual([]);
  });
});
