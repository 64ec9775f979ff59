// Tools and a prompt of the conformance suite that request input from the client before they answer. One way for both eras: the SDK
// turns the request for input into requests where the client speaks the older one.
import { randomBytes } from "node:crypto";
import {
  acceptedContent,
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  createRequestStateCodec,
  type InputRequest,
  type InputRequiredSpec,
  inputRequired,
  inputResponse,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";

export function addInputFixtures(server: McpServer): void {
  addAskedOnce(server);
  addRounds(server);
  addForms(server);
  server.registerPrompt(
    "test_input_required_result_prompt",
    { description: "A prompt that asks" },
    ({ mcpReq }: ServerContext) => {
      const { context } = acceptedContent(mcpReq.inputResponses, "user_context") ?? {};
      if (context === undefined) {
        return inputRequired({
          inputRequests: { user_context: form("What context should the prompt use?", "context") },
        });
      }
      return { messages: [{ role: "user", content: { type: "text", text: `Use this context: ${context}` } }] };
    },
  );
}

// The state goes to the client and comes back: it is sealed, and a state with a wrong seal is refused before a tool sees it.
const STATE = createRequestStateCodec<number>({ key: randomBytes(32) });

const said = (text: string): CallToolResult => ({ content: [{ type: "text", text }] });

function form(message: string, field: string, kind: z.ZodType = z.string()): InputRequest {
  return inputRequired.elicit({ message, requestedSchema: z.object({ [field]: kind }) });
}

function sample(text: string, maxTokens = 100): InputRequest {
  return inputRequired.createMessage({ messages: [{ role: "user", content: { type: "text", text } }], maxTokens });
}

/** One request for input, whose answers are returned. */
const ASKED_ONCE: Record<string, (context: ServerContext) => InputRequiredSpec["inputRequests"]> = {
  test_input_required_result_elicitation: () => ({ user_name: form("What is your name?", "name") }),
  test_input_required_result_sampling: () => ({ capital_question: sample("What is the capital of France?") }),
  test_input_required_result_list_roots: () => ({ client_roots: inputRequired.listRoots() }),
  test_missing_capability: () => ({ answer: sample("Can you?") }),
  test_streaming_elicitation: () => ({ user_name: form("What is your name?", "name") }),
  test_input_required_result_capabilities({ mcpReq }) {
    const envelope: Record<string, unknown> = { ...mcpReq.envelope };
    const can = (envelope[CLIENT_CAPABILITIES_META_KEY] ?? {}) as ClientCapabilities;
    return {
      ...(can.elicitation ? { user_name: form("What is your name?", "name") } : {}),
      ...(can.sampling ? { greeting: sample("Generate a greeting", 50) } : {}),
    };
  },
};

function addAskedOnce(server: McpServer): void {
  for (const [name, asks] of Object.entries(ASKED_ONCE)) {
    server.registerTool(name, { description: `Does ${name}` }, (context: ServerContext) => {
      const inputRequests = asks(context) ?? {};
      const answers = answered(context, Object.keys(inputRequests));
      return answers ? said(`Hello, ${JSON.stringify(answers)}!`) : inputRequired({ inputRequests });
    });
  }
}

/** Contract: undefined when an answer is missing, or the user declined. */
function answered({ mcpReq }: ServerContext, keys: readonly string[]): unknown[] | undefined {
  const answers = keys.map((key) => {
    const answer = inputResponse(mcpReq.inputResponses, key);
    return answer.kind === "missing" || (answer.kind === "elicit" && answer.action !== "accept") ? undefined : answer;
  });
  return answers.includes(undefined) ? undefined : answers;
}

/** Requests for input in rounds, with a state that contains the progress. */
const ROUNDS: Record<string, readonly NonNullable<InputRequiredSpec["inputRequests"]>[]> = {
  test_input_required_result_request_state: [{ confirm: form("Please confirm", "ok", z.boolean()) }],
  test_input_required_result_tampered_state: [{ confirm: form("Please confirm", "ok", z.boolean()) }],
  test_input_required_result_multiple_inputs: [
    {
      user_name: form("What is your name?", "name"),
      greeting: sample("Generate a greeting", 50),
      client_roots: inputRequired.listRoots(),
    },
  ],
  test_input_required_result_multi_round: [
    { step1: form("Step 1: What is your name?", "name") },
    { step2: form("Step 2: What is your favorite color?", "color") },
  ],
};

function addRounds(server: McpServer): void {
  // A server gets this when it is created; skillet's own requests no input that way, so it has none.
  Object.assign(server.server, { _requestStateVerify: STATE.verify });
  for (const [name, rounds] of Object.entries(ROUNDS)) {
    server.registerTool(name, { description: `Does ${name}` }, async (context: ServerContext) => {
      const asked = context.mcpReq.requestState<number>() ?? -1;
      const isAnswered = asked >= 0 && answered(context, Object.keys(rounds[asked] ?? {})) !== undefined;
      const round = isAnswered ? asked + 1 : Math.max(asked, 0);
      const inputRequests = rounds[round];
      return inputRequests ? inputRequired({ inputRequests, requestState: await STATE.mint(round) }) : said("state-ok");
    });
  }
}

const OPTIONS = ["option1", "option2", "option3"];
const titled = (prefix: string, word: string) =>
  ["First", "Second", "Third"].map((count, index) => ({ const: `${prefix}${index + 1}`, title: `${count} ${word}` }));

/** Forms of every kind of field, for tools of the 2025 suite. */
const FORMS: Record<string, Record<string, unknown>> = {
  test_elicitation_sep1034_defaults: {
    name: { type: "string", default: "John Doe" },
    age: { type: "integer", default: 30 },
    score: { type: "number", default: 95.5 },
    status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
    verified: { type: "boolean", default: true },
  },
  test_elicitation_sep1330_enums: {
    untitledSingle: { type: "string", enum: OPTIONS },
    titledSingle: { type: "string", oneOf: titled("value", "Option") },
    legacyEnum: {
      type: "string",
      enum: ["opt1", "opt2", "opt3"],
      enumNames: ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti: { type: "array", items: { type: "string", enum: OPTIONS } },
    titledMulti: { type: "array", items: { anyOf: titled("value", "Choice") } },
  },
};

function addForms(server: McpServer): void {
  for (const [name, properties] of Object.entries(FORMS)) {
    server.registerTool(name, { description: `Does ${name}` }, (context: ServerContext) =>
      formAnswer(context, "Please fill this in", properties, "Elicitation completed"),
    );
  }
  server.registerTool(
    "test_elicitation",
    { description: "Asks the user", inputSchema: z.object({ message: z.string() }) },
    ({ message }, context) =>
      formAnswer(context, message, { username: { type: "string" }, email: { type: "string" } }, "User response"),
  );
  server.registerTool(
    "test_sampling",
    { description: "Asks the model", inputSchema: z.object({ prompt: z.string() }) },
    ({ prompt }, { mcpReq }) => {
      const answer = inputResponse(mcpReq.inputResponses, "answer");
      if (answer.kind !== "sampling") return inputRequired({ inputRequests: { answer: sample(prompt) } });
      return said(`LLM response: ${JSON.stringify(answer)}`);
    },
  );
}

function formAnswer(
  { mcpReq }: ServerContext,
  message: string,
  properties: Record<string, unknown>,
  title: string,
): ReturnType<typeof inputRequired> | CallToolResult {
  const answer = inputResponse(mcpReq.inputResponses, "form");
  if (answer.kind === "elicit") {
    const { action } = answer;
    return said(
      `${title}: action=${action}, content=${JSON.stringify(action === "accept" ? (answer.content ?? {}) : {})}`,
    );
  }
  const requestedSchema = { type: "object", properties, required: [] } as never;
  return inputRequired({ inputRequests: { form: inputRequired.elicit({ message, requestedSchema }) } });
}
