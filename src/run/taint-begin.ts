import { dynamicCommands } from "../catalog/content.ts";
import type { Message, ToolCall } from "../host/models.ts";
import type { Tool } from "../skill/tool.ts";
import type { Agent } from "./agent.ts";
import { noteResult, openTaint, type Taint } from "./taint.ts";

/**
 * The record that an agent begins with. The user vouches for what they said, and the skill for its instructions as they are written. What
 * was passed along with a message speaks for nothing; nor does anything that another run's model said.
 */
export function beginTaint(agent: Agent): Taint {
  const { taint = openTaint(), task, instructions, messages, parent } = agent;
  const { skill } = task;
  if (skill) taint.trust(skill.body);
  if (parent === undefined) for (const text of saidIn(messages)) taint.trust(text);
  if (skill && dynamicCommands(skill.body).length > 0) {
    taint.add({ label: `commands in the instructions of skill ${skill.name}` }, instructions);
  }
  noteEarlier(taint, agent);
  return taint;
}

function saidIn(messages: readonly Message[]): string[] {
  return messages.flatMap((message) => (message.role === "user" ? [message.text.replace(PASSED_ALONG, "")] : []));
}

// Nothing in it can end it before its end.
const PASSED_ALONG = /<skill_context>[\s\S]*?<\/skill_context>/g;
const ANSWER = /^<skill_output skill="([^"]*)">/;

/** What came of calls in turns before this one. */
function noteEarlier(taint: Taint, { messages, tools, owner }: Agent): void {
  const calls = new Map<string, ToolCall>();
  const known = new Map(tools().map((tool) => [tool.name, tool]));
  for (const message of messages) {
    if (message.role === "assistant") {
      for (const call of message.calls) calls.set(call.id, call);
      // A skill that the user used beside it.
      const [, name] = ANSWER.exec(message.text) ?? [];
      if (name !== undefined) taint.add({ label: `answer of skill ${name}` }, message.text.replace(ANSWER, ""));
    }
    if (message.role !== "tool") continue;
    for (const { id, tool: name, content, isError } of message.results) {
      const tool: Pick<Tool, "name" | "inputSchema"> = known.get(name) ?? { name, inputSchema: {} };
      noteResult(taint, { tool, input: calls.get(id)?.input, own: owner?.name }, { content, isError });
    }
  }
}
